"""The view: what is stuck, why, and what happens if it is replayed, with the commands to type. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from pydantic import BaseModel, ConfigDict

from sexton.dead_letters import DeadLetter, dead_letters
from sexton.item import rfc3339
from sexton.ledger import Ledger
from sexton.page import Markup, code, document, fragment, join, paragraph, section, table, text
from sexton.replay_preview import ReplayPreview
from sexton.status import Status, Unfinished, status

MOST_LETTERS = 20  # of each it is looked up what a replay would do now, and a person waits for the page
QUIET = "Nothing is stuck: nothing is unfinished, nothing is dead, nobody is waited for."
ENDING = "--reason WHY"


class View(BaseModel):
    """What is shown. `letters`: the first of the dead letters, each with what a replay would do now."""

    model_config = ConfigDict(frozen=True)

    status: Status
    letters: tuple[DeadLetter, ...]


def view(ledger: Ledger, preview: ReplayPreview, now: datetime) -> View:
    """Look at the ledger, and at the items of dead letters; reading calls only. Raises CallFailed."""
    letters = islice(dead_letters(ledger, now, preview), MOST_LETTERS)
    return View(status=status(ledger, now), letters=tuple(letters))


def page(stack: str, seen: View) -> bytes:
    """The view as a page of its own, in UTF-8. It loads nothing and runs nothing."""
    return document(f"Sexton: {stack}", join([_title(stack), _body(seen)]))


def widget(seen: View, *, dark: bool) -> str:
    """The view as a piece of another page, which knows whether it is dark."""
    return fragment(_body(seen), dark=dark)


def _title(stack: str) -> Markup:
    return Markup(f"<h1>{text('Sexton')} {code(stack)}</h1>")


def _body(seen: View) -> Markup:
    found = seen.status
    parts = (
        _verdict(found),
        _dead(seen),
        _unfinished(found.unfinished),
        _waiting(found),
        _missed(found),
        _stopped(found),
        _messages(found),
    )
    return join(part for part in parts if part)


def _verdict(found: Status) -> Markup:
    at = paragraph(text(f"As of {_when(found.at)}, by eventually consistent reads."), "quiet")
    if found.quiet:
        return join([paragraph(text(QUIET)), at])
    return join([paragraph(text(f"{'; '.join(_counts(found))}."), "warn"), at])


def _counts(found: Status) -> Iterator[str]:
    people = len(found.awaiting_approval) + len(found.for_a_person)
    counts = (
        (found.dead.jobs, "dead job", "dead jobs"),
        (len(found.unfinished), "run is not finished", "runs are not finished"),
        (people, "run waits for a person", "runs wait for a person"),
        (sum(each.count for each in found.missed), "scheduled time was missed", "scheduled times were missed"),
        (len(found.paused), "pause stands", "pauses stand"),
        (len(found.malformed), "message led to nothing", "messages led to nothing"),
    )
    return (_many(*each) for each in counts if each[0])


def _dead(seen: View) -> Markup:
    if not seen.letters:
        return Markup("")
    dead = seen.status.dead
    shown = f"{len(seen.letters):,} of {dead.jobs:,} dead jobs, {dead.items:,} items in all"
    columns = ("Job", "Items", "Dead since", "Why", "If you replay it now", "Type")
    rows = [
        (code(each.job_id), text(f"{each.items:,}"), _at(each.dead_at), _why(each), _replay(each), _to_type(each))
        for each in seen.letters
    ]
    return section("Dead letters", table(shown, columns, rows, numbers=(1,)))


def _why(letter: DeadLetter) -> Markup:
    said = ": ".join(filter(None, (letter.reason_class, letter.reason, letter.summary)))
    return join([text(said or "no reason was recorded"), paragraph(text(letter.next_action or ""), "quiet")])


def _replay(letter: DeadLetter) -> Markup:
    return text(letter.replay_now.sentence if letter.replay_now else "it was not looked at")


def _to_type(letter: DeadLetter) -> Markup:
    allowed = letter.replay_now is not None and letter.replay_now.allowed
    first = f"sexton dlq {'replay' if allowed else 'resolve'} {letter.job_id} {ENDING}"
    return join([code(f"sexton dlq show {letter.job_id}"), code(first)], "<br>")


def _unfinished(runs: Sequence[Unfinished]) -> Markup:
    rows = [
        (code(each.run_id), text(each.state), _at(each.since), text(each.because), text(each.next_action))
        for each in runs
    ]
    columns = ("Run", "State", "Since", "Why", "What to do")
    return section("Runs that are not finished", table("The oldest first", columns, rows)) if rows else Markup("")


def _waiting(found: Status) -> Markup:
    approvals = [
        (code(w.run_id), text(f"{w.planned:,} planned; {'; '.join(w.held_because)}"), text(w.next_action))
        for w in found.awaiting_approval
    ]
    people = [
        (code(p.run_id), text(f"{p.state}, with {_many(p.dead_jobs, 'dead job', 'dead jobs')}"), text(p.next_action))
        for p in found.for_a_person
    ]
    rows, columns = [*approvals, *people], ("Run", "Why", "What to do")
    return section("Waiting for a person", table("Runs", columns, rows)) if rows else Markup("")


def _missed(found: Status) -> Markup:
    rows = [
        (code(m.policy), text(f"{m.count:,}"), _at(m.times[-1].at), code(m.times[-1].why), text(m.next_action))
        for m in found.missed
    ]
    columns = ("Policy", "Times", "The latest", "Why", "What to do")
    return section("Missed schedules", table("By policy", columns, rows, numbers=(1,))) if rows else Markup("")


def _stopped(found: Status) -> Markup:
    kinds = (("pause", "sexton resume", found.paused), ("hold", "sexton hold release", found.holds))
    rows = [
        (code(each.scope), text(kind), _at(each.since), code(each.actor), code(each.reason), code(f"{command} …"))
        for kind, command, stopped in kinds
        for each in stopped
    ]
    columns = ("What", "By a", "Since", "Of", "Because", "What ends it")
    return section("Stopped by a person", table("Pauses and holds", columns, rows)) if rows else Markup("")


def _messages(found: Status) -> Markup:
    rows = [(code(m.message_id), _at(m.at), text(m.kind), text(m.why), code(m.excerpt)) for m in found.malformed]
    columns = ("Message", "At", "Kind", "Why", "It began with")
    return section("Messages that led to nothing", table("Of two days", columns, rows)) if rows else Markup("")


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _at(at: datetime | None) -> Markup:
    return text(_when(at) if at else "")


def _when(at: datetime) -> str:
    return rfc3339(at.replace(microsecond=0))

"""What people see of each answer. Every text goes through `cell`, which takes nothing in it for markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from sexton import cli_cohorts, naming
from sexton.cli_output import facts, many, table
from sexton.dead_letters import DeadLetter
from sexton.decision import REPORT_ONLY
from sexton.explaining import Explanation
from sexton.explaining import Verdict as PolicyVerdict
from sexton.fate import Fate, SeenItem
from sexton.item import RECORD, rfc3339
from sexton.missed import Missed, Why
from sexton.outcome import Ending
from sexton.report import readable_bytes
from sexton.run import RunState
from sexton.showing import RunLine, RunView
from sexton.status import Status, Unfinished
from sexton.verifying import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType


MISSED_BECAUSE = {
    Why.PAUSED: "it was paused",
    Why.RUN_OPEN: "another run of the policy was open",
    Why.DAYLIGHT_SAVING: "the clock was set forward over it",
    Why.NOT_FIRED: "the schedule did not fire",
    Why.NOT_CARRIED_OUT: "its run was invalidated",
    Why.REPORTED: "a person's report had its time",
}


def run_list(runs: Sequence[RunLine]) -> Iterator[RenderableType]:
    """Runs, one a line."""
    headers = ("run", "mode", "state", "planned", "size", "balanced", "why")
    yield table(headers, (_run_row(run) for run in runs), right=("planned", "size"))


def _run_row(run: RunLine) -> tuple[object, ...]:
    waits, because = _held(run)
    why = run.reason or (f"{waits}: {because}" if because and run.state == RunState.REPORTED else because)
    return run.run_id, run.mode, run.state, run.planned, readable_bytes(run.planned_bytes), run.balanced, why


def _held(run: RunLine) -> tuple[str, str]:
    """Why it waits for a person; of a report, why it would. The row keeps it; who approved it knows it by then."""
    because = "; ".join(run.held_because)
    if run.state == RunState.REPORTED:
        return "would wait", because
    return "held because", because if run.state == RunState.AWAITING_APPROVAL else ""


def run(view: RunView) -> Iterator[RenderableType]:
    """One run: what it is, what it found, what came of it."""
    yield facts(
        (
            ("run", view.run_id),
            ("undoes", view.undoes),
            ("undone by", ", ".join(view.undone_by)),
            ("state", _state(view)),
            ("reason", view.reason),
            ("message", view.message),
            _held(view),
            ("mode", view.mode),
            ("policy version", view.policy_version),
            ("scheduled", when(view.scheduled_time)),
            ("cutoff", when(view.cutoff)),
            ("started by", view.started_by),
            ("approved by", view.approved_by and f"{view.approved_by}, {when(view.approved_at)}"),
            ("covers", _covers(view)),
            ("closed", when(view.closed_at)),
            ("plan digest", view.digest),
            ("report", view.report),
        )
    )
    yield ""
    yield table(("", "items", "of which"), _count_rows(view), right=("items",))
    if view.cohorts:
        yield ""
        yield cli_cohorts.lines(view.cohorts)
    if view.changes:
        yield ""
        changes = ((when(each.at), each.change, each.actor, each.reason, each.detail) for each in view.changes)
        yield table(("when", "what was done", "by", "why", "detail"), changes)


def _covers(view: RunLine) -> str | None:
    """The missed times that the run takes care of beside its own."""
    if not view.covers_total:
        return None
    first = f"{when(view.covers[0])} to " if len(view.covers) > 1 else ""
    shown = f"the latest {len(view.covers)}: " if len(view.covers) < view.covers_total else ""
    return f"{many(view.covers_total, 'missed time')} before it ({shown}{first}{when(view.covers[-1])})"


def _state(view: RunLine) -> str:
    if view.balanced is None:
        return view.state
    return f"{view.state}, books {'balance' if view.balanced else 'DO NOT BALANCE'}"


def _count_rows(view: RunView) -> Iterator[tuple[object, ...]]:
    unproven = f"{view.deleted_unproven:,} gone after an attempt without a record" if view.deleted_unproven else ""
    yield "scanned", view.scanned, reasons(view.scanned_by)
    in_jobs = f"{readable_bytes(view.planned_bytes)} in {many(view.jobs, 'job')}: {reasons(view.jobs_by_state)}"
    yield "planned", view.planned, in_jobs if view.jobs else ""
    yield naming.ending(Ending.DELETED, view.undoes, view.action), view.deleted, unproven
    yield "skipped", sum(view.skipped.values()), reasons(view.skipped)
    yield "dead", sum(view.dead.values()), reasons(view.dead)
    yield "cancelled", view.cancelled, ""
    yield "open", view.open, ""


def explanation(found: Explanation) -> Iterator[RenderableType]:
    """The object now, each run that had it, and what each deployed policy would decide."""
    now = found.now
    there = _there(found, now) if now else "nothing"
    yield facts(
        (
            ("table", found.table) if found.table else ("bucket", found.bucket),
            ("key", found.key),
            ("there now", f"cannot be looked at: {found.look_failed}" if found.look_failed else there),
        )
    )
    yield ""
    if not found.runs:
        yield "No run had it."
    for fate in found.runs:
        yield facts(_fate_facts(fate))
        yield ""
    if found.policies:
        headers, rows = ["policy", "mode", "would now", "because", "cutoff"], [_verdict_row(p) for p in found.policies]
        for name in ("cohort", "version_id"):  # of most policies no item has any
            if any(getattr(p, name) for p in found.policies):
                headers.append(name.removesuffix("_id"))
                rows = [(*row, getattr(p, name)) for row, p in zip(rows, found.policies, strict=True)]
        yield table(tuple(headers), rows)
    else:
        yield f"No deployed policy is about this {'table' if found.table else 'bucket'}."


def _there(found: Explanation, now: SeenItem) -> str:
    if found.table:
        return f"a record, due {when(now.last_modified)}" if now.last_modified else "a record with no readable deadline"
    return f"{readable_bytes(now.size)}, {now.storage_class}, last modified {when(now.last_modified)}"


def _verdict_row(said: PolicyVerdict) -> tuple[object, ...]:
    return said.policy, said.mode, _would(said), said.reason, when(said.cutoff)


def _would(said: PolicyVerdict) -> str:
    reported = (said.mode, said.action) == ("report", "remove") or said.reason == REPORT_ONLY.reason
    return "only report it" if reported else said.action


def _fate_facts(fate: Fate) -> Iterator[tuple[str, object]]:
    planned = fate.planned
    yield "run", f"{fate.run_id} ({fate.mode}, {fate.run_state})"
    yield "undoes", fate.undoes
    outcome = fate.effect or naming.ending(fate.outcome, fate.undoes, "")
    yield "outcome", f"{outcome}: {fate.reason}" if fate.reason else outcome
    yield "when", when(fate.at)
    yield "planned as", _as_planned(planned)
    yield "version", None if planned.storage_class == RECORD else planned.version_id
    yield "noncurrent since", when(planned.noncurrent_since)
    yield "cutoff", when(fate.cutoff)
    if fate.observed:
        yield "observed", ", ".join(f"{name} {value}" for name, value in fate.observed.items() if name != "key")
    if fate.unproven:
        yield "proof", "none: it was gone after an attempt that left no record"
    yield "delete marker", fate.marker_version_id
    yield "archived in", fate.archive
    attempts = "its row has left the ledger" if fate.attempts is None else many(fate.attempts, "attempt")
    yield "job", f"{fate.job_id}, {attempts}"
    for failed in fate.history:
        yield f"attempt {failed.attempt}", f"{when(failed.at)} {failed.event}: {failed.code} {failed.summary}"
    yield "summary", fate.summary
    yield "next action", fate.next_action


def _as_planned(planned: SeenItem) -> str:
    if planned.storage_class == RECORD:
        return f"a record, due {when(planned.last_modified) or planned.version_id or 'at no readable time'}"
    what = "delete marker" if planned.is_marker else f"{readable_bytes(planned.size)}, ETag {planned.etag}"
    return f"{what}, last modified {when(planned.last_modified)}"


def status(found: Status) -> Iterator[RenderableType]:
    """What an operator asks first, the oldest unfinished work before all."""
    if found.quiet:
        yield "All is quiet: nothing is unfinished, nothing is dead, nobody is waited for."
    if found.oldest:
        yield facts((("oldest unfinished", found.oldest.run_id), *_unfinished_facts(found.oldest)))
        yield ""
    if len(found.unfinished) > 1:
        rows = ((u.run_id, u.state, ago(u.age_seconds), u.because, u.next_action) for u in found.unfinished[1:])
        yield table(("also unfinished", "state", "for", "why", "next action"), rows)
        yield ""
    if found.awaiting_approval:
        waiting = (
            (w.run_id, w.planned, "; ".join(w.held_because), when(w.expires_at), w.next_action)
            for w in found.awaiting_approval
        )
        headers = ("awaiting approval", "planned", "because", "expires", "next action")
        yield table(headers, waiting, right=("planned",))
        yield ""
    if found.reported:
        reports = ((w.run_id, w.planned, when(w.expires_at), w.next_action) for w in found.reported)
        yield table(("reported", "planned", "expires", "next action"), reports, right=("planned",))
        yield ""
    yield from _troubles(found)


def _unfinished_facts(unfinished: Unfinished) -> Iterator[tuple[str, object]]:
    yield "state", f"{unfinished.state}, for {ago(unfinished.age_seconds)}"
    yield "why", unfinished.because
    job = unfinished.oldest_job
    yield (
        "oldest job",
        f"{job.job_id} ({job.state}, {many(job.items, 'item')}, {many(job.attempts, 'attempt')})" if job else None,
    )
    yield "next action", unfinished.next_action


def _troubles(found: Status) -> Iterator[RenderableType]:
    dead = found.dead
    if dead.jobs:
        rows = (("dead", f"{many(dead.items, 'item')} in {many(dead.jobs, 'job')}: {reasons(dead.by_reason)}"),)
        yield facts((*rows, ("next action", dead.next_action)))
        yield ""
    if found.for_a_person:
        people = ((p.run_id, p.state, p.balanced, p.dead_jobs, p.next_action) for p in found.for_a_person)
        yield table(("needs a person", "state", "balanced", "dead jobs", "next action"), people, right=("dead jobs",))
        yield ""
    for missed in found.missed:
        yield facts(_missed_facts(missed))
        yield ""
    for what, stopped in (("paused", found.paused), ("held", found.holds)):
        if stopped:
            told = ((each.scope, when(each.since), each.actor, each.reason) for each in stopped)
            yield table((what, "since", "by", "because"), told)
            yield ""
    if found.skipped_triggers:
        skipped = ((s.run_id, when(s.at), s.why, s.open_run) for s in found.skipped_triggers)
        yield table(("skipped trigger", "at", "why", "the run that was open"), skipped)
        yield ""
    if found.malformed:
        messages = ((m.message_id, when(m.at), m.kind, m.why, m.excerpt) for m in found.malformed)
        yield table(("malformed message", "at", "kind", "why", "excerpt"), messages)


def _missed_facts(missed: Missed) -> Iterator[tuple[str, object]]:
    """Neighbours that passed without a run for one reason stand on one line."""
    shown = f", the latest {len(missed.times)}" if len(missed.times) < missed.count else ""
    yield "missed", f"{many(missed.count, 'time')} of {missed.policy} ({missed.schedule}, {missed.timezone}){shown}"
    for why, group in groupby(missed.times, key=lambda each: each.why):
        times = [when(each.at) for each in group]
        span = f"{times[0]} to {times[-1]} ({len(times)})" if len(times) > 1 else times[0]
        yield "", f"{span}: {MISSED_BECAUSE[Why(why)]}"
    yield "next action", missed.next_action


def dead_letters(letters: Sequence[DeadLetter]) -> Iterator[RenderableType]:
    """Dead jobs, and below them what to do about each kind."""
    headers = ("job", "items", "keys", "class", "reason", "attempts", "first", "last", "age", "summary")
    rows = (
        (
            each.job_id,
            each.items,
            each.first_key if each.first_key == each.last_key else f"{each.first_key} to {each.last_key}",
            each.reason_class,
            each.reason,
            each.attempts,
            when(each.first_claim_at),
            when(each.dead_at),
            ago(each.age_seconds),
            each.summary,
        )
        for each in letters
    )
    yield table(headers, rows, right=("items", "attempts"))
    yield ""
    actions = {each.reason or "unknown": each.next_action for each in letters}
    yield facts((reason, f"next action: {action}") for reason, action in sorted(actions.items()))


def verdict(found: Verdict) -> Iterator[RenderableType]:
    """Whether it holds, what was recomputed, and what differs."""
    books = "none: the run is not closed, only its plan was verified"
    if found.books:
        jobs, files = many(found.jobs, "job"), many(found.outcome_files, "outcome file")
        books = f"revision {found.books}: {jobs}, {files}"
    yield facts(
        (
            ("run", found.run_id),
            ("evidence", "holds" if found.holds else f"DOES NOT HOLD: {many(found.difference_count, 'difference')}"),
            ("plan digest", found.digest),
            ("plan", f"{many(found.planned, 'item')} in {many(found.parts, 'part')}"),
            ("books", books),
            *((naming.ending(name, found.undoes, ""), _counted(count)) for name, count in found.counts.items()),
        )
    )
    if found.differences:
        yield ""
        yield table(("what differs",), ((difference,) for difference in found.differences))


def _counted(count: object) -> object:
    return (reasons(count) or 0) if isinstance(count, Mapping) else count


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason on one line."""
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def when(at: datetime | None) -> str | None:
    """An instant in UTC, to the second."""
    return rfc3339(at.replace(microsecond=0)) if at else None


def ago(seconds: int) -> str:
    """A length of time in its two largest units."""
    days, rest = divmod(max(0, seconds), 86_400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"

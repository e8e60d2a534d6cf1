"""Comparing what happened with what had to happen, object by object, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sexton.attributes import canonical
from sexton.item import ItemId
from sexton.job import Job
from sexton.showing import RunView

from infra.local.demo import evidence
from infra.local.demo.application import Heard, Mood
from infra.local.demo.records import BOOKINGS, CONTRACTS, MOODS, QUOTES, REMINDERS, TABLES
from infra.local.demo.seeds import EXPORTS, INCOMING, LOGS, RECORDS, SCRATCH, UPLOADS, Fate, Seed

POLICIES = {
    LOGS: "logs-expire",
    EXPORTS: "exports-report",
    UPLOADS: "uploads-approval",
    RECORDS: "versions-purge",
    SCRATCH: "scratch-tags",
    INCOMING: "incoming-abort",
    REMINDERS: "reminders-delete",
    QUOTES: "quotes-archive",
    CONTRACTS: "contracts-mark",
    BOOKINGS: "bookings-cancel",
}
STATES = {
    "logs-expire": "completed",
    "exports-report": "reported",
    "uploads-approval": "awaiting_approval",
    "versions-purge": "completed",
    "scratch-tags": "completed",
    "incoming-abort": "completed",
    "reminders-delete": "completed",
    "quotes-archive": "completed",
    "contracts-mark": "completed",
    "bookings-cancel": "completed",
}
T = TypeVar("T")


@dataclass(frozen=True)
class Ended:
    """What is found at the end: runs by policy, what is left by store, what died, what the application heard."""

    views: Mapping[str, RunView]
    contents: Mapping[str, Sequence[ItemId]]
    dead: Sequence[Job]
    dead_letters: int
    evidence: Path
    heard: Mapping[str, Heard] = field(default_factory=dict)


def surprises(ended: Ended, seeds: Sequence[Seed]) -> list[str]:
    """Everything that is not as it had to be; empty when all is well."""
    by_store = {store: [seed for seed in seeds if seed.store == store] for store in POLICIES}
    archived = evidence.archived(ended.evidence, ended.views[POLICIES[QUOTES]].run_id)
    found = [_about_dead_letters(ended, seeds), about_calls(ended.heard), about_archive(archived, by_store[QUOTES])]
    for store, policy in POLICIES.items():
        here, view = by_store[store], ended.views[policy]
        found += [
            _about_states(view, STATES[policy]),
            _about_counts(view, here),
            _about_unreadable(evidence.unreadable(ended.evidence, view.run_id), here, policy),
            about_contents(ended.contents[store], here, store),
            _about_plan(evidence.planned(ended.evidence, view.run_id), here, policy),
            about_only_reported(evidence.only_reported(ended.evidence, view.run_id), here, policy),
            about_outcomes(evidence.outcomes(ended.evidence, view.run_id), here, policy),
        ]
    return [text for texts in found for text in texts]


def _about_states(view: RunView, state: str) -> Iterator[str]:
    yield from _differ(f"state of {view.run_id}", view.state, state)
    if state == "completed":
        yield from _differ(f"books of {view.run_id}", view.balanced, True)
        yield from _differ(f"open items of {view.run_id}", view.open, 0)


def _about_counts(view: RunView, seeds: Sequence[Seed]) -> Iterator[str]:
    """The ledger's counts: what was scanned by reason, planned, and how it ended."""
    listed = [seed.fate for seed in seeds if seed.fate.listed]
    scanned = Counter("expired" if fate.in_plan else fate.value for fate in listed)
    meant = Counter(fate.value for fate in listed if fate.recorded or fate.dead)
    ends = Counter({"deleted": view.deleted})
    ends.update({f"skipped:{reason}": n for reason, n in view.skipped.items()})
    ends.update({f"dead:{reason}": n for reason, n in view.dead.items()})
    yield from _differ(
        f"scanned by {view.run_id}", dict(sorted(view.scanned_by.items())), dict(sorted(scanned.items()))
    )
    yield from _differ(f"planned by {view.run_id}", view.planned, scanned.get("expired", 0))
    if not any(seed.store in TABLES for seed in seeds):  # of records the size is an estimate
        yield from _differ(f"bytes planned by {view.run_id}", view.planned_bytes, _size(seeds))
    yield from _differ(f"outcomes of {view.run_id}", +ends, meant)


def about_contents(found: Iterable[ItemId], seeds: Sequence[Seed], store: str) -> Iterator[str]:
    """The bucket or the table itself: exactly what had to stay is there, records with all their attributes."""
    meant = Counter(seed.left for seed in seeds if seed.left is not None)
    yield from _differ_by_item(f"what is in {store}", Counter(found), meant)


def _about_unreadable(found: Sequence[str], seeds: Sequence[Seed], policy: str) -> Iterator[str]:
    """The plan's list of records whose timestamp cannot be read."""
    meant = Counter(seed.key for seed in seeds if seed.fate is Fate.UNREADABLE)
    yield from _differ_by_item(f"the unreadable records of {policy}", Counter(found), meant)


def _about_plan(planned: Counter[ItemId], seeds: Sequence[Seed], policy: str) -> Iterator[str]:
    """The plan in evidence: each object or record that had its time, once, and no other."""
    yield from _differ_by_item(f"the plan of {policy}", planned, Counter(s.id for s in seeds if s.fate.in_plan))


def about_only_reported(found: Counter[ItemId], seeds: Sequence[Seed], policy: str) -> Iterator[str]:
    """What a canary leaves alone: listed item by item, and in no plan."""
    meant = Counter(seed.id for seed in seeds if seed.fate is Fate.REPORT_ONLY)
    yield from _differ_by_item(f"what {policy} only reports", found, meant)


def about_outcomes(found: Iterable[tuple[ItemId, str]], seeds: Sequence[Seed], policy: str) -> Iterator[str]:
    """The outcomes in evidence: each planned item's own, once."""
    meant = Counter((seed.id, seed.fate.value) for seed in seeds if seed.fate.recorded)
    yield from _differ_by_item(f"the outcomes of {policy}", Counter(found), meant)


def _about_dead_letters(ended: Ended, seeds: Sequence[Seed]) -> Iterator[str]:
    meant = sorted(seed.key for seed in seeds if seed.fate.dead)
    yield from _differ("first items of the dead jobs", sorted(job.first_key for job in ended.dead), meant)
    yield from _differ("items of the dead jobs", [job.open_items for job in ended.dead], [1] * len(meant))
    yield from _differ("reason classes of the dead jobs", {job.reason_class for job in ended.dead}, {"permanent"})
    yield from _differ("messages in the dead-letter queue", ended.dead_letters, len(meant))


def about_archive(found: Iterable[str], seeds: Sequence[Seed]) -> Iterator[str]:
    """The archive in evidence: each record that was removed, whole, and no other."""
    meant = Counter(canonical(seed.record) for seed in seeds if seed.record and seed.fate is Fate.DELETED)
    yield from _differ_by_item("the archive of quotes", Counter(found), meant)


def about_calls(heard: Mapping[str, Heard]) -> Iterator[str]:
    """What the application heard: each booking under a key of its own, and done once, however often it was called."""
    yield from _differ("bookings that were called for", sorted(heard), sorted(MOODS))
    for booking, came in heard.items():
        mood = MOODS[booking]
        yield from _differ(f"keys of the calls for {booking}", len(came.keys), 1)
        yield from _differ(f"cancellations of {booking}", came.done, 0 if mood is Mood.REFUSES else 1)
        if mood in (Mood.LOSES_REPLY, Mood.BUSY):
            yield from _differ(f"{booking} was called for again", len(came.answers) > 1, True)
    keys = [key for came in heard.values() for key in came.keys]
    yield from _differ("keys that two bookings share", len(keys) - len(set(keys)), 0)


def _differ(what: str, found: object, meant: object) -> Iterator[str]:
    if found != meant:
        yield f"{what}: {found}, expected {meant}"


def _differ_by_item(what: str, found: Counter[T], meant: Counter[T]) -> Iterator[str]:
    for text, extra in (("not expected", found - meant), ("missing", meant - found)):
        if extra:
            yield f"{what}: {extra.total()} {text}, such as {next(iter(extra))!r}"


def _size(seeds: Iterable[Seed]) -> int:
    return sum(seed.size for seed in seeds if seed.fate.in_plan)

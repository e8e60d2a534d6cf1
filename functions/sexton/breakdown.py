"""What a plan or a run comes to, counted item by item as the books are compared, in flat memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from sexton import by_cohort
from sexton.by_cohort import RunByCohort
from sexton.cohort import name_of
from sexton.cohort_counts import PlannedCohorts
from sexton.cohorts import Cohorts
from sexton.decision import date_of
from sexton.histogram import Ages, Tally
from sexton.item import RECORD, Item
from sexton.outcome import ABSENT_AFTER_ATTEMPT, Ending
from sexton.policy import Policy
from sexton.prices import ClassRule, list_prices
from sexton.record_source import RecordSource

PLANNED = "planned"  # the name of an item that has no outcome yet: what removing it would come to is counted
UNACCOUNTED = "unaccounted"  # of one that should have an outcome, and has none
UNPROVEN_NAME = f"{Ending.DELETED}:{ABSENT_AFTER_ATTEMPT}"

_NO_RULE = ClassRule()


class Space(StrEnum):
    """What became of the bytes of a removed item."""

    FREED = "freed"  # no longer stored
    MARKED = "marked"  # under a delete marker: stored, and paid for, until the noncurrent version goes
    UNPROVEN = "unproven"  # found absent after an attempt: perhaps by another's doing, so no saving of this run


@dataclass(slots=True)
class Stored:
    """What removed items of one storage class took: `billed` is what S3 charges for, which can be more than `all`.

    `early` went before the class's minimum duration; `early_byte_seconds` is what of it is left to pay. `undated` may
    have gone early: nothing tells.
    """

    all: Tally = field(default_factory=Tally)
    billed: int = 0
    early: Tally = field(default_factory=Tally)
    early_byte_seconds: int = 0
    undated: Tally = field(default_factory=Tally)

    def add(self, item: Item, rule: ClassRule, at: datetime) -> None:
        """Count an item that was removed at a time."""
        billed = rule.billed(item.size)
        self.all.add(item.size)
        self.billed += billed
        if rule.minimum_days:
            self._add_early(item, billed, timedelta(days=rule.minimum_days), at)

    def _add_early(self, item: Item, billed: int, minimum: timedelta, at: datetime) -> None:
        if item.last_modified is None:
            self.undated.add(item.size)
            return
        remaining = minimum - (at - item.last_modified)
        if remaining > timedelta(0):
            self.early.add(item.size)
            self.early_byte_seconds += billed * (remaining // timedelta(seconds=1))


@dataclass
class Breakdown:
    """Everything that a report shows of the items themselves. `dated` gives the date that the policy goes by."""

    cohorts: Cohorts
    ages: Ages
    dated: Callable[[Item], datetime | None]
    rules: Mapping[str, ClassRule]
    total: Tally = field(default_factory=Tally)
    removed: dict[tuple[str, Space], Stored] = field(default_factory=dict)
    planned: PlannedCohorts | None = None  # by cohort, where the policy names cohorts

    @staticmethod
    def of(policy: Policy, cutoff: datetime, planned: PlannedCohorts | None = None) -> Breakdown:
        """An empty one for a run of this policy; `planned` is what its planning counted by cohort."""
        cohorts = _cohorts(policy, planned)
        return Breakdown(cohorts, Ages(cutoff), date_of(policy), list_prices().classes, planned=planned)

    def by_cohort(self) -> RunByCohort:
        """At the end: the largest cohorts, and the others."""
        return by_cohort.of_books(self.cohorts, self.planned)

    def add(self, item: Item, name: str, at: datetime, *, marked: bool = False) -> None:
        """Count one item, in the plan's order, each once.

        `name` is its outcome's (`deleted`, `skipped:changed`), or PLANNED. `at` is when that came to be, or would.
        `marked`: a delete marker is all that a removal places.
        """
        self.total.add(item.size)
        self.cohorts.add(item, (name, item.storage_class))
        self.ages.add(self.dated(item), item.size)
        space = _space(name, marked)
        if space is not None and item.storage_class != RECORD:  # a record is in no storage class of S3, nor its price
            self._stored(item.storage_class, space).add(item, self.rules.get(item.storage_class, _NO_RULE), at)

    def ended(self, item: Item, name: str, fields: Mapping[str, object], closed_at: datetime) -> None:
        """Count one item by the fields of its outcome line; there are none where the job's row implies the outcome."""
        timed = self.rules.get(item.storage_class, _NO_RULE).minimum_days > 0  # for no other class does the time matter
        at = _time(fields, closed_at) if timed else closed_at
        self.add(item, name, at, marked="marker_version_id" in fields)

    def _stored(self, storage_class: str, space: Space) -> Stored:
        found = self.removed.get((storage_class, space))
        if found is None:
            found = self.removed[storage_class, space] = Stored()
        return found

    def by_outcome(self) -> list[tuple[str, Tally]]:
        """Sums by outcome name, in order of the names."""
        return self._summed(lambda cell: cell[0])

    def by_class(self) -> list[tuple[str, Tally]]:
        """Sums of all items by storage class, in order of the names."""
        return self._summed(lambda cell: cell[1])

    def _summed(self, key: Callable[[tuple[str, str]], str]) -> list[tuple[str, Tally]]:
        sums: dict[str, Tally] = {}
        for cell, tally in self.cohorts.cells():
            sums.setdefault(key(cell), Tally()).merge(tally)
        return sorted(sums.items())


def _cohorts(policy: Policy, planned: PlannedCohorts | None) -> Cohorts:
    if policy.cohort is not None and planned is not None:
        return Cohorts(named=name_of(policy.cohort), apart=frozenset(line.cohort for line in planned.largest))
    if isinstance(policy.source, RecordSource):  # a record's key is no path: a table is one cohort
        return Cohorts(whole=f"{policy.source.table}/")
    return Cohorts(policy.source.prefixes)


def _time(fields: Mapping[str, object], closed_at: datetime) -> datetime:
    """When the outcome came to be. One that cannot be read is no reason not to close: the closing stands for it."""
    try:
        at = datetime.fromisoformat(str(fields["at"]))
    except (KeyError, ValueError):
        return closed_at
    return at if at.tzinfo else closed_at


def _space(name: str, marked: bool) -> Space | None:
    """None for an item that was not removed."""
    if name == UNPROVEN_NAME and not marked:
        return Space.UNPROVEN
    if name == PLANNED or name.partition(":")[0] == Ending.DELETED:
        return Space.MARKED if marked else Space.FREED
    return None

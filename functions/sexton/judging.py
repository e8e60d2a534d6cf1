"""What a fresh look means for a planned item: remove it, or the outcome that it has already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sexton.decision import UNREADABLE_TAGS, Decision, Judge
from sexton.errors import Failure, ReasonClass
from sexton.item import Item, ItemId
from sexton.observing import Seen
from sexton.outcome import (
    ABSENT,
    ABSENT_AFTER_ATTEMPT,
    CALLED_BEFORE,
    CHANGED,
    CHANGED_AFTER_ATTEMPT,
    HELD,
    LOCKED,
    Ending,
    Outcome,
)
from sexton.ports import Clock, Removed
from sexton.target import Observable


def judge_all(target: Observable, judged: Judge, items: Sequence[Item]) -> list[tuple[Item, Decision]]:
    """Judge items in order; the tags of those that cannot be judged without are read, all at once."""
    decided = [(item, judged(item)) for item in items]
    asking = [place for place, (_, decision) in enumerate(decided) if decision.action == "ask"]
    for place, item in zip(asking, target.read_tags([decided[place][0] for place in asking]), strict=True):
        decision = judged(item)
        decided[place] = (item, UNREADABLE_TAGS if decision.action == "ask" else decision)
    return decided


@dataclass(frozen=True)
class FreshLook:
    """What was there of planned items at a time, and what is to be done with it."""

    seen: Mapping[ItemId, Seen]
    decisions: Mapping[ItemId, Decision]
    at: datetime

    @staticmethod
    def of(target: Observable, judged: Judge, items: Sequence[Item], span: int, clock: Clock) -> FreshLook:
        """Look at neighbouring items, and judge those that are still what was planned."""
        begun: list[datetime] = []
        seen = target.observe(items, span, lambda: begun.append(clock()))
        same = [now for item in items if isinstance(now := seen[item.id], Item) and item.same_as(now)]
        return FreshLook(seen, {item.id: decision for item, decision in judge_all(target, judged, same)}, begun[-1])

    def ended(self, index: int, planned: Item, maybe_done: bool) -> Outcome | Failure | None:
        """How an item ended without a removal, or why that cannot be seen; None where it still is to be removed."""
        seen = self.seen[planned.id]
        if isinstance(seen, Failure):
            return seen
        same = isinstance(seen, Item) and planned.same_as(seen)  # one record can be planned twice, in two states
        decision = self.decisions.get(planned.id) if same else None
        return before_removal(index, planned, seen, decision, maybe_done, self.at)


def before_removal(
    index: int, planned: Item, seen: Item | None, decision: Decision | None, maybe_done: bool, at: datetime
) -> Outcome | None:
    """None: it is still what was planned and still has had its time. Else how it ended without a removal.

    `decision` is about what was seen, and there is none where that is not what was planned.
    """
    if seen is None:
        return _absent(index, planned, maybe_done, at)
    if decision is None:
        return _skipped(index, planned, at, CHANGED_AFTER_ATTEMPT if maybe_done else CHANGED, seen)
    if decision.action != "remove":
        return _skipped(index, planned, at, decision.reason, seen)
    return None


def after_removal(
    index: int, planned: Item, came: Removed | Failure, maybe_done: bool, at: datetime
) -> Outcome | Failure:
    """The outcome of a removal, or its failure where it has none yet."""
    if isinstance(came, Removed):
        done = _ended(index, planned, Ending.DELETED, at, marker_version_id=came.marker_version_id)
        return replace(done, effect=came.effect)
    if came.reason_class is ReasonClass.GONE:
        return _absent(index, planned, maybe_done, at)
    if came.reason_class is ReasonClass.CHANGED:
        return _skipped(index, planned, at, CHANGED_AFTER_ATTEMPT if maybe_done else CHANGED)
    if came.reason_class is ReasonClass.LOCKED:
        return _skipped(index, planned, at, LOCKED)
    return came


def done_with_settlement(
    index: int, planned: Item, at: datetime, effect: str | None = None, archive: str | None = None
) -> Outcome:
    """It is done in the transaction that records this outcome, or neither happens."""
    return replace(_ended(index, planned, Ending.DELETED, at), effect=effect, archive=archive)


def named_before(index: int, planned: Item, at: datetime) -> Outcome:
    """The same record was planned twice: when it is this one's turn it is gone."""
    return _skipped(index, planned, at, ABSENT)


def called_before(index: int, planned: Item, at: datetime) -> Outcome:
    """Another run may have had it done, and a person has not judged that yet: final for this run."""
    return _skipped(index, planned, at, CALLED_BEFORE)


def held(index: int, planned: Item, at: datetime) -> Outcome:
    """A person wants it kept, which beats everything: final for this run."""
    return _skipped(index, planned, at, HELD)


def _absent(index: int, planned: Item, maybe_done: bool, at: datetime) -> Outcome:
    """Absent after an attempt that may have done it counts as deleted, which is no proof: it has its own reason."""
    if maybe_done:
        return _ended(index, planned, Ending.DELETED, at, ABSENT_AFTER_ATTEMPT, unproven=True)
    return _skipped(index, planned, at, ABSENT)


def _skipped(index: int, planned: Item, at: datetime, reason: str, observed: Item | None = None) -> Outcome:
    return _ended(index, planned, Ending.SKIPPED, at, reason, observed=observed)


def _ended(
    index: int,
    planned: Item,
    ending: Ending,
    at: datetime,
    reason: str | None = None,
    observed: Item | None = None,
    marker_version_id: str | None = None,
    unproven: bool = False,
) -> Outcome:
    return Outcome(index, planned.key, ending, at, reason, observed, marker_version_id, unproven, planned.version_id)

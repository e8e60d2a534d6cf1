"""What a fresh look means for a planned item: remove it, or the outcome that it has already."""

from __future__ import annotations

from datetime import datetime

from sexton.decision import Judge
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.outcome import (
    ABSENT,
    ABSENT_AFTER_ATTEMPT,
    CHANGED,
    CHANGED_AFTER_ATTEMPT,
    LOCKED,
    Ending,
    Outcome,
)
from sexton.ports import Removed


def before_removal(
    index: int, planned: Item, seen: Item | None, judged: Judge, maybe_done: bool, at: datetime
) -> Outcome | None:
    """None: it is still what was planned and still has had its time. Else how it ended without a removal."""
    if seen is None:
        return _absent(index, planned, maybe_done, at)
    if not planned.same_as(seen):
        reason = CHANGED_AFTER_ATTEMPT if maybe_done else CHANGED
        return Outcome(index, planned.key, Ending.SKIPPED, at, reason, observed=seen)
    decision = judged(seen)
    if decision.action != "remove":
        return Outcome(index, planned.key, Ending.SKIPPED, at, decision.reason, observed=seen)
    return None


def after_removal(
    index: int, planned: Item, came: Removed | Failure, maybe_done: bool, at: datetime
) -> Outcome | Failure:
    """The outcome of a removal, or its failure where it has none yet."""
    if isinstance(came, Removed):
        return Outcome(index, planned.key, Ending.DELETED, at, marker_version_id=came.marker_version_id)
    if came.reason_class is ReasonClass.GONE:
        return _absent(index, planned, maybe_done, at)
    if came.reason_class is ReasonClass.CHANGED:
        reason = CHANGED_AFTER_ATTEMPT if maybe_done else CHANGED
        return Outcome(index, planned.key, Ending.SKIPPED, at, reason)
    if came.reason_class is ReasonClass.LOCKED:
        return Outcome(index, planned.key, Ending.SKIPPED, at, LOCKED)
    return came


def _absent(index: int, planned: Item, maybe_done: bool, at: datetime) -> Outcome:
    """Absent after an attempt that may have done it counts as deleted, which is no proof: it has its own reason."""
    if maybe_done:
        return Outcome(index, planned.key, Ending.DELETED, at, ABSENT_AFTER_ATTEMPT, unproven=True)
    return Outcome(index, planned.key, Ending.SKIPPED, at, ABSENT)

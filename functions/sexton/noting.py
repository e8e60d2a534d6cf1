"""Changes that go with the settlement of their job: noted with their outcomes, and not made yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sexton.item import Item
from sexton.judging import done_with_settlement, named_before
from sexton.settling import TRANSACTION_FULL, Attempt
from sexton.target import AtomicTarget

# A transaction takes 4 MB of records, and of what conditions and changes say; estimates may be wrong by a fifth.
MOST_BYTES = 3_200_000

Opened = Sequence[tuple[int, Item]]


def note_changes(target: AtomicTarget, due: Opened, attempt: Attempt, at: datetime) -> None:
    """Note as many as one transaction takes; the rest is left for the next attempt, which comes at once.

    Raises CallFailed where what must stand before a change could not be written.
    """
    fitting = due[: _fitting(target, due)]
    first: dict[str, tuple[int, Item]] = {}
    for index, item in fitting:
        if first.setdefault(item.key, (index, item))[0] != index:  # DynamoDB takes a record once in a transaction
            attempt.outcomes.append(named_before(index, item, at))
    archive = target.prepare([item for _, item in first.values()])
    for index, item in first.values():
        attempt.changes[index] = target.change(item)
        attempt.outcomes.append(done_with_settlement(index, item, at, target.effect, archive))
    if len(fitting) < len(due):
        attempt.stop = TRANSACTION_FULL


def _fitting(target: AtomicTarget, due: Opened) -> int:
    """How many of them, from the first on; one in any case, since no record is larger than a transaction."""
    taken = 0
    for number, (_, item) in enumerate(due):
        taken += target.weight(item)
        if taken > MOST_BYTES and number:
            return number
    return len(due)

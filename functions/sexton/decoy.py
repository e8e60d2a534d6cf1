"""Decoys: objects that a rehearsal puts under a policy's prefix, and what its worker does at some of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import Failure, ReasonClass
from sexton.item import Item, ItemId
from sexton.observing import Seen
from sexton.ports import Removed
from sexton.target import Target

KILLED, EXHAUSTED = "killed-worker", "exhausted-retries"  # the two rehearsals that need a worker with faults
FAILING = "failing"  # how the name of a decoy begins whose removal is to fail

_FOLDER = "rehearsal-[0-9a-f]{12}/"
_DECOY = re.compile(_FOLDER)
_FATAL = re.compile(f"(^|.*/){_FOLDER}{KILLED}/", re.DOTALL)
_FAILS = re.compile(f"(^|.*/){_FOLDER}{EXHAUSTED}/{FAILING}", re.DOTALL)
TROUBLE = Failure(ReasonClass.TRANSIENT, "ServiceUnavailable", "a rehearsal lets this decoy fail")


def folder(prefix: str, rehearsal_id: str) -> str:
    """Where a rehearsal's decoys are; the id is twelve hexadecimal digits."""
    return f"{prefix}rehearsal-{rehearsal_id}/"


def is_decoy(prefix: str, key: str) -> bool:
    """Whether a key under the prefix is that of any rehearsal's decoy."""
    return _DECOY.match(key.removeprefix(prefix)) is not None


@dataclass(frozen=True)
class FaultyTarget:
    """A target that fails at decoys whose keys ask for it; everything else it does as the one behind it.

    `die` ends the process: after the store has removed the decoys, and before anybody has recorded it.
    """

    inner: Target
    die: Callable[[], object]

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """As the target behind."""
        return self.inner.read_tags(items)

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """As the target behind."""
        return self.inner.observe(items, span, begun)

    def batches(self, items: Sequence[tuple[int, Item]]) -> Iterator[Sequence[tuple[int, Item]]]:
        """As the target behind."""
        return self.inner.batches(items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """Remove what does not ask to fail; then die if that is asked for."""
        failing = {item.id: TROUBLE for item in items if _FAILS.match(item.key)}
        others = [item for item in items if item.id not in failing]
        came = {**failing, **(self.inner.remove(others) if others else {})}
        if any(_FATAL.match(item.key) for item in items):
            self.die()
        return came

    def request_timeout(self) -> timedelta:
        """As the target behind."""
        return self.inner.request_timeout()

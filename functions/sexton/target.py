"""A target: how the items that a policy means are listed, looked at again, and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.observing import Seen
from sexton.ports import Removed
from sexton.run import Place
from sexton.table import Change


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing: what was seen, in order.

    `place_after` tells where a listing goes on after the item of that index; `next` where it goes on after the
    page. `ends_range`: the page ends a range of neighbours (a prefix), and no part reaches past it.
    """

    items: Sequence[Item]
    place_after: Callable[[int], Place]
    next: Place
    ends_range: bool


class Observable(Protocol):
    """What a run removes, to be looked at. Every method may raise CallFailed when a call failed as a whole."""

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items with their tags; those whose tags cannot be read come without."""

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """What is there now of each item, by id.

        `items` are in the listing's order and at least one; `span` is how many things were listed from the first to
        the last. `begun` is called whenever nothing that was read before matters, so that the look is no older.
        """

    def request_timeout(self) -> timedelta:
        """The longest that one removing call may take."""


class Target(Observable, Protocol):
    """What is removed by calls of its own, between the look and the settlement."""

    def batches(self, items: Sequence[tuple[int, Item]]) -> Iterator[Sequence[tuple[int, Item]]]:
        """The items in groups, each for one call of `remove`."""

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """Remove one batch in one call, each item only if it is still the one given; by id what came of it."""


@runtime_checkable
class AtomicTarget(Observable, Protocol):
    """What is removed in one transaction with the settlement of its job, so that effect and record are one fact."""

    @property
    def effect(self) -> str | None:
        """What a change comes to, None for the plain removal."""

    def prepare(self, items: Sequence[Item]) -> str | None:
        """Write what must stand before these items, just looked at, are changed; the key of a file that has them."""

    def weight(self, item: Item) -> int:
        """About how many bytes the item takes in a transaction."""

    def change(self, item: Item) -> Change:
        """The change of an item that still is the one given."""


class Listed(Observable, Protocol):
    """The items of one policy, which planning finds by listing them."""

    @property
    def ranges(self) -> int:
        """How many ranges there are to list; a place of a higher number is the end."""

    def page(self, place: Place) -> Page:
        """List on from a place: one call, seldom two."""


class ListedTarget(Listed, Target, Protocol):
    """The same of what is removed by calls of its own."""


class ListedAtomicTarget(Listed, AtomicTarget, Protocol):
    """The same of what is changed in one transaction with the settlement."""


AnyTarget = Target | AtomicTarget

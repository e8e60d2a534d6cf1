"""What a run's items come to by cohort: some cohorts apart, all others together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sexton.cohort import NameOf
from sexton.histogram import Tally
from sexton.item import Item

KEPT = 100  # as many as a person reads, and as a page holds

Cell = tuple[str, str]  # outcome name, storage class
Cells = dict[Cell, Tally]


@dataclass
class Cohorts:
    """Counts items by cohort, outcome and storage class; memory holds twice `kept` cohorts, however many there are.

    Where the policy says whose an item is, `named` tells, and only the cohorts `apart` are counted apart. Else a cohort
    is a folder: the policy's prefix with the key's next segment, or the prefix alone if the key has none. Then items
    come in the plan's order, so that a folder's items are neighbours: when another one begins, those before it are
    complete, and the smallest of them can be folded into `others`. So the largest by bytes remain. `whole` is the one
    cohort of all items where their keys are no paths.
    """

    prefixes: Sequence[str] = ()
    whole: str | None = None
    kept: int = KEPT
    named: NameOf | None = None
    apart: frozenset[str] = frozenset()
    others: Cells = field(default_factory=dict)
    folded: int = 0  # how many cohorts `others` has
    _cells: dict[str, Cells] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ordered = sorted(self.prefixes)

    def add(self, item: Item, cell: Cell) -> None:
        """Count one item."""
        cells = self._cells_of(item)
        tally = cells.get(cell)
        if tally is None:
            tally = cells[cell] = Tally()
        tally.add(item.size)

    def _cells_of(self, item: Item) -> Cells:
        name, prefix = (self.named(item), None) if self.named is not None else self._folder(item.key)
        if self.named is not None and name not in self.apart:
            return self.others
        cells = self._cells.get(name)
        if cells is None:
            cells = self._begin(name, prefix)
        self._bytes[name] += item.size
        return cells

    def _folder(self, key: str) -> tuple[str, str]:
        """The folder of a key, and its prefix."""
        if self.whole is not None:
            return self.whole, self.whole
        prefix = self._prefix(key)
        head, slash, _ = key[len(prefix) :].partition("/")
        return prefix + head + slash if slash else prefix, prefix

    def _prefix(self, key: str) -> str:
        """The policy's prefix that the key begins with: no prefix of a policy covers another."""
        place = bisect_right(self._ordered, key) - 1
        return self._ordered[place] if place >= 0 and key.startswith(self._ordered[place]) else ""

    def _begin(self, name: str, prefix: str | None) -> Cells:
        """Begin a cohort. A prefix's own folder is not folded yet: its items lie between those of the others."""
        if prefix is not None and len(self._cells) >= 2 * self.kept:
            self._fold_smallest(spare=prefix)
        self._bytes[name] = 0
        self._cells[name] = {}
        return self._cells[name]

    def _fold_smallest(self, spare: str | None = None) -> None:
        for name in self._largest_first()[self.kept :]:
            if name == spare:
                continue
            self.folded += 1
            del self._bytes[name]
            for cell, tally in self._cells.pop(name).items():
                self.others.setdefault(cell, Tally()).merge(tally)

    def _largest_first(self) -> list[str]:
        return sorted(self._cells, key=lambda name: (-self._bytes[name], name))

    def largest(self) -> list[tuple[str, Cells]]:
        """At the end: the cohorts counted apart, by bytes; `others` and `folded` then have all the rest."""
        if self.named is None:
            self._fold_smallest()
        return [(name, self._cells[name]) for name in self._largest_first()]

    def cells(self) -> Iterator[tuple[Cell, Tally]]:
        """Every cell of every cohort, the others too."""
        for cells in (*self._cells.values(), self.others):
            yield from cells.items()


def summed(cells: Cells) -> Tally:
    """All cells of a cohort together."""
    sum_of_all = Tally()
    for tally in cells.values():
        sum_of_all.merge(tally)
    return sum_of_all

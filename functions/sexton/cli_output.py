"""How the command line writes: data on stdout, messages on stderr, and nothing in either that acts on the screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TextIO

from pydantic import BaseModel

from sexton.escaping import escaped, harmless

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

PIPED_WIDTH = 100_000  # no line of a pipe or a file is ever wrapped
COLUMN_GAP = 3  # blanks between the columns of a table
READABLE_WIDTH = 20  # sentences are folded to no less


def console(file: TextIO) -> Console:
    """A console that takes every text literally: no markup, no emoji codes, no highlighting of its own."""
    from rich.console import Console

    width = None if file.isatty() else PIPED_WIDTH
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def put(parts: Iterable[RenderableType]) -> None:
    """Data for people. A pipe gets it without colour and without the blanks that fill up a table."""
    out = console(sys.stdout)
    if sys.stdout.isatty():
        for part in parts:
            out.print(part, crop=False)
        return
    with out.capture() as captured:
        for part in parts:
            out.print(part)
    for line in captured.get().splitlines():
        print(line.rstrip())


def say(message: str) -> None:
    """A message to the person, beside the data."""
    print(harmless(message), file=sys.stderr)


def put_json(value: BaseModel | Sequence[BaseModel] | dict[str, object]) -> None:
    """One JSON document, in ASCII, so that no key in it can act on a terminal."""
    print(json.dumps(_plain(value), indent=2))


def stream_json(values: Iterable[BaseModel]) -> None:
    """A JSON array, an entry a line, written as the entries come."""
    opening = "[\n"
    for value in values:
        print(opening, json.dumps(_plain(value)), sep="", end="")
        opening = ",\n"
    print("[]" if opening == "[\n" else "\n]")


@dataclass(frozen=True)
class FittedTable:
    """Rows of cells taken literally; no cell is ever cut short, and no word broken where a terminal is wide enough.

    It is a table as long as every column has room for its words, else a block of lines for each row.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        cells = [[*map(cell, row)] for row in self.rows]
        widths = self._widths(cells, options.max_width)
        if widths:
            yield self._table(cells, widths)
            return
        for number, row in enumerate(self.rows):
            if number:
                yield ""
            yield facts(zip(self.headers, row, strict=True))

    def _widths(self, cells: Sequence[Sequence[str]], room: int) -> list[int]:
        """What each column gets of the terminal's width; nothing if the words of one do not fit."""
        from rich.cells import cell_len

        columns = [*zip(self.headers, *cells, strict=True)]
        whole = [max(map(cell_len, column)) for column in columns]
        words = [max(cell_len(word) for each in column for word in each.split(" ")) for column in columns]
        least = [max(word, min(most, READABLE_WIDTH)) for word, most in zip(words, whole, strict=True)]
        excess = max(0, sum(whole) + COLUMN_GAP * (len(columns) - 1) - room)
        spare = sum(whole) - sum(least)
        if excess > spare:
            return []
        return [most - ceil(excess * (most - few) / max(1, spare)) for most, few in zip(whole, least, strict=True)]

    def _table(self, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
        from rich import box
        from rich.table import Table

        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for header, width in zip(self.headers, widths, strict=True):
            made.add_column(header, overflow="fold", justify="right" if header in self.right else "left", width=width)
        for row in cells:
            made.add_row(*row)
        return made


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> FittedTable:
    """A table, one value a cell; `right` names the columns of numbers."""
    return FittedTable(headers, [*rows], right)


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; pairs without a value are left out."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            made.add_row(name, cell(value))
    return made


def cell(value: object) -> str:
    """A value as a cell shows it: text escaped, numbers grouped, nothing as a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else escaped(str(value))


def many(count: int, one: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def _plain(value: BaseModel | Sequence[BaseModel] | dict[str, object]) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value if isinstance(value, dict) else [each.model_dump(mode="json") for each in value]

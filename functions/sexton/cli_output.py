"""How the command line writes: data on stdout, messages on stderr, and nothing in either that acts on the screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from pydantic import BaseModel

from sexton.escaping import escaped, harmless

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

PIPED_WIDTH = 100_000  # no line of a pipe or a file is ever wrapped


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


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A table of cells taken literally; no cell is ever cut short. `right` names the columns of numbers.

    The first column holds what is copied, an id mostly: it is never folded, however narrow the terminal.
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    shown = [[*map(cell, row)] for row in rows]
    longest = max((len(row[0]) for row in shown), default=0)
    for place, header in enumerate(headers):
        width = longest if place == 0 else None
        made.add_column(header, overflow="fold", justify="right" if header in right else "left", min_width=width)
    for row in shown:
        made.add_row(*row)
    return made


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

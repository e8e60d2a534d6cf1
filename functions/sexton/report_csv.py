"""The report as a table for spreadsheets: sums by cohort, outcome, reason and storage class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from sexton.cohorts import Cells
from sexton.escaping import escaped
from sexton.histogram import Tally
from sexton.report import Report, split_name

HEADER = ("row", "cohort", "outcome", "reason", "storage_class", "objects", "bytes")
OTHERS = "others"

# What a spreadsheet takes for the beginning of a formula, full-width forms too.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - they are meant

Row = tuple[str | int, ...]


def render(report: Report) -> bytes:
    """The table, in UTF-8 with a byte order mark, without which Excel misreads names; RFC 4180 otherwise.

    `row` tells the rows apart: `cohort` rows (and one `others` group) together are every item once, the `total` rows
    are the same items again by outcome, reason and storage class, and `all` is everything. No cell begins a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(HEADER)
    writer.writerows(_rows(report))
    return text.getvalue().encode("utf-8-sig")


def _rows(report: Report) -> Iterator[Row]:
    cohorts = report.breakdown.cohorts
    for name, cells in sorted(cohorts.largest()):
        yield from _cells("cohort", safe(name), cells)
    yield from _cells(OTHERS, f"{cohorts.folded} smaller cohorts", cohorts.others)
    totals: Cells = {}
    for cell, tally in cohorts.cells():
        totals.setdefault(cell, Tally()).merge(tally)
    yield from _cells("total", "", totals)
    whole = report.breakdown.total
    yield ("all", "", "", "", "", whole.count, whole.bytes)


def _cells(row: str, cohort: str, cells: Cells) -> Iterator[Row]:
    for (name, storage_class), tally in sorted(cells.items()):
        ending, reason = split_name(name)
        yield (row, cohort, safe(ending), safe(reason), safe(storage_class), tally.count, tally.bytes)


def safe(text: str) -> str:
    """Text as a cell shows it: without control or invisible characters, and with a `'` before what begins a formula."""
    shown = escaped(text)
    return f"'{shown}" if shown.lstrip(" ").startswith(_STARTS_FORMULA) else shown

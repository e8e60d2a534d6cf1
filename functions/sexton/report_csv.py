"""The report as a table for spreadsheets: sums by cohort, outcome, reason and storage class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from sexton.by_cohort import ByCohort
from sexton.cohorts import Cells
from sexton.escaping import escaped
from sexton.histogram import Tally
from sexton.item import RECORD
from sexton.report import Report, split_name

HEADER = ("row", "cohort", "outcome", "reason", "storage_class", "objects", "bytes")
OTHERS = "others"
REPORT_ONLY = "report_only"

# What a spreadsheet takes for the beginning of a formula, full-width forms too.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - they are meant

Row = tuple[str | int, ...]


def render(report: Report) -> bytes:
    """The table, in UTF-8 with a byte order mark, without which Excel misreads names; RFC 4180 otherwise.

    The column of counts is named after what is counted. `row` tells the rows apart: `cohort` rows (and one `others`
    group) together are every item once, the `total` rows are the same items again by outcome, reason and storage class
    (of which records have none), and `all` is everything. `report_only` rows are what a canary leaves alone, beside all
    this. No cell begins a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(report.things if name == "objects" else name for name in HEADER)
    writer.writerows(_rows(report))
    return text.getvalue().encode("utf-8-sig")


def _rows(report: Report) -> Iterator[Row]:
    cohorts = report.breakdown.cohorts
    for name, cells in sorted(cohorts.largest()):
        yield from _cells("cohort", safe(name), cells)
    by_cohort = report.breakdown.by_cohort()
    others = by_cohort.others
    smaller = f"{'more than ' if others and others.at_least else ''}{others.cohorts if others else 0} smaller cohorts"
    yield from _cells(OTHERS, smaller, cohorts.others)
    for line in sorted(by_cohort.largest, key=lambda line: line.cohort):
        yield from _reported(safe(line.cohort), line)
    if others:
        yield from _reported(smaller, others)
    totals: Cells = {}
    for cell, tally in cohorts.cells():
        totals.setdefault(cell, Tally()).merge(tally)
    yield from _cells("total", "", totals)
    whole = report.breakdown.total
    yield ("all", "", "", "", "", whole.count, whole.bytes)


def _reported(cohort: str, line: ByCohort) -> Iterator[Row]:
    """What canaries leave alone: due, and in no plan, so that it has no outcome and no class here."""
    if line.report_only:
        yield (REPORT_ONLY, cohort, "", "", "", line.report_only, line.report_only_bytes or 0)


def _cells(row: str, cohort: str, cells: Cells) -> Iterator[Row]:
    for (name, storage_class), tally in sorted(cells.items()):
        ending, reason = split_name(name)
        stored = "" if storage_class == RECORD else safe(storage_class)
        yield (row, cohort, safe(ending), safe(reason), stored, tally.count, tally.bytes)


def safe(text: str) -> str:
    """Text as a cell shows it: without control or invisible characters, and with a `'` before what begins a formula."""
    shown = escaped(text)
    return f"'{shown}" if shown.lstrip(" ").startswith(_STARTS_FORMULA) else shown

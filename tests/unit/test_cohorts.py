"""Cohorts and ages: every item counted once, the largest by name, in memory that does not grow."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.by_cohort import of_books
from sexton.cohort_counts import CohortLine, OtherCohorts, PlannedCohorts
from sexton.cohorts import Cohorts
from sexton.histogram import LABELS, NO_DATE, NOT_PAST, Ages
from sexton.item import Item

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
CELL = ("deleted", "STANDARD")


def item(key: str, size: int) -> Item:
    return Item(key, '"e"', size, "STANDARD", CUTOFF)


@pytest.mark.parametrize(
    ("key", "cohort"),
    [
        ("app/web/x/1", "app/web/"),
        ("app/1.log", "app/"),
        ("app//1", "app//"),
        ("app/", "app/"),
        ("raw-7/a", "raw-7/"),
        ("raw", "raw"),
        ("elsewhere/a", "elsewhere/"),
    ],
)
def test_a_cohort_is_the_prefix_and_the_next_segment(key: str, cohort: str) -> None:
    cohorts = Cohorts(["app/", "raw"])
    cohorts.add(item(key, 1), CELL)
    assert [name for name, _ in cohorts.largest()] == [cohort]


keys = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from(["", "x/"])), max_size=60)


@given(keys, st.integers(1, 4))
def test_the_largest_have_names_and_all_others_are_together(drawn: list[tuple[str, int, str]], kept: int) -> None:
    listed = sorted(f"{prefix}/{number}{'/' if deep else ''}{deep}" for prefix, number, deep in drawn)
    expected: Counter[str] = Counter()
    cohorts = Cohorts(["a/", "b/"], kept=kept)
    for key in listed:
        cohorts.add(item(key, len(key)), CELL)
        prefix, segment, *deeper = key.split("/")
        expected[f"{prefix}/{segment}/" if deeper else f"{prefix}/"] += len(key)
    largest = {name: cells[CELL].bytes for name, cells in cohorts.largest()}
    assert largest == {name: expected[name] for name in largest}, "a cohort that has a name is whole"
    assert len(largest) + cohorts.folded == len(expected)
    assert sorted(largest.values()) == sorted(expected.values())[-kept:]
    assert sum(tally.bytes for _, tally in cohorts.cells()) == sum(expected.values())


def test_memory_holds_twice_as_many_as_are_kept() -> None:
    cohorts = Cohorts([""], kept=5)
    for number in range(1000):
        cohorts.add(item(f"{number:04d}/x", number), CELL)
        assert len(cohorts._cells) <= 10
    assert [name for name, _ in cohorts.largest()] == ["0999/", "0998/", "0997/", "0996/", "0995/"]
    assert (cohorts.folded, cohorts.others[CELL].count) == (995, 995)


drawn = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), max_size=60)


@given(drawn, st.sets(st.integers(0, 8), max_size=4), st.integers(1, 5))
def test_named_cohorts_are_counted_apart_in_whatever_order_items_come(
    items: list[tuple[int, int]], apart: set[int], shown: int
) -> None:
    cohorts = Cohorts(named=lambda found: found.key, apart=frozenset(map(str, apart)))
    for name, size in items:
        cohorts.add(item(str(name), size), CELL)
    sizes = {name: [size for each, size in items if each == name] for name in range(9)}
    lines = [CohortLine(cohort=str(name), **_counted(sizes[name])) for name in sorted(apart)]
    rest = [size for name, size in items if name not in apart]
    others = OtherCohorts(cohorts=9 - len(apart), at_least=False, **_counted(rest))
    found = of_books(cohorts, PlannedCohorts(largest=tuple(lines), others=others))
    assert {line.cohort: (line.planned, line.planned_bytes, line.deleted) for line in found.largest} == {
        str(name): (len(sizes[name]), sum(sizes[name]), len(sizes[name])) for name in apart
    }
    for some in (found, found.first(shown)):
        assert len(some.largest) <= max(len(found.largest), shown)
        every = [*some.largest, *([some.others] if some.others else [])]
        assert sum(line.planned_bytes for line in every) == sum(size for _, size in items)
        assert sum(line.deleted or 0 for line in every) == len(items)
        assert len(some.largest) + (some.others.cohorts if some.others else 0) == 9


def _counted(sizes: list[int]) -> dict[str, int]:
    counts = {"planned": len(sizes), "planned_bytes": sum(sizes)}
    return {"scanned": len(sizes), **counts, "report_only": 0, "report_only_bytes": 0}


@pytest.mark.parametrize(
    ("past", "label"),
    [
        (timedelta(seconds=1), LABELS[0]),
        (timedelta(days=1) - timedelta(seconds=1), LABELS[0]),
        (timedelta(days=1), LABELS[1]),
        (timedelta(days=30), LABELS[3]),
        (timedelta(days=365) - timedelta(seconds=1), LABELS[4]),
        (timedelta(days=1825), LABELS[7]),
        (timedelta(days=90_000), LABELS[7]),
        (timedelta(0), NOT_PAST),
        (timedelta(days=-1), NOT_PAST),
    ],
)
def test_an_age_is_in_one_class(past: timedelta, label: str) -> None:
    ages = Ages(CUTOFF)
    ages.add(CUTOFF - past, 7)
    assert {name: tally.bytes for name, tally in ages.rows() if tally.count} == {label: 7}


def test_what_has_no_date_is_counted_as_such() -> None:
    ages = Ages(CUTOFF)
    ages.add(None, 7)
    assert ages.rows()[-1][0] == NO_DATE
    assert [label for label, _ in Ages(CUTOFF).rows()] == list(LABELS), "the odd classes show only when they are needed"

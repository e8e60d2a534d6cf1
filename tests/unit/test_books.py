"""The books balance if every planned item ended exactly once, and for nothing less."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sexton import keys, outcome, part
from sexton.books import PROBLEMS_KEPT, Books, Entry, compare
from sexton.item import Item
from sexton.outcome import Ending, Outcome

from tests.fakes.evidence import FakeEvidence

RUN = "logs-expire.20260301T120000Z.1"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DATED = datetime(2026, 1, 1, tzinfo=UTC)
RECORDABLE = [(Ending.DELETED, None), (Ending.DELETED, "absent_after_attempt"), (Ending.SKIPPED, "changed")]


@dataclass
class Run:
    """A closed run: its evidence, its rows in order, and how its items ended by name."""

    evidence: FakeEvidence = field(default_factory=FakeEvidence)
    entries: list[Entry] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    planned: int = 0

    def compare(self) -> Books:
        return compare(self.evidence, self.entries)

    def outcome_files(self) -> list[str]:
        return sorted(key for key in self.evidence.files if key.startswith("outcomes/"))

    def lines(self, file: str) -> list[bytes]:
        return self.evidence.files[file].splitlines(keepends=True)


@st.composite
def closed_runs(draw: st.DrawFn) -> Run:
    """Runs of a few parts; rows that split; outcomes in several files; some left to be implied."""
    run = Run()
    for number in range(draw(st.integers(1, 3))):
        _add_part(draw, run, number)
    return run


def _add_part(draw: st.DrawFn, run: Run, number: int) -> None:
    size = draw(st.integers(1, 6))
    items = [Item(f"app/{number}/{n}", f'"{n}"', 1, "STANDARD", DATED) for n in range(size)]
    made = part.build(f"{number:08d}", items, size)
    run.evidence.files[keys.part(RUN, made.seq, made.sha256)] = made.lines
    run.planned += size
    left_in_a_range = draw(st.integers(0, size))
    children = [(0, left_in_a_range)] if left_in_a_range else []
    children += [(n, n + 1) for n in range(left_in_a_range, size) if draw(st.booleans())]
    _add_row(draw, run, made, items, (0, size), tuple(children))
    for span in children:
        _add_row(draw, run, made, items, span, ())


def _add_row(
    draw: st.DrawFn,
    run: Run,
    made: part.Part,
    items: list[Item],
    span: tuple[int, int],
    split_off: tuple[tuple[int, int], ...],
) -> None:
    state = draw(st.sampled_from(["succeeded", "dead", "cancelled"]))
    is_child = not split_off and span != (0, len(items))
    seq = f"{made.seq}.{span[0]:04d}" if is_child or (run.entries and run.entries[-1].seq == made.seq) else made.seq
    gone = {index for start, end in split_off for index in range(start, end)}
    files: list[list[Outcome]] = [[], []]
    for index in (index for index in range(*span) if index not in gone):
        if state == "succeeded" or draw(st.booleans()):
            ending, reason = draw(st.sampled_from(RECORDABLE))
            files[draw(st.integers(0, 1))].append(Outcome(index, items[index].key, ending, AT, reason))
        else:
            run.counts["dead:AccessDenied" if state == "dead" else "cancelled"] += 1
    names = []
    for token, outcomes in enumerate(files):
        if outcomes:
            names.append(keys.outcomes(RUN, f"{RUN}.{seq}", f"token-{token}"))
            run.evidence.files[names[-1]] = outcome.to_lines(outcomes)
            run.counts.update(each.name for each in outcomes)
    reason = "AccessDenied" if state == "dead" else None
    part_key = keys.part(RUN, made.seq, made.sha256)
    run.entries.append(Entry(f"{RUN}.{seq}", seq, state, part_key, made.sha256, *span, split_off, tuple(names), reason))


@given(closed_runs())
def test_books_of_a_run_in_which_every_item_ended_once_balance(run: Run) -> None:
    books = run.compare()
    assert books.problems == []
    assert books.balanced
    assert (books.planned, books.counts) == (run.planned, run.counts)


# What can go wrong: each changes one thing in a run that balances.

Damage = Callable[[st.DataObject, Run], None]


def _file(data: st.DataObject, run: Run) -> str:
    assume(run.outcome_files())
    return data.draw(st.sampled_from(run.outcome_files()))


def _line(data: st.DataObject, run: Run) -> tuple[str, list[bytes], int]:
    file = _file(data, run)
    lines = run.lines(file)
    return file, lines, data.draw(st.integers(0, len(lines) - 1))


def _rewritten(data: st.DataObject, run: Run, **changes: object) -> None:
    file, lines, place = _line(data, run)
    fields = json.loads(lines[place])
    assume(any(fields.get(name) != value for name, value in changes.items()))
    lines[place] = json.dumps(fields | changes).encode() + b"\n"
    run.evidence.files[file] = b"".join(lines)


def an_outcome_is_lost(data: st.DataObject, run: Run) -> None:
    """From a succeeded row: a dead or cancelled one speaks for items without an outcome."""
    file, lines, place = _line(data, run)
    del lines[place]
    run.evidence.files[file] = b"".join(lines)
    for at, entry in enumerate(run.entries):
        if file in entry.outcome_files:
            run.entries[at] = replace(entry, state="succeeded")


def an_outcome_is_doubled(data: st.DataObject, run: Run) -> None:
    file, lines, place = _line(data, run)
    run.evidence.files[file] += lines[place]


def an_outcome_is_of_an_item_that_was_never_planned(data: st.DataObject, run: Run) -> None:
    _rewritten(data, run, index=data.draw(st.sampled_from([-1, 6, 1000])))


def an_outcome_names_another_key(data: st.DataObject, run: Run) -> None:
    _rewritten(data, run, key=data.draw(st.sampled_from(["app/0/0", "app/1/0", "app/elsewhere", ""])))


def an_outcome_is_of_another_item(data: st.DataObject, run: Run) -> None:
    _rewritten(data, run, index=data.draw(st.integers(0, 5)))


def an_ending_is_none_that_is_recorded(data: st.DataObject, run: Run) -> None:
    _rewritten(data, run, outcome=data.draw(st.sampled_from(["dead", "cancelled", "done", ""])))


def a_foreign_file_is_named(data: st.DataObject, run: Run) -> None:
    file = _file(data, run)
    place = data.draw(st.integers(0, len(run.entries) - 1))
    entry = run.entries[place]
    run.entries[place] = replace(entry, outcome_files=(*entry.outcome_files, file))


def an_outcome_file_is_gone(data: st.DataObject, run: Run) -> None:
    del run.evidence.files[_file(data, run)]


def an_outcome_file_is_something_else(data: st.DataObject, run: Run) -> None:
    garbage = data.draw(st.sampled_from([b"\x00\xff", b"{", b"[]\n", b"{}\n", b"1\n", b'{"index":"0"}\n', b"null\n"]))
    run.evidence.files[_file(data, run)] += garbage


def a_part_is_gone(data: st.DataObject, run: Run) -> None:
    del run.evidence.files[data.draw(st.sampled_from(run.entries)).part_key]


def a_part_is_altered(data: st.DataObject, run: Run) -> None:
    part_key = data.draw(st.sampled_from(run.entries)).part_key
    content = bytearray(run.evidence.files[part_key])
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    run.evidence.files[part_key] = bytes(content)


def a_row_is_lost(data: st.DataObject, run: Run) -> None:
    place = data.draw(st.integers(0, len(run.entries) - 1))
    entry = run.entries[place]
    assume(any(each.part == entry.part for each in run.entries if each is not entry))
    gone = {index for start, end in entry.split_off for index in range(start, end)}
    assume(set(range(entry.start, entry.end)) - gone)
    del run.entries[place]


def a_row_is_doubled(data: st.DataObject, run: Run) -> None:
    place = data.draw(st.integers(0, len(run.entries) - 1))
    entry = run.entries[place]
    gone = {index for start, end in entry.split_off for index in range(start, end)}
    assume(set(range(entry.start, entry.end)) - gone)
    run.entries.insert(place, entry)


def a_row_is_open(data: st.DataObject, run: Run) -> None:
    places = [place for place, each in enumerate(run.entries) if each.state != "succeeded" and _implies(run, each)]
    assume(places)
    place = data.draw(st.sampled_from(places))
    state = data.draw(st.sampled_from(["ready", "leased", "succeeded"]))
    run.entries[place] = replace(run.entries[place], state=state)


def _implies(run: Run, entry: Entry) -> bool:
    recorded = sum(len(run.lines(file)) for file in entry.outcome_files)
    gone = {index for start, end in entry.split_off for index in range(start, end)}
    return recorded < len(set(range(entry.start, entry.end)) - gone)


DAMAGES: list[Damage] = [
    an_outcome_is_lost,
    an_outcome_is_doubled,
    an_outcome_is_of_an_item_that_was_never_planned,
    an_outcome_names_another_key,
    an_outcome_is_of_another_item,
    an_ending_is_none_that_is_recorded,
    a_foreign_file_is_named,
    an_outcome_file_is_gone,
    an_outcome_file_is_something_else,
    a_part_is_gone,
    a_part_is_altered,
    a_row_is_lost,
    a_row_is_doubled,
    a_row_is_open,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_books_do_not_balance_when(damage: Damage, data: st.DataObject) -> None:
    run = data.draw(closed_runs())
    damage(data, run)
    books = run.compare()
    assert not books.balanced
    assert books.problem_count >= len(books.problems) > 0


@given(closed_runs())
def test_a_line_of_the_books_reads_as_it_was_written(run: Run) -> None:
    assert [Entry.from_line(entry.to_line().encode()) for entry in run.entries] == run.entries


def test_problems_are_counted_all_and_kept_by_the_hundred() -> None:
    books = Books()
    for n in range(3 * PROBLEMS_KEPT):
        books.problem(f"problem {n}")
    assert (books.problem_count, len(books.problems), books.balanced) == (300, 100, False)

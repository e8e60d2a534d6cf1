"""The books: the set of planned items against the set of outcomes, each exactly once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sexton import part
from sexton.breakdown import UNACCOUNTED
from sexton.errors import EvidenceAltered
from sexton.item import Item
from sexton.job import Job, JobState
from sexton.outcome import Ending, Recorded
from sexton.ports import Evidence
from sexton.reading import read_outcomes

PROBLEMS_KEPT = 100
Tell = Callable[[Item, str, Mapping[str, object]], None]  # an item, its outcome's name, the fields of the outcome line

RECORDED = (Ending.DELETED, Ending.SKIPPED)  # what outcome files hold; the other endings are implied by rows


@dataclass(frozen=True, slots=True)
class Entry:
    """What the books need of a job: a line of the books file."""

    job_id: str
    seq: str
    state: str
    part_key: str
    part_sha256: str
    start: int
    end: int
    split_off: tuple[tuple[int, int], ...]
    outcome_files: tuple[str, ...]
    reason: str | None = None

    @property
    def part(self) -> str:
        """The seq of the part that the job was cut from."""
        return self.seq.split(".")[0]

    def to_line(self) -> str:
        """One line of `books-<revision>.ndjson.gz`."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in fields.items() if value is not None}, separators=(",", ":"))

    @staticmethod
    def from_line(line: bytes) -> Entry:
        """Read what `to_line` wrote. Raises ValueError, KeyError or TypeError when it is none."""
        fields = json.loads(line)
        fields["split_off"] = tuple(tuple(span) for span in fields["split_off"])
        fields["outcome_files"] = tuple(fields["outcome_files"])
        return Entry(**fields)


def entry(job: Job) -> Entry:
    """The job's line in the books."""
    return Entry(
        job.job_id,
        job.seq,
        job.state.value,
        job.part_key,
        job.part_sha256,
        job.start,
        job.end,
        tuple((span.start, span.end) for span in job.split_off),
        job.outcome_files,
        job.reason if job.state is JobState.DEAD else None,
    )


@dataclass
class Books:
    """What comparing came to; `counts` are by outcome name: `deleted`, `skipped:changed`, `dead:AccessDenied`."""

    counts: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    @property
    def recorded(self) -> Counter[str]:
        """The counts of what outcome files hold."""
        return Counter({name: number for name, number in self.counts.items() if _ending(name) in RECORDED})

    @property
    def balanced(self) -> bool:
        """Whether every planned item ended exactly once, and nothing else did."""
        return self.problem_count == 0

    def problem(self, text: str) -> None:
        """Note what does not balance; the first hundred are kept in words."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(text)


def compare(evidence: Evidence, entries: Iterable[Entry], tell: Tell | None = None) -> Books:
    """Compare part by part, in order; memory holds one part at a time. Entries come in order of seq.

    `tell` is told of every item of a part that can be read, once, in the plan's order.
    """
    books = Books()
    for seq, jobs in groupby(entries, key=lambda each: each.part):
        _compare_part(evidence, seq, list(jobs), books, tell)
    return books


def _compare_part(evidence: Evidence, seq: str, jobs: list[Entry], books: Books, tell: Tell | None) -> None:
    try:
        lines = evidence.get(jobs[0].part_key)
        if lines is None:
            raise EvidenceAltered(f"the part {jobs[0].part_key} is gone")
        items = part.read(lines, jobs[0].part_sha256)
        ends = list(_ends(evidence, jobs))
    except (EvidenceAltered, ValueError, KeyError) as error:
        books.problem(f"part {seq}: {error}")
        return
    books.planned += len(items)
    seen: Counter[int] = Counter()
    for end in ends:
        seen[end.index] += 1
        books.counts[end.name] += 1
        if not 0 <= end.index < len(items):
            books.problem(f"part {seq}: an outcome for item {end.index}, which was never planned")
        elif items[end.index].id != end.id:
            what = "version" if items[end.index].key == end.key else "key"
            books.problem(f"part {seq}: the outcome for item {end.index} names another {what}")
        elif _ending(end.name) not in RECORDED:
            books.problem(f"part {seq}: the outcome for item {end.index} is none that is ever recorded")
    implied = list(_implied(jobs, seen))  # all of them before any is counted: two rows must not share one
    for index, name in implied:
        seen[index] += 1
        books.counts[name] += 1
    for index in range(len(items)):
        if seen[index] != 1:
            books.problem(f"part {seq}: item {index} has {seen[index]} outcomes")
    if tell is not None:
        _tell(tell, items, ends, implied)


def _tell(tell: Tell, items: list[Item], ends: list[Recorded], implied: list[tuple[int, str]]) -> None:
    recorded, by_row = {end.index: end for end in ends}, dict(implied)
    for index, item in enumerate(items):
        end = recorded.get(index)
        tell(item, end.name if end else by_row.get(index, UNACCOUNTED), end.fields if end else {})


def _ending(name: str) -> str:
    return name.partition(":")[0]


def _ends(evidence: Evidence, jobs: list[Entry]) -> Iterator[Recorded]:
    """Every recorded outcome once: a child names only its own files."""
    for job in jobs:
        for file in job.outcome_files:
            yield from read_outcomes(evidence, file)


def _implied(jobs: list[Entry], recorded: Counter[int]) -> Iterator[tuple[int, str]]:
    """What rows imply: items of a dead or cancelled job without an outcome or a row of their own."""
    for job in jobs:
        if job.state not in (JobState.DEAD.value, JobState.CANCELLED.value):
            continue
        ending = Ending.DEAD if job.state == JobState.DEAD.value else Ending.CANCELLED
        name = f"{ending}:{job.reason}" if job.reason else str(ending)
        gone = {index for start, end in job.split_off for index in range(start, end)}
        for index in range(job.start, job.end):
            if index not in gone and not recorded[index]:
                yield index, name

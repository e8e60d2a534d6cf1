"""Runs that have left the ledger: what became of an item, from evidence alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sexton import keys, plan
from sexton.books import Entry
from sexton.errors import EvidenceAltered
from sexton.fate import OPEN, Fate, Implied
from sexton.item import Item
from sexton.job import JobState
from sexton.outcome import Ending
from sexton.plan import Plan, PlannedPart
from sexton.ports import Evidence
from sexton.reading import read_outcomes
from sexton.run import RunState

IMPLIED = {JobState.DEAD.value: Ending.DEAD.value, JobState.CANCELLED.value: Ending.CANCELLED.value}


def run_ids(evidence: Evidence, policy: str) -> Iterator[str]:
    """The runs of a policy whose plan is in evidence."""
    for key in evidence.list(f"runs/{policy}."):
        run_id = key.split("/")[1]
        if key == keys.plan(run_id):
            yield run_id


def newest_revision(evidence: Evidence, run_id: str) -> int | None:
    """The latest revision of which a report stands in evidence; books without one are of a closing that crashed."""
    found = (key.rsplit("/", 1)[-1] for key in evidence.list(f"runs/{run_id}/report-"))
    numbers = [name.removeprefix("report-").removesuffix(".json") for name in found]
    return max((int(number) for number in numbers if number.isdigit()), default=None)


def read_books(evidence: Evidence, run_id: str, revision: int) -> list[Entry]:
    """The books of a closing. Raises EvidenceAltered when they are gone, or are none."""
    key = keys.books(run_id, revision)
    lines = evidence.get(key)
    if lines is None:
        raise EvidenceAltered(f"{key}: the books are gone")
    try:
        return [Entry.from_line(text) for text in lines.splitlines()]
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceAltered(f"{key}: a line is no entry of the books ({type(error).__name__})") from error


def read_report(evidence: Evidence, run_id: str, revision: int) -> dict[str, Any]:
    """The report of a closing. Raises EvidenceAltered when it cannot be read."""
    key = keys.report(run_id, revision)
    try:
        return dict(json.loads(evidence.get(key) or b""))
    except (ValueError, TypeError) as error:
        raise EvidenceAltered(f"{key}: the report cannot be read") from error


def fates(evidence: Evidence, planned: Plan, key: str) -> Iterator[Fate]:
    """What the run did with the key, one for each version that it had planned. Raises EvidenceAltered."""
    for found in planned.parts:
        if found.first_key <= key <= found.last_key:
            for index, item in enumerate(plan.read_part(evidence, found)):
                if item.key == key:
                    yield _fate(evidence, planned, found, index, item)


def _fate(evidence: Evidence, planned: Plan, found: PlannedPart, index: int, item: Item) -> Fate:
    revision = newest_revision(evidence, planned.run_id)
    report = read_report(evidence, planned.run_id, revision) if revision else {}
    entries = read_books(evidence, planned.run_id, revision) if revision else []
    here = [entry for entry in entries if entry.part == found.seq]
    entry, found_there = _recorded(evidence, here, index)
    entry = entry or next((each for each in here if _answers_for(each, index)), None)
    return Fate.of(
        planned,
        item,
        found_there,
        Implied(IMPLIED.get(entry.state, OPEN), entry.reason) if entry else Implied(OPEN),
        run_state=str(report.get("state", RunState.PLANNED)),
        job_id=entry.job_id if entry else f"{planned.run_id}.{found.seq}",
        index=index,
    )


def recorded(evidence: Evidence, files: Iterable[str], index: int) -> Mapping[str, Any]:
    """What outcome files say of one item of their part; empty where none has it. Raises EvidenceAltered."""
    lines = (line for file in files for line in read_outcomes(evidence, file))
    return next((line.fields for line in lines if line.index == index), {})


def _recorded(evidence: Evidence, entries: list[Entry], index: int) -> tuple[Entry | None, Mapping[str, Any]]:
    """The recorded outcome of an item, with the job whose file has it."""
    found = ((entry, recorded(evidence, entry.outcome_files, index)) for entry in entries)
    return next(((entry, fields) for entry, fields in found if fields), (None, {}))


def _answers_for(entry: Entry, index: int) -> bool:
    gone = any(start <= index < end for start, end in entry.split_off)
    return entry.start <= index < entry.end and not gone

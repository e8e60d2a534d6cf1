"""What tests see of a world: its jobs, and how each planned item ended, read from rows and evidence alone."""

from __future__ import annotations

import json
from collections import Counter

from sexton.job import Job, JobState, job_key

from tests.fakes.world import World

FIRST = "00000000"  # the first part's job


def job(world: World, run_id: str, seq: str = FIRST) -> Job:
    """The job as of now."""
    found = world.ledger.job(job_key(run_id, seq))
    assert found is not None, f"no job {seq}"
    return found


def states(world: World, run_id: str) -> dict[str, str]:
    """The state of every job by seq."""
    return {each.seq: each.state.value for each in world.ledger.jobs(run_id)}


def ends(world: World, run_id: str) -> dict[str, list[str]]:
    """Every planned item with every outcome that it has: one each, if all is well. A version is named `key?id`.

    This does not use the code that balances the books.
    """
    found: dict[str, list[str]] = {}
    for each in world.ledger.jobs(run_id):
        keys = [named(line) for line in _lines(world, each.part_key)]
        for key in keys:
            found.setdefault(key, [])
        for line in _outcomes(world, each.outcome_files):
            found[named(line)].append(_name(line["outcome"], line.get("reason")))
        if each.state not in (JobState.DEAD, JobState.CANCELLED):
            continue
        told = {line["index"] for line in _outcomes(world, each.files)}
        implied = _name(each.state, each.reason if each.state is JobState.DEAD else None)
        for index in set(each.indexes()) - told:
            found[keys[index]].append(implied)
    return found


def named(line: dict[str, str]) -> str:
    """How an item is named here, from its line in a part or in an outcome file."""
    return f"{line['key']}?{line['version_id']}" if "version_id" in line else line["key"]


def tally(world: World, run_id: str) -> dict[str, int]:
    """How many planned items ended under each name; fails unless each ended once."""
    found = ends(world, run_id)
    several = {key: names for key, names in found.items() if len(names) != 1}
    assert not several, several
    return dict(Counter(names[0] for names in found.values()))


def _lines(world: World, file: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in world.evidence.files[file].splitlines()]


def _outcomes(world: World, files: tuple[str, ...]) -> list[dict[str, str]]:
    return [line for file in files for line in _lines(world, file)]


def _name(ending: str, reason: str | None) -> str:
    return f"{ending}:{reason}" if reason else ending

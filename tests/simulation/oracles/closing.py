"""A closed run accounts for each planned item once, and says of each what really became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from sexton.table import Row

from tests.fakes.evidence import FakeEvidence
from tests.fakes.table import FakeTable
from tests.simulation.effects import Changed, Effect
from tests.simulation.oracles.plans import Plan, Planned, Plans
from tests.simulation.oracles.removals import Removals
from tests.simulation.oracles.rows import is_job, is_run
from tests.simulation.oracles.store import Identity
from tests.simulation.violation import Violation

# Outcomes that may be of something that the run did remove: the reply was lost, and others came after it.
MAYBE = ("skipped:changed_after_attempt", "deleted:absent_after_attempt", "dead:effect_unknown")


class Closing:
    """Compares the ledger and evidence of closed runs and dead jobs with what the buckets really lost."""

    def __init__(self, plans: Plans, removals: Removals, table: FakeTable, evidence: FakeEvidence) -> None:
        self.plans, self.removals, self.table, self.evidence = plans, removals, table, evidence

    def saw(self, effect: Effect) -> None:
        """Judge a job that dies and a run that closes."""
        for changed in effect.changed:
            if is_job(changed.key) and changed.new["state"] == "dead" and not _was(changed, "dead"):
                self._died(changed.new)
            elif is_run(changed.key) and "closed_at" in changed.new and "closed_at" not in (changed.old or {}):
                self._closed(changed.new)

    def _died(self, row: Row) -> None:
        """What is dead was not removed: an effect that is unknown was looked for first."""
        removed = self.removals.by_run.get(row["run_id"], Counter[Identity]())
        if row["reason"] == "effect_unknown":
            return
        for planned in self._open(row):
            if removed[planned.identity] and not self._taken_back(row["run_id"], planned):
                raise Violation(f"{row['job_id']} is dead, and {planned.thing.key!r} of it was removed")

    def _taken_back(self, run_id: str, planned: Planned) -> bool:
        """Whether somebody has brought it back: then it is there again, whatever was done before."""
        rule = self.plans.of_run[run_id].rule
        return not rule.atomic and (rule.bucket, planned.thing.key) in self.plans.store.undone

    def _open(self, row: Row) -> Iterator[Planned]:
        plan = self.plans.of_run[row["run_id"]]
        ended = {index for file in _files(row) for index, _ in self._outcomes(file)}
        gone = {index for span in row.get("split_off", ()) for index in range(span["start"], span["end"])}
        for index in range(row["start"], row["end"]):
            if index not in ended | gone:
                yield plan.places[row["seq"].split(".")[0], index]

    def _outcomes(self, file: str) -> list[tuple[int, str]]:
        """Index and name of each line of an outcome file."""
        lines = [json.loads(line) for line in self.evidence.files[file].splitlines()]
        return [(line["index"], f"{line['outcome']}:{line.get('reason', '')}".rstrip(":")) for line in lines]

    def _closed(self, run: Row) -> None:
        plan = self.plans.of_run[run["run_id"]]
        jobs = [row for key, row in self.table.rows.items() if is_job(key) and row["run_id"] == run["run_id"]]
        still = sorted(row["job_id"] for row in jobs if row["state"] in ("ready", "leased"))
        if still:
            raise Violation(f"{run['run_id']} is closed, and {', '.join(still)} open")
        if not run["balanced"]:
            raise Violation(f"{run['run_id']} is closed and its books do not balance: {self._problems(run)}")
        self._each_once(plan, jobs)

    def _problems(self, run: Row) -> object:
        report = self.evidence.files.get(f"runs/{run['run_id']}/report-{run['report_revision']}.json", b"{}")
        return json.loads(report).get("problems")

    def _each_once(self, plan: Plan, jobs: list[Row]) -> None:
        names: dict[tuple[str, int], list[str]] = {}
        for row in sorted(jobs, key=lambda each: str(each["seq"])):
            part = row["seq"].split(".")[0]
            for file in row.get("outcome_files", ()):
                for index, name in self._outcomes(file):
                    names.setdefault((part, index), []).append(name)
            if row["state"] in ("dead", "cancelled"):
                reason = f":{row['reason']}" if row["state"] == "dead" else ""
                for planned in self._open(row):
                    names.setdefault((part, planned.index), []).append(row["state"] + reason)
        removed = self.removals.by_run.get(plan.run_id, Counter[Identity]())
        for place, planned in plan.places.items():
            found = names.pop(place, [])
            if len(found) != 1:
                raise Violation(f"{plan.run_id} closed with {len(found)} outcomes of {planned.thing.key!r}: {found}")
            if not self._taken_back(plan.run_id, planned):
                _true(plan, planned, found[0], removed)
        if names:
            raise Violation(f"{plan.run_id} has outcomes of items that were never planned: {sorted(names)}")


def _true(plan: Plan, planned: Planned, name: str, removed: Mapping[Identity, int]) -> None:
    """The outcome is what happened. Of records that is certain, whatever was killed or lost."""
    did, said = bool(removed.get(planned.identity)), name == "deleted"
    if said and not did and plan.rule.wanted is None and planned.thing.version_id:
        return  # S3 says of a version that is gone already that it was removed
    if (did != said and name not in MAYBE) or (plan.rule.atomic and name in MAYBE):
        became = "removed it" if did else "did not remove it"
        raise Violation(f"{plan.run_id} says {name} of {planned.thing.key!r} and {became}")


def _files(row: Row) -> list[str]:
    return [*row.get("inherited_files", ()), *row.get("outcome_files", ())]


def _was(changed: Changed, state: str) -> bool:
    return changed.old is not None and changed.old["state"] == state

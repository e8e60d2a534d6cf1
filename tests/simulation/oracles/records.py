"""A record goes in the transaction that says so, as it was judged, and never otherwise."""

from __future__ import annotations

import json
from collections import Counter

from sexton.table import Row

from tests.fakes.evidence import FakeEvidence
from tests.simulation.boundary import Changed, Effect, Touched
from tests.simulation.oracles.plans import Plan, Planned
from tests.simulation.oracles.removals import Removals
from tests.simulation.oracles.rows import is_job, is_run
from tests.simulation.violation import Violation


class RecordRemovals:
    """Watches the tables with records, and what settlements say of them; `removals` knows what is forbidden."""

    def __init__(self, removals: Removals, evidence: FakeEvidence) -> None:
        self.removals, self.plans, self.evidence = removals, removals.plans, evidence

    def saw(self, effect: Effect) -> None:
        """Effect and record are one: what a settlement says was deleted goes with it, and nothing else goes."""
        jobs = [changed for changed in effect.changed if is_job(changed.key) and changed.old is not None]
        settled = [each for each in jobs if self.plans.of_run[each.new["run_id"]].rule.wanted is not None]
        said = {(job.new["job_id"], index): key for job in settled for index, key in self._said(job)}
        keys = Counter(said.values())
        if keys != Counter(touched.key for touched in effect.touched):
            did = sorted(touched.key for touched in effect.touched)
            raise Violation(f"{effect.task.name} says deleted of {sorted(keys)} and, with that, removed {did}")
        touched = {each.key: each for each in effect.touched}
        for job in settled:
            for index, key in self._said(job):
                self._removed(effect, job, index, touched[key])

    def _said(self, job: Changed) -> list[tuple[int, str]]:
        """Index and key of each line that a settlement brings and that says deleted."""
        before = set((job.old or {}).get("outcome_files", ()))
        files = [file for file in job.new.get("outcome_files", ()) if file not in before]
        lines = [json.loads(line) for file in files for line in self.evidence.files[file].splitlines()]
        return [(line["index"], line["key"]) for line in lines if line["outcome"] == "deleted"]

    def _removed(self, effect: Effect, job: Changed, index: int, touched: Touched) -> None:
        what, row = f"{effect.task.name} removed {touched.key}", job.new
        plan = self.plans.of_run[row["run_id"]]
        planned = plan.places.get((row["seq"].split(".")[0], index))
        if planned is None or not row["start"] <= index < row["end"] or planned.thing.key != touched.key:
            raise Violation(f"{what}, which is not of {row['job_id']}")
        if (job.key, (job.old or {}).get("lease_token")) not in effect.task.leases:
            raise Violation(f"{what} without a lease on {row['job_id']}")
        self.removals.allowed(effect, what, self._run(row), f"dynamodb://{touched.table}/{touched.key}")
        _as_judged(plan, planned, touched, what)
        removed = self.removals.by_run.setdefault(plan.run_id, Counter())
        removed[planned.identity] += 1
        if removed[planned.identity] > 1:
            raise Violation(f"{what} a second time")

    def _run(self, job: Row) -> Row:
        rows = self.removals.table.rows
        return next(row for key, row in rows.items() if is_run(key) and row["run_id"] == job["run_id"])


def _as_judged(plan: Plan, planned: Planned, touched: Touched, what: str) -> None:
    """It was due in its last state, one that the policy means, and what was planned."""
    wanted, record = plan.rule.wanted, touched.before
    if wanted is None or record is None or touched.table != plan.rule.bucket:
        raise Violation(f"{what} of {touched.table}, and there was none to remove")
    due = wanted.deadline(record)
    if due is None:
        raise Violation(f"{what}, whose deadline nobody can read: {record.get('deadline')}")
    if due >= plan.cutoff:
        raise Violation(f"{what}, which is due {due}; the cutoff is {plan.cutoff}")
    if not wanted.means(record, plan.cutoff):
        raise Violation(f"{what}, which is not what the policy means: {record}")
    seen = json.loads(planned.thing.etag)
    changed = [name for name, value in wanted.rests_on(record).items() if seen.get(name) != value]
    if changed:
        raise Violation(f"{what}, and {', '.join(changed)} had changed since it was planned")

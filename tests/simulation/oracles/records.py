"""A record goes in the transaction that says so, as it was judged, and never otherwise; elsewhere, as objects do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sexton.table import Row

from tests.fakes.evidence import FakeEvidence
from tests.simulation.effects import BY_CALL, FROM_TABLES, Changed, Effect, Touched
from tests.simulation.oracles.plans import Plan, Planned
from tests.simulation.oracles.removals import Removals
from tests.simulation.oracles.rows import is_job
from tests.simulation.reminders import Record
from tests.simulation.violation import Violation


class RecordRemovals:
    """Watches the tables with records, and what settlements say of them; `removals` knows what is forbidden."""

    def __init__(self, removals: Removals, evidence: FakeEvidence) -> None:
        self.removals, self.plans, self.evidence = removals, removals.plans, evidence
        self._archived: dict[tuple[str, str, str | None], Record] = {}  # by run, key and deadline

    def saw(self, effect: Effect) -> None:
        """Judge what went, and whether effect and record are one where they can be."""
        if effect.name == FROM_TABLES:
            for touched in effect.touched:
                self._removed_alone(effect, touched)
        elif effect.name != BY_CALL and (effect.touched or effect.changed):
            self._are_one(effect)

    def _are_one(self, effect: Effect) -> None:
        """What a settlement says was deleted goes with it, and nothing else goes."""
        jobs = [job for job in effect.changed if is_job(job.key) and job.old is not None and self._atomic(job)]
        said = [(job, line) for job in jobs for line in self._said(job)]
        keys, did = sorted(str(line["key"]) for _, line in said), sorted(touched.key for touched in effect.touched)
        if keys != did:
            raise Violation(f"{effect.task.name} says deleted of {keys} and, with that, removed {did}")
        touched = {each.key: each for each in effect.touched}
        for job, line in said:
            self._changed(effect, job, line, touched[str(line["key"])])

    def _atomic(self, job: Changed) -> bool:
        return self.plans.of_run[job.new["run_id"]].rule.atomic

    def _said(self, job: Changed) -> list[dict[str, Any]]:
        """The lines that a settlement brings and that say deleted."""
        before = set((job.old or {}).get("outcome_files", ()))
        files = [file for file in job.new.get("outcome_files", ()) if file not in before]
        lines = [json.loads(line) for file in files for line in self.evidence.files[file].splitlines()]
        return [line for line in lines if line["outcome"] == "deleted"]

    def _changed(self, effect: Effect, job: Changed, line: Mapping[str, Any], touched: Touched) -> None:
        what, row, index = f"{effect.task.name} removed {touched.key}", job.new, line["index"]
        plan = self.plans.of_run[row["run_id"]]
        planned = plan.places.get((row["seq"].split(".")[0], index))
        if planned is None or not row["start"] <= index < row["end"] or planned.thing.key != touched.key:
            raise Violation(f"{what}, which is not of {row['job_id']}")
        if (job.key, (job.old or {}).get("lease_token")) not in effect.task.leases:
            raise Violation(f"{what} without a lease on {row['job_id']}")
        if plan.undoes is not None:
            self._put_back(effect, plan, row, planned, touched, what)
            return
        self._judge(effect, row, planned, touched, what)
        if plan.rule.wanted is not None and plan.rule.wanted.does == "archive" and touched.before is not None:
            self._is_archived(plan, planned, line.get("archive"), touched.before, what)

    def _is_archived(self, plan: Plan, planned: Planned, file: str | None, record: Record, what: str) -> None:
        """What goes is what stands in evidence, whole."""
        lines = [json.loads(line) for line in self.evidence.files.get(file or "", b"").splitlines()]
        kept = next((line["record"] for line in lines if line["key"] == planned.thing.key), None)
        if kept != record:
            raise Violation(f"{what}, and archived {kept} of it: it was {record}")
        self._archived[plan.run_id, planned.thing.key, planned.thing.version_id] = record
        self.removals.store.placed.setdefault(plan.run_id, set()).add(planned.thing.identity)

    def _put_back(self, effect: Effect, plan: Plan, job: Row, planned: Planned, touched: Touched, what: str) -> None:
        """An undo puts back what its run archived, where nothing is."""
        archived = self._archived.get((str(plan.undoes), planned.thing.key, planned.thing.version_id))
        if touched.before is not None or touched.after != archived:
            raise Violation(f"{what} to undo {plan.undoes}: {touched}; archived was {archived}")
        self.removals.allowed(effect, what, self.removals.run_of(job), f"dynamodb://{touched.table}/{touched.key}")
        self.removals.count(plan, planned, what, self._again(plan, touched))

    def _again(self, plan: Plan, touched: Touched) -> bool:
        return not plan.rule.atomic and (touched.table, touched.key) in self.removals.store.undone

    def called_for(self, job: Row, planned: Planned, touched: Touched, what: str) -> None:
        """What the application removed, because it was asked to, was due in its last state."""
        plan = self.plans.of_run[job["run_id"]]
        _was_due(plan, touched, what)
        self.removals.count(plan, planned, what, self._again(plan, touched))

    def _removed_alone(self, effect: Effect, touched: Touched) -> None:
        what = f"{effect.task.name} removed {touched.key}"
        held = self.removals.held(effect, what)
        for job in held:
            plan = self.plans.of_run[job["run_id"]]
            for planned in plan.places.values():
                mine = planned.seq == job["seq"].split(".")[0] and job["start"] <= planned.index < job["end"]
                if mine and planned.thing.key == touched.key and not _changes(plan, planned, touched):
                    self.removals.in_time(effect, job, what)
                    self._judge(effect, job, planned, touched, what)
                    return
        raise Violation(f"{what}, which, as it was, is not of {', '.join(job['job_id'] for job in held)}")

    def _judge(self, effect: Effect, job: Row, planned: Planned, touched: Touched, what: str) -> None:
        plan = self.plans.of_run[job["run_id"]]
        self.removals.allowed(effect, what, self.removals.run_of(job), f"dynamodb://{touched.table}/{touched.key}")
        _as_judged(plan, planned, touched, what)
        self.removals.count(plan, planned, what, self._again(plan, touched))


def _as_judged(plan: Plan, planned: Planned, touched: Touched, what: str) -> None:
    """It was due in its last state, one that the policy means, and what was planned."""
    _was_due(plan, touched, what)
    wanted, record = plan.rule.wanted, touched.before
    if wanted is None or record is None or not wanted.means(record, plan.cutoff):
        raise Violation(f"{what}, which is not what the policy means: {record}")
    changes = _changes(plan, planned, touched)
    if changes:
        raise Violation(f"{what}, and {', '.join(changes)} had changed since it was planned")


def _was_due(plan: Plan, touched: Touched, what: str) -> None:
    wanted, record = plan.rule.wanted, touched.before
    if wanted is None or record is None or touched.table != plan.rule.bucket:
        raise Violation(f"{what} of {touched.table}, and there was none to remove")
    if touched.after != wanted.after(record):
        raise Violation(f"{what}, and made it {touched.after}")
    due = wanted.deadline(record)
    if due is None:
        raise Violation(f"{what}, whose deadline nobody can read: {record.get('deadline')}")
    if due >= plan.cutoff:
        raise Violation(f"{what}, which is due {due}; the cutoff is {plan.cutoff}")


def _changes(plan: Plan, planned: Planned, touched: Touched) -> list[str]:
    """What a record was judged by and is other than planned."""
    seen, wanted = json.loads(planned.thing.etag), plan.rule.wanted
    now = wanted.rests_on(touched.before) if wanted and touched.before is not None else {}
    return [name for name, value in now.items() if seen.get(name) != value]

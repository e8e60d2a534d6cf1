"""A plan is what the policy meant, all of it, and nothing else; and it stays as it was written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime

from sexton.instant import from_ms
from sexton.table import Row

from tests.fakes.evidence import FakeEvidence
from tests.simulation.effects import Changed, Effect
from tests.simulation.oracles.rows import is_job, is_run
from tests.simulation.oracles.store import Identity, Store, Thing
from tests.simulation.scenario import Rule
from tests.simulation.violation import Violation


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned item: where it stands in the plan, and what it was."""

    seq: str
    index: int
    thing: Thing
    identity: Identity  # within the plan; a record can stand in it twice


@dataclass
class Plan:
    """One run's plan as its parts and rows made it."""

    run_id: str
    rule: Rule
    cutoff: datetime
    all_along: set[Thing] = field(default_factory=set)  # what has been meant ever since the run was created
    items: dict[Identity, Planned] = field(default_factory=dict)
    places: dict[tuple[str, int], Planned] = field(default_factory=dict)
    undoes: str | None = None


class Plans:
    """Watches runs being created and planned, and evidence being written."""

    def __init__(self, store: Store, evidence: FakeEvidence, rules: dict[str, Rule]) -> None:
        self.store, self.evidence, self.rules = store, evidence, rules
        self.of_run: dict[str, Plan] = {}
        self._planning: dict[str, Plan] = {}
        self._written: dict[str, bytes] = {}

    def saw(self, effect: Effect) -> None:
        """Judge a new run, a new part, a complete plan."""
        if effect.name == "evidence.put_once":
            self._evidence_stays(effect)
        for changed in effect.changed:
            if is_run(changed.key) and changed.old is None:
                self._created(changed.new)
            elif is_job(changed.key) and changed.old is None and "." not in changed.new["seq"]:
                self._part(changed.new)
            elif is_run(changed.key) and changed.new["state"] == "planned" and not _was(changed, "planned"):
                self._complete(changed.new)

    def _evidence_stays(self, effect: Effect) -> None:
        key = str(effect.call.args[0])
        content = self.evidence.files.get(key)
        if content is not None and self._written.setdefault(key, content) != content:
            raise Violation(f"{effect.task.name} overwrote {key}")

    def _created(self, row: Row) -> None:
        rule = self.rules[row["policy_version"]]
        cutoff = rule.cutoff(from_ms(row["scheduled_time"]))
        if from_ms(row["cutoff"]) != cutoff:
            raise Violation(f"{row['run_id']} has the cutoff {from_ms(row['cutoff'])}, its rule says {cutoff}")
        plan = Plan(row["run_id"], rule, cutoff, undoes=row.get("undoes"))
        if plan.undoes is None:
            plan.all_along = set(self.store.meant(rule, cutoff))
        self.of_run[plan.run_id] = self._planning[plan.run_id] = plan

    def looked(self) -> None:
        """Forget, of what the plans in the making must hold, all that is not there now."""
        for plan in self._planning.values():
            plan.all_along.intersection_update(self.store.meant(plan.rule, plan.cutoff))

    def _part(self, row: Row) -> None:
        plan = self.of_run[row["run_id"]]
        lines = self.evidence.files.get(row["part_key"], b"").splitlines()
        if len(lines) != row["count"]:
            raise Violation(f"{row['job_id']} has {row['count']} items, its part {len(lines)}")
        for index, line in enumerate(lines):
            planned = _planned(plan.rule, row["seq"], index, _read(line))
            if planned.identity in plan.items:
                raise Violation(f"{row['job_id']} plans {planned.thing.key!r} once more")
            plan.items[planned.identity] = plan.places[row["seq"], index] = planned
            self._is_meant(plan, planned.thing)

    def _is_meant(self, plan: Plan, thing: Thing) -> None:
        if plan.undoes is not None:
            if thing.identity not in self.store.placed.get(plan.undoes, ()):
                raise Violation(f"{plan.run_id} plans a marker of {thing.key!r} that {plan.undoes} did not place")
            return
        rule = plan.rule
        since: datetime | None = thing.written
        if rule.kind == "versions":
            since = self.store.noncurrent.get((rule.bucket, thing.key, thing.version_id or ""))
        if rule.wanted is not None:
            since = rule.wanted.deadline(json.loads(thing.etag))
        if since is None or since >= plan.cutoff or not thing.key.startswith(rule.prefix):
            raise Violation(f"{plan.run_id} plans {thing.key!r} of {since}, its cutoff is {plan.cutoff}")

    def _complete(self, row: Row) -> None:
        """What was meant from beginning to end of the planning is in the plan."""
        plan = self.of_run[row["run_id"]]
        self.looked()
        meant = self._planning.pop(row["run_id"]).all_along
        there = {planned.thing.identity for planned in plan.items.values()}
        missing = sorted(thing.key for thing in meant if thing.identity not in there)
        if missing or row["planned"] != len(plan.items):
            raise Violation(f"{row['run_id']} is planned with {row['planned']} items; not in the plan: {missing}")


def _was(changed: Changed, state: str) -> bool:
    return changed.old is not None and changed.old["state"] == state


def _planned(rule: Rule, seq: str, index: int, thing: Thing) -> Planned:
    identity = thing.identity if rule.wanted is None else (thing.key, f"{seq}#{index}")
    return Planned(seq, index, thing, identity)


def _read(line: bytes) -> Thing:
    fields = json.loads(line)
    written = fields["last_modified"]
    return Thing(
        fields["key"], fields.get("version_id"), fields["etag"], datetime.fromisoformat(written) if written else None
    )

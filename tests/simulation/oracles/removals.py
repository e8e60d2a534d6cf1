"""Nothing goes but what the plan names, from the hand that holds the lease, while nothing forbids it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from sexton.instant import from_ms
from sexton.table import Row

from tests.fakes.table import FakeTable
from tests.simulation.effects import Effect, Gone
from tests.simulation.oracles.plans import Plan, Planned, Plans
from tests.simulation.oracles.rows import is_run
from tests.simulation.oracles.store import Identity, Store
from tests.simulation.violation import Violation

GAP = timedelta(seconds=30)  # from a look to its effect: ten seconds, a call's longest time, and a clock that is wrong
OBEYED_WITHIN = timedelta(seconds=30)
AT_WORK = ("dispatching", "draining")


class Removals:
    """Watches the buckets. `by_run` counts what each run really removed."""

    def __init__(self, store: Store, plans: Plans, table: FakeTable) -> None:
        self.store, self.plans, self.table = store, plans, table
        self.by_run: dict[str, Counter[Identity]] = {}
        self._stopped: dict[str, datetime] = {}  # runs that are not at work any more, and since when
        self._paused: dict[str, datetime] = {}  # the same of scopes
        self._held: dict[str, datetime] = {}

    def saw(self, effect: Effect) -> None:
        """Judge each thing that went, and remember what may not be done from now on."""
        for changed in effect.changed:
            if is_run(changed.key):
                _since(self._stopped, changed.new["run_id"], changed.new["state"] not in AT_WORK, effect.at)
            elif changed.key.sk.startswith("PAUSE#"):
                _since(self._paused, changed.new["scope"], changed.new["paused"], effect.at)
            elif changed.key.sk.startswith("HOLD#"):
                _since(self._held, changed.new["scope"], changed.new["active"], effect.at)
        for gone in effect.gone:
            self._removed(effect, gone)

    def _removed(self, effect: Effect, gone: Gone) -> None:
        what = f"{effect.task.name} removed {gone.key!r}"
        run = self._run_in_hand(effect, gone, what)
        self.allowed(effect, what, run, f"s3://{self.store.name_of(effect.service)}/{gone.key}")
        plan = self.plans.of_run[run["run_id"]]
        planned = plan.items[_identity(plan, gone)]
        if plan.undoes is not None:
            self._taken_back(effect, plan, gone, what)
        else:
            self._as_planned(effect, plan, planned, gone, what)
        if gone.marker is not None:
            self.store.placed.setdefault(plan.run_id, set()).add((gone.key, gone.marker.id))
        again = (plan.rule.bucket, gone.key) in self.store.undone
        self.count(plan, planned, what, again)

    def count(self, plan: Plan, planned: Planned, what: str, again: bool = False) -> None:
        """A run removes each of its items once, and `again` only what somebody brought back."""
        removed = self.by_run.setdefault(plan.run_id, Counter())
        removed[planned.identity] += 1
        if removed[planned.identity] > 1 and not again:
            raise Violation(f"{what} a second time")

    def _run_in_hand(self, effect: Effect, gone: Gone, what: str) -> Row:
        """The run whose job, of those that the task holds, names what went."""
        held = self.held(effect, what)
        job = next((job for job in held if self._names(job, effect.service, gone)), None)
        if job is None:
            raise Violation(f"{what}, which is not of {', '.join(job['job_id'] for job in held)}")
        self.in_time(effect, job, what)
        return self.run_of(job)

    def held(self, effect: Effect, what: str) -> list[Row]:
        """The jobs that the task holds, at least one."""
        held = [self.table.rows[key] for key, token in effect.task.leases if _holds(self.table.rows[key], token)]
        if effect.task.kind != "worker" or not held:
            raise Violation(f"{what} without a lease")
        return held

    def in_time(self, effect: Effect, job: Row, what: str) -> None:
        """Its lease has not expired."""
        if from_ms(job["lease_expires_at"]) <= effect.at:
            raise Violation(f"{what} under a lease on {job['job_id']} that had expired")

    def run_of(self, job: Row) -> Row:
        """The run's row."""
        runs = (row for key, row in self.table.rows.items() if is_run(key) and row["run_id"] == job["run_id"])
        return next(runs)

    def _names(self, job: Row, bucket: object, gone: Gone) -> bool:
        """Whether what went is in the job's range of the plan."""
        plan = self.plans.of_run[job["run_id"]]
        planned = plan.items.get(_identity(plan, gone))
        here = plan.rule.bucket == self.store.name_of(bucket)
        return (
            here
            and planned is not None
            and (planned.seq == job["seq"].split(".")[0] and job["start"] <= planned.index < job["end"])
        )

    def allowed(self, effect: Effect, what: str, run: Row, address: str) -> None:
        """The run may remove, and nobody has stopped it, or keeps the place, for longer than is promised."""
        if run["mode"] != "enforce":
            raise Violation(f"{what} for {run['run_id']}, which only reports")
        undoes = "undoes" in run
        if effect.task.versions.get(run["policy"]) != run["policy_version"] and not undoes:
            raise Violation(f"{what} for {run['run_id']} under another policy version than is deployed")
        stops = [self._stopped.get(run["run_id"])]
        stops += [self._paused.get(scope) for scope in (run["policy"], "all")]
        if not undoes:
            stops += [since for scope, since in self._held.items() if address.startswith(scope)]
        late = [since for since in stops if since is not None and effect.at - since > OBEYED_WITHIN]
        if late:
            raise Violation(f"{what} {effect.at - late[0]} after it was stopped, paused or held ({run['run_id']})")

    def _as_planned(self, effect: Effect, plan: Plan, planned: Planned, gone: Gone, what: str) -> None:
        """It is what was planned; what S3 cannot compare may be newer, by as much as a look may be old."""
        thing = gone.lost
        if gone.marker is not None:
            thing = gone.before[-1] if gone.before else None
            if thing is None or thing.item is None:
                raise Violation(f"{what} a second time: a marker on a marker")
        if thing is None or thing.item is None:
            raise Violation(f"{what}, a delete marker that was never planned")
        fresh = effect.at - thing.at <= GAP and thing.item.etag == planned.thing.etag
        if thing.at != planned.thing.written and not fresh:
            raise Violation(f"{what}, written {thing.at}; planned was the one of {planned.thing.written}")
        if plan.rule.kind == "objects" and thing.at >= plan.cutoff and not fresh:
            raise Violation(f"{what}, written {thing.at}; the cutoff is {plan.cutoff}")
        if plan.rule.kind == "versions":
            self._noncurrent(effect, plan, gone, thing.id, what)

    def _taken_back(self, effect: Effect, plan: Plan, gone: Gone, what: str) -> None:
        """A marker that the undone run placed, and still the latest of its key, or until a moment ago."""
        if gone.lost is None or gone.lost.item is not None:
            raise Violation(f"{what} to undo {plan.undoes}: no delete marker")
        newer = [version for version in gone.before if version.number > gone.lost.number]
        if newer and effect.at - newer[0].at > GAP:
            raise Violation(f"{what} to undo {plan.undoes}: a marker that something lies before since {newer[0].at}")
        self.store.undone.add((plan.rule.bucket, gone.key))

    def _noncurrent(self, effect: Effect, plan: Plan, gone: Gone, version_id: str, what: str) -> None:
        name = plan.rule.bucket, gone.key, version_id
        since = self.store.noncurrent.get(name)
        if since is None or since >= plan.cutoff:
            raise Violation(f"{what} version {version_id}, noncurrent since {since}; the cutoff is {plan.cutoff}")
        if gone.before[-1].id == version_id:
            current = self.store.current_again.get(name)
            if current is None or effect.at - current > GAP:
                raise Violation(f"{what} version {version_id}, current since {current}")


def _holds(job: Row, token: str) -> bool:
    return bool(job["state"] == "leased" and job["lease_token"] == token)


def _identity(plan: Plan, gone: Gone) -> Identity:
    """What a plan calls it; a marker stands for the object that it hides."""
    if plan.rule.kind == "objects" and plan.undoes is None:
        return gone.key, None
    return gone.key, gone.lost.id if gone.lost else None


def _since(times: dict[str, datetime], name: str, holds: bool, at: datetime) -> None:
    if holds:
        times.setdefault(name, at)
    else:
        times.pop(name, None)

"""Every row is whole, every change of a row is one of the tables, and whoever makes it may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from sexton.instant import from_ms
from sexton.table import Key, Row

from tests.simulation.effects import Changed, Effect
from tests.simulation.oracles.transitions import job_step, run_step, to_split
from tests.simulation.scenario import Rule
from tests.simulation.violation import Violation

SKEW = timedelta(seconds=4)  # between two clocks, each two seconds off
OPEN, ENDED = ("ready", "leased"), ("dead", "succeeded", "cancelled")


def is_job(key: Key) -> bool:
    return key.sk.startswith("JOB#")


def is_run(key: Key) -> bool:
    return key.sk.startswith("RUN#")


class Rows:
    """Watches the ledger; `visited` counts the rows of the state tables that were gone through."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.visited: Counter[str] = Counter()
        self._runs: dict[str, Row] = {}

    def saw(self, effect: Effect) -> None:
        """Judge what one write changed."""
        for changed in effect.changed:
            if is_job(changed.key):
                self._job(effect, changed)
            elif is_run(changed.key):
                self._run(effect, changed)
                self._runs[changed.new["run_id"]] = changed.new
        for changed in effect.changed:
            is_open = is_job(changed.key) and changed.new["state"] in OPEN
            if is_open and "closed_at" in self._runs[changed.new["run_id"]]:
                raise Violation(f"{effect.task.name} opened {_name(changed.new)}, whose run is closed")

    # jobs

    def _job(self, effect: Effect, changed: Changed) -> None:
        old, new = changed.old, changed.new
        step = job_step(old, new)
        if step is None:
            was = old["state"] if old else "-"
            raise Violation(f"{effect.task.name} moved {_name(new)} from {was} to {new['state']}: no transition")
        if step:
            self.visited[step] += 1
        if old is not None and new["rev"] != old["rev"] + 1 and not (step == "" and new["state"] == "dead"):
            raise Violation(f"{_name(new)} was changed and its rev is {new['rev']} after {old['rev']}")
        wanted = self.rules[self._runs[new["run_id"]]["policy_version"]].wanted
        _whole_job(new, wanted is not None and wanted.calls)
        self._permitted(effect, changed)

    def _permitted(self, effect: Effect, changed: Changed) -> None:
        """Nobody takes a live lease away, and what a worker settles it holds."""
        old, new, task = changed.old, changed.new, effect.task
        if old is None:
            _made_with_its_cause(effect, changed)
            return
        if new["state"] == "leased" and new["lease_token"] != old.get("lease_token"):
            task.leases.append((changed.key, new["lease_token"]))
            early = old["state"] == "ready" and from_ms(old.get("not_before", 0)) > effect.at + SKEW
            if early and not to_split(old):  # which waits for nothing: no item of it is touched
                raise Violation(f"{task.name} claimed {_name(new)} before its not_before")
        if old["state"] != "leased":
            return
        settles = (changed.key, old["lease_token"]) in task.leases
        if not settles and from_ms(old["lease_expires_at"]) > effect.at + SKEW:
            raise Violation(f"{task.name} took the live lease of {_name(new)} away")
        if not settles and new["state"] not in OPEN:
            raise Violation(f"{task.name} settled {_name(new)} without holding it")

    # runs

    def _run(self, effect: Effect, changed: Changed) -> None:
        old, new = changed.old, changed.new
        step = run_step(old, new)
        if step is None:
            was = old["state"] if old else "-"
            raise Violation(f"{effect.task.name} moved {new['run_id']} from {was} to {new['state']}: no transition")
        if step:
            self.visited[step] += 1
        _whole_run(old, new)


def _name(row: Row) -> str:
    return str(row["job_id"])


def _whole_job(row: Row, calls: bool) -> None:
    """What must be true of every job row, whatever happened to it.

    `calls`: of an endpoint, whose calls no look can tell of; such a job may be dead and yet have had its effect.
    """
    state = row["state"]
    unsure = row.get("maybe_done") and not (state == "dead" and (calls or row["reason"] == "effect_unknown"))
    wrong = (
        (state == "ready" and "dispatch_due" not in row and "ready without a dispatch due")
        or (state == "leased" and not {"lease_token", "lease_expires_at"} <= row.keys() and "leased without a lease")
        or (state != "leased" and "lease_token" in row and f"{state} with a lease")
        or (state in OPEN and "open_sk" not in row and f"{state} and not in the index")
        or (
            state == "dead"
            and not {"dead_at", "reason", "reason_class", "next_action"} <= row.keys()
            and "dead, unsaid"
        )
        or (state in ENDED and unsure and f"{state} and maybe_done")
        or (state == "succeeded" and row["open_items"] != 0 and "succeeded with open items")
        or (row["open_items"] < 0 and "fewer than no open items")
        or (state in OPEN and "expires_at" in row and f"{state} and to be expired")
    )
    if wrong:
        raise Violation(f"{_name(row)} is {wrong}")


def _whole_run(old: Row | None, new: Row) -> None:
    if old is None:
        return
    fixed = ("cutoff", "scheduled_time", "policy_version", "mode", "run_id")
    altered = [name for name in fixed if old[name] != new[name]]
    if old.get("digest") and new.get("digest") != old["digest"]:
        altered.append("digest")
    if old["state"] != new["state"] and new["rev"] != old["rev"] + 1:
        altered.append("state without rev")
    if altered:
        raise Violation(f"{new['run_id']} had its {', '.join(altered)} altered")


def _made_with_its_cause(effect: Effect, changed: Changed) -> None:
    """A new job row comes with its planner's cursor, or with its parent's settlement."""
    new = changed.new
    others = [each for each in effect.changed if each is not changed and each.old is not None]
    if "." not in new["seq"]:
        mine = [each for each in others if is_run(each.key) and each.new["run_id"] == new["run_id"]]
        planning = [each for each in mine if each.old and each.old["state"] == "planning" and _moved(each)]
        if not planning:
            raise Violation(f"{_name(new)} was made without its planner's cursor")
        return
    parent = new["job_id"].rpartition(".")[0]
    if not any(is_job(each.key) and _name(each.new) == parent for each in others):
        raise Violation(f"{_name(new)} was split off without a settlement of {parent}")


def _moved(changed: Changed) -> bool:
    return bool(changed.old is not None and changed.new.get("jobs", 0) == changed.old.get("jobs", 0) + 1)

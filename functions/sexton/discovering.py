"""Discovery: start, plan, dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sexton.dispatch import Dispatching
from sexton.errors import BadEvent, Refused, UnknownRun
from sexton.ledger import Ledger
from sexton.planning import Planning
from sexton.ports import Log
from sexton.reading import policy_to_work_by
from sexton.redact import redact
from sexton.run import Run, RunId
from sexton.starting import Policies, Started, Starting, read_trigger

LONGEST_TOLD = 1000  # characters of a message


@dataclass(frozen=True)
class Discovering:
    """The discovery function's events: a trigger (`policy`, `scheduled_time`) or a resume (`resume`: a run id)."""

    ledger: Ledger
    policies: Policies
    starting: Starting
    planning: Planning
    dispatching: Dispatching
    log: Log

    def discover(self, event: Mapping[str, Any]) -> dict[str, object]:
        """Carry out one event.

        A refused one is answered with its error where a person waits for the answer (`plan: false`). Of a schedule or
        a tick nobody reads an answer: there Refused is raised, so that the event ends in the failure queue.
        """
        try:
            return self._resume(event) if "resume" in event else self._trigger(event)
        except Refused as refused:
            told = redact(str(refused), LONGEST_TOLD)  # it quotes the event, which may hold anything
            self.log("event_refused", code=refused.code, error=told)
            if event.get("plan") is not False:
                raise
            return {"error": {"code": refused.code, "message": told}}

    def _trigger(self, event: Mapping[str, Any]) -> dict[str, object]:
        trigger = read_trigger(event)
        started = self.starting.start(trigger)
        self.log("run_triggered", run_id=started.run_id, new=started.created, skipped=started.skipped)
        if started.run_id is None:
            return {"run_id": None, "state": None, "created": False, "skipped": True}
        run = self._run(started.run_id)
        if started.created and trigger.plan:
            run = self._carry_on(run)
        return _answer(run, started)

    def _resume(self, event: Mapping[str, Any]) -> dict[str, object]:
        run = self._carry_on(self._run(event["resume"]))
        return _answer(run, Started(run.run_id))

    def _run(self, run_id: object) -> Run:
        try:
            parsed = RunId.parse(str(run_id))
        except ValueError as error:
            raise BadEvent(str(error)) from error
        run = self.ledger.run(parsed)
        if run is None:
            raise UnknownRun(f"the ledger holds no run {run_id}")
        return run

    def _carry_on(self, run: Run) -> Run:
        """Plan and dispatch, under the run's own policy version only: others are left to the reconciler."""
        policy = policy_to_work_by(self.planning.evidence, run, self.policies)
        if policy is None or policy.version != run.policy_version:
            self.log("run_left_alone", run_id=run.run_id, why="another policy version is deployed")
            return run
        run = self.dispatching.dispatch(self.planning.plan(run, policy))
        self.log("run_advanced", run_id=run.run_id, state=run.state.value, planned=run.planned, jobs=run.jobs)
        return run


def _answer(run: Run, started: Started) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        "created": started.created,
        "skipped": started.skipped,
    }

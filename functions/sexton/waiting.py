"""Why a run is not finished, and what happens next: from its row and its oldest open job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sexton.controls import ALL, Pause
from sexton.errors import NEXT_ACTION, ReasonClass
from sexton.item import rfc3339
from sexton.job import Job, JobState
from sexton.run import AT_WORK, Run, RunState

TICK_LATE = timedelta(minutes=5)  # what the tick should have moved by now, it has missed several times
BY_ITSELF = "nothing to do: it goes on by itself"
CALL_TICK = "see that the tick runs (the reconciler's log and alarm), or call it: sexton tick"


class Why(NamedTuple):
    """A reason, as people read it, and what is done about it."""

    because: str
    next_action: str


def why_unfinished(run: Run, oldest: Job | None, now: datetime, paused: Pause | None = None) -> Why:
    """Why a run that is not closed has not ended; `oldest` is the open job that it has waited for longest.

    `paused` is what keeps its policy from going on.
    """
    if run.state is RunState.INVALIDATED:
        return Why(f"it was invalidated ({run.reason}: {run.message}); its open jobs are being cancelled", BY_ITSELF)
    if run.mismatch_since is not None:
        return Why(
            f"another policy version is deployed since {rfc3339(run.mismatch_since)}",
            "nothing to do: it is invalidated (policy_changed) after five minutes, and the next run plans anew",
        )
    if paused is not None and run.state in (RunState.PLANNING, RunState.PLANNED, *AT_WORK):
        return _paused(paused)
    if run.state is RunState.PLANNING:
        return _planning(run, now)
    if run.state is RunState.PLANNED:
        return _ticked(run.planned_at, now, "its plan is complete, and its limits are judged next")
    if run.state in (RunState.AWAITING_APPROVAL, RunState.REPORTED):
        return _for_a_person(run)
    if run.state is RunState.HALTED:
        return Why(
            f"it is halted: {run.message or run.reason or 'no reason was given'}",
            f"look into it, then: sexton run resume {run.run_id} --reason WHY",
        )
    if oldest is not None:
        return _waits_for(oldest, now)
    if run.state is RunState.DISPATCHING:
        return Why("its jobs are being sent", BY_ITSELF)
    return Why("every job has ended; the next tick closes its books", BY_ITSELF)


def _paused(pause: Pause) -> Why:
    everything, scope = pause.scope == ALL, "" if pause.scope == ALL else f" {pause.scope}"
    what = "every policy is" if everything else "its policy is"
    return Why(
        f"{what} paused since {rfc3339(pause.since)} by {pause.actor}: {pause.reason}",
        f"when it may go on: sexton resume{scope} --reason WHY",
    )


def _planning(run: Run, now: datetime) -> Why:
    seen = f"{run.scanned_total} objects looked at, {run.planned} planned so far"
    if run.planner_until is not None and run.planner_until >= now:
        return Why(f"it is being planned: {seen}", BY_ITSELF)
    return _ticked(run.planner_until or run.created_at, now, f"its planning was put down ({seen}); the tick resumes it")


def _for_a_person(run: Run) -> Why:
    if run.state is RunState.REPORTED:
        return Why("it is a report: nothing is removed", "nothing to do; its plan expires by itself")
    held = "; ".join(run.held_because) or "no reason was recorded"
    return Why(f"it waits for approval: {held}", to_approve(run.run_id, run.digest))


def to_approve(run_id: str, digest: str | None) -> str:
    """What a person does about a plan that waits."""
    approve = f"sexton run approve {run_id} --digest {digest} --reason WHY"
    return f"look at the plan: sexton plan show {run_id} --sample 20; then: {approve}"


def _waits_for(job: Job, now: datetime) -> Why:
    name = f"job {job.seq}"
    if job.state is JobState.LEASED:
        if job.lease_expires_at is not None and job.lease_expires_at >= now:
            return Why(f"{name} is with a worker (attempt {job.attempt})", BY_ITSELF)
        ended = job.lease_expires_at or now
        return _ticked(ended, now, f"the worker of {name} left no record; its lease ended at {rfc3339(ended)}")
    failed = f"{name} failed {job.attempt} times, last: {job.reason}: {job.summary}" if job.reason else ""
    if job.not_before is not None and job.not_before > now:
        return Why(f"{failed or name}; it is tried again at {rfc3339(job.not_before)}", _next_action(job))
    if job.dispatch_due is not None and job.dispatch_due <= now:
        return _ticked(job.dispatch_due, now, f"{failed or name} waits to be sent to the queue")
    return Why(f"{failed or name} is in the queue, waiting for a worker", _next_action(job))


def _next_action(job: Job) -> str:
    known = set(ReasonClass)
    return NEXT_ACTION[ReasonClass(job.reason_class)] if job.reason_class in known else BY_ITSELF


def _ticked(due: datetime | None, now: datetime, because: str) -> Why:
    """Something that the tick moves on: with five minutes' delay, the tick itself is in doubt."""
    late = due is not None and now - due > TICK_LATE
    return Why(because, CALL_TICK if late else BY_ITSELF)

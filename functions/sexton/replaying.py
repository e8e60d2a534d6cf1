"""Dead jobs: replayed by a person or a redrive, or closed without."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from sexton import job_transitions, run_transitions
from sexton.errors import BadJobId, NotAllowed, UnknownJob, UnknownRun
from sexton.job import MAX_REPLAYS, REPLAYED, Job, JobState, job_key, split_id
from sexton.ledger import Ledger
from sexton.ports import Clock, Log, Token
from sexton.run import AT_WORK, ATTENTION, Change, Run, RunId, RunState
from sexton.run_transitions import KEEP_CLOSED
from sexton.starting import Policies
from sexton.table import Applied, Write

OLDEST = KEEP_CLOSED - timedelta(days=30)  # of a run: past it, rows that its books need begin to leave the ledger
MOST_NOTED = 50  # replays and resolvings that a run's row keeps, which has an end; the jobs' histories have them all
TRIES = 10  # others replay jobs of the same run at the same time, and each moves its rev
RESOLVED = "resolved"
REDRIVE = "redrive"  # the actor of a replay that began in the dead-letter queue
REDRIVE_REASON = "its message was moved back from the dead-letter queue"
BELIEVED_AFTER = timedelta(seconds=60)  # a message sent this much later than the death was sent on account of it

NOT_DEAD, CLOSING, MOVED = "not_dead", "run_closing", "moved"


class Replayed(BaseModel):
    """A dead job that is ready again. `reopened`: its run was closed, and will close again with a new report."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    run_id: str
    replays: int
    reopened: bool


class Resolved(BaseModel):
    """A dead job that was closed without replay; the books still count its items as dead."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    run_id: str
    resolved_at: datetime


class Redriven(StrEnum):
    """What became of a dead job's message."""

    AGAIN = "again"  # the job is dead no more: look at it again
    LATER = "later"  # it cannot be replayed at this moment
    FAIL_ON = "fail_on"  # to the dead-letter queue, where it belongs


@dataclass(frozen=True)
class Replaying:
    """Changes what is dead. Its rules are judged on rows read at that time, and again by the writes' conditions."""

    ledger: Ledger
    policies: Policies
    clock: Clock
    token: Token
    log: Log

    def replay(self, job_id: str, reason: str, actor: str, request: str | None = None) -> Replayed:
        """dead -> ready, due at once; its run is at work again.

        `request`: of replays that came with one request, each run records the first only. Raises BadJobId,
        UnknownJob, UnknownRun, and NotAllowed: not_dead, resolved, replays_used_up, run_invalidated, run_halted,
        run_closing, run_too_old, run_undone, policy_changed, moved.
        """
        return self._replay(find_job(self.ledger, job_id), _replayed(self.clock(), reason, actor, request))

    def resolve(self, job_id: str, reason: str, actor: str, request: str | None = None) -> Resolved:
        """A dead job is closed as it is; what it leaves is for the next run.

        `request` as in `replay`. Raises BadJobId, UnknownJob, and NotAllowed: not_dead, resolved, moved.
        """
        change = Change(at=self.clock(), actor=actor, change=RESOLVED, reason=reason, detail=job_id, request=request)
        for _ in range(TRIES):
            job = find_job(self.ledger, job_id)
            refused = _not_dead(job)
            if refused:
                raise refused
            run, token = self.ledger.run(RunId.parse(job.run_id)), self.token()
            writes = [job_transitions.resolve(job, change, token)]
            if run is not None and not _noted(run, change):
                writes.append(run_transitions.note(run, change, token))
            if isinstance(self.ledger.table.transact(writes), Applied):
                self.log("job_resolved", job_id=job_id, run_id=job.run_id, policy=job.policy, actor=actor)
                return Resolved(job_id=job_id, run_id=job.run_id, resolved_at=change.at)
        raise _moved(job_id)

    def redrive(self, job: Job, sent_at: datetime | None, visibility: timedelta) -> Redriven:
        """A dead job's message has come, sent at that time: replay it if it was redriven, and a replay is allowed.

        What is not allowed, or came so soon that it may be an old copy, is recorded on the job, once.
        """
        if sent_at is None or job.dead_at is None or sent_at <= job.dead_at:
            return Redriven.FAIL_ON
        if sent_at <= job.dead_at + BELIEVED_AFTER:
            if job.redriven_early_at is None:
                self.ledger.table.write(job_transitions.redriven_early(job, self.clock(), self.token()))
                self.log("redriven_early", job_id=job.job_id, run_id=job.run_id, policy=job.policy)
            return Redriven.FAIL_ON
        try:
            self._redrive(job, visibility)
        except NotAllowed as refused:
            return self._not_redriven(job, refused)
        return Redriven.AGAIN

    def _redrive(self, job: Job, visibility: timedelta) -> None:
        now = self.clock()
        if self.ledger.controls().paused(job.policy):
            raise NotAllowed("paused", f"policy {job.policy} is paused; resume it, then redrive again")
        # Thousands may be redriven at once, and a row has an end: each run records the first of an hour.
        request = f"{REDRIVE}.{now:%Y%m%dT%H}"
        self._replay(job, _replayed(now, REDRIVE_REASON, REDRIVE, request), now + visibility)

    def _not_redriven(self, job: Job, refused: NotAllowed) -> Redriven:
        if refused.code == NOT_DEAD:
            return Redriven.AGAIN
        if refused.code in (CLOSING, MOVED):
            return Redriven.LATER
        if job.redrive_refused is None:
            self.ledger.table.write(job_transitions.redrive_refused(job, refused.code, self.token()))
            self.log("redrive_refused", job_id=job.job_id, run_id=job.run_id, policy=job.policy, code=refused.code)
        return Redriven.FAIL_ON

    def _replay(self, job: Job, change: Change, due: datetime | None = None) -> Replayed:
        for _ in range(TRIES):
            run = self._run(job)
            refused = why_not(job, run, self._deployed(run), change.at)
            if refused:
                raise refused
            if self._applied(job, run, change, due or change.at):
                closed = run.state is RunState.COMPLETED
                self.log("job_replayed", job_id=job.job_id, run_id=run.run_id, policy=run.policy, actor=change.actor)
                return Replayed(job_id=job.job_id, run_id=run.run_id, replays=job.replays + 1, reopened=closed)
            job = find_job(self.ledger, job.job_id)
        raise _moved(job.job_id)

    def _applied(self, job: Job, run: Run, change: Change, due: datetime) -> bool:
        """The job and its run in one transaction."""
        token, noted = self.token(), change.model_copy(update={"detail": job.job_id})
        writes: list[Write] = [
            job_transitions.replay(job, change, due, token),
            run_transitions.reopen(run, None if _noted(run, change) else noted, change.at, token),
        ]
        return isinstance(self.ledger.table.transact(writes), Applied)

    def _run(self, job: Job) -> Run:
        run = self.ledger.run(RunId.parse(job.run_id))
        if run is None:
            raise UnknownRun(f"the ledger holds the run {job.run_id} no more; resolve the job, the next run plans anew")
        return run

    def _deployed(self, run: Run) -> str | None:
        policy = self.policies.get(run.policy)
        return policy.version if policy else None


def find_job(ledger: Ledger, job_id: str) -> Job:
    """The job of an id, as of now. Raises BadJobId, UnknownJob."""
    try:
        run_id, seq = split_id(job_id)
        RunId.parse(run_id)
    except ValueError as error:
        raise BadJobId(str(error)) from error
    job = ledger.job(job_key(run_id, seq))
    if job is None:
        raise UnknownJob(f"the ledger holds no job {job_id}")
    return job


def why_not(job: Job, run: Run, deployed_version: str | None, now: datetime) -> NotAllowed | None:
    """The first rule that forbids a replay of the job; None where it may be."""
    refused = _not_dead(job)
    if refused:
        return refused
    if job.replays >= MAX_REPLAYS:
        return NotAllowed(
            "replays_used_up", f"{job.job_id} was replayed {job.replays} times; resolve it, the next run plans anew"
        )
    if run.state is RunState.INVALIDATED:
        return NotAllowed(
            "run_invalidated", f"{run.run_id} was invalidated ({run.reason}); resolve the job, the next run plans anew"
        )
    if run.state is RunState.HALTED:
        return NotAllowed("run_halted", f"{run.run_id} is halted; resume it first")
    if run.state not in (*AT_WORK, RunState.COMPLETED) or (
        run.state is RunState.COMPLETED and run.open_pk != ATTENTION
    ):
        return NotAllowed(CLOSING, f"{run.run_id} is just being closed; try again in a minute")
    if now - run.created_at > OLDEST:
        return NotAllowed(
            "run_too_old",
            f"{run.run_id} is of {run.created_at:%Y-%m-%d}, and the ledger is about to forget it; resolve the job",
        )
    if run.undone_by:
        return NotAllowed("run_undone", f"{run.run_id} was taken back by {run.undone_by[-1]}; resolve the job")
    if deployed_version != run.policy_version and not run.undoes:
        return NotAllowed(
            "policy_changed",
            f"{run.run_id} was planned under a policy version that is not deployed; resolve the job, the next run"
            " plans anew",
        )
    return None


def _not_dead(job: Job) -> NotAllowed | None:
    if job.state is not JobState.DEAD:
        return NotAllowed(NOT_DEAD, f"{job.job_id} is {job.state}; only a dead job is replayed or resolved")
    if job.resolved_at is not None:
        return NotAllowed("resolved", f"{job.job_id} was resolved by {job.resolved_by}; the next run plans it anew")
    return None


def _moved(job_id: str) -> NotAllowed:
    return NotAllowed(MOVED, f"others kept changing {job_id} or its run; try again")


def _replayed(now: datetime, reason: str, actor: str, request: str | None) -> Change:
    return Change(at=now, actor=actor, change=REPLAYED, reason=reason, request=request)


def _noted(run: Run, change: Change) -> bool:
    """Whether the run has recorded a change of the same request already, or has no room for more of its kind."""
    noted = [each for each in run.changes if each.change in (REPLAYED, RESOLVED)]
    same = (change.request, change.change)
    return len(noted) >= MOST_NOTED or (
        change.request is not None and any((each.request, each.change) == same for each in noted)
    )

"""What a message meets: one pure function from the row that refused a claim to what the worker does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sexton.job import Job, JobState, Limits
from sexton.message import Message
from sexton.run import AT_WORK, Run, RunState
from sexton.table import Row

LOOK_AGAIN = timedelta(seconds=60)  # by then the reconciler has moved what it must


@dataclass(frozen=True, slots=True)
class Settled:
    """succeeded or cancelled: the message has had its time."""


@dataclass(frozen=True, slots=True)
class IsDead:
    """dead: the message is failed on until SQS moves it to the dead-letter queue, or was redriven from there."""

    job: Job


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do yet; it costs no attempt."""

    wait: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class TakeOver:
    """An expired lease, or a crashed job to split: claim it as it was seen."""

    job: Job


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The message claims what the ledger does not say: nothing is called on its word."""

    why: str


Meeting = Settled | IsDead | Wait | TakeOver | Mismatch


def met_run(message: Message, run: Run | None, deployed_version: str | None) -> Meeting | None:
    """What the run's row says of the message; None when the job may be claimed."""
    if run is None:
        return Mismatch("unknown run")
    if message.policy_version != run.policy_version or message.cutoff != run.cutoff:
        return Mismatch("not the policy version and cutoff of its run")
    if run.state in (RunState.PLANNING, RunState.PLANNED, RunState.REPORTED, RunState.AWAITING_APPROVAL):
        return Mismatch(f"its run is {run.state} and has dispatched nothing")
    if run.state in AT_WORK and deployed_version != run.policy_version:
        return Wait(LOOK_AGAIN, "another policy version is deployed")
    return None


def met_row(message: Message, row: Row | None, limits: Limits, now: datetime, resumed_at: datetime | None) -> Meeting:
    """What the job's row says of a claim that it refused."""
    met = met_idle(message, row)
    if row is None or not isinstance(met, Wait):
        return met
    return _met_open(Job.from_row(row), limits, now, resumed_at)


def met_idle(message: Message, row: Row | None) -> Meeting:
    """What the job's row says of a message whose run is not at work."""
    if row is None:
        return Mismatch("unknown job")
    job = Job.from_row(row)
    if (job.part_key, job.part_sha256, job.start, job.end, job.count) != (
        message.part_key,
        message.part_sha256,
        message.start,
        message.end,
        message.count,
    ):
        return Mismatch("not the part or range of its job")
    if job.state in (JobState.SUCCEEDED, JobState.CANCELLED):
        return Settled()
    if job.state is JobState.DEAD:
        return IsDead(job)
    return Wait(LOOK_AGAIN, "its run is not at work")


def _met_open(job: Job, limits: Limits, now: datetime, resumed_at: datetime | None) -> Meeting:
    expired = job.state is JobState.LEASED
    if expired and job.lease_expires_at is not None and job.lease_expires_at >= now:
        return Wait(job.lease_expires_at - now + timedelta(seconds=1), "another worker holds it")
    if job.call_begun_at is not None:
        return Wait(LOOK_AGAIN, "a call that must not be repeated may have been made")
    if job.may_split(limits, found_no_record=expired):
        return TakeOver(job)
    if job.not_before is not None and job.not_before > now:
        return Wait(job.not_before - now, "it came early")
    if job.used_up(limits, now, resumed_at):
        return Wait(LOOK_AGAIN, "attempts or age are used up")
    return TakeOver(job)

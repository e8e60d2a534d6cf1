"""One job from its planning to now: every attempt, every replay, what it recorded and what left it."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.dead_letters import DeadLetter, letter, lineage
from sexton.job import Failed, Job, JobState
from sexton.ledger import Ledger
from sexton.replay_preview import ReplayPreview
from sexton.replaying import find_job


class SplitOff(BaseModel):
    """A job that left another. `items` of it have no outcome yet."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    state: JobState
    items: int
    reason: str | None


class JobHistory(BaseModel):
    """Everything that the ledger knows of a job. `dead`: as a dead letter, where it is one that nobody resolved."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    run_id: str
    policy: str
    state: JobState
    items: int
    open_items: int
    first_key: str
    last_key: str
    counts: dict[str, int]
    attempts: int
    throttles: int
    replays: int
    first_claim_at: AwareDatetime | None
    replayed_at: AwareDatetime | None
    settled_at: AwareDatetime | None
    dead_at: AwareDatetime | None
    resolved_at: AwareDatetime | None
    resolved_by: str | None
    history: tuple[Failed, ...]
    part_key: str
    outcome_files: tuple[str, ...]
    inherited_files: tuple[str, ...]
    lineage: tuple[str, ...]
    children: tuple[SplitOff, ...]
    dead: DeadLetter | None


def job_history(ledger: Ledger, job_id: str, now: datetime, preview: ReplayPreview | None = None) -> JobHistory:
    """The whole history of a job. Raises BadJobId, UnknownJob."""
    job = find_job(ledger, job_id)
    return JobHistory(
        job_id=job.job_id,
        run_id=job.run_id,
        policy=job.policy,
        state=job.state,
        items=job.count,
        open_items=job.open_items,
        first_key=job.first_key,
        last_key=job.last_key,
        counts=job.counts,
        attempts=job.attempt,
        throttles=job.throttles,
        replays=job.replays,
        first_claim_at=job.first_claim_at,
        replayed_at=job.replayed_at,
        settled_at=job.settled_at,
        dead_at=job.dead_at,
        resolved_at=job.resolved_at,
        resolved_by=job.resolved_by,
        history=job.history,
        part_key=job.part_key,
        outcome_files=job.outcome_files,
        inherited_files=job.inherited_files,
        lineage=lineage(job),
        children=tuple(_split_off(child) for child in ledger.split_from(job)),
        dead=_dead(job, now, preview),
    )


def _split_off(job: Job) -> SplitOff:
    return SplitOff(job_id=job.job_id, state=job.state, items=job.open_items, reason=job.reason)


def _dead(job: Job, now: datetime, preview: ReplayPreview | None) -> DeadLetter | None:
    if job.state is not JobState.DEAD or job.resolved_at is not None:
        return None
    return letter(job, now, preview.of_run(job.run_id).of(job) if preview else None)

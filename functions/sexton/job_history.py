"""One job from its planning to now: every attempt, every replay, what it recorded and what left it."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.dead_letters import DeadLetter, letter
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


class JobHistory(DeadLetter):
    """Everything that the ledger knows of a job, which need not be dead.

    `count`: its items; `counts`: those of them that have an outcome, by outcome. `inherited_files`: outcomes of its
    items that the jobs recorded which it was split off from.
    """

    state: JobState
    count: int
    counts: dict[str, int]
    part_key: str
    outcome_files: tuple[str, ...]
    inherited_files: tuple[str, ...]
    replayed_at: AwareDatetime | None
    settled_at: AwareDatetime | None
    resolved_at: AwareDatetime | None
    resolved_by: str | None
    history: tuple[Failed, ...]
    children: tuple[SplitOff, ...]


def job_history(ledger: Ledger, job_id: str, now: datetime, preview: ReplayPreview | None = None) -> JobHistory:
    """The whole history of a job; with `preview`, what a replay of a dead one would do now.

    Raises BadJobId, UnknownJob.
    """
    job = find_job(ledger, job_id)
    would = preview.of_run(job.run_id).of(job) if preview and job.state is JobState.DEAD else None
    return JobHistory(
        **dict(letter(job, now, would)),
        state=job.state,
        count=job.count,
        counts=job.counts,
        part_key=job.part_key,
        outcome_files=job.outcome_files,
        inherited_files=job.inherited_files,
        replayed_at=job.replayed_at,
        settled_at=job.settled_at,
        resolved_at=job.resolved_at,
        resolved_by=job.resolved_by,
        history=job.history,
        children=tuple(_split_off(child) for child in ledger.split_from(job)),
    )


def _split_off(job: Job) -> SplitOff:
    return SplitOff(job_id=job.job_id, state=job.state, items=job.open_items, reason=job.reason)

"""The dead letters, as the ledger lists them: what died, why, and what a person does about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.run import Run


class DeadLetter(BaseModel):
    """One dead job. `items` of it have no outcome; `age_seconds` counts from its death."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    run_id: str
    policy: str
    items: int
    first_key: str
    last_key: str
    reason_class: str | None
    reason: str | None
    summary: str | None
    attempts: int
    replays: int
    first_claim_at: AwareDatetime | None
    dead_at: AwareDatetime | None
    age_seconds: int
    next_action: str | None


def dead_letters(ledger: Ledger, now: datetime) -> Iterator[DeadLetter]:
    """Every dead job of runs that are open, and of closed ones that a person has not been through."""
    for run in listed_runs(ledger):
        for job in ledger.open_jobs(run.run_id, JobState.DEAD):
            yield letter(job, now)


def listed_runs(ledger: Ledger) -> list[Run]:
    """The runs that are not settled: open, just closed, or closed and left for a person; each once, as read last."""
    return list({run.run_id: run for run in (*ledger.open_runs(), *ledger.runs_for_a_person())}.values())


def letter(job: Job, now: datetime) -> DeadLetter:
    """A dead job as a letter."""
    return DeadLetter(
        job_id=job.job_id,
        run_id=job.run_id,
        policy=job.policy,
        items=job.open_items,
        first_key=job.first_key,
        last_key=job.last_key,
        reason_class=job.reason_class,
        reason=job.reason,
        summary=job.summary,
        attempts=job.attempt,
        replays=job.replays,
        first_claim_at=job.first_claim_at,
        dead_at=job.dead_at,
        age_seconds=int((now - job.dead_at).total_seconds()) if job.dead_at else 0,
        next_action=job.next_action,
    )

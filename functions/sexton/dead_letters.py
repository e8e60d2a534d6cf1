"""The dead letters, as the ledger lists them: what died, why, and what a person does about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.replay_preview import ReplayNow, ReplayPreview
from sexton.run import Run


class DeadLetter(BaseModel):
    """One dead job. `items` of it have no outcome; `age_seconds` counts from its death.

    `lineage` names the jobs that it was split off from, the first one first. `replay_now` is there where it was asked
    what a replay would do.
    """

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
    first_failure_at: AwareDatetime | None
    last_failure_at: AwareDatetime | None
    dead_at: AwareDatetime | None
    age_seconds: int
    lineage: tuple[str, ...]
    redriven_early_at: AwareDatetime | None
    redrive_refused: str | None
    next_action: str | None
    replay_now: ReplayNow | None = None

    @property
    def redriven_in_vain(self) -> bool:
        """Whether its message came back from the dead-letter queue and nothing came of it."""
        return self.redriven_early_at is not None or self.redrive_refused is not None


def dead_letters(
    ledger: Ledger,
    now: datetime,
    preview: ReplayPreview | None = None,
    only: Callable[[Job], bool] = lambda job: True,
) -> Iterator[DeadLetter]:
    """Every dead job of runs that are open, and of closed ones that a person has not been through.

    With `preview`, each tells what a replay would do now.
    """
    for run in listed_runs(ledger):
        dead = [job for job in ledger.open_jobs(run.run_id, JobState.DEAD) if only(job)]
        of_run = preview.of_run(run.run_id) if preview and dead else None
        for job in dead:
            yield letter(job, now, of_run.of(job) if of_run else None)


def listed_runs(ledger: Ledger) -> list[Run]:
    """The runs that are not settled: open, just closed, or closed and left for a person; each once, as read last."""
    return list({run.run_id: run for run in (*ledger.open_runs(), *ledger.runs_for_a_person())}.values())


def letter(job: Job, now: datetime, replay_now: ReplayNow | None = None) -> DeadLetter:
    """A dead job as a letter."""
    failures = [entry.at for entry in job.history if entry.actor is None]
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
        first_failure_at=failures[0] if failures else None,
        last_failure_at=failures[-1] if failures else None,
        dead_at=job.dead_at,
        age_seconds=int((now - job.dead_at).total_seconds()) if job.dead_at else 0,
        lineage=lineage(job),
        redriven_early_at=job.redriven_early_at,
        redrive_refused=job.redrive_refused,
        next_action=_next_action(job),
        replay_now=replay_now,
    )


def lineage(job: Job) -> tuple[str, ...]:
    """The jobs that it was split off from, the first one first; their ids begin its own."""
    part, *splits = job.seq.split(".")
    return tuple(".".join([job.run_id, part, *splits[:depth]]) for depth in range(len(splits)))


def _next_action(job: Job) -> str | None:
    """What a person does; a redrive that was in vain comes first, since they wait for what it never did."""
    if job.redrive_refused:
        return f"its message was redriven in vain ({job.redrive_refused}); {job.next_action}"
    if job.redriven_early_at:
        return f"its message was redriven too early to be believed: redrive it again, or replay it; {job.next_action}"
    return job.next_action

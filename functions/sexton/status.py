"""The state of the whole: what is unfinished and why, what is dead, what waits for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.approval import PLAN_TTL
from sexton.controls import Controls, Hold, Pause
from sexton.dead_letters import DeadLetter, letter, listed_runs
from sexton.instant import from_ms
from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.missed import Missed, Why, missed
from sexton.run import WAITING, Run, RunId, RunState
from sexton.table import Row
from sexton.waiting import why_unfinished

OPEN_JOBS_LOOKED_AT = 1000  # of each state and run: the index gives those first that have been due longest
DEAD_SHOWN = 20
SKIPPED_SHOWN = timedelta(days=7)  # at most: the next run of the policy ends it sooner
NO_DEAD = "nothing is dead"
SEE_DEAD = "sexton dlq list names each with its next action"


class OpenJob(BaseModel):
    """The open job that a run has waited for longest."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    state: str
    items: int
    attempts: int
    first_claim_at: AwareDatetime | None
    reason: str | None


class Unfinished(BaseModel):
    """A run that is not closed and waits for no person. `since`: when it began, was planned, approved, or reopened."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    state: str
    since: AwareDatetime
    age_seconds: int
    oldest_job: OpenJob | None
    because: str
    next_action: str


class Waiting(BaseModel):
    """A run whose plan waits: for approval, or as a report; at `expires_at` it is invalidated."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    planned: int
    planned_bytes: int
    digest: str | None
    held_because: tuple[str, ...]
    expires_at: AwareDatetime | None
    next_action: str


class Dead(BaseModel):
    """All that is dead, items by reason, and the latest of the letters."""

    model_config = ConfigDict(frozen=True)

    jobs: int
    items: int
    by_reason: dict[str, int]
    next_action: str
    latest: tuple[DeadLetter, ...]


class SkippedTrigger(BaseModel):
    """A trigger that found its policy paused or another run of it open; no run has taken care of it since."""

    model_config = ConfigDict(frozen=True)

    policy: str
    run_id: str
    why: str
    open_run: str | None
    at: AwareDatetime


class Stopped(BaseModel):
    """A pause that stands (`scope`: a policy's id, or `all`), or a hold (what addresses begin with)."""

    model_config = ConfigDict(frozen=True)

    scope: str
    since: AwareDatetime
    actor: str
    reason: str


class MalformedMessage(BaseModel):
    """A message on the jobs queue that led to no call."""

    model_config = ConfigDict(frozen=True)

    message_id: str
    kind: str
    why: str
    excerpt: str
    at: AwareDatetime


class ForAPerson(BaseModel):
    """A closed run that is not settled: dead jobs, or books that do not balance."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    state: str
    balanced: bool | None
    dead_jobs: int
    closed_at: AwareDatetime | None
    next_action: str


class Status(BaseModel):
    """What an operator asks first. `quiet`: nothing is unfinished or paused, and nothing needs a person."""

    model_config = ConfigDict(frozen=True)

    at: AwareDatetime
    quiet: bool
    oldest: Unfinished | None
    unfinished: tuple[Unfinished, ...]
    awaiting_approval: tuple[Waiting, ...]
    reported: tuple[Waiting, ...]
    dead: Dead
    for_a_person: tuple[ForAPerson, ...]
    missed: tuple[Missed, ...]
    paused: tuple[Stopped, ...]
    holds: tuple[Stopped, ...]
    skipped_triggers: tuple[SkippedTrigger, ...]
    malformed: tuple[MalformedMessage, ...]


def status(ledger: Ledger, now: datetime) -> Status:
    """The state as of now, by eventually consistent reads: for eyes, not for decisions."""
    listed, controls = listed_runs(ledger), ledger.controls()
    runs, letters = (
        [run for run in listed if not run.closed],
        {run.run_id: _letters(ledger, run, now) for run in listed},
    )
    unfinished = sorted(
        (_unfinished(ledger, run, controls, now) for run in runs if run.state not in WAITING),
        key=lambda each: each.since,
    )
    awaiting = tuple(_waiting(run, now) for run in runs if run.state is RunState.AWAITING_APPROVAL)
    people = tuple(
        _for_a_person(run, len(letters[run.run_id]))
        for run in listed
        if run.closed and (letters[run.run_id] or not run.balanced)
    )
    malformed = tuple(_malformed(ledger, now))
    rows = ledger.policies()
    late = tuple(each for row in rows if (each := missed(row, controls, now)))
    paused = tuple(_stopped(each) for each in controls.pauses if each.paused)
    dead = _dead([each for found in letters.values() for each in found])
    return Status(
        at=now,
        quiet=not (
            unfinished or awaiting or people or malformed or dead.jobs or paused or any(each.overdue for each in late)
        ),
        oldest=unfinished[0] if unfinished else None,
        unfinished=tuple(unfinished),
        awaiting_approval=awaiting,
        reported=tuple(_waiting(run, now) for run in runs if run.state is RunState.REPORTED),
        dead=dead,
        for_a_person=people,
        missed=late,
        paused=paused,
        holds=tuple(_stopped(each) for each in controls.holds if each.active),
        skipped_triggers=tuple(_skipped(rows, now)),
        malformed=malformed,
    )


def _stopped(by: Pause | Hold) -> Stopped:
    return Stopped(scope=by.scope, since=by.since, actor=by.actor, reason=by.reason)


def _unfinished(ledger: Ledger, run: Run, controls: Controls, now: datetime) -> Unfinished:
    oldest = _oldest(_open_jobs(ledger, run)) if run.state not in (RunState.PLANNING, RunState.PLANNED) else None
    since = run.since
    because, next_action = why_unfinished(run, oldest, now, controls.paused(run.policy))
    return Unfinished(
        run_id=run.run_id,
        policy=run.policy,
        state=run.state.value,
        since=since,
        age_seconds=int((now - since).total_seconds()),
        oldest_job=_open_job(oldest) if oldest else None,
        because=because,
        next_action=next_action,
    )


def _open_jobs(ledger: Ledger, run: Run) -> Iterator[Job]:
    by_state = (ledger.open_jobs(run.run_id, state) for state in (JobState.LEASED, JobState.READY))
    return chain.from_iterable(islice(jobs, OPEN_JOBS_LOOKED_AT) for jobs in by_state)


def _oldest(jobs: Iterable[Job]) -> Job | None:
    """The one first claimed longest ago; one that was never claimed comes after all that were."""
    return min(jobs, key=lambda job: (job.first_claim_at is None, job.first_claim_at, job.seq), default=None)


def _open_job(job: Job) -> OpenJob:
    return OpenJob(
        job_id=job.job_id,
        state=job.state.value,
        items=job.open_items,
        attempts=job.attempt,
        first_claim_at=job.first_claim_at,
        reason=job.reason,
    )


def _waiting(run: Run, now: datetime) -> Waiting:
    return Waiting(
        run_id=run.run_id,
        policy=run.policy,
        planned=run.planned,
        planned_bytes=run.planned_bytes,
        digest=run.digest,
        held_because=run.held_because,
        expires_at=run.planned_at + PLAN_TTL if run.planned_at else None,
        next_action=why_unfinished(run, None, now).next_action,
    )


def _letters(ledger: Ledger, run: Run, now: datetime) -> list[DeadLetter]:
    return [letter(job, now) for job in ledger.open_jobs(run.run_id, JobState.DEAD)]


def _dead(letters: Sequence[DeadLetter]) -> Dead:
    by_reason = Counter[str]()
    for each in letters:
        by_reason[each.reason or "unknown"] += each.items
    latest = sorted(letters, key=lambda each: each.age_seconds)[:DEAD_SHOWN]
    return Dead(
        jobs=len(letters),
        items=by_reason.total(),
        by_reason=dict(sorted(by_reason.items())),
        next_action=_dead_action(letters),
        latest=tuple(latest),
    )


def _dead_action(letters: Sequence[DeadLetter]) -> str:
    """A redrive that came to nothing is told first: somebody waits for what it never did."""
    vain = sum(1 for each in letters if each.redriven_in_vain)
    told = f"{vain} of them were redriven in vain, too early or against a rule: " if vain else ""
    return f"{told}{SEE_DEAD}" if letters else NO_DEAD


def _for_a_person(run: Run, dead_jobs: int) -> ForAPerson:
    unbalanced = f"its books do not balance: sexton verify {run.run_id} says where"
    return ForAPerson(
        run_id=run.run_id,
        policy=run.policy,
        state=run.state.value,
        balanced=run.balanced,
        dead_jobs=dead_jobs,
        closed_at=run.closed_at,
        next_action=unbalanced if run.balanced is False else SEE_DEAD,
    )


def _skipped(rows: Iterable[Row], now: datetime) -> Iterator[SkippedTrigger]:
    """Those that are news: a run of the same or a later scheduled time removes all that the skipped one would have."""
    for row in rows:
        handled = from_ms(row.get("last_scheduled_time", 0))
        for each in row.get("skipped_triggers", []):
            at, scheduled = from_ms(each["at"]), RunId.parse(each["run_id"]).scheduled_time
            if scheduled > handled and now - at < SKIPPED_SHOWN:
                why, open_run = each.get("why", Why.RUN_OPEN), each.get("open_run")
                yield SkippedTrigger(policy=row["policy"], run_id=each["run_id"], why=why, open_run=open_run, at=at)


def _malformed(ledger: Ledger, now: datetime) -> Iterator[MalformedMessage]:
    """Those of yesterday and today."""
    for day in (now - timedelta(days=1), now):
        for row in ledger.malformed(day):
            yield MalformedMessage(
                message_id=row["message_id"],
                kind=row["kind"],
                why=row["why"],
                excerpt=row["excerpt"],
                at=from_ms(row["at"]),
            )

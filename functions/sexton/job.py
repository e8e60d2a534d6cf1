"""A job: a unit of delivery, up to `job_size` neighbouring items of one run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from sexton.errors import NEXT_ACTION, Failure, ReasonClass
from sexton.instant import Instant, ms
from sexton.table import Key, Row

SEQ = re.compile(r"[0-9]{8}(\.[0-9]{4})*")  # shard and part, and the first index of each split
MAX_SPLIT_OFF = 20  # failing items that leave a job over its life, and ranges that a crashed job becomes
NO_RECORD = "no_record"
NO_RECORDS_TO_SPLIT = 2
REPLAYED = "replayed"  # an event of the history, and what a run notes of it
MAX_REPLAYS = 10  # of one job: what fails for the eleventh time wants another remedy


class JobState(StrEnum):
    """Where a job stands."""

    READY = "ready"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


OPEN = (JobState.READY, JobState.LEASED)


def job_key(run_id: str, seq: str) -> Key:
    """The row's key; `seq` may hold split segments: `00000003.0017`."""
    return Key(f"RUN#{run_id}", f"JOB#{seq.replace('.', '#')}")


def run_partition(run_id: str) -> Key:
    """Where a run's job rows stand: partition and sort key prefix."""
    return Key(f"RUN#{run_id}", "JOB#")


def split_id(job_id: str) -> tuple[str, str]:
    """A job id as run id and seq. Raises ValueError."""
    parts = job_id.split(".")
    if not SEQ.fullmatch(".".join(parts[3:])):
        raise ValueError(f"{job_id!r} is no job id; one looks like logs-expire.20261130T020000Z.1.00000000")
    return ".".join(parts[:3]), ".".join(parts[3:])


class Span(BaseModel):
    """Indexes of a part: from `start` up to, not including, `end`."""

    model_config = ConfigDict(frozen=True)

    start: int
    end: int

    def __iter__(self) -> Iterator[int]:  # type: ignore[override]
        return iter(range(self.start, self.end))


class Failed(BaseModel):
    """One entry of a job's history: an attempt that did not end in success, or what an `actor` did to a dead job."""

    model_config = ConfigDict(frozen=True)

    at: Instant
    attempt: int
    event: str
    code: str = ""
    summary: str = ""
    actor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a job's life, from the policy: both bound it, whichever comes first."""

    max_attempts: int
    max_age: timedelta


class Job(BaseModel):
    """A job row, parsed.

    It answers for the indexes in `start:end` that have no row of their own (`split_off`) and no outcome in an
    inherited file. `count` is how many those were at first, `open_items` how many still have no outcome.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    job_id: str
    run_id: str
    policy: str
    seq: str
    state: JobState
    rev: int
    part_key: str
    part_sha256: str
    start: int
    end: int
    count: int
    open_items: int
    span: int
    bytes: int = 0
    first_key: str
    last_key: str
    attempt: int = 0
    throttles: int = 0
    replays: int = 0
    dispatches: int = 0
    no_records: int = 0
    items_split_off: int = 0
    dispatch_due: Instant | None = None
    not_before: Instant | None = None
    first_claim_at: Instant | None = None
    replayed_at: Instant | None = None
    settled_at: Instant | None = None
    dead_at: Instant | None = None
    resolved_at: Instant | None = None
    resolved_by: str | None = None
    redriven_early_at: Instant | None = None
    redrive_refused: str | None = None
    maybe_done: bool = False
    call_begun_at: Instant | None = None
    lease_token: str | None = None
    lease_expires_at: Instant | None = None
    outcome_files: tuple[str, ...] = ()
    inherited_files: tuple[str, ...] = ()
    split_off: tuple[Span, ...] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    history: tuple[Failed, ...] = ()
    reason_class: str | None = None
    reason: str | None = None
    summary: str | None = None
    next_action: str | None = None

    @staticmethod
    def from_row(row: Row) -> Job:
        """Raises pydantic.ValidationError when the row is no job."""
        return Job.model_validate(row)

    @property
    def key(self) -> Key:
        """The row's key."""
        return job_key(self.run_id, self.seq)

    @property
    def files(self) -> tuple[str, ...]:
        """Every outcome file that speaks of the job's range."""
        return self.inherited_files + self.outcome_files

    @property
    def since_replay(self) -> tuple[Failed, ...]:
        """The history from the last replay on, or all of it."""
        starts = [place for place, entry in enumerate(self.history) if entry.event == REPLAYED]
        return self.history[starts[-1] :] if starts else self.history

    def indexes(self) -> list[int]:
        """The indexes of the range that have no row of their own."""
        gone = {index for span in self.split_off for index in span}
        return [index for index in range(self.start, self.end) if index not in gone]

    def aged_from(self, resumed_at: datetime | None) -> datetime | None:
        """When its age began to count: the latest of first claim, resume and replay; None before any claim."""
        if self.first_claim_at is None:
            return None
        return max(at for at in (self.first_claim_at, self.replayed_at, resumed_at) if at is not None)

    def ended_after(self, at: datetime | None) -> bool:
        """Whether it has ended, and after this time where one is given; a replay makes it open again."""
        ended = self.settled_at or self.dead_at
        return ended is not None and (at is None or ended > at)

    def used_up(self, limits: Limits, now: datetime, resumed_at: datetime | None) -> bool:
        """Whether attempts or age are used up."""
        aged_from = self.aged_from(resumed_at)
        too_old = aged_from is not None and aged_from <= now - limits.max_age
        return self.attempt >= limits.max_attempts or too_old

    def to_split(self, found_no_record: bool = False) -> bool:
        """Whether it crashed workers twice and has more than one open item: then it is only split."""
        return self.no_records + found_no_record >= NO_RECORDS_TO_SPLIT and self.open_items > 1

    def may_split(self, limits: Limits, found_no_record: bool = False) -> bool:
        """Whether it is to be split and has a claim left for that: one more than its attempts, whatever its age.

        No more: a job that cannot even be split, because its part is gone, must end too.
        """
        return self.to_split(found_no_record) and self.attempt <= limits.max_attempts


def open_sk(state: JobState, at: datetime) -> str:
    """A job's place in the open index: by state, then by the time that matters in it."""
    return f"{state}#{ms(at):013d}"


def last_failure(job: Job) -> Failure:
    """The failure that a job which used up its attempts or its age dies of: its last one."""
    reason_class = ReasonClass(job.reason_class) if job.reason_class in set(ReasonClass) else ReasonClass.TRANSIENT
    last = next((entry for entry in reversed(job.history) if entry.actor is None), None)
    code = last.code if last else NO_RECORD
    return Failure(reason_class, code, (last.summary if last else "") or NEXT_ACTION[reason_class])

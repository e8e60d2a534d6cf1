"""A run: one execution of one policy version for one scheduled time, with a frozen cutoff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sexton.instant import Instant, from_stamp, ms, stamp
from sexton.table import Key, Row

RUN_ID = re.compile(
    r"(?P<policy>[a-z][a-z0-9-]{1,47})\.(?P<stamp>\d{8}T\d{6}Z)\.(?P<undo>u?)(?P<n>[1-9]\d{0,3})", re.ASCII
)
RUNS = "RUNS"  # the open index's partition of runs that are not closed
SEXTON = "sexton"  # the actor of what nobody asked for
ATTENTION = "ATTENTION"  # and of closed runs that need a person: dead jobs, or books that do not balance


class RunState(StrEnum):
    """Where a run stands; `closed_at` says whether its books are closed."""

    PLANNING = "planning"
    PLANNED = "planned"
    REPORTED = "reported"
    AWAITING_APPROVAL = "awaiting_approval"
    DISPATCHING = "dispatching"
    DRAINING = "draining"
    HALTED = "halted"
    COMPLETED = "completed"
    INVALIDATED = "invalidated"


AT_WORK = (RunState.DISPATCHING, RunState.DRAINING)
WAITING = (RunState.REPORTED, RunState.AWAITING_APPROVAL)
Mode = Literal["report", "enforce"]


@dataclass(frozen=True, slots=True)
class RunId:
    """`<policy>.<YYYYMMDDTHHMMSSZ>.<n>`: n counts the issues of one scheduled time, from 1.

    An undo is `<policy>.<YYYYMMDDTHHMMSSZ>.u<n>`, with the time of the run that it undoes; n counts the undos.
    """

    policy: str
    scheduled_time: datetime
    n: int = 1
    undo: bool = False

    def __str__(self) -> str:
        return f"{self.policy}.{stamp(self.scheduled_time)}.{'u' if self.undo else ''}{self.n}"

    @property
    def key(self) -> Key:
        """The run row's key: the undos of a time sort after its issues."""
        return Key(f"POLICY#{self.policy}", f"{issues_prefix(self.scheduled_time)}{self.number}")

    @property
    def number(self) -> str:
        """n in four digits, so that it sorts; of an undo with a `U` before."""
        return f"{'U' if self.undo else ''}{self.n:04d}"

    @staticmethod
    def parse(text: str) -> RunId:
        """Raises ValueError when the text is no run id."""
        match = RUN_ID.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is no run id; one looks like logs-expire.20261130T020000Z.1")
        return RunId(match["policy"], from_stamp(match["stamp"]), int(match["n"]), undo=bool(match["undo"]))


def issues_prefix(scheduled_time: datetime) -> str:
    """The sort key prefix of all issues and undos of a scheduled time."""
    return f"RUN#{stamp(scheduled_time)}#"


class Place(BaseModel):
    """Where a listing goes on: after a key in the prefix of this number, and within the key after a version.

    `version` is a version or upload id. `since` and `rank` are carried for the versions that follow it: its date,
    which is when the next one became noncurrent, and how many noncurrent ones came before.
    """

    model_config = ConfigDict(frozen=True)

    prefix: int = 0
    start_after: str = ""
    version: str = ""
    since: Instant | None = None
    rank: int = 0


class Cursor(Place):
    """The place up to which planning is durable, and the number of the next part."""

    part: int = 0

    @staticmethod
    def at(place: Place, part: int) -> Cursor:
        """The cursor at a place."""
        return Cursor(**{**dict(place), "part": part})  # which a place that is a cursor has, too

    def to_row(self) -> Row:
        """The cursor as the run row holds it, defaults left out."""
        fields = self.model_dump(exclude_defaults=True)
        return {**fields, "since": ms(self.since)} if self.since else fields


class Change(BaseModel):
    """What somebody, or Sexton itself (`sexton`), did to a run, a pause or a hold; `change` is a verb of the past."""

    model_config = ConfigDict(frozen=True)

    at: Instant
    actor: str
    change: str
    reason: str
    detail: str | None = None
    request: str | None = None  # that it came with, where one request changes many jobs

    def to_row(self) -> Row:
        """The change as a row's list holds it."""
        return {**self.model_dump(exclude_none=True), "at": ms(self.at)}


class Run(BaseModel):
    """A run row, parsed. Counts of jobs' outcomes are not here: they are the sum over the job rows."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    policy: str
    policy_version: str
    scheduled_time: Instant
    cutoff: Instant
    n: int
    mode: Mode
    state: RunState
    rev: int
    created_at: Instant
    started_by: str
    covers: tuple[Instant, ...] = ()  # missed times that it takes care of beside its own: the latest 20 of
    covers_total: int = 0
    covered_before: Instant | None = None  # up to when the schedule was taken care of without it
    action: str = ""  # what its policy does, a word; empty of runs that an earlier release made
    undoes: str | None = None
    undone_by: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None
    planner_token: str | None = None
    planner_until: Instant | None = None
    cursor: Cursor = Cursor()
    scanned: dict[str, int] = Field(default_factory=dict)
    unreadable: tuple[str, ...] = ()  # keys of records, the first of them
    cohorts: str | None = None  # the hash of the file with the counts by cohort
    planned: int = 0
    planned_bytes: int = 0
    jobs: int = 0
    versioned: bool = False
    digest: str | None = None
    held_because: tuple[str, ...] = ()
    approved_by: str | None = None
    approved_at: Instant | None = None
    planned_at: Instant | None = None
    halted_from: RunState | None = None
    halted_at: Instant | None = None
    resumed_at: Instant | None = None
    replays: int = 0
    reopened_at: Instant | None = None
    changes: tuple[Change, ...] = ()
    mismatch_since: Instant | None = None
    report_revision: int = 0
    balanced: bool | None = None
    closed_at: Instant | None = None
    open_pk: str | None = None

    @staticmethod
    def from_row(row: Row) -> Run:
        """Raises pydantic.ValidationError when the row is no run."""
        return Run.model_validate(row)

    @property
    def id(self) -> RunId:
        """The id in its parts."""
        return RunId(self.policy, self.scheduled_time, self.n, undo=self.undoes is not None)

    @property
    def key(self) -> Key:
        """The row's key."""
        return self.id.key

    @property
    def since(self) -> datetime:
        """Since when it has been at work: created, then planned, then approved or opened again by a replay."""
        return max(at for at in (self.created_at, self.planned_at, self.approved_at, self.reopened_at) if at)

    @property
    def closed(self) -> bool:
        """Whether the books are closed and nothing more happens by itself."""
        return self.closed_at is not None

    @property
    def scanned_total(self) -> int:
        """How many items planning looked at."""
        return sum(self.scanned.values())


def open_sk(run_id: RunId) -> str:
    """The run's place among the runs that are not closed."""
    return f"{run_id.policy}#{stamp(run_id.scheduled_time)}#{run_id.number}"

"""Times of a policy's schedule that no run has taken care of, and why.

A run takes care of its own time and of all before it: what they would have removed, it removes. So the policy row
alone tells what is missed: all that was expected after `covered_until`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.controls import Controls
from sexton.expected import Expected, expected
from sexton.instant import from_ms, ms
from sexton.item import rfc3339
from sexton.run import RunId
from sexton.table import Row

DELIVERED_WITHIN = timedelta(hours=6)  # for so long EventBridge Scheduler tries to deliver the event of a policy
GRACE = DELIVERED_WITHIN + timedelta(minutes=15)
PRECISION = timedelta(minutes=1)  # EventBridge Scheduler's: a run answers what was expected less than this before it
COUNTED = 1000  # of one policy, the latest; more are no news
KEPT = 20


class Why(StrEnum):
    """Why a time passed without a run, or with one that was invalidated."""

    PAUSED = "paused"
    RUN_OPEN = "run_open"
    DAYLIGHT_SAVING = "daylight_saving"
    NOT_FIRED = "not_fired"
    NOT_CARRIED_OUT = "not_carried_out"
    REPORTED = "reported"


class MissedTime(BaseModel):
    """One time, and why it passed without a run."""

    model_config = ConfigDict(frozen=True)

    at: AwareDatetime
    why: str


class Missed(BaseModel):
    """What a policy has missed and no run has covered since, of the latest 1,000 times. `times`: 20 of them.

    `overdue`: those that the alarm counts. While the policy is paused or a run of it is open, and for a grace after a
    pause has ended, there are none: somebody knows, or the next run covers them by itself.
    """

    model_config = ConfigDict(frozen=True)

    policy: str
    schedule: str
    timezone: str
    count: int
    overdue: int
    times: tuple[MissedTime, ...]
    next_action: str


class Covers(NamedTuple):
    """The missed times that a run takes care of beside its own: how many, and the latest 20."""

    total: int = 0
    times: tuple[datetime, ...] = ()


def schedule_since(row: Row, schedule: str, timezone: str, now: datetime) -> int:
    """Since when a deployed policy has had its schedule (ms): what a deploy changed is expected from then on only."""
    same = (row.get("schedule"), row.get("timezone")) == (schedule, timezone) and row.get("deployed_version")
    return int(row.get("schedule_since", ms(now))) if same else ms(now)


def covered_by(row: Row, scheduled_time: datetime) -> Covers:
    """What a run of this time would cover, by the policy row as it is before the run."""
    times = [each.at for each in _uncovered(row, scheduled_time - PRECISION)]
    return Covers(len(times), tuple(times[-KEPT:]))


def covered_before(row: Row, scheduled_time: datetime) -> datetime | None:
    """Up to when the schedule is taken care of without a run of this time; None where the run adds nothing to that."""
    before = from_ms(row.get("covered_until", 0))
    return before if before <= scheduled_time else None


def missed(row: Row, controls: Controls, now: datetime) -> Missed | None:
    """What a policy has missed, by its row; None where it missed nothing. A late delivery is not yet missed."""
    uncovered = _uncovered(row, now)
    found = [MissedTime(at=each.at, why=_why(row, controls, each)) for each in uncovered]
    told = [each for each in found if each.why != Why.NOT_FIRED or each.at <= now - GRACE]
    if not told:
        return None
    return Missed(
        policy=row["policy"],
        schedule=row["schedule"],
        timezone=row["timezone"],
        count=len(told),
        overdue=_overdue(row, controls, told, now),
        times=tuple(told[-KEPT:]),
        next_action=_next_action(row, controls, next(each for each in uncovered if each.at == told[-1].at)),
    )


def _uncovered(row: Row, until: datetime) -> list[Expected]:
    since = row.get("schedule_since")
    if since is None or not row.get("deployed_version"):
        return []
    after = from_ms(max(since, row.get("covered_until", 0)))
    return expected(row["schedule"], row["timezone"], after, until, COUNTED)


def _why(row: Row, controls: Controls, each: Expected) -> Why:
    if each.left_out:
        return Why.DAYLIGHT_SAVING
    if entry := _skipped(row, each.at):
        return Why(entry.get("why", Why.RUN_OPEN))
    return Why.PAUSED if controls.was_paused(row["policy"], each.at) else Why.NOT_FIRED


def _skipped(row: Row, at: datetime) -> Row | None:
    """What is recorded of a time that led to no run, or to one that was invalidated: the last of it."""
    entries = reversed(row.get("skipped_triggers", []))
    return next((each for each in entries if RunId.parse(each["run_id"]).scheduled_time == at), None)


def _overdue(row: Row, controls: Controls, told: Sequence[MissedTime], now: datetime) -> int:
    resumed_at = controls.resumed_at(row["policy"])
    if controls.paused(row["policy"]) or row.get("open_run") or (resumed_at and now - resumed_at < GRACE):
        return 0
    return sum(each.at <= now - GRACE for each in told)


def _next_action(row: Row, controls: Controls, latest: Expected) -> str:
    policy = row["policy"]
    start = f"sexton run start {policy} --at {rfc3339(latest.at)} --reason ..."
    if paused := controls.paused(policy):
        scope = "" if paused.scope != policy else f" {policy}"
        return f"sexton resume{scope} --reason ...; then the next run covers them, or start one now: {start}"
    if row.get("open_run"):
        return f"nothing to do: when {row['open_run']} has ended, the next run covers them; sooner: {start}"
    ended = _skipped(row, latest.at)
    if ended and _why(row, controls, latest) is Why.REPORTED:
        approve = (
            f"approve the report that has its time: sexton run approve {ended['run_id']} --digest ... --reason ..."
        )
        return f"{approve}; or start a run now: sexton run start {policy} --reason ..."
    if ended and _why(row, controls, latest) is Why.NOT_CARRIED_OUT:
        now = f"sexton run start {policy} --reason ... (it covers them all)"
        mend = f"mend what `sexton run show {ended['run_id']}` names"
        return f"{mend}, then start one now: {now}; the next run of the schedule does the same"
    return f"{start} (it covers those before it too); the next run of the schedule does the same"

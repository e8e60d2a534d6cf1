"""What a message meets when it may not simply be claimed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sexton import message
from sexton.instant import ms
from sexton.job import Job, Limits
from sexton.message import Message
from sexton.receiving import LOOK_AGAIN, IsDead, Mismatch, Settled, TakeOver, Wait, met_idle, met_row, met_run
from sexton.run import Run, RunId, RunState
from sexton.table import Row

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
VERSION = "a" * 64
RUN_ID = RunId("logs-expire", NOW)
LIMITS = Limits(max_attempts=3, max_age=timedelta(hours=6))


def row(**changes: object) -> Row:
    fields: Row = {
        "job_id": f"{RUN_ID}.00000000",
        "run_id": str(RUN_ID),
        "policy": "logs-expire",
        "seq": "00000000",
        "state": "ready",
        "rev": 1,
        "part_key": "plans/x",
        "part_sha256": "0" * 64,
        "start": 0,
        "end": 3,
        "count": 3,
        "open_items": 3,
        "span": 3,
        "first_key": "a",
        "last_key": "z",
        **changes,
    }
    return fields


def run(**changes: object) -> Run:
    fields = {
        "run_id": str(RUN_ID),
        "policy": "logs-expire",
        "policy_version": VERSION,
        "scheduled_time": ms(NOW),
        "cutoff": ms(NOW - timedelta(days=30)),
        "n": 1,
        "mode": "enforce",
        "state": "draining",
        "rev": 4,
        "created_at": ms(NOW),
        "started_by": "schedule",
        **changes,
    }
    return Run.from_row(fields)


def received(**changes: object) -> Message:
    true = message.read(message.write(Job.from_row(row()), VERSION, NOW - timedelta(days=30)))
    return true.model_copy(update=changes)


# the run


@pytest.mark.parametrize("state", [RunState.DISPATCHING, RunState.DRAINING])
def test_a_run_at_work_lets_its_job_be_claimed(state: RunState) -> None:
    assert met_run(received(), run(state=state), VERSION) is None


def test_an_unknown_run_is_a_mismatch() -> None:
    assert isinstance(met_run(received(), None, VERSION), Mismatch)


@pytest.mark.parametrize("change", [{"policy_version": "b" * 64}, {"cutoff": NOW}])
def test_another_version_or_cutoff_than_the_runs_is_a_mismatch(change: dict[str, object]) -> None:
    assert isinstance(met_run(received(**change), run(), VERSION), Mismatch)


@pytest.mark.parametrize("state", [RunState.PLANNING, RunState.PLANNED, RunState.REPORTED, RunState.AWAITING_APPROVAL])
def test_a_run_that_has_dispatched_nothing_has_no_messages(state: RunState) -> None:
    assert isinstance(met_run(received(), run(state=state), VERSION), Mismatch)


@pytest.mark.parametrize("deployed", ["b" * 64, None])
def test_another_deployed_version_parks_the_job_for_a_minute(deployed: str | None) -> None:
    assert met_run(received(), run(), deployed) == Wait(LOOK_AGAIN, "another policy version is deployed")


@pytest.mark.parametrize("state", [RunState.HALTED, RunState.COMPLETED, RunState.INVALIDATED])
def test_a_run_not_at_work_leaves_it_to_the_jobs_row(state: RunState) -> None:
    assert met_run(received(), run(state=state), "b" * 64) is None


# the job's row


@pytest.mark.parametrize("change", [{"part_key": "plans/y"}, {"part_sha256": "1" * 64}, {"start": 1}, {"end": 4}])
def test_another_part_or_range_than_the_rows_is_a_mismatch(change: dict[str, object]) -> None:
    assert isinstance(met_row(received(**change), row(), LIMITS, NOW, None), Mismatch)
    assert isinstance(met_idle(received(**change), row()), Mismatch)


def test_an_unknown_job_is_a_mismatch() -> None:
    assert isinstance(met_row(received(), None, LIMITS, NOW, None), Mismatch)


@pytest.mark.parametrize("state", ["succeeded", "cancelled"])
def test_a_settled_job_has_had_its_message(state: str) -> None:
    assert met_row(received(), row(state=state), LIMITS, NOW, None) == Settled()
    assert met_idle(received(), row(state=state)) == Settled()


def test_a_dead_job_is_dead() -> None:
    assert met_row(received(), row(state="dead"), LIMITS, NOW, None) == IsDead(Job.from_row(row(state="dead")))
    assert met_idle(received(), row(state="dead")) == IsDead(Job.from_row(row(state="dead")))


@pytest.mark.parametrize("state", ["ready", "leased"])
def test_an_open_job_of_a_run_not_at_work_waits(state: str) -> None:
    assert met_idle(received(), row(state=state)) == Wait(LOOK_AGAIN, "its run is not at work")


@pytest.mark.parametrize("seconds", [0, 1, 90])
def test_a_live_lease_is_waited_for_until_just_after_its_end(seconds: int) -> None:
    leased = row(state="leased", lease_token="t", lease_expires_at=ms(NOW) + seconds * 1000, no_records=2, attempt=3)
    assert met_row(received(), leased, LIMITS, NOW, None) == Wait(
        timedelta(seconds=seconds + 1), "another worker holds it"
    )


def expired(**changes: object) -> Row:
    return row(state="leased", lease_token="t", lease_expires_at=ms(NOW) - 1, **changes)


def test_an_expired_lease_is_taken_over() -> None:
    assert met_row(received(), expired(attempt=2), LIMITS, NOW, None) == TakeOver(Job.from_row(expired(attempt=2)))


def test_an_expired_lease_with_attempts_used_up_is_left_to_the_reconciler() -> None:
    assert isinstance(met_row(received(), expired(attempt=3), LIMITS, NOW, None), Wait)


def test_an_expired_lease_with_age_used_up_is_left_to_the_reconciler() -> None:
    old = expired(attempt=1, first_claim_at=ms(NOW - LIMITS.max_age))
    assert isinstance(met_row(received(), old, LIMITS, NOW, None), Wait)


def test_age_counts_from_a_resume() -> None:
    old = expired(attempt=1, first_claim_at=ms(NOW - LIMITS.max_age))
    assert isinstance(met_row(received(), old, LIMITS, NOW, NOW - timedelta(hours=1)), TakeOver)


def test_a_second_crash_with_attempts_used_up_is_claimed_once_more_to_be_split() -> None:
    crashed = expired(attempt=3, no_records=1)
    assert met_row(received(), crashed, LIMITS, NOW, None) == TakeOver(Job.from_row(crashed))


def test_and_only_once_more() -> None:
    assert isinstance(met_row(received(), expired(attempt=4, no_records=2), LIMITS, NOW, None), Wait)


def test_a_single_item_that_crashed_twice_is_not_claimed_beyond_its_attempts() -> None:
    assert isinstance(met_row(received(), expired(attempt=3, no_records=2, open_items=1), LIMITS, NOW, None), Wait)


def test_a_ready_job_that_crashed_twice_is_claimed_to_be_split_whatever_its_age_and_attempts() -> None:
    crashed = row(attempt=3, no_records=2, first_claim_at=ms(NOW - LIMITS.max_age), not_before=ms(NOW) + 5000)
    assert isinstance(met_row(received(), crashed, LIMITS, NOW, None), TakeOver)


def test_a_message_that_comes_early_waits_for_the_rest() -> None:
    assert met_row(received(), row(not_before=ms(NOW) + 5000), LIMITS, NOW, None) == Wait(
        timedelta(seconds=5), "it came early"
    )


def test_a_ready_job_with_attempts_used_up_is_left_to_the_reconciler() -> None:
    assert met_row(received(), row(attempt=3), LIMITS, NOW, None) == Wait(LOOK_AGAIN, "attempts or age are used up")

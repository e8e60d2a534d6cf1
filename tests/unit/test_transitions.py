"""The job state table: each row with its guard holding and not holding, and nothing that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexton import job_transitions, message, part, run_transitions
from sexton.errors import Failure, ReasonClass
from sexton.instant import from_ms, ms
from sexton.item import Item
from sexton.job import Job, JobState, Limits, Span
from sexton.job_transitions import NOTHING, TRANSITIONS, Gained, Release
from sexton.message import Message
from sexton.run import Change, Cursor, Run, RunId
from sexton.table import Applied, Key, Refused, Row, Write, Written

from tests.fakes.table import FakeTable
from tests.fakes.time import START as NOW

RUN_ID = RunId("logs-expire", NOW)
VERSION = "a" * 64
CUTOFF = NOW - timedelta(days=30)
LEASE = timedelta(seconds=150)
LIMITS = Limits(max_attempts=3, max_age=timedelta(hours=6))
ITEMS = {index: Item(f"app/{index}", '"e"', 1, "STANDARD", CUTOFF) for index in range(10)}
BROKEN = Failure(ReasonClass.TRANSIENT, "InternalError", "it broke")
GAINED = Gained("outcomes/one", {"deleted": 4}, (Span(start=9, end=10),), 1)

JOB = Key(f"RUN#{RUN_ID}", "JOB#00000000")
SEEN_OPEN = {"open_pk": f"RUN#{RUN_ID}", "open_sk": "x"}


def ready(**changes: object) -> Row:
    fields: Row = {
        "pk": JOB.pk,
        "sk": JOB.sk,
        "job_id": f"{RUN_ID}.00000000",
        "run_id": str(RUN_ID),
        "policy": "logs-expire",
        "seq": "00000000",
        "state": "ready",
        "rev": 5,
        "part_key": "plans/x",
        "part_sha256": "0" * 64,
        "start": 0,
        "end": 10,
        "count": 10,
        "open_items": 10,
        "span": 10,
        "first_key": "app/0",
        "last_key": "app/9",
        "dispatch_due": ms(NOW),
        "attempt": 1,
        "first_claim_at": ms(NOW - timedelta(hours=1)),
        **SEEN_OPEN,
        **changes,
    }
    return fields


def leased(**changes: object) -> Row:
    row = ready(**{"state": "leased", "lease_token": "mine", "lease_expires_at": ms(NOW + LEASE), **changes})
    del row["dispatch_due"]
    return row


def expired(**changes: object) -> Row:
    return leased(**{"lease_expires_at": ms(NOW) - 1, **changes})


def dead(**changes: object) -> Row:
    died = {"state": "dead", "dead_at": ms(NOW) - 1, "attempt": 3, "throttles": 2, "no_records": 1, "dispatches": 4}
    row = ready(**{**died, "reason": "AccessDenied", "redrive_refused": "run_halted", **changes})
    del row["dispatch_due"]
    return row


def closed(**changes: object) -> Row:
    over = {"state": "completed", "closed_at": ms(NOW), "expires_at": 9, "balanced": True}
    return planning(**{**over, "rev": 7, "open_pk": "ATTENTION", "open_sk": "x", **changes})


def planning(**changes: object) -> Row:
    fields: Row = {
        "pk": RUN_ID.key.pk,
        "sk": RUN_ID.key.sk,
        "run_id": str(RUN_ID),
        "policy": "logs-expire",
        "policy_version": VERSION,
        "scheduled_time": ms(NOW),
        "cutoff": ms(CUTOFF),
        "n": 1,
        "mode": "enforce",
        "state": "planning",
        "rev": 1,
        "created_at": ms(NOW),
        "started_by": "schedule",
        "planner_token": "planner",
        "planner_until": ms(NOW + LEASE),
        **changes,
    }
    return fields


def claimed(row: Row) -> Message:
    return message.read(message.write(Job.from_row(row), VERSION, CUTOFF))


def claim(row: Row, now: datetime = NOW, resumed_at: datetime | None = None) -> list[Write]:
    return [job_transitions.claim(claimed(row), "mine", now, LEASE, LIMITS, resumed_at)]


def take_over(row: Row) -> list[Write]:
    return [job_transitions.take_over(Job.from_row(row), "next", NOW, LEASE)]


def plan(_: Row) -> list[Write]:
    run, made = Run.from_row(planning()), part.build("00000000", list(ITEMS.values()), 10)
    return [
        job_transitions.plan(run, made, "plans/x", NOW, "write"),
        run_transitions.advance(run, "planner", Cursor(part=1), {"expired": 10}, 10, 10, NOW, "write"),
    ]


def split(row: Row) -> list[Write]:
    job = Job.from_row(row)
    return [
        job_transitions.succeed(job, Gained(split_off=(Span(start=4, end=6),), items_split_off=2), NOW, "write"),
        job_transitions.split_off(job, Span(start=4, end=6), [4, 5], ITEMS, NOW, "write"),
    ]


def released(event: str, gained: Gained = NOTHING, **how: Any) -> Callable[[Row], list[Write]]:
    later = NOW + timedelta(minutes=1)
    release = Release(**{"event": event, "not_before": later, "dispatch_due": later, "maybe_done": False, **how})
    return lambda row: [job_transitions.release(Job.from_row(row), gained, release, NOW, "write")]


def died(gained: Gained = NOTHING) -> Callable[[Row], list[Write]]:
    return lambda row: [job_transitions.die(Job.from_row(row), gained, BROKEN, BROKEN.code, NOW, "write")]


BY_ANN = Change(at=NOW, actor="ann", change="replayed", reason="the permission is back")


def replayed(row: Row) -> list[Write]:
    return [
        job_transitions.replay(Job.from_row(row), BY_ANN, NOW + LEASE, "write"),
        run_transitions.reopen(Run.from_row(closed()), BY_ANN, NOW, "write"),
    ]


@dataclass(frozen=True)
class Case:
    """One row of the table. `met` is what the writes were made from, `breaks` what they may meet instead.

    `after` is what the row holds afterwards; None: the attribute is gone. `other` is a second row that the
    transaction concerns, by the name of its key.
    """

    met: Row
    writes: Callable[[Row], list[Write]]
    after: Mapping[str, object]
    breaks: Mapping[str, Row]
    other: tuple[Row, ...] = ()
    absent: bool = False
    key: Key = JOB
    also: Mapping[str, Row] = field(default_factory=dict)  # breaks of the other row


TAKEN = {"taken over": leased(lease_token="theirs"), "expired": ready(rev=6), "settled": leased(state="succeeded")}
MOVED = {"claimed": leased(rev=6), "sent again": ready(rev=6), "dead": ready(state="dead")}
EXPIRED_BREAKS = {
    "its lease lives": expired(lease_expires_at=ms(NOW)),
    "its worker settled it": expired(state="succeeded"),
}

CASES: dict[tuple[str, str, str], Case] = {
    ("-", "ready", "planned"): Case(
        met=ready(),
        writes=plan,
        absent=True,
        other=(planning(),),
        after={"state": "ready", "dispatch_due": ms(NOW), "count": 10, "open_items": 10, "rev": 1},
        breaks={"its row is there": ready()},
        also={
            "another planner has the lease": planning(planner_token="other"),
            "the run is invalidated": planning(state="invalidated"),
        },
    ),
    ("-", "ready", "split off, in the transaction that settles its parent"): Case(
        met=leased(outcome_files=["outcomes/old"], maybe_done=True, split_off=[{"start": 1, "end": 2}]),
        writes=split,
        key=Key(f"RUN#{RUN_ID}", "JOB#00000000#0004"),
        after={
            "state": "ready",
            "dispatch_due": ms(NOW),
            "start": 4,
            "end": 6,
            "count": 2,
            "open_items": 2,
            "attempt": None,
            "maybe_done": True,
            "first_claim_at": ms(NOW - timedelta(hours=1)),
            "inherited_files": ["outcomes/old"],
            "split_off": [{"start": 1, "end": 2}],
        },
        breaks=TAKEN,
        also={"its row is there": ready(sk="JOB#00000000#0004")},
    ),
    ("ready", "leased", "a worker claims it; attempt + 1"): Case(
        met=ready(not_before=ms(NOW)),
        writes=claim,
        after={
            "state": "leased",
            "attempt": 2,
            "lease_token": "mine",
            "lease_expires_at": ms(NOW + LEASE),
            "dispatch_due": None,
            "not_before": None,
            "maybe_done": None,
            "first_claim_at": ms(NOW - timedelta(hours=1)),
        },
        breaks={
            "leased": leased(),
            "dead": ready(state="dead"),
            "too early": ready(not_before=ms(NOW) + 1),
            "attempts used up": ready(attempt=3),
            "age used up": ready(first_claim_at=ms(NOW - LIMITS.max_age)),
            "another part": ready(part_key="plans/y"),
            "another hash": ready(part_sha256="1" * 64),
            "another start": ready(start=1),
            "another end": ready(end=9),
        },
    ),
    ("leased", "leased", "lease expired, another worker claims it; attempt + 1, maybe_done"): Case(
        met=expired(),
        writes=take_over,
        after={"state": "leased", "attempt": 2, "lease_token": "next", "maybe_done": True, "no_records": 1},
        breaks=EXPIRED_BREAKS | {"another took it over": expired(rev=6, lease_token="theirs")},
    ),
    ("leased", "leased", "a call that must not be repeated is about to be made: call_begun_at"): Case(
        met=leased(),
        writes=lambda row: [job_transitions.begin_call(Job.from_row(row), NOW, "write")],
        after={"state": "leased", "lease_token": "mine", "call_begun_at": ms(NOW)},
        breaks=TAKEN,
    ),
    ("leased", "ready", "lease expired, found by the reconciler; maybe_done"): Case(
        met=expired(),
        writes=lambda row: [job_transitions.expire(Job.from_row(row), NOW, "write")],
        after={
            "state": "ready",
            "attempt": 1,
            "maybe_done": True,
            "no_records": 1,
            "dispatch_due": ms(NOW),
            "lease_token": None,
            "lease_expires_at": None,
        },
        breaks=EXPIRED_BREAKS | {"another took it over": expired(lease_token="theirs")},
    ),
    ("leased", "succeeded", "all its items have outcomes or rows of their own"): Case(
        met=leased(open_items=5, maybe_done=True, counts={"deleted": 1, "skipped:changed": 4}),
        writes=lambda row: [job_transitions.succeed(Job.from_row(row), GAINED, NOW, "write")],
        after={
            "state": "succeeded",
            "open_items": 0,
            "counts": {"deleted": 5, "skipped:changed": 4},
            "outcome_files": ["outcomes/one"],
            "split_off": [{"start": 9, "end": 10}],
            "items_split_off": 1,
            "settled_at": ms(NOW),
            "expires_at": int((NOW + timedelta(days=400)).timestamp()),
            **dict.fromkeys(["lease_token", "lease_expires_at", "maybe_done", "open_pk", "open_sk"]),
        },
        breaks=TAKEN,
    ),
    ("leased", "ready", "transient failure; not_before and reason recorded"): Case(
        met=leased(),
        writes=released("transient", GAINED, failure=BROKEN, maybe_done=True),
        after={
            "state": "ready",
            "attempt": 1,
            "not_before": ms(NOW + timedelta(minutes=1)),
            "dispatch_due": ms(NOW + timedelta(minutes=1)),
            "reason": "InternalError",
            "reason_class": "transient",
            "maybe_done": True,
            "open_items": 5,
            "outcome_files": ["outcomes/one"],
            "lease_token": None,
        },
        breaks=TAKEN,
    ),
    ("leased", "ready", "throttled: attempt - 1, throttles + 1"): Case(
        met=leased(throttles=2),
        writes=released("throttled", refund=True, failure=Failure(ReasonClass.THROTTLED, "SlowDown", "")),
        after={"state": "ready", "attempt": 0, "throttles": 3, "reason_class": "throttled", "maybe_done": False},
        breaks=TAKEN,
    ),
    ("leased", "ready", "told to stop before any effect: attempt - 1"): Case(
        met=leased(),
        writes=released("stopped", refund=True),
        after={"state": "ready", "attempt": 0, "open_items": 10, "reason": "stopped"},
        breaks=TAKEN,
    ),
    (
        "leased",
        "ready",
        "stopped, or out of time, after some effects: outcomes recorded; attempt - 1 if an item gained an outcome",
    ): Case(
        met=leased(),
        writes=released("out_of_time", GAINED, refund=True),
        after={"state": "ready", "attempt": 0, "open_items": 5, "outcome_files": ["outcomes/one"]},
        breaks=TAKEN,
    ),
    (
        "leased",
        "ready",
        "attempts or age used up, but an effect of this attempt is unknown: maybe_done",
    ): Case(
        met=leased(attempt=3),
        writes=released("effect_unknown", maybe_done=True, failure=BROKEN),
        after={"state": "ready", "attempt": 3, "maybe_done": True, "dispatch_due": ms(NOW + timedelta(minutes=1))},
        breaks=TAKEN,
    ),
    (
        "leased",
        "leased",
        "two no_record attempts and more than one open item: one claim more, to split only",
    ): Case(
        met=expired(attempt=3, no_records=1),
        writes=take_over,
        after={"state": "leased", "attempt": 4, "no_records": 2, "maybe_done": True, "lease_token": "next"},
        breaks=EXPIRED_BREAKS | {"another took it over": expired(rev=6, lease_token="theirs")},
    ),
    ("leased", "dead", "permanent failure, or attempts or age used up, every effect known"): Case(
        met=leased(maybe_done=False),
        writes=died(GAINED),
        after={
            "state": "dead",
            "dead_at": ms(NOW),
            "reason": "InternalError",
            "reason_class": "transient",
            "summary": "it broke",
            "next_action": BROKEN.next_action,
            "open_items": 5,
            "outcome_files": ["outcomes/one"],
            "open_pk": f"RUN#{RUN_ID}",
            **dict.fromkeys(["lease_token", "lease_expires_at", "maybe_done", "dispatch_due"]),
        },
        breaks=TAKEN,
    ),
    ("leased", "cancelled", "the run was invalidated; observed if an effect is unknown"): Case(
        met=leased(),
        writes=lambda row: [job_transitions.cancel(Job.from_row(row), GAINED, NOW, "write")],
        after={"state": "cancelled", "open_items": 5, "outcome_files": ["outcomes/one"], "open_pk": None},
        breaks=TAKEN,
    ),
    (
        "ready",
        "dead",
        "used up, or an effect that cannot be told (call_begun_at, or the run invalidated); observed if maybe_done; "
        "by the reconciler",
    ): Case(
        met=ready(attempt=3, maybe_done=True, call_begun_at=1, not_before=ms(NOW)),
        writes=died(GAINED),
        after={
            "state": "dead",
            "dead_at": ms(NOW),
            "open_items": 5,
            **dict.fromkeys(["maybe_done", "call_begun_at", "dispatch_due", "not_before"]),
        },
        breaks=MOVED,
    ),
    ("ready", "cancelled", "the run was invalidated; observed if maybe_done; by the reconciler"): Case(
        met=ready(maybe_done=True),
        writes=lambda row: [job_transitions.cancel(Job.from_row(row), GAINED, NOW, "write")],
        after={"state": "cancelled", "open_items": 5, "maybe_done": None, "open_pk": None},
        breaks=MOVED,
    ),
    ("ready", "succeeded", "that observation gave every item an outcome"): Case(
        met=ready(maybe_done=True),
        writes=lambda row: [
            job_transitions.succeed(Job.from_row(row), Gained("outcomes/one", {"deleted": 10}), NOW, "write")
        ],
        after={"state": "succeeded", "open_items": 0, "maybe_done": None, "open_pk": None},
        breaks=MOVED,
    ),
    (
        "dead",
        "ready",
        "replay, in one transaction with the run's row; attempts and age start again, replays + 1",
    ): Case(
        met=dead(replays=9, counts={"deleted": 4}, outcome_files=["outcomes/old"]),
        writes=replayed,
        other=(closed(),),
        after={
            "state": "ready",
            "dispatch_due": ms(NOW + LEASE),
            "replayed_at": ms(NOW),
            "first_claim_at": ms(NOW - timedelta(hours=1)),
            "replays": 10,
            "counts": {"deleted": 4},
            "outcome_files": ["outcomes/old"],
            "history": [
                {"at": ms(NOW), "attempt": 3, "event": "replayed", "actor": "ann", "reason": "the permission is back"}
            ],
            **dict.fromkeys(["attempt", "throttles", "no_records", "dispatches"], 0),
            **dict.fromkeys(["dead_at", "reason", "reason_class", "summary", "next_action", "redrive_refused"]),
        },
        breaks={
            "another replayed it": ready(rev=6),
            "it died again": dead(rev=8),
            "another resolved it": dead(resolved_at=1),
            "its replays are used up": dead(replays=10),
        },
        also={
            "its closing is not announced": closed(open_pk="RUNS"),
            "an undo was asked for": closed(undone_by=["logs-expire.20260301T120000Z.u1"]),
            "the run is halted": closed(state="halted"),
            "the run is invalidated": closed(state="invalidated"),
            "another job of it was replayed": closed(rev=8),
        },
    ),
    ("dead", "dead", "resolved without replay"): Case(
        met=dead(),
        writes=lambda row: [
            job_transitions.resolve(Job.from_row(row), BY_ANN.model_copy(update={"change": "resolved"}), "write")
        ],
        after={
            "state": "dead",
            "resolved_at": ms(NOW),
            "resolved_by": "ann",
            "expires_at": int((NOW + timedelta(days=400)).timestamp()),
            "reason": "AccessDenied",
            "open_pk": None,
            "open_sk": None,
        },
        breaks={"another replayed it": ready(rev=6), "another resolved it": dead(resolved_at=1)},
    ),
}


def table_of(*rows: Row) -> FakeTable:
    table = FakeTable()
    for row in rows:
        table.put(row)
    return table


def carried_out(table: FakeTable, writes: list[Write]) -> Written:
    return table.write(writes[0]) if len(writes) == 1 else table.transact(writes)


def name(row: tuple[str, str, str]) -> str:
    return f"{row[0]} to {row[1]}: {row[2]}"


def test_every_row_of_the_table_has_its_case() -> None:
    assert set(CASES) == {row[:3] for row in TRANSITIONS}


@pytest.mark.parametrize("row", CASES, ids=name)
def test_the_guard_holds(row: tuple[str, str, str]) -> None:
    case = CASES[row]
    before = () if case.absent else (case.met,)
    table = table_of(*before, *case.other)
    assert isinstance(carried_out(table, case.writes(case.met)), Applied)
    after = table.rows[case.key]
    assert {attribute: after.get(attribute) for attribute in case.after} == case.after
    assert after["state"] == row[1]
    assert Job.from_row(after).rev == (1 if row[0] == "-" else case.met["rev"] + 1)
    assert_whole(after)


BROKEN_GUARDS = [
    pytest.param(case, (met, *case.other), met, id=f"{name(row)}, but {why}")
    for row, case in CASES.items()
    for why, met in case.breaks.items()
] + [
    pytest.param(case, (other, *(() if case.absent else (case.met,))), other, id=f"{name(row)}, but {why}")
    for row, case in CASES.items()
    for why, other in case.also.items()
]


@pytest.mark.parametrize(("case", "rows", "old"), BROKEN_GUARDS)
def test_the_guard_does_not_hold_and_the_loser_gets_the_old_row(case: Case, rows: tuple[Row, ...], old: Row) -> None:
    table = table_of(*rows)
    before = dict(table.rows)
    written = carried_out(table, case.writes(case.met))
    assert isinstance(written, Refused)
    assert written.old == old
    assert table.rows == before


@pytest.mark.parametrize("row", CASES, ids=name)
def test_a_repeat_of_a_write_whose_reply_was_lost_is_recognised(row: tuple[str, str, str]) -> None:
    case = CASES[row]
    table = table_of(*(() if case.absent else (case.met,)), *case.other)
    writes = case.writes(case.met)
    carried_out(table, writes)
    once = dict(table.rows)
    assert isinstance(carried_out(table, writes), Applied)
    assert table.rows == once


def test_the_one_claim_more_is_also_made_from_ready() -> None:
    crashed = ready(attempt=3, no_records=2)
    table = table_of(crashed)
    assert isinstance(carried_out(table, take_over(crashed)), Applied)
    assert isinstance(carried_out(table_of(ready(rev=6)), take_over(crashed)), Refused)


@pytest.mark.parametrize(
    ("changes", "resumed_at"),
    [
        ({"first_claim_at": ms(NOW - LIMITS.max_age) + 1}, None),
        ({"first_claim_at": 0, "replayed_at": ms(NOW - LIMITS.max_age) + 1}, None),
        ({"first_claim_at": 0}, NOW - LIMITS.max_age + timedelta(seconds=1)),
    ],
)
def test_age_counts_from_the_latest_of_first_claim_replay_and_resume(
    changes: dict[str, object], resumed_at: datetime | None
) -> None:
    row = ready(**changes)
    assert isinstance(carried_out(table_of(row), claim(row, resumed_at=resumed_at)), Applied)
    assert not Job.from_row(row).used_up(LIMITS, NOW, resumed_at)


def test_a_first_claim_starts_the_clock() -> None:
    row = ready()
    del row["first_claim_at"], row["attempt"]
    table = table_of(row)
    carried_out(table, claim(row))
    found = Job.from_row(table.rows[JOB])
    assert (found.attempt, found.first_claim_at) == (1, NOW)


def test_a_replay_reopens_its_run_and_leaves_one_at_work_as_it_is() -> None:
    table = table_of(dead(), closed())
    carried_out(table, replayed(dead()))
    run = Run.from_row(table.rows[RUN_ID.key])
    assert (run.state, run.rev, run.replays, run.open_pk) == ("draining", 8, 1, "RUNS")
    assert (run.closed_at, run.balanced, table.rows[RUN_ID.key].get("expires_at")) == (None, None, None)
    assert run.changes == (BY_ANN,)
    assert run.since == run.reopened_at == NOW
    at_work = planning(state="dispatching", rev=7)
    table = table_of(at_work)
    table.write(run_transitions.reopen(Run.from_row(at_work), None, NOW, "write"))
    run = Run.from_row(table.rows[RUN_ID.key])
    assert (run.state, run.rev, run.replays, run.changes) == ("dispatching", 8, 1, ())
    assert run.reopened_at is None


def test_a_death_whose_effect_no_look_can_tell_stays_maybe_done_through_a_replay() -> None:
    row = ready(maybe_done=True)
    table = table_of(row, closed())
    table.write(job_transitions.die(Job.from_row(row), NOTHING, BROKEN, "effect_unknown", NOW, "w", cannot_tell=True))
    died = table.rows[JOB]
    carried_out(table, replayed(died))
    assert (died["state"], died["maybe_done"]) == ("dead", True)
    assert (table.rows[JOB]["state"], table.rows[JOB]["maybe_done"]) == ("ready", True)


# everything else is refused

OPEN_STATES = ("ready", "leased", "dead")
BY_ITSELF = {("ready", "ready")}  # dispatch, which moves no state


def assert_whole(row: Row) -> None:
    """What holds of a row in its state, whatever came before."""
    state, leases = row["state"], {"lease_token", "lease_expires_at"} & row.keys()
    assert len(leases) == (2 if state == "leased" else 0)
    assert ("dispatch_due" in row) == (state == "ready"), "no ready row without a dispatch due"
    assert ("open_pk" in row) == (state in OPEN_STATES and "resolved_at" not in row)
    assert not row.get("maybe_done") or state in ("ready", "leased"), "no end with an effect unknown"
    assert row.get("attempt", 0) >= 0


NAMES = [
    "claim",
    "take_over",
    "expire",
    "dispatch",
    "due_now",
    "succeed",
    "cancel",
    "die",
    "release",
    "throttle",
    "replay",
    "resolve",
]


def write_of(how: str, job: Job, now: datetime, token: str) -> Write:
    if how == "claim":
        text = message.write(job, VERSION, CUTOFF)
        return job_transitions.claim(message.read(text), token, now, LEASE, LIMITS, None)
    if how == "take_over":
        return job_transitions.take_over(job, token, now, LEASE)
    if how == "expire":
        return job_transitions.expire(job, now, token)
    if how == "dispatch":
        return job_transitions.dispatch(job, now + LEASE, token)
    if how == "due_now":
        return job_transitions.due_now(job, now, token)
    if how == "succeed":
        return job_transitions.succeed(job, Gained(counts={"deleted": job.open_items}), now, token)
    if how == "cancel":
        return job_transitions.cancel(job, NOTHING, now, token)
    if how == "die":
        return job_transitions.die(job, NOTHING, BROKEN, BROKEN.code, now, token)
    if how in ("replay", "resolve"):
        change = Change(at=now, actor="ann", change=how, reason="for a test")
        return (
            job_transitions.replay(job, change, now, token)
            if how == "replay"
            else job_transitions.resolve(job, change, token)
        )
    refund = how == "throttle" and job.attempt > 0
    event = "throttled" if how == "throttle" else "transient"
    return job_transitions.release(job, NOTHING, Release(event, now, now + LEASE, False, refund), now, token)


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.integers(0, 200)),
        min_size=1,
        max_size=25,
    )
)
@settings(max_examples=150)
def test_only_what_the_table_lists_ever_happens(steps: list[tuple[str, int, int]]) -> None:
    """Any writes in any order, made from any row that anybody once saw, at times that only go on."""
    listed = {(before, after) for before, after, *_ in TRANSITIONS} | BY_ITSELF
    first = ready(dispatch_due=ms(NOW), attempt=0)
    table, key, now = table_of(first), Key(first["pk"], first["sk"]), NOW
    seen = [Job.from_row(first)]
    for number, (how, age, seconds) in enumerate(steps):
        now += timedelta(seconds=seconds)
        old = table.rows[key]
        written = table.write(write_of(how, seen[-1 - age % len(seen)], now, f"token-{number}"))
        row = table.rows[key]
        if isinstance(written, Refused):
            assert written.old == old == row
            continue
        assert (old["state"], row["state"]) in listed
        assert old["state"] not in ("succeeded", "cancelled"), "an end is an end"
        assert "resolved_at" not in old, "what was resolved stays so"
        alive = old["state"] == "leased" and from_ms(old["lease_expires_at"]) >= now
        own = seen[-1 - age % len(seen)].lease_token == old.get("lease_token")
        assert not alive or (own and row["state"] != "leased"), "a live lease is never taken away"
        assert row["rev"] == old["rev"] + 1
        assert_whole(row)
        seen.append(Job.from_row(row))


# how the table is shown


PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def as_markdown() -> str:
    """The state table as pages show it."""
    lines = ["| from | to | when | guard |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in TRANSITIONS]
    return "\n".join(lines) + "\n"


def test_the_page_shows_the_table_as_it_is() -> None:
    assert as_markdown() in PAGE.read_text()


def test_the_table_can_be_shown() -> None:
    shown = as_markdown().splitlines()
    assert len(shown) == len(TRANSITIONS) + 2
    assert all(line.count("|") == 5 for line in shown)
    states = {state.value for state in JobState} | {"-"}
    assert {cell for row in TRANSITIONS for cell in row[:2]} <= states


def test_a_job_whose_call_may_have_been_made_is_not_claimed() -> None:
    row = ready(call_begun_at=1)
    assert isinstance(carried_out(table_of(row), claim(row)), Refused)


@pytest.mark.parametrize("end", ["released", "died", "succeeded", "cancelled"])
def test_whatever_settles_an_attempt_takes_back_that_its_call_begins(end: str) -> None:
    row = leased(call_begun_at=1)
    job = Job.from_row(row)
    how = Release("transient", NOW, NOW, maybe_done=False, failure=BROKEN)
    write = {
        "released": job_transitions.release(job, NOTHING, how, NOW, "write"),
        "died": job_transitions.die(job, NOTHING, BROKEN, BROKEN.code, NOW, "write"),
        "succeeded": job_transitions.succeed(job, NOTHING, NOW, "write"),
        "cancelled": job_transitions.cancel(job, NOTHING, NOW, "write"),
    }[end]
    written = carried_out(table_of(row), [write])
    assert isinstance(written, Applied)
    assert "call_begun_at" not in (written.row or {"call_begun_at": 1})


def test_who_cannot_tell_leaves_that_for_a_replay() -> None:
    row = leased()
    write = job_transitions.die(Job.from_row(row), NOTHING, BROKEN, "effect_unknown", NOW, "write", cannot_tell=True)
    written = carried_out(table_of(row), [write])
    assert isinstance(written, Applied)
    assert (written.row or {})["maybe_done"] is True

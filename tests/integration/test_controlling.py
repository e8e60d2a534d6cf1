"""Control over a world in memory: who may ask for what, and what is answered, recorded and logged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sexton.change_request import CHANGES, Door, door_of
from sexton.controlling import LONGEST_BODY, Answer, Caller
from sexton.errors import CallFailed, EvidenceAltered, Failure, LeaseLost, ReasonClass, SextonError

from tests.fakes.control import controlling
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.schedules import FakeSchedules
from tests.fakes.world import World, policy

ADA = Caller("arn:aws:sts::123456789012:assumed-role/Operators/ada", verified=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
THROTTLED = Failure(ReasonClass.THROTTLED, "ThrottlingException", "slow down", unknown_effect=True)
FIELDS: dict[str, dict[str, object]] = {
    "run_start": {"policy": "logs-expire"},
    "run_approve": {"run_id": "logs-expire.20260301T120000Z.1", "digest": "0" * 64},
    **{
        f"run_{verb}": {"run_id": "logs-expire.20260301T120000Z.1"} for verb in ("halt", "resume", "invalidate", "undo")
    },
    "pause": {"scope": "logs-expire"},
    "resume": {"scope": "logs-expire"},
    "hold_add": {"scope": "s3://logs/app/"},
    "hold_release": {"scope": "s3://logs/app/"},
    "dlq_replay": {"jobs": ["logs-expire.20260301T120000Z.1.00000000"]},
    "dlq_resolve": {"jobs": ["logs-expire.20260301T120000Z.1.00000000"]},
    "dlq_sweep": {},
    "dlq_redrive": {},
    "dlq_redrive_cancel": {},
}


class Counter:
    """A world's control."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead_letters = FakeDeadLetters(world.queue, world.clock)
        self.schedules = FakeSchedules(on=dict.fromkeys(world.policies, True))
        self.changes_sent: Callable[[], int] | None = None

    def ask(self, change: str, caller: Caller | None = ADA, door: Door | None = None, **fields: object) -> Answer:
        body = json.dumps({"change": change, "reason": "because", **fields}).encode()
        return self.send(body, caller, door or door_of(change))

    def send(self, body: bytes, caller: Caller | None = ADA, door: Door = Door.OPERATOR) -> Answer:
        parts = self.dead_letters, self.schedules, self.changes_sent
        return controlling(self.world, door, *parts).answer(caller, body)

    def result(self, change: str, **fields: object) -> dict[str, Any]:
        answer = self.ask(change, **fields)
        assert answer.status == 200, answer
        return dict(answer.body["result"])  # type: ignore[call-overload]


def code(answer: Answer) -> tuple[int, str]:
    error = answer.body["error"]
    assert isinstance(error, dict)
    assert all(error[name] for name in ("code", "message", "hint"))
    return answer.status, str(error["code"])


@pytest.fixture
def counter() -> Counter:
    world = World({"logs-expire": policy(job_size=10, limits={"max_items": 1000})})
    world.fill([f"app/{n:02d}" for n in range(25)])
    return Counter(world)


@pytest.fixture
def dead(counter: Counter) -> list[str]:
    """Three dead jobs of a closed run."""
    for n in range(25):
        counter.world.bucket().failures[f"app/{n:02d}"] = DENIED
    run_id = counter.result("run_start", policy="logs-expire")["run_id"]
    counter.world.settle()
    while counter.world.run({"run_id": run_id}).state == "halted":
        counter.result("run_resume", run_id=run_id)
        counter.world.settle()
    jobs = [job.job_id for job in counter.world.ledger.jobs(run_id) if job.state == "dead"]
    assert jobs
    counter.world.bucket().failures.clear()
    return jobs


# who asks, and where


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_goes_through_its_own_door_only(counter: Counter, change: str) -> None:
    other = Door.APPROVER if door_of(change) is Door.OPERATOR else Door.OPERATOR
    rows = dict(counter.world.table.rows)
    assert code(counter.ask(change, door=other, **FIELDS[change])) == (403, "wrong_door")
    assert counter.world.table.rows == rows
    assert counter.ask(change, **FIELDS[change]).status in (200, 404, 409)


@pytest.mark.parametrize("change", CHANGES)
def test_nobody_changes_nothing(counter: Counter, change: str) -> None:
    rows = dict(counter.world.table.rows)
    assert code(counter.ask(change, caller=None, **FIELDS[change])) == (403, "no_identity")
    assert counter.world.table.rows == rows


def test_every_answer_to_who_is_not_verified_says_so(counter: Counter) -> None:
    named = Caller("ada", verified=False)
    for answer in (
        counter.ask("pause", caller=named, scope="logs-expire"),
        counter.ask("pause", caller=named, scope="nowhere"),
        counter.send(b"nothing", named),
    ):
        assert answer.body["unverified"] is True
    assert "unverified" not in counter.ask("pause", scope="logs-expire").body


# what cannot be


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"change": "drop_everything", "reason": "r"}'])
def test_what_is_no_request_is_answered_with_what_is_known(counter: Counter, body: bytes) -> None:
    assert code(counter.send(body)) == (400, "bad_request")


def test_a_body_that_is_too_long_is_not_read(counter: Counter) -> None:
    assert code(counter.send(b" " * (LONGEST_BODY + 1))) == (400, "bad_request")
    largest = {"change": "dlq_resolve", "jobs": ["j" * 200] * 50, "reason": "x" * 500}
    assert len(json.dumps(largest)) < LONGEST_BODY


@pytest.mark.parametrize(
    ("change", "fields", "expected"),
    [
        ("run_start", {"policy": "nowhere"}, (404, "unknown_policy")),
        ("run_start", {"policy": "logs-expire", "scheduled_time": "2199-01-01T00:00:00Z"}, (400, "bad_event")),
        ("run_start", {"policy": "logs-expire", "scheduled_time": "yesterday"}, (400, "bad_event")),
        ("run_halt", {"run_id": "logs-expire.20260301T120000Z.1"}, (404, "unknown_run")),
        ("run_halt", {"run_id": "../../etc"}, (400, "bad_run_id")),
        ("run_undo", {"run_id": "nonsense"}, (400, "bad_run_id")),
        ("pause", {"scope": "nowhere"}, (404, "unknown_policy")),
        ("hold_add", {"scope": "not-a-place"}, (400, "bad_scope")),
        ("hold_release", {"scope": "s3://logs/app/"}, (409, "no_such_hold")),
        ("dlq_redrive_cancel", {}, (409, "no_redrive")),
    ],
)
def test_what_is_refused_has_its_status_and_code(
    counter: Counter, change: str, fields: dict[str, object], expected: tuple[int, str]
) -> None:
    assert code(counter.ask(change, **fields)) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CallFailed(THROTTLED), (502, "call_failed")),
        (LeaseLost("somebody else"), (502, "moved")),
        (EvidenceAltered("gone"), (502, "evidence_altered")),
    ],
)
def test_what_breaks_off_may_have_been_done_and_is_answered_so(
    counter: Counter, monkeypatch: pytest.MonkeyPatch, error: SextonError, expected: tuple[int, str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("sexton.stopping.Stopping.hold", fail)
    assert code(counter.ask("hold_add", scope="s3://logs/app/")) == expected
    assert len(counter.world.events_logged("change_broke_off")) == 1


def test_a_mistake_of_ours_is_not_answered_but_raised(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the function fails, and its alarm tells."""
    monkeypatch.delattr("sexton.stopping.Stopping.hold")
    with pytest.raises(AttributeError):
        counter.ask("hold_add", scope="s3://logs/app/")


# what is done


def test_a_started_run_knows_who_asked_and_is_planned_at_once(counter: Counter) -> None:
    started = counter.result("run_start", policy="logs-expire")
    assert started["created"]
    run = counter.world.run(started)
    assert (run.started_by, run.state) == (ADA.actor, "draining")
    assert [(each.change, each.actor, each.reason) for each in run.changes] == [("started", ADA.actor, "because")]
    assert counter.result("run_start", policy="logs-expire")["created"] is False


def test_a_started_run_takes_what_was_asked_for(counter: Counter) -> None:
    at = "2026-02-27T03:00:00+01:00"
    started = counter.result("run_start", policy="logs-expire", scheduled_time=at, mode="report")
    assert started["run_id"] == "logs-expire.20260227T020000Z.1"
    assert counter.world.run(started).mode == "report"


def test_a_run_is_halted_goes_on_and_ends(counter: Counter) -> None:
    run_id = counter.result("run_start", policy="logs-expire")["run_id"]
    assert counter.result("run_halt", run_id=run_id)["state"] == "halted"
    assert counter.result("run_resume", run_id=run_id)["state"] == "draining"
    assert counter.result("run_invalidate", run_id=run_id)["state"] == "invalidated"
    run = counter.world.run({"run_id": run_id})
    assert [(each.change, each.actor, each.reason) for each in run.changes[-3:]] == [
        (change, ADA.actor, "because") for change in ("halted", "resumed", "invalidated")
    ]


def test_a_plan_is_approved(counter: Counter) -> None:
    counter.world.policies["logs-expire"] = policy(approval="always")
    run = counter.world.run(counter.result("run_start", policy="logs-expire"))
    assert run.state == "awaiting_approval"
    assert code(counter.ask("run_approve", run_id=run.run_id, digest="0" * 64)) == (409, "other_digest")
    assert counter.result("run_approve", run_id=run.run_id, digest=run.digest)["planned"] == 25
    counter.world.settle()
    assert counter.world.run({"run_id": run.run_id}).approved_by == ADA.actor


def test_a_pause_switches_the_schedule_and_nothing_else(counter: Counter) -> None:
    counter.schedules.on = {"logs-expire": True, "others-expire": True}
    assert counter.result("pause", scope="logs-expire") == {
        "scope": "logs-expire",
        "state": "paused",
        "changed": True,
        "switched": ["logs-expire"],
        "trouble": None,
    }
    assert counter.schedules.on == {"logs-expire": False, "others-expire": True}
    assert counter.schedules.feeding
    assert counter.result("pause", scope="logs-expire")["changed"] is False
    counter.result("resume", scope="logs-expire")
    assert all(counter.schedules.on.values())


def test_a_pause_of_all_stops_the_feed_and_leaves_a_policys_own_pause(counter: Counter) -> None:
    counter.result("pause", scope="logs-expire")
    counter.result("pause", scope="all")
    assert not counter.schedules.feeding
    counter.result("resume", scope="all")
    assert counter.schedules.feeding
    assert counter.schedules.on == {"logs-expire": False}
    counter.result("pause", scope="all")
    assert counter.result("resume", scope="logs-expire")["switched"] == ["logs-expire"]
    assert counter.schedules.on == {"logs-expire": False}, "the pause of all covers it"


def test_a_pause_holds_where_the_schedule_cannot_follow_and_asking_again_lets_it(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(policy: str) -> bool:
        raise CallFailed(DENIED)

    with monkeypatch.context() as broken:
        broken.setattr(counter.schedules, "disable", fail)
        assert "AccessDenied" in counter.result("pause", scope="logs-expire")["trouble"]
    assert counter.world.ledger.controls().paused("logs-expire")
    again = counter.result("pause", scope="logs-expire")
    assert (again["changed"], again["trouble"], counter.schedules.on) == (False, None, {"logs-expire": False})


def test_holds_come_and_go(counter: Counter) -> None:
    assert counter.result("hold_add", scope="s3://logs")["scope"] == "s3://logs/"
    counter.result("run_start", policy="logs-expire")
    counter.world.settle()
    assert len(counter.world.bucket().list("app/").items) == 25
    assert counter.result("hold_release", scope="s3://logs")["state"] == "released"
    assert not counter.world.ledger.controls().hold_on("s3://logs/app/00")


# many jobs


def test_each_dead_job_is_replayed_by_itself(counter: Counter, dead: list[str]) -> None:
    unknown, wrong = f"{dead[0].rpartition('.')[0]}.00000099", "nonsense"
    result = counter.result("dlq_replay", jobs=[unknown, *dead, wrong, dead[0]])
    assert (result["done"], result["not_tried"]) == (dead, [])
    assert [(each["job_id"], each["code"]) for each in result["refused"]] == [
        (unknown, "unknown_job"),
        (wrong, "bad_job_id"),
    ]
    counter.world.settle()
    assert not counter.world.bucket().list("app/").items


def test_a_replay_of_many_is_one_change_of_the_run(counter: Counter, dead: list[str]) -> None:
    counter.result("dlq_replay", jobs=dead)
    run = counter.world.run({"run_id": dead[0].rpartition(".")[0]})
    assert [each.actor for each in run.changes if each.change == "replayed"] == [ADA.actor]


def test_dead_jobs_are_resolved_once(counter: Counter, dead: list[str]) -> None:
    assert counter.result("dlq_resolve", jobs=dead)["done"] == dead
    again = counter.result("dlq_resolve", jobs=dead)
    assert {each["code"] for each in again["refused"]} == {"resolved"}


def test_a_call_that_fails_ends_a_request_and_says_what_was_not_tried(
    counter: Counter, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., object] = counter.world.table.transact
    calls = []

    def fail_second(writes: Any) -> object:
        calls.append(writes)
        if len(calls) == 2:
            raise CallFailed(THROTTLED)
        return real(writes)

    monkeypatch.setattr(counter.world.table, "transact", fail_second)
    result = counter.result("dlq_resolve", jobs=dead)
    assert result["done"] == dead[:1]
    assert [(each["job_id"], each["code"]) for each in result["refused"]] == [(dead[1], "call_failed")]
    assert result["not_tried"] == dead[2:]


# what is logged


def test_each_change_is_one_event_with_its_actor(counter: Counter) -> None:
    counter.result("pause", scope="logs-expire")
    assert counter.world.events_logged("changed") == [
        {"change": "pause", "actor": ADA.actor, "verified": True, "reason": "because"}
    ]
    counter.ask("pause", scope="nowhere")
    counter.ask("pause", caller=None, scope="nowhere")
    refusals = [(each["actor"], each["code"]) for each in counter.world.events_logged("change_refused")]
    assert refusals == [(ADA.actor, "unknown_policy"), (None, "no_identity")]


@pytest.mark.parametrize(
    "secret", ["AKIAIOSFODNN7EXAMPLE", "Bearer abcdefghijklmnop", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"]
)
def test_a_credential_that_is_sent_is_neither_kept_nor_logged(counter: Counter, secret: str) -> None:
    counter.ask("pause", scope="logs-expire", reason=f"see {secret}")
    counter.ask("pause", scope=secret)
    counter.ask("run_halt", run_id=secret)
    counter.send(json.dumps({"change": "pause", "scope": "x", "reason": "r", "token": secret}).encode())
    counter.send(secret.encode())
    assert secret not in repr(counter.world.table.rows)
    assert secret not in repr(counter.world.logged)


# where nothing was changed


def refuse_to_look(counter: Counter, monkeypatch: pytest.MonkeyPatch, failure: Failure) -> None:
    def fail(*_: object) -> None:
        raise CallFailed(failure)

    monkeypatch.setattr(counter.dead_letters, "moves", fail)


def test_a_read_that_fails_before_any_change_is_told_as_no_change(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_look(counter, monkeypatch, THROTTLED)
    assert code(counter.ask("dlq_redrive")) == (502, "call_failed"), "as far as nobody counts what was sent"
    counter.changes_sent = lambda: 7
    answer = counter.ask("dlq_redrive")
    assert code(answer) == (424, "call_failed")
    assert "nothing was changed" in str(answer.body)


def test_a_job_whose_row_could_not_be_read_is_not_done(
    counter: Counter, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CallFailed(THROTTLED)

    monkeypatch.setattr(counter.world.table, "transact", fail)
    counter.changes_sent = lambda: 7
    (refused,) = counter.result("dlq_resolve", jobs=dead)["refused"]
    assert refused["message"].startswith("not done: ")


@pytest.mark.parametrize("change", ["dlq_redrive", "dlq_redrive_cancel"])
def test_an_endpoint_without_move_tasks_has_no_redrive(
    counter: Counter, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    unknown = "The action ListMessageMoveTasks is not valid for this endpoint."
    refuse_to_look(counter, monkeypatch, Failure(ReasonClass.PERMANENT, "InvalidAction", unknown))
    answer = counter.ask(change)
    assert code(answer) == (409, "no_move_tasks")
    assert "this endpoint has no redrive" in str(answer.body)

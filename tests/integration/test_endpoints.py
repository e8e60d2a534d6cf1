"""Endpoints of an application, through the whole line: one call for each record, its outcome what the policy says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from sexton import calling, cli
from sexton.errors import EFFECT_UNKNOWN, Failure, ReasonClass
from sexton.http_call import HttpAnswer, HttpCall
from sexton.item import Item, from_line, rfc3339
from sexton.job import Job, JobState
from sexton.replay_preview import ReplayPreview
from sexton.replaying import Replaying
from sexton.run import Run, RunState
from sexton.table import Key
from sexton.working import Answer

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.recorder import Crash
from tests.fakes.time import START
from tests.fakes.world import LEASE, World, calls_policy
from tests.integration.seen import tally

POLICY = "reminders-cancel"
DAY = timedelta(days=1)
LOST = Failure(ReasonClass.TRANSIENT, "reply_lost", "ConnectionResetError", unknown_effect=True)
LATE = Failure(ReasonClass.TRANSIENT, "timeout", "no answer came in time", unknown_effect=True)
NOT_SENT = Failure(ReasonClass.TRANSIENT, "not_connected", "carriers.example.com: ConnectionRefusedError")
REFUSED = Failure(ReasonClass.PERMANENT, "address_refused", "carriers.example.com: 10.0.0.1 is not a public address")


def a_world(*names: str, **changes: object) -> World:
    """Reminders of these names that were due 60 days ago, each a second after the one before."""
    world = World({POLICY: calls_policy(**changes)})
    for number, name in enumerate(names or ("r1",)):
        remind(world, name, seconds=number)
    return world


def remind(world: World, name: str | dict[str, str], age: float = 60, seconds: int = 0, **more: object) -> str:
    due = int((START - age * DAY).timestamp()) + seconds
    return world.records().put(**{"id": name, "status": "open", "deadline": due, "carrier": "dhl", **more})


def started(world: World) -> Run:
    return world.run(world.trigger(POLICY, at=START))


def carried_out(world: World) -> Run:
    return world.carried_out(POLICY, at=START)


def jobs(world: World) -> list[Job]:
    return list(world.ledger.jobs(f"{POLICY}.{START:%Y%m%dT%H%M%SZ}.1"))


def the_job(world: World) -> Job:
    (job,) = jobs(world)
    return job


def called(world: World) -> list[str]:
    return [call.url.rpartition("/")[2] for call in world.endpoints.calls]


# the call


def test_each_record_is_one_job_and_one_call() -> None:
    world = a_world("r1", "r2", "r3")
    remind(world, "young", age=1)
    run = carried_out(world)
    assert (run.planned, tally(world, run.run_id)) == (3, {"deleted": 3})
    assert sorted(called(world)) == ["r1", "r2", "r3"]
    assert [job.count for job in jobs(world)] == [1, 1, 1]
    assert len(world.records().records) == 4  # what becomes of the record is the application's affair


def test_a_call_has_identifiers_and_nothing_else() -> None:
    world = a_world()
    remind(world, "r1", note="call Mrs. Miller", carrier="ups/eu")
    carried_out(world)
    (call,) = world.endpoints.calls
    assert (call.method, call.url) == ("POST", "https://carriers.example.com/carriers/ups%2Feu/reminders/r1")
    assert json.loads(call.body or b"") == {
        "policy": POLICY,
        "job": the_job(world).job_id,
        "key": {"id": "r1"},
        "deadline": rfc3339(START - 60 * DAY),
    }
    assert (call.job_id, call.hosts, dict(call.secrets)) == (
        the_job(world).job_id,
        ("carriers.example.com",),
        {"Authorization": "sexton/carriers"},
    )


@pytest.mark.parametrize(
    ("number", "sent"),
    [("-7", -7), ("9007199254740991", 2**53 - 1), ("9007199254740993", "9007199254740993"), ("1.5", "1.5")],
)
def test_no_reader_takes_a_number_of_a_key_for_another(number: str, sent: object) -> None:
    world = World({POLICY: calls_policy()})
    remind(world, {"N": number})
    carried_out(world)
    (call,) = world.endpoints.calls
    assert json.loads(call.body or b"")["key"] == {"id": sent}


def test_a_delete_has_no_body() -> None:
    world = a_world(method="DELETE")
    carried_out(world)
    assert world.endpoints.calls[0].body is None


def test_nothing_is_called_for_a_report() -> None:
    world = a_world(mode="report")
    world.trigger(POLICY, at=START)
    world.tick()
    assert world.endpoints.calls == []


def test_a_record_that_was_changed_or_is_held_is_not_called_for() -> None:
    world = a_world("changed", "gone", "held", "moved")
    started(world)
    remind(world, "changed", age=1)
    world.records().records.pop(remind(world, "gone"))
    world.stopping().hold('dynamodb://reminders/{"id":{"S":"held"}}', "a lawsuit", "ann")
    remind(world, "moved", seconds=3, carrier="ups")
    world.settle()
    assert called(world) == []
    assert tally(world, jobs(world)[0].run_id) == {
        "skipped:absent": 1,
        "skipped:changed": 2,
        "skipped:held": 1,
    }


def test_a_worker_waits_for_its_turn_before_it_looks() -> None:
    world = a_world("r1", "r2", rate=4)
    started(world)
    world.trace.calm()
    world.work(1)
    names = world.trace.names
    assert names.index("endpoints.await_turn") < names.index("records.get") < names.index("endpoints.call")
    assert world.endpoints.turns == [(POLICY, timedelta(seconds=0.25))]


def test_a_call_takes_no_longer_than_a_worker_has() -> None:
    world = a_world(timeout="PT20S")
    world.endpoints.longest = timedelta(seconds=7)
    carried_out(world)
    assert world.endpoints.calls[0].timeout == timedelta(seconds=7)


@pytest.mark.parametrize("more", [{"carrier": ".."}, {"carrier": ""}, {"carrier": {"NULL": True}}])
def test_a_field_that_fits_no_url_kills_its_job_alone(more: dict[str, object]) -> None:
    world = a_world("fine")
    remind(world, "odd", **more)
    run = carried_out(world)
    assert (called(world), tally(world, run.run_id)) == (["fine"], {"deleted": 1, "dead:field_unfit": 1})
    (dead,) = (job for job in jobs(world) if job.state is JobState.DEAD)
    assert dead.reason == "field_unfit"


# what answers mean


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        (200, "deleted"),
        (204, "deleted"),
        (404, "skipped:absent"),
        (410, "skipped:absent"),
        (409, "dead:http_409"),
        (403, "dead:http_403"),
    ],
)
@pytest.mark.parametrize("idempotent", [True, False])
def test_an_answer_means_what_the_policy_says(status: int, counted: str, idempotent: bool) -> None:
    world = a_world(idempotent=idempotent)
    world.endpoints.answer = HttpAnswer(status, "Whatever")
    run = carried_out(world)
    assert (tally(world, run.run_id), len(world.endpoints.calls)) == ({counted: 1}, 1)


@pytest.mark.parametrize("status", [201, 202, 206, 301, 302, 303, 307])
def test_what_is_no_success_by_the_policy_is_none(status: int) -> None:
    for idempotent, reason in ((True, f"http_{status}"), (False, EFFECT_UNKNOWN)):
        world = a_world(idempotent=idempotent)
        world.endpoints.answer = HttpAnswer(status)
        carried_out(world)
        assert (the_job(world).reason, len(world.endpoints.calls)) == (reason, 1)


@pytest.mark.parametrize("status", [101, 408, 500, 502, 503, 504, 599, 700])
def test_a_server_that_broke_off_is_called_again_where_that_is_safe(status: int) -> None:
    world = a_world()
    world.endpoints.answers = {"r1": [HttpAnswer(status)] * 2}
    run = carried_out(world)
    assert (tally(world, run.run_id), len(world.endpoints.calls)) == ({"deleted": 1}, 3)
    assert len({call.job_id for call in world.endpoints.calls}) == 1


@pytest.mark.parametrize(
    ("answer", "asked", "waits"),
    [
        (HttpAnswer(429, retry_after=90.0), "throttled", 90),
        (HttpAnswer(503, retry_after=90.0), "throttled", 90),
        (HttpAnswer(429), "throttled", 5),
        (HttpAnswer(429, retry_after=86_400.0), "throttled", 3600),
        (HttpAnswer(500, retry_after=90.0), "transient", 90),
    ],
)
def test_who_asks_to_wait_is_waited_for_and_nobody_waits_with_them(
    answer: HttpAnswer, asked: str, waits: float
) -> None:
    world = a_world("r1", "r2", "r3")
    started(world)
    world.endpoints.answers = {"r1": [answer]}
    before = world.clock()
    answers = world.work()
    assert sorted(answers.values()) == [Answer.ACK, Answer.ACK, Answer.KEEP]
    assert world.clock() - before < timedelta(seconds=2)  # the batch was not held
    waiting, *others = jobs(world)
    assert {job.state for job in others} == {JobState.SUCCEEDED}
    assert (waiting.state, waiting.history[-1].event) == (JobState.READY, asked)
    assert waiting.attempt == (0 if asked == "throttled" else 1)
    assert waiting.not_before == before + timedelta(seconds=waits)
    world.clock.advance(waits - 1)
    assert world.work() == {}  # its message is hidden as long
    world.clock.advance(1)
    world.work()
    assert called(world).count("r1") == 2


def test_a_caller_that_is_not_known_is_one_mistake() -> None:
    """401 halts the run instead of killing a job for each record, and so does whatever lets no call begin."""
    for wrong in (HttpAnswer(401, "Unauthorized"), REFUSED):
        for idempotent in (True, False):
            world = a_world("r1", "r2", idempotent=idempotent)
            run = started(world)
            world.endpoints.answer = wrong
            world.work()
            halted = world.run({"run_id": run.run_id})
            assert (halted.state, halted.reason) == (RunState.HALTED, "breaker")
            assert {job.state for job in jobs(world)} == {JobState.READY}
            world.endpoints.answer = HttpAnswer(200)
            world.stopping().resume_run(run.run_id, "mended", "ann")
            world.settle()
            assert tally(world, run.run_id) == {"deleted": 2}


# effects that nobody can tell


@pytest.mark.parametrize("lost", [LOST, LATE, HttpAnswer(500), HttpAnswer(503)])
def test_an_unknown_effect_is_tried_again_where_that_is_safe(lost: Failure | HttpAnswer) -> None:
    world = a_world()
    world.endpoints.answers = {"r1": [lost]}
    run = carried_out(world)
    assert (tally(world, run.run_id), len(world.endpoints.calls)) == ({"deleted": 1}, 2)


def test_a_second_call_that_finds_nothing_counts_as_done_and_says_so() -> None:
    world = a_world()
    world.endpoints.answers = {"r1": [LOST, HttpAnswer(404)]}
    assert tally(world, carried_out(world).run_id) == {"deleted:absent_after_attempt": 1}


@pytest.mark.parametrize("lost", [LOST, LATE, HttpAnswer(500), HttpAnswer(503), HttpAnswer(408), HttpAnswer(102)])
def test_an_unknown_effect_is_dead_where_a_repeat_is_not_safe(lost: Failure | HttpAnswer) -> None:
    world = a_world("r1", "r2", idempotent=False)
    world.endpoints.answers = {"r1": [lost]}
    run = carried_out(world)
    assert (tally(world, run.run_id), called(world)) == ({"deleted": 1, f"dead:{EFFECT_UNKNOWN}": 1}, ["r1", "r2"])
    dead = jobs(world)[0]
    assert (dead.state, dead.reason, dead.attempt) == (JobState.DEAD, EFFECT_UNKNOWN, 1)
    assert "must not be repeated" in (dead.summary or "")
    assert (dead.next_action or "").startswith("find out whether it was done")
    assert (dead.maybe_done, dead.call_begun_at) == (True, None)


@pytest.mark.parametrize(
    "refused",
    [NOT_SENT, HttpAnswer(429), HttpAnswer(503, retry_after=30.0), HttpAnswer(429, retry_after=5.0)],
)
def test_what_was_certainly_not_done_is_tried_again_in_any_case(refused: Failure | HttpAnswer) -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [refused] * 2}
    run = carried_out(world)
    assert (tally(world, run.run_id), len(world.endpoints.calls)) == ({"deleted": 1}, 3)
    assert the_job(world).call_begun_at is None


def dies(world: World) -> Callable[[HttpCall], HttpAnswer]:
    def die(call: HttpCall) -> HttpAnswer:
        raise Crash("the worker")

    return die


def crash_in_call(world: World) -> None:
    world.endpoints.answers = {"r1": [dies(world)]}
    with pytest.raises(Crash):
        world.work()


def test_a_worker_that_dies_in_a_call_is_followed_where_a_repeat_is_safe() -> None:
    world = a_world()
    run = started(world)
    crash_in_call(world)
    world.clock.advance(LEASE.total_seconds() + 1)
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 1}
    first, second = world.endpoints.calls
    assert first == second


@pytest.mark.parametrize("finds", ["the message", "the tick"])
def test_a_worker_that_dies_in_a_call_is_not_followed_where_no_repeat_is_safe(finds: str) -> None:
    world = a_world(idempotent=False)
    run = started(world)
    crash_in_call(world)
    assert the_job(world).call_begun_at is not None
    world.clock.advance((LEASE if finds == "the tick" else world.queue.visibility).total_seconds() + 1)
    if finds == "the message":
        assert set(world.work().values()) == {Answer.KEEP}
    world.settle()
    assert (tally(world, run.run_id), len(world.endpoints.calls)) == ({f"dead:{EFFECT_UNKNOWN}": 1}, 1)
    job = the_job(world)
    assert (job.reason, job.maybe_done) == (EFFECT_UNKNOWN, True)


def test_a_worker_that_dies_before_its_call_is_followed_in_any_case() -> None:
    """What was not begun was not done: the mark is written just before the call, and not before the look."""
    world = a_world(idempotent=False)
    run = started(world)
    world.trace.calm()
    world.trace.crash_after(next(n for n in range(1, 99) if _is_look(world, n)))
    with pytest.raises(Crash):
        world.work()
    world.clock.advance(LEASE.total_seconds() + 1)
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 1}


def _is_look(world: World, nth: int) -> bool:
    """The calls of a worker: run, controls, claim, part, turn, look."""
    return nth == 6


def test_an_invalidated_run_says_of_a_call_that_began_that_nobody_can_tell() -> None:
    world = a_world(idempotent=False)
    run = started(world)
    crash_in_call(world)
    world.stopping().invalidate(run.run_id, "it was wrong", "ann")
    world.clock.advance(LEASE.total_seconds() + 1)
    world.settle()
    assert the_job(world).reason == EFFECT_UNKNOWN
    assert the_job(world).state is JobState.DEAD


def test_a_preview_says_that_a_call_may_have_happened() -> None:
    for idempotent, said in ((False, True), (True, False)):
        world = a_world(idempotent=idempotent)
        world.endpoints.answer = LOST
        run = carried_out(world)
        preview = ReplayPreview(world.ledger, world.evidence, world.stores, world.clock).of_run(run.run_id)
        sentence = preview.of(the_job(world)).sentence
        assert ("its call may have happened already, and would be made a second time" in sentence) is said


def test_a_replay_makes_the_same_call_again() -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    run = carried_out(world)
    replaying = Replaying(world.ledger, world.policies, world.clock, world.tokens, lambda *_, **__: None)
    replaying.replay(the_job(world).job_id, "it was not done", "ann")
    world.settle()
    first, second = world.endpoints.calls
    assert first == second
    assert tally(world, run.run_id) == {"deleted": 1}


def test_a_replay_finds_that_it_was_done() -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    run = carried_out(world)
    world.records().records.clear()
    replaying = Replaying(world.ledger, world.policies, world.clock, world.tokens, lambda *_, **__: None)
    replaying.replay(the_job(world).job_id, "look again", "ann")
    world.settle()
    assert len(world.endpoints.calls) == 1
    assert tally(world, run.run_id) == {"deleted:absent_after_attempt": 1}


def test_a_record_that_was_called_for_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world("r1", "r2", idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    carried_out(world)
    monkeypatch.setattr(cli, "connect", lambda _: deployment(world, FakeFunctions(world)))
    assert cli.main(["explain", 'dynamodb://reminders/{"id":{"S":"r1"}}']) == 0
    said = capsys.readouterr().out
    assert "effect_unknown" in said
    assert "find out whether it was done" in " ".join(said.split())
    assert cli.main(["dlq", "show", the_dead(world).job_id]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "its call may have happened already, and would be made a second time" in shown


def the_dead(world: World) -> Job:
    (dead,) = (job for job in jobs(world) if job.state is JobState.DEAD)
    return dead


def test_a_record_that_is_still_there_does_not_tell_that_no_call_was_made() -> None:
    """Attempts are used up: it stays unknown, and what a replay finds gone counts as likely done."""
    world = a_world(limits={"max_items": 100, "max_attempts": 3})
    world.endpoints.answer = HttpAnswer(500)
    run = carried_out(world)
    assert tally(world, run.run_id) == {"dead:http_500": 1}
    assert the_job(world).maybe_done
    world.records().records.clear()
    replaying = Replaying(world.ledger, world.policies, world.clock, world.tokens, lambda *_, **__: None)
    replaying.replay(the_job(world).job_id, "look again", "ann")
    world.settle()
    assert tally(world, run.run_id) == {"deleted:absent_after_attempt": 1}


def test_an_invalidated_run_does_not_say_that_a_call_was_cancelled_that_may_have_been_made() -> None:
    world = a_world("r1", "r2", limits={"max_items": 100, "max_attempts": 5})
    run = started(world)
    world.endpoints.answers = {"r1": [LOST], "r2": [NOT_SENT]}
    world.work()
    world.stopping().invalidate(run.run_id, "it was wrong", "ann")
    world.settle()
    assert tally(world, run.run_id) == {f"dead:{EFFECT_UNKNOWN}": 1, "cancelled": 1}


# the next run


def next_run(world: World) -> str:
    """The next day's run, to its end; its id."""
    world.clock.move_to(world.clock() + DAY)
    answer = world.trigger(POLICY, at=world.clock())
    world.settle()
    return str(answer["run_id"])


def seen_to(world: World) -> Replaying:
    return Replaying(world.ledger, world.policies, world.clock, world.tokens, lambda *_, **__: None)


def test_no_other_run_makes_a_call_that_may_have_been_made() -> None:
    world = a_world("r1", "r2", idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    carried_out(world)
    world.records().records.pop(remind(world, "r2", seconds=1))
    for _ in range(2):
        assert tally(world, next_run(world)) == {"skipped:called_before": 1}
    assert called(world).count("r1") == 1
    seen_to(world).resolve(the_dead(world).job_id, "it was not done", "ann")
    assert tally(world, next_run(world)) == {"deleted": 1}


def test_a_replay_frees_its_record_once_it_is_known() -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    carried_out(world)
    seen_to(world).replay(the_dead(world).job_id, "it was not done", "ann")
    world.settle()
    assert tally(world, next_run(world)) == {"deleted": 1}  # the application has left the record as it was


def test_another_deadline_is_another_call() -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [LOST]}
    carried_out(world)
    remind(world, "r1", age=50)
    assert tally(world, next_run(world)) == {"deleted": 1}


@pytest.mark.parametrize("answer", [HttpAnswer(422), HttpAnswer(410), HttpAnswer(204)])
def test_what_is_known_keeps_no_other_run_from_calling(answer: HttpAnswer) -> None:
    world = a_world(idempotent=False)
    world.endpoints.answers = {"r1": [answer]}
    carried_out(world)
    assert tally(world, next_run(world)) == {"deleted": 1}


def test_where_a_repeat_is_safe_the_next_run_calls() -> None:
    world = a_world()
    world.endpoints.answer = LOST
    carried_out(world)
    world.endpoints.answer = HttpAnswer(204)
    assert tally(world, next_run(world)) == {"deleted": 1}


def test_who_begins_a_call_second_at_the_same_moment_makes_none() -> None:
    world = a_world(idempotent=False)
    run = started(world)
    world.trace.calm()
    row = calling.call_key(POLICY, _planned(world))
    nth = 7  # run, controls, claim, part, turn, look, and then the row of the call
    world.trace.after[nth] = lambda _: world.table.rows.update({(row.pk, row.sk): _begun_by_another(row)})
    world.work()
    assert (called(world), the_job(world).reason) == ([], "called_meanwhile")
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 1}


def _planned(world: World) -> Item:
    (line,) = (world.evidence.get(the_job(world).part_key) or b"").splitlines()
    return from_line(line)


def _begun_by_another(row: Key) -> dict[str, object]:
    return {"pk": row.pk, "sk": row.sk, "job_id": f"{POLICY}.20200101T000000Z.1.00000000", "write_id": "x"}

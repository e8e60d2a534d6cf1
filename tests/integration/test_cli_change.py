"""Commands that change something, over a world in memory: through the program's own entry and the real control."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sexton import cli
from sexton.change_request import MOST_JOBS
from sexton.controlling import Caller
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.job import JobState
from sexton.run import Run

from tests.fakes.deployment import CALLER, FakeControl, FakeFunctions, deployment
from tests.fakes.world import World, policy

WHY = ("--reason", "because")
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
NASTY = "why\x1b[31m\u202e [bold]x"


@dataclass
class Said:
    """What one command wrote, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    """A world with a command line over it."""

    def __init__(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.world = world
        self.capsys = capsys
        self.control = FakeControl(world)
        self.meanwhile: Callable[[], None] = lambda: None

    def sexton(self, *arguments: str) -> Said:
        code = cli.main(arguments)
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def start(self) -> Run:
        said = self.sexton("run", "start", "logs-expire", *WHY, "--json")
        assert said.code == 0, said
        return self.world.run(said.json)

    def dead(self, count: int = 3) -> list[str]:
        """Dead jobs of one closed run; from now on nothing is refused any more."""
        self.world.policies["logs-expire"] = policy(job_size=1, limits={"max_items": 10_000, "max_dead_share": 1.0})
        keys = [f"app/{n:04d}" for n in range(count)]
        self.world.fill([*keys, "app/good"])
        self.world.bucket().failures |= dict.fromkeys(keys, DENIED)
        run = self.start()
        for _ in range(2 * count + 3):  # a job refused whole halts its run once
            self.world.settle()
            if self.world.run({"run_id": run.run_id}).state != "halted":
                break
            self.sexton("run", "resume", run.run_id, *WHY)
        self.world.bucket().failures.clear()
        return [job.job_id for job in self.world.ledger.jobs(run.run_id) if job.state is JobState.DEAD]

    def bury(self) -> None:
        """Let the queue give up what is on it."""
        while self.world.queue.messages:
            self.world.work()
            self.world.clock.advance(self.world.queue.visibility)


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    world = World({"logs-expire": policy(job_size=10, limits={"max_items": 1000})})
    made = Desk(world, capsys)
    functions = FakeFunctions(world)
    monkeypatch.setattr(
        cli, "connect", lambda stack: deployment(world, functions, lambda: made.meanwhile(), made.control)
    )
    monkeypatch.delenv("SEXTON_STACK", raising=False)
    return made


# what all of them keep to

CHANGES = (
    ("run", "start", "logs-expire"),
    ("run", "approve", "R", "--digest", "d"),
    ("run", "halt", "R"),
    ("run", "resume", "R"),
    ("run", "invalidate", "R"),
    ("run", "undo", "R"),
    ("pause",),
    ("resume", "logs-expire"),
    ("hold", "add", "s3://logs/app/"),
    ("hold", "release", "s3://logs/app/"),
    ("dlq", "replay", "J"),
    ("dlq", "resolve", "J"),
    ("dlq", "sweep"),
    ("dlq", "redrive"),
    ("dlq", "redrive", "--cancel"),
)


@pytest.mark.parametrize("command", CHANGES, ids=" ".join)
def test_no_change_without_a_reason(desk: Desk, command: tuple[str, ...]) -> None:
    said = desk.sexton(*command, "--json")
    assert (said.code, said.json["error"]["code"]) == (2, "usage")
    assert "--reason" in said.json["error"]["message"]
    assert desk.control.asked == []


@pytest.mark.parametrize(
    ("reason", "told"), [("", "say why"), (" \u200b", "say why"), ("x" * 501, "501 characters; 500 are the most")]
)
@pytest.mark.parametrize("command", [*CHANGES, ("rehearse",)], ids=" ".join)
def test_a_reason_that_cannot_be_kept_is_wrong_usage(
    desk: Desk, command: tuple[str, ...], reason: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(stack: str) -> None:
        raise AssertionError("it looked for the stack")

    monkeypatch.setattr(cli, "connect", reach)
    said = desk.sexton(*command, "--reason", reason, "--json")
    assert (said.code, said.json["error"]["code"]) == (2, "usage")
    assert told in said.json["error"]["message"]


def test_an_empty_name_is_told_without_foreign_words(desk: Desk) -> None:
    said = desk.sexton("run", "halt", "", *WHY)
    assert said.code == 1
    assert said.err.startswith("error: run_id: it is empty\nhint:  if nothing is wrong with what you typed")


@pytest.mark.parametrize("command", CHANGES, ids=" ".join)
def test_a_lost_answer_is_told_with_how_to_look_and_not_repeated(desk: Desk, command: tuple[str, ...]) -> None:
    desk.control.lost = True
    said = desk.sexton(*command, *WHY, "--json")
    error = said.json["error"]
    assert (said.code, error["code"]) == (1, "change_unsure")
    assert error["message"].startswith("it may have been done, or not")
    assert "look before you ask again" in error["hint"]
    assert len(desk.control.asked) == 1


def test_a_stage_that_verifies_nobody_is_told_beside_the_data(desk: Desk) -> None:
    desk.control.caller = Caller("ada", verified=False)
    said = desk.sexton("pause", *WHY, "--json")
    assert said.json["state"] == "paused"
    assert "nobody verified who you are" in said.err
    assert desk.world.ledger.controls().pauses[0].actor == "ada"


def test_a_refusal_has_control_s_own_code_and_a_hint(desk: Desk) -> None:
    said = desk.sexton("run", "halt", "logs-expire.20260301T120000Z.1", *WHY, "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "unknown_run")
    said = desk.sexton("hold", "release", "s3://logs/app/", *WHY, "--json")
    assert said.json["error"].keys() == {"code", "message", "hint"}
    assert all(said.json["error"].values())


# runs


def test_a_waiting_plan_is_approved_by_its_digest(desk: Desk) -> None:
    desk.world.policies["logs-expire"] = policy(approval="always", approvers=2)
    desk.world.fill(["app/a"])
    run = desk.start()
    assert (run.state, run.started_by) == ("awaiting_approval", CALLER)
    own = desk.sexton("run", "approve", run.run_id, "--digest", str(run.digest), *WHY, "--json")
    assert own.json["error"]["code"] == "second_person"
    desk.control.caller = Caller("arn:aws:iam::123456789012:user/bob", verified=True)
    assert desk.sexton("run", "approve", run.run_id, "--digest", "0" * 64, *WHY).code == 1
    said = desk.sexton("run", "approve", run.run_id, "--digest", str(run.digest), *WHY)
    assert (said.code, said.out) == (0, "")
    assert "approved: 1 item" in said.err
    desk.world.settle()
    shown = desk.sexton("run", "show", run.run_id)
    (facts,) = (line for line in shown.out.splitlines() if line.startswith("approved by"))
    assert "user/bob, 2026-" in facts
    (done,) = (line for line in shown.out.splitlines() if "approved  " in line and not line.startswith("approved"))
    assert "user/bob" in done
    assert f"digest {run.digest}" in done


def test_why_a_plan_waits_is_told_while_it_waits(desk: Desk) -> None:
    desk.world.policies["logs-expire"] = policy(approval="always")
    desk.world.fill(["app/a"])
    run = desk.start()
    asked = "approval: the policy asks for approval of every run"
    assert f"held because    {asked}" in desk.sexton("run", "show", run.run_id).out
    assert asked in desk.sexton("run", "list").out
    watched = desk.sexton("run", "watch", run.run_id)
    assert watched.code == 3
    assert f"sexton run approve {run.run_id} --digest {run.digest} --reason WHY" in watched.err
    desk.sexton("run", "approve", run.run_id, "--digest", str(run.digest), *WHY)
    assert desk.sexton("run", "show", run.run_id, "--json").json["held_because"] == [asked]
    for settle in (lambda: None, desk.world.settle):
        settle()
        assert asked not in desk.sexton("run", "show", run.run_id).out + desk.sexton("run", "list").out


def test_a_report_says_why_it_would_wait(desk: Desk) -> None:
    desk.world.policies["logs-expire"] = policy(mode="report", approval="always")
    desk.world.fill(["app/a"])
    run = desk.start()
    shown, listed = desk.sexton("run", "show", run.run_id).out, desk.sexton("run", "list").out
    assert "held because" not in shown
    assert "would wait      approval: the policy asks" in shown
    assert "would wait: approval: the policy asks" in listed


def test_an_invalidated_run_is_not_started_but_issued_again(desk: Desk) -> None:
    desk.world.fill(["app/a"])
    run = desk.start()
    desk.sexton("run", "invalidate", run.run_id, *WHY)
    again = ("run", "start", "logs-expire", *WHY, "--at", run.scheduled_time.isoformat())
    said = desk.sexton(*again)
    assert (said.code, said.out) == (1, "")
    assert f"{run.run_id} is there already, and was invalidated" in said.err
    assert "--reissue" in said.err
    assert desk.sexton(*again, "--json").json["error"]["code"] == "already_invalidated"
    desk.world.settle()
    assert desk.sexton(*again, "--reissue").out == f"{run.run_id[:-1]}2\n"


def test_a_run_is_halted_resumed_and_invalidated(desk: Desk) -> None:
    desk.world.fill(["app/a"])
    run_id = desk.start().run_id
    assert desk.sexton("run", "halt", run_id, *WHY).err.startswith(f"{run_id} is halted\n")
    assert desk.sexton("run", "halt", run_id, *WHY).err.startswith(f"{run_id} is halted already\n")
    assert desk.sexton("run", "resume", run_id, *WHY, "--json").json["state"] == "draining"
    assert desk.sexton("run", "invalidate", run_id, *WHY, "--json").json == {
        "run_id": run_id,
        "state": "invalidated",
        "changed": True,
    }
    assert desk.sexton("run", "invalidate", run_id, *WHY).err.startswith(f"{run_id} is invalidated already\n")
    changes = desk.sexton("run", "show", run_id, "--json").json["changes"]
    assert [each["change"] for each in changes][-3:] == ["halted", "resumed", "invalidated"]
    assert {each["actor"] for each in changes} == {CALLER}


def test_what_a_person_wrote_does_nothing_to_a_terminal(desk: Desk) -> None:
    desk.world.fill(["app/a"])
    run_id = desk.start().run_id
    desk.sexton("run", "halt", run_id, "--reason", NASTY)
    desk.sexton("hold", "add", "s3://logs/\x1b[31m", "--reason", NASTY)
    for said in (desk.sexton("run", "show", run_id), desk.sexton("hold", "list")):
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out
        assert "[bold]x" in said.out


def test_an_undo_is_previewed_and_done(desk: Desk) -> None:
    desk.world.versioning = "Enabled"
    desk.world.policies["logs-expire"] = policy(recovery="versioning")
    desk.world.fill(["app/a", "app/b"])
    run_id = desk.start().run_id
    desk.world.settle()
    assert not desk.world.bucket().list("app/").items

    preview = desk.sexton("run", "undo", run_id, "--dry-run")
    assert preview.code == 0
    assert "brought back" in preview.out
    assert desk.sexton("run", "undo", run_id, "--dry-run", "--json").json["restored"]["count"] == 2
    assert "run_undo" not in [each["change"] for each in desk.control.asked]

    said = desk.sexton("run", "undo", run_id, *WHY)
    assert said.out.strip() == run_id[:-1] + "u1"
    assert "held until you release it: s3://logs/app/" in said.err
    desk.world.settle()
    assert len(desk.world.bucket().list("app/").items) == 2


# pauses and holds


def test_a_pause_of_all_and_of_one(desk: Desk) -> None:
    assert desk.sexton("pause", *WHY).err == "all policies are paused\n"
    assert desk.sexton("pause", *WHY).err == "all policies are paused already\n"
    assert desk.sexton("run", "start", "logs-expire", *WHY, "--json").json["error"]["code"] == "paused"
    assert desk.sexton("resume", *WHY).err == "all policies are resumed\n"
    assert desk.sexton("pause", "logs-expire", *WHY).err == "logs-expire is paused\n"
    assert desk.sexton("pause", "nowhere", *WHY, "--json").json["error"]["code"] == "unknown_policy"


def test_what_cannot_follow_a_pause_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise CallFailed(DENIED)

    monkeypatch.setattr(desk.control.schedules, "stop_all", fail)
    said = desk.sexton("pause", *WHY)
    assert said.code == 0
    assert "could not follow (AccessDenied: no): ask for it again" in said.err


def test_holds_are_listed_while_they_stand(desk: Desk) -> None:
    assert desk.sexton("hold", "list").err == "nothing is held\n"
    assert desk.sexton("hold", "add", "s3://logs", *WHY).err == "held: s3://logs/\n"
    assert desk.sexton("hold", "add", "s3://logs", *WHY).err == "it was held already: s3://logs/\n"
    (hold,) = desk.sexton("hold", "list", "--json").json
    assert (hold["scope"], hold["actor"], hold["reason"]) == ("s3://logs/", CALLER, "because")
    assert "s3://logs/" in desk.sexton("hold", "list").out
    assert desk.sexton("hold", "release", "s3://logs/", *WHY).err == "released: s3://logs/\n"
    assert desk.sexton("hold", "list", "--json").json == []
    assert desk.sexton("hold", "release", "s3://logs/", *WHY).err == "it was released already: s3://logs/\n"


@pytest.mark.parametrize("place", ["s3://logs/other/", "s3://no-such-bucket", "s3://logs/apq"])
def test_a_hold_that_no_policy_reaches_is_placed_with_a_warning(desk: Desk, place: str) -> None:
    said = desk.sexton("hold", "add", place, *WHY, "--json")
    assert said.code == 0
    assert "no deployed policy reaches that place" in said.json["warning"]
    assert said.err == f"warning: {said.json['warning']}\n"
    assert [each["scope"] for each in desk.sexton("hold", "list", "--json").json] == [said.json["scope"]]


@pytest.mark.parametrize("place", ["s3://logs", "s3://logs/a", "s3://logs/app/", "s3://logs/app/x"])
def test_a_hold_within_or_around_a_policys_place_has_no_warning(desk: Desk, place: str) -> None:
    said = desk.sexton("hold", "add", place, *WHY, "--json")
    assert (said.json["warning"], said.err) == (None, "")


# dead letters


def test_dead_jobs_are_listed_with_what_a_replay_would_do(desk: Desk) -> None:
    jobs = desk.dead()
    found = desk.sexton("dlq", "list", "--json").json
    assert {each["job_id"] for each in found} == {*jobs}
    assert all(each["replay_now"]["would"] == {"remove": 1} for each in found)
    quick = desk.sexton("dlq", "list", "--quick", "--json").json
    assert all(each["replay_now"] is None for each in quick)
    assert "would try again to remove 1" in desk.sexton("dlq", "list").out


def test_a_dead_job_is_shown_with_its_whole_history(desk: Desk) -> None:
    job = desk.dead(1)[0]
    shown = desk.sexton("dlq", "show", job, "--json").json
    assert (shown["state"], shown["count"], shown["reason"]) == ("dead", 1, "AccessDenied")
    assert shown["history"][-1]["code"] == "AccessDenied"
    out = desk.sexton("dlq", "show", job).out
    assert "AccessDenied" in out
    assert "a replay now" in out
    assert desk.sexton("dlq", "show", "nonsense", "--json").json["error"]["code"] == "bad_job_id"
    assert desk.sexton("dlq", "show", f"{job}9", "--json").code == 1


def test_jobs_are_replayed_by_their_ids(desk: Desk) -> None:
    jobs = desk.dead()
    said = desk.sexton("dlq", "replay", *jobs, *WHY)
    assert (said.code, said.err) == (0, f"{len(jobs)} jobs replayed\n")
    desk.world.settle()
    assert not desk.world.bucket().list("app/").items
    shown = desk.sexton("dlq", "show", jobs[0], "--json").json
    assert (shown["state"], shown["replays"]) == ("succeeded", 1)
    assert [(each["actor"], each["reason"]) for each in shown["history"] if each["actor"]] == [(CALLER, "because")]


def test_refused_ones_are_told_apart_and_make_the_exit_code(desk: Desk) -> None:
    jobs = desk.dead()
    desk.sexton("dlq", "resolve", jobs[0], *WHY)
    said = desk.sexton("dlq", "replay", *jobs, *WHY)
    assert said.code == 1
    assert f"{len(jobs) - 1} job" in said.err
    assert jobs[0] in said.out
    assert "resolved" in said.out


@pytest.mark.parametrize(
    ("chosen", "meant"),
    [(("--run", "RUN"), True), (("--reason-class", "permanent"), True), (("--reason-class", "throttled"), False)],
)
def test_jobs_are_chosen_by_run_and_by_class(desk: Desk, chosen: tuple[str, ...], meant: bool) -> None:
    jobs = desk.dead()
    arguments = [jobs[0].rpartition(".")[0] if each == "RUN" else each for each in chosen]
    preview = desk.sexton("dlq", "replay", *arguments, "--dry-run", "--json")
    assert [each["job_id"] for each in preview.json] == (jobs if meant else [])
    assert "dlq_replay" not in [each["change"] for each in desk.control.asked]
    done = desk.sexton("dlq", "replay", *arguments, *WHY, "--json")
    assert done.json["done"] == (jobs if meant else [])
    assert preview.code == done.code == (0 if meant else 1)
    again = desk.sexton("dlq", "resolve", *arguments, *WHY)  # none is dead any more
    assert (again.code, again.err) == (1, "no dead job is meant by that\n")


def test_an_unknown_class_is_wrong_usage_and_the_known_are_named(desk: Desk) -> None:
    for more in (WHY, ("--dry-run",)):
        said = desk.sexton("dlq", "replay", "--reason-class", "foo", *more, "--json")
        assert (said.code, said.json["error"]["code"]) == (2, "usage")
        assert all(each.value in said.json["error"]["message"] for each in ReasonClass)


@pytest.mark.parametrize("arguments", [(), ("J", "--run", "R"), ("J", "--reason-class", "permanent")])
def test_nobody_replays_everything_by_saying_nothing(desk: Desk, arguments: tuple[str, ...]) -> None:
    for command in ("replay", "resolve"):
        said = desk.sexton("dlq", command, *arguments, *WHY, "--json")
        assert (said.code, said.json["error"]["code"]) == (2, "usage")
    assert desk.sexton("dlq", "replay", *arguments, "--dry-run", "--json").code == 2


def test_very_many_go_in_several_requests_and_one_sum(desk: Desk) -> None:
    jobs = [f"logs-expire.20260301T120000Z.1.{n:08d}" for n in range(2 * MOST_JOBS + 7)]
    said = desk.sexton("dlq", "resolve", *jobs, *WHY, "--json")
    asked = [each["jobs"] for each in desk.control.asked]
    assert [len(each) for each in asked if isinstance(each, list)] == [MOST_JOBS, MOST_JOBS, 7]
    assert [each["job_id"] for each in said.json["refused"]] == jobs
    assert f"{2 * MOST_JOBS} of {len(jobs)}" in said.err


def test_a_lost_answer_among_several_says_how_far_it_came(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = desk.control.change

    def second_is_lost(*given: Any) -> Any:
        desk.control.lost = len(desk.control.asked) == 1
        return real(*given)

    monkeypatch.setattr(desk.control, "change", second_is_lost)
    jobs = desk.dead()
    desk.control.asked.clear()
    more = [f"logs-expire.20260301T120000Z.1.{n:08d}" for n in range(900, 900 + MOST_JOBS)]
    said = desk.sexton("dlq", "replay", *jobs, *more, *WHY, "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "change_unsure")
    assert f"{len(jobs)} were done before; of the next {len(jobs)} it is not known" in said.err


# the queue


def test_strays_are_shown_apart_and_swept(desk: Desk) -> None:
    jobs = desk.dead(2)
    desk.bury()
    assert len(desk.world.queue.dead) == 2
    desk.sexton("dlq", "resolve", jobs[0], *WHY)

    listed = desk.sexton("dlq", "list")
    assert "dead no longer" in listed.out
    desk.world.clock.advance(timedelta(seconds=11))
    (stray,) = desk.sexton("dlq", "list", "--strays", "--json").json["strays"]
    assert (stray["job_id"], stray["state"]) == (jobs[0], "resolved")
    desk.world.clock.advance(timedelta(seconds=11))
    said = desk.sexton("dlq", "sweep", *WHY)
    assert (said.code, said.err) == (0, "1 stray removed, 1 message left, 0 not removed\n")
    assert len(desk.world.queue.dead) == 1
    desk.world.clock.advance(timedelta(seconds=61))
    assert desk.sexton("dlq", "list", "--strays").err == "no stray among 1 message\n"


def test_what_could_not_be_removed_is_told(desk: Desk) -> None:
    jobs = desk.dead(1)
    desk.bury()
    desk.sexton("dlq", "resolve", *jobs, *WHY)
    desk.control.dead_letters.refusals = {each.message.message_id: DENIED for each in desk.world.queue.dead}
    said = desk.sexton("dlq", "sweep", *WHY, "--json")
    assert (said.code, said.json["failed"], said.json["removed"]) == (1, 1, 0)


def test_who_may_not_look_into_the_queue_has_the_list_all_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(hide: timedelta) -> None:
        raise CallFailed(DENIED)

    jobs = desk.dead(1)
    monkeypatch.setattr(desk.control.dead_letters, "receive", fail)
    said = desk.sexton("dlq", "list")
    assert said.code == 0
    assert jobs[0] in said.out
    assert "the queue was not searched for strays (AccessDenied: no)" in said.err
    assert desk.sexton("dlq", "list", "--strays", "--json").json["error"]["code"] == "missing_permission"


def test_a_redrive_is_followed_to_its_end(desk: Desk) -> None:
    desk.dead(2)
    desk.bury()
    desk.world.clock.advance(61)  # a message that is sent sooner after a death may be an old copy
    desk.meanwhile = desk.control.dead_letters.finish
    said = desk.sexton("dlq", "redrive", "--max-rate", "50", *WHY)
    assert said.code == 0
    assert "COMPLETED" in said.out
    assert "about 2" in said.out
    status = desk.sexton("dlq", "redrive", "--status", "--json").json
    assert (status["status"], status["moved"], status["max_rate"]) == ("COMPLETED", 2, 50)
    desk.world.settle()
    assert not desk.world.bucket().list("app/").items


def test_one_redrive_at_a_time_and_it_can_be_stopped(desk: Desk) -> None:
    assert "no redrive" in desk.sexton("dlq", "redrive", "--status").err
    assert desk.sexton("dlq", "redrive", *WHY, "--json").json["status"] == "RUNNING"
    assert desk.sexton("dlq", "redrive", *WHY, "--json").json["error"]["code"] == "redrive_running"
    assert "CANCELLING" in desk.sexton("dlq", "redrive", "--cancel", *WHY).out
    assert desk.sexton("dlq", "redrive", "--cancel", *WHY, "--json").json["error"]["code"] == "no_redrive"
    assert desk.sexton("dlq", "redrive", "--status", "--cancel", "--json").code == 2

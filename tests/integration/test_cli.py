"""The command line over a world in memory: every command through the program's own entry."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from sexton import cli
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.escaping import escaped
from sexton.instant import stamp
from sexton.working import Delivery

from tests.fakes.deployment import CALLER, FakeFunctions, deployment
from tests.fakes.time import START
from tests.fakes.world import World, policy

SMALL_JOBS: dict[str, Any] = {"job_size": 10, "limits": {"max_items": 1000}}
NASTY = "app/\x1b[31mred\u202e [bold]x[/bold] back\\slash\nline"


@dataclass
class Said:
    """What one command wrote, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Desk:
    """A world with a command line over it."""

    capsys: pytest.CaptureFixture[str]
    world: World = field(default_factory=World)
    meanwhile: Callable[[], None] = lambda: None
    stacks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.functions = FakeFunctions(self.world)

    def sexton(self, *arguments: str) -> Said:
        code = cli.main(arguments)
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def run(self, at_work: bool = True, **policy_changes: object) -> str:
        """Objects, a run over them, settled."""
        if policy_changes:
            self.world.policies = {"logs-expire": policy(**policy_changes)}
        self.world.fill([f"app/{n:04d}.log" for n in range(25)])
        run_id = str(self.world.trigger()["run_id"])
        if at_work:
            self.world.settle()
        return run_id


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk(capsys)

    def connect(stack: str) -> Any:
        found.stacks.append(stack)
        return deployment(found.world, found.functions, lambda: found.meanwhile())

    monkeypatch.setattr(cli, "connect", connect)
    monkeypatch.delenv("SEXTON_STACK", raising=False)
    return found


# run start


def test_run_start_creates_plans_and_writes_nothing_but_the_id(desk: Desk) -> None:
    desk.world.fill(["app/a", "app/b"])
    said = desk.sexton("run", "start", "logs-expire", "--reason", "why")
    assert said.code == 0
    run_id = f"logs-expire.{stamp(START)}.1"
    assert said.out == f"{run_id}\n"
    run = desk.world.run({"run_id": run_id})
    assert (run.started_by, run.planned, run.state) == (CALLER, 2, "draining")


def test_run_start_takes_a_time_in_any_zone_and_can_only_narrow(desk: Desk) -> None:
    said = desk.sexton(
        "run",
        "start",
        "logs-expire",
        "--reason",
        "why",
        "--at",
        "2026-03-01T03:00:00.9+01:00",
        "--mode",
        "report",
        "--json",
    )
    assert said.code == 0
    assert said.json == {"run_id": "logs-expire.20260301T020000Z.1", "state": "planning", "created": True}
    assert desk.world.run(said.json).mode == "report"
    assert desk.sexton("run", "start", "logs-expire", "--reason", "why", "--mode", "enforce").code == 2


def test_starting_a_run_twice_finds_it(desk: Desk) -> None:
    first = desk.sexton("run", "start", "logs-expire", "--reason", "why", "--json")
    again = desk.sexton("run", "start", "logs-expire", "--reason", "why", "--json")
    assert again.code == 0
    assert again.json["run_id"] == first.json["run_id"]
    assert not again.json["created"]


def test_another_open_run_is_named(desk: Desk) -> None:
    open_run = desk.run(at_work=False)
    desk.world.clock.advance(60)
    said = desk.sexton("run", "start", "logs-expire", "--reason", "why")
    assert said.code == 1
    assert said.out == ""
    assert open_run in said.err
    assert "hint:" in said.err
    assert (
        desk.sexton("run", "start", "logs-expire", "--reason", "why", "--json").json["error"]["code"]
        == "another_run_open"
    )


def test_a_reissue_goes_through_after_a_report(desk: Desk) -> None:
    run_id = desk.run(mode="report")
    said = desk.sexton(
        "run", "start", "logs-expire", "--reason", "why", "--at", "2026-03-01T12:00:00Z", "--reissue", "--json"
    )
    assert (said.code, said.json["run_id"]) == (0, run_id[:-1] + "2")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("nowhere",), 1, "unknown_policy"),
        (("logs-expire", "--at", "2027-01-01T00:00:00Z"), 1, "bad_event"),
        (("logs-expire", "--at", "2026-03-01T00:00:00Z", "--reissue"), 1, "refused"),
        (("logs-expire", "--reissue"), 2, "usage"),
        (("logs-expire", "--at", "yesterday"), 2, "usage"),
        (("logs-expire", "--at", "2026-03-01T00:00:00"), 2, "usage"),
        ((), 2, "usage"),
    ],
)
def test_a_start_that_is_refused_has_code_message_and_hint(
    desk: Desk, arguments: tuple[str, ...], code: int, error: str
) -> None:
    said = desk.sexton("run", "start", *arguments, "--reason", "why", "--json")
    assert said.code == code
    assert said.json["error"]["code"] == error
    assert said.json["error"].keys() == {"code", "message", "hint"}
    assert all(said.json["error"].values())


def test_a_function_that_breaks_off_is_told(desk: Desk) -> None:
    desk.functions.broken = "Discovery: RuntimeError: no memory"
    said = desk.sexton("tick")
    assert (said.code, said.out) == (1, "")
    assert "no memory" in said.err


# run list, run show


def test_run_show_has_every_number_and_they_add_up(desk: Desk) -> None:
    desk.world.bucket().put("app/young")
    desk.world.policies = {"logs-expire": policy(**SMALL_JOBS)}
    desk.world.fill([f"app/{n:04d}.log" for n in range(25)])
    desk.world.bucket().failures["app/0003.log"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
    run_id = str(desk.world.trigger()["run_id"])
    desk.world.bucket().rewrite("app/0012.log")
    desk.world.settle()
    shown = desk.sexton("run", "show", run_id, "--json").json
    assert {
        name: shown[name]
        for name in (
            "state",
            "mode",
            "scanned",
            "planned",
            "deleted",
            "skipped",
            "dead",
            "cancelled",
            "open",
            "balanced",
        )
    } == {
        "state": "completed",
        "mode": "enforce",
        "scanned": 26,
        "planned": 25,
        "deleted": 23,
        "skipped": {"changed": 1},
        "dead": {"AccessDenied": 1},
        "cancelled": 0,
        "open": 0,
        "balanced": True,
    }
    assert shown["scanned_by"] == {"expired": 25, "younger": 1}
    assert shown["jobs"] == sum(shown["jobs_by_state"].values())
    assert shown["cutoff"] == "2026-01-30T12:00:00Z"
    assert {"run_id", "policy", "policy_version", "scheduled_time", "digest", "planned_bytes"} <= shown.keys()
    assert shown["report"] in desk.world.evidence.files
    people = desk.sexton("run", "show", run_id)
    assert people.code == 0
    assert run_id in people.out
    assert "AccessDenied 1" in people.out


def test_a_run_that_is_being_planned_claims_no_jobs(desk: Desk) -> None:
    run_id = str(desk.world.trigger(plan=False)["run_id"])
    shown = desk.sexton("run", "show", run_id)
    assert shown.code == 0
    assert "0 jobs" not in shown.out
    assert " B" not in shown.out


def test_open_items_of_a_run_at_work_have_no_balance_yet(desk: Desk) -> None:
    shown = desk.sexton("run", "show", desk.run(at_work=False), "--json").json
    assert (shown["open"], shown["balanced"], shown["report"]) == (25, None, None)


def test_run_list_shows_the_latest_first_and_no_id_is_cut(desk: Desk) -> None:
    first = desk.run()
    desk.world.clock.advance(timedelta(days=1))
    second = desk.run()
    found = desk.sexton("run", "list", "--json").json
    assert [run["run_id"] for run in found] == [second, first]
    assert [run["run_id"] for run in desk.sexton("run", "list", "--limit", "1", "--json").json] == [second]
    people = desk.sexton("run", "list").out
    assert first in people
    assert second in people


def test_run_list_of_a_policy_says_whether_there_is_such_a_policy(desk: Desk) -> None:
    said = desk.sexton("run", "list", "--policy", "log-expire", "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "unknown_policy")
    assert "'log-expire'" in said.json["error"]["message"]
    desk.world.tick()
    deployed = desk.sexton("run", "list", "--policy", "logs-expire")
    assert (deployed.code, deployed.out) == (0, "")
    run_id = desk.run(mode="report")
    desk.world.policies = {"others-expire": policy(id="others-expire")}
    desk.world.tick()
    assert run_id in desk.sexton("run", "list", "--policy", "logs-expire").out


@pytest.mark.parametrize("command", [("run", "show"), ("run", "watch"), ("plan", "show"), ("verify",)])
@pytest.mark.parametrize(
    ("run_id", "codes"),
    [("logs-expire.20260101T000000Z.1", {"unknown_run", "no_plan"}), ("../../etc", {"bad_run_id"})],
)
def test_a_run_that_is_none_is_told(desk: Desk, command: tuple[str, ...], run_id: str, codes: set[str]) -> None:
    said = desk.sexton(*command, run_id, "--json")
    assert said.code == 1
    assert said.json["error"]["code"] in codes


# run watch


def test_watching_ends_with_the_run(desk: Desk) -> None:
    run_id = desk.run(at_work=False)
    desk.meanwhile = lambda: (desk.world.work(), desk.world.tick())  # type: ignore[assignment, func-returns-value]
    said = desk.sexton("run", "watch", run_id, "--json")
    assert said.code == 0
    assert said.json["deleted"] == 25
    assert "25 planned" in said.err


def test_the_exit_code_of_watching_says_how_it_ended(desk: Desk) -> None:
    assert desk.sexton("run", "watch", desk.run(at_work=False), "--timeout", "10").code == 4
    desk.world.settle()
    desk.world.clock.advance(timedelta(days=1))
    assert desk.sexton("run", "watch", desk.run(approval="always")).code == 3
    desk.world.clock.advance(timedelta(days=1))
    assert desk.sexton("run", "watch", desk.run(mode="report")).code == 0
    desk.world.clock.advance(timedelta(days=1))
    desk.world.bucket().failures["app/0003.log"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
    assert desk.sexton("run", "watch", desk.run(mode="enforce")).code == 1


def test_an_invalidated_run_has_ended_otherwise(desk: Desk) -> None:
    run_id = desk.run(at_work=False)
    desk.world.policies = {"logs-expire": policy(retain="P31D")}
    desk.meanwhile = desk.world.tick
    said = desk.sexton("run", "watch", run_id, "--json")
    assert (said.code, said.json["reason"], said.json["cancelled"]) == (1, "policy_changed", 25)


# plan show


def test_plan_show_streams_the_plan(desk: Desk) -> None:
    run_id = desk.run(mode="report", **SMALL_JOBS)
    found = desk.sexton("plan", "show", run_id, "--json").json
    assert [item["key"] for item in found] == [f"app/{n:04d}.log" for n in range(25)]
    assert found[24] | {"etag": ""} == {
        "part": "00000002",
        "index": 4,
        "key": "app/0024.log",
        "etag": "",
        "size": 12,
        "storage_class": "STANDARD",
        "last_modified": "2025-12-31T12:00:00Z",
        "version_id": None,
        "noncurrent_since": None,
        "rank": 0,
        "is_marker": False,
        "tags": None,
    }
    people = desk.sexton("plan", "show", run_id, "--limit", "2")
    assert [line.split()[-1] for line in people.out.splitlines()] == ["app/0000.log", "app/0001.log"]
    assert str(desk.world.run({"run_id": run_id}).digest) in people.err


def test_plan_money_says_what_a_plan_comes_to(desk: Desk) -> None:
    run_id = desk.run(mode="report", **SMALL_JOBS)
    found = desk.sexton("plan", "money", run_id, "--json").json
    assert (found["run_id"], found["region"]) == (run_id, "eu-central-1")
    (standard,) = found["classes"]
    assert (standard["storage_class"], standard["space"], standard["objects"]) == ("STANDARD", "freed", 25)
    people = desk.sexton("plan", "money", run_id)
    assert "Saved a month: under USD 0.01" in people.out


def test_a_sample_is_the_same_for_a_seed_and_reads_only_its_parts(desk: Desk) -> None:
    run_id = desk.run(mode="report", **SMALL_JOBS | {"job_size": 5})
    before = desk.world.evidence.calls["get"]
    first = desk.sexton("plan", "show", run_id, "--sample", "1", "--seed", "7", "--json").json
    assert desk.world.evidence.calls["get"] - before == 2
    assert first == desk.sexton("plan", "show", run_id, "--sample", "1", "--seed", "7", "--json").json
    assert len(desk.sexton("plan", "show", run_id, "--sample", "99", "--json").json) == 25
    assert desk.sexton("plan", "show", run_id, "--sample", "1", "--limit", "1").code == 2


def test_an_altered_part_breaks_the_stream_off_and_leaves_no_whole_document(desk: Desk) -> None:
    run_id = desk.run(mode="report", **SMALL_JOBS)
    part = sorted(key for key in desk.world.evidence.files if key.startswith("plans/"))[1]
    desk.world.evidence.files[part] = desk.world.evidence.files[part].replace(b"0012", b"9999")
    said = desk.sexton("plan", "show", run_id, "--json")
    assert said.code == 1
    assert "evidence_altered" in said.err
    with pytest.raises(json.JSONDecodeError):
        json.loads(said.out)


# explain


def test_explain_tells_what_every_run_did_and_what_would_be_done_now(desk: Desk) -> None:
    report = desk.run(mode="report")
    desk.world.clock.advance(timedelta(days=1))
    enforced = desk.run(mode="enforce")
    desk.world.tick()
    desk.world.bucket().put("app/0003.log", "new")
    found = desk.sexton("explain", "s3://logs/app/0003.log", "--json").json
    assert [(run["run_id"], run["outcome"]) for run in found["runs"]] == [(enforced, "deleted"), (report, "planned")]
    assert found["runs"][0]["attempts"] == 1
    assert found["runs"][0]["at"]
    assert [(each["policy"], each["action"], each["reason"]) for each in found["policies"]] == [
        ("logs-expire", "keep", "younger")
    ]
    assert found["now"]["size"] == 3
    assert "deleted" in desk.sexton("explain", "s3://logs/app/0003.log").out


def test_explain_tells_of_skipped_dead_and_open_items(desk: Desk) -> None:
    desk.world.fill(["app/open", "app/dead", "app/changed"])
    desk.world.bucket().failures["app/dead"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "not allowed")
    desk.world.trigger()
    fate = desk.sexton("explain", "s3://logs/app/open", "--json").json["runs"][0]
    assert (fate["outcome"], fate["reason"], fate["at"]) == ("open", None, None)
    desk.world.bucket().rewrite("app/changed")
    desk.world.settle()
    skipped = desk.sexton("explain", "s3://logs/app/changed", "--json").json["runs"][0]
    assert (skipped["outcome"], skipped["reason"]) == ("skipped", "changed")
    assert skipped["observed"]["last_modified"] > skipped["planned"]["last_modified"]
    dead = desk.sexton("explain", "s3://logs/app/dead", "--json").json["runs"]
    assert [(fate["outcome"], fate["reason"]) for fate in dead] == [("dead", "AccessDenied")]
    assert dead[0]["next_action"]
    assert dead[0]["history"]


def test_explain_of_an_object_that_nobody_had_or_can_see(desk: Desk) -> None:
    desk.world.tick()
    found = desk.sexton("explain", "s3://logs/app//odd/../key ", "--json").json
    assert (found["key"], found["runs"], found["now"]) == ("app//odd/../key ", [], None)
    assert found["policies"][0]["reason"] == "absent"
    desk.world.bucket().call_failures["head"] = [Failure(ReasonClass.PERMANENT, "AccessDenied", "no")]
    found = desk.sexton("explain", "s3://logs/app/x", "--json").json
    assert (found["look_failed"], found["policies"][0]["action"]) == ("AccessDenied: no", "unknown")
    assert desk.sexton("explain", "s3://elsewhere/x", "--json").json["policies"] == []


def test_explain_says_that_a_bucket_does_not_exist(desk: Desk) -> None:
    desk.world.tick()
    desk.world.bucket().missing = True
    found = desk.sexton("explain", "s3://logs/app/x", "--json").json
    assert found["look_failed"] == "NoSuchBucket: the bucket does not exist"
    assert [(each["action"], each["reason"]) for each in found["policies"]] == [("unknown", "NoSuchBucket")]
    assert "the bucket does not exist" in desk.sexton("explain", "s3://logs/app/x").out


def test_explain_says_that_a_report_removes_nothing(desk: Desk) -> None:
    desk.world.policies = {"logs-expire": policy(mode="report"), "others-expire": policy(id="others-expire")}
    desk.world.fill(["app/a"])
    desk.world.tick()
    found = desk.sexton("explain", "s3://logs/app/a", "--json").json
    assert [each["action"] for each in found["policies"]] == ["remove", "remove"]
    lines = desk.sexton("explain", "s3://logs/app/a").out.splitlines()
    says = {line.split()[0]: line for line in lines if "expire" in line}
    assert "only report it" in says["logs-expire"]
    assert "remove" not in says["logs-expire"]
    assert "remove" in says["others-expire"]


def test_explain_knows_runs_that_have_left_the_ledger(desk: Desk) -> None:
    desk.world.policies = {"logs-expire": policy(**SMALL_JOBS)}
    desk.world.bucket().failures["app/0003.log"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
    run_id = desk.run(at_work=False)
    desk.world.bucket().rewrite("app/0012.log")
    desk.world.settle()
    for key in list(desk.world.table.rows):
        if key.sk != "POLICY":
            desk.world.table.delete(key)
    desk.world.tick()
    endings = {
        name: desk.sexton("explain", f"s3://logs/app/{name}.log", "--json").json["runs"]
        for name in ("0001", "0003", "0012", "nobody")
    }
    assert {
        name: [(fate["run_id"], fate["outcome"], fate["reason"]) for fate in found] for name, found in endings.items()
    } == {
        "0001": [(run_id, "deleted", None)],
        "0003": [(run_id, "dead", "AccessDenied")],
        "0012": [(run_id, "skipped", "changed")],
        "nobody": [],
    }
    assert "left the ledger" in desk.sexton("explain", "s3://logs/app/0001.log").out


@pytest.mark.parametrize("address", ["logs/app/x", "s3://logs", "s3://logs/", "s3:///x", "https://logs/x"])
def test_an_address_that_is_none_is_told(desk: Desk, address: str) -> None:
    assert desk.sexton("explain", address, "--json").json["error"]["code"] == "bad_address"


# status, dlq list, tick


def test_status_is_quiet_when_all_is_done(desk: Desk) -> None:
    desk.run()
    found = desk.sexton("status", "--json").json
    assert (found["quiet"], found["oldest"], found["dead"]["jobs"]) == (True, None, 0)
    assert "quiet" in desk.sexton("status").out


def test_status_names_the_oldest_work_and_why_it_is_not_finished(desk: Desk) -> None:
    run_id = desk.run(at_work=False)
    desk.world.clock.advance(timedelta(minutes=30))
    oldest = desk.sexton("status", "--json").json["oldest"]
    assert (oldest["run_id"], oldest["age_seconds"], oldest["state"]) == (run_id, 1800, "draining")
    assert "tick" in oldest["next_action"]
    desk.world.bucket().call_failures["list"] = [Failure(ReasonClass.TRANSIENT, "InternalError", "it broke", True)]
    desk.world.tick()
    desk.world.work()
    oldest = desk.sexton("status", "--json").json["oldest"]
    assert "InternalError" in oldest["because"]
    assert oldest["oldest_job"]["attempts"] == 1
    assert run_id in desk.sexton("status").out


def test_status_names_what_waits_for_a_person(desk: Desk) -> None:
    waiting = desk.run(approval="always")
    desk.world.tick()
    desk.world.trigger(at=desk.world.clock() - timedelta(hours=1))
    found = desk.sexton("status", "--json").json
    assert [each["run_id"] for each in found["awaiting_approval"]][-1] == waiting
    assert found["awaiting_approval"][0]["held_because"]
    assert not found["quiet"]
    assert found["awaiting_approval"][0]["next_action"] in desk.sexton("status").out


def test_what_waits_or_is_reported_stands_there_with_its_next_action(desk: Desk) -> None:
    desk.world.policies = {
        f"{approval}-expire": policy(id=f"{approval}-expire", approval=approval, mode=mode)
        for approval, mode in (("always", "enforce"), ("none", "report"))
    }
    for name in desk.world.policies:
        desk.world.fill(["app/a"])
        desk.world.trigger(name)
    desk.world.tick()
    found = desk.sexton("status", "--json").json
    people = desk.sexton("status").out
    for (waiting,) in (found["awaiting_approval"], found["reported"]):
        assert waiting["next_action"] in people


def test_status_and_dlq_name_the_dead_with_what_to_do(desk: Desk) -> None:
    desk.world.bucket().failures["app/0003.log"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "[red]not allowed")
    run_id = desk.run()
    desk.world.clock.advance(timedelta(hours=3))
    found = desk.sexton("status", "--json").json
    assert (found["dead"]["items"], found["dead"]["by_reason"]) == (1, {"AccessDenied": 1})
    assert [each["run_id"] for each in found["for_a_person"]] == [run_id]
    assert not found["quiet"]
    (dead,) = desk.sexton("dlq", "list", "--json").json
    assert (dead["run_id"], dead["items"], dead["reason_class"], dead["reason"]) == (
        run_id,
        1,
        "permanent",
        "AccessDenied",
    )
    assert dead["age_seconds"] >= 3 * 3600
    assert dead["first_claim_at"] <= dead["dead_at"]
    assert dead["next_action"]
    people = desk.sexton("dlq", "list")
    assert dead["job_id"] in people.out
    assert "app/0003.log" in people.out
    assert "[red]not allowed" in people.out
    assert "AccessDenied" in desk.sexton("status").out


def test_an_empty_list_is_a_message_and_no_data(desk: Desk) -> None:
    assert desk.sexton("dlq", "list", "--json").json == []
    assert desk.sexton("dlq", "list").out == ""
    assert desk.sexton("run", "list").out == ""


def test_skipped_triggers_and_malformed_messages_are_told(desk: Desk) -> None:
    open_run = desk.run(at_work=False)
    desk.world.tick()
    desk.world.clock.advance(60)
    desk.world.trigger()
    found = desk.sexton("status", "--json").json
    assert [each["open_run"] for each in found["skipped_triggers"]] == [open_run]
    assert open_run in desk.sexton("status").out
    desk.world.working().work(Delivery("message-1", "receipt-1", "\x1b[31mnot ours"))
    (malformed,) = desk.sexton("status", "--json").json["malformed"]
    assert (malformed["message_id"], malformed["kind"]) == ("message-1", "malformed")
    assert "message-1" in desk.sexton("status").out
    desk.world.clock.advance(timedelta(days=8))
    later = desk.sexton("status", "--json").json
    assert (later["skipped_triggers"], later["malformed"]) == ([], [])


def test_a_skipped_trigger_is_told_until_a_run_has_taken_care_of_it(desk: Desk) -> None:
    desk.run(at_work=False)
    desk.world.tick()
    desk.world.clock.advance(60)
    missed = desk.world.clock()
    desk.world.trigger()
    desk.world.settle()
    assert len(desk.sexton("status", "--json").json["skipped_triggers"]) == 1
    desk.sexton("run", "start", "logs-expire", "--reason", "why", "--at", (missed - timedelta(seconds=30)).isoformat())
    desk.world.settle()
    assert len(desk.sexton("status", "--json").json["skipped_triggers"]) == 1
    desk.sexton("run", "start", "logs-expire", "--reason", "why", "--at", missed.isoformat())
    assert desk.sexton("status", "--json").json["skipped_triggers"] == []


def test_tick_runs_the_reconciler(desk: Desk) -> None:
    run_id = desk.run(at_work=False)
    while desk.world.work():
        pass
    assert desk.sexton("tick", "--json").json == {"ticked": True, "at": "2026-03-01T12:00:00Z"}
    assert desk.world.run({"run_id": run_id}).state == "completed"
    assert desk.functions.events == [{"tick": "2026-03-01T12:00:00Z"}]


# what all commands keep to


def test_nothing_in_a_key_acts_on_the_screen(desk: Desk) -> None:
    desk.world.fill([NASTY])
    desk.world.bucket().failures[NASTY] = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
    run_id = str(desk.world.trigger()["run_id"])
    desk.world.settle()
    written = [
        desk.sexton("plan", "show", run_id).out,
        desk.sexton("explain", f"s3://logs/{NASTY}").out,
        desk.sexton("dlq", "list").out,
        desk.sexton("status").out,
        desk.sexton("verify", run_id).out,
    ]
    assert escaped(NASTY) in written[2]
    for text in written:
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert r"app/\x1b[31mred\u202e [bold]x[/bold] back\\slash\nline" in written[0]
    assert r"app/\x1b[31mred\u202e [bold]x[/bold] back\\slash\nline" in written[1]
    assert desk.sexton("plan", "show", run_id, "--json").json[0]["key"] == NASTY


def test_the_stack_is_named_by_option_or_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.sexton("run", "list")
    desk.sexton("run", "list", "--stack", "Sexton-beta")
    monkeypatch.setenv("SEXTON_STACK", "Sexton-gamma")
    desk.sexton("run", "list")
    assert desk.stacks == ["Sexton", "Sexton-beta", "Sexton-gamma"]


def test_a_row_of_another_version_is_told(desk: Desk) -> None:
    run_id = desk.run()
    key = desk.world.run({"run_id": run_id}).key
    desk.world.table.put(desk.world.table.rows[key] | {"state": "rehearsing"})
    said = desk.sexton("run", "show", run_id, "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "unreadable_row")


def test_an_interrupted_command_ends_quietly(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(stack: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "connect", interrupt)
    said = desk.sexton("status")
    assert (said.code, said.out, said.err) == (130, "", "")


def test_a_call_that_fails_is_told_without_a_traceback(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stack: str) -> None:
        raise CallFailed(Failure(ReasonClass.PERMANENT, "AccessDeniedException", "not authorized: dynamodb:GetItem"))

    monkeypatch.setattr(cli, "connect", fail)
    said = desk.sexton("status", "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "missing_permission")
    assert "dynamodb:GetItem" in desk.sexton("status").err

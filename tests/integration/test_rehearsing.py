"""Rehearsals on a world in memory: all pass on a sound one, each fails over its own fault, all is put back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from sexton import cli, cli_rehearse, judging, working
from sexton.controls import Controls
from sexton.decoy import EXHAUSTED, KILLED
from sexton.deployment import ChangeUnsure, FunctionFailed
from sexton.errors import CallFailed, Failure, NotAllowed, ReasonClass, SextonError, UnknownPolicy
from sexton.item import Item
from sexton.job import JobState
from sexton.markers import PlacedMarkers
from sexton.message import read
from sexton.policy import Policy
from sexton.ports import Removed
from sexton.rehearsing import Rehearsals, Rehearsing, Verdict
from sexton.rehearsing_acts import FAULTY_WORKER, REHEARSALS, WORKER
from sexton.rehearsing_policy import EXAMPLE as TOLD
from sexton.rehearsing_policy import unfit

from tests.fakes.backstage import EXAMPLE, Stand, backstage
from tests.fakes.deployment import FakeControl, FakeFunctions, deployment
from tests.fakes.queue import Message
from tests.fakes.world import policy

PREFIX, BUCKET = "rehearsals/", "sexton-rehearsals"
ID = "0123456789ab"
LIMITS = {"max_items": 1000, "max_attempts": 3, "max_age": "PT15M"}
BUSY = Failure(ReasonClass.THROTTLED, "TooManyRequestsException", "rate exceeded")
SCOPE = f"s3://{BUCKET}/{PREFIX}"


@dataclass
class Room:
    """A stand, and rehearsing on it. `meanwhile` is done at each sleep before the worker has its turn."""

    stand: Stand = field(default_factory=Stand)
    told: list[str] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.control = FakeControl(self.stand)

    def deployment(self) -> Any:
        def pass_time() -> None:
            self.meanwhile()
            self.stand.meanwhile()

        return deployment(self.stand, FakeFunctions(self.stand), pass_time, self.control)

    def rehearsing(self) -> Rehearsing:
        return Rehearsing(self.deployment(), backstage(self.stand), self.told.append)

    def rehearse(self, *only: str, named: str | None = None) -> Rehearsals:
        return self.rehearsing().rehearse(named, only, "to see", ID, timedelta(seconds=30))

    def refused(self, *only: str, named: str | None = None) -> str:
        with pytest.raises(NotAllowed) as refused:
            self.rehearse(*only, named=named)
        return refused.value.code

    def expect_all_put_back(self) -> None:
        stand, controls = self.stand, self.stand.ledger.controls()
        assert stand.handler == WORKER
        assert not [each for each in controls.pauses if each.paused]
        assert not [each for each in controls.holds if each.active]
        assert not [key for key, versions in stand.bucket(BUCKET).versions.items() if versions]
        assert not list(stand.ledger.open_runs())


@pytest.fixture
def room() -> Room:
    return Room()


def test_all_pass_on_a_sound_stack_and_everything_is_put_back(room: Room) -> None:
    found = room.rehearse()

    assert [(each.name, each.verdict, each.why) for each in found.rehearsals] == [
        (name, Verdict.PASSED, None) for name in REHEARSALS
    ]
    assert found.passed, found
    assert (found.policy, found.everything_left) == ("rehearsal", ())
    assert not room.stand.queue.dead
    room.expect_all_put_back()


def test_a_second_one_finds_what_the_first_found(room: Room) -> None:
    assert room.rehearse("undo").passed
    assert room.rehearse("undo", "newer-object").passed


# Each can fail: one fault for each promise.


def careless(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes a late message for an order."""

    def remove(message: Message) -> None:
        asked = read(message.body)
        job = room.stand.ledger.job(asked.job_key)
        if job is None or job.state is not JobState.SUCCEEDED:
            return
        for item in map(json.loads, (room.stand.evidence.get(asked.part_key) or b"").splitlines()):
            room.stand.bucket(BUCKET).delete(item["key"])

    room.stand.before_work = remove


def forgetful(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second worker that takes for absent what the first one removed."""
    as_it_is = judging._absent
    monkeypatch.setattr(judging, "_absent", lambda index, planned, maybe_done, at: as_it_is(index, planned, False, at))


def immortal(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that keeps its handler, so that nothing is rehearsed: that must not pass."""
    room.stand.stuck = True


def unmended(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed goes on failing after the replay."""
    room.stand.bucket(BUCKET).failures = _FailsForEver()


def tireless(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody obeys a pause."""
    monkeypatch.setattr(working.Look, "may_work", True)
    monkeypatch.setattr(Controls, "paused", lambda self, policy: None)


def rash(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not look at dates."""
    monkeypatch.setattr(Item, "same_as", lambda self, other: self.key == other.key)


def deaf(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not mind holds."""
    monkeypatch.setattr(working.Look, "holds", lambda self, address: False)


def boasting(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo that says that it brought everything back."""
    monkeypatch.setattr(PlacedMarkers, "remove", lambda self, items: {item.id: Removed() for item in items})


class _FailsForEver(dict[Any, Any]):
    def __contains__(self, key: object) -> bool:
        return "failing" in str(key)

    def __getitem__(self, key: object) -> Any:
        from sexton.decoy import TROUBLE

        return TROUBLE


@pytest.mark.parametrize(
    ("name", "fault", "says"),
    [
        ("duplicate-delivery", careless, "is hidden by one delete marker; found: 3 markers"),
        (KILLED, forgetful, "completed, 6 deleted; found: completed, 0 deleted, 6 skipped (absent)"),
        (KILLED, immortal, "expected: the worker dies; found: it lived"),
        (EXHAUSTED, immortal, "completed, 4 deleted, 1 dead (ServiceUnavailable); found: completed, 5 deleted"),
        (EXHAUSTED, unmended, "expected: completed, 5 deleted; found: completed, 4 deleted, 1 dead"),
        ("paused-consumers", tireless, "a backlog"),
        ("newer-object", rash, "4 deleted, 2 skipped (changed); found: completed, 4 deleted, 2 skipped (younger)"),
        ("hold-mid-run", deaf, "4 deleted, 2 skipped (held); found: completed, 6 deleted"),
        ("undo", boasting, "is there, byte for byte; found: nothing"),
    ],
)
def test_a_fault_is_seen_and_everything_is_put_back(
    room: Room, monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[..., None], says: str
) -> None:
    fault(room, monkeypatch)

    found = room.rehearse(name)

    (only,) = found.rehearsals
    assert (only.verdict, found.passed) == (Verdict.FAILED, False)
    assert says in str(only.why)
    assert only.left_behind == ()
    room.stand.before_work = lambda message: None
    assert found.left_behind == ()
    room.expect_all_put_back()


# Stopped, and killed


@pytest.mark.parametrize("name", REHEARSALS)
@pytest.mark.parametrize("at", [1, 3, 5, 8, 13])
def test_stopped_at_any_time_everything_is_put_back(room: Room, name: str, at: int) -> None:
    sleeps = 0

    def stop() -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == at:
            raise KeyboardInterrupt

    room.meanwhile = stop
    found = room.rehearse(name, "undo")

    if sleeps < at:
        return  # it was through before
    assert found.rehearsals[0].verdict in (Verdict.INTERRUPTED, Verdict.PASSED)
    assert not found.passed
    leased = [text for text in found.everything_left if "closes" in text]  # of a worker that was killed just now
    assert found.everything_left == tuple(leased)
    room.stand.settle()
    room.expect_all_put_back()


class PowerCut(BaseException):
    """The command itself is gone: nothing is put back."""


@pytest.mark.parametrize("name", REHEARSALS)
def test_what_a_killed_one_left_is_tidied_up(room: Room, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sleeps = 0

    def cut() -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == 4:
            raise PowerCut

    room.meanwhile = cut
    with monkeypatch.context() as patched:
        patched.setattr("sexton.rehearsing_steps.Restoring.restore", lambda self: [])
        with pytest.raises(PowerCut):
            room.rehearse(name)
    room.meanwhile = lambda: None

    assert room.refused(name) in ("not_tidy", "stage_busy")
    tidied = room.rehearsing().tidy(None, "it was killed", ID)
    room.stand.settle()

    assert all("closes" in text for text in tidied.left_behind), tidied
    room.expect_all_put_back()
    assert room.rehearse(name).passed


def test_what_cannot_be_put_back_is_said(room: Room) -> None:
    as_it_is = room.control.change

    def change(change: str, fields: Any, reason: str) -> Any:
        if change == "hold_release":
            raise ChangeUnsure("no answer came")
        return as_it_is(change, fields, reason)

    room.control.change = change  # type: ignore[method-assign]
    found = room.rehearse("hold-mid-run")

    assert not found.passed
    assert any(text.startswith(f"{SCOPE}rehearsal-{ID}/hold-mid-run/held- released:") for text in found.everything_left)
    assert any("sexton hold release" in text for text in found.left_behind)


# Before anything is touched


def test_anything_that_is_no_decoy_is_in_the_way(room: Room) -> None:
    for key in (f"{PREFIX}a", f"{PREFIX}rehearsal-1/a", f"{PREFIX}x/rehearsal-{ID}/a"):
        room.stand.bucket(BUCKET).put(key)
        assert room.refused() == "not_only_decoys"
        room.stand.bucket(BUCKET).delete(key)
        assert room.refused() == "not_only_decoys"  # a version behind a marker is somebody's too
        room.stand.bucket(BUCKET).versions[key] = []
    assert room.stand.handler == WORKER
    assert not list(room.stand.ledger.runs("rehearsal"))


def test_tidying_up_spares_what_is_no_decoy(room: Room) -> None:
    room.stand.bucket(BUCKET).put(f"{PREFIX}mine")
    room.stand.bucket(BUCKET).put(f"{PREFIX}rehearsal-{ID}/undo/0000.txt")
    tidied = room.rehearsing().tidy(None, "why", ID)

    assert room.stand.bucket(BUCKET).keys() == [f"{PREFIX}mine"]
    assert tidied.left_behind == (f"decoys under {SCOPE}",) or "mine" in str(tidied.left_behind)


def test_a_bucket_without_versions_is_refused(room: Room) -> None:
    room.stand.bucket(BUCKET).state = "Suspended"
    assert room.refused() == "no_versions"


def test_a_stage_at_work_is_refused(room: Room) -> None:
    room.stand.policies["logs-expire"] = policy()
    room.stand.fill(["app/a"])
    room.stand.trigger()
    assert room.refused() == "stage_busy"


def test_what_is_paused_or_held_is_refused(room: Room) -> None:
    stopping = room.stand.stopping()
    stopping.pause("all", "why", "ada")
    assert room.refused() == "paused"
    stopping.resume("all", "why", "ada")
    stopping.hold(f"s3://{BUCKET}", "why", "ada")
    assert room.refused() == "prefix_held"


def test_a_worker_that_was_left_changed_is_refused(room: Room) -> None:
    room.stand.handler = FAULTY_WORKER
    assert room.refused() == "not_tidy"


def test_only_what_there_is_can_be_named(room: Room) -> None:
    assert room.refused("flood") == "unknown_rehearsal"
    with pytest.raises(UnknownPolicy):
        room.rehearse(named="other")


def test_any_other_policy_is_refused_with_one_to_write(room: Room) -> None:
    room.stand.policies = {"logs-expire": policy()}
    with pytest.raises(NotAllowed) as refused:
        room.rehearse(named="logs-expire")
    assert refused.value.code == "unfit_policy"
    assert "recovery: versioning" in str(refused.value)
    assert TOLD in str(refused.value)
    assert room.refused() == "unfit_policy"


def test_the_policy_that_is_told_is_the_one_in_the_docs() -> None:
    assert EXAMPLE.read_text() == TOLD


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "report"},
        {"approval": "first"},
        {"approvers": 2, "approval": "always"},
        {"recovery": "none"},
        {"retain": "PT2M"},
        {"retain": "P1D", "short_retention": False},
        {"limits": {**LIMITS, "max_items": 99}, "job_size": 1},
        {"limits": {**LIMITS, "max_share": 0.5}},
        {"limits": {**LIMITS, "max_attempts": 6}, "slo": "P1D"},
        {"source": {"kind": "s3", "bucket": BUCKET, "prefixes": ["a/", "b/"]}},
        {"source": {"kind": "s3", "bucket": BUCKET, "prefixes": ["a"], "raw_prefix": True}},
        {"source": {"kind": "s3", "bucket": BUCKET, "prefixes": ["a/"], "account": "123456789012"}},
        {"source": {"kind": "s3", "bucket": BUCKET, "prefixes": ["a/"], "include": {"suffixes": [".txt"]}}},
        {"age_from": {"tag": "date"}},
        {"cohort": "rehearsals/{tenant}/..."},
    ],
)
def test_a_policy_that_lacks_anything_does_not_fit(room: Room, changes: dict[str, object]) -> None:
    fitting = room.stand.policies["rehearsal"]
    assert not list(unfit(fitting))
    fields = fitting.model_dump(mode="json", exclude_defaults=True)
    assert list(unfit(Policy.model_validate({**fields, **changes})))


# The command


@pytest.fixture
def desk(room: Room, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(cli, "connect", lambda stack: room.deployment())
    monkeypatch.setattr(cli_rehearse, "backstage", lambda stack: backstage(room.stand))
    return room


def test_the_command_writes_a_table(desk: Room, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["rehearse", "--only", "undo", "--only", "newer-object", "--reason", "to see"])
    out, err = capsys.readouterr()

    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [["newer-object", "passed"], ["undo", "passed"]]
    assert "Everything was put back" in out
    assert "undo: put 6 decoys" in err


def test_the_command_fails_if_one_did(desk: Room, capsys: pytest.CaptureFixture[str]) -> None:
    desk.stand.stuck = True
    code = cli.main(["rehearse", "--only", KILLED, "--reason", "to see", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert code == 1
    assert found["passed"] is False
    assert [(each["name"], each["verdict"]) for each in found["rehearsals"]] == [(KILLED, "failed")]


def test_the_command_tidies_up(desk: Room, capsys: pytest.CaptureFixture[str]) -> None:
    desk.stand.handler = FAULTY_WORKER
    assert cli.main(["rehearse", "--tidy", "--reason", "why"]) == 0
    assert desk.stand.handler == WORKER
    assert "Everything was put back" in capsys.readouterr().out


def test_a_look_that_fails_for_a_moment_comes_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is, ticks = FakeFunctions.tick, 0

    def tick(functions: FakeFunctions, event: Any) -> None:
        nonlocal ticks
        ticks += 1
        if ticks in (2, 3):
            raise FunctionFailed("Task timed out") if ticks == 2 else CallFailed(BUSY)
        as_it_is(functions, event)

    monkeypatch.setattr(FakeFunctions, "tick", tick)
    found = room.rehearse("newer-object")
    assert found.passed
    assert sum(text.startswith("cannot look now") for text in found.rehearsals[0].did) == 2


def test_an_error_of_a_call_fails_the_rehearsal_and_no_more(room: Room) -> None:
    as_it_is, asked = room.control.change, 0

    def change(change: str, fields: Any, reason: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ChangeUnsure("no answer came")
        return as_it_is(change, fields, reason)

    room.control.change = change  # type: ignore[method-assign]
    found = room.rehearse("newer-object", "undo")
    assert [each.verdict for each in found.rehearsals] == [Verdict.FAILED, Verdict.PASSED]
    assert issubclass(ChangeUnsure, SextonError)
    room.expect_all_put_back()

"""Marked records: each stays, one attribute of it changes with the settlement, and a repeat writes nothing."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from pydantic import ValidationError
from sexton import cli
from sexton.attributes import canonical
from sexton.errors import Failure, ReasonClass
from sexton.job import JobState
from sexton.outcome import CHANGED
from sexton.policy import Policy
from sexton.ports import KeyShape, TableShape
from sexton.run import Run
from sexton.wording import in_words

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.records import REMINDERS, FakeRecords
from tests.fakes.time import START
from tests.fakes.world import World, records_policy
from tests.integration.seen import tally

POLICY = "reminders-mark"
MARK = {"kind": "mark", "attribute": "retired", "value": True}
DAY = timedelta(days=1)


def marking(**changes: object) -> Policy:
    return records_policy(**{"id": POLICY, "action": MARK, "recovery": "none", **changes})


def a_world(number: int = 0, **changes: object) -> World:
    world = World({POLICY: marking(**changes)})
    for each in range(number):
        remind(world, f"{each}")
    return world


def remind(world: World, name: str, age: float = 60, **more: object) -> str:
    due = int((START - age * DAY).timestamp())
    return world.records().put(**{"id": name, "status": "open", "deadline": due, **more})


def carried_out(world: World) -> Run:
    return world.carried_out(POLICY)


def record(world: World, name: str) -> dict[str, object]:
    return world.records().records[canonical({"id": {"S": name}})]


@pytest.mark.parametrize(
    ("value", "typed"), [(True, {"BOOL": True}), (7, {"N": "7"}), ("by sexton", {"S": "by sexton"}), ("", {"S": ""})]
)
def test_a_record_past_its_deadline_is_marked_and_stays_as_it_is(value: object, typed: dict[str, object]) -> None:
    world = a_world(action={**MARK, "value": value})
    remind(world, "old", note="kept", version=3)
    remind(world, "young", age=1)
    before = dict(record(world, "old"))
    carried_out(world)
    assert record(world, "old") == {**before, "retired": typed}
    assert "retired" not in record(world, "young")


def test_a_repeat_finds_the_mark_and_writes_nothing() -> None:
    world = a_world(3)
    carried_out(world)
    world.clock.advance(86_400)
    again = carried_out(world)
    assert (again.scanned, again.planned) == ({"marked": 3}, 0)


def test_another_value_of_the_attribute_is_no_mark() -> None:
    world = a_world()
    for value in (False, "true", 1):
        remind(world, f"{value}", retired=value)
    assert carried_out(world).planned == 3
    assert record(world, "1")["retired"] == {"BOOL": True}


def test_what_no_condition_can_compare_is_not_marked() -> None:
    world = a_world()
    remind(world, "listed", retired={"L": []})
    assert carried_out(world).scanned == {"unreadable": 1}


def test_the_outcome_says_that_it_was_a_mark() -> None:
    world = a_world(1)
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    (line,) = (world.evidence.get(job.outcome_files[0]) or b"").splitlines()
    fields = json.loads(line)
    assert (fields["outcome"], fields["effect"]) == ("deleted", "marked")


def test_a_record_that_changes_between_look_and_transaction_is_not_marked() -> None:
    world = a_world(4)
    world.trigger(POLICY)
    world.records().before_transaction = [lambda: remind(world, "1", age=1), lambda: remind(world, "2", retired=True)]
    world.work()
    run = next(iter(world.ledger.runs(POLICY)))
    assert tally(world, run.run_id) == {"deleted": 2, f"skipped:{CHANGED}": 2}
    assert "retired" not in record(world, "1")


def test_a_record_that_went_is_not_created_by_its_mark() -> None:
    world = a_world(2)
    world.trigger(POLICY)
    world.records().before_transaction = [lambda: world.records().records.pop(canonical({"id": {"S": "1"}}))]
    world.settle()
    assert [json.loads(key)["id"]["S"] for key in world.records().records] == ["0"]


def test_a_lost_reply_marks_once() -> None:
    world = a_world(3)
    run = world.run(world.trigger(POLICY))
    world.records().failure = Failure(ReasonClass.TRANSIENT, "ReplyLost", "lost", unknown_effect=True)
    world.work()
    (job,) = world.ledger.jobs(run.run_id)
    assert (job.state, job.maybe_done) == (JobState.READY, False)
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 3}


@pytest.mark.parametrize("attribute", ["deadline", "carrier", "version"])
def test_what_a_record_is_judged_by_cannot_be_the_mark(attribute: str) -> None:
    with pytest.raises(ValidationError, match=f"{attribute} is what a record is judged by"):
        marking(filter={"carrier": "dhl"}, version_attribute="version", action={**MARK, "attribute": attribute})


@pytest.mark.parametrize(
    "action", [{"kind": "mark"}, {**MARK, "value": 1.5}, {**MARK, "value": None}, {**MARK, "more": 1}, {"kind": "wipe"}]
)
def test_what_is_no_mark(action: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        marking(action=action)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [("id", "x", "mark_unfit"), ("status", "x", "mark_unfit"), ("day", 7, "mark_unfit"), ("day", "", "mark_unfit")],
)
def test_a_key_is_marked_only_where_the_record_stays_found(attribute: str, value: object, reason: str) -> None:
    world = a_world(2, action={"kind": "mark", "attribute": attribute, "value": value})
    run = world.run(world.trigger(POLICY))
    assert (run.state, run.reason) == ("invalidated", reason)


def test_a_key_of_another_index_can_be_the_mark() -> None:
    world = a_world(1, action={"kind": "mark", "attribute": "day", "value": "over"})
    carried_out(world)
    assert record(world, "0")["day"] == {"S": "over"}


def test_an_index_that_does_not_show_the_mark_is_refused() -> None:
    world = a_world()
    narrow = KeyShape("status", "deadline", frozenset({"id", "status", "deadline"}))
    world.table.tables["reminders"] = FakeRecords(TableShape(REMINDERS.keys, {"by-status": narrow}, REMINDERS.types))
    run = world.run(world.trigger(POLICY))
    assert (run.state, run.reason) == ("invalidated", "index_unfit")


def test_a_policy_that_marks_is_told_in_words() -> None:
    told = " ".join(in_words(marking()))
    assert "Sets retired to true on each record of table reminders once its deadline" in told
    assert "Removes" not in told
    assert "A mark cannot be taken back" in told


def test_what_people_see_calls_records_records_and_marks_marks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(3)
    run = carried_out(world)
    monkeypatch.setattr(cli, "connect", lambda _: deployment(world, FakeFunctions(world)))

    def told(*command: str) -> str:
        assert cli.main([*command]) == 0
        return capsys.readouterr().out

    shown = told("run", "show", run.run_id)
    assert "marked" in shown
    assert "deleted" not in shown
    assert "Records have no price here" in told("plan", "money", run.run_id)
    listed = told("plan", "show", run.run_id)
    assert "  record  " in listed
    assert "RECORD" not in listed
    explained = told("explain", 'dynamodb://reminders/{"id":{"S":"1"}}')
    assert "marked" in explained
    assert "ETag" not in explained

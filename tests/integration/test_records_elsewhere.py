"""Records of a table that lies elsewhere: each goes by itself, and what became of it is told as far as can be known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import NoReturn

import pytest
from pydantic import ValidationError
from sexton import cli
from sexton.attributes import canonical
from sexton.aws.clients import Clients
from sexton.aws.tables_elsewhere import MOST_SESSIONS, TablesElsewhere
from sexton.elsewhere import Elsewhere
from sexton.errors import Failure, ReasonClass, SourceRefused
from sexton.item import Item
from sexton.job import JobState
from sexton.ports import CHANGED_AT_ONCE
from sexton.records import RecordsElsewhere
from sexton.run import Run
from sexton.table import Delete

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.recorder import Crash
from tests.fakes.records import FakeRecords
from tests.fakes.time import START
from tests.fakes.world import VISIBILITY, World, records_policy
from tests.integration.seen import tally

POLICY = "reminders-delete"
ROLE = "arn:aws:iam::210987654321:role/sexton-reminders"
THERE = Elsewhere("eu-west-1", ROLE, "our-stage")
PLACED = {"region": "eu-west-1", "role_arn": ROLE, "external_id": "our-stage"}
ADDRESS = "dynamodb://210987654321:eu-west-1:reminders/"
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalServerError", "something broke", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDeniedException", "may not delete")
SLOW = Failure(ReasonClass.THROTTLED, "ThrottlingException", "slow down")


def a_world(number: int = 0, **changes: object) -> World:
    """So many reminders of the other account, and as many of the same names beside the ledger."""
    world = World({POLICY: records_policy(**{**PLACED, **changes})})
    for table in (there(world), world.records()):
        for each in range(number):
            remind(table, f"{each:04d}")
    return world


def there(world: World) -> FakeRecords:
    return world.records("reminders", THERE)


def remind(table: FakeRecords, name: str, days: int = 60) -> str:
    return table.put(id=name, status="open", deadline=int((START - timedelta(days=days)).timestamp()))


def key(name: str) -> str:
    return canonical({"id": {"S": name}})


def carried_out(world: World) -> Run:
    return world.carried_out(POLICY, at=START)


def run_of(world: World) -> str:
    (run,) = world.ledger.runs(POLICY)
    return run.run_id


def test_they_go_and_those_beside_the_ledger_stay() -> None:
    world = a_world(30)
    carried_out(world)
    assert (len(there(world).records), len(world.records().records)) == (0, 30)
    assert tally(world, run_of(world)) == {"deleted": 30}


def test_each_role_is_assumed_for_the_run() -> None:
    world = a_world(3)
    world.assumed.clear()
    run = carried_out(world)
    assert world.assumed == {(THERE, run.run_id)}


def test_a_job_is_not_bound_to_what_a_transaction_takes() -> None:
    world = a_world(250, job_size=250)
    run = carried_out(world)
    assert (run.jobs, len(there(world).records)) == (1, 0)


def test_one_that_changes_after_the_look_is_skipped_and_the_rest_goes() -> None:
    world = a_world(5)
    there(world).before_change = [lambda: remind(there(world), "0003", days=1)]
    carried_out(world)
    assert tally(world, run_of(world)) == {"deleted": 4, "skipped:changed": 1}
    assert list(there(world).records) == [key("0003")]


def test_one_that_is_gone_after_the_look_is_not_called_deleted() -> None:
    world = a_world(5)
    there(world).before_change = [lambda: there(world).records.pop(key("0003")) and None]
    carried_out(world)
    assert tally(world, run_of(world)) == {"deleted": 4, "skipped:absent": 1}


def test_a_lost_reply_is_looked_into_and_said_to_be_unproven() -> None:
    world = a_world(5)
    there(world).refusals = {key("0002"): [UNSURE]}
    carried_out(world)
    assert tally(world, run_of(world)) == {"deleted": 4, "deleted:absent_after_attempt": 1}


def test_a_worker_that_always_dies_after_the_removal_is_followed_by_the_reconciler() -> None:
    world = a_world(1, limits={"max_items": 100, "max_attempts": 3})
    answer = world.trigger(POLICY, at=START)
    removing = there(world).change

    def die(changes: Sequence[Delete]) -> NoReturn:
        removing(changes)
        raise Crash

    def die_looking(*_: object) -> NoReturn:
        raise Crash

    there(world).change = die  # type: ignore[method-assign]
    with pytest.raises(Crash):
        world.work()
    looking = there(world).get
    there(world).get = die_looking  # type: ignore[method-assign]
    for _ in range(2):
        world.clock.advance(VISIBILITY)
        with pytest.raises(Crash):
            world.work()
    there(world).get = looking  # type: ignore[method-assign]
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced) == ("completed", True)
    assert tally(world, run.run_id) == {"deleted:absent_after_attempt": 1}


MARK = {"action": {"kind": "mark", "attribute": "expired", "value": True}}


def test_they_can_be_marked_one_by_one() -> None:
    world = a_world(5, **MARK)
    there(world).before_change = [lambda: remind(there(world), "0003", days=1)]
    there(world).refusals = {key("0002"): [SLOW]}
    run = carried_out(world)
    assert tally(world, run.run_id) == {"deleted": 4, "skipped:changed": 1}
    assert [name for name, record in there(world).records.items() if "expired" not in record] == [key("0003")]
    (job,) = world.ledger.jobs(run.run_id)
    lines = [json.loads(line) for file in job.files for line in (world.evidence.get(file) or b"").splitlines()]
    assert sum(line.get("effect") == "marked" for line in lines) == 4


def test_a_mark_whose_reply_was_lost_is_not_made_twice_and_told_as_a_change() -> None:
    world = a_world(3, **MARK)
    there(world).refusals = {key("0001"): [UNSURE]}
    carried_out(world)
    assert tally(world, run_of(world)) == {"deleted": 2, "skipped:changed_after_attempt": 1}
    assert all("expired" in record for record in there(world).records.values())


def test_archiving_there_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="action archive takes a transaction with the ledger"):
        records_policy(**PLACED, action="archive", version_attribute="version", recovery="archive")


def test_throttling_costs_no_attempt() -> None:
    world = a_world(5, limits={"max_items": 100, "max_attempts": 3})
    there(world).refusals = {key("0001"): [SLOW] * 6}
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    assert (tally(world, run.run_id), job.throttles) == ({"deleted": 5}, 6)


def test_a_role_that_may_not_delete_halts_the_run() -> None:
    world = a_world(5)
    there(world).refusals = {key(f"{each:04d}"): [DENIED] for each in range(5)}
    answer = world.trigger(POLICY, at=START)
    world.settle()
    run = world.run(answer)
    assert (run.state, run.reason) == ("halted", "breaker")
    (job,) = world.ledger.jobs(run.run_id)
    assert job.state is JobState.READY
    assert len(there(world).records) == 5


def test_one_record_that_is_refused_dies_alone() -> None:
    world = a_world(5)
    there(world).refusals = {key("0002"): [DENIED] * 9}
    carried_out(world)
    assert list(there(world).records) == [key("0002")]
    assert sum(job.state is JobState.DEAD for job in world.ledger.jobs(run_of(world))) == 1


def test_a_record_that_was_planned_twice_has_its_turns_one_after_the_other() -> None:
    target = RecordsElsewhere(FakeRecords(), records_policy(**PLACED).source, START)  # type: ignore[arg-type]
    items = [(index, Item(name, "", 1, "RECORD", None, None)) for index, name in enumerate("abacb")]
    assert [[index for index, _ in batch] for batch in target.batches(items)] == [[0, 1], [2, 3, 4]]
    many = [(index, Item(f"{index}", "", 1, "RECORD", None, None)) for index in range(2 * CHANGED_AT_ONCE + 1)]
    assert [len(batch) for batch in target.batches(many)] == [CHANGED_AT_ONCE, CHANGED_AT_ONCE, 1]


@pytest.mark.parametrize(
    ("scope", "kept"), [(ADDRESS, 5), (f"{ADDRESS}{key('0001')}", 1), ("dynamodb://reminders/", 0)]
)
def test_a_hold_names_the_account_and_the_region(scope: str, kept: int) -> None:
    world = a_world(5)
    world.stopping().hold(scope, "asked for", "ann")
    carried_out(world)
    assert len(there(world).records) == kept


def test_a_report_changes_nothing_there() -> None:
    world = a_world(5, mode="report")
    world.trigger(POLICY, at=START)
    assert len(there(world).records) == 5
    assert "records.change" not in world.trace.names


def test_a_record_elsewhere_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    world = a_world(2)
    carried_out(world)
    monkeypatch.setattr(cli, "connect", lambda _: deployment(world, FakeFunctions(world)))
    assert cli.main(["explain", f"{ADDRESS}{key('0001')}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["table"] == "210987654321:eu-west-1:reminders"
    (fate,) = told["runs"]
    assert fate["outcome"] == "deleted"


# which places are elsewhere


def tables() -> TablesElsewhere:
    from boto3.session import Session

    return TablesElsewhere(Clients(Session("testing", "testing", region_name="eu-central-1")), "123456789012")


@pytest.mark.parametrize(
    "place", [Elsewhere("eu-central-1"), Elsewhere("us-east-1", "arn:aws:iam::123456789012:role/own")]
)
def test_what_is_the_stacks_own_is_not_elsewhere(place: Elsewhere) -> None:
    with pytest.raises(SourceRefused, match="stack's own") as refused:
        tables().records("reminders", place, "sexton-worker.x")
    assert refused.value.reason == "not_elsewhere"


def test_a_process_keeps_a_session_for_the_next_job_and_only_so_many() -> None:
    found = tables()
    first = found.records("reminders", THERE, "run-0")
    assert found.records("reminders", THERE, "run-0") is first
    for number in range(1, MOST_SESSIONS + 1):
        found.records("reminders", THERE, f"run-{number}")
    assert found.records("reminders", THERE, "run-0") is not first

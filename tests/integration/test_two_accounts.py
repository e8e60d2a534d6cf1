"""The handlers on moto, over two accounts: the ledger in one, the records in the other, behind a role."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from boto3.session import Session
from sexton.aws import assumed
from sexton.elsewhere import Elsewhere

from tests.fakes.world import records_policy
from tests.integration import reminders
from tests.integration.on_moto import Calls, Functions, functions, process

OTHER = "210987654321"
THERE = Elsewhere("eu-west-1", f"arn:aws:iam::{OTHER}:role/sexton-reminders", "our-stage")
PLACED = {"region": THERE.region, "role_arn": THERE.role_arn, "external_id": THERE.external_id}
DAY = 86_400


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    with process() as counted:
        yield counted


@pytest.fixture
def sexton(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    with functions(calls, monkeypatch) as found:
        yield found


@pytest.fixture
def there(sexton: Functions) -> Any:
    """A client of the owner of the other account, where there is a table with reminders."""
    own = Session(region_name="eu-central-1")
    dynamodb: Any = assumed.session_elsewhere(THERE, "owner", own, lambda: own.client("sts")).client("dynamodb")
    now = int(time.time())
    reminders.create(dynamodb)
    ages = {"a": 60, "b": 61, "c": 62, "young": -400}
    reminders.put(dynamodb, {name: now - days * DAY for name, days in ages.items()})
    yield dynamodb
    dynamodb.close()


def test_records_of_another_account_go_and_those_of_the_own_stay(sexton: Functions, there: Any) -> None:
    sexton.create_reminders({"own": 1})
    sexton.deploy(records_policy(**PLACED))
    run = sexton.run(sexton.trigger("reminders-delete"))
    sexton.work()
    sexton.tick()
    run = sexton.run({"run_id": run.run_id})
    assert (run.state, run.balanced) == ("completed", True)
    assert sexton.report(run)["deleted"] == 3
    assert (reminders.ids(there), sexton.reminders()) == (["young"], ["own"])


def test_one_that_changes_before_its_turn_is_skipped(sexton: Functions, there: Any) -> None:
    sexton.deploy(records_policy(**PLACED))
    run = sexton.run(sexton.trigger("reminders-delete"))
    there.update_item(
        TableName="reminders",
        Key={"id": {"S": "b"}},
        UpdateExpression="SET deadline = :later",
        ExpressionAttributeValues={":later": {"N": f"{int(time.time()) + 400 * DAY}"}},
    )
    there.delete_item(TableName="reminders", Key={"id": {"S": "c"}})
    sexton.work()
    sexton.tick()
    report = sexton.report(sexton.run({"run_id": run.run_id}))
    assert (report["deleted"], report["skipped"]) == (1, {"changed": 1, "absent": 1})
    assert reminders.ids(there) == ["b", "young"]


def test_each_function_assumes_the_role_once_for_a_run_and_under_its_own_name(
    sexton: Functions, there: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    assume = assumed._Assumed._assume

    def noted(provider: Any) -> dict[str, str]:
        asked.append((provider._session_name, provider._place.external_id))
        return assume(provider)

    monkeypatch.setattr(assumed._Assumed, "_assume", noted)
    sexton.deploy(records_policy(**PLACED, job_size=1, limits={"max_items": 100}))
    run = sexton.run(sexton.trigger("reminders-delete"))
    sexton.work()
    assert asked == [
        (f"sexton-discovery.{run.run_id}", "our-stage"),
        (f"sexton-worker.{run.run_id}", "our-stage"),
    ]


def test_a_table_that_is_not_there_is_refused_and_the_own_one_is_left_alone(sexton: Functions) -> None:
    sexton.create_reminders({"own": 1})
    sexton.deploy(records_policy(**PLACED))
    run = sexton.run(sexton.trigger("reminders-delete"))
    assert run.state == "invalidated"
    assert sexton.reminders() == ["own"]

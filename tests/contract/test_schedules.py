"""Schedules follow a pause and lose nothing by it, and so does what feeds the worker."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol

import pytest
from boto3.session import Session
from botocore.exceptions import ClientError
from sexton import ports
from sexton.aws.clients import Clients
from sexton.aws.schedules import AwsSchedules, schedule_name
from sexton.errors import ReasonClass

from tests.contract.worlds import AwsWorld, World, failure_in
from tests.fakes.calls import count_on
from tests.fakes.schedules import FakeSchedules

NUMBERS = count(1)
FEEDING = {"Enabled", "Enabling", "Creating"}
UNLIKE = {"State", "LastModificationDate", "ResponseMetadata"}  # what a switch may change


class Hands(Protocol):
    """What a deploy does, and what anybody sees."""

    def make(self, policy: str) -> None: ...

    def on(self, policy: str) -> bool: ...

    def feeding(self) -> bool: ...


@dataclass
class FakeHands:
    schedules: FakeSchedules

    def make(self, policy: str) -> None:
        self.schedules.on[policy] = True

    def on(self, policy: str) -> bool:
        return self.schedules.on[policy]

    def feeding(self) -> bool:
        return self.schedules.feeding


@dataclass
class AwsHands:
    clients: Clients
    account: str
    group: str
    mapping: str = ""

    def make(self, policy: str) -> None:
        self.clients.scheduler.create_schedule(**whole(self.account, self.group, policy))

    def get(self, policy: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.clients.scheduler.get_schedule(GroupName=self.group, Name=schedule_name(policy))
        return found

    def on(self, policy: str) -> bool:
        return bool(self.get(policy)["State"] == "ENABLED")

    def feeding(self) -> bool:
        return self.clients.functions.get_event_source_mapping(UUID=self.mapping)["State"] in FEEDING


def whole(account: str, group: str, policy: str) -> dict[str, Any]:
    """A schedule with every field that one can have."""
    now = datetime.now(UTC).replace(microsecond=0)
    return {
        "Name": schedule_name(policy),
        "GroupName": group,
        "Description": f"Runs of Sexton's policy {policy}.",
        "ScheduleExpression": "cron(30 2 * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "StartDate": now + timedelta(days=1),
        "EndDate": now + timedelta(days=900),
        "State": "ENABLED",
        "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        "KmsKeyArn": f"arn:aws:kms:eu-central-1:{account}:key/00000000-0000-0000-0000-000000000000",
        "ActionAfterCompletion": "NONE",
        "Target": {
            "Arn": f"arn:aws:lambda:eu-central-1:{account}:function:discovery",
            "RoleArn": f"arn:aws:iam::{account}:role/schedules",
            "Input": json.dumps({"policy": policy, "scheduled_time": "<aws.scheduler.scheduled-time>"}),
            "RetryPolicy": {"MaximumEventAgeInSeconds": 21_600, "MaximumRetryAttempts": 60},
            "DeadLetterConfig": {"Arn": f"arn:aws:sqs:eu-central-1:{account}:failures"},
        },
    }


def made_in(world: World) -> tuple[ports.Schedules, Hands]:
    if isinstance(world, AwsWorld):
        hands = new_group(world)
        hands.mapping = new_mapping(world)
        return adapter(world, hands), hands
    fake = FakeSchedules()
    return fake, FakeHands(fake)


def new_group(world: AwsWorld) -> AwsHands:
    group = f"group-{next(NUMBERS)}"
    world.clients.scheduler.create_schedule_group(Name=group)
    return AwsHands(world.clients, world.account, group)


def adapter(world: AwsWorld, hands: AwsHands) -> AwsSchedules:
    return AwsSchedules(world.clients.scheduler, world.clients.functions, hands.group, hands.mapping)


def new_mapping(world: AwsWorld) -> str:
    """A queue that feeds a function, as the stack has it."""
    number = next(NUMBERS)
    role = f"arn:aws:iam::{world.account}:role/worker"
    if world.name == "moto":  # which wants to know the role
        session = Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=world.region)
        made = session.client("iam").create_role(RoleName=f"worker-{number}", AssumeRolePolicyDocument="{}")
        role = made["Role"]["Arn"]
    function = world.clients.functions.create_function(
        FunctionName=f"worker-{number}",
        Runtime="python3.13",
        Role=role,
        Handler="handler.handler",
        Code={"ZipFile": archive()},
    )
    url = world.clients.sqs.create_queue(QueueName=f"feed-{number}")["QueueUrl"]
    arn = world.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return world.clients.functions.create_event_source_mapping(
        FunctionName=function["FunctionName"],
        EventSourceArn=arn,
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        ScalingConfig={"MaximumConcurrency": 7},
    )["UUID"]


def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("handler.py", "def handler(event, context):\n    return {}\n")
    return content.getvalue()


def test_a_schedule_is_switched_off_and_on_and_no_other(world: World) -> None:
    schedules, hands = made_in(world)
    hands.make("logs-expire")
    hands.make("other")
    assert schedules.disable("logs-expire")
    assert (hands.on("logs-expire"), hands.on("other")) == (False, True)
    assert schedules.enable("logs-expire")
    assert hands.on("logs-expire")


def test_switching_twice_is_no_error(world: World) -> None:
    schedules, hands = made_in(world)
    hands.make("logs-expire")
    assert schedules.enable("logs-expire")
    assert schedules.disable("logs-expire")
    assert schedules.disable("logs-expire")
    assert not hands.on("logs-expire")


def test_a_policy_without_a_schedule_is_told(world: World) -> None:
    schedules, _ = made_in(world)
    assert not schedules.disable("logs-expire")
    assert not schedules.enable("logs-expire")


def test_what_feeds_the_worker_is_stopped_and_started(world: World) -> None:
    schedules, hands = made_in(world)
    assert hands.feeding()
    schedules.stop_all()
    schedules.stop_all()
    assert not hands.feeding()
    schedules.start_all()
    assert hands.feeding()


# what only AWS has: fields to lose, and failures


def test_no_field_of_a_schedule_is_lost(aws: AwsWorld) -> None:
    hands = new_group(aws)
    schedules = adapter(aws, hands)
    hands.make("logs-expire")
    before = hands.get("logs-expire")
    given = whole(aws.account, hands.group, "logs-expire")
    assert before.keys() >= given.keys()
    for switch in (schedules.disable, schedules.enable):
        switch("logs-expire")
        after = hands.get("logs-expire")
        assert {n: v for n, v in after.items() if n not in UNLIKE} == {
            n: v for n, v in before.items() if n not in UNLIKE
        }


def test_every_field_that_the_service_takes_is_in_the_schedule_above(aws: AwsWorld) -> None:
    """So that a field which AWS adds fails here until it is among those that must not be lost."""
    model = aws.clients.scheduler.meta.service_model.operation_model("UpdateSchedule").input_shape
    assert set(model.members) - {"ClientToken"} == whole("1", "group", "policy").keys()


def test_the_rest_of_what_feeds_the_worker_stays(aws: AwsWorld) -> None:
    hands = new_group(aws)
    hands.mapping = new_mapping(aws)
    before = aws.clients.functions.get_event_source_mapping(UUID=hands.mapping)
    adapter(aws, hands).stop_all()
    after = aws.clients.functions.get_event_source_mapping(UUID=hands.mapping)
    for name in ("BatchSize", "FunctionResponseTypes", "EventSourceArn", "ScalingConfig"):
        assert after.get(name) == before.get(name), name


def test_a_schedule_that_is_as_it_should_be_is_not_written(aws: AwsWorld) -> None:
    hands = new_group(aws)
    hands.make("logs-expire")
    counted = count_on(aws.clients.scheduler)
    adapter(aws, hands).enable("logs-expire")
    assert counted["scheduler", "UpdateSchedule"] == 0


@pytest.mark.parametrize(
    ("code", "reason_class"),
    [
        ("ThrottlingException", ReasonClass.THROTTLED),
        ("ConflictException", ReasonClass.TRANSIENT),
        ("InternalServerException", ReasonClass.TRANSIENT),
        ("ValidationException", ReasonClass.PERMANENT),
        ("AccessDeniedException", ReasonClass.PERMANENT),
    ],
)
def test_a_refusal_is_told_by_its_class(
    aws: AwsWorld, monkeypatch: pytest.MonkeyPatch, code: str, reason_class: ReasonClass
) -> None:
    hands = new_group(aws)
    hands.make("logs-expire")

    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "UpdateSchedule")

    monkeypatch.setattr(aws.clients.scheduler, "update_schedule", refuse)
    assert failure_in(lambda: adapter(aws, hands).disable("logs-expire")).reason_class is reason_class


def test_a_feed_that_does_not_exist_is_told(aws: AwsWorld) -> None:
    hands = new_group(aws)
    hands.mapping = "00000000-0000-0000-0000-000000000000"
    failure = failure_in(adapter(aws, hands).stop_all)
    assert (failure.code, failure.reason_class) == ("ResourceNotFoundException", ReasonClass.PERMANENT)

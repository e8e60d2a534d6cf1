"""The ports that only take something: the event bus, the discovery function, the gauges."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from boto3.session import Session
from sexton.aws.events import EventBridgeEvents
from sexton.aws.gauges import EmfGauges
from sexton.errors import ReasonClass

from tests.contract.worlds import AwsWorld, failure_in
from tests.fakes.small import FakeDiscovery, FakeEvents, FakeGauges


def test_an_event_reaches_whoever_listens_for_its_kind(aws: AwsWorld) -> None:
    sqs, events = aws.clients.sqs, aws.clients.events
    url = sqs.create_queue(QueueName=f"{aws.name}-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = {"source": ["sexton"], "detail-type": ["run completed"]}
    events.put_rule(Name="runs", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="runs", Targets=[{"Id": "1", "Arn": arn}])
    aws.events().put("run started", {"run_id": "r"})
    aws.events().put("run completed", {"run_id": "r", "deleted": 3, "skipped": {"changed": 1}})
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
    event = json.loads(message["Body"])
    assert (event["source"], event["detail-type"]) == ("sexton", "run completed")
    assert event["detail"] == {"run_id": "r", "deleted": 3, "skipped": {"changed": 1}}


class RefusingBus:
    """A bus that answers 200 and takes nothing: the entry has an error of its own."""

    def put_events(self, **_: object) -> dict[str, Any]:
        return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"}]}


def test_an_entry_that_was_not_taken_is_a_failure() -> None:
    bus: Any = RefusingBus()
    failure = failure_in(lambda: EventBridgeEvents(bus, "default").put("run completed", {}))
    assert failure.reason_class is ReasonClass.THROTTLED
    assert failure.code == "ThrottlingException"


def test_the_fake_remembers_events() -> None:
    events = FakeEvents()
    events.put("run completed", {"run_id": "r"})
    assert events.of("run completed") == [{"run_id": "r"}]


def test_a_missing_discovery_function_is_a_failure_for_good(aws: AwsWorld) -> None:
    failure = failure_in(lambda: aws.discovery("missing").resume("r"))
    assert failure.reason_class is ReasonClass.PERMANENT


def test_discovery_is_asked_asynchronously_and_may_be_asked_again(aws: AwsWorld) -> None:
    function = _new_function(aws)
    requests: list[dict[str, Any]] = []

    def watch(params: dict[str, Any], **_: object) -> None:
        requests.append(params)

    aws.clients.functions.meta.events.register("before-call.lambda.Invoke", watch)
    try:
        aws.discovery(function).resume("logs.20260301T120000Z.1")
        aws.discovery(function).resume("logs.20260301T120000Z.1")
    finally:
        aws.clients.functions.meta.events.unregister("before-call.lambda.Invoke", watch)
    assert [json.loads(each["body"]) for each in requests] == [{"resume": "logs.20260301T120000Z.1"}] * 2
    assert [each["headers"]["X-Amz-Invocation-Type"] for each in requests] == ["Event"] * 2


def _new_function(aws: AwsWorld) -> str:
    name = "discovery"
    role = f"arn:aws:iam::{aws.account}:role/discovery"
    if aws.name == "moto":  # it wants the role to be there
        Session(region_name=aws.region).client("iam").create_role(RoleName="discovery", AssumeRolePolicyDocument="{}")
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("main.py", "def handler(event, context):\n    return event\n")
    aws.clients.functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role,
        Handler="main.handler",
        Code={"ZipFile": archive.getvalue()},
    )
    return name


def test_the_fake_remembers_whom_it_was_asked_to_resume() -> None:
    discovery = FakeDiscovery()
    discovery.resume("r")
    assert discovery.resumed == ["r"]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[dict[str, Any]]]:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "sexton")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Sexton")
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_gauge_is_one_line_of_embedded_metrics(emitted: Callable[[], list[dict[str, Any]]]) -> None:
    EmfGauges().put("DeadJobs", 3)
    (line,) = emitted()
    (metrics,) = line["_aws"]["CloudWatchMetrics"]
    assert metrics["Namespace"] == "Sexton"
    assert metrics["Dimensions"] == [["service"]]
    assert metrics["Metrics"] == [{"Name": "DeadJobs", "Unit": "Count"}]
    assert (line["DeadJobs"], line["service"]) == ([3.0], "sexton")


def test_a_gauge_of_a_policy_has_it_as_its_dimension(emitted: Callable[[], list[dict[str, Any]]]) -> None:
    EmfGauges().put("OldestOpenJobAge", 61.5, "logs")
    (line,) = emitted()
    (metrics,) = line["_aws"]["CloudWatchMetrics"]
    assert set(metrics["Dimensions"][0]) == {"policy", "service"}
    assert metrics["Metrics"] == [{"Name": "OldestOpenJobAge", "Unit": "Seconds"}]
    assert (line["OldestOpenJobAge"], line["policy"]) == ([61.5], "logs")


def test_a_warm_start_publishes_the_same_as_a_cold_one(emitted: Callable[[], list[dict[str, Any]]]) -> None:
    for _ in range(2):  # the second must not carry the first one's numbers or dimensions along
        EmfGauges().put("OldestOpenJobAge", 1, "logs")
        EmfGauges().put("DeadJobs", 0)
    lines = emitted()
    for line in lines:
        line["_aws"].pop("Timestamp")
    assert lines[:2] == lines[2:]


def test_the_fake_remembers_gauges() -> None:
    gauges = FakeGauges()
    gauges.put("DeadJobs", 1)
    gauges.put("DeadJobs", 2)
    gauges.put("DeadJobs", 7, "logs")
    assert gauges.last("DeadJobs") == 2
    assert gauges.last("DeadJobs", "logs") == 7
    assert gauges.last("Other") is None

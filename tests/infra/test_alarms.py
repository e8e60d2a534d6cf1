"""An alarm for each promise that can be seen to break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.conftest import synthesize
from tests.infra.template import Template, text

Alarm = Mapping[str, Any]


@pytest.fixture
def alarms(template: Template) -> dict[tuple[str, str], Alarm]:
    """By metric, and what it is measured on."""
    return {(a["MetricName"], _on(a)): a for a in template.props("AWS::CloudWatch::Alarm")}


def _on(alarm: Alarm) -> str:
    names = {d["Name"]: text(d["Value"]) for d in alarm["Dimensions"]}
    return names.get("policy") or names.get("QueueName") or names.get("FunctionName") or names["service"]


@pytest.mark.parametrize("metric", ["DeadJobs", "BooksOutOfBalance", "HaltedRuns", "MissedSchedules"])
def test_the_ledgers_own_numbers(alarms: dict[tuple[str, str], Alarm], metric: str) -> None:
    alarm = alarms[metric, "sexton"]

    assert alarm["Namespace"] == "Sexton"
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)
    assert alarm["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("output", ["DeadLetterQueueUrl", "FailureQueueUrl"])
def test_messages_that_lie_where_none_should(
    template: Template, alarms: dict[tuple[str, str], Alarm], output: str
) -> None:
    alarm = alarms["ApproximateNumberOfMessagesVisible", f"<{template.logical(output)}.QueueName>"]

    assert alarm["Threshold"] == 1


def test_the_oldest_open_job_is_measured_against_its_policys_slo(alarms: dict[tuple[str, str], Alarm]) -> None:
    assert alarms["OldestOpenJobAge", "enforced"]["Threshold"] == 86_400
    assert alarms["OldestOpenJobAge", "reported"]["Threshold"] == 2 * 86_400


def test_five_minutes_without_a_tick(template: Template, alarms: dict[tuple[str, str], Alarm]) -> None:
    alarm = alarms["Invocations", f"<{template.function_id('reconciler')}>"]

    assert (alarm["Period"], alarm["EvaluationPeriods"]) == (60, 5)
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["TreatMissingData"] == "breaching"


@pytest.mark.parametrize("name", ["discovery", "worker", "reconciler", "operator", "approver"])
def test_errors_of_each_function(template: Template, alarms: dict[tuple[str, str], Alarm], name: str) -> None:
    assert alarms["Errors", f"<{template.function_id(name)}>"]["Statistic"] == "Sum"


def test_every_alarm_tells_the_topic_and_says_what_to_do(template: Template) -> None:
    topic = f"<{template.logical('TopicArn')}>"
    for alarm in template.props("AWS::CloudWatch::Alarm"):
        assert [text(a) for a in alarm["AlarmActions"]] == [topic]
        assert alarm["AlarmDescription"]


def test_alarms_may_publish_although_the_topic_has_a_policy_of_its_own(template: Template) -> None:
    statements = [s for p in template.props("AWS::SNS::TopicPolicy") for s in p["PolicyDocument"]["Statement"]]

    assert any(s["Principal"] == {"Service": "cloudwatch.amazonaws.com"} for s in statements)


def test_the_address_of_the_context_value_is_subscribed(template: Template, tmp_path_factory: Any) -> None:
    (subscription,) = template.props("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "oncall@example.com")

    plain = synthesize(tmp_path_factory.mktemp("plain") / "code", stage="beta")
    assert plain.props("AWS::SNS::Subscription") == []


def test_a_stage_has_a_stack_and_metrics_of_its_own(tmp_path_factory: Any) -> None:
    beta = synthesize(tmp_path_factory.mktemp("beta") / "code", stage="beta")

    assert beta.stack_name == "Sexton-beta"
    ours = [a for a in beta.props("AWS::CloudWatch::Alarm") if a["Namespace"] == "Sexton"]
    variables = beta.functions()["reconciler"]["Environment"]["Variables"]
    assert {"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]} in ours[0]["Dimensions"]
    assert variables["POWERTOOLS_SERVICE_NAME"] == "sexton-beta"

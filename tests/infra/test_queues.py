"""The queues against the functions that they feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.template import Template, text

DAY = 86_400


@pytest.fixture
def queues(template: Template) -> Mapping[str, Mapping[str, Any]]:
    names = {"jobs": "JobsQueueUrl", "dead": "DeadLetterQueueUrl", "failures": "FailureQueueUrl"}
    resources = template.all("AWS::SQS::Queue")
    return {name: resources[template.logical(output)]["Properties"] for name, output in names.items()}


def test_visibility_is_six_worker_timeouts(template: Template, queues: Mapping[str, Mapping[str, Any]]) -> None:
    assert queues["jobs"]["VisibilityTimeout"] == 6 * template.functions()["worker"]["Timeout"]


def test_receives_outlast_the_attempts_of_every_policy(template: Template, queues: Mapping[str, Any]) -> None:
    receives = queues["jobs"]["RedrivePolicy"]["maxReceiveCount"]

    assert receives == 7 + 10
    variables = template.functions()["worker"]["Environment"]["Variables"]
    assert variables["SEXTON_MAX_RECEIVE_COUNT"] == str(receives)


def test_dead_letters_outlive_jobs_whose_age_counts_on(queues: Mapping[str, Mapping[str, Any]]) -> None:
    assert queues["dead"]["MessageRetentionPeriod"] == 14 * DAY
    assert queues["jobs"]["MessageRetentionPeriod"] < 14 * DAY
    assert queues["failures"]["MessageRetentionPeriod"] == 14 * DAY


def test_the_two_queues_name_each_other(template: Template, queues: Mapping[str, Mapping[str, Any]]) -> None:
    allowed = queues["dead"]["RedriveAllowPolicy"]

    assert allowed["redrivePermission"] == "byQueue"
    (source,) = allowed["sourceQueueArns"]
    assert text(source).endswith(f":{queues['jobs']['QueueName']}")
    assert text(queues["jobs"]["RedrivePolicy"]["deadLetterTargetArn"]) == (
        f"<{template.logical('DeadLetterQueueUrl')}.Arn>"
    )


def test_only_discovery_and_the_redrive_role_send(template: Template) -> None:
    denied = [r for r in template.queue_policy(template.logical("JobsQueueUrl")) if r.action == "sqs:SendMessage"]
    discovery = template.functions()["discovery"]["Role"]["Fn::GetAtt"][0]

    (right,) = denied
    assert right.effect == "Deny"
    assert "ArnNotEquals" in right.conditions
    assert discovery in right.conditions
    assert template.logical("RedriveRoleArn") in right.conditions


@pytest.mark.parametrize("output", ["JobsQueueUrl", "DeadLetterQueueUrl"])
def test_nobody_purges(template: Template, output: str) -> None:
    purges = [r for r in template.queue_policy(template.logical(output)) if r.action == "sqs:PurgeQueue"]

    assert [(r.effect, r.conditions) for r in purges] == [("Deny", "{}")]


def test_no_principal_sends_to_the_dead_letters(template: Template) -> None:
    rights = template.queue_policy(template.logical("DeadLetterQueueUrl"))

    assert [(r.effect, r.conditions) for r in rights if r.action == "sqs:SendMessage"] == [
        ("Deny", '{"Null": {"aws:PrincipalArn": "false"}}')
    ]


@pytest.mark.parametrize("output", ["JobsQueueUrl", "DeadLetterQueueUrl", "FailureQueueUrl"])
def test_every_queue_is_encrypted_and_refuses_plain_http(template: Template, output: str) -> None:
    queue = template.logical(output)

    assert template.all("AWS::SQS::Queue")[queue]["Properties"]["SqsManagedSseEnabled"] is True
    assert any(
        r.effect == "Deny" and r.action == "sqs:*" and '"aws:SecureTransport": "false"' in r.conditions
        for r in template.queue_policy(queue)
    )


def test_the_worker_reports_failures_by_record(template: Template) -> None:
    (mapping,) = template.props("AWS::Lambda::EventSourceMapping")

    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] == 10
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}
    assert text(mapping["FunctionName"]) == f"<{template.function_id('worker')}>"
    assert text(mapping["EventSourceArn"]) == f"<{template.logical('JobsQueueUrl')}.Arn>"

"""The customer's key: what is encrypted with it, and which role may use it for what."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from sexton.grants import READ_TABLE_KEY, WRITE_TABLE_KEY

from infra.config import ConfigError, read
from tests.infra.conftest import KEY, ROOT, SOURCE_KEY
from tests.infra.template import Template, text

FUNCTIONS = ("discovery", "worker", "reconciler", "operator", "approver", "widget")
QUEUES = ("JobsQueueUrl", "DeadLetterQueueUrl", "FailureQueueUrl")
PAGE = (ROOT / "docs" / "encryption.md").read_text()
HERE = ".<AWS::Region>.amazonaws.com"


def uses(template: Template, role: str, key: str = KEY) -> dict[str, set[str]]:
    """What a role may do with a key, by the service that it must go through; an empty one is any."""
    found: dict[str, set[str]] = {}
    for right in template.rights(role):
        if right.action.startswith("kms:") and key in right.resources:
            condition = json.loads(right.conditions or "{}").get("StringEquals", {})
            found.setdefault(text(condition.get("kms:ViaService", "")), set()).add(right.action)
    return {service.removesuffix(HERE): actions for service, actions in found.items()}


def role_of(template: Template, function: str) -> str:
    return str(template.functions()[function]["Role"]["Fn::GetAtt"][0])


def test_everything_that_is_stored_is_encrypted_with_the_key(closed_template: Template) -> None:
    (bucket,) = closed_template.props("AWS::S3::Bucket")
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    (table,) = closed_template.props("AWS::DynamoDB::Table")
    (topic,) = closed_template.props("AWS::SNS::Topic")
    queues, groups = closed_template.props("AWS::SQS::Queue"), closed_template.props("AWS::Logs::LogGroup")

    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert rule["BucketKeyEnabled"] is True
    assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    assert topic["KmsMasterKeyId"] == KEY
    assert [queue["KmsMasterKeyId"] for queue in queues] == [KEY] * len(QUEUES)
    assert not any("SqsManagedSseEnabled" in queue for queue in queues)
    assert [group["KmsKeyId"] for group in groups] == [KEY] * len(FUNCTIONS)


def test_without_a_key_awss_own_stay_and_nobody_may_use_one(template: Template) -> None:
    (bucket,) = template.props("AWS::S3::Bucket")
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]

    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert all(queue["SqsManagedSseEnabled"] is True for queue in template.props("AWS::SQS::Queue"))
    assert "kms:" not in json.dumps(template.json)
    assert "KmsMasterKeyId" not in json.dumps(template.json)


def test_each_function_may_use_the_key_for_what_it_does(closed_template: Template) -> None:
    found = {name: uses(closed_template, role_of(closed_template, name)) for name in FUNCTIONS}
    files = {"kms:Decrypt", "kms:GenerateDataKey"}
    rows = found["discovery"]["dynamodb"]

    assert found["discovery"] == {"s3": files, "dynamodb": rows, "sqs": files}
    # The right to take messages is granted by the CDK with the event source.
    assert found["worker"] == {"s3": files, "dynamodb": rows, "": {"kms:Decrypt"}}
    assert found["reconciler"] == {"s3": files, "dynamodb": rows}
    assert found["operator"] == {"dynamodb": rows, "sqs": {"kms:Decrypt"}}
    assert found["approver"] == found["widget"] == {"dynamodb": rows, "s3": {"kms:Decrypt"}}
    assert rows >= files
    assert not any("CreateGrant" in action or "*" in action for action in rows)


def test_the_redrive_role_and_the_schedules_may_send_to_encrypted_queues(closed_template: Template) -> None:
    roles = closed_template.all("AWS::IAM::Role")
    using = {role: used for role in roles if (used := uses(closed_template, role))}
    others = {role: used for role, used in using.items() if role not in map(_id(closed_template), FUNCTIONS)}

    assert others.pop(closed_template.logical("RedriveRoleArn")) == {"sqs": {"kms:Decrypt", "kms:GenerateDataKey"}}
    assert list(others.values()) == [{"sqs": {"kms:Decrypt", "kms:GenerateDataKey"}}]
    (schedules,) = others
    assert "scheduler.amazonaws.com" in json.dumps(roles[schedules])


def test_the_page_says_who_may_use_the_key_for_what(closed_template: Template) -> None:
    roles = {name: role_of(closed_template, name) for name in FUNCTIONS}
    roles |= {"redrive": closed_template.logical("RedriveRoleArn")}
    (schedules,) = {r for r in closed_template.all("AWS::IAM::Role") if uses(closed_template, r)} - {*roles.values()}
    granted = {
        (name, service or "any", tuple(sorted(actions)))
        for name, role in {**roles, "schedules": schedules}.items()
        for service, actions in uses(closed_template, role).items()
    }
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (.*kms:.*) \|$", PAGE, re.MULTILINE)

    assert {
        (name, service, tuple(sorted(re.findall(r"`([^`]+)`", listed)))) for name, service, listed in rows
    } == granted


def test_the_pages_key_policy_is_for_those_who_use_the_key_in_their_own_name(closed_template: Template) -> None:
    account, alarms, logs = json.loads(re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0])
    assert account["Principal"]["AWS"].endswith(":root")
    assert alarms["Principal"]["Service"] == "cloudwatch.amazonaws.com"
    assert logs["Principal"]["Service"] == "logs.eu-central-1.amazonaws.com"
    named = logs["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    # CloudFormation names a group after the stack.
    assert named.endswith(f":log-group:{closed_template.stack_name}-*")
    assert not any("LogGroupName" in group for group in closed_template.props("AWS::Logs::LogGroup"))


def _id(template: Template) -> Any:
    return lambda name: role_of(template, name)


def test_keys_of_sources_are_for_those_who_look_at_objects_and_records(closed_template: Template) -> None:
    found = {name: uses(closed_template, role_of(closed_template, name), SOURCE_KEY) for name in FUNCTIONS}
    look = {"s3.eu-west-1.amazonaws.com": {"kms:Decrypt"}}
    read, remove = ({"dynamodb.eu-west-1.amazonaws.com": {*actions}} for actions in (READ_TABLE_KEY, WRITE_TABLE_KEY))

    assert found["discovery"] == read
    assert found["worker"] == look | remove
    assert found["reconciler"] == look | read  # of a table in another region
    assert found["widget"] == look
    assert found["operator"] == found["approver"] == {}


@pytest.mark.parametrize(
    "given",
    [
        {"kms_key_arn": "alias/ours"},
        {"kms_key_arn": "arn:aws:kms:eu-central-1:123456789012:alias/ours"},
        {"source_kms_key_arns": f"{KEY},1111"},
        {"evidence_lock_days": "-1"},
        {"evidence_lock_days": "36501"},
    ],
)
def test_values_that_cannot_be_are_refused_by_name(given: dict[str, str]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"-c {name}"):
        read(given)

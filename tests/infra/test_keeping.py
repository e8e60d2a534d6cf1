"""What must outlive the stack: the ledger and the evidence."""

from __future__ import annotations

import re

from tests.infra.conftest import ROOT
from tests.infra.template import Template, text

OUTPUTS = {
    "JobsQueueUrl",
    "DeadLetterQueueUrl",
    "FailureQueueUrl",
    "LedgerTableName",
    "EvidenceBucketName",
    "DiscoveryFunctionName",
    "WorkerFunctionName",
    "ReconcilerFunctionName",
    "TopicArn",
    "RedriveRoleArn",
    "OperateFunctionName",
    "ApproveFunctionName",
    "OperateUrl",
    "ApproveUrl",
    "WidgetFunctionName",
    "DashboardName",
    "ViewerPolicyArn",
    "OperatorPolicyArn",
    "ApproverPolicyArn",
}


def test_the_ledger_cannot_be_lost_with_the_stack(template: Template) -> None:
    table = template.all("AWS::DynamoDB::Table")[template.logical("LedgerTableName")]

    assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert table["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_ledgers_keys(template: Template) -> None:
    (table,) = template.props("AWS::DynamoDB::Table")
    (index,) = table["GlobalSecondaryIndexes"]

    assert [k["AttributeName"] for k in table["KeySchema"]] == ["pk", "sk"]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert index["IndexName"] == "open"
    assert [k["AttributeName"] for k in index["KeySchema"]] == ["open_pk", "open_sk"]
    assert index["Projection"] == {"ProjectionType": "ALL"}


def test_evidence_cannot_be_lost_with_the_stack_and_is_private(template: Template) -> None:
    bucket = template.all("AWS::S3::Bucket")[template.logical("EvidenceBucketName")]
    properties = bucket["Properties"]

    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in properties
    assert not any("Expiration" in str(rule) for rule in properties["LifecycleConfiguration"]["Rules"])


def test_evidence_is_reached_by_tls_only(template: Template) -> None:
    (policy,) = template.props("AWS::S3::BucketPolicy")

    assert any(
        s["Effect"] == "Deny" and s.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
        for s in policy["PolicyDocument"]["Statement"]
    )


def test_outputs_have_the_names_that_clients_look_for(template: Template) -> None:
    assert set(template.json["Outputs"]) == OUTPUTS
    assert text(template.json["Outputs"]["WorkerFunctionName"]["Value"]) == f"<{template.function_id('worker')}>"


def test_evidence_is_locked_by_default_for_as_long_as_is_asked(closed_template: Template, template: Template) -> None:
    (locked,), (free,) = closed_template.props("AWS::S3::Bucket"), template.props("AWS::S3::Bucket")

    assert locked["ObjectLockEnabled"] is True
    assert locked["ObjectLockConfiguration"] == {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}},
    }
    assert not any(name.startswith("ObjectLock") for name in free)


def test_nothing_else_stays_when_the_stack_goes(template: Template) -> None:
    kept = {r["Type"] for r in template.json["Resources"].values() if r.get("DeletionPolicy", "Delete") != "Delete"}
    page = (ROOT / "docs" / "uninstall.md").read_text()

    assert kept == {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
    assert kept == set(re.findall(r"`(AWS::\w+::\w+)`", page))


def test_nobody_may_pass_the_lock(closed_template: Template) -> None:
    assert "s3:BypassGovernanceRetention" not in str(closed_template.json)
    assert "s3:PutObjectRetention" not in str(closed_template.json)

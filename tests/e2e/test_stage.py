"""What `cdk deploy` put into the emulator."""

from __future__ import annotations

import json
from pathlib import Path

from sexton.policy import load_policies
from sexton.record_source import RecordSource

from infra.local.stage import Stage
from tests.e2e.conftest import WORKER_TIMEOUT


def test_the_outputs_name_what_is_there(stage: Stage) -> None:
    lambda_, sqs = stage.client("lambda"), stage.client("sqs")

    assert stage.stack == "Sexton"
    for name in ("DiscoveryFunctionName", "WorkerFunctionName", "ReconcilerFunctionName"):
        assert lambda_.get_function(FunctionName=stage.outputs[name])["Configuration"]["State"] == "Active"
    for name in ("JobsQueueUrl", "DeadLetterQueueUrl", "FailureQueueUrl"):
        assert sqs.get_queue_attributes(QueueUrl=stage.outputs[name], AttributeNames=["QueueArn"])["Attributes"]
    assert stage.client("dynamodb").describe_table(TableName=stage.outputs["LedgerTableName"])
    assert stage.client("s3").get_bucket_versioning(Bucket=stage.outputs["EvidenceBucketName"])["Status"] == "Enabled"


def test_every_policy_has_a_schedule_beside_the_tick(stage: Stage, policies: Path) -> None:
    scheduler = stage.client("scheduler")
    found = [
        scheduler.get_schedule(Name=s["Name"], GroupName=s["GroupName"])
        for s in scheduler.list_schedules()["Schedules"]
    ]
    inputs = [json.loads(s["Target"]["Input"]) for s in found]

    assert sorted(i.get("policy", "tick") for i in inputs) == sorted(["tick", *(p.id for p in load_policies(policies))])


def test_sqs_feeds_the_worker(stage: Stage) -> None:
    (mapping,) = stage.client("lambda").list_event_source_mappings(FunctionName=stage.outputs["WorkerFunctionName"])[
        "EventSourceMappings"
    ]

    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["State"] == "Enabled"


def test_the_dead_letters_are_reached_by_redrive(stage: Stage) -> None:
    asked = {"QueueUrl": stage.outputs["JobsQueueUrl"], "AttributeNames": ["All"]}
    jobs = stage.client("sqs").get_queue_attributes(**asked)["Attributes"]
    dead = json.loads(jobs["RedrivePolicy"])["deadLetterTargetArn"]

    assert dead.split(":")[-1] == stage.outputs["DeadLetterQueueUrl"].split("/")[-1]
    assert jobs["VisibilityTimeout"] == str(6 * WORKER_TIMEOUT)


def test_the_policies_buckets_are_there(stage: Stage, policies: Path) -> None:
    s3 = stage.client("s3")

    named = {policy.s3.bucket for policy in load_policies(policies) if policy.of_bucket}
    assert named <= {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    assert "Status" not in s3.get_bucket_versioning(Bucket="e2e-logs")
    for versioned in ("e2e-uploads", "e2e-records"):
        assert s3.get_bucket_versioning(Bucket=versioned)["Status"] == "Enabled"


def test_the_policies_tables_are_there(stage: Stage, policies: Path) -> None:
    dynamodb = stage.client("dynamodb")

    for policy in load_policies(policies):
        if isinstance(policy.source, RecordSource):
            table = dynamodb.describe_table(TableName=policy.source.table)["Table"]
            indexes = [index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])]
            assert policy.source.index is None or policy.source.index in indexes


def test_a_tick_answers(stage: Stage) -> None:
    reply = stage.client("lambda").invoke(
        FunctionName=stage.outputs["ReconcilerFunctionName"], Payload=json.dumps({"tick": "2026-01-01T00:00:00Z"})
    )

    assert "FunctionError" not in reply, reply["Payload"].read()


def test_discovery_refuses_a_policy_that_is_not_deployed(stage: Stage) -> None:
    """A person is answered; an event whose answer nobody reads fails, so that it ends in the failure queue."""
    event = {"policy": "nobody-has-this", "scheduled_time": "2026-01-01T00:00:00Z"}
    discovery, lambda_ = stage.outputs["DiscoveryFunctionName"], stage.client("lambda")
    of_a_person = lambda_.invoke(FunctionName=discovery, Payload=json.dumps({**event, "plan": False}))
    of_a_schedule = lambda_.invoke(FunctionName=discovery, Payload=json.dumps(event))

    assert json.load(of_a_person["Payload"])["error"]["code"] == "unknown_policy"
    assert of_a_schedule["FunctionError"]
    assert "nobody-has-this" in json.load(of_a_schedule["Payload"])["errorMessage"]

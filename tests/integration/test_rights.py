"""The deployed functions do their work with the rights of their own roles, and no more is needed.

The emulator enforces the roles (`AUTH=true`). Where it is wrong, two things are loosened: it wants a right on batches
of messages that AWS does not have, and it judges a queue's policy without knowing who calls.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.local import emulator as emulators
from infra.local import stage as stages
from infra.local.stage import Stage
from tests.integration.certificate import self_signed

POLICY = """
id: logs-expire
description: Deletes what is older than a moment.
owner: tests
schedule: cron(0 3 1 1 ? 2199)
mode: enforce
approval: none
recovery: none
source: {kind: s3, bucket: rights-logs, prefixes: [app/]}
retain: PT1S
short_retention: true
"""
PATIENCE = 120.0  # seconds; three cold starts on a busy machine

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage whose emulator enforces roles, over TLS, since the evidence bucket refuses everything else."""
    folder = tmp_path_factory.mktemp("rights")
    (folder / "policies").mkdir()
    (folder / "policies" / "logs-expire.yaml").write_text(POLICY)
    with emulators.running(folder, {"AUTH": "true"}, tls=self_signed(folder)) as emulator:
        stages.bootstrap(emulator)
        deployed = stages.deploy(emulator, policies=folder / "policies", worker_timeout=60)
        loosen(deployed)
        yield deployed


def loosen(stage: Stage) -> None:
    """Make up for the two false denials."""
    stage.client("sqs").set_queue_attributes(QueueUrl=stage.outputs["JobsQueueUrl"], Attributes={"Policy": ""})
    statement = {"Effect": "Allow", "Action": "sqs:SendMessageBatch", "Resource": "*"}
    stage.client("iam").put_role_policy(
        RoleName=role_of(stage, "DiscoveryFunctionName").split("/")[-1],
        PolicyName="emulator",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )


def role_of(stage: Stage, output: str) -> str:
    """The ARN of a function's role."""
    found: str = stage.client("lambda").get_function(FunctionName=stage.outputs[output])["Configuration"]["Role"]
    return found


def invoke(stage: Stage, output: str, event: dict[str, str]) -> Any:
    """Invoke a function and wait; what it raised fails the test."""
    reply = stage.client("lambda").invoke(FunctionName=stage.outputs[output], Payload=json.dumps(event))
    answer = json.loads(reply["Payload"].read())
    assert "FunctionError" not in reply, answer
    return answer


def test_a_run_goes_from_plan_to_balanced_books(stage: Stage) -> None:
    s3 = stage.client("s3")
    for number in range(20):
        s3.put_object(Bucket="rights-logs", Key=f"app/{number}", Body=b"x")
    time.sleep(2)
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    started = invoke(stage, "DiscoveryFunctionName", {"policy": "logs-expire", "scheduled_time": now})
    report = wait_for_report(stage, started["run_id"])

    assert (report["deleted"], report["dead"], report["balanced"]) == (20, {}, True)
    assert s3.list_objects_v2(Bucket="rights-logs")["KeyCount"] == 0


def wait_for_report(stage: Stage, run_id: str) -> Any:
    """Tick until the run is closed."""
    s3, bucket = stage.client("s3"), stage.outputs["EvidenceBucketName"]
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        invoke(stage, "ReconcilerFunctionName", {"tick": "2026-01-01T00:00:00Z"})
        report = f"runs/{run_id}/report-1.json"
        if s3.list_objects_v2(Bucket=bucket, Prefix=report).get("Contents"):
            return json.loads(s3.get_object(Bucket=bucket, Key=report)["Body"].read())
        time.sleep(1)
    pytest.fail(f"the run did not close; see {stage.emulator.log}")


def test_the_roles_are_enforced(stage: Stage) -> None:
    denied = stage.client("iam").simulate_principal_policy(
        PolicySourceArn=role_of(stage, "DiscoveryFunctionName"),
        ActionNames=["s3:DeleteObject"],
        ResourceArns=["arn:aws:s3:::rights-logs/app/1"],
    )
    allowed = stage.client("iam").simulate_principal_policy(
        PolicySourceArn=role_of(stage, "WorkerFunctionName"),
        ActionNames=["s3:DeleteObject"],
        ResourceArns=["arn:aws:s3:::rights-logs/app/1"],
    )

    assert [r["EvalDecision"] for r in denied["EvaluationResults"]] == ["implicitDeny"]
    assert [r["EvalDecision"] for r in allowed["EvaluationResults"]] == ["allowed"]

"""The deployed functions do their work with the rights of their own roles, and no more is needed.

The emulator enforces the roles (`AUTH=true`). Where it is wrong, four things are loosened: it wants a right on batches
of messages that AWS does not have, it judges a queue's policy without knowing who calls, it takes every schedule to be
in the group `default`, and it asks for the first key of a DeleteObjects whether an object may be deleted, even if it
names a version. One thing is tightened: it says of a locked version that it is locked, where S3 can say no more than
that access is denied.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.local import emulator as emulators
from infra.local import stage as stages
from infra.local.demo import application as applications
from infra.local.demo.application import Application, Mood
from infra.local.stage import Stage
from tests.integration.certificate import self_signed

ABOUT = """
id: {id}
description: Removes what is older than a moment.
owner: tests
schedule: cron(0 3 1 1 ? 2199)
mode: enforce
approval: none
recovery: {recovery}
retain: PT1S
short_retention: true
action: {action}
limits: {{max_items: 1000}}
source: {{{where}, {source}}}
"""
CALL = """{{kind: http, method: POST, hosts: ["{host}"], url: "https://{host}/bookings/{{id}}/cancel", rate: 20,
  headers: {{Authorization: {secret}}}, success: [200, 204], idempotent: true}}"""
TIMESTAMP = "timestamp: {attribute: deadline, format: epoch_s}"
# A policy of each kind, since each kind has actions of its own.
POLICIES = {
    "logs": ("expire", "kind: s3"),
    "tagged": ("expire", "kind: s3, include: {tags: {class: scratch}}"),
    "versions": ("purge", "kind: s3, versions: noncurrent, purge_markers: true, exclude: {tags: {keep: 'yes'}}"),
    "locked": ("purge", "kind: s3, versions: noncurrent"),
    "uploads": ("abort", "kind: s3_uploads"),
    "undone": ("expire", "kind: s3"),
    "queried": ("delete", f"kind: dynamodb, index: by-state, partitions: [open], {TIMESTAMP}"),
    "marked": ("{kind: mark, attribute: lapsed, value: true}", f"kind: dynamodb, scan: {{}}, {TIMESTAMP}"),
    "archived": ("archive", f"kind: dynamodb, scan: {{}}, {TIMESTAMP}, version_attribute: version"),
    "called": (CALL, f"kind: dynamodb, scan: {{}}, {TIMESTAMP}"),
    "scanned": ("delete", f"kind: dynamodb, scan: {{segments: 2}}, {TIMESTAMP}, version_attribute: version"),
}
RECOVERY = {"undone": "versioning", "archived": "archive"}
DUE = ("a", "b", "c")  # records
PERSON = "arn:aws:sts::123456789012:assumed-role/Approver/ann"
PATIENCE = 240.0  # seconds; cold starts and a dozen runs on a busy machine

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """What is called for records."""
    with applications.running(tmp_path_factory.mktemp("application"), dict.fromkeys(DUE, Mood.WELL)) as running:
        yield running


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, application: Application) -> Iterator[Stage]:
    """A stage whose emulator enforces roles, over TLS, since the evidence bucket refuses everything else."""
    folder = tmp_path_factory.mktemp("rights")
    (folder / "policies").mkdir()
    for name, (action, source) in POLICIES.items():
        recovery = RECOVERY.get(name, "none")
        if action == CALL:
            action = CALL.format(host=application.host, secret=applications.SECRET)
        where = f"table: rights-{name}" if "dynamodb" in source else f"bucket: rights-{name}, prefixes: [app/]"
        text = ABOUT.format(id=name, action=action, where=where, source=source, recovery=recovery)
        (folder / "policies" / f"{name}.yaml").write_text(text)
    with emulators.running(folder, {"AUTH": "true"}, tls=self_signed(folder)) as emulator:
        stages.bootstrap(emulator)
        context = {"worker_timeout": 60, "local_ca": application.authority}
        deployed = stages.deploy(emulator, policies=folder / "policies", **context)
        deployed.client("secretsmanager").create_secret(Name=applications.SECRET, SecretString=applications.TOKEN)
        loosen(deployed)
        yield deployed


def loosen(stage: Stage) -> None:
    """Make up for the false denials."""
    stage.client("sqs").set_queue_attributes(QueueUrl=stage.outputs["JobsQueueUrl"], Attributes={"Policy": ""})
    state(stage, "DiscoveryFunctionName", "Allow", "sqs:SendMessageBatch", "*")
    state(stage, "WorkerFunctionName", "Allow", "s3:DeleteObject", "arn:aws:s3:::rights-versions/*")
    for action in ("GetSchedule", "UpdateSchedule"):
        state(stage, "OperateFunctionName", "Allow", f"scheduler:{action}", "arn:aws:scheduler:*:*:schedule/default/*")


def state(stage: Stage, output: str, effect: str, action: str, resource: str) -> None:
    """Give a function's role one more statement."""
    statement = {"Effect": effect, "Action": action, "Resource": resource}
    stage.client("iam").put_role_policy(
        RoleName=role_of(stage, output).split("/")[-1],
        PolicyName=f"emulator-{effect}-{action.replace(':', '-')}",
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


@pytest.fixture(scope="module")
def reports(stage: Stage) -> dict[str, Any]:
    """The report of a run of each policy, at its end."""
    s3 = stage.client("s3")
    for number in range(20):
        s3.put_object(Bucket="rights-logs", Key=f"app/{number}", Body=b"x")
    for key, tags in (("app/1", "class=scratch"), ("app/2", "class=scratch"), ("app/3", "class=gold")):
        s3.put_object(Bucket="rights-tagged", Key=key, Body=b"x", Tagging=tags)
    for tags in ("keep=no", "keep=yes", "keep=no", "keep=no"):
        s3.put_object(Bucket="rights-versions", Key="app/1", Body=b"x", Tagging=tags)
    s3.delete_object(Bucket="rights-versions", Key="app/marker")
    lock_a_version(stage)
    for number in range(3):
        s3.put_object(Bucket="rights-undone", Key=f"app/{number}", Body=f"{number}".encode())
    for key in ("app/1", "app/1", "app/2"):
        s3.create_multipart_upload(Bucket="rights-uploads", Key=key)
    put_records(stage, *(f"rights-{name}" for name, (_, source) in POLICIES.items() if "dynamodb" in source))
    time.sleep(3)  # dates are cut to seconds, and what goes is older than one
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    events = ({"policy": policy, "scheduled_time": now} for policy in POLICIES)
    runs = [invoke(stage, "DiscoveryFunctionName", event)["run_id"] for event in events]
    return dict(zip(POLICIES, wait_for_reports(stage, runs), strict=True))


def put_records(stage: Stage, *tables: str) -> None:
    """Three records that are due, and one that is not."""
    dynamodb, now = stage.client("dynamodb"), int(time.time())
    for table in tables:
        for name, deadline in {**dict.fromkeys(DUE, now - 60), "later": now + 3600}.items():
            record = {"id": {"S": name}, "state": {"S": "open"}, "deadline": {"N": f"{deadline}"}}
            dynamodb.put_item(TableName=table, Item={**record, "version": {"N": "1"}})


def lock_a_version(stage: Stage) -> None:
    """Put a version under legal hold, and have its removal denied in words that do not say so."""
    s3, bucket = stage.client("s3"), "rights-locked"
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    held, _ = (s3.put_object(Bucket=bucket, Key="app/1", Body=b"x")["VersionId"] for _ in range(2))
    s3.put_object_legal_hold(Bucket=bucket, Key="app/1", VersionId=held, LegalHold={"Status": "ON"})
    state(stage, "WorkerFunctionName", "Deny", "s3:DeleteObjectVersion", f"arn:aws:s3:::{bucket}/*")


def test_a_run_goes_from_plan_to_balanced_books(stage: Stage, reports: dict[str, Any]) -> None:
    assert ending(reports["logs"]) == {"deleted": 20}
    assert stage.client("s3").list_objects_v2(Bucket="rights-logs")["KeyCount"] == 0


def test_tags_of_objects_may_be_read(reports: dict[str, Any]) -> None:
    assert reports["tagged"]["scanned"] == {"expired": 2, "not_selected": 1}
    assert ending(reports["tagged"]) == {"deleted": 2}


def test_versions_and_markers_may_be_listed_and_removed_and_their_tags_read(
    stage: Stage, reports: dict[str, Any]
) -> None:
    assert reports["versions"]["scanned"] == {"expired": 3, "excluded": 1, "current_version": 1}
    assert ending(reports["versions"]) == {"deleted": 3}
    left = stage.client("s3").list_object_versions(Bucket="rights-versions")
    assert (len(left["Versions"]), "DeleteMarkers" in left) == (2, False)


def test_the_lock_of_a_version_may_be_read(reports: dict[str, Any]) -> None:
    """Else the version would be dead for want of a right, as S3's words have it."""
    assert ending(reports["locked"]) == {"skipped:locked": 1}


def test_uploads_may_be_listed_and_aborted(stage: Stage, reports: dict[str, Any]) -> None:
    assert ending(reports["uploads"]) == {"deleted": 3}
    assert "Uploads" not in stage.client("s3").list_multipart_uploads(Bucket="rights-uploads")


@pytest.mark.parametrize("policy", ["queried", "scanned"])
def test_records_may_be_found_read_and_removed_with_their_job(
    stage: Stage, reports: dict[str, Any], policy: str
) -> None:
    assert ending(reports[policy]) == {"deleted": 3}
    assert list(records(stage, policy)) == ["later"]


def records(stage: Stage, policy: str) -> dict[str, Any]:
    """The records of a policy's table, by their ids."""
    found = stage.client("dynamodb").scan(TableName=f"rights-{policy}")["Items"]
    return {record["id"]["S"]: record for record in sorted(found, key=lambda record: str(record["id"]["S"]))}


def test_records_may_be_marked(stage: Stage, reports: dict[str, Any]) -> None:
    assert ending(reports["marked"]) == {"deleted": 3}
    assert [name for name, record in records(stage, "marked").items() if "lapsed" in record] == [*DUE]


def test_records_may_be_archived_and_put_back(stage: Stage, reports: dict[str, Any]) -> None:
    run = reports["archived"]["run_id"]
    assert (ending(reports["archived"]), list(records(stage, "archived"))) == ({"deleted": 3}, ["later"])

    started = ask(stage, "Approve", {"change": "run_undo", "run_id": run, "reason": "it was wrong"})["result"]
    (report,) = wait_for_reports(stage, [started["run_id"]])

    assert (ending(report), report["undoes"]) == ({"deleted": 3}, run)
    back = records(stage, "archived")
    assert list(back) == [*DUE, "later"]
    assert all(record["version"] == {"N": "1"} for record in back.values())


def test_a_secret_may_be_read_and_an_application_be_called(
    stage: Stage, reports: dict[str, Any], application: Application
) -> None:
    assert ending(reports["called"]) == {"deleted": 3}
    assert {name: heard.answers for name, heard in application.heard.items()} == {name: ["204"] for name in DUE}
    assert list(records(stage, "called")) == [*DUE, "later"]


def test_an_undo_is_started_planned_and_carried_out(stage: Stage, reports: dict[str, Any]) -> None:
    s3, run = stage.client("s3"), reports["undone"]["run_id"]
    assert (ending(reports["undone"]), s3.list_objects_v2(Bucket="rights-undone")["KeyCount"]) == ({"deleted": 3}, 0)

    started = ask(stage, "Approve", {"change": "run_undo", "run_id": run, "reason": "it was wrong"})["result"]
    (report,) = wait_for_reports(stage, [started["run_id"]])

    assert (ending(report), report["undoes"], report["started_by"]) == ({"deleted": 3}, run, PERSON)
    contents = [s3.get_object(Bucket="rights-undone", Key=f"app/{number}")["Body"].read() for number in range(3)]
    assert contents == [b"0", b"1", b"2"]
    assert started["held"] == ["s3://rights-undone/app/"]


def ask(stage: Stage, door: str, request: dict[str, str]) -> Any:
    """Ask for a change as the Function URL would have IAM name the caller."""
    functions = stage.client("lambda").get_paginator("list_functions").paginate()
    names = (each["FunctionName"] for page in functions for each in page["Functions"])
    (name,) = (name for name in names if f"{door}Control" in name)
    event = {"requestContext": {"authorizer": {"iam": {"userArn": PERSON}}}, "body": json.dumps(request)}
    reply = stage.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
    answer = json.loads(reply["Payload"].read())
    assert answer.get("statusCode") == 200, answer
    return json.loads(answer["body"])


def ending(report: dict[str, Any]) -> dict[str, int]:
    """How many ended in which way, in a run whose books balance."""
    assert report["balanced"]
    ends = {"deleted": report["deleted"], "unproven": report["deleted_unproven"], "cancelled": report["cancelled"]}
    for way in ("skipped", "dead"):
        ends |= {f"{way}:{reason}": count for reason, count in report[way].items()}
    return {end: count for end, count in ends.items() if count}


def wait_for_reports(stage: Stage, runs: Sequence[str]) -> list[Any]:
    """Tick until the runs are closed."""
    s3, bucket = stage.client("s3"), stage.outputs["EvidenceBucketName"]
    keys = [f"runs/{run_id}/report-1.json" for run_id in runs]
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        invoke(stage, "ReconcilerFunctionName", {"tick": "2026-01-01T00:00:00Z"})
        if all(s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents") for key in keys):
            return [json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in keys]
        time.sleep(1)
    pytest.fail(f"the runs did not close; see {stage.emulator.log}")


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


def sexton(stage: Stage, *command: str) -> Any:
    """What a command answers, or the code of its error."""
    done = subprocess.run(
        [str(stages.BIN / "sexton"), *command, "--json"],
        env={**emulators.surroundings(), **stage.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout)
    return answer if done.returncode == 0 else answer.get("error", answer)


def test_control_may_do_what_people_ask_for(stage: Stage, reports: dict[str, Any]) -> None:
    """Each door under its own role; a right that is missing would be answered as a call that failed."""
    why, done = ("--reason", "rights"), reports["logs"]["run_id"]
    assert sexton(stage, "pause", "logs", *why)["trouble"] is None
    assert sexton(stage, "resume", "logs", *why)["trouble"] is None
    assert sexton(stage, "pause", *why)["trouble"] is None
    assert sexton(stage, "resume", *why)["trouble"] is None
    assert sexton(stage, "hold", "add", "s3://rights-logs/app/", *why)["changed"]
    assert sexton(stage, "hold", "release", "s3://rights-logs/app/", *why)["changed"]
    started = sexton(stage, "run", "start", "logs", *why)["run_id"]
    ended = sexton(stage, "run", "invalidate", started, *why)
    assert ended.get("state") == "invalidated" or ended["code"] == "completed"
    assert sexton(stage, "run", "approve", done, "--digest", "0" * 64, *why)["code"] == "not_waiting"
    refused = sexton(stage, "dlq", "replay", f"{done}.00000000", *why)["refused"]
    assert [each["code"] for each in refused] == ["not_dead"]

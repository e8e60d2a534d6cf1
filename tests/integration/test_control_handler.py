"""The control functions on moto, called as a Function URL calls them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sexton.aws.edge import wired
from sexton.aws.settings import UntrustedCaller

from tests.fakes.calls import Calls
from tests.fakes.world import policy, records_policy
from tests.integration import on_moto
from tests.integration.on_moto import Functions

POLICY = policy(approval="always", source={"kind": "s3", "bucket": "items", "prefixes": ["app/"]})
ADA = "arn:aws:sts::123456789012:assumed-role/Operators/ada"
SIGNED = {"authorizer": {"iam": {"userArn": ADA}}}
NAMED = {"x-sexton-actor": "arn:of:bob"}


@pytest.fixture(scope="module")
def process() -> Iterator[Calls]:
    with on_moto.process() as calls:
        yield calls


@pytest.fixture
def functions(process: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    with on_moto.functions(process, monkeypatch) as functions:
        wired.cache_clear()
        functions.deploy(POLICY)
        yield functions
    wired.cache_clear()


def asked(functions: Functions, monkeypatch: pytest.MonkeyPatch, change: str, **fields: Any) -> tuple[int, Any]:
    """A signed request, at the door that it goes through."""
    approver = change in ("run_approve", "run_undo", "hold_release")
    monkeypatch.setenv("SEXTON_DOOR", "approver" if approver else "operator")
    wired.cache_clear()
    body = json.dumps({"change": change, "reason": "because", **fields})
    return sent(functions, {"requestContext": SIGNED, "body": body})


def sent(functions: Functions, event: dict[str, Any]) -> tuple[int, Any]:
    answer = functions.invoke("control", event, timedelta(seconds=60))
    return answer["statusCode"], json.loads(answer["body"])


def test_a_plan_is_approved_through_the_real_adapters(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.put(["app/1", "app/2"])
    run = functions.run(functions.trigger())
    status, answer = asked(functions, monkeypatch, "run_approve", run_id=run.run_id, digest=run.digest)
    assert (status, answer["result"]["planned"]) == (200, 2)
    assert [(each.change, each.actor) for each in functions.ledger.run(run.id).changes] == [("approved", ADA)]  # type: ignore[union-attr]
    (logged,) = functions.logged("changed")
    assert (logged["change"], logged["actor"], logged["verified"]) == ("run_approve", ADA, True)
    assert logged["function_request_id"]


def test_holds_and_halts_reach_the_ledger(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(functions, monkeypatch, "hold_add", scope="s3://items/app/")[0] == 200
    assert functions.ledger.controls().hold_on("s3://items/app/1") is not None
    assert asked(functions, monkeypatch, "hold_release", scope="s3://items/app/")[0] == 200
    assert functions.ledger.controls().hold_on("s3://items/app/1") is None
    status, answer = asked(functions, monkeypatch, "run_halt", run_id="logs-expire.20260301T120000Z.1")
    assert (status, answer["error"]["code"]) == (404, "unknown_run")


def test_strays_are_swept(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.sqs.send_message(QueueUrl=functions.dead, MessageBody="none of ours")
    status, answer = asked(functions, monkeypatch, "dlq_sweep")
    assert (status, answer["result"]["removed"], answer["result"]["left"]) == (200, 0, 1)


def test_what_fails_before_anything_was_sent_that_changes_has_changed_nothing(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is gone. A run is looked at before it is halted."""
    monkeypatch.setenv("SEXTON_LEDGER_TABLE", "nowhere")
    status, answer = asked(functions, monkeypatch, "run_halt", run_id="logs-expire.20260301T120000Z.1")
    assert (status, answer["error"]["code"]) == (424, "call_failed")


def test_what_fails_once_something_was_sent_that_changes_is_unsure(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery is gone: who calls it may have begun a run."""
    monkeypatch.setenv("SEXTON_DISCOVERY_FUNCTION", "nowhere")
    assert asked(functions, monkeypatch, "run_start", policy="logs-expire")[0] == 502


def test_a_body_in_base64_is_read(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_DOOR", "operator")
    body = base64.b64encode(b'{"change": "pause", "scope": "nowhere", "reason": "r"}').decode()
    status, answer = sent(functions, {"requestContext": SIGNED, "body": body, "isBase64Encoded": True})
    assert (status, answer["error"]["code"]) == (404, "unknown_policy")


def test_a_caller_who_is_only_named_is_refused(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_DOOR", "operator")
    status, answer = sent(functions, {"headers": NAMED, "body": "{}"})
    assert (status, answer["error"]["code"]) == (403, "no_identity")


def test_on_aws_a_function_that_is_told_to_trust_its_caller_does_not_start(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_DOOR", "operator")
    monkeypatch.setenv("SEXTON_TRUST_CALLER", "true")
    with pytest.raises(UntrustedCaller):
        sent(functions, {"requestContext": SIGNED, "body": "{}"})


def test_archived_records_are_put_back_through_the_real_adapters(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline = int((datetime.now(UTC) - timedelta(days=60)).timestamp())
    functions.create_reminders({f"{number:03d}": deadline for number in range(100)})
    records = functions.dynamodb.scan(TableName="reminders")["Items"]
    way = {"index": None, "partitions": None, "scan": {"segments": 2}, "version_attribute": "version"}
    functions.deploy(records_policy(id="archive", action="archive", recovery="archive", **way))
    run = functions.run(functions.trigger("archive"))
    assert (functions.work(), functions.reminders()) == ([], [])
    functions.tick()

    status, answer = asked(functions, monkeypatch, "run_undo", run_id=run.run_id)
    assert (status, answer["result"]["held"]) == (200, ["dynamodb://reminders/"])
    functions.tick()
    functions.invoke("discovery", {"resume": answer["result"]["run_id"]})
    functions.dynamodb.put_item(TableName="reminders", Item={**records[0], "note": {"S": "in use"}})
    assert functions.work() == []
    functions.tick()

    undo = functions.run(answer["result"])
    assert (undo.state, undo.balanced, undo.planned) == ("completed", True, 100)
    report = functions.report(undo)
    assert (report["deleted"], report["skipped"]) == (99, {"key_in_use": 1})
    back = functions.dynamodb.scan(TableName="reminders")["Items"]
    assert sum(record in back for record in records) == 99

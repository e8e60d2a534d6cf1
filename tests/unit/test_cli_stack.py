"""Finding a stack and calling its functions, on recorded answers: moto has no CloudFormation without more packages."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.response import StreamingBody
from botocore.stub import Stubber
from sexton.aws.functions import LambdaDiscovery
from sexton.aws.stack import BadConfiguration, StackNotFound, connect, roles
from sexton.deployment import FunctionFailed
from sexton.errors import CallFailed

OUTPUTS = {
    "LedgerTableName": "ledger",
    "EvidenceBucketName": "evidence",
    "DiscoveryFunctionName": "discovery",
    "WorkerFunctionName": "worker-1",
    "ReconcilerFunctionName": "reconciler",
}


class StubbedSession:
    """A session whose clients answer what was recorded."""

    region_name = "eu-central-1"

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.stubs: dict[str, Stubber] = {}
        self.retries: list[tuple[str, Any]] = []
        for service in ("cloudformation", "lambda", "sts", "dynamodb", "s3", "sqs"):
            client: Any = boto3.client(
                service, region_name=self.region_name, aws_access_key_id="x", aws_secret_access_key="y"
            )
            self.clients[service], self.stubs[service] = client, Stubber(client)
            self.stubs[service].activate()

    def client(self, service: str, config: Any) -> Any:
        self.retries.append((service, config.retries["total_max_attempts"]))
        return self.clients[service]

    def add_stack(self, outputs: dict[str, str]) -> None:
        stack = {
            "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/Sexton/1",
            "StackName": "Sexton",
            "StackStatus": "CREATE_COMPLETE",
            "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
            "Outputs": [{"OutputKey": name, "OutputValue": value} for name, value in outputs.items()],
        }
        self.stubs["cloudformation"].add_response("describe_stacks", {"Stacks": [stack]}, {"StackName": "Sexton"})

    def add_answer(self, payload: bytes, **more: str) -> None:
        body = StreamingBody(io.BytesIO(payload), len(payload))
        self.stubs["lambda"].add_response("invoke", {"StatusCode": 200, "Payload": body, **more})


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubbedSession]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    made = StubbedSession()
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


def connected(session: StubbedSession) -> Any:
    session.add_stack(OUTPUTS)
    return connect("Sexton", session)  # type: ignore[arg-type]


def test_a_stack_is_found_by_its_outputs(session: StubbedSession) -> None:
    deployment = connected(session)
    session.stubs["s3"].add_client_error("get_object", "NoSuchKey", http_status_code=404)
    assert deployment.evidence.get("runs/x/plan.json") is None


def test_a_look_at_an_object_has_its_expected_owner(session: StubbedSession) -> None:
    deployment = connected(session)
    session.stubs["s3"].add_client_error(
        "head_object",
        "404",
        http_status_code=404,
        expected_params={"Bucket": "logs", "Key": "a//b", "ExpectedBucketOwner": "123456789012"},
    )
    assert deployment.bucket("logs").head("a//b") is None


def test_a_look_at_an_object_of_another_account_has_that_owner(session: StubbedSession) -> None:
    deployment = connected(session)
    expected = {"Bucket": "logs", "Key": "a", "ExpectedBucketOwner": "210987654321"}
    session.stubs["s3"].add_client_error("head_object", "404", http_status_code=404, expected_params=expected)
    assert deployment.bucket("logs", "210987654321").head("a") is None


def test_the_roles_are_those_of_the_functions(session: StubbedSession) -> None:
    session.add_stack(OUTPUTS)
    for name in ("DiscoveryFunctionName", "WorkerFunctionName", "ReconcilerFunctionName"):
        session.stubs["lambda"].add_response(
            "get_function_configuration",
            {"Role": f"arn:aws:iam::123456789012:role/{OUTPUTS[name]}"},
            {"FunctionName": OUTPUTS[name]},
        )
    found = roles("Sexton", session)  # type: ignore[arg-type]
    assert found["worker"] == "arn:aws:iam::123456789012:role/worker-1"
    assert set(found) == {"discovery", "worker", "reconciler"}


def test_no_such_stack(session: StubbedSession) -> None:
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError", "does not exist")
    with pytest.raises(StackNotFound, match="no stack 'Sexton' in region eu-central-1"):
        connect("Sexton", session)  # type: ignore[arg-type]


def test_a_stack_of_somebody_else(session: StubbedSession) -> None:
    session.add_stack({"LedgerTableName": "x"})
    with pytest.raises(StackNotFound, match="EvidenceBucketName"):
        connect("Sexton", session)  # type: ignore[arg-type]


def test_a_missing_permission_is_a_failed_call(session: StubbedSession) -> None:
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied", "cloudformation:DescribeStacks")
    with pytest.raises(CallFailed, match="DescribeStacks"):
        connect("Sexton", session)  # type: ignore[arg-type]


def test_an_endpoint_that_is_no_address(session: StubbedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(service: str, config: Any) -> Any:
        raise ValueError("Invalid endpoint: nonsense")

    monkeypatch.setattr(session, "client", fail)
    with pytest.raises(BadConfiguration, match="nonsense"):
        connect("Sexton", session)  # type: ignore[arg-type]


def discovery(session: StubbedSession) -> LambdaDiscovery:
    client = session.clients["lambda"]
    return LambdaDiscovery(client, client, "discovery")


def test_discovery_answers(session: StubbedSession) -> None:
    session.add_answer(json.dumps({"run_id": "r", "created": True}).encode())
    assert discovery(session).discover({"policy": "p"}) == {"run_id": "r", "created": True}


def test_the_tick_s_client_never_repeats_a_call(session: StubbedSession) -> None:
    connected(session)
    assert ("lambda", 1) in session.retries


@pytest.mark.parametrize("payload", [b"", b"null", b"no json", b"[]"])
def test_an_answer_that_cannot_be_read_is_a_failure(session: StubbedSession, payload: bytes) -> None:
    session.add_answer(payload)
    with pytest.raises(FunctionFailed):
        discovery(session).discover({"policy": "p"})


def test_a_tick_that_breaks_off_says_why(session: StubbedSession) -> None:
    deployment = connected(session)
    error = {"errorType": "TickFailed", "errorMessage": "logs-expire: the part is gone"}
    session.add_answer(json.dumps(error).encode(), FunctionError="Unhandled")
    with pytest.raises(FunctionFailed, match="reconciler: TickFailed: logs-expire: the part is gone"):
        deployment.functions.tick({"tick": "2026-01-01T00:00:00Z"})


def test_an_endpoint_that_is_down_is_a_failed_call(session: StubbedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(**_: str) -> Any:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    monkeypatch.setattr(session.clients["cloudformation"], "describe_stacks", down)
    with pytest.raises(CallFailed, match="EndpointConnectionError"):
        connect("Sexton", session)  # type: ignore[arg-type]

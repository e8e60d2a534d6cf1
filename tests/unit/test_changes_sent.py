"""What is sent is counted where it may change something, under every role, and not where it only reads."""

from __future__ import annotations

import pytest
from boto3.session import Session
from botocore.exceptions import EndpointConnectionError
from sexton.aws.changes_sent import ChangesSent
from sexton.aws.clients import Clients


@pytest.fixture
def counted() -> ChangesSent:
    return ChangesSent()


@pytest.fixture
def clients(counted: ChangesSent, monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Of an endpoint where nobody listens."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    clients = Clients(Session("x", "y", region_name="eu-central-1"))
    clients.count_changes(counted)
    return clients


def test_what_only_reads_is_not_counted(clients: Clients, counted: ChangesSent) -> None:
    with pytest.raises(EndpointConnectionError):
        clients.sqs.list_message_move_tasks(SourceArn="arn")
    with pytest.raises(EndpointConnectionError):
        clients.sqs.receive_message(QueueUrl="http://127.0.0.1:9/q")
    assert counted() == 0


def test_what_may_change_something_is_counted(clients: Clients, counted: ChangesSent) -> None:
    with pytest.raises(EndpointConnectionError):
        clients.sqs.start_message_move_task(SourceArn="arn")
    assert counted() == 1


def test_an_assumed_role_is_counted_too(
    clients: Clients, counted: ChangesSent, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"AccessKeyId": "x", "SecretAccessKey": "y", "SessionToken": "z"}

    class Sts:
        def assume_role(self, **_: str) -> dict[str, dict[str, str]]:
            return {"Credentials": given}

    monkeypatch.setattr(clients, "_client", lambda *_, **__: Sts())
    with pytest.raises(EndpointConnectionError):
        clients.sqs_as("role").start_message_move_task(SourceArn="arn")
    assert counted() == 1

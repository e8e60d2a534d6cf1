"""What rehearsals need on AWS: decoys and queues on moto, the worker function by recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from sexton.aws import backstage
from sexton.aws.backstage import LambdaWorker, RedriveRoleQueue, S3Decoys
from sexton.errors import CallFailed

REGION = "eu-central-1"
WORKER, FAULTY = "handlers.worker.handler", "handlers.rehearsing_worker.handler"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.session.Session]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.session.Session("testing", "testing", region_name=REGION)


def test_a_decoy_is_read_as_it_was_put(aws: boto3.session.Session) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="decoys", CreateBucketConfiguration={"LocationConstraint": REGION})
    decoys = S3Decoys(s3, DEFAULT_ACCOUNT_ID)

    decoys.put("decoys", "a b/é", b"bytes\x00")

    assert decoys.read("decoys", "a b/é") == b"bytes\x00"
    assert decoys.read("decoys", "absent") is None
    with pytest.raises(CallFailed):
        decoys.read("absent", "a")


def test_the_queue_is_asked_under_a_role_that_is_assumed_once_and_late(aws: boto3.session.Session) -> None:
    sqs, assumed = aws.client("sqs"), list[Any]()
    jobs, letters = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("jobs", "letters"))
    sqs.send_message(QueueUrl=letters, MessageBody="dead")

    def assume() -> Any:
        assumed.append(sqs)
        return sqs

    queue = RedriveRoleQueue(assume, jobs, letters)
    assert not assumed
    queue.send("body", "policy")
    (message,) = sqs.receive_message(QueueUrl=jobs)["Messages"]
    assert message["Body"] == "body"
    assert queue.waiting() == 1  # a hidden one counts
    found = queue.letters().receive(timedelta(seconds=3))
    assert [each.body for each in found] == ["dead"]
    assert not queue.letters().remove(found)
    assert len(assumed) == 1


def asked(stubber: Stubber, status: str, handler: str) -> None:
    answer = {"Handler": handler, "LastUpdateStatus": status}
    stubber.add_response("get_function_configuration", answer, {"FunctionName": "worker"})


def changed(stubber: Stubber, handler: str) -> None:
    stubber.add_response("update_function_configuration", {}, {"FunctionName": "worker", "Handler": handler})


def test_only_the_handler_is_changed_and_waited_for(aws: boto3.session.Session) -> None:
    client, slept = aws.client("lambda"), list[float]()
    with Stubber(client) as stubber:
        asked(stubber, "Successful", WORKER)
        changed(stubber, FAULTY)
        asked(stubber, "InProgress", FAULTY)
        asked(stubber, "Successful", FAULTY)
        asked(stubber, "Successful", FAULTY)
        worker = LambdaWorker(client, "worker", slept.append)
        worker.use(FAULTY)
        assert worker.handler() == FAULTY
        stubber.assert_no_pending_responses()
    assert len(slept) == 2


def test_what_fails_for_a_moment_is_asked_again(aws: boto3.session.Session) -> None:
    client = aws.client("lambda")
    with Stubber(client) as stubber:
        asked(stubber, "Successful", WORKER)
        stubber.add_client_error("update_function_configuration", "ResourceConflictException", "in progress")
        asked(stubber, "Successful", WORKER)
        changed(stubber, FAULTY)
        asked(stubber, "Successful", FAULTY)
        LambdaWorker(client, "worker", lambda seconds: None).use(FAULTY)
        stubber.assert_no_pending_responses()


def test_a_missing_right_is_told_at_once(aws: boto3.session.Session) -> None:
    client = aws.client("lambda")
    with Stubber(client) as stubber:
        asked(stubber, "Successful", WORKER)
        stubber.add_client_error("update_function_configuration", "AccessDeniedException", "not authorized")
        with pytest.raises(CallFailed, match="not authorized"):
            LambdaWorker(client, "worker", lambda seconds: None).use(FAULTY)


def test_an_update_that_does_not_come_is_a_failure(aws: boto3.session.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backstage, "UPDATED_WITHIN", 2 * backstage.POLL)
    client = aws.client("lambda")
    with Stubber(client) as stubber:
        asked(stubber, "InProgress", WORKER)
        asked(stubber, "Failed", WORKER)
        with pytest.raises(CallFailed, match="did not take the handler"):
            LambdaWorker(client, "worker", lambda seconds: None).use(WORKER)

"""What rehearsals need besides, on AWS: decoys, the redrive role, and the worker function's configuration."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.aws.clients import Clients
from sexton.aws.dead_letters import SqsDeadLetters
from sexton.aws.errors import calls, code_of
from sexton.aws.queue import SqsQueue
from sexton.aws.stack import find, session_of_environment
from sexton.backstage import Backstage
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import Send

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

COUNTED = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")
POLL = 0.5  # seconds between two looks at a function that is being updated
UPDATED_WITHIN = 120.0


class S3Decoys:
    """Objects in buckets of one account."""

    def __init__(self, client: S3Client, owner: str) -> None:
        self._client = client
        self._owner: Any = {"ExpectedBucketOwner": owner}

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Put an object."""
        with calls():
            self._client.put_object(Bucket=bucket, Key=key, Body=content, **self._owner)

    def read(self, bucket: str, key: str) -> bytes | None:
        """What is there now; None where nothing is."""
        with calls():
            try:
                return self._client.get_object(Bucket=bucket, Key=key, **self._owner)["Body"].read()
            except ClientError as error:
                if code_of(error) in ("NoSuchKey", "404"):
                    return None
                raise


class RedriveRoleQueue:
    """The jobs queue and its dead letters under the redrive role, which is assumed when first needed."""

    def __init__(self, assume: Callable[[], SQSClient], jobs: str, letters: str) -> None:
        self._assume = assume
        self._jobs = jobs
        self._letters = letters

    @cached_property
    def _client(self) -> SQSClient:
        with calls():
            return self._assume()

    def send(self, body: str, group: str) -> None:
        """Send one message."""
        for failure in SqsQueue(self._client, self._jobs).send([Send("0", body, group)]).values():
            raise CallFailed(failure)

    def waiting(self) -> int:
        """How many messages are on the queue, hidden and delayed ones too."""
        names: Any = [*COUNTED]
        with calls():
            found = self._client.get_queue_attributes(QueueUrl=self._jobs, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))

    def letters(self) -> SqsDeadLetters:
        """The dead-letter queue."""
        return SqsDeadLetters(self._client, self._letters)


class LambdaWorker:
    """The worker function, by its name."""

    def __init__(self, client: LambdaClient, name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._name = name
        self._sleep = sleep

    def handler(self) -> str:
        """The name of its handler."""
        with calls():
            return str(self._client.get_function_configuration(FunctionName=self._name)["Handler"])

    def use(self, handler: str) -> None:
        """Change the handler and nothing else. Raises CallFailed, also when the update is not through in time."""
        for _ in range(int(UPDATED_WITHIN / POLL)):
            try:
                if self._in_place(handler):
                    return
            except CallFailed as failed:
                if not failed.failure.may_pass:
                    raise
            self._sleep(POLL)
        what = f"{self._name} did not take the handler {handler} within {UPDATED_WITHIN:.0f} s"
        raise CallFailed(Failure(ReasonClass.TRANSIENT, "UpdateInProgress", what))

    def _in_place(self, handler: str) -> bool:
        """Whether the function has the handler; it is asked to take it if not, which can be repeated."""
        with calls():
            found = self._client.get_function_configuration(FunctionName=self._name)
            if found["Handler"] != handler:
                self._client.update_function_configuration(FunctionName=self._name, Handler=handler)
                return False
        return found.get("LastUpdateStatus", "Successful") == "Successful"


def connect(stack: str) -> Backstage:
    """Of a stack by its name. Raises StackNotFound, BadConfiguration or CallFailed."""
    with calls():
        session = session_of_environment()
        stack_id, outputs = find(stack, session)
        clients = Clients(session)
        queue = RedriveRoleQueue(
            lambda: clients.sqs_as(outputs["RedriveRoleArn"]), outputs["JobsQueueUrl"], outputs["DeadLetterQueueUrl"]
        )
        return Backstage(
            decoys=S3Decoys(clients.s3, stack_id.split(":")[4]),
            queue=queue,
            worker=LambdaWorker(clients.functions, outputs["WorkerFunctionName"]),
        )

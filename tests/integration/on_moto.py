"""The functions as Lambda runs them, on moto: real handlers, real adapters, one process."""

from __future__ import annotations

import importlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Protocol

import pytest
from aws_lambda_powertools import Logger
from boto3.session import Session
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from sexton.aws.edge import wired
from sexton.item import rfc3339
from sexton.ledger import Ledger
from sexton.policy import Policy
from sexton.ports import Evidence
from sexton.run import Run, RunId

from tests.fakes.calls import Calls, counting
from tests.integration import reminders

REGION = "eu-central-1"
HANDLERS = ("discovery", "worker", "reconciler", "control", "widget")
LATER = timedelta(days=60)  # the functions' clock is so far ahead: what moto holds has had its time


@dataclass
class Context:
    """What Lambda hands to a handler."""

    function_name: str
    left: timedelta = timedelta(minutes=15)
    memory_limit_in_mb: int = 1024
    aws_request_id: str = "11111111-2222-3333-4444-555555555555"
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def invoked_function_arn(self) -> str:
        return f"arn:aws:lambda:{REGION}:{DEFAULT_ACCOUNT_ID}:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        return (self.started + self.left - datetime.now(UTC)) // timedelta(milliseconds=1)


class Module(Protocol):
    """A handler's module."""

    handler: Callable[[dict[str, Any], Context], Any]
    logger: Logger


@dataclass
class Functions:
    """Invokes the handlers, and does what the event source mapping and the outside world do.

    `calls` are those that the functions themselves make.
    """

    monkeypatch: pytest.MonkeyPatch
    calls: Calls

    def __post_init__(self) -> None:
        self.s3, self.sqs = _client("s3"), _client("sqs")
        self.modules: dict[str, Module] = {name: importlib.import_module(f"handlers.{name}") for name in HANDLERS}
        for name in ("items", "evidence"):
            self.s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        self._create_table()
        self._create_queues()
        self._create_discovery_function()
        self._set_environment()
        self._log = io.StringIO()
        for module in self.modules.values():
            self.monkeypatch.setattr(module, "clock", lambda: datetime.now(UTC) + LATER)
            self.monkeypatch.setattr(module.logger.registered_handler, "stream", self._log)

    # the functions

    def deploy(self, *policies: Policy) -> None:
        """Let the handlers find these policies in their asset."""
        for module in self.modules.values():
            if hasattr(module, "deployed"):
                self.monkeypatch.setattr(module, "deployed", lambda _: {policy.id: policy for policy in policies})

    def invoke(self, name: str, event: dict[str, Any], left: timedelta = timedelta(minutes=15)) -> Any:
        """One invocation with so much time; the answer as it leaves the function."""
        return json.loads(json.dumps(self.modules[name].handler(event, Context(name, left))))

    def trigger(self, policy: str = "logs-expire", **more: object) -> dict[str, Any]:
        """The schedule's event, for a moment ago."""
        at = datetime.now(UTC) + LATER - timedelta(seconds=2)
        answer: dict[str, Any] = self.invoke("discovery", {"policy": policy, "scheduled_time": rfc3339(at), **more})
        return answer

    def work(self) -> list[str]:
        """One batch of up to ten: received, handed to the worker, acked but for its failures, which are returned."""
        records = self.receive()
        answer = self.invoke("worker", {"Records": records}) if records else {"batchItemFailures": []}
        assert list(answer) == ["batchItemFailures"]
        kept = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
        for record in records:
            if record["messageId"] not in kept:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=record["receiptHandle"])
        return kept

    def tick(self) -> None:
        """One tick."""
        self.invoke("reconciler", {"tick": rfc3339(datetime.now(UTC))})

    def receive(self) -> list[dict[str, Any]]:
        """Up to ten messages as Lambda hands them on."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )
        return [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "awsRegion": REGION,
            }
            for message in answer.get("Messages", [])
        ]

    def create_reminders(self, deadlines: dict[str, int]) -> None:
        """A table with reminders by their ids, all of them open."""
        self.dynamodb = _client("dynamodb")
        reminders.create(self.dynamodb)
        reminders.put(self.dynamodb, deadlines)

    def reminders(self) -> list[str]:
        """The ids of the reminders that there are."""
        return reminders.ids(self.dynamodb)

    # what is there

    def logged(self, event: str | None = None) -> list[dict[str, Any]]:
        """The functions' log lines, of one event or all."""
        lines = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return [line for line in lines if event in (None, line["message"])]

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the table, in DynamoDB's own form."""
        items: list[dict[str, Any]] = _client("dynamodb").scan(TableName="ledger")["Items"]
        return items

    def put(self, keys: Iterable[str]) -> None:
        """Objects, put past the SDK: ten thousand requests take half a minute."""
        backend: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for key in keys:
            backend.put_object("items", key, b"x")

    def keys(self) -> list[str]:
        """The first thousand keys that are there."""
        return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket="items").get("Contents", [])]

    @property
    def ledger(self) -> Ledger:
        """The ledger, by the adapter."""
        return Ledger(wired()[1].table())

    @property
    def evidence(self) -> Evidence:
        """The evidence, by the adapter."""
        return wired()[1].evidence()

    def run(self, answer: dict[str, Any]) -> Run:
        """The run that an answer speaks of."""
        run = self.ledger.run(RunId.parse(answer["run_id"]))
        assert run is not None
        return run

    def report(self, run: Run) -> dict[str, Any]:
        """The run's latest report."""
        text = self.evidence.get(f"runs/{run.run_id}/report-{run.report_revision}.json")
        assert text is not None
        report: dict[str, Any] = json.loads(text)
        return report

    # the resources

    def _create_table(self) -> None:
        indexes: Any = [
            {"IndexName": "open", "KeySchema": _keys("open_pk", "open_sk"), "Projection": {"ProjectionType": "ALL"}}
        ]
        _client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "open_pk", "open_sk")
            ],
            KeySchema=_keys("pk", "sk"),
            GlobalSecondaryIndexes=indexes,
        )

    def _create_queues(self) -> None:
        self.dead = self.sqs.create_queue(QueueName="dead")["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 15})
        self.queue = self.sqs.create_queue(
            QueueName="jobs", Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "720"}
        )["QueueUrl"]

    def _create_discovery_function(self) -> None:
        """Something that can be invoked; what it would do, the test does."""
        role = _client("iam").create_role(RoleName="discovery", AssumeRolePolicyDocument="{}")["Role"]
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("index.py", "def handler(event, context): ...")
        _client("lambda").create_function(
            FunctionName="discovery",
            Runtime="python3.13",
            Role=role["Arn"],
            Handler="index.handler",
            Code={"ZipFile": code.getvalue()},
        )

    def _set_environment(self) -> None:
        environment = {
            "SEXTON_LEDGER_TABLE": "ledger",
            "SEXTON_EVIDENCE_BUCKET": "evidence",
            "SEXTON_JOBS_QUEUE_URL": self.queue,
            "SEXTON_DEAD_LETTER_QUEUE_URL": self.dead,
            "SEXTON_DISCOVERY_FUNCTION": "discovery",
            "SEXTON_ACCOUNT": DEFAULT_ACCOUNT_ID,
            "SEXTON_WORKER_TIMEOUT_SECONDS": "120",
            "SEXTON_MAX_RECEIVE_COUNT": "15",
            "POWERTOOLS_SERVICE_NAME": "sexton-test",
            "POWERTOOLS_METRICS_NAMESPACE": "Sexton",
        }
        for name, value in environment.items():
            self.monkeypatch.setenv(name, value)


def _keys(partition: str, sort: str) -> Sequence[Any]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


@cache
def _client(service: str) -> Any:
    """A client of the world outside the functions: made once, because making one takes long."""
    with mock_aws():
        return Session(region_name=REGION).client(service)


@contextmanager
def process() -> Iterator[Calls]:
    """For a fixture of a module: the process that the functions live in. It starts cold, and then is warm."""
    for service in ("s3", "sqs", "dynamodb", "iam", "lambda"):
        _client(service)
    wired.cache_clear()
    with counting() as calls:
        yield calls
    wired.cache_clear()


@contextmanager
def functions(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    """For a fixture of a test: the functions in that process, over an AWS that is new."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws(config={"lambda": {"use_docker": False}}):
        calls.clear()
        yield Functions(monkeypatch, calls)

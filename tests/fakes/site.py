"""A deployed stack as the doctor reaches it: every part as it should be, until a test says otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.session import get_session
from botocore.validate import validate_parameters
from sexton.aws.probe import Site

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.world import World

REGION, ACCOUNT = "eu-central-1", "123456789012"
JOBS, DEAD = "https://sqs/123456789012/Sexton-jobs", "https://sqs/123456789012/dead"
OUTPUTS = {
    "LedgerTableName": "ledger",
    "EvidenceBucketName": "evidence",
    "JobsQueueUrl": JOBS,
    "DeadLetterQueueUrl": DEAD,
    "DiscoveryFunctionName": "discovery",
    "WorkerFunctionName": "worker",
    "ReconcilerFunctionName": "reconciler",
    "OperateFunctionName": "operate",
    "ApproveFunctionName": "approve",
}
ENVIRONMENT = {
    "SEXTON_LEDGER_TABLE": "ledger",
    "SEXTON_EVIDENCE_BUCKET": "evidence",
    "SEXTON_JOBS_QUEUE_URL": JOBS,
    "SEXTON_DEAD_LETTER_QUEUE_URL": DEAD,
    "SEXTON_ACCOUNT": ACCOUNT,
    "SEXTON_WORKER_TIMEOUT_SECONDS": "120",
    "SEXTON_MAX_RECEIVE_COUNT": "15",
}
TIMEOUTS = {"discovery": 900, "worker": 120, "reconciler": 300, "operate": 60, "approve": 60}
OF_CONTROL = {
    "SEXTON_DISCOVERY_FUNCTION": "discovery",
    "SEXTON_SCHEDULE_GROUP": "g",
    "SEXTON_JOBS_MAPPING": "u",
    "SEXTON_REDRIVE_ROLE": f"arn:aws:iam::{ACCOUNT}:role/redrive",
    "SEXTON_TRUST_CALLER": "false",
}
DOORS = {"operate": "operator", "approve": "approver"}

REMINDERS = {  # a table of a policy
    "TableStatus": "ACTIVE",
    "AttributeDefinitions": [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "status", "AttributeType": "S"},
        {"AttributeName": "deadline", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-status",
            "IndexStatus": "ACTIVE",
            "KeySchema": [
                {"AttributeName": "status", "KeyType": "HASH"},
                {"AttributeName": "deadline", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}

Answer = Callable[..., Mapping[str, Any]]
Call = tuple[str, str]  # service and method


def error(code: str, message: str = "") -> ClientError:
    """What a client raises."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


def arn(service: str, name: str) -> str:
    """Of a part in the stack's region."""
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"


@dataclass
class FakeAws:
    """Answers by service and method; `refuse` puts an error in an answer's place, `change` other fields into it."""

    clock: Callable[[], datetime]
    answers: dict[Call, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    store: FakeStore = field(default_factory=lambda: FakeStore())

    def refuse(self, service: str, method: str, code: str, message: str = "") -> None:
        """Let a call fail."""

        def fail(**_: Any) -> Mapping[str, Any]:
            raise error(code, message)

        self.answers[service, method] = fail

    def say(self, service: str, method: str, answer: Mapping[str, Any]) -> None:
        """Let a call be answered so."""
        self.answers[service, method] = lambda **_: answer

    def change(self, service: str, method: str, **fields: Any) -> None:
        """Let a call be answered as before, but for some fields."""
        before = self.answers[service, method]
        self.answers[service, method] = lambda **given: {**before(**given), **fields}

    def client(self, service: str, config: object = None) -> FakeClient:
        """As a session makes one."""
        return FakeClient(self, service)


@cache
def operations(service: str) -> Mapping[str, Any]:
    """The shapes of what each method takes, by AWS's own model."""
    model = get_session().get_service_model(service)
    return {xform_name(name): model.operation_model(name).input_shape for name in model.operation_names}


def validate(service: str, method: str, given: Mapping[str, Any]) -> None:
    """Raise ParamValidationError or KeyError where a real client would not take the call."""
    shape = operations(service)[method]
    if given or shape is not None:
        validate_parameters(given, shape)


@dataclass
class FakeClient:
    """A client of one service; a call that nobody gave an answer to is a mistake of the test."""

    aws: FakeAws
    service: str

    def __getattr__(self, method: str) -> Answer:
        def call(**given: Any) -> Mapping[str, Any]:
            validate(self.service, method, given)
            self.aws.asked.append((self.service, method, given))
            return self.aws.answers[self.service, method](**given)

        return call

    def get_paginator(self, method: str) -> FakePages:
        return FakePages(getattr(self, method))


@dataclass
class FakeStore:
    """The versioned evidence bucket. `ignores` names the conditions that it does not look at."""

    ignores: set[str] = field(default_factory=set)
    objects: dict[str, str] = field(default_factory=dict)  # current ETags
    kept: list[dict[str, str]] = field(default_factory=list)  # versions and markers

    def put(self, Key: str, IfNoneMatch: str = "", **_: Any) -> Mapping[str, Any]:
        if Key in self.objects and IfNoneMatch and "IfNoneMatch" not in self.ignores:
            raise error("PreconditionFailed")
        self.objects[Key] = f'"{len(self.kept):032x}{1}"'
        self._keep(Key)
        return {"ETag": self.objects[Key]}

    def head(self, Key: str, **_: Any) -> Mapping[str, Any]:
        if Key not in self.objects:
            raise error("404")
        return {}

    def delete(self, Key: str, IfMatch: str, **_: Any) -> Mapping[str, Any]:
        if not self._removed(Key, IfMatch, "IfMatch"):
            raise error("PreconditionFailed")
        return {}

    def delete_many(self, Delete: Mapping[str, Any], **_: Any) -> Mapping[str, Any]:
        if "VersionId" in Delete["Objects"][0]:
            self.kept = [each for each in self.kept if each not in Delete["Objects"]]
            return {}
        (asked,) = Delete["Objects"]
        if self._removed(asked["Key"], asked["ETag"], "ETag"):
            return {"Deleted": [{"Key": asked["Key"]}]}
        return {"Errors": [{"Key": asked["Key"], "Code": "PreconditionFailed"}]}

    def versions(self) -> Mapping[str, Any]:
        return {"Versions": list(self.kept)}

    def _removed(self, key: str, etag: str, condition: str) -> bool:
        if self.objects[key] != etag and condition not in self.ignores:
            return False
        del self.objects[key]
        self._keep(key)
        return True

    def _keep(self, key: str) -> None:
        self.kept.append({"Key": key, "VersionId": str(len(self.kept))})


@dataclass
class FakePages:
    """All in one page."""

    call: Answer

    def paginate(self, **given: Any) -> Iterator[Mapping[str, Any]]:
        yield self.call(**given)


def healthy(world: World) -> tuple[Site, FakeAws]:
    """A site over a world, and the AWS to make worse."""
    aws = FakeAws(world.clock)
    session: Any = aws
    stack_id = arn("cloudformation", "stack/Sexton/1")
    for parts in (_functions, _schedules, _queues, _ledger, _evidence, _bucket, _iam):
        parts(aws)
    site = Site(
        "Sexton", stack_id, OUTPUTS, session, deployment(world, FakeFunctions(world)), elsewhere=lambda *_: session
    )
    return site, aws


def _functions(aws: FakeAws) -> None:
    def configuration(FunctionName: str) -> Mapping[str, Any]:
        return {
            "FunctionArn": arn("lambda", f"function:{FunctionName}"),
            "Role": f"arn:aws:iam::{ACCOUNT}:role/{FunctionName}",
            "Timeout": TIMEOUTS[FunctionName],
            "State": "Active",
            "LastUpdateStatus": "Successful",
            "Runtime": "python3.13",
            "Handler": f"handlers.{'control' if FunctionName in DOORS else FunctionName}.handler",
            "Environment": {"Variables": _told(FunctionName)},
            "LoggingConfig": {"LogGroup": f"/logs/{FunctionName}"},
        }

    aws.answers["lambda", "get_function_configuration"] = configuration
    aws.say("sts", "assume_role", {"Credentials": {}})
    aws.answers["sts", "get_caller_identity"] = lambda: {
        "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(aws.clock())}}
    }
    aws.say("logs", "filter_log_events", {"events": [{"message": "{}"}]})
    mapping = {
        "EventSourceArn": arn("sqs", "Sexton-jobs"),
        "UUID": "u",
        "State": "Enabled",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": 10},
    }
    aws.say("lambda", "list_event_source_mappings", {"EventSourceMappings": [mapping]})


def _told(function: str) -> Mapping[str, str]:
    if function not in DOORS:
        return ENVIRONMENT
    return {**ENVIRONMENT, **OF_CONTROL, "SEXTON_DOOR": DOORS[function]}


def _schedules(aws: FakeAws) -> None:
    targets = {"tick": "reconciler", "logs": "discovery"}

    def get(Name: str, GroupName: str) -> Mapping[str, Any]:
        given = {"tick": "<time>"} if Name == "tick" else {"policy": "logs-expire", "scheduled_time": "<time>"}
        return {
            "Name": Name,
            "State": "ENABLED",
            "ScheduleExpression": "rate(1 day)",
            "ScheduleExpressionTimezone": "UTC",
            "Target": {"Input": json.dumps(given)},
        }

    listed = [
        {"Name": name, "GroupName": "g", "Target": {"Arn": arn("lambda", f"function:{function}")}}
        for name, function in targets.items()
    ]
    aws.answers["scheduler", "get_schedule"] = get
    aws.say("scheduler", "list_schedules", {"Schedules": listed})


def _queues(aws: FakeAws) -> None:
    jobs, dead = arn("sqs", "Sexton-jobs"), arn("sqs", "dead")
    attributes = {
        JOBS: {
            "QueueArn": jobs,
            "VisibilityTimeout": "720",
            "MessageRetentionPeriod": "345600",
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 15}),
        },
        DEAD: {
            "QueueArn": dead,
            "MessageRetentionPeriod": "1209600",
            "RedriveAllowPolicy": json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [jobs]}),
        },
    }
    aws.answers["sqs", "get_queue_attributes"] = lambda QueueUrl, AttributeNames: {"Attributes": attributes[QueueUrl]}


def _ledger(aws: FakeAws) -> None:
    index = {
        "IndexName": "open",
        "IndexStatus": "ACTIVE",
        "KeySchema": _keys("open_pk", "open_sk"),
        "Projection": {"ProjectionType": "ALL"},
    }
    table = {
        "TableStatus": "ACTIVE",
        "AttributeDefinitions": [],
        "KeySchema": _keys("pk", "sk"),
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "DeletionProtectionEnabled": True,
        "GlobalSecondaryIndexes": [index],
    }
    recovery = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}
    expiry = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    aws.answers["dynamodb", "describe_table"] = lambda TableName="ledger": {
        "Table": REMINDERS if TableName == "reminders" else table
    }
    aws.say("dynamodb", "describe_continuous_backups", {"ContinuousBackupsDescription": recovery})
    aws.say("dynamodb", "describe_time_to_live", {"TimeToLiveDescription": expiry})


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _evidence(aws: FakeAws) -> None:
    aws.answers["s3", "put_object"] = aws.store.put
    aws.answers["s3", "head_object"] = aws.store.head
    aws.answers["s3", "delete_object"] = aws.store.delete
    aws.answers["s3", "delete_objects"] = aws.store.delete_many


def _bucket(aws: FakeAws) -> None:
    """A bucket of a policy."""
    default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    aws.say("s3", "head_bucket", {"BucketRegion": REGION, "ResponseMetadata": {}})
    aws.say("s3", "get_bucket_versioning", {"Status": "Enabled"})
    aws.refuse("s3", "get_object_lock_configuration", "ObjectLockConfigurationNotFoundError")
    aws.say("s3", "get_bucket_encryption", {"ServerSideEncryptionConfiguration": {"Rules": [default]}})
    aws.say("s3", "get_bucket_request_payment", {"Payer": "BucketOwner"})
    aws.refuse("s3", "get_bucket_policy", "NoSuchBucketPolicy")
    aws.refuse("s3", "get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
    aws.say("s3", "list_objects_v2", {"Contents": [{"Key": "app/x"}]})
    aws.answers["s3", "list_object_versions"] = lambda Bucket, **_: (
        aws.store.versions() if Bucket == "evidence" else {"DeleteMarkers": [{"Key": "app/x"}]}
    )
    aws.say("s3", "list_multipart_uploads", {"Uploads": [{"Key": "app/x"}]})


def _iam(aws: FakeAws) -> None:
    """Every right is granted but those that would be too many."""
    forbidden = {"s3:DeleteObjectVersion", "s3:AbortMultipartUpload", "dynamodb:DeleteItem"}
    of_the_operator = {"sts:AssumeRole", "lambda:UpdateEventSourceMapping", "scheduler:UpdateSchedule"}

    def simulate(
        PolicySourceArn: str, ActionNames: list[str], ResourceArns: list[str], ContextEntries: Sequence[Any] = ()
    ) -> Mapping[str, Any]:
        function, (resource,) = PolicySourceArn.rpartition("/")[2], ResourceArns
        values = [value for entry in ContextEntries for value in entry["ContextKeyValues"]]

        def decision(action: str) -> str:
            if action.startswith("secretsmanager:") or (function != "worker" and "/archived/" in resource):
                return "implicitDeny"
            if ":table/reminders" in resource and action.endswith(("UpdateItem", "PutItem", "DeleteItem")):
                return "allowed" if (function, action) == ("worker", "dynamodb:DeleteItem") else "implicitDeny"
            if function != "worker" and any(value.startswith("sexton-worker.") for value in values):
                return "implicitDeny"
            if function in DOORS and action == "s3:PutObject":
                return "implicitDeny"
            if function == "approve" and (action in of_the_operator or "RUN#x" in values):
                return "implicitDeny"
            own = action != "s3:DeleteObject" or (function == "worker" and ":::evidence" not in resource)
            sends = action != "sqs:SendMessage" or function == "discovery"
            return "allowed" if own and sends and action not in forbidden else "implicitDeny"

        return {"EvaluationResults": [{"EvalActionName": a, "EvalDecision": decision(a)} for a in ActionNames]}

    aws.answers["iam", "simulate_principal_policy"] = simulate
    aws.say("iam", "simulate_custom_policy", {"EvaluationResults": [{"EvalDecision": "allowed"}]})

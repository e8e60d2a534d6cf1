"""A deployed stack, found by its name, and its ports under the rights of whoever asks."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sexton.aws.bucket import S3Bucket
from sexton.aws.clients import CONNECT, READ, Clients
from sexton.aws.control import SignedControl
from sexton.aws.dead_letters import SqsDeadLetters
from sexton.aws.errors import calls, code_of
from sexton.aws.evidence import S3Evidence
from sexton.aws.functions import called
from sexton.aws.records import DynamoRecords
from sexton.aws.settings import actor
from sexton.aws.table import DynamoTable
from sexton.aws.tables_elsewhere import TablesElsewhere
from sexton.change_request import Door
from sexton.deployment import Deployment
from sexton.elsewhere import BY_HAND, Elsewhere, session_name
from sexton.errors import Refused
from sexton.grants import FUNCTIONS
from sexton.ledger import Ledger
from sexton.ports import RecordTable, RecordTables

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sts import STSClient

NEEDED = (
    "LedgerTableName",
    "EvidenceBucketName",
    "DiscoveryFunctionName",
    "WorkerFunctionName",
    "ReconcilerFunctionName",
)
ANSWER = 310  # seconds to wait for a function: a tick may take five minutes
DOORS = {Door.OPERATOR: "OperateUrl", Door.APPROVER: "ApproveUrl"}  # outputs
UNKNOWN_CALLER = "cli"


class StackNotFound(Refused):
    """The account and region have no such stack, or it is not one of Sexton's."""

    code = "stack_not_found"


class BadConfiguration(Refused):
    """The AWS configuration cannot be used."""

    code = "bad_configuration"


class LambdaFunctions:
    """The functions of a stack; a call that waits is never repeated by the SDK."""

    def __init__(self, client: LambdaClient, reconciler: str) -> None:
        self._client = client
        self._reconciler = reconciler

    def tick(self, event: Mapping[str, object]) -> None:
        """Call the reconciler and wait until it is through."""
        called(self._client, self._reconciler, event)


def connect(stack: str, session: Session | None = None) -> Deployment:
    """The deployment of a stack's name, by the ordinary AWS configuration.

    Raises StackNotFound, BadConfiguration or CallFailed.
    """
    with calls():
        session = session or session_of_environment()
        stack_id, outputs = find(stack, session)
        account = stack_id.split(":")[4]
        clients = Clients(session)
        buckets, functions = clients.s3, cast("LambdaClient", _client(session, "lambda", ANSWER, attempts=1))
        doors = {door: outputs.get(output, "") for door, output in DOORS.items()}
        return Deployment(
            ledger=Ledger(DynamoTable(clients.dynamodb, outputs["LedgerTableName"])),
            evidence=S3Evidence(buckets, outputs["EvidenceBucketName"], account),
            bucket=lambda name, owner=None: S3Bucket(buckets, buckets, name, owner or account),
            records=_records(clients, account),
            functions=LambdaFunctions(functions, outputs["ReconcilerFunctionName"]),
            dead_letters=SqsDeadLetters(clients.sqs, outputs.get("DeadLetterQueueUrl", "")),
            control=SignedControl(session, doors, functions.meta.endpoint_url, lambda: actor() or _caller(session)),
            clock=lambda: datetime.now(UTC),
            sleep=time.sleep,
            region=clients.region,
        )


def _records(clients: Clients, account: str) -> RecordTables:
    """Tables as whoever asks may see them: of those that lie elsewhere, under the policies' roles."""
    tables = TablesElsewhere(clients, account)

    def records(name: str, place: Elsewhere | None = None, run_id: str = "") -> RecordTable:
        if place is None:
            return DynamoRecords(clients.dynamodb, name)
        return tables.records(name, place, session_name(BY_HAND, run_id))

    return records


def find(stack: str, session: Session) -> tuple[str, dict[str, str]]:
    """The stack's id, which is an ARN, and its outputs. Raises StackNotFound, BadConfiguration."""
    cloudformation = cast("CloudFormationClient", _client(session, "cloudformation", READ, attempts=2))
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if code_of(error) == "ValidationError":  # of a name that is none, or of a stack that is not there
            raise StackNotFound(f"there is no stack {stack!r} in region {session.region_name}") from error
        raise
    outputs = {each["OutputKey"]: each["OutputValue"] for each in found[0].get("Outputs", [])}
    missing = [name for name in NEEDED if name not in outputs]
    if missing:
        state = found[0]["StackStatus"]
        raise StackNotFound(f"stack {stack!r} ({state}) is not Sexton's, or not yet: it has no {', '.join(missing)}")
    return found[0]["StackId"], outputs


def roles(stack: str, session: Session | None = None) -> Mapping[str, str]:
    """The ARNs of the functions' roles, by the functions' names. Raises as `connect`."""
    with calls():
        session = session or session_of_environment()
        _, outputs = find(stack, session)
        client = cast("LambdaClient", _client(session, "lambda", READ))
        named = {function: outputs[f"{function.capitalize()}FunctionName"] for function in FUNCTIONS}
        return {
            function: client.get_function_configuration(FunctionName=name)["Role"] for function, name in named.items()
        }


def session_of_environment() -> Session:
    """The ordinary AWS configuration; AWS_REGION counts too, which boto3 does not read and every other SDK does."""
    return Session(region_name=os.environ.get("AWS_REGION") or None)


def _caller(session: Session) -> str:
    """Who is asking, as AWS knows them; a run can be started without the right to ask that."""
    sts = cast("STSClient", _client(session, "sts", READ))
    try:
        return sts.get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError):
        return UNKNOWN_CALLER


def _client(session: Session, service: str, read: int, *, attempts: int = 3) -> object:
    config = Config(
        connect_timeout=CONNECT, read_timeout=read, retries={"mode": "standard", "total_max_attempts": attempts}
    )
    make: Any = session.client  # its stubs know each service by a literal name only
    try:
        return make(service, config=config)
    except ValueError as error:  # botocore has no class of its own for an endpoint that is no URL
        raise BadConfiguration(str(error)) from error

"""The AWS clients, each made when first asked for, with timeouts that are stated and not defaults.

Endpoint, region and credentials are botocore's affair (`AWS_ENDPOINT_URL` and the like).
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from boto3.session import Session
from botocore.config import Config

from sexton.aws.assumed import session_elsewhere
from sexton.aws.changes_sent import ChangesSent
from sexton.aws.secrets import SecretsManager
from sexton.elsewhere import Elsewhere

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_scheduler import EventBridgeSchedulerClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sts import STSClient

CONNECT = 3  # seconds
READ = 10  # between two bytes of an answer
READ_SECRET = 3  # a record has been looked at by then, and its call must follow within seconds
ATTEMPTS = 3
AT_ONCE = 16  # calls of one client that may be under way together, each with a connection of its own

# S3 answers for 1,000 keys within a second or two, and for a slow prefix much later; giving up early costs an
# unknown effect, waiting long costs the lease.
DELETE_TIMEOUT = timedelta(seconds=23)

# A message must be sent, or known not to be, well before the dispatch that it belongs to is due again.
SEND_CONNECT = 2
SEND_READ = 5

# Discovery that only creates a run answers within a second or two, and after a cold start within ten.
ANSWER = 40


class Clients:
    """One set of clients, made from one session. `delete_timeout` is the longest that one deletion may take."""

    def __init__(self, session: Session | None = None, delete_timeout: timedelta = DELETE_TIMEOUT) -> None:
        self._session = session or Session()
        self._changes_sent: ChangesSent | None = None
        self.delete_timeout = delete_timeout

    def count_changes(self, counted: ChangesSent) -> None:
        """Count what these clients send, under an assumed role too. To be asked for before any client is."""
        self._changes_sent = counted
        counted.watch(self._session)

    @property
    def region(self) -> str:
        """The session's region."""
        return str(self._session.region_name)

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The ledger's; every write that it repeats is recognised by its id."""
        return cast("DynamoDBClient", self._client("dynamodb", READ, attempts=ATTEMPTS))

    @cached_property
    def dynamodb_changes(self) -> DynamoDBClient:
        """For records of tables that lie elsewhere: as with `s3_deletes`, a lost reply is to be known as such."""
        return cast("DynamoDBClient", self._single("dynamodb"))

    @cached_property
    def s3(self) -> S3Client:
        """For reading, and for writing evidence."""
        return cast("S3Client", self._client("s3", READ, attempts=ATTEMPTS))

    @cached_property
    def s3_deletes(self) -> S3Client:
        """For removing: nothing is tried again, so that a lost reply is known as such."""
        return cast("S3Client", self._single("s3"))

    def _single(self, service: str) -> object:
        total = self.delete_timeout.total_seconds()
        connect = min(CONNECT, total / 3)
        return self._client(service, total - connect, attempts=1, connect=connect)

    @cached_property
    def sqs(self) -> SQSClient:
        """For the jobs queue: what was not sent is due again anyhow, so nothing is tried again here."""
        return cast("SQSClient", self._client("sqs", SEND_READ, attempts=1, connect=SEND_CONNECT))

    @cached_property
    def sts(self) -> STSClient:
        """For assuming roles."""
        return cast("STSClient", self._client("sts", READ, attempts=ATTEMPTS))

    def elsewhere(self, place: Elsewhere, session_name: str) -> Clients:
        """The same for another region, under the role there if there is one."""
        clients = Clients(session_elsewhere(place, session_name, self._session, lambda: self.sts), self.delete_timeout)
        if self._changes_sent:
            clients.count_changes(self._changes_sent)
        return clients

    def sqs_as(self, role: str) -> SQSClient:
        """SQS under an assumed role. It is made anew each time: the role's credentials end within the hour."""
        given = self.sts.assume_role(RoleArn=role, RoleSessionName="sexton-control")["Credentials"]
        session = Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], self.region)
        clients = Clients(session)
        if self._changes_sent:
            clients.count_changes(self._changes_sent)
        return clients.sqs

    @cached_property
    def functions(self) -> LambdaClient:
        """For asking discovery to go on."""
        return cast("LambdaClient", self._client("lambda", READ, attempts=ATTEMPTS))

    @cached_property
    def waiting(self) -> LambdaClient:
        """For calling discovery and waiting for its answer: never repeated, since a first call may have acted."""
        return cast("LambdaClient", self._client("lambda", ANSWER, attempts=1))

    @cached_property
    def scheduler(self) -> EventBridgeSchedulerClient:
        """For switching schedules off and on."""
        return cast("EventBridgeSchedulerClient", self._client("scheduler", READ, attempts=ATTEMPTS))

    @cached_property
    def secrets(self) -> SecretsManager:
        """For the values of headers."""
        return cast("SecretsManager", self._client("secretsmanager", READ_SECRET, attempts=ATTEMPTS))

    @cached_property
    def events(self) -> EventBridgeClient:
        """For the event bus."""
        return cast("EventBridgeClient", self._client("events", READ, attempts=ATTEMPTS))

    def _client(self, service: str, read: float, *, attempts: int, connect: float = CONNECT) -> object:
        config = Config(
            connect_timeout=connect,
            read_timeout=read,
            retries={"mode": "standard", "total_max_attempts": attempts},
            tcp_keepalive=True,
            max_pool_connections=AT_ONCE,
        )
        make: Any = self._session.client  # its stubs know each service by a literal name only
        return make(service, config=config)

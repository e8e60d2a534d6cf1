"""The real adapters over one set of clients."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from boto3.session import Session

from sexton import elsewhere, ports
from sexton.aws.bucket import S3Bucket
from sexton.aws.changes_sent import ChangesSent
from sexton.aws.clients import Clients
from sexton.aws.dead_letters import SqsDeadLetters
from sexton.aws.events import EventBridgeEvents
from sexton.aws.evidence import S3Evidence
from sexton.aws.functions import LambdaDiscovery
from sexton.aws.gauges import EmfGauges
from sexton.aws.https import HttpsEndpoints
from sexton.aws.queue import SqsDeliveries, SqsQueue
from sexton.aws.records import DynamoRecords
from sexton.aws.schedules import AwsSchedules
from sexton.aws.secrets import Secrets
from sexton.aws.settings import Settings
from sexton.aws.table import DynamoTable
from sexton.aws.tables_elsewhere import TablesElsewhere
from sexton.elsewhere import Elsewhere
from sexton.policy import Policy
from sexton.run import Run
from sexton.target import AnyTarget
from sexton.targets import target_of_run


class Wiring:
    """Every port of one function.

    The clients are kept, between invocations too; the adapters hold nothing of their own. `changes_sent` counts the
    requests of all of them that may change something. `function`: whose they are, for the sessions of assumed roles.
    """

    def __init__(self, settings: Settings, session: Session | None = None, function: str = "") -> None:
        self._settings = settings
        self._function = function
        self._clients = Clients(session, settings.delete_timeout)
        self._records: dict[str, DynamoRecords] = {}
        self._elsewhere = TablesElsewhere(self._clients, settings.account)
        self.changes_sent = ChangesSent()
        self._clients.count_changes(self.changes_sent)

    @property
    def region(self) -> str:
        """The region that the clients are for."""
        return self._clients.region

    def table(self) -> ports.Table:
        """The ledger's table."""
        return DynamoTable(self._clients.dynamodb, self._settings.ledger_table)

    def evidence(self) -> ports.Evidence:
        """The evidence bucket."""
        return S3Evidence(self._clients.s3, self._settings.evidence_bucket, self._settings.account)

    def queue(self) -> ports.Queue:
        """The jobs queue, to send."""
        return SqsQueue(self._clients.sqs, self._settings.jobs_queue_url)

    def deliveries(self) -> ports.Deliveries:
        """The jobs queue, as the worker sees it."""
        return SqsDeliveries(self._clients.sqs, self._settings.jobs_queue_url)

    def discovery(self) -> ports.Discovery:
        """The discovery function."""
        return LambdaDiscovery(self._clients.functions, self._clients.waiting, self._settings.discovery_function)

    def dead_letters(self) -> ports.DeadLetters:
        """The dead-letter queue."""
        url, role = self._settings.dead_letter_queue_url, self._settings.redrive_role
        return SqsDeadLetters(self._clients.sqs, url, lambda: self._clients.sqs_as(role))

    def schedules(self) -> ports.Schedules:
        """The policies' schedules, and what feeds the worker."""
        clients, settings = self._clients, self._settings
        return AwsSchedules(clients.scheduler, clients.functions, settings.schedule_group, settings.jobs_mapping)

    def events(self) -> ports.Events:
        """The event bus."""
        return EventBridgeEvents(self._clients.events, self._settings.event_bus)

    def gauges(self) -> ports.Gauges:
        """Numbers that alarms stand on."""
        return EmfGauges()

    def bucket(self, name: str, account: str | None = None) -> ports.Bucket:
        """A bucket with items, of this account where none is given."""
        clients, owner = self._clients, account or self._settings.account
        return S3Bucket(clients.s3, clients.s3_deletes, name, owner, clients.delete_timeout)

    def records(self, name: str, place: Elsewhere | None = None, run_id: str = "") -> ports.RecordTable:
        """A table with records; each is described once, and its pace is kept, as long as this lives."""
        if place is not None:
            return self._elsewhere.records(name, place, elsewhere.session_name(self._function, run_id))
        if name not in self._records:
            timeout = self._clients.delete_timeout
            self._records[name] = DynamoRecords(self._clients.dynamodb, name, timeout=timeout)
        return self._records[name]

    @cached_property
    def endpoints(self) -> ports.Endpoints:
        """Endpoints of applications; their pace and secrets are kept as long as this lives."""
        settings, stack = self._settings, f"{self._settings.account}/{self.region}/{self._settings.ledger_table}"
        local_ca = Path(settings.local_ca) if settings.local_ca else None
        secrets = Secrets(lambda: self._clients.secrets)
        return HttpsEndpoints(secrets, stack, settings.delete_timeout, local_ca)

    def stores(self) -> ports.Stores:
        """Where items lie."""
        return ports.Stores(self.bucket, self.records, self.evidence(), self.endpoints)

    def target(self, policy: Policy, run: Run) -> AnyTarget:
        """What a run of a policy removes."""
        return target_of_run(policy, run, self.stores())

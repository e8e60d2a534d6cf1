"""A whole Sexton in memory: the real flows over the fakes, one clock, every port call in one trace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sexton.closing import Closing
from sexton.discovering import Discovering
from sexton.dispatch import Dispatching
from sexton.elsewhere import Elsewhere
from sexton.item import rfc3339
from sexton.ledger import Ledger
from sexton.planning import Planning
from sexton.policy import Policy
from sexton.ports import Stores, TimeLeft
from sexton.previewing import Previewing
from sexton.reconcile import Reconciling
from sexton.run import Run, RunId
from sexton.starting import Starting
from sexton.stopping import Stopping
from sexton.target import AnyTarget
from sexton.targets import target_of_run
from sexton.undoing import Undoing
from sexton.working import Answer, Delivery, Working

from tests.fakes.bucket import FakeBucket
from tests.fakes.endpoints import FakeEndpoints
from tests.fakes.evidence import FakeEvidence
from tests.fakes.queue import FakeQueue, Message
from tests.fakes.recorder import Trace
from tests.fakes.records import FakeRecords
from tests.fakes.small import FakeEvents, FakeGauges
from tests.fakes.table import FakeTable
from tests.fakes.time import FakeClock, FakeTimeLeft, FakeTokens

WORKER_TIMEOUT = timedelta(seconds=120)
REGION = "eu-central-1"
LEASE = WORKER_TIMEOUT + timedelta(seconds=30)
VISIBILITY = WORKER_TIMEOUT * 6
RESERVED = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}  # field names that logging refuses
DISCOVERY_TIMEOUT = RECONCILER_TIMEOUT = timedelta(minutes=15)


def policy(**changes: object) -> Policy:
    """An enforcing policy that runs through: `app/` of bucket `logs`, 30 days, jobs of 1,000."""
    fields: dict[str, object] = {
        "id": "logs-expire",
        "mode": "enforce",
        "approval": "none",
        "source": {"kind": "s3", "bucket": "logs", "prefixes": ["app/"]},
        "retain": "P30D",
        "recovery": "none",
        **changes,
    }
    return Policy.model_validate(fields)


def purge_policy(**changes: object) -> Policy:
    """The same for noncurrent versions; fields of `source` can be given beside the others."""
    source: dict[str, object] = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "versions": "noncurrent"}
    for name in ("prefixes", "keep_latest", "purge_markers", "include", "exclude"):
        if name in changes:
            source[name] = changes.pop(name)
    return policy(**{"id": "versions-purge", "source": source, "action": "purge", **changes})


def uploads_policy(**changes: object) -> Policy:
    """The same for incomplete uploads, older than 7 days."""
    source = {"kind": "s3_uploads", "bucket": "logs", "prefixes": ["app/"]}
    return policy(**{"id": "uploads-abort", "source": source, "action": "abort", "retain": "P7D", **changes})


def records_policy(**changes: object) -> Policy:
    """The same for reminders that were due more than 30 days ago; fields of `source` can be given beside the others."""
    source: dict[str, object] = {
        "kind": "dynamodb",
        "table": "reminders",
        "index": "by-status",
        "partitions": ["open"],
        "timestamp": {"attribute": "deadline", "format": "epoch_s"},
    }
    placed = ("account", "region", "role_arn", "external_id")
    for name in (*placed, "index", "partitions", "scan", "timestamp", "filter", "version_attribute", "read_capacity"):
        if name in changes:
            source[name] = changes.pop(name)
    fields = {"id": "reminders-delete", "action": "delete", **changes}
    return policy(source={name: value for name, value in source.items() if value is not None}, **fields)


def calls_policy(**changes: object) -> Policy:
    """The same reminders, cancelled by a call of the carriers' application; fields of `action` can be given too."""
    action: dict[str, object] = {
        "kind": "http",
        "method": "POST",
        "hosts": ["carriers.example.com"],
        "url": "https://carriers.example.com/carriers/{carrier}/reminders/{id}",
        "headers": {"Authorization": "sexton/carriers"},
        "success": [200, 204],
        "idempotent": True,
    }
    for name in ("method", "url", "hosts", "headers", "success", "gone", "idempotent", "rate", "timeout"):
        if name in changes:
            action[name] = changes.pop(name)
    limits = {"max_items": 10_000}
    return records_policy(**{"id": "reminders-cancel", "action": action, "limits": limits, **changes})


@dataclass
class World:
    """The ports are the fakes; what the flows see of them goes through `trace`."""

    policies: dict[str, Policy] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    versioning: str = "Unversioned"

    def __post_init__(self) -> None:
        self.policies = self.policies or {"logs-expire": policy()}
        self.trace = Trace()
        self.tokens = FakeTokens()
        self.table = FakeTable()
        self.evidence = FakeEvidence()
        self.queue = FakeQueue(self.clock, visibility=VISIBILITY)
        self.buckets: dict[str, FakeBucket] = {}
        self.asked: set[tuple[str, str | None]] = set()  # for a bucket, of an account
        self.elsewhere: dict[str, FakeRecords] = {}  # tables that no transaction reaches
        self.assumed: set[tuple[Elsewhere, str]] = set()  # for which run
        self.endpoints = FakeEndpoints(self.clock)
        self.events = FakeEvents()
        self.gauges = FakeGauges()
        self.resumed: list[str] = []
        self.logged: list[tuple[str, dict[str, object]]] = []
        self.jitter: Callable[[float], float] = lambda ceiling: ceiling

    # what the outside does

    def bucket(self, name: str = "logs", account: str | None = None) -> FakeBucket:
        """The bucket as it is, its calls unrecorded."""
        self.asked.add((name, account))
        if name not in self.buckets:
            self.buckets[name] = FakeBucket(self.clock, self.versioning)
        return self.buckets[name]

    def records(self, name: str = "reminders", place: Elsewhere | None = None, run_id: str = "") -> FakeRecords:
        """The table with records as it is, its calls unrecorded."""
        if place is None:
            return self.table.tables.setdefault(name, FakeRecords())
        self.assumed.add((place, run_id))
        return self.elsewhere.setdefault(place.named(name), FakeRecords())

    @property
    def stores(self) -> Stores:
        """Where items lie, its calls unrecorded."""
        return Stores(self.bucket, self.records, self.evidence, self.endpoints)

    def fill(self, keys: Iterable[str], age: timedelta = timedelta(days=60), bucket: str = "logs") -> None:
        """Put objects that were last modified so long ago."""
        now = self.clock()
        self.clock.move_to(now - age)
        for key in keys:
            self.bucket(bucket).put(key, key.encode())
        self.clock.move_to(now)

    # the functions

    @property
    def ledger(self) -> Ledger:
        """The ledger as it is, unrecorded."""
        return Ledger(self.table)

    def discover(self, event: dict[str, object], time_left: TimeLeft | None = None) -> dict[str, object]:
        """One invocation of discovery."""
        left = time_left or FakeTimeLeft(self.clock, DISCOVERY_TIMEOUT)
        ledger, evidence = Ledger(self._wrapped_table()), self.trace.wrap("evidence", self.evidence)
        return Discovering(
            ledger=ledger,
            policies=self.policies,
            starting=Starting(ledger, evidence, self.policies, self.clock, self.tokens),
            planning=Planning(ledger, evidence, self._stores, self.clock, self.tokens, left),
            dispatching=Dispatching(
                ledger, self.trace.wrap("queue", self.queue), self.clock, self.tokens, left, VISIBILITY
            ),
            log=self._log,
        ).discover(event)

    def trigger(self, policy_id: str = "logs-expire", at: datetime | None = None, **more: object) -> dict[str, object]:
        """The schedule's event, by default for now."""
        return self.discover({"policy": policy_id, "scheduled_time": rfc3339(at or self.clock()), **more})

    def work(self, limit: int = 10, time_left: TimeLeft | None = None) -> dict[str, Answer]:
        """One batch: receive, work each, ack what the worker acknowledges. Answers by message id."""
        return {message.message_id: self.work_one(message, time_left) for message in self.queue.receive(limit)}

    def work_one(self, message: Message, time_left: TimeLeft | None = None) -> Answer:
        """One received message. What the handler would catch is raised here."""
        answer = self.working(time_left).work(
            Delivery(message.message_id, message.receipt, message.body, message.sent_at)
        )
        if answer is Answer.ACK:
            self.queue.ack(message.receipt)
        return answer

    def working(self, time_left: TimeLeft | None = None) -> Working:
        """The worker of one invocation."""
        return Working(
            ledger=Ledger(self._wrapped_table()),
            evidence=self.trace.wrap("evidence", self.evidence),
            target=self._target,
            deliveries=self.trace.wrap("deliveries", self.queue),
            policies=self.policies,
            clock=self.clock,
            token=self.tokens,
            jitter=self.jitter,
            time_left=time_left or FakeTimeLeft(self.clock, WORKER_TIMEOUT),
            log=self._log,
            lease=LEASE,
            visibility=VISIBILITY,
            reserve=timedelta(seconds=10),
        )

    def tick(self) -> None:
        """One tick, then the discoveries that it asked for."""
        ledger, evidence = Ledger(self._wrapped_table()), self.trace.wrap("evidence", self.evidence)
        events, left = self.trace.wrap("events", self.events), FakeTimeLeft(self.clock, RECONCILER_TIMEOUT)
        Reconciling(
            ledger=ledger,
            evidence=evidence,
            target=self._target,
            discovery=self.trace.wrap("discovery", self),
            gauges=self.trace.wrap("gauges", self.gauges),
            closing=Closing(ledger, evidence, events, self.clock, self.tokens, self._log, REGION, left),
            policies=self.policies,
            clock=self.clock,
            token=self.tokens,
            time_left=left,
            log=self._log,
            mismatch=timedelta(seconds=300),
        ).tick()
        asked, self.resumed = self.resumed, []
        for run_id in asked:
            self.discover({"resume": run_id})

    def stopping(self) -> Stopping:
        """What a person stops and lets go on; its port calls are unrecorded."""
        return Stopping(self.ledger, self.policies, self.clock, self.tokens, self._log)

    def undoing(self) -> Undoing:
        """Undos, as control starts them."""
        ledger, evidence = Ledger(self._wrapped_table()), self.trace.wrap("evidence", self.evidence)
        return Undoing(ledger, evidence, self.policies, self.clock, self.tokens, self._log)

    def previewing(self) -> Previewing:
        """What undos would do."""
        return Previewing(self.ledger, self.evidence, self._stores, self.clock)

    def resume(self, run_id: str) -> None:
        """The Discovery port: remembered until the tick is over."""
        self.resumed.append(run_id)

    def settle(self, minutes: int = 24 * 60) -> None:
        """Let time go by, a tick a minute, all messages worked on, until every run is closed or waits."""
        for _ in range(minutes):
            while self.work():
                pass
            self.tick()
            if not any(run.state not in ("reported", "awaiting_approval", "halted") for run in self.ledger.open_runs()):
                return
            self.clock.advance(60)
        raise AssertionError(f"still open: {[(run.run_id, run.state) for run in self.ledger.open_runs()]}")

    # what came of it

    def carried_out(
        self,
        policy_id: str = "logs-expire",
        at: datetime | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Run:
        """A run from its trigger to closed books; something may happen between planning and working."""
        answer = self.trigger(policy_id, at)
        meanwhile()
        self.settle()
        run = self.run(answer)
        assert (run.state, run.balanced) == ("completed", True), run.message or run.held_because
        return run

    def run(self, answer: dict[str, object]) -> Run:
        """The run that an answer speaks of, as of now."""
        run = self.ledger.run(RunId.parse(str(answer["run_id"])))
        assert run is not None
        return run

    def events_logged(self, name: str) -> list[dict[str, object]]:
        """The fields of every log event of this name."""
        return [fields for event, fields in self.logged if event == name]

    def _log(self, event: str, **fields: object) -> None:
        assert not fields.keys() & RESERVED, f"logging would refuse {fields.keys() & RESERVED} of {event}"
        self.logged.append((event, fields))

    def _wrapped_table(self) -> FakeTable:
        return self.trace.wrap("table", self.table)

    def _target(self, policy: Policy, run: Run) -> AnyTarget:
        return target_of_run(policy, run, self._stores)

    @property
    def _stores(self) -> Stores:
        evidence, endpoints = self.trace.wrap("evidence", self.evidence), self.trace.wrap("endpoints", self.endpoints)
        return Stores(self._wrapped_bucket, self._wrapped_records, evidence, endpoints)

    def _wrapped_records(self, name: str, place: Elsewhere | None = None, run_id: str = "") -> FakeRecords:
        return self.trace.wrap("records", self.records(name, place, run_id))

    def _wrapped_bucket(self, name: str, account: str | None = None) -> FakeBucket:
        return self.trace.wrap("bucket", self.bucket(name, account))

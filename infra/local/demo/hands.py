"""What the demo does to the deployed stack, through the same doors as AWS and its users."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sexton import attributes, showing
from sexton.aws.table import DynamoTable
from sexton.item import ItemId, rfc3339
from sexton.ledger import Ledger
from sexton.run import RunState
from sexton.showing import RunView

from infra.local.demo.application import SECRET, TOKEN
from infra.local.demo.filling import dated
from infra.local.demo.gate import Gate
from infra.local.demo.records import BOOKINGS, CANCELLED, TABLES
from infra.local.demo.seeds import Meddling, Seed
from infra.local.stage import Stage
from infra.local.tables import ID

SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"  # EventBridge Scheduler fills it in; the emulator does not
WITHIN = 90.0  # seconds for what takes about ten
PAUSE = 0.5  # between two looks
PUT_AT_ONCE = 25  # records, in one BatchWriteItem
KEEP = {"TagSet": [{"Key": "class", "Value": "scratch"}, {"Key": "keep", "Value": "yes"}]}
ENDED = (RunState.COMPLETED, RunState.INVALIDATED, RunState.REPORTED, RunState.AWAITING_APPROVAL)


class DemoError(Exception):
    """The stack did not do what it must."""


class Hands:
    """Fills tables, starts runs as the schedules do, meddles with objects and records, ticks and waits."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._functions = stage.client("lambda")
        self._sqs = stage.client("sqs")
        self._s3 = stage.client("s3")
        self._dynamodb = stage.client("dynamodb")
        self.ledger = Ledger(DynamoTable(self._dynamodb, stage.outputs["LedgerTableName"]))

    def put_records(self, seeds: Sequence[Seed]) -> None:
        """Put every record into its table. Raises DemoError where the emulator does not take them all."""
        for at in range(0, len(seeds), PUT_AT_ONCE):
            puts: dict[str, list[dict[str, Any]]] = {}
            for seed in seeds[at : at + PUT_AT_ONCE]:
                puts.setdefault(seed.store, []).append({"PutRequest": {"Item": seed.record}})
            left = self._dynamodb.batch_write_item(RequestItems=puts)["UnprocessedItems"]
            if left:
                raise DemoError(f"the emulator did not take {left}")

    def start_all(self, at: datetime) -> dict[str, str]:
        """Invoke discovery with each policy's own schedule input, the time filled in; run ids by policy."""
        inputs = (json.loads(text.replace(SCHEDULED_TIME, rfc3339(at))) for text in self._schedule_inputs())
        return {each["policy"]: self._start(each) for each in inputs if "policy" in each}

    def put_secret(self) -> None:
        """What the application knows its callers by."""
        self._stage.client("secretsmanager").create_secret(Name=SECRET, SecretString=TOKEN)

    def cancel(self, booking: str) -> None:
        """What the application does when it is called."""
        self._dynamodb.update_item(
            TableName=BOOKINGS,
            Key={ID: {"S": booking}},
            UpdateExpression="SET #name = :value",
            ExpressionAttributeNames={"#name": next(iter(CANCELLED))},
            ExpressionAttributeValues={":value": next(iter(CANCELLED.values()))},
        )

    def show(self, run_id: str) -> RunView:
        """The run as the ledger has it now."""
        return showing.show(self.ledger, run_id)

    @contextlib.contextmanager
    def worker_held_back(self) -> Iterator[None]:
        """No message reaches the worker while the block lasts."""
        self._map_worker(False)
        yield
        self._map_worker(True)

    def meddle(self, seeds: Iterable[Seed], gate: Gate) -> None:
        """Do to each object or record what is to happen to it between plan and removal."""
        does: Mapping[Meddling, Callable[[Seed], object]] = {
            Meddling.REWRITE: lambda seed: self._s3.put_object(**_named(seed), Body=b"new content\n"),
            Meddling.RETOUCH: lambda seed: self._s3.put_object(**_named(seed), Body=seed.body),
            Meddling.REMOVE: lambda seed: self._s3.delete_object(**_named(seed)),
            Meddling.SEAL: lambda seed: self._s3.put_bucket_policy(Bucket=seed.store, Policy=json.dumps(gate.policy)),
            Meddling.RETAG: lambda seed: self._s3.put_object_tagging(**_named(seed), Tagging=KEEP),
            Meddling.HOLD: lambda seed: self._s3.put_object_legal_hold(
                **_named(seed), VersionId=seed.version_id, LegalHold={"Status": "ON"}
            ),
            Meddling.COMPLETE: self._complete,
            Meddling.AMEND: lambda seed: self._dynamodb.put_item(TableName=seed.store, Item=seed.becomes),
            Meddling.DROP: lambda seed: self._dynamodb.delete_item(
                TableName=seed.store, Key=attributes.parse(seed.key)
            ),
        }
        for seed in seeds:
            if seed.meddling is not None:
                does[seed.meddling](seed)

    def _complete(self, seed: Seed) -> None:
        upload = {**_named(seed), "UploadId": seed.version_id}
        parts = [
            {name: part[name] for name in ("PartNumber", "ETag")} for part in self._s3.list_parts(**upload)["Parts"]
        ]
        self._s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})

    def watch(self, run_id: str, on_look: Callable[[RunView], None]) -> RunView:
        """Tick until the run has ended, faster than once a minute. Raises DemoError when it does not end."""
        for _ in _looks(f"{run_id} did not end"):
            view = self.show(run_id)
            on_look(view)
            if view.state in ENDED:
                return view
            self._tick()
        raise AssertionError("unreachable")

    def wait_for_dead_letters(self, count: int) -> int:
        """Wait until the jobs queue is empty and the dead-letter queue is not short of `count`; returns what it has."""
        for _ in _looks("the dead letter's message did not reach the dead-letter queue"):
            open_jobs, dead_letters = self._waiting("JobsQueueUrl"), self._waiting("DeadLetterQueueUrl")
            if not open_jobs and dead_letters >= count:
                return dead_letters
        raise AssertionError("unreachable")

    def contents(self, store: str) -> list[ItemId]:
        """Everything that lies in a bucket, or in a table: there keys with all attributes."""
        if store not in TABLES:
            return [item_id for item_id, _ in dated(self._s3, store)]
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=store)
        found = [record for page in pages for record in page["Items"]]
        return [(attributes.canonical({ID: record[ID]}), attributes.canonical(record)) for record in found]

    def _schedule_inputs(self) -> Iterator[str]:
        scheduler = self._stage.client("scheduler")
        for schedule in scheduler.list_schedules()["Schedules"]:
            found = scheduler.get_schedule(GroupName=schedule["GroupName"], Name=schedule["Name"])
            yield found["Target"]["Input"]

    def _start(self, event: dict[str, str]) -> str:
        answer = self._invoke("DiscoveryFunctionName", event)
        if "run_id" not in answer:
            raise DemoError(f"discovery refused {event}: {answer}")
        return str(answer["run_id"])

    def _tick(self) -> None:
        self._invoke("ReconcilerFunctionName", {"tick": "from the demo"})

    def _invoke(self, output: str, event: dict[str, str]) -> dict[str, Any]:
        answer = self._functions.invoke(FunctionName=self._stage.outputs[output], Payload=json.dumps(event))
        payload = answer["Payload"].read()
        if "FunctionError" in answer:
            raise DemoError(f"{self._stage.outputs[output]} broke off: {payload.decode()}")
        result: dict[str, Any] = json.loads(payload)
        return result

    def _map_worker(self, enabled: bool) -> None:
        name = self._stage.outputs["WorkerFunctionName"]
        (mapping,) = self._functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        self._functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)

    def _waiting(self, output: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        url = self._stage.outputs[output]
        return sum(map(int, self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))


def _named(seed: Seed) -> dict[str, str]:
    return {"Bucket": seed.store, "Key": seed.key}


def _looks(failure: str) -> Iterator[None]:
    """Look again and again until the time is over; then raise DemoError."""
    give_up = time.monotonic() + WITHIN
    while time.monotonic() < give_up:
        yield
        time.sleep(PAUSE)
    raise DemoError(f"{failure} within {WITHIN:.0f} s")

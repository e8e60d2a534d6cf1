"""A deployed stage as its users have it: the `sexton` command, buckets to fill and look at, queues, ticks."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from sexton import cli
from sexton.aws.stack import connect
from sexton.deployment import Deployment
from sexton.item import ItemId

from infra.local import emulator as emulators
from infra.local.stage import BIN, Stage

T = TypeVar("T")

NEVER = "cron(0 3 1 1 ? 2199)"  # runs are started by the tests
COMMAND_SECONDS = 120
TAKEN_SECONDS = 150  # two visibility timeouts and some: a message may have been in a batch whose worker was killed
REASON = "the end-to-end tests"
UPLOADS = 8  # at once


def write_policy(folder: Path, policy: str, bucket: str, **fields: object) -> None:
    """A policy that expires everything under `<policy>/` a second after it was written, but what is under `kept/`."""
    values = {
        "id": policy,
        "description": "Of the end-to-end tests.",
        "owner": "tests",
        "schedule": NEVER,
        "mode": "enforce",
        "approval": "none",
        "recovery": "none",
        "source": {
            "kind": "s3",
            "bucket": bucket,
            "prefixes": [f"{policy}/"],
            "exclude": {"prefixes": [f"{policy}/kept/"]},
        },
        "retain": "PT1S",
        "short_retention": True,
        "limits": {"max_attempts": 3, "max_items": 10_000},
    }
    (folder / f"{policy}.yaml").write_text(json.dumps(values | fields, indent=1))


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The data that it wrote with `--json`."""
        return json.loads(self.out)


class Site:
    """One stage in use."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @cached_property
    def s3(self) -> Any:
        """S3, past the proxy."""
        return self.stage.client("s3")

    @cached_property
    def sqs(self) -> Any:
        """SQS, past the proxy."""
        return self.stage.client("sqs")

    @cached_property
    def dynamodb(self) -> Any:
        """DynamoDB, past the proxy."""
        return self.stage.client("dynamodb")

    @cached_property
    def functions(self) -> Any:
        """Lambda, past the proxy."""
        return self.stage.client("lambda")

    def function(self, noun: str) -> str:
        """The name of a function: `Discovery`, `Worker` or `Reconciler`."""
        return self.stage.outputs[f"{noun}FunctionName"]

    # the command line

    @property
    def environment(self) -> dict[str, str]:
        """What a shell would have that uses the stage."""
        return {**emulators.surroundings(), **self.stage.environment}

    def sexton(self, *arguments: str, **environment: str) -> Answer:
        """Run the command in a process of its own, as a person would."""
        done = self.begin(*arguments, **environment)
        out, err = done.communicate(timeout=COMMAND_SECONDS)
        return Answer(done.returncode, out, err)

    def begin(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The command, running."""
        return subprocess.Popen(
            [str(BIN / "sexton"), *arguments],
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def asked(self, *arguments: str) -> Answer:
        """The same command in this process: for what is asked often, without the seconds that a process takes."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environment, clear=True),
            patch.object(cli, "connect", lambda stack: self._deployment),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = cli.main([*arguments, "--json"])
        return Answer(code, out.getvalue(), err.getvalue())

    @cached_property
    def _deployment(self) -> Deployment:
        return connect(self.stage.stack)

    def told(self, *arguments: str) -> Any:
        """What a command that must succeed says with `--json`."""
        answer = self.asked(*arguments)
        assert answer.code == 0, f"sexton {' '.join(arguments)}: {answer.out}{answer.err}"
        return answer.json

    def start(self, policy: str, *options: str) -> str:
        """Start a run of a policy whose objects have had their time by now; returns its id."""
        return str(self.told("run", "start", policy, "--reason", REASON, *options)["run_id"])

    def trigger(self, policy: str, at: datetime) -> str:
        """Start a run as the schedule does; returns the id that it gets."""
        event = json.dumps({"policy": policy, "scheduled_time": stamp(at)})
        self.functions.invoke(FunctionName=self.function("Discovery"), InvocationType="Event", Payload=event)
        return f"{policy}.{at:%Y%m%dT%H%M%SZ}.1"

    def show(self, run_id: str) -> dict[str, Any]:
        """A run as `run show --json` tells it."""
        return dict(self.told("run", "show", run_id))

    def closed(self, *run_ids: str, within: float = 120) -> None:
        """Tick until these runs are closed."""

        def look() -> bool:
            self.tick()
            lines = {line["run_id"]: line for line in self.told("run", "list", "--limit", "500")}
            return all(run_id in lines and lines[run_id]["closed_at"] for run_id in run_ids)

        until(look, within, f"closed: {', '.join(run_ids)}")

    def tick(self) -> None:
        """A tick, which may fail or be killed: the next one goes on."""
        self.functions.invoke(FunctionName=self.function("Reconciler"), Payload=json.dumps({"tick": stamp(now())}))

    def outcomes(self, run_id: str) -> dict[ItemId, str]:
        """By item what the evidence has as its outcome, such as `skipped:changed`; none may have two."""
        bucket, found = self.stage.outputs["EvidenceBucketName"], {}
        for key in self.keys(bucket, f"outcomes/{run_id}/"):
            body = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            for line in map(json.loads, gzip.decompress(body).splitlines()):
                item = line["key"], line.get("version_id")
                assert item not in found, f"two outcomes of {item} in {run_id}"
                found[item] = ":".join(filter(None, (line["outcome"], line.get("reason"))))
        return found

    # the buckets

    def fill(self, bucket: str, keys: Iterable[str], body: bytes = b"x") -> None:
        """Put an object under each key."""
        with ThreadPoolExecutor(UPLOADS) as pool:
            for done in [pool.submit(self.s3.put_object, Bucket=bucket, Key=key, Body=body) for key in keys]:
                done.result()

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The current objects' keys."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def age(self) -> None:
        """Wait until what was written just now is older than the policies' two seconds; S3 keeps whole ones."""
        time.sleep(4)

    def versions(self, bucket: str, prefix: str = "") -> tuple[list[str], list[str]]:
        """The keys of all versions, and those of all delete markers."""
        pages = list(self.s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix))
        kept = [entry["Key"] for page in pages for entry in page.get("Versions", [])]
        return kept, [entry["Key"] for page in pages for entry in page.get("DeleteMarkers", [])]

    # the queues

    @contextmanager
    def worker_held(self) -> Iterator[None]:
        """While the block lasts, SQS invokes no worker."""
        uuid = self._mapping()["UUID"]
        self.functions.update_event_source_mapping(UUID=uuid, Enabled=False)
        try:
            yield
        finally:
            self.functions.update_event_source_mapping(UUID=uuid, Enabled=True)

    def feed(self) -> str:
        """The state of what feeds the worker: `Enabled`, `Disabled`, or on the way."""
        return str(self._mapping()["State"])

    def _mapping(self) -> dict[str, Any]:
        worker = self.function("Worker")
        (mapping,) = self.functions.list_event_source_mappings(FunctionName=worker)["EventSourceMappings"]
        return dict(mapping)

    def queued(self) -> int:
        """How many messages the jobs queue holds, hidden ones too."""
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        asked = {"QueueUrl": self.stage.outputs["JobsQueueUrl"], "AttributeNames": counts}
        return sum(int(count) for count in self.sqs.get_queue_attributes(**asked)["Attributes"].values())

    def send(self, body: str) -> str:
        """Put a message on the jobs queue by hand; returns its id."""
        return str(self.sqs.send_message(QueueUrl=self.stage.outputs["JobsQueueUrl"], MessageBody=body)["MessageId"])

    def take(self, run_id: str, count: int) -> list[str]:
        """Take a run's messages off the jobs queue, as if it had lost them; empty until there are so many."""
        url, there = self.stage.outputs["JobsQueueUrl"], self._waiting("JobsQueueUrl")
        ours = [message for message in there if run_id in message["Body"]]
        if len(ours) < count:
            return []
        for message in ours:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in ours]

    def dead_messages(self) -> list[dict[str, Any]]:
        """What the dead-letter queue holds; it stays there."""
        return self._waiting("DeadLetterQueueUrl")

    def _waiting(self, queue: str) -> list[dict[str, Any]]:
        """Every message of a queue, hidden for a moment so that each is seen once."""
        found: dict[str, dict[str, Any]] = {}
        asked = {"QueueUrl": self.stage.outputs[queue], "MaxNumberOfMessages": 10, "VisibilityTimeout": 3}
        while batch := self.sqs.receive_message(**asked, AttributeNames=["All"], WaitTimeSeconds=0).get("Messages"):
            found |= {message["MessageId"]: message for message in batch}
        return list(found.values())


def now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    """An instant in RFC 3339, to the second."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def until(look: Callable[[], T], within: float, what: str, every: float = 1.0) -> T:
    """The first true answer of a look; fails when there is none in time."""
    give_up = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < give_up, f"not within {within} s: {what}"
        time.sleep(every)
    return seen


def numbered(prefix: str, count: int) -> Sequence[str]:
    """So many keys in order."""
    return [f"{prefix}{place:05d}" for place in range(count)]

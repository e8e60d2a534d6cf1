"""Endpoints, from schedule to report: real handlers and adapters, moto for AWS, a real server that is called."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from sexton.aws.edge import wired

from tests.fakes.world import calls_policy
from tests.integration import misbehaving
from tests.integration.misbehaving import Server, answers, serving
from tests.integration.on_moto import REGION, Functions, functions, process

CANARY = "Bearer c4n4ry-of-an-application"
POLICY = "reminders-cancel"


@dataclass
class Stack:
    functions: Functions
    server: Server

    def deploy(self, *names: str, **changes: Any) -> None:
        """So many reminders that were due 60 days ago, and the policy that has them cancelled."""
        due = int((datetime.now(UTC) - timedelta(days=60)).timestamp())
        self.functions.create_reminders({name: due + at for at, name in enumerate(names)})
        host = f"localhost:{self.server.port}"
        url = f"https://{host}/reminders/{{id}}/cancel"
        self.functions.deploy(calls_policy(**{"hosts": [host], "url": url, "rate": 100, "timeout": "PT1S", **changes}))

    def carried_out(self) -> dict[str, Any]:
        """From trigger to report; the dead ones of it are seen to by nobody."""
        run = self.functions.run(self.functions.trigger(POLICY))
        self.functions.work()
        self.functions.tick()
        return self.functions.report(self.functions.run({"run_id": run.run_id}))

    def kept(self) -> str:
        """All that is kept anywhere: rows, evidence, messages, logs."""
        evidence = self.functions.s3.list_objects_v2(Bucket="evidence").get("Contents", [])
        files = [self.functions.s3.get_object(Bucket="evidence", Key=each["Key"])["Body"].read() for each in evidence]
        text = [gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in files]
        rows, logged = json.dumps(self.functions.rows(), default=str), json.dumps(self.functions.logged())
        return rows + logged + b"".join(text).decode() + json.dumps(self.functions.receive(), default=str)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stack]:
    with process() as calls, functions(calls, monkeypatch) as made, serving(tmp_path, "localhost") as server:
        # As on the local stage; that moto answers, no endpoint is to be used.
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
        monkeypatch.setenv("SEXTON_LOCAL_CA", str(server.issued.authority))
        wired.cache_clear()
        boto3.client("secretsmanager", region_name=REGION).create_secret(Name="sexton/carriers", SecretString=CANARY)
        yield Stack(made, server)


def test_each_reminder_is_cancelled_by_a_call(stack: Stack) -> None:
    stack.deploy("r1", "r2", "r/3")
    report = stack.carried_out()
    assert (report["planned"], report["deleted"], report["dead"]) == (3, 3, {})
    lines = sorted(request.split(b"\r\n")[0].decode() for request in stack.server.requests)
    assert lines == [f"POST /reminders/{name}/cancel HTTP/1.1" for name in ("r%2F3", "r1", "r2")]
    assert all(f"Authorization: {CANARY}".encode() in request for request in stack.server.requests)
    assert len({_key(request) for request in stack.server.requests}) == 3
    assert stack.functions.reminders() == ["r/3", "r1", "r2"]


def test_no_secret_is_kept_anywhere(stack: Stack) -> None:
    stack.deploy("r1", "r2", "r3")
    echo = answers(f"422 {CANARY}", CANARY.encode(), X_Echo=CANARY, Location=f"https://evil.example/{CANARY}")
    stack.server.behaves = [echo, misbehaving.says(f"HTTP/1.1 {CANARY}\r\n{CANARY}".encode()), echo]
    stack.functions.trigger(POLICY)
    stack.functions.work()
    stack.functions.tick()
    kept = stack.kept()
    assert "http_422" in kept
    assert "c4n4ry" not in kept


def test_who_asks_to_wait_holds_nobody_up(stack: Stack) -> None:
    stack.deploy("r1", "r2", "r3")
    stack.server.behaves = [answers("503 Service Unavailable", Retry_After="120"), answers()]
    run = stack.functions.run(stack.functions.trigger(POLICY))
    assert len(stack.functions.work()) == 1
    states = sorted(job.state for job in stack.functions.ledger.jobs(run.run_id))
    assert states == ["ready", "succeeded", "succeeded"]
    (waiting,) = (job for job in stack.functions.ledger.jobs(run.run_id) if job.state == "ready")
    assert (waiting.reason, waiting.attempt, waiting.throttles) == ("http_503", 0, 1)
    assert waiting.not_before is not None
    assert stack.functions.receive() == []


def test_a_reply_that_is_lost_is_dead_where_no_repeat_is_safe(stack: Stack) -> None:
    stack.deploy("r1", "r2", idempotent=False)
    stack.server.behaves = [misbehaving.stays_silent(stack.server.over), answers()]
    report = stack.carried_out()
    assert (report["deleted"], report["dead"]) == (1, {"effect_unknown": 1})
    assert len(stack.server.requests) == 2


def test_a_missing_secret_halts_the_run(stack: Stack) -> None:
    stack.deploy("r1", "r2", headers={"Authorization": "sexton/forgotten"})
    run = stack.functions.run(stack.functions.trigger(POLICY))
    stack.functions.work()
    halted = stack.functions.run({"run_id": run.run_id})
    assert (halted.state, halted.reason, stack.server.connections) == ("halted", "breaker", 0)
    assert "ResourceNotFoundException" in halted.message


def test_outside_an_emulator_loopback_is_not_called(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_LOCAL_CA", "")
    wired.cache_clear()
    stack.deploy("r1")
    run = stack.functions.run(stack.functions.trigger(POLICY))
    stack.functions.work()
    halted = stack.functions.run({"run_id": run.run_id})
    assert (halted.state, stack.server.connections) == ("halted", 0)
    assert "address_refused" in halted.message


def _key(request: bytes) -> bytes:
    return next(line for line in request.split(b"\r\n") if line.startswith(b"Idempotency-Key: "))

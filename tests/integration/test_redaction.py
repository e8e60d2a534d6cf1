"""Canaries: secrets planted in errors, inputs and answers of every flow, and looked for wherever anything is kept.

Keys of objects are no secrets: evidence, ledger and messages name them as they are. Everything else that comes from
outside is redacted where it comes in (`sexton.redact`), and the log once more where it goes out.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError
from sexton import cli
from sexton.aws.edge import wired
from sexton.aws.errors import failure
from sexton.redact import HIDDEN

from tests.fakes.calls import Calls
from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.world import World, policy
from tests.integration import on_moto
from tests.integration.on_moto import Functions

SECRETS = {
    "access key": "AKIACANARYCANARY0001",
    "secret key": "cAnArY1/SecretKeyOfNobody+0123456789ABCd",
    "session token": "IQoJb3JpZ2luX2VjECANARY" + "aB3dE5fG7hJ9kL1mN0pQ" * 4 + "==",
    "signature": "canarysignature0f0f",
    "bearer": "canarybearer.token",
    "password": "canarypassword",
    "cookie": "canarycookie",
    "nested": "canarynested",
}
TEXTS = (
    f"the key {SECRETS['access key']} with {SECRETS['secret key']} is refused",
    f"token={SECRETS['session token']}",
    f"GET https://b.s3.amazonaws.com/k?X-Amz-Credential=x&X-Amz-Signature={SECRETS['signature']}",
    f"Authorization: Bearer {SECRETS['bearer']}",
    f"cannot connect to postgres://admin:{SECRETS['password']}@db/x",
    f"Cookie: theme=dark; session={SECRETS['cookie']}",
    json.dumps({"body": json.dumps({"password": SECRETS["nested"]})}),
)
ALL = " | ".join(TEXTS)
SOURCE = {"kind": "s3", "bucket": "items", "prefixes": ["app/"]}
POLICY = policy(source=SOURCE, job_size=2, limits={"max_items": 1000, "max_attempts": 3})
ADA = "arn:aws:sts::123456789012:assumed-role/Operators/ada"

Fault = Callable[[], Any]


def client_error(text: str, code: str = "InternalError") -> Fault:
    def fail() -> Any:
        raise ClientError({"Error": {"Code": code, "Message": text}}, "Operation")

    return fail


def bug(text: str) -> Fault:
    """A mistake of ours, with a cause whose text nobody looked at."""

    def fail() -> Any:
        try:
            client_error(text)()
        except ClientError as error:
            raise RuntimeError(f"unexpected: {text}") from error

    return fail


def unreachable(text: str) -> Fault:
    def fail() -> Any:
        raise EndpointConnectionError(endpoint_url=text)

    return fail


@dataclass
class Site:
    """The functions, the faults of the calls they make, and all that ever left them."""

    functions: Functions
    capsys: pytest.CaptureFixture[str]
    faults: dict[str, Fault] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    watching: bool = False

    def invoke(self, name: str, event: dict[str, Any]) -> Any:
        """One invocation; an error that it raises is kept as Lambda keeps it."""
        self.watching = True
        try:
            answer = self.functions.invoke(name, event, timedelta(minutes=10))
        except Exception as error:  # noqa: BLE001  as Lambda does it
            self.left.append(f"{type(error).__name__}: {error}")
            return None
        finally:
            self.watching = False
        self.left.append(json.dumps(answer))
        return answer

    def call(self, real: Any, client: Any, operation: str, given: dict[str, Any]) -> Any:
        """In the place of botocore's own: what the functions send is kept; a call with a fault fails by it."""
        if self.watching:
            self.left.append(f"{operation}: {given!r}")
            fault = self.faults.get(operation)
            if fault:
                answer = fault()
                if answer is not None:
                    return answer
        return real(client, operation, given)

    def kept(self) -> str:
        """Everything that is kept or shown anywhere."""
        bucket = [each["Key"] for each in self.functions.s3.list_objects_v2(Bucket="evidence").get("Contents", [])]
        bodies = [self.functions.s3.get_object(Bucket="evidence", Key=key)["Body"].read() for key in bucket]
        texts = [gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for body in bodies]
        said = self.capsys.readouterr()
        rows = [json.dumps(row) for row in self.functions.rows()]
        return "\n".join(
            [*self.left, *rows, *(text.decode() for text in texts), self.functions._log.getvalue(), said.out, said.err]
        )

    def clean(self, told: int = 1) -> str:
        """No canary is anywhere, and something was said in the place of so many."""
        kept = self.kept()
        assert [name for name, secret in SECRETS.items() if secret in kept] == []
        assert kept.count(HIDDEN) >= told
        return kept


@pytest.fixture(scope="module")
def process() -> Iterator[Calls]:
    with on_moto.process() as calls:
        yield calls


@pytest.fixture
def site(process: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    with on_moto.functions(process, monkeypatch) as functions:
        wired.cache_clear()
        functions.deploy(POLICY)
        found, real = Site(functions, capsys), BaseClient._make_api_call  # type: ignore[attr-defined]
        monkeypatch.setattr(
            BaseClient, "_make_api_call", lambda client, name, given: found.call(real, client, name, given)
        )
        yield found
    wired.cache_clear()


FAULTS = (client_error(ALL, "AccessDenied"), client_error(ALL), bug(ALL), unreachable(ALL))


# discovery


EVENTS: list[dict[str, Any]] = [
    {"policy": ALL, "scheduled_time": "2026-01-01T00:00:00Z"},
    {"policy": "logs-expire", "scheduled_time": TEXTS[3]},
    {"policy": "logs-expire", "scheduled_time": "2026-01-01T00:00:00Z", TEXTS[4]: TEXTS[0]},
    {"resume": ALL},
    {"policy": ["logs-expire", TEXTS[6]], "scheduled_time": {"at": TEXTS[2]}, "mode": TEXTS[5]},
]


def test_an_event_that_is_refused(site: Site) -> None:
    for event in EVENTS:
        site.invoke("discovery", event)
        site.invoke("discovery", event | {"plan": False})
    site.clean(told=4)


def test_what_breaks_planning_and_dispatch(site: Site) -> None:
    """A run of a policy of its own for each fault."""
    operations = ("ListObjectsV2", "PutObject", "TransactWriteItems", "SendMessageBatch")
    each = [(operation, fault) for operation in operations for fault in FAULTS]
    policies = [POLICY.model_copy(update={"id": f"logs-{number}"}) for number in range(len(each))]
    site.functions.deploy(*policies)
    site.functions.put(["app/1", "app/2", "app/3"])
    for rule, (operation, fault) in zip(policies, each, strict=True):
        run = site.functions.trigger(rule.id, plan=False)
        site.faults[operation] = fault
        site.invoke("discovery", {"resume": run["run_id"]})
        site.faults.clear()
    site.clean(told=len(each))


# the worker


def planned(site: Site, keys: int = 3) -> list[dict[str, Any]]:
    site.functions.put(f"app/{n}" for n in range(keys))
    site.functions.trigger()
    return site.functions.receive()


def test_a_message_that_is_none_of_ours(site: Site) -> None:
    records = planned(site)
    for number, body in enumerate((ALL, *TEXTS, json.dumps({"job_id": ALL, "run_id": ALL, TEXTS[4]: ALL}))):
        site.invoke("worker", {"Records": [{**records[0], "body": body, "messageId": f"forged-{number}"}]})
    site.clean(told=len(TEXTS))


def test_what_breaks_an_attempt(site: Site) -> None:
    """One job for each fault, each its first and only attempt."""
    site.functions.deploy(POLICY.model_copy(update={"job_size": 1}))
    records = iter(planned(site, 18) + site.functions.receive())
    for operation in ("GetItem", "UpdateItem", "GetObject", "ListObjectsV2", "DeleteObjects", "PutObject"):
        for fault in FAULTS[1:]:
            site.faults[operation] = fault
            site.invoke("worker", {"Records": [next(records)]})
            site.faults.clear()
    site.clean(told=18)


def test_what_is_refused_for_good_halts_the_run_and_says_why(site: Site) -> None:
    records = planned(site)
    site.faults["ListObjectsV2"] = FAULTS[0]
    site.invoke("worker", {"Records": records})
    site.invoke("reconciler", {"tick": "now"})
    assert '"halted"' in site.clean()


def test_what_s3_says_of_single_keys(site: Site) -> None:
    """Up to the job that dies of it, its report, and the event that tells of it."""
    records, texts = planned(site, 1), cycle(TEXTS)

    def answer() -> Any:
        return {"Errors": [{"Key": "app/0", "Code": "AccessDenied", "Message": next(texts)}]}

    site.faults["DeleteObjects"] = answer
    for _ in TEXTS:
        site.invoke("worker", {"Records": records})
    site.invoke("reconciler", {"tick": "now"})
    kept = site.clean()
    assert '"dead"' in kept
    assert "Run Closed" in kept


# the reconciler


def test_what_breaks_a_tick(site: Site) -> None:
    site.functions.put(["app/1"])
    waits = site.functions.trigger(plan=False)
    tick(site, "Invoke")
    site.functions.invoke("discovery", {"resume": waits["run_id"]})
    site.functions.work()
    for operation in ("Query", "PutObject", "PutEvents"):
        tick(site, operation)
    site.clean(told=16)


def tick(site: Site, operation: str) -> None:
    for fault in FAULTS:
        site.faults[operation] = fault
        site.invoke("reconciler", {"tick": "now"})
        site.faults.clear()


def test_what_the_event_bus_answers(site: Site) -> None:
    site.functions.put(["app/1"])
    site.functions.trigger()
    site.functions.work()
    entry = {"ErrorCode": "InternalFailure", "ErrorMessage": ALL}
    site.faults["PutEvents"] = lambda: {"FailedEntryCount": 1, "Entries": [entry]}
    site.invoke("reconciler", {"tick": "now"})
    site.clean()


# control


def ask(site: Site, monkeypatch: pytest.MonkeyPatch, door: str, body: str, **more: Any) -> Any:
    if os.environ.get("SEXTON_DOOR") != door:
        monkeypatch.setenv("SEXTON_DOOR", door)
        wired.cache_clear()
    headers = {"authorization": TEXTS[3], "x-amz-security-token": SECRETS["session token"], "cookie": TEXTS[5]}
    context = {"authorizer": {"iam": {"userArn": ADA, "accessKey": SECRETS["access key"]}}}
    return site.invoke("control", {"requestContext": context, "headers": headers, "body": body, **more})


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("operator", {"change": "pause", "scope": "logs-expire"}),
    ("operator", {"change": "hold_add", "scope": "s3://items/app/"}),
    ("operator", {"change": "hold_add", "scope": ALL}),
    ("operator", {"change": "pause", "scope": ALL[:190]}),
    ("operator", {"change": "run_halt", "run_id": ALL[:190]}),
    ("operator", {"change": "run_start", "policy": ALL[:190]}),
    ("operator", {"change": "run_start", "policy": "logs-expire", "scheduled_time": TEXTS[4]}),
    ("operator", {"change": "dlq_replay", "jobs": [TEXTS[4], TEXTS[3]]}),
    ("approver", {"change": "run_approve", "run_id": "logs-expire.20260301T120000Z.1", "digest": TEXTS[5]}),
    ("approver", {"change": "hold_release", "scope": f"s3://items/{TEXTS[4]}"}),
    ("operator", {"change": ALL}),
    ("operator", {TEXTS[4]: 1, TEXTS[0]: {TEXTS[3]: 2}, "change": "pause", "scope": 1}),
]


def test_what_a_person_asks_and_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (door, asked) in enumerate(REQUESTS):
        for text in (ALL[:480], TEXTS[number % len(TEXTS)]):
            ask(site, monkeypatch, door, json.dumps({"reason": f"see {text}", **asked}))
    site.clean(told=len(REQUESTS))


def test_a_request_that_is_no_json_or_far_too_long(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (ALL, f"[{json.dumps(ALL)}]", json.dumps({"change": "pause", "reason": ALL * 100})):
        ask(site, monkeypatch, "operator", body)
    site.clean(told=0)


def test_what_breaks_a_change(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = site.functions.run(site.functions.trigger())
    halt = json.dumps({"change": "run_halt", "run_id": run.run_id, "reason": ALL[:480]})
    for operation in ("GetItem", "UpdateItem"):
        for fault in FAULTS:
            site.faults[operation] = fault
            ask(site, monkeypatch, "operator", halt)
            site.faults.clear()
    ask(site, monkeypatch, "operator", halt)
    site.clean(told=8)


def test_a_caller_who_is_believed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_TRUST_CALLER", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    monkeypatch.setattr("sexton.aws.wiring.Wiring.table", lambda _: _Nowhere())
    for text in TEXTS:
        body = json.dumps({"change": "run_halt", "run_id": "x", "reason": "because"})
        headers = {"x-sexton-actor": text, "authorization": TEXTS[3]}
        ask(site, monkeypatch, "operator", body, requestContext={}, headers=headers)
    site.clean()


class _Nowhere:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing is asked of the ledger")


# what is no secret


def test_keys_are_named_as_they_are_where_they_must_be_and_not_in_the_log(site: Site) -> None:
    """Evidence that does not say what was removed is none; a log has no need of it."""
    key = f"app/password={SECRETS['password']}"
    site.functions.put([key])
    site.functions.trigger()
    records = site.functions.receive()
    assert SECRETS["password"] in str(records)
    site.invoke("worker", {"Records": records})
    site.invoke("reconciler", {"tick": "now"})
    (part,) = site.functions.evidence.list("plans/")
    assert key.encode() in (site.functions.evidence.get(part) or b"")
    assert SECRETS["password"] not in site.functions._log.getvalue()
    assert SECRETS["password"] not in site.capsys.readouterr().out


# the command line


def test_what_the_command_line_shows_of_all_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dead job, a halted run, a refused source, calls that fail, and reasons that people typed."""
    world = World({"logs-expire": policy(limits={"max_items": 1000})})
    functions = FakeFunctions(world)
    monkeypatch.setattr(cli, "connect", lambda stack: deployment(world, functions))
    denied = failure("AccessDenied", ALL)
    world.fill(["app/0", "app/1", "app/2"])
    world.bucket().failures["app/1"] = denied
    run_id = str(world.trigger()["run_id"])
    world.settle()
    job_id = f"{run_id}.00000000.0001"
    said = [sexton(capsys, *each, "--reason", ALL[:480]) for each in changes(run_id, job_id)]
    world.bucket().call_failures["list"] = [denied, failure("InternalError", ALL)]
    world.clock.advance(3600)
    world.trigger()
    said += [sexton(capsys, *each) for each in READ]
    said += [sexton(capsys, *(part.format(run=run_id, job=job_id) for part in each)) for each in READ_ONE]
    said += [sexton(capsys, *each, "--json") for each in READ]
    kept = "\n".join([*said, *map(str, world.table.rows.values()), str(world.logged), str(world.events.published)])
    assert [name for name, secret in SECRETS.items() if secret in kept] == []
    assert sum(HIDDEN in each for each in said) >= 4


READ = [("status",), ("run", "list"), ("dlq", "list"), ("hold", "list"), ("explain", "s3://logs/app/1")]
READ_ONE = [("run", "show", "{run}"), ("dlq", "show", "{job}"), ("run", "show", TEXTS[3]), ("dlq", "show", TEXTS[4])]


def changes(run_id: str, job_id: str) -> list[tuple[str, ...]]:
    return [
        ("pause", "logs-expire"),
        ("resume", "logs-expire"),
        ("hold", "add", "s3://logs/app/keep/"),
        ("dlq", "replay", job_id),
        ("run", "halt", run_id),
        ("run", "halt", TEXTS[4]),
        ("run", "resume", run_id),
    ]


def sexton(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    cli.main(arguments)
    out, err = capsys.readouterr()
    return str(out + err)

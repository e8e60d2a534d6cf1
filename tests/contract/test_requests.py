"""What goes out on the wire: owners, retries, conditions; and that it can be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from boto3.session import Session
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from sexton.aws.bucket import S3Bucket
from sexton.aws.clients import Clients
from sexton.aws.settings import read
from sexton.aws.wiring import Wiring
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Send
from sexton.table import Key, Write, absent

from tests.contract.worlds import AwsWorld, failure_in
from tests.fakes.calls import Calls, count_on, counting

ITEM = Item("a", '"5d41402abc4b2a76b9719d911017c592"', 1, "STANDARD", None)
VERSION = ITEM._replace(version_id="v")
NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens


@contextmanager
def requests_of(client: Any) -> Iterator[list[tuple[str, dict[str, str]]]]:
    """Operation and headers of every request that the client makes."""
    seen: list[tuple[str, dict[str, str]]] = []

    def watch(request: Any, operation_name: str, **_: object) -> None:
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        seen.append((operation_name, headers))

    client.meta.events.register("request-created.s3", watch)
    try:
        yield seen
    finally:
        client.meta.events.unregister("request-created.s3", watch)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def test_every_request_to_a_bucket_names_its_owner(aws: AwsWorld) -> None:
    """Neither emulator looks at the owner, so that all that can be tested here is the request."""
    bucket, _ = aws.bucket()
    evidence = aws.evidence()
    with requests_of(aws.clients.s3) as reads, requests_of(aws.clients.s3_deletes) as deletes:
        bucket.versioning()
        bucket.list("")
        bucket.head("a")
        bucket.remove([ITEM, ITEM._replace(key="a\u0001")])
        bucket.list_versions("")
        bucket.remove_versions([VERSION, VERSION._replace(key="a\u0001")])
        bucket.list_uploads("")
        bucket.abort_upload(VERSION)
        bucket.tags([ITEM])
        evidence.put_once("k.json", b"{}")
        evidence.get("k.json")
        list(evidence.list(""))
    seen = reads + deletes
    assert {operation for operation, _ in seen} == {
        "GetBucketVersioning",
        "ListObjectsV2",
        "ListObjectVersions",
        "ListMultipartUploads",
        "AbortMultipartUpload",
        "GetObjectTagging",
        "HeadObject",
        "DeleteObjects",
        "DeleteObject",
        "PutObject",
        "GetObject",
    }
    assert {headers.get("x-amz-expected-bucket-owner") for _, headers in seen} == {aws.account}
    # Nor is a lock ever bypassed, whatever the role may do.
    assert not [operation for operation, headers in seen if "x-amz-bypass-governance-retention" in headers]


def test_evidence_is_written_under_a_condition(aws: AwsWorld) -> None:
    evidence = aws.evidence()
    with requests_of(aws.clients.s3) as seen:
        evidence.put_once("plans/r/1.ndjson.gz", b"x")
    ((operation, headers),) = seen
    assert operation == "PutObject"
    assert headers["if-none-match"] == "*"
    assert headers["content-type"] == "application/gzip"


def test_equal_contents_are_stored_as_equal_bytes(aws: AwsWorld) -> None:
    """No time of compression inside: the same plan gives the same file."""
    one, two = aws.evidence(), aws.evidence()
    one.put_once("a.gz", b"x" * 1000)
    aws.pass_time(1.1)
    two.put_once("a.gz", b"x" * 1000)
    assert _stored(aws, one) == _stored(aws, two)


def _stored(aws: AwsWorld, evidence: Any) -> bytes:
    return aws.clients.s3.get_object(Bucket=evidence._bucket, Key="a.gz")["Body"].read()


def test_one_call_for_the_keys_that_xml_carries_and_one_for_each_other(aws: AwsWorld) -> None:
    bucket, _ = aws.bucket()
    counted = count_on(aws.clients.s3_deletes)
    bucket.remove([ITEM._replace(key=key) for key in ("a", "b", "a\u0001", "a\r", "c")])
    assert counted == {("s3", "DeleteObjects"): 1, ("s3", "DeleteObject"): 2}


SETTINGS = {
    "SEXTON_LEDGER_TABLE": "ledger",
    "SEXTON_EVIDENCE_BUCKET": "evidence",
    "SEXTON_JOBS_QUEUE_URL": f"{NOWHERE}/000000000000/jobs",
    "SEXTON_DEAD_LETTER_QUEUE_URL": f"{NOWHERE}/000000000000/dead",
    "SEXTON_DISCOVERY_FUNCTION": "discovery",
    "SEXTON_ACCOUNT": "000000000000",
    "SEXTON_WORKER_TIMEOUT_SECONDS": "120",
    "SEXTON_MAX_RECEIVE_COUNT": "15",
}


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Wiring, Calls]]:
    """The adapters with nobody at the other end."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    settings = read(SETTINGS)
    with counting() as counted:
        yield Wiring(settings, Session(region_name="eu-central-1")), counted


def test_a_bucket_of_another_account_is_asked_for_as_that_account_s(nowhere: tuple[Wiring, Calls]) -> None:
    wiring, _ = nowhere
    bucket: Any = wiring.bucket("items", "210987654321")
    sent: list[str] = []
    bucket._client.meta.events.register(
        "before-call.s3.ListObjectsV2",
        lambda params, **_: sent.append(params["headers"]["x-amz-expected-bucket-owner"]),
    )
    failure_in(lambda: bucket.list(""))
    assert sent == ["210987654321"]


def test_a_removal_that_was_not_sent_has_no_effect_and_is_not_repeated(nowhere: tuple[Wiring, Calls]) -> None:
    wiring, counted = nowhere
    (failure,) = wiring.bucket("items").remove([ITEM]).values()
    assert isinstance(failure, Failure)
    assert failure.reason_class is ReasonClass.TRANSIENT
    assert failure.unknown_effect is False
    assert counted == {("s3", "DeleteObjects"): 1}


@pytest.mark.parametrize("seconds", [10, 60, 900])
def test_a_removal_fits_into_the_worker_s_time_however_short_that_is(seconds: int) -> None:
    """Else no job would ever be begun."""
    settings = read({**SETTINGS, "SEXTON_WORKER_TIMEOUT_SECONDS": f"{seconds}"})
    wiring = Wiring(settings, Session(region_name="eu-central-1"))
    for source in (wiring.bucket("items"), wiring.records("items")):
        assert source.request_timeout() + 2 * settings.reserve < settings.worker_timeout


def test_a_send_is_not_repeated(nowhere: tuple[Wiring, Calls]) -> None:
    wiring, counted = nowhere
    failure = failure_in(lambda: wiring.queue().send([Send("j", "{}", "p")]))
    assert failure.unknown_effect is False
    assert counted == {("sqs", "SendMessageBatch"): 1}


CALLS: dict[str, Callable[[Wiring], object]] = {
    "table.get": lambda wiring: wiring.table().get(Key("a", "b")),
    "table.write": lambda wiring: wiring.table().write(Write(Key("a", "b"), "w", (absent("pk"),))),
    "table.transact": lambda wiring: wiring.table().transact([Write(Key("a", "b"), "w", (absent("pk"),))]),
    "table.query": lambda wiring: wiring.table().query("a"),
    "table.query_open": lambda wiring: wiring.table().query_open("a"),
    "evidence.put_once": lambda wiring: wiring.evidence().put_once("a", b""),
    "evidence.get": lambda wiring: wiring.evidence().get("a"),
    "evidence.list": lambda wiring: list(wiring.evidence().list("a")),
    "bucket.list": lambda wiring: wiring.bucket("items").list(""),
    "bucket.head": lambda wiring: wiring.bucket("items").head("a"),
    "bucket.versioning": lambda wiring: wiring.bucket("items").versioning(),
    "deliveries.hide": lambda wiring: wiring.deliveries().hide("r", timedelta()),
    "discovery.discover": lambda wiring: wiring.discovery().discover({"policy": "p"}),
    "discovery.resume": lambda wiring: wiring.discovery().resume("r"),
    "events.put": lambda wiring: wiring.events().put("run completed", {}),
}


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in CALLS.items()])
def test_nobody_at_the_other_end_is_a_transient_failure(
    nowhere: tuple[Wiring, Calls], call: Callable[[Wiring], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    wiring, counted = nowhere
    failure = failure_in(lambda: call(wiring))
    assert failure.reason_class is ReasonClass.TRANSIENT
    assert "EXAMPLE" not in failure.summary
    assert sum(counted.values()) <= 3


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (EndpointConnectionError(endpoint_url="https://s3"), False),
        (ConnectTimeoutError(endpoint_url="https://s3"), False),
        (ReadTimeoutError(endpoint_url="https://s3"), True),
    ],
)
def test_only_what_was_never_sent_is_known_to_have_no_effect(aws: AwsWorld, error: Exception, unknown: bool) -> None:
    bucket, _ = aws.bucket()

    def fail(**_: object) -> None:
        raise error

    for event in ("before-call.s3.DeleteObjects", "before-call.s3.DeleteObject"):
        aws.clients.s3_deletes.meta.events.register_first(event, fail)
    try:
        results = bucket.remove([ITEM, ITEM._replace(key="a\u0001")])
    finally:
        for event in ("before-call.s3.DeleteObjects", "before-call.s3.DeleteObject"):
            aws.clients.s3_deletes.meta.events.unregister(event, fail)
    failures = [each for each in results.values() if isinstance(each, Failure)]
    assert [each.unknown_effect for each in failures] == [unknown, unknown]


def test_the_stated_time_limit_is_the_client_s_own() -> None:
    clients = Clients(Session(region_name="eu-central-1"))
    config: Any = clients.s3_deletes.meta.config
    limit = timedelta(seconds=config.connect_timeout + config.read_timeout)
    assert S3Bucket(clients.s3, clients.s3_deletes, "b", "0").request_timeout() == limit
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}

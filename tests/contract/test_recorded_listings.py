"""Answers of S3 as they stand on the wire: the order of versions, keys that XML cannot carry, locks, tags."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from boto3.session import Session
from botocore.awsrequest import AWSResponse
from sexton.aws.bucket import S3Bucket
from sexton.aws.clients import AT_ONCE, Clients
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Removed

from tests.contract.worlds import failure_in

OWNER = "111122223333"
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
A, B = Item("a", "", 1, "", None, "va"), Item("b", "", 1, "", None, "vb")


class Service:
    """Answers each request with the next thing that was recorded, and keeps the requests."""

    def __init__(self, clients: Clients) -> None:
        self.answers: list[tuple[int, str, dict[str, str]]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[str] = []
        self.bucket = S3Bucket(clients.s3, clients.s3_deletes, "items", OWNER)

    def will_answer(self, body: str = "", status: int = 200, **headers: str) -> None:
        self.answers.append((status, body, {name.replace("_", "-"): value for name, value in headers.items()}))

    def will_refuse(self, code: str, status: int) -> None:
        self.will_answer(f"<Error><Code>{code}</Code><Message>as recorded</Message></Error>", status)

    def __call__(self, request: Any, **_: object) -> AWSResponse:
        parts = urlsplit(request.url)
        asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.requests.append((request.method, parts.path, asked))
        self.bodies.append(bytes(request.body or b"").decode())
        status, body, headers = self.answers.pop(0)
        return AWSResponse(request.url, status, headers, _Raw(body.encode()))


class _Raw:
    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, amt: int = 1024, decode_content: bool = False) -> Iterator[bytes]:
        yield self.body

    def read(self, amt: int | None = None) -> bytes:
        return self.body


@pytest.fixture(scope="module")
def clients() -> Clients:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        made = Clients(Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="eu-central-1"))
        made.s3, made.s3_deletes  # noqa: B018  # made under this environment
    return made


@pytest.fixture
def service(clients: Clients) -> Iterator[Service]:
    made = Service(clients)
    both = (clients.s3, clients.s3_deletes)
    for client in both:
        client.meta.events.register("before-send.s3", made)
    yield made
    for client in both:
        client.meta.events.unregister("before-send.s3", made)
    assert made.answers == []


def version(key: str, number: int, latest: bool = False, date: str = "2026-01-05T00:00:00.000Z") -> str:
    return (
        f"<Version><Key>{key}</Key><VersionId>v{number}</VersionId><IsLatest>{str(latest).lower()}</IsLatest>"
        f"<LastModified>{date}</LastModified><ETag>&quot;e&quot;</ETag><Size>1</Size>"
        "<StorageClass>STANDARD</StorageClass></Version>"
    )


def marker(key: str, number: int, latest: bool = False, date: str = "2026-01-05T00:00:00.000Z") -> str:
    return (
        f"<DeleteMarker><Key>{key}</Key><VersionId>m{number}</VersionId><IsLatest>{str(latest).lower()}</IsLatest>"
        f"<LastModified>{date}</LastModified></DeleteMarker>"
    )


def versions(*entries: str, more: str = "<IsTruncated>false</IsTruncated>") -> str:
    head = f'<ListVersionsResult xmlns="{NAMESPACE}"><Name>items</Name><EncodingType>url</EncodingType>{more}'
    return "".join([head, *entries, "</ListVersionsResult>"])


# the order of versions


def test_versions_and_markers_stay_in_the_order_of_the_answer(service: Service) -> None:
    """All of one second, and one version of many parts whose upload was begun before the version that it replaced."""
    begun = "2026-01-01T00:00:00.000Z"
    service.will_answer(
        versions(
            version("a", 6, latest=True, date=begun),
            marker("a", 5),
            version("a", 4),
            version("a", 3, date=begun),
            marker("a", 2),
            version("a", 1),
        )
    )
    assert [item.version_id for item in service.bucket.list_versions("").items] == ["v6", "m5", "v4", "v3", "m2", "v1"]


def test_a_key_that_looks_like_an_entry_is_none(service: Service) -> None:
    service.will_answer(versions(version("%3CVersion%3E%3CDeleteMarker%3E", 1, latest=True)))
    assert [item.key for item in service.bucket.list_versions("").items] == ["<Version><DeleteMarker>"]


def test_a_store_that_lists_delete_markers_apart_is_sorted(service: Service) -> None:
    """By key, the current one first, then by date; within a second a version counts as newer, so that it stays."""
    day = "2026-01-0{}T00:00:00.000Z".format
    service.will_answer(
        versions(
            version("a", 3, date=day(3)),
            version("a", 1, date=day(1)),
            version("b", 1, latest=True),
            marker("a", 4, latest=True, date=day(4)),
            marker("a", 2, date=day(1)),
        )
    )
    items = service.bucket.list_versions("").items
    assert [(item.key, item.version_id) for item in items] == [
        ("a", "m4"),
        ("a", "v3"),
        ("a", "v1"),
        ("a", "m2"),
        ("b", "v1"),
    ]


def test_keys_that_xml_cannot_carry_are_decoded_and_sent_as_they_are(service: Service) -> None:
    more = (
        "<IsTruncated>true</IsTruncated><NextKeyMarker>a%01+b%0D</NextKeyMarker>"
        "<NextVersionIdMarker>v1</NextVersionIdMarker>"
    )
    service.will_answer(versions(version("a%01+b%0D", 1, latest=True), more=more))
    page = service.bucket.list_versions("a", "a%2B", "v0", 7)
    assert [item.key for item in page.items] == ["a\x01 b\r"]
    assert (page.truncated, page.next_key, page.next_version) == (True, "a\x01 b\r", "v1")
    (_, _, asked) = service.requests[0]
    assert (asked["key-marker"], asked["version-id-marker"], asked["max-keys"]) == ("a%2B", "v0", "7")
    assert asked["encoding-type"] == "url"


def test_the_first_page_and_the_page_after_a_key_name_no_version(service: Service) -> None:
    service.will_answer(versions())
    service.will_answer(versions())
    service.bucket.list_versions("p/")
    service.bucket.list_versions("p/", "p/a")
    first, second = (asked for _, _, asked in service.requests)
    assert "key-marker" not in first
    assert "version-id-marker" not in first
    assert second["key-marker"] == "p/a"
    assert "version-id-marker" not in second


def test_a_listing_that_is_not_as_it_says_is_a_failure(service: Service) -> None:
    service.will_answer(versions("<Version />", version("a", 1)).replace("<Version />", "<!-- <Version> -->"))
    assert failure_in(lambda: service.bucket.list_versions("")).code == "UnreadableListing"


# uploads


def test_uploads_of_keys_that_xml_cannot_carry_are_decoded(service: Service) -> None:
    service.will_answer(
        f'<ListMultipartUploadsResult xmlns="{NAMESPACE}"><EncodingType>url</EncodingType>'
        "<IsTruncated>true</IsTruncated><NextKeyMarker>a%01+b</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>"
        "<Upload><Key>a%01+b</Key><UploadId>u1</UploadId><Initiated>2026-01-05T00:00:00.500Z</Initiated>"
        "<StorageClass>GLACIER</StorageClass></Upload></ListMultipartUploadsResult>"
    )
    page = service.bucket.list_uploads("a")
    date = datetime(2026, 1, 5, tzinfo=UTC)
    assert list(page.items) == [Item("a\x01 b", "", 0, "GLACIER", date, "u1")]
    assert (page.truncated, page.next_key, page.next_version) == (True, "a\x01 b", "u1")


def test_an_abort_names_the_upload_of_a_key_that_xml_cannot_carry(service: Service) -> None:
    service.will_answer(status=204)
    assert service.bucket.abort_upload(A._replace(key="a\x01 b", version_id="u1")) == Removed()
    method, path, asked = service.requests[0]
    assert (method, path, asked) == ("DELETE", "/a%01%20b", {"uploadId": "u1"})


# removing versions


def deleted(*entries: str) -> str:
    return f'<DeleteResult xmlns="{NAMESPACE}">{"".join(entries)}</DeleteResult>'


def error(item: Item, code: str, message: str = "Access Denied") -> str:
    return (
        f"<Error><Key>{item.key}</Key><VersionId>{item.version_id}</VersionId><Code>{code}</Code>"
        f"<Message>{message}</Message></Error>"
    )


def gone(item: Item) -> str:
    return f"<Deleted><Key>{item.key}</Key><VersionId>{item.version_id}</VersionId></Deleted>"


TOMORROW = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
YESTERDAY = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
LOCKING = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"


def refusal(service: Service, *items: Item) -> Failure:
    """What removing items comes to, the first of which is refused and the others are not."""
    service.answers.insert(0, (200, deleted(error(items[0], "AccessDenied"), *map(gone, items[1:])), {}))
    results = service.bucket.remove_versions(items)
    assert all(results[item.id] == Removed() for item in items[1:])
    refused = results[items[0].id]
    assert isinstance(refused, Failure)
    assert refused.unknown_effect is False
    return refused


def test_a_version_is_removed_by_its_id_and_without_a_condition(service: Service) -> None:
    service.will_answer(deleted(gone(A)))
    service.bucket.remove_versions([A._replace(etag='"e"')])
    (body,) = service.bodies
    assert "<VersionId>va</VersionId>" in body
    assert "ETag" not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": TOMORROW},
        {"x_amz_object_lock_mode": "COMPLIANCE", "x_amz_object_lock_retain_until_date": TOMORROW},
        {"x_amz_object_lock_legal_hold": "ON"},
    ],
    ids=["governance", "compliance", "hold"],
)
def test_a_refusal_without_words_is_asked_about(service: Service, headers: dict[str, str]) -> None:
    service.will_answer(LOCKING)
    service.will_answer(**headers)
    assert refusal(service, A, B).reason_class is ReasonClass.LOCKED
    assert service.requests[-1] == ("HEAD", "/a", {"versionId": "va"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": YESTERDAY},
        {"x_amz_object_lock_legal_hold": "OFF"},
    ],
    ids=["none", "past", "off"],
)
def test_a_version_that_is_not_locked_lacks_a_permission(service: Service, headers: dict[str, str]) -> None:
    service.will_answer(LOCKING)
    service.will_answer(**headers)
    assert refusal(service, A).reason_class is ReasonClass.PERMANENT


def test_where_nothing_can_be_locked_nothing_is_asked(service: Service) -> None:
    service.will_refuse("ObjectLockConfigurationNotFoundError", 404)
    assert refusal(service, A).reason_class is ReasonClass.PERMANENT
    assert refusal(service, B).reason_class is ReasonClass.PERMANENT
    assert [asked for _, _, asked in service.requests] == [{"delete": ""}, {"object-lock": ""}, {"delete": ""}]


def test_where_it_may_not_be_known_whether_there_are_locks_it_is_asked(service: Service) -> None:
    service.will_refuse("AccessDenied", 403)
    service.will_answer(x_amz_object_lock_legal_hold="ON")
    assert refusal(service, A).reason_class is ReasonClass.LOCKED


def test_where_the_lock_may_not_be_read_the_refusal_stands(service: Service) -> None:
    service.will_answer(LOCKING)
    service.will_answer(status=403)
    refused = refusal(service, A)
    assert (refused.reason_class, refused.code) == (ReasonClass.PERMANENT, "AccessDenied")


def test_a_look_for_the_lock_that_fails_is_tried_again_later(service: Service) -> None:
    service.will_answer(LOCKING)
    service.will_answer(status=409)
    assert refusal(service, A).reason_class is ReasonClass.TRANSIENT


def test_what_is_gone_when_it_is_asked_about_is_gone(service: Service) -> None:
    service.will_answer(LOCKING)
    service.will_answer(status=404)
    assert refusal(service, A).reason_class is ReasonClass.GONE


def test_a_refusal_that_speaks_of_the_lock_needs_no_question(service: Service) -> None:
    text = "Access Denied because object protected by object lock."
    service.will_answer(deleted(error(A, "AccessDenied", text)))
    (refused,) = service.bucket.remove_versions([A]).values()
    assert isinstance(refused, Failure)
    assert refused.reason_class is ReasonClass.LOCKED


def test_a_delete_marker_is_never_locked(service: Service) -> None:
    service.will_answer(LOCKING)
    assert refusal(service, A._replace(is_marker=True)).reason_class is ReasonClass.PERMANENT


def test_a_locked_version_of_a_key_that_xml_cannot_carry(service: Service) -> None:
    odd = A._replace(key="a\x01")
    service.will_refuse("AccessDenied", 403)
    service.will_answer(LOCKING)
    service.will_answer(x_amz_object_lock_legal_hold="ON")
    (refused,) = service.bucket.remove_versions([odd]).values()
    assert isinstance(refused, Failure)
    assert refused.reason_class is ReasonClass.LOCKED
    assert service.requests[0] == ("DELETE", "/a%01", {"versionId": "va"})


# tags


def test_tags_that_may_not_be_read_are_none(service: Service) -> None:
    service.will_refuse("AccessDenied", 403)
    assert service.bucket.tags([A]) == {A.id: None}


def test_tags_of_a_delete_marker_are_none(service: Service) -> None:
    service.will_refuse("MethodNotAllowed", 405)
    assert service.bucket.tags([A]) == {A.id: None}


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("SlowDown", 503, ReasonClass.THROTTLED),
        ("InternalError", 500, ReasonClass.TRANSIENT),
        ("NeverHeardOf", 400, ReasonClass.TRANSIENT),
        ("InvalidAccessKeyId", 403, ReasonClass.PERMANENT),
    ],
)
def test_tags_that_could_be_read_later_are_a_failure(
    service: Service, monkeypatch: pytest.MonkeyPatch, code: str, status: int, kind: ReasonClass
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the SDK's own attempts
    for _ in range(3 if status >= 500 else 1):
        service.will_refuse(code, status)
    assert failure_in(lambda: service.bucket.tags([A])).reason_class is kind


def test_tags_of_a_version_are_asked_by_its_id(service: Service) -> None:
    service.will_answer("<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>")
    assert service.bucket.tags([A]) == {A.id: {"k": "v"}}
    assert service.requests == [("GET", "/a", {"tagging": "", "versionId": "va"})]


def test_as_many_tags_are_read_together_as_the_client_has_connections(clients: Clients) -> None:
    """Each reading waits until so many are under way; no more than these ever are."""
    together, lock, under_way = threading.Barrier(AT_ONCE), threading.Lock(), [0]
    seen: list[int] = []

    def answer(request: Any, **_: object) -> AWSResponse:
        with lock:
            under_way[0] += 1
            seen.append(under_way[0])
        together.wait(timeout=30)
        with lock:
            under_way[0] -= 1
        return AWSResponse(request.url, 200, {}, _Raw(b"<Tagging><TagSet/></Tagging>"))

    bucket = S3Bucket(clients.s3, clients.s3_deletes, "items", OWNER)
    items = [A._replace(key=f"{number:03}") for number in range(3 * AT_ONCE)]
    clients.s3.meta.events.register("before-send.s3", answer)
    try:
        assert bucket.tags(items) == {item.id: {} for item in items}
    finally:
        clients.s3.meta.events.unregister("before-send.s3", answer)
    assert max(seen) == AT_ONCE

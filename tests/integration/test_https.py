"""Calls of endpoints, against a real server on the loopback address that misbehaves on request."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sexton.aws.https import READ_AWAY, HttpsEndpoints, resolve
from sexton.aws.secrets import KEPT, Secrets
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.http_call import HttpAnswer, HttpCall, idempotency_key

from tests.integration import misbehaving
from tests.integration.misbehaving import NAME, Server, answers, says, serving

CANARY = "Bearer tok_c4n4ry/with+signs=="


class Manager:
    """Secrets Manager with one secret."""

    def __init__(self, value: str = CANARY) -> None:
        self.value = value
        self.asked: list[str] = []

    def get_secret_value(self, *, SecretId: str) -> dict[str, Any]:
        self.asked.append(SecretId)
        return {"SecretString": self.value}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        yield made


def endpoints(server: Server, manager: Manager | None = None, **changes: Any) -> HttpsEndpoints:
    manager = manager or Manager()
    fields: dict[str, Any] = {"local_ca": server.issued.authority, "resolve": lambda host, port: ["127.0.0.1"]}
    return HttpsEndpoints(Secrets(lambda: manager), "a-stack", **{**fields, **changes})


def call(server: Server, **changes: Any) -> HttpCall:
    made = HttpCall(
        method="POST",
        url=f"https://{server.host}/carriers/dhl?id=4%2F1",
        hosts=(server.host,),
        secrets={"Authorization": "sexton/carriers"},
        job_id="the-job",
        body=b'{"id":"4/1"}',
        timeout=timedelta(seconds=5),
    )
    return replace(made, **changes)


def failure(server: Server, made: HttpsEndpoints | None = None, **changes: Any) -> Failure:
    with pytest.raises(CallFailed) as raised:
        (made or endpoints(server)).call(call(server, **changes))
    return raised.value.failure


# what is sent, and what is kept


def test_a_call_is_one_request_to_the_host_that_the_policy_names(server: Server) -> None:
    assert endpoints(server).call(call(server)) == HttpAnswer(204, "No Content")
    (request,) = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert (first, body) == ("POST /carriers/dhl?id=4%2F1 HTTP/1.1", b'{"id":"4/1"}')
    assert headers["Host"] == server.host
    assert headers["Idempotency-Key"] == idempotency_key("a-stack", "the-job")
    assert headers["Authorization"] == CANARY
    assert headers["Content-Type"] == "application/json"
    assert server.names == [NAME]


def test_the_usual_port_is_not_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that route by Host may know the name alone."""
    connect = socket.create_connection

    def elsewhere(address: tuple[str, int], timeout: float) -> socket.socket:
        assert address[1] == 443
        return connect((address[0], server.port), timeout)

    monkeypatch.setattr(socket, "create_connection", elsewhere)
    endpoints(server).call(call(server, url=f"https://{NAME}/", hosts=(NAME,)))
    (request,) = server.requests
    assert b"\r\nhost: %s\r\n" % NAME.encode() in request.lower()


def test_a_job_is_known_by_one_key_and_no_other_is(server: Server) -> None:
    keys = [idempotency_key(stack, job) for stack in ("a", "b") for job in ("run.1.00000000", "run.1.00000001")]
    assert keys == [idempotency_key(stack, job) for stack in ("a", "b") for job in ("run.1.00000000", "run.1.00000001")]
    assert len(set(keys)) == 4
    made = endpoints(server)
    for _ in range(2):
        made.call(call(server))
    first, again = (request.lower().split(b"idempotency-key: ")[1][:64] for request in server.requests)
    assert first == again


def test_a_policys_calls_keep_its_pace(server: Server) -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    made, pause = endpoints(server, sleep=sleep, monotonic=lambda: now[0]), timedelta(seconds=0.5)
    for _ in range(3):
        made.await_turn("one", pause)
    made.await_turn("another", pause)
    now[0] += 10
    made.await_turn("one", pause)
    assert slept == [0.5, 0.5]


def test_a_call_is_cut_off_when_the_worker_has_no_more_time_for_it(server: Server) -> None:
    server.behaves = [misbehaving.stays_silent(server.over)]
    made = endpoints(server, longest=timedelta(seconds=0.3))
    assert (failure(server, made).code, made.request_timeout()) == ("timeout", timedelta(seconds=0.3))


def test_a_call_without_a_body_has_none(server: Server) -> None:
    endpoints(server).call(call(server, method="DELETE", body=None))
    (request,) = server.requests
    assert request.startswith(b"DELETE ")
    assert b"content-" not in request.lower()


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [("7", 7, 7), ("0", 0, 0), ("soon", None, None), ("-3", None, None), ("", None, None), ("9" * 12, None, None)],
)
def test_how_long_it_asks_to_wait_is_kept(server: Server, given: str, least: float | None, most: float | None) -> None:
    server.behaves = [answers("429 Too Many Requests", Retry_After=given)]
    answer = endpoints(server).call(call(server))
    assert (answer.status, answer.retry_after, least) == (429, least, most)


def test_a_wait_may_be_a_date(server: Server) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    server.behaves = [answers("503 Service Unavailable", Retry_After=at)]
    answer = endpoints(server).call(call(server))
    assert answer.retry_after is not None
    assert 80 < answer.retry_after <= 90


def test_a_wait_until_the_past_is_none_at_all(server: Server) -> None:
    server.behaves = [answers("503 Service Unavailable", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")]
    assert endpoints(server).call(call(server)).retry_after == 0


@pytest.mark.parametrize("first", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_an_answer_that_announces_another_is_none_yet(server: Server, first: str) -> None:
    announced = f"HTTP/1.1 {first}\r\nLink: </a.css>\r\n\r\n".encode() * 2
    server.behaves = [says(announced + b"HTTP/1.1 204 Done\r\n\r\n"), says(announced)]
    assert endpoints(server).call(call(server)) == HttpAnswer(204, "Done")
    assert failure(server).code == "reply_lost"


def test_a_redirect_is_an_answer_and_is_not_followed(server: Server) -> None:
    server.behaves = [answers("302 Found", Location="http://169.254.169.254/latest/meta-data/")]
    assert endpoints(server).call(call(server)) == HttpAnswer(302, "Found")
    assert server.connections == 1


# where it goes


@pytest.mark.parametrize(
    "url",
    [
        "http://{host}/",
        "https://{host}.evil.example/",
        "https://evil.example/",
        "https://user@{host}/",
        "https://{name}/",
        "https://{name}:1/",
        "https://{host}/#x",
        "https://evil.example#@{host}/",
        "https://evil.example\\@{host}/",
    ],
)
def test_only_a_host_of_the_policy_is_called(server: Server, url: str) -> None:
    failed = failure(server, url=url.format(host=server.host, name=NAME))
    assert (failed.reason_class, failed.code, server.connections) == (ReasonClass.PERMANENT, "url_refused", 0)


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::ffff:169.254.169.254"], ["93.184.216.34", "127.0.0.1"], []],
)
def test_an_address_that_is_not_public_is_not_called(server: Server, addresses: list[str]) -> None:
    made = endpoints(server, local_ca=None, resolve=lambda host, port: addresses)
    failed = failure(server, made)
    assert failed.code == ("address_refused" if addresses else "name_unresolved")
    assert (failed.unknown_effect, server.connections) == (False, 0)


@pytest.mark.parametrize("address", ["93.184.216.34", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"])
def test_of_the_local_stage_only_loopback_is_called(server: Server, address: str) -> None:
    failed = failure(server, endpoints(server, resolve=lambda host, port: [address]))
    assert (failed.code, server.connections) == ("address_refused", 0)


def test_the_address_that_was_checked_is_the_one_connected_to(server: Server) -> None:
    """A name server that changes its answer: it is asked once, and the second answer is never used."""
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    made = endpoints(server, resolve=rebinding)
    assert made.call(call(server)).status == 204
    assert asked == [NAME]
    assert failure(server, made).code == "address_refused"
    assert server.connections == 1


def test_the_next_address_is_tried_where_one_does_not_answer(server: Server) -> None:
    assert endpoints(server, resolve=lambda host, port: ["::1", "127.0.0.1"]).call(call(server)).status == 204


def test_a_name_that_does_not_resolve_is_tried_again(server: Server) -> None:
    def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    failed = failure(server, endpoints(server, resolve=unknown))
    assert (failed.reason_class, failed.code, failed.unknown_effect) == (
        ReasonClass.TRANSIENT,
        "name_unresolved",
        False,
    )


def test_a_name_server_that_does_not_answer_is_not_waited_for(server: Server) -> None:
    def slow(host: str, port: int) -> Sequence[str]:
        server.over.wait(30)
        return ["127.0.0.1"]

    begun = time.monotonic()
    failed = failure(server, endpoints(server, resolve=slow), timeout=timedelta(seconds=0.3))
    assert (failed.code, failed.unknown_effect) == ("name_unresolved", False)
    assert time.monotonic() - begun < 3


def test_the_systems_resolver_is_asked_for_every_address() -> None:
    assert set(resolve("localhost", 443)) <= {"127.0.0.1", "::1"}


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "another.example.com", "127.0.0.1") as server:
        failed = failure(server)
    assert (failed.reason_class, failed.code, server.requests) == (ReasonClass.PERMANENT, "certificate_refused", [])


def test_a_certificate_of_an_authority_that_nobody_believes_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        failed = failure(server, endpoints(server, local_ca=other.issued.authority))
    assert (failed.code, server.requests) == ("certificate_refused", [])


def test_nobody_there_is_no_effect(server: Server) -> None:
    server.stop()
    failed = failure(server)
    assert (failed.reason_class, failed.unknown_effect) == (ReasonClass.TRANSIENT, False)
    assert failed.code == "not_connected"


# what goes wrong once it was sent: it may have been carried out


def test_no_answer_in_time_is_cut_off(server: Server) -> None:
    server.behaves = [misbehaving.stays_silent(server.over)]
    begun = time.monotonic()
    failed = failure(server, timeout=timedelta(seconds=0.5))
    assert (failed.reason_class, failed.code, failed.unknown_effect) == (ReasonClass.TRANSIENT, "timeout", True)
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize("begin", [b"HTT", b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 204 No Content\r\nX-Slow: "])
def test_an_answer_that_drips_forever_is_cut_off_at_the_same_time(server: Server, begin: bytes) -> None:
    server.behaves = [misbehaving.drips(server.over, begin)]
    begun = time.monotonic()
    failed = failure(server, timeout=timedelta(seconds=0.5))
    assert (failed.code, failed.unknown_effect) == ("timeout", True)
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize(
    "behaviour",
    [
        misbehaving.resets,
        says(b""),
        says(b"HTTP/1.1"),
        says(b"HTTP/1.1 200"),
        says(b"HTTP/1.1 204 No Content\r\n"),
        says(b"HTTP/1.1 204 No Content\r\nX: y"),
        says(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        says(b"HTTP/1.1 two hundred\r\n\r\n"),
        says(b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n"),
        says(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n"),
    ],
)
def test_an_answer_that_is_none_leaves_the_effect_unknown(server: Server, behaviour: misbehaving.Behaviour) -> None:
    server.behaves = [behaviour]
    failed = failure(server)
    assert (failed.reason_class, failed.code, failed.unknown_effect) == (ReasonClass.TRANSIENT, "reply_lost", True)
    assert server.connections == 1


# the body is nobody's affair


@pytest.mark.parametrize(
    "given",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nmore than two",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    ],
)
def test_a_body_of_a_wrong_length_changes_nothing(server: Server, given: bytes) -> None:
    server.behaves = [says(given)]
    assert endpoints(server).call(call(server)) == HttpAnswer(200, "OK")


def test_a_body_without_an_end_is_left(server: Server) -> None:
    server.behaves = [misbehaving.floods(server.over)]
    assert endpoints(server).call(call(server)) == HttpAnswer(200, "OK")
    assert READ_AWAY <= 65_536


def test_a_body_that_does_not_come_is_left(server: Server) -> None:
    server.behaves = [misbehaving.drips(server.over, b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")]
    begun = time.monotonic()
    assert endpoints(server).call(call(server, timeout=timedelta(seconds=1))).status == 200
    assert time.monotonic() - begun < 4


# secrets


def test_a_secret_is_read_once_for_five_minutes(server: Server) -> None:
    now, manager = [0.0], Manager()
    secrets = Secrets(lambda: manager, lambda: now[0])
    assert [secrets.read("sexton/a").fresh for _ in range(3)] == [True, False, False]
    now[0] = KEPT
    assert secrets.read("sexton/a").fresh
    assert manager.asked == ["sexton/a"] * 2


@pytest.mark.parametrize("value", ["", "  \n", "two\nlines", "a\rb", "schlüssel", "x" * 9000, "nul\0"])
def test_a_secret_that_is_no_headers_value_is_not_sent(server: Server, value: str) -> None:
    failed = failure(server, endpoints(server, Manager(value)))
    assert (failed.reason_class, failed.code, server.connections) == (ReasonClass.PERMANENT, "secret_unfit", 0)
    assert "schlüssel" not in failed.summary


def test_a_secret_may_end_in_a_newline(server: Server) -> None:
    endpoints(server, Manager("Bearer one\n")).call(call(server))
    assert b"Authorization: Bearer one\r\n" in server.requests[0]


def test_a_secret_that_was_changed_is_read_again(server: Server) -> None:
    """401 to a secret that was kept says nothing yet; to one just read it is an answer."""
    server.behaves = [answers(), answers("401 Unauthorized")]
    manager = Manager()
    made = endpoints(server, manager)
    made.call(call(server))
    failed = failure(server, made)
    assert (failed.reason_class, failed.code, failed.unknown_effect) == (
        ReasonClass.TRANSIENT,
        "secret_outdated",
        False,
    )
    assert made.call(call(server)).status == 401
    assert len(manager.asked) == 2


@pytest.mark.parametrize(
    "reason",
    [
        *(CANARY, CANARY[7:], f"bad token '{CANARY[7:]}'", f"x{CANARY}y", CANARY[7:15] + "\t" + CANARY),
        *(quote(CANARY, safe=""), CANARY.upper(), CANARY[:19]),
    ],
)
def test_no_secret_is_kept_of_an_answer_that_repeats_it(
    server: Server, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    repeated = [answers(f"401 {reason}", CANARY.encode(), X_Echo=CANARY), answers(f"422 {reason}", CANARY.encode())]
    server.behaves = [*repeated, says(f"HTTP/1.1 {CANARY}\r\n{CANARY}\r\n\r\n".encode())]
    made = endpoints(server)
    shown = [repr(made.call(call(server))) for _ in repeated]
    shown += [repr(failure(server, made)), repr(made.__dict__), caplog.text]
    assert not [text for text in shown if "c4n4ry" in text.lower() or "with+signs" in text]


def test_a_reason_is_short_and_plain(server: Server) -> None:
    server.behaves = [says(b"HTTP/1.1 422 <b>\x1b[31m" + b"x" * 5000 + b"\r\n\r\n")]
    answer = endpoints(server).call(call(server))
    assert len(answer.reason) <= 100
    assert "\x1b" not in answer.reason

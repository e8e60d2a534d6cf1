"""The client of control against a server on this machine: what is sent, and what becomes of each answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from boto3.session import Session
from sexton.aws import control
from sexton.aws.control import SignedControl
from sexton.change_request import Door
from sexton.deployment import ChangeRefused, ChangeUnsure
from sexton.errors import CallFailed, ReasonClass

ADA = "arn:aws:iam::123456789012:user/ada"
LOCAL = {
    Door.OPERATOR: "https://operateoperateoperateoperateopera.lambda-url.eu-central-1.on.aws/",
    Door.APPROVER: "https://approveapproveapproveapproveappro.lambda-url.eu-central-1.on.aws/",
}


@dataclass
class Served:
    """A server that gives one answer, `status` 0 for none at all, and remembers what it was asked."""

    port: int
    status: int = 200
    body: bytes = b'{"result": {"done": true}}'
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def served() -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if not made.status:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(made.status)
            self.send_header("content-length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, *_: Any) -> None:
            """Nothing is written."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Served(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    for name in ("AWS_PROFILE", "AWS_CA_BUNDLE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return Session("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "the-token", "eu-central-1")


def emulated(served: Served, session: Session) -> SignedControl:
    return SignedControl(session, LOCAL, served.url, lambda: ADA)


def on_aws(served: Served, session: Session) -> SignedControl:
    """As on AWS: there a door's URL is the whole address."""
    urls = {Door.OPERATOR: f"{served.url}/operate", Door.APPROVER: f"{served.url}/approve"}
    return SignedControl(session, urls, "https://lambda.eu-central-1.amazonaws.com", pytest.fail)


def test_a_request_is_signed_for_lambda_with_all_that_is_in_it(served: Served, session: Session) -> None:
    answer = on_aws(served, session).change("run_halt", {"run_id": "größer"}, "why")

    ((path, headers, body),) = served.asked
    assert answer == {"result": {"done": True}}
    assert path == "/operate"
    assert json.loads(body) == {"change": "run_halt", "run_id": "größer", "reason": "why"}
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/")
    assert "/eu-central-1/lambda/aws4_request" in headers["authorization"]
    assert headers["x-amz-security-token"] == "the-token"
    assert headers["content-type"] == "application/json"
    assert "x-sexton-actor" not in headers


@pytest.mark.parametrize(("change", "path"), [("pause", "/operate"), ("run_approve", "/approve")])
def test_each_change_goes_to_its_door(served: Served, session: Session, change: str, path: str) -> None:
    on_aws(served, session).change(change, {}, "why")
    assert [asked[0] for asked in served.asked] == [path]


def test_an_emulator_serves_the_doors_by_path_and_is_told_who_asks(served: Served, session: Session) -> None:
    emulated(served, session).change("run_undo", {}, "why")
    ((path, headers, _),) = served.asked
    assert path == "/_aws/lambda-url/approveapproveapproveapproveappro/"
    assert headers["x-sexton-actor"] == ADA
    assert "x-sexton-actor" in headers["authorization"]


def test_the_answer_of_a_stage_that_verifies_nobody_says_so(served: Served, session: Session) -> None:
    served.body = b'{"result": {}, "unverified": true}'
    assert emulated(served, session).change("pause", {}, "why")["unverified"] is True


@pytest.mark.parametrize("status", [400, 403, 404, 409])
def test_a_refusal_is_told_as_it_was_answered(served: Served, session: Session, status: int) -> None:
    served.status = status
    served.body = b'{"error": {"code": "run_halted", "message": "it is halted", "hint": "resume it"}}'
    with pytest.raises(ChangeRefused, match="it is halted") as refused:
        on_aws(served, session).change("pause", {}, "why")
    assert (refused.value.code, refused.value.hint) == ("run_halted", "resume it")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, b'{"error": {"code": "call_failed", "message": "SlowDown", "hint": "look"}}'),
        (502, b"Internal Server Error"),
        (502, b'{"message": "Internal Server Error"}'),
        (504, b""),
        (500, b"[]"),
        (200, b"<html>a proxy</html>"),
        (200, b"{}"),
        (200, b'{"result": 7}'),
    ],
)
def test_an_answer_that_does_not_tell_is_unsure(served: Served, session: Session, status: int, body: bytes) -> None:
    served.status, served.body = status, body
    with pytest.raises(ChangeUnsure):
        on_aws(served, session).change("pause", {}, "why")
    assert len(served.asked) == 1


def test_a_lost_answer_is_unsure_and_nothing_is_asked_twice(served: Served, session: Session) -> None:
    served.status = 0
    with pytest.raises(ChangeUnsure, match="no answer came"):
        on_aws(served, session).change("pause", {}, "why")
    assert len(served.asked) == 1


def test_an_answer_that_is_late_is_unsure_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = dict.fromkeys(Door, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        asking = SignedControl(session, urls, "https://lambda.eu-central-1.amazonaws.com", pytest.fail)
        with pytest.raises(ChangeUnsure, match="no answer came"):
            asking.change("pause", {}, "why")


def test_what_never_arrived_was_not_done(served: Served, session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(CallFailed) as failed:
        emulated(Served(port), session).change("pause", {}, "why")
    assert not failed.value.failure.unknown_effect


@pytest.mark.parametrize("body", [b'{"Message": "Forbidden"}', b'{"Message":"Forbidden. For troubleshooting ..."}'])
def test_a_closed_door_names_the_rights_that_open_it(served: Served, session: Session, body: bytes) -> None:
    served.status, served.body = 403, body
    with pytest.raises(
        CallFailed, match=r"approver's door.*lambda:InvokeFunctionUrl and lambda:InvokeFunction"
    ) as failed:
        on_aws(served, session).change("run_approve", {}, "why")
    assert (failed.value.failure.code, failed.value.failure.unknown_effect) == ("AccessDenied", False)


def test_a_throttled_call_can_be_made_again(served: Served, session: Session) -> None:
    served.status, served.body = 429, b'{"Message": "Rate exceeded"}'
    with pytest.raises(CallFailed) as failed:
        on_aws(served, session).change("pause", {}, "why")
    assert failed.value.failure.reason_class is ReasonClass.THROTTLED


def test_a_stack_of_before_has_no_doors(session: Session) -> None:
    old = SignedControl(session, dict.fromkeys(Door, ""), "https://lambda.eu-central-1.amazonaws.com", pytest.fail)
    with pytest.raises(ChangeRefused) as refused:
        old.change("pause", {}, "why")
    assert refused.value.code == "no_control"


def test_without_credentials_nothing_is_sent(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Session(region_name="eu-central-1")
    monkeypatch.setattr(nobody, "get_credentials", lambda: None)
    with pytest.raises(CallFailed, match="NoCredentialsError"):
        on_aws(served, nobody).change("pause", {}, "why")
    assert served.asked == []

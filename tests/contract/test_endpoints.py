"""The port Endpoints: the fake and the HTTPS client give the same answers of the same application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from sexton.aws.https import HttpsEndpoints
from sexton.aws.secrets import Secrets
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.http_call import HttpAnswer, HttpCall
from sexton.ports import Endpoints

from tests.fakes.endpoints import FakeEndpoints
from tests.fakes.time import FakeClock
from tests.integration import misbehaving
from tests.integration.misbehaving import Server, answers, serving

LONGEST = timedelta(seconds=2)


class World(Protocol):
    """An application, as the port reaches it."""

    host: str

    @property
    def endpoints(self) -> Endpoints: ...

    def will_answer(self, status: int, reason: str, retry_after: str = "") -> None: ...

    def will_lose_the_reply(self) -> None: ...

    def is_down(self) -> None: ...

    def asked(self) -> int:
        """How many requests it has had."""


@dataclass
class FakeApplication:
    fake: FakeEndpoints
    host: str = "carriers.example.com"

    @property
    def endpoints(self) -> Endpoints:
        return self.fake

    def will_answer(self, status: int, reason: str, retry_after: str = "") -> None:
        self.fake.answer = HttpAnswer(status, reason, float(retry_after) if retry_after else None)

    def will_lose_the_reply(self) -> None:
        self.fake.answer = Failure(ReasonClass.TRANSIENT, "reply_lost", "RemoteDisconnected", unknown_effect=True)

    def is_down(self) -> None:
        self.fake.answer = Failure(ReasonClass.TRANSIENT, "not_connected", "ConnectionRefusedError")

    def asked(self) -> int:
        return len(self.fake.calls)


@dataclass
class RealApplication:
    server: Server

    def __post_init__(self) -> None:
        self.host = self.server.host
        self.endpoints: Endpoints = HttpsEndpoints(
            Secrets(lambda: pytest.fail("no header has a secret")),
            "a-stack",
            LONGEST,
            local_ca=self.server.issued.authority,
            resolve=lambda host, port: ["127.0.0.1"],
        )

    def will_answer(self, status: int, reason: str, retry_after: str = "") -> None:
        more = {"Retry_After": retry_after} if retry_after else {}
        self.server.behaves = [answers(f"{status} {reason}", **more)]

    def will_lose_the_reply(self) -> None:
        self.server.behaves = [misbehaving.resets]

    def is_down(self) -> None:
        self.server.stop()

    def asked(self) -> int:
        return len(self.server.requests)


@contextmanager
def real(folder: Path) -> Iterator[World]:
    with serving(folder) as server:
        yield RealApplication(server)


@contextmanager
def fake(folder: Path) -> Iterator[World]:
    yield FakeApplication(FakeEndpoints(FakeClock(), LONGEST))


@pytest.fixture(params=[fake, real])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with request.param(tmp_path) as made:
        yield made


def call(world: World) -> HttpCall:
    url = f"https://{world.host}/reminders/1"
    return HttpCall("POST", url, (world.host,), {}, "a-job", b"{}", timedelta(seconds=1))


@pytest.mark.parametrize(("status", "reason"), [(200, "OK"), (204, "No Content"), (302, "Found"), (404, "Not Found")])
def test_an_answer_is_its_status_and_its_reason(world: World, status: int, reason: str) -> None:
    world.will_answer(status, reason)
    assert world.endpoints.call(call(world)) == HttpAnswer(status, reason)
    assert world.asked() == 1


def test_an_answer_may_ask_to_wait(world: World) -> None:
    world.will_answer(429, "Too Many Requests", retry_after="30")
    assert world.endpoints.call(call(world)) == HttpAnswer(429, "Too Many Requests", 30.0)


def test_a_lost_reply_leaves_the_effect_unknown(world: World) -> None:
    world.will_lose_the_reply()
    with pytest.raises(CallFailed) as raised:
        world.endpoints.call(call(world))
    failure = raised.value.failure
    assert (failure.reason_class, failure.code, failure.unknown_effect) == (ReasonClass.TRANSIENT, "reply_lost", True)
    assert world.asked() == 1  # it is not tried again by itself


def test_what_was_not_sent_had_no_effect(world: World) -> None:
    world.is_down()
    with pytest.raises(CallFailed) as raised:
        world.endpoints.call(call(world))
    failure = raised.value.failure
    assert (failure.reason_class, failure.code) == (ReasonClass.TRANSIENT, "not_connected")
    assert not failure.unknown_effect


def test_turns_can_be_waited_for(world: World) -> None:
    for _ in range(3):
        world.endpoints.await_turn("a-policy", timedelta(milliseconds=1))
    assert world.asked() == 0


def test_no_call_takes_longer_than_a_worker_has(world: World) -> None:
    assert world.endpoints.request_timeout() == LONGEST

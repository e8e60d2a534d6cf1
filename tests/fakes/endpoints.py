"""Endpoints in memory: an application that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sexton.errors import CallFailed, Failure
from sexton.http_call import HttpAnswer, HttpCall

from tests.fakes.time import FakeClock

DONE = HttpAnswer(204, "No Content")

Answering = HttpAnswer | Failure | Callable[[HttpCall], HttpAnswer]


class FakeEndpoints:
    """`answers`: to calls by their URL's end, the next one first, and then always `answer`."""

    def __init__(self, clock: FakeClock, longest: timedelta = timedelta(seconds=23)) -> None:
        self.clock = clock
        self.longest = longest
        self.calls: list[HttpCall] = []
        self.turns: list[tuple[str, timedelta]] = []
        self.answer: Answering = DONE
        self.answers: dict[str, list[Answering]] = {}

    def call(self, call: HttpCall) -> HttpAnswer:
        self.calls.append(call)
        waiting = next((each for end, each in self.answers.items() if call.url.endswith(end) and each), None)
        answering = waiting.pop(0) if waiting else self.answer
        if isinstance(answering, Failure):
            raise CallFailed(answering)
        return answering if isinstance(answering, HttpAnswer) else answering(call)

    def await_turn(self, policy: str, pause: timedelta) -> None:
        self.turns.append((policy, pause))

    def request_timeout(self) -> timedelta:
        return self.longest

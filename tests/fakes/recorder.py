"""Records the calls of all ports in one trace; lets the process end, or a reply get lost, at a chosen one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from sexton import ports
from sexton.errors import CallFailed, Failure, ReasonClass

PORTS: dict[str, Any] = {
    "table": ports.Table,
    "evidence": ports.Evidence,
    "queue": ports.Queue,
    "deliveries": ports.Deliveries,
    "bucket": ports.Bucket,
    "records": ports.RecordTable,
    "endpoints": ports.Endpoints,
    "discovery": ports.Discovery,
    "dead_letters": ports.DeadLetters,
    "schedules": ports.Schedules,
    "events": ports.Events,
    "gauges": ports.Gauges,
}
NO_CALL = {"request_timeout"}  # answers without asking AWS

LOST_REPLY = Failure(ReasonClass.TRANSIENT, "ReplyLost", "the reply was lost", unknown_effect=True)
LOST_REQUEST = Failure(ReasonClass.TRANSIENT, "RequestLost", "the request was not sent")

# These never raise: they answer for each item.
ANSWERS: dict[str, Callable[[Any, Failure], object]] = {
    "bucket.remove": lambda items, failure: {item.key: failure for item in items},
    "bucket.remove_versions": lambda items, failure: {item.id: failure for item in items},
    "bucket.abort_upload": lambda item, failure: failure,
    "records.change": lambda changes, failure: [failure for _ in changes],
}

P = TypeVar("P")


class Crash(BaseException):
    """The process ends here. A BaseException, so that no handler of errors can go on after it."""


class Call(NamedTuple):
    """One call of a port; `str` gives `port.method`."""

    port: str
    method: str
    args: tuple[object, ...]
    kwargs: dict[str, object]

    def __str__(self) -> str:
        return f"{self.port}.{self.method}"


Interruption = Callable[[Call], None]


@dataclass
class Trace:
    """The calls of all wrapped ports in order, and what is to happen at some of them (counted from 1)."""

    calls: list[Call] = field(default_factory=list)
    before: dict[int, Interruption] = field(default_factory=dict)
    after: dict[int, Interruption] = field(default_factory=dict)

    def wrap(self, port: str, real: P) -> P:
        """A stand-in for `real` whose calls are recorded under the name of the port.

        What is no call of the port (a fake's own attributes) is passed through unrecorded.
        """
        return cast(P, _Recorded(self, port, real))

    @property
    def names(self) -> list[str]:
        """The calls as `port.method`, in order."""
        return [str(call) for call in self.calls]

    def crash_before(self, nth: int) -> None:
        """End the process before the n-th call."""
        self.before[nth] = _crash

    def crash_after(self, nth: int) -> None:
        """End the process after the n-th call took effect, before anybody saw its reply."""
        self.after[nth] = _crash

    def lose_request(self, nth: int) -> None:
        """Let the n-th call fail before it does anything."""
        self.before[nth] = _lose_request

    def lose_reply(self, nth: int) -> None:
        """Let the n-th call take effect and then fail: the caller cannot tell."""
        self.after[nth] = _lose_reply

    def at(self, nth: int, action: Callable[[], object]) -> None:
        """Let something else happen just before the n-th call."""
        self.before[nth] = lambda _: _ignore(action())

    def calm(self) -> None:
        """Forget calls and plans: the next call is the first, and nothing happens to it."""
        self.calls.clear()
        self.before.clear()
        self.after.clear()

    def run(self, call: Call, real: Callable[..., object]) -> object:
        """Carry out one call with what is planned for it."""
        self.calls.append(call)
        nth = len(self.calls)
        try:
            if nth in self.before:
                self.before[nth](call)
            result = real(*call.args, **call.kwargs)
            # A listing that is read lazily is still one call here: it happens now.
            result = iter(list(result)) if isinstance(result, Iterator) else result
            if nth in self.after:
                self.after[nth](call)
        except CallFailed as failed:
            answer = ANSWERS.get(str(call))
            if answer is None:
                raise
            return answer(call.args[0], failed.failure)
        return result


class _Recorded:
    def __init__(self, trace: Trace, port: str, real: object) -> None:
        self._trace = trace
        self._port = port
        self._real = real
        self._methods = {name for name in vars(PORTS[port]) if name[0] != "_"} - NO_CALL

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        if name not in self._methods:
            return attribute

        @wraps(attribute)
        def recorded(*args: object, **kwargs: object) -> object:
            return self._trace.run(Call(self._port, name, args, kwargs), attribute)

        return recorded


def _crash(call: Call) -> None:
    raise Crash(str(call))


def _lose_request(call: Call) -> None:
    raise CallFailed(LOST_REQUEST)


def _lose_reply(call: Call) -> None:
    raise CallFailed(LOST_REPLY)


def _ignore(_: object) -> None:
    """An interruption has no answer."""

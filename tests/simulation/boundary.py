"""The edge of every flow: each port call is a request that takes time, and what the weather makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from sexton.attributes import canonical
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Send
from sexton.table import Check, Delete, Key, Row, Write

from tests.fakes.bucket import FakeBucket, Version
from tests.fakes.queue import FakeQueue
from tests.fakes.recorder import ANSWERS, LOST_REPLY, LOST_REQUEST, NO_CALL, PORTS, Call, Crash, Trace
from tests.fakes.records import FakeRecords
from tests.fakes.table import FakeTable
from tests.simulation.faults import Fault, Weather
from tests.simulation.reminders import Record
from tests.simulation.scheduling import Scheduler, Task

P = TypeVar("P")

SLOW_DOWN = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
TOO_FAST = Failure(ReasonClass.THROTTLED, "ThrottlingException", "too many requests")
IN_CONFLICT = Failure(ReasonClass.TRANSIENT, "TransactionConflict", "another transaction is ongoing for the item")
DENIED = Failure(ReasonClass.PERMANENT, "AccessDeniedException", "not authorized to perform dynamodb:DeleteItem")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)

REMOVALS = frozenset({"bucket.remove", "bucket.remove_versions", "bucket.abort_upload"})
TABLE_WRITES = frozenset({"table.write", "table.transact"})
WRITES = TABLE_WRITES | {"evidence.put_once", "queue.send", "deliveries.hide"}
STANDS_STILL = 1.0, 2.6  # powers of ten, of seconds: from ten to four hundred
LONGEST = 9.0  # seconds that one call may take; the adapters' clients give up after that
METHODS = {port: {name for name in vars(protocol) if name[0] != "_"} - NO_CALL for port, protocol in PORTS.items()}


@dataclass(frozen=True, slots=True)
class Changed:
    """A row before and after a write that took place."""

    key: Key
    old: Row | None
    new: Row


@dataclass(frozen=True, slots=True)
class Gone:
    """What a removal did to one key: `lost` is a version or upload that is no more, `marker` a marker it placed.

    `before` are the versions of the key before it, oldest first.
    """

    key: str
    lost: Version | None
    marker: Version | None
    before: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Touched:
    """A record before and after a call that changed it; `after` is None where it is no more."""

    table: str
    key: str
    before: Record | None
    after: Record | None


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that has just acted on a service, seen from the service."""

    at: datetime
    task: Task
    call: Call
    result: object
    service: object
    changed: tuple[Changed, ...] = ()
    gone: tuple[Gone, ...] = ()
    touched: tuple[Touched, ...] = ()


@dataclass(slots=True)
class Request:
    """One call under way. `exposed`: trouble may befall it. `sent`: it acts even if its caller is killed first."""

    task: Task
    call: Call
    name: str
    real: Callable[..., object]
    exposed: bool
    sent: bool

    @property
    def where(self) -> str:
        """What the weather knows it by: removals are of one sort, whatever they remove."""
        return f"removal by {self.name}" if self.name in REMOVALS or _deletes(self.call) else self.name


class Boundary(Trace):
    """What World takes for its trace: wrapped ports suspend the task that calls them."""

    def __init__(self, scheduler: Scheduler, weather: Weather, seen: Callable[[Effect], None]) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.weather = weather
        self.seen = seen
        self.told: Callable[[Task, Call, object, object], None] = lambda task, call, service, answer: None
        self.meanwhile: Callable[[FakeBucket, list[str], float], None] = lambda bucket, keys, seconds: None
        self.meanwhile_records: Callable[[list[Delete], float], None] = lambda deletes, seconds: None
        self.poison: set[str] = set()
        self.denied: set[str] = set()  # tables whose records may not be removed

    def wrap(self, port: str, real: P) -> P:
        return cast(P, _Wrapped(self, port, real))

    def run(self, call: Call, real: Callable[..., object]) -> object:
        """Carry out a call of the running task; of nobody's, at once."""
        task = self.scheduler.running
        if task is None:
            return real(*call.args, **call.kwargs)
        if not task.alive:
            raise Crash(task.name)
        weather, name = self.weather, str(call)
        exposed = not weather.calm and task.kind in weather.victims
        self._begin(Request(task, call, name, real, exposed, weather.random.random() < 0.5))
        answer = self.scheduler.suspend()
        self.told(task, call, getattr(real, "__self__", None), answer)
        if isinstance(answer, CallFailed):
            given = ANSWERS.get(name)
            if given is None:
                raise answer
            return given(call.args[0], answer.failure)
        return answer

    def _begin(self, request: Request) -> None:
        """Decide what becomes of a request, and when."""
        name, strikes = request.name, partial(self._strikes, request)
        there = self._takes(request)
        if self._poisoned(request.call):
            self.weather.happened[Fault.POISON] += 1
            return self._later(there, lambda: self.scheduler.kill(request.task))
        if name == "bucket.remove":
            keys = [item.key for item in cast("Sequence[Item]", request.call.args[0])]
            self.meanwhile(cast(FakeBucket, getattr(request.real, "__self__", None)), keys, there)
        deletes = _deletes(request.call)
        if deletes:
            self.meanwhile_records(deletes, there)
            if strikes(Fault.CONFLICT):
                return self._answer(there, request, CallFailed(IN_CONFLICT))
        if strikes(Fault.KILLED_BEFORE):
            return self._later(there, lambda: self.scheduler.kill(request.task))
        if strikes(Fault.BROKEN):
            unsure = name in REMOVALS and self.weather.random.random() < 0.7
            return self._answer(there, request, CallFailed(UNSURE if unsure else LOST_REQUEST))
        if strikes(Fault.THROTTLED):
            return self._answer(there, request, CallFailed(TOO_FAST if name.startswith("table") else SLOW_DOWN))
        if name in WRITES and strikes(Fault.APPLIED_LATE):
            request.sent = True
            self._later(there + self.weather.random.uniform(0, LONGEST), lambda: self._act(request))
            return self._answer(there, request, CallFailed(LOST_REPLY))
        return self._later(there, lambda: self._act_and_answer(request))

    def _act_and_answer(self, request: Request) -> None:
        if not (request.task.alive or request.sent):
            return
        came, strikes, name = self._act(request), partial(self._strikes, request), request.name
        back = 0.0 if self.weather.random.random() < 0.6 else self._takes(request)
        if strikes(Fault.LIVES_ON):
            # Before it goes on only: a request that is under way for minutes is no longer than its client waits for it.
            request.task.lives_on, back = True, 10 ** self.weather.random.uniform(*STANDS_STILL)
        if strikes(Fault.KILLED_AFTER):
            self._later(back, lambda: self.scheduler.kill(request.task))
        elif name in WRITES | REMOVALS and strikes(Fault.REPLY_LOST):
            self._answer(back, request, CallFailed(LOST_REPLY))
        elif name in WRITES and not isinstance(came, CallFailed) and strikes(Fault.REPEATED):
            request.sent = True
            self._later(back, lambda: self.scheduler.resume(request.task, self._act(request)))
        elif back:
            self._answer(back, request, came)
        else:
            self.scheduler.resume(request.task, came)

    def _strikes(self, request: Request, kind: Fault) -> bool:
        return request.exposed and self.weather.strikes(kind, request.where)

    def _takes(self, request: Request) -> float:
        """How long a request or a reply is under way."""
        random = self.weather.random.random()
        if self._strikes(request, Fault.SLOW):
            return 1 + random * (LONGEST - 1)
        return 0.01 + random * 0.2

    def _later(self, seconds: float, do: Callable[[], object]) -> None:
        self.scheduler.after(seconds, do)

    def _answer(self, seconds: float, request: Request, answer: object) -> None:
        self._later(seconds, lambda: self.scheduler.resume(request.task, answer))

    def _poisoned(self, call: Call) -> bool:
        if not self.poison:
            return False
        if call.method not in ("remove", "remove_versions"):
            return any(canonical(delete.key) in self.poison for delete in _deletes(call))
        return any(item.key in self.poison for item in cast("Sequence[Item]", call.args[0]))

    # what a service does, and what the oracles see of it

    def _act(self, request: Request) -> object:
        """The service carries the request out; everybody who watches sees what changed."""
        call, service, name = request.call, getattr(request.real, "__self__", None), request.name
        rows = _rows(call, service) if name in TABLE_WRITES else {}
        before = _standing(service) if name in REMOVALS else {}
        tables = cast(FakeTable, service).tables if _deletes(call) else {}
        records = {name: dict(table.records) for name, table in tables.items()}
        if name == "queue.send":
            self._refuse_some(request, cast(FakeQueue, service))
        if name in ("records.query", "records.scan") and self._strikes(request, Fault.CAPACITY_USED_UP):
            cast(FakeRecords, service).used_up = 1
        denied = any(delete.table in self.denied for delete in _deletes(call))
        result = CallFailed(DENIED) if denied else _carried_out(request)
        if name in REMOVALS:
            result = self._some_unsure(request, result)
        changed = tuple(
            Changed(key, old, new)
            for key, old in rows.items()
            if (new := cast(FakeTable, service).rows.get(key)) is not old and new is not None
        )
        gone = tuple(_gone(before, cast(FakeBucket, service))) if name in REMOVALS else ()
        touched = tuple(_touched(records, tables))
        self.seen(Effect(self.scheduler.clock(), request.task, call, result, service, changed, gone, touched))
        return result

    def _refuse_some(self, request: Request, queue: FakeQueue) -> None:
        messages = cast("Sequence[Send]", request.call.args[0])
        queue.refusals = {each.id: TOO_FAST for each in messages if self._strikes(request, Fault.SEND_REFUSED)}

    def _some_unsure(self, request: Request, result: object) -> object:
        if isinstance(result, Mapping):
            return {key: UNSURE if self._strikes(request, Fault.KEY_UNSURE) else came for key, came in result.items()}
        return UNSURE if self._strikes(request, Fault.KEY_UNSURE) else result


class _Wrapped:
    def __init__(self, boundary: Boundary, port: str, real: object) -> None:
        self._boundary, self._port, self._real = boundary, port, real

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        if name not in METHODS[self._port]:
            return attribute
        boundary, port = self._boundary, self._port
        return lambda *args, **kwargs: boundary.run(Call(port, name, args, kwargs), attribute)


def _carried_out(request: Request) -> object:
    try:
        result = request.real(*request.call.args, **request.call.kwargs)
    except CallFailed as failed:
        return failed
    # A listing that is read lazily is still one call here: it happens now.
    return list(result) if isinstance(result, Iterator) else result


def _rows(call: Call, table: object) -> dict[Key, Row | None]:
    """The rows that a write may change, as they are. Rows are replaced, never changed in place."""
    writes = call.args[0] if call.method == "transact" else call.args
    keys = [write.key for write in cast("Sequence[object]", writes) if isinstance(write, Write | Check)]
    return {key: cast(FakeTable, table).rows.get(key) for key in keys}


def _deletes(call: Call) -> list[Delete]:
    """What a transaction removes of other tables."""
    if call.method != "transact":
        return []
    return [write for write in cast("Sequence[object]", call.args[0]) if isinstance(write, Delete)]


def _touched(before: Mapping[str, Mapping[str, Record]], tables: Mapping[str, FakeRecords]) -> Iterator[Touched]:
    for name, records in before.items():
        now = tables[name].records
        for key in records.keys() | now.keys():
            if records.get(key) is not now.get(key):
                yield Touched(name, key, records.get(key), now.get(key))


Standing = dict[object, tuple[Version, ...]]


def _standing(bucket: object) -> Standing:
    real = cast(FakeBucket, bucket)
    return {key: tuple(versions) for key, versions in real.versions.items()} | {
        upload: (Version(upload[1] or "", item, item.last_modified or real.clock(), 0),)
        for upload, item in real.uploads.items()
    }


def _gone(before: Standing, bucket: FakeBucket) -> Iterator[Gone]:
    after = _standing(bucket)
    for key, versions in before.items():
        now = after.get(key, ())
        if now is versions or now == versions:
            continue
        name = key if isinstance(key, str) else cast("tuple[str, str]", key)[0]
        left = {version.number for version in now}
        yield from (Gone(name, version, None, versions) for version in versions if version.number not in left)
        had = {version.number for version in versions}
        yield from (Gone(name, None, version, versions) for version in now if version.number not in had)

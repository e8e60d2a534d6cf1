"""The edge of every flow: each port call is a request that takes time, and what the weather makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from sexton.attributes import canonical
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.http_call import HttpCall
from sexton.item import Item
from sexton.ports import Send
from sexton.table import Change

from tests.fakes.bucket import FakeBucket
from tests.fakes.queue import FakeQueue
from tests.fakes.recorder import ANSWERS, LOST_REPLY, LOST_REQUEST, NO_CALL, PORTS, Call, Crash, Trace
from tests.fakes.records import FakeRecords
from tests.fakes.table import FakeTable
from tests.simulation import effects
from tests.simulation.effects import BY_CALL, FROM_BUCKETS, FROM_TABLES, TABLE_WRITES, Effect, record_changes
from tests.simulation.faults import Fault, Weather
from tests.simulation.scheduling import Scheduler, Task

P = TypeVar("P")

SLOW_DOWN = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
TOO_FAST = Failure(ReasonClass.THROTTLED, "ThrottlingException", "too many requests")
IN_CONFLICT = Failure(ReasonClass.TRANSIENT, "TransactionConflict", "another transaction is ongoing for the item")
DENIED = Failure(ReasonClass.PERMANENT, "AccessDeniedException", "not authorized to perform dynamodb:DeleteItem")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)

REMOVALS = FROM_BUCKETS | {FROM_TABLES, BY_CALL}
WRITES = TABLE_WRITES | {"evidence.put_once", "queue.send", "deliveries.hide"}
LOSABLE = WRITES | REMOVALS
LISTING_RECORDS = frozenset({"records.query", "records.scan"})
STANDS_STILL = 1.0, 2.6  # powers of ten, of seconds: from ten to four hundred
LONGEST = 9.0  # seconds that one call may take; the adapters' clients give up after that
METHODS = {port: {name for name in vars(protocol) if name[0] != "_"} - NO_CALL for port, protocol in PORTS.items()}


@dataclass(slots=True)
class Request:
    """One call under way. `exposed`: trouble may befall it. `sent`: it acts even if its caller is killed first.

    `where` is what the weather knows it by: removals are of one sort, whatever they remove. `changes` are of records.
    """

    task: Task
    call: Call
    name: str
    where: str
    real: Callable[..., object]
    changes: Sequence[Change]
    exposed: bool
    sent: bool

    @property
    def service(self) -> object:
        """The fake that it goes to."""
        return getattr(self.real, "__self__", None)


class Boundary(Trace):
    """What World takes for its trace: wrapped ports suspend the task that calls them."""

    def __init__(self, scheduler: Scheduler, weather: Weather, seen: Callable[[Effect], None]) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.weather = weather
        self.seen = seen
        self.told: Callable[[Task, Call, object, object], None] = lambda task, call, service, answer: None
        self.meanwhile: Callable[[FakeBucket, list[str], float], None] = lambda bucket, keys, seconds: None
        self.meanwhile_records: Callable[[list[str], float], None] = lambda keys, seconds: None
        self.tables: Mapping[str, FakeRecords] = {}  # with records, by the names that addresses have
        self.poison: set[str] = set()
        self.denied: set[str] = set()  # keys of records that may not be removed

    def wrap(self, port: str, real: P) -> P:
        return cast(P, _Wrapped(self, port, real))

    def run(self, call: Call, real: Callable[..., object]) -> object:
        """Carry out a call of the running task; of nobody's, at once."""
        task = self.scheduler.running
        if task is None:
            return real(*call.args, **call.kwargs)
        if not task.alive:
            raise Crash(task.name)
        weather, name, changes = self.weather, str(call), record_changes(call)
        where = f"removal by {name}" if changes or name in REMOVALS else name
        exposed = not weather.calm and task.kind in weather.victims
        self._begin(Request(task, call, name, where, real, changes, exposed, weather.random.random() < 0.5))
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
        there = self._takes(request)
        if request.where is not request.name and self._meets_others(request, there):
            return
        if not request.exposed or not self._lost_on_its_way(request, there):
            self.scheduler.after(there, partial(self._act_and_answer, request))

    def _meets_others(self, request: Request, there: float) -> bool:
        """A removal has rivals, and may end its worker: whether it does."""
        keys = [canonical(change.key) for change in request.changes] or _keys_of_items(request)
        if not self.poison.isdisjoint(keys):
            self.weather.happened[Fault.POISON] += 1
            self.scheduler.after(there, lambda: self.scheduler.kill(request.task))
            return True
        if request.changes or request.name == BY_CALL:
            self.meanwhile_records(keys, there)
        elif request.name == "bucket.remove":
            self.meanwhile(cast(FakeBucket, request.service), keys, there)
        return False

    def _lost_on_its_way(self, request: Request, there: float) -> bool:
        """Whether something else becomes of it than that it acts once and is waited for."""
        name, strikes = request.name, partial(self._strikes, request)
        if request.changes and name not in REMOVALS and strikes(Fault.CONFLICT):
            self._answer(there, request, CallFailed(IN_CONFLICT))
        elif strikes(Fault.KILLED_BEFORE):
            self.scheduler.after(there, lambda: self.scheduler.kill(request.task))
        elif strikes(Fault.BROKEN):
            unsure = name in REMOVALS and self.weather.random.random() < 0.7
            self._answer(there, request, CallFailed(UNSURE if unsure else LOST_REQUEST))
        elif strikes(Fault.THROTTLED):
            self._answer(there, request, CallFailed(TOO_FAST if name.startswith("table") else SLOW_DOWN))
        elif name in WRITES and strikes(Fault.APPLIED_LATE):
            request.sent = True
            late = there + self.weather.random.uniform(0, LONGEST)
            self.scheduler.after(late, lambda: self._act(request))
            self._answer(there, request, CallFailed(LOST_REPLY))
        else:
            return False
        return True

    def _act_and_answer(self, request: Request) -> None:
        if not (request.task.alive or request.sent):
            return
        came = self._act(request)
        back = 0.0 if self.weather.random.random() < 0.6 else self._takes(request)
        if request.exposed:
            self._answer_or_not(request, came, back)
        elif back:
            self._answer(back, request, came)
        else:
            self.scheduler.resume(request.task, came)

    def _answer_or_not(self, request: Request, came: object, back: float) -> None:
        strikes, name = partial(self._strikes, request), request.name
        if strikes(Fault.LIVES_ON):
            # Before it goes on only: a request that is under way for minutes is no longer than its client waits for it.
            request.task.lives_on, back = True, 10 ** self.weather.random.uniform(*STANDS_STILL)
        if strikes(Fault.KILLED_AFTER):
            self.scheduler.after(back, lambda: self.scheduler.kill(request.task))
        elif name in LOSABLE and strikes(Fault.REPLY_LOST):
            self._answer(back, request, CallFailed(LOST_REPLY))
        elif name in WRITES and not isinstance(came, CallFailed) and strikes(Fault.REPEATED):
            request.sent = True
            self.scheduler.after(back, lambda: self.scheduler.resume(request.task, self._act(request)))
        elif back:
            self._answer(back, request, came)
        else:
            self.scheduler.resume(request.task, came)

    def _strikes(self, request: Request, kind: Fault) -> bool:
        return request.exposed and self.weather.strikes(kind, request.where)

    def _takes(self, request: Request) -> float:
        """How long a request or a reply is under way."""
        random = self.weather.random.random()
        if request.exposed and self._strikes(request, Fault.SLOW):
            return 1 + random * (LONGEST - 1)
        return 0.01 + random * 0.2

    def _answer(self, seconds: float, request: Request, answer: object) -> None:
        self.scheduler.after(seconds, partial(self.scheduler.resume, request.task, answer))

    # what a service does, and what the oracles see of it

    def _act(self, request: Request) -> object:
        """The service carries the request out; everybody who watches sees what changed."""
        name, service = request.name, request.service
        effect = Effect(self.scheduler.clock(), request.task, request.call, name, None, service)
        if name in FROM_BUCKETS:
            versions = effects.standing(cast(FakeBucket, service))
            effect.result = self._some_unsure(request, _carried_out(request))
            effect.gone = tuple(effects.gone(versions, cast(FakeBucket, service)))
        elif name in TABLE_WRITES or name in (FROM_TABLES, BY_CALL):
            self._write(request, effect)
        else:
            self._prepare(request)
            effect.result = _carried_out(request)
        self.seen(effect)
        return effect.result

    def _write(self, request: Request, effect: Effect) -> None:
        """Of the ledger's rows, of records, or of both."""
        table = cast(FakeTable, request.service) if request.name in TABLE_WRITES else None
        rows = effects.rows_before(request.call, table) if table else {}
        of_records = bool(request.changes) or request.name == BY_CALL
        records = effects.records_before(self.tables) if of_records else {}
        if any(canonical(change.key) in self.denied for change in request.changes):
            effect.result = CallFailed(DENIED)
        else:
            effect.result = _carried_out(request)
        if request.name == FROM_TABLES:
            effect.result = self._some_unsure(request, effect.result)
        effect.changed = tuple(effects.changed(rows, table)) if table else ()
        effect.touched = tuple(effects.touched(records, self.tables)) if records else ()

    def _prepare(self, request: Request) -> None:
        """What a service itself does not do well."""
        if request.name == "queue.send":
            messages = cast("Sequence[Send]", request.call.args[0])
            refused = {each.id: TOO_FAST for each in messages if self._strikes(request, Fault.SEND_REFUSED)}
            cast(FakeQueue, request.service).refusals = refused
        elif request.name in LISTING_RECORDS and self._strikes(request, Fault.CAPACITY_USED_UP):
            cast(FakeRecords, request.service).used_up = 1

    def _some_unsure(self, request: Request, result: object) -> object:
        if not request.exposed or isinstance(result, CallFailed):
            return result
        if isinstance(result, Mapping):
            return {key: self._unsure_or(request, came) for key, came in result.items()}
        if isinstance(result, list):
            return [self._unsure_or(request, came) for came in result]
        return self._unsure_or(request, result)

    def _unsure_or(self, request: Request, came: object) -> object:
        return UNSURE if self._strikes(request, Fault.KEY_UNSURE) else came


class _Wrapped:
    def __init__(self, boundary: Boundary, port: str, real: object) -> None:
        self._boundary, self._port, self._real = boundary, port, real

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        if name not in METHODS[self._port]:
            return attribute
        run, port = self._boundary.run, self._port

        def called(*args: object, **kwargs: object) -> object:
            return run(Call(port, name, args, kwargs), attribute)

        self.__dict__[name] = called  # so that the next call need not come here
        return called


def _keys_of_items(request: Request) -> list[str]:
    """Of what is removed from a bucket, or named to an endpoint; uploads have no rivals."""
    if request.name == "bucket.abort_upload":
        return []
    if request.name == BY_CALL:
        named = json.loads(cast(HttpCall, request.call.args[0]).body or b"{}")["key"]
        return [canonical({name: {"S": value} for name, value in named.items()})]
    return [item.key for item in cast("Sequence[Item]", request.call.args[0])]


def _carried_out(request: Request) -> object:
    try:
        result = request.real(*request.call.args, **request.call.kwargs)
    except CallFailed as failed:
        return failed
    # A listing that is read lazily is still one call here: it happens now.
    return list(result) if isinstance(result, Iterator) else result

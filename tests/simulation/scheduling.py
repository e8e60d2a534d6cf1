"""One thread, virtual time, an order that the seed decides: each invocation is a task, suspended at its port calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count

from greenlet import getcurrent, greenlet
from sexton.errors import SextonError
from sexton.table import Key

from tests.fakes.recorder import Crash
from tests.fakes.time import START, FakeClock
from tests.simulation.violation import Violation

Do = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended: with a `result`, with an `error` of Sexton's own, or killed."""

    result: object = None
    error: SextonError | None = None
    killed: bool = False


@dataclass(eq=False)
class Task:
    """One invocation of a function, or a person at the command line.

    `skew`: how far its clock is from the true time. `leases`: job rows and tokens of its claims.
    `versions`: by policy, the version that the function was deployed with when it began.
    """

    name: str
    kind: str
    skew: timedelta = timedelta()
    versions: dict[str, str] = field(default_factory=dict)
    leases: list[tuple[Key, str]] = field(default_factory=list)
    alive: bool = True
    lives_on: bool = False  # past its limit
    body: greenlet | None = None
    ended: Callable[[Ended], object] = lambda _: None


class SimulatedClock(FakeClock):
    """The true time for the services; the time with its skew for the task that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.skew = timedelta()

    def __call__(self) -> datetime:
        return self._now + self.skew


class Scheduler:
    """Runs events in the order of their times, and of two at one time the one that was asked for first."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.running: Task | None = None
        self.tasks: list[Task] = []
        self.seconds = 0.0  # since the beginning
        self._events: list[tuple[float, int, Do]] = []
        self._numbers = count()
        self._hub = getcurrent()

    def after(self, seconds: float, do: Do) -> None:
        """Do something so many seconds from now."""
        heappush(self._events, (self.seconds + seconds, next(self._numbers), do))

    def start(self, task: Task, body: Do, limit: float, timed_out: Do) -> None:
        """Begin a task now; past its limit it is killed wherever it is, as Lambda does."""
        task.body = greenlet(lambda: self._run(task, body), self._hub)
        self.tasks.append(task)

        def end() -> None:
            if task.alive and not task.lives_on:
                timed_out()
                self.kill(task)

        self.after(limit, end)
        self.after(0, lambda: self._switch(task, None))

    def suspend(self) -> object:
        """In a task: let the others go on, until `resume` hands in what this returns."""
        return self._hub.switch()

    def resume(self, task: Task, value: object) -> None:
        """Let a suspended task go on; one that was killed meanwhile does not."""
        if task.alive:
            self._switch(task, value)

    def kill(self, task: Task) -> None:
        """End a task where it stands. It sees a Crash that nothing may catch."""
        if not task.alive or task.body is None:
            return
        task.alive = False
        if task.body:
            self._enter(task, task.body.throw, Crash(task.name))
        else:
            self._over(task, Ended(killed=True))  # it had not begun

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until then, or until it is done."""
        while self._events and self._events[0][0] <= until and not done():
            self.seconds, _, do = heappop(self._events)
            self.clock.move_to(START + timedelta(seconds=self.seconds))
            do()
        if not done() and until > self.seconds:
            self.seconds = until
            self.clock.move_to(START + timedelta(seconds=until))

    def busy(self) -> bool:
        """Whether some task is still under way."""
        return bool(self.tasks)

    def abandon(self) -> None:
        """End everything that is still suspended, so that nothing outlives the history."""
        for task in list(self.tasks):
            task.ended = lambda _: None
            self.kill(task)

    def _run(self, task: Task, body: Do) -> None:
        try:
            ended = Ended(result=body())
        except SextonError as error:
            ended = Ended(error=error)
        except Crash:
            ended = Ended(killed=True)
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{task.name} broke off with {type(error).__name__}: {error}") from error
        self._over(task, ended)

    def _over(self, task: Task, ended: Ended) -> None:
        task.alive = False
        self.tasks.remove(task)
        self.after(0, lambda: task.ended(ended))

    def _switch(self, task: Task, value: object) -> None:
        if task.alive and task.body is not None:
            self._enter(task, task.body.switch, *([value] if task.body else []))

    def _enter(self, task: Task, enter: Callable[..., object], *value: object) -> None:
        """Let a task run until it is suspended again, or over."""
        outer = self.running, self.clock.skew
        self.running, self.clock.skew = task, task.skew
        try:
            enter(*value)
        finally:
            self.running, self.clock.skew = outer

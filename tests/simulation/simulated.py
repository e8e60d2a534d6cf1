"""A world whose functions are tasks: triggered, ticking, polling, killed, and tried again as Lambda does it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from sexton.errors import SextonError
from sexton.policy import Policy
from sexton.ports import TimeLeft
from sexton.working import Answer, Delivery

from tests.fakes.queue import FakeQueue, Message
from tests.fakes.records import FakeRecords
from tests.fakes.table import FakeTable
from tests.fakes.time import START, FakeTimeLeft
from tests.fakes.world import WORKER_TIMEOUT, World
from tests.simulation.boundary import Boundary
from tests.simulation.effects import Effect
from tests.simulation.faults import Fault, Weather
from tests.simulation.scheduling import Ended, Scheduler, Task

TICK = 60.0
WORKERS = 3  # at once
RECEIVES = 4  # of one message, before it goes to the dead-letter queue
LONGEST_SKEW = 2.0  # seconds, either way
DISCOVERY_LIMIT, TICK_LIMIT = 300.0, 300.0
RETRIED_AFTER = (60.0, 120.0)  # an asynchronous invocation that failed, twice


@dataclass(frozen=True, slots=True)
class Sight:
    """Those who watch: every effect, the end of every task, and what a worker answers for a message."""

    effect: Callable[[Effect], None]
    ended: Callable[[Task, Ended], None]
    answered: Callable[[Task, Message, Answer], None]


class SimulatedWorld(World):
    """The real flows over the fakes, as tasks of one scheduler."""

    def __init__(self, scheduler: Scheduler, weather: Weather, sight: Sight, policies: dict[str, Policy]) -> None:
        self.scheduler, self.weather, self.sight = scheduler, weather, sight
        super().__init__(policies=dict(policies), clock=scheduler.clock)
        self.trace: Boundary = Boundary(scheduler, weather, self._seen)
        self.table = FakeTable(page_size=weather.random.choice((3, 1000, 1000)))
        self.tables: Mapping[str, FakeRecords] = ChainMap(
            self.table.tables, self.elsewhere
        )  # by their names in addresses
        self.trace.tables = self.tables
        self.queue = FakeQueue(self.clock, visibility=self.queue.visibility, max_receive_count=RECEIVES)
        self.jitter = lambda ceiling: weather.random.uniform(0, ceiling)
        self.deployed = {policy_id: (policy, policy) for policy_id, policy in policies.items()}
        self.stale_until = 0.0  # some instances of the functions still have the policies of before
        self._numbers: dict[str, count[int]] = {}
        self._workers = 0
        self.ticking = True
        self.tick_every = weather.random.choice((TICK, TICK, 2 * TICK, 3 * TICK))  # more would find little to do
        self._ticks = 0
        self._poll_at: float | None = None

    # tasks

    def begin(
        self, kind: str, body: Callable[[], object], limit: float, ended: Callable[[Ended], object] = lambda _: None
    ) -> Task:
        """Begin an invocation; the policies that it is deployed with are those of its instance."""
        number, policies = next(self._numbers.setdefault(kind, count(1))), self._instance()
        versions = {policy_id: policy.version for policy_id, policy in policies.items()}
        task = Task(f"{kind}-{number}", kind, self._skew(), versions)

        def run() -> object:
            self.policies = policies
            return body()

        def done(how: Ended) -> None:
            self.sight.ended(task, how)
            ended(how)

        task.ended = done
        self.scheduler.start(task, run, limit, lambda: self._count(Fault.TIMED_OUT))
        return task

    def _skew(self) -> timedelta:
        if not self.weather.strikes(Fault.SKEWED):
            return timedelta()
        return timedelta(seconds=self.weather.random.uniform(-LONGEST_SKEW, LONGEST_SKEW))

    def _instance(self) -> dict[str, Policy]:
        """Right after a deploy an instance may still be one of before."""
        stale = self.scheduler.seconds < self.stale_until and self.weather.random.random() < 0.5
        return {policy_id: pair[0 if stale else 1] for policy_id, pair in self.deployed.items()}

    def deploy(self, policy: Policy, half_done_for: float) -> None:
        """Deploy a policy; for a while some instances still have the one before."""
        self.deployed[policy.id] = (self.deployed[policy.id][1], policy)
        self.stale_until = self.scheduler.seconds + half_done_for

    def log(self, event: str, **fields: object) -> None:
        """Where people's changes are logged."""
        self._log(event, **fields)

    def _count(self, fault: Fault) -> None:
        self.weather.happened[fault] += 1

    def _seen(self, effect: Effect) -> None:
        self.sight.effect(effect)
        if effect.call.port in ("queue", "deliveries"):
            self.poll()

    # discovery

    def invoke_discovery(self, event: dict[str, object], again: Sequence[float] = RETRIED_AFTER) -> None:
        """An asynchronous invocation: what fails is tried twice more."""

        def ended(how: Ended) -> None:
            if again and (how.killed or how.error):
                self.scheduler.after(again[0], lambda: self.invoke_discovery(event, again[1:]))

        if any(task.kind == "discovery" for task in self.scheduler.tasks):
            self._count(Fault.PLANNERS_OVERLAP)
        limit = self.weather.random.choice((45.0, DISCOVERY_LIMIT, DISCOVERY_LIMIT))
        self.begin("discovery", lambda: self.discover(event, self._time_left(limit)), limit, ended)

    def _time_left(self, limit: float) -> TimeLeft:
        return FakeTimeLeft(self.clock, timedelta(seconds=limit))

    def schedule(self, policy_id: str, at: datetime) -> None:
        """The schedule's delivery, with its own scheduled time."""
        event: dict[str, object] = {"policy": policy_id, "scheduled_time": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
        late = self.weather.random.uniform(60, 1200) if self.weather.strikes(Fault.TRIGGERED_LATE) else 1.0
        self.scheduler.after(late, lambda: self.invoke_discovery(event))
        if self.weather.strikes(Fault.TRIGGERED_TWICE):
            self.scheduler.after(late + self.weather.random.uniform(0, 90), lambda: self.invoke_discovery(event))

    def resume(self, run_id: str) -> None:
        """The Discovery port: an invocation is accepted, and begins a moment later."""
        self.scheduler.after(self.weather.random.uniform(0.05, 1), lambda: self.invoke_discovery({"resume": run_id}))

    # the tick

    def invoke_tick(self) -> None:
        """One tick, also while the last one is still under way."""
        if self._ticks:
            self._count(Fault.TICKS_OVERLAP)
        self._ticks += 1

        def ended(_: Ended) -> None:
            self._ticks -= 1

        self.begin("tick", self.tick, TICK_LIMIT, ended)

    def keep_ticking(self) -> None:
        """A tick a minute; some do not come."""
        if not self.ticking:
            return
        if not self.weather.strikes(Fault.TICK_MISSED):
            self.invoke_tick()
        self.scheduler.after(self.tick_every, self.keep_ticking)

    # the event source mapping

    def poll(self) -> None:
        """Receive as soon as there is something to receive and a worker free for it."""
        visible = self.queue.next_visible()
        if visible is None or self._workers >= WORKERS:
            return
        due = max(self.scheduler.seconds, (visible - START).total_seconds())
        if self._poll_at is None or due < self._poll_at:
            self._poll_at = due
            self.scheduler.after(due - self.scheduler.seconds, lambda: self._poll(due))

    def _poll(self, at: float) -> None:
        if self._poll_at != at:
            return  # an earlier poll has taken its place
        self._poll_at = None
        if self._workers < WORKERS:
            batch = self.queue.receive(self.weather.random.choice((1, 2, 10)))
            if batch:
                self._invoke_worker(batch)
        self.poll()

    def _invoke_worker(self, batch: Sequence[Message]) -> None:
        self._workers += 1

        def ended(how: Ended) -> None:
            self._workers -= 1
            for message in batch:
                if not how.killed and message.message_id not in how.result:  # type: ignore[operator]
                    self.queue.ack(message.receipt)
                elif how.killed:
                    self._count(Fault.VISIBLE_AGAIN)
            self.poll()

        limit = WORKER_TIMEOUT.total_seconds()
        self.begin("worker", lambda: self._work_batch(batch, limit), limit, ended)

    def _work_batch(self, batch: Sequence[Message], limit: float) -> list[str]:
        """What the worker's handler does: answers with the messages that are kept."""
        working, kept = self.working(self._time_left(limit)), set[str]()
        for message in batch:
            try:
                answer = working.work(Delivery(message.message_id, message.receipt, message.body, message.sent_at))
            except SextonError:
                answer = Answer.KEEP
            assert self.scheduler.running is not None
            self.sight.answered(self.scheduler.running, message, answer)
            if answer is Answer.KEEP:
                kept.add(message.message_id)
        return sorted(kept)

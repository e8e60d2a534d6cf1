"""One seed's history: a time of troubles, then calm; judged at every step, and at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random

from sexton.approval import PLAN_TTL
from sexton.controls import pause_key
from sexton.instant import from_ms, ms
from sexton.run import WAITING
from sexton.table import Row
from sexton.working import Answer

from tests.fakes.queue import Message
from tests.fakes.time import START
from tests.simulation.called import Called
from tests.simulation.effects import Effect
from tests.simulation.faults import Fault, Weather
from tests.simulation.operating import Operator
from tests.simulation.oracles.acks import Acks
from tests.simulation.oracles.calls import Calls
from tests.simulation.oracles.closing import Closing
from tests.simulation.oracles.plans import Plans
from tests.simulation.oracles.records import RecordRemovals
from tests.simulation.oracles.removals import Removals
from tests.simulation.oracles.rows import Rows, is_run
from tests.simulation.oracles.store import Store
from tests.simulation.outside import Outside
from tests.simulation.scenario import Scenario
from tests.simulation.scheduling import Ended, Scheduler, Task
from tests.simulation.simulated import TICK, Sight, SimulatedWorld
from tests.simulation.tracing import Story
from tests.simulation.violation import Violation
from tests.simulation.visits import Visits

CALM_WITHIN = timedelta(days=3).total_seconds()  # after the troubles: the longest that a lost message waits is a day
COME_AGAIN = 0.4  # of the histories have a second time of troubles, with closed runs and dead jobs to begin with
TIDIED_UP = 0.5
FORGOTTEN = 0.1
MOST_STEPS = 30_000  # most histories have a few hundred
QUIET = {  # calls that change nothing, and of which no judge wants to know
    *(
        "table.query",
        "table.query_open",
        "evidence.get",
        "evidence.list",
        "gauges.put",
        "events.put",
        "discovery.resume",
    ),
    *("bucket.list", "bucket.head", "bucket.tags", "bucket.versioning", "bucket.list_uploads"),
    *("records.shape", "records.query", "records.scan", "records.get", "records.read", "endpoints.await_turn"),
}
AWAITED = ("dispatch_due", "lease_expires_at", "not_before", "planner_until", "mismatch_since", "first_claim_at")


class History:
    """Everything that one seed decides."""

    def __init__(self, seed: int, story: Story | None = None) -> None:
        self.seed, self.story = seed, story
        self.random = Random(seed)
        self.weather = Weather.drawn(self.random)
        self.scenario = Scenario.drawn(self.random)
        self.scheduler = Scheduler()
        self.world = SimulatedWorld(
            self.scheduler, self.weather, Sight(self._saw, self._ended, self._answered), self.scenario.policies
        )
        self.scenario.fill(self.world)
        self.store = Store(self.world.buckets, self.world.tables)
        self.rows = Rows(self.scenario.rules)
        self.plans = Plans(self.store, self.world.evidence, self.scenario.rules)
        self.removals = Removals(self.store, self.plans, self.world.table)
        self.acks = Acks(self.world.table)
        records = RecordRemovals(self.removals, self.world.evidence)
        calls = Calls(self.removals, records)
        closing = Closing(self.plans, self.removals, self.world.table, self.world.evidence)
        self.judges = (self.rows, self.plans, self.removals, records, calls, self.acks, closing)
        Called(self.world, self.scenario)
        self.outside = Outside(self.world, self.scenario, self.store)
        self.outside.around = self.plans.looked
        self.world.trace.meanwhile = self.outside.race
        self.world.trace.meanwhile_records = self.outside.race_for_records
        self.operator = Operator(self.world, active=self.random.random() < 0.6)
        self.steps = 0
        if story is not None:
            story.now = lambda: self.scheduler.seconds
            story.name_of = self._name_of
            self.world.trace.told = story.called
            self.outside.told = lambda text: story.tell("outside", text)

    def run(self) -> Visits:
        """Live through it. Raises Violation where a promise is broken."""
        try:
            self._troubles(self.scenario.minutes)
            self._calm()
            if self.random.random() < COME_AGAIN:
                self.operator.look_back()
                self._troubles(self.random.randint(4, 8))
                self._calm()
            if self.random.random() < FORGOTTEN:
                self._forget()
            if self.random.random() < TIDIED_UP:
                self._tidy_up()
        finally:
            self.scheduler.abandon()
        happened = Counter({str(kind): number for kind, number in self.weather.happened.items()})
        return Visits(self.rows.visited, happened, self.steps)

    def _troubles(self, minutes: int) -> None:
        """Schedules fire, ticks come, and everything else that the weather has in store."""
        self._tell("troubles begin")
        self.weather.calm, self.world.ticking, begun = False, True, self.scheduler.seconds
        for policy_id in self.scenario.policies:
            for _ in range(self.random.choice((1, 1, 2))):
                self._schedule(policy_id, int(begun + self.random.uniform(0, minutes * 10)))
        self.world.keep_ticking()
        self.outside.keep_acting()
        self.operator.keep_acting()
        self.scheduler.run(until=begun + minutes * 60.0)

    def _schedule(self, policy_id: str, at: int) -> None:
        due = START + timedelta(seconds=at)
        self.scheduler.after(at - self.scheduler.seconds, lambda: self.world.schedule(policy_id, due))

    def _calm(self) -> None:
        """Nothing goes wrong any more: every run closes, or waits for a person, in bounded time."""
        self._tell("calm begins")
        self.weather.calm, self.world.ticking = True, False
        self.world.table.thaw_index()
        self.scheduler.run(until=self.scheduler.seconds + 2 * TICK)
        self._settle()

    def _forget(self) -> None:
        """Nobody comes for so long that plans expire: then none waits any more."""
        waiting = [run["run_id"] for run in self._runs() if run["state"] in WAITING]
        if not waiting:
            return
        self._tell("nobody comes for days")
        self.scheduler.run(until=self.scheduler.seconds + (PLAN_TTL + timedelta(minutes=1)).total_seconds())
        for _ in range(2):
            self.world.invoke_tick()
            self.scheduler.run(until=self.scheduler.seconds + 4 * TICK)
        self._settle()
        old = ms(self.world.clock() - PLAN_TTL - 2 * timedelta(seconds=4 * TICK))
        still = [run["run_id"] for run in self._runs() if run["state"] in WAITING and run["planned_at"] < old]
        if still:
            raise Violation(f"{still} wait for approval of plans that have expired")
        self.weather.happened[Fault.FORGOTTEN] += len(waiting)

    def _tidy_up(self) -> None:
        """People do whatever is waited for: then nothing is left open."""
        self._tell("people tidy up")
        while self.operator.tidy_up():
            self.scheduler.run(until=self.scheduler.seconds + TICK)
            self._settle()

    def _tell(self, what: str) -> None:
        if self.story is not None:
            self.story.tell("", f"--- {what} ---")

    def _settle(self) -> None:
        end = self.scheduler.seconds + CALM_WITHIN
        while not self._settled():
            if self.scheduler.seconds > end:
                raise Violation(f"still open after {timedelta(seconds=CALM_WITHIN)}: {sorted(self._open())}")
            self.scheduler.run(until=self.scheduler.seconds + max(self._quiet_for(), 4 * TICK))
            self.world.invoke_tick()
            self.scheduler.run(until=self.scheduler.seconds + TICK)

    def _quiet_for(self) -> float:
        """Seconds until something is due; the ticks in between would find nothing to do."""
        now, waits = self.world.clock(), [self.world.queue.next_visible()]
        for row in self.world.table.rows.values():
            waits += [from_ms(row[name]) for name in AWAITED if name in row]
        ahead = [(at - now).total_seconds() for at in waits if at is not None and at > now]
        return min(ahead, default=TICK * 5) if not self.scheduler.tasks else 0.0

    def _runs(self) -> Iterator[Row]:
        return (row for key, row in self.world.table.rows.items() if is_run(key))

    def _open(self) -> Iterator[str]:
        for run in self._runs():
            announced = "closed_at" in run and run.get("open_pk") != "RUNS"
            if not announced and not self._waits(run):
                yield f"{run['run_id']} {run['state']}"

    def _waits(self, run: Row) -> bool:
        """Whether only a person can let it go on, and it says why."""
        paused = [self.world.table.rows.get(pause_key(scope)) for scope in (run["policy"], "all")]
        if any(row["paused"] and row["reason"] for row in paused if row):
            return bool(run["state"] != "invalidated")
        halted = run["state"] == "halted" and bool(run["reason"] and run["message"] and run["changes"])
        return run["state"] == "reported" or halted or bool(run["state"] == "awaiting_approval" and run["held_because"])

    def _settled(self) -> bool:
        return not self.scheduler.tasks and not any(self._open()) and not self.world.queue.messages

    def _name_of(self, service: object) -> str:
        return next((name for name, bucket in self.world.buckets.items() if bucket is service), "")

    # what is seen

    def _saw(self, effect: Effect) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Violation(f"{effect.task.name} and the others go on and on")
        if effect.name in QUIET:
            return
        if effect.gone or effect.name == "bucket.list_versions":
            self.store.looked()
        for judge in self.judges:
            judge.saw(effect)

    def _ended(self, task: Task, how: Ended) -> None:
        if self.story is not None:
            self.story.ended(task, how)

    def _answered(self, task: Task, message: Message, answer: Answer) -> None:
        if self.story is not None:
            self.story.tell(task.name, f"answers {answer} for {message.message_id}")
        self.acks.answered(task, message, answer)


def told(seed: int) -> tuple[Story, Violation | None]:
    """The story of a seed, and how it ended. The same every time."""
    story = Story()
    try:
        History(seed, story).run()
    except Violation as violation:
        return story, violation
    return story, None

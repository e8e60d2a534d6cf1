"""The operator: people who approve, stop, resume, replay, resolve, hold, release and undo, at random or to tidy up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial

from sexton.approving import Approving
from sexton.errors import Refused
from sexton.ledger import Ledger
from sexton.replaying import Replaying
from sexton.stopping import Stopping
from sexton.strays import Straying
from sexton.table import Row
from sexton.undoing import Undoing

from tests.fakes.dead_letters import FakeDeadLetters
from tests.simulation.oracles.rows import is_job, is_run
from tests.simulation.scheduling import Ended
from tests.simulation.simulated import SimulatedWorld

EVERY = 20.0  # seconds, on average, somebody does something
LIMIT = 30.0  # seconds of the control function
WHY = "because the simulation says so"
ONE, OTHER = "arn:aws:sts::1:assumed-role/Operator/ada", "arn:aws:sts::1:assumed-role/Approver/bob"
ALL = "all"
MOST_SWEPT = 100


class Act(StrEnum):
    """What people do; each counts when it took effect."""

    APPROVE = "a person approves a plan"
    MISTAKE = "a person names a digest that is not the plan's"
    HALT = "a person halts a run"
    RESUME_RUN = "a person resumes a run"
    INVALIDATE = "a person invalidates a run"
    REISSUE = "a person has a time issued again"
    PAUSE = "a person pauses a policy"
    PAUSE_ALL = "a person pauses all policies"
    RESUME = "a person ends a pause"
    HOLD = "a person places a hold"
    RELEASE = "a person releases a hold"
    REPLAY = "a person replays a dead job"
    RESOLVE = "a person resolves a dead job"
    UNDO = "a person undoes a run"
    SWEEP = "a person sweeps the dead-letter queue"


DRASTIC = {Act.INVALIDATE, Act.PAUSE_ALL, Act.PAUSE}  # what keeps everything else from happening
STOPS = (Act.HALT, Act.INVALIDATE, Act.PAUSE, Act.HOLD)
Body = Callable[[], object]


class Operator:
    """Does something every minute or so, and at the end whatever is waited for."""

    def __init__(self, world: SimulatedWorld, active: bool) -> None:
        self.world, self.random = world, world.weather.random
        self.active = active
        self._choices: dict[Act, Callable[[], Body | None]] = {
            Act.APPROVE: self._approve,
            Act.MISTAKE: self._mistake,
            Act.HALT: lambda: self._of_run(("dispatching", "draining"), self._halt_run),
            Act.RESUME_RUN: lambda: self._of_run(("halted",), self._resume_run),
            Act.INVALIDATE: self._invalidate,
            Act.REISSUE: self._reissue,
            Act.PAUSE: lambda: self._pause(self.random.choice(sorted(self.world.deployed))),
            Act.PAUSE_ALL: lambda: self._pause(ALL),
            Act.RESUME: self._resume,
            Act.HOLD: self._hold,
            Act.RELEASE: self._release,
            Act.REPLAY: lambda: self._of_dead(lambda job: self._replaying().replay(job, WHY, ONE)),
            Act.RESOLVE: lambda: self._of_dead(lambda job: self._replaying().resolve(job, WHY, ONE)),
            Act.UNDO: self._undo,
            Act.SWEEP: self._sweep,
        }
        self._dead_letters = FakeDeadLetters(world.queue, world.clock)
        self._mine = [act for act in Act if self.random.random() < (0.15 if act in DRASTIC else 0.4)]
        self._mine += [Act.RESUME, Act.RESUME] if {Act.PAUSE, Act.PAUSE_ALL} & {*self._mine} else []

    def keep_acting(self) -> None:
        """One act now, the next a little later, as long as there is trouble."""
        if not self.active or not self._mine or self.world.weather.calm:
            return
        act = self.random.choice(self._mine)
        if self._in_the_middle() and self.random.random() < 0.4:
            act = self.random.choice(STOPS)
        body = self._choices[act]()
        if body is not None:
            self._do(act, body)
        self.world.scheduler.after(self.random.expovariate(1 / EVERY), self.keep_acting)

    def _in_the_middle(self) -> bool:
        """Whether some worker has a job in hand: then it matters most that people are obeyed."""
        return any(task.kind == "worker" and task.leases for task in self.world.scheduler.tasks)

    def look_back(self) -> None:
        """From now on they think of what has ended, too."""
        self._mine += [Act.REPLAY, Act.REPLAY, Act.RESOLVE, Act.REISSUE, *[Act.UNDO] * 4, Act.SWEEP]
        self.active = True

    def tidy_up(self) -> int:
        """End every pause, and every wait for a person; returns how many there were."""
        acts: list[tuple[Act, Body]] = []
        for scope in self._scopes():
            acts.append((Act.RESUME, partial(self._resume_scope, scope)))
        for run in self._runs("halted"):
            acts.append((Act.RESUME_RUN, partial(self._resume_run, run["run_id"])))
        for run in self._runs("awaiting_approval", "reported"):
            if self.random.random() < 0.5 and self.world.deployed[run["policy"]][1].mode == "enforce":
                acts.append((Act.APPROVE, partial(self._approve_run, run["run_id"], run["digest"], OTHER)))
            else:
                acts.append((Act.INVALIDATE, partial(self._invalidate_run, run["run_id"])))
        for act, body in acts:
            self._do(act, body)
        return len(acts)

    def _do(self, act: Act, body: Body) -> None:
        """Control's function: a change that is refused is no failure, one that breaks off may have happened."""

        def answered() -> object:
            try:
                return body()
            except Refused as refused:
                return refused

        def ended(how: Ended) -> None:
            took_effect = how.result is not None and not isinstance(how.result, Refused)
            if (took_effect and getattr(how.result, "changed", True)) or act is Act.MISTAKE:
                self.world.weather.happened[act] += 1

        self.world.begin("person", answered, LIMIT, ended)

    # who they ask

    def _ledger(self) -> Ledger:
        return Ledger(self.world.trace.wrap("table", self.world.table))

    def _stopping(self) -> Stopping:
        world = self.world
        return Stopping(self._ledger(), world.policies, world.clock, world.tokens, world.log)

    def _approving(self) -> Approving:
        world = self.world
        return Approving(self._ledger(), world.policies, world.clock, world.tokens, world.log)

    def _replaying(self) -> Replaying:
        world = self.world
        return Replaying(self._ledger(), world.policies, world.clock, world.tokens, world.log)

    def _undoing(self) -> Undoing:
        world, evidence = self.world, self.world.trace.wrap("evidence", self.world.evidence)
        return Undoing(self._ledger(), evidence, world.policies, world.clock, world.tokens, world.log)

    def _halt_run(self, run_id: str) -> object:
        return self._stopping().halt(run_id, WHY, ONE)

    def _resume_run(self, run_id: str) -> object:
        return self._stopping().resume_run(run_id, WHY, ONE)

    def _invalidate_run(self, run_id: str) -> object:
        return self._stopping().invalidate(run_id, WHY, ONE)

    def _approve_run(self, run_id: str, digest: str, actor: str) -> object:
        return self._approving().approve(run_id, digest, WHY, actor)

    def _resume_scope(self, scope: str) -> object:
        return self._stopping().resume(scope, WHY, ONE)

    # what they choose

    def _runs(self, *states: str) -> Iterator[Row]:
        rows = (row for key, row in self.world.table.rows.items() if is_run(key))
        return (row for row in rows if row["state"] in states)

    def _of_run(self, states: tuple[str, ...], do: Callable[[str], object]) -> Body | None:
        runs = sorted(row["run_id"] for row in self._runs(*states))
        if not runs:
            return None
        run = self.random.choice(runs)
        return lambda: do(run)

    def _of_dead(self, do: Callable[[str], object]) -> Body | None:
        dead = sorted(row["job_id"] for key, row in self.world.table.rows.items() if is_job(key) and _is_dead(row))
        if not dead:
            return None
        job = self.random.choice(dead)
        return lambda: do(job)

    def _approve(self) -> Body | None:
        waiting = sorted((row["run_id"], row["digest"]) for row in self._runs("awaiting_approval", "reported"))
        if not waiting:
            return None
        run, digest = self.random.choice(waiting)
        return partial(self._approve_run, run, digest, self.random.choice((ONE, OTHER)))

    def _mistake(self) -> Body | None:
        return self._of_run(("awaiting_approval",), lambda run: self._approve_run(run, "0" * 64, OTHER))

    def _invalidate(self) -> Body | None:
        states = ("planning", "planned", "reported", "awaiting_approval", "dispatching", "draining", "halted")
        return self._of_run(states, self._invalidate_run)

    def _reissue(self) -> Body | None:
        return self._of_run(("invalidated", "reported"), self._issue_again)

    def _issue_again(self, run_id: str) -> object:
        run = next(row for row in self._runs("invalidated", "reported") if row["run_id"] == run_id)
        policy_id, stamp = run["policy"], run_id.split(".")[1]
        event = {"policy": policy_id, "scheduled_time": _rfc3339(stamp), "reissue": True, "plan": False}
        answer = self.world.discover({**event, "started_by": ONE})
        if "error" in answer or answer["skipped"]:
            return None
        self.world.resume(str(answer["run_id"]))
        return answer

    def _pause(self, scope: str) -> Body:
        return lambda: self._stopping().pause(scope, WHY, ONE)

    def _scopes(self) -> list[str]:
        rows = (row for key, row in self.world.table.rows.items() if key.sk.startswith("PAUSE#"))
        return sorted(row["scope"] for row in rows if row["paused"])

    def _resume(self) -> Body | None:
        scopes = self._scopes()
        if not scopes:
            return None
        scope = self.random.choice(scopes)
        return partial(self._resume_scope, scope)

    def _hold(self) -> Body:
        begins = "", "app/", "app/0", "app/03"
        scopes = [f"s3://{bucket}/{begin}" for bucket in sorted(self.world.buckets) for begin in begins]
        for table, each in self.world.tables.items():
            scopes += [f"dynamodb://{table}/", *(f"dynamodb://{table}/{key}" for key in sorted(each.records)[:3])]
        scope = self.random.choice(scopes)
        return lambda: self._stopping().hold(scope, WHY, ONE)

    def _release(self) -> Body | None:
        rows = (row for key, row in self.world.table.rows.items() if key.sk.startswith("HOLD#"))
        scopes = sorted(row["scope"] for row in rows if row["active"])
        if not scopes:
            return None
        scope = self.random.choice(scopes)
        return lambda: self._stopping().release(scope, WHY, ONE)

    def _undo(self) -> Body | None:
        return self._of_run(("completed", "invalidated"), lambda run: self._undoing().undo(run, WHY, ONE))

    def _sweep(self) -> Body | None:
        """Of what is in the dead-letter queue, if there is anything."""
        if not self.world.queue.dead:
            return None
        straying = Straying(self._ledger(), self.world.trace.wrap("dead_letters", self._dead_letters))

        def swept() -> object:
            came = straying.sweep(MOST_SWEPT)
            return came if came.removed else None

        return swept


def _is_dead(row: Row) -> bool:
    return bool(row["state"] == "dead" and "resolved_at" not in row)


def _rfc3339(stamp: str) -> str:
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:11]}:{stamp[11:13]}:{stamp[13:15]}Z"

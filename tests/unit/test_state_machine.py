"""Runs, jobs, pauses and holds under any interleaving of actors, each with rows as it last saw them.

Beside the table a ghost knows what really happened: which items are open, and of which nobody knows the fate. The
rows are held against it after every write.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sexton import control_transitions, job_transitions, message, part, receiving, run_transitions, settling
from sexton.controls import Controls
from sexton.errors import Failure, ReasonClass
from sexton.instant import from_ms
from sexton.item import Item
from sexton.job import OPEN, Job, JobState, Limits, Span, last_failure
from sexton.job_transitions import Gained, Release
from sexton.outcome import Ending, Outcome, count
from sexton.receiving import TakeOver
from sexton.run import AT_WORK, WAITING, Change, Cursor, Run, RunId, RunState
from sexton.settling import Attempt, Kind, Next
from sexton.table import Applied, Key, Row, Write

from tests.fakes.table import FakeTable
from tests.fakes.time import START, FakeClock, FakeTokens

VERSION = "a" * 64
LEASE = timedelta(seconds=150)
VISIBILITY = timedelta(seconds=720)
LIMITS = Limits(max_attempts=3, max_age=timedelta(hours=2))
POLICY = run_transitions.policy_key("logs-expire")
SCOPES = ("all", "logs-expire")
ITEMS = 4
NOW = 3
MOST_RUNS, MOST_PARTS = 3, 3

KNOWN = Failure(ReasonClass.TRANSIENT, "OperationAborted", "not now")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "broke off", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "denied")
OTHERWISE = Failure(ReasonClass.PERMANENT, "InvalidRequest", "never")
SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
FAILURES = {"known": KNOWN, "unsure": UNSURE, "denied": DENIED, "otherwise": OTHERWISE, "slow": SLOW, "blind": KNOWN}
UNSEEN = ("unreached", "blind")  # fates of items that the attempt did not look at

pick = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 4, 5, 6])  # up to 3 a row as it is, above that as it once was
fates = st.lists(
    st.sampled_from(["ended", "ended", "kept", "unreached", *FAILURES]), min_size=ITEMS, max_size=ITEMS
) | st.sampled_from([*FAILURES, "ended"]).map(lambda fate: [fate] * ITEMS)
stops = st.sampled_from([None, None, settling.STOPPED, settling.INVALIDATED, settling.OUT_OF_TIME])
wholes = st.sampled_from([None, None, None, KNOWN, DENIED])
looks = st.lists(st.sampled_from(["ended", "open"]), min_size=ITEMS, max_size=ITEMS) | st.just(["ended"] * ITEMS)

LISTED_OF_JOBS = {(before, after) for before, after, *_ in job_transitions.TRANSITIONS}
BY_THEMSELVES = {("ready", "ready"), ("dead", "dead")}  # dispatch, and notes on what is dead


def moves_of(before: str, after: str) -> set[tuple[str, str]]:
    """A row of the runs' table, each state named by itself."""
    sources = run_transitions.BUT_COMPLETED if before == "every state but completed" else before.split(", ")
    return {(source, target) for source in sources for target in after.split(", ")}


ROWS_OF_RUNS = [moves_of(before, after) for before, after, _ in run_transitions.TRANSITIONS]
LISTED_OF_RUNS = set().union(*ROWS_OF_RUNS)
visited: Counter[tuple[str, str, str]] = Counter()


@dataclass
class Truth:
    """Of one job: the indexes that are open, and those that may be gone without anybody knowing."""

    open: set[int]
    unknown: set[int] = field(default_factory=set)


def once_seen(*states: str) -> Callable[[Any], Any]:
    """A rule for rows that are, or once were, in one of the states: their copies are still about."""
    return precondition(lambda self: any(row["state"] in states for row in self.seen))


class Interleavings(RuleBasedStateMachine):
    """Each rule is one write of one actor."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.clock, self.token = FakeTable(), FakeClock(), FakeTokens()
        self.seen: list[Row] = []  # every version of every run and job, the latest last
        self.truth: dict[Key, Truth] = {}
        self.planners: dict[str, list[str]] = defaultdict(list)
        self.parts: Counter[str] = Counter()
        self.reopened: set[str] = set()
        self.verdicts: list[Run] = []  # runs as read before a scan that found no job open

    # what an actor has before him

    def job(self, pick: int, *states: JobState) -> Job | None:
        """A job as the actor last saw it, in one of the states."""
        row = self._row("JOB#", pick, states)
        return Job.from_row(row) if row else None

    def run_(self, pick: int, *states: RunState) -> Run | None:
        """A run as the actor last saw it, in one of the states."""
        row = self._row("RUN#", pick, states)
        return Run.from_row(row) if row else None

    def _row(self, kind: str, pick: int, states: Sequence[str]) -> Row | None:
        rows = list(self.table.rows.values())
        if pick > NOW:
            rows = [row for row in self.seen if row != self.table.rows[Key(row["pk"], row["sk"])]]
        found = [row for row in rows if row["sk"].startswith(kind) and row["state"] in (states or [row["state"]])]
        return found[-1 - pick % (NOW + 1) % len(found)] if found else None

    def _run_of(self, job: Job, pick: int) -> Run:
        """The job's run as it is, or as it once was."""
        key = RunId.parse(job.run_id).key
        versions = [row for row in self.seen if Key(row["pk"], row["sk"]) == key]
        return Run.from_row(versions[-1 - pick % len(versions) if pick > NOW else -1])

    def change(self, verb: str) -> Change:
        return Change(at=self.clock(), actor="ann", change=verb, reason="for a test")

    # what is written, and what must hold of it

    def write(self, how: str, *writes: Write, token: str | None = None) -> bool:
        """Carry it out; what it changed is one of the listed transitions, made by who may make it."""
        before = {write.key: self.table.rows.get(write.key) for write in writes}
        written = self.table.write(writes[0]) if len(writes) == 1 else self.table.transact(writes)
        if not isinstance(written, Applied):
            assert {key: self.table.rows.get(key) for key in before} == before
            return False
        for key, old in before.items():
            row = self.table.rows[key]
            if key.sk.startswith("JOB#"):
                self._job_moved(how, old, row, token)
            elif key.sk.startswith("RUN#"):
                self._run_moved(how, old, row)
            self.seen += [row] if "state" in row else []
        return True

    def _job_moved(self, how: str, old: Row | None, row: Row, token: str | None) -> None:
        moved = (old["state"] if old else "-", row["state"])
        visited[how, *moved] += 1
        assert moved in LISTED_OF_JOBS | BY_THEMSELVES
        if old is None:
            return
        assert moved != ("ready", "ready") or how in ("dispatch", "due_now")
        assert moved != ("dead", "dead") or how in ("resolve", "redriven_early", "redrive_refused")
        assert "resolved_at" not in old, "what was resolved stays as it is"
        if how.startswith("redrive"):
            assert row == {**old, "write_id": row["write_id"], **_notes(row)}, "a note moves nothing"
            return
        assert row["rev"] == old["rev"] + 1
        alive = old["state"] == "leased" and from_ms(old["lease_expires_at"]) >= self.clock()
        assert not alive or (token == old["lease_token"] and row["state"] != "leased"), "a live lease is never taken"

    def _run_moved(self, how: str, old: Row | None, row: Row) -> None:
        moved = (old["state"] if old else "-", row["state"])
        visited[how, *moved] += 1
        assert moved[0] == moved[1] or moved in LISTED_OF_RUNS
        assert not (old or {}).get("undone_by") or moved != ("completed", "draining"), "what is undone stays closed"
        if old is not None:
            assert row["rev"] - old["rev"] in ((1,) if moved[0] != moved[1] else (0, 1))
            assert row.get("changes", [])[: len(old.get("changes", []))] == old.get("changes", [])

    @invariant()
    def jobs_are_whole(self) -> None:
        for key, truth in self.truth.items():
            row = self.table.rows[key]
            state, leases = row["state"], {"lease_token", "lease_expires_at"} & row.keys()
            assert len(leases) == (2 if state == "leased" else 0)
            assert ("dispatch_due" in row) == (state == "ready"), "no ready row without a dispatch due"
            assert ("open_pk" in row) == (state in ("ready", "leased", "dead") and "resolved_at" not in row)
            assert row.get("attempt", 0) >= 0
            assert row["open_items"] == (0 if state == "succeeded" else len(truth.open))
            assert state != "succeeded" or not truth.open
            assert not truth.unknown & truth.open or row.get("maybe_done"), "an effect that nobody knows is forgotten"
            assert not row.get("maybe_done") or state not in ("succeeded", "cancelled")

    @invariant()
    def runs_are_whole(self) -> None:
        slot = self.table.rows.get(POLICY, {}).get("open_run")
        for key, row in self.table.rows.items():
            if not key.sk.startswith("RUN#"):
                continue
            run = Run.from_row(row)
            assert run.closed or run.state is not RunState.COMPLETED
            assert not run.closed or run.state in (RunState.COMPLETED, RunState.INVALIDATED)
            jobs = [job for job in self.truth if job.pk == f"RUN#{run.run_id}"]
            open_jobs = [job for job in jobs if self.table.rows[job]["state"] in OPEN]
            assert not (run.closed and open_jobs), "closed with work open"
            assert not (open_jobs and "open_pk" not in row), "work that no tick would find"
            waits = run.state in WAITING
            if not run.closed and not waits and run.state is not RunState.INVALIDATED:
                assert slot == run.run_id or run.run_id in self.reopened, "two of a policy at work"
            assert not ((run.closed or waits) and slot == run.run_id), "a slot that nobody needs"

    @rule(seconds=st.sampled_from([1, 30, 149, 151, 200, 151, 8000]))
    def time_goes_by(self, seconds: int) -> None:
        self.clock.advance(seconds)

    # planning

    @initialize(story=st.sampled_from(["at work", "at work", "at work", "closed", *WAITING, "planned"]))
    def begin(self, story: str) -> None:
        """One run that is planned, or further: most of what can happen happens to its jobs."""
        self.trigger()
        for step in (self.lease_planner, self.plan_part, self.plan_part, self.complete):
            step(0)
        if story != "planned":
            self.review(0, RunState(story) if story in WAITING else RunState.DISPATCHING)
        if story == "closed":  # with a dead job
            self.everything_is_worked_on(["ended", "ended", "ended", "denied"])
            self.everything_is_worked_on(["denied"] * ITEMS)

    @precondition(lambda self: "open_run" not in self.table.rows[POLICY] or self.clock() < START + LEASE)
    @rule()
    def trigger(self) -> None:
        self.clock.advance(1)
        run_id, now = RunId("logs-expire", self.clock()), self.clock()
        if sum(key.sk.startswith("RUN#") for key in self.table.rows) < MOST_RUNS:
            args = (VERSION, now - timedelta(days=30), "enforce", "schedule", now, now)
            self.write("create", *run_transitions.create(run_id, *args, self.token()))  # type: ignore[arg-type]

    def lease_planner(self, pick: int) -> None:
        run, token = self.run_(pick, RunState.PLANNING), self.token()
        if run and self.write("lease_planner", run_transitions.lease_planner(run, token, self.clock())):
            self.planners[run.run_id].append(token)

    @precondition(lambda self: any(row["state"] == "planning" for row in self.table.rows.values() if "state" in row))
    @rule(step=st.sampled_from(["lease_planner", "plan_part", "plan_part", "complete", "refuse"]), pick=pick)
    def planner(self, step: str, pick: int) -> None:
        getattr(self, step)(pick)

    def _planner(self, run: Run, pick: int) -> str:
        tokens = self.planners[run.run_id] or ["none"]
        return tokens[-1 - (pick % len(tokens) if pick > NOW else 0)]

    def plan_part(self, pick: int) -> None:
        """A planner that may have lost its lease, with the cursor as it is."""
        run = self.run_(pick, RunState.PLANNING)
        if run is None or self.parts[run.run_id] >= MOST_PARTS:
            return
        number, token, now = self.parts[run.run_id], self._planner(run, pick), self.clock()
        items = [Item(f"app/{number}/{each}", '"e"', 1, "STANDARD", START) for each in range(ITEMS)]
        made = part.build(f"{number:08d}", items, ITEMS)
        cursor = Cursor(part=number + 1)
        row = job_transitions.plan(run, made, f"plans/{number}", now, self.token())
        moved = run_transitions.advance(run, token, cursor, {}, 1, 1, now, self.token())
        if self.write("plan", row, moved):
            self.parts[run.run_id] += 1
            self.truth[row.key] = Truth(set(range(ITEMS)))

    def complete(self, pick: int) -> None:
        run = self.run_(pick, RunState.PLANNING)
        if run:
            token = self._planner(run, pick)
            self.write("planned", run_transitions.planned(run, token, "d" * 64, self.clock(), self.token()))

    def refuse(self, pick: int) -> None:
        run = self.run_(pick, RunState.PLANNING)
        if run:
            planner = self._planner(run, pick)
            self.write("refuse", run_transitions.refuse(run, planner, "source", "none", self.clock(), self.token()))

    @once_seen("planned")
    @rule(pick=pick, to=st.sampled_from([*WAITING, RunState.DISPATCHING]))
    def review(self, pick: int, to: RunState) -> None:
        run, token = self.run_(pick, RunState.PLANNED), self.token()
        if run is None:
            return
        if to in WAITING:
            self.write(
                "wait", run_transitions.wait(run, to, ["approval"], token), run_transitions.free_slot(run, token)
            )
        else:
            self.write("move", run_transitions.move(run, to, token))

    def approve(self, pick: int) -> None:
        run = self.run_(pick, *WAITING)
        if run:
            asked = self.change("approved")
            self.write("approve", *run_transitions.approve(run, asked, [], run.scheduled_time, self.token()))

    # sending

    def all_sent(self, pick: int) -> None:
        run = self.run_(pick, RunState.DISPATCHING)
        if run:
            self.write("move", run_transitions.move(run, RunState.DRAINING, self.token()))

    @rule(pick=pick, parked=st.booleans())
    def dispatch(self, pick: int, parked: bool) -> None:
        job, now = self.job(pick, JobState.READY), self.clock()
        if job and parked:
            self.write("due_now", job_transitions.due_now(job, now, self.token()))
        elif job:
            self.write("dispatch", job_transitions.dispatch(job, now + VISIBILITY, self.token()))

    # working

    @rule(pick=pick, run_pick=pick)
    def claim(self, pick: int, run_pick: int) -> None:
        """A message that may be old, and a run that was at work when it was read."""
        job, now = self.job(pick, JobState.READY), self.clock()
        run = self._run_of(job, run_pick) if job else None
        if job and run and run.state in AT_WORK:
            claimed = message.read(message.write(job, VERSION, START))
            write = job_transitions.claim(claimed, self.token(), now, LEASE, LIMITS, run.resumed_at)
            self.write("claim", write)

    @rule(pick=pick, fates=fates, stop=stops)
    def work(self, pick: int, fates: list[str], stop: str | None) -> None:
        """A worker whom nothing comes between."""
        self.claim(pick, 0)
        self.settle(0, fates, stop, None)

    @rule(looks=looks, found_by=st.sampled_from(["a worker", "a tick", "a late tick"]))
    def a_worker_dies(self, looks: list[str], found_by: str) -> None:
        """Its job is found by another, or by a tick; a late one looks at what has grown too old, and ends it."""
        self.claim(0, 0)
        self.clock.advance(LEASE + timedelta(seconds=1))
        if found_by == "a worker":
            self.take_over(0)
        else:
            self.expire(0)
        if found_by == "a late tick":
            self.clock.advance(LIMITS.max_age)
            self.end_ready(0, 0, looks, can_tell=True)

    @rule(fates=fates | st.just(["ended"] * ITEMS), whole=wholes, taken=st.booleans())
    def a_worker_is_late(self, fates: list[str], whole: Failure | None, taken: bool) -> None:
        """It settles when its lease is over, and its job another's or ready again."""
        self.claim(0, 0)
        self.clock.advance(LEASE + timedelta(seconds=1))
        self.take_over(0) if taken else self.expire(0)
        self.settle(NOW + 1, fates, None, whole)

    @rule(looks=looks)
    def a_tick_is_late(self, looks: list[str]) -> None:
        """It ends what has grown too old, as it was before a worker came by and left no record."""
        self.claim(0, 0)
        self.clock.advance(LIMITS.max_age)
        self.expire(0)
        self.end_ready(NOW + 1, NOW + 1, looks, can_tell=True)

    @rule(fates=fates)
    def everything_is_worked_on(self, fates: list[str]) -> None:
        """Workers, and a tick, whom nothing comes between."""
        for _ in list(self.truth):
            self.work(0, fates, None)
        for step in (self.all_sent, self.scan, self.close, self.announce):
            step(0)

    @rule(pick=pick)
    def take_over(self, pick: int) -> None:
        job, now = self.job(pick, JobState.LEASED) or self.job(pick, JobState.READY), self.clock()
        if job is None:
            return
        claimed = message.read(message.write(job, VERSION, START))
        row = next(row for row in self.seen if (row["pk"], row["sk"], row["rev"]) == (*job.key, job.rev))
        met = receiving.met_row(claimed, row, LIMITS, now, None)
        if isinstance(met, TakeOver):
            crashed = met.job.state is JobState.LEASED
            if self.write("take_over", job_transitions.take_over(met.job, self.token(), now, LEASE)) and crashed:
                self._nobody_knows(met.job.key)

    @once_seen("leased")
    @rule(pick=pick)
    def expire(self, pick: int) -> None:
        job = self.job(pick, JobState.LEASED)
        if job and self.write("expire", job_transitions.expire(job, self.clock(), self.token())):
            self._nobody_knows(job.key)

    def _nobody_knows(self, key: Key) -> None:
        """An attempt left no record: each of its items may be gone."""
        self.truth[key].unknown |= self.truth[key].open

    @once_seen("leased")
    @rule(pick=pick, fates=fates, stop=stops, whole=wholes)
    def settle(self, pick: int, fates: list[str], stop: str | None, whole: Failure | None) -> None:
        """A worker, which may have lost its lease, with what it was given when it claimed."""
        job = self.job(pick, JobState.LEASED)
        if job is None:
            return
        if job.to_split():
            self._split(job)
            return
        open_then = sorted(self._open_of(job))
        attempt = self._attempt(open_then, fates, stop, whole)
        used_up = job.attempt >= LIMITS.max_attempts
        step = settling.next_step(job, attempt, used_up, too_old=False)
        if self._commit(job, attempt, step):
            self._learned(job, attempt, step)

    def _open_of(self, job: Job) -> set[int]:
        """What was open when the job was claimed; nobody else could end any of it since, or the lease is lost."""
        gone = self.truth[job.key].open if self.table.rows[job.key]["rev"] == job.rev else set(job.indexes())
        return set(gone) or set(job.indexes())

    @staticmethod
    def _attempt(indexes: Sequence[int], fates: Sequence[str], stop: str | None, whole: Failure | None) -> Attempt:
        attempt = Attempt(indexes, {index: Item(f"app/{index}", '"e"', 1, "STANDARD", START) for index in indexes})
        for index in indexes:
            fate = fates[index]
            if fate not in UNSEEN:
                attempt.looked.add(index)
            if fate == "ended":
                attempt.outcomes.append(Outcome(index, f"app/{index}", Ending.DELETED, START))
            elif fate in FAILURES:
                attempt.failures[index] = FAILURES[fate]
        attempt.stop, attempt.whole = stop, whole
        return attempt

    def _commit(self, job: Job, attempt: Attempt, step: Next) -> bool:
        now, groups = self.clock(), [[index] for index in step.split_off]
        after = job.model_copy(update={"maybe_done": step.maybe_done})
        gained = Gained(None, count(attempt.outcomes), tuple(map(settling.span_of, groups)), len(groups))
        children = [
            job_transitions.split_off(after, settling.span_of(group), group, attempt.items, now, self.token())
            for group in groups
        ]
        return self.write(str(step.kind), self._transition(job, step, gained), *children, token=job.lease_token)

    def _transition(self, job: Job, step: Next, gained: Gained) -> Write:
        now, token = self.clock(), self.token()
        if step.kind is Kind.SUCCEED:
            return job_transitions.succeed(job, gained, now, token)
        if step.kind is Kind.CANCEL:
            return job_transitions.cancel(job, gained, now, token)
        if step.kind is Kind.DIE:
            assert step.failure is not None
            return job_transitions.die(job, gained, step.failure, step.event, now, token)
        how = Release(step.event, now, now + VISIBILITY, step.maybe_done, step.refund, step.failure)
        return job_transitions.release(job, gained, how, now, token)

    def _learned(self, job: Job, attempt: Attempt, step: Next) -> None:
        """What the attempt really came to: what it looked at is known again, but for replies that were lost."""
        truth, unsure = self.truth[job.key], {i for i, each in attempt.failures.items() if each.unknown_effect}
        truth.open -= {outcome.index for outcome in attempt.outcomes}
        truth.unknown = (truth.unknown - attempt.looked) | unsure
        self._left(job, [[index] for index in step.split_off])

    def _left(self, job: Job, groups: Sequence[Sequence[int]]) -> None:
        truth = self.truth[job.key]
        for group in groups:
            key = Key(job.key.pk, f"{job.key.sk}#{group[0]:04d}")
            self.truth[key] = Truth(set(group), truth.unknown & set(group))
            truth.open -= set(group)
            truth.unknown -= set(group)

    def _split(self, job: Job) -> None:
        """A job that crashed workers twice becomes ranges."""
        indexes = sorted(self._open_of(job))
        groups, now = settling.ranges(indexes), self.clock()
        items = {index: Item(f"app/{index}", '"e"', 1, "STANDARD", START) for index in indexes}
        spans: tuple[Span, ...] = tuple(map(settling.span_of, groups))
        gained = Gained(split_off=spans, items_split_off=len(indexes), for_failure=False)
        children = [
            job_transitions.split_off(job, settling.span_of(group), group, items, now, self.token()) for group in groups
        ]
        parent = job_transitions.succeed(job, gained, now, self.token())
        if self.write("split", parent, *children, token=job.lease_token):
            self._left(job, groups)

    # the reconciler

    @rule(pick=pick, run_pick=pick, looks=looks, can_tell=st.booleans())
    def end_ready(self, pick: int, run_pick: int, looks: list[str], can_tell: bool) -> None:
        """Used up, or of a run that was seen invalidated: looked at first where an effect is unknown."""
        job, now = self.job(pick, JobState.READY), self.clock()
        if job is None:
            return
        invalidated = self._run_of(job, run_pick).state is RunState.INVALIDATED
        if not invalidated and not job.used_up(LIMITS, now, None):
            return
        ended = {index for index in self._open_of(job) if job.maybe_done and can_tell and looks[index] == "ended"}
        told = not job.maybe_done or can_tell
        if self._end(job, ended, told, invalidated):
            self.truth[job.key].open -= ended
            if job.maybe_done and told:
                self.truth[job.key].unknown.clear()

    def _end(self, job: Job, ended: set[int], told: bool, invalidated: bool) -> bool:
        gained, now, token = Gained(counts={"deleted": len(ended)} if ended else {}), self.clock(), self.token()
        if ended and len(ended) == job.open_items:
            return self.write("observed", job_transitions.succeed(job, gained, now, token))
        if invalidated and told:
            return self.write("cancel", job_transitions.cancel(job, gained, now, token))
        failure = last_failure(job) if told else DENIED
        return self.write("give_up", job_transitions.die(job, gained, failure, failure.code, now, token, not told))

    def scan(self, pick: int) -> None:
        """The books are compared after a look at every job; the run was read before."""
        run = self.run_(pick, RunState.DRAINING, RunState.INVALIDATED)
        if run is None or run.closed:
            return
        states = [self.table.rows[key]["state"] for key in self.truth if key.pk == f"RUN#{run.run_id}"]
        if not set(states) & set(OPEN):
            self.verdicts.append(run)

    def close(self, pick: int) -> None:
        if not self.verdicts:
            return
        run, token = self.verdicts[-1 - pick % len(self.verdicts)], self.token()
        writes = [run_transitions.close(run, True, run.report_revision + 1, self.clock(), token)]
        if self.table.rows[POLICY].get("open_run") == run.run_id:
            writes.append(run_transitions.free_slot(run, token))
        if self.write("close", *writes):
            self.reopened.discard(run.run_id)

    def announce(self, pick: int) -> None:
        run = self.run_(pick, RunState.COMPLETED, RunState.INVALIDATED)
        if run and run.closed:
            jobs = [self.table.rows[key] for key in self.truth if key.pk == f"RUN#{run.run_id}"]
            self.write("announced", run_transitions.announced(run, _any_dead(jobs), self.token()))

    @rule(step=st.sampled_from(["all_sent", "scan", "close", "announce"]), pick=pick)
    def towards_the_end(self, step: str, pick: int) -> None:
        getattr(self, step)(pick)

    # people

    @rule(step=st.sampled_from(["approve", "approve", "halt", "resume_run", "resume_run", "invalidate"]), pick=pick)
    def person(self, step: str, pick: int) -> None:
        getattr(self, step)(pick)

    def halt(self, pick: int) -> None:
        run = self.run_(pick, *AT_WORK)
        if run:
            self.write("halt", run_transitions.halt(run, self.change("halted"), self.token()))

    def resume_run(self, pick: int) -> None:
        run = self.run_(pick, RunState.HALTED)
        if run:
            self.write("resume", run_transitions.resume(run, self.change("resumed"), self.token()))

    def invalidate(self, pick: int) -> None:
        run, asked = self.run_(pick), self.change("invalidated")
        if run:
            self.write("invalidate", run_transitions.invalidate(run, "person", "x", asked.at, self.token(), asked))

    @rule()
    def a_person_lets_it_go_on(self) -> None:
        """A plan that waits is approved, and what is at work is halted for a moment."""
        for step in (self.approve, self.halt, self.resume_run):
            step(0)

    @rule(looks=looks, sure=st.integers(0, 2))
    def a_run_is_given_up(self, looks: list[str], sure: int) -> None:
        """By a person, and by the tick after; seldom, since little happens to a run after that."""
        if not sure:
            self.invalidate(0)
            for _ in list(self.truth):
                self.end_ready(0, 0, looks, can_tell=True)

    @once_seen("dead")
    @rule(pick=pick, run_pick=pick)
    def replay(self, pick: int, run_pick: int) -> None:
        job, asked, token = self.job(pick, JobState.DEAD), self.change("replayed"), self.token()
        run = self._run_of(job, run_pick) if job else None
        if job and run:
            again = job_transitions.replay(job, asked, asked.at, token)
            if self.write("replay", again, run_transitions.reopen(run, asked, asked.at, token)):
                self.reopened.add(run.run_id) if run.closed else None

    @once_seen("dead")
    @rule(pick=pick, sure=st.integers(0, 2))
    def resolve(self, pick: int, sure: int) -> None:
        job, asked, token = self.job(pick, JobState.DEAD), self.change("resolved"), self.token()
        if job and not sure:
            noted = run_transitions.note(self._run_of(job, pick), asked, token)
            self.write("resolve", job_transitions.resolve(job, asked, token), noted)

    @once_seen("dead")
    @rule(pick=pick, early=st.booleans())
    def redrive_in_vain(self, pick: int, early: bool) -> None:
        job = self.job(pick, JobState.DEAD)
        if job and early:
            self.write("redriven_early", job_transitions.redriven_early(job, self.clock(), self.token()))
        elif job:
            self.write("redrive_refused", job_transitions.redrive_refused(job, "run_halted", self.token()))

    @once_seen("completed")
    @rule(pick=pick)
    def undo(self, pick: int) -> None:
        run = self.run_(pick, RunState.COMPLETED, RunState.INVALIDATED)
        if run and run.closed and run.undoes is None:
            self.clock.advance(1)
            run_id = RunId("logs-expire", run.scheduled_time, undo=True)
            writes = run_transitions.undo(run, run_id, self.change("undone"), self.clock(), self.token())
            self.write("undo", *writes)


class Controlled(RuleBasedStateMachine):
    """Pauses and holds, by people who do not know of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.token = FakeTable(), FakeTokens()
        self.asked: dict[Key, list[bool]] = defaultdict(list)

    @rule(scope=st.sampled_from(SCOPES), on=st.booleans(), hold=st.booleans())
    def stop_or_go(self, scope: str, on: bool, hold: bool) -> None:
        """A pause or a hold begins or ends once; a second time is refused, and nothing of its history goes."""
        change, token = Change(at=START, actor="ann", change="changed", reason="for a test"), self.token()
        if hold:
            make = control_transitions.hold if on else control_transitions.release
            write = make(f"s3://logs/{scope}/", change, token)
        else:
            write = (control_transitions.pause if on else control_transitions.resume)(scope, change, token)
        past = self.asked[write.key]
        standing = bool(past) and past[-1]
        assert isinstance(self.table.write(write), Applied) == (standing != on)
        if standing != on:
            past.append(on)

    @invariant()
    def controls_say_what_was_last_asked(self) -> None:
        controls = Controls.from_rows(self.table.query("CONTROL").rows)
        stands = {row.sk: past[-1] for row, past in self.asked.items() if past}
        assert (controls.paused("logs-expire") is not None) == any(stands.get(f"PAUSE#{scope}") for scope in SCOPES)
        assert sum(hold.active for hold in controls.holds) == sum(
            on for sk, on in stands.items() if sk.startswith("HOLD#")
        )
        for key, past in self.asked.items():
            assert len(self.table.rows.get(key, {}).get("history", [])) == len(past)


def _any_dead(jobs: Sequence[Row]) -> bool:
    return any(row["state"] == "dead" for row in jobs)


def _notes(row: Row) -> Row:
    return {name: row[name] for name in ("redriven_early_at", "redrive_refused") if name in row}


MANY = settings(
    max_examples=150,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)


def test_no_interleaving_breaks_a_promise() -> None:
    """And most of the listed moves were made in them: which of the rare ones, is a matter of luck."""
    visited.clear()
    run_state_machine_as_test(Interleavings, settings=MANY)
    moves = {(before, after) for _, before, after in visited}
    assert len(LISTED_OF_JOBS - moves) <= 3
    assert sum(1 for row in ROWS_OF_RUNS if not row & moves) <= 3


def test_pauses_and_holds_begin_and_end_once() -> None:
    run_state_machine_as_test(Controlled, settings=settings(MANY, max_examples=25))

"""The reconciler: the minute tick that makes the promises true after crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sexton import job_transitions, keys, run_transitions
from sexton.action import is_call
from sexton.approval import PLAN_TTL
from sexton.closing import Closing
from sexton.controls import Controls
from sexton.errors import EFFECT_UNKNOWN, CallFailed, EvidenceAltered, Failure, LeaseLost, ReasonClass, SextonError
from sexton.instant import latest
from sexton.job import OPEN, Job, JobState, Limits, last_failure
from sexton.job_transitions import NOTHING, Gained
from sexton.judging import FreshLook
from sexton.ledger import Ledger
from sexton.missed import missed, schedule_since
from sexton.outcome import Outcome, count
from sexton.planning import planning_exceeded
from sexton.policy import Policy
from sexton.ports import Clock, Discovery, Evidence, Gauges, Log, TimeLeft, Token
from sexton.reading import open_items, policy_of, policy_to_work_by, record
from sexton.run import AT_WORK, ATTENTION, SEXTON, WAITING, Change, Run, RunState
from sexton.settling import BREAKER, EVIDENCE_ALTERED
from sexton.starting import Policies
from sexton.table import Applied, Refused, Row, Write
from sexton.target import AnyTarget, AtomicTarget
from sexton.targets import judge_of

FINISHED_TO_JUDGE = 20  # jobs, before their dead ones are a share of anything
RESERVE = timedelta(seconds=20)  # of the function's time; what is left waits for the next tick
CALL_UNKNOWN = Failure(
    ReasonClass.PERMANENT,
    EFFECT_UNKNOWN,
    "a call was begun, and nobody can tell whether it was carried out",
)


class TickFailed(SextonError):
    """Some runs could not be attended to; the others were. The text names each with its trouble."""


@dataclass(frozen=True)
class Reconciling:
    """Attends to every run that is not closed. It observes with read-only rights and removes nothing."""

    ledger: Ledger
    evidence: Evidence
    target: Callable[[Policy, Run], AnyTarget]
    discovery: Discovery
    gauges: Gauges
    closing: Closing
    policies: Policies
    clock: Clock
    token: Token
    time_left: TimeLeft
    log: Log
    mismatch: timedelta

    def tick(self) -> None:
        """One tick. Raises TickFailed at its end when some run could not be attended to.

        Closing comes last, since it takes longest: no run waits for another's books.
        """
        registered = self._register()
        runs = list(self.ledger.open_runs())
        ended: list[Run] = []
        troubles = self._each(runs, lambda listed: ended.extend(self._attend(listed)))
        self._publish(runs, registered)
        troubles += self._each(ended, lambda run: self.closing.close(run, self.policies.get(run.policy)))
        if troubles:
            raise TickFailed("; ".join(troubles))

    def _each(self, runs: Iterable[Run], do: Callable[[Run], object]) -> list[str]:
        """One run's trouble must not keep the others waiting: it is told at the end of the tick."""
        troubles = []
        for run in runs:
            try:
                if self.time_left() < RESERVE:
                    raise TickFailed("the tick's time is over; the next one goes on")
                do(run)
            except SextonError as error:
                self.log("run_not_attended", run_id=run.run_id, error=str(error))
                troubles.append(f"{run.run_id}: {error}")
        return troubles

    def _attend(self, listed: Run) -> list[Run]:
        """Move one run on as far as it goes now; returns it when its work has ended, to be closed."""
        run = self.ledger.run(listed.id)
        if run is None:
            return []
        if run.closed:
            self.closing.announce(run)
            return []
        now, controls = self.clock(), self.ledger.controls()
        policy = policy_to_work_by(self.evidence, run, self.policies)
        run = self._note_mismatch(run, policy, now)
        reason = self._reason_to_invalidate(run, policy, controls, now)
        run = self._invalidated(run, *reason) if reason else run
        if run.state is RunState.INVALIDATED:
            return [run] if self._cancel_all(run, policy) else []
        if run.state in (RunState.PLANNING, RunState.PLANNED) and not controls.paused(run.policy):
            self._resume_planning(run, now)
        if run.state in (*AT_WORK, RunState.HALTED):
            self._expire_leases(run, now)
        return [run] if run.state in AT_WORK and self._keep_working(run, policy, controls, now) else []

    # the policy's version, and what ends a run by itself

    def _note_mismatch(self, run: Run, policy: Policy | None, now: datetime) -> Run:
        """Remember since when the deployed version differs; a half-done deploy differs for a while."""
        if run.state is RunState.INVALIDATED:
            return run
        differs = policy is None or policy.version != run.policy_version
        if differs == (run.mismatch_since is not None):
            return run
        written = self.ledger.table.write(run_transitions.note_mismatch(run, now if differs else None, self.token()))
        return Run.from_row(written.row) if isinstance(written, Applied) and written.row else run

    def _reason_to_invalidate(
        self, run: Run, policy: Policy | None, controls: Controls, now: datetime
    ) -> tuple[str, str] | None:
        if run.state is RunState.INVALIDATED:
            return None
        if run.mismatch_since is not None and now - run.mismatch_since >= self.mismatch:
            deployed = f"version {policy.version[:12]}" if policy else "no such policy"
            return "policy_changed", f"it was planned under version {run.policy_version[:12]}, deployed is {deployed}"
        if run.state is RunState.PLANNING and policy and planning_exceeded(run, policy, controls, now):
            return "planning_exceeded", "planning took longer than the policy's max_planning"
        if run.state in WAITING and run.planned_at is not None and now - run.planned_at >= PLAN_TTL:
            return "plan_expired", f"its plan is older than {PLAN_TTL.days} days"
        return None

    def _invalidated(self, run: Run, reason: str, message: str) -> Run:
        """The run, invalidated; as it was where somebody else has moved it meanwhile: the next tick sees to that."""
        write = run_transitions.invalidate(run, reason, message, self.clock(), self.token())
        written = self.ledger.table.write(write)
        if isinstance(written, Refused) or written.row is None:
            raise LeaseLost(f"{run.run_id} was moved while it was to be invalidated")
        self.log("run_invalidated", run_id=run.run_id, reason=reason)
        return Run.from_row(written.row)

    def _resume_planning(self, run: Run, now: datetime) -> None:
        leased = run.planner_until is not None and run.planner_until >= now
        if run.state is RunState.PLANNED or not leased:
            self.discovery.resume(run.run_id)

    # a run at work

    def _expire_leases(self, run: Run, now: datetime) -> None:
        """Make ready what a worker left: of a halted or paused run too, so that it can be resumed at once."""
        for job in self.ledger.open_jobs(run.run_id, JobState.LEASED, up_to=now):
            if job.lease_expires_at is not None and job.lease_expires_at < now:
                self._expire(job, now)

    def _keep_working(self, run: Run, policy: Policy | None, controls: Controls, now: datetime) -> bool:
        """Recover what was lost or abandoned; True when nothing seems open any more.

        While it is paused nothing is sent and nothing dies.
        """
        if run.mismatch_since is not None or policy is None:
            return False  # nothing more goes under the old rule; a deploy that is only half done ends by itself
        paused = controls.paused(run.policy) is not None
        nothing_open = not any(self.ledger.open_jobs(run.run_id, JobState.LEASED))
        limits = Limits(policy.limits.max_attempts, policy.limits.max_age)
        resumed_at = latest(run.resumed_at, controls.resumed_at(run.policy))
        due = run.state is RunState.DISPATCHING
        used_up: list[Job] = []
        for job in self.ledger.open_jobs(run.run_id, JobState.READY):
            nothing_open = False
            if paused:
                break
            if job.call_begun_at is not None or (job.used_up(limits, now, resumed_at) and not job.may_split(limits)):
                used_up.append(job)
            elif job.dispatch_due is not None and job.dispatch_due <= now:
                due = True
        if not paused and not nothing_open and self._breaks(run, policy):
            return False
        if due and not paused:
            self.discovery.resume(run.run_id)
        self._each_job(used_up, lambda job: self._give_up(job, run, policy))
        return nothing_open and not due and run.state is RunState.DRAINING

    def _breaks(self, run: Run, policy: Policy) -> bool:
        """Halt a run too much of which is dead since it was last resumed."""
        if not any(job.ended_after(run.resumed_at) for job in self.ledger.open_jobs(run.run_id, JobState.DEAD)):
            return False  # the index alone: most ticks need no scan
        dead, finished = self.ledger.finished(run.run_id, since=run.resumed_at)
        if finished < FINISHED_TO_JUDGE or dead <= policy.limits.max_dead_share * finished:
            return False
        why = f"{dead} of {finished} jobs are dead, limits.max_dead_share is {policy.limits.max_dead_share:.1%}"
        change = Change(at=self.clock(), actor=SEXTON, change="halted", reason=why, detail=BREAKER)
        # Of the run as it was counted: one that a person has just resumed is judged by the next tick.
        if isinstance(self.ledger.table.write(run_transitions.halt(run, change, self.token())), Applied):
            self.log("run_halted", run_id=run.run_id, policy=run.policy, reason=BREAKER, why=why)
        return True

    def _each_job(self, jobs: Iterable[Job], do: Callable[[Job], object]) -> None:
        """A job that cannot be looked at now must not keep the others waiting. Raises TickFailed at the end."""
        troubles = []
        for job in jobs:
            if self.time_left() < RESERVE:
                raise TickFailed("the tick's time is over; the next one goes on")
            try:
                do(job)
            except CallFailed as failed:
                troubles.append(f"{job.job_id}: {failed}")
        if troubles:
            raise TickFailed(f"{len(troubles)} jobs could not be looked at, the first is {troubles[0]}")

    def _expire(self, job: Job, now: datetime) -> None:
        written = self.ledger.table.write(job_transitions.expire(job, now, self.token()))
        if isinstance(written, Applied):
            self.log("lease_expired", job_id=job.job_id, run_id=job.run_id, policy=job.policy, attempt=job.attempt)

    def _give_up(self, listed: Job, run: Run, policy: Policy) -> None:
        """ready -> dead or succeeded: attempts or age are used up; observed first if an effect is unknown."""
        job, fresh = self.ledger.job(listed.key), self.ledger.run(run.id)
        if job is None or job.state is not JobState.READY or job.rev != listed.rev:
            return
        if fresh is None or fresh.state not in AT_WORK or self.ledger.controls().paused(run.policy):
            return  # halted or paused since this tick began: then nothing dies
        gained, trouble = self._observed_or_not(job, run, policy)
        now, token = self.clock(), self.token()
        if gained.items == job.open_items:
            self._settle(job, job_transitions.succeed(job, gained, now, token))
        else:
            failure = trouble or last_failure(job)
            unsure = trouble is not None or self._call_may_be_made(job, run, policy)
            self._settle(job, job_transitions.die(job, gained, failure, failure.code, now, token, unsure))

    def _observed_or_not(self, job: Job, run: Run, policy: Policy | None) -> tuple[Gained, Failure | None]:
        """What a look made certain, or why none ever will: then the job is dead, and a person must judge."""
        if job.call_begun_at is not None:
            return NOTHING, CALL_UNKNOWN
        try:
            return self._observed(job, run, policy)
        except CallFailed as failed:
            if failed.failure.reason_class is not ReasonClass.PERMANENT:
                raise
            return NOTHING, _cannot_tell(failed.failure)
        except EvidenceAltered as altered:
            return NOTHING, Failure(ReasonClass.PERMANENT, EVIDENCE_ALTERED, str(altered))

    def _observed(self, job: Job, run: Run, deployed: Policy | None) -> tuple[Gained, Failure | None]:
        """What a read-only look makes certain: absent was done, changed is to be left alone. The rest stays open."""
        if not job.maybe_done:
            return NOTHING, None
        policy = policy_of(self.evidence, run, deployed)
        target = self.target(policy, run)
        if isinstance(target, AtomicTarget):  # what has no record did not happen
            return NOTHING, None
        opened = open_items(self.evidence, job)
        items, judged = [item for _, item in opened], judge_of(policy, run)
        fresh = FreshLook.of(target, judged, items, job.span, self.clock)
        found = [fresh.ended(index, planned, maybe_done=True) for index, planned in opened]
        ended = [each for each in found if isinstance(each, Outcome)]
        unseen = next((_cannot_tell(each) for each in found if isinstance(each, Failure)), None)
        return Gained(record(self.evidence, job, ended, self.token), count(ended)), unseen

    def _call_may_be_made(self, job: Job, run: Run, deployed: Policy | None) -> bool:
        """Whether an endpoint may have been called: a record that is still there does not tell that it was not."""
        return job.maybe_done and is_call(policy_of(self.evidence, run, deployed).action)

    def _settle(self, job: Job, write: Write) -> None:
        if isinstance(self.ledger.table.write(write), Applied):
            state = write.set["state"]
            self.log(f"job_{state}", job_id=job.job_id, run_id=job.run_id, policy=job.policy, attempt=job.attempt)

    # an invalidated run

    def _cancel_all(self, run: Run, policy: Policy | None) -> bool:
        """Every open job ends cancelled; True when none is left: a live lease is waited for."""
        ended: list[bool] = []
        jobs = (job for job in self.ledger.jobs(run.run_id) if job.state in OPEN)
        self._each_job(jobs, lambda job: ended.append(self._cancel(job, run, policy)))
        return all(ended)

    def _cancel(self, job: Job, run: Run, policy: Policy | None) -> bool:
        """Cancel one open job; False while a live lease keeps it."""
        now = self.clock()
        if job.state is JobState.LEASED:
            if job.lease_expires_at is not None and job.lease_expires_at >= now:
                return False
            written = self.ledger.table.write(job_transitions.expire(job, now, self.token()))
            if not isinstance(written, Applied) or written.row is None:
                return False
            job = Job.from_row(written.row)
        gained, trouble = self._observed_or_not(job, run, policy)
        if not trouble and gained.items < job.open_items and self._call_may_be_made(job, run, policy):
            trouble = CALL_UNKNOWN
        now, token = self.clock(), self.token()
        if trouble:
            self._settle(job, job_transitions.die(job, gained, trouble, trouble.code, now, token, cannot_tell=True))
        else:
            end = job_transitions.succeed if gained.items == job.open_items else job_transitions.cancel
            self._settle(job, end(job, gained, now, token))
        return True

    # what is deployed, and the gauges

    def _register(self) -> Collection[Row]:
        """Policy rows say what is deployed, for the commands that explain it. Returns them as they were before."""
        known = {row["policy"]: row for row in self.ledger.policies()}
        for policy in self.policies.values():
            row = known.get(policy.id, {})
            since = schedule_since(row, policy.schedule, policy.timezone, self.clock())
            fields = {"schedule": policy.schedule, "timezone": policy.timezone, "schedule_since": since}
            fields["owner"] = policy.owner
            if row.get("deployed_version") != policy.version or any(row.get(k) != v for k, v in fields.items()):
                self.evidence.put_once(keys.policy(policy.id, policy.version), policy.canonical().encode())
                self.ledger.table.write(
                    run_transitions.deploy(policy.id, policy.version, fields, self.clock(), self.token())
                )
        for gone in sorted(known.keys() - self.policies.keys()):
            if known[gone].get("deployed_version"):
                self.ledger.table.write(run_transitions.withdraw(gone, self.token()))
        return known.values()

    def _publish(self, runs: Sequence[Run], registered: Iterable[Row]) -> None:
        """The gauges that alarms stand on, zeros included: an idle policy is not a silent one."""
        now = self.clock()
        oldest, dead, unbalanced = Counter[str](), Counter[str](), Counter[str]()
        for run in runs:
            if run.state in (*AT_WORK, RunState.HALTED):  # the breaker halts a run while nobody looks
                age = int((now - run.since).total_seconds())
                oldest[run.policy] = max(oldest[run.policy], age)
        listed = {
            run.run_id: run for run in (*runs, *self.ledger.runs_for_a_person())
        }  # one closed just now is in both
        for run in listed.values():
            dead_jobs = sum(1 for _ in self.ledger.open_jobs(run.run_id, JobState.DEAD))
            if dead_jobs == 0 and run.open_pk == ATTENTION and run.balanced:
                self._settled(run)
            dead[run.policy] += dead_jobs
            unbalanced[run.policy] += run.balanced is False
        for policy in sorted({*self.policies, *oldest}):
            self.gauges.put("OldestOpenJobAge", oldest[policy], policy)
        self.gauges.put("HaltedRuns", sum(run.state is RunState.HALTED and run.reason == BREAKER for run in runs))
        self.gauges.put("DeadJobs", dead.total())
        self.gauges.put("BooksOutOfBalance", unbalanced.total())
        controls = self.ledger.controls()
        late = (missed(row, controls, now) for row in registered)
        self.gauges.put("MissedSchedules", sum(each.overdue for each in late if each))

    def _settled(self, listed: Run) -> None:
        """List a closed run no more once a person has been through all that died; the index alone is no proof."""
        run = self.ledger.run(listed.id)
        if run is None or not run.closed or not run.balanced or self.time_left() < RESERVE:
            return
        if not any(job.state is JobState.DEAD and job.resolved_at is None for job in self.ledger.jobs(run.run_id)):
            self.ledger.table.write(run_transitions.announced(run, needs_a_person=False, write_id=self.token()))


def _cannot_tell(failure: Failure) -> Failure:
    """The look that would tell is refused for good: a person must."""
    return replace(failure, code=EFFECT_UNKNOWN, summary=f"{failure.code}: {failure.summary}")

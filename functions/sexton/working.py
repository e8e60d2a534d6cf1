"""Working: claim, open, look, decide, remove, record, settle. Each job to its next durable state, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sexton import calling, job_transitions, malformed, message, outcome, receiving, settling
from sexton.controls import Controls
from sexton.endpoint import Endpoint, for_job
from sexton.errors import EFFECT_UNKNOWN, CallFailed, EvidenceAltered, Failure, LeaseLost, ReasonClass
from sexton.instant import latest
from sexton.item import Item
from sexton.job import Job, JobState, Limits
from sexton.job_transitions import Gained, Release
from sexton.judging import FreshLook, after_removal, called_before, held
from sexton.ledger import Ledger
from sexton.message import Message
from sexton.noting import note_changes
from sexton.observing import at_once
from sexton.policy import Policy
from sexton.ports import Clock, Deliveries, Evidence, Log, TimeLeft, Token
from sexton.reading import open_items, policy_to_work_by, record
from sexton.receiving import IsDead, Meeting, Mismatch, Settled, TakeOver, Wait
from sexton.replaying import Redriven, Replaying
from sexton.retry import Jitter, backoff
from sexton.run import AT_WORK, SEXTON, Change, Run, RunState
from sexton.settling import Attempt, Kind, Next
from sexton.starting import Policies
from sexton.table import Applied, Row, Write
from sexton.target import AnyTarget, AtomicTarget, Target
from sexton.targets import judge_of

FRESH = timedelta(seconds=10)  # how old a look may be when its effect begins
LOOKS = 5  # of one attempt at records that change under it, before they are left for a while
LEASE_RESERVE = timedelta(seconds=10)  # of the lease, past the longest that a call may take


class Answer(StrEnum):
    """What becomes of the message."""

    ACK = "ack"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A received message. `sent_at`: when it was put on the queue; a redrive puts it there anew."""

    message_id: str
    receipt: str
    body: str
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What stands above a job, and when the oldest thing that a decision rests on was read."""

    run: Run
    controls: Controls
    at: datetime

    @property
    def may_work(self) -> bool:
        """Whether the run is at work and not paused."""
        return self.run.state in AT_WORK and not self.controls.paused(self.run.policy)

    def holds(self, address: str) -> bool:
        """Whether a hold keeps what has this address. It keeps nothing from coming back: an undo does not mind it."""
        return self.run.undoes is None and self.controls.hold_on(address) is not None

    @property
    def resumed_at(self) -> datetime | None:
        """When the run, its policy or all policies were last resumed."""
        return latest(self.run.resumed_at, self.controls.resumed_at(self.run.policy))


Opened = Sequence[tuple[int, Item]]


@dataclass(frozen=True)
class Working:
    """The worker. It never enqueues; it writes job rows, outcome files and records of malformed messages."""

    ledger: Ledger
    evidence: Evidence
    target: Callable[[Policy, Run], AnyTarget]
    deliveries: Deliveries
    policies: Policies
    clock: Clock
    token: Token
    jitter: Jitter
    time_left: TimeLeft
    log: Log
    lease: timedelta
    visibility: timedelta
    reserve: timedelta  # of the function's time, to record and settle

    def work(self, delivery: Delivery) -> Answer:
        """Bring the message's job to its next durable state.

        ACK only when the ledger says succeeded, cancelled, or ready with a dispatch due. Raises CallFailed or
        LeaseLost where it could not tell: then the message must come again.
        """
        try:
            claimed = message.read(delivery.body)
        except message.Malformed as error:
            return self._refuse(delivery, "malformed", str(error))
        look = self._look_at_run(claimed)
        policy = policy_to_work_by(self.evidence, look.run, self.policies) if look else None
        met = receiving.met_run(claimed, look.run if look else None, policy.version if policy else None)
        if met is not None:
            return self._answer(delivery, claimed, met)
        assert look is not None
        return self._work_claimed(delivery, claimed, look, policy)

    def _look_at_run(self, claimed: Message) -> Look | None:
        at = self.clock()
        run = self.ledger.run(claimed.run)
        return Look(run, self.ledger.controls(), at) if run else None

    def _work_claimed(self, delivery: Delivery, claimed: Message, look: Look, policy: Policy | None) -> Answer:
        if not look.may_work or policy is None:
            return self._park(delivery, claimed, look)
        if self.time_left() < self.target(policy, look.run).request_timeout() + 2 * self.reserve:
            # The last of a slow batch: a claim now would only use up an attempt.
            return self._answer(delivery, claimed, Wait(timedelta(), "too little of the function's time is left"))
        limits = Limits(policy.limits.max_attempts, policy.limits.max_age)
        job = self._claim(claimed, look, limits)
        if not isinstance(job, Job):
            return self._answer(delivery, claimed, job)
        self.log("job_claimed", **_facts(job))
        if isinstance(self.target(policy, look.run), AtomicTarget):  # an attempt without a record has no effect either
            job = job.model_copy(update={"maybe_done": False})
        attempt = self._split(job) if job.to_split() else self._attempt(job, look, policy)
        looks = 1
        while attempt:
            settled = self._settle(delivery, job, attempt, look, limits)
            if isinstance(settled, Answer):
                return settled
            again = settled.code == settling.RECORDS_CHANGED and looks < LOOKS
            if settled.code in settling.UNFIT and len(attempt.changes) > 1:  # sizes are estimates
                attempt = attempt.halved()
                continue
            attempt = self._attempt(job, look, policy) if again else attempt.without_changes(settled)
            looks += 1
        return Answer.ACK

    def _park(self, delivery: Delivery, claimed: Message, look: Look) -> Answer:
        """Nothing may be done now. Of a halted or paused run the row is left ready and due, and the message goes."""
        row = self.ledger.table.get(claimed.job_key)
        met = receiving.met_idle(claimed, row)
        stopped = look.run.state in (*AT_WORK, RunState.HALTED) and not look.may_work
        if row is not None and isinstance(met, Wait) and stopped and row["state"] == JobState.READY:
            parked = job_transitions.due_now(Job.from_row(row), self.clock(), self.token())
            if isinstance(self.ledger.table.write(parked), Applied):
                self.log("job_parked", job_id=claimed.job_id, run_id=claimed.run_id, policy=look.run.policy)
                return Answer.ACK
        return self._answer(delivery, claimed, met)

    # claim

    def _claim(self, claimed: Message, look: Look, limits: Limits) -> Job | Meeting:
        """The job under a lease of ours, or what stood in its way."""
        token, now = self.token(), self.clock()
        written = self.ledger.table.write(
            job_transitions.claim(claimed, token, now, self.lease, limits, look.resumed_at)
        )
        if isinstance(written, Applied):
            return _job(written)
        met = receiving.met_row(claimed, written.old, limits, now, look.resumed_at)
        if not isinstance(met, TakeOver):
            return met
        written = self.ledger.table.write(job_transitions.take_over(met.job, token, now, self.lease))
        return _job(written) if isinstance(written, Applied) else Wait(timedelta(seconds=1), "another was faster")

    def _answer(self, delivery: Delivery, claimed: Message, met: Meeting) -> Answer:
        """The message of a job that is not ours to work on now."""
        if isinstance(met, Mismatch):
            return self._refuse(delivery, "policy_mismatch", met.why)
        if isinstance(met, Settled):
            return Answer.ACK
        if isinstance(met, IsDead):
            return self._answer_dead(delivery, claimed, met.job)
        assert isinstance(met, Wait)  # what can be taken over is taken over
        self.log("message_kept", job_id=claimed.job_id, why=met.why, wait_seconds=met.wait.total_seconds())
        self.deliveries.hide(delivery.receipt, met.wait)
        return Answer.KEEP

    def _answer_dead(self, delivery: Delivery, claimed: Message, job: Job) -> Answer:
        """The message of a dead job is failed on; one that was redriven replays the job, which is then worked on."""
        replaying = Replaying(self.ledger, self.policies, self.clock, self.token, self.log)
        redriven = replaying.redrive(job, delivery.sent_at, self.visibility)
        if redriven is Redriven.AGAIN:
            return self.work(replace(delivery, sent_at=None))
        wait = receiving.LOOK_AGAIN if redriven is Redriven.LATER else timedelta()
        return self._answer(delivery, claimed, Wait(wait, "dead"))

    def _refuse(self, delivery: Delivery, kind: malformed.Kind, why: str) -> Answer:
        """No call on the message's word: it is recorded and failed on, until SQS moves it to the dead letters."""
        now = self.clock()
        self.ledger.table.transact(malformed.record(delivery.message_id, kind, why, delivery.body, now, self.token()))
        self.log("message_refused", message_id=delivery.message_id, kind=kind, why=why)
        self.deliveries.hide(delivery.receipt, timedelta())
        return Answer.KEEP

    # open, look, decide, remove

    def _attempt(self, job: Job, look: Look, policy: Policy) -> Attempt:
        attempt = Attempt(job.indexes())
        try:
            opened = dict(open_items(self.evidence, job))
            attempt = Attempt(list(opened), opened)
            self._remove(job, look, policy, attempt)
        except (CallFailed, EvidenceAltered) as error:
            attempt.whole = _failure_of_reading(error)
        return attempt

    def _remove(self, job: Job, look: Look, policy: Policy, attempt: Attempt) -> None:
        """Look and remove, as many items at once as one look serves; again for those whose look grew old."""
        target, judged = for_job(self.target(policy, look.run), job), judge_of(policy, look.run)
        left: Opened = list(attempt.items.items())
        size = len(left) if isinstance(target, AtomicTarget) else at_once(len(left), job.span)
        while left:
            look = self._refreshed(look)
            if self._stops(job, look, target, attempt):
                return
            group, rest = left[:size], left[size:]
            span = job.span * len(group) // len(attempt.open)
            fresh = FreshLook.of(target, judged, [item for _, item in group], span, self.clock)
            if fresh.at - look.at > FRESH / 2:  # it took long to come to the items
                look = self._refreshed(look)
            due = self._due(job, group, fresh, look, policy, attempt)  # by the holds of the look that is counted
            if self._stops(job, look, target, attempt):
                return
            looked_at = min(look.at, fresh.at)
            if isinstance(target, AtomicTarget):
                attempt.looked_at = looked_at
                note_changes(target, due, attempt, self.clock())
                return
            old = self._remove_due(job, target, due, looked_at, attempt)
            if old and len(old) == len(due):
                size = max(1, size // 2)
            left = [*old, *rest]

    def _due(self, job: Job, group: Opened, fresh: FreshLook, look: Look, policy: Policy, attempt: Attempt) -> Opened:
        """What is still to be removed; what a look has ended, or could not see, is noted."""
        due = []
        for index, planned in group:
            ended = fresh.ended(index, planned, job.maybe_done)
            if isinstance(ended, Failure):
                attempt.failures[index] = ended
                continue
            attempt.looked.add(index)
            if ended is None and look.holds(policy.source.address(planned.key)):
                ended = held(index, planned, fresh.at)
            attempt.outcomes.append(ended) if ended else due.append((index, planned))
        return due

    def _stops(self, job: Job, look: Look, target: AnyTarget, attempt: Attempt) -> bool:
        """Whether the attempt ends here, for a reason that it notes."""
        attempt.stop = self._reason_to_stop(job, look, target)
        return attempt.stop is not None

    def _reason_to_stop(self, job: Job, look: Look, target: AnyTarget) -> str | None:
        if look.run.state is RunState.INVALIDATED:
            return settling.INVALIDATED
        if not look.may_work:
            return settling.STOPPED
        return settling.OUT_OF_TIME if self._time_is_over(job, target) else None

    def _remove_due(self, job: Job, target: Target, due: Opened, looked_at: datetime, attempt: Attempt) -> Opened:
        """Remove while the look is fresh and the time is not over; returns what is left for another look."""
        for batch in target.batches(due):
            if not self._may_remove(job, target, batch, attempt):
                continue
            if self.clock() - looked_at > FRESH or self._time_is_over(job, target):
                done = set(attempt.failures) | {each.index for each in attempt.outcomes}
                return [(index, item) for index, item in due if index not in done]
            came = target.remove([item for _, item in batch])
            at = self.clock()
            for index, planned in batch:
                result = after_removal(index, planned, came[planned.id], job.maybe_done, at)
                if isinstance(result, Failure):
                    attempt.failures[index] = result
                else:
                    attempt.outcomes.append(result)
        return ()

    def _may_remove(self, job: Job, target: AnyTarget, batch: Opened, attempt: Attempt) -> bool:
        """What must not be done twice is written down before it is begun, and not begun where it may have been."""
        if not isinstance(target, Endpoint) or target.repeatable:
            return True
        ((index, item),) = batch
        now = self.clock()
        if calling.begin(self.ledger, job, item, now, self.token()):
            return True
        attempt.outcomes.append(called_before(index, item, now))
        return False

    def _refreshed(self, look: Look) -> Look:
        """Run, pauses and holds are read with every fresh look, unless that was so lately that it will serve."""
        at = self.clock()
        if at - look.at <= FRESH / 2:
            return look
        run = self.ledger.run(look.run.id)
        if run is None:
            raise LeaseLost(f"the row of {look.run.run_id} is gone")
        return Look(run, self.ledger.controls(), at)

    def _time_is_over(self, job: Job, target: AnyTarget) -> bool:
        """No effect is begun that could outlast the lease or the function."""
        timeout = target.request_timeout()
        assert job.lease_expires_at is not None
        lease_ends = job.lease_expires_at - self.clock() < timeout + LEASE_RESERVE
        return lease_ends or self.time_left() < timeout + self.reserve

    # record, settle

    def _settle(self, delivery: Delivery, job: Job, attempt: Attempt, look: Look, limits: Limits) -> Answer | Failure:
        """Bring the job to its next state; a Failure where its changes, and with them the settlement, did not go."""
        now = self.clock()
        too_old = job.model_copy(update={"attempt": 0}).used_up(limits, now, look.resumed_at)
        step = settling.next_step(job, attempt, job.attempt >= limits.max_attempts, too_old)
        gained, children = self._gained(job, attempt, step, now)
        wait = timedelta() if step.at_once else self._wait(job, step)
        failed = self._commit(self._transition(job, step, gained, now, wait), children, attempt)
        if failed is not None:
            self.log("changes_refused", **_facts(job), code=failed.code, summary=failed.summary)
            return failed
        self.log(f"job_{step.kind}", **_facts(job), event_reason=step.event, items=gained.items)
        if step.event == settling.BREAKER:
            self._halt(look.run, step)
        if step.kind in (Kind.SUCCEED, Kind.CANCEL) or step.event in settling.PARKED:
            return Answer.ACK
        self.deliveries.hide(delivery.receipt, wait if step.kind is Kind.RELEASE else timedelta())
        return Answer.KEEP

    def _halt(self, run: Run, step: Next) -> None:
        """One mistake must not make a dead letter of every job. Another worker may have halted the run before us."""
        assert step.failure is not None
        why = f"{step.failure.code}: {step.failure.summary}"
        change = Change(at=self.clock(), actor=SEXTON, change="halted", reason=why, detail=settling.BREAKER)
        if self.ledger.halt(run, change, self.token):
            self.log("run_halted", run_id=run.run_id, policy=run.policy, reason=settling.BREAKER, why=why)

    def _wait(self, job: Job, step: Next) -> timedelta:
        if step.event == EFFECT_UNKNOWN:
            return receiving.LOOK_AGAIN
        turn = job.throttles + 1 if step.event == ReasonClass.THROTTLED else job.attempt
        return backoff(turn, self.jitter, step.failure.retry_after if step.failure else None)

    def _transition(self, job: Job, step: Next, gained: Gained, now: datetime, wait: timedelta) -> Write:
        write_id = self.token()
        if step.kind is Kind.SUCCEED:
            return job_transitions.succeed(job, gained, now, write_id)
        if step.kind is Kind.CANCEL:
            return job_transitions.cancel(job, gained, now, write_id)
        if step.kind is Kind.DIE:
            assert step.failure is not None
            unknown = step.event == EFFECT_UNKNOWN
            return job_transitions.die(job, gained, step.failure, step.event, now, write_id, cannot_tell=unknown)
        not_before = now + wait
        due = now if step.event in settling.PARKED else not_before + self.visibility
        how = Release(step.event, not_before, due, step.maybe_done, step.refund, step.failure)
        return job_transitions.release(job, gained, how, now, write_id)

    def _gained(self, job: Job, attempt: Attempt, step: Next, now: datetime) -> tuple[Gained, list[Write]]:
        """Record the outcomes, and make the rows of what is split off."""
        file = record(self.evidence, job, attempt.outcomes, self.token)
        groups = [[index] for index in step.split_off]
        after = job.model_copy(update={"maybe_done": step.maybe_done})
        if file:
            after = after.model_copy(update={"outcome_files": (*job.outcome_files, file)})
        children = self._children(after, groups, attempt.items, now)
        gained = Gained(file, outcome.count(attempt.outcomes), tuple(map(settling.span_of, groups)), len(groups))
        return gained, children

    def _split(self, job: Job) -> Attempt | None:
        """A job that crashed workers twice becomes ranges, until only the poisonous item is left.

        Returns the attempt that failed when its part could not be read, else None: it is settled.
        """
        try:
            opened = dict(open_items(self.evidence, job))
        except (CallFailed, EvidenceAltered) as error:
            return Attempt(job.indexes(), whole=_failure_of_reading(error))
        groups, now = settling.ranges(list(opened)), self.clock()
        gained = Gained(split_off=tuple(map(settling.span_of, groups)), items_split_off=len(opened), for_failure=False)
        children = self._children(job, groups, opened, now)
        self._write_settlement(job_transitions.succeed(job, gained, now, self.token()), children)
        self.log("job_split", **_facts(job), ranges=len(groups))
        return None

    def _children(
        self, job: Job, groups: Sequence[Sequence[int]], items: Mapping[int, Item], now: datetime
    ) -> list[Write]:
        return [
            job_transitions.split_off(job, settling.span_of(group), group, items, now, self.token()) for group in groups
        ]

    def _commit(self, settlement: Write, children: Sequence[Write], attempt: Attempt) -> Failure | None:
        """The settlement with the changes that go with it; why those did not go, else None.

        Then nothing was written. Where the reply was lost a settlement without the changes tells: it takes place only
        if the one with them never did, and never will.
        """
        if not attempt.changes:
            self._write_settlement(settlement, children)
            return None
        if attempt.looked_at is None or self.clock() - attempt.looked_at > FRESH:
            return _changed("what was read of the records grew old before they could be changed")
        try:
            written = self.ledger.table.transact([settlement, *children, *attempt.changes.values()])
        except CallFailed as failed:
            return replace(failed.failure, unknown_effect=False)
        if isinstance(written, Applied):
            return None
        if written.index <= len(children):
            raise LeaseLost(f"the lease on {settlement.key.sk} is not ours any more")
        return _changed("a record was changed after it had been looked at")

    def _write_settlement(self, settlement: Write, children: Sequence[Write]) -> None:
        """The settlement and the rows of what was split off: all or none."""
        table = self.ledger.table
        written = table.transact([settlement, *children]) if children else table.write(settlement)
        if not isinstance(written, Applied):
            raise LeaseLost(f"the lease on {settlement.key.sk} is not ours any more")


def _failure_of_reading(error: CallFailed | EvidenceAltered) -> Failure:
    """Only reading raises, and what failed before it began; a removal answers for each key. So no effect is unknown
    on this account."""
    if isinstance(error, EvidenceAltered):
        return Failure(ReasonClass.PERMANENT, settling.EVIDENCE_ALTERED, str(error))
    return replace(error.failure, unknown_effect=False)


def _changed(summary: str) -> Failure:
    return Failure(ReasonClass.TRANSIENT, settling.RECORDS_CHANGED, summary)


def _job(written: Applied) -> Job:
    row: Row = written.row or {}
    return Job.from_row(row)


def _facts(job: Job) -> dict[str, object]:
    return {"job_id": job.job_id, "run_id": job.run_id, "policy": job.policy, "attempt": job.attempt}

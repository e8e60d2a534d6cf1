"""Planning: list, decide, write a part, then its job row and the cursor in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from sexton import job_transitions, keys, part, receipts, run_transitions
from sexton.approval import reasons_to_wait
from sexton.cohort_counts import CohortCounts
from sexton.controls import Controls
from sexton.decision import PLACED, UNREADABLE, Decision, judge
from sexton.errors import CallFailed, EvidenceAltered, LeaseLost, ReasonClass, SourceRefused
from sexton.item import Item, rfc3339
from sexton.judging import judge_all
from sexton.ledger import Ledger
from sexton.policy import MAX_PARTS, Policy
from sexton.ports import Clock, Evidence, Stores, TimeLeft, Token
from sexton.run import Cursor, Place, Run, RunState
from sexton.run_transitions import PLANNER_LEASE
from sexton.table import Applied, Check, Refused, Write
from sexton.target import Page
from sexton.targets import refuse_unfit_source, target_of

T = TypeVar("T")

LOOK_AT_CONTROLS = timedelta(seconds=15)  # a pause beats planning within half a minute, a page of a listing included
UNREADABLE_KEPT = 100  # keys of records whose timestamp cannot be read
UNREADABLE_TEXT = 8_192  # characters of them together
RESERVE = timedelta(seconds=30)  # of the function's time, to write the last part and put the lease down


class Paused(Exception):
    """A person paused the policy, or all: the cursor stands, and planning goes on when it is resumed."""


class OutOfTime(Exception):
    """The function's time is nearly over: the cursor stands, the next invocation goes on."""


@dataclass
class Scan:
    """What one planner has in hand: the durable cursor and counts, and what it has seen since."""

    cursor: Cursor
    scanned: Counter[str]
    planned: int
    size: int
    written_at: datetime
    controls: Controls
    controls_at: datetime
    seen: Counter[str] = field(default_factory=Counter)
    pending: list[Item] = field(default_factory=list)
    span: int = 0  # objects listed since the first pending item, it included
    span_to_last: int = 0  # the same, up to the last pending item
    unreadable: list[str] = field(default_factory=list)  # keys of records, of the whole run: the first of them
    cohorts: CohortCounts | None = None  # of the whole run
    cohorts_kept: str | None = None  # the hash of the file with those that are durable

    def count_all(self, items: Sequence[Item], decision: Decision) -> None:
        """Count items by cohort, where the policy names any."""
        if self.cohorts is not None:
            for item in items:
                self.cohorts.add(item, decision)

    @property
    def gathered(self) -> bool:
        """Whether so much is gathered that is only reported that it must be written."""
        return self.cohorts is not None and self.cohorts.reported.full

    def note_unreadable(self, key: str) -> None:
        """Keep the key for the plan's list, as long as that is short: the run's row carries it."""
        if len(self.unreadable) < UNREADABLE_KEPT and sum(map(len, self.unreadable)) + len(key) <= UNREADABLE_TEXT:
            self.unreadable.append(key)


@dataclass(frozen=True)
class Planning:
    """Plans runs, from `planning` to `reported`, `awaiting_approval` or `dispatching`."""

    ledger: Ledger
    evidence: Evidence
    stores: Stores
    clock: Clock
    token: Token
    time_left: TimeLeft

    def plan(self, run: Run, policy: Policy) -> Run:
        """Take the planner's lease and plan until the plan is complete or the time is over.

        Returns the run as it then stands. A run that somebody else is planning, or that is past planning, is
        returned as it is. Raises CallFailed when a call failed that may go through later.
        """
        if run.state is RunState.PLANNING:
            token = self.token()
            leased = self.ledger.table.write(run_transitions.lease_planner(run, token, self.clock()))
            if isinstance(leased, Refused):
                return self._again(run)
            run = self._plan_leased(self._again(run), policy, token)
        if run.state is RunState.PLANNED:
            run = self._review(run, policy)
        return run

    def _again(self, run: Run) -> Run:
        found = self.ledger.run(run.id)
        if found is None:
            raise LeaseLost(f"the row of {run.run_id} is gone")
        return found

    def _plan_leased(self, run: Run, policy: Policy, token: str) -> Run:
        try:
            if run.undoes:
                self._scan_receipts(run, policy, token)
            else:
                run = self._check_source(run, policy, token)
                self._scan(run, policy, token)
            return self._complete(run, token)
        except (OutOfTime, Paused):
            self._write(run_transitions.put_down(run, token, self.token()))
        except CallFailed:
            self._write(run_transitions.put_down(run, token, self.token()))
            raise
        except SourceRefused as refused:
            now, write_id = self.clock(), self.token()
            self._write(run_transitions.refuse(run, token, refused.reason, str(refused), now, write_id))
        except LeaseLost:
            pass  # another planner has it, or the run was invalidated: what is durable stands, the rest is theirs
        return self._again(run)

    def _check_source(self, run: Run, policy: Policy, token: str) -> Run:
        """Refuse a source on which the policy would do other than it says."""
        versioned = _refusing(partial(refuse_unfit_source, policy, self.stores, run.run_id), policy.source.place)
        self._held(self.ledger.table.write(run_transitions.note_versioning(run, token, versioned, self.token())))
        return run.model_copy(update={"versioned": versioned})

    def _scan(self, run: Run, policy: Policy, token: str) -> None:
        judged, target = judge(policy, run.cutoff), target_of(policy, self.stores, run.cutoff, run.run_id)
        scan = self._scan_from(run, policy)
        place: Place = run.cursor
        while place.prefix < target.ranges:
            page = _refusing(partial(target.page, place), policy.source.place)
            self._take(
                run,
                policy,
                token,
                scan,
                page,
                _refusing(partial(judge_all, target, judged, page.items), policy.source.place),
            )
            place = page.next
            if page.ends_range:  # a job's items are neighbours: no part reaches from one prefix into the next
                self._flush(run, token, scan, place)
            self._pause_point(run, policy, token, scan, place)

    def _scan_receipts(self, run: Run, policy: Policy, token: str) -> None:
        """Of an undo: what the undone run left to take back, one part for each of its jobs that left any."""
        scan, here = self._scan_from(run, policy), Place(start_after=run.cursor.start_after)
        for job, found in receipts.of_run(self.ledger, self.evidence, str(run.undoes), run.cursor.start_after):
            here = Place(start_after=job.seq)
            scan.seen.update(found.counts)
            scan.count_all(found.items, PLACED)
            if found.items:
                scan.pending, scan.span_to_last = [*found.items], found.span
                self._flush(run, token, scan, here)
            self._pause_point(run, policy, token, scan, here)
        if scan.seen:
            self._flush(run, token, scan, here)

    def _scan_from(self, run: Run, policy: Policy) -> Scan:
        """What is durable of the scan so far."""
        now = self.clock()
        controls = self.ledger.controls()
        scan = Scan(run.cursor, Counter(run.scanned), run.planned, run.planned_bytes, now, controls, now)
        scan.unreadable.extend(run.unreadable)
        scan.cohorts, scan.cohorts_kept = self._counted(run, policy), run.cohorts
        return scan

    def _counted(self, run: Run, policy: Policy) -> CohortCounts | None:
        try:
            return CohortCounts.of_run(self.evidence, policy, run)
        except EvidenceAltered as altered:
            raise SourceRefused("cohorts_lost", f"{altered}; start a new run") from altered

    def _counted_or_none(self, run: Run, policy: Policy) -> CohortCounts | None:
        """Of a complete plan, which stands without its counts by cohort: then a person must look at it."""
        try:
            return CohortCounts.of_run(self.evidence, policy, run)
        except EvidenceAltered:
            return None

    def _take(
        self, run: Run, policy: Policy, token: str, scan: Scan, page: Page, judged: Sequence[tuple[Item, Decision]]
    ) -> None:
        """Take a judged page; every full part becomes durable before the next item is looked at."""
        for index, (item, decision) in enumerate(judged):
            scan.seen[decision.reason] += 1
            scan.span += 1
            scan.count_all((item,), decision)
            if decision is UNREADABLE:
                scan.note_unreadable(item.key)
            if decision.action != "remove":
                continue
            if not scan.pending:
                scan.span = 1
            scan.pending.append(item)
            scan.span_to_last = scan.span
            if len(scan.pending) == policy.job_size:
                self._flush(run, token, scan, page.place_after(index))

    def _pause_point(self, run: Run, policy: Policy, token: str, scan: Scan, here: Place) -> None:
        """Between pages: stop in time, keep the lease, and do not plan for ever."""
        now = self.clock()
        if now - scan.controls_at > LOOK_AT_CONTROLS:
            scan.controls, scan.controls_at = self.ledger.controls(), now
        if scan.controls.paused(run.policy):
            self._flush(run, token, scan, here)
            raise Paused
        if planning_exceeded(run, policy, scan.controls, now):
            raise SourceRefused(
                "planning_exceeded",
                f"planning took longer than the policy's max_planning after {sum(scan.scanned.values())} items; "
                f"{policy.source.narrower} or raise limits.max_planning",
            )
        if self.time_left() < RESERVE:
            self._flush(run, token, scan, here)
            raise OutOfTime
        if scan.gathered or (not scan.pending and now - scan.written_at > PLANNER_LEASE / 3):
            self._flush(run, token, scan, here)
        elif now - scan.written_at > PLANNER_LEASE / 2:
            self._renew(run, token, scan)

    def _flush(self, run: Run, token: str, scan: Scan, to: Place) -> None:
        """Make what was seen up to `to` durable: the part first, then its job row and the cursor in one step."""
        writes: list[Write | Check] = []
        if scan.pending:
            writes.append(self._write_part(run, scan))
        scanned, planned = scan.scanned + scan.seen, scan.planned + len(scan.pending)
        size = scan.size + sum(item.size for item in scan.pending)
        cursor = Cursor.at(to, scan.cursor.part + len(writes))
        if scan.cohorts is not None:
            scan.cohorts_kept = scan.cohorts.keep(self.evidence, run.run_id, scan.cohorts_kept)
        now = self.clock()
        writes.append(
            run_transitions.advance(
                run, token, cursor, dict(scanned), planned, size, now, self.token(), scan.unreadable, scan.cohorts_kept
            )
        )
        self._held(self.ledger.table.transact(writes) if len(writes) > 1 else self._write_one(writes[0]))
        scan.cursor, scan.scanned, scan.planned, scan.size, scan.written_at = cursor, scanned, planned, size, now
        scan.seen, scan.pending = Counter(), []

    def _write_one(self, write: Write | Check) -> Applied | Refused:
        assert isinstance(write, Write)
        return self.ledger.table.write(write)

    def _write_part(self, run: Run, scan: Scan) -> Write:
        if scan.cursor.part > MAX_PARTS:
            raise SourceRefused(
                "planning_exceeded",
                f"the plan has more than {MAX_PARTS + 1} parts; raise job_size or let the policy mean less",
            )
        # Records are found in no order of their keys; what asks for one key takes a part for ordered.
        items = sorted(scan.pending, key=lambda item: item.key)
        made = part.build(f"000{scan.cursor.part:05d}", items, scan.span_to_last)
        part_key = keys.part(run.run_id, made.seq, made.sha256)
        # Taken already means that a planner died between part and row: the key holds the hash, so it is the same.
        self.evidence.put_once(part_key, made.lines)
        return job_transitions.plan(run, made, part_key, self.clock(), self.token())

    def _renew(self, run: Run, token: str, scan: Scan) -> None:
        now = self.clock()
        self._held(
            self.ledger.table.write(
                run_transitions.advance(
                    run, token, scan.cursor, dict(scan.scanned), scan.planned, scan.size, now, self.token()
                )
            )
        )
        scan.written_at = now

    def _complete(self, run: Run, token: str) -> Run:
        hashes = [job.part_sha256 for job in self.ledger.jobs(run.run_id)]
        digest = part.digest(run.policy_version, run.cutoff, hashes)
        self._held(self.ledger.table.write(run_transitions.planned(run, token, digest, self.clock(), self.token())))
        return self._again(run)

    def _review(self, run: Run, policy: Policy) -> Run:
        """planned: the list of parts goes to evidence, then the limits and the approval are judged."""
        counts = self._counted_or_none(run, policy)
        because = () if run.undoes else self._reasons_to_wait(run, policy, counts)
        write_plan(self.ledger, self.evidence, run, counts)
        if run.mode == "report":
            self._free(run, RunState.REPORTED, because)
        elif because:
            self._free(run, RunState.AWAITING_APPROVAL, because)
        else:
            self._write(run_transitions.move(run, RunState.DISPATCHING, self.token()))
        return self._again(run)

    def _reasons_to_wait(self, run: Run, policy: Policy, counts: CohortCounts | None) -> tuple[str, ...]:
        return reasons_to_wait(policy, run, self.ledger.policy(run.policy).get("approved_versions", []), counts)

    def _free(self, run: Run, state: RunState, because: tuple[str, ...]) -> None:
        """The run waits for a person: it frees the policy's slot in the same transaction."""
        token = self.token()
        self.ledger.table.transact(
            [run_transitions.wait(run, state, because, token), run_transitions.free_slot(run, token)]
        )

    def _write(self, write: Write) -> None:
        """A transition that another may have made before us: then the run is read again and speaks for itself."""
        self.ledger.table.write(write)

    @staticmethod
    def _held(written: Applied | Refused) -> None:
        if isinstance(written, Refused):
            raise LeaseLost("the planner's lease is not ours any more, or the run is no longer planning")


def planning_exceeded(run: Run, policy: Policy, controls: Controls, now: datetime) -> bool:
    """Whether planning has taken longer than the policy lets it; time before the end of a pause does not count."""
    if controls.paused(run.policy) or run.undoes:  # an undo lists nothing: what it plans was bounded when it was done
        return False
    began = max(run.created_at, controls.resumed_at(run.policy) or run.created_at)
    return now - began > policy.limits.max_planning


def _refusing(call: Callable[[], T], place: str) -> T:
    """A source that says no for good is refused; everything else may go through later."""
    try:
        return call()
    except CallFailed as failed:
        if failed.failure.reason_class in (ReasonClass.PERMANENT, ReasonClass.GONE):
            raise SourceRefused(
                "source_refused", f"{place} cannot be read: {failed}; {failed.failure.next_action}"
            ) from failed
        raise


def write_plan(ledger: Ledger, evidence: Evidence, run: Run, counts: CohortCounts | None) -> None:
    """Write `plan.json` from the ledger: the same each time, so that a repeat after a crash finds it written.

    `counts`: by cohort, as far as the run was planned.
    """
    plan = {
        "schema": 1,
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "scheduled_time": rfc3339(run.scheduled_time),
        "cutoff": rfc3339(run.cutoff),
        "mode": run.mode,
        **({"undoes": run.undoes} if run.undoes else {}),
        "digest": run.digest,
        "scanned": run.scanned,
        "planned": run.planned,
        "planned_bytes": run.planned_bytes,
        **({"unreadable": list(run.unreadable)} if run.unreadable else {}),
        **({"cohorts": counts.shown().model_dump()} if counts else {}),
        "parts": [
            {
                "seq": job.seq,
                "key": job.part_key,
                "sha256": job.part_sha256,
                "count": job.end,
                "bytes": job.bytes,
                "first_key": job.first_key,
                "last_key": job.last_key,
            }
            for job in ledger.jobs(run.run_id)
            if "." not in job.seq
        ],
    }
    evidence.put_once(keys.plan(run.run_id), json.dumps(plan, indent=1).encode())

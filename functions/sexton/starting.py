"""Starting a run: a trigger becomes a run with a frozen cutoff, once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError, field_validator

from sexton import keys, run_transitions
from sexton.controls import Pause
from sexton.errors import BadEvent, LeaseLost, Refused, UnknownPolicy
from sexton.instant import EPOCH, from_ms
from sexton.item import rfc3339
from sexton.ledger import Ledger
from sexton.missed import Covers, Why, covered_before, covered_by
from sexton.policy import Policy
from sexton.ports import Clock, Evidence, Token
from sexton.problem import in_words
from sexton.retain import cutoff
from sexton.run import Change, Mode, RunId, RunState
from sexton.table import Applied

Policies = Mapping[str, Policy]
SCHEDULE = "schedule"  # who starts a run where no person does
SKIP_TRIES = 5  # two triggers of one policy at once are rare, more are not

DATE_AND_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:")


class Trigger(BaseModel):
    """What asks for a run: the schedule's input, or a person's `run start`, which has a `reason`.

    `mode` can only narrow what the policy says. `plan: false` creates the run and leaves planning to a resume.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    scheduled_time: AwareDatetime
    mode: Mode | None = None
    reissue: bool = False
    plan: bool = True
    started_by: str = SCHEDULE
    reason: str | None = None

    @field_validator("scheduled_time", mode="before")
    @classmethod
    def _as_written(cls, value: object) -> object:
        if isinstance(value, str) and value.startswith("<aws."):
            raise ValueError("the scheduler did not fill in its scheduled time; send a real time in RFC 3339")
        # A bare number or date would be read as an instant that nobody meant.
        if not isinstance(value, datetime) and not (isinstance(value, str) and DATE_AND_TIME.match(value)):
            raise ValueError("it is no time in RFC 3339, such as 2026-11-30T02:00:00Z")
        return value

    @field_validator("scheduled_time")
    @classmethod
    def _whole_seconds(cls, value: datetime) -> datetime:
        if value < EPOCH:
            raise ValueError("it is before 1970")
        try:
            return value.astimezone(UTC).replace(microsecond=0)
        except OverflowError as error:  # of its own zone it was the last day that there is
            raise ValueError("it is after the year 9999") from error


def read_trigger(event: Mapping[str, Any]) -> Trigger:
    """Read a trigger. Raises BadEvent with what is wrong."""
    try:
        return Trigger.model_validate(event)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {in_words(each)}" for each in error.errors())
        raise BadEvent(f"not a trigger: {found}") from error


class PolicyPaused(Refused):
    """The policy, or all, is paused."""

    code = "paused"


@dataclass(frozen=True, slots=True)
class Started:
    """A trigger's end: the run that it created (`created`), found, or was skipped for (`skipped`).

    None where its policy is paused: then there is no run to speak of.
    """

    run_id: str | None
    created: bool = False
    skipped: bool = False


@dataclass(frozen=True)
class Starting:
    """Creates runs."""

    ledger: Ledger
    evidence: Evidence
    policies: Policies
    clock: Clock
    token: Token

    def start(self, trigger: Trigger) -> Started:
        """Create the run of a trigger, or find what stands in its way.

        A schedule's trigger of a paused policy is recorded as skipped. Raises UnknownPolicy, BadEvent (a time to
        come), PolicyPaused (to a person) and Refused (a reissue that is not due).
        """
        policy = self._policy(trigger)
        run_id = RunId(policy.id, trigger.scheduled_time)
        if trigger.reissue:
            run_id = self._next_issue(run_id)
        if pause := self.ledger.controls().paused(policy.id):
            return self._while_paused(run_id, pause, trigger)
        self._keep_policy(policy)
        return self._create(run_id, policy, trigger)

    def _policy(self, trigger: Trigger) -> Policy:
        if trigger.policy not in self.policies:
            known = ", ".join(sorted(self.policies)) or "none"
            raise UnknownPolicy(f"no policy {trigger.policy!r} is deployed; deployed are: {known}")
        if trigger.scheduled_time > self.clock():
            at = rfc3339(trigger.scheduled_time)
            raise BadEvent(f"the scheduled time {at} is still to come; a run needs a time that has passed")
        return self.policies[trigger.policy]

    def _next_issue(self, run_id: RunId) -> RunId:
        """A further issue of a time, after every earlier one was invalidated or reported."""
        earlier = self.ledger.issues(run_id.policy, run_id.scheduled_time)
        if not earlier:
            raise Refused(f"{run_id} was never issued; start it without --reissue")
        for run in earlier:
            if run.state not in (RunState.INVALIDATED, RunState.REPORTED):
                raise Refused(f"{run.run_id} is {run.state}; only an invalidated or reported run is issued again")
        return RunId(run_id.policy, run_id.scheduled_time, earlier[-1].n + 1)

    def _keep_policy(self, policy: Policy) -> None:
        """The canonical policy stands in evidence before any run of it; taken already means the same text."""
        self.evidence.put_once(keys.policy(policy.id, policy.version), policy.canonical().encode())

    def _create(self, run_id: RunId, policy: Policy, trigger: Trigger) -> Started:
        now, row = self.clock(), self.ledger.policy(policy.id)
        mode = narrowed(policy.mode, trigger.mode)
        # A report of what the policy would remove takes care of nothing that was missed.
        whole = mode == policy.mode
        covers = covered_by(row, run_id.scheduled_time) if whole else Covers()
        written = self.ledger.table.transact(
            run_transitions.create(
                run_id,
                policy.version,
                cutoff(run_id.scheduled_time, policy.retain),
                mode,
                trigger.started_by,
                now,
                max(run_id.scheduled_time, from_ms(row.get("last_scheduled_time", 0))),
                self.token(),
                covers=covers.times,
                covers_total=covers.total,
                covered_before=covered_before(row, run_id.scheduled_time) if whole else None,
                asked=_asked(trigger, now),
                action=policy.does,
            )
        )
        if isinstance(written, Applied):
            return Started(str(run_id), created=True)
        if written.index == 0:
            return self._found(run_id, policy, trigger)
        return self._skip(run_id, Why.RUN_OPEN, (written.old or {})["open_run"])

    def _while_paused(self, run_id: RunId, pause: Pause, trigger: Trigger) -> Started:
        """No run is created. A person is told so; of a schedule's trigger nobody reads the answer."""
        if trigger.started_by != SCHEDULE:
            what = "every policy" if pause.scope != run_id.policy else run_id.policy
            since = f"since {rfc3339(pause.since)} by {pause.actor} ({pause.reason})"
            raise PolicyPaused(f"{what} is paused {since}; resume it first")
        return Started(str(run_id)) if self.ledger.run(run_id) else self._skip(run_id, Why.PAUSED)

    def _skip(self, run_id: RunId, why: Why, open_run: str | None = None) -> Started:
        """Say so on the policy row. It is no error; a late duplicate may still start the run."""
        for _ in range(SKIP_TRIES):
            kept = self.ledger.policy(run_id.policy).get("skipped_triggers", [])
            write = run_transitions.skip_trigger(run_id, why.value, open_run, kept, self.clock(), self.token())
            if isinstance(self.ledger.table.write(write), Applied):
                return Started(open_run, skipped=True)
        raise LeaseLost(f"others kept recording skipped triggers of {run_id.policy}; this one is not recorded")

    def _found(self, run_id: RunId, policy: Policy, trigger: Trigger) -> Started:
        """The run was there already. One that does more, or less, than was asked for is no answer to the question."""
        run = self.ledger.run(run_id)
        if trigger.started_by == SCHEDULE and run and (run.mode, policy.mode) == ("report", "enforce"):
            return self._skip(run_id, Why.REPORTED)  # a person's report has the time of a run that was to enforce
        if trigger.mode == "report" and run is not None and run.mode == "enforce":
            raise Refused(
                f"{run_id} is there already, and it enforces; give another --at for a report"
                ", or --reissue once it is invalidated"
            )
        return Started(str(run_id))


def _asked(trigger: Trigger, now: datetime) -> Change | None:
    """What is kept of a person's request; a schedule gives no reason."""
    if trigger.reason is None:
        return None
    return Change(at=now, actor=trigger.started_by, change="started", reason=trigger.reason)


def narrowed(policy_mode: Mode, asked: Mode | None) -> Mode:
    """An event can only narrow what the reviewed policy says."""
    return "report" if "report" in (policy_mode, asked) else "enforce"

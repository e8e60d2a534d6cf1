"""Approving a plan: a person names its digest, and exactly that plan is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from sexton import run_transitions
from sexton.approval import PLAN_TTL
from sexton.errors import NotAllowed
from sexton.item import rfc3339
from sexton.ledger import Ledger
from sexton.missed import covered_before
from sexton.policy import Policy
from sexton.ports import Clock, Log, Token
from sexton.run import WAITING, Change, Run, RunState
from sexton.starting import Policies
from sexton.table import Applied, Refused


class Approved(BaseModel):
    """A run whose plan was approved; the next tick dispatches it."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    state: RunState
    digest: str
    planned: int


@dataclass(frozen=True)
class Approving:
    """Lets a run that waits for a person go on."""

    ledger: Ledger
    policies: Policies
    clock: Clock
    token: Token
    log: Log

    def approve(self, run_id: str, digest: str, reason: str, actor: str) -> Approved:
        """awaiting_approval, reported -> dispatching, with the policy's slot; the policy version counts as approved.

        Raises BadRunId, UnknownRun, and NotAllowed: not_waiting, other_digest, plan_expired, policy_changed,
        policy_reports, second_person, run_open, moved.
        """
        run = self.ledger.find(run_id)
        now = self.clock()
        refused = why_not(run, digest, actor, self.policies.get(run.policy), now)
        if refused:
            raise refused
        change = Change(at=now, actor=actor, change="approved", reason=reason, detail=f"digest {digest}")
        row = self.ledger.policy(run.policy)
        known, covered = row.get("approved_versions", []), covered_before(row, run.scheduled_time)
        written = self.ledger.table.transact(run_transitions.approve(run, change, known, covered, self.token()))
        if not isinstance(written, Applied):
            raise self._lost(run, written)
        self.log("run_approved", run_id=run.run_id, policy=run.policy, actor=actor, digest=digest)
        return Approved(run_id=run.run_id, state=RunState.DISPATCHING, digest=digest, planned=run.planned)

    def _lost(self, run: Run, refused: Refused) -> NotAllowed:
        """What stood in the way of a transaction that every rule allowed."""
        open_run = (refused.old or {}).get("open_run")
        if open_run:
            return NotAllowed(
                "run_open", f"{open_run} of the same policy is open; approve {run.run_id} once that is closed"
            )
        return NotAllowed("moved", f"somebody else has just moved {run.run_id}; look at it, then approve it again")


def why_not(run: Run, digest: str, actor: str, policy: Policy | None, now: datetime) -> NotAllowed | None:
    """The first rule that forbids approving the run; None where it may be. `policy` is the one deployed."""
    if run.state not in WAITING or run.digest is None or run.planned_at is None:
        by = f", approved by {run.approved_by}" if run.approved_by else ""
        return NotAllowed("not_waiting", f"{run.run_id} is {run.state}{by}; only a plan that waits can be approved")
    if digest != run.digest:
        return NotAllowed(
            "other_digest", f"the plan of {run.run_id} has the digest {run.digest}; look at that plan, and approve it"
        )
    if now - run.planned_at >= PLAN_TTL:
        ended = rfc3339(run.planned_at + PLAN_TTL)
        return NotAllowed("plan_expired", f"the plan of {run.run_id} was good until {ended}; start a new run")
    if policy is None or policy.version != run.policy_version:
        return NotAllowed(
            "policy_changed", f"{run.run_id} was planned under a policy version that is not deployed; start a new run"
        )
    if policy.mode != "enforce":
        return NotAllowed("policy_reports", f"policy {policy.id} only reports; deploy it with mode: enforce")
    if policy.approvers > 1 and same_person(run.started_by, actor):
        return NotAllowed(
            "second_person", f"{run.started_by} started {run.run_id}, and policy {policy.id} asks for a second person"
        )
    return None


def same_person(one: str, other: str) -> bool:
    """Whether two actors may be one person: the same ARN, or the same user or session name, in whatever case.

    One person who starts runs under one role and approves under another has two ARNs that end alike.
    """
    return one.rpartition("/")[2].casefold() == other.rpartition("/")[2].casefold()

"""Undo: what a closed run did is taken back by a run of its own, and holds keep the next run off.

Delete markers are removed again; archived records are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sexton import control_transitions, receipts, run_transitions
from sexton.action import taken_back_by
from sexton.controls import Controls, hold_key
from sexton.errors import NotAllowed, Refused
from sexton.instant import from_ms
from sexton.ledger import Ledger
from sexton.policy import Policy
from sexton.ports import Clock, Evidence, Log, Token
from sexton.reading import policy_of
from sexton.record_source import RecordSource
from sexton.run import Change, Run, RunId
from sexton.starting import Policies
from sexton.table import Check, Write, equals
from sexton.table import Refused as WriteRefused

MOST_WRITES = 100  # of one transaction
SLOT = 1  # the place of the policy's row among the writes of the transaction


class UndoStarted(BaseModel):
    """An undo, planned by the next tick. `held`: the places on which holds stand until a person releases them.

    `paused` names the pause that it waits for: a policy, or `all`.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    undoes: str
    held: tuple[str, ...]
    paused: str | None


@dataclass(frozen=True)
class Undoing:
    """Starts undos. Nothing is removed here: discovery plans the undo, and the worker carries it out."""

    ledger: Ledger
    evidence: Evidence
    policies: Policies
    clock: Clock
    token: Token
    log: Log

    def undo(self, run_id: str, reason: str, actor: str) -> UndoStarted:
        """Create the undo of a closed run and place its holds, in one transaction that takes the policy's slot.

        Raises BadRunId, UnknownRun, EvidenceAltered, and NotAllowed: is_undo, not_closed, not_expire, not_versioned,
        not_permitted, undo_open, nothing_to_undo, too_many_prefixes, run_open, moved.
        """
        run = self.ledger.find(run_id)
        policy = check(run, policy_of(self.evidence, run, self.policies.get(run.policy)), self.policies.values())
        undos = self.ledger.undos(run.policy, run.scheduled_time)
        _check_none_open(run, undos)
        self._check_receipts(run)
        undo_id = RunId(run.policy, run.scheduled_time, 1 + max((each.n for each in undos), default=0), undo=True)
        controls = self.ledger.controls()
        written = self.ledger.table.transact(self._writes(run, undo_id, policy, controls, reason, actor))
        if isinstance(written, WriteRefused):
            raise _lost(run, written)
        self.log("run_undone", run_id=run.run_id, undo=str(undo_id), policy=run.policy, actor=actor)
        paused = controls.paused(run.policy)
        return UndoStarted(
            run_id=str(undo_id), undoes=run.run_id, held=places(policy), paused=paused.scope if paused else None
        )

    def _check_receipts(self, run: Run) -> None:
        """At least one marker is proven, or one record archived; jobs without a deletion are not read."""
        for job in self.ledger.jobs(run.run_id):
            if job.counts.get("deleted") and receipts.read(self.evidence, job.outcome_files).items:
                return
        raise NotAllowed(
            "nothing_to_undo", f"no outcome of {run.run_id} names a delete marker that it placed, or an archived record"
        )

    def _writes(
        self, run: Run, undo_id: RunId, policy: Policy, controls: Controls, reason: str, actor: str
    ) -> list[Write | Check]:
        now, token = self.clock(), self.token()
        last = max(run.scheduled_time, from_ms(self.ledger.policy(run.policy).get("last_scheduled_time", 0)))
        undone = Change(at=now, actor=actor, change="undone", reason=reason, detail=f"by {undo_id}")
        held = undone.model_copy(update={"change": "held", "detail": f"by {undo_id}"})
        started = run_transitions.undo(run, undo_id, undone, last, token)
        room = MOST_WRITES - len(started)
        if len(places(policy)) <= room:
            return [*started, *(control_transitions.hold(place, held, token, str(undo_id)) for place in places(policy))]
        return [*started, *_standing(places(policy), controls, room)]


def places(policy: Policy) -> tuple[str, ...]:
    """What an undo of a run of this policy holds: each of its prefixes, or its table."""
    return policy.source.scopes


def check(run: Run, policy: Policy, deployed: Iterable[Policy]) -> Policy:
    """The policy of a run that can be undone. Raises NotAllowed with the first rule that forbids it."""
    if run.undoes:
        raise NotAllowed(
            "is_undo", f"{run.run_id} is an undo itself; once its holds are released, the next run removes again"
        )
    if not run.closed:
        raise NotAllowed(
            "not_closed", f"{run.run_id} is {run.state}; wait until it is closed, or `sexton run invalidate` ends it"
        )
    if not taken_back_by(policy.action):
        raise NotAllowed("not_expire", f"{run.run_id} was to {policy.does}: nothing is kept of what was before that")
    if policy.of_bucket and not run.versioned:
        raise NotAllowed(
            "not_versioned", f"bucket {policy.s3.bucket} was not versioned when {run.run_id} removed from it"
        )
    _check_permitted(policy, deployed)
    return policy


def _check_permitted(policy: Policy, deployed: Iterable[Policy]) -> None:
    """The worker's rights follow the deployed policies: without them every job of the undo would only die."""
    if isinstance(policy.source, RecordSource):
        _check_may_put_back(policy.source, deployed)
        return
    source = policy.s3
    undoable = [each.s3 for each in deployed if each.of_bucket and each.can_be_undone]
    covering = [each for each in undoable if each.bucket == source.bucket]
    covered = tuple(prefix for each in covering if each.account == source.account for prefix in each.prefixes)
    for prefix in source.prefixes:
        if not prefix.startswith(covered):
            raise NotAllowed(
                "not_permitted",
                f"the worker may remove delete markers where a deployed policy expires with mode: enforce and "
                f"recovery: versioning, and none does so for {source.address(prefix)}; deploy one, paused, then undo",
            )


def _check_may_put_back(source: RecordSource, deployed: Iterable[Policy]) -> None:
    if not any(each.can_be_undone and each.source.place == source.place for each in deployed):
        raise NotAllowed(
            "not_permitted",
            f"the worker may put records back where a deployed policy archives with mode: enforce and"
            f" recovery: archive, and none does so for {source.place}; deploy one, paused, then undo",
        )


def _check_none_open(run: Run, undos: Iterable[Run]) -> None:
    for each in undos:
        if each.undoes == run.run_id and not each.closed:
            raise NotAllowed("undo_open", f"{each.run_id} is undoing {run.run_id} already; it is {each.state}")


def _standing(held: Sequence[str], controls: Controls, room: int) -> list[Check]:
    """Checks that holds stand which cover what one transaction has no room to hold. Raises NotAllowed."""
    found = {place: controls.hold_on(place) for place in held}
    scopes = sorted({hold.scope for hold in found.values() if hold})
    free = next((place for place, hold in found.items() if hold is None), None)
    if free is not None or len(scopes) > room:
        bucket = "/".join(held[0].split("/")[:3])
        raise NotAllowed(
            "too_many_prefixes",
            f"the policy has {len(held)} prefixes, and an undo places {room} holds at most: "
            f"`sexton hold add {bucket}/` keeps them all, then undo again",
        )
    return [Check(hold_key(scope), (equals("active", True),)) for scope in scopes]


def _lost(run: Run, refused: WriteRefused) -> Refused:
    """What stood in the way of a transaction that every rule allowed."""
    open_run = (refused.old or {}).get("open_run") if refused.index == SLOT else None
    if open_run:
        return NotAllowed(
            "run_open",
            f"{open_run} of the same policy is open; undo {run.run_id} once that is closed, "
            "or `sexton run invalidate` ends it",
        )
    return NotAllowed("moved", f"somebody else has just moved {run.run_id} or a hold; look at it, then undo it again")

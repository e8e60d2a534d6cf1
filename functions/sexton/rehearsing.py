"""Rehearsing: the rehearsals one after another against a deployed stack, each judged, and everything put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton import decoy
from sexton.backstage import Backstage
from sexton.dead_letters import listed_runs
from sexton.deployment import Deployment
from sexton.errors import SextonError
from sexton.item import rfc3339
from sexton.policy import Policy
from sexton.reading import deployed_policies
from sexton.rehearsing_acts import FAULTY_WORKER, REHEARSALS, WORKER
from sexton.rehearsing_policy import NotRehearsed, choose
from sexton.rehearsing_steps import Steps, listed, rub_out
from sexton.status import status

TIDY = "wait for its end if it is at work; if it was killed, `sexton rehearse --tidy` puts back what it left"
LIMIT = timedelta(minutes=15)  # of one rehearsal; the longest waits for a lease, and for three attempts


class Verdict(StrEnum):
    """How a rehearsal ended."""

    PASSED = "passed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_BEGUN = "not_begun"


class Rehearsed(BaseModel):
    """One rehearsal. `why`: what was expected and did not come; `left_behind`: what could not be put back."""

    model_config = ConfigDict(frozen=True)

    name: str
    verdict: Verdict
    seconds: float = 0.0
    did: tuple[str, ...] = ()
    why: str | None = None
    runs: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


class Rehearsals(BaseModel):
    """All of them. `passed`: each one did, and nothing was left behind."""

    model_config = ConfigDict(frozen=True)

    rehearsal_id: str
    policy: str
    at: AwareDatetime
    seconds: float
    passed: bool
    rehearsals: tuple[Rehearsed, ...]
    left_behind: tuple[str, ...]
    unverified: bool

    @property
    def everything_left(self) -> tuple[str, ...]:
        """What could not be put back, and what a last look found."""
        return (*(text for each in self.rehearsals for text in each.left_behind), *self.left_behind)


class Tidied(BaseModel):
    """What was put back of rehearsals that were killed, and what could not be."""

    model_config = ConfigDict(frozen=True)

    policy: str
    done: tuple[str, ...]
    left_behind: tuple[str, ...]
    unverified: bool

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return not self.left_behind

    @property
    def everything_left(self) -> tuple[str, ...]:
        """As a rehearsal has it."""
        return self.left_behind


@dataclass(frozen=True)
class Rehearsing:
    """Rehearses on one stack. `tell` is given each thing as it is done."""

    deployment: Deployment
    backstage: Backstage
    tell: Callable[[str], None]
    limit: timedelta = LIMIT

    def rehearse(
        self, named: str | None, only: Sequence[str], reason: str, rehearsal_id: str, backlog: timedelta
    ) -> Rehearsals:
        """Run the rehearsals that are named, or all, in their order.

        Raises UnknownPolicy; and NotRehearsed, before anything was touched: unknown_rehearsal, unfit_policy,
        no_versions, not_only_decoys, not_tidy, stage_busy, paused, prefix_held.
        """
        begun = self.deployment.clock()
        names = _chosen(only)
        policy = self._policy(named)
        self._refuse_unfit_stage(policy)
        done, unverified = self._all(names, policy, reason, rehearsal_id, backlog)
        left = tuple(self._left(policy))
        for each in left:
            self.tell(f"left behind: {each}")
        return Rehearsals(
            rehearsal_id=rehearsal_id,
            policy=policy.id,
            at=begun,
            seconds=self._since(begun),
            passed=not left and all(each.verdict is Verdict.PASSED and not each.left_behind for each in done),
            rehearsals=tuple(done),
            left_behind=left,
            unverified=unverified,
        )

    def tidy(self, named: str | None, reason: str, rehearsal_id: str) -> Tidied:
        """Put back all that rehearsals with a policy left when they were killed; nothing where they were not.

        Raises UnknownPolicy and NotRehearsed (unfit_policy).
        """
        policy = self._policy(named)
        steps = self._steps("tidy", policy, reason, rehearsal_id, timedelta())
        restoring, worker, controls = steps.restoring, self.backstage.worker, self.deployment.ledger.controls()
        restoring.later("decoys removed", lambda: self._rub_out(steps))
        for run in listed_runs(self.deployment.ledger):
            if run.policy == policy.id:
                restoring.later(f"{run.run_id} ended", lambda run_id=run.run_id: steps.end(run_id))  # type: ignore[misc]
        for hold in controls.holds:
            if hold.active and hold.scope.startswith(_place(policy)):
                restoring.later(f"{hold.scope} released", lambda scope=hold.scope: steps.release(scope))  # type: ignore[misc]
        if any(each.paused and each.scope == policy.id for each in controls.pauses):
            restoring.later(f"{policy.id} resumed", steps.resume)
        if worker.handler() == FAULTY_WORKER:
            restoring.later("the worker's handler put back", lambda: steps.mend_worker(WORKER))
        left = (*restoring.restore(), *self._left(policy))
        return Tidied(policy=policy.id, done=tuple(steps.done), left_behind=left, unverified=steps.unverified)

    def _rub_out(self, steps: Steps) -> None:
        removed = rub_out(self.deployment, steps.policy, steps.policy.s3.prefixes[0])
        if removed:
            steps.did(f"removed {removed} versions of decoys")

    def _all(
        self, names: Sequence[str], policy: Policy, reason: str, rehearsal_id: str, backlog: timedelta
    ) -> tuple[list[Rehearsed], bool]:
        done, unverified, interrupted = list[Rehearsed](), False, False
        for name in names:
            if interrupted:
                done.append(Rehearsed(name=name, verdict=Verdict.NOT_BEGUN))
                continue
            steps = self._steps(name, policy, reason, rehearsal_id, backlog)
            done.append(self._one(steps))
            unverified = unverified or steps.unverified
            interrupted = done[-1].verdict is Verdict.INTERRUPTED
        return done, unverified

    def _steps(self, name: str, policy: Policy, reason: str, rehearsal_id: str, backlog: timedelta) -> Steps:
        return Steps(
            name=name,
            deployment=self.deployment,
            backstage=self.backstage,
            policy=policy,
            rehearsal_id=rehearsal_id,
            reason=reason,
            backlog=backlog,
            tell=self.tell,
            give_up=self.deployment.clock() + self.limit,
        )

    def _one(self, steps: Steps) -> Rehearsed:
        begun, verdict, why = self.deployment.clock(), Verdict.PASSED, None
        try:
            REHEARSALS[steps.name](steps)
        except SextonError as error:
            verdict, why = Verdict.FAILED, str(error)
        except KeyboardInterrupt:
            verdict, why = Verdict.INTERRUPTED, "somebody stopped it"
        finally:
            left = steps.restoring.restore()
        self.tell(f"{steps.name}: {verdict}" + (f" ({why})" if why else ""))
        return Rehearsed(
            name=steps.name,
            verdict=verdict,
            seconds=self._since(begun),
            did=tuple(steps.done),
            why=why,
            runs=tuple(steps.runs),
            left_behind=tuple(left),
        )

    # before and after

    def _policy(self, named: str | None) -> Policy:
        """The policy to rehearse with, of those that are deployed now: a tick writes down which these are."""
        self.deployment.functions.tick({"tick": rfc3339(self.deployment.clock().replace(microsecond=0))})
        return choose(deployed_policies(self.deployment.ledger, self.deployment.evidence), named)

    def _refuse_unfit_stage(self, policy: Policy) -> None:
        bucket = policy.s3.bucket
        if self.deployment.bucket(bucket).versioning() != "Enabled":
            raise NotRehearsed("no_versions", f"bucket {bucket} is not versioned, so nothing could be undone there")
        self._refuse_others_objects(policy)
        if self.backstage.worker.handler() == FAULTY_WORKER:
            raise NotRehearsed("not_tidy", f"the worker fails at decoys, as a rehearsal left it: {TIDY}")
        self._refuse_busy(policy)

    def _refuse_others_objects(self, policy: Policy) -> None:
        """The prefix must hold nothing: this is what keeps a rehearsal off everybody's objects."""
        prefix, found = policy.s3.prefixes[0], None
        for item in listed(self.deployment, policy, prefix):
            found = policy.s3.address(item.key)
            if not decoy.is_decoy(prefix, item.key):
                raise NotRehearsed(
                    "not_only_decoys",
                    f"{found} is no decoy of a rehearsal: rehearse with a policy whose prefix nobody uses, or remove "
                    "it with all its versions",
                )
        if found is not None:
            raise NotRehearsed("not_tidy", f"{found} is a decoy that another rehearsal put there: {TIDY}")

    def _refuse_busy(self, policy: Policy) -> None:
        """Another run's work would be met by what is done to the worker, and mixed up with what is measured."""
        now = status(self.deployment.ledger, self.deployment.clock())
        if now.unfinished:
            what = f"{now.unfinished[0].run_id} is {now.unfinished[0].state}"
            raise NotRehearsed("stage_busy", f"{what}: rehearse when no run is at work; `sexton status` tells of each")
        controls = self.deployment.ledger.controls()
        if controls.paused(policy.id):
            raise NotRehearsed("paused", f"{policy.id}, or all, is paused: `sexton resume` first")
        held = controls.hold_on(policy.s3.address(policy.s3.prefixes[0]))
        if held is not None:
            raise NotRehearsed("prefix_held", f"{held.scope} is held: `sexton hold release` first")

    def _left(self, policy: Policy) -> Iterator[str]:
        """A last look at everything that a rehearsal changes."""
        controls = self.deployment.ledger.controls()
        if self.backstage.worker.handler() == FAULTY_WORKER:
            yield f"the worker function has the handler {FAULTY_WORKER}: give it {WORKER}"
        if any(each.paused and each.scope == policy.id for each in controls.pauses):
            yield f"{policy.id} is paused: sexton resume {policy.id}"
        for hold in controls.holds:
            if hold.active and hold.scope.startswith(_place(policy)):
                yield f"{hold.scope} is held: sexton hold release {hold.scope}"
        if any(True for _ in listed(self.deployment, policy, policy.s3.prefixes[0])):
            yield f"decoys under {_place(policy)}"
        for run in listed_runs(self.deployment.ledger):
            if run.policy == policy.id and not run.closed:
                yield f"{run.run_id} is {run.state}: it closes by itself, or `sexton run invalidate` ends it"
            elif run.policy == policy.id and self._dead(run.run_id):
                yield f"{run.run_id} has dead jobs: sexton dlq resolve --run {run.run_id}"

    def _dead(self, run_id: str) -> bool:
        dead, _ = self.deployment.ledger.finished(run_id)
        return dead > 0

    def _since(self, begun: datetime) -> float:
        return round((self.deployment.clock() - begun).total_seconds(), 1)


def _place(policy: Policy) -> str:
    return policy.s3.address(policy.s3.prefixes[0])


def _chosen(only: Sequence[str]) -> list[str]:
    unknown = [name for name in only if name not in REHEARSALS]
    if unknown:
        raise NotRehearsed(
            "unknown_rehearsal", f"there is no rehearsal {unknown[0]!r}; there are: {', '.join(REHEARSALS)}"
        )
    return [name for name in REHEARSALS if not only or name in only]

"""What a replay would do now: its rules are asked, its items looked at and judged, all with reading calls only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sexton.controls import Controls
from sexton.endpoint_action import HttpAction
from sexton.errors import EFFECT_UNKNOWN, CallFailed, EvidenceAltered, Failure, NotAllowed
from sexton.item import Item
from sexton.job import Job
from sexton.judging import FreshLook, held
from sexton.ledger import Ledger
from sexton.observing import at_once
from sexton.outcome import Outcome
from sexton.policy import Policy
from sexton.ports import Clock, Evidence, Stores
from sexton.reading import open_items, policy_of
from sexton.replaying import why_not
from sexton.run import Run, RunId
from sexton.targets import judge_of, target_of_run

MOST_TAGS = 100  # read of one job, a call each; other looks are bounded too: a person waits for the list
REMOVE = "remove"
UNSEEN = "unseen"


class ReplayNow(BaseModel):
    """What a replay of a dead job would come to at this moment.

    `code`: the rule that forbids it, then nothing was looked at. `would`: of `looked_at` items how many would be
    `remove`d (tried at least), end as an outcome such as `skipped:changed`, or could not be seen, `unseen:<code>`.
    """

    model_config = ConfigDict(frozen=True)

    allowed: bool
    code: str | None = None
    would: dict[str, int] = {}
    looked_at: int = 0
    sentence: str


@dataclass(frozen=True)
class ReplayPreview:
    """Says what replays would do. Rows and controls are read once for all jobs of a run."""

    ledger: Ledger
    evidence: Evidence
    stores: Stores
    clock: Clock

    def of_run(self, run_id: str) -> RunPreview:
        """For the jobs of one run."""
        run = self.ledger.run(RunId.parse(run_id))
        deployed = self.ledger.policy(run.policy).get("deployed_version") if run else None
        return RunPreview(self, run, deployed, self.ledger.controls())


@dataclass(frozen=True)
class RunPreview:
    """The same for the jobs of one run, None where the ledger holds it no more."""

    ports: ReplayPreview
    run: Run | None
    deployed_version: str | None
    controls: Controls

    def of(self, job: Job) -> ReplayNow:
        """What a replay of a job of the run would do now. What cannot be looked at is told as such."""
        if self.run is None:
            return _refused(NotAllowed("unknown_run", f"the ledger holds {job.run_id} no more; resolve the job"))
        refused = why_not(job, self.run, self.deployed_version, self.ports.clock())
        if refused:
            return _refused(refused)
        try:
            policy = policy_of(self.ports.evidence, self.run, None)
            would = self._would(job, self.run, policy)
        except CallFailed as failed:
            return _blind(f"{failed.failure.code}: {failed.failure.summary}")
        except EvidenceAltered as altered:
            return _blind(f"evidence_altered: {altered}")
        paused = self.controls.paused(job.policy)
        later = " once the pause is over" if paused else ""
        return ReplayNow(
            allowed=True,
            would=dict(sorted(would.items())),
            looked_at=would.total(),
            sentence=_sentence(job, would, later) + _warning(job, policy, would),
        )

    def _would(self, job: Job, run: Run, policy: Policy) -> Counter[str]:
        left = open_items(self.ports.evidence, job)
        first = left[: min(at_once(len(left), job.span), MOST_TAGS if policy.needs_tags else len(left))]
        if not first:
            return Counter()
        target = target_of_run(policy, run, self.ports.stores)
        span = job.span * len(first) // len(left)
        fresh = FreshLook.of(target, judge_of(policy, run), [item for _, item in first], span, self.ports.clock)
        return Counter(self._named(job, run, policy, fresh, index, item) for index, item in first)

    def _named(self, job: Job, run: Run, policy: Policy, fresh: FreshLook, index: int, item: Item) -> str:
        ended = fresh.ended(index, item, job.maybe_done)
        if isinstance(ended, Failure):
            return f"{UNSEEN}:{ended.code}"
        if ended is None and not run.undoes and self.controls.hold_on(policy.source.address(item.key)):
            ended = held(index, item, fresh.at)
        return ended.name if isinstance(ended, Outcome) else REMOVE


def _refused(refused: NotAllowed) -> ReplayNow:
    return ReplayNow(allowed=False, code=refused.code, sentence=f"it would be refused: {refused}")


def _blind(why: str) -> ReplayNow:
    return ReplayNow(allowed=True, sentence=f"its items cannot be looked at from here ({why})")


def _sentence(job: Job, would: Counter[str], later: str) -> str:
    if not would:
        return f"nothing is left of it: it would succeed{later}"
    parts = ", ".join(_part(name, number) for name, number in sorted(would.items()))
    of = f" of the first {would.total()} of {job.open_items} items" if would.total() < job.open_items else ""
    return f"it would{of} {parts}{later}"


def _warning(job: Job, policy: Policy, would: Counter[str]) -> str:
    """What must be known before a call is made again that must not be repeated."""
    unsure = isinstance(policy.action, HttpAction) and job.reason == EFFECT_UNKNOWN and would[REMOVE]
    return "; its call may have happened already, and would be made a second time" if unsure else ""


def _part(name: str, number: int) -> str:
    if name == REMOVE:
        return f"try again to remove {number}"
    ending, _, reason = name.partition(":")
    why = f" ({reason})" if reason else ""
    return f"not see {number}{why}" if ending == UNSEEN else f"count {number} as {ending}{why}"

"""What an undo would bring back, and what not, before anybody asks for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from sexton import receipts
from sexton.errors import Failure
from sexton.item import Item
from sexton.judging import FreshLook
from sexton.ledger import Ledger
from sexton.markers import PlacedMarkers
from sexton.policy import Policy
from sexton.ports import Buckets, Clock, Evidence
from sexton.reading import deployed_policies, policy_of
from sexton.receipts import Receipts
from sexton.run import Run
from sexton.targets import judge_of
from sexton.undoing import check, places

SHOWN = 5  # keys of each kind that a preview names


class Kind(BaseModel):
    """How many items there are of one kind, and the first keys."""

    model_config = ConfigDict(frozen=True)

    count: int
    first: tuple[str, ...]


class Preview(BaseModel):
    """What an undo would do now. `left` is what it would leave alone, by reason.

    `changed`, `absent` and `nothing_behind` are those of an outcome; `unproven` was gone after an attempt that left no
    record, so that no marker is known to be the run's; `not_deleted` the run had skipped.
    """

    model_config = ConfigDict(frozen=True)

    undoes: str
    restored: Kind
    left: dict[str, Kind]
    holds: tuple[str, ...]


@dataclass
class _Counts:
    """Counts by kind with the first keys of each."""

    number: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, key: str) -> None:
        self.number[kind] += 1
        known = self.first.setdefault(kind, [])
        if len(known) < SHOWN:
            known.append(key)

    def kind(self, name: str) -> Kind:
        return Kind(count=self.number[name], first=tuple(self.first.get(name, ())))


@dataclass(frozen=True)
class Previewing:
    """Says what an undo would do, reading only; it looks at every marker as the worker would."""

    ledger: Ledger
    evidence: Evidence
    bucket: Buckets
    clock: Clock

    def preview(self, run_id: str) -> Preview:
        """What an undo of the run would bring back now, and what not.

        Raises what `Undoing.undo` does of the run itself and its policy, CallFailed where the bucket cannot be listed,
        and SourceRefused where the receipts cannot be believed.
        """
        run = self.ledger.find(run_id)
        policy = check(run, policy_of(self.evidence, run, None), deployed_policies(self.ledger, self.evidence))
        counts = _Counts()
        for _, found in receipts.of_run(self.ledger, self.evidence, run.run_id):
            self._count(run, policy, found, counts)
        left = sorted(counts.number.keys() - {receipts.PLACED})
        return Preview(
            undoes=run.run_id,
            restored=counts.kind(receipts.PLACED),
            left={name: counts.kind(name) for name in left},
            holds=places(policy),
        )

    def _count(self, run: Run, policy: Policy, found: Receipts, counts: _Counts) -> None:
        for key, kind in found.others:
            counts.add(kind, key)
        if not found.markers:
            return
        undo = run.model_copy(update={"undoes": run.run_id})
        target = PlacedMarkers(self.bucket(policy.s3.bucket, policy.s3.account))
        fresh = FreshLook.of(target, judge_of(policy, undo), found.markers, found.span, self.clock)
        for index, marker in enumerate(found.markers):
            counts.add(_fate(fresh, index, marker), marker.key)


def _fate(fresh: FreshLook, index: int, marker: Item) -> str:
    ended = fresh.ended(index, marker, maybe_done=False)
    if ended is None:
        return receipts.PLACED
    return ended.code if isinstance(ended, Failure) else ended.reason or ended.ending.value

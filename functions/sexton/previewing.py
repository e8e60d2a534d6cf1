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
from sexton.outcome import RESTORED
from sexton.policy import Policy
from sexton.ports import Clock, Evidence, Stores
from sexton.reading import deployed_policies, policy_of
from sexton.receipts import Receipts
from sexton.run import Run
from sexton.targets import judge_of, target_of_run
from sexton.undoing import check, places

SHOWN = 5  # keys of each kind that a preview names


class Kind(BaseModel):
    """How many items there are of one kind, and the first keys."""

    model_config = ConfigDict(frozen=True)

    count: int
    first: tuple[str, ...]


class Preview(BaseModel):
    """What an undo would do now. `left` is what it would leave alone, by reason.

    `changed`, `absent`, `nothing_behind` and `key_in_use` are those of an outcome; `unproven` was gone after an attempt
    that left no record, so that no marker is known to be the run's; `not_deleted` the run had skipped.
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
    """Says what an undo would do, reading only; it looks at every marker or record as the worker would."""

    ledger: Ledger
    evidence: Evidence
    stores: Stores
    clock: Clock

    def preview(self, run_id: str) -> Preview:
        """What an undo of the run would bring back now, and what not.

        Raises what `Undoing.undo` does of the run itself and its policy, CallFailed where the bucket or table cannot be
        read, SourceRefused where the receipts cannot be believed, and EvidenceAltered where an archive cannot.
        """
        run = self.ledger.find(run_id)
        policy = check(run, policy_of(self.evidence, run, None), deployed_policies(self.ledger, self.evidence))
        counts = _Counts()
        for _, found in receipts.of_run(self.ledger, self.evidence, run.run_id):
            self._count(run, policy, found, counts)
        left = sorted(counts.number.keys() - {RESTORED})
        return Preview(
            undoes=run.run_id,
            restored=counts.kind(RESTORED),
            left={name: counts.kind(name) for name in left},
            holds=places(policy),
        )

    def _count(self, run: Run, policy: Policy, found: Receipts, counts: _Counts) -> None:
        for key, kind in found.others:
            counts.add(kind, key)
        if not found.items:
            return
        undo = run.model_copy(update={"undoes": run.run_id})
        target = target_of_run(policy, undo, self.stores)
        fresh = FreshLook.of(target, judge_of(policy, undo), found.items, found.span, self.clock)
        for index, item in enumerate(found.items):
            counts.add(_fate(fresh, index, item), item.key)


def _fate(fresh: FreshLook, index: int, item: Item) -> str:
    ended = fresh.ended(index, item, maybe_done=False)
    if ended is None:
        return RESTORED
    return ended.code if isinstance(ended, Failure) else ended.reason or ended.ending.value

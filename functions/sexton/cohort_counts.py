"""What planning saw of each cohort, kept in evidence beside the parts, so that whoever goes on goes on counting."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field

from pydantic import BaseModel, ConfigDict

from sexton import keys
from sexton.cohort import NO_COHORT, NameOf, name_of
from sexton.cohorts import KEPT
from sexton.decision import REPORT_ONLY, Decision
from sexton.errors import EvidenceAltered
from sexton.item import Item
from sexton.policy import Policy
from sexton.ports import Evidence
from sexton.reported import Reported, ReportedItems
from sexton.run import Run

MOST_COUNTED = 5_000  # cohorts with counts of their own: in memory, and in a file that each part comes with
MOST_TEXT = 500_000  # characters of their names together


@dataclass(slots=True)
class Count:
    """What planning saw of one cohort, or of several together; what is neither planned nor reported only is kept."""

    scanned: int = 0
    planned: int = 0
    planned_bytes: int = 0
    report_only: int = 0
    report_only_bytes: int = 0

    def add(self, size: int, decision: Decision) -> None:
        """Count one item."""
        self.scanned += 1
        if decision.action == "remove":
            self.planned += 1
            self.planned_bytes += size
        elif decision is REPORT_ONLY:
            self.report_only += 1
            self.report_only_bytes += size

    def merge(self, other: Count) -> None:
        """Count what another has counted, too."""
        self.scanned += other.scanned
        self.planned += other.planned
        self.planned_bytes += other.planned_bytes
        self.report_only += other.report_only
        self.report_only_bytes += other.report_only_bytes

    @property
    def emptied(self) -> bool:
        """Whether all that was scanned is planned."""
        return 0 < self.planned == self.scanned


class CohortLine(BaseModel):
    """One cohort's counts in `plan.json`; sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cohort: str
    scanned: int
    planned: int
    planned_bytes: int
    report_only: int
    report_only_bytes: int


class OtherCohorts(BaseModel):
    """What all cohorts without a line of their own come to. `at_least`: there are more than so many `cohorts`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cohorts: int
    at_least: bool
    scanned: int
    planned: int
    planned_bytes: int
    report_only: int
    report_only_bytes: int


class PlannedCohorts(BaseModel):
    """A plan's cohorts, the largest by what is due of them; the policy's canaries always have lines.

    `reported` finds what is due of all others, item by item.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    largest: tuple[CohortLine, ...]
    others: OtherCohorts | None
    reported: Reported | None = None


@dataclass
class CohortCounts:
    """Counts by cohort, of the first MOST_COUNTED that planning meets and of all canaries; `others` has the rest.

    So memory and file stay small, however many cohorts there are. `others` tells of its cohorts only what they come to
    together.
    """

    named: NameOf
    canaries: frozenset[str] = frozenset()
    most: int = MOST_COUNTED
    counts: dict[str, Count] = field(default_factory=dict)
    others: Count = field(default_factory=Count)
    reported: ReportedItems = field(default_factory=ReportedItems)
    _text: int = 0

    def __post_init__(self) -> None:
        for name in sorted(self.canaries):
            self.counts.setdefault(name, Count())

    @staticmethod
    def of_run(evidence: Evidence, policy: Policy, run: Run) -> CohortCounts | None:
        """What planning has counted for the run so far; None where its policy names no cohorts.

        Raises EvidenceAltered where the file is gone that the run names.
        """
        counts = CohortCounts.of(policy)
        if counts and run.cohorts:
            counts.restore(evidence, run.run_id, run.cohorts)
        return counts

    @staticmethod
    def of(policy: Policy) -> CohortCounts | None:
        """Empty counts for a policy; None where it names no cohorts."""
        if policy.cohort is None:
            return None
        return CohortCounts(name_of(policy.cohort), frozenset(policy.canary.cohorts if policy.canary else ()))

    def add(self, item: Item, decision: Decision) -> None:
        """Count one item, by what planning decided."""
        name = self.named(item)
        count = self.counts.get(name)
        (count if count is not None else self._begin(name)).add(item.size, decision)
        if decision is REPORT_ONLY:
            self.reported.pending.append(item)

    def _begin(self, name: str) -> Count:
        if len(self.counts) - len(self.canaries) >= self.most or self._text + len(name) > MOST_TEXT:
            return self.others
        self._text += len(name)
        return self.counts.setdefault(name, Count())

    def emptied(self) -> list[str]:
        """The cohorts of which all that was scanned is planned, the largest first."""
        return [name for name in self._largest_first(self.counts) if self.counts[name].emptied]

    @property
    def nameless(self) -> bool:
        """Whether items were scanned, and the cohort of none of them could be told."""
        seen = [name for name, count in self.counts.items() if count.scanned]
        return seen == [NO_COHORT] and not self.others.scanned

    def not_found(self) -> list[str]:
        """The canaries of which nothing was scanned."""
        return sorted(name for name in self.canaries if not self.counts[name].scanned)

    def shown(self, most: int = KEPT) -> PlannedCohorts:
        """The largest, canaries before all; the others together."""
        ordered = self._largest_first(self.counts)
        named = [name for name in ordered if name in self.canaries]
        named += [name for name in ordered if name not in self.canaries][: max(0, most - len(named))]
        rest, all_others = self.counts.keys() - set(named), Count()
        for count in (*(self.counts[name] for name in rest), self.others):
            all_others.merge(count)
        return PlannedCohorts(
            largest=tuple(CohortLine(cohort=name, **_fields(self.counts[name])) for name in named),
            others=self._together(len(rest), all_others),
            reported=self.reported.written,
        )

    def _together(self, cohorts: int, count: Count) -> OtherCohorts | None:
        beyond = self.others.scanned > 0
        return OtherCohorts(cohorts=cohorts, at_least=beyond, **_fields(count)) if count.scanned else None

    def _largest_first(self, names: Iterable[str]) -> list[str]:
        def size(name: str) -> tuple[int, int, int, str]:
            count = self.counts[name]
            due, due_bytes = count.planned + count.report_only, count.planned_bytes + count.report_only_bytes
            return -due_bytes, -due, -count.scanned, name

        return sorted(names, key=size)

    def keep(self, evidence: Evidence, run_id: str, kept: str | None) -> str:
        """Write what was counted, unless that is what `kept` says; its hash, by which it is found again.

        What is only reported is written before.
        """
        self.reported.keep(evidence, run_id)
        text = self._to_json()
        sha256 = hashlib.sha256(text).hexdigest()
        if sha256 != kept:
            evidence.put_once(keys.cohorts(run_id, sha256), text)
        return sha256

    def restore(self, evidence: Evidence, run_id: str, kept: str) -> None:
        """Go on with what `keep` wrote. Raises EvidenceAltered where that is gone."""
        key = keys.cohorts(run_id, kept)
        text = evidence.get(key)
        if text is None or hashlib.sha256(text).hexdigest() != kept:
            raise EvidenceAltered(
                f"the counts by cohort {key} are {'gone' if text is None else 'not what was written'}"
            )
        fields = json.loads(text)
        self.counts = {name: Count(*numbers) for name, numbers in fields["cohorts"].items()}
        self.others = Count(*fields["others"])
        reported = fields["reported"]
        self.reported = ReportedItems(Reported(files=reported[0], last=reported[1]) if reported else None)
        self._text = sum(len(name) for name in self.counts.keys() - self.canaries)

    def _to_json(self) -> bytes:
        cohorts = {name: astuple(self.counts[name]) for name in sorted(self.counts)}
        written = self.reported.written
        reported = [written.files, written.last] if written else None
        fields = {"schema": 1, "cohorts": cohorts, "others": astuple(self.others), "reported": reported}
        return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _fields(count: Count) -> dict[str, int]:
    return {name: getattr(count, name) for name in Count.__slots__}

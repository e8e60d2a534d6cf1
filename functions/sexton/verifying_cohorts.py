"""Verifying what a plan says of its cohorts: what is planned of each is counted again, from the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sexton import reading_reported
from sexton.cohort import NameOf, name_of
from sexton.cohort_counts import CohortLine, OtherCohorts, PlannedCohorts
from sexton.decision import REPORT_ONLY, Judge, judge
from sexton.errors import EvidenceAltered
from sexton.histogram import Tally
from sexton.item import Item
from sexton.plan import Plan
from sexton.policy import Policy
from sexton.ports import Evidence

Expect = Callable[[str, object, object], None]  # what, as written, as found


@dataclass
class CohortsAgain:
    """Counts the items of a plan's parts by the cohorts that the plan names; of a policy without cohorts nothing."""

    written: PlannedCohorts | None
    named: NameOf | None
    judged: Judge | None
    planned: dict[str, Tally] = field(default_factory=dict)
    others: Tally = field(default_factory=Tally)

    @staticmethod
    def of(written: Plan, policy: Policy | None) -> CohortsAgain:
        """Empty, for a plan under a policy; None is one that is lost."""
        named = name_of(policy.cohort) if policy and policy.cohort else None
        again = CohortsAgain(written.cohorts, named, judge(policy, written.cutoff) if policy else None)
        again.planned = {line.cohort: Tally() for line in again._lines()}
        return again

    def _lines(self) -> Iterable[CohortLine]:
        return self.written.largest if self.written else ()

    def add(self, items: Iterable[Item]) -> None:
        """Count the items of a part."""
        if self.named is not None and self.written is not None:
            for item in items:
                self.planned.get(self.named(item), self.others).add(item.size)

    def check(self, evidence: Evidence, plan: Plan, expect: Expect) -> None:
        """Tell what differs. What was scanned and stays is listed nowhere: of that, the sums must be the plan's."""
        expect("whether plan.json counts by cohort", self.written is not None, self.named is not None)
        if self.written is None or self.named is None:
            return
        rest = self.written.others
        lines: list[CohortLine | OtherCohorts] = [*self.written.largest, *([rest] if rest else [])]
        for line in self.written.largest:
            expect(f"planned of cohort {line.cohort!r}", _planned(line), _tallied(self.planned[line.cohort]))
        expect("planned of the other cohorts", _planned(rest) if rest else (0, 0), _tallied(self.others))
        self._check_reported(evidence, plan, expect)
        if plan.undoes is None:
            expect("scanned of all cohorts", sum(line.scanned for line in lines), sum(plan.scanned.values()))
            reported_only = sum(line.report_only for line in lines)
            expect("reported only of all cohorts", reported_only, plan.scanned.get(REPORT_ONLY.reason, 0))

    def _check_reported(self, evidence: Evidence, plan: Plan, expect: Expect) -> None:
        """What is only reported is counted again, item by item, and was rightly left alone."""
        assert self.written is not None
        found, others = {line.cohort: Tally() for line in self.written.largest}, Tally()
        wrongly = 0
        try:
            for item in reading_reported.items(evidence, plan.run_id, self.written.reported):
                assert self.named is not None
                found.get(self.named(item), others).add(item.size)
                wrongly += self.judged(item) is not REPORT_ONLY if self.judged else 0
        except (EvidenceAltered, ValueError, KeyError, IndexError) as error:
            expect("what is only reported", "readable", str(error))
            return
        for line in self.written.largest:
            expect(f"reported only of cohort {line.cohort!r}", _reported(line), _tallied(found[line.cohort]))
        rest = self.written.others
        expect("reported only of the other cohorts", _reported(rest) if rest else (0, 0), _tallied(others))
        expect("items that are only reported and should not be", 0, wrongly)


def _reported(line: CohortLine | OtherCohorts) -> tuple[int, int]:
    return line.report_only, line.report_only_bytes


def _planned(line: CohortLine | OtherCohorts) -> tuple[int, int]:
    return line.planned, line.planned_bytes


def _tallied(tally: Tally) -> tuple[int, int]:
    return tally.count, tally.bytes

"""A run by cohort: what was planned of each, what became of it, and what was only reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from sexton.cohort_counts import CohortLine, OtherCohorts, PlannedCohorts
from sexton.cohorts import Cells, Cohorts, summed
from sexton.outcome import Ending

ENDINGS = tuple(ending.value for ending in Ending)


class ByCohort(BaseModel):
    """What one cohort came to, sizes in bytes. Endings are None until the books were compared.

    `scanned` and what is `report_only` are None where the policy names no cohorts: then a cohort is a folder.
    """

    model_config = ConfigDict(frozen=True)

    cohort: str
    scanned: int | None
    planned: int
    planned_bytes: int
    deleted: int | None
    skipped: int | None
    dead: int | None
    cancelled: int | None
    report_only: int | None
    report_only_bytes: int | None


COUNTED = tuple(name for name in ByCohort.model_fields if name != "cohort")


class OthersByCohort(ByCohort):
    """All cohorts without a line of their own: so many, or more where `at_least`; `cohort` is empty."""

    cohorts: int
    at_least: bool


class RunByCohort(BaseModel):
    """A run's largest cohorts, and all others together; None where every cohort has a line."""

    model_config = ConfigDict(frozen=True)

    largest: tuple[ByCohort, ...]
    others: OthersByCohort | None

    def first(self, most: int) -> RunByCohort:
        """The same with so many lines at most: all that follow are among the others."""
        rest = [*self.largest[most:], *([self.others] if self.others else [])]
        if len(self.largest) <= most:
            return self
        cohorts = len(self.largest) - most + (self.others.cohorts if self.others else 0)
        sums = {name: _sum(getattr(line, name) for line in rest) for name in COUNTED}
        beyond = self.others is not None and self.others.at_least
        others = OthersByCohort(cohort="", cohorts=cohorts, at_least=beyond, **sums)
        return RunByCohort(largest=self.largest[:most], others=others)


def _sum(counts: Iterable[int | None]) -> Any:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def of_books(cohorts: Cohorts, planned: PlannedCohorts | None) -> RunByCohort:
    """What the compared books came to. `planned`: what planning counted, where the policy names cohorts."""
    if planned is None:
        others = _others(cohorts.folded, False, cohorts.others) if cohorts.folded else None
        return RunByCohort(largest=tuple(_line(name, cells) for name, cells in cohorts.largest()), others=others)
    found = dict(cohorts.largest())
    rest = planned.others
    return RunByCohort(
        largest=tuple(_line(line.cohort, found.get(line.cohort, {}), line) for line in planned.largest),
        others=_others(rest.cohorts, rest.at_least, cohorts.others, rest) if rest else None,
    )


def _line(name: str, cells: Cells, line: CohortLine | None = None) -> ByCohort:
    return ByCohort(cohort=name, **_ended(cells), **_scanned(line))


def _others(cohorts: int, at_least: bool, cells: Cells, line: OtherCohorts | None = None) -> OthersByCohort:
    return OthersByCohort(cohort="", cohorts=cohorts, at_least=at_least, **_ended(cells), **_scanned(line))


def _ended(cells: Cells) -> dict[str, Any]:
    whole, ended = summed(cells), Counter[str]()
    for (name, _), tally in cells.items():
        ended[name.partition(":")[0]] += tally.count
    return {"planned": whole.count, "planned_bytes": whole.bytes, **{name: ended[name] for name in ENDINGS}}


def _scanned(line: CohortLine | OtherCohorts | None) -> dict[str, Any]:
    return {name: getattr(line, name, None) for name in ("scanned", "report_only", "report_only_bytes")}


def of_plan(planned: PlannedCohorts) -> RunByCohort:
    """What was planned, before anything became of it."""
    open_yet: Mapping[str, Any] = dict.fromkeys(ENDINGS)
    others = planned.others
    return RunByCohort(
        largest=tuple(ByCohort(**line.model_dump(), **open_yet) for line in planned.largest),
        others=OthersByCohort(cohort="", **others.model_dump(), **open_yet) if others else None,
    )

"""What evidence says of a run by cohort; the ledger's rows do not tell cohorts apart."""

from __future__ import annotations

from pydantic import ValidationError

from sexton import archive, by_cohort, plan
from sexton.by_cohort import RunByCohort
from sexton.errors import EvidenceAltered
from sexton.ports import Evidence
from sexton.run import Run


def of_run(evidence: Evidence, run: Run) -> RunByCohort | None:
    """A run as evidence has it: its latest report once it is closed, its plan before; None until it is planned.

    None too where its policy names no cohorts. Raises EvidenceAltered, and NoPlan where evidence has no plan (yet).
    """
    if run.cohorts is None:
        return None
    if run.closed and run.report_revision:
        found = archive.read_report(evidence, run.run_id, run.report_revision).get("cohorts")
        return read(found) if found else None
    if run.planned_at is None:
        return None
    planned = plan.read(evidence, run.run_id).cohorts
    return by_cohort.of_plan(planned) if planned else None


def read(found: object) -> RunByCohort:
    """What a report says. Raises EvidenceAltered where it is not that."""
    try:
        return RunByCohort.model_validate(found)
    except ValidationError as error:
        raise EvidenceAltered(
            f"the report's counts by cohort cannot be read: {error.error_count()} are wrong"
        ) from error

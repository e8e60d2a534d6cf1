"""What the ledger says of runs, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton import keys
from sexton.by_cohort import RunByCohort
from sexton.closing import by_ending
from sexton.dead_letters import listed_runs
from sexton.errors import UnknownPolicy
from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.run import Change, Run, RunState


class RunLine(BaseModel):
    """A run as a list shows it: its row alone. Times are aware, `balanced` is None until the books are closed."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    policy_version: str
    scheduled_time: AwareDatetime
    cutoff: AwareDatetime
    mode: str
    action: str
    state: str
    reason: str | None
    message: str | None
    held_because: tuple[str, ...]
    started_by: str
    undoes: str | None
    undone_by: tuple[str, ...]
    covers: tuple[AwareDatetime, ...]
    covers_total: int
    created_at: AwareDatetime
    planned_at: AwareDatetime | None
    approved_by: str | None
    approved_at: AwareDatetime | None
    closed_at: AwareDatetime | None
    digest: str | None
    scanned: int
    scanned_by: dict[str, int]
    planned: int
    planned_bytes: int
    balanced: bool | None
    report: str | None


class RunView(RunLine):
    """A run with what became of its items, summed from its job rows.

    planned = deleted + skipped + dead + cancelled + open, once planning is complete. `deleted_unproven` is part of
    `deleted`: gone after an attempt that left no record. `cohorts` is for whoever has read evidence, too.
    """

    changes: tuple[Change, ...]
    replays: int
    jobs: int
    jobs_by_state: dict[str, int]
    deleted: int
    deleted_unproven: int
    skipped: dict[str, int]
    dead: dict[str, int]
    cancelled: int
    open: int
    cohorts: RunByCohort | None = None

    @property
    def finished(self) -> int:
        """How many items have an ending."""
        return self.deleted + sum(self.skipped.values()) + sum(self.dead.values()) + self.cancelled

    @property
    def clean(self) -> bool:
        """Whether it completed with balanced books and nothing dead."""
        return self.state == RunState.COMPLETED and self.balanced is True and not self.dead


def show(ledger: Ledger, text: str) -> RunView:
    """A run with its counts as of now. Raises BadRunId or UnknownRun."""
    run = ledger.find(text)
    return view(run, ledger.jobs(run.run_id))


def line(run: Run) -> RunLine:
    """A run's row, for a list."""
    return RunLine(**_line_fields(run))


def view(run: Run, jobs: Iterable[Job]) -> RunView:
    """A run with the counts of its jobs; each job is looked at once and not kept."""
    counts, states, still_open = Counter[str](), Counter[str](), 0
    for job in jobs:
        states[job.state.value] += 1
        counts.update(job.counts)
        if job.state is JobState.DEAD:
            counts[f"dead:{job.reason}"] += job.open_items
        elif job.state is JobState.CANCELLED:
            counts["cancelled"] += job.open_items
        else:
            still_open += job.open_items
    counted: dict[str, Any] = by_ending(+counts)
    return RunView(
        **_line_fields(run),
        **counted,
        changes=run.changes,
        replays=run.replays,
        jobs=states.total(),
        jobs_by_state=dict(sorted(states.items())),
        open=still_open,
    )


def runs(ledger: Ledger, policy: str | None = None) -> Iterator[Run]:
    """Every run, of one policy or of all that the ledger knows, the latest scheduled time first.

    Raises UnknownPolicy for one that is not deployed and has no run.
    """
    policies = known_policies(ledger) if policy is None else [_known(ledger, policy)]
    return merge(*map(ledger.runs, policies), key=lambda run: run.key.sk, reverse=True)


def _known(ledger: Ledger, policy: str) -> str:
    policies = known_policies(ledger)
    if policy not in policies and next(ledger.runs(policy), None) is None:
        known = ", ".join(policies) or "none"
        raise UnknownPolicy(f"no policy {policy!r} is deployed, and there is no run of one; known are: {known}")
    return policy


def known_policies(ledger: Ledger) -> list[str]:
    """Policies that are or were deployed, and those that have runs now (before a first tick only these show)."""
    registered = {row["policy"] for row in ledger.policies()}
    at_work = {run.policy for run in listed_runs(ledger)}
    return sorted(registered | at_work)


def _line_fields(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "scheduled_time": run.scheduled_time,
        "cutoff": run.cutoff,
        "mode": run.mode,
        "action": run.action,
        "state": run.state.value,
        "reason": run.reason,
        "message": run.message,
        "held_because": run.held_because,
        "started_by": run.started_by,
        "undoes": run.undoes,
        "undone_by": run.undone_by,
        "covers": run.covers,
        "covers_total": run.covers_total,
        "created_at": run.created_at,
        "planned_at": run.planned_at,
        "approved_by": run.approved_by,
        "approved_at": run.approved_at,
        "closed_at": run.closed_at,
        "digest": run.digest,
        "scanned": run.scanned_total,
        "scanned_by": run.scanned,
        "planned": run.planned,
        "planned_bytes": run.planned_bytes,
        "balanced": run.balanced if run.closed else None,
        "report": keys.report(run.run_id, run.report_revision) if run.report_revision else None,
    }

"""Closing a run: the books are compared, the report is written, then the state changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from sexton import books, keys, report_csv, report_html, run_transitions
from sexton.books import Books, Entry, Tell
from sexton.breakdown import Breakdown
from sexton.cohort_counts import CohortCounts
from sexton.errors import EvidenceAltered, SextonError
from sexton.item import rfc3339
from sexton.job import OPEN
from sexton.ledger import Ledger
from sexton.money import money
from sexton.planning import write_plan
from sexton.policy import Policy
from sexton.ports import Clock, Events, Evidence, Log, TimeLeft, Token
from sexton.prices import list_prices
from sexton.reading import policy_of
from sexton.report import Report
from sexton.run import Run, RunState
from sexton.table import Applied, Check, Write

REPORT_SCHEMA = 1
ANNOUNCED = ("run_id", "policy", "state", "balanced", "deleted", "deleted_unproven", "skipped", "dead", "cancelled")


RESERVE = timedelta(seconds=15)  # of the function's time, to write the books and the report and to change the state


class Unfinished(SextonError):
    """The function's time was over before the books were compared; nothing was written."""


@dataclass(frozen=True)
class Closing:
    """Closes runs whose work is done, invalidated ones too."""

    ledger: Ledger
    evidence: Evidence
    events: Events
    clock: Clock
    token: Token
    log: Log
    region: str  # whose list prices the reports show
    time_left: TimeLeft

    def close(self, run: Run, deployed: Policy | None) -> bool:
        """Close the run if no job is open. `run` was read before: its rev guards everything that follows.

        `deployed` is the policy as it is deployed now, of whatever version.
        """
        entries: list[Entry] = []
        counted: Counter[str] = Counter()
        for job in self.ledger.jobs(run.run_id):
            if job.state in OPEN:
                return False
            entries.append(books.entry(job))
            counted.update(job.counts)
        policy = self._policy(run, deployed)
        counts = self._counts(run, policy)
        if run.state is RunState.INVALIDATED:
            write_plan(self.ledger, self.evidence, run, counts)
        breakdown = Breakdown.of(policy, run.cutoff, counts.shown() if counts else None) if policy else None
        compared = books.compare(self.evidence, self._in_time(entries), self._teller(breakdown))
        if compared.planned != run.planned:
            compared.problem(f"{run.planned} items were planned, the books have {compared.planned}")
        if compared.recorded != counted:
            compared.problem(f"the rows count {dict(counted)}, the outcome files have {dict(compared.recorded)}")
        revision = self._write_evidence(run, entries, compared, breakdown)
        if revision is None or not self._change_state(run, compared.balanced, revision):
            return False
        closed = self.ledger.run(run.id)
        if closed is not None and closed.closed:
            self.announce(closed)
        return True

    def announce(self, run: Run) -> None:
        """Tell of a closed run, then list it no more; the tick does it again where a crash came between.

        So it is told at least once, and only what the ledger says.
        """
        file = keys.report(run.run_id, run.report_revision)
        text = self.evidence.get(file)
        if text is None:
            raise EvidenceAltered(f"the report {file} is gone")
        try:
            report = json.loads(text)
            detail = {"schema": 1, "report": file} | {name: report[name] for name in ANNOUNCED}
            detail["undoes"] = report.get("undoes")  # reports of an earlier release have none
        except (ValueError, KeyError, TypeError) as error:
            raise EvidenceAltered(f"{file} is no report ({type(error).__name__})") from error
        self.events.put("Run Closed", detail)
        self.log("run_closed", **detail)
        needs_a_person = bool(report["dead"]) or not run.balanced
        self.ledger.table.write(run_transitions.announced(run, needs_a_person, self.token()))

    def _write_evidence(
        self, run: Run, entries: list[Entry], compared: Books, breakdown: Breakdown | None
    ) -> int | None:
        """Books and report under a new revision: one that a crash left behind without its state change stays.

        None where another tick took that revision first: what it writes may be of the run as it was before.
        """
        revision = 1 + max((_revision(key) for key in self.evidence.list(f"runs/{run.run_id}/")), default=0)
        lines = "".join(entry.to_line() + "\n" for entry in entries)
        if not self.evidence.put_once(keys.books(run.run_id, revision), lines.encode()):
            return None
        facts = self._report(run, len(entries), compared, revision)
        if breakdown is not None:
            worth = money(breakdown, list_prices(), self.region)
            facts["money"] = worth.to_fields()
            facts["cohorts"] = breakdown.by_cohort().model_dump()
            report = Report(facts, breakdown, worth)
            self.evidence.put_once(keys.report_csv(run.run_id, revision), report_csv.render(report))
            self.evidence.put_once(keys.report_html(run.run_id, revision), report_html.render(report))
        self.evidence.put_once(keys.report(run.run_id, revision), json.dumps(facts, indent=1).encode())
        return revision

    def _policy(self, run: Run, deployed: Policy | None) -> Policy | None:
        """The run's policy, which says how sums by class, cohort and age are kept; None where it is lost.

        A run closes all the same: that its policy cannot be read is what `verify` says, not a reason to stay open.
        """
        try:
            return policy_of(self.evidence, run, deployed)
        except EvidenceAltered as altered:
            self.log("report_without_breakdown", run_id=run.run_id, error=str(altered))
            return None

    def _counts(self, run: Run, policy: Policy | None) -> CohortCounts | None:
        """What planning counted by cohort; empty where that is lost, which is no reason to stay open either."""
        try:
            return CohortCounts.of_run(self.evidence, policy, run) if policy else None
        except EvidenceAltered as altered:
            self.log("report_without_cohorts", run_id=run.run_id, error=str(altered))
            return None

    def _in_time(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries for as long as there is time. Raises Unfinished, so that no half of the books is written."""
        for entry in entries:
            if self.time_left() < RESERVE:
                raise Unfinished("its books were not compared in the time of one tick; the next one tries again")
            yield entry

    def _teller(self, breakdown: Breakdown | None) -> Tell | None:
        if breakdown is None:
            return None
        now = self.clock()
        return lambda item, name, fields: breakdown.ended(item, name, fields, now)

    def _report(self, run: Run, jobs: int, compared: Books, revision: int) -> dict[str, object]:
        state = RunState.INVALIDATED if run.state is RunState.INVALIDATED else RunState.COMPLETED
        return {
            "schema": REPORT_SCHEMA,
            "revision": revision,
            "run_id": run.run_id,
            "policy": run.policy,
            "policy_version": run.policy_version,
            "scheduled_time": rfc3339(run.scheduled_time),
            "cutoff": rfc3339(run.cutoff),
            "mode": run.mode,
            "action": run.action,
            "started_by": run.started_by,
            "undoes": run.undoes,
            "covers": [rfc3339(at) for at in run.covers],
            "covers_total": run.covers_total,
            "state": state.value,
            "reason": run.reason,
            "message": run.message,
            "digest": run.digest,
            "approved_by": run.approved_by,
            "approved_at": rfc3339(run.approved_at) if run.approved_at else None,
            "changes": [change.model_dump(mode="json", exclude_none=True) for change in run.changes],
            "closed_at": rfc3339(self.clock()),
            "scanned": run.scanned,
            "planned": run.planned,
            "planned_bytes": run.planned_bytes,
            "jobs": jobs,
            **by_ending(compared.counts),
            "balanced": compared.balanced,
            "problem_count": compared.problem_count,
            "problems": compared.problems,
        }

    def _change_state(self, run: Run, balanced: bool, revision: int) -> bool:
        token, now = self.token(), self.clock()
        row = self.ledger.policy(run.policy)
        writes: list[Write | Check] = [
            run_transitions.close(run, balanced, revision, now, token),
            *run_transitions.leave(run, row, now, token),
        ]
        return isinstance(self.ledger.table.transact(writes), Applied)


def by_ending(counts: Counter[str] | dict[str, int]) -> dict[str, object]:
    """Counts by outcome name, in the report's shape.

    `deleted` and `cancelled` are numbers, `skipped` and `dead` objects by reason; deletions that are no proof
    (`absent_after_attempt`) count as deleted and are shown apart too.
    """
    sums: Counter[str] = Counter()
    reasons: dict[str, dict[str, int]] = {"skipped": {}, "dead": {}}
    for name, number in sorted(counts.items()):
        ending, _, reason = name.partition(":")
        sums[ending] += number
        if ending in reasons:
            reasons[ending][reason or "unknown"] = number
    return {
        "deleted": sums["deleted"],
        "deleted_unproven": counts.get("deleted:absent_after_attempt", 0),
        "skipped": reasons["skipped"],
        "dead": reasons["dead"],
        "cancelled": sums["cancelled"],
    }


def _revision(key: str) -> int:
    """The revision in a key of books or report, 0 in any other."""
    name = key.rsplit("/", 1)[-1].split(".")[0]
    kind, _, number = name.partition("-")
    return int(number) if kind in ("books", "report") and number.isdigit() else 0

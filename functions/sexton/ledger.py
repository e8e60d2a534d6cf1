"""The ledger: runs, jobs and policies as rows, read whole and typed, changed by transitions only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sexton import malformed, run_transitions
from sexton.controls import CONTROL, Controls
from sexton.errors import BadRunId, UnknownRun
from sexton.job import OPEN, Job, JobState, open_sk, run_partition
from sexton.ports import Rows, Table, Token
from sexton.run import AT_WORK, ATTENTION, RUNS, Change, Run, RunId, issues_prefix
from sexton.run_transitions import policy_key
from sexton.table import Applied, Key, Row


def parsed(text: str) -> RunId:
    """A run id as a person gives it. Raises BadRunId."""
    try:
        return RunId.parse(text)
    except ValueError as error:
        raise BadRunId(str(error)) from error


class Ledger:
    """Typed reads over the table. Consistent unless a method says otherwise."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def find(self, text: str) -> Run:
        """The run that a person names. Raises BadRunId, UnknownRun."""
        run_id = parsed(text)
        run = self.run(run_id)
        if run is None:
            raise UnknownRun(f"the ledger holds no run {run_id}")
        return run

    def run(self, run_id: RunId) -> Run | None:
        """The run as of now."""
        row = self.table.get(run_id.key)
        return Run.from_row(row) if row else None

    def job(self, key: Key) -> Job | None:
        """The job as of now."""
        row = self.table.get(key)
        return Job.from_row(row) if row else None

    def policy(self, policy: str) -> Row:
        """The policy row, empty where there is none yet."""
        return self.table.get(policy_key(policy)) or {}

    def halt(self, run: Run, change: Change, token: Token) -> bool:
        """Halt a run that is at work, whatever else moves it meanwhile.

        False when it is at work no more, or was resumed since: whoever resumed it knew better.
        """
        at_work: Run | None = run
        while at_work is not None and at_work.state in AT_WORK and at_work.resumed_at == run.resumed_at:
            written = self.table.write(run_transitions.halt(at_work, change, token()))
            if isinstance(written, Applied):
                return True
            at_work = Run.from_row(written.old) if written.old else None
        return False

    def controls(self) -> Controls:
        """Every pause and hold as of now."""
        return Controls.from_rows(self._all(CONTROL, ""))

    def issues(self, policy: str, scheduled_time: datetime) -> list[Run]:
        """Every run of one scheduled time, in order of n."""
        return [run for run in self._of_time(policy, scheduled_time) if run.undoes is None]

    def undos(self, policy: str, scheduled_time: datetime) -> list[Run]:
        """Every undo of a run of one scheduled time, in order of n."""
        return [run for run in self._of_time(policy, scheduled_time) if run.undoes is not None]

    def runs(self, policy: str) -> Iterator[Run]:
        """Every run of a policy, the latest scheduled time first."""
        return (Run.from_row(row) for row in self._all(policy_key(policy).pk, "RUN#", descending=True))

    def jobs(self, run_id: str) -> Iterator[Job]:
        """Every job of a run in order; a child comes after its parent, so that the walk cannot miss it."""
        pk, prefix = run_partition(run_id)
        return (Job.from_row(row) for row in self._all(pk, prefix))

    def finished(self, run_id: str, since: datetime | None = None) -> tuple[int, int]:
        """How many jobs of a run are dead and not resolved, and how many have ended in any way, after a time."""
        ended = [job for job in self.jobs(run_id) if job.state not in OPEN and job.ended_after(since)]
        return sum(job.state is JobState.DEAD and job.resolved_at is None for job in ended), len(ended)

    def split_from(self, job: Job) -> Iterator[Job]:
        """Every job that left this one, or one that left it, in order."""
        return (Job.from_row(row) for row in self._all(job.key.pk, f"{job.key.sk}#"))

    def open_jobs(self, run_id: str, state: JobState, up_to: datetime | None = None) -> Iterator[Job]:
        """Jobs in a state by the time that matters in it, eventually consistent: a hint, never a proof.

        `up_to`: ready jobs due, leased jobs expired, dead jobs dead by then.
        """
        last = open_sk(state, up_to) if up_to else None
        return (Job.from_row(row) for row in self._all_open(f"RUN#{run_id}", f"{state}#", last))

    def open_runs(self) -> Iterator[Run]:
        """Runs that are not closed, eventually consistent."""
        return (Run.from_row(row) for row in self._all_open(RUNS))

    def runs_for_a_person(self) -> Iterator[Run]:
        """Closed runs with dead jobs or books that do not balance, eventually consistent."""
        return (Run.from_row(row) for row in self._all_open(ATTENTION))

    def policies(self) -> list[Row]:
        """The policy rows of what is or was deployed, eventually consistent."""
        return list(self._all_open("POLICIES"))

    def malformed(self, day: datetime) -> Iterator[Row]:
        """The records of a day's messages that were none of ours, or claimed what the ledger does not say."""
        return self._all(malformed.partition(day), malformed.MESSAGE)

    def _of_time(self, policy: str, scheduled_time: datetime) -> Iterator[Run]:
        return (Run.from_row(row) for row in self._all(policy_key(policy).pk, issues_prefix(scheduled_time)))

    def _all(self, pk: str, prefix: str, descending: bool = False) -> Iterator[Row]:
        page: Rows | None = None
        while page is None or page.next is not None:
            page = self.table.query(pk, prefix, page.next if page else None, descending)
            yield from page.rows

    def _all_open(self, open_pk: str, prefix: str = "", up_to: str | None = None) -> Iterator[Row]:
        page: Rows | None = None
        while page is None or page.next is not None:
            page = self.table.query_open(open_pk, prefix, up_to, page.next if page else None)
            yield from page.rows

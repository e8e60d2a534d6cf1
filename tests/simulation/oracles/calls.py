"""An endpoint is called for a record that had its time, by who may; and once, where that is what it takes."""

from __future__ import annotations

import json
from typing import cast

from sexton.http_call import HttpAnswer, HttpCall
from sexton.table import Key, Row

from tests.simulation.effects import BY_CALL, Effect
from tests.simulation.oracles.plans import Planned
from tests.simulation.oracles.records import RecordRemovals
from tests.simulation.oracles.removals import Removals
from tests.simulation.oracles.store import Identity
from tests.simulation.violation import Violation


class Calls:
    """Watches the endpoints. `removals` knows what is forbidden, `records` counts what the application removed."""

    def __init__(self, removals: Removals, records: RecordRemovals) -> None:
        self.removals, self.records = removals, records
        self._made: set[tuple[str, int]] = set()  # job and its replays: a call that may have been carried out
        self._by_record: dict[tuple[str, Identity], Key] = {}  # of a policy: the job that such a call was last made for

    def saw(self, effect: Effect) -> None:
        """Judge a call, whatever it came to."""
        if effect.name != BY_CALL:
            return
        call = cast(HttpCall, effect.call.args[0])
        what = f"{effect.task.name} called for {call.job_id}"
        job = next((job for job in self.removals.held(effect, what) if job["job_id"] == call.job_id), None)
        if job is None:
            raise Violation(f"{what}, which it does not hold")
        self.removals.in_time(effect, job, what)
        planned = self._named(call, job, what)
        wanted = self.records.plans.of_run[job["run_id"]].rule.wanted
        address = f"dynamodb://{self.records.plans.of_run[job['run_id']].rule.bucket}/{planned.thing.key}"
        self.removals.allowed(effect, what, self.removals.run_of(job), address)
        if wanted is not None and wanted.does == "call once":
            self._once(job, planned, effect.result, what)
        for touched in effect.touched:
            self.records.called_for(job, planned, touched, what)

    def _named(self, call: HttpCall, job: Row, what: str) -> Planned:
        """The one item of the job: the call names it and its deadline."""
        plan, named = self.records.plans.of_run[job["run_id"]], json.loads(call.body or b"{}")
        planned = plan.places[job["seq"].split(".")[0], job["start"]]
        key = {name: {"S": value} for name, value in named["key"].items()}
        if json.loads(planned.thing.key) != key or planned.thing.version_id != named["deadline"]:
            raise Violation(f"{what}, and names {named}")
        return planned

    def _once(self, job: Row, planned: Planned, answer: object, what: str) -> None:
        """No call is made again that may have been carried out, unless a person has judged."""
        attempt, record = (job["job_id"], job.get("replays", 0)), (job["policy"], planned.thing.identity)
        if attempt in self._made:
            raise Violation(f"{what} again, though that must not be repeated")
        earlier = self.removals.table.rows.get(self._by_record.get(record, Key("", "")))
        if earlier and earlier["job_id"] != job["job_id"] and _nobody_knows(earlier):
            raise Violation(f"{what}, though nobody has judged {earlier['job_id']}")
        if isinstance(answer, HttpAnswer) and answer.status in (204, 500):
            self._made.add(attempt)
            self._by_record[record] = Key(job["pk"], job["sk"])


def _nobody_knows(job: Row) -> bool:
    """Whether it may have been carried out, and no person has looked."""
    return "resolved_at" not in job and bool(job.get("maybe_done") or "call_begun_at" in job)

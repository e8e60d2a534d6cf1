"""The application's endpoint: it removes the record that it is called for, and is not always well."""

from __future__ import annotations

import json

from sexton.attributes import canonical
from sexton.http_call import HttpAnswer, HttpCall

from tests.simulation.effects import BY_CALL
from tests.simulation.faults import Fault
from tests.simulation.reminders import Wanted
from tests.simulation.scenario import Scenario
from tests.simulation.simulated import SimulatedWorld

REMOVAL = f"removal by {BY_CALL}"  # as the weather knows calls
DONE, GONE, REFUSED = HttpAnswer(204, "No Content"), HttpAnswer(404, "Not Found"), HttpAnswer(409, "Conflict")
BUSY, BROKEN = HttpAnswer(503, "Service Unavailable", retry_after=20.0), HttpAnswer(500, "Internal Server Error")


class Called:
    """Keeps its answers by job, as one does that may be called again; one of `call once` does not."""

    def __init__(self, world: SimulatedWorld, scenario: Scenario) -> None:
        self.world = world
        self._wanted: dict[str, tuple[str, Wanted]] = {}  # by policy: its table
        for each in scenario.policies.values():
            rule = scenario.rules[each.version]
            if rule.wanted is not None:
                self._wanted[each.id] = rule.bucket, rule.wanted
        self._answers: dict[str, HttpAnswer] = {}
        world.endpoints.answer = self.answer

    def answer(self, call: HttpCall) -> HttpAnswer:
        """What it does, and what it says."""
        weather, named = self.world.weather, json.loads(call.body or b"{}")
        table, wanted = self._wanted[named["policy"]]
        if weather.strikes(Fault.ENDPOINT_BUSY, REMOVAL):
            return BUSY
        if weather.strikes(Fault.ENDPOINT_REFUSES, REMOVAL):
            return REFUSED
        if weather.strikes(Fault.ENDPOINT_BROKEN, REMOVAL):
            if weather.random.random() < 0.5:
                self._carry_out(table, wanted, named)
            return BROKEN
        if wanted.does == "call" and call.job_id in self._answers:
            return self._answers[call.job_id]
        return self._answers.setdefault(call.job_id, self._carry_out(table, wanted, named))

    def _carry_out(self, table: str, wanted: Wanted, named: dict[str, dict[str, object]]) -> HttpAnswer:
        """It removes a record that still is due when it was."""
        records = self.world.tables[table].records
        key = canonical({name: {"S": value} for name, value in named["key"].items()})
        due = wanted.deadline(records.get(key, {}))
        if due is None or due.isoformat().replace("+00:00", "Z") != named["deadline"]:
            return GONE
        del records[key]
        return DONE

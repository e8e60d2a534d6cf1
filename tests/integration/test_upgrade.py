"""A deploy while a run is on its way: what the version before wrote is understood, what a later one writes is refused.

The fixture was written by the first version. It is not to be written anew: a change that cannot read it needs another
schema number, and code for both.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sexton import message, verifying
from sexton.ports import Send
from sexton.run import RunId, RunState
from sexton.table import Key, Write, absent

from tests.fakes.world import World, policy

FIXTURE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "fixtures" / "upgrade" / "schema-1.json").read_text())
RUN = "logs-expire.20260301T120000Z.1"


@pytest.fixture
def world() -> World:
    """This code, over what the first version left behind; the objects are as they were planned."""
    made = World(policies={"logs-expire": policy(job_size=2, limits={"max_items": 1000})})
    made.clock.move_to(datetime.fromisoformat(FIXTURE["now"]))
    made.fill(["app/two"])
    for row in FIXTURE["rows"]:
        key = Key(row["pk"], row["sk"])
        fields = {name: value for name, value in row.items() if name not in ("pk", "sk", "write_id")}
        made.table.write(Write(key, row["write_id"], (absent("pk"),), set=fields))
    made.evidence.files = {key: text.encode() for key, text in FIXTURE["evidence"].items()}
    for _ in range(100):
        made.tokens()  # past those that the rows carry
    return made


def test_a_message_of_schema_1_is_understood() -> None:
    found = message.read(FIXTURE["message"])

    assert (found.schema_version, found.run_id, found.start, found.end) == (1, RUN, 0, 1)
    assert found.job_id == f"{RUN}.00000001"


def test_a_policy_that_was_not_touched_keeps_its_version(world: World) -> None:
    """Else each open run would be invalidated by the deploy."""
    row = next(row for row in FIXTURE["rows"] if row.get("run_id") == RUN)

    assert world.policies["logs-expire"].version == row["policy_version"]


def test_a_run_on_its_way_is_brought_to_its_end(world: World) -> None:
    world.queue.send([Send("0", FIXTURE["message"], "logs-expire")])
    world.settle()

    run = world.ledger.run(RunId.parse(RUN))
    assert run is not None
    assert (run.state, run.balanced) == (RunState.COMPLETED, True)
    assert world.bucket().list("").items == []
    assert world.events_logged("message_refused") == []
    assert verifying.verify(world.evidence, RUN).holds


def test_a_message_of_a_later_version_is_refused_and_its_job_sent_again(world: World) -> None:
    """A half-done deploy, or one that was taken back: the ledger has the job, and knows better than the queue."""
    later = {**json.loads(FIXTURE["message"]), "schema": message.SCHEMA + 1, "another_field": True}
    world.queue.send([Send("0", json.dumps(later), "logs-expire")])
    world.settle()

    run = world.ledger.run(RunId.parse(RUN))
    assert run is not None
    assert (run.state, run.balanced) == (RunState.COMPLETED, True)
    assert {refused["kind"] for refused in world.events_logged("message_refused")} == {"malformed"}

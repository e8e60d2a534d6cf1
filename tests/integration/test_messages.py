"""A message is a claim, never an authority: what the ledger does not say leads to no call on its word."""

from __future__ import annotations

import json

import pytest
from sexton import malformed
from sexton.ports import Send
from sexton.table import Key, Row
from sexton.working import Answer

from tests.integration.crashing import LastingWorld
from tests.integration.given import planned
from tests.integration.seen import tally


def body(world: LastingWorld, **changes: object) -> str:
    """A true message with some of its fields altered."""
    true = json.loads(next(iter(world.queue.messages.values())).body)
    return json.dumps({**true, **{name: str(value).format(**true) for name, value in changes.items()}})


ALTERED = {
    "another part's hash": {"part_sha256": "1" * 64},
    "another part": {"part_key": "plans/other"},
    "another end": {"end": 2},
    "another start": {"start": 1},
    "a larger range": {"end": 999},
    "another policy version": {"policy_version": "b" * 64},
    "a later cutoff": {"cutoff": "2026-03-01T12:00:00Z"},
    "an unknown job": {"job_id": "{run_id}.00000077"},
    "an unknown split": {"job_id": "{run_id}.00000000.0001"},
    "an unknown run": {
        "run_id": "logs-expire.20200101T000000Z.1",
        "job_id": "logs-expire.20200101T000000Z.1.00000000",
    },
    "another policy's run": {
        "run_id": "other-policy.20260301T120000Z.1",
        "job_id": "other-policy.20260301T120000Z.1.00000000",
    },
}
FORGED = ["", "no message", "{}", "null", '{"schema": 1}', '{"job_id": "; rm -rf /"}', "\x00\x01", "[" * 10_000]


def receive_only(world: LastingWorld, text: str) -> Answer:
    """The queue holds this message and no other."""
    world.queue.messages.clear()
    world.queue.send([Send("0", text, "x")])
    (message,) = world.queue.receive()
    world.trace.calm()
    return world.work_one(message)


def records(world: LastingWorld) -> list[Row]:
    return [row for key, row in world.table.rows.items() if key.sk.startswith("MESSAGE#")]


def assert_refused(world: LastingWorld, text: str, kind: str) -> None:
    before = {key: dict(row) for key, row in world.table.rows.items()}
    assert receive_only(world, text) is Answer.KEEP
    assert not [name for name in world.trace.names if name.startswith(("bucket", "evidence"))]
    (record,) = records(world)
    assert record["kind"] == kind
    assert record["why"]
    kept = {key: row for key, row in world.table.rows.items() if not key.pk.startswith("MALFORMED#")}
    assert kept == before, "it creates no job and changes none"


@pytest.mark.parametrize("changes", ALTERED.values(), ids=ALTERED)
def test_an_altered_message_leads_to_no_call_and_has_a_dead_record(changes: dict[str, object]) -> None:
    world = planned(3)
    assert_refused(world, body(world, **changes), "policy_mismatch")


@pytest.mark.parametrize("text", FORGED)
def test_a_malformed_message_leads_to_no_call_and_has_a_dead_record(text: str) -> None:
    assert_refused(planned(3), text, "malformed")


@pytest.mark.parametrize("state", ["planning", "planned", "reported", "awaiting_approval"])
def test_a_message_of_a_run_that_has_dispatched_nothing_is_refused(state: str) -> None:
    world = planned(3)
    world.table.rows[world.run({"run_id": world.run_id}).key]["state"] = state
    assert_refused(world, body(world), "policy_mismatch")


@pytest.mark.parametrize("text", ["no message", None])
def test_a_refused_message_is_failed_on_until_sqs_moves_it_to_the_dead_letters(text: str | None) -> None:
    world = planned(3)
    text = text or body(world, end=2)
    receive_only(world, text)
    world.drain()
    (dead,) = world.queue.dead
    assert dead.message.body == text
    assert len(records(world)) == 1, "one record, however often it comes"


def test_the_record_holds_a_short_redacted_excerpt() -> None:
    world = planned(3)
    receive_only(world, "password=hunter2 \x1b[31m " + "x" * 5000)
    (record,) = records(world)
    assert "hunter2" not in record["excerpt"]
    assert "\x1b" not in record["excerpt"]
    assert len(record["excerpt"]) <= malformed.EXCERPT
    assert record["message_id"] == next(iter(world.queue.messages.values())).message_id
    assert record["expires_at"] > world.clock().timestamp()


def test_records_are_capped_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malformed, "KEPT_A_DAY", 3)
    world = planned(3)
    for number in range(5):
        receive_only(world, f"no message {number}")
    assert len(records(world)) == 3
    assert world.table.rows[Key(malformed.partition(world.clock()), "COUNT")]["records"] == 3
    world.clock.advance(24 * 3600)
    receive_only(world, "no message")
    assert len(records(world)) == 4


def test_the_true_message_is_worked_on_all_the_same() -> None:
    world = planned(3)
    world.queue.send([Send("0", body(world, end=2), "x"), Send("1", "no message", "x")])
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}

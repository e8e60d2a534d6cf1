"""A run closes when its work is done, with books that were compared and a report that says what they came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.instant import ms
from sexton.job import OPEN
from sexton.reconcile import TickFailed
from sexton.replaying import Replaying
from sexton.run import Run
from sexton.table import Key

from tests.fakes.recorder import Crash
from tests.fakes.time import START
from tests.fakes.world import World, policy

RUN = "logs-expire.20260301T120000Z.1"
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "not authorized to perform s3:DeleteObject")


def worked_off(dead: bool = False) -> World:
    """Six objects in three jobs, all worked on and the run not yet closed; with `dead`, app/1 is refused."""
    world = World(policies={"logs-expire": policy(job_size=2, limits={"max_items": 1000})})
    world.fill(f"app/{n}" for n in range(6))
    world.trigger()
    if dead:
        world.bucket().failures["app/1"] = DENIED
    while any(job.state in OPEN for job in world.ledger.jobs(RUN)):
        world.work()
        world.discover({"resume": RUN})
    world.trace.calm()
    return world


def run(world: World) -> Run:
    return world.run({"run_id": RUN})


def report(world: World, revision: int = 1) -> dict[str, object]:
    found: dict[str, object] = json.loads(world.evidence.files[f"runs/{RUN}/report-{revision}.json"])
    return found


def closing_calls() -> list[str]:
    """The calls of the tick that closes."""
    world = worked_off()
    world.tick()
    return world.trace.names


# what a closing leaves behind


def test_the_report_says_what_the_books_came_to() -> None:
    world = worked_off()
    world.tick()
    found = report(world)
    assert {name: found[name] for name in ("run_id", "state", "mode", "reason", "revision", "jobs", "planned")} == {
        "run_id": RUN,
        "state": "completed",
        "mode": "enforce",
        "reason": None,
        "revision": 1,
        "jobs": 3,
        "planned": 6,
    }
    assert (found["deleted"], found["skipped"], found["dead"], found["cancelled"]) == (6, {}, {}, 0)
    assert (found["balanced"], found["problem_count"], found["problems"]) == (True, 0, [])
    assert (found["digest"], found["policy_version"]) == (run(world).digest, run(world).policy_version)
    assert (found["cutoff"], found["closed_at"]) == ("2026-01-30T12:00:00Z", "2026-03-01T12:00:00Z")


def test_the_books_have_a_line_for_each_job_in_order() -> None:
    world = worked_off(dead=True)
    world.tick()
    lines = [json.loads(line) for line in world.evidence.files[f"runs/{RUN}/books-1.ndjson.gz"].splitlines()]
    assert [(line["seq"], line["state"], line["start"], line["end"]) for line in lines] == [
        ("00000000", "succeeded", 0, 2),
        ("00000000.0001", "dead", 1, 2),
        ("00000001", "succeeded", 0, 2),
        ("00000002", "succeeded", 0, 2),
    ]
    assert lines[0]["split_off"] == [[1, 2]]
    assert all(file in world.evidence.files for line in lines for file in line["outcome_files"])
    assert (report(world)["deleted"], report(world)["dead"]) == (5, {"AccessDenied": 1})


def test_the_run_row_says_that_it_is_closed_and_leaves_in_400_days() -> None:
    world = worked_off()
    world.tick()
    row = world.table.rows[Key("POLICY#logs-expire", "RUN#20260301T120000Z#0001")]
    assert (row["state"], row["balanced"], row["report_revision"]) == ("completed", True, 1)
    assert row["closed_at"] == ms(START)
    assert row["expires_at"] == int((START + timedelta(days=400)).timestamp())
    assert "open_pk" not in row


def test_no_row_of_open_or_dead_work_leaves_by_itself() -> None:
    world = worked_off(dead=True)
    leaves = {row["job_id"]: "expires_at" in row for row in world.table.rows.values() if "job_id" in row}
    assert leaves == {
        f"{RUN}.00000000": True,
        f"{RUN}.00000000.0001": False,
        f"{RUN}.00000001": True,
        f"{RUN}.00000002": True,
    }
    assert not any("expires_at" in row for row in world.table.rows.values() if row["sk"].startswith("RUN#"))


def test_one_event_tells_of_the_closing() -> None:
    world = worked_off()
    world.tick()
    for _ in range(3):
        world.clock.advance(60)
        world.tick()
    (event,) = world.events.of("Run Closed")
    assert event["run_id"] == RUN
    assert (event["state"], event["balanced"], event["deleted"]) == ("completed", True, 6)
    assert event["report"] == f"runs/{RUN}/report-1.json"


# crashes while closing


@pytest.mark.parametrize("moment", ["crash_before", "crash_after", "lose_request", "lose_reply"])
@pytest.mark.parametrize("nth", range(1, len(closing_calls()) + 1))
def test_a_closing_that_fails_anywhere_is_made_again_and_tells_the_same(nth: int, moment: str) -> None:
    world = worked_off()
    getattr(world.trace, moment)(nth)
    with pytest.raises((Crash, CallFailed, TickFailed)):
        world.tick()
    world.trace.calm()
    world.clock.advance(60)
    world.settle()
    found = run(world)
    assert (found.state, found.balanced) == ("completed", True)
    assert (report(world, found.report_revision)["deleted"]) == 6
    assert found.report_revision in (1, 2)
    assert world.ledger.policy("logs-expire").get("open_run") is None
    assert 1 <= len(world.events.of("Run Closed")) <= 2
    assert list(world.ledger.open_runs()) == []


def test_a_report_left_behind_by_a_crash_stays_and_the_next_has_a_new_revision() -> None:
    world = worked_off()
    world.trace.crash_before(_place(f"runs/{RUN}/report-1.json") + 2)
    with pytest.raises(Crash):
        world.tick()
    left_behind = world.evidence.files[f"runs/{RUN}/report-1.json"]
    assert not run(world).closed
    world.clock.advance(60)
    world.settle()
    assert run(world).report_revision == 2
    assert world.evidence.files[f"runs/{RUN}/report-1.json"] == left_behind
    assert report(world, 2)["revision"] == 2


def _place(key: str) -> int:
    world = worked_off()
    world.tick()
    return next(nth for nth, call in enumerate(world.trace.calls, 1) if call.args[:1] == (key,))


def test_a_closing_whose_run_changed_since_it_was_read_is_refused() -> None:
    """A replay, a halt, an invalidation: each moves the run's rev, on which the closing rests."""
    world = worked_off()
    key = Key("POLICY#logs-expire", "RUN#20260301T120000Z#0001")

    def change() -> None:
        world.table.put({**world.table.rows[key], "rev": world.table.rows[key]["rev"] + 1})

    world.trace.at(closing_calls().index("table.transact") + 1, change)
    world.tick()
    assert not run(world).closed
    assert world.events.of("Run Closed") == []
    assert world.ledger.policy("logs-expire")["open_run"] == RUN


def test_two_ticks_at_once_close_once() -> None:
    world = worked_off()
    world.trace.at(closing_calls().index("table.transact") + 1, world.tick)
    world.tick()
    found = run(world)
    assert (found.closed, found.balanced) == (True, True)
    assert len(world.events.of("Run Closed")) == 1


# books that do not balance


Harm = Callable[[World], None]


def _lost_outcome_file(world: World) -> None:
    world.evidence.files.pop(next(world.ledger.jobs(RUN)).outcome_files[0])


def _altered_part(world: World) -> None:
    job = next(world.ledger.jobs(RUN))
    world.evidence.files[job.part_key] = world.evidence.files[job.part_key].replace(b"app/0", b"app/9")


def _lost_row(world: World) -> None:
    world.table.delete(list(world.ledger.jobs(RUN))[-1].key)


def _altered_ending(world: World) -> None:
    file = next(world.ledger.jobs(RUN)).outcome_files[0]
    line = b'"outcome":"deleted"'
    world.evidence.files[file] = world.evidence.files[file].replace(line, b'"outcome":"skipped","reason":"held"', 1)


def _outcome_of_another_run(world: World) -> None:
    first, second, *_ = world.ledger.jobs(RUN)
    world.evidence.files[first.outcome_files[0]] = world.evidence.files[second.outcome_files[0]]


@pytest.mark.parametrize(
    "harm", [_lost_outcome_file, _altered_part, _lost_row, _altered_ending, _outcome_of_another_run]
)
def test_a_run_whose_books_do_not_balance_closes_says_so_and_stays_listed(harm: Harm) -> None:
    world = worked_off()
    harm(world)
    world.tick()
    found = run(world)
    assert (found.state, found.closed, found.balanced) == ("completed", True, False)
    assert report(world)["balanced"] is False
    assert report(world)["problems"]
    assert [each.run_id for each in world.ledger.runs_for_a_person()] == [RUN]
    assert world.events.of("Run Closed")[0]["balanced"] is False


def test_an_altered_report_is_told_by_the_tick_and_stops_nothing_else() -> None:
    world = worked_off()
    world.trace.crash_before(closing_calls().index("events.put") + 1)
    with pytest.raises(Crash):
        world.tick()
    world.evidence.files[f"runs/{RUN}/report-1.json"] = b"[]"
    world.trace.calm()
    with pytest.raises(TickFailed, match="is no report"):
        world.tick()
    assert world.gauges.last("DeadJobs") == 0


def test_two_ticks_that_take_one_revision_never_close_with_the_books_of_the_other() -> None:
    world = worked_off(dead=True)
    put_once, slow_tick = world.evidence.put_once, list[tuple[str, bytes]]()

    def between(key: str, content: bytes) -> bool:
        """The slow tick has counted a dead job when it is replayed; both ticks have seen no revision yet."""
        if not key.startswith(f"runs/{RUN}/books-"):
            return put_once(key, content)
        if slow_tick:
            put_once(*slow_tick[0])
            world.evidence.put_once = put_once  # type: ignore[method-assign]
            return put_once(key, content)
        slow_tick.append((key, content))
        world.bucket().failures.clear()
        (dead,) = (job for job in world.ledger.jobs(RUN) if job.state == "dead")
        Replaying(world.ledger, world.policies, world.clock, world.tokens, world._log).replay(dead.job_id, "why", "ann")
        world.discover({"resume": RUN})
        while world.work():
            pass
        world.tick()
        return True

    world.evidence.put_once = between  # type: ignore[method-assign]
    world.tick()
    world.tick()
    closed = run(world)
    lines = world.evidence.files[f"runs/{RUN}/books-{closed.report_revision}.ndjson.gz"].splitlines()
    assert [json.loads(line)["state"] for line in lines] == [job.state for job in world.ledger.jobs(RUN)]
    assert (closed.state, report(world, closed.report_revision)["dead"]) == ("completed", {})

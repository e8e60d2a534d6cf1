"""Records of a table, through the whole line: those past their deadline go, each with its outcome or not at all."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sexton import cli, keys, verifying
from sexton.attributes import canonical
from sexton.errors import Failure, ReasonClass
from sexton.item import rfc3339
from sexton.job import JobState
from sexton.outcome import ABSENT, CHANGED
from sexton.record_source import RecordSource
from sexton.run import Run
from sexton.wording import in_words
from sexton.working import LOOKS

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.records import FakeRecords
from tests.fakes.time import START
from tests.fakes.world import World, records_policy
from tests.integration.seen import tally

POLICY = "reminders-delete"
DAY = timedelta(days=1)
CUTOFF = START - 30 * DAY


def epoch(at: datetime) -> int:
    return int(at.timestamp())


def a_world(number: int = 0, **changes: object) -> World:
    """So many reminders of the carrier, due 60 days ago and a second apart."""
    world = World({POLICY: records_policy(**changes)})
    for each in range(number):
        remind(world, f"reminder_{each:04d}", at=START - 60 * DAY + timedelta(seconds=each))
    return world


def remind(world: World, name: str, age: float = 60, at: datetime | None = None, **more: object) -> str:
    """A reminder that was due so many days ago."""
    due = at or START - age * DAY
    given = {"id": name, "status": "open", "deadline": epoch(due), "day": f"{due:%Y-%m-%d}", **more}
    return world.records().put(**given)


def carried_out(world: World) -> Run:
    return world.carried_out(POLICY, at=START)


def left(world: World) -> list[str]:
    return sorted(json.loads(key)["id"]["S"] for key in world.records().records)


def planned(world: World) -> Run:
    return world.run(world.trigger(POLICY, at=START))


# which go


@pytest.mark.parametrize(("seconds", "goes"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("way", [{}, {"index": None, "partitions": None, "scan": {"segments": 2}}])
def test_a_record_goes_once_its_deadline_is_before_the_cutoff(seconds: int, goes: bool, way: dict[str, object]) -> None:
    world = a_world(**way)
    remind(world, "reminder_4821", at=CUTOFF + timedelta(seconds=seconds))
    carried_out(world)
    assert (left(world) == []) is goes


def test_an_item_is_known_by_its_key_and_its_deadline() -> None:
    world = a_world()
    key = remind(world, "reminder_4821", at=datetime.fromisoformat("2025-08-19T10:00:00Z"))
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    (line,) = (world.evidence.get(job.outcome_files[0]) or b"").splitlines()
    fields = json.loads(line)
    assert (fields["key"], fields["version_id"]) == (key, "2025-08-19T10:00:00Z")
    assert key == '{"id":{"S":"reminder_4821"}}'


def test_a_query_reads_only_its_partitions() -> None:
    world = a_world(partitions=["open", "sent"])
    for status in ("open", "sent", "kept"):
        remind(world, status, status=status)
    assert carried_out(world).scanned == {"expired": 2}
    assert left(world) == ["kept"]


def test_partitions_can_be_days_up_to_the_cutoff() -> None:
    world = a_world(index="by-day", partitions={"date": "%Y-%m-%d", "since": f"{START - 40 * DAY:%Y-%m-%d}"})
    for age in (41, 40, 35, 31, 29, 1):
        remind(world, f"due-{age:02d}", age=age)
    carried_out(world)
    assert left(world) == ["due-01", "due-29", "due-41"]  # the last lies before the first day that the policy names


def test_a_scan_reads_the_whole_table_in_segments() -> None:
    world = a_world(250, index=None, partitions=None, scan={"segments": 4})
    world.records().most = 7
    remind(world, "young", age=1)
    world.records().put(id="other", status="open")
    run = carried_out(world)
    assert run.scanned == {"expired": 250, "younger": 1, "unreadable": 1}
    assert left(world) == ["other", "young"]


def test_only_what_the_filter_wants_goes() -> None:
    world = a_world(filter={"carrier": ["dhl", "ups"], "paid": True})
    remind(world, "a", carrier="dhl", paid=True)
    remind(world, "b", carrier="dhl", paid=False)
    remind(world, "c", carrier="gls", paid=True)
    remind(world, "d", carrier="ups")
    assert carried_out(world).scanned == {"expired": 1, "not_selected": 3}
    assert left(world) == ["b", "c", "d"]


def test_a_page_without_a_match_is_not_the_end() -> None:
    world = a_world(3, index=None, partitions=None, scan={"segments": 1}, filter={"carrier": "dhl"})
    world.records().most = 1
    remind(world, "zuletzt", carrier="dhl")
    carried_out(world)
    assert "zuletzt" not in left(world)


def test_planning_goes_on_where_the_read_capacity_made_it_wait() -> None:
    for way in ({}, {"index": None, "partitions": None, "scan": {"segments": 2}}):
        world = a_world(5, **way)
        world.records().used_up = 3
        carried_out(world)
        assert left(world) == []


# timestamps

SECONDS, MILLISECONDS = epoch(START - 60 * DAY), epoch(START - 60 * DAY) * 1000
UNREADABLE: list[tuple[str, object]] = [
    ("epoch_ms", SECONDS),
    ("epoch_s", MILLISECONDS),
    ("epoch_s", MILLISECONDS * 1000),
    ("epoch_s", f"{SECONDS}"),
    ("epoch_s", "NaN"),
    ("epoch_s", {"N": "NaN"}),
    ("epoch_s", 0),
    ("epoch_s", -SECONDS),
    ("epoch_s", {"N": "1E+125"}),
    ("epoch_s", True),
    ("epoch_s", {"NULL": True}),
    ("epoch_s", {"L": [{"N": f"{SECONDS}"}]}),
    ("iso8601", SECONDS),
    ("iso8601", "2025-08-19"),
    ("iso8601", "2025-08-19T10:00:00"),
    ("iso8601", "2025-02-30T10:00:00Z"),
    ("iso8601", "0026-08-19T10:00:00Z"),
    ("iso8601", "2025-08-19 10:00:00Z"),
    ("iso8601", "soon"),
    ("iso8601", ""),
]


@pytest.mark.parametrize(("written", "value"), UNREADABLE)
def test_a_timestamp_that_cannot_be_read_is_never_a_deadline(written: str, value: object) -> None:
    stamp = {"attribute": "deadline", "format": written}
    world = a_world(index=None, partitions=None, scan={}, timestamp=stamp)
    key = world.records().put(id="odd", deadline=value)
    missing = world.records().put(id="none")
    run = carried_out(world)
    assert run.scanned == {"unreadable": 2}
    plan = json.loads(world.evidence.get(keys.plan(run.run_id)) or b"")
    assert plan["unreadable"] == sorted([key, missing])
    assert left(world) == ["none", "odd"]


@pytest.mark.parametrize(
    "value", ["2025-08-19T10:00:00Z", "2025-08-19T10:00:00.123456789+14:00", "2025-08-19T10:00:00-12:00"]
)
def test_texts_of_any_zone_are_deadlines(value: str) -> None:
    stamp = {"attribute": "deadline", "format": "iso8601"}
    world = a_world(index=None, partitions=None, scan={}, timestamp=stamp)
    world.records().put(id="a", deadline=value)
    assert carried_out(world).scanned == {"expired": 1}


def test_no_more_than_a_hundred_unreadable_ones_are_listed_and_all_are_counted() -> None:
    world = a_world(index=None, partitions=None, scan={"segments": 3})
    for each in range(250):
        world.records().put(id=f"{each:03d}", deadline="soon")
    run = carried_out(world)
    assert run.scanned == {"unreadable": 250}
    assert len(json.loads(world.evidence.get(keys.plan(run.run_id)) or b"")["unreadable"]) == 100


def test_a_query_counts_what_it_shows_and_cannot_read() -> None:
    stamp = {"attribute": "deadline", "format": "epoch_ms"}
    world = a_world(2, timestamp=stamp)
    assert carried_out(world).scanned == {"unreadable": 2}


# one transaction


def test_a_job_is_one_transaction_of_at_most_98_records() -> None:
    world = a_world(250)
    run = carried_out(world)
    jobs = list(world.ledger.jobs(run.run_id))
    assert [job.end for job in jobs] == [98, 98, 54]
    sizes = [len(call.args[0]) for call in world.trace.calls if str(call) == "table.transact"]
    assert sorted(sizes, reverse=True)[:3] == [99, 99, 55]
    assert left(world) == []


def test_a_record_that_changed_before_the_look_is_skipped_and_the_rest_goes() -> None:
    world = a_world(5, version_attribute="version")
    planned(world)
    remind(world, "reminder_0001", age=1)
    remind(world, "reminder_0002", at=START - 60 * DAY + timedelta(seconds=2), version=2)
    del world.records().records[canonical({"id": {"S": "reminder_0003"}})]
    world.settle()
    run = world.ledger.run(planned(world).id)
    assert run is not None
    assert tally(world, run.run_id) == {"deleted": 2, f"skipped:{CHANGED}": 2, f"skipped:{ABSENT}": 1}
    assert left(world) == ["reminder_0001", "reminder_0002"]


def test_a_record_that_changes_between_look_and_transaction_is_taken_out_and_the_rest_goes_at_once() -> None:
    world = a_world(5)
    run = planned(world)
    world.records().before_transaction = [lambda: remind(world, "reminder_0001", age=1)]
    world.work()
    (job,) = world.ledger.jobs(run.run_id)
    assert (job.state, job.attempt, job.counts) == (JobState.SUCCEEDED, 1, {"deleted": 4, f"skipped:{CHANGED}": 1})
    assert left(world) == ["reminder_0001"]


def test_records_that_change_again_and_again_are_left_for_a_while() -> None:
    world = a_world(LOOKS + 2)
    run = planned(world)
    changes = [f"reminder_{each:04d}" for each in range(LOOKS)]
    world.records().before_transaction = [lambda name=name: remind(world, name, age=1) for name in changes]
    world.work()
    (job,) = world.ledger.jobs(run.run_id)
    assert (job.state, job.history[-1].code, len(left(world))) == (JobState.READY, "records_changed", LOOKS + 2)
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 2, f"skipped:{CHANGED}": LOOKS}


def test_a_conflict_with_another_transaction_is_tried_again() -> None:
    world = a_world(3)
    run = planned(world)
    world.records().failure = Failure(ReasonClass.TRANSIENT, "TransactionConflict", "somebody writes")
    world.work()
    (job,) = world.ledger.jobs(run.run_id)
    assert (job.state, job.history[-1].event, job.maybe_done) == (JobState.READY, "transient", False)
    assert len(left(world)) == 3
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 3}


def test_records_larger_than_an_index_shows_go_in_smaller_transactions() -> None:
    world = a_world()
    for each in range(98):
        remind(world, f"reminder_{each:04d}", text="x" * 100_000)
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    assert (left(world), job.counts, job.attempt) == ([], {"deleted": 98}, 1)


def test_a_record_that_no_transaction_takes_is_dead_alone() -> None:
    world = a_world(7)
    world.records().unfit = {canonical({"id": {"S": "reminder_0003"}})}
    run = planned(world)
    world.settle()
    assert world.ledger.find(run.run_id).state == "halted"  # it may be a mistake that all have in common
    world.stopping().resume_run(run.run_id, "this one alone", "ada")
    world.settle()
    assert left(world) == ["reminder_0003"]
    assert tally(world, run.run_id) == {"deleted": 6, "dead:ValidationError": 1}


def test_a_missing_permission_halts_the_run() -> None:
    world = a_world(3)
    run = planned(world)
    world.records().failure = Failure(ReasonClass.PERMANENT, "AccessDeniedException", "not authorized")
    world.work()
    assert world.ledger.find(run.run_id).state == "halted"
    assert len(left(world)) == 3


def test_the_same_record_planned_twice_goes_once() -> None:
    world = a_world(partitions=["open", "sent"])
    remind(world, "a", status="open")
    real = FakeRecords.query

    def moved(records: FakeRecords, *args: object) -> object:
        found = real(records, *args)  # type: ignore[arg-type]
        records.put(id="a", status="sent", deadline=epoch(START - 60 * DAY), day="")
        return found

    world.records().query = moved.__get__(world.records())  # type: ignore[method-assign]
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    assert (run.planned, job.counts) == (2, {"deleted": 1, f"skipped:{CHANGED}": 1})


def test_the_same_record_planned_twice_as_it_is_goes_once() -> None:
    world = a_world(1, partitions=["open", "sent"])
    real = FakeRecords.query

    def once_more(records: FakeRecords, source: RecordSource, partition: str, *more: Any) -> object:
        return real(records, source, "open", *more)

    world.records().query = once_more.__get__(world.records())  # type: ignore[method-assign]
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    assert (run.planned, job.counts) == (2, {"deleted": 1, f"skipped:{ABSENT}": 1})


def test_a_record_that_left_its_partition_after_planning_stays() -> None:
    world = a_world(3)
    run = planned(world)
    remind(world, "reminder_0001", at=START - 60 * DAY + timedelta(seconds=1), status="kept")
    world.settle()
    assert (left(world), tally(world, run.run_id)) == (["reminder_0001"], {"deleted": 2, f"skipped:{CHANGED}": 1})


def test_a_record_that_leaves_its_partition_while_it_is_removed_stays() -> None:
    world = a_world(1)
    run = planned(world)
    leave = partial(remind, world, "reminder_0000", at=START - 60 * DAY, status="kept")
    world.records().before_transaction = [leave]
    world.settle()
    assert (left(world), tally(world, run.run_id)) == (["reminder_0000"], {f"skipped:{CHANGED}": 1})


def test_a_planner_that_goes_on_can_be_made_to_wait_for_read_capacity_at_once() -> None:
    world = a_world(2, partitions=["open", "sent"])
    at = {"policy": POLICY, "scheduled_time": rfc3339(START)}
    answer = world.discover(at, lambda: timedelta())  # which ends after its first page
    world.records().used_up = 1
    world.discover({"resume": answer["run_id"]}, lambda: timedelta())
    world.settle()
    assert (left(world), world.run(answer).planned) == ([], 2)


def test_a_hold_keeps_a_record() -> None:
    world = a_world(2)
    run = planned(world)
    world.stopping().hold('dynamodb://reminders/{"id":{"S":"reminder_0001', "asked for", "ada")
    world.settle()
    assert tally(world, run.run_id) == {"deleted": 1, "skipped:held": 1}
    assert left(world) == ["reminder_0001"]


def test_a_halted_run_removes_nothing() -> None:
    world = a_world(2)
    run = planned(world)
    world.stopping().halt(run.run_id, "wait", "ada")
    world.work()
    assert len(left(world)) == 2


def test_a_report_reads_and_does_no_more() -> None:
    world = a_world(2, mode="report")
    run = planned(world)
    assert (run.state, run.planned) == ("reported", 2)
    assert {name for name in world.trace.names if name.startswith("records.")} == {"records.shape", "records.query"}


# what people are told


@pytest.mark.parametrize("way", [{}, {"index": None, "partitions": None, "scan": {"segments": 3}}])
def test_the_evidence_of_many_parts_holds(way: dict[str, Any]) -> None:
    """Records are found by their deadlines, or by segments: their keys are in order in each part alone."""
    world = a_world(job_size=2, limits={"max_items": 100}, **way)
    for number in range(9):
        remind(world, f"reminder_{number * 7 % 9}", at=START - 60 * DAY + timedelta(seconds=number))
    found = verifying.verify(world.evidence, carried_out(world).run_id)
    assert (found.differences, found.parts) == ((), 5)


def test_a_record_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(2)
    remind(world, "young", age=1)
    planned(world)
    world.work()
    world.tick()
    monkeypatch.setattr(cli, "connect", lambda _: deployment(world, FakeFunctions(world)))

    def explained(address: str) -> dict[str, object]:
        assert cli.main(["explain", address, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    gone = explained('dynamodb://reminders/{"id": {"S": "reminder_0001"}}')
    (run,) = gone["runs"]  # type: ignore[misc]
    assert (gone["table"], gone["now"], run["outcome"]) == ("reminders", None, "deleted")
    young = explained('dynamodb://reminders/{"id":{"S":"young"}}')
    (verdict,) = young["policies"]  # type: ignore[misc]
    assert (young["runs"], verdict["action"], verdict["reason"]) == ([], "keep", "younger")
    assert cli.main(["explain", 'dynamodb://reminders/{"id":{"S":"young"}}']) == 0
    assert "a record, due" in capsys.readouterr().out
    assert cli.main(["explain", "dynamodb://reminders/young"]) != 0
    assert "no key of a record" in capsys.readouterr().err


def test_a_policy_is_told_in_words() -> None:
    told = " ".join(in_words(records_policy(filter={"carrier": ["dhl", "ups"]}, version_attribute="v")))
    assert "Removes each record of table reminders whose carrier is dhl or ups once its deadline (epoch_s)" in told
    assert "by index by-status, in the partitions open" in told
    assert "object" not in told
    assert "empty scope" not in told
    assert "by a scan of the whole table, 4 segments at once" in " ".join(
        in_words(records_policy(index=None, partitions=None, scan={"segments": 4}))
    )


# what a policy cannot be used on


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"index": "by-nothing"}, "no_such_index"),
        ({"index": None}, "index_unfit"),
        ({"timestamp": {"attribute": "due", "format": "epoch_s"}}, "index_unfit"),
        ({"timestamp": {"attribute": "deadline", "format": "iso8601"}}, "index_unfit"),
    ],
)
def test_a_table_that_is_keyed_otherwise_is_refused(changes: dict[str, object], reason: str) -> None:
    world = a_world(2, **changes)
    run = planned(world)
    assert (run.state, run.reason) == ("invalidated", reason)
    assert len(left(world)) == 2

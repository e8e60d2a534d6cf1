"""Archived records: written whole to evidence before they go, what goes is what was archived, and an undo restores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from pydantic import ValidationError
from sexton import archived, verifying
from sexton.attributes import canonical
from sexton.errors import CallFailed, Failure, NotAllowed, ReasonClass
from sexton.job import JobState
from sexton.outcome import ABSENT, CHANGED
from sexton.policy import Policy
from sexton.run import Run
from sexton.table import Delete
from sexton.wording import in_words

from tests.fakes.recorder import Call
from tests.fakes.time import START
from tests.fakes.world import World, records_policy
from tests.integration.seen import ends, tally

POLICY = "reminders-archive"
RUN, UNDO = f"{POLICY}.20260301T120000Z.1", f"{POLICY}.20260301T120000Z.u1"
DAY = timedelta(days=1)
NESTED = {"M": {"carrier": {"S": "dhl"}, "seal": {"B": "AA=="}, "stops": {"L": [{"N": "1"}, {"NULL": True}]}}}


def archiving(**changes: object) -> Policy:
    given = {"id": POLICY, "action": "archive", "recovery": "archive", "version_attribute": "version", **changes}
    return records_policy(**given)


def a_world(number: int = 5, **changes: object) -> World:
    world = World({POLICY: archiving(**changes)})
    for each in range(number):
        remind(world, f"{each}")
    return world


def remind(world: World, name: str, age: float = 60, version: int = 1, **more: object) -> str:
    due = int((START - age * DAY).timestamp())
    fields = {"id": name, "status": "open", "deadline": due, "version": version, "text": f"for {name}", **more}
    return world.records().put(**fields)


def key(name: str) -> str:
    return canonical({"id": {"S": name}})


def carried_out(world: World) -> Run:
    run = world.carried_out(POLICY, at=START)
    world.tick()  # the deployed policies are in the ledger, where a preview finds them
    return run


def undone(world: World) -> Run:
    started = world.undoing().undo(RUN, "too early", "ada")
    world.settle()
    run = world.run({"run_id": started.run_id})
    assert (run.state, run.balanced) == ("completed", True), run.message
    return run


def archives(world: World) -> dict[str, bytes]:
    return {name: content for name, content in world.evidence.files.items() if name.startswith("archived/")}


def left(world: World) -> list[str]:
    return sorted(json.loads(each)["id"]["S"] for each in world.records().records)


def _writes(call: Call) -> Sequence[object]:
    return cast(Sequence[object], call.args[0]) if str(call) == "table.transact" else ()


# what is archived


def test_the_whole_record_is_in_evidence_before_it_goes() -> None:
    world = a_world()
    remind(world, "0", route=NESTED)
    before = dict(world.records().records)
    run = carried_out(world)

    ((file, content),) = archives(world).items()
    kept = {line["key"]: line["record"] for line in map(json.loads, content.splitlines())}
    assert kept == before
    assert file == f"archived/{run.run_id}/{hashlib.sha256(content).hexdigest()}.ndjson.gz"
    assert left(world) == []
    calls = list(world.trace.calls)
    written = next(at for at, call in enumerate(calls) if str(call.args[:1]).startswith("('archived/"))
    changing = next(at for at, call in enumerate(calls) if any(isinstance(each, Delete) for each in _writes(call)))
    assert written < changing


def test_each_outcome_names_the_file_that_has_the_record() -> None:
    world = a_world(2)
    run = carried_out(world)
    (job,) = world.ledger.jobs(run.run_id)
    lines = [json.loads(line) for line in (world.evidence.get(job.outcome_files[0]) or b"").splitlines()]
    assert {(line["outcome"], line["effect"], line["archive"]) for line in lines} == {
        ("deleted", "archived", file) for file in archives(world)
    }


def test_a_record_that_changes_between_look_and_transaction_is_archived_as_it_was_and_stays() -> None:
    world = a_world()
    world.trigger(POLICY, at=START)
    world.records().before_transaction = [lambda: remind(world, "1", version=2, text="new")]
    world.work()
    assert left(world) == ["1"]
    assert tally(world, RUN) == {"deleted": 4, f"skipped:{CHANGED}": 1}
    (job,) = world.ledger.jobs(RUN)
    named = {json.loads(line).get("archive") for line in (world.evidence.get(job.outcome_files[0]) or b"").splitlines()}
    assert len(named - {None}) == 1  # what was written for the first try is named by nothing


@pytest.mark.parametrize("text", [{"S": "new"}, {"NULL": True}, None])
def test_a_change_without_a_new_version_is_seen_where_a_value_changed(text: dict[str, object] | None) -> None:
    world = a_world(3)
    world.trigger(POLICY, at=START)
    records = world.records().records
    changed = {name: value for name, value in {**records[key("1")], "text": text}.items() if value is not None}
    world.records().before_transaction = [lambda: records.update({key("1"): changed})]
    world.settle()
    (job,) = world.ledger.jobs(RUN)
    lines = [json.loads(line) for line in (world.evidence.get(job.outcome_files[0]) or b"").splitlines()]
    kept = archived.read(world.evidence, next(line["archive"] for line in lines if line["key"] == key("1")))
    assert (kept[key("1")], left(world)) == (changed, [])


def test_an_archive_that_cannot_be_written_keeps_the_records() -> None:
    world = a_world()
    world.trigger(POLICY, at=START)
    real = world.evidence.put_once

    def put_once(name: str, content: bytes) -> bool:
        if name.startswith("archived/"):
            raise CallFailed(Failure(ReasonClass.TRANSIENT, "SlowDown", "slow down"))
        return real(name, content)

    world.evidence.put_once = put_once  # type: ignore[method-assign]
    world.work()
    (job,) = world.ledger.jobs(RUN)
    assert (job.state, job.history[-1].code, len(left(world))) == (JobState.READY, "SlowDown", 5)
    world.evidence.put_once = real  # type: ignore[method-assign]
    world.settle()
    assert tally(world, RUN) == {"deleted": 5}


def test_no_transaction_is_larger_than_dynamodb_takes() -> None:
    world = a_world(0)
    for each in range(12):
        remind(world, f"{each:02d}", text="x" * 300_000)
    carried_out(world)
    sizes = [sum(isinstance(each, Delete) for each in _writes(call)) for call in world.trace.calls]
    assert [size for size in sizes if size] == [10, 2]
    assert (left(world), tally(world, RUN), len(archives(world))) == ([], {"deleted": 12}, 2)
    (job,) = world.ledger.jobs(RUN)
    assert job.attempt == 1


# policies


def test_without_a_version_nothing_is_archived() -> None:
    with pytest.raises(ValidationError, match="without source"):
        archiving(version_attribute=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"recovery": "versioning"}, "no version behind it"), ({"action": "delete"}, "no archive behind it")],
)
def test_a_recovery_has_something_behind_it(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        archiving(**changes)


def test_a_policy_that_archives_is_told_in_words_with_a_warning() -> None:
    told = " ".join(in_words(archiving()))
    assert "Archives and removes each record of table reminders" in told
    assert "an archive defeats that" in told
    assert "taken back from the archive in evidence" in told


# undo


def test_an_undo_puts_each_record_back_as_it_was() -> None:
    world = a_world()
    remind(world, "0", route=NESTED)
    before = dict(world.records().records)
    carried_out(world)
    run = undone(world)

    assert world.records().records == before
    assert (run.run_id, run.scanned, tally(world, UNDO)) == (UNDO, {"archived": 5}, {"deleted": 5})
    (job,) = world.ledger.jobs(UNDO)
    lines = [json.loads(line) for line in (world.evidence.get(job.outcome_files[0]) or b"").splitlines()]
    assert {line["effect"] for line in lines} == {"restored"}
    assert verifying.verify(world.evidence, UNDO).holds


def test_a_key_that_is_in_use_again_keeps_its_record() -> None:
    world = a_world()
    carried_out(world)
    remind(world, "2", age=1, version=9)
    undone(world)
    assert tally(world, UNDO) == {"deleted": 4, "skipped:key_in_use": 1}
    assert world.records().records[key("2")]["version"] == {"N": "9"}


def test_a_key_that_is_taken_between_look_and_transaction_keeps_its_record() -> None:
    world = a_world()
    carried_out(world)
    world.undoing().undo(RUN, "too early", "ada")
    world.tick()
    world.records().before_transaction = [lambda: remind(world, "2", age=1, version=9)]
    world.settle()
    assert tally(world, UNDO) == {"deleted": 4, "skipped:key_in_use": 1}
    assert world.records().records[key("2")]["version"] == {"N": "9"}


def test_the_next_run_leaves_alone_what_came_back() -> None:
    world = a_world()
    carried_out(world)
    undone(world)
    world.clock.advance(86_400)
    again = world.trigger(POLICY)
    world.settle()
    assert tally(world, str(again["run_id"])) == {"skipped:held": 5}
    assert [hold.scope for hold in world.ledger.controls().holds] == ["dynamodb://reminders/"]


def test_what_the_run_had_skipped_is_not_restored() -> None:
    world = a_world()
    world.trigger(POLICY, at=START)
    del world.records().records[key("3")]
    world.settle()
    assert tally(world, RUN) == {"deleted": 4, f"skipped:{ABSENT}": 1}
    run = undone(world)
    assert (run.scanned, left(world)) == ({"archived": 4, "not_deleted": 1}, ["0", "1", "2", "4"])


def test_a_preview_says_what_would_come_back_and_changes_nothing() -> None:
    world = a_world()
    carried_out(world)
    remind(world, "2", age=1)
    rows, records = dict(world.table.rows), dict(world.records().records)
    found = world.previewing().preview(RUN)
    assert (found.restored.count, {name: kind.count for name, kind in found.left.items()}) == (4, {"key_in_use": 1})
    assert found.holds == ("dynamodb://reminders/",)
    assert (world.table.rows, world.records().records) == (rows, records)
    undone(world)
    assert sum(names == ["deleted"] for names in ends(world, UNDO).values()) == found.restored.count


def _cut(content: bytes) -> bytes:
    return b"\n".join(content.splitlines()[1:]) + b"\n"


@pytest.mark.parametrize("alter", [_cut, None], ids=["altered", "gone"])
def test_an_archive_that_was_altered_brings_nothing_back(alter: Callable[[bytes], bytes] | None) -> None:
    world = a_world()
    carried_out(world)
    ((file, content),) = archives(world).items()
    world.evidence.files.pop(file)
    if alter:
        world.evidence.files[file] = alter(content)
    world.undoing().undo(RUN, "too early", "ada")
    world.settle()
    assert left(world) == []
    assert tally(world, UNDO) == {"dead:evidence_altered": 5}


def test_large_records_come_back_in_several_transactions() -> None:
    world = a_world(0)
    for each in range(20):
        remind(world, f"{each:02d}", text="x" * 300_000)
    before = dict(world.records().records)
    carried_out(world)
    undone(world)
    assert world.records().records == before


def refusal(world: World) -> str:
    with pytest.raises(NotAllowed) as caught:
        world.undoing().undo(RUN, "too early", "ada")
    return caught.value.code


@pytest.mark.parametrize(
    "changes",
    [{"recovery": "backup"}, {"mode": "report"}, {"action": "delete", "recovery": "none"}],
    ids=["backup", "report", "delete"],
)
def test_without_the_right_to_put_records_back_there_is_no_undo(changes: dict[str, Any]) -> None:
    world = a_world()
    carried_out(world)
    world.policies[POLICY] = archiving(**changes)
    assert refusal(world) == "not_permitted"


def test_what_was_deleted_without_an_archive_is_not_undone() -> None:
    world = a_world(action="delete", recovery="none")
    carried_out(world)
    assert refusal(world) == "not_expire"


def test_a_run_that_archived_nothing_is_not_undone() -> None:
    world = a_world(1)
    world.trigger(POLICY, at=START)
    del world.records().records[key("0")]
    world.settle()
    assert refusal(world) == "nothing_to_undo"


def test_an_undo_counts_by_cohort_too() -> None:
    cohorts = {"cohort": {"attribute": "carrier"}, "limits": {"max_items": 100, "empty_cohort": True}}
    world = a_world(0, **cohorts)
    for name, carrier in {"a": "dhl", "b": "dhl", "c": "ups"}.items():
        remind(world, name, carrier=carrier)
    before = dict(world.records().records)
    carried_out(world)
    undone(world)
    assert world.records().records == before

"""Records on the deployed stack: a run and what changed under it meanwhile, duplicates, crashes and faults.

A record is gone if and only if the ledger says so: of no removal is it ever said that it is not proven.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from microburst.rules import Rule as Fault
from sexton.item import ItemId, rfc3339

from tests.e2e.hardships import Hardship, Struck
from tests.e2e.proxy import Call, Proxy, Strike
from tests.e2e.record_stories import (
    DAY,
    HARDSHIPS,
    KILLED,
    LINE,
    LINE_GROUPS,
    RECORDS,
    TABLE,
    Killed,
    epoch,
    key_of,
    put,
    record,
    there,
)
from tests.e2e.site import REASON, TAKEN_SECONDS, Site, now, stamp, until

# So that recovery from crashes and faults goes on meanwhile.
pytestmark = pytest.mark.usefixtures("killed", "struck_records")

A_GROUP = 130  # records, more than one transaction takes
CLOSED_SECONDS = 2 * TAKEN_SECONDS
Record = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A run at its end, the outcomes that it must have, and the records that must be left."""

    run: Mapping[str, Any]
    outcomes: Mapping[ItemId, str]
    left: Sequence[Record]

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])


@pytest.fixture(scope="module")
def ended(site: Site) -> Ended:
    """A run over two partitions; between plan and removal everything happens that must spare something."""
    at = now()
    due = at - DAY
    first, second = ([record(group, f"{each:05d}", due) for each in range(A_GROUP)] for group in LINE_GROUPS)
    others = [
        record(LINE_GROUPS[0], "disputed", due, state={"S": "disputed"}),
        record(LINE_GROUPS[0], "later", at + DAY),
        record(LINE_GROUPS[1], "in-seconds", due) | {"deadline": epoch(due, in_second=1)},
    ]
    put(site, [*first, *second, *others])
    with site.worker_held():
        run_id = site.start(LINE, "--at", stamp(at))
        until(lambda: site.show(run_id)["state"] == "draining", TAKEN_SECONDS, "it is dispatched")
        spared = meddle(site, first)
        left = there(site, *LINE_GROUPS)
    site.closed(run_id, within=CLOSED_SECONDS)
    outcomes = {id_of(each): spared.get(id_of(each), "deleted") for each in [*first, *second]}
    gone = {key for (key, _), outcome in outcomes.items() if outcome == "deleted"}
    return Ended(site.show(run_id), outcomes, [each for each in left if key_of(each) not in gone])


def meddle(site: Site, records: Sequence[Record]) -> dict[ItemId, str]:
    """What others do after the plan stands, and how these records have to end."""
    put_off, counted_up, disputed, dropped, held = records[5:10]
    put(site, [put_off | {"deadline": epoch(now() + DAY)}])
    put(site, [counted_up | {"version": {"N": "2"}}, disputed | {"state": {"S": "disputed"}}])
    site.dynamodb.delete_item(TableName=TABLE, Key={"id": dropped["id"]})
    site.told("hold", "add", f"dynamodb://{TABLE}/{key_of(held)}", "--reason", REASON)
    changed = {id_of(each): "skipped:changed" for each in (put_off, counted_up, disputed)}
    return {**changed, id_of(dropped): "skipped:absent", id_of(held): "skipped:held"}


def id_of(record: Record) -> ItemId:
    """A record's key and deadline, as evidence has them."""
    seconds = int(record["deadline"]["N"]) // 1000
    return key_of(record), rfc3339(datetime.fromtimestamp(seconds, UTC))


def by_key(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=key_of)


def test_each_record_ends_as_it_must(site: Site, ended: Ended) -> None:
    run, deleted = ended.run, list(ended.outcomes.values()).count("deleted")

    assert (run["state"], run["balanced"], run["open"], run["dead"]) == ("completed", True, 0, {})
    assert (run["planned"], run["deleted"], run["deleted_unproven"]) == (2 * A_GROUP, deleted, 0)
    assert run["jobs"] == 3
    assert run["scanned_by"] == {"expired": 2 * A_GROUP, "not_selected": 1, "unreadable": 1}
    assert site.outcomes(ended.run_id) == ended.outcomes
    assert site.told("verify", ended.run_id)["holds"]


def test_exactly_what_had_to_stay_is_there(site: Site, ended: Ended) -> None:
    assert by_key(there(site, *LINE_GROUPS)) == by_key(ended.left)


def test_what_became_of_a_record_is_explained(site: Site, ended: Ended) -> None:
    ids = {outcome: key for (key, _), outcome in ended.outcomes.items()}

    for outcome in ("deleted", "skipped:changed"):
        key = ids[outcome]
        explained = site.told("explain", f"dynamodb://{TABLE}/{key}")
        (fate,) = explained["runs"]
        assert (fate["run_id"], fate["unproven"]) == (ended.run_id, False)
        assert ":".join(filter(None, (fate["outcome"], fate["reason"]))) == outcome
        assert (explained["now"] is None) == (outcome == "deleted")


def test_a_duplicate_of_a_trigger_finds_the_run(site: Site, ended: Ended) -> None:
    event = {"policy": LINE, "scheduled_time": ended.run["scheduled_time"]}
    reply = site.functions.invoke(FunctionName=site.function("Discovery"), Payload=json.dumps(event))
    answer = json.load(reply["Payload"])

    assert (answer["run_id"], answer["created"], answer["state"]) == (ended.run_id, False, "completed")
    assert site.show(ended.run_id) == ended.run


def test_a_duplicate_of_a_message_reads_and_removes_no_record(site: Site, ended: Ended, proxy: Proxy) -> None:
    sent = [call for call in proxy.made(site.function("Discovery")) if call.operation == "sqs:SendMessageBatch"]
    batch, *_ = [json.loads(call.body)["Entries"] for call in sent if call.holds(ended.run_id)]
    before = len(proxy.calls)
    for entry in batch:
        site.send(entry["MessageBody"])

    def calls() -> list[Call]:
        return [call for call in proxy.made(site.function("Worker"), since=before) if call.holds(ended.run_id)]

    until(lambda: len(calls()) >= len(batch), TAKEN_SECONDS, "the worker has looked at the duplicates")
    site.age()
    assert not [call for call in proxy.made(site.function("Worker"), since=before) if call.holds(LINE_GROUPS[0])]
    assert {call.operation for call in calls()} <= {"dynamodb:GetItem", "dynamodb:UpdateItem"}
    assert by_key(there(site, *LINE_GROUPS)) == by_key(ended.left)
    assert site.show(ended.run_id) == ended.run


def test_a_second_run_plans_only_what_is_still_due(site: Site, ended: Ended) -> None:
    """What was put off or is disputed now is left alone; what was only counted up goes, and what is held stays."""
    again = site.start(LINE)
    site.closed(again, within=CLOSED_SECONDS)

    held = {item: outcome for item, outcome in ended.outcomes.items() if outcome == "skipped:held"}
    (counted_up,) = [each for each in ended.left if each["version"] == {"N": "2"}]
    assert site.outcomes(again) == {**held, id_of(counted_up): "deleted"}


@pytest.fixture(scope="module")
def recovered(site: Site, killed: dict[str, Killed], struck_records: dict[str, Struck]) -> None:
    """Every run that was struck, at its end."""
    runs = [*killed.values(), *struck_records.values()]
    site.closed(*(each.run_id for each in runs), within=CLOSED_SECONDS)


def complete(site: Site, policy: str, run_id: str) -> None:
    """Assert that a run ended as it should: everything planned is gone for certain, and nothing else."""
    run = site.show(run_id)
    assert (run["state"], run["balanced"], run["open"]) == ("completed", True, 0)
    assert (run["planned"], run["deleted"], run["deleted_unproven"]) == (RECORDS, RECORDS, 0)
    assert (run["skipped"], run["dead"], run["cancelled"]) == ({}, {}, 0)
    assert [each["id"]["S"] for each in there(site, policy)] == [f"{policy}-later"]
    assert site.told("verify", run_id)["holds"]


def test_a_worker_killed_right_before_its_transaction_has_removed_and_recorded_nothing(
    killed: dict[str, Killed],
) -> None:
    story = killed["record-before"]

    assert story.left == RECORDS + 1
    assert story.states in ({"leased": 1}, {"ready": 1})


def test_a_worker_killed_right_after_its_transaction_has_removed_and_recorded_everything(
    killed: dict[str, Killed],
) -> None:
    story = killed["record-after"]

    assert story.left == 1
    assert story.states == {"succeeded": 1}


@pytest.mark.usefixtures("recovered")
@pytest.mark.parametrize("policy", KILLED)
def test_a_crash_is_recovered_from(site: Site, killed: dict[str, Killed], policy: str) -> None:
    story = killed[policy]

    assert [call.function for call in story.rule.struck] == [site.function("Worker")]
    complete(site, policy, story.run_id)
    (fate,) = site.told("explain", f"dynamodb://{TABLE}/{key_of(record(policy, '00003', now()))}")["runs"]
    lost = ["no_record"] if story.rule.strike is Strike.KILL_BEFORE else []
    assert [failed["event"] for failed in fate["history"]] == lost


@pytest.mark.usefixtures("recovered")
@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda hardship: hardship.name)
def test_a_run_gets_through(site: Site, hardship: Hardship, struck_records: dict[str, Struck]) -> None:
    run = struck_records[hardship.name]

    assert isinstance(run.by, Fault)
    assert hardship.fires <= run.by.fired_count <= run.by.times
    complete(site, hardship.name, run.run_id)

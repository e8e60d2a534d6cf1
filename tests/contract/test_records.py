"""Tables with records: how they are keyed, pages of queries and scans, and removals in a transaction with a row."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sexton.attributes import canonical
from sexton.ports import RecordTable
from sexton.record_source import RecordSource
from sexton.records import Records
from sexton.run import Place
from sexton.table import Applied, Delete, Key, Put, Refused, Update, Write, absent

from tests.contract.worlds import RecordHands, World

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
DUE = int(CUTOFF.timestamp())
ROW = Write(Key("RUN#a", "JOB#1"), "settled", (absent("pk"),), set={"state": "succeeded"})


def source(**changes: object) -> RecordSource:
    fields: dict[str, object] = {
        "kind": "dynamodb",
        "table": "reminders",
        "index": "by-status",
        "partitions": ["open"],
        "timestamp": {"attribute": "deadline", "format": "epoch_s"},
        **changes,
    }
    return RecordSource.model_validate({name: value for name, value in fields.items() if value is not None})


SCAN: dict[str, Any] = {"index": None, "partitions": None, "scan": {"segments": 3}}


def remind(hands: RecordHands, name: str, deadline: int = DUE - 1, **more: object) -> None:
    hands.put(id={"S": name}, status={"S": "open"}, deadline={"N": f"{deadline}"}, day={"S": "2025-12-31"}, **more)


def listed(records: RecordTable, source: RecordSource) -> list[str]:
    """The keys of everything that is listed, place by place; each item's own place leads to those behind it."""
    target, place, found = Records(records, source, CUTOFF), Place(), list[str]()
    while place.prefix < target.ranges:
        page = target.page(place)
        found += [item.key for item in page.items]
        place = page.next
    return found


def test_a_table_tells_how_it_is_keyed(world: World) -> None:
    _, records, _ = world.records()
    shape = records.shape()
    assert (shape.keys.partition, shape.keys.sort) == ("id", None)
    assert (shape.indexes["by-day"].partition, shape.indexes["by-day"].sort) == ("day", "deadline")
    assert shape.types["deadline"] == "N"


def test_a_query_stops_at_the_cutoff_and_goes_by_time(world: World) -> None:
    _, records, hands = world.records()
    for name, deadline in {"c": DUE - 1, "b": DUE - 2, "a": DUE - 3, "at": DUE, "after": DUE + 1}.items():
        remind(hands, name, deadline)
    hands.put(id={"S": "elsewhere"}, status={"S": "sent"}, deadline={"N": "1"})
    hands.put(id={"S": "undated"}, status={"S": "open"})
    assert listed(records, source()) == [canonical({"id": {"S": name}}) for name in "abc"]


def test_a_query_goes_on_after_any_item(world: World) -> None:
    _, records, hands = world.records()
    for number in range(9):
        remind(hands, f"{number}", DUE - 1 - number // 3)  # three share a second
    target = Records(records, source(), CUTOFF)
    page = target.page(Place())
    keys = [item.key for item in page.items]
    assert len(keys) == 9
    for index in range(8):
        assert [item.key for item in target.page(page.place_after(index)).items] == keys[index + 1 :]


@pytest.mark.parametrize("segments", [1, 3])
def test_a_scan_shows_every_record_once(world: World, segments: int) -> None:
    _, records, hands = world.records()
    for number in range(40):
        remind(hands, f"{number:02d}")
    hands.put(id={"S": "bare"})
    found = listed(records, source(**{**SCAN, "scan": {"segments": segments}}))
    assert sorted(found) == sorted(canonical({"id": {"S": name}}) for name in hands.ids())


def test_a_scan_goes_on_after_any_item(world: World) -> None:
    _, records, hands = world.records()
    for number in range(20):
        remind(hands, f"{number:02d}")
    target = Records(records, source(**SCAN), CUTOFF)
    page = target.page(Place())
    keys = [item.key for item in page.items]
    for index in range(len(keys) - 1):
        place, rest = page.place_after(index), list[str]()
        while place.prefix < target.ranges:
            following = target.page(place)
            rest, place = rest + [item.key for item in following.items], following.next
        assert sorted(rest) == sorted(keys[index + 1 :])


def test_small_pages_lead_to_the_end(world: World) -> None:
    _, records, hands = world.records()
    for number in range(50):
        remind(hands, f"{number:02d}")
    for way in ({}, SCAN):
        assert len(listed(records, source(**way, read_capacity=5))) == 50


def test_a_record_is_read_with_what_it_is_judged_by_and_no_more(world: World) -> None:
    _, records, hands = world.records()
    remind(hands, "a", secret={"S": "personal"}, version={"B": b"\x00\xff"})
    judged = source(version_attribute="version")
    (record,) = records.get(judged, [{"id": {"S": "a"}}, {"id": {"S": "absent"}}])
    assert record.key == {"id": {"S": "a"}}
    if world.name != "fake":
        assert record.values == {"deadline": {"N": f"{DUE - 1}"}, "version": {"B": "AP8="}}
    assert "secret" not in record.values


def test_what_another_field_of_the_policy_judges_by_is_read_too(world: World) -> None:
    _, records, hands = world.records()
    remind(hands, "a", tenant={"S": "acme"})
    for way in ({}, SCAN):
        reading = source(**way).reading("tenant")
        page = Records(records, reading, CUTOFF).page(Place())
        assert [json.loads(item.etag)["tenant"] for item in page.items] == [{"S": "acme"}]
        (record,) = records.get(reading, [{"id": {"S": "a"}}])
        assert record.values["tenant"] == {"S": "acme"}


# removals


def delete(hands: RecordHands, name: str, deadline: int = DUE - 1, **more: Any) -> Delete:
    return Delete(hands.name, {"id": {"S": name}}, {"deadline": {"N": f"{deadline}"}, **more})


def test_removals_go_with_the_row(world: World) -> None:
    table, _, hands = world.records()
    for name in "abc":
        remind(hands, name)
    assert isinstance(table.transact([ROW, delete(hands, "a"), delete(hands, "b", version=None)]), Applied)
    assert (hands.ids(), table.get(ROW.key) is not None) == (["c"], True)


def test_98_records_go_with_a_row(world: World) -> None:
    table, _, hands = world.records()
    names = [f"{number:02d}" for number in range(98)]
    for name in names:
        remind(hands, name)
    assert isinstance(table.transact([ROW, *(delete(hands, name) for name in names)]), Applied)
    assert hands.ids() == []


@pytest.mark.parametrize(
    ("name", "deadline", "more"),
    [("a", DUE - 2, {}), ("absent", DUE - 1, {}), ("a", DUE - 1, {"day": None}), ("a", DUE - 1, {"v": {"N": "1"}})],
)
def test_a_record_that_is_not_as_expected_keeps_all(world: World, name: str, deadline: int, more: Any) -> None:
    table, _, hands = world.records()
    remind(hands, "a")
    remind(hands, "b")
    refused = table.transact([ROW, delete(hands, "b"), delete(hands, name, deadline, **more)])
    assert refused == Refused(None, 2)
    assert (hands.ids(), table.get(ROW.key)) == (["a", "b"], None)


def test_a_row_that_refuses_keeps_the_records(world: World) -> None:
    table, _, hands = world.records()
    remind(hands, "a")
    table.write(replace(ROW, id="another"))
    refused = table.transact([ROW, delete(hands, "a")])
    assert isinstance(refused, Refused)
    assert (refused.index, hands.ids()) == (0, ["a"])


def test_a_lost_reply_is_recognised_by_the_row(world: World) -> None:
    table, _, hands = world.records()
    remind(hands, "a")
    world.lose_reply_of_write(table)
    assert isinstance(table.transact([ROW, delete(hands, "a")]), Applied)
    assert hands.ids() == []


def test_bytes_and_truth_values_are_compared_too(world: World) -> None:
    table, _, hands = world.records()
    seen: dict[str, Any] = {"version": {"B": "AP8="}, "paid": {"BOOL": True}, "note": {"NULL": True}}
    written = {**seen, "version": {"B": "AP8=" if world.name == "fake" else b"\x00\xff"}}
    remind(hands, "a", **written)
    refused = table.transact([ROW, delete(hands, "a", **{**seen, "version": {"B": "AAA="}})])
    assert refused == Refused(None, 1)
    assert isinstance(table.transact([ROW, delete(hands, "a", **seen)]), Applied)
    assert hands.ids() == []


# other changes


def update(hands: RecordHands, name: str, deadline: int = DUE - 1, **values: Any) -> Update:
    return Update(hands.name, {"id": {"S": name}}, {"deadline": {"N": f"{deadline}"}}, values)


def test_an_update_goes_with_the_row_and_leaves_the_rest_of_the_record(world: World) -> None:
    table, records, hands = world.records()
    remind(hands, "a", note={"S": "kept"})
    marked = update(hands, "a", state={"S": "expired"}, note={"BOOL": True})
    assert isinstance(table.transact([ROW, marked]), Applied)
    (record,) = records.get(source(filter={"state": "x", "note": "x"}), [{"id": {"S": "a"}}])
    seen = {name: record.values[name] for name in ("state", "note", "deadline")}
    assert seen == {"state": {"S": "expired"}, "note": {"BOOL": True}, "deadline": {"N": f"{DUE - 1}"}}


@pytest.mark.parametrize(("name", "deadline"), [("a", DUE - 2), ("absent", DUE - 1)])
def test_an_update_of_what_is_not_as_expected_creates_and_changes_nothing(
    world: World, name: str, deadline: int
) -> None:
    table, _, hands = world.records()
    remind(hands, "a")
    refused = table.transact([ROW, update(hands, name, deadline, state={"S": "expired"})])
    assert (refused, hands.ids(), table.get(ROW.key)) == (Refused(None, 1), ["a"], None)


WHOLE: dict[str, Any] = {
    "id": {"S": "a"},
    "status": {"S": "open"},
    "deadline": {"N": f"{DUE - 1}"},
    "day": {"S": "2025-12-31"},
    "bytes": {"B": "AP8="},
    "many": {"BS": ["/w==", "AA=="]},
    "tags": {"SS": ["x", "y"]},
    "steps": {"L": [{"N": "1"}, {"M": {"seal": {"B": "AA=="}, "none": {"NULL": True}}}, {"L": []}]},
    "paid": {"BOOL": False},
}


def test_a_record_is_read_whole_and_put_back_as_it_was(world: World) -> None:
    table, records, hands = world.records()
    put = Put(hands.name, {"id": {"S": "a"}}, WHOLE)
    assert isinstance(table.transact([ROW, put]), Applied)
    (record,) = records.read([{"id": {"S": "a"}}, {"id": {"S": "absent"}}])
    found = {
        name: {kind: sorted(held) if kind in ("BS", "SS") else held}
        for name, value in record.values.items()
        for kind, held in value.items()
    }
    assert (record.key, found) == ({"id": {"S": "a"}}, WHOLE)


def test_a_record_is_not_put_over_another(world: World) -> None:
    table, records, hands = world.records()
    remind(hands, "a")
    refused = table.transact([ROW, Put(hands.name, {"id": {"S": "a"}}, WHOLE)])
    assert (refused, table.get(ROW.key)) == (Refused(None, 1), None)
    (record,) = records.read([{"id": {"S": "a"}}])
    assert "bytes" not in record.values

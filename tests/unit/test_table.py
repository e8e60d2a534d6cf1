"""Conditional writes as values: what holds, and what a row is after a write. The fake is judged by the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.aws.expressions import from_attribute, to_attribute, update_fields
from sexton.errors import CallFailed
from sexton.table import (
    Applied,
    Check,
    Condition,
    Key,
    Refused,
    Row,
    Write,
    absent,
    after,
    any_of,
    applied,
    at_most,
    before,
    equals,
    holds,
    one_of,
    present,
)

from tests.fakes.table import FakeTable

KEY = Key("P", "S")
ROW: Row = {"pk": "P", "sk": "S", "state": "ready", "n": 5, "flag": True}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (equals("state", "ready"), True),
        (equals("state", "dead"), False),
        (before("n", 6), True),
        (before("n", 5), False),
        (at_most("n", 5), True),
        (at_most("n", 4), False),
        (after("n", 4), True),
        (after("n", 5), False),
        (one_of("state", ["ready", "leased"]), True),
        (one_of("state", ["leased"]), False),
        (present("n"), True),
        (present("missing"), False),
        (absent("missing"), True),
        (absent("n"), False),
        (any_of(equals("state", "dead"), after("n", 4)), True),
        (any_of(equals("state", "dead"), after("n", 5)), False),
    ],
)
def test_a_condition_on_a_row(condition: Condition, expected: bool) -> None:
    assert holds(condition, ROW) is expected


@pytest.mark.parametrize(
    "condition",
    [equals("a", 1), before("a", 1), at_most("a", 1), after("a", 1), one_of("a", [1]), present("a")],
)
@pytest.mark.parametrize("row", [None, {"pk": "P", "sk": "S"}])
def test_a_comparison_with_what_is_not_there_is_false(condition: Condition, row: Row | None) -> None:
    assert holds(condition, row) is False


def test_absent_is_true_of_no_row() -> None:
    assert holds(absent("pk"), None) is True


def test_a_write_makes_the_row_it_does_not_find() -> None:
    write = Write(KEY, "w", (), set={"a": 1}, set_once={"b": 2}, add={"c": 3}, append={"d": [4]}, remove=("e",))
    assert applied(write, None) == {"pk": "P", "sk": "S", "a": 1, "b": 2, "c": 3, "d": [4], "write_id": "w"}


def test_a_write_changes_the_row_it_finds_and_not_the_one_it_was_given() -> None:
    old: Row = {"pk": "P", "sk": "S", "a": 0, "b": 0, "c": 1, "d": [0], "e": 1, "f": 1}
    before_it = {**old, "d": list(old["d"])}
    write = Write(KEY, "w", (), set={"a": 1}, set_once={"b": 2}, add={"c": 3}, append={"d": [4]}, remove=("e",))
    new = {"pk": "P", "sk": "S", "a": 1, "b": 0, "c": 4, "d": [0, 4], "f": 1, "write_id": "w"}
    assert applied(write, old) == new
    assert old == before_it


def test_what_was_read_can_be_changed_without_changing_the_table() -> None:
    table = FakeTable()
    table.write(Write(KEY, "w", (), set={"list": [1], "map": {"a": [1]}}))
    row = table.get(KEY)
    assert row is not None
    row["list"].append(2)
    row["map"]["a"].append(2)
    assert table.get(KEY) == {"pk": "P", "sk": "S", "list": [1], "map": {"a": [1]}, "write_id": "w"}


@pytest.mark.parametrize(
    "write",
    [
        Write(Key("", "S"), "w", ()),
        Write(Key("P", ""), "w", ()),
        Write(Key("P", "x" * 1025), "w", ()),
        Write(KEY, "w", (), set={"a": 1}, add={"a": 1}),
        Write(KEY, "w", (), set={"write_id": "x"}),
        Write(KEY, "w", (), set={"pk": "x"}),
        Write(KEY, "w", (), set={"a": 1.5}),
        Write(KEY, "w", (), set={"a": {"b": [1.5]}}),
        Write(KEY, "w", (), remove=("a", "a")),
    ],
)
def test_the_fake_refuses_what_dynamodb_refuses(write: Write) -> None:
    table = FakeTable()
    with pytest.raises(CallFailed, match="ValidationException"):
        table.write(write)
    with pytest.raises(CallFailed, match="ValidationException"):
        table.transact([write])
    assert table.rows == {}


def test_the_index_can_lag_behind() -> None:
    table = FakeTable()
    table.write(Write(KEY, "w1", (), set={"open_pk": "OPEN", "open_sk": "ready#1"}))
    table.freeze_index()
    table.write(Write(KEY, "w2", (), set={"open_sk": "leased#1"}))
    table.write(Write(Key("P", "T"), "w3", (), set={"open_pk": "OPEN", "open_sk": "ready#2"}))
    assert [row["open_sk"] for row in table.query_open("OPEN").rows] == ["ready#1"]
    table.thaw_index()
    assert [row["open_sk"] for row in table.query_open("OPEN").rows] == ["leased#1", "ready#2"]


def test_a_refused_transaction_changes_nothing() -> None:
    table = FakeTable()
    refused = table.transact([Write(KEY, "w", ()), Check(Key("P", "T"), (present("pk"),))])
    assert refused == Refused(None, 1)
    assert table.rows == {}
    assert table.transact([Write(KEY, "w", ())]) == Applied(None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**37), 10**37) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_comes_back_as_it_was_stored(value: object) -> None:
    found = from_attribute(to_attribute(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [1.5, b"x", {1, 2}, object()])
def test_what_the_ledger_does_not_store_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="the ledger stores no"):
        to_attribute(value)


def test_a_write_in_dynamodb_s_words() -> None:
    write = Write(
        KEY,
        "w",
        (equals("state", "ready"), any_of(absent("not_before"), at_most("not_before", 7))),
        set={"state": "leased"},
        set_once={"first_claim_at": 5},
        add={"attempt": 1},
        append={"history": [{"at": 5}]},
        remove=("dispatch_due",),
    )
    fields = update_fields(write)
    names = fields["ExpressionAttributeNames"]
    spelled = fields["ConditionExpression"] + " | " + fields["UpdateExpression"]
    for placeholder in sorted(names, key=len, reverse=True):
        spelled = spelled.replace(placeholder, names[placeholder])
    for placeholder in sorted(fields["ExpressionAttributeValues"], key=len, reverse=True):
        (value,) = fields["ExpressionAttributeValues"][placeholder].values()
        spelled = spelled.replace(placeholder, str(value))
    assert spelled == (
        "(attribute_not_exists(write_id) OR write_id <> w) AND state = ready AND "
        "(attribute_not_exists(not_before) OR not_before <= 7) | "
        "SET state = leased, write_id = w, first_claim_at = if_not_exists(first_claim_at, 5), "
        "attempt = if_not_exists(attempt, 0) + 1, "
        "history = list_append(if_not_exists(history, []), [{'M': {'at': {'N': '5'}}}]) REMOVE dispatch_due"
    )
    assert fields["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"

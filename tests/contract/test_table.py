"""The ledger's table: conditions, transactions, order, pages, lost replies."""

from __future__ import annotations

import pytest
from sexton.errors import ReasonClass
from sexton.ports import Rows, Table
from sexton.table import (
    Applied,
    Check,
    Condition,
    Key,
    Refused,
    Write,
    absent,
    after,
    any_of,
    at_most,
    before,
    equals,
    one_of,
    present,
)
from sexton.table import Test as Comparison

from tests.contract.worlds import PART_OF_A_PAGE, World, failure_in

KEY = Key("RUN#a", "JOB#1")
OTHER = Key("RUN#a", "JOB#2")


def put(table: Table, key: Key, **values: object) -> None:
    assert isinstance(table.write(Write(key, f"put-{key.pk}-{key.sk}", (), set=values)), Applied)


def test_a_row_that_is_not_there_is_none(world: World) -> None:
    assert world.table().get(KEY) is None


def test_a_row_comes_back_as_it_was_written(world: World) -> None:
    table = world.table()
    values = {
        "text": "a'b\"#:ünïcödé \u0001",
        "empty": "",
        "number": 1_767_225_600_000,
        "large": 10**30,
        "negative": -1,
        "yes": True,
        "no": False,
        "nothing": None,
        "list": [1, "a", [True], {"x": 0}],
        "map": {"deleted": 3, "skipped:changed": 1, "nested": {"a": []}},
        "name": "reserved words do no harm",
        "state": "ready",
        "status.of#it": "nor do signs in names",
    }
    written = table.write(Write(KEY, "w1", (absent("pk"),), set=values))
    expected = {"pk": KEY.pk, "sk": KEY.sk, "write_id": "w1", **values}
    assert written == Applied(expected)
    assert table.get(KEY) == expected
    row = table.get(KEY)
    assert row is not None
    assert type(row["number"]) is int
    assert type(row["yes"]) is bool


def test_a_write_that_finds_the_row_is_refused_with_it(world: World) -> None:
    table = world.table()
    put(table, KEY, state="ready")
    refused = table.write(Write(KEY, "w2", (absent("pk"),), set={"state": "leased"}))
    assert isinstance(refused, Refused)
    assert refused.old is not None
    assert refused.old["state"] == "ready"
    row = table.get(KEY)
    assert row is not None
    assert row["state"] == "ready"


def test_a_write_that_finds_no_row_is_refused_with_none(world: World) -> None:
    table = world.table()
    assert table.write(Write(KEY, "w1", (equals("state", "ready"),), set={"a": 1})) == Refused(None)
    assert table.get(KEY) is None


def test_every_kind_of_change_in_one_write(world: World) -> None:
    table = world.table()
    put(table, KEY, kept=1, replaced="old", once="first", sum=40, list=["a"], gone="x")
    written = table.write(
        Write(
            KEY,
            "w2",
            (present("pk"),),
            set={"replaced": "new", "added": "x"},
            set_once={"once": "second", "once_new": "first"},
            add={"sum": 2, "sum_new": -3},
            append={"list": ["b", "c"], "list_new": [{"at": 1}]},
            remove=("gone", "was_never_there"),
        )
    )
    assert isinstance(written, Applied)
    assert written.row == {
        "pk": KEY.pk,
        "sk": KEY.sk,
        "write_id": "w2",
        "kept": 1,
        "replaced": "new",
        "added": "x",
        "once": "first",
        "once_new": "first",
        "sum": 42,
        "sum_new": -3,
        "list": ["a", "b", "c"],
        "list_new": [{"at": 1}],
    }
    assert table.get(KEY) == written.row


HOLD = {
    "equal": equals("n", 5),
    "before": before("n", 6),
    "at_most": at_most("n", 5),
    "after": after("n", 4),
    "at_least": Comparison("n", ">=", 5),
    "one_of": one_of("state", ["leased", "ready"]),
    "present": present("n"),
    "absent": absent("missing"),
    "equal_flag": equals("flag", True),
    "equal_text": equals("state", "ready"),
    "one_of_two": any_of(absent("n"), after("n", 4)),
    "larger_number_by_value": before("n", 10),
}
FAIL = {
    "not_equal": equals("n", 6),
    "at_the_border_before": before("n", 5),
    "over": at_most("n", 4),
    "at_the_border_after": after("n", 5),
    "none_of": one_of("state", ["leased", "dead"]),
    "not_there": present("missing"),
    "there": absent("n"),
    "missing_equal": equals("missing", 5),
    "missing_before": before("missing", 5),
    "missing_at_most": at_most("missing", 5),
    "missing_after": after("missing", 5),
    "missing_one_of": one_of("missing", [5, 6]),
    "neither": any_of(absent("n"), after("n", 5), equals("missing", 1)),
    "text_is_no_number": equals("state", 5),
}


@pytest.mark.parametrize("condition", [pytest.param(value, id=name) for name, value in HOLD.items()])
def test_a_condition_that_holds(world: World, condition: Condition) -> None:
    table = world.table()
    put(table, KEY, n=5, state="ready", flag=True)
    assert isinstance(table.write(Write(KEY, "w2", (condition,), set={"a": 1})), Applied)


@pytest.mark.parametrize("condition", [pytest.param(value, id=name) for name, value in FAIL.items()])
def test_a_condition_that_does_not_hold(world: World, condition: Condition) -> None:
    table = world.table()
    put(table, KEY, n=5, state="ready", flag=True)
    assert isinstance(table.write(Write(KEY, "w2", (present("pk"), condition), set={"a": 1})), Refused)


def test_a_condition_looks_at_the_row_before_the_write(world: World) -> None:
    table = world.table()
    put(table, KEY, n=1)
    write = Write(KEY, "w2", (equals("n", 1), absent("m")), set={"m": 1}, add={"n": 1})
    assert isinstance(table.write(write), Applied)


def test_a_reply_lost_on_the_way_is_recognised(world: World) -> None:
    """The SDK repeats a write whose condition no longer holds, because it was applied."""
    table = world.table()
    put(table, KEY, state="ready", attempt=0)
    world.lose_reply_of_write(table)
    write = Write(KEY, "claim", (equals("state", "ready"),), set={"state": "leased"}, add={"attempt": 1})
    written = table.write(write)
    assert isinstance(written, Applied)
    assert written.row is not None
    assert written.row["attempt"] == 1


def test_a_repeat_whose_condition_still_holds_is_not_applied_twice(world: World) -> None:
    table = world.table()
    write = Write(KEY, "w1", (), add={"rev": 1}, append={"history": ["x"]})
    first, second = table.write(write), table.write(write)
    assert first == second
    row = table.get(KEY)
    assert row is not None
    assert row["rev"] == 1
    assert row["history"] == ["x"]


def test_a_transaction_applies_all(world: World) -> None:
    table = world.table()
    put(table, OTHER, rev=1)
    writes: list[Write | Check] = [
        Write(KEY, "t1", (absent("pk"),), set={"state": "ready"}),
        Write(OTHER, "t2", (equals("rev", 1),), add={"rev": 1}),
        Check(Key("CONTROL", "PAUSE#all"), (absent("pk"),)),
    ]
    assert table.transact(writes) == Applied(None)
    row, other = table.get(KEY), table.get(OTHER)
    assert row is not None
    assert other is not None
    assert (row["state"], other["rev"]) == ("ready", 2)
    assert table.get(Key("CONTROL", "PAUSE#all")) is None


def test_a_transaction_applies_none_if_one_is_refused(world: World) -> None:
    table = world.table()
    put(table, OTHER, rev=2)
    writes: list[Write | Check] = [
        Write(KEY, "t1", (absent("pk"),), set={"state": "ready"}),
        Write(OTHER, "t2", (equals("rev", 1),), add={"rev": 1}),
    ]
    refused = table.transact(writes)
    assert isinstance(refused, Refused)
    assert refused.index == 1
    assert refused.old is not None
    assert refused.old["rev"] == 2
    assert table.get(KEY) is None


def test_a_failed_check_refuses_the_transaction_with_its_row(world: World) -> None:
    table = world.table()
    put(table, OTHER, state="invalidated")
    writes: list[Write | Check] = [
        Check(OTHER, (equals("state", "planning"),)),
        Write(KEY, "t1", (absent("pk"),), set={"state": "ready"}),
    ]
    refused = table.transact(writes)
    assert isinstance(refused, Refused)
    assert refused.index == 0
    assert refused.old is not None
    assert refused.old["state"] == "invalidated"
    assert table.get(KEY) is None


def test_the_first_of_several_refusals_is_told(world: World) -> None:
    table = world.table()
    put(table, OTHER, rev=2)
    writes: list[Write | Check] = [
        Write(Key("A", "1"), "t0", (absent("pk"),), set={"a": 1}),
        Write(KEY, "t1", (present("pk"),), set={"a": 1}),
        Write(OTHER, "t2", (equals("rev", 1),), add={"rev": 1}),
    ]
    assert table.transact(writes) == Refused(None, 1)


def test_a_reply_lost_after_a_transaction_is_recognised(world: World) -> None:
    table = world.table()
    put(table, OTHER, rev=1)
    world.lose_reply_of_write(table)
    writes: list[Write | Check] = [
        Write(KEY, "t1", (absent("pk"),), set={"state": "ready"}),
        Write(OTHER, "t2", (equals("rev", 1),), add={"rev": 1}),
    ]
    assert table.transact(writes) == Applied(None)
    other = table.get(OTHER)
    assert other is not None
    assert other["rev"] == 2


def test_a_transaction_repeated_after_others_went_on_is_recognised(world: World) -> None:
    """Ten minutes later the service has forgotten the request; one row that still carries the id is enough."""
    table = world.table()
    writes: list[Write | Check] = [
        Write(KEY, "t1", (absent("pk"),), set={"state": "ready"}),
        Write(OTHER, "t2", (absent("pk"),), set={"rev": 1}),
    ]
    assert table.transact(writes) == Applied(None)
    assert isinstance(table.write(Write(KEY, "claim", (), set={"state": "leased"})), Applied)
    same_but_new_to_the_service = [*writes, Check(Key("A", "1"), (absent("pk"),))]
    assert table.transact(same_but_new_to_the_service) == Applied(None)
    row = table.get(KEY)
    assert row is not None
    assert row["state"] == "leased"


def test_a_transaction_of_one_hundred(world: World) -> None:
    table = world.table()
    writes = [Write(Key("P", f"{n:04d}"), f"w{n}", (absent("pk"),), set={"n": n}) for n in range(100)]
    assert table.transact(writes) == Applied(None)


def test_too_large_a_transaction_fails_for_good(world: World) -> None:
    table = world.table()
    writes = [Write(Key("P", f"{n:04d}"), f"w{n}", (absent("pk"),), set={"n": n}) for n in range(101)]
    assert failure_in(lambda: table.transact(writes)).reason_class is ReasonClass.PERMANENT


def test_a_transaction_that_names_a_row_twice_fails_for_good(world: World) -> None:
    table = world.table()
    writes = [Write(KEY, "w1", (), set={"a": 1}), Write(KEY, "w2", (), set={"b": 1})]
    assert failure_in(lambda: table.transact(writes)).reason_class is ReasonClass.PERMANENT


def test_too_long_a_sort_key_fails_for_good(world: World) -> None:
    table = world.table()
    assert isinstance(table.write(Write(Key("P", "é" * 512), "w1", (), set={"a": 1})), Applied)
    too_long = Write(Key("P", "é" * 512 + "x"), "w2", (), set={"a": 1})
    assert failure_in(lambda: table.write(too_long)).reason_class is ReasonClass.PERMANENT


def test_too_large_a_row_fails_for_good(world: World) -> None:
    table = world.table()
    put(table, KEY, filler="x" * 300_000)
    too_large = Write(KEY, "w2", (), set={"more": "x" * 110_000})
    assert failure_in(lambda: table.write(too_large)).reason_class is ReasonClass.PERMANENT
    row = table.get(KEY)
    assert row is not None
    assert "more" not in row


def test_rows_come_in_the_order_of_their_bytes(world: World) -> None:
    table = world.table()
    sort_keys = ["JOB#a", "JOB#Z", "JOB#\U0001f600", "JOB#\uffee", "JOB#é", "JOB#", "JOB#a#1", "JOB#a.1", "RUN#1"]
    for sort_key in sort_keys:
        put(table, Key("P", sort_key), a=1)
    put(table, Key("Q", "JOB#b"), a=1)
    expected = sorted(sort_keys, key=lambda each: each.encode())
    assert [row["sk"] for row in every_row(table, "P")] == expected
    assert [row["sk"] for row in every_row(table, "P", descending=True)] == expected[::-1]
    assert [row["sk"] for row in every_row(table, "P", "JOB#a")] == ["JOB#a", "JOB#a#1", "JOB#a.1"]
    assert every_row(table, "P", "NONE#") == []
    assert every_row(table, "NOBODY") == []


def every_row(table: Table, pk: str, prefix: str = "", descending: bool = False) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    page = table.query(pk, prefix, descending=descending)
    while True:
        rows += page.rows
        if page.next is None:
            return rows
        page = table.query(pk, prefix, page.next, descending)


def fill_pages(table: Table) -> list[str]:
    sort_keys = [f"JOB#{n}" for n in range(8)]
    for sort_key in sort_keys:
        put(table, Key("P", sort_key), filler="x" * PART_OF_A_PAGE, open_pk="OPEN#r", open_sk=f"ready#{sort_key}")
    return sort_keys


@pytest.mark.parametrize("descending", [False, True])
def test_pages_miss_nothing_and_repeat_nothing(world: World, descending: bool) -> None:
    table = world.table()
    sort_keys = fill_pages(table)
    page, pages, found = table.query("P", "JOB#", descending=descending), 1, []
    found += [row["sk"] for row in page.rows]
    while page.next is not None:
        page, pages = table.query("P", "JOB#", page.next, descending), pages + 1
        found += [row["sk"] for row in page.rows]
    assert found == (sort_keys[::-1] if descending else sort_keys)
    assert pages > 2


def test_a_query_sees_a_write_at_once(world: World) -> None:
    table = world.table()
    for n in range(5):
        put(table, Key("P", str(n)), a=1)
        assert len(every_row(table, "P")) == n + 1


def open_rows(table: Table, open_pk: str, prefix: str = "", up_to: str | None = None) -> list[str]:
    page: Rows = table.query_open(open_pk, prefix, up_to)
    found = [row["open_sk"] for row in page.rows]
    while page.next is not None:
        page = table.query_open(open_pk, prefix, up_to, page.next)
        found += [row["open_sk"] for row in page.rows]
    return found


def test_the_open_index_has_the_rows_that_carry_its_keys(world: World) -> None:
    table = world.table()
    put(table, Key("P", "1"), open_pk="OPEN#r", open_sk="ready#0005")
    put(table, Key("P", "2"), open_pk="OPEN#r", open_sk="leased#0001")
    put(table, Key("P", "3"), open_pk="OPEN#r", open_sk="ready#0003")
    put(table, Key("P", "4"), open_pk="OPEN#other", open_sk="ready#0001")
    put(table, Key("P", "5"), a=1)
    assert open_rows(table, "OPEN#r") == ["leased#0001", "ready#0003", "ready#0005"]
    assert open_rows(table, "OPEN#r", "ready#") == ["ready#0003", "ready#0005"]
    assert open_rows(table, "OPEN#r", "ready#", "ready#0003") == ["ready#0003"]
    assert open_rows(table, "OPEN#r", "ready#", "ready#0002") == []
    assert open_rows(table, "OPEN#r", up_to="ready#0003") == ["leased#0001", "ready#0003"]
    assert open_rows(table, "OPEN#nobody") == []


def test_a_row_leaves_the_open_index_with_its_keys(world: World) -> None:
    table = world.table()
    put(table, KEY, open_pk="OPEN#r", open_sk="ready#1")
    table.write(Write(KEY, "w2", (), remove=("open_pk", "open_sk")))
    assert open_rows(table, "OPEN#r") == []


def test_rows_with_one_place_in_the_open_index_are_all_found_page_by_page(world: World) -> None:
    table = world.table()
    for n in range(8):
        put(table, Key("P", str(n)), filler="x" * PART_OF_A_PAGE, open_pk="OPEN#r", open_sk="ready#1")
    assert open_rows(table, "OPEN#r", "ready#") == ["ready#1"] * 8


def test_pages_of_the_open_index_miss_nothing(world: World) -> None:
    table = world.table()
    sort_keys = fill_pages(table)
    assert open_rows(table, "OPEN#r", "ready#") == [f"ready#{each}" for each in sort_keys]

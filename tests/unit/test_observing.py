"""A fresh look: right about every item, in as few calls as it can be had for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sexton.item import Item
from sexton.observing import MAX_KEY_BYTES, PAGE, just_before, observe
from sexton.ports import Listing

from tests.fakes.bucket import FakeBucket
from tests.fakes.time import FakeClock

CHARACTERS = st.characters(exclude_categories=["Cs"])  # every one that UTF-8 has
KEYS = st.text(CHARACTERS, min_size=1, max_size=40)
LONG_KEYS = st.builds(
    lambda text, character: (text + character * MAX_KEY_BYTES).encode()[:MAX_KEY_BYTES].decode(errors="ignore"),
    KEYS,
    CHARACTERS,
)


def bucket_with(keys: Sequence[str]) -> FakeBucket:
    bucket = FakeBucket(FakeClock())
    for key in keys:
        bucket.put(key, key.encode())
    return bucket


def look(bucket: FakeBucket, keys: Sequence[str], span: int) -> dict[str, Item | None]:
    items = [Item(key, '"planned"', 1, "STANDARD", None) for key in keys]
    return dict(observe(bucket, items, span))


def calls(bucket: FakeBucket) -> tuple[int, int]:
    """LISTs and HEADs."""
    return bucket.calls["list"], bucket.calls["head"]


# just_before


@given(KEYS | LONG_KEYS)
@example("\x00")
@example("a\x00")
@example("\ue000")
@example("\U00010000")
@example("a" * MAX_KEY_BYTES)
@example("\U0010ffff" * (MAX_KEY_BYTES // 4))
def test_what_stands_just_before_a_key_sorts_before_it_and_is_no_longer_than_a_key(key: str) -> None:
    before = just_before(key)
    assert before.encode() < key.encode()
    assert len(before.encode()) <= MAX_KEY_BYTES


@given(st.text(CHARACTERS, max_size=20), CHARACTERS, KEYS)
def test_next_to_nothing_lies_between(head: str, last: str, tail: str) -> None:
    """Of all keys before it, only those that begin with the whole of it: S3 lists them needlessly, and rarely."""
    assume(last > "\x00")
    neighbour = head + chr(ord(last) - 1 if last != "\ue000" else 0xD7FF) + tail
    assume(not neighbour.startswith(just_before(head + last)))
    assert neighbour.encode() <= just_before(head + last).encode()


@given(st.lists(KEYS, min_size=1, max_size=12, unique=True))
def test_the_order_of_strings_is_the_order_of_bytes(keys: list[str]) -> None:
    """What lets the core compare keys as they are."""
    assert sorted(keys) == sorted(keys, key=str.encode)


# a look is right


@settings(max_examples=50)
@given(data=st.data(), there=st.lists(KEYS, max_size=15, unique=True), span=st.integers(1, 5 * PAGE))
def test_a_look_says_of_each_item_what_is_there_whatever_its_span_says(
    data: st.DataObject, there: list[str], span: int
) -> None:
    gone = data.draw(st.lists(KEYS, max_size=5, unique=True).filter(lambda keys: not set(keys) & set(there)))
    planned = sorted(data.draw(st.sets(st.sampled_from([*there, *gone]))) if there or gone else [])
    assume(planned)
    bucket = bucket_with(there)
    assert look(bucket, planned, span) == {key: bucket.current(key) for key in planned}


# and cheap


def test_a_thousand_neighbours_are_seen_in_one_call() -> None:
    keys = [f"app/{n:06d}" for n in range(3000)]
    bucket = bucket_with(keys)
    assert all(look(bucket, keys[1000:2000], 1000).values())
    assert calls(bucket) == (1, 0)


@pytest.mark.parametrize(
    ("every", "lists", "heads"),
    [
        (1, 1, 0),  # neighbours
        (10, 1, 0),
        (100, 10, 0),  # a hundred items within 9,901 objects: ten pages
        (999, 99, 0),
        (1100, 0, 100),  # further apart than a page: one by one
    ],
)
def test_listing_or_asking_one_by_one_whichever_needs_fewer_calls(every: int, lists: int, heads: int) -> None:
    bucket = _Sparse(100 * every)
    planned = [f"app/{n:06d}" for n in range(0, 100 * every, every)]
    span = 99 * every + 1
    seen = look(bucket, planned, span)
    assert [seen[key] is not None for key in planned] == [True] * 100
    assert calls(bucket) == (lists, heads)
    assert sum(calls(bucket)) == min(-(-span // PAGE), 100)


def test_a_single_item_takes_one_call_even_in_a_crowd() -> None:
    bucket = bucket_with([f"app/{n:06d}" for n in range(2500)])
    assert look(bucket, ["app/001200"], 1)["app/001200"]
    assert sum(calls(bucket)) == 1


def test_a_range_that_grew_denser_costs_at_most_twice_what_asking_one_by_one_does() -> None:
    """Ten items that were neighbours, and now have 50,000 objects between them."""
    bucket = _Sparse(50_000)
    planned = [f"app/{n:06d}" for n in range(0, 50_000, 5_000)]
    assert all(look(bucket, planned, 10).values())
    assert sum(calls(bucket)) <= 2 * 10


def test_a_page_that_is_empty_and_yet_not_the_last_proves_nothing() -> None:
    """What was not seen is asked for, not taken for absent."""
    bucket = bucket_with(["app/1", "app/2"])
    bucket.list = lambda *_: Listing([], truncated=True)  # type: ignore[method-assign]
    assert all(look(bucket, ["app/1", "app/2"], 2).values())


def test_all_items_gone_is_seen_in_one_call() -> None:
    bucket = bucket_with(["app/0", "app/9"])
    assert look(bucket, ["app/1", "app/2"], 2) == {"app/1": None, "app/2": None}
    assert calls(bucket) == (1, 0)


class _Sparse(FakeBucket):
    """So many objects `app/000000` and on, made when they are listed."""

    def __init__(self, objects: int) -> None:
        super().__init__(FakeClock())
        self.objects = objects

    def current(self, key: str) -> Item | None:
        number = key.removeprefix("app/")
        return self._item(int(number)) if number.isdigit() and int(number) < self.objects else None

    def list(self, prefix: str, start_after: str = "", limit: int = PAGE) -> Listing:
        self.calls["list"] += 1
        first = next((n for n in self._around(start_after) if self._item(n).key > start_after), self.objects)
        items = [self._item(n) for n in range(first, min(first + limit, self.objects))]
        items = [item for item in items if item.key.startswith(prefix)]
        return Listing(items, truncated=bool(items) and len(items) == limit and first + limit < self.objects)

    def _around(self, start_after: str) -> range:
        digits = start_after.removeprefix("app/")[:6]
        start = int(digits) if digits.isdigit() and len(digits) == 6 else 0
        return range(max(0, start - 11), min(self.objects, start + 12))

    def _item(self, number: int) -> Item:
        return Item(f"app/{number:06d}", '"e"', 1, "STANDARD", None)

"""A bucket with items: listing, looking, removing."""

from __future__ import annotations

from datetime import UTC

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.item import Item, fits_xml
from sexton.ports import Bucket, Removed

from tests.contract.worlds import World, failure_in, listed

KEYS = {
    "plain": "a/b.txt",
    "space": "a b",
    "plus": "a+b",
    "encoded_slash": "a%2Fb",
    "percent": "100%",
    "leading_slash": "/lead",
    "double_slash": "a//b",
    "dots_inside": "a/../b",
    "dot": ".",
    "two_dots": "..",
    "folder_marker": "dir/",
    "question": "a?b=c&d",
    "hash": "a#b",
    "markup": '<a href="x">&amp;</a>\'',
    "only_spaces": "  ",
    "space_at_the_end": "a ",
    "tab": "a\tb",
    "newline": "a\nb",
    "two_byte": "é" * 512,
    "longest": "k" * 1024,
    "emoji": "\U0001f5d1/\U0001f600",
    "combining": "e\u0301",
    "bidi": "a\u202egpj.exe",
    "control": "a\u0001b",
    "escape": "a\x1b[31mb",
    "carriage_return": "a\rb",
    "noncharacter": "a\uffffb",
}
odd_keys = pytest.mark.parametrize("key", [pytest.param(key, id=name) for name, key in KEYS.items()])
# Neither emulator lists versions or uploads of the others rightly: those are among the recorded answers.
odd_keys_in_xml = pytest.mark.parametrize(
    "key", [pytest.param(key, id=name) for name, key in KEYS.items() if fits_xml(key)]
)

VERSIONED = pytest.mark.parametrize("versioning", ["Unversioned", "Enabled"])


def only(results: object) -> Removed | Failure:
    assert isinstance(results, dict)
    ((_, result),) = results.items()
    assert isinstance(result, (Removed, Failure))
    return result


def current(bucket: Bucket, key: str) -> Item:
    item = bucket.head(key)
    assert item is not None
    return item


@pytest.mark.parametrize("versioning", ["Unversioned", "Enabled", "Suspended"])
def test_versioning(world: World, versioning: str) -> None:
    bucket, _ = world.bucket(versioning)
    assert bucket.versioning() == versioning


def test_an_empty_bucket_lists_nothing(world: World) -> None:
    bucket, _ = world.bucket()
    page = bucket.list("")
    assert list(page.items) == []
    assert page.truncated is False


def test_an_object_as_a_listing_shows_it(world: World) -> None:
    bucket, hands = world.bucket()
    hands.put("logs/a", b"hello")
    (item,) = bucket.list("logs/").items
    assert item.key == "logs/a"
    assert item.etag == '"5d41402abc4b2a76b9719d911017c592"'
    assert item.size == 5
    assert item.storage_class == "STANDARD"
    assert item.last_modified is not None
    assert item.last_modified.tzinfo is UTC
    assert item.last_modified.microsecond == 0
    assert item.version_id is None


@VERSIONED
def test_looking_at_one_shows_the_same_as_listing(world: World, versioning: str) -> None:
    bucket, hands = world.bucket(versioning)
    hands.put("a", b"hello")
    (item,) = bucket.list("").items
    assert bucket.head("a") == item


def test_looking_at_what_is_not_there(world: World) -> None:
    bucket, _ = world.bucket()
    assert bucket.head("a") is None


def test_keys_come_in_the_order_of_their_bytes(world: World) -> None:
    bucket, hands = world.bucket()
    keys = ["a", "a/b", "a-b", "B", "é", "\U0001f600", "\uffee", "a b", "a+b", "a%2Fb", "~", "0"]
    for key in keys:
        hands.put(key, b"x")
    assert [item.key for item in listed(bucket)] == sorted(keys, key=lambda each: each.encode())


def test_a_prefix_is_bytes_and_no_folder(world: World) -> None:
    bucket, hands = world.bucket()
    for key in ("logs/a", "logs2/a", "logs", "log", "/logs/a", "logs//a"):
        hands.put(key, b"x")
    assert [item.key for item in listed(bucket, "logs/")] == ["logs//a", "logs/a"]
    assert [item.key for item in listed(bucket, "logs")] == ["logs", "logs//a", "logs/a", "logs2/a"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_miss_nothing_and_repeat_nothing(world: World, limit: int) -> None:
    bucket, hands = world.bucket()
    keys = ["a b", "a+b", "a%2Fb", "a/b", "a/b/c", "é", "\U0001f600"]
    for key in keys:
        hands.put(key, b"x")
    assert [item.key for item in listed(bucket, limit=limit)] == sorted(keys, key=lambda each: each.encode())


def test_a_listing_starts_after_a_key_that_need_not_be_there(world: World) -> None:
    bucket, hands = world.bucket()
    for key in ("p/a", "p/b", "p/c"):
        hands.put(key, b"x")
    assert [item.key for item in bucket.list("p/", "p/a").items] == ["p/b", "p/c"]
    assert [item.key for item in bucket.list("p/", "p/aa").items] == ["p/b", "p/c"]
    assert [item.key for item in bucket.list("p/", "o").items] == ["p/a", "p/b", "p/c"]
    assert [item.key for item in bucket.list("p/", "q").items] == []
    page = bucket.list("p/", "p/a", 1)
    assert [item.key for item in page.items] == ["p/b"]
    assert page.truncated is True


def test_more_than_one_thousand_objects(world: World) -> None:
    bucket, hands = world.bucket()
    for n in range(1005):
        hands.put(f"k/{n:05d}", b"x")
    first = bucket.list("k/")
    assert len(first.items) == 1000
    assert first.truncated is True
    items = listed(bucket, "k/")
    assert [item.key for item in items] == [f"k/{n:05d}" for n in range(1005)]
    results = bucket.remove(items[:1000])
    assert set(results) == {item.key for item in items[:1000]}
    assert all(isinstance(result, Removed) for result in results.values())
    assert [item.key for item in listed(bucket)] == [item.key for item in items[1000:]]


@odd_keys
def test_an_odd_key_is_listed_and_looked_at_exactly(world: World, key: str) -> None:
    bucket, hands = world.bucket()
    hands.put(key, b"x")
    (item,) = bucket.list("").items
    assert item.key == key
    assert bucket.head(key) == item
    assert list(bucket.list("", key).items) == []


@odd_keys
def test_an_odd_key_is_removed_and_no_other(world: World, key: str) -> None:
    bucket, hands = world.bucket()
    neighbours = [other for other in ("a b", "a+b", "a%2Fb", "a/b", "b", "lead", "dir", "a", "ab") if other != key]
    for each in (key, *neighbours):
        hands.put(each, b"x")
    assert only(bucket.remove([current(bucket, key)])) == Removed()
    assert bucket.head(key) is None
    assert [item.key for item in listed(bucket)] == sorted(neighbours)


def test_odd_keys_in_one_removal_each_have_an_answer(world: World) -> None:
    bucket, hands = world.bucket()
    keys = ["a", "a b", "a+b", "a%2Fb", "a\u0001b", "é"]
    for key in keys:
        hands.put(key, b"x")
    results = bucket.remove([current(bucket, key) for key in keys])
    assert results == {key: Removed() for key in keys}
    assert listed(bucket) == []


def test_what_was_overwritten_is_not_removed(world: World) -> None:
    bucket, hands = world.bucket()
    hands.put("kept", b"old")
    hands.put("removed", b"old")
    planned = [current(bucket, "kept"), current(bucket, "removed")]
    hands.put("kept", b"new")
    results = bucket.remove(planned)
    changed = results["kept"]
    assert isinstance(changed, Failure)
    assert changed.reason_class is ReasonClass.CHANGED
    assert changed.unknown_effect is False
    assert results["removed"] == Removed()
    assert [item.key for item in listed(bucket)] == ["kept"]


def test_what_was_overwritten_is_not_removed_alone(world: World) -> None:
    bucket, hands = world.bucket()
    hands.put("a\u0001b", b"old")
    planned = current(bucket, "a\u0001b")
    hands.put("a\u0001b", b"new")
    changed = only(bucket.remove([planned]))
    assert isinstance(changed, Failure)
    assert changed.reason_class is ReasonClass.CHANGED
    assert bucket.head("a\u0001b") is not None


@VERSIONED
def test_the_same_bytes_again_have_the_same_etag_and_a_later_date(world: World, versioning: str) -> None:
    bucket, hands = world.bucket(versioning)
    hands.put("a", b"same")
    before = current(bucket, "a")
    world.pass_time(1.1)
    hands.put("a", b"same")
    after = current(bucket, "a")
    assert after.etag == before.etag
    assert after.last_modified is not None
    assert before.last_modified is not None
    assert after.last_modified > before.last_modified
    assert not after.same_as(before)


@VERSIONED
@pytest.mark.parametrize("key", [pytest.param("a", id="together"), pytest.param("a\u0001b", id="alone")])
def test_what_is_gone_is_not_removed_and_gets_no_second_marker(world: World, versioning: str, key: str) -> None:
    bucket, hands = world.bucket(versioning)
    hands.put(key, b"x")
    planned = current(bucket, key)
    hands.delete(key)
    marker = hands.marker(key)
    gone = only(bucket.remove([planned]))
    assert isinstance(gone, Failure)
    assert gone.reason_class is ReasonClass.GONE
    assert gone.unknown_effect is False
    assert hands.marker(key) == marker
    assert (marker is not None) == (versioning == "Enabled")


@pytest.mark.parametrize("key", [pytest.param("a", id="together"), pytest.param("a\u0001b", id="alone")])
def test_a_versioned_bucket_keeps_the_version_and_tells_the_marker(world: World, key: str) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put(key, b"x")
    removed = only(bucket.remove([current(bucket, key)]))
    assert isinstance(removed, Removed)
    assert removed.marker_version_id is not None
    assert hands.marker(key) == removed.marker_version_id
    assert bucket.head(key) is None
    assert listed(bucket) == []


def test_a_removal_from_a_versioned_bucket_adds_one_marker_and_nothing_else(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("a", b"x")
    planned = current(bucket, "a")
    bucket.remove([planned])
    bucket.remove([planned])
    assert (hands.markers("a"), hands.versions("a")) == (1, 1)


@VERSIONED
@pytest.mark.parametrize("key", [pytest.param("a", id="together"), pytest.param("a\u0001b", id="alone")])
def test_a_lost_reply_is_told_as_an_unknown_effect(world: World, versioning: str, key: str) -> None:
    bucket, hands = world.bucket(versioning)
    hands.put(key, b"x")
    planned = current(bucket, key)
    world.lose_reply_of_remove(bucket)
    lost = only(bucket.remove([planned]))
    assert isinstance(lost, Failure)
    assert lost.reason_class is ReasonClass.TRANSIENT
    assert lost.unknown_effect is True
    assert "0123456789abcdef" not in lost.summary
    assert bucket.head(key) is None


def test_a_missing_bucket_is_never_an_empty_one(world: World) -> None:
    bucket = world.missing_bucket()
    assert failure_in(lambda: bucket.list("")).reason_class is ReasonClass.PERMANENT
    assert failure_in(lambda: bucket.versioning()).reason_class is ReasonClass.PERMANENT
    item = Item("a", '"5d41402abc4b2a76b9719d911017c592"', 1, "STANDARD", None)
    refused = only(bucket.remove([item]))
    assert isinstance(refused, Failure)
    assert refused.reason_class is ReasonClass.PERMANENT
    assert refused.unknown_effect is False


def test_the_time_limit_of_a_removal_is_stated(world: World) -> None:
    bucket, _ = world.bucket()
    assert 0 < bucket.request_timeout().total_seconds() < 60


def test_more_items_than_one_call_takes_are_refused(world: World) -> None:
    bucket, _ = world.bucket()
    items = [Item(f"{n}", '"e"', 1, "STANDARD", None) for n in range(1001)]
    with pytest.raises(ValueError, match="1000"):
        bucket.remove(items)
    with pytest.raises(ValueError, match="1000"):
        bucket.remove([items[0], items[0]])

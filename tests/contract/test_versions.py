"""A bucket with versions: listing them, removing them by their ids, and telling a lock from a missing permission."""

from __future__ import annotations

from datetime import UTC

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Bucket, Removed

from tests.contract.test_bucket import odd_keys_in_xml
from tests.contract.worlds import BucketHands, World, all_versions, failure_in

LOCKS = pytest.mark.parametrize("how", ["GOVERNANCE", "COMPLIANCE", "HOLD"])


def filled(world: World) -> tuple[Bucket, BucketHands]:
    """`b` was written, deleted and written again; `a` and `c` have two versions each, and `c` is deleted."""
    bucket, hands = world.bucket("Enabled")
    for key in ("a", "c", "a", "c", "b"):
        hands.put(key, key.encode())
        world.pass_time(0.005)
    hands.delete("b")
    hands.delete("c")
    world.pass_time(0.005)
    hands.put("b", b"again")
    return bucket, hands


def kinds(items: list[Item]) -> list[tuple[str, str, str]]:
    return [
        (item.key, "marker" if item.is_marker else "version", "noncurrent" if item.rank else "current")
        for item in items
    ]


FILLED = [
    ("a", "version", "current"),
    ("a", "version", "noncurrent"),
    ("b", "version", "current"),
    ("b", "marker", "noncurrent"),
    ("b", "version", "noncurrent"),
    ("c", "marker", "current"),
    ("c", "version", "noncurrent"),
    ("c", "version", "noncurrent"),
]


def test_versions_and_markers_come_key_by_key_and_the_newest_first(world: World) -> None:
    bucket, _ = filled(world)
    assert kinds(all_versions(bucket)) == FILLED


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_of_versions_miss_nothing_and_repeat_nothing(world: World, limit: int) -> None:
    bucket, _ = filled(world)
    whole = list(bucket.list_versions("").items)
    assert all_versions(bucket, limit=limit) == whole
    assert len({item.id for item in whole}) == len(whole)


def test_the_order_within_one_second_is_that_of_the_answer(world: World) -> None:
    """Dates are cut to seconds, so that they cannot tell that the marker lies between the versions."""
    bucket, hands = world.bucket("Enabled")
    for content in (b"1", b"22"):
        hands.put("a", content)
    hands.delete("a")
    hands.put("a", b"333")
    assert [item.size for item in all_versions(bucket)] == [3, 0, 2, 1]


def test_a_version_as_a_listing_shows_it(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("logs/a", b"hello")
    hands.put("logs/a", b"hello again")
    newer, older = bucket.list_versions("logs/").items
    assert older.etag == '"5d41402abc4b2a76b9719d911017c592"'
    assert older.size == 5
    assert older.storage_class == "STANDARD"
    assert older.last_modified is not None
    assert older.last_modified.tzinfo is UTC
    assert older.last_modified.microsecond == 0
    assert older.version_id
    assert older.version_id != newer.version_id
    assert (newer.rank, older.rank) == (0, 1)
    assert newer._replace(version_id=None) == bucket.head("logs/a")


def test_a_delete_marker_as_a_listing_shows_it(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("a", b"hello")
    hands.delete("a")
    marker, _ = bucket.list_versions("").items
    assert marker.is_marker
    assert marker.version_id == hands.marker("a")
    assert (marker.etag, marker.size, marker.storage_class) == ("", 0, "")
    assert marker.last_modified is not None


def test_what_was_there_before_versioning_is_named_null(world: World) -> None:
    bucket, hands = world.bucket("Unversioned")
    hands.put("a", b"x")
    (item,) = bucket.list_versions("").items
    assert (item.version_id, item.rank) == ("null", 0)


def test_versions_start_after_a_key_that_need_not_be_there(world: World) -> None:
    bucket, _ = filled(world)
    assert {item.key for item in bucket.list_versions("", "aa").items} == {"b", "c"}
    assert {item.key for item in bucket.list_versions("", "c").items} == set()
    assert {item.key for item in bucket.list_versions("b", "").items} == {"b"}
    assert {item.key for item in bucket.list_versions("b", "a").items} == {"b"}


@odd_keys_in_xml
def test_a_version_of_an_odd_key_is_listed_and_removed(world: World, key: str) -> None:
    bucket, hands = world.bucket("Enabled")
    for each in (key, key, "a b", "a/b"):
        hands.put(each, b"x")
    older = [item for item in all_versions(bucket, key) if item.key == key][-1]
    assert bucket.remove_versions([older]) == {older.id: Removed()}
    left = all_versions(bucket)
    assert older not in left
    assert len(left) == 3


def test_exactly_the_given_versions_are_removed(world: World) -> None:
    bucket, _ = filled(world)
    items = all_versions(bucket)
    removed = [items[1], items[3], items[6]]
    assert bucket.remove_versions(removed) == {item.id: Removed() for item in removed}
    assert kinds(all_versions(bucket)) == [kind for n, kind in enumerate(FILLED) if n not in (1, 3, 6)]


def test_removing_a_delete_marker_places_none(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("a", b"x")
    hands.delete("a")
    marker, version = bucket.list_versions("").items
    assert bucket.remove_versions([version]) == {version.id: Removed()}
    assert bucket.remove_versions([marker]) == {marker.id: Removed(marker_version_id=None)}
    assert all_versions(bucket) == []


def test_removing_a_version_again_succeeds_again(world: World) -> None:
    """As S3 has it: so that the look before a removal is all that tells whether it was there."""
    bucket, hands = world.bucket("Enabled")
    for _ in range(2):
        hands.put("a", b"x")
    _, older = bucket.list_versions("").items
    assert bucket.remove_versions([older]) == bucket.remove_versions([older]) == {older.id: Removed()}
    assert len(all_versions(bucket)) == 1


def test_a_removal_of_versions_whose_reply_is_lost_has_an_unknown_effect(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    for _ in range(2):
        hands.put("a", b"x")
    _, older = bucket.list_versions("").items
    world.lose_reply_of_remove(bucket)
    (lost,) = bucket.remove_versions([older]).values()
    assert isinstance(lost, Failure)
    assert (lost.reason_class, lost.unknown_effect) == (ReasonClass.TRANSIENT, True)
    assert older not in all_versions(bucket)


@LOCKS
def test_a_locked_version_is_told_and_no_other_is_kept(world: World, how: str) -> None:
    bucket, hands = world.locking_bucket()
    for key in ("a", "b", "a", "b"):
        hands.put(key, b"x")
    locked, free = (item for item in all_versions(bucket) if item.rank)
    hands.lock("a", str(locked.version_id), how)
    results = bucket.remove_versions([locked, free])
    refused = results[locked.id]
    assert isinstance(refused, Failure)
    assert (refused.reason_class, refused.unknown_effect) == (ReasonClass.LOCKED, False)
    assert results[free.id] == Removed()
    assert [item.id for item in all_versions(bucket) if item.rank] == [locked.id]


def test_versions_of_a_missing_bucket_are_a_failure(world: World) -> None:
    bucket = world.missing_bucket()
    assert failure_in(lambda: bucket.list_versions("")).reason_class is ReasonClass.PERMANENT
    (refused,) = bucket.remove_versions([Item("a", "", 0, "", None, "v")]).values()
    assert isinstance(refused, Failure)
    assert (refused.reason_class, refused.unknown_effect) == (ReasonClass.PERMANENT, False)


def test_versions_are_removed_by_ids_of_their_own(world: World) -> None:
    bucket, _ = world.bucket("Enabled")
    items = [Item("a", '"e"', 1, "STANDARD", None, f"v{n}") for n in range(1001)]
    for wrong in (items, [items[0], items[0]], [items[0]._replace(version_id=None)]):
        with pytest.raises(ValueError, match=r"remove|id"):
            bucket.remove_versions(wrong)

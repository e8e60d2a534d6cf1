"""Targets over real buckets: what they list, see again and remove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sexton.errors import Failure, ReasonClass
from sexton.item import Item, ItemId
from sexton.markers import PlacedMarkers
from sexton.objects import CurrentObjects
from sexton.observing import Seen
from sexton.ports import Bucket, Removed
from sexton.run import Place
from sexton.target import Target
from sexton.uploads import IncompleteUploads
from sexton.versions import NoncurrentVersions

from tests.contract.worlds import BucketHands, World, all_versions


def everything(target: Target, prefixes: int = 1) -> list[Item]:
    """All that a target lists."""
    return list(_pages(target, prefixes))


def _pages(target: Target, prefixes: int) -> Iterator[Item]:
    place = Place()
    while place.prefix < prefixes:
        page = target.page(place)
        yield from page.items
        place = page.next


def seen(target: Target, items: Sequence[Item], span: int) -> Mapping[ItemId, Seen]:
    return target.observe(items, span, lambda: None)


def placed(hands: BucketHands, *keys: str) -> list[Item]:
    """Delete markers that were just placed, as an undo plans them."""
    for key in keys:
        hands.delete(key)
    return [Item(key, "", 0, "", None, hands.marker(key), is_marker=True) for key in keys]


def test_placed_markers_are_seen_again_while_they_stand_in_front(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    keys = [f"app/{name}" for name in ("a", "a/b", "b", "c", "d", "e", "f", "g")]
    for key in keys:
        hands.put(key, key.encode())
    markers = placed(hands, *keys)
    before, written, deleted, gone, bare, last = markers[0], *markers[2:6], markers[-1]
    for item in (written, deleted):
        hands.put(item.key, b"new")
    hands.delete(deleted.key)
    hands.delete_version(gone.key, str(gone.version_id))
    for item in all_versions(bucket):
        if item.key == bare.key and not item.is_marker:
            hands.delete_version(item.key, str(item.version_id))

    for target in (PlacedMarkers(bucket), *(PlacedMarkers(cast(Any, Narrow(bucket, most))) for most in (1, 2, 3))):
        for span in (1, 2000, 1_000_000):
            found = target.observe(markers, span, lambda: None)
            unchanged = {item.id: item for item in markers if found[item.id] == item}
            assert [key for key, _ in unchanged] == [before.key, "app/a/b", "app/f", last.key]
            assert found[gone.id] is None
            assert (found[bare.id], bare.alone) == (bare._replace(alone=True), False)
            for item in (written, deleted):
                newer = found[item.id]
                assert isinstance(newer, Item)
                assert (newer.key, newer.rank, newer.is_marker) == (item.key, 0, item is deleted)
                assert not newer.same_as(item)


def test_removing_placed_markers_touches_nothing_else(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    keys = ["app/a", "app/b"]
    for key in keys:
        hands.put(key, key.encode())
    before = all_versions(bucket)
    markers = placed(hands, *keys)
    hands.put("app/b", b"written after the look")

    assert set(PlacedMarkers(bucket).remove(markers).values()) == {Removed()}

    assert [bucket.head(key) == before[at]._replace(version_id=None) for at, key in enumerate(keys)] == [True, False]
    assert [hands.markers(key) for key in keys] == [0, 0]
    assert [hands.versions(key) for key in keys] == [1, 2]


class Narrow:
    """A bucket that shows so many entries a page, whatever it is asked for."""

    def __init__(self, bucket: Bucket, most: int) -> None:
        self._bucket = bucket
        self._most = most

    def __getattr__(self, name: str) -> object:
        real = getattr(self._bucket, name)
        if not name.startswith("list"):
            return real
        return lambda *arguments, limit=1000: real(*arguments, limit=min(limit, self._most))


def test_noncurrent_versions_are_listed_seen_again_and_removed(world: World) -> None:
    bucket, hands = world.locking_bucket()
    for key in ("a", "b", "a", "b", "a", "c"):
        hands.put(f"app/{key}", key.encode())
        world.pass_time(0.01)
    hands.delete("app/c")
    target = NoncurrentVersions(bucket, ["app/"])
    items = everything(target)
    assert [(item.key[-1], item.rank, item.is_marker, item.alone) for item in items] == [
        ("a", 0, False, False),
        ("a", 1, False, False),
        ("a", 2, False, False),
        ("b", 0, False, False),
        ("b", 1, False, False),
        ("c", 0, True, False),
        ("c", 1, False, False),
    ]
    for most in (1, 2, 3):
        assert everything(NoncurrentVersions(Narrow(bucket, most), ["app/"])) == items  # type: ignore[arg-type]
    planned = [item for item in items if item.rank]
    assert all(item.noncurrent_since for item in planned)
    assert [*seen(target, planned, len(items)).values()] == planned
    assert [*seen(target, planned, 1_000_000).values()] == planned

    hands.lock("app/b", str(planned[2].version_id), "GOVERNANCE")
    came = target.remove(planned)
    refused = came.pop(planned[2].id)
    assert isinstance(refused, Failure)
    assert refused.reason_class is ReasonClass.LOCKED
    assert set(came.values()) == {Removed()}
    assert len(all_versions(bucket)) == 4
    left = seen(target, planned, 7)
    assert [left[item.id] is not None for item in planned] == [False, False, True, False]
    assert [(item.is_marker, item.alone) for item in everything(target)][-1] == (True, True)


def test_a_lone_marker_is_seen_as_such_at_the_border_of_a_page(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    for key in ("app/a", "app/a/b", "app/b"):
        hands.put(key, b"x")
        hands.delete(key)
    for item in all_versions(bucket):
        if not item.is_marker and item.key != "app/a/b":
            hands.delete_version(item.key, str(item.version_id))
    expected = [("app/a", True), ("app/a/b", False), ("app/a/b", False), ("app/b", True)]
    for most in (1, 2, 3, 1000):
        items = everything(NoncurrentVersions(Narrow(bucket, most), ["app/"]))  # type: ignore[arg-type]
        assert [(item.key, item.alone) for item in items] == expected


def test_incomplete_uploads_are_listed_seen_again_and_aborted(world: World) -> None:
    bucket, hands = world.bucket()
    for key in ("app/a", "app/b", "app/c", "other/a"):
        hands.begin_upload(key)
    target = IncompleteUploads(bucket, ["app/"])
    items = everything(target)
    assert [item.key for item in items] == ["app/a", "app/b", "app/c"]
    assert [*seen(target, items, 3).values()] == items
    assert [*seen(target, items, 1_000_000).values()] == items
    assert target.remove(items[1:2]) == {items[1].id: Removed()}
    assert [*seen(target, items, 3).values()] == [items[0], None, items[2]]


def test_tags_come_with_the_items_of_every_target(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("app/a", b"x")
    hands.tag("app/a", {"n": "1"})
    hands.put("app/a", b"y")
    hands.delete("app/a")
    marker, newer, older = NoncurrentVersions(bucket, ["app/"]).read_tags(
        everything(NoncurrentVersions(bucket, ["app/"]))
    )
    assert (marker.tags, newer.tags, older.tags) == ({}, {}, {"n": "1"})
    hands.put("app/a", b"z")
    hands.tag("app/a", {"n": "3"})
    objects = CurrentObjects(bucket, ["app/"])
    (current,) = objects.read_tags(everything(objects))
    assert current.tags == {"n": "3"}

"""Tags of objects and of versions."""

from __future__ import annotations

from sexton.errors import ReasonClass
from sexton.item import Item

from tests.contract.worlds import World, all_versions, failure_in, listed


def test_the_tags_of_current_objects(world: World) -> None:
    bucket, hands = world.bucket()
    for key in ("a", "b"):
        hands.put(key, b"x")
    hands.tag("b", {"class": "scratch", "empty": "", "with spaces": "é=+-:/@"})
    first, second = listed(bucket)
    assert bucket.tags([first, second]) == {
        first.id: {},
        second.id: {"class": "scratch", "empty": "", "with spaces": "é=+-:/@"},
    }


def test_each_version_has_tags_of_its_own(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    for _ in range(2):
        hands.put("a", b"x")
    newer, older = all_versions(bucket)
    hands.tag("a", {"n": "2"}, newer.version_id)
    hands.tag("a", {"n": "1"}, older.version_id)
    assert bucket.tags([newer, older]) == {newer.id: {"n": "2"}, older.id: {"n": "1"}}
    assert bucket.tags([Item("a", "", 0, "", None)]) == {("a", None): {"n": "2"}}


def test_what_is_gone_and_a_delete_marker_have_none_that_can_be_read(world: World) -> None:
    bucket, hands = world.bucket("Enabled")
    hands.put("a", b"x")
    hands.delete("a")
    marker, version = all_versions(bucket)
    hands.delete_version("a", str(version.version_id))
    absent = Item("b", "", 0, "", None)
    assert bucket.tags([marker, version, absent]) == {marker.id: None, version.id: None, absent.id: None}


def test_many_tags_are_each_their_own_item_s(world: World) -> None:
    bucket, hands = world.bucket()
    for number in range(60):
        hands.put(f"{number:03d}", b"x")
        hands.tag(f"{number:03d}", {"n": str(number)})
    items = listed(bucket)
    assert bucket.tags(items) == {(f"{number:03d}", None): {"n": str(number)} for number in range(60)}


def test_the_tags_of_nothing(world: World) -> None:
    bucket, _ = world.bucket()
    assert bucket.tags([]) == {}


def test_tags_in_a_missing_bucket_are_a_failure_and_not_unreadable(world: World) -> None:
    bucket = world.missing_bucket()
    failed = failure_in(lambda: bucket.tags([Item("a", "", 0, "", None)]))
    assert failed.reason_class is ReasonClass.PERMANENT

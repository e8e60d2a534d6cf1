"""Incomplete multipart uploads: listing and aborting them."""

from __future__ import annotations

from datetime import UTC

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.ports import Bucket, Removed

from tests.contract.test_bucket import odd_keys_in_xml
from tests.contract.worlds import BucketHands, World, all_uploads, failure_in


def filled(world: World) -> tuple[Bucket, BucketHands]:
    bucket, hands = world.bucket()
    for key in ("logs/b", "logs/a", "logs/b", "other/a", "logs/c", "logs/b"):
        hands.begin_upload(key)
    return bucket, hands


def test_an_upload_as_a_listing_shows_it(world: World) -> None:
    bucket, hands = world.bucket()
    upload = hands.begin_upload("logs/a")
    (item,) = bucket.list_uploads("logs/").items
    assert item.id == ("logs/a", upload)
    assert (item.etag, item.size) == ("", 0)
    assert item.last_modified is not None
    assert item.last_modified.tzinfo is UTC
    assert item.last_modified.microsecond == 0


def test_uploads_are_no_objects(world: World) -> None:
    bucket, hands = world.bucket()
    hands.begin_upload("a")
    assert list(bucket.list("").items) == []
    hands.put("b", b"x")
    assert [item.key for item in bucket.list_uploads("").items] == ["a"]


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_uploads_come_in_the_order_of_their_keys_each_once(world: World, limit: int) -> None:
    bucket, _ = filled(world)
    uploads = all_uploads(bucket, "logs/", limit)
    assert [item.key for item in uploads] == ["logs/a", "logs/b", "logs/b", "logs/b", "logs/c"]
    assert len({item.id for item in uploads}) == 5


def test_uploads_start_after_a_key_that_need_not_be_there(world: World) -> None:
    bucket, _ = filled(world)
    assert [item.key for item in bucket.list_uploads("logs/", "logs/bb").items] == ["logs/c"]


@odd_keys_in_xml
def test_an_upload_of_an_odd_key_is_listed_and_aborted(world: World, key: str) -> None:
    bucket, hands = world.bucket()
    hands.begin_upload(key)
    (item,) = bucket.list_uploads("").items
    assert item.key == key
    assert bucket.abort_upload(item) == Removed()
    assert all_uploads(bucket) == []


def test_exactly_one_upload_is_aborted(world: World) -> None:
    bucket, _ = filled(world)
    uploads = all_uploads(bucket)
    assert bucket.abort_upload(uploads[2]) == Removed()
    assert all_uploads(bucket) == [*uploads[:2], *uploads[3:]]


def test_an_upload_that_is_not_there_is_gone(world: World) -> None:
    bucket, hands = world.bucket()
    hands.begin_upload("a")
    (item,) = bucket.list_uploads("").items
    bucket.abort_upload(item)
    again = bucket.abort_upload(item)
    assert isinstance(again, Failure)
    assert (again.reason_class, again.unknown_effect) == (ReasonClass.GONE, False)


def test_an_abort_whose_reply_is_lost_has_an_unknown_effect(world: World) -> None:
    bucket, hands = world.bucket()
    hands.begin_upload("a")
    (item,) = bucket.list_uploads("").items
    world.lose_reply_of_remove(bucket)
    lost = bucket.abort_upload(item)
    assert isinstance(lost, Failure)
    assert (lost.reason_class, lost.unknown_effect) == (ReasonClass.TRANSIENT, True)
    assert all_uploads(bucket) == []


def test_uploads_to_a_missing_bucket_are_a_failure(world: World) -> None:
    bucket = world.missing_bucket()
    assert failure_in(lambda: bucket.list_uploads("")).reason_class is ReasonClass.PERMANENT

"""The evidence bucket: written once, read as written."""

from __future__ import annotations

import pytest

from tests.contract.worlds import World

CONTENTS = {
    "empty": b"",
    "lines": b'{"key":"a"}\n{"key":"b"}\n',
    "binary": bytes(range(256)) * 50,
}


@pytest.mark.parametrize("key", ["runs/r/plan.json", "plans/r/000-00001-abc.ndjson.gz"])
@pytest.mark.parametrize("content", [pytest.param(value, id=name) for name, value in CONTENTS.items()])
def test_a_file_is_read_as_it_was_written(world: World, key: str, content: bytes) -> None:
    evidence = world.evidence()
    assert evidence.put_once(key, content) is True
    assert evidence.get(key) == content


def test_a_file_that_is_not_there_is_none(world: World) -> None:
    assert world.evidence().get("runs/r/plan.json") is None


def test_a_key_is_written_once(world: World) -> None:
    evidence = world.evidence()
    assert evidence.put_once("a.json", b"first") is True
    assert evidence.put_once("a.json", b"second") is False
    assert evidence.put_once("a.json", b"first") is False
    assert evidence.get("a.json") == b"first"


@pytest.mark.parametrize("key", ["a.json", "a.ndjson.gz"])
def test_a_reply_lost_on_the_way_is_no_refusal(world: World, key: str) -> None:
    evidence = world.evidence()
    world.lose_reply_of_put(evidence)
    assert evidence.put_once(key, b"mine") is True
    assert evidence.get(key) == b"mine"


def test_a_key_taken_by_another_stays_refused_though_the_reply_was_lost(world: World) -> None:
    evidence = world.evidence()
    assert evidence.put_once("a.json", b"another's") is True
    world.lose_reply_of_put(evidence)
    assert evidence.put_once("a.json", b"mine") is False
    assert evidence.get("a.json") == b"another's"


def test_keys_are_listed_in_order_by_prefix(world: World) -> None:
    evidence = world.evidence()
    keys = ["outcomes/r/000-00002-t.gz", "outcomes/r/000-00001-t.gz", "outcomes/r2/x", "outcomes/r.2/x", "plans/r/x"]
    for key in keys:
        evidence.put_once(key, b"")
    assert list(evidence.list("outcomes/r/")) == ["outcomes/r/000-00001-t.gz", "outcomes/r/000-00002-t.gz"]
    assert list(evidence.list("")) == sorted(keys)
    assert list(evidence.list("none/")) == []


def test_more_keys_than_one_page_are_all_listed(world: World) -> None:
    evidence = world.evidence()
    for n in range(1005):
        evidence.put_once(f"k/{n:05d}", b"")
    assert list(evidence.list("k/")) == [f"k/{n:05d}" for n in range(1005)]

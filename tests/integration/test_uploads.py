"""Incomplete multipart uploads, through the whole line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.run import Run

from tests.fakes.recorder import LOST_REPLY
from tests.fakes.time import START
from tests.fakes.world import World, uploads_policy
from tests.integration.seen import ends, tally

DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")
POLICY = "uploads-abort"


def a_world(**changes: object) -> World:
    return World({POLICY: uploads_policy(**changes)})


def begun(world: World, key: str, days: float) -> Item:
    world.clock.move_to(START - timedelta(days=days))
    upload = world.bucket().begin_upload(key)
    world.clock.move_to(START)
    return upload


def name(upload: Item) -> str:
    return f"{upload.key}?{upload.version_id}"


def carried_out(world: World, meanwhile: Callable[[], object] = lambda: None) -> Run:
    return world.carried_out(POLICY, at=START, meanwhile=meanwhile)


def test_uploads_older_than_a_time_are_aborted_and_nothing_else() -> None:
    world = a_world()
    old, young = begun(world, "app/a", 8), begun(world, "app/a", 6)
    outside = begun(world, "other/a", 8)
    world.fill(["app/a"], age=timedelta(days=90))
    run = carried_out(world)
    assert ends(world, run.run_id) == {name(old): ["deleted"]}
    assert set(world.bucket().uploads) == {young.id, outside.id}
    assert world.bucket().keys() == ["app/a"]
    assert run.scanned == {"expired": 1, "younger": 1}


@pytest.mark.parametrize(("seconds", "goes"), [(-1, True), (0, False), (1, False)])
def test_the_cutoff_is_compared_with_when_the_upload_was_begun(seconds: int, goes: bool) -> None:
    world = a_world()
    upload = begun(world, "app/a", 7 - seconds / 86_400)
    carried_out(world)
    assert (upload.id not in world.bucket().uploads) is goes


def test_suspended_versioning_is_no_matter() -> None:
    world = a_world()
    world.bucket().state = "Suspended"
    upload = begun(world, "app/a", 8)
    assert ends(world, carried_out(world).run_id) == {name(upload): ["deleted"]}


def test_exclusions_and_selection_hold_for_uploads() -> None:
    source = {"kind": "s3_uploads", "bucket": "logs", "prefixes": ["app/"]}
    source |= {"include": {"suffixes": [".gz"]}, "exclude": {"prefixes": ["app/audit/"]}}
    world = a_world(source=source)
    for key in ("app/a.gz", "app/a.txt", "app/audit/a.gz"):
        begun(world, key, 8)
    assert carried_out(world).scanned == {"expired": 1, "not_selected": 1, "excluded": 1}


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("seconds", [29, 900])
def test_pages_and_interruptions_change_nothing(most: int, seconds: int) -> None:
    world = a_world(job_size=2, limits={"max_items": 1000})
    uploads = [begun(world, f"app/{number % 3}", 8 + number) for number in range(8)]
    world.bucket().most = most
    event = {"policy": POLICY, "scheduled_time": "2026-03-01T12:00:00Z"}
    answer = world.discover(event, lambda: timedelta(seconds=seconds))
    while world.run(answer).state == "planning":
        world.clock.advance(61)
        world.discover({"resume": answer["run_id"]}, lambda: timedelta(seconds=seconds))
    world.settle()
    assert ends(world, str(answer["run_id"])) == {name(upload): ["deleted"] for upload in uploads}
    assert world.bucket().uploads == {}


def test_an_upload_that_was_completed_is_absent() -> None:
    world = a_world()
    upload, other = begun(world, "app/a", 8), begun(world, "app/a", 9)
    run = carried_out(world, lambda: world.bucket().uploads.pop(upload.id))
    assert ends(world, run.run_id) == {name(upload): ["skipped:absent"], name(other): ["deleted"]}


def test_a_lost_reply_is_no_proof() -> None:
    world = a_world()
    begun(world, "app/a", 8)
    run = carried_out(world, lambda: world.bucket().fail_next("abort_upload", LOST_REPLY))
    assert tally(world, run.run_id) == {"deleted:absent_after_attempt": 1}


def test_a_missing_permission_is_dead() -> None:
    world = a_world()
    for number in range(3):
        begun(world, f"app/{number}", 8)
    world.bucket().failures["app/1"] = DENIED
    assert tally(world, carried_out(world).run_id) == {"deleted": 2, "dead:AccessDenied": 1}


def test_a_report_aborts_nothing() -> None:
    world = a_world(mode="report")
    begun(world, "app/a", 8)
    run = world.run(world.trigger(POLICY, at=START))
    assert (run.state, run.planned) == ("reported", 1)
    assert {each for each in world.trace.names if each.startswith("bucket.")} == {
        "bucket.versioning",
        "bucket.list_uploads",
    }

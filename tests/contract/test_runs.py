"""Whole runs over real buckets: the flows as they are, the bucket's adapter, and an emulator of S3 behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sexton.policy import Policy

from tests.contract.worlds import AwsWorld, BucketHands, all_uploads, all_versions
from tests.fakes.time import FakeClock
from tests.fakes.world import World, policy, purge_policy, uploads_policy
from tests.integration.seen import tally


def a_world(rule: Policy, bucket: object) -> World:
    """Sixty days from now, so that whatever was written today has had its time."""
    world = World({rule.id: rule}, FakeClock(datetime.now(UTC).replace(microsecond=0) + timedelta(days=60)))
    world.buckets["logs"] = cast(Any, bucket)
    return world


def carried_out(world: World) -> dict[str, int]:
    (policy_id,) = world.policies
    answer = world.trigger(policy_id)
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced) == ("completed", True), run.message
    return tally(world, run.run_id)


def write(aws: AwsWorld, hands: BucketHands, text: str) -> None:
    for word in text.split():
        hands.put(f"app/{word}", word.encode())
        aws.pass_time(0.01)


def test_noncurrent_versions_are_purged(aws: AwsWorld) -> None:
    bucket, hands = aws.locking_bucket()
    write(aws, hands, "a b c a b c a b c a b c")
    hands.delete("app/c")
    locked = [item for item in all_versions(bucket) if item.key == "app/b"][-1]
    hands.lock(locked.key, str(locked.version_id), "COMPLIANCE")
    world = a_world(purge_policy(keep_latest=1, job_size=3, limits={"max_items": 1000}), bucket)
    assert carried_out(world) == {"deleted": 6, "skipped:locked": 1}
    left = [(item.key[-1], item.is_marker, item.rank) for item in all_versions(bucket)]
    assert left == [
        ("a", False, 0),
        ("a", False, 1),
        ("b", False, 0),
        ("b", False, 1),
        ("b", False, 1),
        ("c", True, 0),
        ("c", False, 1),
    ]


def test_a_deleted_key_goes_in_two_runs(aws: AwsWorld) -> None:
    bucket, hands = aws.bucket("Enabled")
    write(aws, hands, "a a b")
    hands.delete("app/a")
    world = a_world(purge_policy(purge_markers=True), bucket)
    assert carried_out(world) == {"deleted": 2}
    world.clock.advance(60)
    assert carried_out(world) == {"deleted": 1}
    assert [item.key for item in all_versions(bucket)] == ["app/b"]


def test_an_undo_brings_objects_back_byte_for_byte(aws: AwsWorld) -> None:
    bucket, hands = aws.bucket("Enabled")
    write(aws, hands, "a a b c d e f")
    before = all_versions(bucket)
    rule = policy(recovery="versioning", job_size=2, limits={"max_items": 1000})
    world = a_world(rule, bucket)
    assert carried_out(world) == {"deleted": 6}
    assert bucket.list("").items == []
    hands.put("app/b", b"written since")
    hands.put("app/c", b"written and deleted since")
    hands.delete("app/c")
    hands.delete_version("app/d", str(hands.marker("app/d")))  # somebody was faster

    (run,) = world.ledger.runs(rule.id)
    foreseen = previewed(world, run.run_id)
    undo = world.undoing().undo(run.run_id, "it was wrong", "ann")
    world.settle()

    assert tally(world, undo.run_id) == {"deleted": 3, "skipped:changed": 2, "skipped:absent": 1}
    assert foreseen == {"restored": ("app/a", "app/e", "app/f"), "changed": ("app/b", "app/c"), "absent": ("app/d",)}
    there = [item for item in all_versions(bucket) if item.key not in ("app/b", "app/c")]
    assert there == [item for item in before if item.key not in ("app/b", "app/c")]  # the same versions, nothing else
    contents = {key: cast(Any, hands).content(f"app/{key}") for key in "abdef"}
    assert contents == {**{key: key.encode() for key in "adef"}, "b": b"written since"}
    assert (hands.markers("app/b"), hands.markers("app/c")) == (1, 2)

    world.clock.advance(60)
    assert carried_out(world) == {"skipped:held": 5}
    assert [item.key[-1] for item in bucket.list("").items] == [*"abdef"]


def previewed(world: World, run_id: str) -> dict[str, tuple[str, ...]]:
    world.tick()
    found = world.previewing().preview(run_id)
    return {"restored": found.restored.first, **{name: kind.first for name, kind in found.left.items()}}


def test_incomplete_uploads_are_aborted(aws: AwsWorld) -> None:
    bucket, hands = aws.bucket()
    for key in ("app/a", "app/b", "other/a"):
        hands.begin_upload(key)
    assert carried_out(a_world(uploads_policy(), bucket)) == {"deleted": 2}
    assert [item.key for item in all_uploads(bucket)] == ["other/a"]


def test_objects_go_by_their_tags(aws: AwsWorld) -> None:
    bucket, hands = aws.bucket()
    write(aws, hands, "kept gone untagged")
    hands.tag("app/kept", {"class": "scratch", "keep": "yes"})
    hands.tag("app/gone", {"class": "scratch"})
    source: dict[str, object] = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"]}
    source |= {"include": {"tags": {"class": "scratch"}}, "exclude": {"tags": {"keep": "yes"}}}
    assert carried_out(a_world(policy(source=source), bucket)) == {"deleted": 1}
    assert [item.key for item in bucket.list("").items] == ["app/kept", "app/untagged"]

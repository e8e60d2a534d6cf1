"""Policies that go by tags: tags are read where they decide, and what cannot be read stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.run import Run

from tests.fakes.time import START
from tests.fakes.world import World, policy
from tests.integration.histories import history
from tests.integration.seen import ends, tally

SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
DENIED = Failure(ReasonClass.PERMANENT, "InvalidAccessKeyId", "no such key")


def a_world(include: dict[str, str] | None = None, exclude: dict[str, str] | None = None, **changes: object) -> World:
    source: dict[str, object] = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"]}
    if include:
        source["include"] = {"tags": include}
    if exclude:
        source["exclude"] = {"tags": exclude}
    return World({"logs-expire": policy(**{"source": source, **changes})})


def put(world: World, key: str, tags: dict[str, str] | None = None, days: float = 60) -> None:
    world.clock.move_to(START - timedelta(days=days))
    world.bucket().put(key, key, tags=tags)
    world.clock.move_to(START)


def carried_out(world: World, meanwhile: Callable[[], object] = lambda: None) -> Run:
    return world.carried_out(at=START, meanwhile=meanwhile)


def test_all_required_tags_must_be_there_with_their_values() -> None:
    world = a_world(include={"class": "scratch", "team": "a"})
    put(world, "app/both", {"class": "scratch", "team": "a", "more": "x"})
    put(world, "app/one", {"class": "scratch"})
    put(world, "app/other-value", {"class": "scratch", "team": "b"})
    put(world, "app/other-case", {"class": "Scratch", "team": "a"})
    put(world, "app/none")
    run = carried_out(world)
    assert ends(world, run.run_id) == {"app/both": ["deleted"]}
    assert run.scanned == {"expired": 1, "not_selected": 4}


def test_one_excluded_tag_spares() -> None:
    world = a_world(exclude={"keep": "yes", "legal": ""})
    put(world, "app/kept", {"keep": "yes", "more": "x"})
    put(world, "app/legal", {"legal": ""})
    put(world, "app/other-value", {"keep": "no"})
    put(world, "app/none")
    run = carried_out(world)
    assert set(ends(world, run.run_id)) == {"app/none", "app/other-value"}
    assert run.scanned == {"expired": 2, "excluded": 2}


def test_an_excluded_tag_beats_a_required_one() -> None:
    world = a_world(include={"class": "scratch"}, exclude={"keep": "yes"})
    put(world, "app/both", {"class": "scratch", "keep": "yes"})
    put(world, "app/one", {"class": "scratch"})
    assert set(ends(world, carried_out(world).run_id)) == {"app/one"}


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({"created": "2026-01-29"}, "expired"),  # its day ends on the 30th, at midnight
        ({"created": "2026-01-30"}, "younger"),
        ({"created": "2026-02-30"}, "unreadable_date"),
        ({"created": "lately"}, "unreadable_date"),
        ({"created": ""}, "unreadable_date"),
        ({"Created": "2020-01-01"}, "unreadable_date"),
        ({}, "unreadable_date"),
    ],
)
def test_age_from_a_date_in_a_tag(tags: dict[str, str], reason: str) -> None:
    """The cutoff is 2026-01-30 at noon; the object itself was written today."""
    world = a_world(age_from={"tag": "created"})
    put(world, "app/a", tags, days=0)
    put(world, "app/z", {"created": "2020-01-01"}, days=0)
    run = carried_out(world)
    assert run.scanned == ({"expired": 2} if reason == "expired" else {"expired": 1, reason: 1})


def test_what_cannot_be_read_stays_and_is_counted() -> None:
    world = a_world(exclude={"keep": "yes"})
    put(world, "app/a")
    put(world, "app/secret")
    world.bucket().secret = {"app/secret"}
    run = carried_out(world)
    assert run.scanned == {"expired": 1, "unreadable_tags": 1}
    assert world.bucket().keys() == ["app/secret"]


def test_tags_are_read_only_of_what_could_go() -> None:
    world = a_world(include={"class": "scratch"})
    put(world, "app/old", {"class": "scratch"})
    for number in range(50):
        put(world, f"app/{number}", {"class": "scratch"}, days=3)
    asked: list[str] = []
    real = world.bucket().tags
    world.bucket().tags = lambda items: asked.extend(item.key for item in items) or real(items)  # type: ignore
    carried_out(world)
    assert asked == ["app/old"] * 2  # by planning, and by the look before the removal


def test_no_tags_are_read_where_no_policy_needs_them() -> None:
    world = World()
    put(world, "app/a", {"class": "scratch"})
    carried_out(world)
    assert world.bucket().calls["tags"] == 0


def test_tags_that_changed_after_planning_count() -> None:
    world = a_world(include={"class": "scratch"}, exclude={"keep": "yes"})
    for key in ("app/changed", "app/kept", "app/same", "app/secret"):
        put(world, key, {"class": "scratch"})

    def others() -> None:
        world.bucket().tag("app/changed", {"class": "gold"})
        world.bucket().tag("app/kept", {"class": "scratch", "keep": "yes"})
        world.bucket().secret = {"app/secret"}

    run = carried_out(world, others)
    assert ends(world, run.run_id) == {
        "app/changed": ["skipped:not_selected"],
        "app/kept": ["skipped:excluded"],
        "app/same": ["deleted"],
        "app/secret": ["skipped:unreadable_tags"],
    }


def test_a_date_in_a_tag_that_changed_after_planning_counts() -> None:
    world = a_world(age_from={"tag": "created"})
    put(world, "app/a", {"created": "2020-01-01"})
    run = carried_out(world, lambda: world.bucket().tag("app/a", {"created": "2026-02-28"}))
    assert tally(world, run.run_id) == {"skipped:younger": 1}


def test_throttled_tags_end_no_run_and_plan_nothing_on_a_guess() -> None:
    world = a_world(exclude={"keep": "yes"})
    put(world, "app/a", {"keep": "yes"})
    put(world, "app/b")
    world.bucket().fail_next("tags", SLOW)
    with pytest.raises(CallFailed):
        world.trigger(at=START)
    (run,) = world.ledger.runs("logs-expire")
    assert (run.state, run.planned) == ("planning", 0)
    world.settle()
    assert world.bucket().keys() == ["app/a"]


def test_throttled_tags_cost_a_worker_no_attempt() -> None:
    world = a_world(exclude={"keep": "yes"})
    put(world, "app/b")
    answer = world.trigger(at=START)
    world.bucket().fail_next("tags", SLOW)
    world.work()
    (job,) = world.ledger.jobs(str(answer["run_id"]))
    assert (job.state, job.attempt, job.throttles) == ("ready", 0, 1)
    world.settle()
    assert world.bucket().keys() == []


def test_tags_that_may_never_be_read_refuse_the_source() -> None:
    world = a_world(exclude={"keep": "yes"})
    put(world, "app/a")
    world.bucket().fail_next("tags", DENIED)
    run = world.run(world.trigger(at=START))
    assert (run.state, run.reason) == ("invalidated", "source_refused")


def test_tags_of_noncurrent_versions_are_their_own() -> None:
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "versions": "noncurrent", "purge_markers": True}
    source["exclude"] = {"tags": {"keep": "yes"}}
    world = World({"logs-expire": policy(source=source, action="purge")}, versioning="Enabled")
    _, kept, gone = history(world, "app/a", "v90 v80 v70")
    (marker,) = history(world, "app/b", "m60")
    world.bucket().tag("app/a", {"keep": "yes"}, kept.id)
    run = carried_out(world)
    assert ends(world, run.run_id) == {str(gone): ["deleted"], str(marker): ["deleted"]}


def test_a_delete_marker_has_no_tag_that_could_be_required() -> None:
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "versions": "noncurrent", "purge_markers": True}
    source["include"] = {"tags": {"class": "scratch"}}
    world = World({"logs-expire": policy(source=source, action="purge")}, versioning="Enabled")
    history(world, "app/b", "m60")
    _, tagged = history(world, "app/a", "v90 v80")
    world.bucket().tag("app/a", {"class": "scratch"}, tagged.id)
    assert carried_out(world).scanned == {"expired": 1, "not_selected": 1, "current_version": 1}

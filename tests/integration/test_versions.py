"""Purging noncurrent versions, through the whole line: exactly those that have been noncurrent for long enough."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexton import run_transitions
from sexton.errors import Failure, ReasonClass
from sexton.item import Item, rfc3339
from sexton.run import Run

from tests.fakes.time import START
from tests.fakes.world import World
from tests.integration.histories import Entry, a_world, due, history, left
from tests.integration.seen import ends, tally

DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")
POLICY = "versions-purge"


def carried_out(world: World, meanwhile: Callable[[], object] = lambda: None) -> Run:
    """A run from trigger to closed books; something may happen between planning and working."""
    return world.carried_out(POLICY, at=START, meanwhile=meanwhile)


# age


def test_a_version_goes_by_how_long_it_has_been_noncurrent() -> None:
    world = a_world()
    _, long_ago, _ = history(world, "app/a", "v90 v80 v60")
    _, lately = history(world, "app/b", "v90 v10")
    carried_out(world)
    assert long_ago.id not in left(world, "app/a")
    assert len(left(world, "app/a")) == 1
    assert lately.id in left(world, "app/b")


@pytest.mark.parametrize(("seconds", "goes"), [(-1, True), (0, False), (1, False)])
def test_the_cutoff_is_compared_with_the_successor_s_date(seconds: int, goes: bool) -> None:
    world = a_world()
    days = 30 - seconds / 86_400
    _, older = history(world, "app/a", f"v90 v{days}")
    carried_out(world)
    assert (older.id not in left(world, "app/a")) is goes


def test_a_current_version_stays_however_old() -> None:
    world = a_world()
    history(world, "app/a", "v900")
    history(world, "app/b", "v900 m800")
    run = carried_out(world)
    assert run.scanned == {"current_version": 2, "expired": 1}
    assert len(left(world, "app/a")) == 1
    assert len(left(world, "app/b")) == 1  # the marker, which purge_markers would take with the next run


def test_a_delete_marker_is_a_successor_too() -> None:
    world = a_world()
    _, newly_deleted = history(world, "app/a", "v90 m10")
    _, _, deleted_long_ago = history(world, "app/b", "v90 m60 v5")
    carried_out(world)
    assert newly_deleted.id in left(world, "app/a")
    assert deleted_long_ago.id not in left(world, "app/b")


def test_a_successor_of_many_parts_that_was_begun_before_is_no_older_than_what_it_replaced() -> None:
    """LastModified of such a version is when its upload was begun: here, before the version that it replaced."""
    world = a_world()
    history(world, "app/a", "v10")
    begun = START - timedelta(days=50)
    world.bucket().place(Item("app/a", '"e-2"', 9, "STANDARD", begun))
    run = carried_out(world)
    assert run.scanned == {"current_version": 1, "younger": 1}


# what is never taken


def test_the_newest_noncurrent_ones_are_kept_whatever_their_age() -> None:
    world = a_world(keep_latest=2)
    entries = history(world, "app/a", "v90 v80 m75 v70 m65 v60 v50")
    run = carried_out(world)
    current, first, _, second, *_ = entries
    assert {current.id, first.id, second.id} <= set(left(world, "app/a"))
    assert run.scanned == {"current_version": 1, "kept_latest": 2, "delete_marker": 2, "expired": 2}


def test_a_version_named_null_is_never_taken() -> None:
    world = World({POLICY: a_world().policies[POLICY]}, versioning="Unversioned")
    world.fill(["app/a"], age=timedelta(days=90))
    world.bucket().state = "Enabled"
    world.fill(["app/a", "app/a"], age=timedelta(days=60))
    run = carried_out(world)
    assert run.scanned == {"current_version": 1, "expired": 1, "null_version": 1}
    assert left(world, "app/a")[-1] == "null"


def test_no_current_version_is_ever_removed_by_its_id() -> None:
    world = a_world(purge_markers=True)
    for number in range(20):
        history(world, f"app/{number}", "v90 v80 m70 v60"[: 3 + 4 * (number % 4)])
    removed: list[tuple[Item, str]] = []
    bucket = world.bucket()
    real = bucket.remove_versions

    def watched(items: list[Item]) -> object:
        removed.extend((item, bucket.version_ids(item.key)[0]) for item in items)
        return real(items)

    bucket.remove_versions = watched  # type: ignore[method-assign, assignment]
    carried_out(world)
    assert removed
    for item, current in removed:
        assert item.version_id != current or (item.is_marker and item.alone)


# delete markers


def test_only_markers_that_hide_nothing_are_purged() -> None:
    world = a_world(purge_markers=True)
    history(world, "app/alone", "m60")
    history(world, "app/young", "m10")
    history(world, "app/hiding", "v15 m12")
    _, noncurrent, _ = history(world, "app/noncurrent", "v90 m80 v70")
    run = carried_out(world)
    assert left(world, "app/alone") == []
    assert len(left(world, "app/young")) == 1
    assert len(left(world, "app/hiding")) == 2
    assert noncurrent.id not in left(world, "app/noncurrent")
    assert run.scanned == {"expired": 3, "current_version": 2, "younger": 2}


def test_markers_stay_unless_they_are_meant() -> None:
    world = a_world()
    history(world, "app/alone", "m60")
    history(world, "app/noncurrent", "v90 m80 v70")
    run = carried_out(world)
    assert run.scanned == {"delete_marker": 2, "current_version": 1, "expired": 1}


def test_a_marker_goes_with_the_run_after_the_one_that_took_what_it_hid() -> None:
    world = a_world(purge_markers=True)
    history(world, "app/a", "v90 m60")
    carried_out(world)
    assert len(left(world, "app/a")) == 1
    world.clock.advance(60)
    world.trigger(POLICY, at=world.clock())
    world.settle()
    assert left(world, "app/a") == []


def test_a_marker_whose_key_was_written_again_is_not_taken_for_alone() -> None:
    world = a_world(purge_markers=True)
    (marker,) = history(world, "app/a", "m60")
    run = carried_out(world, lambda: world.bucket().put("app/a", b"again"))
    assert tally(world, run.run_id) == {"skipped:younger": 1}  # it is noncurrent now, and since just now
    assert marker.id in left(world, "app/a")


# pages


KEYS = ["app/a", "app/a/b", "app/ab", "app/b"]  # of the last one something goes always
HISTORIES = st.lists(
    st.tuples(st.booleans(), st.integers(1, 60)).map(lambda each: f"{'m' if each[0] else 'v'}{each[1]}"), max_size=6
).map(lambda words: " ".join(sorted(words, key=lambda word: -int(word[1:]))))


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(HISTORIES, min_size=len(KEYS) - 1, max_size=len(KEYS) - 1),
    most=st.integers(1, 4),
    job_size=st.integers(1, 3),
    keep_latest=st.integers(0, 2),
    purge_markers=st.booleans(),
    in_one_go=st.booleans(),
)
def test_pages_and_interruptions_change_nothing(
    texts: list[str], most: int, job_size: int, keep_latest: int, purge_markers: bool, in_one_go: bool
) -> None:
    """Successors' dates, ranks and lone markers are right at every border of a page, a part and an invocation."""
    world = a_world(job_size=job_size, keep_latest=keep_latest, purge_markers=purge_markers, limits={"max_items": 1000})
    entries = [history(world, key, text) for key, text in zip(KEYS, [*texts, "v90 v80"], strict=True)]
    expected = {str(entry) for each in entries for entry in due(world.policies[POLICY], each)}
    world.bucket().most = most
    left_for_a_page = None if in_one_go else (lambda: timedelta(seconds=29))
    answer = world.discover({"policy": POLICY, "scheduled_time": rfc3339(START)}, left_for_a_page)
    while world.run(answer).state == "planning":
        world.clock.advance(61)
        world.discover({"resume": world.run(answer).run_id}, left_for_a_page)
    world.settle()
    run = world.run(answer)
    assert run.balanced
    assert ends(world, run.run_id) == {name: ["deleted"] for name in expected}
    for each in entries:
        kept = [entry.id for entry in each if str(entry) not in expected]
        assert left(world, each[0].key if each else "app/none") == kept


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_lone_marker_at_the_border_of_a_page(most: int) -> None:
    world = a_world(purge_markers=True)
    for key in ("app/a", "app/b", "app/c"):
        history(world, key, "m60")
    history(world, "app/d", "v15 m12")
    world.bucket().most = most
    run = carried_out(world)
    assert run.scanned == {"expired": 3, "current_version": 1, "younger": 1}


def test_more_versions_of_one_key_than_a_page_holds() -> None:
    world = a_world(job_size=500)
    entries = history(world, "app/a", " ".join(f"v{2600 - day}" for day in range(2500)))
    history(world, "app/b", "v90 v80")
    run = carried_out(world)
    assert run.planned == len(list(due(world.policies[POLICY], entries))) + 1
    assert left(world, "app/a") == [entries[0].id]
    assert len(left(world, "app/b")) == 1


# what has changed between planning and deletion


def planned_two() -> tuple[World, list[Entry]]:
    world = a_world()
    return world, history(world, "app/a", "v90 v80 v60")


def test_a_version_that_is_current_again_is_not_purged() -> None:
    world, (newest, middle, oldest) = planned_two()

    def others() -> None:
        world.bucket().delete_version("app/a", newest.id)

    run = carried_out(world, others)
    assert ends(world, run.run_id) == {str(middle): ["skipped:current_version"], str(oldest): ["deleted"]}
    assert left(world, "app/a") == [middle.id]


def test_a_version_whose_newer_ones_are_all_gone_is_not_purged() -> None:
    world, (newest, middle, oldest) = planned_two()

    def others() -> None:
        world.bucket().delete_version("app/a", newest.id)
        world.bucket().delete_version("app/a", middle.id)

    run = carried_out(world, others)
    assert ends(world, run.run_id) == {str(middle): ["skipped:absent"], str(oldest): ["skipped:current_version"]}
    assert left(world, "app/a") == [oldest.id]


def test_a_version_that_was_current_again_meanwhile_counts_from_its_new_successor() -> None:
    """Its successor was removed and another written: so it became noncurrent just now."""
    world = a_world()
    newest, older = history(world, "app/a", "v90 v80")

    def others() -> None:
        world.bucket().delete_version("app/a", newest.id)
        world.bucket().put("app/a", b"another")

    run = carried_out(world, others)
    assert ends(world, run.run_id) == {str(older): ["skipped:younger"]}
    assert older.id in left(world, "app/a")


def test_a_successor_that_changed_and_is_old_too_changes_nothing() -> None:
    world, (_, middle, oldest) = planned_two()
    run = carried_out(world, lambda: world.bucket().delete_version("app/a", middle.id))
    assert ends(world, run.run_id) == {str(middle): ["skipped:absent"], str(oldest): ["deleted"]}


def test_a_version_that_moved_up_among_the_kept_ones_is_kept() -> None:
    world = a_world(keep_latest=1)
    _, kept, third, _ = history(world, "app/a", "v90 v80 v70 v60")
    run = carried_out(world, lambda: world.bucket().delete_version("app/a", kept.id))
    assert ends(world, run.run_id)[str(third)] == ["skipped:kept_latest"]
    assert third.id in left(world, "app/a")


def test_versions_written_after_planning_are_not_touched() -> None:
    world, (newest, *_) = planned_two()
    run = carried_out(world, lambda: world.bucket().put("app/a", b"new"))
    assert tally(world, run.run_id) == {"deleted": 2}
    assert left(world, "app/a")[1:] == [newest.id]


# refused


def reason_of(world: World, answer: dict[str, object]) -> tuple[str, str | None]:
    run = world.run(answer)
    return run.state, run.reason


def test_a_suspended_bucket_is_refused_with_what_to_do() -> None:
    world = a_world()
    history(world, "app/a", "v90 v80")
    world.bucket().state = "Suspended"
    answer = world.trigger(POLICY, at=START)
    assert reason_of(world, answer) == ("invalidated", "versioning_suspended")
    assert "enable versioning" in str(world.run(answer).message)
    assert world.bucket().calls["list_versions"] == 0


def test_a_bucket_without_versioning_is_refused() -> None:
    world = World({POLICY: a_world().policies[POLICY]}, versioning="Unversioned")
    answer = world.trigger(POLICY, at=START)
    assert reason_of(world, answer) == ("invalidated", "not_versioned")


# locks


def test_locked_versions_are_skipped_and_their_neighbours_go() -> None:
    world = a_world()
    _, locked, free = history(world, "app/a", "v90 v80 v60")
    world.bucket().lock_version("app/a", locked.id)
    run = carried_out(world)
    assert ends(world, run.run_id) == {str(locked): ["skipped:locked"], str(free): ["deleted"]}
    assert world.bucket().calls["remove_versions"] == 1


def test_a_missing_permission_is_no_lock() -> None:
    world = a_world()
    _, refused, free = history(world, "app/a", "v90 v80 v60")
    world.bucket().failures["app/a", refused.id] = DENIED
    run = carried_out(world)
    assert ends(world, run.run_id) == {str(refused): ["dead:AccessDenied"], str(free): ["deleted"]}


# report


def test_a_report_changes_nothing() -> None:
    world = a_world(mode="report", purge_markers=True)
    history(world, "app/a", "v90 v80 v60")
    history(world, "app/b", "m60")
    run = world.run(world.trigger(POLICY, at=START))
    assert (run.state, run.planned) == ("reported", 3)
    assert {name for name in world.trace.names if name.startswith("bucket.")} == {
        "bucket.versioning",
        "bucket.list_versions",
    }


def test_a_version_deleted_before_the_worker_came_is_absent() -> None:
    world, (_, middle, oldest) = planned_two()
    run = carried_out(world, lambda: world.bucket().delete_version("app/a", oldest.id))
    assert ends(world, run.run_id) == {str(middle): ["deleted"], str(oldest): ["skipped:absent"]}


def test_outcomes_name_their_versions() -> None:
    world, (_, middle, oldest) = planned_two()
    run = carried_out(world)
    assert set(ends(world, run.run_id)) == {str(middle), str(oldest)}


# calls


def test_a_thousand_versions_take_a_few_calls() -> None:
    world = a_world()
    for number in range(2000):
        history(world, f"app/{number:04d}", "v90 v80")
    run = carried_out(world)
    assert (run.planned, run.jobs) == (2000, 2)
    calls = world.bucket().calls
    assert calls["remove_versions"] == 2
    assert calls["list_versions"] <= 4 + 2 * 3  # planning's pages, and those of each job's range
    assert len(world.trace.calls) < 16 * 2 + 100


# keys with very many versions


def test_versions_far_behind_the_current_one_are_looked_at_in_time() -> None:
    """It takes half a minute to list what is ahead of them, which would make the look too old."""
    world = a_world()
    entries = history(world, "app/a", " ".join(f"v{days}" for days in (50, 49, 48, 29.5)))
    for number in range(60):
        history(world, "app/a", f"v{29 - number / 10}")
    bucket = world.bucket()
    bucket.most = 2
    answer = world.trigger(POLICY, at=START)
    slow(world, 1.0)
    world.settle()
    run = world.run(answer)
    assert ends(world, run.run_id) == {str(entry): ["deleted"] for entry in entries[2:]}


def test_a_run_that_ends_while_its_versions_are_being_found_removes_nothing() -> None:
    world = a_world()
    history(world, "app/a", " ".join(f"v{days}" for days in (50, 49, 48, 29.5)))
    for number in range(60):
        history(world, "app/a", f"v{29 - number / 10}")
    world.bucket().most = 2
    answer = world.trigger(POLICY, at=START)
    slow(
        world,
        1.0,
        after=20,
        then=lambda: world.ledger.table.write(
            run_transitions.invalidate(world.run(answer), "policy_changed", "", world.clock(), "w")
        ),
    )
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced) == ("invalidated", True)
    assert tally(world, run.run_id) == {"cancelled": 2}
    assert world.bucket().calls["remove_versions"] == 0


def test_a_hold_that_is_placed_while_versions_are_being_found_keeps_them() -> None:
    """It is newer than what the worker had read of holds before the listing, and as new as its look."""
    world = a_world()
    history(world, "app/a", " ".join(f"v{days}" for days in (50, 49, 48, 29.5)))
    for number in range(60):
        history(world, "app/a", f"v{29 - number / 10}")
    bucket = world.bucket()
    bucket.most = 2
    answer = world.trigger(POLICY, at=START)
    slow(world, 1.0, after=20, then=lambda: world.stopping().hold("s3://logs/app/", "wanted", "ada"))
    world.settle()
    assert tally(world, world.run(answer).run_id) == {"skipped:held": 2}
    assert bucket.calls["remove_versions"] == 0


def slow(world: World, seconds: float, after: int = -1, then: Callable[[], object] = lambda: None) -> None:
    """Let each listing take so long; something happens after some of them."""
    bucket = world.bucket()
    real = bucket.list_versions

    def listed(*arguments: object, **named: object) -> object:
        nonlocal after
        world.clock.advance(seconds)
        after -= 1
        if after == 0:
            then()
        return real(*arguments, **named)  # type: ignore[arg-type]

    bucket.list_versions = listed  # type: ignore[method-assign, assignment]

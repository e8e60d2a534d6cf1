"""A job that cannot be done whole is tried apart, until only what is really broken is dead."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.integration.crashing import LastingWorld
from tests.integration.given import BROKEN, DENIED, PART, UNSURE, keys, planned
from tests.integration.seen import job, states, tally


def closed(world: LastingWorld) -> dict[str, int]:
    world.settle()
    run = world.run({"run_id": world.run_id})
    assert run.balanced
    return tally(world, world.run_id)


def until(world: LastingWorld, state: str, seq: str = "00000000") -> None:
    while job(world, world.run_id, seq).state != state:
        world.work()
        world.tick()
        world.clock.advance(60)


# a poison


def test_a_job_that_crashed_twice_becomes_at_most_twenty_ranges() -> None:
    world = planned(100)
    world.troubled.poison = {"app/050"}
    until(world, "succeeded")
    parent = job(world, world.run_id)
    children = [each for each in world.ledger.jobs(world.run_id) if each.seq != parent.seq]
    assert len(children) == 20
    assert parent.counts == {}
    assert parent.items_split_off == 0, "ranges of a crashed job do not count towards the twenty items"
    assert [(child.start, child.end) for child in children] == [(n, n + 5) for n in range(0, 100, 5)]
    for child in children:
        assert child.maybe_done
        assert child.first_claim_at == parent.first_claim_at
        assert child.dispatch_due is not None


@pytest.mark.parametrize("items", [2, 7, 100])
def test_only_the_poisonous_item_dies(items: int) -> None:
    world = planned(items)
    world.troubled.poison = {"app/001"}
    assert closed(world) == {"deleted": items - 1, "dead:no_record": 1}
    assert world.bucket().keys() == ["app/001"]


def test_two_poisonous_items_die_each_alone() -> None:
    world = planned(50)
    world.troubled.poison = {"app/003", "app/004"}
    assert closed(world) == {"deleted": 48, "dead:no_record": 2}
    dead = [each for each in world.ledger.jobs(world.run_id) if each.state == "dead"]
    assert [(each.first_key, each.open_items) for each in dead] == [("app/003", 1), ("app/004", 1)]


def test_a_poison_that_is_a_single_item_job_is_not_split() -> None:
    world = planned(1)
    world.troubled.poison = {"app/000"}
    assert closed(world) == {"dead:no_record": 1}
    assert states(world, world.run_id) == {"00000000": "dead"}


def test_what_was_done_before_the_crashes_is_not_done_again() -> None:
    """The first attempt removes what it can; the poison is found later."""
    world = planned(30)
    world.bucket().failures.update(dict.fromkeys(keys(10), BROKEN))
    world.work()
    world.bucket().failures.clear()
    world.troubled.poison = {"app/001"}
    assert closed(world) == {"deleted": 29, "dead:no_record": 1}
    parent = job(world, world.run_id)
    assert parent.counts == {"deleted": 20}
    children = [each for each in world.ledger.jobs(world.run_id) if each.seq != parent.seq]
    assert sum(each.count for each in children) == 10
    assert all(each.inherited_files == parent.outcome_files for each in children)


def test_a_crashed_job_whose_part_is_gone_ends_too() -> None:
    world = planned(10)
    world.troubled.poison = set(keys(10))
    until(world, "ready")
    while job(world, world.run_id).no_records < 2:
        world.work()
        world.tick()
        world.clock.advance(60)
    del world.evidence.files[job(world, world.run_id).part_key]
    for _ in range(60):
        world.work()
        world.tick()
        world.clock.advance(60)
    dead = job(world, world.run_id)
    assert (dead.state, dead.reason, dead.attempt) == ("dead", "evidence_altered", 4)


def test_a_transient_failure_while_splitting_is_tried_again() -> None:
    world = planned(10)
    world.troubled.poison = {"app/001"}
    while job(world, world.run_id).no_records < 2:
        world.trace.calm()
        world.work()
        world.tick()
        world.clock.advance(60)
    world.trace.calm()
    world.trace.lose_request(PART)
    assert closed(world) == {"deleted": 9, "dead:no_record": 1}


# items that fail for good


def test_each_item_that_fails_for_good_leaves_for_a_row_of_its_own() -> None:
    world = planned(30)
    world.bucket().failures.update({"app/003": DENIED, "app/017": DENIED})
    world.work()
    parent = job(world, world.run_id)
    assert (parent.state, parent.counts, parent.items_split_off) == ("succeeded", {"deleted": 28}, 2)
    assert closed(world) == {"deleted": 28, "dead:AccessDenied": 2}
    assert states(world, world.run_id) == {
        "00000000": "succeeded",
        "00000000.0003": "dead",
        "00000000.0017": "dead",
    }


def test_the_rest_is_tried_again_without_those_that_left() -> None:
    world = planned(5)
    world.bucket().failures["app/003"] = DENIED
    world.troubled.flaky["app/001"] = [BROKEN]
    world.work()
    parent = job(world, world.run_id)
    assert (parent.state, parent.open_items, parent.items_split_off) == ("ready", 1, 1)
    assert closed(world) == {"deleted": 4, "dead:AccessDenied": 1}


def test_an_item_that_left_keeps_the_unknown_effect_of_the_attempt() -> None:
    world = planned(5)
    world.bucket().failures["app/003"] = DENIED
    world.troubled.flaky["app/001"] = [UNSURE]
    world.work()
    assert job(world, world.run_id, "00000000.0003").maybe_done
    assert closed(world) == {"deleted": 4, "dead:AccessDenied": 1}


def test_twenty_items_may_leave() -> None:
    world = planned(30)
    world.bucket().failures.update(dict.fromkeys(keys(20), DENIED))
    assert closed(world) == {"deleted": 10, "dead:AccessDenied": 20}
    assert len(states(world, world.run_id)) == 21


def test_at_the_twenty_first_the_job_dies_whole_with_the_outcomes_it_reached() -> None:
    world = planned(30)
    world.bucket().failures.update(dict.fromkeys(keys(21), DENIED))
    assert closed(world) == {"deleted": 9, "dead:AccessDenied": 21}
    assert states(world, world.run_id) == {"00000000": "dead"}


def test_the_twenty_are_counted_over_a_life() -> None:
    world = planned(40)
    world.bucket().failures.update(dict.fromkeys(keys(15), DENIED))
    world.troubled.flaky.update({key: [BROKEN] for key in keys(40)[15:]})
    world.work()
    assert job(world, world.run_id).items_split_off == 15
    world.bucket().failures.update(dict.fromkeys(keys(40)[15:21], DENIED))
    world.clock.advance(timedelta(minutes=1))
    while world.work():
        pass
    parent = job(world, world.run_id)
    assert (parent.state, parent.open_items, parent.counts) == ("dead", 6, {"deleted": 19})
    assert closed(world) == {"deleted": 19, "dead:AccessDenied": 21}


def test_a_child_sorts_after_its_parent_and_names_its_first_index() -> None:
    world = planned(30, job_size=10)
    world.bucket().failures.update({"app/003": DENIED, "app/013": DENIED})
    world.settle()
    assert list(states(world, world.run_id)) == [
        "00000000",
        "00000000.0003",
        "00000001",
        "00000001.0003",
        "00000002",
    ]

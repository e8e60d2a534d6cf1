"""An undo brings back exactly what a run took, and leaves alone whatever was written since."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from sexton import archive, showing, verifying
from sexton.errors import BadRunId, Failure, NotAllowed, ReasonClass, UnknownRun
from sexton.job import JobState
from sexton.policy import Policy
from sexton.run import Run, RunId, RunState
from sexton.undoing import UndoStarted

from tests.fakes.time import START
from tests.fakes.world import World, policy, purge_policy
from tests.integration.histories import history
from tests.integration.seen import ends, job, states, tally

OLD = [f"app/{number}" for number in range(7)]
RUN, UNDO = "logs-expire.20260301T120000Z.1", "logs-expire.20260301T120000Z.u1"
REASON, PERSON = "the prefix was wrong", "arn:aws:iam::123456789012:user/mia"
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")


def rule(**changes: object) -> Policy:
    """Parts of three items, in a bucket whose versions take a deletion back."""
    return policy(**{"recovery": "versioning", "job_size": 3, "limits": {"max_items": 1000}, **changes})


def a_world(keys: list[str] | None = None, **changes: object) -> World:
    """A closed run that deleted seven objects."""
    world = World({"logs-expire": rule(**changes)}, versioning="Enabled")
    world.fill(OLD if keys is None else keys)
    world.trigger(at=START)
    world.settle()
    return world


def undo(world: World, run_id: str = RUN) -> UndoStarted:
    return world.undoing().undo(run_id, REASON, PERSON)


def undone(world: World, run_id: str = RUN) -> Run:
    """Undo a run, and let the undo come to its end."""
    started = undo(world, run_id)
    world.settle()
    run = world.run({"run_id": started.run_id})
    assert run.balanced
    return run


def refusal(world: World, run_id: str = RUN) -> str:
    """The code under which an undo is refused; then nothing is changed."""
    before = dict(world.table.rows)
    with pytest.raises(NotAllowed) as caught:
        undo(world, run_id)
    assert world.table.rows == before
    return caught.value.code


# what comes back


def test_everything_comes_back_as_it_was() -> None:
    world = a_world()
    before = {key: world.bucket().versions[key][0] for key in OLD}
    assert world.bucket().keys() == []

    run = undone(world)

    assert world.bucket().keys() == OLD
    assert {key: world.bucket().versions[key] for key in OLD} == {key: [before[key]] for key in OLD}
    assert (run.run_id, run.state, run.undoes, run.planned) == (UNDO, RunState.COMPLETED, RUN, 7)
    assert tally(world, UNDO) == {"deleted": 7}


def test_the_plan_names_each_marker_by_its_id() -> None:
    world = a_world(["app/a", "app/b"])
    markers = {key: world.bucket().version_ids(key)[0] for key in ("app/a", "app/b")}

    undone(world)

    lines = [json.loads(line) for line in world.evidence.files[job(world, UNDO).part_key].splitlines()]
    assert {line["key"]: line["version_id"] for line in lines} == markers
    assert {line["delete_marker"] for line in lines} == {"current"}
    outcomes = world.evidence.files[job(world, UNDO).outcome_files[0]].splitlines()
    assert {json.loads(line)["version_id"] for line in outcomes} == set(markers.values())


def test_one_part_for_each_job_that_placed_markers() -> None:
    world = a_world()

    undone(world)

    assert [each.count for each in world.ledger.jobs(UNDO)] == [3, 3, 1]


def test_what_was_written_since_is_left_alone() -> None:
    world = a_world()
    newer = world.bucket().put("app/1", b"new")

    undone(world)

    assert world.bucket().current("app/1") == newer
    assert world.bucket().markers("app/1") == 1
    assert tally(world, UNDO) == {"deleted": 6, "skipped:changed": 1}


def test_what_was_written_and_deleted_since_is_left_alone() -> None:
    world = a_world()
    world.bucket().put("app/1", b"new")
    world.bucket().delete("app/1")

    undone(world)

    assert world.bucket().current("app/1") is None
    assert world.bucket().markers("app/1") == 2
    assert tally(world, UNDO)["skipped:changed"] == 1


@pytest.mark.parametrize("then", [lambda world: None, lambda world: world.bucket().put("app/1", b"new")])
def test_a_marker_that_somebody_removed_is_absent(then: Callable[[World], object]) -> None:
    world = a_world()
    marker, old = world.bucket().version_ids("app/1")
    world.bucket().delete_version("app/1", marker)
    then(world)

    undone(world)

    assert tally(world, UNDO) == {"deleted": 6, "skipped:absent": 1}
    assert old in world.bucket().version_ids("app/1")


def test_a_marker_with_nothing_behind_it_brings_nothing_back() -> None:
    world = a_world()
    marker, old = world.bucket().version_ids("app/1")
    world.bucket().delete_version("app/1", old)

    undone(world)

    assert world.bucket().version_ids("app/1") == [marker]
    assert tally(world, UNDO) == {"deleted": 6, "skipped:nothing_behind": 1}


def test_what_a_lost_reply_left_is_not_undone() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(["app/a", "app/b"])
    world.bucket().fail_next("remove", UNSURE)
    world.trigger(at=START)
    world.settle()
    assert tally(world, RUN) == {"deleted:absent_after_attempt": 2}

    assert refusal(world) == "nothing_to_undo"


def test_proven_markers_come_back_beside_unproven_ones() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.bucket().fail_next("remove", UNSURE)  # of the first job
    world.trigger(at=START)
    world.settle()

    run = undone(world)

    assert world.bucket().keys() == OLD[3:]
    assert run.scanned == {"placed": 4, "unproven": 3}


def test_a_marker_placed_while_versioning_was_suspended_hides_nothing_that_could_come_back() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)
    world.work(2)
    world.bucket().state = "Suspended"
    world.settle()
    assert world.bucket().version_ids("app/6")[0] == "null"

    run = undone(world)

    assert world.bucket().keys() == OLD[:6]
    assert run.scanned == {"placed": 6, "unproven": 1}


def test_an_invalidated_run_is_undone_as_far_as_it_came() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)
    world.work(1)
    world.stopping().invalidate(RUN, REASON, PERSON)
    world.settle()
    assert len(world.bucket().keys()) == 4

    undone(world)

    assert world.bucket().keys() == OLD


@pytest.mark.parametrize("restored", [False, True])
def test_receipts_that_name_an_object_s_version_remove_nothing(restored: bool) -> None:
    """Only delete markers ever go, whatever a receipt says."""
    world = a_world(["app/a"])
    marker, version = world.bucket().version_ids("app/a")
    if restored:
        world.bucket().delete_version("app/a", marker)
    (file,) = job(world, RUN).outcome_files
    world.evidence.files[file] = world.evidence.files[file].replace(marker.encode(), version.encode())

    undone(world)

    assert tally(world, UNDO) == {"skipped:changed": 1}
    assert version in world.bucket().version_ids("app/a")


def test_a_version_written_between_the_look_and_the_removal_stays() -> None:
    world = a_world(["app/a"])
    undo(world)
    world.tick()
    world.trace.calm()
    world.trace.at(6, lambda: world.bucket().put("app/a", b"new"))
    world.work()
    assert world.trace.names[5] == "bucket.remove_versions"

    world.settle()

    newer, old = world.bucket().version_ids("app/a")
    assert world.bucket().current("app/a") == world.bucket().versions["app/a"][1].item
    assert newer != old
    assert world.bucket().markers("app/a") == 0


def test_a_lost_reply_of_a_removal_is_no_proof_of_a_restoration() -> None:
    world = a_world()
    world.bucket().fail_next("remove_versions", UNSURE)

    undone(world)

    assert world.bucket().keys() == OLD
    assert tally(world, UNDO) == {"deleted": 4, "deleted:absent_after_attempt": 3}


def test_a_missing_right_halts_the_undo_and_it_goes_on_once_that_is_mended() -> None:
    world = a_world()
    world.bucket().failures = dict.fromkeys(OLD, DENIED)
    undo(world)
    for _ in range(3):
        world.tick()
        world.work()
        world.clock.advance(60)
    assert world.run({"run_id": UNDO}).state is RunState.HALTED

    world.bucket().failures = {}
    world.stopping().resume_run(UNDO, REASON, PERSON)
    world.settle()

    assert world.bucket().keys() == OLD


def test_a_key_that_xml_cannot_carry_comes_back() -> None:
    world = a_world(["app/a", "app/b\x01", "app/c"])

    undone(world)

    assert world.bucket().keys() == ["app/a", "app/b\x01", "app/c"]


def test_keys_far_apart_are_looked_at_one_by_one() -> None:
    world = a_world()
    world.undoing().undo(RUN, REASON, PERSON)
    world.tick()
    for row in world.table.rows.values():
        if row.get("run_id") == UNDO and "span" in row:
            row["span"] = 1_000_000
    world.bucket().put("app/1", b"new")
    for number in range(3):  # a key with many versions, and others that begin like it
        world.bucket().put(f"app/0{number}")

    world.settle()

    assert tally(world, UNDO) == {"deleted": 6, "skipped:changed": 1}


def test_a_range_that_grew_dense_is_looked_at_one_by_one() -> None:
    world = a_world()
    world.bucket().most = 2
    for number in range(40):
        world.bucket().put(f"app/1/{number:02d}")

    undone(world)

    assert tally(world, UNDO) == {"deleted": 7}


# the next run, and the holds


def test_the_next_run_skips_what_came_back_as_held() -> None:
    world = a_world()
    started = undo(world)
    world.settle()

    second = str(world.trigger(at=START + timedelta(hours=1))["run_id"]) if world.clock.advance(7200) else ""
    world.settle()

    assert started.held == ("s3://logs/app/",)
    assert tally(world, second) == {"skipped:held": 7}
    assert world.bucket().keys() == OLD


def test_once_the_hold_is_released_the_next_run_removes_again() -> None:
    world = a_world()
    undone(world)
    world.clock.advance(3600)
    world.stopping().release("s3://logs/app/", REASON, PERSON)

    second = str(world.trigger(at=START + timedelta(hours=1))["run_id"])
    world.settle()

    assert tally(world, second) == {"deleted": 7}


def test_a_hold_names_its_undo() -> None:
    world = a_world()
    undo(world)

    (hold,) = world.ledger.controls().holds

    assert (hold.scope, hold.active, hold.run_id, hold.actor, hold.reason) == (
        "s3://logs/app/",
        True,
        UNDO,
        PERSON,
        REASON,
    )


def test_a_hold_that_stands_already_is_no_obstacle() -> None:
    world = a_world()
    world.stopping().hold("s3://logs/app/", "audit", PERSON)

    undone(world)

    assert world.bucket().keys() == OLD
    assert [hold.run_id for hold in world.ledger.controls().holds] == [UNDO]


def many_prefixes(number: int) -> World:
    source = {"kind": "s3", "bucket": "logs", "prefixes": [f"app/{each:03d}/" for each in range(number)]}
    return a_world(["app/000/a"], source=source)


def test_as_many_holds_as_a_transaction_takes() -> None:
    world = many_prefixes(97)

    started = undo(world)

    assert len(started.held) == len(world.ledger.controls().holds) == 97


def test_more_prefixes_than_that_need_a_hold_that_covers_them() -> None:
    world = many_prefixes(98)

    assert refusal(world) == "too_many_prefixes"

    world.stopping().hold("s3://logs/", "to undo", PERSON)
    undone(world)
    assert world.bucket().keys() == ["app/000/a"]
    assert len(world.ledger.controls().holds) == 1


# what stands above it


def test_an_undo_goes_on_under_a_changed_policy() -> None:
    world = a_world()
    world.policies["logs-expire"] = rule(retain="P90D")
    world.tick()

    undone(world)

    assert world.bucket().keys() == OLD


def test_an_undo_goes_on_when_its_policy_is_withdrawn() -> None:
    world = a_world()
    undo(world)
    del world.policies["logs-expire"]

    world.settle()

    assert world.bucket().keys() == OLD
    run = world.run({"run_id": UNDO})
    assert (run.state, run.mismatch_since) == (RunState.COMPLETED, None)


def test_an_undo_waits_for_no_approval_and_knows_no_limits() -> None:
    world = World({"logs-expire": rule(approval="always")}, versioning="Enabled")
    world.policies["logs-expire"] = rule()
    world.fill(OLD)
    world.trigger(at=START)
    world.settle()
    world.policies["logs-expire"] = rule(approval="always", limits={"max_items": 1, "max_share": 0.1})

    assert undone(world).state is RunState.COMPLETED


def test_a_pause_stops_an_undo_too_and_its_holds_stand_meanwhile() -> None:
    world = a_world()
    world.stopping().pause("logs-expire", REASON, PERSON)

    started = undo(world)
    for _ in range(5):
        world.tick()
        world.work()
        world.clock.advance(60)

    assert started.paused == "logs-expire"
    assert world.bucket().keys() == []
    assert world.ledger.controls().hold_on("s3://logs/app/0")

    world.stopping().resume("logs-expire", REASON, PERSON)
    world.settle()
    assert world.bucket().keys() == OLD


def test_an_undo_can_be_invalidated() -> None:
    world = a_world()
    undo(world)
    world.tick()
    world.stopping().invalidate(UNDO, REASON, PERSON)
    world.settle()

    assert tally(world, UNDO) == {"cancelled": 7}
    assert world.bucket().keys() == []
    assert undone(world).run_id == "logs-expire.20260301T120000Z.u2"
    assert world.bucket().keys() == OLD


def test_a_trigger_is_skipped_while_an_undo_is_open() -> None:
    world = a_world()
    undo(world)
    world.clock.advance(60)

    assert world.trigger()["skipped"]


# what is refused


def test_an_open_run_is_not_undone() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)

    assert refusal(world) == "not_closed"


def test_a_bucket_without_versions_keeps_nothing_to_bring_back() -> None:
    world = World({"logs-expire": rule(recovery="none")})
    world.fill(OLD)
    world.trigger(at=START)
    world.settle()

    assert refusal(world) == "not_versioned"


def test_a_purge_is_for_good() -> None:
    world = World({"versions-purge": purge_policy()}, versioning="Enabled")
    history(world, "app/a", "v90 v80")
    world.trigger("versions-purge", at=START)
    world.settle()

    assert refusal(world, "versions-purge.20260301T120000Z.1") == "not_expire"


@pytest.mark.parametrize(
    "deployed",
    [
        [rule(mode="report")],
        [rule(recovery="none")],
        [rule(id="other", source={"kind": "s3", "bucket": "logs", "prefixes": ["app/0/"]})],
        [rule(source={"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "account": "123456789012"})],
        [],
    ],
)
def test_without_the_right_to_remove_markers_there_is_no_undo(deployed: list[Policy]) -> None:
    world = a_world()
    world.policies.clear()
    world.policies.update({each.id: each for each in deployed})

    assert refusal(world) == "not_permitted"


def test_another_policy_that_covers_its_prefixes_lends_the_right() -> None:
    world = a_world()
    world.policies.clear()
    world.policies["wide"] = rule(
        id="wide", source={"kind": "s3", "bucket": "logs", "prefixes": ["ap"], "raw_prefix": True}
    )

    undone(world)

    assert world.bucket().keys() == OLD


def test_an_undo_is_not_undone() -> None:
    world = a_world()
    undone(world)

    assert refusal(world, UNDO) == "is_undo"


def test_a_run_is_not_undone_twice_at_once() -> None:
    world = a_world()
    undo(world)

    assert refusal(world) == "undo_open"


def test_a_run_of_which_nothing_was_deleted_is_not_undone() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)
    for key in OLD:
        world.bucket().delete(key)
    world.settle()

    assert refusal(world) == "nothing_to_undo"


def test_another_open_run_of_the_policy_comes_first() -> None:
    world = a_world()
    world.fill(["app/x"])
    world.clock.advance(60)
    world.trigger()

    assert refusal(world) == "run_open"


def test_a_run_that_nobody_knows() -> None:
    with pytest.raises(UnknownRun):
        undo(a_world(), "logs-expire.20260301T120000Z.7")
    with pytest.raises(BadRunId):
        undo(a_world(), "logs-expire")


# its record


def test_both_runs_name_the_other_and_who_asked_for_it() -> None:
    world = a_world()
    undone(world)

    taken_back, taking_back = (world.run({"run_id": each}) for each in (RUN, UNDO))

    assert (taken_back.undone_by, taking_back.undoes) == ((UNDO,), RUN)
    changes = [(each.change, each.actor, each.reason) for each in (*taken_back.changes, *taking_back.changes)]
    assert changes == [("undone", PERSON, REASON), ("started", PERSON, REASON)]
    assert taking_back.started_by == PERSON


def test_a_second_undo_has_a_number_of_its_own_and_both_are_listed_behind_the_run() -> None:
    world = a_world()
    undone(world)
    second = undone(world)

    assert second.run_id == "logs-expire.20260301T120000Z.u2"
    assert tally(world, second.run_id) == {"skipped:absent": 7}
    assert [run.run_id for run in showing.runs(world.ledger)] == [second.run_id, UNDO, RUN]
    assert [run.run_id for run in world.ledger.issues("logs-expire", START)] == [RUN]


def test_an_undo_is_no_issue_of_its_time() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)
    world.work(1)
    world.stopping().invalidate(RUN, REASON, PERSON)
    world.settle()
    undone(world)

    again = world.trigger(at=START, reissue=True)

    assert again["run_id"] == "logs-expire.20260301T120000Z.2"


def test_an_undo_can_be_verified() -> None:
    world = a_world()
    undone(world)

    verdict = verifying.verify(world.evidence, UNDO)

    assert (verdict.differences, verdict.planned, verdict.holds) == ((), 7, True)


def test_a_forged_marker_in_the_plan_of_an_undo_is_found() -> None:
    world = a_world()
    undone(world)
    kept = archive.newest_revision(world.evidence, RUN)
    books = f"runs/{RUN}/books-{kept}.ndjson.gz"
    world.evidence.files[books] = b"\n".join(world.evidence.files[books].splitlines()[1:]) + b"\n"

    verdict = verifying.verify(world.evidence, UNDO)

    assert not verdict.holds
    assert any("no job of" in text for text in verdict.differences)


# planning


def test_planning_goes_on_where_it_stopped() -> None:
    world = a_world()
    undo(world)
    for _ in range(4):  # an invocation has time for one job
        world.discover({"resume": UNDO}, lambda: timedelta(seconds=29))
    world.settle()

    assert world.bucket().keys() == OLD
    assert world.run({"run_id": UNDO}).scanned == {"placed": 7}
    assert states(world, UNDO) == dict.fromkeys(["00000000", "00000001", "00000002"], JobState.SUCCEEDED)


def test_receipts_that_were_altered_bring_nothing_back() -> None:
    world = a_world()
    undo(world)
    file = job(world, RUN).outcome_files[0]
    world.evidence.files[file] = b"no outcome\n"

    world.settle()

    run = world.run({"run_id": UNDO})
    assert (run.state, run.reason) == (RunState.INVALIDATED, "receipts_altered")
    assert world.bucket().keys() == []


def test_an_undo_of_a_run_that_is_leaving_the_ledger_is_refused_whole() -> None:
    world = a_world()
    undo(world)
    world.table.delete(job(world, RUN, "00000001").key)

    world.settle()

    run = world.run({"run_id": UNDO})
    assert (run.state, run.reason) == (RunState.INVALIDATED, "receipts_gone")
    assert world.bucket().keys() == []


def test_split_jobs_have_receipts_of_their_own() -> None:
    world = World({"logs-expire": rule(job_size=7)}, versioning="Enabled")
    world.fill(OLD)
    world.bucket().failures = {"app/3": DENIED}
    world.trigger(at=START)
    world.settle()
    assert len(states(world, RUN)) == 2

    undone(world)

    assert world.bucket().keys() == OLD


# preview


def test_a_preview_says_what_would_come_back_and_changes_nothing() -> None:
    world = a_world()
    world.tick()
    world.bucket().put("app/1", b"new")
    marker, _ = world.bucket().version_ids("app/2")
    world.bucket().delete_version("app/2", marker)
    _, old = world.bucket().version_ids("app/3")
    world.bucket().delete_version("app/3", old)
    rows, files = dict(world.table.rows), dict(world.evidence.files)
    world.bucket().calls.clear()

    found = world.previewing().preview(RUN)

    assert (found.restored.count, found.restored.first) == (4, ("app/0", "app/4", "app/5", "app/6"))
    assert {name: (kind.count, kind.first) for name, kind in found.left.items()} == {
        "absent": (1, ("app/2",)),
        "changed": (1, ("app/1",)),
        "nothing_behind": (1, ("app/3",)),
    }
    assert found.holds == ("s3://logs/app/",)
    assert (world.table.rows, world.evidence.files) == (rows, files)
    assert set(world.bucket().calls) == {"list_versions"}


def test_a_preview_counts_what_the_run_had_not_deleted() -> None:
    world = World({"logs-expire": rule()}, versioning="Enabled")
    world.fill(OLD)
    world.trigger(at=START)
    world.bucket().put("app/6", b"new")
    world.bucket().fail_next("remove", UNSURE)
    world.settle()

    found = world.previewing().preview(RUN)

    assert {name: kind.count for name, kind in found.left.items()} == {"not_deleted": 1, "unproven": 3}
    assert found.restored.count == 3


def test_what_is_previewed_is_what_is_done() -> None:
    world = a_world()
    world.bucket().put("app/1", b"new")
    world.tick()

    found = world.previewing().preview(RUN)
    undone(world)

    restored = [key for key, names in ends(world, UNDO).items() if names == ["deleted"]]
    assert found.restored.count == len(restored)


def test_a_preview_is_refused_as_the_undo_is() -> None:
    world = a_world()
    world.policies["logs-expire"] = rule(mode="report")
    world.tick()

    with pytest.raises(NotAllowed) as caught:
        world.previewing().preview(RUN)
    assert caught.value.code == "not_permitted"


# ids


@pytest.mark.parametrize("text", [UNDO, "a1.20260301T120000Z.u9999", RUN])
def test_ids_are_read_as_they_are_written(text: str) -> None:
    assert str(RunId.parse(text)) == text


@pytest.mark.parametrize("text", ["a1.20260301T120000Z.u", "a1.20260301T120000Z.u0", "a1.20260301T120000Z.U1"])
def test_what_is_no_id_of_an_undo(text: str) -> None:
    with pytest.raises(ValueError, match="is no run id"):
        RunId.parse(text)

"""What a plan holds, where it stands in evidence, and how it goes on after anything that interrupts it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.part import read
from sexton.planning import RESERVE
from sexton.policy import Policy
from sexton.run import Run
from sexton.run_transitions import PLANNER_LEASE

from tests.fakes.bucket import FakeBucket
from tests.fakes.recorder import Call, Crash
from tests.fakes.time import START
from tests.fakes.world import World, policy

YOUNG = timedelta(days=1)
MANY = 10_000  # limits.max_items where jobs are small: a plan has at most 99,999 parts
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "not authorized to perform s3:ListBucket")
SLOW_DOWN = Failure(ReasonClass.THROTTLED, "SlowDown", "reduce your request rate")


def small_jobs(size: int = 2, **changes: object) -> Policy:
    return policy(job_size=size, limits={"max_items": MANY}, **changes)


def scope(*prefixes: str) -> dict[str, object]:
    return {"kind": "s3", "bucket": "logs", "prefixes": list(prefixes)}


def world_of(chosen: Policy, versioning: str = "Unversioned") -> World:
    return World(policies={chosen.id: chosen}, versioning=versioning)


def parts(world: World, run: Run) -> list[list[Item]]:
    jobs = world.ledger.jobs(run.run_id)
    return [read(world.evidence.files[job.part_key], job.part_sha256) for job in jobs]


def planned_keys(world: World, run: Run) -> list[str]:
    return [item.key for items in parts(world, run) for item in items]


@dataclass
class Pages:
    """A function whose time lasts for so many pages."""

    left: int

    def __call__(self) -> timedelta:
        self.left -= 1
        return timedelta(minutes=10) if self.left >= 0 else RESERVE - timedelta(seconds=1)


# what is planned


def test_a_plan_of_more_than_a_page_holds_every_eligible_object_once_and_in_order() -> None:
    world = World()
    old = [f"app/{n:05d}" for n in range(2345)]
    world.fill(old)
    world.fill((f"app/{n:05d}" for n in range(2345, 3000)), age=YOUNG)
    run = world.run(world.trigger())
    assert planned_keys(world, run) == old
    assert run.scanned == {"expired": 2345, "younger": 655}
    assert [len(items) for items in parts(world, run)] == [1000, 1000, 345]


def test_pages_without_an_eligible_object_are_passed() -> None:
    world = World()
    world.fill(["app/00000"])
    world.fill((f"app/{n:05d}" for n in range(1, 3500)), age=YOUNG)
    world.fill(["app/99999"])
    run = world.run(world.trigger())
    assert planned_keys(world, run) == ["app/00000", "app/99999"]
    assert run.scanned == {"expired": 2, "younger": 3499}
    (job,) = world.ledger.jobs(run.run_id)
    assert job.span == 3501


def test_a_full_page_at_the_very_end_is_not_asked_for_again_in_vain() -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(2000))
    run = world.run(world.trigger())
    assert run.planned == 2000
    assert world.bucket().calls["list"] == 2


def test_nothing_outside_the_prefixes_is_listed_or_planned() -> None:
    world = World()
    world.fill(["ap", "app", "app-other/1", "app/1", "apq/1", "zoo/1"])
    run = world.run(world.trigger())
    assert planned_keys(world, run) == ["app/1"]
    assert run.scanned_total == 1


def test_several_prefixes_are_planned_in_order_and_no_part_reaches_over_two() -> None:
    world = world_of(policy(source=scope("b/", "a/", "c/empty/", "d/")))
    world.fill([f"{prefix}{n}" for prefix in ("a/", "b/", "c/full/", "d/") for n in range(3)])
    run = world.run(world.trigger())
    assert [[item.key for item in items] for items in parts(world, run)] == [
        ["a/0", "a/1", "a/2"],
        ["b/0", "b/1", "b/2"],
        ["d/0", "d/1", "d/2"],
    ]


@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 15), (7, [7, 7, 1]), (1000, [15])])
def test_job_size_cuts_the_plan(size: int, sizes: list[int]) -> None:
    world = world_of(small_jobs(size))
    world.fill(f"app/{n:02d}" for n in range(15))
    run = world.run(world.trigger())
    assert [len(items) for items in parts(world, run)] == sizes
    assert run.jobs == len(sizes)
    assert [job.job_id for job in world.ledger.jobs(run.run_id)] == [f"{run.run_id}.{n:08d}" for n in range(len(sizes))]


def test_dates_that_cannot_be_read_are_kept_and_counted() -> None:
    world = World()
    world.fill(["app/old"])
    world.bucket().place(Item("app/dateless", '"e"', 1, "STANDARD", None))
    answer = world.trigger()
    world.settle()
    assert world.run(answer).scanned == {"expired": 1, "unreadable_date": 1}
    assert world.bucket().keys() == ["app/dateless"]


def test_dates_in_keys_that_cannot_be_read_are_kept_and_counted() -> None:
    world = world_of(policy(age_from={"key_date": "dt=%Y-%m-%d"}))
    world.fill(["app/dt=2025-01-01/a", "app/dt=2025-02-30/b", "app/c", "app/dt=2026-02-27/d"])
    run = world.run(world.trigger())
    assert planned_keys(world, run) == ["app/dt=2025-01-01/a"]
    assert run.scanned == {"expired": 1, "unreadable_date": 2, "younger": 1}


def test_a_run_with_nothing_to_do_closes_with_balanced_books() -> None:
    world = World()
    world.fill(["app/young"], age=YOUNG)
    answer = world.trigger()
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced, run.planned, run.jobs) == ("completed", True, 0, 0)


# evidence


def test_plan_json_lists_the_parts_and_its_digest_can_be_recomputed_by_anybody() -> None:
    world = world_of(small_jobs(3))
    world.fill(f"app/{n}" for n in range(7))
    run = world.run(world.trigger())
    plan = json.loads(world.evidence.files[f"runs/{run.run_id}/plan.json"])
    assert (plan["run_id"], plan["policy"], plan["mode"]) == (run.run_id, "logs-expire", "enforce")
    assert (plan["scheduled_time"], plan["cutoff"]) == ("2026-03-01T12:00:00Z", "2026-01-30T12:00:00Z")
    assert (plan["planned"], plan["planned_bytes"], plan["scanned"]) == (7, 35, {"expired": 7})
    keys, hashes = [], []
    for number, part in enumerate(plan["parts"]):
        lines = world.evidence.files[part["key"]]
        hashes.append(hashlib.sha256(lines).hexdigest())
        items = [json.loads(line) for line in lines.splitlines()]
        keys += [item["key"] for item in items]
        assert part["sha256"] == hashes[-1]
        assert part["key"] == f"plans/{run.run_id}/{number:08d}-{hashes[-1]}.ndjson.gz"
        assert (part["count"], part["bytes"]) == (len(items), sum(item["size"] for item in items))
        assert (part["first_key"], part["last_key"]) == (items[0]["key"], items[-1]["key"])
    assert keys == [f"app/{n}" for n in range(7)]
    text = "\n".join(["sexton-plan-1", plan["policy_version"], plan["cutoff"], *hashes]) + "\n"
    assert plan["digest"] == run.digest == hashlib.sha256(text.encode()).hexdigest()


def test_the_plan_is_durable_before_anything_is_sent() -> None:
    world = World()
    world.fill(["app/1"])
    run = world.run(world.trigger())
    calls = [(str(call), call.args[:1]) for call in world.trace.calls]
    written = calls.index(("evidence.put_once", (f"runs/{run.run_id}/plan.json",)))
    assert written < world.trace.names.index("queue.send")


# going on after the time budget, a crash, another planner


def two_prefixes_of_pages() -> World:
    """Five pages of listing, of which two have nothing eligible."""
    world = world_of(policy(source=scope("a/", "b/"), job_size=300))
    world.fill(f"a/{n:05d}" for n in range(1300))
    world.fill((f"a/{n:05d}" for n in range(1300, 2900)), age=YOUNG)
    world.fill(f"b/{n:05d}" for n in range(1100))
    return world


def in_one_go() -> tuple[list[str], dict[str, int], int]:
    world = two_prefixes_of_pages()
    run = world.run(world.trigger())
    return planned_keys(world, run), run.scanned, run.planned_bytes


@pytest.mark.parametrize("pages", range(6))
def test_planning_stopped_by_its_time_after_any_page_goes_on_to_the_same_plan(pages: int) -> None:
    world = two_prefixes_of_pages()
    answer = world.discover({"policy": "logs-expire", "scheduled_time": "2026-03-01T12:00:00Z"}, Pages(pages))
    stopped = world.run(answer)
    assert stopped.planner_until is None or stopped.state != "planning"
    world.tick()
    run = world.run(answer)
    assert (planned_keys(world, run), run.scanned, run.planned_bytes) == in_one_go()
    world.settle()
    assert world.run(answer).balanced


def test_planning_a_page_or_two_at_a_time_comes_to_the_same_plan() -> None:
    world = two_prefixes_of_pages()
    answer = world.trigger(plan=False)
    invocations = 0
    while world.run(answer).state in ("planning", "planned"):
        world.discover({"resume": answer["run_id"]}, Pages(1))
        invocations += 1
    assert invocations >= 3
    run = world.run(answer)
    assert (planned_keys(world, run), run.scanned, run.planned_bytes) == in_one_go()


def three_parts() -> World:
    world = world_of(small_jobs())
    world.fill(f"app/{n}" for n in range(6))
    return world


def assert_planned_and_done_once(world: World, answer: dict[str, object]) -> None:
    run = world.run(answer)
    assert planned_keys(world, run) == [f"app/{n}" for n in range(6)]
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced, run.planned, run.scanned) == ("completed", True, 6, {"expired": 6})
    sent = [message.body for message in world.queue.sent]
    assert len(sent) == len(set(sent)) == 3


def plan_calls() -> int:
    world = three_parts()
    world.trigger()
    return world.trace.names.index("queue.send")


@pytest.mark.parametrize("nth", range(5, plan_calls() + 1))  # the run is there from the fourth call on
def test_a_planner_that_lost_its_lease_anywhere_loses_and_doubles_nothing(nth: int) -> None:
    """Another planner takes over just before any call of the first, which then goes on as if nothing were."""
    world = three_parts()

    def take_over() -> None:
        world.clock.advance(PLANNER_LEASE + timedelta(seconds=1))
        world.discover({"resume": "logs-expire.20260301T120000Z.1"})

    world.trace.at(nth, take_over)
    assert_planned_and_done_once(world, world.trigger())


def test_a_stale_planners_transaction_is_refused_as_a_whole() -> None:
    world = three_parts()
    answer = world.trigger(plan=False)
    after: dict[str, object] = {}

    def take_over() -> None:
        world.clock.advance(PLANNER_LEASE + timedelta(seconds=1))
        world.discover({"resume": answer["run_id"]}, Pages(0))  # plans all, and lays the lease down
        after.update(rows=len(world.table.rows), run=world.run(answer))

    world.trace.calm()
    world.trace.at([str(call) for call in calls_of_a_resume()].index("table.transact") + 1, take_over)
    world.discover({"resume": answer["run_id"]}, Pages(0))
    assert after == {"rows": len(world.table.rows), "run": world.run(answer)}


def calls_of_a_resume() -> list[Call]:
    world = three_parts()
    answer = world.trigger(plan=False)
    world.trace.calm()
    world.discover({"resume": answer["run_id"]})
    return world.trace.calls


def test_a_planner_that_dies_between_part_and_row_repeats_the_part_under_the_same_key() -> None:
    world = three_parts()
    nth = second_part_of_a_plan()
    world.trace.crash_after(nth)
    with pytest.raises(Crash):
        world.trigger()
    written = [key for key in world.evidence.files if key.startswith("plans/")]
    assert len(written) == 2
    assert len(list(world.ledger.jobs("logs-expire.20260301T120000Z.1"))) == 1
    world.clock.advance(PLANNER_LEASE + timedelta(seconds=1))
    world.tick()
    assert set(written) < {key for key in world.evidence.files if key.startswith("plans/")}
    assert len([key for key in world.evidence.files if key.startswith("plans/")]) == 3
    assert_planned_and_done_once(world, {"run_id": "logs-expire.20260301T120000Z.1"})


def test_a_part_whose_objects_changed_before_the_repeat_is_left_behind_and_not_in_the_plan() -> None:
    world = three_parts()
    nth = second_part_of_a_plan()
    world.trace.crash_after(nth)
    with pytest.raises(Crash):
        world.trigger()
    world.bucket().delete("app/3")
    world.clock.advance(PLANNER_LEASE + timedelta(seconds=1))
    world.tick()
    run = world.run({"run_id": "logs-expire.20260301T120000Z.1"})
    assert planned_keys(world, run) == ["app/0", "app/1", "app/2", "app/4", "app/5"]
    world.settle()
    assert world.run({"run_id": run.run_id}).balanced


def second_part_of_a_plan() -> int:
    world = three_parts()
    world.trigger()
    is_part = [str(call) == "evidence.put_once" and "plans/" in str(call.args[0]) for call in world.trace.calls]
    return [place for place, part in enumerate(is_part, 1) if part][1]


def test_planning_that_ends_in_a_failed_call_leaves_no_lease_behind() -> None:
    world = three_parts()
    world.bucket().fail_next("list", Failure(ReasonClass.TRANSIENT, "ServiceUnavailable", "try later"))
    with pytest.raises(CallFailed):
        world.trigger()
    answer = {"run_id": "logs-expire.20260301T120000Z.1"}
    assert world.run(answer).planner_until is None
    world.discover({"resume": answer["run_id"]})  # at once
    assert world.run(answer).planned == 6


def test_a_listing_slower_than_the_planners_lease_keeps_the_lease() -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(200))
    world.fill((f"app/{n:05d}" for n in range(200, 6000)), age=YOUNG)
    slow = _SlowListing(world, timedelta(seconds=65))
    answer = world.trigger()
    assert slow.others == ["planning"] * 6  # every other planner found the lease taken
    assert world.run(answer).planned == 200


class _SlowListing:
    """Lets each LIST take its time, and another planner try to take over meanwhile."""

    def __init__(self, world: World, each: timedelta) -> None:
        self.others: list[object] = []
        bucket, real = world.bucket(), world.bucket().list

        def slowly(prefix: str, start_after: str = "", limit: int = 1000) -> object:
            world.clock.advance(each)
            bucket.list = real  # type: ignore[method-assign]
            self.others.append(world.discover({"resume": "logs-expire.20260301T120000Z.1"})["state"])
            bucket.list = slowly  # type: ignore[method-assign, assignment]
            return real(prefix, start_after, limit)

        bucket.list = slowly  # type: ignore[method-assign, assignment]


# a source that cannot be planned as the policy says


def refused(world: World) -> Run:
    """The run of a trigger that must end without a plan, closed, with the slot free."""
    answer = world.trigger()
    assert answer["state"] == "invalidated"
    world.settle()
    run = world.run(answer)
    assert (run.closed, run.balanced, run.planned) == (True, True, 0)
    assert "open_run" not in world.ledger.policy("logs-expire")
    assert {"bucket.remove", "queue.send"}.isdisjoint(world.trace.names)
    return run


def test_a_bucket_with_suspended_versioning_is_refused() -> None:
    world = World(versioning="Suspended")
    world.fill(["app/1"])
    run = refused(world)
    assert run.reason == "versioning_suspended"
    assert "enable versioning" in str(run.message)
    assert "bucket.list" not in world.trace.names


def test_recovery_by_versioning_is_refused_on_a_bucket_that_has_none() -> None:
    world = world_of(policy(recovery="versioning"))
    world.fill(["app/1"])
    assert refused(world).reason == "recovery_unavailable"


def test_recovery_by_versioning_is_taken_on_a_versioned_bucket() -> None:
    world = world_of(policy(recovery="versioning"), versioning="Enabled")
    world.fill(["app/1"])
    answer = world.trigger()
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced, run.versioned) == ("completed", True, True)
    assert world.bucket().markers("app/1") == 1


def test_a_missing_bucket_is_refused_by_name() -> None:
    world = World()
    world.bucket().missing = True
    run = refused(world)
    assert run.reason == "source_refused"
    assert "NoSuchBucket" in str(run.message)


@pytest.mark.parametrize("method", ["versioning", "list"])
def test_a_missing_permission_is_refused_by_name(method: str) -> None:
    world = World()
    world.fill(["app/1"])
    world.bucket().fail_next(method, DENIED)
    run = refused(world)
    assert run.reason == "source_refused"
    assert "AccessDenied" in str(run.message)
    assert world.bucket().keys() == ["app/1"]


def test_a_permission_lost_half_way_leaves_the_parts_cancelled_and_the_books_balanced() -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(2500))
    bucket = world.bucket()
    world.trace.before[12] = lambda _: bucket.fail_next("list", DENIED)  # after the first page
    answer = world.trigger()
    assert answer["state"] == "invalidated"
    world.settle()
    run = world.run(answer)
    report = json.loads(world.evidence.files[f"runs/{run.run_id}/report-1.json"])
    assert (run.closed, run.balanced, report["cancelled"]) == (True, True, run.planned)
    assert run.planned >= 1000
    assert len(bucket.keys()) == 2500


@pytest.mark.parametrize("method", ["versioning", "list"])
def test_a_throttled_source_is_planned_later_from_where_it_was(method: str) -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(1500))
    world.bucket().fail_next(method, SLOW_DOWN)
    with pytest.raises(CallFailed):
        world.trigger()
    run = world.run({"run_id": "logs-expire.20260301T120000Z.1"})
    assert run.state == "planning"
    world.settle()
    run = world.run({"run_id": run.run_id})
    assert (run.state, run.planned, run.balanced) == ("completed", 1500, True)


# bounds


def test_planning_past_max_planning_is_invalidated_between_two_pages() -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(2500))
    bucket, real = world.bucket(), world.bucket().list

    def slow(*args: str) -> object:
        world.clock.advance(timedelta(hours=4))
        return real(*args)

    bucket.list = slow  # type: ignore[method-assign, assignment]
    answer = world.discover({"policy": "logs-expire", "scheduled_time": "2026-03-01T12:00:00Z"}, Pages(10))
    run = world.run(answer)
    assert (run.state, run.reason) == ("invalidated", "planning_exceeded")
    world.settle()
    run = world.run(answer)
    assert (run.closed, run.balanced) == (True, True)
    assert len(bucket.keys()) == 2500


def test_a_plan_of_more_parts_than_can_be_numbered_is_invalidated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.planning.MAX_PARTS", 2)
    world = world_of(small_jobs(1))
    world.fill(f"app/{n}" for n in range(5))
    run = world.run(world.trigger())
    assert (run.state, run.reason, run.jobs) == ("invalidated", "planning_exceeded", 3)


# limits and approval


def held(world: World) -> tuple[str, ...]:
    """Why the run of a trigger waits, as the codes its reasons begin with."""
    answer = world.trigger()
    run = world.run(answer)
    assert (answer["state"], run.state) == ("awaiting_approval", "awaiting_approval")
    assert "open_run" not in world.ledger.policy("logs-expire")
    world.settle()
    assert {"bucket.remove", "queue.send"}.isdisjoint(world.trace.names)
    assert run.digest
    return tuple(reason.split(":")[0] for reason in run.held_because)


def test_a_plan_of_too_many_items_waits() -> None:
    world = world_of(policy(limits={"max_items": 3}))
    world.fill(f"app/{n}" for n in range(4))
    assert held(world) == ("too_many_items",)


def test_a_plan_of_just_as_many_items_as_the_limit_goes_on() -> None:
    world = world_of(policy(limits={"max_items": 4}))
    world.fill(f"app/{n}" for n in range(4))
    assert world.trigger()["state"] == "draining"


@pytest.mark.parametrize(("old", "state"), [(5, "draining"), (6, "awaiting_approval")])
def test_a_plan_of_too_large_a_share_of_what_was_scanned_waits(old: int, state: str) -> None:
    world = world_of(policy(limits={"max_share": 0.5}))
    world.fill(f"app/old-{n}" for n in range(old))
    world.fill((f"app/young-{n}" for n in range(10 - old)), age=YOUNG)
    answer = world.trigger()
    assert answer["state"] == state
    assert [reason.split(":")[0] for reason in world.run(answer).held_because] == ["too_large_share"] * (old - 5)


def test_an_empty_scope_waits() -> None:
    world = World()
    world.fill(["ap/1"])
    assert held(world) == ("empty_scope",)


def test_every_reason_is_shown() -> None:
    world = world_of(policy(approval="always", limits={"max_items": 1, "max_share": 0.1}))
    world.fill(["app/1", "app/2"])
    assert held(world) == ("too_many_items", "too_large_share", "approval")


@pytest.mark.parametrize("approved", [[], ["another version"]])
def test_approval_first_holds_a_version_that_nobody_approved(approved: list[str]) -> None:
    world = world_of(policy(approval="first"))
    world.fill(["app/1"])
    world.table.put({"pk": "POLICY#logs-expire", "sk": "POLICY", "approved_versions": approved})
    assert held(world) == ("approval",)


def test_approval_first_lets_an_approved_version_through() -> None:
    chosen = policy(approval="first")
    world = world_of(chosen)
    world.fill(["app/1"])
    world.table.put({"pk": "POLICY#logs-expire", "sk": "POLICY", "approved_versions": [chosen.version]})
    assert world.trigger()["state"] == "draining"


def test_approval_always_holds_an_approved_version_too() -> None:
    chosen = policy(approval="always")
    world = world_of(chosen)
    world.fill(["app/1"])
    world.table.put({"pk": "POLICY#logs-expire", "sk": "POLICY", "approved_versions": [chosen.version]})
    assert held(world) == ("approval",)


# reports


@pytest.mark.parametrize(
    ("chosen", "event"),
    [
        (policy(mode="report"), {}),
        (policy(mode="report"), {"mode": "enforce"}),
        (policy(), {"mode": "report"}),
        (policy(mode="report", approval="always", limits={"max_items": 1, "max_share": 0.1}), {}),
    ],
)
def test_a_report_makes_no_mutating_call_on_any_path(chosen: Policy, event: dict[str, object]) -> None:
    world = world_of(chosen)
    world.fill(f"app/{n:05d}" for n in range(1200))
    answer = world.trigger(**event)
    assert answer["state"] == "reported"
    assert "open_run" not in world.ledger.policy("logs-expire")
    for hours in (0, 1, 24, 24 * 6, 24, 24):
        world.clock.advance(timedelta(hours=hours))
        world.trigger(at=START, **event)
        world.discover({"resume": answer["run_id"]})
        world.tick()
        world.work()
    run = world.run(answer)
    assert (run.state, run.reason, run.planned, run.closed) == ("invalidated", "plan_expired", 1200, True)
    mutating = {"bucket.remove", "queue.send", "deliveries.hide"}
    assert mutating.isdisjoint(world.trace.names)
    assert len(world.bucket().keys()) == 1200


@pytest.mark.parametrize("nth", range(1, 30))
def test_a_report_that_crashed_anywhere_makes_no_mutating_call_either(nth: int) -> None:
    world = world_of(small_jobs(mode="report"))
    world.fill(f"app/{n}" for n in range(6))
    world.trace.crash_after(nth)
    try:
        world.trigger()
    except Crash:
        world.trigger(at=START)
        world.settle()
    run = world.run({"run_id": "logs-expire.20260301T120000Z.1"})
    assert (run.state, run.planned) == ("reported", 6)
    assert {"bucket.remove", "queue.send"}.isdisjoint(world.trace.names)


def test_a_report_shows_the_limits_it_passed() -> None:
    world = world_of(policy(mode="report", limits={"max_items": 1}))
    world.fill(["app/1", "app/2"])
    (reason, *_) = world.run(world.trigger()).held_because
    assert reason.startswith("too_many_items: 2 planned")


def test_the_order_of_listing_is_that_of_bytes() -> None:
    """A guard of the fake: planning and looking again rest on it."""
    bucket = FakeBucket(World().clock)
    for key in ("a\U00010000", "a\uffff", "aé", "az"):
        bucket.put(key)
    assert [item.key for item in bucket.list("a").items] == sorted(bucket.versions, key=str.encode)

"""What holds for plain objects holds for tagged ones, for noncurrent versions and for incomplete uploads too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.item import ItemId

from tests.fakes.time import START
from tests.fakes.world import World, policy
from tests.integration.seen import ends, job, tally
from tests.integration.test_keys import ALIKE, LONGEST, NOT_IN_XML, PATHS

OLD, YOUNG = timedelta(days=60), timedelta(days=1)
SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
SCOPE: dict[str, object] = {"bucket": "logs", "prefixes": ["/", "a", "dir/", "."], "raw_prefix": True}
MUTATING = {"bucket.remove", "bucket.remove_versions", "bucket.abort_upload", "queue.send", "deliveries.hide"}


@dataclass(frozen=True)
class Kind:
    """`put` lets there be an item of a key as of now, and says which; `there` are all items; `removal` is the call."""

    source: dict[str, object]
    action: str
    put: Callable[[World, str], ItemId]
    there: Callable[[World], set[ItemId]]
    removal: str
    versioning: str = "Unversioned"

    def world(self, **changes: object) -> World:
        """A world with a policy of this kind, which takes what is older than thirty days."""
        chosen = policy(source={**SCOPE, **self.source}, action=self.action, **changes)
        return World({chosen.id: chosen}, versioning=self.versioning)

    def fill(self, world: World, keys: Iterable[str], age: timedelta) -> list[ItemId]:
        """Put items of such an age."""
        world.clock.move_to(START - age)
        items = [self.put(world, key) for key in keys]
        world.clock.move_to(START)
        return items


def put_tagged(world: World, key: str) -> ItemId:
    world.bucket().put(key, key, tags={"class": "scratch"})
    return key, None


def put_replaced(world: World, key: str) -> ItemId:
    """Of a version, the age is that of its successor."""
    for content in ("first", "second"):
        world.bucket().put(key, content)
    return key, world.bucket().version_ids(key)[1]


def all_versions(world: World) -> set[ItemId]:
    bucket = world.bucket()
    return {(key, version_id) for key in bucket.keys() for version_id in bucket.version_ids(key)}  # noqa: SIM118


KINDS = {
    "tags": Kind(
        {"kind": "s3", "include": {"tags": {"class": "scratch"}}},
        "expire",
        put_tagged,
        lambda world: {(key, None) for key in world.bucket().keys()},  # noqa: SIM118
        "remove",
    ),
    "versions": Kind(
        {"kind": "s3", "versions": "noncurrent"}, "purge", put_replaced, all_versions, "remove_versions", "Enabled"
    ),
    "uploads": Kind(
        {"kind": "s3_uploads"},
        "abort",
        lambda world, key: world.bucket().begin_upload(key).id,
        lambda world: set(world.bucket().uploads),
        "abort_upload",
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def name(item: ItemId) -> str:
    return f"{item[0]}?{item[1]}" if item[1] else item[0]


def assert_exactly_these_go(kind: Kind, world: World, items: list[ItemId]) -> None:
    before = kind.there(world)
    answer = world.trigger()
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced) == ("completed", True)
    assert ends(world, run.run_id) == {name(item): ["deleted"] for item in items}
    assert kind.there(world) == before - set(items)


@each_kind
@pytest.mark.parametrize("eligible", [*ALIKE, *PATHS])
def test_of_keys_that_look_alike_only_the_eligible_one_goes(kind: Kind, eligible: str) -> None:
    world = kind.world()
    items = kind.fill(world, [eligible], OLD)
    kind.fill(world, [key for key in (*ALIKE, *PATHS) if key != eligible], YOUNG)
    assert_exactly_these_go(kind, world, items)


@each_kind
@pytest.mark.parametrize("keys", [LONGEST, NOT_IN_XML], ids=["1,024 bytes", "not in XML"])
@pytest.mark.parametrize("job_size", [2, 1000])
def test_keys_that_are_long_or_that_xml_cannot_carry(kind: Kind, keys: list[str], job_size: int) -> None:
    world = kind.world(job_size=job_size, limits={"max_items": 1000})
    items = kind.fill(world, [*keys, "app/plain"], OLD)
    kind.fill(world, ["app/young"], YOUNG)
    assert_exactly_these_go(kind, world, items)


@each_kind
def test_a_report_makes_no_mutating_call(kind: Kind) -> None:
    world = kind.world(mode="report")
    kind.fill(world, [f"app/{number:03}" for number in range(20)], OLD)
    before = kind.there(world)
    answer = world.trigger()
    for hours in (0, 1, 24):
        world.clock.advance(timedelta(hours=hours))
        world.discover({"resume": answer["run_id"]})
        world.tick()
        world.work()
    assert (world.run(answer).state, world.run(answer).planned) == ("reported", 20)
    assert MUTATING.isdisjoint(world.trace.names)
    assert kind.there(world) == before


@each_kind
def test_throttling_costs_no_attempts(kind: Kind) -> None:
    world = kind.world()
    kind.fill(world, ["app/1", "app/2"], OLD)
    run_id = str(world.trigger()["run_id"])
    world.bucket().fail_next(kind.removal, SLOW)
    world.work()
    assert (job(world, run_id).state, job(world, run_id).attempt, job(world, run_id).throttles) == ("ready", 0, 1)
    world.settle()
    assert tally(world, run_id) == {"deleted": 2}

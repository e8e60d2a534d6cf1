"""What a report planned is what its approved run touches: random worlds, policies, and changes in between."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sexton import part
from sexton.approving import Approving
from sexton.item import Item, ItemId
from sexton.policy import Policy
from sexton.run import Run, RunState

from tests.fakes.bucket import ENABLED, UNVERSIONED, FakeBucket
from tests.fakes.time import START
from tests.fakes.world import World, policy, purge_policy, uploads_policy

DAY = 24 * 3600
RETAIN = 30 * DAY
KEYS = [
    f"{place}{name}{end}"
    for place in ("app/", "app/keep/", "app2/")
    for name in ("a", "b", "c")
    for end in (".log", ".csv")
]
TAGS: list[dict[str, str]] = [{}, {"keep": "yes"}, {"team": "a"}, {"team": "a", "keep": "yes"}]
AGES = [0, RETAIN - 1, RETAIN, RETAIN + 1, 60 * DAY]  # seconds at the scheduled time

# What the world does between the report and its approval, to one key.
CHANGES = ["rewritten", "overwritten", "deleted", "tagged", "untagged", "locked", "held", "new"]


@dataclass(frozen=True)
class Rules:
    """The part of a policy that the worlds vary."""

    exclude: bool
    suffix: bool
    team: bool
    spare_kept: bool
    job_size: int

    def of(self) -> Policy:
        """The policy that says so."""
        include: dict[str, object] = {"suffixes": [".log"]} if self.suffix else {}
        exclude: dict[str, object] = {"prefixes": ["app/keep/"]} if self.exclude else {}
        if self.team:
            include["tags"] = {"team": "a"}
        if self.spare_kept:
            exclude["tags"] = {"keep": "yes"}
        source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "include": include, "exclude": exclude}
        return policy(source=source, job_size=self.job_size, approval="none", limits={"max_items": 1000})

    def mean(self, key: str, tags: Mapping[str, str]) -> bool:
        """Whether an object of this key and with these tags is meant: the rules once more, in the plainest words."""
        return (
            key.startswith("app/")
            and not (self.exclude and key.startswith("app/keep/"))
            and (key.endswith(".log") or not self.suffix)
            and (tags.get("team") == "a" or not self.team)
            and (tags.get("keep") != "yes" or not self.spare_kept)
        )


rules = st.builds(
    Rules, st.booleans(), st.booleans(), st.booleans(), st.booleans(), job_size=st.sampled_from([1, 2, 1000])
)
objects = st.dictionaries(
    st.sampled_from(KEYS), st.tuples(st.sampled_from(AGES), st.sampled_from(TAGS)), min_size=1, max_size=12
)
changes = st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(KEYS)), max_size=6)
waits = st.sampled_from([0, 3600, 6 * DAY])


def fill(world: World, found: Mapping[str, tuple[int, dict[str, str]]]) -> None:
    for key, (age, tags) in found.items():
        world.clock.move_to(START - timedelta(seconds=age))
        world.bucket().put(key, key, tags=tags)
    world.clock.move_to(START)


def planned_items(world: World, run: Run) -> list[Item]:
    """The items of the parts that `plan.json` names, each part with the hash that it names."""
    plan = json.loads(world.evidence.get(f"runs/{run.run_id}/plan.json") or b"")
    assert plan["digest"] == run.digest
    items: list[Item] = []
    for named in plan["parts"]:
        lines = world.evidence.get(named["key"])
        assert lines is not None
        items += part.read(lines, named["sha256"])
    assert part.digest(run.policy_version, run.cutoff, [each["sha256"] for each in plan["parts"]]) == run.digest
    return items


def change(world: World, what: str, key: str) -> bool:
    """One change by the outside; False where there is nothing that it could happen to."""
    bucket = world.bucket()
    if what == "held":
        return bool(world.stopping().hold(f"s3://logs/{key}", "wanted", "ann"))
    if what == "new" or bucket.current(key) is None:
        return what == "new" and bool(bucket.put(key, "new", tags={"team": "a"}))
    if what == "tagged":
        bucket.tag(key, {"keep": "yes"})
    elif what == "untagged":
        bucket.tag(key, {})
    elif what == "overwritten":
        bucket.put(key, "other", tags={"team": "a"})
    else:
        {"rewritten": bucket.rewrite, "deleted": bucket.delete, "locked": bucket.lock}[what](key)
    return True


def change_all(world: World, asked: Sequence[tuple[str, str]]) -> None:
    world.clock.advance(1)
    held: set[str] = set()
    for what, key in asked:
        if not (what == "held" and key in held):
            change(world, what, key)
        held |= {key} if what == "held" else set()


def spared(world: World, asked: Rules, item: Item) -> bool:
    """Whether the rules skip a planned item as things stand now."""
    bucket, now = world.bucket(), world.bucket().current(item.key)
    if now is None or (now.etag, now.last_modified) != (item.etag, item.last_modified):
        return True
    (tags,) = bucket.tags([now]).values()
    held = world.ledger.controls().hold_on(f"s3://logs/{item.key}") is not None
    return not asked.mean(item.key, tags or {}) or item.key in bucket.locked or held


def approve(world: World, run: Run) -> None:
    approving = Approving(world.ledger, world.policies, world.clock, world.tokens, world._log)
    approving.approve(run.run_id, str(run.digest), "as reported", "arn:aws:iam::1:user/bob")


def evidence_of_plan(world: World, run: Run) -> dict[str, bytes | None]:
    keys = [f"runs/{run.run_id}/plan.json", *world.evidence.list(f"plans/{run.run_id}/")]
    return {key: world.evidence.get(key) for key in keys}


def reported(world: World, policy_id: str = "logs-expire") -> Run:
    """A report, which changed nothing in the bucket."""
    world.trace.calm()
    run = world.run(world.trigger(policy_id, mode="report"))
    assert run.state is RunState.REPORTED
    assert not {name for name in world.trace.names if name.startswith(("bucket.remove", "bucket.abort", "queue."))}
    return run


@given(rules, objects, changes, waits, st.booleans())
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_an_approved_report_touches_its_plan_less_what_the_rules_skip(
    asked: Rules,
    found: Mapping[str, tuple[int, dict[str, str]]],
    between: Sequence[tuple[str, str]],
    wait: int,
    versioned: bool,
) -> None:
    world = World({"logs-expire": asked.of()}, versioning=ENABLED if versioned else UNVERSIONED)
    fill(world, found)
    run = reported(world)
    items, plan = planned_items(world, run), evidence_of_plan(world, run)
    due = {key for key, (age, tags) in found.items() if age > RETAIN and asked.mean(key, tags)}
    assert {item.key for item in items} == due, "what is reported is what has had its time"

    world.clock.advance(wait)
    change_all(world, between)
    expected = {item.key for item in items if not spared(world, asked, item)}
    before = {key: world.bucket().current(key) for key in list(world.bucket().keys())}
    approve(world, run)
    world.settle()

    touched = {key for key in before if world.bucket().current(key) is None}
    assert touched == expected <= {item.key for item in items}
    assert {key: world.bucket().current(key) for key in before if key not in touched} == {
        key: item for key, item in before.items() if key not in touched
    }
    event(f"planned {min(len(items), 3)}, skipped {min(len(items) - len(touched), 2)}")
    ended(world, run, len(items), len(touched))
    assert evidence_of_plan(world, run) == plan


def ended(world: World, run: Run, planned: int, touched: int) -> None:
    """The books tell the same story, under the digest that was approved."""
    now = world.ledger.run(run.id)
    assert now is not None
    assert (now.state, now.balanced, now.digest) == (RunState.COMPLETED, True, run.digest)
    report = json.loads(world.evidence.get(f"runs/{run.run_id}/report-1.json") or b"")
    assert (report["digest"], report["planned"], report["deleted"]) == (run.digest, planned, touched)
    assert sum(report["skipped"].values()) == planned - touched
    assert (report["dead"], report["cancelled"]) == ({}, 0)


# versions and uploads: their ids say which of them was planned

ACTS = ["put", "put", "delete", "undelete", "destroy"]
histories = st.lists(
    st.tuples(st.sampled_from(ACTS), st.sampled_from(["app/a", "app/b"]), st.sampled_from([1, 20, 40])), max_size=14
)


def act(bucket: FakeBucket, what: str, key: str) -> None:
    """What an application does to a versioned key, or somebody to one of its versions."""
    ids = bucket.version_ids(key)
    if what == "put":
        bucket.put(key, f"{len(ids)}")
    elif what == "delete":
        bucket.delete(key)
    elif ids:
        bucket.delete_version(key, ids[0 if what == "undelete" else -1])


def ids_of(bucket: FakeBucket) -> set[ItemId]:
    return {(key, version) for key in bucket.versions for version in bucket.version_ids(key)}


@given(histories, histories.map(lambda found: found[:4]), st.integers(0, 2), st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_an_approved_purge_touches_its_plan_less_what_became_current(
    before: Sequence[tuple[str, str, int]], between: Sequence[tuple[str, str, int]], keep: int, markers: bool
) -> None:
    rule = purge_policy(keep_latest=keep, purge_markers=markers, limits={"max_items": 1000})
    world = World({rule.id: rule}, versioning=ENABLED)
    for what, key, days in before:
        world.clock.advance(days * DAY)
        act(world.bucket(), what, key)
    world.clock.advance(1)
    run = reported(world, rule.id)
    planned = {item.id for item in planned_items(world, run)}
    assert planned <= ids_of(world.bucket())

    for what, key, _ in between:
        world.clock.advance(1)
        act(world.bucket(), what, key)
    there = ids_of(world.bucket())
    objects = {key: item for key in list(world.bucket().keys()) if (item := world.bucket().current(key))}
    approve(world, run)
    world.settle()

    touched = there - ids_of(world.bucket())
    assert touched <= planned & there
    assert {key: world.bucket().current(key) for key in objects} == objects, "a current object stays"
    if not between:
        assert touched == planned
    event(f"planned {min(len(planned), 3)}, touched {min(len(touched), 3)}")
    ended(world, run, len(planned), len(touched))


@given(
    st.lists(st.sampled_from([1, 6, 8, 30]), max_size=6),
    st.lists(st.tuples(st.sampled_from(["finished", "begun"]), st.integers(0, 5)), max_size=3),
)
@settings(max_examples=30)
def test_an_approved_abort_touches_the_uploads_of_its_plan(
    ages: Sequence[int], between: Sequence[tuple[str, int]]
) -> None:
    rule = uploads_policy(limits={"max_items": 1000})
    world = World({rule.id: rule})
    bucket = world.bucket()
    for number, days in enumerate(ages):
        world.clock.move_to(START - timedelta(days=days))
        bucket.begin_upload(f"app/{number}")
    world.clock.move_to(START)
    run = reported(world, rule.id)
    planned = {item.id for item in planned_items(world, run)}
    assert len(planned) == sum(days > 7 for days in ages)
    for what, number in between:
        if what == "begun":
            bucket.begin_upload(f"app/{number}")
        else:
            bucket.uploads = {uid: each for uid, each in bucket.uploads.items() if each.key != f"app/{number}"}
    there = set(bucket.uploads)
    approve(world, run)
    world.settle()
    assert there - set(bucket.uploads) == planned & there
    ended(world, run, len(planned), len(planned & there))

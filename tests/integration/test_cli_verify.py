"""`verify` from evidence alone: it holds for what Sexton wrote, and names whatever was altered since."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sexton import archive, keys, verifying
from sexton.errors import EvidenceAltered, Failure, ReasonClass
from sexton.plan import NoPlan
from sexton.verifying import Verdict

from tests.fakes.world import World, policy

Files = dict[str, bytes]


def settled() -> tuple[World, str]:
    """Three parts; one object changed, one dead and split off."""
    world = World(policies={"logs-expire": policy(job_size=10, limits={"max_items": 1000})})
    world.fill([f"app/{n:04d}.log" for n in range(25)])
    world.bucket().failures["app/0003.log"] = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
    answer = world.trigger()
    world.bucket().rewrite("app/0012.log")
    world.settle()
    return world, str(answer["run_id"])


def verdict(world: World, run_id: str) -> Verdict:
    return verifying.verify(world.evidence, run_id)


def test_it_holds_for_a_settled_run_and_gives_its_numbers() -> None:
    world, run_id = settled()
    found = verdict(world, run_id)
    assert found.differences == ()
    assert found.holds
    assert (found.parts, found.planned, found.books) == (3, 25, 1)
    assert (found.counts["deleted"], found.counts["skipped"], found.counts["dead"]) == (
        23,
        {"changed": 1},
        {"AccessDenied": 1},
    )
    assert found.digest == world.run({"run_id": run_id}).digest


def test_the_ledger_is_not_asked() -> None:
    world, run_id = settled()
    world.table.rows.clear()
    assert verdict(world, run_id).holds


def test_the_plan_of_a_run_that_is_not_closed_is_verified() -> None:
    world = World(policies={"logs-expire": policy(mode="report")})
    world.fill(["app/a"])
    run_id = str(world.trigger()["run_id"])
    found = verdict(world, run_id)
    assert (found.holds, found.books, found.planned, found.counts) == (True, None, 1, {})


def test_an_invalidated_run_holds_too() -> None:
    world = World()
    world.fill(["app/a"])
    run_id = str(world.trigger()["run_id"])
    world.policies = {"logs-expire": policy(retain="P31D")}
    world.settle()
    found = verdict(world, run_id)
    assert (found.differences, found.counts["cancelled"]) == ((), 1)


def edited(file: Callable[[str], str], **fields: object) -> Callable[[Files, str], None]:
    """Fields of a JSON file set to other values."""

    def alter(files: Files, run_id: str) -> None:
        key = file(run_id)
        files[key] = json.dumps(json.loads(files[key]) | fields).encode()

    return alter


def in_files(start: str, old: bytes, new: bytes) -> Callable[[Files, str], None]:
    """Bytes replaced in every file whose key starts so; at least one must have them."""

    def alter(files: Files, run_id: str) -> None:
        found = [key for key in files if key.startswith(start) and old in files[key]]
        assert found, f"no file under {start} has {old!r}"
        files.update({key: files[key].replace(old, new) for key in found})

    return alter


def without(start: str) -> Callable[[Files, str], None]:
    """The last of the files whose key starts so is gone."""

    def alter(files: Files, run_id: str) -> None:
        del files[max(key for key in files if key.startswith(start.replace("RUN", run_id)))]

    return alter


def plan_without_its_last_part(files: Files, run_id: str) -> None:
    plan = json.loads(files[keys.plan(run_id)])
    plan["parts"] = plan["parts"][:-1]
    files[keys.plan(run_id)] = json.dumps(plan).encode()


def books_without_a_job(files: Files, run_id: str) -> None:
    lines = files[keys.books(run_id, 1)].splitlines(keepends=True)
    files[keys.books(run_id, 1)] = b"".join(lines[:-1])


def an_outcome_twice(files: Files, run_id: str) -> None:
    key = max(key for key in files if key.startswith("outcomes/"))
    files[key] += files[key].splitlines(keepends=True)[0]


def an_outcome_less(files: Files, run_id: str) -> None:
    key = max(key for key in files if key.startswith("outcomes/"))
    files[key] = b"".join(files[key].splitlines(keepends=True)[1:])


def a_line_that_is_none(files: Files, run_id: str) -> None:
    key = max(key for key in files if key.startswith("outcomes/"))
    files[key] += b"[]\n"


@pytest.mark.parametrize(
    ("alter", "named"),
    [
        (in_files("plans/", b"app/0004.log", b"app/zzzz.log"), "part 00000000"),
        (without("plans/"), "is gone"),
        (edited(keys.plan, digest="0" * 64), "digest of the plan"),
        (edited(keys.plan, planned=24), "planned items"),
        (edited(keys.plan, planned_bytes=1), "planned bytes"),
        (edited(keys.plan, cutoff="2026-02-28T12:00:00Z"), "cutoff"),
        (edited(keys.plan, run_id="other.20260101T000000Z.1"), "run_id"),
        (plan_without_its_last_part, "another part than the plan"),
        (in_files("policies/", b"P30D", b"P29D"), "version of the policy"),
        (without("policies/"), "copy of the policy is gone"),
        (books_without_a_job, "part 00000002 has no job"),
        (without("runs/RUN/books"), "books are gone"),
        (in_files("runs/", b'"state":"succeeded"', b'"state":"ready"'), "was ready when the run was closed"),
        (in_files("runs/", b'"outcome_files":["outcomes/', b'"outcome_files":["elsewhere/'), "not of this run"),
        (an_outcome_twice, "has 2 outcomes"),
        (an_outcome_less, "has 0 outcomes"),
        (a_line_that_is_none, "is no outcome file"),
        (in_files("outcomes/", b'"skipped","at"', b'"deleted","at"'), "deleted"),
        (without("outcomes/"), "is gone"),
        (edited(lambda run_id: keys.report(run_id, 1), deleted=24), "deleted: written is 24, recomputed 23"),
        (edited(lambda run_id: keys.report(run_id, 1), balanced=False), "balanced"),
        (edited(lambda run_id: keys.report(run_id, 1), problems=["the rows count 7"]), "the rows count 7"),
        (in_files("runs/", b'"revision": 1', b'"revision": '), "report cannot be read"),
    ],
)
def test_whatever_is_altered_is_named(alter: Callable[[Files, str], None], named: str) -> None:
    world, run_id = settled()
    alter(world.evidence.files, run_id)
    found = verdict(world, run_id)
    assert not found.holds
    assert found.difference_count == len(found.differences) > 0
    assert any(named in difference for difference in found.differences), found.differences


def test_an_item_younger_than_the_cutoff_is_named() -> None:
    """As if planning had a mistake: hashes and digest are right, and still the policy does not allow it."""
    world = World(policies={"logs-expire": policy(mode="report")})
    world.fill(["app/a"])
    run_id = str(world.trigger()["run_id"])
    strict = policy(mode="report", retain="P90D")
    world.evidence.files[keys.policy(strict.id, strict.version)] = strict.canonical().encode()
    edited(keys.plan, policy_version=strict.version)(world.evidence.files, run_id)
    assert any("must not be planned: younger" in text for text in _with_cutoff(world, run_id).differences)


def _with_cutoff(world: World, run_id: str) -> Verdict:
    edited(keys.plan, cutoff="2025-12-01T12:00:00Z")(world.evidence.files, run_id)
    return verdict(world, run_id)


def test_a_run_without_a_plan_cannot_be_verified() -> None:
    with pytest.raises(NoPlan):
        verdict(World(), "logs-expire.20260101T000000Z.1")


def test_a_list_of_parts_that_cannot_be_read_is_told() -> None:
    world, run_id = settled()
    world.evidence.files[keys.plan(run_id)] = b"{}"
    with pytest.raises(EvidenceAltered, match="is no plan"):
        verdict(world, run_id)


def test_the_newest_revision_counts() -> None:
    world, run_id = settled()
    files = world.evidence.files
    files[keys.books(run_id, 11)] = files[keys.books(run_id, 1)]  # of a closing that crashed: no report
    assert archive.newest_revision(world.evidence, run_id) == 1
    files[keys.report(run_id, 11)] = files[keys.report(run_id, 1)].replace(b'"revision": 1', b'"revision": 11')
    assert verdict(world, run_id).books == 11
    assert verdict(world, run_id).holds

"""The command line on runs over versions, tags and incomplete uploads."""

# ruff: noqa: F401, F811  # the fixture is imported, and named by every test

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sexton import verifying
from sexton.errors import Failure, ReasonClass

from tests.fakes.time import START
from tests.fakes.world import World, policy, purge_policy, uploads_policy
from tests.integration.histories import Entry, history
from tests.integration.test_cli import Desk, desk  # a fixture

DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "no")
POLICY = "versions-purge"


def settled(desk: Desk) -> tuple[str, list[Entry]]:
    """A key of seven versions over two parts: one is kept, one is locked, one is dead, one is absent, two are gone."""
    desk.world = World(
        {POLICY: purge_policy(job_size=3, limits={"max_items": 1000}, keep_latest=1)}, versioning="Enabled"
    )
    desk.functions.world = desk.world
    entries = history(desk.world, "app/a", "v90 v85 v80 v75 v70 v65 v60")
    history(desk.world, "app/b", "v90 v80 m70")
    run_id = str(desk.world.trigger(POLICY, at=START)["run_id"])
    bucket = desk.world.bucket()
    bucket.lock_version("app/a", entries[2].id)
    bucket.failures["app/a", entries[3].id] = DENIED
    bucket.delete_version("app/a", entries[4].id)
    desk.world.settle()
    return run_id, entries


EXPECTED = {
    2: ("skipped", "locked"),
    3: ("dead", "AccessDenied"),
    4: ("skipped", "absent"),
    5: ("deleted", None),
    6: ("deleted", None),
}


def fates(found: dict[str, list[dict[str, object]]], entries: list[Entry]) -> dict[int, tuple[object, object]]:
    ids = [entry.id for entry in entries]
    return {
        ids.index(str(fate["planned"]["version_id"])): (fate["outcome"], fate["reason"])  # type: ignore[index]
        for fate in found["runs"]
    }


def test_explain_tells_the_story_of_every_version(desk: Desk) -> None:
    run_id, entries = settled(desk)
    found = desk.sexton("explain", "s3://logs/app/a", "--json").json
    assert fates(found, entries) == EXPECTED
    assert {fate["run_id"] for fate in found["runs"]} == {run_id}
    first = found["runs"][0]["planned"]
    assert (first["rank"], first["noncurrent_since"]) == (2, entries[1].at.isoformat().replace("+00:00", "Z"))
    verdicts = {verdict["version_id"]: (verdict["action"], verdict["reason"]) for verdict in found["policies"]}
    assert verdicts == {
        entries[0].id: ("keep", "current_version"),
        entries[1].id: ("keep", "kept_latest"),
        entries[2].id: ("remove", "expired"),
        entries[3].id: ("remove", "expired"),
    }
    told = desk.sexton("explain", "s3://logs/app/a").out
    assert all(entry.id in told for n, entry in enumerate(entries) if n != 4 or "absent" in told)


def test_explain_knows_every_version_of_a_run_that_has_left_the_ledger(desk: Desk) -> None:
    _, entries = settled(desk)
    for key in list(desk.world.table.rows):
        if key.sk != "POLICY":
            desk.world.table.delete(key)
    assert fates(desk.sexton("explain", "s3://logs/app/a", "--json").json, entries) == EXPECTED


def test_explain_of_a_deleted_key_shows_its_marker(desk: Desk) -> None:
    settled(desk)
    found = desk.sexton("explain", "s3://logs/app/b", "--json").json
    assert found["now"] is None
    assert [(verdict["action"], verdict["reason"]) for verdict in found["policies"]] == [
        ("keep", "current_version"),
        ("keep", "kept_latest"),
    ]


def test_plan_show_names_versions(desk: Desk) -> None:
    run_id, entries = settled(desk)
    items = desk.sexton("plan", "show", run_id, "--json").json
    assert [item["version_id"] for item in items if item["key"] == "app/a"] == [entry.id for entry in entries[2:]]
    assert [item["rank"] for item in items if item["key"] == "app/a"] == [2, 3, 4, 5, 6]
    assert all(entry.id in desk.sexton("plan", "show", run_id).out for entry in entries[2:])


def test_verify_holds_for_versions_tags_and_uploads(desk: Desk) -> None:
    run_id, _ = settled(desk)
    assert desk.sexton("verify", run_id, "--json").json["holds"]

    world = World({"uploads-abort": uploads_policy()})
    world.clock.move_to(START - timedelta(days=9))
    for key in ("app/a", "app/a", "app/b"):
        world.bucket().begin_upload(key)
    world.clock.move_to(START)
    uploads = str(world.trigger("uploads-abort", at=START)["run_id"])
    world.settle()
    assert verifying.verify(world.evidence, uploads).differences == ()

    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "include": {"tags": {"class": "scratch"}}}
    world = World({"logs-expire": policy(source=source)})
    world.fill(["app/a", "app/b"])
    world.bucket().tag("app/a", {"class": "scratch"})
    tagged = str(world.trigger(at=START)["run_id"])
    world.settle()
    found = verifying.verify(world.evidence, tagged)
    assert (found.differences, found.planned) == ((), 1)


@pytest.mark.parametrize("field", ["version_id", "key"])
def test_verify_sees_an_outcome_of_another_version(desk: Desk, field: str) -> None:
    run_id, _ = settled(desk)
    files = desk.world.evidence.files
    file = next(name for name in files if name.startswith("outcomes/"))
    lines = [json.loads(line) for line in files[file].splitlines()]
    lines[0][field] = "another"
    files[file] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    told = desk.sexton("verify", run_id).out
    assert f"names another {'key' if field == 'key' else 'version'}" in told


def test_explain_reads_the_tags_that_decide(desk: Desk) -> None:
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "include": {"tags": {"class": "scratch"}}}
    desk.world.policies = {"logs-expire": policy(source=source)}
    desk.world.fill(["app/a", "app/b", "app/c"])
    desk.world.bucket().tag("app/a", {"class": "scratch"})
    desk.world.bucket().secret = {"app/c"}
    desk.world.tick()
    assert {
        key: [(verdict["action"], verdict["reason"]) for verdict in explained["policies"]]
        for key in ("a", "b", "c")
        for explained in [desk.sexton("explain", f"s3://logs/app/{key}", "--json").json]
    } == {"a": [("remove", "expired")], "b": [("keep", "not_selected")], "c": [("keep", "unreadable_tags")]}


def test_explain_shows_incomplete_uploads_and_what_cannot_be_listed(desk: Desk) -> None:
    desk.world.policies = {"uploads-abort": uploads_policy()}
    upload = desk.world.bucket().begin_upload("app/a")
    desk.world.tick()
    (verdict,) = desk.sexton("explain", "s3://logs/app/a", "--json").json["policies"]
    assert (verdict["action"], verdict["reason"], verdict["version_id"]) == ("keep", "younger", upload.version_id)
    (verdict,) = desk.sexton("explain", "s3://logs/app/b", "--json").json["policies"]
    assert (verdict["action"], verdict["reason"]) == ("keep", "absent")
    desk.world.bucket().fail_next("list_uploads", DENIED)
    (verdict,) = desk.sexton("explain", "s3://logs/app/a", "--json").json["policies"]
    assert (verdict["action"], verdict["reason"]) == ("unknown", "AccessDenied")

"""People's changes on the deployed stack: from the command through a signed request to control, and what they do."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.e2e.site import Answer, Site, numbered, until

POLICY, BUCKET = "documents-controlled", "e2e-controlled"
ADA, BOB = (f"arn:aws:sts::123456789012:assumed-role/People/{name}" for name in ("ada", "bob"))
PLACE = f"s3://{BUCKET}/documents/"


def ask(site: Site, actor: str, *arguments: str) -> Answer:
    """A change that a person asks for, in a process of its own."""
    return site.sexton(*arguments, "--reason", f"asked by {actor[-3:]}", "--json", SEXTON_ACTOR=actor)


def refused(answer: Answer) -> str:
    assert answer.code == 1, answer.out
    return str(answer.json["error"]["code"])


def changes(site: Site, run_id: str) -> list[tuple[str, str, str]]:
    return [(each["change"], each["actor"], each["reason"]) for each in site.show(run_id)["changes"]]


def schedule(site: Site) -> dict[str, Any]:
    (group,) = {each["GroupName"] for each in site.stage.client("scheduler").list_schedules()["Schedules"]}
    found = site.stage.client("scheduler").get_schedule(GroupName=group, Name=f"policy-{POLICY}")
    return {name: value for name, value in found.items() if name not in ("ResponseMetadata", "LastModificationDate")}


@pytest.fixture(scope="module")
def waiting(site: Site) -> str:
    """A run that ada started and that waits for another person."""
    site.fill(BUCKET, numbered("documents/", 12))
    site.age()
    started = ask(site, ADA, "run", "start", POLICY)
    assert started.code == 0, started.err
    run_id = str(started.json["run_id"])
    assert site.sexton("run", "watch", run_id).code == 3
    return run_id


def test_the_actor_is_who_asked_and_the_stage_says_that_nobody_verified_it(site: Site, waiting: str) -> None:
    answer = ask(site, ADA, "run", "start", POLICY, "--at", site.show(waiting)["scheduled_time"])

    assert "nobody verified who you are" in answer.err
    assert answer.json == {"run_id": waiting, "state": "awaiting_approval", "created": False}
    assert site.show(waiting)["started_by"] == ADA


def test_a_second_person_approves_exactly_the_plan_and_a_pause_holds_it_until_it_ends(site: Site, waiting: str) -> None:
    digest, before = site.show(waiting)["digest"], schedule(site)
    assert refused(ask(site, ADA, "run", "approve", waiting, "--digest", digest)) == "second_person"
    assert refused(ask(site, BOB, "run", "approve", waiting, "--digest", "0" * 64)) == "other_digest"

    paused = ask(site, ADA, "pause", POLICY)
    assert (paused.json["switched"], paused.json["trouble"]) == ([POLICY], None)
    assert schedule(site) == {**before, "State": "DISABLED"}
    assert refused(ask(site, ADA, "run", "start", POLICY)) == "paused"
    assert ask(site, BOB, "run", "approve", waiting, "--digest", digest).code == 0
    for _ in range(2):
        site.tick()
    assert len(site.keys(BUCKET, "documents/")) == 12

    assert ask(site, ADA, "resume", POLICY).json["switched"] == [POLICY]
    assert schedule(site) == before
    site.closed(waiting)
    run = site.show(waiting)
    assert (run["state"], run["balanced"], run["deleted"], run["approved_by"]) == ("completed", True, 12, BOB)
    assert site.keys(BUCKET, "documents/") == []
    assert ("approved", BOB, "asked by bob") in changes(site, waiting)


def test_an_undo_brings_back_what_the_run_deleted_and_holds_it(site: Site, waiting: str) -> None:
    site.closed(waiting)
    assert site.told("run", "undo", waiting, "--dry-run")["restored"]["count"] == 12
    undone = ask(site, BOB, "run", "undo", waiting)
    assert undone.json["held"] == [PLACE]
    site.closed(undone.json["run_id"])

    assert len(site.keys(BUCKET, "documents/")) == 12
    assert [each["scope"] for each in site.told("hold", "list") if each["active"]] == [PLACE]
    assert ask(site, BOB, "hold", "release", PLACE).json["changed"]
    assert site.told("hold", "list") == []


def test_a_door_takes_no_request_that_is_not_signed(site: Site) -> None:
    url_id = site.stage.outputs["OperateUrl"].removeprefix("https://").partition(".")[0]
    url = f"{site.stage.emulator.endpoint}/_aws/lambda-url/{url_id}/"
    body = json.dumps({"change": "pause", "scope": "all", "reason": "r"}).encode()
    with pytest.raises(urllib.error.HTTPError) as unsigned:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(urllib.request.Request(url, body), timeout=60)
    unsigned.value.close()

    assert unsigned.value.code == 403
    assert ask(site, ADA, "resume").json["changed"] is False, "nothing was paused"


def test_pausing_all_stops_what_feeds_the_worker(site: Site) -> None:
    assert ask(site, ADA, "pause").json["trouble"] is None
    try:
        until(lambda: site.feed() == "Disabled", 30, "the worker is fed no more")
    finally:
        assert ask(site, ADA, "resume").json["trouble"] is None
    until(lambda: site.feed() == "Enabled", 30, "the worker is fed again")

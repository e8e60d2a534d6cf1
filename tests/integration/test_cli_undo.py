"""The command line on a run that was undone: each names the other, and what came back is called restored."""

# ruff: noqa: F401, F811  # the fixture is imported, and named by every test

from __future__ import annotations

import json

from sexton import keys

from tests.fakes.time import START
from tests.fakes.world import World, policy
from tests.integration.test_cli import Desk, desk  # a fixture

RUN, UNDO = "logs-expire.20260301T120000Z.1", "logs-expire.20260301T120000Z.u1"


def undone(desk: Desk) -> None:
    """Three objects were deleted; one was written again, the others were brought back."""
    desk.world = World({"logs-expire": policy(recovery="versioning")}, versioning="Enabled")
    desk.functions.world = desk.world
    desk.world.fill(["app/a", "app/b", "app/c"])
    desk.world.trigger(at=START)
    desk.world.settle()
    desk.world.bucket().put("app/b", b"new")
    desk.world.undoing().undo(RUN, "it was wrong", "ann")
    desk.world.settle()


def line_of(text: str, label: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(f"{label} ")]
    return " ".join(found.split())


def test_run_show_of_each_names_the_other(desk: Desk) -> None:
    undone(desk)

    taken_back, taking_back = (desk.sexton("run", "show", run).out for run in (RUN, UNDO))

    assert line_of(taken_back, "undone by") == f"undone by {UNDO}"
    assert line_of(taken_back, "deleted") == "deleted 3 -"
    assert line_of(taking_back, "undoes") == f"undoes {RUN}"
    assert line_of(taking_back, "restored") == "restored 2 -"
    assert "deleted" not in taking_back


def test_run_show_in_json_says_the_same(desk: Desk) -> None:
    undone(desk)

    found = desk.sexton("run", "show", UNDO, "--json").json

    assert (found["undoes"], found["undone_by"], found["deleted"], found["skipped"]) == (RUN, [], 2, {"changed": 1})
    assert desk.sexton("run", "show", RUN, "--json").json["undone_by"] == [UNDO]


def test_run_list_has_both(desk: Desk) -> None:
    undone(desk)

    assert [run["run_id"] for run in desk.sexton("run", "list", "--json").json] == [UNDO, RUN]


def test_the_report_says_restored_in_words_and_deleted_in_json(desk: Desk) -> None:
    undone(desk)
    files = desk.world.evidence.files

    page = files[keys.report_html(UNDO, 1)].decode()
    report = json.loads(files[keys.report(UNDO, 1)])

    assert "<bdi>restored</bdi>" in page
    assert "<bdi>deleted</bdi>" not in page
    assert RUN in page
    assert "restored an object" in page
    assert (report["undoes"], report["deleted"], report["balanced"]) == (RUN, 2, True)
    assert "<bdi>deleted</bdi>" in files[keys.report_html(RUN, 1)].decode()
    assert json.loads(files[keys.report(RUN, 1)])["undoes"] is None


def test_the_event_of_a_closed_undo_says_what_it_undoes(desk: Desk) -> None:
    undone(desk)

    assert [each["undoes"] for each in desk.world.events.of("Run Closed")] == [None, RUN]


def test_explain_tells_the_deletion_and_the_restoration(desk: Desk) -> None:
    undone(desk)

    found = desk.sexton("explain", "s3://logs/app/a", "--json").json
    told = desk.sexton("explain", "s3://logs/app/a").out

    fates = [(run["run_id"], run["undoes"], run["outcome"]) for run in found["runs"]]
    assert fates == [(UNDO, RUN, "deleted"), (RUN, None, "deleted")]
    assert found["runs"][0]["planned"]["version_id"] == found["runs"][1]["marker_version_id"]
    assert [line.split()[1] for line in told.splitlines() if line.startswith("outcome")] == ["restored", "deleted"]


def test_a_dry_run_says_what_would_come_back(desk: Desk) -> None:
    undone(desk)

    found = desk.sexton("run", "undo", RUN, "--dry-run", "--json").json

    assert found["restored"] == {"count": 0, "first": []}
    assert {name: kind["count"] for name, kind in found["left"].items()} == {"absent": 2, "changed": 1}
    assert "app/b" in desk.sexton("run", "undo", RUN, "--dry-run").out


def test_a_dry_run_that_is_refused_says_why(desk: Desk) -> None:
    undone(desk)

    said = desk.sexton("run", "undo", UNDO, "--dry-run", "--json")

    assert (said.code, said.json["error"]["code"]) == (1, "is_undo")


def test_verify_knows_an_undo(desk: Desk) -> None:
    undone(desk)

    assert desk.sexton("verify", UNDO, "--json").json["holds"]


def test_plan_show_lists_the_markers(desk: Desk) -> None:
    undone(desk)

    items = desk.sexton("plan", "show", UNDO, "--json").json

    assert [(item["key"], item["is_marker"]) for item in items] == [
        ("app/a", True),
        ("app/b", True),
        ("app/c", True),
    ]


def test_verify_calls_what_came_back_restored_too_and_its_json_is_as_of_any_run(desk: Desk) -> None:
    undone(desk)

    said = desk.sexton("verify", UNDO).out

    assert line_of(said, "restored") == "restored 2"
    assert "deleted" not in said
    assert line_of(desk.sexton("verify", RUN).out, "deleted") == "deleted 3"
    found = desk.sexton("verify", UNDO, "--json").json
    assert found["counts"]["deleted"] == 2
    assert found.keys() == desk.sexton("verify", RUN, "--json").json.keys()
    assert "undoes" not in found

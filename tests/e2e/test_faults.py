"""Crashes on the deployed stack: processes killed right before and right after the calls that matter.

After each, recovery comes to the same end: completed, balanced, everything planned gone and nothing else, and
outcomes that tell what is known. Where the worker died between the deletion and its record, that is less.
"""

from __future__ import annotations

import pytest

from tests.e2e.site import Site
from tests.e2e.stories import BUCKET, CRASHES, OBJECTS, Crash, Story

# The slowest is a planner killed while it planned: its lease of two minutes must end first.
RECOVERED_SECONDS = 200


@pytest.fixture(scope="module")
def recovered(site: Site, begun: dict[str, Story]) -> dict[str, Story]:
    """Every story, at its end."""
    site.closed(*(begun[crash.name].run_id for crash in CRASHES), within=RECOVERED_SECONDS)
    return begun


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.name)
def test_a_crash_is_recovered_from(crash: Crash, recovered: dict[str, Story], site: Site) -> None:
    story = recovered[crash.name]

    assert [call.function for call in story.rule.struck] == [site.function(crash.function)]
    run = site.show(story.run_id)
    assert (run["state"], run["balanced"]) == ("completed", True)
    assert (run["planned"], run["deleted"], run["open"]) == (OBJECTS, OBJECTS, 0)
    assert run["deleted_unproven"] == (OBJECTS if crash.unproven else 0)
    assert (run["skipped"], run["dead"], run["cancelled"]) == ({}, {}, 0)
    assert site.keys(BUCKET, f"{crash.name}/") == [f"{crash.name}/kept/1"]
    assert site.keys(BUCKET, f"beside-{crash.name}/") == [f"beside-{crash.name}/1"]
    assert site.told("verify", story.run_id)["holds"]


@pytest.mark.parametrize("crash", [c for c in CRASHES if c.function == "Worker"], ids=lambda crash: crash.name)
def test_what_is_said_of_an_object_is_what_is_known(crash: Crash, recovered: dict[str, Story], site: Site) -> None:
    explained = site.told("explain", f"s3://{BUCKET}/{crash.name}/00003")

    (fate,) = explained["runs"]
    assert explained["now"] is None
    assert (fate["outcome"], fate["unproven"]) == ("deleted", crash.unproven)
    assert fate["reason"] == ("absent_after_attempt" if crash.unproven else None)
    assert [failed["event"] for failed in fate["history"]] == ([] if crash.name == "settle-after" else ["no_record"])

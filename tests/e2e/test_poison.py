"""A job that kills its worker each time: in the end only the poisonous item is dead."""

from __future__ import annotations

from tests.e2e.site import Site
from tests.e2e.stories import BUCKET, POISON, Story

# Two crashes of the job, then as many of the item alone as a job has attempts, each with a lease to end first.
DEAD_SECONDS = 400


def test_only_the_poisonous_item_dies(site: Site, begun: dict[str, Story]) -> None:
    story = begun[POISON]
    site.closed(story.run_id, within=DEAD_SECONDS)

    run = site.show(story.run_id)
    assert (run["state"], run["balanced"], run["open"]) == ("completed", True, 0)
    assert (run["planned"], run["deleted"], run["dead"]) == (4, 3, {"no_record": 1})
    assert len(story.rule.struck) == 2 + 3
    assert site.keys(BUCKET, "poison/") == ["poison/c-poison"]
    (letter,) = [each for each in site.told("dlq", "list") if each["run_id"] == story.run_id]
    assert (letter["first_key"], letter["items"], letter["attempts"]) == ("poison/c-poison", 1, 3)
    assert letter["next_action"]
    assert site.told("verify", story.run_id)["holds"]
    assert letter["job_id"] in site.sexton("dlq", "list").out

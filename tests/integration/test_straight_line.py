"""The straight line in memory: from a schedule's event to settled books."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.fakes.world import World


def keys(number: int) -> list[str]:
    return [f"app/{n:06d}.log" for n in range(number)]


def test_a_run_removes_what_had_its_time_and_closes_with_balanced_books() -> None:
    world = World()
    world.fill(keys(2500))
    world.fill(["app/young.log"], age=timedelta(days=3))
    answer = world.trigger()
    assert answer["created"]
    world.settle()
    run = world.run(answer)
    assert run.state == "completed"
    assert run.balanced
    report = json.loads(world.evidence.files[f"runs/{run.run_id}/report-1.json"])
    assert report["deleted"] == 2500
    assert report["scanned"] == {"expired": 2500, "younger": 1}
    assert [item.key for item in world.bucket().list("app/").items] == ["app/young.log"]

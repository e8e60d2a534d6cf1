"""Pauses that schedules and the worker's feed follow: whoever has the last word in the ledger has it there too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sexton.pausing import Pausing

from tests.fakes.schedules import FakeSchedules
from tests.fakes.world import World


@dataclass
class SlowSchedules(FakeSchedules):
    """Something happens between the decision to switch the feed and the switch."""

    meanwhile: Callable[[], object] | None = None

    def stop_all(self) -> None:
        self._happens()
        super().stop_all()

    def start_all(self) -> None:
        self._happens()
        super().start_all()

    def _happens(self) -> None:
        action, self.meanwhile = self.meanwhile, None
        if action:
            action()


def pausing(world: World, schedules: FakeSchedules) -> Pausing:
    return Pausing(world.stopping(), world.ledger, world.policies, schedules)


@pytest.mark.parametrize("last", ["pause", "resume"])
def test_of_a_pause_and_a_resume_at_once_the_last_one_written_is_followed(last: str) -> None:
    world = World()
    schedules = SlowSchedules({"logs-expire": True})
    change = pausing(world, schedules)
    other = pausing(world, schedules)
    if last == "pause":
        change.pause("all", "first", "me")
        schedules.meanwhile = lambda: other.pause("all", "at the same moment", "another")
        change.resume("all", "over", "me")
    else:
        schedules.meanwhile = lambda: other.resume("all", "at the same moment", "another")
        change.pause("all", "an incident", "me")
    paused = last == "pause"
    assert (world.ledger.controls().paused("logs-expire") is not None) == paused
    assert (schedules.feeding, schedules.on) == (not paused, {"logs-expire": not paused})

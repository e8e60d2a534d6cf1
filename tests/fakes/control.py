"""The control functions of a world: the real flow over the fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from sexton.approving import Approving
from sexton.change_request import Door
from sexton.controlling import Controlling
from sexton.pausing import Pausing
from sexton.redriving import Redriving
from sexton.replaying import Replaying
from sexton.stopping import Stopping
from sexton.strays import Straying
from sexton.undoing import Undoing

from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.schedules import FakeSchedules
from tests.fakes.world import World


class PlanningDiscovery:
    """The world's discovery; what it is asked to resume is under way at once."""

    def __init__(self, world: World) -> None:
        self._world = world

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        return self._world.discover(dict(event))

    def resume(self, run_id: str) -> None:
        self._world.discover({"resume": run_id})


def controlling(
    world: World,
    door: Door,
    dead_letters: FakeDeadLetters,
    schedules: FakeSchedules,
    changes_sent: Callable[[], int] | None = None,
) -> Controlling:
    """What goes through one door of a world. Unless `changes_sent` tells, all is taken to have changed something."""
    ledger, evidence = world.ledger, world.evidence
    parts = (world.policies, world.clock, world.tokens, world._log)
    stopping = Stopping(ledger, *parts)
    return Controlling(
        door=door,
        discovery=PlanningDiscovery(world),
        stopping=stopping,
        pausing=Pausing(stopping, ledger, world.policies, schedules),
        approving=Approving(ledger, *parts),
        replaying=Replaying(ledger, *parts),
        undoing=Undoing(ledger, evidence, *parts),
        straying=Straying(ledger, dead_letters),
        redriving=Redriving(dead_letters),
        clock=world.clock,
        token=world.tokens,
        log=world._log,
        changes_sent=changes_sent or count().__next__,
    )

"""A world as the command line reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from sexton.deployment import Deployment, FunctionFailed

from tests.fakes.world import REGION, World

CALLER = "arn:aws:sts::123456789012:assumed-role/Operator/ada"


class FakeFunctions:
    """The world's own functions. `broken`: each one called breaks off with this text."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken = ""
        self.events: list[Mapping[str, object]] = []

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        self._called(event)
        return self.world.discover(dict(event))

    def resume(self, run_id: str) -> None:
        self._called({"resume": run_id})
        self.world.discover({"resume": run_id})

    def tick(self, event: Mapping[str, object]) -> None:
        self._called(event)
        self.world.tick()

    def _called(self, event: Mapping[str, object]) -> None:
        self.events.append(event)
        if self.broken:
            raise FunctionFailed(self.broken)


def deployment(world: World, functions: FakeFunctions, meanwhile: Callable[[], None] = lambda: None) -> Deployment:
    """`meanwhile` is done whenever the command line sleeps."""

    def sleep(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        meanwhile()

    return Deployment(
        ledger=world.ledger,
        evidence=world.evidence,
        bucket=world.bucket,
        functions=functions,
        caller=lambda: CALLER,
        clock=world.clock,
        sleep=sleep,
        region=REGION,
    )

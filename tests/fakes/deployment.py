"""A world as the command line reaches it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta

from sexton.change_request import door_of
from sexton.controlling import Caller
from sexton.deployment import ChangeRefused, ChangeUnsure, Deployment, FunctionFailed

from tests.fakes.control import controlling
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.schedules import FakeSchedules
from tests.fakes.world import REGION, World

CALLER = "arn:aws:sts::123456789012:assumed-role/Operator/ada"


class FakeControl:
    """The world's control functions, both doors of them, and who asks. `lost`: the next answer does not arrive."""

    def __init__(self, world: World, caller: Caller | None = None) -> None:
        self.world = world
        self.caller = caller or Caller(CALLER, verified=True)
        self.lost = False
        self.dead_letters = FakeDeadLetters(world.queue, world.clock)
        self.schedules = FakeSchedules(on=dict.fromkeys(world.policies, True))
        self.asked: list[Mapping[str, object]] = []

    def change(self, change: str, fields: Mapping[str, object], reason: str) -> Mapping[str, object]:
        asked = {"change": change, **fields, "reason": reason}
        self.asked.append(asked)
        door = controlling(self.world, door_of(change), self.dead_letters, self.schedules)
        answer = door.answer(self.caller, json.dumps(asked).encode())
        if self.lost:
            raise ChangeUnsure("no answer came (ReadTimeoutError: ...)")
        error = answer.body.get("error")
        if isinstance(error, dict):
            if answer.status >= 500:
                raise ChangeUnsure(f"{error['code']}: {error['message']}")
            raise ChangeRefused(error["code"], error["message"], error["hint"])
        return answer.body


class FakeFunctions:
    """The world's own functions. `broken`: each one called breaks off with this text."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken = ""
        self.events: list[Mapping[str, object]] = []

    def tick(self, event: Mapping[str, object]) -> None:
        self._called(event)
        self.world.tick()

    def _called(self, event: Mapping[str, object]) -> None:
        self.events.append(event)
        if self.broken:
            raise FunctionFailed(self.broken)


def deployment(
    world: World,
    functions: FakeFunctions,
    meanwhile: Callable[[], None] = lambda: None,
    control: FakeControl | None = None,
) -> Deployment:
    """`meanwhile` is done whenever the command line sleeps."""
    control = control or FakeControl(world)

    def sleep(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        meanwhile()

    return Deployment(
        ledger=world.ledger,
        evidence=world.evidence,
        bucket=world.bucket,
        records=world.records,
        functions=functions,
        control=control,
        dead_letters=control.dead_letters,
        clock=world.clock,
        sleep=sleep,
        region=REGION,
    )

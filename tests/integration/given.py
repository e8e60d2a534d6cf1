"""Where most stories of a worker begin: a planned run whose messages wait on the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sexton.errors import Failure, ReasonClass
from sexton.policy import Policy

from tests.fakes.queue import Message
from tests.fakes.recorder import Call
from tests.fakes.world import policy
from tests.integration.crashing import LastingWorld

SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
BROKEN = Failure(ReasonClass.TRANSIENT, "OperationAborted", "try again")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")

# A worker that meets no trouble, up to its settlement.
RUN, CONTROLS, CLAIM, PART, LOOK, REMOVAL, OUTCOMES, SETTLEMENT = range(1, 9)
CALLS = [
    "table.get",
    "table.query",
    "table.write",
    "evidence.get",
    "bucket.list",
    "bucket.remove",
    "evidence.put_once",
    "table.write",
]


def rule(**changes: object) -> Policy:
    """At most three attempts; `limits` may be changed one by one."""
    limits = {"max_items": 1000, "max_attempts": 3} | dict(changes.pop("limits", {}))  # type: ignore[call-overload]
    return policy(**{"limits": limits, **changes})


def keys(number: int) -> list[str]:
    return [f"app/{each:03d}" for each in range(number)]


def planned(items: int | Sequence[str] = 3, versioning: str = "Unversioned", **changes: object) -> LastingWorld:
    """A run of so many old objects, dispatched; its calls are forgotten."""
    world = LastingWorld({"logs-expire": rule(**changes)}, versioning=versioning)
    world.fill(keys(items) if isinstance(items, int) else items)
    world.run_id = str(world.trigger()["run_id"])
    world.trace.calm()
    return world


def after(world: LastingWorld, nth: int, action: Callable[[], object]) -> None:
    """Let something else happen just after the n-th call took effect."""

    def interruption(_: Call) -> None:
        action()

    world.trace.after[nth] = interruption


def receive(world: LastingWorld) -> Message:
    """The one message that can be received now."""
    (message,) = world.queue.receive()
    return message

"""What only the edge of the system has: a clock, fresh tokens, jitter, a log, the function's time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING
from uuid import uuid4

from aws_lambda_powertools import Logger

from sexton.aws.settings import Settings, read
from sexton.aws.wiring import Wiring
from sexton.ports import Log, TimeLeft

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@cache
def wired(function: str = "") -> tuple[Settings, Wiring]:
    """Settings and adapters of this process, made at its first event and kept: they hold no state of an event.

    `function` is whose they are: other accounts let each function assume a role under a name of its own only.
    """
    settings = read()
    return settings, Wiring(settings, function=function)


def clock() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(UTC)


def token() -> str:
    """A new unique id."""
    return uuid4().hex


def jitter(ceiling: float) -> float:
    """Full jitter: evenly from 0 to the ceiling."""
    return random.uniform(0, ceiling)


def time_left(context: LambdaContext) -> TimeLeft:
    """How long until Lambda stops this invocation."""
    return lambda: timedelta(milliseconds=context.get_remaining_time_in_millis())


def event_log(logger: Logger) -> Log:
    """One structured line per transition. No field may have a name that a LogRecord keeps for itself."""

    def log(event: str, **fields: object) -> None:
        logger.info(event, extra=fields)

    return log

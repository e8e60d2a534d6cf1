"""The functions' log, and what they raise: nothing that must not be kept leaves by either."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from sexton.errors import SextonError
from sexton.redact import HIDDEN, redact, redact_all

LONGEST = 1000  # characters of one text in a line of log

Answer = TypeVar("Answer")


class RedactingFormatter(LambdaPowertoolsFormatter):
    """Powertools' lines of JSON, every text in them redacted: fields, exceptions and what caused those."""

    def serialize(self, log: Any) -> str:
        """One line."""
        return super().serialize(redact_all(log, LONGEST))  # type: ignore[arg-type]


class BrokeOff(SextonError):
    """What a function raises in place of an error whose text must not be kept."""


def redacting_logger() -> Logger:
    """The log of a handler's module."""
    return Logger(logger_formatter=RedactingFormatter())


def raising_redacted(handler: Callable[..., Answer]) -> Callable[..., Answer]:
    """What the handler raises is logged by Lambda, and put into the failure queue, as it is: so it is made fit here."""

    @wraps(handler)
    def guarded(*args: Any, **kwargs: Any) -> Answer:
        try:
            return handler(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  it is raised again, made fit to be kept
            told = redact(str(error), LONGEST)
            fit = BrokeOff(f"{type(error).__name__}: {told}") if HIDDEN in told else error
            raise fit.with_traceback(error.__traceback__) from None  # nobody looked at the text of its cause

    return guarded

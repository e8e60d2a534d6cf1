"""Secrets Manager: values for headers, read seldom, and shown to nobody."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sexton.aws.errors import calls
from sexton.errors import CallFailed, Failure, ReasonClass

KEPT = 300.0  # seconds; a secret that was rotated is known by then
LONGEST = 8192  # characters of a header that servers take


class SecretsManager(Protocol):
    """What is used of the client."""

    def get_secret_value(self, *, SecretId: str) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that goes nowhere but into a header. `fresh`: it was read for this call."""

    value: str = field(repr=False)
    fresh: bool


class Secrets:
    """Secrets by their names, each kept for five minutes."""

    def __init__(self, client: Callable[[], SecretsManager], monotonic: Callable[[], float] = time.monotonic):
        self._client = client
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, str]] = {}

    def read(self, name: str) -> Secret:
        """The secret of a name. Raises CallFailed where it cannot be read, or is nothing for a header."""
        kept = self._kept.get(name)
        if kept and self._monotonic() - kept[0] < KEPT:
            return Secret(kept[1], fresh=False)
        value = self._read(name)
        self._kept[name] = (self._monotonic(), value)
        return Secret(value, fresh=True)

    def forget(self, name: str) -> None:
        """Read it anew the next time."""
        self._kept.pop(name, None)

    def _read(self, name: str) -> str:
        try:
            with calls():
                answer = self._client().get_secret_value(SecretId=name)
        except CallFailed as failed:  # reading has no effect
            raise CallFailed(replace(failed.failure, unknown_effect=False)) from failed
        value = str(answer.get("SecretString", "")).strip()
        if not re.fullmatch(rf"[\x20-\x7e]{{1,{LONGEST}}}", value):
            what = f"secret {name} is no header's value: one line of printable ASCII"
            raise CallFailed(Failure(ReasonClass.PERMANENT, "secret_unfit", what))
        return value

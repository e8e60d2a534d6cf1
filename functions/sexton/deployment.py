"""A deployed Sexton as an operator reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sexton.errors import SextonError
from sexton.ledger import Ledger
from sexton.ports import Buckets, Clock, Evidence


class FunctionFailed(SextonError):
    """A function was called and broke off; the text is what it said."""


class Functions(Protocol):
    """The functions, each called under the operator's own rights. Raises CallFailed when one cannot be called."""

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        """Call discovery and wait for its answer. Raises FunctionFailed."""

    def resume(self, run_id: str) -> None:
        """Ask discovery to go on with a run; nobody waits."""

    def tick(self, event: Mapping[str, object]) -> None:
        """Call the reconciler and wait until it is through. Raises FunctionFailed."""


@dataclass(frozen=True)
class Deployment:
    """Ports of one stack. `bucket` is one with items, by its name; `caller` names who is asking; `sleep` waits;
    `region` is the stack's."""

    ledger: Ledger
    evidence: Evidence
    bucket: Buckets
    functions: Functions
    caller: Callable[[], str]
    clock: Clock
    sleep: Callable[[float], None]
    region: str

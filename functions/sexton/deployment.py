"""A deployed Sexton as an operator reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sexton.errors import Refused, SextonError
from sexton.ledger import Ledger
from sexton.ports import Buckets, Clock, DeadLetters, Evidence, RecordTables, Stores

if TYPE_CHECKING:
    from sexton.replay_preview import ReplayPreview


class FunctionFailed(SextonError):
    """A function was called and broke off; the text is what it said."""


class ChangeRefused(Refused):
    """Control refused a change; `code` and `hint` are its own."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class ChangeUnsure(SextonError):
    """A change was asked for, and nobody can tell whether it was made."""


class Control(Protocol):
    """The control functions. A change is asked for once: one whose answer is lost is never repeated by itself."""

    def change(self, change: str, fields: Mapping[str, object], reason: str) -> Mapping[str, object]:
        """The answer: `result`, and `unverified` where nobody verified who asks.

        Raises ChangeRefused; ChangeUnsure when it may have been made; CallFailed when it was not.
        """


class Functions(Protocol):
    """The functions, each called under the operator's own rights. Raises CallFailed when one cannot be called."""

    def tick(self, event: Mapping[str, object]) -> None:
        """Call the reconciler and wait until it is through. Raises FunctionFailed."""


@dataclass(frozen=True)
class Deployment:
    """Ports of one stack. `bucket` and `records` have items, by name; `sleep` waits; `region` is the stack's."""

    ledger: Ledger
    evidence: Evidence
    bucket: Buckets
    records: RecordTables
    functions: Functions
    control: Control
    dead_letters: DeadLetters
    clock: Clock
    sleep: Callable[[float], None]
    region: str

    @property
    def stores(self) -> Stores:
        """Where items lie."""
        return Stores(self.bucket, self.records, self.evidence)

    @property
    def preview(self) -> ReplayPreview:
        """What replays would do now."""
        from sexton.replay_preview import ReplayPreview

        return ReplayPreview(self.ledger, self.evidence, self.stores, self.clock)

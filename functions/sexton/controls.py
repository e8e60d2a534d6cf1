"""What people have stopped: pauses of policies and holds on what must stay. The rows outlive every deploy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from sexton.instant import Instant
from sexton.run import Change
from sexton.table import Key, Row

CONTROL = "CONTROL"  # the partition of all of them: one query reads them whole
PAUSE = "PAUSE#"
HOLD = "HOLD#"
ALL = "all"  # the scope of a pause of every policy; a policy of that name would be paused with all others


def pause_key(scope: str) -> Key:
    """The row of a policy's pause, or of the pause of all."""
    return Key(CONTROL, f"{PAUSE}{scope}")


def hold_key(scope: str) -> Key:
    """The row of a hold: a scope can be longer than a sort key."""
    return Key(CONTROL, f"{HOLD}{hashlib.sha256(scope.encode()).hexdigest()}")


class Pause(BaseModel):
    """A pause, standing or past: of one policy, or of all. `since` and the two after it are of the last change."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scope: str
    paused: bool
    since: Instant
    actor: str
    reason: str
    resumed_at: Instant | None = None
    history: tuple[Change, ...] = ()

    def paused_at(self, at: datetime) -> bool:
        """Whether it stood at a time that has passed."""
        before = [change for change in self.history if change.at <= at]
        return bool(before) and before[-1].change == "paused"


class Hold(BaseModel):
    """A hold, standing or released: nothing whose address begins with `scope` is removed while it stands.

    `run_id` names the undo that placed it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    scope: str
    active: bool
    since: Instant
    actor: str
    reason: str
    run_id: str | None = None
    released_at: Instant | None = None
    history: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Controls:
    """All pauses and holds, as they were read at one time."""

    pauses: tuple[Pause, ...] = ()
    holds: tuple[Hold, ...] = field(default=())

    @staticmethod
    def from_rows(rows: Iterable[Row]) -> Controls:
        """Raises pydantic.ValidationError when a row is none of them: what cannot be read stops everything."""
        pauses, holds = [], []
        for row in rows:
            if row["sk"].startswith(PAUSE):
                pauses.append(Pause.model_validate(row))
            elif row["sk"].startswith(HOLD):
                holds.append(Hold.model_validate(row))
        return Controls(tuple(pauses), tuple(holds))

    def paused(self, policy: str) -> Pause | None:
        """What pauses a policy: the pause of all, or its own."""
        return next((each for each in self._of(policy) if each.paused), None)

    def resumed_at(self, policy: str) -> Instant | None:
        """When a pause of the policy, or of all, last ended."""
        return max((each.resumed_at for each in self._of(policy) if each.resumed_at), default=None)

    def was_paused(self, policy: str, at: datetime) -> bool:
        """Whether the policy, or all, was paused at a time that has passed."""
        return any(each.paused_at(at) for each in self._of(policy))

    def _of(self, policy: str) -> list[Pause]:
        return sorted((each for each in self.pauses if each.scope in (ALL, policy)), key=lambda each: each.scope != ALL)

    def hold_on(self, address: str) -> Hold | None:
        """The hold that keeps what has this address, such as `s3://bucket/key`."""
        if not address.startswith(self._scopes):
            return None
        return next(each for each in self.holds if each.active and address.startswith(each.scope))

    @cached_property
    def _scopes(self) -> tuple[str, ...]:
        return tuple(each.scope for each in self.holds if each.active)

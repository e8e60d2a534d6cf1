"""Pausing with all that follows: the row decides, and schedules and the worker's feed only follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sexton.controls import ALL
from sexton.errors import CallFailed
from sexton.ledger import Ledger
from sexton.ports import Schedules
from sexton.starting import Policies
from sexton.stopping import ScopeChanged, Stopping


class PauseChanged(ScopeChanged):
    """A pause after a change. `switched`: the policies whose schedules were switched off or on.

    `trouble`: what could not follow. A pause holds all the same; after a resume ask for it again.
    """

    switched: tuple[str, ...]
    trouble: str | None = None


@dataclass(frozen=True)
class Pausing:
    """Pauses and resumes. Asked again, what did not follow the first time follows."""

    stopping: Stopping
    ledger: Ledger
    policies: Policies
    schedules: Schedules

    def pause(self, scope: str, reason: str, actor: str) -> PauseChanged:
        """Pause a policy, or `all`: then the worker is fed no more. Raises UnknownPolicy."""
        changed = self.stopping.pause(scope, reason, actor)
        return self._followed(changed)

    def resume(self, scope: str, reason: str, actor: str) -> PauseChanged:
        """End a pause; what another pause covers stays as it is. Raises UnknownPolicy."""
        changed = self.stopping.resume(scope, reason, actor)
        return self._followed(changed)

    def _followed(self, changed: ScopeChanged) -> PauseChanged:
        switched: list[str] = []
        try:
            switched += self._follow(changed.scope)
        except CallFailed as failed:
            return PauseChanged(**dict(changed), switched=tuple(switched), trouble=str(failed))
        return PauseChanged(**dict(changed), switched=tuple(switched))

    def _follow(self, scope: str) -> Iterator[str]:
        """Bring schedules and feed to what the rows say now, whoever wrote them last."""
        controls = self.ledger.controls()
        for policy in sorted(self.policies) if scope == ALL else [scope]:
            switch = self.schedules.disable if controls.paused(policy) else self.schedules.enable
            if switch(policy):
                yield policy
        if scope == ALL:
            stopped = any(each.paused for each in controls.pauses if each.scope == ALL)
            (self.schedules.stop_all if stopped else self.schedules.start_all)()

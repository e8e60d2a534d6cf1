"""Pausing with all that follows: the row decides, and schedules and the worker's feed only follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sexton.controls import ALL, Controls
from sexton.errors import CallFailed
from sexton.ledger import Ledger
from sexton.ports import Schedules
from sexton.starting import Policies
from sexton.stopping import ScopeChanged, Stopping

TRIES = 5  # while others pause or resume at the same moment, and the slower of two would have the last word


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
        trouble = None
        try:
            controls = self.ledger.controls()
            for _ in range(TRIES):
                switched += self._follow(changed.scope, controls)
                before, controls = controls, self.ledger.controls()
                if controls.pauses == before.pauses:
                    break
        except CallFailed as failed:
            trouble = str(failed)
        return PauseChanged(**dict(changed), switched=tuple(dict.fromkeys(switched)), trouble=trouble)

    def _follow(self, scope: str, controls: Controls) -> Iterator[str]:
        """Bring schedules and feed to what the rows say, whoever wrote them last."""
        for policy in sorted(self.policies) if scope == ALL else [scope]:
            switch = self.schedules.disable if controls.paused(policy) else self.schedules.enable
            if switch(policy):
                yield policy
        if scope == ALL:
            stopped = any(each.paused for each in controls.pauses if each.scope == ALL)
            (self.schedules.stop_all if stopped else self.schedules.start_all)()

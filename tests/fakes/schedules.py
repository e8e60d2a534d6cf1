"""The policies' schedules, and what feeds the worker, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class FakeSchedules:
    """`on`: whether the schedule of each policy that has one is switched on. `feeding`: whether the worker is fed."""

    on: dict[str, bool] = field(default_factory=dict)
    feeding: bool = True

    def disable(self, policy: str) -> bool:
        return self._switch(policy, False)

    def enable(self, policy: str) -> bool:
        return self._switch(policy, True)

    def stop_all(self) -> None:
        self.feeding = False

    def start_all(self) -> None:
        self.feeding = True

    def _switch(self, policy: str, on: bool) -> bool:
        if policy not in self.on:
            return False
        self.on[policy] = on
        return True

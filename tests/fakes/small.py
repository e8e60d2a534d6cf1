"""Fakes of the ports that only take something: the discovery function, the event bus, the gauges."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field


@dataclass
class FakeDiscovery:
    """Remembers whom it was asked to resume, and what it was handed, in order; answers what it is told to."""

    resumed: list[str] = field(default_factory=list)
    events: list[Mapping[str, object]] = field(default_factory=list)
    answer: Mapping[str, object] = field(default_factory=dict)

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        self.events.append(event)
        return self.answer

    def resume(self, run_id: str) -> None:
        self.resumed.append(run_id)


@dataclass
class FakeEvents:
    """Remembers what was published, in order."""

    published: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def put(self, kind: str, detail: Mapping[str, object]) -> None:
        self.published.append((kind, deepcopy(dict(detail))))

    def of(self, kind: str) -> list[dict[str, object]]:
        """The details of one kind."""
        return [detail for published, detail in self.published if published == kind]


@dataclass(frozen=True)
class Gauge:
    """One published number."""

    name: str
    value: float
    policy: str | None


@dataclass
class FakeGauges:
    """Remembers every number, in order."""

    published: list[Gauge] = field(default_factory=list)

    def put(self, name: str, value: float, policy: str | None = None) -> None:
        self.published.append(Gauge(name, value, policy))

    def last(self, name: str, policy: str | None = None) -> float | None:
        """The latest value of a gauge, None when it was never published."""
        values = [gauge.value for gauge in self.published if (gauge.name, gauge.policy) == (name, policy)]
        return values[-1] if values else None

"""How long past the cutoff things are, in a few classes that a person can read."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime

EDGES_DAYS = (1, 7, 30, 90, 365, 730, 1825)
LABELS = (
    "under 1 day",
    "1 to 7 days",
    "7 to 30 days",
    "30 to 90 days",
    "90 days to 1 year",
    "1 to 2 years",
    "2 to 5 years",
    "5 years or more",
)
NOT_PAST = "not past the cutoff"  # nothing planned belongs here: shown only where something does
NO_DATE = "no date"

_EDGES = tuple(days * 86_400 for days in EDGES_DAYS)


@dataclass(slots=True)
class Tally:
    """How many, and how many bytes."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one of this size."""
        self.count += 1
        self.bytes += size

    def merge(self, other: Tally) -> None:
        """Count all that the other counted."""
        self.count += other.count
        self.bytes += other.bytes


@dataclass
class Ages:
    """Counts things by how long before the cutoff they are dated; in constant memory."""

    cutoff: datetime
    _tallies: dict[str, Tally] = field(
        default_factory=lambda: {label: Tally() for label in (*LABELS, NOT_PAST, NO_DATE)}
    )

    def add(self, dated: datetime | None, size: int) -> None:
        """Count one thing. A date must be aware."""
        self._tallies[self._label(dated)].add(size)

    def _label(self, dated: datetime | None) -> str:
        if dated is None:
            return NO_DATE
        past = (self.cutoff - dated).total_seconds()
        return LABELS[bisect_right(_EDGES, past)] if past > 0 else NOT_PAST

    def rows(self) -> list[tuple[str, Tally]]:
        """Every class in order; the last two only if something is in them."""
        return [(label, tally) for label, tally in self._tallies.items() if label in LABELS or tally.count]

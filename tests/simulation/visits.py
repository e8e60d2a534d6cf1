"""What histories have gone through: rows of the state tables, kinds of trouble, acts of people."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.faults import Fault
from tests.simulation.operating import Act
from tests.simulation.oracles.transitions import all_rows


@dataclass
class Visits:
    """How often each was there."""

    rows: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    steps: int = 0

    def add(self, other: Visits) -> None:
        """Count what other histories have gone through, too."""
        self.rows += other.rows
        self.faults += other.faults
        self.steps += other.steps

    def report(self) -> str:
        """All that there is, each with how often it was there: none is left out."""
        named = [*all_rows(), *map(str, Fault), *map(str, Act)]
        return "\n".join(f"{(self.rows + self.faults)[name]:8}  {name}" for name in named)

    def never(self) -> list[str]:
        """What was never there."""
        named = [*all_rows(), *map(str, Fault), *map(str, Act)]
        return [name for name in named if not (self.rows + self.faults)[name]]

    def save(self, path: Path) -> None:
        """Leave the counts for whoever adds up; all or nothing."""
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"rows": self.rows, "faults": self.faults, "steps": self.steps}))
        unfinished.rename(path)

    @staticmethod
    def load(path: Path) -> Visits:
        """What `save` left."""
        fields = json.loads(path.read_text())
        return Visits(Counter(fields["rows"]), Counter(fields["faults"]), fields["steps"])

"""What a report is made of, and how it is written for people: beside the JSON lie a table and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sexton import naming
from sexton.breakdown import Breakdown
from sexton.money import Money

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Report:
    """One report: `facts` is the JSON that closing writes, the others are what its items came to."""

    facts: Mapping[str, object]
    breakdown: Breakdown
    money: Money

    def number(self, name: str) -> int:
        """A fact that is a count; 0 where the report does not have it."""
        value = self.facts.get(name)
        return value if isinstance(value, int) else 0

    @property
    def action(self) -> str:
        """What the run's policy does; empty of runs that an earlier release made."""
        return str(self.facts.get("action", ""))

    def ending(self, name: str) -> str:
        """How an ending is called for people."""
        undoes = self.facts.get("undoes")
        return naming.ending(name, str(undoes) if undoes else None, self.action)

    @property
    def things(self) -> str:
        """What its items are called: objects, or records."""
        return naming.things(self.action)

    def counts(self, name: str) -> dict[str, int]:
        """A fact that is counts by reason; empty where the report does not have it."""
        value = self.facts.get(name)
        return {str(key): each for key, each in value.items()} if isinstance(value, Mapping) else {}


def split_name(name: str) -> tuple[str, str]:
    """An outcome's name as ending and reason: `skipped:changed` is skipped, changed."""
    ending, _, reason = name.partition(":")
    return ending, reason


def readable_bytes(count: int) -> str:
    """Bytes in the largest unit that leaves a number of at least one."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:,.1f} {UNITS[unit]}"

"""What happened to an item. What was meant is a Decision; this is what came of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sexton.item import Item, ItemId, rfc3339, to_fields


class Ending(StrEnum):
    """The four ways an item ends."""

    DELETED = "deleted"
    SKIPPED = "skipped"
    DEAD = "dead"
    CANCELLED = "cancelled"


# Reasons of an outcome. `deleted` carries one only where it is no proof.
ABSENT_AFTER_ATTEMPT = "absent_after_attempt"
CHANGED_AFTER_ATTEMPT = "changed_after_attempt"
ABSENT = "absent"
CHANGED = "changed"
LOCKED = "locked"
HELD = "held"
CALLED_BEFORE = "called_before"

# What a `deleted` came to where that is not the removal of the item.
MARKED = "marked"
ARCHIVED = "archived"  # removed, and kept whole in evidence
RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of an outcome file: item `index` of the part ended so; a version with its id (an upload with its).

    Only `deleted` and `skipped` are written; `dead` and `cancelled` are implied by the job's row, so that a
    replay does not count twice. `deleted` says that what the run does was done; `effect` says what that is where it is
    not the plain removal. `archive` names the file that has the record.
    """

    index: int
    key: str
    ending: Ending
    at: datetime
    reason: str | None = None
    observed: Item | None = None
    marker_version_id: str | None = None
    unproven: bool = False
    version_id: str | None = None
    effect: str | None = None
    archive: str | None = None

    @property
    def name(self) -> str:
        """The outcome as it is counted: `deleted`, `skipped:changed`, `deleted:absent_after_attempt`."""
        return f"{self.ending}:{self.reason}" if self.reason else str(self.ending)


def to_line(outcome: Outcome) -> str:
    """Compact JSON in ASCII, absent fields left out."""
    fields: dict[str, object] = {
        "index": outcome.index,
        "key": outcome.key,
        **({"version_id": outcome.version_id} if outcome.version_id else {}),
        "outcome": str(outcome.ending),
        "at": rfc3339(outcome.at),
    }
    if outcome.reason:
        fields["reason"] = outcome.reason
    if outcome.observed:
        fields["observed"] = to_fields(outcome.observed)
    if outcome.marker_version_id:
        fields["marker_version_id"] = outcome.marker_version_id
    if outcome.unproven:
        fields["unproven"] = True
    if outcome.effect:
        fields["effect"] = outcome.effect
    if outcome.archive:
        fields["archive"] = outcome.archive
    return json.dumps(fields, separators=(",", ":"))


def to_lines(outcomes: Iterable[Outcome]) -> bytes:
    """The bytes of an outcome file, before compression."""
    return "".join(to_line(outcome) + "\n" for outcome in outcomes).encode("ascii")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What closing and explaining need of a written outcome line."""

    index: int
    key: str
    name: str
    fields: dict[str, object]

    @property
    def id(self) -> ItemId:
        """The item that it is about."""
        version_id = self.fields.get("version_id")
        return self.key, None if version_id is None else str(version_id)


def read_lines(lines: bytes) -> list[Recorded]:
    """Read an outcome file. Raises ValueError, KeyError or TypeError when it is none."""
    found = []
    for line in lines.splitlines():
        fields = json.loads(line)
        if not isinstance(fields, dict) or not isinstance(fields["index"], int):
            raise TypeError("a line is no outcome")
        reason = fields.get("reason")
        name = f"{fields['outcome']}:{reason}" if reason else fields["outcome"]
        found.append(Recorded(fields["index"], fields["key"], name, fields))
    return found


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many ended under each name."""
    return dict(Counter(outcome.name for outcome in outcomes))

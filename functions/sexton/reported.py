"""What a canary leaves alone, item by item: files in evidence, each of which names the one before it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from sexton import keys
from sexton.item import Item, to_line
from sexton.ports import Evidence

MOST_AT_ONCE = 10_000  # in memory, and in a file


class Reported(BaseModel):
    """How many files there are, and the hash of the last; with it, whoever reads them proves them all."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    files: int
    last: str


@dataclass
class ReportedItems:
    """Gathers items, and writes them: nothing of them stands in a part or in a row, so nothing can act on them."""

    written: Reported | None = None
    most: int = MOST_AT_ONCE
    pending: list[Item] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether they must be written before more are gathered."""
        return len(self.pending) >= self.most

    def keep(self, evidence: Evidence, run_id: str) -> None:
        """Write what was gathered, if anything was."""
        if not self.pending:
            return
        before = self.written
        head = json.dumps({"schema": 1, "previous": before.last if before else None}, separators=(",", ":"))
        text = "".join(f"{line}\n" for line in (head, *map(to_line, self.pending))).encode("ascii")
        now = Reported(files=before.files + 1 if before else 1, last=hashlib.sha256(text).hexdigest())
        evidence.put_once(keys.reported(run_id, now.files, now.last), text)
        self.written, self.pending = now, []

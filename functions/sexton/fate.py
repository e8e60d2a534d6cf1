"""What came of one object, or of one version of it, in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.item import Item

OPEN = "open"  # it has no outcome yet
PLANNED = "planned"  # nothing is done with it until a person approves


class SeenItem(BaseModel):
    """An object as it was seen at one time; of a version, what an Item says of it."""

    model_config = ConfigDict(frozen=True)

    key: str
    etag: str
    size: int
    storage_class: str
    last_modified: AwareDatetime | None
    version_id: str | None = None
    noncurrent_since: AwareDatetime | None = None
    rank: int = 0
    is_marker: bool = False
    tags: Mapping[str, str] | None = None

    @staticmethod
    def of(item: Item) -> SeenItem:
        """As a listing or a HEAD showed it."""
        return SeenItem(**item._asdict())


class Attempted(BaseModel):
    """One attempt of the job that did not end in success."""

    model_config = ConfigDict(frozen=True)

    at: AwareDatetime
    attempt: int
    event: str
    code: str
    summary: str


class Fate(BaseModel):
    """What came of the object in one run.

    `outcome` is deleted, skipped, dead or cancelled; `open` while there is none, `planned` while the run waits for a
    person. `observed` is the last look before the outcome, where it was not what had been planned. `attempts` is None
    where the job's row has left the ledger.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    policy_version: str
    mode: str
    run_state: str
    scheduled_time: AwareDatetime
    cutoff: AwareDatetime
    planned: SeenItem
    job_id: str
    index: int
    outcome: str
    reason: str | None
    at: AwareDatetime | None
    unproven: bool
    observed: dict[str, Any] | None
    marker_version_id: str | None
    attempts: int | None
    history: tuple[Attempted, ...]
    summary: str | None
    next_action: str | None

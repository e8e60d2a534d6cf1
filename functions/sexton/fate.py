"""What came of one object, or of one version of it, in one run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

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


class Ran(Protocol):
    """What a run's row and its plan both tell of the run."""

    @property
    def run_id(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def policy_version(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def undoes(self) -> str | None: ...
    @property
    def scheduled_time(self) -> datetime: ...
    @property
    def cutoff(self) -> datetime: ...


class Implied(NamedTuple):
    """How an item ended that no file has an outcome of: what the state of its job and run implies."""

    outcome: str
    reason: str | None = None
    at: datetime | None = None


class Fate(BaseModel):
    """What came of the object in one run.

    `outcome` is deleted, skipped, dead or cancelled; `open` while there is none, `planned` while the run waits for a
    person. `observed` is the last look before the outcome, where it was not what had been planned. `attempts` is None
    where the job's row has left the ledger. Of an undo (`undoes`) what is `deleted` is a delete marker. `effect` and
    `archive` are an outcome's.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    policy: str
    policy_version: str
    mode: str
    undoes: str | None
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
    effect: str | None = None
    archive: str | None = None
    attempts: int | None = None
    history: tuple[Attempted, ...] = ()
    summary: str | None = None
    next_action: str | None = None

    @staticmethod
    def of(ran: Ran, planned: Item, recorded: Mapping[str, Any], implied: Implied, **more: object) -> Fate:
        """From what an outcome file has recorded, if one did; `more` are the fields that nobody records."""
        fields: dict[str, Any] = {
            "run_id": ran.run_id,
            "policy": ran.policy,
            "policy_version": ran.policy_version,
            "mode": ran.mode,
            "undoes": ran.undoes,
            "scheduled_time": ran.scheduled_time,
            "cutoff": ran.cutoff,
            "planned": SeenItem.of(planned),
            "outcome": recorded.get("outcome") or implied.outcome,
            "reason": recorded.get("reason") if recorded else implied.reason,
            "at": recorded.get("at") or implied.at,
            "unproven": bool(recorded.get("unproven")),
            "observed": recorded.get("observed"),
            "marker_version_id": recorded.get("marker_version_id"),
            "effect": recorded.get("effect"),
            "archive": recorded.get("archive"),
        }
        return Fate(**fields, **more)

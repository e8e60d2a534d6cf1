"""What the functions read from their environment: once, in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

PREFIX = "SEXTON_"
LOCAL_ENDPOINT = "AWS_ENDPOINT_URL"

LEASE_MARGIN = timedelta(seconds=30)  # a lease outlives the worker that holds it, so that no live worker is doubled
VISIBILITY_FACTOR = 6  # AWS advises six times the function timeout for an SQS source


class OnlyLocal(Exception):
    """On AWS only public addresses are called: the function does not start."""


class UntrustedCaller(Exception):
    """On AWS nobody is believed to be whom they say: the function does not start."""


class Settings(BaseModel):
    """One field per `SEXTON_` variable; a missing or unreadable one fails the cold start with its name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ledger_table: str
    evidence_bucket: str
    jobs_queue_url: str
    dead_letter_queue_url: str
    discovery_function: str = ""
    door: str = Field(default="", pattern=r"^(operator|approver)?$")
    trust_caller: bool = False
    schedule_group: str = ""
    jobs_mapping: str = ""
    redrive_role: str = ""
    event_bus: str = "default"
    account: str = Field(pattern=r"^\d{12}$")
    worker_timeout_seconds: int = Field(gt=0, le=900)
    max_receive_count: int = Field(gt=0)
    mismatch_seconds: int = Field(default=300, gt=0)
    local_ca: str = ""

    @property
    def worker_timeout(self) -> timedelta:
        """The worker function's time limit."""
        return timedelta(seconds=self.worker_timeout_seconds)

    @property
    def lease(self) -> timedelta:
        """How long a claim holds a job: the worker's timeout and 30 s."""
        return self.worker_timeout + LEASE_MARGIN

    @property
    def visibility(self) -> timedelta:
        """How long a received message stays hidden: six times the worker's timeout."""
        return self.worker_timeout * VISIBILITY_FACTOR

    @property
    def reserve(self) -> timedelta:
        """What a worker keeps of its time to record and settle: 10 s, less where the whole is short."""
        return min(timedelta(seconds=10), self.worker_timeout / 5)

    @property
    def delete_timeout(self) -> timedelta:
        """The longest that one deletion may take: 23 s, less where the worker's time is short."""
        return min(timedelta(seconds=23), self.worker_timeout / 3)

    @property
    def mismatch(self) -> timedelta:
        """How long a run's policy version may differ from the deployed one before the run is invalidated."""
        return timedelta(seconds=self.mismatch_seconds)


def actor(environ: Mapping[str, str] = os.environ) -> str:
    """Whom the command line says it is on a stage that verifies nobody; empty where it says nothing."""
    return environ.get(f"{PREFIX}ACTOR", "").strip()


def parse(environ: Mapping[str, str]) -> Settings:
    """The `SEXTON_` variables of any function, wherever it runs.

    Raises pydantic.ValidationError naming each variable that is missing or unreadable.
    """
    known = Settings.model_fields
    given = {name: environ[PREFIX + name.upper()] for name in known if PREFIX + name.upper() in environ}
    return Settings.model_validate(given)


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Those of the function that this process is. Raises as `parse` does, UntrustedCaller, and OnlyLocal."""
    settings = parse(environ)
    if settings.trust_caller and not environ.get(LOCAL_ENDPOINT):
        raise UntrustedCaller(f"{PREFIX}TRUST_CALLER is for an emulator, which {LOCAL_ENDPOINT} names")
    if settings.local_ca and not environ.get(LOCAL_ENDPOINT):
        raise OnlyLocal(f"{PREFIX}LOCAL_CA is for an emulator, which {LOCAL_ENDPOINT} names")
    return settings

"""The limits of a policy: past them a run stops, or waits for a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, field_validator

from sexton.duration import FixedDuration, to_text
from sexton.problem import refused

# Three attempts of a worker that crashes each time: a lease of two and a half minutes and a minute's tick each,
# with room for the work itself.
SHORTEST_MAX_AGE = timedelta(minutes=15)


class Limits(BaseModel):
    """How much one run may do, and how long one job may be tried."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_items: Annotated[StrictInt, Field(ge=1)] = 1_000_000
    max_share: Annotated[StrictFloat, Field(gt=0, le=1)] | None = None
    empty_cohort: StrictBool = False
    max_dead_share: Annotated[StrictFloat, Field(gt=0, le=1)] = 0.1
    max_planning: FixedDuration = timedelta(hours=6)
    max_attempts: Annotated[StrictInt, Field(ge=3, le=100)] = 5
    max_age: FixedDuration = timedelta(hours=6)

    @field_validator("max_age")
    @classmethod
    def _room_for_attempts(cls, max_age: timedelta) -> timedelta:
        if max_age < SHORTEST_MAX_AGE:
            raise refused(
                f"max_age {to_text(max_age)} leaves no room for three attempts",
                f"{to_text(SHORTEST_MAX_AGE)} or more",
            )
        return max_age

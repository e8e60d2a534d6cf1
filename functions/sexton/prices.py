"""The list prices that Sexton knows: read from one file, which says where they come from and as of when."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

FILE = Path(__file__).with_name("prices.json")

Price = Annotated[Decimal, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClassRule(_Read):
    """How a storage class is billed, wherever it is.

    An object is billed for `minimum_bytes` if it is smaller, and for `minimum_days` if it goes earlier. An archived one
    is billed for `added_bytes` more at the price of its class, and for `added_standard_bytes` at that of STANDARD.
    `no_price` says why there can be none.
    """

    minimum_days: Count = 0
    minimum_bytes: Count = 0
    added_bytes: Count = 0
    added_standard_bytes: Count = 0
    no_price: str | None = None

    def billed(self, size: int) -> int:
        """The bytes that an object of this size is billed for, at the price of its class."""
        return max(size, self.minimum_bytes) + self.added_bytes


class Source(_Read):
    """Where figures come from, and how they were read."""

    url: str
    of: Annotated[str, Field(alias="for")]
    read: str
    note: str = ""


class SecondReading(_Read):
    """The day of another reading that agreed, and what it covered."""

    on: str
    of: tuple[str, ...]


class Requests(_Read):
    """USD for a thousand requests on STANDARD. Deletions cost nothing."""

    write_or_list: Price
    read: Price


class Region(_Read):
    """USD for a GB-month, by storage class."""

    storage: Mapping[str, Price]
    requests_per_1000: Requests
    second_reading: SecondReading | None = None


class Prices(_Read):
    """The whole file."""

    schema_: Annotated[int, Field(alias="schema", ge=1, le=1)]
    currency: str
    as_of: str
    unit: str
    sources: tuple[Source, ...]
    classes: Mapping[str, ClassRule]
    regions: Mapping[str, Region]

    def of(self, region: str, storage_class: str) -> Decimal | None:
        """USD for a GB-month, or None where the file has no price: that is never zero."""
        found = self.regions.get(region)
        return found.storage.get(storage_class) if found else None


@cache
def list_prices() -> Prices:
    """The prices of the file beside this module."""
    return Prices.model_validate_json(FILE.read_bytes())

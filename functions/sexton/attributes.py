"""Attributes of records: values in DynamoDB's typed form, as JSON can carry them (`{"S": "text"}`, `{"N": "12"}`).

A `B` holds base64 text. So a key, or what was seen of a record, is the same text wherever it is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

Attribute = Mapping[str, Any]
Attributes = Mapping[str, Attribute]

LARGEST = 2**53 - 1  # the largest whole number that JSON readers agree on
SCALARS = frozenset({"S", "N", "B", "BOOL", "NULL"})  # what a condition can compare as a whole


def canonical(values: Mapping[str, Attribute | None]) -> str:
    """The one text of these attributes: compact JSON in ASCII, names sorted; None where there is no such attribute."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def parse(text: str) -> dict[str, Any]:
    """What `canonical` wrote. Raises ValueError when it is no mapping."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text[:80]!r} is no mapping of attributes")
    return found


def is_scalar(value: Attribute | None) -> bool:
    """Whether it is one value, or none at all: no list, map or set."""
    return value is None or value.keys() <= SCALARS


def number(value: Attribute | None) -> Decimal | None:
    """The number of an `N`; None for whatever else it is."""
    try:
        found = Decimal(str((value or {})["N"]))
    except (KeyError, InvalidOperation):
        return None
    return found if found.is_finite() else None


def typed(value: str | int | bool) -> dict[str, Any]:
    """A text, whole number or truth value as an attribute."""
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def matches(value: Attribute | None, wanted: str | int | bool) -> bool:
    """Whether an attribute is this text, whole number, or truth value, and of that type."""
    if isinstance(wanted, bool):
        return value == {"BOOL": wanted}
    if isinstance(wanted, int):
        return number(value) == wanted
    return value == {"S": wanted}

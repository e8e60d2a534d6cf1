"""What is wrong with a policy, where, and what to write instead."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import Field
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, ValidationError

from sexton.errors import Refused

CHECKED = Field(validate_default=True)  # a field that is checked against others, whether it is given or not

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class Problem(NamedTuple):
    """One thing that is wrong. `where` is `file:line`, or whatever else finds it."""

    where: str
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; write instead {self.instead}"


class PolicyError(Refused):
    """Policies that cannot be used. Its text has one line for each problem."""

    code = "broken_policy"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def refused(what: str, instead: str, *, at: str = "", entry: str = "") -> PydanticCustomError:
    """A validator's refusal.

    `at` names the field (dotted, below what is validated; `..name` beside it) where it is not the whole; `entry` is
    the text of the list's entry that is meant.
    """
    context = {"what": what, "instead": instead, "at": at, "entry": entry}
    return PydanticCustomError("policy", "{what}; write instead {instead}", context)


def refuse(found: Iterable[PydanticCustomError]) -> None:
    """Raise all that a validator found, together."""
    errors: list[InitErrorDetails] = [{"type": each, "input": None} for each in found]
    if errors:
        raise ValidationError.from_exception_data("policy", errors)


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of fields",
    "datetime_type": "a time",
    "datetime_parsing": "a time in RFC 3339",
    "timezone_aware": "a time with its zone",
}
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
_LENGTHS = {
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "too_long": "a collection of at most {max_length} entries",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
}


def wanted(error: ErrorDetails) -> str:
    """What a value that pydantic refused must be, in words of ours; empty where there are none for it."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _LENGTHS:
        return _LENGTHS[kind].format(**context)
    bounds = [f"{word} {context[key]}" for key, word in _BOUNDS.items() if key in context]
    return f"a number {' and '.join(bounds)}" if bounds else _WANTED.get(kind, "")


def in_words(error: ErrorDetails) -> str:
    """What a pydantic error says, in words of ours."""
    if error["type"] in ("value_error", "policy"):
        return error["msg"].removeprefix("Value error, ")
    if error["type"] == "missing":
        return "it is missing"
    if error["type"] == "extra_forbidden":
        return "there is no such field"
    must_be = wanted(error)
    return f"it must be {must_be}" if must_be else f"it cannot be {shown(error['input'])}"


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and never long."""
    return _SHORT.repr(value)

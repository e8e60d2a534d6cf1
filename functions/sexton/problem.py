"""What is wrong with a policy, where, and what to write instead."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import NamedTuple

from pydantic_core import PydanticCustomError

from sexton.errors import Refused

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

    `at` names the field (dotted, below what is validated) where it is not the whole; `entry` is the text of the
    list's entry that is meant.
    """
    context = {"what": what, "instead": instead, "at": at, "entry": entry}
    return PydanticCustomError("policy", "{what}; write instead {instead}", context)


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and never long."""
    return _SHORT.repr(value)

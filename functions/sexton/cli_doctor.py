"""What people see of a diagnosis: every check on a line, then what to do about those that are not ok."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sexton.cli_output import facts, many, table
from sexton.doctor import VERDICTS, Check, Diagnosis

if TYPE_CHECKING:
    from rich.console import RenderableType


def diagnosis(found: Diagnosis) -> Iterator[RenderableType]:
    """The checks in the order that they were made, the advice in that of its weight, and the sum."""
    yield table(("check", "of", "verdict", "found"), ((c.name, c.of, c.verdict, c.found) for c in found.checks))
    yield ""
    advice = [check for verdict in VERDICTS for check in found.checks if check.verdict == verdict and check.to_do]
    if advice:
        yield facts(_gathered(advice))
        yield ""
    counts = ", ".join(f"{found.counts[verdict]} {verdict}" for verdict in VERDICTS)
    yield facts((("in all", f"{many(len(found.checks), 'check')}: {counts}"),))


def _gathered(advice: Iterable[Check]) -> Iterator[tuple[str, str]]:
    """The same advice once, with all that it is for."""
    of: dict[tuple[str, str], list[str]] = {}
    for check in advice:
        of.setdefault((f"{check.verdict}: {check.name}", check.to_do), []).append(check.of)
    return ((what, f"{', '.join(each)}: {to_do}") for (what, to_do), each in of.items())

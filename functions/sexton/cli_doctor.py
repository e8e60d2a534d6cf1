"""What people see of a diagnosis: every check on a line, then what to do about those that are not ok."""

from __future__ import annotations

from collections.abc import Iterator
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
        yield facts(_line(check) for check in advice)
        yield ""
    counts = ", ".join(f"{found.counts[verdict]} {verdict}" for verdict in VERDICTS)
    yield facts((("checks", f"{many(len(found.checks), 'check')}: {counts}"),))


def _line(check: Check) -> tuple[str, str]:
    return f"{check.verdict}: {check.name}", f"{check.of}: {check.to_do}"

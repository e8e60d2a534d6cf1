"""The simulator can fail: each of these bugs is found, and by the judge whose promise it breaks."""

from __future__ import annotations

import re

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.history import History
from tests.simulation.violation import Violation

SEEDS = 600  # within which every bug is found


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)

    said = next((said for said in map(violation_of, range(SEEDS)) if said), "no history found it")

    assert re.search(BUGS[name].said, said), BUGS[name].plant.__doc__


def violation_of(seed: int) -> str:
    """What a judge says of a seed's history, nothing where every promise was kept."""
    try:
        History(seed).run()
    except Violation as violation:
        return str(violation)
    return ""

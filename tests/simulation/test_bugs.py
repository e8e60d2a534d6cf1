"""The simulator can fail: each of these bugs is found, and by the judge whose promise it breaks."""

from __future__ import annotations

import re

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.history import History
from tests.simulation.violation import Violation

SEEDS = 1000  # within which every bug is found


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)

    histories = (history for history in map(History, range(SEEDS)) if BUGS[name].about(history))
    said = next((said for said in map(violation_of, histories) if said), "no history found it")

    assert re.search(BUGS[name].said, said), BUGS[name].plant.__doc__


def violation_of(history: History) -> str:
    """What a judge says of a history, nothing where every promise was kept."""
    try:
        history.run()
    except Violation as violation:
        return str(violation)
    return ""

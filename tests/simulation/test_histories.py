"""Two thousand histories: no promise is broken, every run ends, and whatever can happen has happened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.history import History, told
from tests.simulation.violation import Violation
from tests.simulation.visits import Visits

SEEDS, SHARES = 2000, 8
LINES = 60  # of a failing history's story


@pytest.fixture
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, the same for every process that has a part in it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "visits"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("share", range(SHARES))
def test_every_promise_is_kept(share: int, gathered: Path) -> None:
    visits = Visits()
    for seed in range(share, SEEDS, SHARES):
        visits.add(judged(seed))
    visits.save(gathered / f"{share}.json")
    judge_what_all_visited(gathered)


def judged(seed: int) -> Visits:
    """What a history visited. A broken promise fails with the end of its story."""
    try:
        return History(seed).run()
    except Violation:
        story, violation = told(seed)
        pytest.fail(f"{story.last(LINES)}\n\nseed {seed}: {violation}\nmake simulate SEED={seed} tells all of it")


def judge_what_all_visited(gathered: Path) -> None:
    """Once the last share is through: a row of the tables, a kind of trouble or an act that never was fails."""
    shares = sorted(gathered.glob("*.json"))
    if len(shares) < SHARES:
        return
    visits = Visits()
    for each in shares:
        visits.add(Visits.load(each))
    assert not visits.never(), visits.report()


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_tells_the_same_story_each_time(seed: int) -> None:
    assert told(seed)[0].lines == told(seed)[0].lines

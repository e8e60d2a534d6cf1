"""Many histories: no promise is broken, every run ends, and a seed replays."""

from __future__ import annotations

import pytest

from tests.simulation.history import History, Visits, told
from tests.simulation.violation import Violation

SEEDS, SHARES = 400, 8
LINES = 60  # of a failing history's story


@pytest.mark.parametrize("share", range(SHARES))
def test_every_promise_is_kept(share: int) -> None:
    visits = Visits()
    for seed in range(share, SEEDS, SHARES):
        visits.add(judged(seed))


def judged(seed: int) -> Visits:
    """What a history visited. A broken promise fails with the end of its story."""
    try:
        return History(seed).run()
    except Violation:
        story, violation = told(seed)
        pytest.fail(f"{story.last(LINES)}\n\nseed {seed}: {violation}\nmake simulate SEED={seed} tells all of it")


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_tells_the_same_story_each_time(seed: int) -> None:
    assert told(seed)[0].lines == told(seed)[0].lines

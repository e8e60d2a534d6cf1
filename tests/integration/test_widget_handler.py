"""The widget function on moto, called as a dashboard calls it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.calls import Calls
from tests.fakes.world import policy
from tests.integration import on_moto
from tests.integration.on_moto import Functions

POLICY = policy(approval="always", source={"kind": "s3", "bucket": "items", "prefixes": ["app/"]})


@pytest.fixture(scope="module")
def process() -> Iterator[Calls]:
    with on_moto.process() as calls:
        yield calls


@pytest.fixture
def functions(process: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    with on_moto.functions(process, monkeypatch) as functions:
        functions.deploy(POLICY)
        yield functions


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_answers_with_what_is_stuck_in_the_colours_of_the_dashboard(functions: Functions, theme: str) -> None:
    functions.put(["app/1"])
    run = functions.run(functions.trigger())
    rows = functions.rows()

    html = functions.invoke("widget", {"widgetContext": {"theme": theme, "params": {}}})

    assert f'<div class="sexton {theme}">' in html
    assert f"sexton run approve {run.run_id} --digest {run.digest} --reason WHY" in html
    assert functions.rows() == rows


def test_it_describes_itself(functions: Functions) -> None:
    answer = functions.invoke("widget", {"describe": True})
    assert set(answer) == {"markdown"}
    assert "changes nothing" in answer["markdown"]

"""The list of lies is itself in order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.contract.lies import LIES, Lie
from tests.contract.test_bucket import KEYS

CASES = {
    node.name
    for path in Path(__file__).parent.glob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: f"{lie.world}:{lie.case}")
def test_a_lie_names_a_case_and_a_reason(lie: Lie) -> None:
    assert lie.world in ("moto", "ministack")
    assert lie.case in CASES
    assert len(lie.reason) > 20


def test_no_case_is_listed_twice() -> None:
    listed = [(lie.world, lie.case, only) for lie in LIES for only in lie.only or ("",)]
    assert len(listed) == len(set(listed))


def test_every_case_is_true_in_one_emulator_at_least() -> None:
    """What neither emulator does right would rest on the fake alone, which is no evidence."""
    both = {(lie.case, only) for lie in LIES for only in lie.only or ("",) if lie.world == "moto"} & {
        (lie.case, only) for lie in LIES for only in lie.only or ("",) if lie.world == "ministack"
    }
    assert both == set()


def test_the_names_of_odd_keys_can_be_told_from_worlds() -> None:
    assert not any("-" in name or name in ("fake", "moto", "ministack") for name in KEYS)

"""What holds for every test: Hypothesis without a deadline, and no mock of AWS that outlives its test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# On a busy machine a slow example is no failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def no_mock_outlives_its_test() -> Iterator[None]:
    """moto starts empty only when no other mock is active: one left on hands its buckets to every later test."""
    yield
    moto = sys.modules.get("moto.core.models")
    assert moto is None or moto.MockAWS._nested_count == 0, "mock_aws is still active after the test"

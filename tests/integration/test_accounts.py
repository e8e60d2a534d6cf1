"""Buckets of another account: every call of every flow says whose bucket it must be."""

from __future__ import annotations

from pathlib import Path

import pytest
from sexton.explaining import Explaining
from sexton.policy import Policy, PolicyError, load_policies

from tests.fakes.world import World, policy

ANOTHER = "210987654321"
TWO_ACCOUNTS = Path(__file__).parents[1] / "fixtures" / "policies" / "two-accounts"


def of_another() -> Policy:
    mine = policy()
    return mine.model_copy(update={"source": mine.source.model_copy(update={"account": ANOTHER})})


@pytest.fixture
def world() -> World:
    made = World(policies={"logs-expire": of_another()})
    made.fill(["app/one", "app/two"])
    made.asked.clear()
    return made


def test_planning_working_and_closing_ask_for_the_bucket_of_the_account(world: World) -> None:
    world.trigger()
    world.settle()

    assert world.asked == {("logs", ANOTHER)}
    assert not world.bucket().list("").items


def test_explaining_asks_for_the_bucket_of_the_account_that_the_policies_name(world: World) -> None:
    world.trigger()
    world.settle()
    world.asked.clear()

    Explaining(world.ledger, world.evidence, world.stores, world.clock).explain("s3://logs/app/one")

    assert world.asked == {("logs", ANOTHER)}


def test_explaining_a_bucket_of_no_policy_asks_for_the_stacks_own(world: World) -> None:
    Explaining(world.ledger, world.evidence, world.stores, world.clock).explain("s3://elsewhere/app/one")

    assert world.asked == {("elsewhere", None)}


def test_the_account_is_part_of_the_version() -> None:
    assert of_another().version != policy().version
    assert f'"account":"{ANOTHER}"' in of_another().canonical()


def test_policies_that_do_not_agree_on_the_account_are_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policies(TWO_ACCOUNTS)

    assert str(caught.value) == (
        f"{TWO_ACCOUNTS}/b.yaml:8: bucket some-bucket is of account {ANOTHER} here, and of the stack's own account"
        f" in {TWO_ACCOUNTS}/a.yaml; write instead the same source.account in both"
    )

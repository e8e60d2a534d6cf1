"""Records that are removed one by one: each on its condition, each with an answer of its own; and the role for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from sexton.elsewhere import Elsewhere
from sexton.errors import Failure, ReasonClass
from sexton.ports import CHANGED_AT_ONCE, Removed
from sexton.table import Update

from tests.contract.test_records import DUE, delete, remind, source
from tests.contract.worlds import AwsWorld, World

THERE = Elsewhere("eu-west-1", "arn:aws:iam::210987654321:role/sexton-reminders", "our-stage")


def classes(came: Any) -> list[ReasonClass | None]:
    return [each.reason_class if isinstance(each, Failure) else None for each in came]


def test_each_record_is_answered_for_in_its_place(world: World) -> None:
    _, records, hands = world.records()
    for name in "abc":
        remind(hands, name)
    changed, gone = delete(hands, "b", DUE - 2), delete(hands, "absent")
    came = records.change([delete(hands, "a"), changed, gone, delete(hands, "c")])
    assert classes(came) == [None, ReasonClass.CHANGED, ReasonClass.GONE, None]
    assert came[0] == Removed()
    assert hands.ids() == ["b"]


def test_as_many_go_at_once_as_are_allowed(world: World) -> None:
    _, records, hands = world.records()
    names = [f"{number:02d}" for number in range(CHANGED_AT_ONCE)]
    for name in names:
        remind(hands, name)
    assert classes(records.change([delete(hands, name) for name in names])) == [None] * CHANGED_AT_ONCE
    assert hands.ids() == []


def test_a_refusal_tells_nothing_of_the_record_but_that_it_is_there(world: World) -> None:
    _, records, hands = world.records()
    remind(hands, "a", secret={"S": "personal"})
    (came,) = records.change([delete(hands, "a", DUE - 2)])
    assert isinstance(came, Failure)
    assert "personal" not in repr(came)


def test_a_record_is_marked_only_while_it_is_as_it_was(world: World) -> None:
    _, records, hands = world.records()
    remind(hands, "a")
    mark = {"expired": {"BOOL": True}}
    marks = [
        Update(hands.name, each.key, each.expected, mark)
        for each in (delete(hands, "a", expired=None), delete(hands, "absent", expired=None))
    ]
    assert classes(records.change(marks)) == [None, ReasonClass.GONE]
    assert classes(records.change(marks[:1])) == [ReasonClass.CHANGED]
    marked = source(table=hands.name, version_attribute="expired")
    (found,) = records.get(marked, [{"id": {"S": "a"}}])
    assert found.values["expired"] == {"BOOL": True}
    assert hands.ids() == ["a"]


def test_a_lost_reply_is_an_effect_that_nobody_knows_of(world: World) -> None:
    _, records, hands = world.records()
    remind(hands, "a")
    world.lose_reply_of_change(records, {"id": {"S": "a"}})
    (came,) = records.change([delete(hands, "a")])
    assert isinstance(came, Failure)
    assert (came.reason_class, came.unknown_effect) == (ReasonClass.TRANSIENT, True)
    assert hands.ids() == []
    (again,) = records.change([delete(hands, "a")])
    assert classes([again]) == [ReasonClass.GONE]


@pytest.mark.parametrize("place", [THERE, Elsewhere("eu-west-1")], ids=["behind a role", "in another region"])
def test_a_table_elsewhere_is_another_table(
    aws: AwsWorld, place: Elsewhere, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if aws.name == "ministack":  # an emulator has one endpoint for all regions
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.clients.sts.meta.endpoint_url)
    clients = aws.clients.elsewhere(place, "sexton-worker.reminders-delete.20261130T201900Z.1")
    for client in (clients.dynamodb, clients.dynamodb_changes):
        request.addfinalizer(client.close)
    _, _, here = aws.records()
    remind(here, "a")
    _, records, hands = replace(aws, clients=clients).records()
    remind(hands, "b")
    found = records.get(source(table=hands.name), [{"id": {"S": name}} for name in "ab"])
    assert [each.key for each in found] == [{"id": {"S": "b"}}]
    assert classes(records.change([delete(hands, "b")])) == [None]
    assert (hands.ids(), here.ids()) == ([], ["a"])
    with pytest.raises(ClientError, match="ResourceNotFound"):
        aws.clients.dynamodb.describe_table(TableName=hands.name)

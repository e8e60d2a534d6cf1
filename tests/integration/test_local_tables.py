"""The tables that a local stage makes are such that the policies which name them are not refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from sexton.aws.records import DynamoRecords
from sexton.policy import Policy
from sexton.record_source import RecordSource
from sexton.records import refuse_unfit_table

from infra.local import tables
from tests.fakes.world import records_policy

BY_DAY = {"index": "by-day", "partitions": ["2026-01-01"]}
OWN_KEY = {"index": None, "partitions": ["7"]}
SCANNED = {"index": None, "partitions": None, "scan": {"segments": 2}}
IN_SECONDS = {"timestamp": {"attribute": "deadline", "format": "epoch_s"}}
AS_TEXT = {"timestamp": {"attribute": "until", "format": "iso8601"}}


def about(**source: object) -> Policy:
    given = {"kind": "dynamodb", "table": "reminders", **IN_SECONDS, **source}
    fields = {name: value for name, value in given.items() if value is not None}
    return records_policy().model_copy(update={"source": RecordSource.model_validate(fields)})


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("dynamodb", region_name="eu-central-1")


@pytest.mark.parametrize(
    "policies",
    [
        [about(**BY_DAY)],
        [about(**BY_DAY, **AS_TEXT)],
        [about(**OWN_KEY)],
        [about(**SCANNED)],
        [about(**SCANNED), about(**OWN_KEY), about(**BY_DAY), about(**BY_DAY | {"index": "state"}, **AS_TEXT)],
        [about(**SCANNED), about(**SCANNED, table="others")],
    ],
    ids=["index", "text", "own-key", "scan", "all-in-one", "two-tables"],
)
def test_a_policy_finds_the_table_that_was_made_for_it(dynamodb: Any, policies: list[Policy]) -> None:
    tables.create(dynamodb, policies)
    tables.create(dynamodb, policies)  # as a second deployment does

    for policy in policies:
        assert isinstance(policy.source, RecordSource)
        shape = DynamoRecords(dynamodb, policy.source.table).shape()
        assert shape.keys.partition == tables.ID
        refuse_unfit_table(policy.source, shape)


def test_an_index_is_partitioned_by_what_its_name_says(dynamodb: Any) -> None:
    tables.create(dynamodb, [about(**BY_DAY)])

    assert DynamoRecords(dynamodb, "reminders").shape().indexes["by-day"].partition == "day"

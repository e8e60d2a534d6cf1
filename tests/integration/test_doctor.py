"""The doctor's probes of S3 and DynamoDB on moto: real requests and answers, and a store that lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from boto3.session import Session
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from sexton.aws import probe_bucket, probe_evidence, probe_ledger, probe_table
from sexton.aws.probe import Site
from sexton.doctor import Check
from sexton.elsewhere import Elsewhere
from sexton.policy import Policy

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.site import OUTPUTS, REGION
from tests.fakes.world import World, policy, records_policy
from tests.integration import reminders

STACK = f"arn:aws:cloudformation:{REGION}:{DEFAULT_ACCOUNT_ID}:stack/Sexton/1"
SOURCE = {"kind": "s3", "bucket": "items", "prefixes": ["app/"]}  # moto takes a bucket named logs for CloudWatch
NONCURRENT = {**SOURCE, "versions": "noncurrent"}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        world = World()
        session = Session(region_name=REGION, aws_access_key_id="x", aws_secret_access_key="y")
        for bucket in ("evidence", "items"):
            s3(session).create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield Site("Sexton", STACK, OUTPUTS, session, deployment(world, FakeFunctions(world)))


def s3(session: Session) -> Any:
    return session.client("s3")


def of_bucket(site: Site, **changes: object) -> dict[str, Check]:
    return {
        check.name: check for check in probe_bucket.checks(site, "items", [policy(**{"source": SOURCE, **changes})])
    }


def test_moto_ignores_the_etags_of_delete_objects_and_is_found_out(site: Site) -> None:
    client = s3(site.session)
    client.put_bucket_versioning(Bucket="evidence", VersioningConfiguration={"Status": "Enabled"})
    found = {check.name: check for probe in probe_evidence.probes(site) for check in probe.checks()}

    assert {name: check.verdict for name, check in found.items()} == {
        "evidence_versioning": "ok",
        "evidence_lock": "ok",
        "put_once": "ok",
        "delete_together": "failed",
        "delete_alone": "ok",
        "scratch": "ok",
    }
    assert found["delete_together"].found == "an object was removed though its ETag was another"
    left = client.list_object_versions(Bucket="evidence")
    assert "Versions" not in left
    assert "DeleteMarkers" not in left


def test_evidence_that_is_not_versioned(site: Site) -> None:
    (first, *_) = [check for probe in probe_evidence.probes(site) for check in probe.checks()]
    assert (first.name, first.verdict) == ("evidence_versioning", "failed")


def test_a_plain_bucket(site: Site) -> None:
    s3(site.session).put_object(Bucket="items", Key="app/one", Body=b"x")
    found = of_bucket(site)
    assert [check for check in found.values() if check.verdict != "ok"] == []
    assert len(found) == 9


def test_a_bucket_with_locks_a_lifecycle_and_a_policy(site: Site) -> None:
    client = s3(site.session)
    client.delete_bucket(Bucket="items")
    where = {"LocationConstraint": REGION}
    client.create_bucket(Bucket="items", CreateBucketConfiguration=where, ObjectLockEnabledForBucket=True)
    retention = {"Mode": "COMPLIANCE", "Days": 400}
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}
    client.put_object_lock_configuration(Bucket="items", ObjectLockConfiguration=lock)
    rule = {
        "ID": "old",
        "Status": "Enabled",
        "Filter": {"Prefix": "app/"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
    }
    client.put_bucket_lifecycle_configuration(Bucket="items", LifecycleConfiguration={"Rules": [rule]})
    client.put_object(Bucket="items", Key="app/one", Body=b"x")
    found = of_bucket(site, source=NONCURRENT, action="purge")

    assert {name for name, check in found.items() if check.verdict == "warning"} == {"bucket_lock", "bucket_lifecycle"}
    assert "400 days (compliance)" in found["bucket_lock"].found
    assert "'old'" in found["bucket_lifecycle"].found


def test_a_bucket_that_is_not_there(site: Site) -> None:
    (check,) = probe_bucket.checks(site, "nowhere", [policy()])
    assert (check.name, check.verdict) == ("bucket_found", "failed")


def test_a_ledger_that_nobody_protects(site: Site) -> None:
    names = ("pk", "sk", "open_pk", "open_sk")

    def keys(partition: str, sort: str) -> Any:
        return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]

    indexes: Any = [
        {"IndexName": "open", "KeySchema": keys("open_pk", "open_sk"), "Projection": {"ProjectionType": "ALL"}}
    ]
    boto3.client("dynamodb", region_name=REGION).create_table(
        TableName="ledger",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=keys("pk", "sk"),
        GlobalSecondaryIndexes=indexes,
    )
    found = {check.name: check.verdict for probe in probe_ledger.probes(site) for check in probe.checks()}
    assert found == {
        "ledger_table": "warning",
        "ledger_index": "ok",
        "ledger_recovery": "warning",
        "ledger_expiry": "warning",
    }


def test_a_ledger_that_is_gone(site: Site) -> None:
    found = [check for probe in probe_ledger.probes(site) for check in probe.checks()]
    assert [check for check in found if check.verdict != "failed"] == []


# tables


def verdicts(site: Site, *policies: Policy) -> dict[str, str]:
    return {check.name: check.verdict for check in probe_table.checks(site, policies)}


@pytest.mark.parametrize("abroad", [False, True], ids=["beside the ledger", "behind a role"])
def test_a_table_is_looked_at_where_it_lies(site: Site, abroad: bool) -> None:
    place = Elsewhere("eu-west-1", "arn:aws:iam::210987654321:role/sexton-reminders") if abroad else None
    placed = {"region": place.region, "role_arn": place.role_arn} if place else {}
    counted = records_policy(**placed, recovery="backup")
    assert verdicts(site, counted)["table_found"] == "failed"
    site._clients.clear()
    client = site.tables(place)
    reminders.create(client)
    found = verdicts(site, counted)
    expected = {"table_found": "ok", "table_fit": "ok", "table_recovery": "warning", "table_expiry": "ok"}
    assert expected.items() <= found.items()
    assert ("table_role" in found) is abroad
    client.update_continuous_backups(
        TableName="reminders", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    ttl = {"Enabled": True, "AttributeName": "deadline"}
    client.update_time_to_live(TableName="reminders", TimeToLiveSpecification=ttl)
    found = verdicts(site, counted)
    assert (found["table_recovery"], found["table_expiry"]) == ("ok", "warning")
    assert verdicts(site, records_policy(**placed, filter={"kind": "renewal"}))["table_fit"] == "failed"

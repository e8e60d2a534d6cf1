"""Evidence under Object Lock with a default retention, as `-c evidence_lock_days` makes it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError
from sexton.aws.evidence import S3Evidence

from tests.contract.test_requests import requests_of
from tests.contract.worlds import AwsWorld

KEY = "plans/r/000-00001-abc.ndjson.gz"


def locked(aws: AwsWorld) -> tuple[S3Evidence, str]:
    s3, name = aws.clients.s3, f"locked-{uuid.uuid4().hex}"
    s3.create_bucket(
        Bucket=name,
        ObjectLockEnabledForBucket=True,
        CreateBucketConfiguration={"LocationConstraint": "eu-central-1"},
    )
    retention: Any = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}}
    s3.put_object_lock_configuration(
        Bucket=name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": retention}
    )
    return S3Evidence(s3, name, aws.account), name


def test_a_file_is_written_once_and_locked(aws: AwsWorld) -> None:
    evidence, name = locked(aws)

    assert evidence.put_once(KEY, b"lines") is True
    assert evidence.put_once(KEY, b"other lines") is False
    assert evidence.get(KEY) == b"lines"
    seen = aws.clients.s3.head_object(Bucket=name, Key=KEY)
    assert seen["ObjectLockMode"] == "GOVERNANCE"
    with pytest.raises(ClientError, match="AccessDenied"):
        aws.clients.s3.delete_object(Bucket=name, Key=KEY, VersionId=seen["VersionId"])


def test_every_file_is_sent_with_a_checksum(aws: AwsWorld) -> None:
    """S3 refuses a file for a bucket with a default retention that comes with neither checksum nor Content-MD5."""
    evidence, _ = locked(aws)
    with requests_of(aws.clients.s3) as sent:
        evidence.put_once(KEY, b"lines")
        evidence.put_once("runs/r/plan.json", b"{}")

    written = [headers for operation, headers in sent if operation == "PutObject"]
    assert len(written) == 2
    for headers in written:  # by TLS it comes behind the content, without TLS before it
        assert headers["x-amz-sdk-checksum-algorithm"] == "CRC32"
        assert "x-amz-checksum-crc32" in (headers.get("x-amz-trailer"), *headers)

"""A bucket with items on S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.aws.clients import DELETE_TIMEOUT
from sexton.aws.errors import SDK_ERRORS, calls, code_of, failure, failure_of
from sexton.errors import Failure, ReasonClass
from sexton.item import Item, fits_xml
from sexton.ports import Listing, Removed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_KEYS = 1000  # of one LIST and of one DeleteObjects

UNVERSIONED = "Unversioned"
STANDARD = "STANDARD"  # S3 leaves the class out of a HEAD when it is this one

NO_ANSWER = Failure(ReasonClass.TRANSIENT, "NoAnswer", "S3 answered for other keys, not for this one", True)

Removal = Removed | Failure


class S3Bucket:
    """One bucket, every call with its expected owner; `deletes` is a client that tries nothing twice."""

    def __init__(
        self, client: S3Client, deletes: S3Client, name: str, owner: str, timeout: timedelta = DELETE_TIMEOUT
    ) -> None:
        self._client = client
        self._deletes = deletes
        self._name = name
        self._owner = owner
        self._timeout = timeout

    def versioning(self) -> str:
        """`Enabled`, `Suspended` or `Unversioned`."""
        with calls():
            return self._client.get_bucket_versioning(Bucket=self._name, ExpectedBucketOwner=self._owner).get(
                "Status", UNVERSIONED
            )

    def list(self, prefix: str, start_after: str = "", limit: int = MAX_KEYS) -> Listing:
        """One page of current objects; botocore has decoded the keys already."""
        with calls():
            page = self._client.list_objects_v2(
                Prefix=prefix, MaxKeys=limit, StartAfter=start_after, Bucket=self._name, ExpectedBucketOwner=self._owner
            )
        items = [_item(entry["Key"], entry, entry.get("Size", 0)) for entry in page.get("Contents", [])]
        return Listing(items, page["IsTruncated"])

    def head(self, key: str) -> Item | None:
        """The current object, None when it is absent; a HEAD's error has no code but its status."""
        with calls():
            try:
                answer = self._client.head_object(Key=key, Bucket=self._name, ExpectedBucketOwner=self._owner)
            except ClientError as error:
                if code_of(error) in ("404", "NoSuchKey", "NotFound"):
                    return None
                raise
        return _item(key, answer, answer["ContentLength"])

    def remove(self, items: Sequence[Item]) -> Mapping[str, Removal]:
        """Remove items, each only if its ETag is still the one given; by key what came of it.

        S3 answers NoSuchKey under that condition where there is no current object. A delete marker is none: so a
        repeat places no second one.
        """
        if len(items) > MAX_KEYS or len({item.key for item in items}) != len(items):
            raise ValueError(f"remove takes up to {MAX_KEYS} items with keys of their own")
        together = [item for item in items if fits_xml(item.key)]
        removed = self._remove_together(together) if together else {}
        return removed | {item.key: self._remove_alone(item) for item in items if not fits_xml(item.key)}

    def request_timeout(self) -> timedelta:
        """The longest that one call of `remove` may take, as far as the SDK bounds it."""
        return self._timeout

    def _remove_together(self, items: Sequence[Item]) -> dict[str, Removal]:
        objects: Any = [{"Key": item.key, "ETag": item.etag} for item in items]
        try:
            answer = self._deletes.delete_objects(
                Delete={"Objects": objects, "Quiet": False}, Bucket=self._name, ExpectedBucketOwner=self._owner
            )
        except SDK_ERRORS as error:
            failed = failure_of(error, only_attempt=True)
            return {item.key: failed for item in items}
        results: dict[str, Removal] = {item.key: NO_ANSWER for item in items}
        for entry in answer.get("Deleted", []):
            marker = entry.get("DeleteMarkerVersionId") if entry.get("DeleteMarker") else None
            results[entry["Key"]] = Removed(marker)
        for error_entry in answer.get("Errors", []):
            code, message = error_entry.get("Code", "Unknown"), error_entry.get("Message", "")
            results[error_entry["Key"]] = failure(code, message)
        return {item.key: results[item.key] for item in items}

    def _remove_alone(self, item: Item) -> Removal:
        try:
            answer = self._deletes.delete_object(
                Key=item.key, IfMatch=item.etag, Bucket=self._name, ExpectedBucketOwner=self._owner
            )
        except SDK_ERRORS as error:
            return failure_of(error, only_attempt=True)
        return Removed(answer.get("VersionId") if answer.get("DeleteMarker") else None)


def _item(key: str, fields: Mapping[str, Any], size: int) -> Item:
    return Item(key, fields["ETag"], size, fields.get("StorageClass", STANDARD), _date(fields.get("LastModified")))


def _date(given: datetime | None) -> datetime | None:
    """In UTC and whole seconds, which is all that S3 keeps: a LIST and a HEAD must give the same date."""
    return given.astimezone(UTC).replace(microsecond=0) if given else None

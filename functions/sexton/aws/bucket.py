"""A bucket with items on S3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from sexton.aws import removals, versions
from sexton.aws.clients import AT_ONCE, DELETE_TIMEOUT
from sexton.aws.errors import SDK_ERRORS, calls, code_of, failure_of
from sexton.aws.locks import Locks
from sexton.aws.removals import Removal
from sexton.aws.versions import STANDARD, seconds
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item, ItemId
from sexton.ports import Listing, Versions

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_KEYS = 1000  # of one LIST and of one DeleteObjects

UNVERSIONED = "Unversioned"
UNREADABLE = {"AccessDenied", "AccessDeniedException", "403", "MethodNotAllowed", "405"}  # tags of one item, not of all

In = TypeVar("In")
Out = TypeVar("Out")


class S3Bucket:
    """One bucket, every call with its expected owner; `deletes` is a client that tries nothing twice."""

    def __init__(
        self, client: S3Client, deletes: S3Client, name: str, owner: str, timeout: timedelta = DELETE_TIMEOUT
    ) -> None:
        self._client = client
        self._deletes = deletes
        self._where: Any = {"Bucket": name, "ExpectedBucketOwner": owner}
        self._timeout = timeout
        self._locks = Locks(client, self._where)
        versions.keep_order(client)

    def versioning(self) -> str:
        """`Enabled`, `Suspended` or `Unversioned`."""
        with calls():
            return self._client.get_bucket_versioning(**self._where).get("Status", UNVERSIONED)

    def list(self, prefix: str, start_after: str = "", limit: int = MAX_KEYS) -> Listing:
        """One page of current objects; botocore has decoded the keys already."""
        with calls():
            page = self._client.list_objects_v2(Prefix=prefix, MaxKeys=limit, StartAfter=start_after, **self._where)
        items = [_item(entry["Key"], entry, entry.get("Size", 0)) for entry in page.get("Contents", [])]
        return Listing(items, page["IsTruncated"])

    def head(self, key: str) -> Item | None:
        """The current object, None when it is absent; a HEAD's error has no code but its status."""
        with calls():
            try:
                answer = self._client.head_object(Key=key, **self._where)
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
        removed = removals.remove_objects(self._deletes, self._where, items)
        return {key: result for (key, _), result in removed.items()}

    def list_versions(
        self, prefix: str, after_key: str = "", after_version: str = "", limit: int = MAX_KEYS
    ) -> Versions:
        """One page of versions and delete markers, in the order in which S3 listed them."""
        return versions.list_versions(self._client, self._where, prefix, (after_key, after_version), limit)

    def remove_versions(self, items: Sequence[Item]) -> Mapping[ItemId, Removal]:
        """Remove versions by their ids; a refusal is asked about where the bucket can have locked versions."""
        if len(items) > MAX_KEYS or len({item.id for item in items}) != len(items):
            raise ValueError(f"remove_versions takes up to {MAX_KEYS} items with ids of their own")
        if not all(item.version_id for item in items):
            raise ValueError("a version is removed by its id: a plain delete would do something else")
        removed = removals.remove_versions(self._deletes, self._where, items)
        refused = {
            item_id: came
            for item_id, came in removed.items()
            if isinstance(came, Failure) and came.reason_class is ReasonClass.PERMANENT
        }
        if refused and self._locks.possible:
            asked = [item for item in items if item.id in refused]
            explained = _at_once(lambda item: self._locks.explain(item, refused[item.id]), asked)
            removed.update((item.id, failure) for item, failure in zip(asked, explained, strict=True))
        return removed

    def list_uploads(self, prefix: str, after_key: str = "", after_upload: str = "", limit: int = MAX_KEYS) -> Versions:
        """One page of incomplete multipart uploads."""
        return versions.list_uploads(self._client, self._where, prefix, (after_key, after_upload), limit)

    def abort_upload(self, item: Item) -> Removal:
        """Abort one incomplete upload; what it had stored is freed."""
        return removals.abort_upload(self._deletes, self._where, item)

    def tags(self, items: Sequence[Item]) -> Mapping[ItemId, Mapping[str, str] | None]:
        """The tags of each item, some calls at a time; the first that fails for more than its item ends them."""
        return dict(zip((item.id for item in items), _at_once(self._tags_of, items), strict=True))

    def request_timeout(self) -> timedelta:
        """The longest that one call of `remove` may take, as far as the SDK bounds it."""
        return self._timeout

    def _tags_of(self, item: Item) -> Mapping[str, str] | None:
        version: Any = {"VersionId": item.version_id} if item.version_id else {}
        try:
            answer = self._client.get_object_tagging(Key=item.key, **version, **self._where)
        except SDK_ERRORS as error:
            failed = failure_of(error)
            if failed.reason_class is ReasonClass.GONE or failed.code in UNREADABLE:
                return None
            raise CallFailed(failed) from error
        return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}


def _at_once(ask: Callable[[In], Out], about: Sequence[In]) -> Iterable[Out]:
    """What each asking gave, in order, as many at a time as the client has connections for."""
    if not about:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(about))) as pool:
        return [*pool.map(ask, about)]


def _item(key: str, fields: Mapping[str, Any], size: int) -> Item:
    return Item(key, fields["ETag"], size, fields.get("StorageClass", STANDARD), seconds(fields.get("LastModified")))

"""Whether a version is under Object Lock: what S3 refuses to remove then looks like a missing permission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.aws.errors import SDK_ERRORS, code_of, failure_of
from sexton.errors import Failure, ReasonClass
from sexton.item import Item

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_LOCKS = "ObjectLockConfigurationNotFoundError"
DENIED = {"AccessDenied", "AccessDeniedException", "403"}


@dataclass(frozen=True)
class Locks:
    """The locks of one bucket, read only when something could not be removed."""

    client: S3Client
    where: Mapping[str, Any]

    @cached_property
    def possible(self) -> bool:
        """Whether the bucket can have locked versions; where S3 does not tell, it can."""
        try:
            self.client.get_object_lock_configuration(**self.where)
        except SDK_ERRORS as error:
            return not (isinstance(error, ClientError) and code_of(error) == NO_LOCKS)
        return True

    def explain(self, item: Item, refused: Failure) -> Failure:
        """What a refusal to remove this version means.

        LOCKED where it is locked or under legal hold; the refusal as it was where it is not, or where its locks may
        not be read; and what stood in the way of the look where that may pass.
        """
        if item.is_marker or refused.code not in DENIED or refused.reason_class is ReasonClass.LOCKED:
            return refused
        try:
            seen = self.client.head_object(Key=item.key, VersionId=item.version_id or "", **self.where)
        except SDK_ERRORS as error:
            found = failure_of(error)
            return refused if found.reason_class is ReasonClass.PERMANENT else replace(found, unknown_effect=False)
        lock = _lock_in(seen)
        return replace(refused, reason_class=ReasonClass.LOCKED, summary=lock) if lock else refused


def _lock_in(seen: Mapping[str, Any]) -> str | None:
    """The lock that the headers of a HEAD tell of, in words."""
    if seen.get("ObjectLockLegalHoldStatus") == "ON":
        return "the version is under legal hold"
    until = seen.get("ObjectLockRetainUntilDate")
    if until is not None and until > datetime.now(UTC):
        return f"the version is locked ({seen.get('ObjectLockMode')}) until {until:%Y-%m-%dT%H:%M:%SZ}"
    return None

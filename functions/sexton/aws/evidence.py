"""The evidence bucket on S3."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sexton.aws.errors import calls, code_of, was_retried
from sexton.errors import EvidenceAltered

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

GZIP = ".gz"
LEVEL = 6  # of compression: a plan's lines gain next to nothing from more
ATTEMPTS = 5  # against another writer of the same key
LONGEST_WAIT = 1.0  # seconds

CONTENT_TYPES = {
    GZIP: "application/gzip",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
}
ANY_CONTENT = "application/octet-stream"


class S3Evidence:
    """Files of one bucket, each written once; what ends in `.gz` is gzipped on the way."""

    def __init__(self, client: S3Client, bucket: str, owner: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._bucket = bucket
        self._owner = owner
        self._sleep = sleep

    def put_once(self, key: str, content: bytes) -> bool:
        """Write under a key that must be new; False when it is taken by something else."""
        body = gzip.compress(content, LEVEL, mtime=0) if key.endswith(GZIP) else content
        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=LONGEST_WAIT),
            retry=retry_if_exception(_is_conflict),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            with calls():
                retrying(self._put_new, key, body)
        except _Taken as taken:
            # After a lost reply the file that is in the way may be our own.
            return taken.maybe_ours and self.get(key) == content
        return True

    def get(self, key: str) -> bytes | None:
        """The content, None when there is none. Raises EvidenceAltered for a `.gz` that is no longer one."""
        with calls():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key, ExpectedBucketOwner=self._owner)
                body = answer["Body"].read()
            except ClientError as error:
                if code_of(error) == "NoSuchKey":
                    return None
                raise
        return _unzipped(key, body) if key.endswith(GZIP) else body

    def list(self, prefix: str) -> Iterator[str]:
        """The keys under a prefix, ascending; a page is asked for when it is reached."""
        pages = iter(
            self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, ExpectedBucketOwner=self._owner
            )
        )
        while True:
            with calls():
                page = next(pages, None)
            if page is None:
                return
            yield from (entry["Key"] for entry in page.get("Contents", []))

    def _put_new(self, key: str, body: bytes) -> None:
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType=_content_type(key),
                IfNoneMatch="*",
                ExpectedBucketOwner=self._owner,
            )
        except ClientError as error:
            if code_of(error) in ("PreconditionFailed", "412"):
                raise _Taken(maybe_ours=was_retried(error)) from error
            raise


class _Taken(Exception):
    """The key is taken; `maybe_ours`: by an earlier attempt of this very call, perhaps."""

    def __init__(self, *, maybe_ours: bool) -> None:
        super().__init__("the key is taken")
        self.maybe_ours = maybe_ours


def _is_conflict(error: BaseException) -> bool:
    """Two writers of one key met: neither wrote, both may try again."""
    return isinstance(error, ClientError) and code_of(error) in ("ConditionalRequestConflict", "409")


def _unzipped(key: str, body: bytes) -> bytes:
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise EvidenceAltered(f"{key} is not gzipped any more") from error


def _content_type(key: str) -> str:
    return next((kind for ending, kind in CONTENT_TYPES.items() if key.endswith(ending)), ANY_CONTENT)

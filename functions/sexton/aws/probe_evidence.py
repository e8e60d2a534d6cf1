"""Probes of the evidence bucket, which stands for the store: does it honour the conditions that Sexton relies on?

They are tried on objects of their own, under `doctor/<random>/`, which are taken away again as far as that is allowed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from sexton.aws.errors import code_of, failure
from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.doctor import DENIED, Check, CheckName, could_not_look
from sexton.errors import ReasonClass

OF = "evidence"
FOLDER = "doctor/"
CONTENT = b"Written by `sexton doctor` to try conditions; nothing reads it.\n"
ANOTHER_ETAG = '"00000000000000000000000000000000"'
REFUSED = frozenset({"PreconditionFailed", "412"})
NO_LOCKS = "ObjectLockConfigurationNotFoundError"

PUT = "s3:PutObject on the evidence bucket's doctor/*"
DELETE = "s3:PutObject, s3:GetObject and s3:DeleteObject on the evidence bucket's doctor/*, and s3:ListBucket on it"
CLEAN = "s3:ListBucketVersions on the evidence bucket and s3:DeleteObjectVersion on its doctor/*"
NOT_HERE = "do not enforce on this store: what was rewritten after planning would be removed all the same"


def probes(site: Site) -> Iterator[Probe]:
    """Of the bucket, then of the conditions; the last takes away what the others made."""
    bucket = site.outputs["EvidenceBucketName"]
    scratch = Scratch(
        site.client("s3"),
        site.client("s3", attempts=1),
        {"Bucket": bucket, "ExpectedBucketOwner": site.account},
        f"{FOLDER}{secrets.token_hex(8)}/",
    )
    yield Probe(CheckName.EVIDENCE_VERSIONING, OF, "s3:GetBucketVersioning", lambda: _versioning(scratch))
    yield Probe(CheckName.EVIDENCE_LOCK, OF, "s3:GetBucketObjectLockConfiguration", lambda: _lock(scratch))
    yield Probe(CheckName.PUT_ONCE, OF, PUT, scratch.put_once)
    yield Probe(CheckName.DELETE_TOGETHER, OF, DELETE, scratch.delete_together)
    yield Probe(CheckName.DELETE_ALONE, OF, DELETE, scratch.delete_alone)
    yield Probe(CheckName.SCRATCH, OF, CLEAN, scratch.clean)


@dataclass(frozen=True)
class Scratch:
    """Objects of our own under one prefix. `once` tries no call twice, so that each answer is of what was asked."""

    client: Any
    once: Any
    where: Mapping[str, str]
    prefix: str

    def put_once(self) -> Iterator[Check]:
        """Whether a key that is taken can be written again in spite of If-None-Match."""
        name, key = CheckName.PUT_ONCE, f"{self.prefix}once"
        self._put(key)
        try:
            self._put(key)
        except ClientError as error:
            if code_of(error) not in REFUSED:
                raise
            yield Check.ok(name, OF, "a key that is taken is not written again")
            return
        found = "a key that was taken was written again: If-None-Match is ignored"
        yield Check.failed(name, OF, found, "do not run on this store: a plan could be written over")

    def delete_together(self) -> Iterator[Check]:
        """Whether DeleteObjects heeds the ETag of each key."""
        yield self._deletes(CheckName.DELETE_TOGETHER, f"{self.prefix}together", self._delete_together)

    def delete_alone(self) -> Iterator[Check]:
        """Whether DeleteObject heeds If-Match."""
        yield self._deletes(CheckName.DELETE_ALONE, f"{self.prefix}alone", self._delete_alone)

    def _deletes(self, name: CheckName, key: str, delete: Any) -> Check:
        etag = self._put(key)
        wrong = delete(key, ANOTHER_ETAG)
        if wrong in DENIED:
            return could_not_look(name, OF, failure(wrong), DELETE)
        if wrong is not None and wrong not in REFUSED:
            return Check.unknown(name, OF, f"another ETag was answered with {wrong}", "ask again")
        if not self._is_there(key):
            return Check.failed(name, OF, "an object was removed though its ETag was another", NOT_HERE)
        if wrong is None:
            return Check.failed(name, OF, "another ETag was answered as if it had been removed", NOT_HERE)
        right = delete(key, etag)
        if right is not None or self._is_there(key):
            found = f"an object was not removed though its ETag was the one given ({right or 'no error'})"
            return Check.failed(name, OF, found, "nothing would ever be removed from this store")
        return Check.ok(name, OF, "another ETag is refused, the right one removes")

    def clean(self) -> Iterator[Check]:
        """Take away every version that the others made; locked ones, and those of a bucket nobody may empty, stay."""
        name, left = CheckName.SCRATCH, []
        versions = self._versions()
        if versions:
            answer = self.client.delete_objects(Delete={"Objects": versions, "Quiet": True}, **self.where)
            left = answer.get("Errors", [])
        if not left:
            yield Check.ok(name, OF, f"{len(versions)} versions and markers taken away again")
            return
        code, message = left[0].get("Code", "Unknown"), left[0].get("Message", "")
        found = f"{len(left)} versions and markers of a few bytes stay under {self.prefix} ({code})"
        if code in DENIED or failure(code, message).reason_class is ReasonClass.LOCKED:
            yield Check.ok(name, OF, f"{found}: evidence is not to be deleted, and they do no harm")
        else:
            yield Check.warning(name, OF, found, "they do no harm; delete them if you may")

    def _put(self, key: str) -> str:
        etag: str = self.once.put_object(Key=key, Body=CONTENT, IfNoneMatch="*", **self.where)["ETag"]
        return etag

    def _delete_together(self, key: str, etag: str) -> str | None:
        """The code of the error that the key was answered with."""
        objects = {"Objects": [{"Key": key, "ETag": etag}], "Quiet": False}
        answer = self.once.delete_objects(Delete=objects, **self.where)
        return next((error.get("Code", "Unknown") for error in answer.get("Errors", [])), None)

    def _delete_alone(self, key: str, etag: str) -> str | None:
        try:
            self.once.delete_object(Key=key, IfMatch=etag, **self.where)
        except ClientError as error:
            return code_of(error)
        return None

    def _is_there(self, key: str) -> bool:
        try:
            self.client.head_object(Key=key, **self.where)
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
        return True

    def _versions(self) -> list[dict[str, str]]:
        page = self.client.list_object_versions(Prefix=self.prefix, **self.where)  # a handful: one page
        entries = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        return [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]


def _versioning(scratch: Scratch) -> Iterator[Check]:
    state = scratch.client.get_bucket_versioning(**scratch.where).get("Status", "Unversioned")
    if state == "Enabled":
        yield Check.ok(CheckName.EVIDENCE_VERSIONING, OF, "versioned: nothing in it is overwritten for good")
    else:
        found = f"{state}: what is overwritten or deleted there is lost"
        yield Check.failed(CheckName.EVIDENCE_VERSIONING, OF, found, f"enable versioning on it, or {DEPLOY}")


def _lock(scratch: Scratch) -> Iterator[Check]:
    """Locked or not, both are as they should be; who reads the evidence wants to know."""
    try:
        locked = scratch.client.get_object_lock_configuration(**scratch.where)["ObjectLockConfiguration"]
    except ClientError as error:
        if code_of(error) != NO_LOCKS:
            raise
        yield Check.ok(CheckName.EVIDENCE_LOCK, OF, "not locked: who may delete versions can take evidence away")
        return
    retention = locked.get("Rule", {}).get("DefaultRetention", {})
    span = f"{retention.get('Days') or retention.get('Years')} {'days' if 'Days' in retention else 'years'}"
    kept = f"{retention['Mode'].lower()} for {span}" if retention else "no default retention"
    yield Check.ok(CheckName.EVIDENCE_LOCK, OF, f"Object Lock: {kept}")

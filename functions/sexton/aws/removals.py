"""Removing from a bucket: each call once, each key with an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sexton.aws.errors import SDK_ERRORS, failure, failure_of
from sexton.errors import Failure, ReasonClass
from sexton.item import Item, ItemId, fits_xml
from sexton.ports import Removed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_KEYS = 1000  # of one DeleteObjects

NO_ANSWER = Failure(ReasonClass.TRANSIENT, "NoAnswer", "S3 answered for other keys, not for this one", True)

Removal = Removed | Failure
Named = Mapping[str, Any]  # how a request names an item and what it asks of it
Answer = Mapping[str, Any]


def remove_objects(client: S3Client, where: Mapping[str, Any], items: Sequence[Item]) -> dict[ItemId, Removal]:
    """Remove current objects, each only if its ETag is still the one given."""
    together = [item for item in items if fits_xml(item.key)]
    removed = _together(client, where, together, lambda item: {"Key": item.key, "ETag": item.etag})
    for item in items:
        if not fits_xml(item.key):
            removed[item.id] = _alone(client, where, {"Key": item.key, "IfMatch": item.etag}, _marker_placed_alone)
    return removed


def remove_versions(client: S3Client, where: Mapping[str, Any], items: Sequence[Item]) -> dict[ItemId, Removal]:
    """Remove versions and delete markers by their ids, which S3 does not let be combined with a condition."""
    together = [item for item in items if fits_xml(item.key)]
    removed = _together(client, where, together, _by_id)
    for item in items:
        if not fits_xml(item.key):
            removed[item.id] = _alone(client, where, _by_id(item), _nothing_placed)
    return removed


def abort_upload(client: S3Client, where: Mapping[str, Any], item: Item) -> Removal:
    """Abort one incomplete upload."""
    try:
        client.abort_multipart_upload(Key=item.key, UploadId=item.version_id or "", **where)
    except SDK_ERRORS as error:
        return failure_of(error, only_attempt=True)
    return Removed()


def _by_id(item: Item) -> Named:
    return {"Key": item.key, "VersionId": item.version_id}


def _together(
    client: S3Client, where: Mapping[str, Any], items: Sequence[Item], named: Callable[[Item], Named]
) -> dict[ItemId, Removal]:
    """One call of DeleteObjects; none where there is nothing to remove."""
    if not items:
        return {}
    objects: Any = [named(item) for item in items]
    try:
        answer = client.delete_objects(Delete={"Objects": objects, "Quiet": False}, **where)
    except SDK_ERRORS as error:
        failed = failure_of(error, only_attempt=True)
        return {item.id: failed for item in items}
    results: dict[ItemId, Removal] = {item.id: NO_ANSWER for item in items}
    results.update((_id_in(entry), _removed(entry)) for entry in answer.get("Deleted", []))
    for error_entry in answer.get("Errors", []):
        code, message = error_entry.get("Code", "Unknown"), error_entry.get("Message", "")
        results[_id_in(error_entry)] = failure(code, message)
    return {item.id: results[item.id] for item in items}


def _id_in(entry: Answer) -> ItemId:
    """Whom an entry of the answer is about; S3 repeats the version id where the request had one."""
    return entry["Key"], entry.get("VersionId") or None


def _removed(entry: Answer) -> Removed:
    """Of a removal by id, `DeleteMarker` says that a marker went; else that one was placed."""
    placed = entry.get("DeleteMarker") and not entry.get("VersionId")
    return Removed(entry.get("DeleteMarkerVersionId") if placed else None)


def _alone(client: S3Client, where: Mapping[str, Any], named: Named, placed: Callable[[Answer], str | None]) -> Removal:
    try:
        answer = client.delete_object(**named, **where)
    except SDK_ERRORS as error:
        return failure_of(error, only_attempt=True)
    return Removed(placed(answer))


def _marker_placed_alone(answer: Answer) -> str | None:
    return answer.get("VersionId") if answer.get("DeleteMarker") else None


def _nothing_placed(_: Answer) -> None:
    return None

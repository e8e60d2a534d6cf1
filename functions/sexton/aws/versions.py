"""Listings that show several things under one key: versions with delete markers, and incomplete uploads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from sexton.aws.errors import calls
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Versions

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

STANDARD = "STANDARD"  # S3 leaves the class out of a HEAD when it is this one

# botocore sorts the entries of a page into two lists, versions and delete markers. Which was newer is told by
# their order in the answer alone: dates are cut to seconds, and of an object of many parts it is that of its begin.
ANSWERED = "before-parse.s3.ListObjectVersions"
MARKERS_IN_ORDER = "MarkersInOrder"
_ENTRY = re.compile(rb"<(Version|DeleteMarker)[\s>]")

MIXED_UP = Failure(ReasonClass.TRANSIENT, "UnreadableListing", "the listing of versions has entries of another kind")


def keep_order(client: S3Client) -> None:
    """Let the client's listings of versions say in which order their entries stood; said twice, it is said once."""
    client.meta.events.register(ANSWERED, _note_order, unique_id=ANSWERED)


def list_versions(
    client: S3Client, where: Mapping[str, Any], prefix: str, after: tuple[str, str], limit: int
) -> Versions:
    """One call of ListObjectVersions, after a version of a key, or after a key, or from the start."""
    with calls():
        page: Mapping[str, Any] = client.list_object_versions(
            Prefix=prefix, MaxKeys=limit, **_markers(after, "KeyMarker", "VersionIdMarker"), **where
        )
    entries = _in_order(page)
    return _page(entries, page, "NextVersionIdMarker")


def list_uploads(
    client: S3Client, where: Mapping[str, Any], prefix: str, after: tuple[str, str], limit: int
) -> Versions:
    """One call of ListMultipartUploads. botocore asks for keys that XML can carry in every other listing but this."""
    with calls():
        page: Mapping[str, Any] = client.list_multipart_uploads(
            Prefix=prefix,
            MaxUploads=limit,
            EncodingType="url",
            **_markers(after, "KeyMarker", "UploadIdMarker"),
            **where,
        )
    encoded = page.get("EncodingType") == "url"
    page = {**page, "NextKeyMarker": _decoded(page.get("NextKeyMarker", ""), encoded)}
    uploads = [_upload(entry, _decoded(entry["Key"], encoded)) for entry in page.get("Uploads", [])]
    return _page(uploads, page, "NextUploadIdMarker")


def seconds(given: datetime | None) -> datetime | None:
    """In UTC and whole seconds, which is all that S3 keeps: a LIST and a HEAD must give the same date."""
    return given.astimezone(UTC).replace(microsecond=0) if given else None


def _markers(after: tuple[str, str], key: str, version: str) -> dict[str, Any]:
    """S3 refuses a version without its key, and takes an empty one for none."""
    return {name: text for name, text in zip((key, version), after, strict=True) if text}


def _page(items: Sequence[Item], page: Mapping[str, Any], version_marker: str) -> Versions:
    if not page["IsTruncated"]:
        return Versions(items, truncated=False)
    return Versions(items, True, page.get("NextKeyMarker", ""), page.get(version_marker, ""))


def _note_order(response_dict: Mapping[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """For each entry of the answer whether it is a delete marker. No key can be taken for a tag: XML escapes it."""
    body: bytes = response_dict["body"]
    customized_response_dict[MARKERS_IN_ORDER] = [kind == b"DeleteMarker" for kind in _ENTRY.findall(body)]


def _in_order(page: Mapping[str, Any]) -> list[Item]:
    """The entries of both lists as they stood in the answer. Raises CallFailed where that cannot be told."""
    versions = iter([_version(entry) for entry in page.get("Versions", [])])
    markers = iter([_marker(entry) for entry in page.get("DeleteMarkers", [])])
    try:
        items = [next(markers if is_marker else versions) for is_marker in page[MARKERS_IN_ORDER]]
    except StopIteration:
        raise CallFailed(MIXED_UP) from None
    if [*versions, *markers]:
        raise CallFailed(MIXED_UP)
    return items if _newest_first(items) else sorted(items, key=_place)


def _newest_first(items: Iterable[Item]) -> bool:
    """Whether keys ascend and no other version of a key stands before its current one."""
    key = ""
    for item in items:
        if item.key < key or (item.key == key and item.rank == 0):
            return False
        key = item.key
    return True


def _place(item: Item) -> tuple[str, int, float]:
    """Where an entry belongs, as far as it tells itself, for a store that lists delete markers apart."""
    return item.key, item.rank, -item.last_modified.timestamp() if item.last_modified else 0.0


def _version(entry: Mapping[str, Any]) -> Item:
    return _entry(entry)._replace(
        etag=entry["ETag"], size=entry.get("Size", 0), storage_class=entry.get("StorageClass", STANDARD)
    )


def _marker(entry: Mapping[str, Any]) -> Item:
    return _entry(entry)._replace(is_marker=True)


def _entry(entry: Mapping[str, Any]) -> Item:
    rank = 0 if entry["IsLatest"] else 1
    return Item(entry["Key"], "", 0, "", seconds(entry.get("LastModified")), entry["VersionId"], rank=rank)


def _upload(entry: Mapping[str, Any], key: str) -> Item:
    initiated = seconds(entry.get("Initiated"))
    return Item(key, "", 0, entry.get("StorageClass", STANDARD), initiated, entry["UploadId"])


def _decoded(text: str, encoded: bool) -> str:
    return unquote_plus(text) if encoded else text

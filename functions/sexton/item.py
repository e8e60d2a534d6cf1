"""An item: one thing to remove, as it was seen at one time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

RECORD = "RECORD"  # stands where an object has its storage class

ItemId = tuple[str, str | None]  # key and version id


class Item(NamedTuple):
    """An S3 object or object version as a listing showed it.

    `last_modified` is aware, or None where the store gave nothing that can be read as a date.
    `etag` keeps S3's double quotes: it is compared and sent back, never interpreted.

    Of a version, `rank` counts the noncurrent ones of its key from the newest (0: it is the current one), and
    `noncurrent_since` is the date of its successor. A delete marker that is `alone` hides nothing. `tags`
    are None until they were read, and where they could not be.
    """

    key: str
    etag: str
    size: int
    storage_class: str
    last_modified: datetime | None
    version_id: str | None = None
    noncurrent_since: datetime | None = None
    rank: int = 0
    is_marker: bool = False
    alone: bool = False
    tags: Mapping[str, str] | None = None

    @property
    def id(self) -> ItemId:
        """What tells it from every other item of its bucket, whatever becomes of it."""
        return self.key, self.version_id

    def same_as(self, other: Item) -> bool:
        """Whether both looks saw the same bytes from the same write.

        Identical bytes uploaded again keep their ETag, so the date is compared too.
        """
        return (
            self.etag == other.etag
            and self.last_modified == other.last_modified
            and self.size == other.size
            and self.version_id == other.version_id
        )


# XML 1.0 has no form for these, escaped or not; and a parser turns a carriage return into a newline.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")


def fits_xml(key: str) -> bool:
    """Whether a key survives the XML of a DeleteObjects request; one that does not is removed by a call of its own."""
    return _NOT_IN_XML.search(key) is None


def rfc3339(at: datetime) -> str:
    """An instant as people and JSON get it: UTC, `Z`, fractions only where there are any."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def to_fields(item: Item) -> dict[str, object]:
    """The item as JSON fields, absent ones left out."""
    fields: dict[str, object] = {
        "key": item.key,
        "etag": item.etag,
        "size": item.size,
        "storage_class": item.storage_class,
        "last_modified": rfc3339(item.last_modified) if item.last_modified else None,
    }
    if item.version_id is not None:
        fields["version_id"] = item.version_id
    if item.noncurrent_since is not None:
        fields["noncurrent_since"] = rfc3339(item.noncurrent_since)
    if item.rank:
        fields["rank"] = item.rank
    if item.is_marker:
        fields["delete_marker"] = "alone" if item.alone else "noncurrent" if item.rank else "current"
    if item.tags is not None:
        fields["tags"] = dict(item.tags)
    return fields


def to_line(item: Item) -> str:
    """One line of a part: compact JSON in ASCII, so that no key can break a line."""
    return json.dumps(to_fields(item), separators=(",", ":"))


def from_line(line: str | bytes) -> Item:
    """Read a line that `to_line` wrote. Raises ValueError or KeyError when it is not one."""
    fields = json.loads(line)
    return Item(
        fields["key"],
        fields["etag"],
        fields["size"],
        fields["storage_class"],
        _instant(fields["last_modified"]),
        fields.get("version_id"),
        _instant(fields.get("noncurrent_since")),
        fields.get("rank", 0),
        "delete_marker" in fields,
        fields.get("delete_marker") == "alone",
        fields.get("tags"),
    )


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

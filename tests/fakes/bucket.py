"""One S3 bucket in memory: unversioned, versioned or suspended; with tags, locks and incomplete uploads."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item, ItemId, fits_xml
from sexton.ports import Listing, Removed, Versions

from tests.fakes.time import FakeClock

UNVERSIONED, ENABLED, SUSPENDED = "Unversioned", "Enabled", "Suspended"
NULL_VERSION = "null"
MAX_KEYS = 1000
MAX_KEY = 1024  # bytes of UTF-8

GONE = Failure(ReasonClass.GONE, "NoSuchKey", "the object does not exist")
NO_UPLOAD = Failure(ReasonClass.GONE, "NoSuchUpload", "the upload does not exist")
CHANGED = Failure(ReasonClass.CHANGED, "PreconditionFailed", "the object has another ETag")
NO_BUCKET = Failure(ReasonClass.PERMANENT, "NoSuchBucket", "the bucket does not exist")
LOCKED = Failure(ReasonClass.LOCKED, "AccessDenied", "the object is protected by object lock")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key: an object as a listing shows it, or a delete marker. `number` counts all that were made."""

    id: str
    item: Item | None
    at: datetime
    number: int
    locked: bool = False

    def listed(self, key: str, latest: bool) -> Item:
        """The entry of a listing of versions."""
        rank = 0 if latest else 1
        if self.item is None:
            return Item(key, "", 0, "", self.at, self.id, rank=rank, is_marker=True)
        return self.item._replace(version_id=self.id, rank=rank)


class FakeBucket:
    """Keys with their versions, newest last. A deleted key stays known, so that deleting is cheap.

    As in S3, a listing of versions goes on rightly after a version that has been removed meanwhile, and removing a
    version that is not there succeeds.
    """

    def __init__(self, clock: FakeClock, versioning: str = UNVERSIONED) -> None:
        self.clock = clock
        self.state = versioning
        self.missing = False
        self.most = MAX_KEYS  # entries of one page, whatever is asked for
        self.calls: Counter[str] = Counter()
        self.versions: dict[str, list[Version]] = {}
        self.locked: set[str] = set()
        self.failures: dict[str | ItemId, Failure] = {}  # of removals, by key or id, until taken out
        self.tag_sets: dict[ItemId, dict[str, str]] = {}  # by the id of the version, also where it is `null`
        self.secret: set[str] = set()  # keys whose tags may not be read
        self.uploads: dict[ItemId, Item] = {}
        self.call_failures: dict[str, list[Failure]] = {}  # of whole calls by method, each used once
        self._keys: list[str] = []
        self._sorted = True
        self._made = 0
        self._numbers: dict[ItemId, int] = {}

    def versioning(self) -> str:
        self._called("versioning")
        return self.state

    def list(self, prefix: str, start_after: str = "", limit: int = MAX_KEYS) -> Listing:
        self._called("list")
        items: list[Item] = []
        for item in self._current_after(prefix, start_after):
            if len(items) == min(limit, self.most):
                return Listing(items, truncated=True)
            items.append(item)
        return Listing(items, truncated=False)

    def head(self, key: str) -> Item | None:
        """A bucket that is not there looks to a HEAD like an object that is not there."""
        if self.missing:
            return None
        self._called("head")
        return self.current(key)

    def remove(self, items: Sequence[Item]) -> Mapping[str, Removed | Failure]:
        if len(items) > MAX_KEYS or len({item.key for item in items}) != len(items):
            raise ValueError(f"remove takes up to {MAX_KEYS} items with keys of their own")
        results: dict[str, Removed | Failure] = {}
        for group in _calls_of(items):
            results.update(self._remove_in_one_call(group))
        return results

    def list_versions(
        self, prefix: str, after_key: str = "", after_version: str = "", limit: int = MAX_KEYS
    ) -> Versions:
        if after_version and not after_key:
            raise ValueError("a version to begin after needs its key")
        self._called("list_versions")
        return _page(self._versions_after(prefix, after_key, after_version), min(limit, self.most))

    def remove_versions(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        if len(items) > MAX_KEYS or len({item.id for item in items}) != len(items):
            raise ValueError(f"remove_versions takes up to {MAX_KEYS} items with ids of their own")
        if not all(item.version_id for item in items):
            raise ValueError("a version is removed by its id")
        results: dict[ItemId, Removed | Failure] = {}
        for group in _calls_of(items):
            failed, acts = self._failure_of_call("remove_versions")
            for item in group:
                came = self._remove_version(item) if acts else Removed()
                results[item.id] = failed or came
        return results

    def list_uploads(self, prefix: str, after_key: str = "", after_upload: str = "", limit: int = MAX_KEYS) -> Versions:
        self._called("list_uploads")
        begin = (after_key, after_upload) if after_upload else (after_key, "\U0010ffff")
        found = (self.uploads[key, upload] for key, upload in sorted(self.uploads) if key.startswith(prefix))
        return _page(
            (item for item in found if not after_key or (item.key, item.version_id or "") > begin),
            min(limit, self.most),
        )

    def abort_upload(self, item: Item) -> Removed | Failure:
        failed, acts = self._failure_of_call("abort_upload")
        came = self._abort(item) if acts else Removed()
        return failed or came

    def tags(self, items: Sequence[Item]) -> Mapping[ItemId, Mapping[str, str] | None]:
        self._called("tags")
        return {item.id: self._tags_of(item) for item in items}

    def request_timeout(self) -> timedelta:
        return timedelta(seconds=15)

    # What the outside world does to the bucket.

    def put(
        self, key: str, content: bytes | str = b"x", storage_class: str = "STANDARD", tags: dict[str, str] | None = None
    ) -> Item:
        """Upload an object now; identical bytes get the same ETag and a new date."""
        data = content.encode() if isinstance(content, str) else content
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        item = self.place(Item(key, etag, len(data), storage_class, self.clock()))
        if tags is not None:
            self.tag(key, tags)
        return item

    def place(self, item: Item) -> Item:
        """Put an object there as a listing shall show it, whatever its date."""
        if not 0 < len(item.key.encode()) <= MAX_KEY:
            raise ValueError("a key has 1 to 1,024 bytes of UTF-8")
        self._add(item.key, item)
        return item

    def rewrite(self, key: str) -> Item:
        """Upload the same bytes again: the ETag stays, the date is new."""
        item = self.current(key)
        assert item is not None, f"{key!r} is not there"
        return self.place(item._replace(last_modified=self.clock()))

    def delete(self, key: str) -> None:
        """Remove the current object without conditions."""
        self._delete(key)

    def lock(self, key: str) -> None:
        """Let every removal of the key fail as under Object Lock."""
        self.locked.add(key)

    def version_ids(self, key: str) -> list[str]:
        """The ids of the key's versions and markers, newest first."""
        return [version.id for version in reversed(self.versions.get(key, []))]

    def delete_version(self, key: str, version_id: str) -> None:
        """Remove one version by its id, locked or not."""
        self.versions[key] = [version for version in self.versions[key] if version.id != version_id]

    def lock_version(self, key: str, version_id: str) -> None:
        """Put one version under Object Lock or legal hold."""
        self.versions[key] = [
            replace(version, locked=True) if version.id == version_id else version for version in self.versions[key]
        ]

    def tag(self, key: str, tags: dict[str, str], version_id: str | None = None) -> None:
        """Replace the tags of a version, by default of the current one."""
        self.tag_sets[key, version_id or self.versions[key][-1].id] = tags

    def begin_upload(self, key: str) -> Item:
        """Begin an upload of many parts."""
        self._made += 1
        item = Item(key, "", 0, "STANDARD", self.clock(), f"upload-{self._made:06d}")
        self.uploads[item.id] = item
        return item

    def fail_next(self, method: str, failure: Failure) -> None:
        """Let the next call of a method fail as a whole; a removal of unknown effect still takes place."""
        self.call_failures.setdefault(method, []).append(failure)

    def current(self, key: str) -> Item | None:
        """The current object, without counting a call."""
        versions = self.versions.get(key)
        return versions[-1].item if versions else None

    def keys(self) -> Sequence[str]:
        """The keys of all current objects, in order."""
        return [item.key for item in self._current_after("", "")]

    def markers(self, key: str) -> int:
        """How many delete markers the key has."""
        return sum(version.item is None for version in self.versions.get(key, ()))

    def _current_after(self, prefix: str, start_after: str) -> Iterator[Item]:
        for key in self._keys_from(prefix, start_after):
            versions = self.versions[key]
            if key != start_after and versions and versions[-1].item is not None:
                yield versions[-1].item

    def _versions_after(self, prefix: str, after_key: str, after_version: str) -> Iterator[Item]:
        number = self._numbers[after_key, after_version] if after_version else 0
        for key in self._keys_from(prefix, after_key):
            if key == after_key and not after_version:
                continue
            versions = self.versions[key]
            for version in reversed(versions):
                if key != after_key or version.number < number:
                    yield version.listed(key, latest=version is versions[-1])

    def _keys_from(self, prefix: str, start: str) -> Iterator[str]:
        """Code point order is the order of UTF-8 bytes, so that strings compare as S3 compares keys."""
        if not self._sorted:
            self._keys.sort()
            self._sorted = True
        for index in range(bisect_left(self._keys, max(prefix, start)), len(self._keys)):
            if not self._keys[index].startswith(prefix):
                return
            yield self._keys[index]

    def _called(self, method: str) -> None:
        self.calls[method] += 1
        if self.missing:
            raise CallFailed(NO_BUCKET)
        waiting = self.call_failures.get(method)
        if waiting:
            raise CallFailed(waiting.pop(0))

    def _failure_of_call(self, method: str) -> tuple[Failure | None, bool]:
        """How a call that answers for each item fails as a whole, if it does; and whether it acts all the same."""
        try:
            self._called(method)
        except CallFailed as failed:
            return failed.failure, failed.failure.unknown_effect
        return None, True

    def _remove_in_one_call(self, items: Sequence[Item]) -> dict[str, Removed | Failure]:
        failed, acts = self._failure_of_call("remove")
        came = {item.key: self._remove_one(item) for item in items} if acts else {}
        return {item.key: failed for item in items} if failed else came

    def _remove_one(self, item: Item) -> Removed | Failure:
        current = self.current(item.key)
        if item.key in self.failures:
            return self.failures[item.key]
        if current is None:
            return GONE
        if current.etag != item.etag:
            return CHANGED
        if item.key in self.locked:
            return LOCKED
        return Removed(self._delete(item.key))

    def _remove_version(self, item: Item) -> Removed | Failure:
        failed = self.failures.get(item.id) or self.failures.get(item.key)
        if failed:
            return failed
        for version in self.versions.get(item.key, []):
            if version.id == item.version_id:
                if version.locked:
                    return LOCKED
                self.delete_version(item.key, version.id)
        return Removed()

    def _abort(self, item: Item) -> Removed | Failure:
        failed = self.failures.get(item.id) or self.failures.get(item.key)
        return failed or (Removed() if self.uploads.pop(item.id, None) else NO_UPLOAD)

    def _tags_of(self, item: Item) -> Mapping[str, str] | None:
        found = self.versions.get(item.key, [])
        wanted = [each for each in found if each.id == item.version_id] if item.version_id else found[-1:]
        if not wanted or wanted[0].item is None or item.key in self.secret:
            return None
        return dict(self.tag_sets.get((item.key, wanted[0].id), {}))

    def _delete(self, key: str) -> str | None:
        """As a plain DELETE does it; returns the id of the delete marker, if it placed one."""
        if self.state == UNVERSIONED:
            if key in self.versions:
                self.versions[key] = []
            return None
        return self._add(key, None).id

    def _add(self, key: str, item: Item | None) -> Version:
        if key not in self.versions:
            self._sorted = self._sorted and (not self._keys or self._keys[-1] < key)
            self._keys.append(key)
        versions = self.versions.setdefault(key, [])
        self._made += 1
        at = item.last_modified if item and item.last_modified else self.clock()
        version_id = f"version-{self._made:06d}" if self.state == ENABLED else NULL_VERSION
        if self.state != ENABLED:  # an upload or a plain delete destroys the version named null
            versions[:] = [each for each in versions if each.id != NULL_VERSION]
        version = Version(version_id, item, at, self._made)
        self._numbers[key, version_id] = self._made
        versions.append(version)
        return version


def _page(found: Iterator[Item], limit: int) -> Versions:
    """So many of what was found, and where to go on if there is more."""
    items = [*islice(found, limit)]
    if next(found, None) is None or not items:
        return Versions(items, truncated=False)
    return Versions(items, True, items[-1].key, items[-1].version_id or "")


def _calls_of(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """One call for all keys that XML can carry, one for each other."""
    together = [item for item in items if fits_xml(item.key)]
    if together:
        yield together
    for item in items:
        if not fits_xml(item.key):
            yield [item]

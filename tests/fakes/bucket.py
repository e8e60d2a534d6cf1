"""One S3 bucket in memory: unversioned, versioned or suspended."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item, fits_xml
from sexton.ports import Listing, Removed

from tests.fakes.time import FakeClock

UNVERSIONED, ENABLED, SUSPENDED = "Unversioned", "Enabled", "Suspended"
NULL_VERSION = "null"
MAX_KEYS = 1000
MAX_KEY = 1024  # bytes of UTF-8

GONE = Failure(ReasonClass.GONE, "NoSuchKey", "the object does not exist")
CHANGED = Failure(ReasonClass.CHANGED, "PreconditionFailed", "the object has another ETag")
NO_BUCKET = Failure(ReasonClass.PERMANENT, "NoSuchBucket", "the bucket does not exist")
LOCKED = Failure(ReasonClass.LOCKED, "AccessDenied", "the object is protected by object lock")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key: an object as a listing shows it, or a delete marker."""

    id: str
    item: Item | None


class FakeBucket:
    """Keys with their versions, newest last. A deleted key stays known, so that deleting is cheap."""

    def __init__(self, clock: FakeClock, versioning: str = UNVERSIONED) -> None:
        self.clock = clock
        self.state = versioning
        self.missing = False
        self.calls: Counter[str] = Counter()
        self.versions: dict[str, list[Version]] = {}
        self.locked: set[str] = set()
        self.failures: dict[str, Failure] = {}  # of `remove`, by key, until taken out
        self.call_failures: dict[str, list[Failure]] = {}  # of whole calls by method, each used once
        self._keys: list[str] = []
        self._sorted = True
        self._ids = 0

    def versioning(self) -> str:
        self._called("versioning")
        return self.state

    def list(self, prefix: str, start_after: str = "", limit: int = MAX_KEYS) -> Listing:
        self._called("list")
        items: list[Item] = []
        for item in self._current_after(prefix, start_after):
            if len(items) == min(limit, MAX_KEYS):
                return Listing(items, truncated=True)
            items.append(item)
        return Listing(items, truncated=False)

    def head(self, key: str) -> Item | None:
        self._called("head")
        return self.current(key)

    def remove(self, items: Sequence[Item]) -> Mapping[str, Removed | Failure]:
        if len(items) > MAX_KEYS or len({item.key for item in items}) != len(items):
            raise ValueError(f"remove takes up to {MAX_KEYS} items with keys of their own")
        results: dict[str, Removed | Failure] = {}
        for group in _calls_of(items):
            results.update(self._remove_in_one_call(group))
        return results

    def request_timeout(self) -> timedelta:
        return timedelta(seconds=15)

    # What the outside world does to the bucket.

    def put(self, key: str, content: bytes | str = b"x", storage_class: str = "STANDARD") -> Item:
        """Upload an object now; identical bytes get the same ETag and a new date."""
        data = content.encode() if isinstance(content, str) else content
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        return self.place(Item(key, etag, len(data), storage_class, self.clock()))

    def place(self, item: Item) -> Item:
        """Put an object there as a listing shall show it, whatever its date."""
        if not 0 < len(item.key.encode()) <= MAX_KEY:
            raise ValueError("a key has 1 to 1,024 bytes of UTF-8")
        if item.key not in self.versions:
            self._sorted = self._sorted and (not self._keys or self._keys[-1] < item.key)
            self._keys.append(item.key)
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
        """Code point order is the order of UTF-8 bytes, so that strings compare as S3 compares keys."""
        if not self._sorted:
            self._keys.sort()
            self._sorted = True
        start = max(bisect_left(self._keys, prefix), bisect_right(self._keys, start_after))
        for index in range(start, len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                return
            versions = self.versions[key]
            if versions and versions[-1].item is not None:
                yield versions[-1].item

    def _called(self, method: str) -> None:
        self.calls[method] += 1
        if self.missing:
            raise CallFailed(NO_BUCKET)
        waiting = self.call_failures.get(method)
        if waiting:
            raise CallFailed(waiting.pop(0))

    def _remove_in_one_call(self, items: Sequence[Item]) -> dict[str, Removed | Failure]:
        try:
            self._called("remove")
        except CallFailed as failed:
            if failed.failure.unknown_effect:
                for item in items:
                    self._remove_one(item)
            return {item.key: failed.failure for item in items}
        return {item.key: self._remove_one(item) for item in items}

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

    def _delete(self, key: str) -> str | None:
        """As a plain DELETE does it; returns the id of the delete marker, if it placed one."""
        if self.state == UNVERSIONED:
            self.versions[key] = []
            return None
        return self._add(key, None).id

    def _add(self, key: str, item: Item | None) -> Version:
        versions = self.versions.setdefault(key, [])
        if self.state == ENABLED:
            self._ids += 1
            version = Version(f"version-{self._ids:06d}", item)
        else:  # an upload or a plain delete destroys the version named null
            version = Version(NULL_VERSION, item)
            versions[:] = [each for each in versions if each.id != NULL_VERSION]
        versions.append(version)
        return version


def _calls_of(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """One call for all keys that XML can carry, one for each other."""
    together = [item for item in items if fits_xml(item.key)]
    if together:
        yield together
    for item in items:
        if not fits_xml(item.key):
            yield [item]

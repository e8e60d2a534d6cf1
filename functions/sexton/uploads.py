"""Incomplete multipart uploads of a bucket, as a target: bytes that are paid for and that no listing shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.objects import Numbered, next_range
from sexton.observing import PAGE, just_before, shared_start
from sexton.ports import Bucket, Removed
from sexton.run import Place
from sexton.target import Page


@dataclass(frozen=True)
class IncompleteUploads:
    """Uploads as ListMultipartUploads shows them; `last_modified` is when they were initiated."""

    bucket: Bucket
    prefixes: Sequence[str]

    def page(self, place: Place) -> Page:
        """One call of ListMultipartUploads."""
        listing = self.bucket.list_uploads(self.prefixes[place.prefix], place.start_after, place.version)
        items = listing.items

        def place_after(index: int) -> Place:
            return _after(items[index], place.prefix)

        goes_on = Place(prefix=place.prefix, start_after=listing.next_key, version=listing.next_version)
        return Page(items, place_after, goes_on if listing.truncated else next_range(place), not listing.truncated)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """An upload has no tags."""
        return items

    def observe(self, items: Sequence[Item], span: int) -> Mapping[ItemId, Item | None]:
        """By listing the range of keys, or key by key, whichever needs fewer calls."""
        seen: dict[ItemId, Item | None] = dict.fromkeys(item.id for item in items)
        keys = list(dict.fromkeys(item.key for item in items))
        if -(-span // PAGE) <= len(keys):
            self._look(shared_start(keys[0], keys[-1]), just_before(keys[0]), keys[-1], seen)
        else:
            for key in keys:
                self._look(key, "", key, seen)
        return seen

    def _look(self, prefix: str, after: str, last: str, seen: dict[ItemId, Item | None]) -> None:
        upload = ""
        while True:
            listing = self.bucket.list_uploads(prefix, after, upload)
            seen.update((item.id, item) for item in listing.items if item.id in seen)
            if not listing.truncated or not listing.items or listing.items[-1].key > last:
                return
            after, upload = listing.next_key, listing.next_version

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Each in a call of its own: S3 aborts one upload a call."""
        return ([each] for each in items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """AbortMultipartUpload."""
        return {item.id: self.bucket.abort_upload(item) for item in items}

    def request_timeout(self) -> timedelta:
        """That of the bucket."""
        return self.bucket.request_timeout()


def _after(item: Item, prefix: int) -> Place:
    return Place(prefix=prefix, start_after=item.key, version=item.version_id or "")

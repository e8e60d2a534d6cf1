"""Incomplete multipart uploads of a bucket, as a target: bytes that are paid for and that no listing shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.objects import Numbered, next_range
from sexton.observing import in_few_pages, just_before, shared_start
from sexton.ports import Bucket, Removed, Versions
from sexton.run import Place
from sexton.target import Page


@dataclass(frozen=True)
class IncompleteUploads:
    """Uploads as ListMultipartUploads shows them; `last_modified` is when they were initiated."""

    bucket: Bucket
    prefixes: Sequence[str]

    @property
    def ranges(self) -> int:
        """One for each prefix."""
        return len(self.prefixes)

    def page(self, place: Place) -> Page:
        """One call of ListMultipartUploads."""
        listing = self.bucket.list_uploads(self.prefixes[place.prefix], place.start_after, place.version)
        items = _without_marker(listing, place)

        def place_after(index: int) -> Place:
            return Place(prefix=place.prefix, start_after=items[index].key, version=items[index].version_id or "")

        goes_on = _after_page(listing, place.prefix) if listing.truncated else next_range(place)
        return Page(items, place_after, goes_on, not listing.truncated)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """An upload has no tags."""
        return items

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Item | None]:
        """By listing the range of keys, or key by key, whichever needs fewer calls."""
        begun()
        seen: dict[ItemId, Item | None] = dict.fromkeys(item.id for item in items)
        by_key = [list(group) for _, group in groupby(items, key=lambda item: item.key)]
        for group in [items] if in_few_pages(span, len(by_key)) else by_key:
            seen.update((item.id, item) for item in self._seen(group))
        return seen

    def _seen(self, items: Sequence[Item]) -> Iterator[Item]:
        """Those of some neighbouring items that are there; it lists no further than to the last of them."""
        prefix, last = shared_start(items[0].key, items[-1].key), items[-1].key
        wanted, place = {item.id for item in items}, Place(start_after=just_before(items[0].key))
        while wanted:
            listing = self.bucket.list_uploads(prefix, place.start_after, place.version)
            for item in listing.items:
                if item.id in wanted:
                    wanted.discard(item.id)
                    yield item
            if not listing.truncated or (listing.items and listing.items[-1].key > last):
                return
            place = _after_page(listing, 0)

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Each in a call of its own: S3 aborts one upload a call."""
        return ([each] for each in items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """AbortMultipartUpload."""
        return {item.id: self.bucket.abort_upload(item) for item in items}

    def request_timeout(self) -> timedelta:
        """That of the bucket."""
        return self.bucket.request_timeout()


def _without_marker(listing: Versions, place: Place) -> Sequence[Item]:
    """The uploads of a page, but for the one that it was to begin after, which some stores repeat."""
    return [item for item in listing.items if item.id != (place.start_after, place.version)]


def _after_page(listing: Versions, prefix: int) -> Place:
    return Place(prefix=prefix, start_after=listing.next_key, version=listing.next_version)

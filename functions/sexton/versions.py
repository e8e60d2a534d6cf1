"""Noncurrent versions of a bucket, and delete markers that hide nothing any more, as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.objects import Numbered, batches, next_range, with_tags
from sexton.observing import in_few_pages, just_before, shared_start
from sexton.ports import Bucket, Removed, Versions
from sexton.run import Place
from sexton.target import Page


@dataclass(frozen=True)
class NoncurrentVersions:
    """Versions as ListObjectVersions shows them, each with its rank and the date on which it became noncurrent."""

    bucket: Bucket
    prefixes: Sequence[str]

    @property
    def ranges(self) -> int:
        """One for each prefix."""
        return len(self.prefixes)

    def page(self, place: Place) -> Page:
        """One call of ListObjectVersions; a second small one where a page ends with a current delete marker."""
        listing = self.bucket.list_versions(self.prefixes[place.prefix], place.start_after, place.version)
        items = self._placed(listing, place)

        def place_after(index: int) -> Place:
            return _after(items[index], place.prefix)

        goes_on = _after_page(listing, items, place) if listing.truncated else next_range(place)
        return Page(items, place_after, goes_on, not listing.truncated)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """One call a version, several at a time. A delete marker has no tags, which is known without a call."""
        tagged = iter(with_tags(self.bucket, [item for item in items if not item.is_marker]))
        return [item._replace(tags={}) if item.is_marker else next(tagged) for item in items]

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Item | None]:
        """By listing the range of keys, or key by key, whichever needs fewer calls.

        What is seen has its rank and date afresh: a version may have become current again, or moved up. Of a key with
        very many versions those ahead of the items take long to list; only how many they are is older than the look.
        """
        begun()
        seen: dict[ItemId, Item | None] = dict.fromkeys(item.id for item in items)
        by_key = [list(group) for _, group in groupby(items, key=lambda item: item.key)]
        for group in [items] if in_few_pages(span, len(by_key)) else by_key:
            for item in self._seen(group, begun if group[0] is items[0] else _still):
                seen[item.id] = item
        return seen

    def _seen(self, items: Sequence[Item], begun: Callable[[], object]) -> Iterator[Item]:
        """Those of some neighbouring items that are there; it lists no further than to the last of them."""
        prefix, last = shared_start(items[0].key, items[-1].key), items[-1].key
        wanted, place = {item.id for item in items}, Place(start_after=just_before(items[0].key))
        while wanted:
            if len(wanted) == len(items):
                begun()
            listing = self.bucket.list_versions(prefix, place.start_after, place.version)
            found = self._placed(listing, place)
            for item in found:
                if item.id in wanted:
                    wanted.discard(item.id)
                    yield item
            if not listing.truncated or (found and found[-1].key > last):
                return
            place = _after_page(listing, found, place)

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Up to 1,000 keys that XML can carry in one call; each other key in a call of its own."""
        return batches(items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """DeleteObjects by version id, which S3 does not let be combined with a condition."""
        return self.bucket.remove_versions(items)

    def request_timeout(self) -> timedelta:
        """That of the bucket."""
        return self.bucket.request_timeout()

    def _placed(self, listing: Versions, place: Place) -> list[Item]:
        """The entries with what their neighbours tell: the newer one its date, all newer ones its rank."""
        placed: list[Item] = []
        key, since, rank = (place.start_after, place.since, place.rank) if place.version else (None, None, 0)
        for number, item in enumerate(listing.items):
            if item.id == (place.start_after, place.version):
                continue  # a store that begins a page with its marker, instead of after it
            if item.key != key:
                key, since, rank = item.key, None, 0
            if item.rank:
                placed.append(item._replace(noncurrent_since=_later(since, item.last_modified), rank=rank + 1))
                rank += not item.is_marker
            else:
                placed.append(item._replace(alone=item.is_marker and self._is_alone(listing, number)))
            since = item.last_modified
        return placed

    def _is_alone(self, listing: Versions, number: int) -> bool:
        """Whether a current delete marker hides nothing: its key has no other version."""
        key = listing.items[number].key
        if number + 1 < len(listing.items):
            return listing.items[number + 1].key != key
        return not listing.truncated or self._has_one_entry(key)

    def _has_one_entry(self, key: str) -> bool:
        """Listing on until that is certain: S3 may always show fewer entries than it was asked for."""
        entries, after = 0, ("", "")
        while True:
            listing = self.bucket.list_versions(key, *after, limit=2)
            here = sum(item.key == key for item in listing.items)
            entries += here
            if entries > 1 or here < len(listing.items) or not listing.truncated:
                return entries == 1
            after = listing.next_key, listing.next_version


def _still() -> None:
    """The look has begun, and something that was read matters."""


def _later(successor: datetime | None, own: datetime | None) -> datetime | None:
    """When a version became noncurrent; None where either date is not known.

    A successor of many parts bears the date on which its upload was begun, which can be before the version that it
    took the place of was written.
    """
    return max(successor, own) if successor and own else None


def _after(item: Item, prefix: int) -> Place:
    rank = max(0, item.rank - 1) if item.is_marker else item.rank
    return Place(
        prefix=prefix, start_after=item.key, version=item.version_id or "", since=item.last_modified, rank=rank
    )


def _after_page(listing: Versions, items: Sequence[Item], place: Place) -> Place:
    """Where a truncated page goes on. One that shows nothing says where, and what was carried along still holds."""
    if items:
        return _after(items[-1], place.prefix)
    carried = place if listing.next_key == place.start_after else Place(prefix=place.prefix)
    return carried.model_copy(update={"start_after": listing.next_key, "version": listing.next_version})

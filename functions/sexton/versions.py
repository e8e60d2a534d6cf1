"""Noncurrent versions of a bucket, and delete markers that hide nothing, as a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.objects import Numbered, batches, next_range, with_tags
from sexton.observing import PAGE, just_before, shared_start
from sexton.ports import Bucket, Removed, Versions
from sexton.run import Place
from sexton.target import Page


@dataclass(frozen=True)
class NoncurrentVersions:
    """Versions as ListObjectVersions shows them, each with its rank and the date on which it became noncurrent."""

    bucket: Bucket
    prefixes: Sequence[str]

    def page(self, place: Place) -> Page:
        """One call of ListObjectVersions; a second small one where a page ends with a current delete marker."""
        listing = self.bucket.list_versions(self.prefixes[place.prefix], place.start_after, place.version)
        items = self._placed(listing, place)

        def place_after(index: int) -> Place:
            return _after(items[index], place.prefix)

        after_none = place.model_copy(update={"start_after": listing.next_key, "version": listing.next_version})
        goes_on = place_after(len(items) - 1) if items else after_none
        return Page(items, place_after, goes_on if listing.truncated else next_range(place), not listing.truncated)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """One call a version, several at a time."""
        return with_tags(self.bucket, items)

    def observe(self, items: Sequence[Item], span: int) -> Mapping[ItemId, Item | None]:
        """By listing the range of keys, or key by key, whichever needs fewer calls.

        What is seen has its rank and date afresh: a version may have become current again, or moved up.
        """
        seen: dict[ItemId, Item | None] = dict.fromkeys(item.id for item in items)
        keys = list(dict.fromkeys(item.key for item in items))
        if -(-span // PAGE) <= len(keys):
            self._look(shared_start(keys[0], keys[-1]), just_before(keys[0]), keys[-1], seen)
        else:
            for key in keys:
                self._look(key, "", key, seen)
        return seen

    def _look(self, prefix: str, after: str, last: str, seen: dict[ItemId, Item | None]) -> None:
        """Fill in what lies under `prefix` after `after`, up to and with the key `last`."""
        place = Place(start_after=after)
        while True:
            listing = self.bucket.list_versions(prefix, place.start_after, place.version)
            items = self._placed(listing, place)
            seen.update((item.id, item) for item in items if item.id in seen)
            if not listing.truncated or not items or items[-1].key > last:
                return
            place = _after(items[-1], 0)

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
            if item.key != key:
                key, since, rank = item.key, None, 0
            if item.rank:
                placed.append(item._replace(noncurrent_since=since, rank=rank + 1))
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
        if not listing.truncated:
            return True
        return sum(other.key == key for other in self.bucket.list_versions(key, limit=2).items) == 1


def _after(item: Item, prefix: int) -> Place:
    rank = max(0, item.rank - 1) if item.is_marker else item.rank
    return Place(
        prefix=prefix, start_after=item.key, version=item.version_id or "", since=item.last_modified, rank=rank
    )

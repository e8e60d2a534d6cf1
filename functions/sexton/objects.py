"""Current objects of a bucket, as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import Failure
from sexton.item import Item, ItemId, fits_xml
from sexton.observing import Seen, observe
from sexton.ports import Bucket, Removed
from sexton.run import Place
from sexton.target import Page

BATCH = 1000  # keys in one DeleteObjects call

Numbered = Sequence[tuple[int, Item]]


@dataclass(frozen=True)
class CurrentObjects:
    """Objects as ListObjectsV2 shows them; removed where their ETag is still the one seen."""

    bucket: Bucket
    prefixes: Sequence[str]

    @property
    def ranges(self) -> int:
        """One for each prefix."""
        return len(self.prefixes)

    def page(self, place: Place) -> Page:
        """One call of ListObjectsV2."""
        listing = self.bucket.list(self.prefixes[place.prefix], place.start_after)
        items = listing.items

        def place_after(index: int) -> Place:
            return Place(prefix=place.prefix, start_after=items[index].key)

        goes_on = place_after(len(items) - 1) if items else place
        return Page(items, place_after, goes_on if listing.truncated else next_range(place), not listing.truncated)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """One call an item, several at a time."""
        return with_tags(self.bucket, items)

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """By listing the key range or asking one by one, whichever needs fewer calls."""
        begun()
        seen = observe(self.bucket, items, span)
        return {item.id: seen[item.key] for item in items}

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Up to 1,000 keys that XML can carry in one call; each other key in a call of its own."""
        return batches(items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """DeleteObjects, or DeleteObject for a key that XML cannot carry."""
        came = self.bucket.remove(items)
        return {item.id: came[item.key] for item in items}

    def request_timeout(self) -> timedelta:
        """That of the bucket."""
        return self.bucket.request_timeout()


def next_range(place: Place) -> Place:
    """The beginning of the next prefix."""
    return Place(prefix=place.prefix + 1)


def with_tags(bucket: Bucket, items: Sequence[Item]) -> Sequence[Item]:
    """The items with their tags, None where they could not be read."""
    tags = bucket.tags(items) if items else {}
    return [item._replace(tags=tags[item.id]) for item in items]


def batches(items: Numbered) -> Iterator[Numbered]:
    """Up to 1,000 keys that XML can carry together; each other key alone."""
    plain = [each for each in items if fits_xml(each[1].key)]
    for at in range(0, len(plain), BATCH):
        yield plain[at : at + BATCH]
    for each in items:
        if not fits_xml(each[1].key):
            yield [each]

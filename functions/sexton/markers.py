"""Delete markers that a run placed, as a target: what an undo removes, so that what they hide comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.errors import Failure
from sexton.item import Item, ItemId
from sexton.objects import Numbered, batches
from sexton.observing import PAGE, Seen, in_few_pages, just_before, shared_start
from sexton.ports import Bucket, Removed, Versions

FEW = 100  # entries of one key that a look asks for at once: most keys have no more


@dataclass(frozen=True)
class PlacedMarkers:
    """Delete markers by their exact ids, of keys that each have one; nothing else is ever removed.

    Whatever was written, or deleted again, since a marker was placed stands before it: then it is left alone.
    """

    bucket: Bucket

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """A delete marker has no tags, which is known without a call."""
        return [item._replace(tags={}) for item in items]

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """By listing the range of keys, or key by key, whichever needs fewer calls.

        A marker that is still the latest entry of its key is seen as it was planned (`alone`: no object lies right
        behind it); of one that is not, what stands before it is seen; one that is gone is not.
        """
        begun()
        looks = {item.key: _Look(item) for item in items}
        if in_few_pages(span, len(items)):
            self._list_range(items, looks, -(-span // PAGE))
        else:
            self._ask_for(items, looks)
        return {item.id: looks[item.key].seen for item in items}

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Up to 1,000 keys that XML can carry in one call; each other key in a call of its own."""
        return batches(items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """DeleteObjects by the markers' version ids: a version written since the look stays what it is."""
        return self.bucket.remove_versions(items)

    def request_timeout(self) -> timedelta:
        """That of the bucket."""
        return self.bucket.request_timeout()

    def _list_range(self, items: Sequence[Item], looks: dict[str, _Look], pages: int) -> None:
        """List the range; where it has grown denser than it was, ask for the rest key by key."""
        prefix, last = shared_start(items[0].key, items[-1].key), items[-1].key
        after, listed = (just_before(items[0].key), ""), 0
        while True:
            page = self.bucket.list_versions(prefix, *after)
            listed += 1
            after = _take(page, looks)
            if not page.truncated or after[0] > last or looks[last].is_certain:
                return
            rest = [item for item in items if item.key >= after[0]]
            if listed > pages and len(rest) <= listed:
                self._ask_for(rest, looks)
                return

    def _ask_for(self, items: Sequence[Item], looks: dict[str, _Look]) -> None:
        """List the entries of each key, no further than they matter. The key itself is the first with it as prefix."""
        for item in items:
            look, after = _Look(item), ("", "")
            looks[item.key] = look
            while not look.is_certain:
                page = self.bucket.list_versions(item.key, *after, limit=FEW)
                after = _take(page, looks)
                if not page.truncated or after[0] > item.key:
                    break


class _Look:
    """What listings have shown of one marker's key so far, its newest entry first."""

    def __init__(self, marker: Item) -> None:
        self._marker = marker
        self._entries: list[Item] = []  # the two newest: no more of them matter
        self._there = False

    def take(self, entry: Item) -> None:
        """One more entry of the key, in the listing's order; one that was shown before changes nothing."""
        self._there |= entry.id == self._marker.id
        if len(self._entries) < 2 and entry not in self._entries:
            self._entries.append(entry)

    @property
    def is_certain(self) -> bool:
        """Whether nothing that is still to be listed of the key can change what is seen."""
        return self._there and len(self._entries) == 2

    @property
    def seen(self) -> Item | None:
        """What is to be known of the marker, once its key was listed as far as that takes."""
        if not self._there:
            return None
        newest = self._entries[0]
        if newest.id != self._marker.id or not newest.is_marker:
            return newest
        behind = self._entries[1:]
        return self._marker._replace(alone=not behind or behind[0].is_marker)


def _take(page: Versions, looks: Mapping[str, _Look]) -> tuple[str, str]:
    """Let each key's look take what the page shows of it. Returns where a truncated page goes on."""
    for entry in page.items:
        if entry.key in looks:
            looks[entry.key].take(entry)
    if page.items:
        return page.items[-1].key, page.items[-1].version_id or ""
    return page.next_key, page.next_version

"""A fresh look at a job's items: by listing their key range, or one by one, whichever needs fewer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Bucket

PAGE = 1000  # keys in one LIST call
LOOK_CALLS = 50  # a look of so many calls is a few seconds old when it is done, well within the ten it may be used
MAX_KEY_BYTES = 1024
LAST_CHARACTER = "\U0010ffff"


def at_once(items: int, span: int) -> int:
    """How many of so many items, spread over `span` listed objects, one look takes: all, if that needs few calls."""
    calls = min(-(-span // PAGE), items)
    return items if calls <= LOOK_CALLS else max(1, items * LOOK_CALLS // calls)


Seen = Item | Failure | None
"""What a look showed of one item: what is there now, nothing, or why that cannot be seen for good."""


def observe(bucket: Bucket, items: Sequence[Item], span: int) -> Mapping[str, Seen]:
    """What is there now under each item's key.

    `items` are in key order and at least one; `span` is how many objects were listed from the first to the last.
    """
    if in_few_pages(span, len(items)):
        return _by_listing(bucket, items, -(-span // PAGE))
    return _one_by_one(bucket, items)


def in_few_pages(span: int, keys: int) -> bool:
    """Whether listing a span needs no more calls than asking for each of so many keys does."""
    return -(-span // PAGE) <= keys


def _one_by_one(bucket: Bucket, items: Sequence[Item]) -> dict[str, Seen]:
    return {item.key: _ask(bucket, item.key) for item in items}


def _ask(bucket: Bucket, key: str) -> Seen:
    """A refusal for good concerns the one key: its neighbours may well be seen."""
    try:
        return bucket.head(key)
    except CallFailed as failed:
        if failed.failure.reason_class is not ReasonClass.PERMANENT:
            raise
        return replace(failed.failure, unknown_effect=False)


def _by_listing(bucket: Bucket, items: Sequence[Item], pages: int) -> dict[str, Seen]:
    """List from just before the first key; where the range has grown denser than it was, ask for the rest singly."""
    seen: dict[str, Seen] = dict.fromkeys(item.key for item in items)
    first, last = items[0].key, items[-1].key
    prefix, after = shared_start(first, last), just_before(first)
    listed = 0
    while True:
        page = bucket.list(prefix, after)
        listed += 1
        seen.update((found.key, found) for found in page.items if found.key in seen)
        after = page.items[-1].key if page.items else after
        if not page.truncated or after >= last:
            return seen
        rest = [item for item in items if item.key > after]
        if not page.items or (listed > pages and len(rest) <= listed):  # an empty page is no proof of absence
            return seen | _one_by_one(bucket, rest)


def shared_start(first: str, last: str) -> str:
    """What both keys begin with: a prefix that a listing of the range between them can be narrowed to."""
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def just_before(key: str) -> str:
    """A string that sorts before the key with next to nothing between them, within S3's 1,024 bytes.

    S3 lists what sorts *after* a given string, in the order of UTF-8 bytes, which is that of code points.
    """
    head, last = key[:-1], ord(key[-1])
    if last == 0:
        return head
    before = last - 1 if not 0xD800 <= last - 1 <= 0xDFFF else 0xD7FF  # surrogates are no characters
    start = head + chr(before)
    room = (MAX_KEY_BYTES - len(start.encode())) // len(LAST_CHARACTER.encode())
    return start + LAST_CHARACTER * min(1, max(0, room))

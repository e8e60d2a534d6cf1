"""Histories of keys with versions, and what a purge may take of them, worked out one key at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from sexton.policy import Policy

from tests.fakes.time import START
from tests.fakes.world import World, purge_policy

CUTOFF = START - timedelta(days=30)


@dataclass(frozen=True)
class Entry:
    """A version or delete marker of a key."""

    key: str
    id: str
    at: datetime
    is_marker: bool

    def __str__(self) -> str:
        return f"{self.key}?{self.id}"


def a_world(**changes: object) -> World:
    """A versioned bucket and a policy that purges what has been noncurrent for 30 days."""
    return World({"versions-purge": purge_policy(**changes)}, versioning="Enabled")


def history(world: World, key: str, text: str) -> list[Entry]:
    """Let a key have a history, and return it, the newest first.

    `v90 m60 v10`: a version was written 90 days ago, a delete marker placed 60 days ago, another version written 10
    days ago.
    """
    bucket, entries = world.bucket(), list[Entry]()
    for word in text.split():
        at = START - timedelta(days=float(word[1:]))
        world.clock.move_to(at)
        bucket.put(key, f"{key} {word}") if word[0] == "v" else bucket.delete(key)
        entries.insert(0, Entry(key, bucket.version_ids(key)[0], at, word[0] == "m"))
    world.clock.move_to(START)
    return entries


def due(policy: Policy, entries: list[Entry], cutoff: datetime = CUTOFF) -> Iterable[Entry]:
    """What of a key's entries, the newest first, the policy takes away."""
    source = policy.source
    if len(entries) == 1 and entries[0].is_marker and source.purge_markers and entries[0].at < cutoff:
        yield entries[0]
    ahead = 0
    for newer, entry in pairwise(entries):
        expired = newer.at < cutoff
        if entry.is_marker:
            if expired and source.purge_markers:
                yield entry
            continue
        ahead += 1
        if expired and ahead > source.keep_latest:
            yield entry


def left(world: World, key: str) -> list[str]:
    """The ids of what is left of a key, the newest first."""
    return world.bucket().version_ids(key)

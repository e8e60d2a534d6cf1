"""A part of a plan: up to `job_size` neighbouring items, written once, named by its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sexton.errors import EvidenceAltered
from sexton.item import Item, from_line, rfc3339, to_line

DIGEST_SCHEMA = "sexton-plan-1"


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a part with what the ledger holds of them.

    `sha256` is over the uncompressed lines; `span` counts the objects that planning listed from the first
    item to the last, so that a worker knows whether listing or asking one by one is cheaper.
    """

    seq: str
    lines: bytes
    sha256: str
    count: int
    bytes: int
    span: int
    first_key: str
    last_key: str


def build(seq: str, items: Sequence[Item], span: int) -> Part:
    """Make the part `seq` of neighbouring items, at least one."""
    lines = "".join(to_line(item) + "\n" for item in items).encode("ascii")
    return Part(
        seq=seq,
        lines=lines,
        sha256=hashlib.sha256(lines).hexdigest(),
        count=len(items),
        bytes=sum(item.size for item in items),
        span=span,
        first_key=items[0].key,
        last_key=items[-1].key,
    )


def read(lines: bytes, sha256: str) -> list[Item]:
    """The items of a part whose hash the ledger holds.

    Raises EvidenceAltered when the lines are not those that were planned.
    """
    found = hashlib.sha256(lines).hexdigest()
    if found != sha256:
        raise EvidenceAltered(f"the part has hash {found}, the ledger holds {sha256}")
    return [from_line(line) for line in lines.splitlines()]


def digest(policy_version: str, cutoff: datetime, hashes: Iterable[str]) -> str:
    """The digest of a plan: SHA-256 over schema, policy version, cutoff and the parts' hashes in order."""
    text = "".join(f"{line}\n" for line in (DIGEST_SCHEMA, policy_version, rfc3339(cutoff), *hashes))
    return hashlib.sha256(text.encode("ascii")).hexdigest()

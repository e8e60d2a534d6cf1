"""Reading what a canary left alone, back from the file that the plan names to the first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from sexton import keys
from sexton.errors import EvidenceAltered
from sexton.item import Item, from_line
from sexton.ports import Evidence
from sexton.reported import Reported


def items(evidence: Evidence, run_id: str, written: Reported | None) -> Iterator[Item]:
    """Every item in the order in which planning met them. Raises EvidenceAltered.

    Each file is read two times, so that one at a time is in memory: backwards, to find them all, and forwards.
    """
    for number, sha256 in enumerate(_hashes(evidence, run_id, written), 1):
        yield from map(from_line, _lines(evidence, run_id, number, sha256)[1:])


def _hashes(evidence: Evidence, run_id: str, written: Reported | None) -> list[str]:
    """The files' hashes, the first one first."""
    found: list[str] = []
    at = written.last if written else None
    for number in range(written.files if written else 0, 0, -1):
        if at is None:
            raise EvidenceAltered(f"file {number} of what is only reported is named by none")
        found.append(at)
        at = json.loads(_lines(evidence, run_id, number, at)[0])["previous"]
    if at is not None:
        raise EvidenceAltered("the first file of what is only reported names one before it")
    return found[::-1]


def _lines(evidence: Evidence, run_id: str, number: int, sha256: str) -> list[bytes]:
    key = keys.reported(run_id, number, sha256)
    text = evidence.get(key)
    if text is None or hashlib.sha256(text).hexdigest() != sha256:
        raise EvidenceAltered(f"what is only reported, {key}, is {'gone' if text is None else 'not what was written'}")
    return text.splitlines()

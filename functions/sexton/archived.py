"""Files of archived records: whole records in evidence, each file under a key that holds the hash of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from sexton import keys
from sexton.attributes import Attribute, Attributes
from sexton.errors import EvidenceAltered
from sexton.ports import Evidence

Records = Mapping[str, Attributes]  # whole, by their canonical keys


def write(evidence: Evidence, run_id: str, records: Records) -> str:
    """Write these records of a run; the key of their file. Raises EvidenceAltered where it is taken by another."""
    lines = [json.dumps({"key": key, "record": records[key]}, separators=(",", ":")) for key in sorted(records)]
    content = "".join(line + "\n" for line in lines).encode("ascii")
    file = keys.archived(run_id, hashlib.sha256(content).hexdigest())
    # Taken already means that an attempt read the same and then broke off: the key holds the hash.
    if not evidence.put_once(file, content) and evidence.get(file) != content:
        raise EvidenceAltered(f"the archive {file} is not what its key says")
    return file


def read(evidence: Evidence, file: str) -> Records:
    """The records of a file. Raises EvidenceAltered when it is gone, or not what its key says."""
    content = evidence.get(file)
    if content is None:
        raise EvidenceAltered(f"the archive {file} is gone")
    if not file.endswith(f"/{hashlib.sha256(content).hexdigest()}.ndjson.gz"):
        raise EvidenceAltered(f"the archive {file} is not what its key says")
    try:
        lines = map(json.loads, content.splitlines())
        return {str(line["key"]): line["record"] for line in lines}
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceAltered(f"{file} is no archive ({type(error).__name__})") from error


def size(record: Mapping[str, Attribute | None]) -> int:
    """About how many bytes these attributes take: its JSON is somewhat longer than what DynamoDB counts."""
    return len(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode())

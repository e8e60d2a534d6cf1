"""The evidence as files, read with nothing of Sexton's."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sexton.attributes import canonical
from sexton.item import ItemId

from infra.local.demo.filling import listed
from infra.local.stage import Stage


def keep(stage: Stage, folder: Path) -> int:
    """Copy the evidence bucket into a folder; returns how many files it has."""
    s3, bucket = stage.client("s3"), stage.outputs["EvidenceBucketName"]
    keys = [entry["Key"] for entry in listed(s3, bucket)]
    for key in keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return len(keys)


def planned(folder: Path, run_id: str) -> Counter[ItemId]:
    """How often each item stands in the plan of a run."""
    return Counter(map(_id, _lines(folder / "plans" / run_id, "[0-9]*.ndjson.gz")))


def only_reported(folder: Path, run_id: str) -> Counter[ItemId]:
    """How often each item stands in the lists of what a canary leaves alone; the first line of each is no item."""
    return Counter(_id(line) for line in _lines(folder / "plans" / run_id, "reported-*.ndjson.gz") if "key" in line)


def outcomes(folder: Path, run_id: str) -> Iterator[tuple[ItemId, str]]:
    """Item and outcome of every recorded outcome, such as `skipped:changed`."""
    for line in _lines(folder / "outcomes" / run_id):
        yield _id(line), ":".join(filter(None, (line["outcome"], line.get("reason"))))


def unreadable(folder: Path, run_id: str) -> list[str]:
    """The keys of the records that a plan lists as unreadable."""
    plan = json.loads((folder / "runs" / run_id / "plan.json").read_text())
    found: list[str] = plan.get("unreadable", [])
    return found


def archived(folder: Path, run_id: str) -> Iterator[str]:
    """Each record that a run archived, in the one text of its attributes."""
    for line in _lines(folder / "archived" / run_id):
        yield canonical(line["record"])


def _id(line: Mapping[str, Any]) -> ItemId:
    return line["key"], line.get("version_id")


def _lines(folder: Path, files: str = "*.ndjson.gz") -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob(files)):
        yield from map(json.loads, gzip.decompress(file.read_bytes()).splitlines())

"""Filling the buckets with objects that look as old as they should.

Nothing can tell S3 when an object was last modified, and the emulator has no way either; but it can keep its objects
in a folder, each with a file that says so. So a first emulator takes the objects through the S3 API and is stopped,
those dates are set back, and the demo's own emulator starts from the folder.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra.local import emulator as emulators
from infra.local.demo.seeds import RECORDS, VERSIONED, Seed
from infra.local.emulator import Emulator
from infra.local.stage import client

AT_ONCE = 4
BATCH = 100
KEEPING = {"S3_PERSIST": "1"}  # what makes the emulator keep its objects in the folder
SIDECAR = ".meta.json"


class FillingError(Exception):
    """The buckets are not as they were meant to be."""


def fill(folder: Path, seeds: Sequence[Seed], now: datetime, on_each: Callable[[], None]) -> str:
    """Put every object into an emulator of the folder, stop it, set the dates back; returns the account."""
    with emulators.running(folder, KEEPING) as emulator:
        _put_all(emulator, seeds, on_each)
    _set_back(folder / "s3" / emulator.account, seeds, now)
    return emulator.account


def check(emulator: Emulator, seeds: Sequence[Seed], now: datetime) -> None:
    """Ask the API whether every object is there with its date. Raises FillingError."""
    s3 = client(emulator, "s3")
    for bucket in sorted({seed.bucket for seed in seeds}):
        meant = Counter((seed.key, _date(seed, now)) for seed in seeds if seed.bucket == bucket)
        found = Counter((entry["Key"], entry["LastModified"]) for entry in stored(s3, bucket))
        wrong = sorted((meant - found) + (found - meant))
        if wrong:
            raise FillingError(f"{len(wrong)} objects of {bucket} are not as meant, the first is {wrong[0]!r}")


def version(emulator: Emulator) -> None:
    """The emulator forgets over a restart that a bucket is versioned."""
    _version(client(emulator, "s3"))


def listed(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """Every current object of a bucket."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry for page in pages for entry in page.get("Contents", [])]


def stored(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """Every object of a bucket; of a versioned one, every version."""
    if bucket not in VERSIONED:
        return listed(s3, bucket)
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
    return [entry for page in pages for entry in page.get("Versions", [])]


def _put_all(emulator: Emulator, seeds: Sequence[Seed], on_each: Callable[[], None]) -> None:
    s3 = client(emulator, "s3")
    for bucket in sorted({seed.bucket for seed in seeds}):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": emulators.REGION})
    _version(s3)

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        list(pool.map(lambda some: _put(emulator, some, on_each), _batches(seeds)))
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(seeds: Sequence[Seed]) -> list[Sequence[Seed]]:
    """Seeds for one connection each; few, so that an interrupted demo ends soon. Versions of a key keep their order."""
    histories = [seed for seed in seeds if seed.bucket == RECORDS]
    others = [seed for seed in seeds if seed.bucket != RECORDS]
    return [histories, *(others[at : at + BATCH] for at in range(0, len(others), BATCH))]


def _put(emulator: Emulator, seeds: Iterable[Seed], on_each: Callable[[], None]) -> None:
    """Plain PUTs over one connection: the emulator wants no signature, and they cost a tenth of an SDK's."""
    connection = HTTPConnection(emulators.HOST, emulator.port)
    with contextlib.closing(connection):
        for seed in seeds:
            connection.request("PUT", quote(f"/{seed.bucket}/{seed.key}"), seed.body)
            reply = connection.getresponse()
            answer = reply.read()
            if reply.status != HTTPStatus.OK:
                raise FillingError(f"{seed.key!r} was not stored: {answer.decode()}")
            on_each()


def _version(s3: Any) -> None:
    for bucket in VERSIONED:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def _set_back(folder: Path, seeds: Sequence[Seed], now: datetime) -> None:
    dates: dict[tuple[str, str], list[str]] = {}
    for seed in seeds:
        dates.setdefault((seed.bucket, seed.key), []).append(_date(seed, now).strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    for sidecar in folder.rglob(f"*{SIDECAR}"):
        fields = json.loads(sidecar.read_text())
        bucket = sidecar.relative_to(folder).parts[0]
        of_versions = dates[bucket, fields["key"]]
        fields["last_modified"] = of_versions[-1]
        for version, date in zip(fields.get("versions", []), of_versions, strict=bucket in VERSIONED):
            version["last_modified"] = date
        sidecar.write_text(json.dumps(fields))


def _date(seed: Seed, now: datetime) -> datetime:
    return (now - timedelta(days=seed.days)).replace(microsecond=0)

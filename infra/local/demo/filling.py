"""Filling the buckets with objects that look as old as they should.

Nothing can tell S3 when an object was last modified, and the emulator has no way either; but it can keep its objects
in a folder, each with a file that says so. So a first emulator takes the objects through the S3 API and is stopped,
those dates are set back, and the demo's own emulator starts from the folder. Incomplete uploads it keeps nowhere: they
are begun in the demo's own emulator, and the gate sets their dates back.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sexton.item import ItemId

from infra.local import emulator as emulators
from infra.local.demo.seeds import INCOMING, RECORDS, SEVERAL_A_KEY, VERSIONED, Kind, Seed
from infra.local.emulator import Emulator
from infra.local.stage import client

AT_ONCE = 4
BATCH = 100
KEEPING = {"S3_PERSIST": "1"}  # what makes the emulator keep its objects in the folder
SIDECAR = ".meta.json"


class FillingError(Exception):
    """The buckets are not as they were meant to be."""


def fill(folder: Path, seeds: Sequence[Seed], now: datetime, on_each: Callable[[], None]) -> tuple[str, list[Seed]]:
    """Put every object into an emulator of the folder, stop it, set the dates back.

    Returns the account, and the objects with the ids that their versions got.
    """
    with emulators.running(folder, KEEPING) as emulator:
        filled = _put_all(emulator, seeds, on_each)
    _set_back(folder / "s3" / emulator.account, seeds, now)
    return emulator.account, filled


def restore(emulator: Emulator, seeds: Iterable[Seed]) -> list[Seed]:
    """What an emulator forgets over a restart: what its buckets are set to, and uploads; these get other ids."""
    s3 = client(emulator, "s3")
    _version(s3)
    s3.put_object_lock_configuration(Bucket=RECORDS, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    return [_begin_upload(s3, seed) if seed.kind is Kind.UPLOAD else seed for seed in seeds]


def check(emulator: Emulator, seeds: Sequence[Seed], now: datetime) -> None:
    """Ask the API whether everything is there with its date. Raises FillingError."""
    s3 = client(emulator, "s3")
    for bucket in sorted({seed.store for seed in seeds}):
        meant = Counter((seed.id, date_of(seed, now)) for seed in seeds if seed.store == bucket)
        found = Counter(dated(s3, bucket))
        wrong = sorted((meant - found) + (found - meant), key=repr)
        if wrong:
            raise FillingError(f"{len(wrong)} objects of {bucket} are not as meant, the first is {wrong[0]!r}")


def listed(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """Every current object of a bucket."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry for page in pages for entry in page.get("Contents", [])]


def dated(s3: Any, bucket: str) -> Iterator[tuple[ItemId, datetime]]:
    """Everything that lies in a bucket: objects, or versions and delete markers; incomplete uploads too."""
    if bucket == RECORDS:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for entry in page.get("Versions", []) + page.get("DeleteMarkers", []):
                yield (entry["Key"], entry["VersionId"]), entry["LastModified"]
        return
    for entry in listed(s3, bucket):
        yield (entry["Key"], None), entry["LastModified"]
    if bucket == INCOMING:
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            for entry in page.get("Uploads", []):
                yield (entry["Key"], entry["UploadId"]), entry["Initiated"]


def date_of(seed: Seed, now: datetime) -> datetime:
    """When it was last modified, to the second, or begun."""
    return (now - timedelta(days=seed.days)).replace(microsecond=0)


def _put_all(emulator: Emulator, seeds: Sequence[Seed], on_each: Callable[[], None]) -> list[Seed]:
    s3 = client(emulator, "s3")
    for bucket in sorted({seed.store for seed in seeds}):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": emulators.REGION})
    _version(s3)

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        filled = pool.map(lambda some: _put(emulator, some, on_each), _batches(seeds))
        return [*(seed for some in filled for seed in some), *(seed for seed in seeds if seed.kind is Kind.UPLOAD)]
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(seeds: Sequence[Seed]) -> list[Sequence[Seed]]:
    """Seeds for one connection each; few, so that an interrupted demo ends soon. Versions of a key keep their order."""
    now = [seed for seed in seeds if seed.kind is not Kind.UPLOAD]
    histories = [seed for seed in now if seed.store == RECORDS]
    others = [seed for seed in now if seed.store != RECORDS]
    return [histories, *(others[at : at + BATCH] for at in range(0, len(others), BATCH))]


def _put(emulator: Emulator, seeds: Iterable[Seed], on_each: Callable[[], None]) -> list[Seed]:
    """Plain requests over one connection: the emulator wants no signature, and they cost a tenth of an SDK's."""
    connection, filled = HTTPConnection(emulators.HOST, emulator.port), []
    with contextlib.closing(connection):
        for seed in seeds:
            method = "DELETE" if seed.kind is Kind.MARKER else "PUT"
            tags = {"x-amz-tagging": seed.tags} if seed.tags else {}
            connection.request(method, quote(f"/{seed.store}/{seed.key}"), seed.body, tags)
            reply = connection.getresponse()
            answer = reply.read()
            if reply.status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
                raise FillingError(f"{seed.key!r} was not stored: {answer.decode()}")
            version_id = reply.getheader("x-amz-version-id") if seed.store in SEVERAL_A_KEY else None
            filled.append(replace(seed, version_id=version_id))
            on_each()
    return filled


def _begin_upload(s3: Any, seed: Seed) -> Seed:
    """An upload with its only part, which is never completed."""
    named = {"Bucket": seed.store, "Key": seed.key}
    upload_id = s3.create_multipart_upload(**named)["UploadId"]
    s3.upload_part(**named, UploadId=upload_id, PartNumber=1, Body=seed.body)
    return replace(seed, version_id=upload_id)


def _version(s3: Any) -> None:
    for bucket in VERSIONED:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def _set_back(folder: Path, seeds: Sequence[Seed], now: datetime) -> None:
    dates: dict[tuple[str, str], list[str]] = {}
    for seed in seeds:
        if seed.kind is not Kind.UPLOAD:
            dates.setdefault((seed.store, seed.key), []).append(f"{date_of(seed, now):%Y-%m-%dT%H:%M:%S.000Z}")
    for sidecar in folder.rglob(f"*{SIDECAR}"):
        fields = json.loads(sidecar.read_text())
        bucket = sidecar.relative_to(folder).parts[0]
        of_versions = dates[bucket, fields["key"]]
        fields["last_modified"] = of_versions[-1]
        for version, date in zip(fields.get("versions", []), of_versions, strict=bucket in VERSIONED):
            version["last_modified"] = date
        sidecar.write_text(json.dumps(fields))

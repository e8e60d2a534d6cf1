"""Versions, tags and incomplete uploads on the deployed stack: a run of each, and what changed under it meanwhile.

Each item's end is read from the evidence, and what is left of each bucket is compared by its ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sexton.item import ItemId

from tests.e2e.site import Site, now, stamp, until

pytestmark = pytest.mark.usefixtures("begun")  # so that recovery from the crashes goes on meanwhile

RECORDS, SCRATCH, INCOMING = "e2e-records", "e2e-scratch", "e2e-incoming"
POLICIES = {RECORDS: "versions-purge", SCRATCH: "scratch-tags", INCOMING: "incoming-abort"}
CLOSED_SECONDS = 150
CURRENT, KEPT = "the current one", "kept"

# By key the fate of each of its versions, the oldest first; an M is a delete marker. One noncurrent version is kept.
HISTORIES: Mapping[str, tuple[str, ...]] = {
    **{f"records/plain/{number}": ("deleted", "deleted", KEPT, CURRENT) for number in range(5)},
    "records/a b+c%2F": ("deleted", KEPT, CURRENT),
    "records/once": (CURRENT,),
    "records/twice": (KEPT, CURRENT),
    "records/hidden": ("deleted", KEPT, "M " + CURRENT),
    "records/restored": (KEPT, "M deleted", CURRENT),
    "records/marker": ("M deleted",),
    "records/marker-hides": ("M skipped:younger",),
    "records/held": ("skipped:locked", "deleted", KEPT, CURRENT),
    "records/retained": ("skipped:locked", KEPT, CURRENT),
    "records/current-again": ("skipped:current_version", KEPT, CURRENT),
    "records/moved-up": ("deleted", "skipped:kept_latest", KEPT, CURRENT),
    "records/removed": ("skipped:absent", KEPT, CURRENT),
    "beside/plain": ("outside", "outside", "outside"),
}
TAGGED: Mapping[str, tuple[str, str]] = {
    "shared/scratch": ("class=scratch", "deleted"),
    "shared/more": ("class=scratch&team=a", "deleted"),
    "shared/keep-no": ("class=scratch&keep=no", "deleted"),
    "shared/a b+c%2F": ("class=scratch", "deleted"),
    "shared/kept": ("class=scratch&keep=yes", "excluded"),
    "shared/model": ("class=model", "not_selected"),
    "shared/other-case": ("class=Scratch", "not_selected"),
    "shared/untagged": ("", "not_selected"),
    "shared/kept-since": ("class=scratch", "skipped:excluded"),
    "shared/untagged-since": ("class=scratch", "skipped:not_selected"),
    "beside/scratch": ("class=scratch", "outside"),
}
UPLOADS: Iterable[tuple[str, str]] = (
    ("incoming/a", "deleted"),
    ("incoming/a", "deleted"),
    ("incoming/a b+c%2F", "deleted"),
    ("incoming/completed", "skipped:absent"),
    ("incoming/aborted", "skipped:absent"),
    ("outgoing/a", "outside"),
)


@dataclass
class Ended:
    """The runs by bucket, at their ends; by bucket and id what had to become of each item; what had to be left."""

    runs: dict[str, str] = field(default_factory=dict)
    meant: dict[str, dict[ItemId, str]] = field(default_factory=dict)
    left: dict[str, set[ItemId]] = field(default_factory=dict)

    def expected(self, bucket: str) -> dict[ItemId, str]:
        """The outcomes that a run must have recorded."""
        outcomes = self.meant[bucket].items()
        return {item: fate for item, fate in outcomes if fate == "deleted" or fate.startswith("skipped:")}


@pytest.fixture(scope="module")
def ended(site: Site) -> Ended:
    """Three runs; between their plans and the worker's look everything happens that must spare something."""
    story = Ended()
    versions = {key: write_history(site, key, fates, story) for key, fates in HISTORIES.items()}
    story.meant[SCRATCH] = {(key, None): fate for key, (_, fate) in TAGGED.items()}
    for key, (tags, _) in TAGGED.items():
        site.s3.put_object(Bucket=SCRATCH, Key=key, Body=b"x", Tagging=tags)
    story.meant[INCOMING] = {(key, begin(site, key)): fate for key, fate in UPLOADS}
    lock(site, versions)
    site.age()
    at = now()
    for key in ("incoming/a", "incoming/young"):
        story.meant[INCOMING][key, begin(site, key)] = "younger"
    with site.worker_held():
        story.runs = {bucket: site.start(policy, "--at", stamp(at)) for bucket, policy in POLICIES.items()}
        until(lambda: all(site.show(run)["state"] == "draining" for run in story.runs.values()), 90, "all dispatched")
        story.left = {bucket: staying(items) for bucket, items in story.meant.items()}
        meddle(site, versions, story)
    site.closed(*story.runs.values(), within=CLOSED_SECONDS)
    return story


def write_history(site: Site, key: str, fates: tuple[str, ...], story: Ended) -> list[str]:
    """Write the versions of a key; their ids."""
    ids = []
    for fate in fates:
        if fate.startswith("M "):
            answer = site.s3.delete_object(Bucket=RECORDS, Key=key)
        else:
            answer = site.s3.put_object(Bucket=RECORDS, Key=key, Body=b"x")
        ids.append(str(answer["VersionId"]))
        story.meant.setdefault(RECORDS, {})[key, ids[-1]] = fate.removeprefix("M ")
    return ids


def begin(site: Site, key: str) -> str:
    """An upload with one part."""
    upload = {"Bucket": INCOMING, "Key": key}
    upload["UploadId"] = site.s3.create_multipart_upload(**upload)["UploadId"]
    site.s3.upload_part(**upload, PartNumber=1, Body=b"x")
    return upload["UploadId"]


def lock(site: Site, versions: Mapping[str, list[str]]) -> None:
    """A legal hold, and a retention, each on the oldest version of a key."""
    site.s3.put_object_lock_configuration(Bucket=RECORDS, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    held, retained = ({"Bucket": RECORDS, "Key": key, "VersionId": versions[key][0]} for key in LOCKED)
    site.s3.put_object_legal_hold(**held, LegalHold={"Status": "ON"})
    until_tomorrow = {"Mode": "GOVERNANCE", "RetainUntilDate": now() + timedelta(days=1)}
    site.s3.put_object_retention(**retained, Retention=until_tomorrow)


LOCKED = ("records/held", "records/retained")


def staying(items: Mapping[ItemId, str]) -> set[ItemId]:
    """What is still there if nobody but the run does anything."""
    return {item for item, fate in items.items() if fate != "deleted"}


def meddle(site: Site, versions: Mapping[str, list[str]], story: Ended) -> None:
    """What others do after the plan stands, and what is left then."""
    for key, newest in (("records/current-again", 2), ("records/moved-up", 1)):
        for version_id in versions[key][-newest:]:
            remove_version(site, key, version_id, story)
    remove_version(site, "records/removed", versions["records/removed"][0], story)
    hidden = site.s3.put_object(Bucket=RECORDS, Key="records/marker-hides", Body=b"x")["VersionId"]
    story.left[RECORDS].add(("records/marker-hides", hidden))
    kept = {"TagSet": [{"Key": "class", "Value": "scratch"}, {"Key": "keep", "Value": "yes"}]}
    site.s3.put_object_tagging(Bucket=SCRATCH, Key="shared/kept-since", Tagging=kept)
    site.s3.delete_object_tagging(Bucket=SCRATCH, Key="shared/untagged-since")
    for key, upload_id in [item for item in story.meant[INCOMING] if item[0] in ENDED_BY_OTHERS]:
        end_upload(site, key, str(upload_id))
        story.left[INCOMING].discard((key, upload_id))
    story.left[INCOMING].add(("incoming/completed", None))


ENDED_BY_OTHERS = ("incoming/completed", "incoming/aborted")


def remove_version(site: Site, key: str, version_id: str, story: Ended) -> None:
    site.s3.delete_object(Bucket=RECORDS, Key=key, VersionId=version_id)
    story.left[RECORDS].discard((key, version_id))


def end_upload(site: Site, key: str, upload_id: str) -> None:
    """Complete it, or abort it, as its key says."""
    upload = {"Bucket": INCOMING, "Key": key, "UploadId": upload_id}
    if key == "incoming/aborted":
        site.s3.abort_multipart_upload(**upload)
        return
    (part,) = site.s3.list_parts(**upload)["Parts"]
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    site.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def there(site: Site, bucket: str) -> list[ItemId]:
    """Everything that lies in a bucket, by its ids."""
    if bucket == RECORDS:
        pages = site.s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
        entries = [entry for page in pages for entry in page.get("Versions", []) + page.get("DeleteMarkers", [])]
        return [(entry["Key"], entry["VersionId"]) for entry in entries]
    uploads = site.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return [*((key, None) for key in site.keys(bucket)), *((each["Key"], each["UploadId"]) for each in uploads)]


@pytest.mark.parametrize("bucket", POLICIES)
def test_each_item_ends_as_it_must(site: Site, ended: Ended, bucket: str) -> None:
    run_id, expected = ended.runs[bucket], ended.expected(bucket)

    run = site.show(run_id)
    assert (run["state"], run["balanced"], run["open"], run["dead"]) == ("completed", True, 0, {})
    assert (run["planned"], run["deleted"]) == (len(expected), list(expected.values()).count("deleted"))
    assert site.outcomes(run_id) == expected
    assert site.told("verify", run_id)["holds"]


@pytest.mark.parametrize("bucket", POLICIES)
def test_exactly_what_had_to_stay_is_there(site: Site, ended: Ended, bucket: str) -> None:
    assert sorted(there(site, bucket), key=repr) == sorted(ended.left[bucket], key=repr)


def test_why_the_others_were_not_planned_is_counted(site: Site, ended: Ended) -> None:
    """Of everything under the prefixes; a version beside them is not even looked at."""
    counted = {bucket: dict(site.show(run_id)["scanned_by"]) for bucket, run_id in ended.runs.items()}

    for bucket, reasons in counted.items():
        assert reasons.pop("expired") == len(ended.expected(bucket))
    fates = list(ended.meant[RECORDS].values())
    assert counted == {
        RECORDS: {"current_version": fates.count(CURRENT), "kept_latest": fates.count(KEPT)},
        SCRATCH: {"excluded": 1, "not_selected": 3},
        INCOMING: {"younger": 2},
    }


def test_a_locked_version_is_explained(site: Site, ended: Ended) -> None:
    ids = [version_id for key, version_id in ended.meant[RECORDS] if key == "records/held"]

    fates = {
        fate["planned"]["version_id"]: fate for fate in site.told("explain", f"s3://{RECORDS}/records/held")["runs"]
    }
    assert (fates[ids[0]]["outcome"], fates[ids[0]]["reason"]) == ("skipped", "locked")
    assert fates[ids[1]]["outcome"] == "deleted"


def test_a_second_run_plans_only_what_is_still_due(site: Site, ended: Ended) -> None:
    """Locked versions are tried again; what became current, moved up or was tagged is left alone."""
    site.age()
    again = {bucket: site.start(policy) for bucket, policy in POLICIES.items()}
    site.closed(*again.values(), within=CLOSED_SECONDS)

    locked = {item: fate for item, fate in ended.meant[RECORDS].items() if fate == "skipped:locked"}
    marker = next(item for item in ended.meant[RECORDS] if item[0] == "records/marker-hides")
    assert site.outcomes(again[RECORDS]) == {**locked, marker: "deleted"}
    assert site.outcomes(again[SCRATCH]) == {}
    young = [item for item, fate in ended.meant[INCOMING].items() if fate == "younger"]
    assert site.outcomes(again[INCOMING]) == dict.fromkeys(young, "deleted")

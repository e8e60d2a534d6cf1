"""Which target a policy means, and on which buckets it may be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from sexton.action import Mark
from sexton.archiving import ArchivingRecords
from sexton.decision import ARCHIVED, KEY_IN_USE, NOTHING_BEHIND, PLACED, Decision, Judge, judge
from sexton.endpoint import Endpoint
from sexton.endpoint_action import HttpAction
from sexton.errors import SourceRefused
from sexton.item import Item
from sexton.markers import PlacedMarkers
from sexton.marking import MarkedRecords, RecordsMarkedElsewhere, refuse_unfit_mark
from sexton.objects import CurrentObjects
from sexton.policy import Policy
from sexton.ports import Bucket, RecordTable, Stores
from sexton.record_source import RecordSource
from sexton.records import Records, RecordsElsewhere, refuse_unfit_table
from sexton.restoring import IN_USE, ArchivedRecords
from sexton.run import Place, Run
from sexton.target import AnyTarget, ListedAtomicTarget, ListedTarget
from sexton.uploads import IncompleteUploads
from sexton.versions import NoncurrentVersions


def target_of(policy: Policy, stores: Stores, cutoff: datetime, run_id: str = "") -> ListedTarget | ListedAtomicTarget:
    """The items of a policy in its bucket or table, of which a table's are listed up to a cutoff."""
    if isinstance(policy.source, RecordSource):
        source = _read_by(policy, policy.source)
        table = table_of(source, stores, run_id)
        if isinstance(policy.action, Mark):
            marked = RecordsMarkedElsewhere if source.elsewhere else MarkedRecords
            return marked(table, source, cutoff, policy.action)
        if policy.action == "archive":
            return ArchivingRecords(table, source, cutoff, stores.evidence, run_id)
        records = (RecordsElsewhere if source.elsewhere else Records)(table, source, cutoff)
        if isinstance(policy.action, HttpAction):
            return Endpoint(records, policy.action, stores.endpoints, policy.id)
        return records
    return _kind(policy)(bucket_of(policy, stores), policy.s3.prefixes)


def target_of_run(policy: Policy, run: Run, stores: Stores) -> AnyTarget:
    """What a run removes: the policy's items. Of an undo, what another run of it did to them."""
    if not run.undoes:
        return target_of(policy, stores, run.cutoff, run.run_id)
    if isinstance(policy.source, RecordSource):
        return ArchivedRecords(table_of(policy.source, stores, run.run_id), policy.source, stores.evidence)
    return PlacedMarkers(bucket_of(policy, stores))


def bucket_of(policy: Policy, stores: Stores) -> Bucket:
    """The bucket of a policy that is about one."""
    return stores.bucket(policy.s3.bucket, policy.s3.account)


def table_of(source: RecordSource, stores: Stores, run_id: str = "") -> RecordTable:
    """The table of records, wherever it lies."""
    return stores.records(source.table, source.elsewhere, run_id)


def _read_by(policy: Policy, source: RecordSource) -> RecordSource:
    """The source with what the policy's action needs to know of a record."""
    if isinstance(policy.action, Mark):
        return source.reading(policy.action.attribute)
    return source.reading(*policy.action.fields) if isinstance(policy.action, HttpAction) else source


def refuse_unfit_source(policy: Policy, stores: Stores, run_id: str = "") -> bool:
    """Whether the source keeps versions. Raises SourceRefused where the policy would do other than it says on it."""
    if isinstance(policy.source, RecordSource):
        source = _read_by(policy, policy.source)
        records = table_of(source, stores, run_id)
        shape = records.shape()
        refuse_unfit_table(source, shape)
        if isinstance(policy.action, Mark):
            refuse_unfit_mark(policy.action, source, shape)
        return False
    bucket = bucket_of(policy, stores)
    return refuse_unfit(policy, bucket.versioning())


def judge_of(policy: Policy, run: Run) -> Judge:
    """How a run judges what it sees: by the policy at its cutoff. Of an undo, the look itself decides."""
    if run.undoes:
        return _judge_marker if policy.of_bucket else _judge_archived
    return judge(policy, run.cutoff)


def _judge_marker(marker: Item) -> Decision:
    return NOTHING_BEHIND if marker.alone else PLACED


def _judge_archived(record: Item) -> Decision:
    return KEY_IN_USE if record.rank == IN_USE else ARCHIVED


def items_at(policy: Policy, bucket: Bucket, key: str) -> Iterator[Item]:
    """What a policy's target has now under one key, whether the policy means it or not."""
    target, place = _kind(policy)(bucket, (key,)), Place()
    while place.prefix == 0:
        page = target.page(place)
        for item in page.items:
            if item.key != key:
                return
            yield item
        place = page.next


def of_current_objects(policy: Policy) -> bool:
    """Whether a policy is about what a HEAD of a key shows."""
    return policy.source.kind == "s3" and policy.s3.versions == "current"


def _kind(policy: Policy) -> Callable[[Bucket, Sequence[str]], ListedTarget]:
    if policy.source.kind == "s3_uploads":
        return IncompleteUploads
    return CurrentObjects if of_current_objects(policy) else NoncurrentVersions


def refuse_unfit(policy: Policy, versioning: str) -> bool:
    """Whether the bucket is versioned. Raises SourceRefused where the policy would do other than it says on it."""
    name, versioned = policy.s3.bucket, versioning == "Enabled"
    if policy.source.kind == "s3_uploads":
        return versioned
    if versioning == "Suspended":
        raise SourceRefused(
            "versioning_suspended",
            f"bucket {name} has suspended versioning, where a plain delete destroys the null version; "
            "enable versioning on it, then start a new run",
        )
    if policy.recovery == "versioning" and not versioned:
        raise SourceRefused(
            "recovery_unavailable",
            f"the policy counts on versioning to take a deletion back, but bucket {name} has none; "
            "enable versioning on it, or write recovery: backup or none",
        )
    if policy.s3.versions == "noncurrent" and not versioned:
        raise SourceRefused("not_versioned", f"bucket {name} is not versioned, so it has no noncurrent versions")
    if policy.action == "purge" and policy.s3.versions == "current" and versioned:
        raise SourceRefused(
            "current_versions",
            f"bucket {name} is versioned, where purging a current version would bring the one behind it back; "
            "write action: expire, and versions: noncurrent in a policy of its own",
        )
    return versioned

"""Probes of one table that policies name: whether it is there, and whether it is as each policy takes it to be.

A table behind a role is looked at under that role, as whoever asks: its owner need not let them, and then nobody but
the functions can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from sexton.aws import simulation
from sexton.aws.errors import code_of
from sexton.aws.probe import Probe, Site
from sexton.aws.records import DynamoRecords
from sexton.doctor import ABSENT, DENIED, Check, CheckName
from sexton.elsewhere import Elsewhere, refuse_own, sessions_of
from sexton.errors import SourceRefused
from sexton.grants import DISCOVERY, READ_TABLE_KEY, WORKER, WRITE_TABLE_KEY, via
from sexton.policy import Policy
from sexton.record_source import RecordSource
from sexton.targets import refuse_unfit_source

DESCRIBE = "dynamodb:DescribeTable on it"
ON = ("ENABLED", "ENABLING")


def checks(site: Site, policies: Sequence[Policy]) -> Iterator[Check]:
    """Of the policies of one table; of one that cannot be looked at, or is not there, nothing more can be said."""
    table = _Table(site, tuple(policies))
    for probe in table.first():
        found = list(probe.checks())
        yield from found
        if any(check.verdict in ("failed", "unknown") for check in found):
            return
    for probe in table.rest():
        yield from probe.checks()


@dataclass(frozen=True)
class _Table:
    """The looks at one table."""

    site: Site
    policies: tuple[Policy, ...]

    def first(self) -> Iterator[Probe]:
        """Those without which the rest says nothing."""
        if self.place and self.place.role_arn:
            yield Probe(CheckName.TABLE_ROLE, self.name, "sts:AssumeRole on its role", self.role)
        yield Probe(CheckName.TABLE_FOUND, self.name, DESCRIBE, self.found)

    def rest(self) -> Iterator[Probe]:
        """Those that come after."""
        name = self.name
        yield Probe(CheckName.TABLE_FIT, name, DESCRIBE, self.fit)
        yield Probe(CheckName.TABLE_RECOVERY, name, "dynamodb:DescribeContinuousBackups on it", self.recovery)
        yield Probe(CheckName.TABLE_EXPIRY, name, "dynamodb:DescribeTimeToLive on it", self.expiry)
        yield Probe(CheckName.TABLE_ENCRYPTION, name, f"{DESCRIBE}, and {simulation.NEEDS}", self.encryption)

    @property
    def source(self) -> RecordSource:
        """That of the first policy: where the table lies they agree on."""
        source = self.policies[0].source
        assert isinstance(source, RecordSource)
        return source

    @property
    def name(self) -> str:
        """As addresses have it."""
        return self.source.name

    @property
    def place(self) -> Elsewhere | None:
        """Where it lies, if not beside the ledger."""
        return self.source.elsewhere

    @cached_property
    def _client(self) -> Any:
        return self.site.tables(self.place)

    @cached_property
    def _described(self) -> Any:
        return self._client.describe_table(TableName=self.source.table)["Table"]

    def role(self) -> Iterator[Check]:
        """Whether the role can be assumed by whoever asks; whether by the functions, only they can tell."""
        assert self.place is not None
        name, role = CheckName.TABLE_ROLE, str(self.place.role_arn)
        asked = {"RoleArn": role, "RoleSessionName": self.site.session_name}
        if self.place.external_id:
            asked["ExternalId"] = self.place.external_id
        try:
            self.site.client("sts").assume_role(**asked)
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            to_do = (
                f"see grants for what the functions may ask; {role} must trust them with the external id and the names"
                f" {sessions_of(DISCOVERY)} and so on: sexton policy check --grants prints it. To look through it"
                f" yourself, let it trust you as {self.site.session_name}; or let a run with mode: report tell"
            )
            yield Check.unknown(name, self.name, f"{role} is not there, or does not let you assume it", to_do)
            return
        yield Check.ok(name, self.name, f"{role} can be assumed")

    def found(self) -> Iterator[Check]:
        """Whether it is there, and active."""
        name = CheckName.TABLE_FOUND
        try:
            refuse_own(self.source.table, self.place, self.site.region, self.site.account)
            state = self._described["TableStatus"]
        except SourceRefused as refused:
            what, _, instead = str(refused).partition("; ")
            yield Check.failed(name, self.name, what, instead)
            return
        except ClientError as error:
            if code_of(error) not in ABSENT:
                raise
            where = self.place.region if self.place else self.site.region
            to_do = "mend source.table, or say with source.region and source.role_arn where it lies"
            yield Check.failed(name, self.name, f"there is no table {self.source.table} in {where}", to_do)
            return
        if state in ("ACTIVE", "UPDATING"):
            yield Check.ok(name, self.name, f"there, {state.lower()}")
        else:
            yield Check.failed(name, self.name, f"it is {state.lower()}", "wait until it is active, or mend the policy")

    def fit(self) -> Iterator[Check]:
        """Whether it is keyed as each policy takes it to be, and its index shows what is judged."""
        records = DynamoRecords(self._client, self.source.table)
        stores = replace(self.site.deployment.stores, records=lambda *_: records)
        for policy in self.policies:
            yield self._fits(policy, stores)

    def _fits(self, policy: Policy, stores: Any) -> Check:
        name, source = CheckName.TABLE_FIT, policy.source
        assert isinstance(source, RecordSource)
        try:
            refuse_unfit_source(policy, stores)
        except SourceRefused as refused:
            what, _, instead = str(refused).partition("; ")
            return Check.failed(name, policy.id, what, instead or "mend the policy or the table: no run is planned")
        state = self._state_of(source.index)
        if state != "ACTIVE":
            return Check.failed(name, policy.id, f"index {source.index} is {state}", "wait until it is active")
        way = f"index {source.index}" if source.index else "a scan" if source.scan else "its own key"
        return Check.ok(name, policy.id, f"{way} finds what the policy means, with all that is judged")

    def _state_of(self, index: str | None) -> str:
        """Local indexes have none: they are there with their table."""
        found = [each for each in self._described.get("GlobalSecondaryIndexes", []) if each["IndexName"] == index]
        return str(found[0].get("IndexStatus", "ACTIVE")) if found else "ACTIVE"

    def recovery(self) -> Iterator[Check]:
        """Point-in-time recovery, where a policy counts on a backup."""
        answer = self._client.describe_continuous_backups(TableName=self.source.table)["ContinuousBackupsDescription"]
        state = answer.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "DISABLED")
        for policy in self.policies:
            yield _recoverable(policy, state == "ENABLED")

    def expiry(self) -> Iterator[Check]:
        """Whether DynamoDB's own TTL removes by the attribute that a policy goes by."""
        expiry = self._client.describe_time_to_live(TableName=self.source.table)["TimeToLiveDescription"]
        attribute = expiry.get("AttributeName") if expiry.get("TimeToLiveStatus") in ON else None
        for policy in self.policies:
            yield _beside(policy, attribute)

    def encryption(self) -> Iterator[Check]:
        """Whether the functions may use its key."""
        name, key = (
            CheckName.TABLE_ENCRYPTION,
            str(self._described.get("SSEDescription", {}).get("KMSMasterKeyArn", "")),
        )
        if not key:
            yield Check.ok(name, self.name, "the key that DynamoDB owns: no grant is needed")
        elif self.place and self.place.role_arn:
            to_do = "see that the role may use it through DynamoDB: sexton policy check --grants prints what it takes"
            yield Check.warning(name, self.name, f"encrypted with {key}", f"{to_do}; nothing if it is aws/dynamodb")
        else:
            yield self._key(key)

    def _key(self, key: str) -> Check:
        name, iam, context = CheckName.TABLE_ENCRYPTION, self.site.client("iam"), via("dynamodb", key)
        needed = {DISCOVERY: READ_TABLE_KEY, WORKER: WRITE_TABLE_KEY if self._enforced else ()}
        denied = [
            function
            for function, actions in needed.items()
            if actions and simulation.refused(iam, self.site.role(function), actions, key, context)
        ]
        if denied:
            to_do = f"nothing if it is aws/dynamodb; one of yours: deploy with -c source_kms_key_arns={key}"
            found = f"encrypted with {key}, which the roles of {' and '.join(denied)} do not open"
            return Check.warning(name, self.name, found, to_do)
        return Check.ok(name, self.name, f"encrypted with {key}, which the functions may use")

    @property
    def _enforced(self) -> bool:
        return any(policy.mode == "enforce" for policy in self.policies)


def _recoverable(policy: Policy, on: bool) -> Check:
    name, state = CheckName.TABLE_RECOVERY, "on" if on else "off"
    if policy.recovery == "backup" and not on:
        found = "the policy counts on a backup, and point-in-time recovery is off"
        to_do = "turn it on, unless backups are made in another way; or write recovery: none"
        return Check.warning(name, policy.id, found, to_do)
    counts = "counts on it" if policy.recovery == "backup" else "does not count on it"
    return Check.ok(name, policy.id, f"point-in-time recovery is {state}; the policy {counts}")


def _beside(policy: Policy, attribute: str | None) -> Check:
    name, source = CheckName.TABLE_EXPIRY, policy.source
    assert isinstance(source, RecordSource)
    if attribute == source.timestamp.attribute:
        found = f"DynamoDB's own TTL removes records by {attribute}, too, as soon as it has passed"
        to_do = "keep one of the two: what TTL removed has no record, and ends as skipped: absent"
        return Check.warning(name, policy.id, found, to_do)
    return Check.ok(name, policy.id, f"TTL goes by {attribute}" if attribute else "no TTL")

"""Probes of one bucket that policies name: whether it is there, and whether it is as each policy takes it to be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from botocore.exceptions import ClientError

from sexton import overlap
from sexton.aws import simulation
from sexton.aws.errors import code_of
from sexton.aws.probe import Probe, Site
from sexton.doctor import DENIED, Check, CheckName
from sexton.errors import SourceRefused
from sexton.grants import RECONCILER, WORKER, via
from sexton.overlap import LifecycleRule
from sexton.policy import Policy
from sexton.targets import refuse_unfit

YEAR = timedelta(days=365)
OWN_KEY = "alias/aws/s3"  # AWS's: whoever may use the bucket may use it
USED = (  # what a Deny of a bucket's policy can take away from the functions
    "s3:ListBucket",
    "s3:ListBucketVersions",
    "s3:ListBucketMultipartUploads",
    "s3:GetBucketVersioning",
    "s3:GetObject",
    "s3:GetObjectTagging",
    "s3:GetObjectVersionTagging",
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:AbortMultipartUpload",
)
TRANSPORT = {"aws:securetransport", "s3:tlsversion"}


def checks(site: Site, name: str, policies: Sequence[Policy]) -> Iterator[Check]:
    """Of one bucket and of the policies that name it; of one that is not there nothing more can be said."""
    bucket = _Bucket(site, name, tuple(policies))
    found = list(Probe(CheckName.BUCKET_FOUND, name, "s3:ListBucket on it", bucket.found).checks())
    yield from found
    if any(check.verdict == "failed" for check in found):
        return
    for probe in bucket.probes():
        yield from probe.checks()


@dataclass(frozen=True)
class _Bucket:
    """The looks at one bucket."""

    site: Site
    name: str
    policies: tuple[Policy, ...]

    def probes(self) -> Iterator[Probe]:
        """Those that come after `found`."""
        name = self.name
        yield Probe(CheckName.BUCKET_VERSIONING, name, "s3:GetBucketVersioning on it", self.versioning)
        yield Probe(CheckName.BUCKET_LOCK, name, "s3:GetBucketObjectLockConfiguration on it", self.lock)
        yield Probe(
            CheckName.BUCKET_ENCRYPTION,
            name,
            "s3:GetEncryptionConfiguration on it, and lambda:GetFunctionConfiguration",
            self.encryption,
        )
        yield Probe(CheckName.BUCKET_PAYER, name, "s3:GetBucketRequestPayment on it", self.payer)
        yield Probe(
            CheckName.BUCKET_POLICY, name, "s3:GetBucketPolicy on it, and lambda:GetFunctionConfiguration", self.policy
        )
        yield Probe(CheckName.BUCKET_LIFECYCLE, name, "s3:GetLifecycleConfiguration on it", self.lifecycle)
        for policy in self.policies:
            yield Probe(CheckName.SCOPE, policy.id, f"{_listing(policy)[2]} on {name}", _scope(self, policy))

    @property
    def owner(self) -> str:
        """Whose it is by its policies, which agree on it; the stack's own account where they do not say."""
        return next((p.s3.account for p in self.policies if p.s3.account), self.site.account)

    def ask(self, call: str, **more: Any) -> Any:
        """One call on the bucket, with its expected owner."""
        return getattr(self.site.client("s3"), call)(Bucket=self.name, ExpectedBucketOwner=self.owner, **more)

    def found(self) -> Iterator[Check]:
        """Whether it is there, of the account that its policies name, and where."""
        try:
            answer = self.ask("head_bucket")
        except ClientError as error:
            if code_of(error) not in DENIED or not self._opens_without_owner():
                raise
            whose = "the stack's" if self.owner == self.site.account else "its policies name"
            found = f"it belongs to another account than {whose} ({self.owner})"
            to_do = "every call names the owner it expects and is refused: write the bucket's account as source.account"
            yield Check.failed(CheckName.BUCKET_FOUND, self.name, found, to_do)
            return
        yield Check.ok(CheckName.BUCKET_FOUND, self.name, f"there, of account {self.owner}")
        yield self._region(answer)

    def _opens_without_owner(self) -> bool:
        """Whether it was the owner that a look was refused for."""
        try:
            self.site.client("s3").head_bucket(Bucket=self.name)
        except ClientError:
            return False
        return True

    def _region(self, head: Mapping[str, Any]) -> Check:
        name = CheckName.BUCKET_REGION
        headers = head["ResponseMetadata"].get("HTTPHeaders", {})
        region = head.get("BucketRegion") or headers.get("x-amz-bucket-region")
        if region is None:
            return Check.unknown(name, self.name, "S3 did not say its region", f"it should be {self.site.region}")
        if region == self.site.region:
            return Check.ok(name, self.name, region)
        found = f"{region}, the stack's is {self.site.region}: each call crosses regions, is slower and costs transfer"
        return Check.warning(name, self.name, found, f"deploy a stack in {region} for its policies")

    def versioning(self) -> Iterator[Check]:
        """Whether each policy does there what it says."""
        answer = self.ask("get_bucket_versioning")
        state, mfa = answer.get("Status", "Unversioned"), answer.get("MFADelete") == "Enabled"
        for policy in self.policies:
            yield _fits(policy, state, mfa)

    def lock(self) -> Iterator[Check]:
        """What Object Lock means for each policy."""
        try:
            lock = self.ask("get_object_lock_configuration")["ObjectLockConfiguration"]
        except ClientError as error:
            if code_of(error) != "ObjectLockConfigurationNotFoundError":
                raise
            yield Check.ok(CheckName.BUCKET_LOCK, self.name, "no Object Lock")
            return
        for policy in self.policies:
            yield _locked(policy, lock.get("Rule", {}).get("DefaultRetention", {}))

    def encryption(self) -> Iterator[Check]:
        """Whether looking at its objects takes a key."""
        try:
            rules = self.ask("get_bucket_encryption")["ServerSideEncryptionConfiguration"]["Rules"]
        except ClientError as error:
            if code_of(error) != "ServerSideEncryptionConfigurationNotFoundError":
                raise
            rules = []
        default = rules[0].get("ApplyServerSideEncryptionByDefault", {}) if rules else {}
        key = default.get("KMSMasterKeyID", OWN_KEY)
        if not default.get("SSEAlgorithm", "AES256").startswith("aws:kms") or key.endswith(OWN_KEY):
            algorithm = default.get("SSEAlgorithm", "none by default")
            yield Check.ok(CheckName.BUCKET_ENCRYPTION, self.name, f"{algorithm}: no grant on a key is needed")
        else:
            yield self._key(key)

    def _key(self, key: str) -> Check:
        """Listing and deleting take nothing of a customer's key; reading an object does, and a HEAD may."""
        name = CheckName.BUCKET_ENCRYPTION
        roles = [self.site.roles[function] for function in (WORKER, RECONCILER)]
        to_do = (
            f"deploy with -c source_kms_key_arns={key}, and let the key's policy heed the account's IAM policies; or"
            f" allow kms:Decrypt in the key's policy to {' and '.join(roles)}"
        )
        iam, context = self.site.client("iam"), via("s3", key) if key.count(":") > 3 else {}
        try:
            denied = [role for role in roles if simulation.refused(iam, role, ("kms:Decrypt",), key, context)]
        except ClientError as error:
            return Check.unknown(name, self.name, f"SSE-KMS with {key}; the grants: {code_of(error)}", to_do)
        if denied:
            found = f"SSE-KMS with {key}, which the roles' own policies do not open (the key's own may)"
            return Check.warning(name, self.name, found, to_do)
        return Check.ok(name, self.name, f"SSE-KMS with {key}, which worker and reconciler may use")

    def payer(self) -> Iterator[Check]:
        """Who pays for the calls: of its own account's the owner does; others must offer to, and Sexton does not."""
        payer = self.ask("get_bucket_request_payment").get("Payer", "BucketOwner")
        if payer == "Requester" and self.owner != self.site.account:
            found = "requester pays, and Sexton does not offer to: S3 refuses every call"
            yield Check.failed(CheckName.BUCKET_PAYER, self.name, found, "let the owner turn requester pays off")
            return
        found = "requester pays: Sexton is of the owner's account" if payer == "Requester" else "the owner pays"
        yield Check.ok(CheckName.BUCKET_PAYER, self.name, found)

    def policy(self) -> Iterator[Check]:
        """Whether its policy denies something that the functions do; a simulation would not see it."""
        name = CheckName.BUCKET_POLICY
        try:
            statements = _statements(self.ask("get_bucket_policy")["Policy"])
        except ClientError as error:
            if code_of(error) != "NoSuchBucketPolicy":
                raise
            statements = []
        denials = [_title(place, each) for place, each in enumerate(statements, 1) if _denies(each)]
        if denials:
            roles = ", ".join(self.site.roles.values())
            to_do = f"see that they leave Sexton's roles alone: {roles}"
            yield Check.warning(name, self.name, f"denials that may meet Sexton: {', '.join(denials)}", to_do)
        else:
            yield Check.ok(name, self.name, "no denial that could meet Sexton")

    def lifecycle(self) -> Iterator[Check]:
        """Whether the bucket's own rules remove what the policies remove."""
        try:
            raw = self.ask("get_bucket_lifecycle_configuration")["Rules"]
        except ClientError as error:
            if code_of(error) != "NoSuchLifecycleConfiguration":
                raise
            raw = []
        rules = [_rule(each) for each in raw if each["Status"] == "Enabled"]
        for policy in self.policies:
            yield _beside(policy, rules)


def _fits(policy: Policy, state: str, mfa: bool) -> Check:
    name = CheckName.BUCKET_VERSIONING
    try:
        refuse_unfit(policy, state)
    except SourceRefused as refused:
        what, _, instead = str(refused).partition("; ")
        return Check.failed(name, policy.id, what, instead or "mend the policy or the bucket: no run of it is planned")
    if mfa and policy.s3.versions == "noncurrent":
        found = "MFA delete is on: no function can remove a version"
        return Check.failed(name, policy.id, found, "turn MFA delete off, as the root user, or drop the policy")
    return Check.ok(name, policy.id, f"bucket {policy.s3.bucket}: {state}, as the policy takes it to be")


def _locked(policy: Policy, retention: Mapping[str, Any]) -> Check:
    name = CheckName.BUCKET_LOCK
    if policy.s3.versions == "current" or policy.s3.kind == "s3_uploads":
        return Check.ok(name, policy.id, "Object Lock: it does not stand in the way of delete markers and aborts")
    if not retention:
        return Check.ok(name, policy.id, "Object Lock without a default: what is locked is skipped, and said")
    span = timedelta(days=retention.get("Days", 0)) + retention.get("Years", 0) * YEAR
    found = f"Object Lock keeps each version {span.days} days ({retention['Mode'].lower()})"
    if span <= overlap.about(policy):
        return Check.ok(name, policy.id, f"{found}, no longer than the policy does")
    to_do = f"expect skips (`locked`) until then, or write a retain of P{span.days}D or more"
    return Check.warning(name, policy.id, f"{found}, which is longer than retain {policy.retain}", to_do)


def _statements(policy: str) -> list[Mapping[str, Any]]:
    found = json.loads(policy).get("Statement", [])
    return found if isinstance(found, list) else [found]


def _denies(statement: Mapping[str, Any]) -> bool:
    """Whether it can take something away that Sexton does; a demand for TLS cannot."""
    if statement.get("Effect") != "Deny":
        return False
    keys = {key.lower() for condition in statement.get("Condition", {}).values() for key in condition}
    if keys and keys <= TRANSPORT:
        return False
    if "NotAction" in statement:
        return True
    actions = statement.get("Action", [])
    patterns = [actions] if isinstance(actions, str) else actions
    return any(fnmatchcase(used.lower(), pattern.lower()) for used in USED for pattern in patterns)


def _title(place: int, statement: Mapping[str, Any]) -> str:
    return str(statement.get("Sid") or f"statement {place}")


def _rule(raw: Mapping[str, Any]) -> LifecycleRule:
    given = raw.get("Filter", {})
    both = {**given, **given.get("And", {})}
    expiration = raw.get("Expiration", {})
    return LifecycleRule(
        id=raw.get("ID", "without an id"),
        prefix=both.get("Prefix", raw.get("Prefix", "")),
        narrowed=bool(both.keys() - {"Prefix", "And"}),
        expires_after=expiration.get("Days", 0 if "Date" in expiration else None),
        noncurrent_after=raw.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays"),
        aborts_after=raw.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
        removes_markers=bool(expiration.get("ExpiredObjectDeleteMarker")),
    )


def _beside(policy: Policy, rules: Sequence[LifecycleRule]) -> Check:
    name, found = CheckName.BUCKET_LIFECYCLE, list(overlap.overlaps(policy, rules))
    if found:
        to_do = "keep one of the two: whichever comes first removes it, and what the rule removed has no record"
        return Check.warning(name, policy.id, "; ".join(found), to_do)
    days = overlap.taken_back_within(policy, rules)
    if days is not None:
        return Check.ok(name, policy.id, f"a deletion can be taken back for {days} days: then a rule removes versions")
    return Check.ok(name, policy.id, "no Lifecycle rule removes the same")


def _listing(policy: Policy) -> tuple[str, str, str]:
    """The call that lists a policy's items, its limit's name, and its action."""
    if policy.s3.kind == "s3_uploads":
        return "list_multipart_uploads", "MaxUploads", "s3:ListBucketMultipartUploads"
    if policy.s3.versions == "noncurrent":
        return "list_object_versions", "MaxKeys", "s3:ListBucketVersions"
    return "list_objects_v2", "MaxKeys", "s3:ListBucket"


def _scope(bucket: _Bucket, policy: Policy) -> Any:
    """One entry of each prefix is asked for."""

    def look() -> Iterator[Check]:
        call, limit, _ = _listing(policy)
        empty = []
        for prefix in policy.s3.prefixes:
            answer = bucket.ask(call, Prefix=prefix, **{limit: 1})
            if not any(answer.get(kind) for kind in ("Contents", "Versions", "DeleteMarkers", "Uploads")):
                empty.append(prefix)
        yield _filled(policy, empty)

    return look


def _filled(policy: Policy, empty: Sequence[str]) -> Check:
    if not empty:
        return Check.ok(CheckName.SCOPE, policy.id, "there is something under each of its prefixes")
    where = ", ".join(f"s3://{policy.s3.bucket}/{prefix}" for prefix in empty)
    to_do = "see that bucket and prefixes are spelled as the keys are; a run would wait for a person (empty scope)"
    return Check.warning(CheckName.SCOPE, policy.id, f"nothing lies under {where}", to_do)

"""The evidence: the bucket with plans, outcomes and reports."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import review
from infra.key import READ, WRITE, Key

OF_RUNS = ("plans", "outcomes", "runs", "policies")


class Evidence(Construct):
    """A private, versioned bucket that survives the stack. Nobody is granted to delete from it."""

    def __init__(self, scope: Construct, id: str, *, key: Key, lock_days: int) -> None:
        """With `lock_days` each file can be neither removed nor written over for that long (governance mode)."""
        super().__init__(scope, id)
        self._key = key
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            versioned=True,
            encryption=s3.BucketEncryption.KMS if key.key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key.key,
            bucket_key_enabled=True if key.key else None,
            object_lock_enabled=True if lock_days else None,
            object_lock_default_retention=_retention(lock_days),
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(7))],
            removal_policy=RemovalPolicy.RETAIN,
        )
        if self.bucket.policy:
            self.bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN)  # what stays is reached by TLS only
        review.accept(
            self.bucket,
            review.NO_ACCESS_LOG,
            "Files are written once, under names with hashes, and every version stays. Who read them is told by"
            " CloudTrail's data events; a bucket of access logs would be one more that nobody empties.",
        )

    @property
    def bucket_name(self) -> str:
        """The bucket's name."""
        return self.bucket.bucket_name

    def deny_deletion(self, roles: Sequence[iam.IRole]) -> None:
        """Refuse the functions every way to delete evidence, whatever a policy of theirs says by mistake."""
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NoFunctionDeletes",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutLifecycleConfiguration"],
                resources=[self.bucket.bucket_arn, self.bucket.arn_for_objects("*")],
                conditions={"ArnEquals": {"aws:PrincipalArn": [role.role_arn for role in roles]}},
            )
        )

    def grant_plan(self, discovery: iam.IRole) -> None:
        """Write plans and canonical policies, and read them again; of a run that is undone, read the outcomes."""
        own = ["plans/*", "policies/*", "runs/*"]
        self._grant(discovery, read=[*own, "outcomes/*"], write=own)

    def grant_work(self, worker: iam.IRole, *, archives: bool) -> None:
        """Read plans, write outcomes, and read those of earlier attempts; of an undo, read the policy it goes by.

        `archives`: write whole records besides, and read them again, to see that they stand and to put them back.
        """
        kept = ["archived/*"] if archives else []
        self._grant(worker, read=["plans/*", "outcomes/*", "policies/*", *kept], write=["outcomes/*", *kept])

    def grant_reconcile(self, reconciler: iam.IRole) -> None:
        """Read what runs are made of; write books, reports, and the outcomes of what a dead worker did."""
        self._grant(reconciler, read=[f"{each}/*" for each in OF_RUNS], write=["runs/*", "outcomes/*", "policies/*"])

    @property
    def of_runs(self) -> list[str]:
        """What runs are made of. Archived records are not among it: they are others' data, and nobody's to look at."""
        return [self.bucket.arn_for_objects(f"{each}/*") for each in OF_RUNS]

    def grant_look(self, viewer: iam.IRole) -> None:
        """Read plans, outcomes and policies: what is known of a dead job."""
        self._grant(viewer, read=["plans/*", "outcomes/*", "policies/*"], write=[])

    def grant_undo(self, approver: iam.IRole) -> None:
        """Read what an undo is made of: the policy of a run, and its outcomes. Control writes no evidence."""
        self._grant(approver, read=["policies/*", "outcomes/*"], write=[])

    def _grant(self, role: iam.IRole, *, read: Sequence[str], write: Sequence[str]) -> None:
        def grant(action: str, arns: Sequence[str]) -> None:
            iam.Grant.add_to_principal(grantee=role, actions=[action], resource_arns=[*arns])
            review.accept_wildcards(
                role, arns, "The keys of a folder carry run ids and hashes, known to nobody before."
            )

        grant("s3:GetObject", [self.bucket.arn_for_objects(keys) for keys in read])
        if write:
            grant("s3:PutObject", [self.bucket.arn_for_objects(keys) for keys in write])
        # Without it S3 answers 403 for a missing key, and a lost part would look like a lost permission.
        grant("s3:ListBucket", [self.bucket.bucket_arn])
        self._key.grant(role, *(WRITE if write else READ), through="s3")


def _retention(days: int) -> s3.ObjectLockRetention | None:
    return s3.ObjectLockRetention.governance(Duration.days(days)) if days else None

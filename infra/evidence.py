"""The evidence: the bucket with plans, outcomes and reports."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct


class Evidence(Construct):
    """A private, versioned bucket that survives the stack. Nobody is granted to delete from it."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            versioned=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(7))],
            removal_policy=RemovalPolicy.RETAIN,
        )

    @property
    def bucket_name(self) -> str:
        """The bucket's name."""
        return self.bucket.bucket_name

    def grant_plan(self, discovery: iam.IGrantable) -> None:
        """Write plans and canonical policies, and read them again."""
        self._grant(discovery, read=["plans/*", "policies/*", "runs/*"], write=["plans/*", "policies/*", "runs/*"])

    def grant_work(self, worker: iam.IGrantable) -> None:
        """Read plans, write outcomes, and read those of earlier attempts."""
        self._grant(worker, read=["plans/*", "outcomes/*"], write=["outcomes/*"])

    def grant_reconcile(self, reconciler: iam.IGrantable) -> None:
        """Read everything; write all but plans: books, reports, and the outcomes of what a dead worker did."""
        self._grant(reconciler, read=["*"], write=["runs/*", "outcomes/*", "policies/*"])

    def _grant(self, grantee: iam.IGrantable, *, read: Sequence[str], write: Sequence[str]) -> None:
        def grant(action: str, arns: Sequence[str]) -> None:
            iam.Grant.add_to_principal(grantee=grantee, actions=[action], resource_arns=[*arns])

        grant("s3:GetObject", [self.bucket.arn_for_objects(keys) for keys in read])
        grant("s3:PutObject", [self.bucket.arn_for_objects(keys) for keys in write])
        # Without it S3 answers 403 for a missing key, and a lost part would look like a lost permission.
        grant("s3:ListBucket", [self.bucket.bucket_arn])

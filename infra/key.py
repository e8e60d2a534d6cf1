"""The customer's key, if there is one: what is stored is encrypted with it, and who may use it for what.

The key belongs to the customer, and so does its policy: it must let the account's IAM policies count, and the two
services that use the key in their own name (docs/encryption.md). The rights of the roles are granted here.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct
from sexton.grants import WRITE_TABLE_KEY

READ = ("kms:Decrypt",)
# Writing takes a data key, and SQS and S3 look at the one that they still have.
WRITE = ("kms:Decrypt", "kms:GenerateDataKey")
# DynamoDB encrypts in the name of whoever reads or writes.
TABLE = WRITE_TABLE_KEY


class Key(Construct):
    """One key of the customer, or none: then AWS's own keys stay, and no grant is needed."""

    def __init__(self, scope: Construct, id: str, *, arn: str) -> None:
        super().__init__(scope, id)
        self.key = kms.Key.from_key_arn(self, "Key", arn) if arn else None

    def grant(self, role: iam.IRole, *actions: str, through: str) -> None:
        """Let a role use the key, only through one service of this region."""
        if self.key:
            _grant(role, self.key.key_arn, actions, f"{through}.{Aws.REGION}.amazonaws.com")


def grant_look(role: iam.IRole, arns: Iterable[str]) -> None:
    """Let a role look at objects that are encrypted with keys of others; each key is in its bucket's region."""
    for arn in arns:
        _grant(role, arn, READ, f"s3.{arn.split(':')[3]}.amazonaws.com")


def grant_tables(role: iam.IRole, arns: Iterable[str], *actions: str) -> None:
    """Let a role use the keys of others that tables with records are encrypted with; each is in its table's region."""
    for arn in arns:
        _grant(role, arn, actions, f"dynamodb.{arn.split(':')[3]}.amazonaws.com")


def _grant(role: iam.IRole, arn: str, actions: Iterable[str], service: str) -> None:
    through = {"StringEquals": {"kms:ViaService": service}}
    iam.Grant.add_to_principal(grantee=role, actions=[*actions], resource_arns=[arn], conditions=through)

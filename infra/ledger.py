"""The ledger: the table that holds the truth."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.key import TABLE, Key

READ = ("dynamodb:GetItem", "dynamodb:Query")
# TransactWriteItems is authorized by the actions of its items. DeleteItem is not among them: rows leave by TTL only.
# Every write is an update, also that of a new row.
WRITE = ("dynamodb:UpdateItem",)
OPEN = "open"
WORKER_ROWS = ("RUN#*", "MALFORMED#*", "POLICY#*")  # the last holds its run's row, which it halts or reopens

OPERATOR_ROWS = ("POLICY#*", "RUN#*", "CONTROL")
APPROVER_ROWS = ("POLICY#*", "CONTROL")


class Ledger(Construct):
    """A table that survives the stack. Nobody is granted to delete or to scan it."""

    def __init__(self, scope: Construct, id: str, *, key: Key) -> None:
        super().__init__(scope, id)
        self._key = key
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_string("pk"),
            sort_key=_string("sk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key.key else None,
            encryption_key=key.key,
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        self.table.add_global_secondary_index(
            index_name=OPEN, partition_key=_string("open_pk"), sort_key=_string("open_sk")
        )

    @property
    def table_name(self) -> str:
        """The table's name."""
        return self.table.table_name

    def grant_keep(self, keeper: iam.IRole) -> None:
        """Read and write any row, and read the index of open jobs: discovery and the reconciler."""
        arns = [self.table.table_arn, f"{self.table.table_arn}/index/{OPEN}"]
        iam.Grant.add_to_principal(grantee=keeper, actions=[*READ, *WRITE], resource_arns=arns)
        self._key.grant(keeper, *TABLE, through="dynamodb")

    def grant_work(self, worker: iam.IRole) -> None:
        """Read any row; write rows of jobs, runs and malformed messages, so no pause and no hold."""
        self._grant_rows(worker, WORKER_ROWS)

    def grant_look(self, viewer: iam.IRole) -> None:
        """Read any row, and the index of open jobs."""
        arns = [self.table.table_arn, f"{self.table.table_arn}/index/{OPEN}"]
        iam.Grant.add_to_principal(grantee=viewer, actions=[*READ], resource_arns=arns)
        self._key.grant(viewer, *TABLE, through="dynamodb")

    def grant_operate(self, control: iam.IRole) -> None:
        """Read any row; write rows of policies with their runs, of jobs, of pauses and of holds."""
        self._grant_rows(control, OPERATOR_ROWS)

    def grant_approve(self, control: iam.IRole) -> None:
        """Read any row; write rows of policies with their runs, and of holds: no job.

        An undo of a policy with many prefixes is started on the condition that their holds stand.
        """
        self._grant_rows(control, APPROVER_ROWS)
        iam.Grant.add_to_principal(
            grantee=control, actions=["dynamodb:ConditionCheckItem"], resource_arns=[self.table.table_arn]
        )

    def _grant_rows(self, role: iam.IRole, written: Sequence[str]) -> None:
        arns = [self.table.table_arn]
        iam.Grant.add_to_principal(grantee=role, actions=[*READ], resource_arns=arns)
        iam.Grant.add_to_principal(
            grantee=role,
            actions=[*WRITE],
            resource_arns=arns,
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [*written]}},
        )
        self._key.grant(role, *TABLE, through="dynamodb")


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)

"""The jobs queue, its dead letters, and the queue of failed deliveries."""

from __future__ import annotations

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import config, review
from infra.key import READ, WRITE, Key

LIST_MOVES = "sqs:ListMessageMoveTasks"
MOVE = ("sqs:StartMessageMoveTask", "sqs:CancelMessageMoveTask", LIST_MOVES)
TAKE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues")


class JobsQueue(Construct):
    """Messages to the worker. Only discovery and the redrive role send, and nobody purges.

    The dead-letter queue is filled by SQS alone: what is sent to it directly could not be redriven.
    """

    def __init__(self, scope: Construct, id: str, *, key: Key, visibility: Duration, max_receive_count: int) -> None:
        super().__init__(scope, id)
        self._key = key
        # The one physical name: each of the two queues names the other, which CloudFormation cannot resolve.
        name = f"{Stack.of(self).stack_name}-jobs"
        arn = Stack.of(self).format_arn(service="sqs", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=config.DEAD_LETTER_RETENTION,
            encryption=_encryption(key),
            encryption_master_key=key.key,
            enforce_ssl=True,
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE,
                source_queues=[sqs.Queue.from_queue_arn(self, "Source", arn)],
            ),
        )
        self.jobs = sqs.Queue(
            self,
            "Jobs",
            queue_name=name,
            retention_period=config.JOBS_RETENTION,
            visibility_timeout=visibility,
            receive_message_wait_time=Duration.seconds(20),
            encryption=_encryption(key),
            encryption_master_key=key.key,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=max_receive_count),
        )
        self.redrive_role = self._redrive_role()
        for queue in (self.jobs, self.dead_letters):
            _deny(queue, "NobodyPurges", "sqs:PurgeQueue")
        # Moves by SQS itself carry no principal of IAM, so that they stay allowed.
        _deny(self.dead_letters, "OnlyRedrive", "sqs:SendMessage", {"Null": {"aws:PrincipalArn": "false"}})

    def let_only(self, discovery: iam.IRole) -> None:
        """Let discovery send; refuse everybody but it and the redrive role, whatever their own policies say."""
        self.jobs.grant(discovery, "sqs:SendMessage")
        self._key.grant(discovery, *WRITE, through="sqs")
        senders = [discovery.role_arn, self.redrive_role.role_arn]
        _deny(self.jobs, "OnlyDiscovery", "sqs:SendMessage", {"ArnNotEquals": {"aws:PrincipalArn": senders}})

    def grant_sweep(self, control: iam.IRole) -> None:
        """Take strays out of the dead-letter queue, and see what SQS moves out of it."""
        self.dead_letters.grant(control, *TAKE, LIST_MOVES)
        self._key.grant(control, *READ, through="sqs")

    def let_redrive(self, control: iam.IRole) -> None:
        """Let a role assume the redrive role: only under that one may SQS send to the jobs queue again."""
        iam.Grant.add_to_principal(
            grantee=control, actions=["sts:AssumeRole"], resource_arns=[self.redrive_role.role_arn]
        )

    def _redrive_role(self) -> iam.Role:
        role = iam.Role(
            self,
            "Redrive",
            assumed_by=iam.AccountRootPrincipal(),
            description="Assumed by a person to redrive Sexton's dead letters to the jobs queue.",
        )
        self.dead_letters.grant(role, *MOVE, *TAKE)
        self.jobs.grant(role, "sqs:SendMessage", "sqs:GetQueueAttributes")
        self._key.grant(role, *WRITE, through="sqs")
        return role


class FailureQueue(Construct):
    """Schedule events and asynchronous invocations that were given up."""

    def __init__(self, scope: Construct, id: str, *, key: Key) -> None:
        super().__init__(scope, id)
        self._key = key
        self.queue = sqs.Queue(
            self,
            "Queue",
            retention_period=config.FAILURE_RETENTION,
            encryption=_encryption(key),
            encryption_master_key=key.key,
            enforce_ssl=True,
        )
        # By its ARN alone: of a queue with a key the CDK would grant senders more of the key than sending takes.
        self.by_arn = sqs.Queue.from_queue_arn(self, "ByArn", self.queue.queue_arn)
        review.accept(
            self.queue,
            review.NO_DEAD_LETTERS,
            "Other services put here what they gave up. Only people take it out, and an alarm watches it.",
        )

    def grant_encrypt(self, sender: iam.IRole) -> None:
        """Let who may send here use the key for it."""
        self._key.grant(sender, *WRITE, through="sqs")


def _encryption(key: Key) -> sqs.QueueEncryption:
    return sqs.QueueEncryption.KMS if key.key else sqs.QueueEncryption.SQS_MANAGED


def _deny(queue: sqs.Queue, sid: str, action: str, conditions: dict[str, dict[str, object]] | None = None) -> None:
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            sid=sid,
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=[action],
            resources=[queue.queue_arn],
            conditions=conditions,
        )
    )

"""The functions, each with its own role and log group."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import config, review
from infra.key import Key


class Function(Construct):
    """One handler, with a role that at first may write its logs and nothing else."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        handler: str,
        key: Key,
        code: lambda_.Code,
        timeout: Duration,
        environment: Mapping[str, str],
        description: str,
    ) -> None:
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            encryption_key=key.key,
            retention=config.LOG_RETENTION,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"handlers.{handler}.handler",
            code=code,
            timeout=timeout,
            memory_size=config.MEMORY_MB,
            environment=dict(environment),
            log_group=self.log_group,
            role=self.role,
        )
        review.accept(
            self.function,
            review.OLDER_RUNTIME,
            "Python 3.13 is what the packages are pinned for and the tests run on; Lambda supports it until 2029.",
        )


class Functions(Construct):
    """Discovery, worker and reconciler, from one asset."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: Key,
        code: lambda_.Code,
        worker_timeout: Duration,
        environment: Mapping[str, str],
        of_worker: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        self.discovery = Function(
            self,
            "Discovery",
            handler="discovery",
            key=key,
            code=code,
            timeout=config.DISCOVERY_TIMEOUT,
            environment=environment,
            description="Plans runs and dispatches their jobs.",
        )
        self.worker = Function(
            self,
            "Worker",
            handler="worker",
            key=key,
            code=code,
            timeout=worker_timeout,
            environment={**environment, **of_worker},
            description="Carries out the jobs of a plan.",
        )
        self.reconciler = Function(
            self,
            "Reconciler",
            handler="reconciler",
            key=key,
            code=code,
            timeout=config.RECONCILER_TIMEOUT,
            environment={**environment, "SEXTON_DISCOVERY_FUNCTION": self.discovery.function.function_name},
            description="The minute tick: recovers what crashed, and closes runs.",
        )
        self.reconciler.function.configure_async_invoke(retry_attempts=0, max_event_age=config.TICK_EVENT_AGE)
        # Not by `grant_invoke`, which allows the function's versions and aliases too.
        iam.Grant.add_to_principal(
            grantee=self.reconciler.role,
            actions=["lambda:InvokeFunction"],
            resource_arns=[self.discovery.function.function_arn],
        )

    @property
    def all(self) -> tuple[Function, ...]:
        """Every function."""
        return (self.discovery, self.worker, self.reconciler)

    def feed_worker(self, jobs: sqs.IQueue, *, concurrency: int) -> None:
        """Let SQS invoke the worker; a record that fails does not fail its batch."""
        self._source = sources.SqsEventSource(
            jobs,
            batch_size=config.BATCH_SIZE,
            max_concurrency=concurrency,
            report_batch_item_failures=True,
        )
        self.worker.function.add_event_source(self._source)

    @property
    def feed(self) -> str:
        """The id of the event source mapping that feeds the worker, once it is fed."""
        return self._source.event_source_mapping_id

    def grant_stop_feed(self, control: iam.IRole) -> None:
        """Disable and enable what feeds the worker."""
        iam.Grant.add_to_principal(
            grantee=control,
            actions=["lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"],
            resource_arns=[self._source.event_source_mapping_arn],
        )

    def report_failures(self, failures: sqs.IQueue) -> None:
        """Keep the events of invocations of discovery that Lambda gave up."""
        self.discovery.function.configure_async_invoke(
            on_failure=destinations.SqsDestination(failures),
            retry_attempts=config.DISCOVERY_RETRIES,
            max_event_age=config.SCHEDULE_EVENT_AGE,
        )

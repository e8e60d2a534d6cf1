"""The stack: composes the constructs, grants, and names the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, CfnOutput, Duration, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_events import EventBus
from constructs import Construct
from sexton.policy import Policy

from infra import config
from infra.access import Access
from infra.alarms import Alarms
from infra.control import Control
from infra.dashboard import Dashboard
from infra.evidence import Evidence
from infra.functions import Functions
from infra.key import Key, grant_look
from infra.ledger import Ledger
from infra.queue import FailureQueue, JobsQueue
from infra.schedules import Schedules
from infra.sources import Sources, grant_secrets


class SextonStack(Stack):
    """Everything that one deployment needs but the buckets that its policies name."""

    def __init__(
        self,
        scope: Construct,
        *,
        settings: config.Config,
        policies: Sequence[Policy],
        code: lambda_.Code,
    ) -> None:
        super().__init__(scope, settings.stack_name, description="Sexton: retention that can be proven.")
        self._settings = settings
        self._policies = policies
        self._receives = config.max_receive_count(p.limits.max_attempts for p in policies)
        key = Key(self, "Key", arn=settings.kms_key_arn)
        self.ledger = Ledger(self, "Ledger", key=key)
        self.evidence = Evidence(self, "Evidence", key=key, lock_days=settings.evidence_lock_days)
        self.queue = JobsQueue(self, "Queue", key=key, visibility=settings.visibility, max_receive_count=self._receives)
        self.failures = FailureQueue(self, "Failures", key=key)
        self.alarms = Alarms(self, "Alarms", key=key, service=settings.service, email=settings.alarm_email)
        self.functions = Functions(
            self,
            "Functions",
            key=key,
            code=code,
            worker_timeout=Duration.seconds(settings.worker_timeout),
            environment=self._environment(),
            of_worker={"SEXTON_LOCAL_CA": settings.local_ca},
        )
        schedules = self._connect(policies)
        self.control = Control(self, "Control", key=key, code=code, environment=self._of_control(schedules))
        self.dashboard = Dashboard(
            self,
            "Dashboard",
            key=key,
            code=code,
            environment=self._environment(),
            service=settings.service,
            functions=self.functions,
            queue=self.queue,
            failures=self.failures,
            policies=policies,
        )
        self.access = Access(
            self,
            "Access",
            key=key,
            ledger=self.ledger,
            evidence=self.evidence,
            queue=self.queue,
            failures=self.failures,
            functions=self.functions,
            control=self.control,
            schedules=schedules,
            dashboard=self.dashboard,
        )
        self._grant(Sources(policies))
        self._grant_control(schedules)
        self._watch(policies)
        self._name_outputs()

    def _environment(self) -> dict[str, str]:
        """What the functions read; the fields of `sexton.aws.settings` without the reconciler's own."""
        return {
            "SEXTON_LEDGER_TABLE": self.ledger.table_name,
            "SEXTON_EVIDENCE_BUCKET": self.evidence.bucket_name,
            "SEXTON_JOBS_QUEUE_URL": self.queue.jobs.queue_url,
            "SEXTON_DEAD_LETTER_QUEUE_URL": self.queue.dead_letters.queue_url,
            "SEXTON_EVENT_BUS": config.EVENT_BUS,
            "SEXTON_ACCOUNT": Aws.ACCOUNT_ID,
            "SEXTON_WORKER_TIMEOUT_SECONDS": str(self._settings.worker_timeout),
            "SEXTON_MAX_RECEIVE_COUNT": str(self._receives),
            "SEXTON_MISMATCH_SECONDS": str(self._settings.mismatch_seconds),
            "POWERTOOLS_SERVICE_NAME": self._settings.service,
            "POWERTOOLS_METRICS_NAMESPACE": config.METRICS_NAMESPACE,
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }

    def _of_control(self, schedules: Schedules) -> dict[str, str]:
        """What the control functions read besides."""
        return {
            **self._environment(),
            "SEXTON_DISCOVERY_FUNCTION": self.functions.discovery.function.function_name,
            "SEXTON_SCHEDULE_GROUP": schedules.group_name,
            "SEXTON_JOBS_MAPPING": self.functions.feed,
            "SEXTON_REDRIVE_ROLE": self.queue.redrive_role.role_arn,
            "SEXTON_TRUST_CALLER": str(self._settings.local).lower(),
        }

    def _connect(self, policies: Sequence[Policy]) -> Schedules:
        self.functions.feed_worker(self.queue.jobs, concurrency=self._settings.worker_concurrency)
        self.functions.report_failures(self.failures.by_arn)
        schedules = Schedules(
            self,
            "Schedules",
            policies=policies,
            discovery=self.functions.discovery.function,
            reconciler=self.functions.reconciler.function,
            failures=self.failures.by_arn,
        )
        for sender in (self.functions.discovery.role, schedules.policy_role):
            self.failures.grant_encrypt(sender)
        return schedules

    def _grant(self, sources: Sources) -> None:
        discovery, worker, reconciler = (f.role for f in self.functions.all)
        self.ledger.grant_keep(discovery)
        self.evidence.grant_plan(discovery)
        sources.grant_plan(discovery)
        self.queue.let_only(discovery)

        self.ledger.grant_work(worker)
        self.evidence.grant_work(worker, archives=sources.enforced.archive)
        sources.grant_observe(worker)
        sources.enforced.grant_remove(worker)
        grant_secrets(worker, self._policies)

        self.ledger.grant_keep(reconciler)
        self.evidence.grant_reconcile(reconciler)
        sources.grant_observe(reconciler)
        sources.enforced.grant_follow(reconciler)
        widget = self.dashboard.widget.role
        self.ledger.grant_look(widget)
        self.evidence.grant_look(widget)
        sources.grant_observe(widget)
        self.evidence.deny_deletion([*(each.role for each in (*self.functions.all, *self.control.all)), widget])
        for observer in (worker, reconciler, widget):
            grant_look(observer, self._settings.source_kms_key_arns)
        sources.tables.grant_keys(discovery, self._settings.source_kms_key_arns)
        sources.enforced.tables.grant_keys_to_remove(worker, reconciler, self._settings.source_kms_key_arns)
        EventBus.from_event_bus_name(self, "Bus", config.EVENT_BUS).grant_put_events_to(reconciler)

    def _grant_control(self, schedules: Schedules) -> None:
        operator, approver = (each.role for each in self.control.all)
        self.control.let_ask(self.functions.discovery.function)
        self.ledger.grant_approve(approver)
        self.evidence.grant_undo(approver)

        self.ledger.grant_operate(operator)
        self.queue.grant_sweep(operator)
        self.queue.let_redrive(operator)
        schedules.grant_pause(operator)
        self.functions.grant_stop_feed(operator)

    def _watch(self, policies: Sequence[Policy]) -> None:
        self.alarms.watch_queues(dead_letters=self.queue.dead_letters, failures=self.failures.queue)
        self.alarms.watch_books()
        self.alarms.watch_breaker()
        self.alarms.watch_schedules()
        self.alarms.watch_age(policies)
        self.alarms.watch_tick(self.functions.reconciler.function)
        self.alarms.watch_errors({f.node.id: f.function for f in (*self.functions.all, self.dashboard.widget)})
        doors = (self.control.operator, self.control.approver)
        self.alarms.watch_errors({door.node.id: door.control.function for door in doors})

    def _name_outputs(self) -> None:
        outputs = {
            "JobsQueueUrl": self.queue.jobs.queue_url,
            "DeadLetterQueueUrl": self.queue.dead_letters.queue_url,
            "FailureQueueUrl": self.failures.queue.queue_url,
            "LedgerTableName": self.ledger.table_name,
            "EvidenceBucketName": self.evidence.bucket_name,
            "DiscoveryFunctionName": self.functions.discovery.function.function_name,
            "WorkerFunctionName": self.functions.worker.function.function_name,
            "ReconcilerFunctionName": self.functions.reconciler.function.function_name,
            "TopicArn": self.alarms.topic.topic_arn,
            "RedriveRoleArn": self.queue.redrive_role.role_arn,
            "OperateFunctionName": self.control.operator.control.function.function_name,
            "ApproveFunctionName": self.control.approver.control.function.function_name,
            "OperateUrl": self.control.operator.url.url,
            "ApproveUrl": self.control.approver.url.url,
            "WidgetFunctionName": self.dashboard.widget.function.function_name,
            "DashboardName": self.dashboard.dashboard.dashboard_name,
            "ViewerPolicyArn": self.access.viewer.managed_policy_arn,
            "OperatorPolicyArn": self.access.operator.managed_policy_arn,
            "ApproverPolicyArn": self.access.approver.managed_policy_arn,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)

"""A probe: one look at one thing, that never breaks off. And the site: the stack that the probes look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from boto3.session import Session
from botocore.config import Config
from pydantic import ValidationError

from sexton.aws import settings
from sexton.aws.assumed import session_elsewhere
from sexton.aws.clients import CONNECT, READ
from sexton.aws.errors import SDK_ERRORS, failure_of
from sexton.aws.schedules import schedule_name
from sexton.aws.settings import Settings
from sexton.control_grants import OPERATE, ControlArns
from sexton.deployment import Deployment
from sexton.doctor import Check, CheckName, could_not_look
from sexton.elsewhere import BY_HAND, Elsewhere, session_name
from sexton.errors import CallFailed
from sexton.grants import DISCOVERY, EXAMPLE, FUNCTIONS, WORKER, Arns
from sexton.ports import Clock

DEPLOY = "deploy the stack again"


@dataclass(frozen=True)
class Probe:
    """One look, and the actions that it takes."""

    name: CheckName
    of: str
    needs: str
    look: Callable[[], Iterable[Check]]

    def checks(self) -> Iterator[Check]:
        """What was found; where the look broke off, a check that says so stands last."""
        try:
            yield from self.look()
        except SDK_ERRORS as error:
            yield could_not_look(self.name, self.of, failure_of(error), self.needs)
        except CallFailed as error:
            yield could_not_look(self.name, self.of, error.failure, self.needs)


@dataclass(frozen=True)
class Site:
    """A deployed stack, under the rights of whoever asks. Every method may raise what botocore raises."""

    stack: str
    stack_id: str
    outputs: Mapping[str, str]
    session: Session
    deployment: Deployment
    elsewhere: Callable[..., Any] = session_elsewhere
    _clients: dict[tuple[str, int], Any] = field(default_factory=dict)
    _functions: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def region(self) -> str:
        """The stack's region."""
        return self.stack_id.split(":")[3]

    @property
    def account(self) -> str:
        """The stack's account, which every bucket must belong to."""
        return self.stack_id.split(":")[4]

    @property
    def clock(self) -> Clock:
        """The clock of this machine."""
        return self.deployment.clock

    def client(self, service: str, attempts: int = 2) -> Any:
        """A client; `attempts` = 1 where a repeat would look like another effect."""
        if (service, attempts) not in self._clients:
            self._clients[service, attempts] = _made(self.session, service, attempts)
        return self._clients[service, attempts]

    def tables(self, place: Elsewhere | None) -> Any:
        """DynamoDB where a table lies, under the policy's role if it names one."""
        if place is None:
            return self.client("dynamodb")
        return _made(self.elsewhere(place, self.session_name, self.session, lambda: self.client("sts")), "dynamodb", 2)

    @property
    def session_name(self) -> str:
        """Under which a person assumes a role."""
        return session_name(BY_HAND)

    def function(self, name: str) -> Mapping[str, Any]:
        """The configuration of a function; it takes lambda:GetFunctionConfiguration."""
        if name not in self._functions:
            self._functions[name] = self.client("lambda").get_function_configuration(FunctionName=self.named(name))
        return self._functions[name]

    def named(self, function: str) -> str:
        """The deployed name of a function."""
        return self.outputs[f"{function.capitalize()}FunctionName"]

    def settings(self) -> Settings | None:
        """What the worker was told; None where it cannot be read, which is told by a check of its own."""
        try:
            return settings.parse(self.environment(WORKER))
        except ValidationError:
            return None

    def environment(self, function: str) -> Mapping[str, str]:
        """The variables of a function."""
        variables: Mapping[str, str] = self.function(function).get("Environment", {}).get("Variables", {})
        return variables

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The ARNs of the functions' roles."""
        return {name: self.function(name)["Role"] for name in FUNCTIONS}

    def role(self, name: str) -> str:
        """The ARN of the role of a function, one of control's too."""
        return str(self.function(name)["Role"])

    @cached_property
    def key(self) -> str:
        """The ARN of the customer's key that the stack is encrypted with, empty without one."""
        table = self.client("dynamodb").describe_table(TableName=self.outputs["LedgerTableName"])["Table"]
        return str(table.get("SSEDescription", {}).get("KMSMasterKeyArn", ""))

    @property
    def arns(self) -> Arns:
        """The stack's parts; it takes lambda:GetFunctionConfiguration and dynamodb:DescribeTable."""
        discovery = self.function(DISCOVERY)["FunctionArn"]
        partition = discovery.split(":")[1]
        where = f"{self.region}:{self.account}"
        return Arns(
            ledger=f"arn:{partition}:dynamodb:{where}:table/{self.outputs['LedgerTableName']}",
            evidence=f"arn:{partition}:s3:::{self.outputs['EvidenceBucketName']}",
            jobs=f"arn:{partition}:sqs:{where}:{self.outputs['JobsQueueUrl'].rpartition('/')[2]}",
            discovery=discovery,
            key=self.key,
        )

    @property
    def control_arns(self) -> ControlArns:
        """What the control functions reach besides, as the operator's was told of it."""
        told, partition = self.environment(OPERATE), self.function(OPERATE)["FunctionArn"].split(":")[1]
        here, group = f"{self.region}:{self.account}", told.get("SEXTON_SCHEDULE_GROUP", "")
        return ControlArns(
            dead_letters=f"arn:{partition}:sqs:{here}:{self.outputs['DeadLetterQueueUrl'].rpartition('/')[2]}",
            redrive_role=told.get("SEXTON_REDRIVE_ROLE", ""),
            feed=f"arn:{partition}:lambda:{here}:event-source-mapping:{told.get('SEXTON_JOBS_MAPPING', '')}",
            schedules=f"arn:{partition}:scheduler:{here}:schedule/{group}/{schedule_name(EXAMPLE)}",
        )


def _made(session: Session, service: str, attempts: int) -> Any:
    make: Any = session.client  # its stubs know each service by a literal name only
    retries: Any = {"mode": "standard", "total_max_attempts": attempts}
    return make(service, config=Config(connect_timeout=CONNECT, read_timeout=READ, retries=retries))

"""Every number of the deployment, once; related numbers are computed from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from aws_cdk import Duration
from aws_cdk.aws_logs import RetentionDays
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from sexton.aws.settings import LEASE_MARGIN, LOCAL_ENDPOINT, VISIBILITY_FACTOR
from sexton.duration import to_text
from sexton.endpoint_action import HttpAction
from sexton.missed import DELIVERED_WITHIN
from sexton.policy import Policy, PolicyError, Problem
from sexton.problem import in_words
from sexton.record_source import RecordSource

ROOT = Path(__file__).resolve().parent.parent

DISCOVERY_TIMEOUT = Duration.minutes(15)  # Lambda's longest; planning stops before it and is resumed by the tick
CONTROL_TIMEOUT = Duration.seconds(60)  # a person waits for the answer
WIDGET_TIMEOUT = Duration.seconds(30)  # a person waits for the page
RECONCILER_TIMEOUT = Duration.minutes(15)  # closing a run reads all its outcomes; overlapping ticks are harmless
MEMORY_MB = 1024  # about half a vCPU: planning and deleting wait for the network

BATCH_SIZE = 10
ATTEMPTS_AT_LEAST = 3
EARLY_RECEIVES = 10  # receives that throttling and early deliveries may use up beside the attempts
JOBS_RETENTION = Duration.days(4)  # less than the dead letters', whose age counts from the first enqueue
DEAD_LETTER_RETENTION = Duration.days(14)  # SQS's longest
FAILURE_RETENTION = Duration.days(14)

TICK = Duration.minutes(1)
TICK_EVENT_AGE = Duration.minutes(1)  # the shortest there is; the next tick does the work of a lost one
TICKS_MISSED = 5  # ticks without a sign before the alarm
SCHEDULE_RETRIES = 60
# A late start is harmless: the cutoff comes from the scheduled time.
SCHEDULE_EVENT_AGE = Duration.hours(DELIVERED_WITHIN / timedelta(hours=1))
DISCOVERY_RETRIES = 2  # Lambda's default for asynchronous invocations; a run is found by its scheduled time

LOG_RETENTION = RetentionDays.THREE_MONTHS

METRICS_NAMESPACE = "Sexton"
EVENT_BUS = "default"

# An alias could be pointed at another key, and a log group takes none.
KEY_ARN = r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+"
OUR_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
CDK_NAME = re.compile(r"[@:/]")
LONGEST_LOCK = 36_500  # days: S3's longest default retention


class ConfigError(Exception):
    """A context value that cannot be used; the message names it."""


def _parts(given: object) -> object:
    """A list of the command line: its parts between commas."""
    return tuple(filter(None, given.split(","))) if isinstance(given, str) else given


KeyArn = Annotated[str, Field(pattern=f"^{KEY_ARN}$")]


class Config(BaseModel):
    """The context values (`cdk -c name=value`) of one deployment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str = Field(default="", pattern=r"^([a-z][a-z0-9-]{0,19})?$")
    alarm_email: str = Field(default="", pattern=r"^([^@\s]+@[^@\s]+)?$")
    policies: Path = Path("policies")
    kms_key_arn: str = Field(default="", pattern=f"^({KEY_ARN})?$")
    source_kms_key_arns: Annotated[tuple[KeyArn, ...], BeforeValidator(_parts)] = ()
    evidence_lock_days: int = Field(default=0, ge=0, le=LONGEST_LOCK)
    worker_timeout: int = Field(default=120, gt=0, le=900)
    worker_concurrency: int = Field(default=10, ge=2, le=1000)  # the bounds of an SQS event source mapping
    mismatch_seconds: int = Field(default=300, gt=0)
    local: bool = False
    local_ca: str = ""

    @property
    def stack_name(self) -> str:
        """`Sexton`, or `Sexton-<stage>`."""
        return f"Sexton-{self.stage}" if self.stage else "Sexton"

    @property
    def service(self) -> str:
        """The name that logs and metrics carry, so that two stages of one account stay apart."""
        return self.stack_name.lower()

    @property
    def policies_folder(self) -> Path:
        """The policies' folder; a relative one is looked for in the checkout."""
        return ROOT / self.policies

    @property
    def visibility(self) -> Duration:
        """How long a received message stays hidden."""
        return Duration.seconds(self.worker_timeout * VISIBILITY_FACTOR)


def read(context: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Config:
    """Take the known values from the context.

    Raises ConfigError naming each value that cannot be used, and each name that is meant for us and unknown.
    """
    problems = [*_unknown(context)]
    try:
        settings = Config.model_validate({name: context[name] for name in Config.model_fields if name in context})
    except ValidationError as error:
        problems += [f"-c {e['loc'][0]}={e['input']}: {in_words(e)}" for e in error.errors()]
        raise ConfigError("\n".join(problems)) from error
    problems += _not_local(settings, environ)
    if problems:
        raise ConfigError("\n".join(problems))
    return settings


def _not_local(settings: Config, environ: Mapping[str, str]) -> Iterator[str]:
    """Of a real account nothing but public addresses is ever called."""
    if settings.local_ca and not (settings.local and environ.get(LOCAL_ENDPOINT)):
        yield f"-c local_ca is for an emulator only: it needs -c local=true, and {LOCAL_ENDPOINT} in the environment"
    elif settings.local_ca and not Path(settings.local_ca).is_absolute():
        yield f"-c local_ca={settings.local_ca}: it must be an absolute path, since functions run elsewhere"


def _unknown(context: Mapping[str, Any]) -> Iterator[str]:
    """The CDK's own names have a colon or a slash in them; some have a dash, and are none of ours unless near one."""
    for name in sorted(context.keys() - Config.model_fields.keys()):
        near = get_close_matches(name.lower().replace("-", "_"), Config.model_fields, n=1)
        if near and not CDK_NAME.search(name):
            yield f"-c {name}: there is no such context value; did you mean {near[0]}?"
        elif OUR_NAME.fullmatch(name):
            yield f"-c {name}: there is no such context value; there are {', '.join(Config.model_fields)}"


def refuse_unfit(policies: Iterable[Policy], settings: Config) -> None:
    """Raise PolicyError for policies that are good in themselves, but not in this deployment."""
    problems = [problem for policy in policies for problem in _unfit(policy, settings)]
    if problems:
        raise PolicyError(problems)


def _unfit(policy: Policy, settings: Config) -> Iterator[Problem]:
    where = f"policy {policy.id}"
    # CloudFormation makes the bucket's name of the stack's and the construct's, and a part that nobody knows yet.
    if isinstance(policy.source, RecordSource):
        if policy.source.table.startswith(f"{settings.stack_name}-Ledger"):
            what = f"source.table {policy.source.table!r} is Sexton's own ledger"
            yield Problem(where, what, "a table that is yours to clean")
    elif policy.source.bucket.startswith(f"{settings.service}-evidencebucket"):
        what = f"source.bucket {policy.source.bucket!r} is Sexton's own evidence"
        yield Problem(where, what, "a bucket that is yours to clean")
    if isinstance(policy.action, HttpAction) and policy.action.pause > timedelta(seconds=settings.worker_timeout / 3):
        what = f"action.rate {policy.action.rate:g} makes a worker wait for more than a third of its time"
        yield Problem(where, what, f"{3 / settings.worker_timeout:.2g} or more, or a longer -c worker_timeout")
    # A worker that crashes is followed when its lease is over, at the next tick.
    followed = timedelta(seconds=settings.worker_timeout) + LEASE_MARGIN + timedelta(minutes=1)
    if policy.limits.max_age < ATTEMPTS_AT_LEAST * followed:
        yield Problem(
            where,
            f"limits.max_age leaves no room for {ATTEMPTS_AT_LEAST} attempts of a worker that may take"
            f" {settings.worker_timeout} s",
            f"{to_text(ATTEMPTS_AT_LEAST * followed)} or more, or deploy with a shorter -c worker_timeout",
        )


def max_receive_count(max_attempts: Iterable[int]) -> int:
    """Receives before SQS moves a message to the dead letters: the most attempts any policy allows, and some."""
    return max(max_attempts, default=0) + EARLY_RECEIVES


def seconds(span: timedelta) -> int:
    """Whole seconds of a span."""
    return int(span.total_seconds())

"""What `sexton doctor` finds: checks as values, each with its verdict and what a person does about it.

A check says `ok`, `warning` (it works, and somebody should know), `failed` (do not enforce before this is mended) or
`unknown` (it could not be told, mostly for want of a permission). Only `failed` makes the whole fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sexton.errors import Failure
from sexton.policy import Policy

Verdict = Literal["ok", "warning", "failed", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("failed", "warning", "unknown", "ok")

DENIED = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "403"})
ABSENT = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchEntity",
        "NonExistentQueue",
        "QueueDoesNotExist",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "TableNotFoundException",
    }
)

SKEW_WARNING = timedelta(seconds=5)
SKEW_FAILED = timedelta(seconds=60)

SHOWN = 5  # names that a check lists


class CheckName(StrEnum):
    """Every check. The names are stable."""

    CLOCK = "clock"
    LEDGER_TABLE = "ledger_table"
    LEDGER_INDEX = "ledger_index"
    LEDGER_RECOVERY = "ledger_recovery"
    LEDGER_EXPIRY = "ledger_expiry"
    EVIDENCE_VERSIONING = "evidence_versioning"
    EVIDENCE_LOCK = "evidence_lock"
    PUT_ONCE = "put_once"
    DELETE_TOGETHER = "delete_together"
    DELETE_ALONE = "delete_alone"
    SCRATCH = "scratch"
    FUNCTION_STATE = "function_state"
    FUNCTION_HANDLER = "function_handler"
    FUNCTION_SETTINGS = "function_settings"
    FUNCTION_TIMEOUT = "function_timeout"
    QUEUE_VISIBILITY = "queue_visibility"
    QUEUE_REDRIVE = "queue_redrive"
    QUEUE_RETENTION = "queue_retention"
    QUEUE_ALLOW = "queue_allow"
    QUEUE_SOURCE = "queue_source"
    TICK_SCHEDULE = "tick_schedule"
    TICK_ALIVE = "tick_alive"
    POLICY_VERSION = "policy_version"
    POLICY_SCHEDULE = "policy_schedule"
    BUCKET_FOUND = "bucket_found"
    BUCKET_REGION = "bucket_region"
    BUCKET_VERSIONING = "bucket_versioning"
    BUCKET_LOCK = "bucket_lock"
    BUCKET_ENCRYPTION = "bucket_encryption"
    BUCKET_PAYER = "bucket_payer"
    BUCKET_POLICY = "bucket_policy"
    BUCKET_LIFECYCLE = "bucket_lifecycle"
    SCOPE = "scope"
    TABLE_ROLE = "table_role"
    TABLE_FOUND = "table_found"
    TABLE_FIT = "table_fit"
    TABLE_RECOVERY = "table_recovery"
    TABLE_EXPIRY = "table_expiry"
    TABLE_ENCRYPTION = "table_encryption"
    GRANTS = "grants"
    EXCESS = "excess"


class Check(BaseModel):
    """One check. `of` is what was looked at, `to_do` what a person does; it is empty only where that is nothing."""

    model_config = ConfigDict(frozen=True)

    name: CheckName
    of: str
    verdict: Verdict
    found: str
    to_do: str = ""

    @staticmethod
    def ok(name: CheckName, of: str, found: str) -> Check:
        """It is as Sexton relies on."""
        return Check(name=name, of=of, verdict="ok", found=found)

    @staticmethod
    def warning(name: CheckName, of: str, found: str, to_do: str) -> Check:
        """It works, and somebody should know."""
        return Check(name=name, of=of, verdict="warning", found=found, to_do=to_do)

    @staticmethod
    def failed(name: CheckName, of: str, found: str, to_do: str) -> Check:
        """It is not as Sexton relies on: mend it before a run enforces."""
        return Check(name=name, of=of, verdict="failed", found=found, to_do=to_do)

    @staticmethod
    def unknown(name: CheckName, of: str, found: str, to_do: str) -> Check:
        """It could not be told."""
        return Check(name=name, of=of, verdict="unknown", found=found, to_do=to_do)


class Diagnosis(BaseModel):
    """All checks of one look at a stack, with their counts by verdict."""

    model_config = ConfigDict(frozen=True)

    stack: str
    at: datetime
    counts: Mapping[str, int]
    checks: tuple[Check, ...]

    @staticmethod
    def of(stack: str, at: datetime, checks: Iterable[Check]) -> Diagnosis:
        """Of these checks, in their order."""
        found = tuple(checks)
        counted = Counter(check.verdict for check in found)
        return Diagnosis(stack=stack, at=at, counts={verdict: counted[verdict] for verdict in VERDICTS}, checks=found)

    @property
    def holds(self) -> bool:
        """Whether nothing failed."""
        return not self.counts["failed"]


def could_not_look(name: CheckName, of: str, failure: Failure, needs: str) -> Check:
    """The check of a look that failed: a thing that is not there has failed, all else cannot be told.

    `needs` names the actions that the look takes.
    """
    said = f"{failure.code}: {failure.summary}" if failure.summary else failure.code
    if failure.code in ABSENT:
        return Check.failed(name, of, said, "deploy the stack again; if that does not bring it back, find who took it")
    if failure.code in DENIED:
        return Check.unknown(name, of, said, f"ask again with a role that may {needs}")
    return Check.unknown(name, of, said, f"ask again; it takes {needs}, and an endpoint that knows the call")


def clock(skew: timedelta) -> Check:
    """How far this machine's clock is ahead of AWS's (behind, if negative), known to a second or two.

    The functions run by AWS's clock. By this one requests are signed, and what is shown is this old.
    """
    name, of, off = CheckName.CLOCK, "this machine", abs(skew)
    if off < SKEW_WARNING:
        return Check.ok(name, of, f"within {SKEW_WARNING.seconds} s of AWS's clock")
    found = f"{off.total_seconds():.0f} s {'ahead of' if skew > timedelta() else 'behind'} AWS's clock"
    verdict = Check.failed if off > SKEW_FAILED else Check.warning
    return verdict(name, of, found, "set the clock by NTP: AWS refuses requests that were signed minutes off")


def versions(deployed: Mapping[str, str], local: Sequence[Policy] | None) -> Iterable[Check]:
    """Whether the deployed version of each policy is that of the folder; `local` is None where there is none.

    What only the folder has is told of once: nothing is known to be wrong with it, since nothing goes by it.
    """
    here = {policy.id: policy.version for policy in local or ()}
    for policy in sorted(deployed):
        yield _version(policy, deployed[policy], here.get(policy), compared=local is not None)
    if only_here := sorted(here.keys() - deployed.keys()):
        yield _not_deployed(only_here)


def before_first_tick() -> Check:
    """The ledger has never heard of a policy: the first tick after a deploy tells it."""
    found = "no deployed policy is in it: none was ever deployed, or the first tick has not come through yet"
    to_do = "a minute after the deploy ask again; until then no policy and no bucket is checked"
    return Check.unknown(CheckName.POLICY_VERSION, "ledger", found, to_do)


def _not_deployed(policies: Sequence[str]) -> Check:
    found = f"not deployed, and not checked: {listed(policies)}"
    to_do = "deploy them and wait for a tick, or look from the checkout that was deployed"
    return Check.warning(CheckName.POLICY_VERSION, "folder", found, to_do)


def listed(texts: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more


def _version(policy: str, deployed: str, local: str | None, *, compared: bool) -> Check:
    name = CheckName.POLICY_VERSION
    if not compared or deployed == local:
        beside = ", as in the folder" if compared else "; no folder of policies to compare with"
        return Check.ok(name, policy, f"version {_short(deployed)} is deployed{beside}")
    other = f"the folder has {_short(local)}" if local else "the folder has no such policy"
    to_do = "deploy, or look from the checkout that was deployed; the other checks are of the deployed version"
    return Check.warning(name, policy, f"version {_short(deployed)} is deployed, {other}", to_do)


def _short(version: str) -> str:
    return version[:12]

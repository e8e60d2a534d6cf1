"""Stories of crashes: for each a policy with objects of its own, and the call at which its process is killed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.e2e.proxy import Proxy, Rule, Strike
from tests.e2e.site import TAKEN_SECONDS, Site, now, numbered, until, write_policy

BUCKET = "e2e-stories"
OBJECTS = 12

POISON = "poison"
POISONED = ["poison/a", "poison/b", "poison/c-poison", "poison/d"]

# Policies that single tests use, beside those in files.
OTHERS = {
    "denied": "e2e-denied",
    "forged": "e2e-forged",
    "rewritten": "e2e-rewritten",
    "missing-bucket": "e2e-missing",
    "redeployed": "e2e-redeployed",
    "fed": "e2e-fed",
}


@dataclass(frozen=True)
class Crash:
    """Where a story's process is killed. `{run}` and `{policy}` stand for the story's own in the texts to look for.

    `unproven`: the objects were gone before anything was recorded, so that the outcome must say so.
    """

    name: str
    function: str
    strike: Strike
    operation: str
    holding: tuple[str, ...]
    unproven: bool = False
    job_size: int = 1000


JOB = "RUN#{run}"
BEFORE, AFTER = Strike.KILL_BEFORE, Strike.KILL_AFTER

# Nothing durable lies between "after the part" and "before its row", "after the due date was moved" and "before the
# message is sent", and so on: of such pairs one is told.

CRASHES = (
    Crash("part-after", "Discovery", AFTER, "s3:PutObject", ("plans/{run}/",), job_size=5),
    Crash("row-after", "Discovery", AFTER, "dynamodb:TransactWriteItems", (JOB, "cursor"), job_size=5),
    Crash("due-before", "Discovery", BEFORE, "dynamodb:UpdateItem", (JOB, "dispatches")),
    Crash("send-before", "Discovery", BEFORE, "sqs:SendMessageBatch", ("{run}",)),
    Crash("send-after", "Discovery", AFTER, "sqs:SendMessageBatch", ("{run}",)),
    Crash("claim-after", "Worker", AFTER, "dynamodb:UpdateItem", (JOB, "first_claim_at")),
    Crash("delete-before", "Worker", BEFORE, "s3:DeleteObjects", ("{policy}/",)),
    Crash("delete-after", "Worker", AFTER, "s3:DeleteObjects", ("{policy}/",), unproven=True),
    Crash("outcomes-after", "Worker", AFTER, "s3:PutObject", ("outcomes/{run}/",), unproven=True),
    Crash("settle-after", "Worker", AFTER, "dynamodb:UpdateItem", (JOB, "settled_at")),
    Crash("report-after", "Reconciler", AFTER, "s3:PutObject", ("runs/{run}/report-",)),
    Crash("close-before", "Reconciler", BEFORE, "dynamodb:TransactWriteItems", ("POLICY#{policy}", "closed_at")),
    Crash("close-after", "Reconciler", AFTER, "dynamodb:TransactWriteItems", ("POLICY#{policy}", "closed_at")),
)


@dataclass(frozen=True)
class Story:
    """A begun story: its run, and the rule that has struck it."""

    run_id: str
    rule: Rule


def write_policies(folder: Path) -> None:
    """A policy for each story, and those of single tests."""
    for crash in CRASHES:
        write_policy(folder, crash.name, BUCKET, job_size=crash.job_size)
    write_policy(folder, POISON, BUCKET)
    for policy, bucket in OTHERS.items():
        write_policy(folder, policy, bucket, job_size=10)


def begin_all(site: Site, proxy: Proxy) -> dict[str, Story]:
    """Begin every story, by name, and wait until each has been struck; one by one, so that no two share a batch."""
    for crash in CRASHES:
        site.fill(BUCKET, [*numbered(f"{crash.name}/", OBJECTS), f"{crash.name}/kept/1", f"beside-{crash.name}/1"])
    site.fill(BUCKET, POISONED)
    site.age()
    at = now()
    begun = {POISON: _begin(site, POISON, at, proxy.add(_poison()))}
    for crash in CRASHES:
        begun[crash.name] = _begin(site, crash.name, at, proxy.add(_rule(crash, at)), crash.function == "Reconciler")
    return begun


def _begin(site: Site, policy: str, at: datetime, rule: Rule, ticking: bool = False) -> Story:
    """The schedule's event, and what comes of it up to the strike."""
    run_id = site.trigger(policy, at)

    def struck() -> bool:
        if ticking:
            site.tick()
        return rule.hit.is_set()

    until(struck, TAKEN_SECONDS, f"{policy} is struck at {rule.operation}", every=0.2)
    return Story(run_id, rule)


def _poison() -> Rule:
    return Rule("s3:DeleteObjects", ("c-poison",), Strike.KILL_BEFORE, times=1000)


def _rule(crash: Crash, at: datetime) -> Rule:
    names = {"run": f"{crash.name}.{at:%Y%m%dT%H%M%SZ}.1", "policy": crash.name}
    return Rule(crash.operation, tuple(text.format(**names) for text in crash.holding), crash.strike)

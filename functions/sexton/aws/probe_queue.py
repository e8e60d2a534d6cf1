"""Probes of the queues: their attributes, against what the functions were told and what must hold between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.aws.settings import VISIBILITY_FACTOR
from sexton.controls import ALL
from sexton.doctor import Check, CheckName
from sexton.grants import WORKER

JOBS, DEAD = "jobs queue", "dead letters"
BATCH_FAILURES = "ReportBatchItemFailures"


def probes(site: Site) -> Iterator[Probe]:
    """Of the jobs queue, of the dead letters, and of what feeds the worker."""
    attributes = "sqs:GetQueueAttributes"
    told = f"{attributes} and lambda:GetFunctionConfiguration"
    feeding = f"{attributes} and lambda:ListEventSourceMappings"
    yield Probe(CheckName.QUEUE_VISIBILITY, JOBS, told, lambda: _visibility(site))
    yield Probe(CheckName.QUEUE_REDRIVE, JOBS, told, lambda: _redrive(site))
    yield Probe(CheckName.QUEUE_RETENTION, DEAD, attributes, lambda: _retention(site))
    yield Probe(CheckName.QUEUE_ALLOW, DEAD, attributes, lambda: _allow(site))
    yield Probe(CheckName.QUEUE_SOURCE, JOBS, feeding, lambda: _source(site))


def _jobs(site: Site) -> Any:
    return _attributes(site, "JobsQueueUrl")


def _dead(site: Site) -> Any:
    return _attributes(site, "DeadLetterQueueUrl")


def _attributes(site: Site, output: str) -> Any:
    answer = site.client("sqs").get_queue_attributes(QueueUrl=site.outputs[output], AttributeNames=["All"])
    return answer.get("Attributes", {})


def _visibility(site: Site) -> Iterator[Check]:
    """A shorter one lets a message come again while its worker still lives."""
    visibility, timeout = int(_jobs(site)["VisibilityTimeout"]), int(site.function(WORKER)["Timeout"])
    name, due = CheckName.QUEUE_VISIBILITY, VISIBILITY_FACTOR * timeout
    if visibility == due:
        yield Check.ok(name, JOBS, f"{visibility} s, {VISIBILITY_FACTOR} x the worker's {timeout} s")
        return
    found = f"{visibility} s, not {VISIBILITY_FACTOR} x the worker's {timeout} s"
    verdict = Check.failed if visibility < timeout else Check.warning
    yield verdict(name, JOBS, found, f"{DEPLOY}, or set VisibilityTimeout to {due}")


def _redrive(site: Site) -> Iterator[Check]:
    name, policy = CheckName.QUEUE_REDRIVE, json.loads(_jobs(site).get("RedrivePolicy", "{}"))
    if policy.get("deadLetterTargetArn") != _dead(site)["QueueArn"]:
        target = policy.get("deadLetterTargetArn", "nowhere")
        yield Check.failed(name, JOBS, f"what is given up goes to {target}, not to the stack's dead letters", DEPLOY)
        return
    receives, settings = int(policy["maxReceiveCount"]), site.settings()
    if settings is None:
        yield Check.unknown(name, JOBS, f"maxReceiveCount is {receives}", "see function_settings")
    elif receives != settings.max_receive_count:
        found = f"maxReceiveCount is {receives}, and the functions count on {settings.max_receive_count}"
        yield Check.failed(name, JOBS, found, f"{DEPLOY}, or set maxReceiveCount to {settings.max_receive_count}")
    else:
        yield Check.ok(name, JOBS, f"to the dead letters after {receives} receives, as the functions count on")


def _retention(site: Site) -> Iterator[Check]:
    """The age of a dead letter counts from its first enqueue: it must be kept for longer than a job."""
    name = CheckName.QUEUE_RETENTION
    dead, jobs = (int(each["MessageRetentionPeriod"]) // 3600 for each in (_dead(site), _jobs(site)))
    if dead > jobs:
        yield Check.ok(name, DEAD, f"dead letters are kept for {dead} h, jobs for {jobs} h")
    else:
        found = f"dead letters are kept for {dead} h, jobs for {jobs} h: some would vanish as soon as they are dead"
        yield Check.failed(name, DEAD, found, DEPLOY)


def _allow(site: Site) -> Iterator[Check]:
    name, arn = CheckName.QUEUE_ALLOW, _jobs(site)["QueueArn"]
    policy = json.loads(_dead(site).get("RedriveAllowPolicy", "{}"))
    permission = policy.get("redrivePermission", "allowAll")
    if permission == "byQueue" and policy.get("sourceQueueArns") == [arn]:
        yield Check.ok(name, DEAD, "only the jobs queue may use it for its dead letters")
    elif permission == "allowAll" or arn in policy.get("sourceQueueArns", []):
        yield Check.warning(name, DEAD, "queues that are not Sexton's may fill it", DEPLOY)
    else:
        yield Check.failed(name, DEAD, "the jobs queue may not use it for its dead letters", DEPLOY)


def _source(site: Site) -> Iterator[Check]:
    name, arn = CheckName.QUEUE_SOURCE, _jobs(site)["QueueArn"]
    answer = site.client("lambda").list_event_source_mappings(FunctionName=site.named(WORKER), EventSourceArn=arn)
    mapping = next((each for each in answer["EventSourceMappings"] if each.get("EventSourceArn") == arn), None)
    if mapping is None:
        yield Check.failed(name, JOBS, "the queue does not feed the worker", DEPLOY)
    elif mapping["State"] not in ("Enabled", "Enabling", "Updating") and _all_paused(site):
        yield Check.warning(name, JOBS, "the queue does not feed the worker: all is paused", "sexton resume, in time")
    elif mapping["State"] not in ("Enabled", "Enabling", "Updating"):
        to_do = f"enable it: aws lambda update-event-source-mapping --enabled --uuid {mapping['UUID']}"
        yield Check.failed(name, JOBS, f"what feeds the worker is {mapping['State']}", to_do)
    elif BATCH_FAILURES not in mapping.get("FunctionResponseTypes", []):
        found = f"{BATCH_FAILURES} is off: a message that is to come again would be taken for done"
        yield Check.failed(name, JOBS, found, DEPLOY)
    elif not mapping.get("ScalingConfig", {}).get("MaximumConcurrency"):
        found = "it has no maximum concurrency: what Lambda throttles uses receives up"
        yield Check.warning(name, JOBS, found, DEPLOY)
    else:
        concurrency = mapping["ScalingConfig"]["MaximumConcurrency"]
        yield Check.ok(name, JOBS, f"it feeds the worker, up to {concurrency} at once, and hears of single failures")


def _all_paused(site: Site) -> bool:
    return any(pause.paused and pause.scope == ALL for pause in site.deployment.ledger.controls().pauses)

"""Probes of the functions, of the schedules that start them, and of the clock they run by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ValidationError

from sexton import doctor
from sexton.aws import settings
from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.aws.settings import PREFIX, Settings
from sexton.control_grants import CONTROL
from sexton.controls import Pause
from sexton.doctor import Check, CheckName
from sexton.grants import DISCOVERY, FUNCTIONS, RECONCILER, WORKER
from sexton.table import Row

CONFIGURATION = "lambda:GetFunctionConfiguration"
SCHEDULES = "scheduler:ListSchedules and scheduler:GetSchedule"
LOGS = f"logs:FilterLogEvents and {CONFIGURATION}"

TICKS = timedelta(minutes=5)  # in which several must have been
ENDED_TICK = "BooksOutOfBalance"  # the last thing that a tick writes
ONLY_LOCAL = "nothing on an emulator; elsewhere the function refuses to start: deploy without -c"
RESERVE = 30  # seconds that each function keeps for itself at most
OWN = {  # what a function was told, and the output that says the same
    "SEXTON_LEDGER_TABLE": "LedgerTableName",
    "SEXTON_EVIDENCE_BUCKET": "EvidenceBucketName",
    "SEXTON_JOBS_QUEUE_URL": "JobsQueueUrl",
    "SEXTON_DEAD_LETTER_QUEUE_URL": "DeadLetterQueueUrl",
}


def probes(site: Site) -> Iterator[Probe]:
    """Of the clock, of each function, and of the tick."""
    yield Probe(CheckName.CLOCK, "this machine", "sts:GetCallerIdentity", lambda: _clock(site))
    for name in FUNCTIONS:
        yield from _of_function(site, name)
    for name in CONTROL:
        yield _of_state(site, name)
    yield Probe(CheckName.TICK_SCHEDULE, RECONCILER, SCHEDULES, lambda: _tick_schedule(site))
    yield Probe(CheckName.TICK_ALIVE, RECONCILER, LOGS, lambda: _tick_alive(site))


def _of_state(site: Site, name: str) -> Probe:
    return Probe(CheckName.FUNCTION_STATE, name, CONFIGURATION, lambda: _state(name, site.function(name)))


def _of_function(site: Site, name: str) -> Iterator[Probe]:
    yield _of_state(site, name)
    yield Probe(CheckName.FUNCTION_SETTINGS, name, CONFIGURATION, lambda: _settings(site, name))
    yield Probe(CheckName.FUNCTION_TIMEOUT, name, CONFIGURATION, lambda: _timeout(site, name))


def policy_probe(site: Site, rows: Mapping[str, Row]) -> Probe:
    """Of the schedule of each deployed policy, against its row."""
    return Probe(CheckName.POLICY_SCHEDULE, DISCOVERY, SCHEDULES, lambda: _policy_schedules(site, rows))


def _clock(site: Site) -> Iterator[Check]:
    asked = site.clock()
    answer = site.client("sts").get_caller_identity()
    here = asked + (site.clock() - asked) / 2
    headers = answer["ResponseMetadata"].get("HTTPHeaders", {})
    try:
        there = parsedate_to_datetime(headers.get("date", "")).replace(tzinfo=UTC)
    except ValueError:
        yield Check.unknown(CheckName.CLOCK, "this machine", "the answer had no date", "compare it with an NTP server")
        return
    yield doctor.clock(here - there)


def _state(of: str, function: Mapping[str, Any]) -> Iterator[Check]:
    name, state, update = CheckName.FUNCTION_STATE, function.get("State"), function.get("LastUpdateStatus")
    if state in ("Active", "Inactive") and update == "Successful":  # inactive: Lambda wakes it with the next call
        yield Check.ok(name, of, f"{state}, {function.get('Runtime')}")
    elif state == "Pending" or update == "InProgress":
        yield Check.unknown(name, of, "it is being deployed", "ask again in a minute")
    else:
        why = function.get("LastUpdateStatusReason") or function.get("StateReason") or "no reason given"
        yield Check.failed(name, of, f"state {state}, last update {update}: {why}", DEPLOY)


def settings_of(site: Site, of: str) -> Settings | Check:
    """What a function was told; or, where that cannot be read, the check that says so."""
    try:
        return settings.parse(site.environment(of))
    except ValidationError as error:
        wrong = ", ".join(PREFIX + str(each["loc"][0]).upper() for each in error.errors())
        return Check.failed(CheckName.FUNCTION_SETTINGS, of, f"missing or unreadable: {wrong}", DEPLOY)


def _settings(site: Site, of: str) -> Iterator[Check]:
    name, environment, told = CheckName.FUNCTION_SETTINGS, site.environment(of), settings_of(site, of)
    if isinstance(told, Check):
        yield told
        return
    other = [variable for variable, output in OWN.items() if environment[variable] != site.outputs[output]]
    if other:
        yield Check.failed(name, of, f"not the stack's own: {', '.join(other)}", DEPLOY)
    elif told.local_ca:
        found = "it calls loopback addresses only, and believes an authority of the local stage"
        yield Check.warning(name, of, found, f"{ONLY_LOCAL} local_ca")
    else:
        yield Check.ok(name, of, "complete, and of this stack")


def _timeout(site: Site, of: str) -> Iterator[Check]:
    name, timeout, told = CheckName.FUNCTION_TIMEOUT, int(site.function(of)["Timeout"]), site.settings()
    if of != WORKER:
        if timeout > 2 * RESERVE:
            yield Check.ok(name, of, f"{timeout} s")
        else:
            yield Check.failed(name, of, f"{timeout} s, of which it keeps {RESERVE} s for its end", DEPLOY)
    elif told is None:
        yield Check.unknown(name, of, f"{timeout} s", f"see {CheckName.FUNCTION_SETTINGS}")
    elif timeout != told.worker_timeout_seconds:
        found = f"{timeout} s, and the lease is made for {told.worker_timeout_seconds} s"
        verdict = Check.failed if timeout > told.worker_timeout_seconds else Check.warning
        yield verdict(name, of, found, DEPLOY)
    else:
        yield Check.ok(name, of, f"{timeout} s, as the lease is made for")


def _schedules(site: Site, function: str) -> Iterator[Mapping[str, Any]]:
    """The schedules that invoke a function, from all of the account: no output of the stack names them."""
    client = site.client("scheduler")
    arn = site.function(function)["FunctionArn"]
    for page in client.get_paginator("list_schedules").paginate():
        for each in page["Schedules"]:
            if each["Target"]["Arn"] == arn:
                yield client.get_schedule(Name=each["Name"], GroupName=each["GroupName"])


def _tick_schedule(site: Site) -> Iterator[Check]:
    name, found = CheckName.TICK_SCHEDULE, list(_schedules(site, RECONCILER))
    enabled = [each for each in found if each.get("State") == "ENABLED"]
    if enabled:
        yield Check.ok(name, RECONCILER, f"{enabled[0]['ScheduleExpression']}, enabled")
    elif found:
        to_do = "enable it: until then nothing that crashed is recovered, and no run closes"
        yield Check.failed(name, RECONCILER, f"schedule {found[0]['Name']} is {found[0].get('State')}", to_do)
    else:
        yield Check.failed(name, RECONCILER, "no schedule invokes it", DEPLOY)


def _tick_alive(site: Site) -> Iterator[Check]:
    """By its log: the metrics of a function come minutes late."""
    name, function = CheckName.TICK_ALIVE, site.function(RECONCILER)
    group = function.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{site.named(RECONCILER)}")
    minutes = f"{TICKS.seconds // 60} minutes"
    if _logged(site, group, ENDED_TICK):
        yield Check.ok(name, RECONCILER, f"a tick came through in the last {minutes}")
    elif _logged(site, group, ""):
        found = f"it was invoked in the last {minutes}, and no tick came through"
        yield Check.failed(name, RECONCILER, found, f"read its log: aws logs tail {group}")
    else:
        to_do = f"see {CheckName.TICK_SCHEDULE}; right after a deployment, ask again in a few minutes"
        yield Check.failed(name, RECONCILER, f"it logged nothing in the last {minutes}", to_do)


def _logged(site: Site, group: str, pattern: str) -> bool:
    since = int((site.clock() - TICKS).timestamp() * 1000)
    pages = site.client("logs").get_paginator("filter_log_events")
    more = {"filterPattern": pattern} if pattern else {}
    return any(page["events"] for page in pages.paginate(logGroupName=group, startTime=since, **more))


def _policy_schedules(site: Site, rows: Mapping[str, Row]) -> Iterator[Check]:
    found = {_policy_of(each): each for each in _schedules(site, DISCOVERY)}
    controls = site.deployment.ledger.controls()
    for policy, row in sorted(rows.items()):
        yield _policy_schedule(policy, row, found.get(policy), controls.paused(policy))


def _policy_of(schedule: Mapping[str, Any]) -> str:
    try:
        given = json.loads(schedule["Target"].get("Input", ""))
    except ValueError:
        return ""
    return str(given.get("policy", "")) if isinstance(given, dict) else ""


def _policy_schedule(of: str, row: Row, schedule: Mapping[str, Any] | None, pause: Pause | None) -> Check:
    name = CheckName.POLICY_SCHEDULE
    if schedule is None:
        return Check.failed(name, of, "no schedule starts it", DEPLOY)
    expression, zone = schedule["ScheduleExpression"], schedule.get("ScheduleExpressionTimezone", "UTC")
    enabled = schedule.get("State") == "ENABLED"
    if pause is not None:
        follows = "does not follow" if enabled else "follows"
        to_do = "ask for the pause again, so that it follows" if enabled else "sexton resume, when it may go on"
        return Check.warning(name, of, f"its schedule {follows} the pause of {pause.scope}", to_do)
    if not enabled:
        return Check.warning(name, of, f"its schedule is {schedule.get('State')}: it starts by hand only", DEPLOY)
    if (expression, zone) != (row.get("schedule"), row.get("timezone")):
        found = f"it runs at {expression} in {zone}, the policy says {row.get('schedule')} in {row.get('timezone')}"
        return Check.warning(name, of, found, DEPLOY)
    return Check.ok(name, of, f"{expression} in {zone}, enabled")

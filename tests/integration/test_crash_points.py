"""The process may end, a request or a reply may get lost, at every port call: the end is the same.

Each story is told once in calm, which records its port calls; then once for each call and each interruption. A
call in the code that no story makes fails here: it needs a story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial

import pytest
from sexton import attributes, control_transitions, run_transitions
from sexton.elsewhere import Elsewhere
from sexton.errors import EFFECT_UNKNOWN, Failure, ReasonClass
from sexton.http_call import HttpAnswer
from sexton.item import rfc3339
from sexton.job import JobState
from sexton.policy import Policy
from sexton.ports import Send
from sexton.run import Change, RunId, RunState

from tests.fakes.time import START
from tests.fakes.world import policy
from tests.integration.crashing import FLOWS, LastingWorld, SitedTrace, sites
from tests.integration.histories import history
from tests.integration.seen import ends

RUN, UNDO = RunId("logs-expire", START), RunId("logs-expire", START, undo=True)
SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
BROKEN = Failure(ReasonClass.TRANSIENT, "OperationAborted", "try again")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")
ABROAD = Elsewhere("eu-west-1", "arn:aws:iam::210987654321:role/sexton-reminders")

FLAKY, ODD, REFUSED, REWRITTEN, YOUNG = "app/b", "app/c\x01", "app/e", "app/f", "app/young"
OLD = ["app/a", FLAKY, ODD, "app/d", REFUSED, REWRITTEN, "app/g"]


# What an interruption may change, in the words of an outcome: nothing else.
ALSO_SEEN_AS = {"deleted": "deleted:absent_after_attempt", "skipped:changed": "skipped:changed_after_attempt"}


@dataclass(frozen=True)
class Story:
    """`given` is told without interruption, `told` with one, until every run is closed.

    `tried_at`: the flows whose every call is interrupted; None: each call on a path that no story before it took.
    `also`: how an item may end that ends otherwise in calm.
    """

    given: Callable[[], LastingWorld]
    told: Callable[[LastingWorld], None]
    tried_at: Collection[str] | None = None
    ways: Collection[str] = ("crash_before", "crash_after", "lose_request", "lose_reply")
    also: Mapping[str, str] = field(default_factory=lambda: ALSO_SEEN_AS)


def rule(**changes: object) -> Policy:
    """Parts of three items, at most five attempts."""
    return policy(**{"job_size": 3, "limits": {"max_items": 1000, "max_attempts": 5}, **changes})


def a_world(versioning: str = "Unversioned", **changes: object) -> LastingWorld:
    """Seven old objects in three parts, one young one."""
    world = LastingWorld({"logs-expire": rule(**changes)}, versioning=versioning)
    world.fill(OLD)
    world.fill([YOUNG], age=timedelta(days=3))
    return world


def planned_world() -> LastingWorld:
    world = a_world()
    world.trigger(at=START)
    return world


def with_failures(world: LastingWorld) -> LastingWorld:
    world.troubled.flaky = {FLAKY: [BROKEN, SLOW], ODD: [UNSURE]}
    world.troubled.failures = {REFUSED: DENIED}
    return world


def at_work(world: LastingWorld, run_id: RunId = RUN) -> bool:
    run = world.ledger.run(run_id)
    return run is not None and run.state not in (RunState.PLANNING, RunState.PLANNED)


def start(world: LastingWorld) -> None:
    """A failed discovery is tried again by Lambda."""
    while not world.ledger.run(RUN):
        world.trigger(at=START)


def settle(world: LastingWorld) -> None:
    world.settle()
    world.drain()


def go_through(world: LastingWorld) -> None:
    """From the trigger to the end; an object is rewritten once the plan is made."""
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    world.troubled.rewrite(REWRITTEN)
    settle(world)


def plan_in_two_goes(world: LastingWorld) -> None:
    """The first invocation has time for a page, no more."""
    world.discover({"policy": "logs-expire", "scheduled_time": rfc3339(START)}, lambda: timedelta(seconds=29))
    go_through(world)


def with_a_slow_listing() -> LastingWorld:
    """The first page takes so long that the planner renews its lease."""
    world = a_world(job_size=100)
    world.troubled.slow = [timedelta(seconds=61)]
    world.troubled.most = 4
    return world


def trigger_two_times(world: LastingWorld) -> None:
    """Another scheduled time finds the first one's run open and is skipped."""
    start(world)
    world.trigger(at=START - timedelta(days=1))
    go_through(world)


def refuse_a_message(world: LastingWorld) -> None:
    """The queue refuses one message of a batch, for a while."""
    world.queue.refusals = {"1": BROKEN}
    start(world)
    world.queue.refusals = {}
    go_through(world)


def with_sparse_items() -> LastingWorld:
    """So many other objects lay between the items when they were planned that they are looked at one by one."""
    world = planned_world()
    for row in world.table.rows.values():
        if "span" in row:
            row["span"] = 1_000_000
    return world


def with_a_poison() -> LastingWorld:
    """One item ends every worker that touches it; and two messages that dispatch never sent."""
    world = planned_world()
    world.troubled.poison = {"app/d"}
    forged = next(iter(world.queue.messages.values())).body.replace("00000001", "00000077")
    world.queue.send([Send("0", "no message", "x"), Send("1", forged, "x")])
    return world


# A worker that meets no trouble: its run, pauses and holds, the claim, the part, the look, the removal.
UP_TO_REMOVAL = ["table.get", "table.query", "table.write", "evidence.get", "bucket.list", "bucket.remove"]


def with_a_killed_worker() -> LastingWorld:
    """A worker was killed right after a deletion; its message comes again."""
    world = planned_world()
    world.trace.calm()
    world.trace.crash_after(len(UP_TO_REMOVAL))
    world.work(1)
    assert world.trace.names == UP_TO_REMOVAL
    world.clock.advance(world.queue.visibility)
    return world


def take_over(world: LastingWorld) -> None:
    """The message comes again before a tick finds the lease expired."""
    world.work()
    settle(world)


def with_a_changed_policy() -> LastingWorld:
    world = with_a_killed_worker()
    world.policies["logs-expire"] = rule(retain="P31D")
    return world


def with_a_run_that_was_ended() -> LastingWorld:
    """A person invalidated it while a killed worker's lease was still to be given back."""
    world = with_a_killed_worker()
    run = world.ledger.run(RUN)
    assert run is not None
    world.table.write(run_transitions.invalidate(run, "by_hand", "for a test", world.clock(), world.tokens()))
    return world


def with_a_withdrawn_policy() -> LastingWorld:
    world = planned_world()
    world.tick()
    del world.policies["logs-expire"]
    return world


def with_versions() -> LastingWorld:
    """Noncurrent versions and lone delete markers, listed in pages of two entries."""
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "versions": "noncurrent", "purge_markers": True}
    world = LastingWorld({"logs-expire": rule(source=source, action="purge")}, versioning="Enabled")
    for key in (FLAKY, ODD, REFUSED, REWRITTEN):
        history(world, key, "v90 v80 v70")
    for key in ("app/lone", "app/mark", "app/next"):
        history(world, key, "m60")
    locked = history(world, "app/locked", "v90 v80")[1]
    world.troubled.lock_version(locked.key, locked.id)
    world.troubled.flaky = {FLAKY: [BROKEN, SLOW], ODD: [UNSURE]}
    world.troubled.failures = {REFUSED: DENIED}
    world.troubled.most = 2
    return world


def purge(world: LastingWorld) -> None:
    """One version becomes current again once the plan is made."""
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    newest, *_ = world.troubled.version_ids(REWRITTEN)
    world.troubled.delete_version(REWRITTEN, newest)
    settle(world)


def with_sparse_versions() -> LastingWorld:
    """So many entries lay between the versions that they are looked at key by key; and one effect is unknown."""
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "versions": "noncurrent"}
    limits = {"max_items": 1000, "max_attempts": 3}
    world = LastingWorld({"logs-expire": rule(source=source, action="purge", limits=limits)}, versioning="Enabled")
    for key in OLD:
        history(world, key, "v90 v80")
    world.trigger(at=START)
    for row in world.table.rows.values():
        if "span" in row:
            row["span"] = 1_000_000
    world.troubled.flaky = {FLAKY: [UNSURE] * 9}
    return world


def with_tags() -> LastingWorld:
    """Only what is tagged goes; one object's tags cannot be read."""
    include = {"tags": {"class": "scratch"}}
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "include": include}
    world = a_world(source=source)
    for key in OLD[:-1]:
        world.troubled.tag(key, {"class": "scratch"})
    world.troubled.secret = {"app/d"}
    return world


def tag_again(world: LastingWorld) -> None:
    """One object is tagged otherwise once the plan is made."""
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    world.troubled.tag(REWRITTEN, {"class": "kept"})
    settle(world)


def with_uploads() -> LastingWorld:
    """Incomplete uploads, two of one key, one young; one is completed once the plan is made."""
    source = {"kind": "s3_uploads", "bucket": "logs", "prefixes": ["app/"]}
    world = LastingWorld({"logs-expire": rule(source=source, action="abort")})
    world.clock.move_to(START - timedelta(days=60))
    for key in (*OLD, "app/a"):
        world.troubled.begin_upload(key)
    world.clock.move_to(START)
    world.troubled.begin_upload(YOUNG)
    world.troubled.flaky = {FLAKY: [BROKEN, SLOW], ODD: [UNSURE]}
    world.troubled.failures = {REFUSED: DENIED}
    world.troubled.most = 3
    return world


def abort(world: LastingWorld) -> None:
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    (completed,) = (upload for upload in world.troubled.uploads if upload[0] == REWRITTEN)
    world.troubled.uploads.pop(completed)
    settle(world)


def with_a_pause() -> LastingWorld:
    """Planned and sent, then paused, with one object held."""
    world = planned_world()
    world.stopping().pause("all", "a rehearsal", "me")
    world.stopping().hold("s3://logs/app/d", "a lawsuit", "me")
    return world


def resume(world: LastingWorld) -> None:
    """Workers park what they receive, ticks go by, then everything goes on."""
    for _ in range(3):
        world.work()
        world.tick()
        world.clock.advance(60)
    assert world.troubled.keys() == [*OLD, YOUNG]
    world.stopping().resume("all", "it is over", "me")
    settle(world)


def plan_through_a_pause(world: LastingWorld) -> None:
    """Planning is paused as soon as it has begun."""
    world.discover({"policy": "logs-expire", "scheduled_time": rfc3339(START), "plan": False})
    start(world)
    world.stopping().pause("logs-expire", "too early", "me")
    world.discover({"resume": str(RUN)})
    world.tick()
    world.clock.advance(60)
    world.stopping().resume("logs-expire", "now", "me")
    go_through(world)


def with_a_missing_permission() -> LastingWorld:
    """The first look of a worker is refused for good: it halts the run."""
    world = planned_world()
    world.troubled.fail_next("list", DENIED)
    return world


def with_too_much_dead() -> LastingWorld:
    """Twenty jobs of one item each, all of them refused; ten more are not sent yet."""
    world = LastingWorld({"logs-expire": rule(job_size=1)})
    world.queue.max_receive_count = 1  # the message of a dead job does not come before those of others
    world.fill(f"app/{number:02d}" for number in range(30))
    world.trigger(at=START)
    refused = [f"app/{number:02d}" for number in range(20)]
    world.troubled.failures = dict.fromkeys(refused, DENIED)
    return world


def work_on_twenty(world: LastingWorld) -> None:
    world.work()
    world.work()
    world.tick()
    world.troubled.failures = {}
    mend_and_resume(world)


def mend_and_resume(world: LastingWorld) -> None:
    """Whenever the run is halted, a person resumes it."""
    settle_halted(world)
    settle(world)


def settle_halted(world: LastingWorld) -> None:
    for _ in range(10):
        world.settle()
        run = world.ledger.run(RUN)
        if run is None or run.state is not RunState.HALTED:
            return
        world.stopping().resume_run(run.run_id, "mended", "me")


def dead(world: LastingWorld) -> list[str]:
    """The ids of the dead jobs that nobody resolved."""
    jobs = world.ledger.jobs(str(RUN))
    return [job.job_id for job in jobs if job.state is JobState.DEAD and job.resolved_at is None]


def with_dead_jobs() -> LastingWorld:
    """Two items were refused for good; the run is closed, and what refused them is mended."""
    world = a_world()
    world.troubled.failures = {REFUSED: DENIED, FLAKY: DENIED}
    world.trigger(at=START)
    settle(world)
    world.troubled.failures = {}
    world.clock.advance(600)
    return world


def replay_and_resolve(world: LastingWorld) -> None:
    """One dead job is replayed, the other resolved; the run closes again and is listed no more."""
    first, second = dead(world)
    world.replay(first)
    settle(world)
    world.resolve(second)
    world.tick()
    world.tick()
    assert not list(world.ledger.runs_for_a_person())


def redrive(world: LastingWorld) -> None:
    """All messages of dead jobs are moved back to the queue."""
    world.queue.redrive()
    settle(world)
    world.tick()
    assert not list(world.ledger.runs_for_a_person())


def with_a_death_just_now() -> LastingWorld:
    world = a_world()
    world.troubled.failures = {REFUSED: DENIED}
    world.trigger(at=START)
    world.settle()
    while world.work():
        pass
    world.troubled.failures = {}
    return world


def redrive_in_vain(world: LastingWorld) -> None:
    """Too early first, then while the policy is paused, and at last as it should be."""
    world.clock.advance(30)
    world.queue.redrive()
    world.drain()
    asked = Change(at=world.clock(), actor="ann", change="paused", reason="to look")
    world.table.write(control_transitions.pause("all", asked, world.tokens()))
    world.queue.redrive()
    world.drain()
    (job,) = (job for job in world.ledger.jobs(str(RUN)) if job.state is JobState.DEAD)
    assert (job.redriven_early_at is not None, job.redrive_refused) == (True, "paused")
    world.table.write(control_transitions.resume("all", asked, world.tokens()))
    redrive(world)


def approve(world: LastingWorld) -> None:
    start(world)
    settle(world)
    world.approve(str(RUN))
    settle(world)


def a_closed_run(**changes: object) -> LastingWorld:
    """A run that placed markers and can be undone; one key was written again since. Listings come in pages of three."""
    world = a_world("Enabled", recovery="versioning", **changes)
    world.trigger(at=START)
    settle(world)
    world.troubled.put(REWRITTEN, b"new")
    world.troubled.flaky = {FLAKY: [BROKEN, SLOW], ODD: [UNSURE]}
    world.troubled.failures = {REFUSED: DENIED}
    world.troubled.most = 3
    return world


def undo(world: LastingWorld) -> None:
    world.run_id = str(UNDO)
    world.undo(str(RUN))
    settle(world)


def with_cohorts() -> LastingWorld:
    """Each object is a cohort of its own; some of them are canaries."""
    return a_world(**by_cohort("a", "b", "f", "young"))


def by_cohort(*canaries: str) -> dict[str, object]:
    limits = {"max_items": 1000, "max_attempts": 5, "empty_cohort": True}
    return {"cohort": "app/{name}", "canary": {"cohorts": list(canaries)}, "limits": limits}


def with_an_undo_by_cohort() -> LastingWorld:
    return a_closed_run(**by_cohort("a", "b", "f", "g"))


def undo_in_two_goes(world: LastingWorld) -> None:
    """The first invocation has time for the receipts of one job, no more."""
    world.run_id = str(UNDO)
    world.undo(str(RUN))
    world.discover({"resume": str(UNDO)}, lambda: timedelta(seconds=29))
    settle(world)


def with_a_corrected_policy() -> LastingWorld:
    """The policy was corrected; so much else lies between the keys that they are looked at one by one, and one effect
    stays unknown until the attempts are used up."""
    world = a_closed_run(limits={"max_items": 1000, "max_attempts": 3})
    world.policies["logs-expire"] = rule(recovery="versioning", retain="P90D")
    world.troubled.flaky = {FLAKY: [UNSURE] * 9}
    return world


def undo_far_apart(world: LastingWorld) -> None:
    world.run_id = str(UNDO)
    world.undo(str(RUN))
    while not at_work(world, UNDO):
        world.clock.advance(60)
        world.tick()
    for row in world.table.rows.values():
        if "span" in row:
            row["span"] = 1_000_000
    settle(world)


def with_records(**way: object) -> LastingWorld:
    """Reminders, of which the first is changed between look and transaction; one transaction meets another."""
    source = {
        "kind": "dynamodb",
        "table": "reminders",
        "timestamp": {"attribute": "deadline", "format": "epoch_s"},
        **way,
    }
    done = {"action": "delete"} | {name: source.pop(name) for name in ("action", "recovery") if name in source}
    world = LastingWorld({"logs-expire": rule(source=source, job_size=4, **done)})
    world.records().most = 3
    for number in range(7):
        remind(world, f"{number}", timedelta(days=60, seconds=-number))
    world.records().put(id="odd", status="open", deadline=7)
    return world


def remind(world: LastingWorld, name: str, age: timedelta) -> None:
    world.records().put(id=name, status="open", deadline=int((START - age).timestamp()))


def remove_records(world: LastingWorld) -> None:
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    remind(world, "1", timedelta(days=1))
    world.records().before_transaction = [lambda: remind(world, "2", timedelta(days=1))]
    settle(world)


def with_records_elsewhere() -> LastingWorld:
    """Reminders of another account: of three the call fails, is throttled, or loses its reply, and one is refused."""
    role = {"region": ABROAD.region, "role_arn": ABROAD.role_arn}
    world = with_records(index="by-status", partitions=["open"], **role)
    there = world.records("reminders", ABROAD)
    there.records, world.records().records = world.records().records, {}
    there.refusals = {key("0"): [BROKEN], key("3"): [SLOW], key("4"): [UNSURE], key("6"): [DENIED]}
    return world


def key(name: str) -> str:
    return attributes.canonical({"id": {"S": name}})


def remove_records_elsewhere(world: LastingWorld) -> None:
    start(world)
    while not at_work(world):
        world.clock.advance(60)
        world.tick()
    there, later = world.records("reminders", ABROAD), int((START - timedelta(days=1)).timestamp())
    there.put(id="1", status="open", deadline=later)
    there.before_change = [lambda: there.put(id="2", status="open", deadline=later)]
    settle(world)


def with_archived_records() -> LastingWorld:
    """A run that archived records and can be undone; the key of one is in use again."""
    world = with_records(
        index="by-status", partitions=["open"], version_attribute="version", action="archive", recovery="archive"
    )
    world.trigger(at=START)
    settle(world)
    assert key("1") not in world.records().records
    remind(world, "1", timedelta(days=1))
    return world


def put_records_back(world: LastingWorld) -> None:
    """The key of another one is taken between look and transaction."""
    world.run_id = str(UNDO)
    world.undo(str(RUN))
    while not at_work(world, UNDO):
        world.clock.advance(60)
        world.tick()
    world.records().before_transaction = [lambda: remind(world, "2", timedelta(days=1))]
    settle(world)


def remove_records_that_others_write(world: LastingWorld) -> None:
    world.records().failure = BROKEN
    start(world)
    settle(world)


def with_calls(idempotent: bool) -> LastingWorld:
    """Reminders that an application is called for, of which one call is throttled and one leaves its effect unknown."""
    source = {
        "kind": "dynamodb",
        "table": "reminders",
        "index": "by-status",
        "partitions": ["open"],
        "timestamp": {"attribute": "deadline", "format": "epoch_s"},
    }
    action = {
        "kind": "http",
        "method": "POST",
        "hosts": ["carriers.example.com"],
        "url": "https://carriers.example.com/{id}",
        "success": [204],
        "idempotent": idempotent,
    }
    world = LastingWorld({"logs-expire": rule(source=source, action=action, job_size=1)})
    for number in range(4):
        remind(world, f"{number}", timedelta(days=60, seconds=-number))
    world.endpoints.answers = {"/1": [HttpAnswer(429, retry_after=9.0)], "/2": [UNSURE]}
    return world


def call(world: LastingWorld) -> None:
    start(world)
    settle(world)


def call_once(world: LastingWorld) -> None:
    """No call that may have been carried out is made again."""
    call(world)
    counted = Counter(call.url for call in world.endpoints.calls)
    counted["https://carriers.example.com/1"] -= 1  # it was told to come again
    assert max(counted.values()) == 1, counted


STORIES = {
    "the straight line": Story(lambda: with_failures(a_world()), go_through, FLOWS),
    "the straight line, versioned": Story(
        lambda: with_failures(a_world("Enabled")), go_through, ["working"], ["crash_after", "lose_reply"]
    ),
    "a report": Story(lambda: a_world(mode="report"), go_through),
    "planning out of time": Story(a_world, plan_in_two_goes),
    "a slow listing": Story(with_a_slow_listing, go_through),
    "two triggers": Story(a_world, trigger_two_times),
    "a refused message": Story(a_world, refuse_a_message),
    "sparse items": Story(with_sparse_items, settle),
    "a takeover": Story(with_a_killed_worker, take_over),
    "a poison and forged messages": Story(with_a_poison, settle),
    "a changed policy": Story(with_a_changed_policy, settle),
    "a run that was ended": Story(with_a_run_that_was_ended, settle),
    "a withdrawn policy": Story(with_a_withdrawn_policy, settle),
    "noncurrent versions": Story(with_versions, purge),
    "sparse versions": Story(with_sparse_versions, settle),
    "tags": Story(with_tags, tag_again),
    "uploads": Story(with_uploads, abort),
    "records": Story(
        lambda: with_records(index="by-status", partitions=["open"]), remove_records, ["planning", "working"]
    ),
    "cohorts, in two goes": Story(with_cohorts, plan_in_two_goes),
    "cohorts of a run that is undone": Story(with_an_undo_by_cohort, undo),
    "records elsewhere": Story(with_records_elsewhere, remove_records_elsewhere, ["planning", "working"]),
    "records that are marked": Story(
        lambda: with_records(
            index="by-status", partitions=["open"], action={"kind": "mark", "attribute": "retired", "value": True}
        ),
        remove_records,
        ["working"],
    ),
    "records that are archived": Story(
        lambda: with_records(index="by-status", partitions=["open"], version_attribute="version", action="archive"),
        remove_records_that_others_write,  # so that the same is archived twice
        ["working"],
    ),
    "an undo of archived records": Story(with_archived_records, put_records_back, ["undoing", "planning", "working"]),
    "records of a whole table": Story(lambda: with_records(scan={"segments": 2}), remove_records_that_others_write),
    "calls of an endpoint": Story(lambda: with_calls(idempotent=True), call, ["working"]),
    "calls that must not be repeated": Story(
        lambda: with_calls(idempotent=False),
        call_once,
        ["working", "reconcile"],
        also={"deleted": f"dead:{EFFECT_UNKNOWN}"},
    ),
    "a pause and a hold": Story(with_a_pause, resume),
    "a pause while planning": Story(a_world, plan_through_a_pause),
    "a missing permission": Story(with_a_missing_permission, mend_and_resume),
    "too much is dead": Story(with_too_much_dead, work_on_twenty),
    "an approval": Story(lambda: a_world(approval="first"), approve, ["approving"]),
    "a replay and a dead job that is resolved": Story(with_dead_jobs, replay_and_resolve),
    "a redrive": Story(with_dead_jobs, redrive),
    "a redrive in vain": Story(with_a_death_just_now, redrive_in_vain),
    "an undo": Story(a_closed_run, undo, ["undoing", "planning", "working"]),
    "an undo planned out of time": Story(a_closed_run, undo_in_two_goes),
    "an undo under a corrected policy": Story(with_a_corrected_policy, undo_far_apart),
}

# What each flow asks of its ports, all of it interrupted below. A new call needs its place here, and a story.
PORT_CALLS = {
    "discovering": {"evidence.get", "table.get"},
    "starting": {"evidence.put_once", "table.get", "table.query", "table.transact", "table.write"},
    "planning": {
        "bucket.versioning",
        "bucket.list",
        "bucket.list_uploads",
        "bucket.list_versions",
        "bucket.tags",
        "evidence.get",
        "evidence.put_once",
        "records.query",
        "records.scan",
        "records.shape",
        "table.get",
        "table.query",
        "table.transact",
        "table.write",
    },
    "dispatch": {"queue.send", "table.get", "table.query", "table.query_open", "table.write"},
    "working": {
        "bucket.abort_upload",
        "bucket.head",
        "bucket.list",
        "bucket.list_uploads",
        "bucket.list_versions",
        "bucket.remove",
        "bucket.remove_versions",
        "bucket.tags",
        "deliveries.hide",
        "endpoints.await_turn",
        "endpoints.call",
        "evidence.get",
        "evidence.put_once",
        "records.change",
        "records.get",
        "records.read",
        "table.get",
        "table.query",
        "table.transact",
        "table.write",
    },
    "reconcile": {
        "bucket.list",
        "bucket.list_versions",
        "discovery.resume",
        "evidence.get",
        "evidence.put_once",
        "gauges.put",
        "table.get",
        "table.query",
        "table.query_open",
        "table.write",
    },
    "approving": {"table.get", "table.transact"},
    "undoing": {"evidence.get", "table.get", "table.query", "table.transact"},
    "replaying": {"table.get", "table.query", "table.transact", "table.write"},
    "closing": {
        "events.put",
        "evidence.get",
        "evidence.list",
        "evidence.put_once",
        "table.get",
        "table.query",
        "table.transact",
        "table.write",
    },
}


@dataclass(frozen=True)
class End:
    """How a story ended."""

    run: dict[str, object]
    items: dict[str, str]
    left: tuple[str, ...]
    markers: dict[str, int]
    versions: dict[str, int]
    uploads: tuple[str, ...]
    records: tuple[str, ...]


def end_of(world: LastingWorld) -> End:
    run = world.ledger.run(RunId.parse(world.run_id) if world.run_id else RUN)
    assert run is not None
    assert run.closed == (run.state is not RunState.REPORTED)
    outcomes = ends(world, run.run_id)
    if run.state is not RunState.REPORTED:
        assert run.balanced
        assert {key: len(names) for key, names in outcomes.items()} == dict.fromkeys(outcomes, 1)
        assert world.events.of("Run Closed")
    facts = run.model_dump(
        include={"state", "digest", "planned", "planned_bytes", "scanned", "jobs", "cutoff", "reason"}
    )
    bucket = world.troubled
    return End(
        facts,
        {key: names[0] if names else "" for key, names in outcomes.items()},
        tuple(bucket.keys()),
        {key: bucket.markers(key) for key in [*OLD, YOUNG]},
        {key: len(versions) for key, versions in bucket.versions.items()},
        tuple(key for key, _ in sorted(bucket.uploads)),
        tuple(
            f"{key} {table.records[key].get('retired', '')}"
            for table in (world.records(), *world.elsewhere.values())
            for key in sorted(table.records)
        ),
    )


def tell(story: Story, prepare: Callable[[LastingWorld], None]) -> LastingWorld:
    world = story.given()
    world.trace.calm()
    prepare(world)
    story.told(world)
    return world


def interrupt(world: LastingWorld, way: str, nth: int) -> None:
    getattr(world.trace, way)(nth)


def record(world: LastingWorld) -> None:
    world.trace = SitedTrace()


@dataclass(frozen=True)
class Calm:
    """A story without interruption: where it called a port, and how it ended."""

    trace: SitedTrace
    end: End


@cache
def calm(name: str) -> Calm:
    world = tell(STORIES[name], record)
    assert isinstance(world.trace, SitedTrace)
    return Calm(world.trace, end_of(world))


def assert_same(found: End, expected: End, also: Mapping[str, str]) -> None:
    assert found.run == expected.run
    assert found.left == expected.left
    assert found.markers == expected.markers
    assert found.versions == expected.versions
    assert found.uploads == expected.uploads
    assert found.records == expected.records
    assert found.items.keys() == expected.items.keys()
    for key, name in found.items.items():
        assert name in (expected.items[key], also.get(expected.items[key])), f"{key!r} ended {name}"


REMOVALS = {"remove", "remove_versions", "abort_upload", "change"}
EFFECTS = {"write", "transact", "put_once", "send", "hide", *REMOVALS, "call", "resume", "put"}


def calls_to_try(name: str) -> list[int]:
    """The calls of a story that are interrupted, counted from 1."""
    trace, story = calm(name).trace, STORIES[name]
    nths = range(1, len(trace.calls) + 1)
    if story.tried_at is not None:
        return [nth for nth in nths if trace.flow(nth) in story.tried_at]
    earlier = list(STORIES)[: list(STORIES).index(name)]
    taken = {path for other in earlier for path in calm(other).trace.paths}
    first = {path: nth for nth, path in reversed(list(enumerate(trace.paths, start=1))) if path not in taken}
    return sorted(first.values())


def ways(name: str) -> Iterator[tuple[str, int]]:
    """How each call is interrupted. A read has no effect that could be there without its reply."""
    trace = calm(name).trace
    for nth in calls_to_try(name):
        effect = trace.calls[nth - 1].method in EFFECTS
        for way in STORIES[name].ways:
            if effect or way in ("crash_before", "lose_request"):
                yield way, nth


@pytest.mark.parametrize("name", STORIES)
def test_the_end_is_the_same(name: str) -> None:
    told = calm(name)
    for way, nth in ways(name):
        try:
            world = tell(STORIES[name], partial(interrupt, way=way, nth=nth))
            assert_same(end_of(world), told.end, STORIES[name].also)
        except AssertionError as error:
            raise AssertionError(f"{way} {nth}: {told.trace.sites[nth - 1]}") from error


def test_every_port_call_of_every_flow_is_in_the_table() -> None:
    called: dict[str, set[str]] = {}
    for name in STORIES:
        trace = calm(name).trace
        for nth in calls_to_try(name):
            called.setdefault(trace.flow(nth), set()).add(trace.names[nth - 1])
    assert called == PORT_CALLS


def test_every_port_call_in_the_code_is_interrupted_in_some_story() -> None:
    tried = {calm(name).trace.sites[nth - 1] for name in STORIES for nth in calls_to_try(name)}
    assert not {str(site) for site in sites() - tried}

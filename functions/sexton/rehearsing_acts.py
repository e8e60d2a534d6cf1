"""The rehearsals: each provokes one kind of trouble, and says what must come of it.

Each stands by itself. It puts decoys of its own, and expects of ledger, evidence and bucket what the design
promises; what it changes is put back whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from sexton import status
from sexton.decoy import EXHAUSTED, FAILING, KILLED, TROUBLE
from sexton.item import Item
from sexton.job import NO_RECORD, Job, JobState
from sexton.rehearsing_steps import CLOSED_WITHIN, PLANNED_WITHIN, Steps
from sexton.settling import Kind

WORKER = "handlers.worker.handler"
FAULTY_WORKER = "handlers.rehearsing_worker.handler"
COPIES = 2  # of each message, sent at once
EMPTIED_WITHIN = 300.0  # seconds: a copy that meets a lease waits for its end
RECOVERED_BESIDES = 180.0  # seconds after the end of a lease: ticks, a dispatch, a cold start
MOVED_WITHIN = 300.0  # seconds for some fifteen receives
REDELIVERED_WITHIN = 60.0  # seconds for one

Rehearsal = Callable[[Steps], None]


def duplicate_delivery(steps: Steps) -> None:
    """Every message twice more at once, and once more after its run: each object ends once, and a newer one stays."""
    put = steps.put(_numbered(20))
    first = next(iter(put))
    run_id = steps.start()
    jobs = steps.dispatched(run_id)
    for job in jobs * COPIES:
        _send_copy(steps, job)
    steps.did(f"sent {COPIES} copies of each of {len(jobs)} messages, under the redrive role")
    steps.came(steps.closed(run_id), deleted=len(put), skipped={}, dead={})
    steps.gone(put)
    newer = {first: b"written after the run\n"}
    steps.rewrite(first, newer[first])
    for job in jobs:
        _send_copy(steps, job)
    steps.did("wrote one decoy anew, and sent each message once more")
    steps.until(lambda: steps.backstage.queue.waiting() == 0, EMPTIED_WITHIN, "the jobs queue is empty")
    steps.there(newer)
    steps.gone(key for key in put if key != first)
    again = {job.job_id: job.attempt for job in steps.jobs(run_id) if job.attempt != 1}
    steps.expect(not again, "one attempt of each job", again)
    steps.did("the copies led to nothing: one attempt of each job, one delete marker of each object")


def killed_worker(steps: Steps) -> None:
    """The worker dies after the deletion and before its record: the job is taken up again, and says what it knows."""
    put = steps.put(_numbered(6))
    steps.faulty_worker(FAULTY_WORKER)
    run_id = steps.start()
    (job, *_) = steps.until(lambda: _killed(steps, run_id), CLOSED_WITHIN, "a worker dies over its decoys")
    steps.mend_worker(WORKER)
    lease = job.lease_expires_at - steps.deployment.clock() if job.lease_expires_at else timedelta()
    steps.did(f"a worker died and left its lease, which ends in {max(0, lease.total_seconds()):.0f} s")
    view = steps.closed(run_id, lease.total_seconds() + RECOVERED_BESIDES)
    steps.came(view, deleted=len(put), skipped={}, dead={})
    died = [entry for each in steps.jobs(run_id) for entry in each.history if entry.event == NO_RECORD]
    steps.expect(bool(died), "an attempt that left no record, in the job's history")
    steps.expect(view.deleted_unproven == len(put), f"{len(put)} deleted, unproven", view.deleted_unproven)
    steps.gone(put)
    steps.did(f"taken up again after {len(died)} attempt without a record; all {len(put)} count as deleted, unproven")


def exhausted_retries(steps: Steps) -> None:
    """One object that fails each time: its neighbours go, it dies, SQS moves it, and a replay ends it well."""
    failing = f"{FAILING}-0"
    put = steps.put([*_numbered(4), failing])
    steps.faulty_worker(FAULTY_WORKER)
    run_id = steps.start()
    steps.came(steps.closed(run_id, CLOSED_WITHIN), deleted=len(put) - 1, skipped={}, dead={TROUBLE.code: 1})
    (job,) = steps.jobs(run_id, JobState.DEAD)
    attempts = steps.policy.limits.max_attempts
    steps.expect(job.attempt == attempts, f"dead after {attempts} attempts", job.attempt)
    steps.there({key: content for key, content in put.items() if failing in key})
    steps.until(lambda: steps.letters(run_id), MOVED_WITHIN, "its message is in the dead-letter queue")
    steps.did(f"dead after {attempts} attempts, and moved to the dead-letter queue by SQS")
    steps.mend_worker(WORKER)
    replayed = steps.change("dlq_replay", jobs=[job.job_id])
    steps.expect(replayed["done"] == [job.job_id], "the job is replayed", replayed)
    steps.did("replayed")
    steps.came(steps.closed(run_id, revision=2), deleted=len(put), skipped={}, dead={})
    steps.gone(put)
    steps.until(lambda: steps.forget_letters(run_id), REDELIVERED_WITHIN, "its letter can be taken out of the queue")
    steps.did("took its letter out of the queue, under the redrive role")


def paused_consumers(steps: Steps) -> None:
    """A backlog grows old while nothing consumes: nothing goes meanwhile, `status` tells why, and it recovers."""
    put = steps.put(_numbered(60))
    view = steps.plan_first(put)
    steps.pause()
    steps.approve(view)
    told = steps.until(
        lambda: _backlog(steps, view.run_id), PLANNED_WITHIN + steps.backlog.total_seconds(), "a backlog"
    )
    jobs = len(steps.jobs(view.run_id, JobState.READY))
    steps.expect("paused" in told.because, "status says that the policy is paused", told.because)
    steps.expect(jobs == view.jobs, f"all {view.jobs} jobs wait", jobs)
    steps.there(put)
    steps.did(f"{len(put)} objects in {jobs} jobs waited for {told.age_seconds} s; nothing went, and status told why")
    resumed = steps.resume()
    slo = steps.policy.slo
    steps.until(lambda: _caught_up(steps, view.run_id), slo.total_seconds(), "the backlog is worked off within the slo")
    took = steps.deployment.clock() - resumed
    steps.came(steps.closed(view.run_id), deleted=len(put), skipped={}, dead={})
    steps.gone(put)
    steps.did(f"recovered in {took.total_seconds():.0f} s; the slo is {slo.total_seconds():.0f} s")


def newer_object(steps: Steps) -> None:
    """Objects written again after the plan, one of them with the same bytes: the old job leaves them alone."""
    put = steps.put(_numbered(6))
    view = steps.plan_first(put)
    other, same, *rest = put
    now = {other: b"a newer object\n", same: put[same]}
    for key, content in now.items():
        steps.rewrite(key, content)
    steps.did("wrote two decoys anew after the plan, one of them with the same bytes")
    steps.approve(view)
    steps.came(steps.closed(view.run_id), deleted=len(rest), skipped={"changed": 2}, dead={})
    steps.there(now)
    steps.gone(rest)


def hold_mid_run(steps: Steps) -> None:
    """A hold that is placed while a run is under way: it beats the plan."""
    put = steps.put([*_numbered(4), "held-0", "held-1"])
    held = {key: content for key, content in put.items() if "/held-" in key}
    view = steps.plan_first(put)
    steps.pause()
    steps.approve(view)
    steps.hold(f"{steps.folder}held-")
    steps.there(put)
    steps.resume()
    steps.came(steps.closed(view.run_id), deleted=len(put) - len(held), skipped={"held": len(held)}, dead={})
    steps.there(held)
    steps.gone(put.keys() - held.keys())
    steps.release(steps.policy.s3.address(f"{steps.folder}held-"))


def undo(steps: Steps) -> None:
    """A run is taken back: every object is there again, byte for byte and version for version."""
    put = steps.put(_numbered(6))
    before = _current(steps)
    run_id = steps.start()
    steps.came(steps.closed(run_id), deleted=len(put), skipped={}, dead={})
    steps.gone(put)
    scope = steps.policy.s3.address(steps.policy.s3.prefixes[0])
    steps.restoring.later(f"{scope} released", lambda: steps.release(scope))
    started = steps.change("run_undo", run_id=run_id)
    undo_id = str(started["run_id"])
    steps.followed(undo_id)
    steps.did(f"undone by {undo_id}")
    steps.closed(undo_id)
    steps.there(put)
    after = _current(steps)
    steps.expect(after == before, "the very versions that were there", after)
    steps.expect(_stands(steps, scope), f"the undo holds {scope}, so that no later run repeats what was taken back")
    steps.release(scope)
    steps.did(f"all {len(put)} are there again, byte for byte, and no marker is left")


REHEARSALS: Mapping[str, Rehearsal] = {
    "duplicate-delivery": duplicate_delivery,
    KILLED: killed_worker,
    EXHAUSTED: exhausted_retries,
    "paused-consumers": paused_consumers,
    "newer-object": newer_object,
    "hold-mid-run": hold_mid_run,
    "undo": undo,
}


def _numbered(count: int) -> list[str]:
    return [f"{place:04d}" for place in range(count)]


def _send_copy(steps: Steps, job: Job) -> None:
    steps.backstage.queue.send(steps.copy_of(job), steps.policy.id)


def _killed(steps: Steps, run_id: str) -> list[Job]:
    """Jobs whose items are gone and which somebody still has: a worker settles within moments, or never."""
    steps.tick()
    leased = steps.jobs(run_id, JobState.LEASED)
    hidden = all(each[0].is_marker for each in steps.versions().values())
    if not (leased and hidden):
        settled = [job.job_id for job in steps.jobs(run_id) if job.state.value == Kind.SUCCEED.value]
        steps.expect(not settled, "the worker dies", f"it lived, and settled {', '.join(settled)}")
        return []
    steps.deployment.sleep(3)
    still = {job.job_id for job in steps.jobs(run_id, JobState.LEASED)}
    return [job for job in leased if job.job_id in still]


def _backlog(steps: Steps, run_id: str) -> status.Unfinished | None:
    """The run among what is unfinished, once it is old enough."""
    steps.tick()
    found = status.status(steps.deployment.ledger, steps.deployment.clock()).unfinished
    return next(
        (each for each in found if each.run_id == run_id and each.age_seconds >= steps.backlog.total_seconds()), None
    )


def _caught_up(steps: Steps, run_id: str) -> bool:
    steps.tick()
    return steps.view(run_id).open == 0


def _current(steps: Steps) -> dict[str, tuple[Item, ...]]:
    return {key: tuple(found) for key, found in steps.versions().items()}


def _stands(steps: Steps, scope: str) -> bool:
    return any(hold.active and hold.scope == scope for hold in steps.deployment.ledger.controls().holds)

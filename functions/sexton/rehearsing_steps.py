"""The steps that rehearsals are made of: each does something a person could do, or looks at what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from sexton import decoy, message, showing, verifying
from sexton.backstage import Backstage
from sexton.deployment import ChangeRefused, Deployment, FunctionFailed
from sexton.errors import CallFailed, SextonError
from sexton.item import Item, rfc3339
from sexton.job import Job, JobState
from sexton.policy import Policy
from sexton.ports import DeadMessage
from sexton.retain import cutoff
from sexton.run import RunId, RunState
from sexton.showing import RunView

T = TypeVar("T")

POLL = 1.0  # seconds between two looks
TICK_EVERY = timedelta(seconds=2)  # while something is waited for that only a tick brings
PLANNED_WITHIN = 120.0  # seconds for a plan of a hundred objects: a cold start and a tick
CLOSED_WITHIN = 180.0
ENDED_WITHIN = 30.0  # when tidying up
PEEK = timedelta(seconds=3)  # a look into the dead-letter queue hides what it sees for so long
RUBBED_OUT = 1000  # versions removed in one call
PLANNED_STATES = (RunState.PLANNING, RunState.PLANNED)


class Unmet(SextonError):
    """What a rehearsal expected did not come; the text says what was there instead."""


@dataclass
class Restoring:
    """What is to be put back, last first, whatever happens in between."""

    _steps: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def later(self, what: str, step: Callable[[], object]) -> None:
        """Remember a step before the change is made that it takes back: a change whose reply is lost may be there."""
        self._steps.append((what, step))

    def restore(self) -> list[str]:
        """Take every step, each in spite of those that fail; what could not be put back, and why."""
        left = []
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except SextonError as error:
                left.append(f"{what}: {error}")
            except KeyboardInterrupt:
                left.append(f"{what}: interrupted")
        return left


@dataclass
class Steps:
    """One rehearsal on its way: what it did, what it found, the runs that it started."""

    name: str
    deployment: Deployment
    backstage: Backstage
    policy: Policy
    rehearsal_id: str
    reason: str
    backlog: timedelta
    tell: Callable[[str], None]
    give_up: datetime
    done: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    restoring: Restoring = field(default_factory=Restoring)
    unverified: bool = False
    _ticked: datetime | None = None

    # telling

    def did(self, what: str) -> None:
        """Note something that was done or found."""
        self.done.append(what)
        self.tell(f"{self.name}: {what}")

    def expect(self, holds: bool, meant: str, found: object = None) -> None:
        """Raise Unmet unless it holds."""
        if not holds:
            raise Unmet(f"expected: {meant}" + ("" if found is None else f"; found: {found}"))

    def until(self, look: Callable[[], T | None], within: float, what: str) -> T:
        """The first true answer of a look; one that fails for a moment is told, and comes again.

        Raises Unmet when there is none in time, and what a look raises otherwise.
        """
        begun = self.deployment.clock()
        ends = min(begun + timedelta(seconds=within), self.give_up)
        while not (seen := self._looked(look)):
            if self.deployment.clock() >= ends:
                raise Unmet(f"within {(ends - begun).total_seconds():.0f} s this did not come: {what}")
            self.deployment.sleep(POLL)
        return seen

    def _looked(self, look: Callable[[], T | None]) -> T | None:
        try:
            return look()
        except (CallFailed, FunctionFailed) as failed:
            if isinstance(failed, CallFailed) and not failed.failure.may_pass:
                raise
            self.did(f"cannot look now, trying again: {failed}")
            return None

    # decoys

    @property
    def folder(self) -> str:
        """What the keys of this rehearsal's decoys begin with."""
        return f"{decoy.folder(self.policy.s3.prefixes[0], self.rehearsal_id)}{self.name}/"

    def put(self, names: Iterable[str]) -> dict[str, bytes]:
        """Put decoys, and wait until they have had their time; their contents by key."""
        self.restoring.later("decoys removed", self.remove_decoys)
        put = {f"{self.folder}{name}.txt": f"decoy {name} of {self.rehearsal_id}\n".encode() for name in names}
        for key, content in put.items():
            self.rewrite(key, content)
        self.did(f"put {len(put)} decoys under {self.folder}")
        self.until(self._all_old, 60 + self.policy.retain.rest.total_seconds(), "the decoys have had their time")
        return put

    def rewrite(self, key: str, content: bytes) -> None:
        """Put one decoy, or what a later writer would put there."""
        self.backstage.decoys.put(self.policy.s3.bucket, key, content)

    def versions(self) -> dict[str, list[Item]]:
        """Versions and delete markers of the decoys by key, the newest first."""
        found: dict[str, list[Item]] = defaultdict(list)
        for item in listed(self.deployment, self.policy, self.folder):
            found[item.key].append(item)
        return found

    def gone(self, keys: Iterable[str]) -> None:
        """Expect each to be hidden by exactly one delete marker, with its version behind it."""
        seen = self.versions()
        for key in keys:
            markers = sum(item.is_marker for item in seen[key])
            hidden = bool(seen[key]) and seen[key][0].is_marker
            self.expect(hidden and markers == 1, f"{key} is hidden by one delete marker", f"{markers} markers")

    def there(self, contents: Mapping[str, bytes]) -> None:
        """Expect each to be there with these bytes."""
        for key, content in contents.items():
            now = self.backstage.decoys.read(self.policy.s3.bucket, key)
            self.expect(now == content, f"{key} is there, byte for byte", "nothing" if now is None else "other bytes")

    def remove_decoys(self) -> None:
        """Remove every version of the rehearsal's decoys."""
        rub_out(self.deployment, self.policy, self.folder)

    def _all_old(self) -> bool:
        cut = cutoff(self._whole_second(), self.policy.retain)
        return all(
            item.last_modified is not None and item.last_modified < cut
            for each in self.versions().values()
            for item in each
        )

    def _whole_second(self) -> datetime:
        return self.deployment.clock().replace(microsecond=0)

    # changes

    def change(self, change: str, **fields: object) -> Mapping[str, object]:
        """Ask control for a change, as every command does."""
        answer = self.deployment.control.change(change, fields, self.reason)
        self.unverified = self.unverified or bool(answer.get("unverified"))
        result = answer["result"]
        assert isinstance(result, Mapping)
        return result

    def start(self, **fields: object) -> str:
        """Start a run, which this rehearsal ends if it does not end by itself; its id."""
        at = self._whole_second()
        self._follow(str(RunId(self.policy.id, at)))
        asked = {"policy": self.policy.id, "scheduled_time": rfc3339(at), **fields}
        started = str(self.change("run_start", **asked)["run_id"])
        self.did(f"started {started}")
        return started

    def plan_first(self, put: Mapping[str, bytes]) -> RunView:
        """Plan, and stop there: a report of the same policy, which an approval lets go on."""
        run_id = self.start(mode="report")
        view = self.until(lambda: self._seen(run_id, RunState.REPORTED), PLANNED_WITHIN, f"{run_id} is reported")
        self.expect(view.planned == len(put), f"a plan of {len(put)} decoys", view.planned)
        return view

    def approve(self, view: RunView) -> None:
        """Let a planned run go on."""
        self.change("run_approve", run_id=view.run_id, digest=view.digest)
        self.did("approved its plan")

    def pause(self) -> None:
        """Pause the policy."""
        self.restoring.later(f"{self.policy.id} resumed", self._resume)
        self.change("pause", scope=self.policy.id)
        self.did(f"paused {self.policy.id}")

    def resume(self) -> datetime:
        """End the pause; when that was."""
        at = self.deployment.clock()
        self._resume()
        return at

    def hold(self, prefix: str) -> None:
        """Hold what is under a prefix of the bucket."""
        scope = self.policy.s3.address(prefix)
        self.restoring.later(f"{scope} released", lambda: self.release(scope))
        self.change("hold_add", scope=scope)
        self.did(f"held {scope}")

    def release(self, scope: str) -> None:
        """Release a hold if it stands."""
        if any(hold.active and hold.scope == scope for hold in self.deployment.ledger.controls().holds):
            self.change("hold_release", scope=scope)
            self.did(f"released {scope}")

    def faulty_worker(self, handler: str) -> None:
        """Put a worker with faults in place until `mend_worker`, or the end."""
        ours = self.backstage.worker.handler()
        self.restoring.later("the worker's handler put back", lambda: self.mend_worker(ours))
        self.backstage.worker.use(handler)
        self.did("the worker function has a handler that fails at decoys")

    def mend_worker(self, handler: str) -> None:
        """Put the ordinary worker back if it is not there."""
        if self.backstage.worker.handler() != handler:
            self.backstage.worker.use(handler)
            self.did("the worker function has its own handler again")

    def _resume(self) -> None:
        """End the policy's own pause if it stands."""
        if any(each.paused and each.scope == self.policy.id for each in self.deployment.ledger.controls().pauses):
            self.change("resume", scope=self.policy.id)
            self.did(f"resumed {self.policy.id}")

    # runs

    def tick(self) -> None:
        """Run the reconciler now, rather than wait for its minute."""
        now = self.deployment.clock()
        if self._ticked is None or now - self._ticked >= TICK_EVERY:
            self.deployment.functions.tick({"tick": rfc3339(self._whole_second())})
            self._ticked = now

    def view(self, run_id: str) -> RunView:
        """The run as of now."""
        return showing.show(self.deployment.ledger, run_id)

    def jobs(self, run_id: str, *states: JobState) -> list[Job]:
        """The run's jobs in these states, or all."""
        return [job for job in self.deployment.ledger.jobs(run_id) if not states or job.state in states]

    def dispatched(self, run_id: str) -> list[Job]:
        """The jobs of a run, as soon as it is being dispatched."""

        def look() -> list[Job]:
            self.tick()
            return [] if self.view(run_id).state in PLANNED_STATES else self.jobs(run_id)

        return self.until(look, PLANNED_WITHIN, f"{run_id} has jobs on their way")

    def closed(self, run_id: str, within: float = CLOSED_WITHIN, revision: int = 1) -> RunView:
        """The run when its books are closed, for the nth time after so many replays."""
        run = self.deployment.ledger.find(run_id)

        def look() -> RunView | None:
            nonlocal run
            self.tick()
            run = self.deployment.ledger.find(run_id)
            return self.view(run_id) if run.closed and run.report_revision >= revision else None

        view = self.until(look, within, f"{run_id} is closed")
        verdict = verifying.verify(self.deployment.evidence, run_id)
        self.expect(view.balanced is True, f"the books of {run_id} balance")
        self.expect(verdict.holds, f"the evidence of {run_id} holds", "; ".join(verdict.differences))
        return view

    def came(self, view: RunView, deleted: int, skipped: Mapping[str, int], dead: Mapping[str, int]) -> None:
        """Expect a closed run to have come to this, and note it."""
        found = (view.state, view.deleted, dict(view.skipped), dict(view.dead), view.open)
        meant = (RunState.COMPLETED.value, deleted, dict(skipped), dict(dead), 0)
        self.expect(found == meant, _told(*meant), _told(*found))
        self.did(f"{view.run_id}: {_told(*found)}; books balance, evidence holds")

    def copy_of(self, job: Job) -> str:
        """The message of a job, as dispatch sends it."""
        run = self.deployment.ledger.find(job.run_id)
        return message.write(job, run.policy_version, run.cutoff)

    def letters(self, run_id: str) -> list[DeadMessage]:
        """Messages of a run's jobs in the dead-letter queue, as far as one look sees them."""
        found = self.deployment.dead_letters.receive(PEEK)
        return [letter for letter in found if is_of(letter, run_id)]

    def _seen(self, run_id: str, state: RunState) -> RunView | None:
        self.tick()
        view = self.view(run_id)
        self.expect(view.state != RunState.INVALIDATED, f"{run_id} is planned", f"{view.reason}: {view.message}")
        return view if view.state == state else None

    def _follow(self, run_id: str) -> None:
        self.runs.append(run_id)
        self.restoring.later(f"{run_id} ended", lambda: self.end(run_id))

    def followed(self, run_id: str) -> None:
        """Remember a run that a change started, such as an undo."""
        self._follow(run_id)

    def end(self, run_id: str) -> None:
        """Let nothing of a run stay open: invalidated if it is not closed, its dead jobs resolved."""
        if self.deployment.ledger.run(RunId.parse(run_id)) is None:
            return
        if self.view(run_id).closed_at is None:
            self._invalidate(run_id)
            self.did(f"invalidated {run_id}")
            self.give_up = self.deployment.clock() + timedelta(seconds=ENDED_WITHIN)
            self.until(lambda: self._ended(run_id), ENDED_WITHIN, "it is invalidated, and closes with a later tick")
        dead = [job.job_id for job in self.jobs(run_id, JobState.DEAD) if job.resolved_at is None]
        if dead:
            self.change("dlq_resolve", jobs=dead)
            self.did(f"resolved the dead jobs of {run_id}")
        if self.jobs(run_id, JobState.DEAD):
            self.forget_letters(run_id)

    def forget_letters(self, run_id: str) -> bool:
        """Take the messages of a run's jobs out of the dead-letter queue; whether one look saw any."""
        queue = self.backstage.queue.letters()
        ours = [letter for letter in queue.receive(PEEK) if is_of(letter, run_id)]
        return bool(ours) and not queue.remove(ours)

    def _invalidate(self, run_id: str) -> None:
        try:
            self.change("run_invalidate", run_id=run_id)
        except ChangeRefused as refused:
            if refused.code != "completed":  # meanwhile: then it closes by itself
                raise

    def _ended(self, run_id: str) -> bool:
        self.tick()
        return self.view(run_id).closed_at is not None


def is_of(letter: DeadMessage, run_id: str) -> bool:
    """Whether a message is that of a job of the run."""
    try:
        return message.read(letter.body).run_id == run_id
    except message.Malformed:
        return False


def listed(deployment: Deployment, policy: Policy, prefix: str) -> Iterable[Item]:
    """Every version and delete marker under a prefix of the policy's bucket, the newest of a key first."""
    bucket, key, version, more = deployment.bucket(policy.s3.bucket), "", "", True
    while more:
        page = bucket.list_versions(prefix, key, version)
        yield from page.items
        key, version, more = page.next_key, page.next_version, page.truncated


def rub_out(deployment: Deployment, policy: Policy, prefix: str) -> int:
    """Remove every version and delete marker of decoys under a prefix; how many. Raises Unmet where one stays."""
    scope = policy.s3.prefixes[0]

    def decoys() -> list[Item]:
        return [item for item in listed(deployment, policy, prefix) if decoy.is_decoy(scope, item.key)]

    found = decoys()
    for first in range(0, len(found), RUBBED_OUT):
        deployment.bucket(policy.s3.bucket).remove_versions(found[first : first + RUBBED_OUT])
    left = decoys() if found else []
    if left:
        raise Unmet(f"{left[0].key} could not be removed (s3:DeleteObjectVersion)")
    return len(found)


def _told(state: str, deleted: int, skipped: Mapping[str, int], dead: Mapping[str, int], still_open: int) -> str:
    """`completed, 8 deleted, 2 skipped (held)`."""
    parts = [state, f"{deleted} deleted"]
    parts += [f"{count} skipped ({why})" for why, count in sorted(skipped.items())]
    parts += [f"{count} dead ({why})" for why, count in sorted(dead.items())]
    return ", ".join(parts + ([f"{still_open} open"] if still_open else []))

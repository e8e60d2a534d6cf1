"""What an attempt comes to: one pure function from what happened to the job's next state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice

from sexton.errors import EFFECT_UNKNOWN, Failure, ReasonClass
from sexton.item import Item
from sexton.job import MAX_SPLIT_OFF, Job, Span
from sexton.outcome import Ending, Outcome
from sexton.table import Change

OUT_OF_TIME = "out_of_time"
STOPPED = "stopped"
INVALIDATED = "invalidated"
EVIDENCE_ALTERED = "evidence_altered"
BREAKER = "breaker"
RECORDS_CHANGED = "records_changed"
TRANSACTION_FULL = "transaction_full"
# What DynamoDB calls a transaction, or one record in it, that is too large or becomes what it does not take.
UNFIT = frozenset({"ValidationException", "ValidationError", "ItemCollectionSizeLimitExceeded"})
PARKED = (STOPPED, BREAKER)  # the events of a release whose message can go: resuming dispatches the job again


@dataclass
class Attempt:
    """What one attempt came to. `open` are the indexes it began with, in order, and `items` what they name.

    `looked` are those that it saw afresh. `whole` is the failure of a call that concerned no single key. `stop`
    says why it ended before it was through. `changes` go with the settlement in one transaction, by index; their
    outcomes, already among `outcomes`, are true only if that goes through. `looked_at`: when the oldest thing that they
    rest on was read.
    """

    open: Collection[int]
    items: Mapping[int, Item] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    looked: set[int] = field(default_factory=set)
    whole: Failure | None = None
    stop: str | None = None
    changes: dict[int, Change] = field(default_factory=dict)
    looked_at: datetime | None = None

    def without_changes(self, failure: Failure) -> Attempt:
        """What it came to where the transaction did not go: nothing was changed, for this reason."""
        outcomes = [each for each in self.outcomes if each.index not in self.changes]
        of_one = failure.code in UNFIT and len(self.changes) == 1 < len(self.open)  # others may well go without it
        if failure.reason_class is ReasonClass.PERMANENT and not of_one:
            return replace(self, outcomes=outcomes, whole=failure, changes={})
        failures = {**self.failures, **dict.fromkeys(self.changes, failure)}
        return replace(self, outcomes=outcomes, failures=failures, changes={})

    def halved(self) -> Attempt:
        """The first half of its changes: the rest, and whatever was said of the same records, is left."""
        kept = dict(islice(self.changes.items(), len(self.changes) // 2))
        dropped = {self.items[index].key for index in self.changes if index not in kept}
        outcomes = [each for each in self.outcomes if each.key not in dropped]
        return replace(self, outcomes=outcomes, changes=kept, stop=TRANSACTION_FULL)

    @property
    def left(self) -> list[int]:
        """The indexes that still have no outcome."""
        ended = {outcome.index for outcome in self.outcomes}
        return [index for index in self.open if index not in ended]

    @property
    def unknown(self) -> bool:
        """Whether an effect of this attempt may have happened without our knowing."""
        return any(failure.unknown_effect for failure in self.failures.values())

    @property
    def saw_all_left(self) -> bool:
        """Whether it looked at every item that still has no outcome."""
        return self.looked.issuperset(self.left)


class Kind(StrEnum):
    """The states that a settlement leads to."""

    SUCCEED = "succeeded"
    RELEASE = "released"
    DIE = "died"
    CANCEL = "cancelled"


@dataclass(frozen=True, slots=True)
class Next:
    """How a job is settled.

    `event` names a release or the reason of a death; `refund`: the attempt does not count; `split_off` are
    failing items that leave for rows of their own; `at_once`: there is nothing to wait for.
    """

    kind: Kind
    event: str = ""
    failure: Failure | None = None
    maybe_done: bool = False
    refund: bool = False
    at_once: bool = False
    split_off: tuple[int, ...] = ()


def next_step(job: Job, attempt: Attempt, attempts_used_up: bool, too_old: bool) -> Next:
    """Judge an attempt. Total: every attempt has a next step, and `dead` only ever with every effect known."""
    maybe_done = attempt.unknown or (job.maybe_done and not attempt.saw_all_left)
    if not attempt.left:
        return Next(Kind.SUCCEED)
    if attempt.stop in (STOPPED, INVALIDATED):
        return _stopped(attempt, maybe_done)
    if attempt.whole is not None and attempt.whole.reason_class is ReasonClass.PERMANENT:
        return _refused(job, attempt.whole, maybe_done)
    permanent = [i for i in attempt.left if _class_of(attempt, i) is ReasonClass.PERMANENT]
    if permanent:
        return _permanent(job, attempt, permanent, maybe_done)
    return _again(attempt, attempts_used_up, too_old, maybe_done)


def _class_of(attempt: Attempt, index: int) -> ReasonClass | None:
    failure = attempt.failures.get(index)
    return failure.reason_class if failure else None


def _stopped(attempt: Attempt, maybe_done: bool) -> Next:
    """The run is not at work any more. Of an invalidated one, with every effect known, the rest is cancelled."""
    if maybe_done or attempt.stop == STOPPED:
        refund = bool(attempt.outcomes) or not attempt.failures
        return Next(Kind.RELEASE, STOPPED, maybe_done=maybe_done, refund=refund, at_once=True)
    return Next(Kind.CANCEL)


def _refused(job: Job, failure: Failure, maybe_done: bool) -> Next:
    """The whole is refused for good, as where a permission is missing: that is one mistake, not one of every job.

    So the job is given back and its run halted. A job that this was done to before, since it was last replayed, dies:
    nobody mended it.
    """
    given_back = any(entry.event == BREAKER for entry in job.since_replay)
    if failure.code == EVIDENCE_ALTERED or given_back:
        return _die(failure, maybe_done)
    return Next(Kind.RELEASE, BREAKER, failure, maybe_done, refund=True, at_once=True)


def _die(failure: Failure, maybe_done: bool) -> Next:
    if maybe_done:
        return Next(Kind.RELEASE, EFFECT_UNKNOWN, failure, maybe_done=True)
    return Next(Kind.DIE, failure.code, failure)


def _permanent(job: Job, attempt: Attempt, permanent: Sequence[int], maybe_done: bool) -> Next:
    """Items that fail for good are split off, unless it is really the job: all of it, or too many of it."""
    failure = attempt.failures[permanent[0]]
    if _refused_whole(attempt, permanent):
        return _refused(job, failure, maybe_done) if len(permanent) > 1 else _die(failure, maybe_done)
    if job.items_split_off + len(permanent) > MAX_SPLIT_OFF:
        return _die(failure, maybe_done)
    if len(permanent) == len(attempt.left):
        return Next(Kind.SUCCEED, maybe_done=maybe_done, split_off=tuple(permanent))
    # Whether the rest has attempts and age left is judged when it is claimed: those that leave must leave first.
    rest = _again(attempt, attempts_used_up=False, too_old=False, maybe_done=maybe_done)
    return replace(rest, split_off=tuple(permanent))


def _refused_whole(attempt: Attempt, permanent: Sequence[int]) -> bool:
    """Whether nothing went, and all that is left was refused alike: as a call is that lacks a permission."""
    nothing_went = not any(each.ending is Ending.DELETED for each in attempt.outcomes)
    alike = len({attempt.failures[index].code for index in permanent}) == 1
    return nothing_went and alike and len(permanent) == len(attempt.left)


def _again(attempt: Attempt, attempts_used_up: bool, too_old: bool, maybe_done: bool) -> Next:
    """Everything left may go through later, if attempts and age allow."""
    failed = _worst(attempt.failures)
    if attempt.stop in (OUT_OF_TIME, TRANSACTION_FULL) and attempt.outcomes and not too_old:
        return Next(Kind.RELEASE, attempt.stop, failed, maybe_done, refund=True, at_once=failed is None)
    failure = attempt.whole or failed or _out_of_time()
    throttled = failure.reason_class is ReasonClass.THROTTLED
    if too_old or (attempts_used_up and not throttled):
        return _die(failure, maybe_done)
    event = ReasonClass.THROTTLED if throttled else ReasonClass.TRANSIENT
    return Next(Kind.RELEASE, event.value, failure, maybe_done, refund=throttled)


def _worst(failures: Mapping[int, Failure]) -> Failure | None:
    """Of what may pass: a transient one before a throttled one, so that an attempt is given back only when
    throttling alone was the trouble."""
    passing = [each for each in failures.values() if each.reason_class is not ReasonClass.PERMANENT]
    return min(passing, key=lambda each: each.reason_class is ReasonClass.THROTTLED, default=None)


def _out_of_time() -> Failure:
    return Failure(ReasonClass.TRANSIENT, OUT_OF_TIME, "the function's time ended before any item had an outcome")


def ranges(open_indexes: Sequence[int]) -> list[list[int]]:
    """Cut the open indexes of a crashed job into at most twenty neighbouring groups, at least two."""
    size = max(1, -(-len(open_indexes) // MAX_SPLIT_OFF))
    return [list(open_indexes[at : at + size]) for at in range(0, len(open_indexes), size)]


def span_of(group: Sequence[int]) -> Span:
    """The range that a group of open indexes takes up."""
    return Span(start=group[0], end=group[-1] + 1)

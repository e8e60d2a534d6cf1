"""Records of a table, as a target of an application's own cleanup: one call for the one record of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from sexton import attributes
from sexton.attributes import LARGEST, Attribute
from sexton.endpoint_action import FieldUnfit, HttpAction
from sexton.errors import EFFECT_UNKNOWN, CallFailed, Failure, ReasonClass
from sexton.http_call import HttpAnswer, HttpCall
from sexton.item import Item, ItemId
from sexton.job import Job
from sexton.observing import Seen
from sexton.ports import Endpoints, Removed
from sexton.run import Place
from sexton.target import AnyTarget, Listed, Page

UNAUTHORIZED, REQUEST_TIMEOUT, THROTTLED, UNAVAILABLE = 401, 408, 429, 503
HAS_BODY = ("POST", "PUT", "PATCH")

Numbered = Sequence[tuple[int, Item]]


class ListedRecords(Listed, Protocol):
    """Records that are found, and looked at."""

    def at_key(self, key: str) -> Item | None:
        """The record of a key as it is now."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that is called for records, which are listed and looked at as they are for any other action.

    `job_id`: for which job; a call can only be made for one. It names the call, over all attempts and replays.
    """

    records: ListedRecords
    action: HttpAction
    endpoints: Endpoints
    policy_id: str
    job_id: str = ""

    def of_job(self, job_id: str) -> Endpoint:
        """The same for one job."""
        return replace(self, job_id=job_id)

    @property
    def repeatable(self) -> bool:
        """Whether a call that may have been carried out may be made again."""
        return self.action.idempotent

    @property
    def ranges(self) -> int:
        """Those of the records."""
        return self.records.ranges

    def page(self, place: Place) -> Page:
        """One of the records."""
        return self.records.page(place)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """Records have none."""
        return items

    def at_key(self, key: str) -> Item | None:
        """The record of a key as it is now."""
        return self.records.at_key(key)

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """The records as they are; a worker waits for its turn before, so that the look is fresh when it calls."""
        if self.job_id:
            self.endpoints.await_turn(self.policy_id, self.action.pause)
        return self.records.observe(items, span, begun)

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """Each item by itself."""
        return ([each] for each in items)

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """One call. Raises CallFailed where nothing was done, for a reason that is no single item's."""
        (item,) = items
        return {item.id: self._called(item)}

    def request_timeout(self) -> timedelta:
        """That of a call, and the wait for its turn."""
        return self._timeout + self.action.pause

    @property
    def _timeout(self) -> timedelta:
        return min(self.action.timeout, self.endpoints.request_timeout())

    def _called(self, item: Item) -> Removed | Failure:
        try:
            call = self._call(item)
        except FieldUnfit as unfit:
            return Failure(ReasonClass.PERMANENT, "field_unfit", str(unfit))
        try:
            came = judged(self.action, self.endpoints.call(call))
        except CallFailed as failed:
            if not failed.failure.unknown_effect and failed.failure.reason_class is ReasonClass.PERMANENT:
                raise
            came = failed.failure
        return came if isinstance(came, Removed) or self.repeatable else once_only(came)

    def _call(self, item: Item) -> HttpCall:
        assert self.job_id, "a call is made for a job"
        key, seen = attributes.parse(item.key), attributes.parse(item.etag)
        url = self.action.expand({name: _text(value) for name, value in {**seen, **key}.items()})
        body = None
        if self.action.method in HAS_BODY:
            plain = {name: _plain(value) for name, value in key.items()}
            named = {"policy": self.policy_id, "job": self.job_id, "key": plain, "deadline": item.version_id}
            body = json.dumps(named, sort_keys=True, separators=(",", ":")).encode("ascii")
        action = self.action
        return HttpCall(action.method, url, action.hosts, action.headers, self.job_id, body, self._timeout)


def for_job(target: AnyTarget, job: Job) -> AnyTarget:
    """The same target, for one job."""
    return target.of_job(job.job_id) if isinstance(target, Endpoint) else target


def judged(action: HttpAction, answer: HttpAnswer) -> Removed | Failure:
    """What an answer means: done is what the policy says and nothing else.

    Raises CallFailed where the caller is not known: that is one mistake, not one of every record.
    """
    status, code = answer.status, f"http_{answer.status}"
    summary = f"{status} {answer.reason}".strip()
    if status in action.success:
        return Removed()
    if status in action.gone:
        return Failure(ReasonClass.GONE, code, summary)
    if status == THROTTLED or (status == UNAVAILABLE and answer.retry_after is not None):
        return Failure(ReasonClass.THROTTLED, code, summary, retry_after=answer.retry_after)
    if status == REQUEST_TIMEOUT or not 200 <= status < 500:
        return Failure(ReasonClass.TRANSIENT, code, summary, unknown_effect=True, retry_after=answer.retry_after)
    if status == UNAUTHORIZED:
        raise CallFailed(Failure(ReasonClass.PERMANENT, code, summary))
    if status < 300:
        summary = f"{summary}: no success by the policy, though the call may have been carried out"
    return Failure(ReasonClass.PERMANENT, code, summary)


def once_only(failure: Failure) -> Failure:
    """The same where a call must not be repeated: what may have been carried out is a person's to judge."""
    answered = failure.code.removeprefix("http_")
    unsure = failure.unknown_effect or (answered.isdigit() and int(answered) < 400)
    if not unsure:
        return failure
    summary = f"{failure.code}: {failure.summary}; the call may have been carried out, and must not be repeated"
    return Failure(ReasonClass.PERMANENT, EFFECT_UNKNOWN, summary)


def _text(value: Attribute | None) -> str | None:
    """A text, a number or a truth value as a URL has it; None of whatever else."""
    if not value:
        return None
    ((kind, given),) = value.items()
    if kind == "BOOL":
        return "true" if given else "false"
    return str(given) if kind in ("S", "N") else None


def _plain(value: Attribute) -> str | int:
    """A key's value in JSON: whole numbers as such, if every reader takes them for the same; all else as text."""
    ((kind, given),) = value.items()
    whole = kind == "N" and str(given).lstrip("-").isdigit()
    return int(given) if whole and abs(int(given)) <= LARGEST else str(given)

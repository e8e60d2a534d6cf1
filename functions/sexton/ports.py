"""What the core needs of the outside world: each has a real adapter in `aws/` and a fake for the tests.

Every method may raise CallFailed when the call failed as a whole. A port call is the unit of a crash: between
any two of them the process may end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from sexton.attributes import Attributes
from sexton.elsewhere import Elsewhere
from sexton.errors import Failure
from sexton.http_call import HttpAnswer, HttpCall
from sexton.item import Item, ItemId
from sexton.record_source import RecordSource
from sexton.table import Change, Check, Delete, Key, Row, Update, Write, Written

Clock = Callable[[], datetime]  # aware, UTC
Token = Callable[[], str]  # a new unique id each time
TimeLeft = Callable[[], timedelta]  # until the function is stopped


class Log(Protocol):
    """One event per transition: a fixed snake_case name and the job's or run's own fields. No port call."""

    def __call__(self, event: str, **fields: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of rows; `next` continues it, None at the end. A page may be empty and still have a next."""

    rows: list[Row]
    next: str | None


class Table(Protocol):
    """The ledger's table: conditional writes, consistent reads."""

    def get(self, key: Key) -> Row | None:
        """The row as of now (strongly consistent), or None."""

    def write(self, write: Write) -> Written:
        """Apply one conditional write; Refused carries the row it met."""

    def transact(self, writes: Sequence[Write | Check | Change]) -> Written:
        """Apply all or none (at most 100); Refused carries index and row of the first that did not hold.

        Of a refused Change there is no row: a record is none of ours to carry about.
        """

    def query(self, pk: str, prefix: str = "", after: str | None = None, descending: bool = False) -> Rows:
        """Rows of a partition whose sort key starts with `prefix`, in order, strongly consistent.

        `after` is an earlier page's `next`.
        """

    def query_open(self, open_pk: str, prefix: str = "", up_to: str | None = None, after: str | None = None) -> Rows:
        """Rows of the sparse `open` index, eventually consistent, ascending by `open_sk`.

        `prefix`: the sort key starts with it. `up_to`: or it lies between `prefix` and this, both included.
        """


class Evidence(Protocol):
    """The evidence bucket. Contents are given and returned uncompressed; `.gz` keys are stored gzipped."""

    def put_once(self, key: str, content: bytes) -> bool:
        """Write under a key that must be new. False when the key is taken (then nothing was written)."""

    def get(self, key: str) -> bytes | None:
        """The content, None when there is none."""

    def list(self, prefix: str) -> Iterable[str]:
        """The keys under a prefix, ascending."""


@dataclass(frozen=True, slots=True)
class Send:
    """One message to send: `id` is the job's, `group` the policy's."""

    id: str
    body: str
    group: str


class Queue(Protocol):
    """The jobs queue, to send."""

    def send(self, messages: Sequence[Send]) -> Mapping[str, Failure]:
        """Send up to 10 messages; returns the failures by id, empty when all were taken.

        Raises CallFailed when the call failed as a whole: any of them may have been taken.
        """


class Deliveries(Protocol):
    """The jobs queue, as the worker sees it: a received message can only be hidden for longer or shorter."""

    def hide(self, receipt: str, wait: timedelta) -> None:
        """Let the message come again after `wait` (0 s to 12 h).

        A receipt that is no longer valid is no error: the message comes again by itself.
        """


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a source's listing, ascending by key. `truncated`: there is more after the last item."""

    items: Sequence[Item]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Versions:
    """A page of a bucket's versions and delete markers: by key ascending, within a key the newest first.

    Items have `rank` 0 where S3 says that they are the latest, else 1; the rest is for the reader to work out.
    `next_key` and `next_version` continue a truncated page; both are empty at the end.
    """

    items: Sequence[Item]
    truncated: bool
    next_key: str = ""
    next_version: str = ""


@dataclass(frozen=True, slots=True)
class Removed:
    """The store took the removal of one item. `marker_version_id`: of the delete marker it placed.

    `effect`: what it comes to where it is no plain removal.
    """

    marker_version_id: str | None = None
    effect: str | None = None


class Bucket(Protocol):
    """One S3 bucket with items, every call with its expected owner."""

    def versioning(self) -> str:
        """`Enabled`, `Suspended` or `Unversioned`."""

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Listing:
        """One page (one call) of current objects under `prefix` whose keys sort after `start_after`.

        Order is that of UTF-8 bytes. Keys are byte-exact.
        """

    def head(self, key: str) -> Item | None:
        """The current object (one call), None when it is absent."""

    def remove(self, items: Sequence[Item]) -> Mapping[str, Removed | Failure]:
        """Remove up to 1,000 items, each only if its ETag is still the one given; by key what came of it.

        One call for all keys that XML 1.0 can carry, one call for each other. No call is retried: a failure
        of a whole call is given for each of its keys, with `unknown_effect` where the store may have acted.
        """

    def list_versions(self, prefix: str, after_key: str = "", after_version: str = "", limit: int = 1000) -> Versions:
        """One page (one call) of versions and delete markers under `prefix`.

        It goes on after `after_version` of `after_key`, or after all of `after_key` when no version is given.
        """

    def remove_versions(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """Remove up to 1,000 versions or delete markers by their ids; by item id what came of it.

        One call for all keys that XML 1.0 can carry, one call for each other. A version that is locked or under
        legal hold is told from one that may not be removed. No call is retried, as with `remove`.
        """

    def list_uploads(self, prefix: str, after_key: str = "", after_upload: str = "", limit: int = 1000) -> Versions:
        """One page (one call) of incomplete multipart uploads; the upload id stands as the item's version id."""

    def abort_upload(self, item: Item) -> Removed | Failure:
        """Abort one incomplete upload (one call, not retried)."""

    def tags(self, items: Sequence[Item]) -> Mapping[ItemId, Mapping[str, str] | None]:
        """The tags of each item (one call each, several at a time); None where they could not be read or it is gone.

        Raises CallFailed where the store asks to go slower or does not answer: then none can be told.
        """

    def request_timeout(self) -> timedelta:
        """The longest that one call of `remove` may take."""


class Buckets(Protocol):
    """Buckets with items."""

    def __call__(self, name: str, account: str | None = None, /) -> Bucket:
        """The bucket of that name, if it belongs to the account; of the stack's own where none is given."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a read showed it: its primary key, and of what was asked for whatever it has.

    Where a listing went by an index, that index's key is among the values: it was found by that.
    `after`: the key that a listing goes on after.
    """

    key: Attributes
    values: Attributes
    after: Attributes


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page of records. One that shows nothing is the end only if there is no `next`.

    `record_bytes`: about how large each record is, by the capacity that reading the page took.
    """

    records: Sequence[Record]
    next: Attributes | None
    record_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeyShape:
    """The key of a table or an index. `projected`: the attributes that it shows, None for all."""

    partition: str
    sort: str | None = None
    projected: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TableShape:
    """How a table is keyed; `types` are those of all key attributes: `S`, `N` or `B`."""

    keys: KeyShape
    indexes: Mapping[str, KeyShape]
    types: Mapping[str, str]


CHANGED_AT_ONCE = 16  # records of a table that lies elsewhere: as many as a client has connections


class RecordTable(Protocol):
    """One table with records, of which only keys and what a source judges by are read, unless they are archived."""

    def shape(self) -> TableShape:
        """How it is keyed."""

    def query(
        self, source: RecordSource, partition: str, cutoff: datetime, after: Attributes | None = None
    ) -> RecordPage | None:
        """One page of a partition whose timestamps can lie before the cutoff, ascending; eventually consistent.

        It waits where the source's read capacity is used up; None where that would take long: to be asked again.
        """

    def scan(self, source: RecordSource, starts: Mapping[int, Attributes | None]) -> Mapping[int, RecordPage]:
        """One page of each of these segments, all at once; waits as `query` does, and then has none."""

    def get(self, source: RecordSource, keys: Sequence[Attributes], more: Collection[str] = ()) -> Sequence[Record]:
        """The records that there are of these keys, strongly consistent, in no order; with `more` attributes."""

    def read(self, keys: Sequence[Attributes]) -> Sequence[Record]:
        """The same with all their attributes."""

    def change(self, changes: Sequence[Delete | Update]) -> Sequence[Removed | Failure]:
        """Change up to CHANGED_AT_ONCE records, each in a call of its own, all at once; what came of each, in order.

        Whether a refused one is gone or was changed is told by the store. No call is retried, as with a bucket's.
        """

    def request_timeout(self) -> timedelta:
        """The longest that one call may take."""


class RecordTables(Protocol):
    """Tables with records."""

    def __call__(self, name: str, elsewhere: Elsewhere | None = None, run_id: str = "", /) -> RecordTable:
        """The table of that name, in the stack's account and region unless it lies elsewhere.

        `run_id`: for which run a role is assumed. Raises SourceRefused where the stack's own is called elsewhere.
        """


class Endpoints(Protocol):
    """Endpoints of applications, on the public internet."""

    def call(self, call: HttpCall) -> HttpAnswer:
        """One call, never repeated by itself; nothing is kept of the answer but its status and a short reason.

        CallFailed has `unknown_effect` from when anything was sent: then the call may have been carried out.
        """

    def await_turn(self, policy: str, pause: timedelta) -> None:
        """Wait until the pause since this policy's last turn is over."""

    def request_timeout(self) -> timedelta:
        """The longest that one call may take, whatever a policy says."""


class NoEndpoints:
    """For whoever only looks: there is nothing that could be called."""

    def call(self, call: HttpCall) -> HttpAnswer:
        raise AssertionError("nothing is called from here")

    def await_turn(self, policy: str, pause: timedelta) -> None:
        raise AssertionError("nothing is called from here")

    def request_timeout(self) -> timedelta:
        return timedelta()


@dataclass(frozen=True, slots=True)
class Stores:
    """Where items lie: buckets, tables, and evidence with archived records; and what is called for some of them."""

    bucket: Buckets
    records: RecordTables
    evidence: Evidence
    endpoints: Endpoints = field(default_factory=NoEndpoints)


class Discovery(Protocol):
    """The discovery function, to be called by the reconciler and by control."""

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        """Hand it an event and wait for its answer. Raises FunctionFailed when it broke off."""

    def resume(self, run_id: str) -> None:
        """Ask for planning or dispatch to go on (asynchronous; repeatable)."""


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message in the dead-letter queue."""

    message_id: str
    receipt: str
    body: str


@dataclass(frozen=True, slots=True)
class Move:
    """SQS's own task that moves dead letters back to the jobs queue; numbers are about right, None where not told.

    `handle` is empty unless it runs.
    """

    handle: str
    status: str
    moved: int
    to_move: int | None
    max_rate: int | None
    failure: str
    started_at: datetime | None


class DeadLetters(Protocol):
    """The dead-letter queue. Only SQS puts messages into it."""

    def receive(self, hide: timedelta) -> Sequence[DeadMessage]:
        """Up to 10 messages, kept from others for so long; there may be more although it is empty."""

    def remove(self, messages: Sequence[DeadMessage]) -> Mapping[str, Failure]:
        """Delete up to 10 received messages; the failures by message id."""

    def moves(self) -> Sequence[Move]:
        """The latest tasks, newest first."""

    def start_move(self, max_rate: int | None) -> None:
        """Let SQS move all messages back, so many a second at most, or as fast as it finds right."""

    def cancel_move(self, handle: str) -> int:
        """Stop a task; how many messages it had moved."""


class Schedules(Protocol):
    """The policies' schedules, and what feeds the worker: both follow a pause. Every call can be repeated.

    They are a convenience. What stops the work is the pause itself, which discovery and worker read.
    """

    def disable(self, policy: str) -> bool:
        """Switch a policy's schedule off and change nothing else of it. False when it has none."""

    def enable(self, policy: str) -> bool:
        """Switch a policy's schedule on and change nothing else of it. False when it has none."""

    def stop_all(self) -> None:
        """Let the worker get no more messages; those that it has it works on to the end."""

    def start_all(self) -> None:
        """Let the worker get messages again."""


class Events(Protocol):
    """The event bus."""

    def put(self, kind: str, detail: Mapping[str, object]) -> None:
        """Publish one event (at least once)."""


class Gauges(Protocol):
    """Numbers that alarms stand on."""

    def put(self, name: str, value: float, policy: str | None = None) -> None:
        """Publish one gauge; `policy` is its only dimension."""

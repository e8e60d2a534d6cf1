"""What goes on around Sexton: people and programs that use the buckets, the queue's moods, deploys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from sexton.errors import Failure, ReasonClass

from tests.fakes.bucket import ENABLED, FakeBucket
from tests.fakes.queue import Message
from tests.simulation.application import Application
from tests.simulation.faults import Fault
from tests.simulation.oracles.store import Store
from tests.simulation.scenario import Scenario
from tests.simulation.simulated import SimulatedWorld

DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied by a bucket policy")
REDRIVE_COUNTS = timedelta(seconds=60)  # after a job's death
FASTER = 0.2  # of the removals meet somebody who is faster, where that happens at all
COUNTED_APART = (Fault.POISON, Fault.REDRIVEN_EARLY, Fault.REDRIVEN_LATE)  # when they take effect
EVERY = 10.0  # seconds, on average, something happens
IN_BUCKETS = {
    *(Fault.CREATED, Fault.REWRITTEN, Fault.REWRITTEN_SAME, Fault.DELETED, Fault.RESTORED, Fault.LOCKED, Fault.DENIED)
}


class Outside:
    """Does something every few seconds, of the kinds that this history has."""

    def __init__(self, world: SimulatedWorld, scenario: Scenario, store: Store) -> None:
        self.world, self.scenario, self.store = world, scenario, store
        self.weather, self.random = world.weather, world.weather.random
        self.told: Callable[[str], None] = lambda text: None
        self.around: Callable[[], None] = lambda: None  # called before and after each act
        self._acts: dict[Fault, Callable[[], str | None]] = {
            Fault.CREATED: self._create,
            Fault.REWRITTEN: lambda: self._some_key(self._rewrite),
            Fault.REWRITTEN_SAME: lambda: self._some_key(self._rewrite_same),
            Fault.DELETED: lambda: self._complete_upload() or self._some_key(self._delete),
            Fault.RESTORED: self._restore,
            Fault.LOCKED: self._lock,
            Fault.DENIED: self._deny,
            Fault.POISON: self._poison,
            Fault.DUPLICATED: self._duplicate,
            Fault.REORDERED: self._delay,
            Fault.LOST: self._lose,
            Fault.FORGED: self._forge,
            Fault.REDRIVEN_EARLY: self._redrive,
            Fault.REDRIVEN_LATE: self._redrive,
            Fault.STALE_INDEX: self._freeze_index,
            Fault.DEPLOYED: self._deploy,
            Fault.DEPLOYED_BACK: self._deploy_back,
        }
        self.application = Application(world, scenario, store)
        if not world.buckets:
            self._acts = {kind: do for kind, do in self._acts.items() if kind not in IN_BUCKETS}
        if world.tables:
            self._acts |= self.application.acts
        self._to_keys: dict[Fault, Callable[[FakeBucket, str], str]] = {
            Fault.REWRITTEN: self._rewrite,
            Fault.REWRITTEN_SAME: self._rewrite_same,
            Fault.DELETED: self._delete,
        }
        self._mine = [kind for kind in self._acts if self.weather.likely[kind]]

    def keep_acting(self) -> None:
        """One act now, and the next a little later; none once the weather has cleared up."""
        if self._mine and not self.weather.calm:
            kind = self.random.choice(self._mine)
            self._happens(kind, self._acts[kind])
            self.world.scheduler.after(self.random.expovariate(1 / EVERY), self.keep_acting)

    def _happens(self, kind: Fault, do: Callable[[], str | None]) -> None:
        self.around()
        told = do()
        self.around()
        if told is not None:
            self.weather.happened[kind] += kind not in COUNTED_APART
            self.told(told)

    # buckets

    def _bucket(self) -> FakeBucket:
        return self.world.buckets[self.random.choice(sorted(self.world.buckets))]

    def _key(self, bucket: FakeBucket) -> str | None:
        keys = [key for key in bucket.versions if key.startswith("app/") and bucket.current(key)]
        return self.random.choice(keys) if keys else None

    def _create(self) -> str:
        bucket = self._bucket()
        key = f"app/{self.random.randint(0, 20):02d}"
        bucket.put(key, f"new at {self.world.clock()}")
        return f"uploads {key!r}"

    def _some_key(self, do: Callable[[FakeBucket, str], str]) -> str | None:
        bucket = self._bucket()
        key = self._key(bucket)
        return None if key is None else do(bucket, key)

    def _rewrite(self, bucket: FakeBucket, key: str) -> str:
        bucket.put(key, f"rewritten at {self.world.clock()}")
        return f"rewrites {key!r}"

    def _rewrite_same(self, bucket: FakeBucket, key: str) -> str:
        bucket.rewrite(key)
        return f"rewrites {key!r} with the same bytes"

    def _delete(self, bucket: FakeBucket, key: str) -> str:
        bucket.delete(key)
        return f"deletes {key!r}"

    def _complete_upload(self) -> str | None:
        bucket = self._bucket()
        if not bucket.uploads:
            return None
        upload = self.random.choice(sorted(bucket.uploads, key=str))
        del bucket.uploads[upload]
        return f"completes the upload {upload}"

    def race(self, bucket: FakeBucket, keys: Sequence[str], within: float) -> None:
        """While a removal is on its way, somebody is faster with one of its keys."""
        mine = [kind for kind in self._to_keys if self.weather.likely[kind]]
        if mine and not self.weather.calm and self.random.random() < FASTER:
            kind, key = self.random.choice(mine), self.random.choice(sorted(keys))
            self.world.scheduler.after(within * self.random.random(), lambda: self._race(kind, bucket, key))

    def _race(self, kind: Fault, bucket: FakeBucket, key: str) -> None:
        if bucket.current(key) is not None:
            self._happens(kind, lambda: self._to_keys[kind](bucket, key))

    def _restore(self) -> str | None:
        """The newest version is removed by its id: the one behind it becomes current."""
        bucket = self._bucket()
        keys = sorted(key for key, versions in bucket.versions.items() if len(versions) > 1)
        if bucket.state != ENABLED or not keys:
            return None
        key = self.random.choice(keys)
        self.store.looked()
        if bucket.versions[key][-1].item is None:
            self.store.undone.add((self.store.name_of(bucket), key))
        bucket.delete_version(key, bucket.versions[key][-1].id)
        name = self.store.name_of(bucket), key, bucket.versions[key][-1].id
        self.store.current_again[name] = self.world.clock()
        return f"removes the newest version of {key!r}"

    def _lock(self) -> str | None:
        bucket = self._bucket()
        key = self._key(bucket)
        if key is not None:
            bucket.lock(key)
            bucket.lock_version(key, bucket.version_ids(key)[-1])
        return key and f"locks {key!r}"

    def _deny(self) -> str | None:
        bucket = self._bucket()
        key = self._key(bucket)
        if key is not None:
            bucket.failures[key] = DENIED
        return key and f"denies the removal of {key!r}"

    def _poison(self) -> str | None:
        key = self._any_key()
        if key is not None and len(self.world.trace.poison) < 2:
            self.world.trace.poison.add(key)
        return key and f"makes {key!r} end its workers"

    def _any_key(self) -> str | None:
        """Of an object or a record."""
        tables = [sorted(table.records) for table in self.world.tables.values()]
        places = [*([[self._key(self._bucket())]] if self.world.buckets else []), *filter(None, tables)]
        return self.random.choice(self.random.choice(places)) if places else None

    def race_for_records(self, keys: Sequence[str], within: float) -> None:
        """The same for a removal of records."""
        self.application.race(keys, within, self._happens)

    # the queue

    def _message(self) -> Message | None:
        keys = sorted(self.world.queue.messages)
        return self.world.queue.messages[self.random.choice(keys)] if keys else None

    def _duplicate(self) -> str | None:
        message = self._message()
        if message is None:
            return None
        self.world.queue.duplicate(message.message_id)
        self.world.poll()
        return f"delivers {message.message_id} twice"

    def _delay(self) -> str | None:
        message = self._message()
        if message is None:
            return None
        later = self.world.clock() + timedelta(seconds=self.random.uniform(5, 300))
        self.world.queue.messages[message.message_id, message.copy] = replace(message, visible_at=later)
        return f"delays {message.message_id}"

    def _lose(self) -> str | None:
        message = self._message()
        if message is not None:
            self.world.queue.lose(message.message_id)
        return message and f"loses {message.message_id}"

    def _forge(self) -> str | None:
        """A message that claims what the ledger does not say; a few of them are as good as many."""
        if not self.world.queue.sent or self.weather.happened[Fault.FORGED] > 1:
            return None
        claims = json.loads(self.random.choice(self.world.queue.sent).body)
        other = {"end": claims["end"] + 1, "job_id": claims["job_id"] + ".0001", "policy_version": "0" * 64}
        name = self.random.choice(sorted(other))
        self.world.queue.forge(json.dumps({**claims, name: other[name]}))
        self.world.poll()
        return f"sends a message with a wrong {name}"

    def _redrive(self) -> str | None:
        """Somebody moves the dead letters back, soon or late after their jobs died."""
        if not self.world.queue.dead:
            return None
        for dead in self.world.queue.dead:
            row = self._row_of(dead.message)
            if row and row.get("state") == "dead":
                age = self.world.clock().timestamp() * 1000 - row["dead_at"]
                late = timedelta(milliseconds=age) > REDRIVE_COUNTS
                self.weather.happened[Fault.REDRIVEN_LATE if late else Fault.REDRIVEN_EARLY] += 1
        moved = self.world.queue.redrive()
        self.world.poll()
        return f"redrives {len(moved)} dead letters"

    def _row_of(self, message: Message) -> dict[str, object] | None:
        try:
            job_id = json.loads(message.body)["job_id"]
        except (ValueError, KeyError):
            return None
        return next((row for row in self.world.table.rows.values() if row.get("job_id") == job_id), None)

    # the ledger's index, and deploys

    def _freeze_index(self) -> str:
        self.world.table.freeze_index()
        self.world.scheduler.after(self.random.uniform(1, 120), self.world.table.thaw_index)
        return "lets the index fall behind"

    def _deploy(self) -> str:
        policy = self.scenario.others[self.random.choice(sorted(self.scenario.others))]
        self.world.deploy(policy, self.random.uniform(0, 60))
        return f"deploys another version of {policy.id}"

    def _deploy_back(self) -> str | None:
        changed = [each for each, pair in self.world.deployed.items() if pair[1] is not self.scenario.policies[each]]
        if not changed:
            return None
        policy = self.scenario.policies[self.random.choice(sorted(changed))]
        self.world.deploy(policy, self.random.uniform(0, 60))
        return f"deploys the earlier version of {policy.id} again"

"""What a seed draws: buckets with their objects, policies, and how large everything is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Literal

from sexton.policy import Policy
from sexton.record_source import RecordSource

from tests.fakes.bucket import ENABLED, UNVERSIONED, FakeBucket
from tests.fakes.time import START
from tests.fakes.world import World, policy, purge_policy, uploads_policy
from tests.simulation.reminders import Wanted, fill

RETAIN, ANOTHER_DAY = timedelta(days=30), timedelta(days=1)
Kind = Literal["objects", "versions", "uploads", "records"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a policy version means, in the oracles' words: under `prefix`, older than `retain` at the scheduled time.

    Of records, `bucket` is their table, and `wanted` says which of them.
    """

    kind: Kind
    bucket: str
    prefix: str
    retain: timedelta
    versioned: bool = False
    wanted: Wanted | None = None

    @property
    def atomic(self) -> bool:
        """Whether what goes and its record are one transaction."""
        return self.wanted is not None and not self.wanted.elsewhere and not self.wanted.calls

    def cutoff(self, scheduled: datetime) -> datetime:
        return scheduled - self.retain


@dataclass
class Scenario:
    """A world to be: `policies` as first deployed, `others` the versions that a deploy may bring instead."""

    random: Random
    policies: dict[str, Policy] = field(default_factory=dict)
    others: dict[str, Policy] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)  # by policy version
    versioned: dict[str, bool] = field(default_factory=dict)  # by bucket
    minutes: int = 0  # for which things go wrong
    visibility: timedelta = timedelta()

    @staticmethod
    def drawn(random: Random) -> Scenario:
        """One to three policies, most of them alone; seldom two on the same objects."""
        scenario = Scenario(random, minutes=random.randint(5, 12))
        for number in range(random.choice((1, 1, 1, 1, 2, 3))):
            scenario._add_policy(number)
        return scenario

    def _add_policy(self, number: int) -> None:
        random = self.random
        kind: Kind = random.choice((*["objects"] * 3, "versions", "uploads", *["records"] * 3))
        if kind == "records":
            self._add_records_policy(number)
            return
        shared = number and kind == "objects" and random.random() < 0.4
        bucket = "bucket-0" if shared else f"bucket-{number}"
        if shared and self._rule_of("policy-0").kind != "objects":
            bucket = f"bucket-{number}"
        versioned = self.versioned.setdefault(
            bucket, kind == "versions" or (kind == "objects" and random.random() < 0.6)
        )
        for place, retain in ((self.policies, RETAIN), (self.others, RETAIN + ANOTHER_DAY)):
            made = self._policy(kind, f"policy-{number}", bucket, versioned) if place is self.policies else None
            made = made or _changed(self.policies[f"policy-{number}"], retain)
            place[made.id] = made
            self.rules[made.version] = Rule(kind, bucket, "app/", retain, versioned)

    def _add_records_policy(self, number: int) -> None:
        wanted = Wanted.drawn(self.random)
        source = wanted.source(f"table-{number}")
        common = self._common(f"policy-{number}")
        recovery = "archive" if wanted.does == "archive" else "none"
        size = {"job_size": 1} if wanted.calls else {}
        made = Policy.model_validate(
            {**common, "source": source, "action": wanted.action(), "recovery": recovery, **size}
        )
        for place, version, retain in (
            (self.policies, made, RETAIN),
            (self.others, _changed(made, RETAIN + ANOTHER_DAY), RETAIN + ANOTHER_DAY),
        ):
            place[version.id] = version
            self.rules[version.version] = Rule("records", _source(version).name, "", retain, wanted=wanted)

    def _rule_of(self, policy_id: str) -> Rule:
        return self.rules[self.policies[policy_id].version]

    def _policy(self, kind: Kind, policy_id: str, bucket: str, versioned: bool) -> Policy:
        make: Callable[..., Policy] = {"objects": policy, "versions": purge_policy, "uploads": uploads_policy}[kind]
        made = make(**self._common(policy_id), recovery="versioning" if versioned and kind == "objects" else "none")
        source = made.source.model_copy(update={"bucket": bucket})
        return Policy.model_validate({**made.model_dump(exclude_defaults=True), "source": source.model_dump()})

    def _common(self, policy_id: str) -> dict[str, object]:
        """What policies of every kind say."""
        random = self.random
        limits: dict[str, object] = {"max_items": 1000, "max_attempts": random.choice((3, 3, 4, 5)), "max_age": "PT30M"}
        if random.random() < 0.1:
            limits["max_items"] = 2
        return {
            "id": policy_id,
            "retain": f"P{RETAIN.days}D",
            "job_size": random.choice((2, 3, 5)),
            "limits": limits,
            "mode": "report" if random.random() < 0.12 else "enforce",
            "approval": random.choice(("none", "none", "none", "none", "none", "none", "first", "always")),
        }

    # the buckets and tables

    def fill(self, world: World) -> None:
        """Put what the policies mean, and what they must leave alone, into the buckets and tables."""
        for made in self.policies.values():
            rule = self.rules[made.version]
            if rule.wanted is not None:
                table = world.records(_source(made).table, _source(made).elsewhere)
                table.most = self.random.choice((1, 3, 1000))
                fill(table, rule.wanted, rule.retain, self.random)
            elif rule.bucket not in world.buckets:
                bucket = world.bucket(rule.bucket)
                bucket.state = ENABLED if rule.versioned else UNVERSIONED
                bucket.most = self.random.choice((2, 5, 1000))
                self._fill_bucket(rule, bucket, world)

    def _fill_bucket(self, rule: Rule, bucket: FakeBucket, world: World) -> None:
        for number in range(self.random.randint(3, 12)):
            key = f"app/{number:02d}" + ("\x01" if self.random.random() < 0.05 else "")
            for age in self._ages(rule):
                world.clock.move_to(START - age)
                bucket.begin_upload(key) if rule.kind == "uploads" else bucket.put(key, f"{key} {age}")
        world.clock.move_to(START - 3 * RETAIN)
        bucket.put("application", "not in scope")
        bucket.begin_upload("application")
        world.clock.move_to(START)

    def _ages(self, rule: Rule) -> list[timedelta]:
        """Of one key's versions, the oldest first: old, young, and on either side of a cutoff."""
        near = timedelta(seconds=self.random.choice((-600, -60, -1, 0, 1, 60)))
        ages = [self.random.choice((RETAIN * 2, RETAIN * 2, RETAIN * 2, RETAIN / 2, rule.retain + near))]
        more = self.random.randint(0, 2) if rule.kind != "objects" or self.random.random() < 0.2 else 0
        return sorted((*ages, *(RETAIN * self.random.uniform(0.5, 2.5) for _ in range(more))), reverse=True)


def _source(made: Policy) -> RecordSource:
    assert isinstance(made.source, RecordSource)
    return made.source


def _changed(deployed: Policy, retain: timedelta) -> Policy:
    fields = deployed.model_dump(exclude_defaults=True)
    return Policy.model_validate({**fields, "retain": f"P{retain.days}D"})

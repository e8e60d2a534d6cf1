"""The kinds of trouble, and how much of each a history has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """Everything that can go wrong, or come in between."""

    # at a port call
    SLOW = "a call takes seconds"
    BROKEN = "a call fails and did nothing"
    THROTTLED = "a call is throttled"
    REPLY_LOST = "a call acts and its reply is lost"
    APPLIED_LATE = "a call acts after its caller gave it up"
    REPEATED = "the client repeats a call that had acted"
    KILLED_BEFORE = "the function is killed before a call acts"
    KILLED_AFTER = "the function is killed after a call acted"
    LIVES_ON = "a function stands still, maybe for minutes, and lives on past its time"
    KEY_UNSURE = "one key of a removal is answered with an error and may be gone"
    SEND_REFUSED = "the queue takes some messages of a batch and refuses others"
    STALE_INDEX = "the index shows what was"
    # to functions
    TIMED_OUT = "the function's time is over"
    SKEWED = "the function's clock is wrong"
    TICK_MISSED = "a tick does not come"
    TICKS_OVERLAP = "a tick begins before the last one has ended"
    PLANNERS_OVERLAP = "two discoveries are at one run"
    TRIGGERED_TWICE = "a schedule delivers twice"
    TRIGGERED_LATE = "a schedule delivers late"
    # in the queue
    DUPLICATED = "a message is delivered twice"
    REORDERED = "a message comes late, others first"
    LOST = "a message is lost"
    VISIBLE_AGAIN = "a message comes again because nobody answered for it"
    FORGED = "a message that dispatch never sent"
    REDRIVEN_EARLY = "a dead letter is redriven within a minute of its death"
    REDRIVEN_LATE = "a dead letter is redriven later"
    # in the buckets
    CREATED = "an object is created"
    REWRITTEN = "an object is rewritten"
    REWRITTEN_SAME = "an object is rewritten with the same bytes"
    DELETED = "an object is deleted by somebody else"
    RESTORED = "a version becomes current again"
    LOCKED = "an object is locked"
    DENIED = "S3 refuses to remove an object, for good"
    POISON = "an object or record ends every worker that removes it"
    # in the tables with records
    WRITTEN = "a record is created"
    MOVED_ON = "a record gets another deadline"
    GARBLED = "a record gets a deadline that nobody can read"
    RECLASSED = "a record is not what the policy means any more"
    TOUCHED = "a record is rewritten and keeps its deadline"
    TAKEN = "a record is deleted by its application"
    BACK = "a deleted record is there again as it was"
    TABLE_DENIED = "a table refuses removals"
    CONFLICT = "a transaction meets another one"
    CAPACITY_USED_UP = "the read capacity is used up"
    STALE_LISTING = "queries and scans show what was"
    # of the endpoint that is called
    ENDPOINT_BUSY = "an endpoint asks to come later"
    ENDPOINT_REFUSES = "an endpoint refuses"
    ENDPOINT_BROKEN = "an endpoint fails, and may have acted"
    # by nobody
    FORGOTTEN = "nobody looks at a plan until it expires"
    # by deploys
    DEPLOYED = "another version of a policy is deployed"
    DEPLOYED_BACK = "the earlier version is deployed again"


# Those that have few occasions in a history, and take most of them.
SELDOM = {
    Fault.LIVES_ON,
    Fault.SLOW,
    Fault.KEY_UNSURE,
    Fault.SEND_REFUSED,
    Fault.CONFLICT,
    Fault.CAPACITY_USED_UP,
    Fault.SKEWED,
    Fault.TICK_MISSED,
    Fault.TRIGGERED_TWICE,
    Fault.TRIGGERED_LATE,
}
AT_ENDPOINTS = {Fault.ENDPOINT_BUSY, Fault.ENDPOINT_REFUSES, Fault.ENDPOINT_BROKEN}  # these have the fewest
# So many kinds of these would keep most histories from going anywhere, that each is in fewer of them.
OBSTACLES = {
    *(Fault.DELETED, Fault.LOCKED, Fault.DENIED, Fault.REWRITTEN, Fault.REWRITTEN_SAME, Fault.DEPLOYED),
    *(Fault.TABLE_DENIED, Fault.GARBLED, Fault.RECLASSED, Fault.TAKEN),
}
# Calls, by how their names begin, that fare worse in a history: much trouble in one place is another story than a
# little everywhere.
REMOVING = ("removal", "removal", "removal")
FOCUSES = (*REMOVING, "none", "none", "table.write", "evidence.put", "queue", "bucket.list")
EVERYBODY = ("worker", "discovery", "tick", "person")
VICTIMS = (("worker",), ("worker",), ("worker", "tick"), ("discovery",), ("discovery", "worker"), EVERYBODY)
WORSE = 12
PRESENT = 0.4  # of the histories have a kind at all


@dataclass
class Weather:
    """How likely each kind is in this history, and how often each has happened.

    Most histories have a few kinds, and those often: a mixture of everything hides what two of them do together.
    """

    random: Random
    likely: dict[Fault, float]
    happened: Counter[str]
    focus: str = ""  # the calls that fare worse than all others
    victims: tuple[str, ...] = ()  # whose calls fare badly at all
    calm: bool = True  # nothing goes wrong now

    @staticmethod
    def drawn(random: Random) -> Weather:
        """Each kind is in about two of five histories; how often it happens there varies by a factor of ten."""
        likely = {kind: _rate(random, kind) if random.random() < _presence(kind) else 0.0 for kind in Fault}
        return Weather(random, likely, Counter(), random.choice(FOCUSES), random.choice(VICTIMS))

    def strikes(self, kind: Fault, call: str = "") -> bool:
        """Whether this kind happens now; if it does it is counted."""
        rate = self.likely[kind]
        if not rate or self.calm:
            return False
        if call and call.startswith(self.focus):
            rate = min(0.6, rate * WORSE)
        if self.random.random() < rate:
            self.happened[kind] += 1
            return True
        return False


def _presence(kind: Fault) -> float:
    return PRESENT / 3 if kind in OBSTACLES else PRESENT


def _rate(random: Random, kind: Fault) -> float:
    rate: float = 10 ** random.uniform(-2.1, -1.1)
    return min(0.5, rate * (15 if kind in AT_ENDPOINTS else 5)) if kind in SELDOM | AT_ENDPOINTS else rate

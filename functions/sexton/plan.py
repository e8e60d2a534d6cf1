"""A plan as evidence holds it: the list of its parts, and their items as a stream."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from sexton import keys, part
from sexton.breakdown import PLANNED, Breakdown
from sexton.cohort_counts import PlannedCohorts
from sexton.errors import EvidenceAltered, Refused
from sexton.item import Item
from sexton.ledger import parsed
from sexton.money import Money, money
from sexton.policy import Policy
from sexton.ports import Evidence
from sexton.prices import list_prices

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class NoPlan(Refused):
    """The run has no plan in evidence (yet)."""

    code = "no_plan"


class PlannedPart(BaseModel):
    """One part, as `plan.json` lists it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: str
    key: str
    sha256: Sha256
    count: int
    bytes: int
    first_key: str
    last_key: str


class Plan(BaseModel):
    """`plan.json`. `digest` is None where the run was invalidated before its plan was complete.

    `undoes`: of an undo, the run whose delete markers are its items.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    policy: str
    policy_version: Sha256
    scheduled_time: AwareDatetime
    cutoff: AwareDatetime
    mode: str
    undoes: str | None = None
    digest: Sha256 | None
    scanned: dict[str, int]
    planned: int
    planned_bytes: int
    cohorts: PlannedCohorts | None = None
    parts: tuple[PlannedPart, ...]


class PlannedItem(BaseModel):
    """One item of a plan with its place."""

    model_config = ConfigDict(frozen=True)

    part: str
    index: int
    key: str
    etag: str
    size: int
    storage_class: str
    last_modified: AwareDatetime | None
    version_id: str | None = None
    noncurrent_since: AwareDatetime | None = None
    rank: int = 0
    is_marker: bool = False
    tags: Mapping[str, str] | None = None


def read(evidence: Evidence, run_id: str) -> Plan:
    """The plan of a run. Raises BadRunId, NoPlan, or EvidenceAltered when it cannot be read."""
    text = evidence.get(keys.plan(str(parsed(run_id))))
    if text is None:
        raise NoPlan(f"{run_id} has no plan in evidence: it is still being planned, or no such run was")
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        raise EvidenceAltered(f"{keys.plan(run_id)} is no plan: {error.error_count()} fields are wrong") from error


def read_part(evidence: Evidence, planned: PlannedPart) -> list[Item]:
    """The items of a part. Raises EvidenceAltered when they are not those that were planned."""
    lines = evidence.get(planned.key)
    if lines is None:
        raise EvidenceAltered(f"the part {planned.key} is gone")
    found = part.read(lines, planned.sha256)
    if len(found) != planned.count:
        raise EvidenceAltered(f"the part {planned.key} has {len(found)} items, plan.json says {planned.count}")
    return found


def items(evidence: Evidence, plan: Plan) -> Iterator[PlannedItem]:
    """Every item in order; one part is in memory at a time, and only those that are asked for are read."""
    for planned in plan.parts:
        for index, item in enumerate(read_part(evidence, planned)):
            yield _placed(planned, index, item)


def worth(evidence: Evidence, plan: Plan, policy: Policy, at: datetime, region: str, marked: bool) -> Money:
    """What carrying out the plan at a time comes to at list price. `marked`: it would only place delete markers.

    Reads every part. Raises EvidenceAltered when one is not as planned.
    """
    breakdown = Breakdown.of(policy, plan.cutoff)
    for planned in plan.parts:
        for item in read_part(evidence, planned):
            breakdown.add(item, PLANNED, at, marked=marked)
    return money(breakdown, list_prices(), region)


def sample(evidence: Evidence, plan: Plan, size: int, seed: int) -> Iterator[PlannedItem]:
    """`size` items, each set of them as likely as any other, in order; the same for the same plan and seed.

    Only the parts that hold one of them are read.
    """
    wanted = chosen(sum(planned.count for planned in plan.parts), size, seed)
    first = 0
    for planned in plan.parts:
        here = [place - first for place in wanted if first <= place < first + planned.count]
        found = read_part(evidence, planned) if here else []
        yield from (_placed(planned, index, found[index]) for index in here)
        first += planned.count


def chosen(of: int, size: int, seed: int) -> list[int]:
    """`size` different numbers below `of` (all, if there are fewer), ascending, by Floyd's algorithm.

    It draws by `Random.random` alone, whose sequence Python promises to keep for a seed.
    """
    draw = random.Random(seed).random
    picked: set[int] = set()
    for last in range(max(0, of - size), of):
        place = int(draw() * (last + 1))
        picked.add(last if place in picked else place)
    return sorted(picked)


def _placed(planned: PlannedPart, index: int, item: Item) -> PlannedItem:
    return PlannedItem(part=planned.seq, index=index, **item._asdict())

"""Records of a DynamoDB table as a policy means them: which partitions, or the whole table, and which of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
    field_validator,
)

from sexton import elsewhere as places
from sexton.elsewhere import Elsewhere
from sexton.problem import CHECKED, refused
from sexton.selection import sorted_set
from sexton.source import Account
from sexton.timestamp import Name, Timestamp

MOST_SEGMENTS = 16
TABLE_RULE = "a table's name: 3 to 255 of a-z, A-Z, 0-9, '_', '-' and '.'"
DATE_EXAMPLE = "a pattern such as 'due#%Y-%m-%d', with %Y, %m, %d and %H from %Y down"
_STEPS = ("%Y", "%m", "%d", "%H")

Scalar = StrictBool | StrictInt | StrictStr


def check_table(name: str) -> str:
    """Give the table's name back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", name):
        raise refused(f"table {name!r} cannot be the name of a table", TABLE_RULE)
    return name


def check_date_pattern(pattern: str) -> str:
    """Give the pattern back, or raise PydanticCustomError saying what to write instead."""
    found = re.findall(r"%.?", pattern)
    if not found or sorted(found, key=_STEPS.index if set(found) <= {*_STEPS} else None) != [*_STEPS[: len(found)]]:
        raise refused(f"date {pattern!r} names no period (from %Y down, each unit exactly once)", DATE_EXAMPLE)
    return pattern


def _day(text: str) -> str:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise refused(f"since {text!r} is no day", "a day in quotes, such as '2026-01-01'")


class DatePartitions(BaseModel):
    """Partition values that are periods: one for each from the day `since` up to the cutoff, in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[str, AfterValidator(check_date_pattern)]
    since: Annotated[str, AfterValidator(_day)]

    def expand(self, cutoff: datetime) -> Iterator[str]:
        """The periods in order, that of the cutoff the last."""
        step = timedelta(hours=1) if "%H" in self.date else timedelta(days=1)
        at, last = datetime.fromisoformat(self.since).replace(tzinfo=UTC), ""
        while at <= cutoff:
            text = at.strftime(self.date)
            if text != last:
                yield text
            at, last = at + step, text


class Scan(BaseModel):
    """The whole table is read, in so many segments at once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    segments: Annotated[StrictInt, Field(ge=1, le=MOST_SEGMENTS)] = 1


PartitionValue = Annotated[str, Field(min_length=1, max_length=2048)]


def _listed(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise refused("the scope is empty: no partition would mean nothing", "the partitions, such as ['open']")
    return sorted_set(values)


Partitions = Annotated[
    Annotated[Annotated[tuple[PartitionValue, ...], AfterValidator(_listed)], Tag("values")]
    | Annotated[DatePartitions, Tag("dates")],
    Discriminator(lambda value: "dates" if isinstance(value, dict | DatePartitions) else "values"),
]


def _in_order(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    if not values:
        raise refused("the filter has no value, so it would select nothing", "a value, or a list of values")
    return tuple(sorted(set(values), key=lambda each: (type(each).__name__, each)))


Wanted = Annotated[
    tuple[Scalar, ...],
    BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,)),
    AfterValidator(_in_order),
]


class RecordSource(BaseModel):
    """Records of one table whose timestamp has passed.

    They are found by a Query for each of `partitions`, on `index` or on the table's own key, or by `scan`. A record is
    meant where each attribute of `filter` has one of its values. `version_attribute`: what an application counts up
    with each of its writes. `read_capacity`: units a second that planning may use. Where the table does not lie in the
    stack's own account and region, `region` says where it does, and `role_arn` (with `external_id`) as whom.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["dynamodb"]
    table: Annotated[str, AfterValidator(check_table)]
    account: Account | None = None
    region: Annotated[str, AfterValidator(places.check_region)] | None = None
    role_arn: Annotated[Annotated[str, AfterValidator(places.check_role)] | None, CHECKED] = None
    external_id: Annotated[str, AfterValidator(places.check_external_id)] | None = None
    index: Annotated[str, AfterValidator(check_table)] | None = None
    partitions: Partitions | None = None
    scan: Annotated[Scan | None, CHECKED] = None
    timestamp: Timestamp
    filter: dict[Name, Wanted] = Field(default_factory=dict)
    version_attribute: Name | None = None
    read_capacity: Annotated[StrictInt, Field(ge=5, le=40_000)] = 100

    @field_validator("role_arn")
    @classmethod
    def _one_place(cls, role_arn: str | None, info: ValidationInfo) -> str | None:
        if {"account", "region"} <= info.data.keys():
            wrong = places.contradiction(info.data["account"], info.data["region"], role_arn)
            if wrong:
                raise wrong
        return role_arn

    @field_validator("external_id")
    @classmethod
    def _of_a_role(cls, external_id: str | None, info: ValidationInfo) -> str | None:
        if external_id is not None and info.data.get("role_arn", "") is None:
            raise refused("external_id is what a role asks for, and there is none", "role_arn beside it")
        return external_id

    @field_validator("scan")
    @classmethod
    def _one_way_to_find_them(cls, scan: Scan | None, info: ValidationInfo) -> Scan | None:
        if "partitions" not in info.data:
            return scan
        partitions = info.data["partitions"]
        if (partitions is None) == (scan is None):
            what = "neither partitions nor scan say" if scan is None else "partitions and scan both say"
            raise refused(
                f"{what} where the records are", "either partitions or scan: {segments: 4}", at="..partitions"
            )
        if scan is not None and info.data.get("index") is not None:
            raise refused("a scan reads the whole table, whatever the index", "no index, or partitions", at="..index")
        return scan

    _also: frozenset[str] = PrivateAttr(frozenset())

    def reading(self, *attributes: str) -> Self:
        """The same, with records judged by these attributes too, which other fields of the policy name."""
        copy = self.model_copy()
        copy._also = self._also.union(attributes)
        return copy

    @property
    def guarded(self) -> tuple[str, ...]:
        """The attributes that a record was judged by: it is removed only while they are as they were seen."""
        version = (self.version_attribute,) if self.version_attribute else ()
        return tuple(sorted({self.timestamp.attribute, *version, *self.filter, *self._also}))

    @property
    def needs_tags(self) -> bool:
        """Records have none."""
        return False

    @property
    def shows_only_due(self) -> bool:
        """Whether finding nothing is nothing odd: a query stops at the cutoff, a scan shows what is kept, too."""
        return self.scan is None

    @property
    def narrower(self) -> str:
        """How to have less to list, in words."""
        return (
            "name fewer partitions, raise source.read_capacity" if self.scan is None else "raise source.read_capacity"
        )

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the addresses of its items begin with."""
        return (self.address(""),)

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where the table lies, if not beside the ledger: then no transaction takes in both."""
        return Elsewhere(self.region, self.role_arn, self.external_id) if self.region else None

    @property
    def name(self) -> str:
        """The table's name; of one that lies elsewhere with its region and account, which tell it from others."""
        return self.elsewhere.named(self.table) if self.elsewhere else self.table

    @property
    def place(self) -> str:
        """What its items lie in, as people name it."""
        return f"table {self.name}"

    def address(self, key: str) -> str:
        """The address of what is under a key, as holds know it: `dynamodb://table/{"id":{"S":"1"}}`."""
        return f"dynamodb://{self.name}/{key}"

    def partition_values(self, cutoff: datetime) -> tuple[str, ...]:
        """The partitions to query, in order; none where the table is scanned."""
        if isinstance(self.partitions, DatePartitions):
            return tuple(self.partitions.expand(cutoff))
        return self.partitions or ()

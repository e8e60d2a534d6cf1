"""Where a policy's items are: one bucket, some prefixes, and what is meant inside them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from sexton.problem import CHECKED, refuse, refused
from sexton.selection import Exclude, Include, check_key_text, reaches, sorted_set

BUCKET_RULE = "a bucket name: 3 to 63 of a-z, 0-9, '.' and '-', with a letter or digit at both ends"
# Names that S3 keeps for itself: no general purpose bucket has them.
_RESERVED_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def check_bucket(name: str) -> str:
    """Give the bucket's name back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", name) or ".." in name:
        raise refused(f"bucket {name!r} cannot be the name of a bucket", BUCKET_RULE)
    if name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        raise refused(f"bucket {name!r} has a start or end that S3 keeps for itself", "the bucket's own name")
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return name
    raise refused(f"bucket {name!r} looks like an address", BUCKET_RULE)


def check_account(account: str) -> str:
    """Give the id of an AWS account back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"[0-9]{12}", account):
        raise refused(f"account {account!r} is no id of an AWS account", "its 12 digits in quotes: '123456789012'")
    return account


Bucket = Annotated[str, AfterValidator(check_bucket)]
Account = Annotated[str, AfterValidator(check_account)]
# An empty one is let through, so that the refusal of the scope speaks of it.
Prefix = Annotated[str, AfterValidator(lambda text: text and check_key_text(text))]


def _check_scope(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    if not prefixes or "" in prefixes:
        raise refused("the scope is empty: no prefix would mean the whole bucket", "the prefixes, such as ['app/']")
    return sorted_set(prefixes)


class S3Source(BaseModel):
    """Items of one bucket, under its prefixes, as include and exclude say.

    Kind `s3` means objects: the current ones, or with `versions: noncurrent` the versions behind them, but for the
    newest `keep_latest` of each key, and with `purge_markers` the delete markers that hide nothing any more. Kind
    `s3_uploads` means incomplete multipart uploads. `account`: whose bucket it must be; the stack's own without it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["s3", "s3_uploads"]
    bucket: Bucket
    account: Account | None = None
    raw_prefix: StrictBool = False
    prefixes: Annotated[tuple[Prefix, ...], AfterValidator(_check_scope)]
    versions: Literal["current", "noncurrent"] = "current"
    keep_latest: Annotated[StrictInt, Field(ge=0)] = 0
    purge_markers: StrictBool = False
    include: Include = Include()
    exclude: Annotated[Exclude, CHECKED] = Exclude()

    @property
    def shows_only_due(self) -> bool:
        """Whether finding nothing is nothing odd: a bucket's listing shows what is kept, too."""
        return False

    @property
    def narrower(self) -> str:
        """How to have less to list, in words."""
        return "narrow its prefixes"

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the addresses of its items begin with."""
        return tuple(self.address(prefix) for prefix in self.prefixes)

    @property
    def place(self) -> str:
        """What its items lie in, as people name it."""
        return f"bucket {self.bucket}"

    def address(self, key: str) -> str:
        """The address of what is under a key, as holds know it: `s3://bucket/key`."""
        return f"s3://{self.bucket}/{key}"

    @field_validator("kind", mode="before")
    @classmethod
    def _known_kind(cls, kind: Any) -> Any:
        if isinstance(kind, str) and kind not in ("s3", "s3_uploads"):
            raise refused(f"source.kind cannot be {kind}", "kind: s3, s3_uploads or dynamodb")
        return kind

    # As in a policy, each field is checked against those before it that are good in themselves.

    @field_validator("prefixes")
    @classmethod
    def _each_place_once(cls, prefixes: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        raw = info.data.get("raw_prefix", True)
        refuse((*(() if raw else map(_open_ended, filter(_is_open, prefixes))), *_covered(prefixes, raw)))
        return prefixes

    @field_validator("keep_latest", "purge_markers")
    @classmethod
    def _versions_meant(cls, given: Any, info: ValidationInfo) -> Any:
        if given and info.data.get("versions") == "current":
            raise refused(f"{info.field_name} is about noncurrent versions", "versions: noncurrent beside it")
        return given

    @field_validator("include")
    @classmethod
    def _included_globs_reach(cls, include: Include, info: ValidationInfo) -> Include:
        if "prefixes" in info.data:
            refuse(_unreachable(include.globs, info.data["prefixes"]))
        return include

    @field_validator("exclude")
    @classmethod
    def _exclusions_bite(cls, exclude: Exclude, info: ValidationInfo) -> Exclude:
        raw, scope = info.data.get("raw_prefix", True), info.data.get("prefixes", ())
        excluded = (_refusal_of_excluded(prefix, scope, raw) for prefix in exclude.prefixes)
        refuse((*filter(None, excluded), *(_unreachable(exclude.globs, scope) if scope else ())))
        return exclude

    @field_validator("exclude")
    @classmethod
    def _uploads_have_no_bytes(cls, exclude: Exclude, info: ValidationInfo) -> Exclude:
        versions, include = info.data.get("versions", "current"), info.data.get("include", Include())
        bytes_or_tags = (include.min_size, include.max_size) != (None, None) or include.tags or exclude.tags
        if info.data.get("kind") == "s3_uploads" and (versions != "current" or bytes_or_tags):
            raise refused(
                "an incomplete upload has neither versions nor tags, and no listing tells its size",
                "prefixes, suffixes and globs only, or kind: s3",
                at="..kind",
            )
        return exclude

    @property
    def needs_tags(self) -> bool:
        """Whether an item cannot be judged without its tags."""
        return bool(self.include.tags or self.exclude.tags)


def _is_open(prefix: str) -> bool:
    return not prefix.endswith("/")


def _whole(prefix: str, raw: bool) -> str:
    """The prefix as it is meant: up to a delimiter, unless it is raw."""
    return prefix if raw or not _is_open(prefix) else f"{prefix}/"


def _open_ended(prefix: str, at: str = "") -> PydanticCustomError:
    return refused(
        f"prefix {prefix!r} does not end in '/', so it also means {prefix + '-other/'!r}",
        f"{prefix + '/'!r}, or set source.raw_prefix: true if that is what you mean",
        at=at,
        entry=prefix,
    )


def _covered(prefixes: Iterable[str], raw: bool) -> Iterator[PydanticCustomError]:
    """Sorted, a prefix stands right before the first of those that it covers."""
    ordered = sorted((_whole(prefix, raw), prefix) for prefix in prefixes)
    for (outer, _), (inner, entry) in pairwise(ordered):
        if inner.startswith(outer):
            what = f"{outer!r} already covers {entry!r}, which would be planned twice"
            yield refused(what, f"{outer!r} alone", entry=entry)


def _refusal_of_excluded(prefix: str, scope: tuple[str, ...], raw: bool) -> PydanticCustomError | None:
    """Why an excluded prefix would spare all, or nothing, or more than it names; `scope` is empty where it is bad."""
    whole = _whole(prefix, raw)
    if any(each.startswith(whole) for each in scope):
        what = f"excluding {prefix!r} leaves nothing of a prefix of the scope"
        return refused(what, "a longer prefix, or take that prefix out of source.prefixes", at="prefixes", entry=prefix)
    if scope and not whole.startswith(scope):
        what = f"excluded prefix {prefix!r} lies outside the scope, so it spares nothing"
        instead = f"the whole prefix from the bucket's top, such as {scope[0] + whole!r}"
        return refused(what, instead, at="prefixes", entry=prefix)
    return _open_ended(prefix, at="prefixes") if whole != prefix else None


def _unreachable(globs: Iterable[str], scope: tuple[str, ...]) -> Iterator[PydanticCustomError]:
    for glob in globs:
        if not any(reaches(glob, prefix) for prefix in scope):
            yield refused(
                f"glob {glob!r} is matched against whole keys, and none under the prefixes can match it",
                f"{'**/' + glob.removeprefix('/')!r}, or one that begins as the keys do",
                at="globs",
                entry=glob,
            )

"""Where a policy's items are: one bucket, some prefixes, and what is meant inside them."""

from __future__ import annotations

import ipaddress
import re
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from sexton.problem import refused
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
    ordered = sorted_set(prefixes)
    # Sorted, a prefix stands right before the first of those that it covers.
    for outer, inner in pairwise(ordered):
        if inner.startswith(outer):
            raise refused(
                f"{outer!r} already covers {inner!r}, which would be planned twice", f"{outer!r} alone", entry=inner
            )
    return ordered


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
    prefixes: Annotated[tuple[Prefix, ...], AfterValidator(_check_scope)]
    raw_prefix: StrictBool = False
    versions: Literal["current", "noncurrent"] = "current"
    keep_latest: Annotated[StrictInt, Field(ge=0)] = 0
    purge_markers: StrictBool = False
    include: Include = Include()
    exclude: Exclude = Exclude()

    @model_validator(mode="after")
    def _versions_meant(self) -> Self:
        if self.versions == "current":
            for at, given in (("keep_latest", self.keep_latest), ("purge_markers", self.purge_markers)):
                if given:
                    raise refused(f"{at} is about noncurrent versions", "versions: noncurrent beside it", at=at)
        return self

    @model_validator(mode="after")
    def _uploads_have_no_bytes(self) -> Self:
        if self.kind == "s3_uploads":
            sizes = (self.include.min_size, self.include.max_size)
            if self.versions != "current" or sizes != (None, None) or self.needs_tags:
                raise refused(
                    "an incomplete upload has neither versions nor tags, and no listing tells its size",
                    "prefixes, suffixes and globs only, or kind: s3",
                    at="kind",
                )
        return self

    @property
    def needs_tags(self) -> bool:
        """Whether an item cannot be judged without its tags."""
        return bool(self.include.tags or self.exclude.tags)

    @model_validator(mode="after")
    def _prefixes_end_in_delimiter(self) -> Self:
        if self.raw_prefix:
            return self
        for at, prefixes in (("prefixes", self.prefixes), ("exclude.prefixes", self.exclude.prefixes)):
            for prefix in prefixes:
                if not prefix.endswith("/"):
                    raise refused(
                        f"prefix {prefix!r} does not end in '/', so it also means {prefix + '-other/'!r}",
                        f"{prefix + '/'!r}, or set source.raw_prefix: true if that is what you mean",
                        at=at,
                        entry=prefix,
                    )
        return self

    @model_validator(mode="after")
    def _exclusions_bite(self) -> Self:
        for prefix in self.exclude.prefixes:
            if any(scope.startswith(prefix) for scope in self.prefixes):
                raise refused(
                    f"excluding {prefix!r} leaves nothing of a prefix of the scope",
                    "a longer prefix, or take that prefix out of source.prefixes",
                    at="exclude.prefixes",
                    entry=prefix,
                )
            if not prefix.startswith(self.prefixes):
                raise refused(
                    f"excluded prefix {prefix!r} lies outside the scope, so it spares nothing",
                    f"the whole prefix from the bucket's top, such as {self.prefixes[0] + prefix!r}",
                    at="exclude.prefixes",
                    entry=prefix,
                )
        return self

    @model_validator(mode="after")
    def _globs_reach(self) -> Self:
        for at, globs in (("include.globs", self.include.globs), ("exclude.globs", self.exclude.globs)):
            for glob in globs:
                if not any(reaches(glob, prefix) for prefix in self.prefixes):
                    raise refused(
                        f"glob {glob!r} is matched against whole keys, and none under the prefixes can match it",
                        f"{'**/' + glob.removeprefix('/')!r}, or one that begins as the keys do",
                        at=at,
                        entry=glob,
                    )
        return self

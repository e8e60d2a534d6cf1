"""Which keys and sizes a policy means, inside its prefixes.

A glob is matched against the whole key: `*` and `?` stay inside a path segment, `**` as a whole segment stands
for any number of them, `[abc]`, `[a-z]` and `[!abc]` are sets. Matching is by code point and heeds case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, model_validator

from sexton.item import Item
from sexton.problem import refused

KEY_BYTES = 1024  # S3's limit on a key, in bytes of UTF-8

_SET = r"\[!?\]?[^\]/]*\]"

Test = Callable[[Item], bool]


def check_key_text(text: str) -> str:
    """Give text that can be part of a key back, or raise PydanticCustomError."""
    if not text:
        raise refused("the text is empty", "the text that keys have, or leave the entry out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refused(f"{text!r} is no UTF-8", "text that a key can have") from error
    if size > KEY_BYTES:
        raise refused(f"{text[:20]!r}... has {size} bytes and no key has more than {KEY_BYTES}", "less")
    return text


def sorted_set(texts: tuple[str, ...]) -> tuple[str, ...]:
    """In order, so that the order in the file changes no version. Raises PydanticCustomError for a repeat."""
    ordered = sorted(texts)
    for text, following in pairwise(ordered):
        if text == following:
            raise refused(f"{text!r} stands twice in the list", "it once")
    return tuple(ordered)


def glob_regex(glob: str) -> str:
    """The glob as a regular expression for `fullmatch`.

    Each run between two wildcards of a kind is matched at its first place, atomically: a later place can never
    help, since the wildcard after it takes up the slack. So no glob backtracks more than quadratically.
    """
    segments = glob.split("/")
    groups: list[list[str]] = [[]]
    for segment in segments[:-1]:
        if segment == "**":
            groups.append([])
        else:
            groups[-1].append(_segment_regex(segment) + "/")
    first, *later = ["".join(group) for group in groups]
    middle = "".join(f"(?>(?:[^/]*/)*?{group})" for group in later[:-1])
    last = f"(?:[^/]*/)*?{later[-1]}" if later else ""
    end = ".*" if segments[-1] == "**" else _segment_regex(segments[-1])
    return f"(?s:{first}{middle}{last}{end})"


def _segment_regex(segment: str) -> str:
    head, *runs = (_run_regex(run) for run in re.split(r"\*", segment))
    if not runs:
        return head
    return head + "".join(f"(?>[^/]*?{run})" for run in runs[:-1]) + f"[^/]*{runs[-1]}"


def _run_regex(run: str) -> str:
    tokens = re.findall(f"{_SET}|.", run, flags=re.DOTALL)
    return "".join(_token_regex(token) for token in tokens)


def _token_regex(token: str) -> str:
    if token == "?":
        return "[^/]"
    if len(token) == 1:
        return re.escape(token)
    negated = token.startswith("[!")
    members = token[2 if negated else 1 : -1]
    # Only the dash keeps a meaning in a set; a slash is never in one, so that a set stays inside its segment.
    escaped = "".join(char if char == "-" else re.escape(char) for char in members)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"


def reaches(glob: str, prefix: str) -> bool:
    """Whether the glob could match some key under the prefix, as far as the prefix's whole segments tell."""
    whole, segments = prefix.split("/")[:-1], glob.split("/")
    for number, part in enumerate(whole):
        if number < len(segments) and segments[number] == "**":
            return True
        if number >= len(segments) or not re.fullmatch(glob_regex(segments[number]), part):
            return False
    return len(segments) > len(whole)


def check_glob(glob: str) -> str:
    """Give the glob back, or raise PydanticCustomError saying what to write instead.

    What other matchers read as an escape, an alternative or a negation is refused instead of taken literally: an
    exclusion that matches nothing would spare nothing.
    """
    check_key_text(glob)
    outside_sets = re.sub(_SET, "", glob)
    for mark in "\\{[":
        if mark in outside_sets:
            raise refused(
                f"glob {glob!r} has {mark} outside a set", f"[{mark}] for the character, or one glob for each case"
            )
    if "[^" in glob:
        raise refused(f"glob {glob!r} has [^", "[!...] for what is not in the set")
    if any("**" in segment and segment != "**" for segment in glob.split("/")):
        raise refused(f"glob {glob!r} has ** beside other text", "** as a whole segment, as in **/*.log")
    try:
        re.compile(glob_regex(glob))
    except re.error as error:
        raise refused(f"glob {glob!r} has a set that cannot be read", "a set such as [a-z]") from error
    return glob


KeyText = Annotated[str, AfterValidator(check_key_text)]
Glob = Annotated[str, AfterValidator(check_glob)]
KeyTexts = Annotated[tuple[KeyText, ...], AfterValidator(sorted_set)]
Globs = Annotated[tuple[Glob, ...], AfterValidator(sorted_set)]
Bytes = Annotated[StrictInt, Field(ge=0)]
# S3's limits: ten tags, keys of 128 characters, values of 256.
TagKey = Annotated[str, Field(min_length=1, max_length=128)]
TagValue = Annotated[str, Field(max_length=256)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=10)]


class Include(BaseModel):
    """What is meant inside the prefixes: every condition that is given must hold; of a list, one entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suffixes: KeyTexts = ()
    globs: Globs = ()
    min_size: Bytes | None = None
    max_size: Bytes | None = None
    tags: Tags = {}

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.min_size is not None and self.max_size is not None and self.min_size > self.max_size:
            raise refused(
                f"max_size {self.max_size} is below min_size {self.min_size}, so nothing can be selected",
                "a max_size that is not smaller",
                at="max_size",
            )
        return self

    def test(self) -> Test | None:
        """Whether an item is included, or None where everything is."""
        tests = [*_key_tests(self.suffixes, self.globs), *self._size_tests()]
        return _combined(tests, all)

    def tag_test(self) -> Test | None:
        """Whether an item with its tags read has all that are asked for, or None where none are."""
        wanted = self.tags.items()
        return (lambda item: wanted <= (item.tags or {}).items()) if wanted else None

    def _size_tests(self) -> list[Test]:
        low, high = self.min_size, self.max_size
        if low is None and high is None:
            return []
        least = low or 0
        most = float("inf") if high is None else high
        return [lambda item: least <= item.size <= most]


class Exclude(BaseModel):
    """What is spared inside the prefixes: one entry of any list is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefixes: KeyTexts = ()
    suffixes: KeyTexts = ()
    globs: Globs = ()
    tags: Tags = {}

    def tag_test(self) -> Test | None:
        """Whether an item with its tags read has one of those that spare it, or None where none do."""
        sparing = self.tags.items()
        return (lambda item: bool(sparing & (item.tags or {}).items())) if sparing else None

    def test(self) -> Test | None:
        """Whether an item is excluded, or None where nothing is."""
        tests = _key_tests(self.suffixes, self.globs)
        prefixes = self.prefixes
        if prefixes:
            tests.insert(0, lambda item: item.key.startswith(prefixes))
        return _combined(tests, any)


def _combined(tests: list[Test], how: Callable[[Iterable[bool]], bool]) -> Test | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda item: how(test(item) for test in tests)


def _key_tests(suffixes: tuple[str, ...], globs: tuple[str, ...]) -> list[Test]:
    tests: list[Test] = []
    if suffixes:
        tests.append(lambda item: item.key.endswith(suffixes))
    if globs:
        matches = re.compile("|".join(map(glob_regex, globs))).fullmatch
        tests.append(lambda item: matches(item.key) is not None)
    return tests

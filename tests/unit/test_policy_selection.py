"""Globs, against a slow matcher that follows their definition."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from sexton.selection import check_glob, glob_regex, reaches

globs = (
    st.lists(
        st.sampled_from(["**", "*", "a", "b", "*a", "a*b*", "?", "?*b", "[ab]", "[!a]x", ""]), min_size=1, max_size=5
    )
    .map("/".join)
    .filter(bool)
)
keys = st.text("abx/", max_size=14)


def matches(glob: str, key: str) -> bool:
    return re.fullmatch(glob_regex(check_glob(glob)), key) is not None


def defined(glob: str, key: str) -> bool:
    """What a glob means, said without regard to time."""

    @cache
    def segments(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
        if not pattern:
            return not parts
        if pattern == ("**",):
            return bool(parts)
        if pattern[0] == "**":
            return any(segments(pattern[1:], parts[skip:]) for skip in range(len(parts) + 1))
        return bool(parts) and segment(pattern[0], parts[0]) and segments(pattern[1:], parts[1:])

    @cache
    def segment(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(segment(pattern[1:], text[skip:]) for skip in range(len(text) + 1))
        if pattern[0] == "[":
            members, _, rest = pattern[1:].partition("]")
            negated, members = members.startswith("!"), members.removeprefix("!")
            return bool(text) and ((text[0] in members) != negated) and segment(rest, text[1:])
        return bool(text) and pattern[0] in ("?", text[0]) and segment(pattern[1:], text[1:])

    return segments(tuple(glob.split("/")), tuple(key.split("/")))


@given(globs, keys)
def test_a_glob_matches_what_its_definition_says(glob: str, key: str) -> None:
    assert matches(glob, key) == defined(glob, key)


@pytest.mark.parametrize(
    ("glob", "key", "expected"),
    [
        ("**/*.log", "x.log", True),
        ("**/*.log", "a/b/x.log", True),
        ("*.log", "a/x.log", False),
        ("app/**", "app/a/b", True),
        ("app/**", "app/", True),
        ("app/**", "app", False),
        ("**/keep/**", "a/keep/b", True),
        ("**/keep/**", "a/keeper/b", False),
        ("a.c", "abc", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a]", "/", False),
        ("[]]", "]", True),
        ("[[]", "[", True),
        ("[{]x[}]", "{x}", True),
        ("[--a]x", "-x", True),
        ("a]b", "a]b", True),
        ("a*", "a\nb", True),
        ("a+(b)", "a+(b)", True),
        ("100%", "100%", True),
        ("*", "é", True),
        ("?", "😀", True),
    ],
)
def test_globs_by_example(glob: str, key: str, expected: bool) -> None:
    assert matches(glob, key) is expected


@pytest.mark.parametrize(
    "glob", ["**.log", "a/**b/c", "***", "[z-a]", "", "x" * 1025, "\ud800", "[", "[a/b]", "a{b,c}", "a\\*", "[^a]"]
)
def test_a_glob_that_cannot_be_meant_is_refused(glob: str) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        check_glob(glob)


@pytest.mark.parametrize("glob", ["/**/".join(["*a"] * 20), "*a" * 40 + "b", "**/" * 20 + "b", "/".join(["*a*"] * 20)])
@pytest.mark.timeout(60)  # a glob that backtracks without bound would take for ever
def test_every_glob_comes_to_an_end(glob: str) -> None:
    pattern = re.compile(glob_regex(check_glob(glob)))
    assert not any(pattern.fullmatch(key) for key in ("c" + "a" * 1023, "c/" * 512, "ca/" * 341))


@pytest.mark.parametrize(
    ("glob", "prefix", "expected"),
    [
        ("*.log", "app/", False),
        ("*", "ap", True),
        ("app/*.log", "app/", True),
        ("app/*.log", "app/deep/", False),
        ("app/*/*.log", "app/deep/", True),
        ("app", "app/", False),
        ("/app/*", "app/", False),
        ("audit/**", "app/", False),
        ("**/audit/**", "app/deep/", True),
        ("a*/**", "app/deep/", True),
    ],
)
def test_a_glob_reaches_a_prefix(glob: str, prefix: str, expected: bool) -> None:
    assert reaches(glob, prefix) is expected


@given(globs, keys, st.integers(0, 14))
def test_a_glob_reaches_every_prefix_of_a_key_that_it_matches(glob: str, key: str, length: int) -> None:
    assert reaches(glob, key[:length]) or not matches(glob, key)

"""The view: what is stuck, why, what a replay would do, and what to type; and nothing in a key becomes markup."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.view import MOST_LETTERS, QUIET, View, page, view, widget

from tests.fakes.world import World, policy
from tests.integration.test_cli import Desk, desk  # noqa: F401  # a fixture
from tests.integration.test_replaying import RUN, closed_world, dead_job, mend, preview, replaying

HOSTILE = "app/<script>alert(1)</script>\"'&\u202e.log"
VOID = {"meta", "br", "rect"}


class Tags(HTMLParser):
    """Every tag with its attributes; fails on what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def seen(world: World) -> View:
    return view(world.ledger, preview(world), world.clock())


def words(world: World) -> str:
    text = page("Sexton", seen(world)).decode()
    return html.unescape(re.sub(r"<[^>]+>", " ", text.partition("<body>")[2]))


def test_when_all_is_well_it_says_so() -> None:
    text = words(World())
    assert QUIET in text
    assert "sexton dlq" not in text


def test_a_dead_job_stands_with_why_what_a_replay_would_do_and_what_to_type() -> None:
    world = closed_world()
    job = dead_job(world).job_id
    text = words(world)
    assert "1 dead job" in text
    assert "AccessDenied: denied by a bucket policy" in text
    assert seen(world).letters[0].replay_now.sentence in text  # type: ignore[union-attr]
    assert f"sexton dlq replay {job} --reason WHY" in text
    assert f"sexton dlq show {job}" in text


def test_what_cannot_be_replayed_is_to_be_resolved() -> None:
    world = closed_world()
    del world.policies["logs-expire"]
    world.tick()
    text = words(world)
    assert "it would be refused" in text
    assert f"sexton dlq resolve {dead_job(world).job_id} --reason WHY" in text


def test_runs_that_wait_and_runs_that_are_stopped_stand_with_what_to_do() -> None:
    world = World({"logs-expire": policy(approval="always")})
    world.fill(["app/a"])
    world.trigger()
    world.stopping().pause("logs-expire", "the numbers look wrong", "ann")
    text = words(world)
    assert "1 run waits for a person" in text
    assert f"sexton run approve {RUN} --digest" in text
    assert "the numbers look wrong" in text
    assert "sexton resume" in text


def test_what_was_replayed_leaves_it() -> None:
    world = closed_world()
    mend(world)
    replaying(world).replay(dead_job(world).job_id, "it is mended", "ann")
    assert "Dead letters" not in words(world)
    assert "Runs that are not finished" in words(world)


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_in_a_key_or_a_reason_becomes_markup(dark: bool) -> None:
    failure = Failure(ReasonClass.PERMANENT, "AccessDenied", f"no <b>right</b> to {HOSTILE}")
    world = World()
    world.fill([HOSTILE])
    world.bucket().failures[HOSTILE] = failure
    world.trigger()
    world.settle()
    world.stopping().pause("logs-expire", "<img src=x onerror=alert(1)>", "ann")
    for text in (page("Sexton", seen(world)).decode(), widget(seen(world), dark=dark)):
        tags = Tags(text).seen
        assert not {"script", "img", "b", "a", "form", "input", "button"} & {tag for tag, _ in tags}
        assert not [name for _, given in tags for name in given if name.startswith("on") or name in ("style", "href")]
        assert "\u202e" not in text
        assert "no &lt;b&gt;right&lt;/b&gt;" in text


def test_a_thousand_dead_letters_are_not_all_looked_at() -> None:
    world = closed_world(*(f"app/{name}.log" for name in "abcde"), job_size=1)
    found = seen(world)
    assert len(found.letters) == 5 <= MOST_LETTERS


def test_every_table_can_be_reached_by_keyboard_and_has_its_headings() -> None:
    tags = Tags(page("Sexton", seen(closed_world())).decode()).seen
    regions = [given for tag, given in tags if given.get("role") == "region"]
    assert len(regions) == sum(tag == "table" for tag, _ in tags)
    assert all(given["tabindex"] == "0" and given["aria-label"] for given in regions)
    assert all(given.get("scope") in ("col", "row") for tag, given in tags if tag == "th")


def test_the_command_writes_the_page(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:  # noqa: F811
    desk.world = closed_world()
    target = tmp_path_factory.mktemp("view") / "page.html"
    done = desk.sexton("view", "--output", str(target))
    assert (done.code, done.out.strip()) == (0, str(target))
    assert b"sexton dlq replay" in target.read_bytes()


def test_a_page_that_cannot_be_written_is_a_clear_error(desk: Desk) -> None:  # noqa: F811
    done = desk.sexton("view", "--output", "/nowhere/page.html")
    assert done.code == 1
    assert "/nowhere/page.html" in done.err

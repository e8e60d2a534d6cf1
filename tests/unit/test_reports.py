"""The table and the page: they hold what the run came to, and nothing in a key acts on who reads them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexton import report_csv, report_html
from sexton.breakdown import Breakdown
from sexton.item import RECORD, Item
from sexton.money import NO_CLASS, NOTHING_STORED, OF_MARKERS, money
from sexton.policy import Policy
from sexton.prices import list_prices
from sexton.report import Report, readable_bytes

from tests.fakes.world import policy, purge_policy, records_policy

AT = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("deleted", "deleted:absent_after_attempt", "skipped:changed", "dead:AccessDenied", "cancelled")
VOID = {"meta", "rect"}

End = tuple[Item, str]


def report(*ends: End, **facts: object) -> Report:
    """The report of a run whose items ended so, in order of their keys."""
    breakdown = Breakdown.of(policy(source={"kind": "s3", "bucket": "logs", "prefixes": ["="], "raw_prefix": True}), AT)
    for item, name in sorted(ends):
        breakdown.add(item, name, AT)
    known = {
        "run_id": "logs-expire.20260301T000000Z.1",
        "policy": "logs-expire",
        "planned": len(ends),
        "balanced": True,
    }
    return Report(known | facts, breakdown, money(breakdown, list_prices(), "us-east-1"))


def item(key: str, size: int = 10, storage_class: str = "STANDARD") -> Item:
    return Item(key, '"e"', size, storage_class, AT - timedelta(days=3))


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


class Reader(HTMLParser):
    """What a browser would see: tags with their attributes, and the text between them."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


keys = st.text(min_size=1, max_size=30)
hostile = st.sampled_from(
    [
        "=1+1/x",
        "=<script>alert(1)</script>/x",
        '="><img src=x onerror=alert(1)>/x',
        "=</code></bdi><b>/x",
        "=\u202egnp.exe/x",
        "=\x1b[31m\r\n/x",
        '=a","b\r\n=2/x',
        "=&lt;/x",
        "=\\x3cscript\\x3e/x",
        "=\ud800/x",
    ]
)
ends = st.lists(st.tuples(st.builds(item, keys | hostile, st.integers(0, 10**12)), st.sampled_from(NAMES)), max_size=12)


@given(ends)
@settings(max_examples=50)
def test_nothing_in_a_key_is_markup(drawn: list[End]) -> None:
    found = Reader(report_html.render(report(*drawn)))
    plain = Reader(report_html.render(report((item("=plain/x"), "deleted"))))
    assert not found.open, "every tag is closed"
    assert set(found.tags) <= set(plain.tags) | {"ol", "li"}
    assert {name for _, name, _ in found.attributes} <= {name for _, name, _ in plain.attributes}
    assert all(each.isprintable() or each == "\n" for each in found.text)


@given(ends)
@settings(max_examples=50)
def test_no_cell_begins_a_formula(drawn: list[End]) -> None:
    content = report_csv.render(report(*drawn))
    for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")):
        assert len(row) == len(report_csv.HEADER)
        assert not any(cell.strip().startswith(("=", "+", "-", "@")) for cell in row)
        assert all(cell.isprintable() for cell in row)


@given(ends)
@settings(max_examples=50)
def test_the_table_has_every_item_once_and_its_totals_again(drawn: list[End]) -> None:
    found = rows(report_csv.render(report(*drawn)))
    sums: Counter[tuple[str, str]] = Counter()
    for row in found:
        kind = "item" if row["row"] in ("cohort", "others") else row["row"]
        sums[kind, "objects"] += int(row["objects"])
        sums[kind, "bytes"] += int(row["bytes"])
    size = sum(item.size for item, _ in drawn)
    for kind in ("item", "total", "all"):
        assert (sums[kind, "objects"], sums[kind, "bytes"]) == (len(drawn), size), kind
    by_name = Counter(name for _, name in drawn)
    totals: Counter[str] = Counter()
    for row in found:
        if row["row"] == "total":
            totals[":".join(filter(None, (row["outcome"], row["reason"])))] += int(row["objects"])
    assert totals == by_name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" =1", "' =1"),
        ("＝1", "'＝1"),  # noqa: RUF001 - full width is meant
        ("\t=1", r"\t=1"),
        ("\r=1", r"\r=1"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_what_a_spreadsheet_would_run_is_text(text: str, shown: str) -> None:
    assert report_csv.safe(text) == shown


def test_lines_end_as_the_format_says() -> None:
    content = report_csv.render(report((item('=a,"b"/x'), "deleted")))
    assert content.startswith(b"\xef\xbb\xbfrow,cohort,")
    assert content.count(b"\r\n") == content.count(b"\n") == 4
    assert b'"\'=a,""b""/"' in content


def test_the_page_lets_in_nothing_but_its_own_style() -> None:
    page = report_html.render(report((item("=a/x"), "deleted"))).decode()
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\"" in page
    found = Reader(page.encode())
    assert not {"script", "link", "img", "iframe", "a", "form"} & set(found.tags)
    assert not any(name == "style" or name.startswith("on") for _, name, _ in found.attributes)
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_tables_have_captions_and_scopes() -> None:
    page = report_html.render(report((item("=a/x"), "deleted"), scanned={"expired": 1})).decode()
    found = Reader(page.encode())
    assert found.tags["caption"] == found.tags["table"] == 7
    assert sum(1 for tag, name, _ in found.attributes if (tag, name) == ("th", "scope")) == found.tags["th"]
    assert '<html lang="en">' in page
    assert found.tags["svg"] == sum(1 for tag, name, _ in found.attributes if (tag, name) == ("svg", "aria-hidden"))


def test_the_page_tells_what_does_not_balance() -> None:
    facts = {"balanced": False, "problem_count": 7, "problems": ["part 0: <b>gone</b>"], "planned": 5}
    text = Reader(report_html.render(report((item("=a/x"), "deleted"), **facts))).text
    assert "The books do not balance: 7 problems" in text
    assert "1 of 5 planned items could be read" in text
    assert "part 0: <b>gone</b>" in text
    assert "and 6 more" in text


def test_the_page_tells_what_the_money_leaves_out() -> None:
    ends = [
        (item("=a/1", 2**40), "deleted"),
        (item("=a/2", 2**30, "NEW_CLASS"), "deleted"),
        (item("=a/3", 2**40, "GLACIER"), "deleted"),
        (item("=a/4"), "deleted:absent_after_attempt"),
    ]
    text = Reader(report_html.render(report(*ends))).text
    assert "Saved a month: USD 27.24, for 2.0 TiB freed." in text
    assert "Without a price, and in none of these sums: 1 object (1.0 GiB)." in text
    assert "no proof and no saving here: 1 object (10 B)." in text
    assert "not counted" in text
    assert "before the minimum duration of its storage class" in text
    assert "no price: the price file does not have this storage class" in text


@pytest.mark.parametrize(("action", "done"), [("delete", "deleted"), ("archive", "archived"), ("mark", "marked")])
def test_records_are_called_records_and_have_no_price(action: str, done: str) -> None:
    breakdown = Breakdown.of(records_policy(), AT)
    for name in ("deleted", "skipped:changed"):
        breakdown.add(item('{"id":{"S":"1"}}', storage_class=RECORD), name, AT)
    facts = {"run_id": "r.20260301T000000Z.1", "policy": "r", "planned": 2, "balanced": True, "action": action}
    found = Report(facts, breakdown, money(breakdown, list_prices(), "us-east-1"))
    text, table = Reader(report_html.render(found)).text, report_csv.render(found)
    assert not re.search("object|storage class|USD", text, re.IGNORECASE)
    assert "Records have no price here" in text
    assert done in text
    assert (done == "deleted") == ("deleted" in text.lower())
    assert {row["records"] for row in rows(table)} == {"1", "2"}
    assert {row["storage_class"] for row in rows(table)} == {""}
    assert found.money.to_fields()["classes"] == []


def test_an_undo_of_archived_records_tells_that_they_were_put_back() -> None:
    text = Reader(report_html.render(report(action="archive", undoes="r.20260301T000000Z.1"))).text
    assert "archived records: each of them was put back" in text
    assert "marker" not in text


def test_a_run_without_items_has_a_page_and_a_table() -> None:
    assert "Nothing was removed." in Reader(report_html.render(report())).text
    assert [row["row"] for row in rows(report_csv.render(report()))] == ["all"]


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**40, "5.0 TiB"), (2**60, "1,024.0 PiB")],
)
def test_bytes_for_people(count: int, words: str) -> None:
    assert readable_bytes(count) == words


def aged(made: Policy, one: Item) -> list[str]:
    """The class of age that an item is counted in."""
    breakdown = Breakdown.of(made, AT)
    breakdown.add(one, "deleted", AT)
    return [label for label, tally in breakdown.ages.rows() if tally.count]


def test_the_age_is_by_the_date_that_the_policy_goes_by() -> None:
    old = item("app/x")._replace(last_modified=AT - timedelta(days=800))
    assert aged(policy(), old) == ["2 to 5 years"]
    version = old._replace(version_id="v", rank=1, noncurrent_since=AT - timedelta(days=2))
    assert aged(purge_policy(), version) == ["1 to 7 days"]
    by_tag = policy(age_from={"tag": "created"})
    tagged = old._replace(last_modified=AT + timedelta(days=1), tags={"created": f"{AT:%Y}-01-01"})
    assert aged(by_tag, tagged) == ["30 to 90 days"]
    assert aged(policy(age_from={"key_date": "%Y-%m-%d"}), old._replace(key="app/2001-01-01")) == ["5 years or more"]


def test_the_page_says_how_its_prices_were_read() -> None:
    source = list_prices().sources[0]
    text = Reader(report_html.render(report((item("=a/x"), "deleted")))).text
    assert f"{source.url.replace('<region>', 'us-east-1')}, read {source.read}." in text


def test_delete_markers_are_called_so_where_a_class_would_stand() -> None:
    marker = Item("=a/x", "", 0, OF_MARKERS, AT - timedelta(days=3), "v1", is_marker=True)
    text = Reader(report_html.render(report((marker, "deleted")))).text
    assert text.count(report_html.MARKERS) > 1
    assert NOTHING_STORED in text
    assert NO_CLASS not in text
    assert "Without a price" not in text

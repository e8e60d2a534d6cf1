"""Money: what S3 bills for, what is charged for going early, and what nobody knows the price of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from botocore.session import get_session  # type: ignore[import-untyped]
from sexton.breakdown import PLANNED, Breakdown, Space
from sexton.histogram import Tally
from sexton.item import Item
from sexton.money import GB, NO_CLASS, NO_REGION, NOTHING_STORED, OF_MARKERS, Money, cents, in_words, money
from sexton.prices import FILE, list_prices

from tests.fakes.world import policy

AT = datetime(2026, 3, 1, tzinfo=UTC)
OLD = AT - timedelta(days=400)
KB = 1024


def item(size: int, storage_class: str = "STANDARD", modified: datetime | None = OLD) -> Item:
    return Item("app/a", '"e"', size, storage_class, modified)


def priced(*items: Item, name: str = "deleted", marked: bool = False, region: str = "us-east-1") -> Money:
    breakdown = Breakdown.of(policy(), AT)
    for each in items:
        breakdown.add(each, name, AT, marked=marked)
    return money(breakdown, list_prices(), region)


def test_a_gigabyte_of_standard_saves_its_list_price() -> None:
    assert priced(item(GB)).saving_now == Decimal("0.023")
    assert priced(item(GB), region="eu-central-1").saving_now == Decimal("0.0245")


def test_amounts_are_exact_until_they_are_shown() -> None:
    found = priced(*[item(1)] * 1000)
    assert found.saving_now == Decimal("0.023") * 1000 / GB
    assert cents(found.saving_now) == 0
    assert in_words(found.saving_now) == "under USD 0.01"


@pytest.mark.parametrize(
    ("amount", "words"),
    [("0", "USD 0.00"), ("0.0049", "under USD 0.01"), ("0.005", "USD 0.01"), ("1234567.895", "USD 1,234,567.90")],
)
def test_amounts_in_words(amount: str, words: str) -> None:
    assert in_words(Decimal(amount)) == words


def test_small_objects_are_billed_as_the_minimum() -> None:
    found = priced(item(1, "STANDARD_IA"), item(128 * KB - 1, "STANDARD_IA"), item(128 * KB + 1, "STANDARD_IA"))
    assert found.saving_now == Decimal("0.0125") * (3 * 128 * KB + 1) / GB


def test_archived_objects_are_billed_for_what_s3_adds() -> None:
    found = priced(item(100, "DEEP_ARCHIVE"))
    assert found.saving_now == (Decimal("0.00099") * (100 + 32 * KB) + Decimal("0.023") * 8 * KB) / GB


@pytest.mark.parametrize(
    ("storage_class", "days"),
    [("STANDARD_IA", 30), ("ONEZONE_IA", 30), ("GLACIER_IR", 90), ("GLACIER", 90), ("DEEP_ARCHIVE", 180)],
)
def test_what_goes_early_is_charged_for_the_days_that_are_left(storage_class: str, days: int) -> None:
    minimum = timedelta(days=days)
    second = timedelta(seconds=1)
    assert priced(item(GB, storage_class, AT - minimum)).early_charge == 0
    assert priced(item(GB, storage_class, AT - minimum - second)).early_charge == 0
    one_second = priced(item(GB, storage_class, AT - minimum + second))
    assert one_second.early_charge > 0
    assert [line.early for line in one_second.lines] == [Tally(1, GB)]
    price = list_prices().of("us-east-1", storage_class)
    assert price is not None
    billed = list_prices().classes[storage_class].billed(GB)
    ten_days = priced(item(GB, storage_class, AT - minimum + timedelta(days=10)))
    assert ten_days.early_charge == price * billed * 10 / GB / 30


def test_standard_never_goes_early() -> None:
    assert priced(item(GB, modified=AT)).early_charge == 0


def test_a_class_with_a_minimum_and_no_date_is_told_of() -> None:
    found = priced(item(GB, "GLACIER", None), item(GB, "STANDARD", None))
    assert found.undated == Tally(1, GB)
    assert found.early_charge == 0


def test_a_delete_marker_frees_nothing_now() -> None:
    found = priced(item(GB), item(GB, "GLACIER", AT), marked=True)
    assert (found.saving_now, found.early_charge) == (0, 0)
    assert found.saving_later > Decimal("0.023")
    assert found.bytes_of(Space.MARKED) == Tally(2, 2 * GB)


def test_a_deletion_without_proof_is_no_saving() -> None:
    found = priced(item(GB), name="deleted:absent_after_attempt")
    assert found.saving_now == 0
    assert found.bytes_of(Space.UNPROVEN) == Tally(1, GB)


def test_a_marker_found_after_a_lost_reply_is_one_all_the_same() -> None:
    found = priced(item(GB), name="deleted:absent_after_attempt", marked=True)
    assert found.bytes_of(Space.MARKED) == Tally(1, GB)


@pytest.mark.parametrize("at", [None, "soon", "2026-02-01T00:00:00"])
def test_a_time_that_cannot_be_read_does_not_keep_a_run_from_closing(at: str | None) -> None:
    breakdown = Breakdown.of(policy(), AT)
    fields = {} if at is None else {"at": at}
    breakdown.ended(item(GB, "GLACIER", AT - timedelta(days=89)), "deleted", fields, AT)
    assert money(breakdown, list_prices(), "us-east-1").early_charge > 0


def test_an_outcome_line_tells_when_and_whether_a_marker_was_placed() -> None:
    breakdown = Breakdown.of(policy(), AT)
    gone = item(GB, "GLACIER", AT - timedelta(days=90))
    breakdown.ended(gone, "deleted", {"at": "2026-02-28T23:59:59Z"}, AT)
    breakdown.ended(gone, "deleted", {"at": "2026-02-28T23:59:59Z", "marker_version_id": "v1"}, AT)
    found = money(breakdown, list_prices(), "us-east-1")
    assert {line.space: line.early.count for line in found.lines} == {Space.FREED: 1, Space.MARKED: 0}


@pytest.mark.parametrize("name", ["skipped:changed", "dead:AccessDenied", "cancelled", "unaccounted"])
def test_what_was_not_removed_is_worth_nothing(name: str) -> None:
    assert priced(item(GB), name=name).lines == ()


def test_a_plan_is_priced_as_if_it_were_done() -> None:
    assert priced(item(GB), name=PLANNED).saving_now == Decimal("0.023")


@pytest.mark.parametrize(
    ("storage_class", "region", "why"),
    [
        ("NEW_CLASS", "us-east-1", NO_CLASS),
        ("INTELLIGENT_TIERING", "us-east-1", "a listing does not tell which access tier an object is in"),
        ("STANDARD", "mars-north-1", NO_REGION),
    ],
)
def test_no_price_is_not_zero(storage_class: str, region: str, why: str) -> None:
    found = priced(item(GB, storage_class), region=region)
    [line] = found.lines
    assert (line.per_gb_month, line.saving, line.why_no_price) == (None, None, why)
    assert found.unpriced == Tally(1, GB)
    assert in_words(line.saving) == "no price"
    [fields] = found.to_fields()["classes"]  # type: ignore[misc]
    assert fields["monthly_saving"] is None  # type: ignore[index]


def test_an_early_charge_without_a_price_is_unknown() -> None:
    [line] = priced(item(GB, "GLACIER", AT), region="mars-north-1").lines
    assert line.early_charge is None


def test_what_has_a_price_is_summed_beside_what_has_none() -> None:
    found = priced(item(GB), item(GB, "NEW_CLASS"))
    assert found.saving_now == Decimal("0.023")
    assert found.to_fields()["without_price"] == {"objects": 1, "bytes": GB}


@pytest.mark.parametrize("region", ["us-east-1", "mars-north-1"])
def test_delete_markers_are_not_storage_without_a_price(region: str) -> None:
    marker = Item("app/a", "", 0, OF_MARKERS, OLD, "v1", is_marker=True)
    found = priced(marker, item(GB), region=region)
    [of_markers] = [line for line in found.lines if line.of_markers]
    assert (of_markers.items, of_markers.why_no_price) == (Tally(1, 0), NOTHING_STORED)
    assert found.unpriced == (Tally() if region == "us-east-1" else Tally(1, GB))


def test_every_region_prices_every_class_that_has_a_rule() -> None:
    prices = list_prices()
    classes = {name for name, rule in prices.classes.items() if rule.no_price is None}
    for name, region in prices.regions.items():
        assert set(region.storage) == classes, name
        assert region.storage["STANDARD"] > region.storage["STANDARD_IA"] > region.storage["ONEZONE_IA"], name
        assert region.storage["GLACIER_IR"] > region.storage["GLACIER"] > region.storage["DEEP_ARCHIVE"], name


def test_the_price_file_names_classes_and_regions_as_aws_does() -> None:
    session = get_session()
    known = session.get_service_model("s3").shape_for("ObjectStorageClass").enum
    assert set(list_prices().classes) <= set(known)
    assert set(list_prices().regions) <= set(session.get_available_regions("s3"))


def test_the_price_file_says_where_its_figures_come_from() -> None:
    prices = list_prices()
    assert all(source.url.startswith("https://") and source.read for source in prices.sources)
    assert prices.as_of
    assert FILE.read_bytes().isascii()


def test_prices_say_how_they_were_read() -> None:
    read = list_prices().sources[0].read
    assert priced(item(GB)).to_fields()["prices_read"] == read
    assert read.startswith("second hand")


def test_the_page_has_the_rules_of_the_file() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "money.md").read_text()
    for name, rule in list_prices().classes.items():
        if rule.no_price is not None:
            assert f"**{name}** has no price: {rule.no_price}." in page
            continue
        duration = f"{rule.minimum_days} days" if rule.minimum_days else ""
        least = f"{rule.minimum_bytes} bytes" if rule.minimum_bytes else ""
        added = (
            f"{rule.added_bytes} bytes, and {rule.added_standard_bytes} bytes of STANDARD" if rule.added_bytes else ""
        )
        row = "|".join(f" {cell} " if cell else " " for cell in (name, duration, least, added))
        assert f"|{row}|" in page, name
    assert f"{len(list_prices().regions)} regions" in page

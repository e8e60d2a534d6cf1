"""What a removal is worth at list price. USD throughout; exact inside, rounded to the cent where it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from sexton.breakdown import Breakdown, Space, Stored
from sexton.histogram import Tally
from sexton.prices import Prices

GB = 2**30  # as S3 bills
MONTH_SECONDS = 30 * 86_400  # to turn remaining days into a part of the month's price
CENT = Decimal("0.01")
NO_PRICE = "no price"
NO_REGION = "the price file does not have this region"
NO_CLASS = "the price file does not have this storage class"
OF_MARKERS = ""  # the storage class of a delete marker, and of nothing else
NOTHING_STORED = "delete markers, nothing stored but their names"


@dataclass(frozen=True, slots=True)
class Line:
    """Removed items of one storage class whose bytes met one fate. Amounts are USD, None where there is no price.

    Delete markers have a line of their own, without a class and without a price: they have no bytes.

    `saving` is a month's; `early_charge` is due once, and only where bytes are freed.
    """

    storage_class: str
    space: Space
    items: Tally
    per_gb_month: Decimal | None
    why_no_price: str | None
    saving: Decimal | None
    early: Tally
    early_charge: Decimal | None
    undated: Tally

    @property
    def of_markers(self) -> bool:
        """Whether these are delete markers."""
        return self.storage_class == OF_MARKERS


@dataclass(frozen=True, slots=True)
class Money:
    """The lines, and what they sum to. What has no price is in no sum: `unpriced` says how much that is.

    `source` is where the prices stand, `read` how they came from there, in the price file's own words.
    """

    region: str
    currency: str
    as_of: str
    source: str
    read: str
    lines: tuple[Line, ...]

    @property
    def saving_now(self) -> Decimal:
        """A month's price of what is no longer stored."""
        return _sum(line.saving for line in self._of(Space.FREED))

    @property
    def saving_later(self) -> Decimal:
        """A month's price of what is stored until noncurrent versions go."""
        return _sum(line.saving for line in self._of(Space.MARKED))

    @property
    def early_charge(self) -> Decimal:
        """Due once, for what went before the minimum duration of its class."""
        return _sum(line.early_charge for line in self.lines)

    @property
    def unpriced(self) -> Tally:
        """What is stored, was removed or would be, and has no price."""
        return _tally(line.items for line in self.lines if line.per_gb_month is None and not line.of_markers)

    @property
    def undated(self) -> Tally:
        """What may have gone before its class's minimum duration: it has no date."""
        return _tally(line.undated for line in self._of(Space.FREED))

    def bytes_of(self, space: Space) -> Tally:
        """All that met this fate, with a price or without."""
        return _tally(line.items for line in self._of(space))

    def _of(self, space: Space) -> list[Line]:
        return [line for line in self.lines if line.space is space]

    def to_fields(self) -> dict[str, object]:
        """For the report's JSON: amounts as decimal text in USD, rounded to the cent; null where there is no price."""
        return {
            "currency": self.currency,
            "region": self.region,
            "prices_as_of": self.as_of,
            "prices_from": self.source,
            "prices_read": self.read,
            "monthly_saving": str(cents(self.saving_now)),
            "monthly_saving_when_noncurrent_versions_go": str(cents(self.saving_later)),
            "early_deletion_charge": str(cents(self.early_charge)),
            "without_price": {"objects": self.unpriced.count, "bytes": self.unpriced.bytes},
            "classes": [_line_fields(line) for line in self.lines],
        }


def money(breakdown: Breakdown, prices: Prices, region: str) -> Money:
    """Price what was removed, or would be, at the list price of a region."""
    found = sorted(breakdown.removed.items())
    lines = tuple(_line(storage_class, space, stored, prices, region) for (storage_class, space), stored in found)
    source = prices.sources[0]
    return Money(region, prices.currency, prices.as_of, source.url.replace("<region>", region), source.read, lines)


def _line(storage_class: str, space: Space, stored: Stored, prices: Prices, region: str) -> Line:
    price, why = _price(storage_class, prices, region)
    charged = space is Space.FREED
    return Line(
        storage_class,
        space,
        stored.all,
        price,
        why,
        _saving(storage_class, stored, prices, region) if price is not None else None,
        stored.early if charged else Tally(),
        _early_charge(stored, price) if charged else Decimal(0),
        stored.undated if charged else Tally(),
    )


def _price(storage_class: str, prices: Prices, region: str) -> tuple[Decimal | None, str | None]:
    price = prices.of(region, storage_class)
    if price is not None:
        return price, None
    if storage_class == OF_MARKERS:
        return None, NOTHING_STORED
    if region not in prices.regions:
        return None, NO_REGION
    rule = prices.classes.get(storage_class)
    return None, (rule.no_price if rule else None) or NO_CLASS


def _saving(storage_class: str, stored: Stored, prices: Prices, region: str) -> Decimal | None:
    """A month's price of what S3 bills for, with what it adds to an archived object at the price of STANDARD."""
    price, standard = prices.of(region, storage_class), prices.of(region, "STANDARD")
    rule = prices.classes.get(storage_class)
    added = stored.all.count * rule.added_standard_bytes if rule else 0
    if price is None or (added and standard is None):
        return None
    return (stored.billed * price + added * (standard or 0)) / GB


def _early_charge(stored: Stored, price: Decimal | None) -> Decimal | None:
    """The month's price for the days that are left of the minimum; nothing where nothing went early, priced or not."""
    if not stored.early_byte_seconds:
        return Decimal(0)
    return None if price is None else stored.early_byte_seconds * price / (GB * MONTH_SECONDS)


def _sum(amounts: Iterable[Decimal | None]) -> Decimal:
    return sum((amount for amount in amounts if amount is not None), Decimal(0))


def _tally(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for each in tallies:
        whole.merge(each)
    return whole


def cents(amount: Decimal) -> Decimal:
    """Rounded to the cent, halves up. Sums are rounded once, so that they can differ by a cent from rounded lines."""
    return amount.quantize(CENT, ROUND_HALF_UP)


def in_words(amount: Decimal | None) -> str:
    """An amount as people get it: `USD 1,234.50`; what is too little to show is not shown as nothing."""
    if amount is None:
        return NO_PRICE
    if 0 < amount < CENT / 2:
        return "under USD 0.01"
    return f"USD {cents(amount):,}"


def _line_fields(line: Line) -> dict[str, object]:
    return {
        "storage_class": line.storage_class,
        "space": line.space.value,
        "objects": line.items.count,
        "bytes": line.items.bytes,
        "usd_per_gb_month": _text(line.per_gb_month),
        "why_no_price": line.why_no_price,
        "monthly_saving": None if line.saving is None else str(cents(line.saving)),
        "early_objects": line.early.count,
        "early_deletion_charge": None if line.early_charge is None else str(cents(line.early_charge)),
    }


def _text(price: Decimal | None) -> str | None:
    return None if price is None else str(price)

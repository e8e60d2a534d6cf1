"""The report as one page that a person can read, print and keep: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.breakdown import Space
from sexton.by_cohort import ENDINGS, ByCohort, OthersByCohort
from sexton.histogram import Tally
from sexton.money import GB, NOTHING_STORED, OF_MARKERS, Line, Money, in_words
from sexton.page import Markup, bar, code, document, join, paragraph, section, table, text
from sexton.report import Report, readable_bytes, split_name

MARKERS = "delete markers"  # in the place of a storage class
SPACES = {
    Space.FREED: "freed now",
    Space.MARKED: "freed when noncurrent versions go",
    Space.UNPROVEN: "gone, without proof",
}
FACTS = (
    ("state", "State"),
    ("reason", "Reason"),
    ("message", "Message"),
    ("undoes", "Undoes"),
    ("mode", "Mode"),
    ("started_by", "Started by"),
    ("scheduled_time", "Scheduled for"),
    ("covers_total", "Missed times that it covers"),
    ("cutoff", "Cutoff"),
    ("closed_at", "Closed"),
    ("policy_version", "Policy version"),
    ("digest", "Digest of the plan"),
    ("jobs", "Jobs"),
    ("revision", "Revision of this report"),
)
REPORTED = ("Reported only", "Bytes of these")
ITEMS_OF_UNDO = {
    "objects": "Its items are delete markers: each that was removed restored an object.",
    "records": "Its items are archived records: each of them was put back.",
}
NO_PRICE = (
    "Records have no price here: sizes are estimates by the capacity that reading took, and what DynamoDB charges for"
    " reads, writes and storage goes by the table's mode and class."
)
IF_ANY = frozenset({"covers_total"})  # counts that are told only where there are some
SENTENCES = frozenset({"message"})  # they quote names already escaped


def render(report: Report) -> bytes:
    """The page, in UTF-8. Nothing that a key, a reason or a message holds can become markup on it."""
    parts = (_head(report), _outcomes(report), _scanned(report), _money(report), _ages(report), _cohorts(report))
    return document(
        f"Report of {report.facts.get('run_id')}", join(part for part in (*parts, _problems(report)) if part)
    )


def _head(report: Report) -> Markup:
    facts = report.facts
    given = [(n, words) for n, words in FACTS if facts.get(n) is not None and (facts[n] or n not in IF_ANY)]
    rows = [(text(words), (text if name in SENTENCES else code)(facts[name])) for name, words in given]
    return join(
        [
            Markup(f"<h1>{text('Retention report of')} {code(facts.get('policy'))}</h1>"),
            paragraph(join([text("Run"), code(facts.get("run_id"))], " "), "quiet"),
            _verdict(report),
            table("Facts of the run", ("Fact", "Value"), rows),
        ]
    )


def _verdict(report: Report) -> Markup:
    whole, planned = report.breakdown.total.count, report.number("planned")
    lines = []
    if report.facts.get("balanced"):
        lines.append(paragraph(text(f"The books balance: each of {planned:,} planned items ended once.")))
    else:
        problems = f"{report.number('problem_count'):,} problems stand at the end of this page"
        lines.append(paragraph(text(f"The books do not balance: {problems}."), "warn"))
    if whole != planned:
        words = f"{whole:,} of {planned:,} planned items could be read; the tables are of these alone."
        lines.append(paragraph(text(words), "warn"))
    if report.facts.get("undoes"):
        lines.append(paragraph(text(ITEMS_OF_UNDO[report.things])))
    return join(lines)


def _outcomes(report: Report) -> Markup:
    rows = [_outcome_row(report, name, tally) for name, tally in report.breakdown.by_outcome()]
    foot = (text("all"), text(""), *_tally(report.breakdown.total))
    columns = ("Outcome", "Reason", report.things.capitalize(), "Bytes")
    return section("What became of the plan", table("By outcome and reason", columns, rows, numbers=(2, 3), foot=foot))


def _outcome_row(report: Report, name: str, tally: Tally) -> tuple[Markup, ...]:
    ending, reason = split_name(name)
    return (code(report.ending(ending)), code(reason) if reason else text(""), *_tally(tally))


def _scanned(report: Report) -> Markup:
    counts = sorted(report.counts("scanned").items())
    rows = [(code(reason), text(f"{count:,}")) for reason, count in counts]
    foot = (text("all"), text(f"{sum(count for _, count in counts):,}"))
    things = report.things.capitalize()
    found = table(f"{things} by what the policy said of them", ("Judged", things), rows, numbers=(1,), foot=foot)
    return section("What was looked at", found) if rows else Markup("")


def _money(report: Report) -> Markup:
    if report.things == "records":
        return section("Storage and money", paragraph(text(NO_PRICE)))
    money = report.money
    by_class = report.breakdown.by_class()
    classes = [(text(MARKERS) if name == OF_MARKERS else code(name), *_tally(tally)) for name, tally in by_class]
    lines = [_money_row(line) for line in money.lines]
    columns = ("Storage class", "Space", "Objects", "Bytes", "Per GB-month", "A month", "Gone early", "Early charge")
    return section(
        "Storage and money",
        table("All planned items by storage class", ("Storage class", "Objects", "Bytes"), classes, numbers=(1, 2)),
        table(f"What was removed, at list prices of {money.region}", columns, lines, numbers=(2, 3, 4, 5, 6, 7))
        if lines
        else paragraph(text("Nothing was removed.")),
        join(paragraph(text(sentence)) for sentence in sentences(money)),
        paragraph(text(origin(money)), "quiet"),
    )


def _money_row(line: Line) -> tuple[Markup, ...]:
    return (
        text(MARKERS) if line.of_markers else code(line.storage_class),
        text(SPACES[line.space]),
        *_tally(line.items),
        text(_price(line)),
        text(_saving(line)),
        text(f"{line.early.count:,}"),
        text(in_words(line.early_charge)),
    )


def _price(line: Line) -> str:
    if line.per_gb_month is not None:
        return f"USD {line.per_gb_month}"
    return NOTHING_STORED if line.of_markers else f"no price: {line.why_no_price}"


def _saving(line: Line) -> str:
    if line.of_markers:
        return "nothing stored"
    return "not counted" if line.space is Space.UNPROVEN else in_words(line.saving)


def origin(money: Money) -> str:
    """Where the prices stand, and how they came from there: not always from AWS itself."""
    return f"List prices as of {money.as_of}, of {money.source}, read {money.read}. 1 GB is {GB:,} bytes."


def sentences(money: Money) -> Iterator[str]:
    """What the sums mean, and what they leave out."""
    yield f"Saved a month: {in_words(money.saving_now)}, for {readable_bytes(money.bytes_of(Space.FREED).bytes)} freed."
    marked = money.bytes_of(Space.MARKED)
    if marked.count:
        size, saving = readable_bytes(marked.bytes), in_words(money.saving_later)
        yield f"{size} stay stored until their noncurrent versions go; only then {saving} more is saved a month."
    unproven = money.bytes_of(Space.UNPROVEN)
    if unproven.count:
        yield f"Found absent after an attempt, which is no proof and no saving here: {_objects(unproven)}."
    if money.early_charge:
        yield (
            f"S3 charges {in_words(money.early_charge)} once, for what went before the minimum duration of its storage"
            " class. That is counted from the last modification: what moved to its class later costs more."
        )
    if money.undated.count:
        yield f"Without a date, in a class with a minimum duration, so it may cost more: {_objects(money.undated)}."
    if money.unpriced.count:
        yield f"Without a price, and in none of these sums: {_objects(money.unpriced)}."


def _objects(tally: Tally) -> str:
    return f"{tally.count:,} object{'' if tally.count == 1 else 's'} ({readable_bytes(tally.bytes)})"


def _ages(report: Report) -> Markup:
    rows = report.breakdown.ages.rows()
    most = max(tally.bytes for _, tally in rows)
    cells = [(text(label), *_tally(tally), bar(tally.bytes, most)) for label, tally in rows]
    columns = ("Past the cutoff by", report.things.capitalize(), "Bytes", "Share of bytes")
    return section("How old they were", table("Planned items by age", columns, cells, numbers=(1, 2)))


def _cohorts(report: Report) -> Markup:
    found = report.breakdown.by_cohort()
    lines = [*((code(line.cohort), line) for line in found.largest)]
    if found.others:
        lines.append((text(_smaller(found.others)), found.others))
    most = max((line.planned_bytes for _, line in lines), default=0)
    named = report.breakdown.planned is not None
    rows = [_cohort_row(name, line, most, named) for name, line in lines]
    endings = (report.ending(ending).capitalize() for ending in ENDINGS)
    columns = ("Cohort", report.things.capitalize(), "Bytes", *endings, *(REPORTED if named else ()), "Share of bytes")
    numbers = tuple(range(1, len(columns) - 1))
    folder = "table" if report.things == "records" else "folder"
    title, caption = ("Whose they were", "cohort") if named else ("Where they lay", folder)
    return section(title, table(f"Planned items by {caption}", columns, rows, numbers=numbers))


def _cohort_row(name: Markup, line: ByCohort, most: int, named: bool) -> tuple[Markup, ...]:
    counts = [getattr(line, ending) for ending in ENDINGS]
    size = text(readable_bytes(line.planned_bytes))
    reported = (text(f"{line.report_only or 0:,}"), text(readable_bytes(line.report_only_bytes or 0))) if named else ()
    ended = (text(f"{count:,}") for count in counts)
    return (name, text(f"{line.planned:,}"), size, *ended, *reported, bar(line.planned_bytes, most))


def _smaller(others: OthersByCohort) -> str:
    return f"{'more than ' if others.at_least else ''}{others.cohorts:,} smaller ones"


def _tally(tally: Tally) -> tuple[Markup, Markup]:
    return text(f"{tally.count:,}"), text(readable_bytes(tally.bytes))


def _problems(report: Report) -> Markup:
    kept = report.facts.get("problems")
    if not isinstance(kept, list) or not kept:
        return Markup("")
    items = join(Markup(f"<li>{text(problem)}</li>") for problem in kept)
    more = report.number("problem_count") - len(kept)
    rest = paragraph(text(f"and {more:,} more")) if more > 0 else Markup("")
    return section("Problems of the books", Markup(f"<ol>\n{items}\n</ol>"), rest)

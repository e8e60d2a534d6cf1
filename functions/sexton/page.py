"""Small builders of HTML. Only what they return is markup; every other text is escaped on its way in."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from typing import NewType

from sexton.escaping import escaped, harmless

Markup = NewType("Markup", str)

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --quiet: #57606a; --line: #d0d7de; --bar: #3b6fb5;
  --warn: #9a2a1d }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #14171a; --quiet: #9aa4ae; --line: #3a4148; --bar: #7aa7e0; --warn: #ff9b8a }
}
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; margin: 0 }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem }
p { margin: .5rem 0 }
.quiet { color: var(--quiet) }
.warn { color: var(--warn); font-weight: 600 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--quiet); padding: .25rem 0 }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line) }
tbody th { font-weight: 400 }
tfoot td { font-weight: 600 }
th.number, td.number { text-align: right; white-space: nowrap }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere }
.bar { width: 100%; min-width: 6rem; height: .8rem }
.bar rect { fill: var(--bar) }
@media print {
  :root { --ink: #000; --paper: #fff; --quiet: #333; --line: #999; --bar: #555; --warn: #000 }
  body { margin: 0; max-width: none; font-size: 10pt }
  h2 { break-after: avoid }
  tr { break-inside: avoid }
  .scroll { overflow: visible }
  .bar rect { print-color-adjust: exact }
}
"""

_FRAGMENT_STYLE = """\
.sexton { --ink: #1b1f24; --quiet: #57606a; --line: #d0d7de; --warn: #9a2a1d; color: var(--ink) }
.sexton.dark { --ink: #e6e8eb; --quiet: #9aa4ae; --line: #3a4148; --warn: #ff9b8a }
.sexton .quiet { color: var(--quiet) }
.sexton .warn { color: var(--warn); font-weight: 600 }
.sexton .scroll { overflow-x: auto }
.sexton table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
.sexton th, .sexton td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
  border-bottom: 1px solid var(--line); color: var(--ink); background: none }
.sexton tbody th { font-weight: 400 }
.sexton .number { text-align: right; white-space: nowrap }
.sexton code { overflow-wrap: anywhere; color: var(--ink); background: none }
"""


def text(value: object) -> Markup:
    """A sentence or a number. What acts on a screen is shown by its code, what is markup by its entity."""
    return Markup(html.escape(harmless(str(value))))


def code(value: object) -> Markup:
    """A name that others chose (a key, a reason): literally, isolated from the direction of what stands around it."""
    return Markup(f"<code><bdi>{html.escape(escaped(str(value)))}</bdi></code>")


def join(parts: Iterable[Markup], by: str = "\n") -> Markup:
    """Markup after markup; `by` is ours."""
    return Markup(by.join(parts))


def paragraph(content: Markup, kind: str = "") -> Markup:
    """A paragraph, of a class of the style sheet."""
    return Markup(f'<p class="{kind}">{content}</p>' if kind else f"<p>{content}</p>")


def section(title: str, *content: Markup) -> Markup:
    """A heading and what stands below it."""
    return Markup(f"<section>\n<h2>{text(title)}</h2>\n{join(content)}\n</section>")


def bar(part: int, whole: int) -> Markup:
    """A bar as long as the part is of the whole. It says nothing that the table's numbers do not."""
    length = part * 1000 // whole / 10 if whole else 0
    shape = f'<rect width="{length:g}" height="10"/>'
    return Markup(f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{shape}</svg>')


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Markup]],
    *,
    numbers: Sequence[int] = (),
    foot: Sequence[Markup] = (),
) -> Markup:
    """A table whose first column names its rows. `numbers`: the columns that are set to the right."""
    head = "".join(_cell("th", text(name), at in numbers, "col") for at, name in enumerate(columns))
    body = "\n".join(_row(row, numbers) for row in rows)
    end = f"\n<tfoot>{_row(foot, numbers)}</tfoot>" if foot else ""
    region = f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'  # for the keyboard
    return Markup(
        f"{region}<table>\n<caption>{text(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>{end}\n</table></div>"
    )


def _row(cells: Sequence[Markup], numbers: Sequence[int]) -> str:
    first, *rest = cells
    others = "".join(_cell("td", cell, at in numbers) for at, cell in enumerate(rest, start=1))
    return f"<tr>{_cell('th', first, 0 in numbers, 'row')}{others}</tr>"


def _cell(tag: str, content: Markup, number: bool, scope: str = "") -> str:
    attributes = (f' scope="{scope}"' if scope else "") + (' class="number"' if number else "")
    return f"<{tag}{attributes}>{content}</{tag}>"


def fragment(body: Markup, *, dark: bool) -> str:
    """A piece of a page of others, in their colours, dark or not. Its class keeps our style from what is theirs."""
    ink = "dark" if dark else "light"
    return f'<style>{_FRAGMENT_STYLE}</style>\n<div class="sexton {ink}">\n{body}\n</div>\n'


def document(title: str, body: Markup) -> bytes:
    """A whole page that loads nothing and runs nothing: its policy lets in only its own style, by hash."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    ).encode()

"""Makes text from outside fit to be stored and shown: short, without credentials, without control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

LIMIT = 300  # characters
HIDDEN = "[redacted]"

# Control, format (bidi overrides among them), surrogate, private-use and unassigned characters, and separators
# of lines and paragraphs.
_UNFIT = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

# Names whose values are secret. What stands before these words in a longer name is kept anyway, so it need not be
# searched for.
_NAMES = (
    r"(?:x-amz-|secret|token|password|passwd|passphrase|pwd|credential|signature|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|session[_-]?(?:id|key))[a-z0-9_-]{0,40}"
)
# A header's value can have blanks, and fields of its own.
_HEADERS = r"(?:(?:proxy-)?authorization|(?:set-)?cookie)"
# Text within text has its quotes escaped, once or more often; a URL within a URL its signs; XML has its own.
_QUOTE = r"(?:\\*[\"']|&quot;|&#3[49];)"
_IS = rf"(?:{_QUOTE}?\s*(?:[:=>]|%3[ad])\s*|{_QUOTE}\s*,\s*(?=[bru]?{_QUOTE}))"
# A quote that is not closed was cut off: then the rest is the value.
_ESCAPED = r"(?P<quote>\\+[\"']|&quot;|&#3[49];).*?(?:(?P=quote)|$)"
_QUOTED = rf"[bru]{{0,2}}(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$)|{_ESCAPED})"
_VALUE = rf"(?:{_QUOTED}|[^\s\"',;&<>)\]}}]+)"
_HEADER = rf"(?:{_QUOTED}|[^\"'<>]+)"
_LONG = r"[A-Za-z0-9+/]"
_MIXED = r"(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[0-9])"

# In this order: a pattern may leave text that the next one hides.
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [^-]*PRIVATE KEY-----.*?(?:-----END [^-]*-----|$)", re.DOTALL), HIDDEN),
    # All of a query string: which of its fields are secret is the service's affair, not ours.
    (re.compile(r"([a-z][a-z0-9+.-]{0,20}://[^\s?#\"'<>]*)\?[^\s\"'<>]*", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(r"([a-z][a-z0-9+.-]{0,20}://)[^\s/\"'<>]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(rf"({_HEADERS})({_IS}){_HEADER}", re.IGNORECASE), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(?:Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE), HIDDEN),
    (re.compile(r"AWS4-HMAC-SHA256\b.*", re.IGNORECASE | re.DOTALL), HIDDEN),
    (re.compile(rf"({_NAMES})({_IS}){_VALUE}", re.IGNORECASE), rf"\1\2{HIDDEN}"),
    (re.compile(r"(\bsig)=[^\s&]+", re.IGNORECASE), rf"\1={HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b"), HIDDEN),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|sk_(?:live|test)_|AIza)[A-Za-z0-9_-]{16,}"), HIDDEN),
    # What looks like a secret access key, a session token or a line of a key: long, in base64, with letters of both
    # cases and digits. A path or an ARN may look so too, but for its length.
    (
        re.compile(
            rf"(?<!{_LONG}){_MIXED}(?:{_LONG}{{40}}|{_LONG}{{60,}}|{_LONG}{{40,}}={{1,2}})(?!{_LONG})"
            rf"|(?<![A-Za-z0-9+]){_MIXED.replace('+/', '+')}[A-Za-z0-9+]{{40,}}(?![A-Za-z0-9+])"
        ),
        HIDDEN,
    ),
)

# Text is cut before it is searched: patterns must not be run over a hostile megabyte. Of what was cut through, too
# little may be left to be known for a secret.
_SEARCHED = 4096
_CUT_THROUGH = re.compile(r"\S{0,200}$")


def redact(text: str, limit: int = LIMIT) -> str:
    """A line of at most so many characters that says what the text said, without what must not be kept.

    Query strings of URLs, credentials, signatures and tokens are replaced by `[redacted]`; control, bidi and
    other invisible characters become spaces.
    """
    line = _without_unfit(text[:_SEARCHED])
    for pattern, replacement in _SECRETS:
        line = pattern.sub(replacement, line)
    if len(text) > _SEARCHED:
        line = _CUT_THROUGH.sub("…", line)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def redact_lines(text: str, limit: int = LIMIT) -> str:
    """The same for text of many lines, such as a traceback: each line for itself, with its indentation."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(" " * (len(line) - len(line.lstrip())) + redact(line, limit) for line in lines)


def redact_if_needed(text: str, limit: int) -> str:
    """The text as it is, or its lines redacted where something in it must not be kept."""
    told = redact_lines(text, limit)
    return told if HIDDEN in told else text


def redact_all(value: object, limit: int = LIMIT) -> object:
    """A value as JSON knows them, every text in it redacted; what JSON does not know becomes redacted text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {redact(str(name), limit): redact_all(each, limit) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact_all(each, limit) for each in value]
    return redact_lines(str(value), limit)


def _without_unfit(text: str) -> str:
    return "".join(" " if unicodedata.category(each) in _UNFIT else each for each in text)

"""Makes text from outside fit to be stored and shown: short, without credentials, without control characters."""

from __future__ import annotations

import re
import unicodedata

LIMIT = 300  # characters
HIDDEN = "[redacted]"

# Control, format (bidi overrides among them), surrogate, private-use and unassigned characters, and separators
# of lines and paragraphs.
_UNFIT = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

_NAMES = (
    # What stands before these words in a longer name is kept anyway, so it need not be searched for.
    r"(?:x-amz-|authorization|cookie|secret|token|password|passwd|credential|signature|api[_-]?key|access[_-]?key"
    r"|private[_-]?key)[a-z0-9_-]{0,40}"
)
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s\"',;&<>)\]}]+"

# In this order: a pattern may leave text that the next one hides.
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [^-]*PRIVATE KEY-----.*?(?:-----END [^-]*-----|$)", re.DOTALL), HIDDEN),
    # All of a query string: which of its fields are secret is the service's affair, not ours.
    (re.compile(r"([a-z][a-z0-9+.-]{0,20}://[^\s?#\"'<>]*)\?[^\s\"'<>]*", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(r"([a-z][a-z0-9+.-]{0,20}://)[^\s/@\"'<>]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"\b(?:Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE), HIDDEN),
    (re.compile(r"AWS4-HMAC-SHA256\b.*", re.IGNORECASE | re.DOTALL), HIDDEN),
    (re.compile(rf"({_NAMES})([\"']?\s*[:=]\s*)(?:{_VALUE})", re.IGNORECASE), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b"), HIDDEN),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    # What looks like a secret access key or a session token: long, in base64, with letters of both cases and digits.
    (
        re.compile(
            r"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[0-9])"
            r"[A-Za-z0-9+/]{40,}={0,2}(?![A-Za-z0-9+/=])"
        ),
        HIDDEN,
    ),
)

# Text is cut before it is searched: patterns must not be run over a hostile megabyte.
_SEARCHED = 4096


def redact(text: str, limit: int = LIMIT) -> str:
    """A line of at most so many characters that says what the text said, without what must not be kept.

    Query strings of URLs, credentials, signatures and tokens are replaced by `[redacted]`; control, bidi and
    other invisible characters become spaces.
    """
    line = _without_unfit(text[:_SEARCHED])
    for pattern, replacement in _SECRETS:
        line = pattern.sub(replacement, line)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _without_unfit(text: str) -> str:
    return "".join(" " if unicodedata.category(each) in _UNFIT else each for each in text)

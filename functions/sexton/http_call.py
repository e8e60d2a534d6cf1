"""A call of an endpoint, and its answer: nothing of either is secret."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request.

    `secrets`: the names of the secrets that headers have for values, by header. `hosts`: which hosts may be called,
    each as `name` or `name:port`. `job_id` is what the call is made for, the same however often it is made. `timeout`
    bounds all of it, from the name's resolution to the answer's last byte.
    """

    method: str
    url: str
    hosts: tuple[str, ...]
    secrets: Mapping[str, str]
    job_id: str
    body: bytes | None
    timeout: timedelta


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is kept of an answer: its status, a short redacted reason, and the seconds that it asks to wait."""

    status: int
    reason: str = ""
    retry_after: float | None = None


def idempotency_key(stack: str, job_id: str) -> str:
    """What tells an endpoint that it was called for this job of this stack before: SHA-256 in hex."""
    return hashlib.sha256(f"sexton-call-1\n{stack}\n{job_id}\n".encode()).hexdigest()


def wait_asked(given: str, now: datetime) -> float | None:
    """The seconds of a Retry-After of either form, none of them negative; None where it is neither."""
    text = given.strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(0.0, until.timestamp() - now.timestamp())
    except (ValueError, OverflowError):  # absent, no date, or none that a clock has
        return None

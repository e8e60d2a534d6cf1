"""What an oracle says when a promise is broken."""

from __future__ import annotations


class Violation(AssertionError):
    """A promise is broken; the text says which, by whom, and of what."""

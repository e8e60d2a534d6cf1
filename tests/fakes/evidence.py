"""The evidence bucket in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class FakeEvidence:
    """Files by key, each written once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()

    def put_once(self, key: str, content: bytes) -> bool:
        self.calls["put_once"] += 1
        if key in self.files:
            return False
        self.files[key] = content
        return True

    def get(self, key: str) -> bytes | None:
        self.calls["get"] += 1
        return self.files.get(key)

    def list(self, prefix: str) -> Iterable[str]:
        self.calls["list"] += 1
        return iter(sorted(key for key in self.files if key.startswith(prefix)))

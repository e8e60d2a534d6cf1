"""How many requests that may change something have left this process; where none has, nothing was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boto3.session import Session

EACH_ATTEMPT = "request-created"  # as the SDK names it
ONLY_READING = ("Get", "List", "Describe", "Head", "BatchGet", "Query", "Scan", "Receive", "AssumeRole")


class ChangesSent:
    """Counts on every client of a session that is made after `watch`."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> int:
        """So many until now, each attempt by itself."""
        return self._count

    def watch(self, session: Session) -> None:
        """Count on this boto3 session too. Once for each."""
        session.events.register(EACH_ATTEMPT, self._created)

    def _created(self, event_name: str, **_: object) -> None:
        """The name is `request-created.<service>.<operation>`; what is not known to read is taken to change."""
        if not event_name.rpartition(".")[2].startswith(ONLY_READING):
            self._count += 1

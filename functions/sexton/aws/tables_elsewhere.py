"""Tables with records that lie elsewhere, each with its own clients, kept for the runs of late."""

from __future__ import annotations

from sexton.aws.clients import Clients
from sexton.aws.records import DynamoRecords
from sexton.elsewhere import Elsewhere, refuse_own

MOST_SESSIONS = 8  # kept at once: each has connections of its own


class TablesElsewhere:
    """Makes clients for each place and session name once, as long as no more than a few others are in use."""

    def __init__(self, clients: Clients, account: str) -> None:
        self._clients = clients
        self._account = account
        self._sessions: dict[tuple[Elsewhere, str], Clients] = {}
        self._tables: dict[tuple[Elsewhere, str, str], DynamoRecords] = {}

    def records(self, name: str, place: Elsewhere, session_name: str) -> DynamoRecords:
        """The table there, of a region or under a role that is not the stack's own. Raises SourceRefused."""
        refuse_own(name, place, self._clients.region, self._account)
        key = (place, session_name, name)
        if key not in self._tables:
            clients = self._of(place, session_name)
            timeout = clients.delete_timeout
            self._tables[key] = DynamoRecords(clients.dynamodb, name, clients.dynamodb_changes, timeout)
        return self._tables[key]

    def _of(self, place: Elsewhere, session_name: str) -> Clients:
        key = (place, session_name)
        if key not in self._sessions:
            if len(self._sessions) >= MOST_SESSIONS:
                self._forget(next(iter(self._sessions)))
            self._sessions[key] = self._clients.elsewhere(place, session_name)
        return self._sessions[key]

    def _forget(self, session: tuple[Elsewhere, str]) -> None:
        del self._sessions[session]
        self._tables = {key: table for key, table in self._tables.items() if key[:2] != session}

"""A server of the demo, in threads of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from infra.local.emulator import HOST

POLL = 0.05  # seconds between two looks whether to end


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server for as long as the block lasts, on the loopback address; gives its port."""
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()

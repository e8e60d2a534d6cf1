"""MiniStack, run so that it ends with whoever started it, however that ends.

Its standard input is a pipe on which nobody writes: the end of it tells that the other side is gone.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading


def main() -> None:
    """Run MiniStack."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    """Wait for the end of the input, then end the whole process group: the functions' processes belong to it."""
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()

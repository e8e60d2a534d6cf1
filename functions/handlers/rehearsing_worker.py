"""The worker as two rehearsals put it into the function for a moment: it fails at decoys that ask for it.

Nothing leads here but a change of the function's configuration, and no object but a rehearsal's decoy is touched
by its faults.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.aws.edge import wired
from sexton.aws.logs import raising_redacted
from sexton.decoy import FaultyTarget
from sexton.grants import WORKER
from sexton.policy import Policy
from sexton.run import Run
from sexton.target import AnyTarget, AtomicTarget

from handlers.worker import logger, work_all


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """As the worker's, with faults."""
    _, wiring = wired(WORKER)

    def target(policy: Policy, run: Run) -> AnyTarget:
        found = wiring.target(policy, run)
        return found if isinstance(found, AtomicTarget) else FaultyTarget(found, _die)

    return work_all(event, context, target)


def _die() -> None:
    """End at once, as when Lambda kills the process: nothing is closed, and nothing is said."""
    os.kill(os.getpid(), signal.SIGKILL)

"""The reconciler function: the minute tick."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.aws.edge import clock, event_log, time_left, token, wired
from sexton.aws.logs import raising_redacted, redacting_logger
from sexton.aws.policies import deployed
from sexton.closing import Closing
from sexton.grants import RECONCILER
from sexton.ledger import Ledger
from sexton.reconcile import Reconciling

logger = redacting_logger()


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, bool]:
    """One tick. Raises when some run could not be attended to, so that the function's error alarm tells."""
    settings, wiring = wired(RECONCILER)
    ledger, evidence, log, left = Ledger(wiring.table()), wiring.evidence(), event_log(logger), time_left(context)
    Reconciling(
        ledger=ledger,
        evidence=evidence,
        target=wiring.target,
        discovery=wiring.discovery(),
        gauges=wiring.gauges(),
        closing=Closing(ledger, evidence, wiring.events(), clock, token, log, wiring.region, left),
        policies=deployed(settings),
        clock=clock,
        token=token,
        time_left=left,
        log=log,
        mismatch=settings.mismatch,
    ).tick()
    return {"ticked": True}

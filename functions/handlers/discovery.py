"""The discovery function: a schedule's event starts a run, plans it and dispatches it; a resume goes on with one."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.aws.edge import clock, event_log, time_left, token, wired
from sexton.aws.logs import raising_redacted, redacting_logger
from sexton.aws.policies import deployed
from sexton.discovering import Discovering
from sexton.dispatch import Dispatching
from sexton.grants import DISCOVERY
from sexton.ledger import Ledger
from sexton.planning import Planning
from sexton.starting import Starting

logger = redacting_logger()


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, object]:
    """Answers `{"run_id", "state", "created", "skipped"}`, or `{"error": {"code", "message"}}` for a refused event."""
    settings, wiring = wired(DISCOVERY)
    ledger, evidence, left = Ledger(wiring.table()), wiring.evidence(), time_left(context)
    policies = deployed(settings)
    return Discovering(
        ledger=ledger,
        policies=policies,
        starting=Starting(ledger, evidence, policies, clock, token),
        planning=Planning(ledger, evidence, wiring.stores(), clock, token, left),
        dispatching=Dispatching(ledger, wiring.queue(), clock, token, left, settings.visibility),
        log=event_log(logger),
    ).discover(event)

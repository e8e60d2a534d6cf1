"""The control functions, `Operate` and `Approve`: one request of a person, behind a Function URL that IAM guards."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.approving import Approving
from sexton.aws.edge import clock, event_log, token, wired
from sexton.aws.function_url import answered, body_of, caller_of
from sexton.aws.logs import raising_redacted, redacting_logger
from sexton.aws.policies import deployed
from sexton.change_request import Door
from sexton.controlling import Controlling
from sexton.ledger import Ledger
from sexton.pausing import Pausing
from sexton.redriving import Redriving
from sexton.replaying import Replaying
from sexton.stopping import Stopping
from sexton.strays import Straying
from sexton.undoing import Undoing

logger = redacting_logger()


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, object]:
    """Answers `{"result"}` or `{"error": {"code", "message", "hint"}}`, with the status that says which."""
    settings, wiring = wired()
    ledger, policies, log = Ledger(wiring.table()), deployed(settings), event_log(logger)
    dead_letters, stopping = wiring.dead_letters(), Stopping(ledger, policies, clock, token, log)
    controlling = Controlling(
        door=Door(settings.door),
        discovery=wiring.discovery(),
        stopping=stopping,
        pausing=Pausing(stopping, ledger, policies, wiring.schedules()),
        approving=Approving(ledger, policies, clock, token, log),
        replaying=Replaying(ledger, policies, clock, token, log),
        undoing=Undoing(ledger, wiring.evidence(), policies, clock, token, log),
        straying=Straying(ledger, dead_letters),
        redriving=Redriving(dead_letters),
        clock=clock,
        token=token,
        log=log,
        changes_sent=wiring.changes_sent,
    )
    return answered(controlling.answer(caller_of(event, trusting=settings.trust_caller), body_of(event)))

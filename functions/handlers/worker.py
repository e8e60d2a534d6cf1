"""The worker function: each message of a batch by itself; what could not be told comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.aws.edge import clock, event_log, jitter, time_left, token, wired
from sexton.aws.logs import raising_redacted, redacting_logger
from sexton.aws.policies import deployed
from sexton.grants import WORKER
from sexton.instant import from_ms
from sexton.ledger import Ledger
from sexton.policy import Policy
from sexton.run import Run
from sexton.target import AnyTarget
from sexton.working import Answer, Delivery, Working

logger = redacting_logger()


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Answers with the messages that are kept, in Lambda's form for partial batch failures."""
    _, wiring = wired(WORKER)
    return work_all(event, context, wiring.target)


def work_all(
    event: dict[str, Any], context: LambdaContext, target: Callable[[Policy, Run], AnyTarget]
) -> dict[str, list[dict[str, str]]]:
    """Work on each message of a batch, with this target."""
    settings, wiring = wired(WORKER)
    working = Working(
        ledger=Ledger(wiring.table()),
        evidence=wiring.evidence(),
        target=target,
        deliveries=wiring.deliveries(),
        policies=deployed(settings),
        clock=clock,
        token=token,
        jitter=jitter,
        time_left=time_left(context),
        log=event_log(logger),
        lease=settings.lease,
        visibility=settings.visibility,
        reserve=settings.reserve,
    )
    kept = [record["messageId"] for record in event["Records"] if _work(working, record) is Answer.KEEP]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


def _work(working: Working, record: dict[str, Any]) -> Answer:
    """One bad record must not fail the others: whatever goes wrong, its message is kept and comes again."""
    try:
        sent_at = from_ms(int(record["attributes"]["SentTimestamp"]))
        return working.work(Delivery(record["messageId"], record["receiptHandle"], record["body"], sent_at))
    except Exception:
        logger.exception("message_not_settled", extra={"message_id": record["messageId"]})
        return Answer.KEEP

"""The widget function: the view, as a piece of a CloudWatch dashboard. It reads, and knows nobody who looks."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from sexton.aws.edge import clock, wired
from sexton.aws.logs import raising_redacted, redacting_logger
from sexton.ledger import Ledger
from sexton.replay_preview import ReplayPreview
from sexton.view import view, widget

DESCRIBED = "What is stuck in Sexton, why, and what a replay would do now. It takes no parameters and changes nothing."

logger = redacting_logger()


@raising_redacted
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> str | dict[str, str]:
    """Answers with HTML for the dashboard, or with its description in Markdown where CloudWatch asks for that.

    The event is CloudWatch's: `{"widgetContext": {"theme": "light" | "dark", ...}}`, or `{"describe": true}`.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/add_custom_widget_dashboard_about.html
    """
    if event.get("describe"):
        return {"markdown": DESCRIBED}
    _, wiring = wired()
    ledger = Ledger(wiring.table())
    seen = view(ledger, ReplayPreview(ledger, wiring.evidence(), wiring.stores(), clock), clock())
    return widget(seen, dark=(event.get("widgetContext") or {}).get("theme") == "dark")

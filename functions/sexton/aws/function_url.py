"""What a Function URL hands to a handler, and what it takes back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from sexton.controlling import Answer, Caller
from sexton.redact import redact

ACTOR = "x-sexton-actor"  # heard only where a deployment says that callers are to be believed
LONGEST_ACTOR = 200


def caller_of(event: Mapping[str, Any], *, trusting: bool) -> Caller | None:
    """Who signed the request, as IAM found; else, where callers are trusted, whom they say they are; else None."""
    identity = ((event.get("requestContext") or {}).get("authorizer") or {}).get("iam") or {}
    if identity.get("userArn"):
        return Caller(str(identity["userArn"]), verified=True)
    named = redact(str((event.get("headers") or {}).get(ACTOR, "")), LONGEST_ACTOR)
    return Caller(named, verified=False) if trusting and named else None


def body_of(event: Mapping[str, Any]) -> bytes:
    """The body as it was sent. One that says that it is in base64 and is not is handed on as it stands."""
    body = str(event.get("body") or "")
    if event.get("isBase64Encoded"):
        try:
            return base64.b64decode(body, validate=True)
        except ValueError:  # binascii.Error is one
            pass
    return body.encode("utf-8", errors="surrogatepass")


def answered(answer: Answer) -> dict[str, object]:
    """An answer in the form that Lambda makes an HTTP response of; nobody may keep it."""
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return {"statusCode": answer.status, "headers": headers, "body": json.dumps(answer.body)}

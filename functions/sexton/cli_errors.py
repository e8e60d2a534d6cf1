"""What went wrong, as the command line tells it: a stable code, a message, and what to do."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from pydantic import ValidationError

from sexton.deployment import ChangeUnsure
from sexton.errors import CallFailed, EvidenceAltered, Failure, ReasonClass, Refused, SextonError
from sexton.redact import redact_if_needed

HINTS = {
    "unknown_policy": "deploy it first (a minute later all commands know it); `sexton policy check` shows what a folder"
    " of policies holds",
    "unknown_run": "`sexton run list` shows the runs that there are",
    "bad_run_id": "`sexton run list` shows the runs that there are; an id is taken whole",
    "unknown_job": "`sexton dlq list` shows the dead jobs that there are",
    "bad_job_id": "`sexton dlq list` shows the dead jobs that there are; an id is taken whole",
    "bad_address": "quote it if the key holds what your shell would read",
    "bad_event": "`sexton run start --help` shows what can be asked for",
    "no_plan": "`sexton run show` says where the run stands",
    "another_run_open": "`sexton run watch` follows it; start this one when it has ended",
    "already_invalidated": "to plan the same scheduled time once more: sexton run start POLICY --at TIME --reissue",
    "broken_policy": "docs/policies.md says what each field means",
    "stack_not_found": "name it with --stack or SEXTON_STACK; see that region, profile and endpoint are those you mean",
    "bad_configuration": "see AWS_ENDPOINT_URL, AWS_REGION and ~/.aws/config",
    "bad_request": "if nothing is wrong with what you typed, use the version of the command that the stack has",
    "wrong_door": "use the version of the command that the stack has",
    "no_identity": "sign in (aws sso login); on the local stage SEXTON_ACTOR says who you are",
    "no_control": "deploy the stack again, with this version",
    "refused": "`sexton run show` says where the run stands",
}
EVIDENCE_HINT = "`sexton verify RUN` says what else differs; the bucket's versions hold what was written first"
FUNCTION_HINT = "its log in CloudWatch has the whole story (aws logs tail /aws/lambda/NAME)"
UNSURE_HINT = "look before you ask again: `sexton run show`, `sexton dlq list` and `sexton status` tell what was done"
DOWN_HINT = "see that AWS_ENDPOINT_URL and AWS_REGION are right; `make local` starts a local stage"
CREDENTIALS_HINT = "set AWS_PROFILE or sign in again (aws sso login); for the local stage: . .local/env"
LONGEST_LINE = 2000  # characters of a message that had to be redacted

_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "TokenRetrievalError",
    "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
    "ProfileNotFound",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
}
_DOWN = {
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ConnectionClosedError",
    "ProxyConnectionError",
    "HTTPClientError",
    "SSLError",
}
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"}


class Trouble(NamedTuple):
    """What is told. Codes are stable; messages and hints are for people."""

    code: str
    message: str
    hint: str

    def tell(self, *, as_json: bool, data_begun: bool = False) -> None:
        """On stdout as JSON for scripts, unless data stands there already; else on stderr, for people.

        A message may quote what was typed, and terminals are recorded.
        """
        message = redact_if_needed(self.message, LONGEST_LINE)
        if as_json:
            text = json.dumps({"error": {**self._asdict(), "message": message}}, indent=2)
            print(text, file=sys.stderr if data_begun else sys.stdout)
            return
        from sexton.escaping import harmless

        for line in message.splitlines():
            print(f"error: {harmless(line)}", file=sys.stderr)
        print(f"hint:  {harmless(self.hint)}", file=sys.stderr)


def trouble(error: SextonError | ValueError | OSError) -> Trouble:
    """What to tell of an error that can be expected. One that cannot is raised again: it is a mistake of ours."""
    if isinstance(error, CallFailed):
        return _of_call(error.failure)
    if isinstance(error, EvidenceAltered):
        return Trouble("evidence_altered", str(error), EVIDENCE_HINT)
    if isinstance(error, ChangeUnsure):
        return Trouble("change_unsure", f"it may have been done, or not: {error}", UNSURE_HINT)
    if isinstance(error, Refused):
        hint = getattr(error, "hint", "") or HINTS["refused"]
        return Trouble(error.code, str(error), HINTS.get(error.code, hint))
    if isinstance(error, SextonError):
        return Trouble("function_failed", str(error), FUNCTION_HINT)
    if isinstance(error, OSError):
        return Trouble("unreadable", str(error), "see that the file is there and may be read")
    if isinstance(error, ValidationError):
        what = f"a {error.title} cannot be read: {error.error_count()} of its fields are not as this version knows them"
        return Trouble("unreadable_row", what, "install the version of Sexton that the stack has")
    raise error


def _of_call(failure: Failure) -> Trouble:
    text = f"{failure.code}: {failure.summary}"
    if failure.code in _CREDENTIALS:
        return Trouble("no_credentials", text, CREDENTIALS_HINT)
    if failure.code == "NoRegionError":
        return Trouble("no_region", text, "set AWS_REGION, or a region in the profile")
    if failure.code in _DOWN:
        return Trouble("endpoint_down", text, DOWN_HINT)
    if failure.code in _DENIED:
        return Trouble("missing_permission", text, "ask for the permission that the message names, or use another role")
    if failure.reason_class is ReasonClass.THROTTLED:
        return Trouble("throttled", text, "try again in a moment")
    return Trouble("call_failed", text, "try again; if it stays so, look up the code in the service's documentation")

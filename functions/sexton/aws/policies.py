"""The policies that were deployed with the code: they lie in the asset, beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sexton.aws.settings import Settings
from sexton.policy import Policy, load_policies, refuse_own

FOLDER = Path(__file__).resolve().parents[2] / "policies"


@cache
def deployed(settings: Settings, folder: Path = FOLDER) -> dict[str, Policy]:
    """The deployed policies by id; they cannot change while the process lives.

    Raises PolicyError when one is broken or would cover Sexton's own evidence: then no function starts.
    """
    policies = load_policies(folder)
    refuse_own(policies, {settings.evidence_bucket}, {settings.ledger_table})
    return {policy.id: policy for policy in policies}

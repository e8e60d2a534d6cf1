"""The stack under the rules of cdk-nag's pack AwsSolutions: each finding mended, or accepted with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.infra.conftest import CLOSED, stack_of

EMAIL = {"alarm_email": "oncall@example.com"}
EVERYTHING = {**EMAIL, **CLOSED}


class Finding(NamedTuple):
    """A rule that does not hold, and the path of the construct."""

    rule: str
    path: str


class Accepted(NamedTuple):
    """What the code accepts."""

    rule: str
    path: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        return self.rule == finding.rule and f"{finding.path}/".startswith(f"{self.path}/")


def findings(folder: Path, context: dict[str, str]) -> Iterator[Finding]:
    """Those that are not accepted; the pack reads what the rights came to, so the stack is synthesized first."""
    from aws_cdk.assertions import Template
    from cdk_nag import AwsSolutionsChecks

    stack = stack_of(folder / "code", **context)
    Template.from_stack(stack)
    for violation in AwsSolutionsChecks(stack).validate_scope(stack).violations:
        assert "threw an error" not in violation.description, violation.rule_name
        for resource in violation.violating_resources:
            yield Finding(violation.rule_name, resource.construct_path or "")


def test_no_finding_is_left_open(tmp_path: Path) -> None:
    assert list(findings(tmp_path, EVERYTHING)) == []


@pytest.mark.parametrize("context", [EMAIL, EVERYTHING], ids=["plain", "with everything"])
def test_what_is_accepted_is_what_is_found(
    tmp_path: Path, context: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same stack without its acceptances, which are noted instead."""
    from constructs import IConstruct

    from infra import review

    accepted: set[Accepted] = set()

    def note(construct: IConstruct, rule: str, reason: str) -> None:
        accepted.add(Accepted(rule, construct.node.path, reason))

    monkeypatch.setattr(review, "accept", note)
    found = list(findings(tmp_path, context))

    assert [finding for finding in found if not any(each.covers(finding) for each in accepted)] == []
    assert [each for each in accepted if not any(each.covers(finding) for finding in found)] == []
    assert all(each.reason.endswith(".") and len(each.reason.split()) > 5 for each in accepted)

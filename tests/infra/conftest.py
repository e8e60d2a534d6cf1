"""One synthesized stack for all tests of the template."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.infra.template import Template

if TYPE_CHECKING:
    from infra.stack import SextonStack

ROOT = Path(__file__).resolve().parents[2]
POLICIES = Path(__file__).parent / "policies"

KEY = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
SOURCE_KEY = "arn:aws:kms:eu-west-1:210987654321:key/99999999-8888-7777-6666-555555555555"
CLOSED = {"kms_key_arn": KEY, "source_kms_key_arns": SOURCE_KEY, "evidence_lock_days": "30"}

os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))
os.environ.setdefault("CDK_VALIDATION", "false")  # cfn-lint, which `test_lint` runs, validates as much


def stack_of(code_folder: Path, **context: object) -> SextonStack:
    """A stack, with an asset that stands for the code."""
    import aws_cdk as cdk
    from sexton.policy import load_policies

    from infra import config
    from infra.stack import SextonStack

    code_folder.mkdir(exist_ok=True)
    (code_folder / "code.py").write_text("")
    flags: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context={**flags, "policies": str(POLICIES), **context}, outdir=str(code_folder.parent / "cdk.out"))
    settings = config.read(app.node.get_all_context())
    policies = load_policies(settings.policies_folder)
    code = cdk.aws_lambda.Code.from_asset(str(code_folder))
    return SextonStack(app, settings=settings, policies=policies, code=code)


def synthesize(code_folder: Path, **context: object) -> Template:
    """The template of a stack."""
    import aws_cdk as cdk

    stack = stack_of(code_folder, **context)
    return Template(stack.stack_name, cdk.assertions.Template.from_stack(stack).to_json())


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The stack as `make deploy` would make it, with the policies beside this file."""
    return synthesize(tmp_path_factory.mktemp("synth") / "code", alarm_email="oncall@example.com")


@pytest.fixture(scope="session")
def closed_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The same with the customer's key and with evidence that is locked."""
    return synthesize(tmp_path_factory.mktemp("closed") / "code", **CLOSED)

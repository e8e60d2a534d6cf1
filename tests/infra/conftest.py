"""One synthesized stack for all tests of the template."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.infra.template import Template

ROOT = Path(__file__).resolve().parents[2]
POLICIES = Path(__file__).parent / "policies"

os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))
os.environ.setdefault("CDK_VALIDATION", "false")  # cfn-lint, which `test_lint` runs, validates as much


def synthesize(code_folder: Path, **context: object) -> Template:
    """The template of a stack, with an asset that stands for the code."""
    import aws_cdk as cdk
    from sexton.policy import load_policies

    from infra import config
    from infra.stack import SextonStack

    code_folder.mkdir(exist_ok=True)
    (code_folder / "code.py").write_text("")
    flags: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context={**flags, "policies": str(POLICIES), **context}, outdir=str(code_folder.parent / "cdk.out"))
    settings = config.read(app.node.try_get_context)
    policies = load_policies(settings.policies_folder)
    code = cdk.aws_lambda.Code.from_asset(str(code_folder))
    stack = SextonStack(app, settings=settings, policies=policies, code=code)
    return Template(stack.stack_name, cdk.assertions.Template.from_stack(stack).to_json())


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The stack as `make deploy` would make it, with the policies beside this file."""
    return synthesize(tmp_path_factory.mktemp("synth") / "code", alarm_email="oncall@example.com")

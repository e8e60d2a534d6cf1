"""The template as CloudFormation's own linter reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.conftest import ROOT
from tests.infra.template import Template


@pytest.mark.parametrize("which", ["template", "closed_template"])
def test_the_template_passes_cfn_lint(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    template: Template = request.getfixturevalue(which)
    written = tmp_path / "template.json"
    written.write_text(json.dumps(template.json))
    linter = Path(sys.executable).parent / "cfn-lint"

    done = subprocess.run([linter, written], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")

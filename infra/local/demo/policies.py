"""The policies that the demo deploys: the examples, some of which it enforces before anybody has looked.

Only here: what a person should look at first is reported, or waits for approval, as long as the files say so.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from infra.local.stage import ROOT

EXAMPLES = ROOT / "policies"
ENFORCED = ("versions-purge", "scratch-tags", "incoming-abort", "reminders-delete", "quotes-delete")
AT_ONCE = {"mode": "enforce", "approval": "none", "recovery": "none"}


def write(folder: Path) -> Path:
    """Write the policies into a folder of their own, which is returned."""
    shutil.copytree(EXAMPLES, folder)
    for policy in ENFORCED:
        file = folder / f"{policy}.yaml"
        file.write_text(json.dumps(yaml.safe_load(file.read_text()) | AT_ONCE, indent=1))  # JSON is YAML
    return folder

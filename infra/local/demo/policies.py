"""The policies that the demo deploys: the examples, some of which it enforces before anybody has looked.

Only here: what a person should look at first is reported, or waits for approval, as long as the files say so.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from infra.local.stage import ROOT

EXAMPLES = ROOT / "policies"
CALLING = "bookings-cancel"
OF_RECORDS = ("reminders-delete", "quotes-archive", "contracts-mark", CALLING)
ENFORCED = ("versions-purge", "scratch-tags", "incoming-abort", *OF_RECORDS)
AT_ONCE = {"mode": "enforce", "approval": "none"}


CALLS_A_SECOND = 50


def write(folder: Path, host: str) -> Path:
    """Write the policies into a folder of their own, which is returned. `host` is the application's."""
    shutil.copytree(EXAMPLES, folder)
    for policy in ENFORCED:
        file = folder / f"{policy}.yaml"
        fields = {"recovery": "none", **yaml.safe_load(file.read_text()), **AT_ONCE}
        if policy == CALLING:
            _call(fields["action"], host)
        file.write_text(json.dumps(fields, indent=1))  # JSON is YAML
    return folder


def _call(action: dict[str, Any], host: str) -> None:
    """Have the placeholder's endpoint be one of this host."""
    (placeholder,) = action["hosts"]
    url = action["url"].replace(placeholder, host, 1)
    action.update(hosts=[host], url=url, rate=CALLS_A_SECOND)

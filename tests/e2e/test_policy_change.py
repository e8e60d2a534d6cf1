"""A deployment that changes a policy while a run of it is under way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from infra.local import stage as stages
from tests.e2e.conftest import CONTEXT
from tests.e2e.proxy import Proxy
from tests.e2e.site import Site, numbered, until

BUCKET = "e2e-redeployed"


def test_nothing_more_goes_under_the_old_rule(site: Site, proxy: Proxy, policies: Path, tmp_path: Path) -> None:
    """The run is invalidated, its jobs cancelled, its books balance; the next run plans anew, under the new rule."""
    keys = numbered("redeployed/", 30)
    site.fill(BUCKET, keys)
    site.age()
    with site.worker_held():
        run_id = site.start("redeployed")
        until(lambda: site.show(run_id)["state"] == "draining", 90, "it is dispatched")
        changed = shutil.copytree(policies, tmp_path / "policies")
        file = changed / "redeployed.yaml"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"source": _only(".old")}))
        before = len(proxy.calls)
        stages.deploy(site.stage.emulator, policies=changed, **CONTEXT)
        site.closed(run_id)
    run = site.show(run_id)
    assert (run["state"], run["reason"], run["balanced"]) == ("invalidated", "policy_changed", True)
    assert (run["planned"], run["cancelled"], run["deleted"], run["open"]) == (30, 30, 0, 0)
    assert run["jobs_by_state"] == {"cancelled": 3}
    assert site.told("verify", run_id)["holds"]

    site.fill(BUCKET, ["redeployed/1.old"])
    site.age()
    again = site.start("redeployed")
    site.closed(again)
    anew = site.show(again)
    assert anew["policy_version"] != run["policy_version"]
    assert (anew["state"], anew["balanced"], anew["planned"], anew["deleted"]) == ("completed", True, 1, 1)
    assert site.keys(BUCKET) == keys
    deletes = [c for c in proxy.calls[before:] if c.operation == "s3:DeleteObjects" and c.holds(f"/{BUCKET}")]
    assert len(deletes) == 1


def _only(suffix: str) -> dict[str, object]:
    return {"kind": "s3", "bucket": BUCKET, "prefixes": ["redeployed/"], "include": {"suffixes": [suffix]}}

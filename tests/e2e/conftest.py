"""One stage for all end-to-end tests: an emulator, and the stack put into it by `cdk deploy`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import stage as stages
from infra.local.stage import Stage

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
WORKER_TIMEOUT = 6  # seconds; a lease is 36 then, and so is the visibility
DEPLOY_SECONDS = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process, in which the stage is deployed once."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("stage"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(DEPLOY_SECONDS))


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The deployed stack: `stage.outputs`, `stage.environment` for a command, `stage.client("s3")`."""
    folder = tmp_path_factory.mktemp("stage")
    with stages.running(folder, policies=POLICIES, worker_timeout=WORKER_TIMEOUT) as deployed:
        yield deployed

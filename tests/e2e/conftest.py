"""One stage for all end-to-end tests: an emulator, and the stack put into it by `cdk deploy`.

Between the functions and the emulator sits a proxy, which records their calls and crashes them where a test says.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import emulator as emulators
from infra.local import stage as stages
from infra.local.demo import application as applications
from infra.local.demo.application import Application
from infra.local.stage import Stage
from tests.e2e import hardships, record_stories, stories
from tests.e2e.faults import Faults
from tests.e2e.hardships import Struck
from tests.e2e.proxy import Proxy
from tests.e2e.record_stories import Killed
from tests.e2e.site import Site
from tests.e2e.stories import Story

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
REHEARSAL = HERE.parents[1] / "docs" / "rehearsing" / "rehearsal.yaml"
WORKER_TIMEOUT = 10  # seconds; a lease is 40 then, and the visibility 60
CONTEXT: dict[str, object] = {"worker_timeout": WORKER_TIMEOUT, "mismatch_seconds": 5}
TEST_SECONDS = 600  # only what hangs takes so long; the first test waits for the deployment

# The crashes of `begun` and the faults of `struck` take minutes to be recovered from, which the tests in between use;
# a redeployment would disturb them, so it comes last.
ORDER = (
    "test_stage",
    "test_doctor",
    "test_rehearse",
    "test_dead_letters",
    "test_line",
    "test_kinds",
    "test_records",
    "test_record_actions",
    "test_real_faults",
    "test_faults",
    "test_poison",
    "test_policy_change",
)


@pytest.hookimpl(tryfirst=True)  # before xdist, which looks at the groups once
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process, in which the stage is deployed once, and in an order that wastes no time."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("stage"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))
    ordered = iter(sorted(ours, key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else -1))
    items[:] = [next(ordered) if HERE in item.path.parents else item for item in items]


@pytest.fixture(scope="session")
def proxy() -> Iterator[Proxy]:
    """What stands between the functions and the emulator."""
    with Proxy().serving() as serving:
        yield serving


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """What is called for records."""
    with applications.running(tmp_path_factory.mktemp("application"), record_stories.MOODS) as running:
        yield running


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory, application: Application) -> Path:
    """The folder of policies that is deployed: those of this folder, and one for each story of a crash or hardship."""
    folder = tmp_path_factory.mktemp("deployed") / "policies"
    shutil.copytree(POLICIES, folder)
    shutil.copy(REHEARSAL, folder)
    stories.write_policies(folder)
    hardships.write_policies(folder)
    record_stories.write_policies(folder)
    record_stories.write_action_policies(folder, application.host)
    return folder


@pytest.fixture(scope="session")
def stage(
    tmp_path_factory: pytest.TempPathFactory, proxy: Proxy, policies: Path, application: Application
) -> Iterator[Stage]:
    """The deployed stack: `stage.outputs`, `stage.environment` for a command, `stage.client("s3")`."""
    with warnings.catch_warnings():
        # The process is known by its id from here on, and ended by it; its handle is let go on purpose.
        warnings.simplefilter("ignore", ResourceWarning)
        emulator = emulators.start(tmp_path_factory.mktemp("stage"), proxy.environment)
    try:
        proxy.forward_to(emulator)
        stages.bootstrap(emulator)
        deployed = stages.deploy(emulator, policies=policies, local_ca=application.authority, **CONTEXT)
        deployed.client("secretsmanager").create_secret(Name=applications.SECRET, SecretString=applications.TOKEN)
        yield deployed
    finally:
        emulator.stop()


@pytest.fixture(scope="session")
def site(stage: Stage) -> Site:
    """The stage as its users have it: the command line, and buckets."""
    return Site(stage)


@pytest.fixture(scope="session")
def begun(site: Site, proxy: Proxy) -> dict[str, Story]:
    """Every story of a crash, begun: each process has been killed. Recovery goes on while other tests run."""
    return stories.begin_all(site, proxy)


@pytest.fixture(scope="session")
def killed(site: Site, proxy: Proxy) -> dict[str, Killed]:
    """Every run over records whose worker has been killed at its removals, by its policy."""
    return record_stories.begin_all(site, proxy)


@pytest.fixture(scope="session")
def faults(stage: Stage, proxy: Proxy) -> Iterator[Faults]:
    """What makes the network and AWS fail."""
    with Faults(stage.emulator.endpoint, proxy).serving() as serving:
        yield serving


@pytest.fixture(scope="session")
def struck(site: Site, proxy: Proxy, faults: Faults) -> dict[str, Struck]:
    """Every run that meets a hardship, by its policy: begun, and not recovered yet."""
    return hardships.begin_all(site, proxy, faults)


@pytest.fixture(scope="session")
def struck_records(site: Site, faults: Faults) -> dict[str, Struck]:
    """Every run over records that meets a hardship, by its policy: begun, and not recovered yet."""
    return record_stories.strike_all(site, faults)

"""Every case runs in every world; where a world is known to lie, the case must fail there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from boto3.session import Session
from botocore.client import BaseClient
from moto import mock_aws
from sexton.aws.clients import Clients

from infra.local import emulator
from tests.contract.lies import LIES
from tests.contract.worlds import AwsWorld, FakeWorld, World

REGION = "eu-central-1"
MOTO_ACCOUNT = "123456789012"


@dataclass(frozen=True)
class AwsPlace:
    """What the cases on one emulator share."""

    name: str
    clients: Clients
    account: str
    made: list[BaseClient]

    def close(self) -> None:
        """Let go of the clients' connections."""
        for client in self.made:
            client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the listed lies: strictly, so that an entry must go when its emulator stops lying."""
    for item in items:
        if item.path.parent != Path(__file__).parent or not isinstance(item, pytest.Function):
            continue
        for lie in LIES:
            if lie.concerns(item.originalname, item.callspec.id if hasattr(item, "callspec") else ""):
                strict = not lie.within_a_second
                item.add_marker(pytest.mark.xfail(reason=lie.reason, strict=strict, run=not lie.hangs))
        if "ministack" in item.name:
            item.add_marker(pytest.mark.xdist_group("contract-ministack"))


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsPlace]:
    """One emulator for all suites: each case makes tables, buckets and queues of its own."""
    with warnings.catch_warnings():
        # The process is known by its id from here on, and ended by it; its handle is let go on purpose.
        warnings.simplefilter("ignore", ResourceWarning)
        running = emulator.start(tmp_path_factory.mktemp("ministack"))
    try:
        with closing(_place("ministack", running.account, running.environment)) as place:
            yield place
    finally:
        running.stop()


@pytest.fixture(scope="session")
def moto() -> Iterator[AwsPlace]:
    """Clients that moto answers inside `mock_aws`."""
    with mock_aws():  # for its credentials, which the clients keep
        place = _place("moto", MOTO_ACCOUNT, {"AWS_EC2_METADATA_DISABLED": "true"})
    with closing(place):
        yield place


@pytest.fixture(params=["fake", "moto", "ministack"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The same case on the fakes and on the adapters."""
    if request.param == "fake":
        yield FakeWorld()
    else:
        yield from _aws_world(request)


@pytest.fixture(params=["moto", "ministack"])
def aws(request: pytest.FixtureRequest) -> Iterator[AwsWorld]:
    """Only the adapters: for what a fake has no part in, such as requests on the wire."""
    yield from _aws_world(request)


def _place(name: str, account: str, environment: Mapping[str, str]) -> AwsPlace:
    """Clients made under this environment and no other: they keep what they read of it."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
            patch.delenv(variable, raising=False)
        for variable, value in environment.items():
            patch.setenv(variable, value)
        clients = Clients(Session(region_name=REGION))
        made = [getattr(clients, name) for name, each in vars(Clients).items() if isinstance(each, cached_property)]
    return AwsPlace(name, clients, account, made)


def _aws_world(request: pytest.FixtureRequest) -> Iterator[AwsWorld]:
    place: AwsPlace = request.getfixturevalue(request.param)
    world = AwsWorld(place.name, place.clients, place.account, REGION)
    with mock_aws(config={"lambda": {"use_docker": False}}) if place.name == "moto" else nullcontext():
        yield world
    world.calm()

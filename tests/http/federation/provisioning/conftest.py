"""An organization with a connection outwards."""

from collections.abc import Iterator

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import People


@pytest.fixture
def far() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as made:
        yield made


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog, far: FakeRemoteSystem) -> ProvisioningScene:
    log.remember(far.token)
    return ProvisioningScene(postern, people, client, log, far=far)

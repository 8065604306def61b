"""Acme's shop, whose people go to a remote system, without rate limits."""

from collections.abc import Iterator

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
patient_with_keys = http.patient_with_keys


@pytest.fixture
def far() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as made:
        yield made


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, far: FakeRemoteSystem) -> ProvisioningScene:
    log.remember(far.token)
    return ProvisioningScene(postern, people, unlimited(postern), log, far=far)

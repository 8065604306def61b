"""The applications, without rate limits, since other tests cover the limits; and people with their browsers."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.arriving import Arriving
from tests.http.federation.relying import Relying
from tests.http.people import People, Person
from tests.http.signing_in import unlimited


@pytest.fixture
def relying(postern: Postern, people: People, log: CapturedLog) -> Relying:
    return Relying(postern, people, unlimited(postern), log)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
def ada(scene: Arriving) -> Person:
    return scene.people.add("ada@example.org")

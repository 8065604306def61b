"""Acme with every kind of receiver, and globex beside it, without rate limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.people import People
from tests.http.record.receiving_scene import ReceivingScene
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> ReceivingScene:
    return ReceivingScene(postern, people, unlimited(postern), log)

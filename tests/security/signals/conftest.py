"""Acme's shop, globex's shop, and Ada, with signals and without rate limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.signals.world import ListeningApplication

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def listening(postern: Postern, people: People, log: CapturedLog) -> ListeningApplication:
    return ListeningApplication(postern, people, unlimited(postern), log)

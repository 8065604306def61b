"""Hooks, with people and applications, without rate limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.arriving import Arriving
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.hooks.hooked import Hooks

database_url, people, postern = http.database_url, http.people, http.postern


@pytest.fixture
def arriving(postern: Postern, people: People, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, unlimited(postern), log)


@pytest.fixture
def hooks(postern: Postern) -> Hooks:
    return Hooks(postern)

"""Applications with keys."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.proving import Proving
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def proving(postern: Postern, people: People, log: CapturedLog) -> Proving:
    return Proving(postern, people, unlimited(postern), log)

"""Ada, her applications, and people who end what the applications have of her."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.gaps.meeting import GapScene

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def meeting(postern: Postern, people: People, log: CapturedLog, database_url: str) -> GapScene:
    return GapScene(postern, people, unlimited(postern), log, database_url)

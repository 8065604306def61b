"""The applications and APIs of acme, without rate limits, since other tests cover the limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.resources.asking import Asking
from tests.http.people import People
from tests.http.signing_in import unlimited


@pytest.fixture
def asking(postern: Postern, people: People, log: CapturedLog) -> Asking:
    return Asking(postern, people, unlimited(postern), log)

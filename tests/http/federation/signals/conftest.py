"""Shared signals, without rate limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.signals.scene import Signalling
from tests.http.people import People
from tests.http.signing_in import unlimited


@pytest.fixture
def signalling(postern: Postern, people: People, log: CapturedLog) -> Signalling:
    return Signalling(postern, people, unlimited(postern), log)

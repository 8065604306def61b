"""Clients that publish documents, without rate limits, since other tests cover the limits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.documents.publishing import PublishingClients, publishing
from tests.http.people import People


@pytest.fixture
async def clients(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    async with publishing(postern, people, log, tmp_path) as scene:
        yield scene

"""A world with one of everything, on an installation with two of the shipped providers and an organization's own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeCodeHost, FakeProvider, FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.endings.world import FullAccount

database_url, people = http.database_url, http.people


@pytest.fixture
def fakes() -> Iterator[dict[str, FakeProvider]]:
    with ExitStack() as running:
        yield {
            "codehost": running.enter_context(FakeCodeHost(client_id="codehost-client")),
            "websuite": running.enter_context(FakeWebSuite(client_id="websuite-client")),
            "own": running.enter_context(FakeProvider(client_id="own-client", client_secret="own-provider-secret-77")),
        }


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: dict[str, FakeProvider]) -> AsyncIterator[Postern]:
    more = {name: value for word in ("codehost", "websuite") for name, value in settings_of(word, fakes[word]).items()}
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def world(postern: Postern, people: People, log: CapturedLog, fakes: dict[str, FakeProvider]) -> FullAccount:
    return FullAccount(postern, people, unlimited(postern), log, fakes)

"""An installation with all three providers, and the people there."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeCodeHost, FakeOfficeSuite, FakeProvider, FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.http.upstream.scene import Fakes, UpstreamScene


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with ExitStack() as running:
        yield {
            "codehost": running.enter_context(FakeCodeHost(client_id="codehost-client")),
            "websuite": running.enter_context(FakeWebSuite(client_id="websuite-client")),
            "officesuite": running.enter_context(FakeOfficeSuite(client_id="officesuite-client")),
            "own": running.enter_context(FakeProvider(client_id="own-client", client_secret="own-provider-secret-77")),
        }


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    more = {name: value for word in ("codehost", "websuite", "officesuite") for name, value in settings_of(word, fakes[word]).items()}
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, client: object, log: CapturedLog, fakes: Fakes) -> UpstreamScene:
    return UpstreamScene(postern, people, client, log, fakes)  # type: ignore[arg-type]

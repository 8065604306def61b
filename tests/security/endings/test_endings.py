from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.domain.identity.endings import Cause, Kind
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.fake_providers import FakeCodeHost, FakeProvider, FakeWebSuite, settings_of
from tests.http import conftest as http
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.endings.causes import ACTS, VOUCHED
from tests.security.endings.living import ONCE, ids_of, opens, there
from tests.security.endings.world import World

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
def world(postern: Postern, people: People, log: CapturedLog, fakes: dict[str, FakeProvider]) -> World:
    return World(postern, people, unlimited(postern), log, fakes)


@pytest.mark.parametrize("cause", Cause, ids=lambda cause: cause.name.lower())
async def test_x(world: World, cause: Cause) -> None:
    await world.begin(proved=cause not in VOUCHED)
    ids = ids_of(world)
    before, opened = there(world, ids), await opens(world)
    print("BEFORE-MISSING", [k.name for k in Kind if before.get(k) is False], [k.name for k in Kind if opened.get(k) is False])
    await ACTS[cause](world)
    after, now = there(world, ids), {**await opens(world), **await opens(world, ONCE)}
    with open("/tmp/ends_walk.txt", "a") as f:
        f.write(f"{cause.name}\n")
        for name, kinds in (("ends", [k for k in Kind if not after.get(k, now.get(k))]), ("rests", [k for k in Kind if after.get(k) and now.get(k) is False]), ("stays", [k for k in Kind if after.get(k, now.get(k)) and now.get(k) is not False]), ("STRANGE", [k for k in Kind if after.get(k) is False and now.get(k)])):
            f.write(f"    {name}: {' '.join(k.name for k in kinds)}\n")
        f.write(f"    missing before: {[k.name for k in Kind if before.get(k) is False]} {[k.name for k in Kind if opened.get(k) is False]}\n")

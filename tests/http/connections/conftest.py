"""An organization with a directory by SAML, and one by OpenID Connect beside it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapters.saml import signing
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_directory import FakeDirectory
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http.conftest import postern_on, with_keys
from tests.http.connections.scene import ConnectionScene
from tests.http.federation.providing import kept_pairs
from tests.http.people import People
from tests.http.upstream.scene import Fakes


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding two primes takes a good part of a second."""
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with FakeProvider(client_id="own-client", client_secret="own-provider-secret-77") as own:
        yield {"own": own}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, client: object, log: CapturedLog, fakes: Fakes) -> ConnectionScene:
    scene = ConnectionScene(postern, people, client, log, fakes)  # type: ignore[arg-type]
    scene.directory = FakeDirectory()
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    return scene

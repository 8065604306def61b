"""The whole application in this process, on the real services; and people with sessions and tokens, as the callers."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from adapters.crypto import signing_keys
from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.driver import pool
from core.domain.tokens import KeyPurpose
from core.frozen import replace
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.http.application import HttpSettings, PosternApplication, build_application
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.settings import read
from tests.http import examples as examples_module
from tests.http.client import Client
from tests.http.people import BASE_URL, People
from tests.kept_metrics import keep_metrics
from tests.patience import PATIENCE
from tests.signing import current_key

# A busy machine may keep a request waiting for longer than people do.
SETTINGS = HttpSettings(base_url=BASE_URL, frontend_url=f"{BASE_URL}/ui", version="1.2.3", request_deadline=PATIENCE)
# Nothing listens at this address. For tests of what happens before Postern asks the database, or while the database is away.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
# Once: an application describes its endpoints, for 250 ms and more, and keeps the description by this object.
EXAMPLES = Endpoints.of(examples_module)


@asynccontextmanager
async def postern_on(database_url: str, directory: Path, more: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Postern]:
    """Opens Postern on this database. `more` are further settings."""
    settings = read(
        {
            "POSTERN_DATABASE_URL": database_url,
            "POSTERN_DATA_DIR": str(directory),
            "POSTERN_BASE_URL": BASE_URL,
            # The receivers of tests are on loopback.
            "POSTERN_OUTBOUND_NETWORKS": "127.0.0.1",
            # The key under which the signing keys of tests/signing.py are sealed.
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
            # Hashing as cheap as the settings allow. Tests of the hasher cover the real cost.
            "POSTERN_ARGON2_MEMORY": "8KiB",
            "POSTERN_ARGON2_PASSES": "1",
            **more,
        }
    )
    with pytest.MonkeyPatch.context() as patched:
        # Crowds of two hundred wait for ten connections, on a machine that may be busy.
        patched.setitem(cast("dict[str, float]", pool.Pool.__init__.__kwdefaults__), "timeout", PATIENCE)
        async with open_postern(settings) as opened:
            yield opened
    keep_metrics(opened.foundation.metrics)


@pytest.fixture(autouse=True)
def patient_with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer to read the signing keys than Postern lets a request wait for them."""
    monkeypatch.setattr(signing_keys, "READING_TAKES_AT_MOST", 60.0)


@pytest.fixture
def database_url(emptied_database_url: str) -> str:
    """The shared database, emptied: requests fill tables and change no schema."""
    return emptied_database_url


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path) as opened:
        await with_keys(opened)
        yield opened


async def with_keys(postern: Postern) -> None:
    """The signing keys that tests share."""
    async with postern.foundation.unit_of_work() as uow:
        await uow.signing_keys.lock_for_update()
        for purpose in KeyPurpose:
            await uow.signing_keys.add(current_key(purpose))
        await uow.commit()


@pytest.fixture
async def lonely_postern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Postern]:
    """Postern whose database is away, and not only for the time of a switchover."""
    monkeypatch.setattr(pool, "SWITCHOVER", 0)
    async with postern_on(NOWHERE, tmp_path) as opened:
        yield opened


@pytest.fixture
def client(postern: Postern) -> Client:
    return Client(build_application(postern, SETTINGS))


@pytest.fixture
def lonely_client(lonely_postern: Postern) -> Client:
    return Client(build_application(lonely_postern, SETTINGS))


@pytest.fixture
def examples(lonely_postern: Postern) -> Callable[..., Client]:
    """A client of the endpoints in tests/http/examples.py, under the settings given."""

    def build(**changes: Any) -> Client:
        return Client(PosternApplication(lonely_postern, replace(SETTINGS, **changes), EXAMPLES))

    return build


@pytest.fixture
def people(postern: Postern, database_url: str) -> Iterator[People]:
    with People(postern, database_url) as people:
        yield people

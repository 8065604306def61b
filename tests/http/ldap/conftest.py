"""An organization with a directory by LDAP."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.conftest import postern_on, with_keys
from tests.http.ldap.keeping import KeepingScene
from tests.http.ldap.scene import LdapScene
from tests.http.people import People
from tests.ldap.authority import Authority
from tests.ldap.fake import BIND_PASSWORD, FakeLdap


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.make()


@pytest.fixture
def directory(authority: Authority, tmp_path: Path) -> Iterator[FakeLdap]:
    with FakeLdap(authority.server_context(tmp_path, "127.0.0.1")) as running:
        running.add("ada")
        running.add("bob")
        yield running


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, client: object, log: CapturedLog, directory: FakeLdap, authority: Authority) -> LdapScene:
    return _with(LdapScene(postern, people, client, log), directory, authority)  # type: ignore[arg-type]


@pytest.fixture
def keeping(postern: Postern, people: People, client: object, log: CapturedLog, directory: FakeLdap, authority: Authority) -> KeepingScene:
    return _with(KeepingScene(postern, people, client, log), directory, authority)  # type: ignore[arg-type]


Scene = TypeVar("Scene", bound=LdapScene)


def _with(scene: Scene, directory: FakeLdap, authority: Authority) -> Scene:
    scene.directory, scene.authority = directory, authority
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    scene.log.remember(BIND_PASSWORD, "her directory password")
    return scene

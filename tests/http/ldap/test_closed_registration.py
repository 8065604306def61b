"""A closed installation, and a directory by LDAP of one of its organizations: it gives its own people accounts, and nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from tests.http.conftest import postern_on, with_keys
from tests.http.ldap.scene import LdapScene


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, {"POSTERN_REGISTRATION": "closed"}) as opened:
        await with_keys(opened)
        yield opened


async def test_it_gives_accounts_for_its_proved_domain_and_for_no_other(scene: LdapScene) -> None:
    scene.people.change("update all_organizations set registration_policy = 'closed'")
    scene.directory.add("eve", mail="eve@other.example")
    provider = await scene.active()
    before = scene.people.rows("select id from users order by id")
    for name, password in (("eve", "her directory password"), ("ada", "a wrong password"), ("nobody", "her directory password")):
        tabs = scene.browser()
        await scene.arrive(tabs, provider, name, password)
        assert tabs.session is None, name
    assert scene.people.rows("select id from users order by id") == before
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert tabs.session is not None
    (ada,) = scene.people.rows("select origin_org_id from users where email = 'ada@example.org'")
    assert ada["origin_org_id"] == scene.acme.id

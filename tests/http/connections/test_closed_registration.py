"""A closed installation, and a directory by SAML or OpenID Connect of one of its organizations: it gives its own people accounts, and is no
way in for anybody else.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from tests.http.conftest import postern_on, with_keys
from tests.http.connections.scene import ConnectionScene


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, {"POSTERN_REGISTRATION": "closed"}) as opened:
        await with_keys(opened)
        yield opened


async def test_it_gives_accounts_for_its_proved_domain_and_for_no_other(scene: ConnectionScene) -> None:
    """Its own organization is closed, too, and another one, on whose page its people come, is not asked."""
    scene.people.change("update all_organizations set registration_policy = 'closed'")
    scene.another = scene.tenants.add("globex")
    saml = await scene.active()
    oidc = await scene.own_provider(domain="")
    before = len(scene.people.rows("select from users"))
    for kind, provider in (("saml", saml), ("oidc", oidc)):
        for number, email in enumerate(("eve@other.example", "eve@below.example.org", f"{kind}@example.org")):
            scene.directory.subject, scene.directory.email = f"{kind} {number}", email
            scene.sits(email, word="own", sub=f"{kind} {number}")
            tabs = scene.browser()
            await (scene.arrive(tabs, provider) if kind == "saml" else scene.go(tabs, "?org=acme", word=provider))
            is_theirs = email.endswith("@example.org")
            assert (tabs.session is not None) is is_theirs, (kind, email)
    made = [row["email"] for row in scene.people.rows("select email from users order by created_at, id")]
    assert made[before:] == ["saml@example.org", "oidc@example.org"]

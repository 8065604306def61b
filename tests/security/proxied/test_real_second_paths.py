"""The lines of the guides in the real proxies keep second paths and prefixes from the application, after the check has seen them."""

import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.server.limits import ServerSettings
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.proxied.behind_proxies import COOKIE
from tests.http.people import People
from tests.http.running_server import running
from tests.security.proxied.behind import HOST, AtGuidesNames, Base, Proxy, at_the_guides_address, proxy
from tests.security.proxied.test_other_paths import OTHER_PATHS, PREFIXES, RULES
from tests.tools import needs

pytestmark = needs("nginx", "caddy", "haproxy")


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with at_the_guides_address(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def wiki(postern: Postern, people: People, client: Client, log: CapturedLog) -> AtGuidesNames:
    return AtGuidesNames(postern, people, client, log)


@pytest.mark.parametrize("kind", ["caddy", "nginx", "haproxy"])
async def test_the_proxies_of_the_guides_tell_the_application_no_second_path(kind: str, wiki: AtGuidesNames, tmp_path: Path) -> None:
    secret = await wiki.wiki(hosts=[HOST], rules=RULES)
    cookie = await wiki.cookie_of(secret, wiki.ada, host=HOST)
    base = Base.make(tmp_path / "base")
    settings = ServerSettings(certificate=base.certificates.certificate, certificate_key=base.certificates.key)
    at = ("127.0.0.1", base.port)
    async with running(wiki.unlimited.application, settings, address=at), proxy(kind, base, secret) as behind:
        for name in OTHER_PATHS:
            # The good form passes, and the application reads it from the request itself alone.
            assert await _statuses(behind, cookie, "/page?x=1", f"{name}: /page?x=1") == [200, 200], name
            for value in ("/admin", "/admin?/page", "/page, /admin", "", f"https://{HOST}/admin?/page"):
                assert await _statuses(behind, cookie, "/page", f"{name}: {value}") in ([401, 403], [200, 200] if not value else None), (
                    value
                )
            assert await _statuses(behind, cookie, "/page", f"{name}: /page", f"{name}: /admin") == [401, 403], name
        for name in PREFIXES:
            assert await _statuses(behind, cookie, "/page/admin", f"{name}: /page") == [401, 403], name
        for path in ("/index.php/admin", "/INDEX.PHP5/admin", "/a.php/b.php/admin", "/index.php/admin.json"):
            assert await _statuses(behind, cookie, path) == [401, 403], path
        for name in (*OTHER_PATHS, *PREFIXES):
            for form in (name.replace("-", "_"), name.replace("-", ".")):
                # nginx drops names with `_` itself.
                assert await _statuses(behind, cookie, "/page", f"{form}: /admin") in ([200, 200], [403, 403], [400, 400]), form
    told = {re.sub("[^a-z0-9]", "-", name.lower()) for one in behind.trusting.heard for name, _ in one.headers}
    assert behind.trusting.heard
    assert not told & {name.lower() for name in (*OTHER_PATHS, *PREFIXES)}


async def _statuses(behind: Proxy, cookie: str, target: str, *lines: str) -> Sequence[int]:
    """Of a stranger, and of Ada, who is no admin."""
    return [(await behind.get(target, *lines, *shown)).status for shown in ((), (f"Cookie: {COOKIE}={cookie}",))]

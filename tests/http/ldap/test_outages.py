"""A directory that is away: what people read, what is noted, and who comes in otherwise."""

from pathlib import Path
from uuid import UUID

import pytest

from adapters.ldap.messages import SEQUENCE, encoded, integer, octets
from core.domain.identity.sign_in_domains import LoginPolicy
from ops.browser.page_reader import PageReader
from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.http.routing import route
from tests.ldap.authority import Authority
from tests.ldap.fake import entry, result


async def test_an_outage_is_said_and_noted_once(scene: LdapScene) -> None:
    provider = await scene.active()
    scene.directory.is_away = True
    answer = await scene.arrive(scene.browser(), provider)
    for _ in range(2):
        answer = await scene.arrive(scene.browser(), provider)
        assert (answer.status, b"did not respond as expected" in answer.body) == (503, True)
    away = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert [(one["times"], one["reference"] in answer.body.decode()) for one in away] == [(3, True)]
    assert [row["provider"] for row in scene.people.rows("select provider from provider_outages")] == [provider]
    # The page stays, so that the person tries again there.
    scene.directory.is_away = False
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    assert scene.people.rows("select provider from provider_outages") == []


async def test_a_bind_account_that_is_refused_is_no_outage(scene: LdapScene) -> None:
    provider = await scene.active()
    scene.directory.answers = lambda number, operation, _: _refused(number) if operation == 0x60 else None
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    (recorded, *_) = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert (recorded["fault"], "bind password" in recorded["advice"]) == ("bind_refused", True)
    assert scene.people.rows("select provider from provider_outages") == []


async def test_a_stranger_makes_no_outage_and_opens_no_password(scene: LdapScene) -> None:
    """Three people share an address in a directory that keeps to no size limit. A stranger types it, and the domain's people may sign in
    with passwords of ours during an outage.
    """
    provider = await scene.active()
    route(scene.people, scene.acme, "example.org", provider=None, own=UUID(provider), login=LoginPolicy.PASSWORD_FALLBACK)
    scene.verified("ada@example.org")
    for at in range(3):
        scene.directory.add(f"shared{at}", mail="office@example.org")
    answer = await scene.arrive(scene.browser(), provider, "office@example.org", "x")
    assert answer.status == 400
    assert scene.people.rows("select provider from provider_outages") == []
    (recorded,) = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert (recorded["fault"], "uid=shared0" in recorded["reason"]) == ("several", True)


@pytest.mark.parametrize("limit", [3, 4])
async def test_a_limit_behind_one_person_decides_nothing(scene: LdapScene, limit: int) -> None:
    """Nobody knows whether there are more of the name. A test says so."""
    provider, ada = await scene.active(), scene.directory.people[0]

    def said(number: int, operation: int, body: bytes) -> bytes | None:
        if operation != 0x63 or b"ada" not in body:
            return None
        return entry(number, ada.dn, ada.attributes) + result(0x65, number, limit)

    scene.directory.answers = said
    assert (await scene.arrive(scene.browser(), provider)).status == 400
    assert not [dn for dn, _ in scene.directory.binds if dn == ada.dn]
    assert b"Several people have this name" in (await scene.test(provider)).body


async def test_a_certificate_that_does_not_count_opens_no_password(scene: LdapScene, tmp_path: Path) -> None:
    """Somebody on the way to the directory can show one."""
    provider = await scene.active()
    route(scene.people, scene.acme, "example.org", provider=None, own=UUID(provider), login=LoginPolicy.PASSWORD_FALLBACK)
    scene.directory.context = Authority.make().server_context(tmp_path, "127.0.0.1")
    tabs = scene.browser()
    asked = await tabs.request("GET", f"/auth/{provider}?org=acme")
    await tabs.request("GET", next(one for one in _links(asked.body) if one.startswith("/auth/")))
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    assert scene.people.rows("select provider from provider_outages") == []


async def test_what_breaks_off_behind_the_search_is_no_outage(scene: LdapScene) -> None:
    provider = await scene.active()
    hung_up = encoded(SEQUENCE, integer(0), encoded(0x78, integer(52, 0x0A), octets(b""), octets(b"")))
    scene.directory.answers = lambda _, operation, body: hung_up if operation == 0x60 and b"uid=" in body else None
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    assert scene.people.rows("select provider from provider_outages") == []


async def test_a_busy_directory_is_an_outage_and_counts_nothing(scene: LdapScene) -> None:
    provider = await scene.active()

    def busy(number: int, operation: int, body: bytes) -> bytes | None:
        return result(0x61, number, 51, "busy") if operation == 0x60 and PASSWORD.encode() in body else None

    scene.directory.answers = busy
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    assert scene.people.rows("select failures, under_way from directory_failures") == [{"failures": 0, "under_way": 0}]
    assert len(scene.people.rows("select provider from provider_outages")) == 1


async def test_with_the_fallback_an_outage_is_met_on_the_way(scene: LdapScene) -> None:
    provider = await scene.active()
    route(scene.people, scene.acme, "example.org", provider=None, own=UUID(provider), login=LoginPolicy.PASSWORD_FALLBACK)
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    scene.directory.is_away = True
    tabs = scene.browser()
    asked = await tabs.request("GET", f"/auth/{provider}?org=acme")
    link = next(one for one in _links(asked.body) if one.startswith("/auth/"))
    answer = await tabs.request("GET", link)
    # Our own ways, on our own page.
    assert answer.status == 400
    assert b'name="email"' in answer.body
    assert scene.people.rows("select provider from provider_outages") != []


def _links(body: bytes) -> list[str]:
    return list(PageReader(body).links)


def _refused(number: int) -> bytes:
    return result(0x61, number, 49, "no")

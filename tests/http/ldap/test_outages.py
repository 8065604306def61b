"""A directory that is away: what people read, what is noted, and who comes in otherwise."""

from uuid import UUID

from core.domain.identity.realms import LoginPolicy
from tests.http.browsing import PageReader
from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.http.routing import route
from tests.ldap.fake import result


async def test_an_outage_is_said_and_noted_once(scene: LdapScene) -> None:
    provider = await scene.active()
    scene.directory.is_away = True
    answer = await scene.arrive(scene.browser(), provider)
    for _ in range(2):
        answer = await scene.arrive(scene.browser(), provider)
        assert (answer.status, b"does not answer as it should" in answer.body) == (503, True)
    away = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert [(one["times"], one["reference"] in answer.body.decode()) for one in away] == [(3, True)]
    assert [row["provider"] for row in scene.people.rows("select provider from provider_outages")] == [provider]
    # The page stays, so that the person tries again there.
    scene.directory.is_away = False
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    assert scene.people.rows("select provider from provider_outages") == []


async def test_a_bind_account_that_is_refused_is_an_outage(scene: LdapScene) -> None:
    provider = await scene.active()
    scene.directory.answers = lambda number, operation, _: _refused(number) if operation == 0x60 else None
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    (recorded, *_) = [one for one in await scene.recorded(provider) if not one["succeeded"]]
    assert (recorded["fault"], "bind password" in recorded["advice"]) == ("bind_refused", True)


async def test_a_busy_directory_is_an_outage_and_counts_nothing_as_right(scene: LdapScene) -> None:
    provider = await scene.active()

    def busy(number: int, operation: int, body: bytes) -> bytes | None:
        return result(0x61, number, 51, "busy") if operation == 0x60 and PASSWORD.encode() in body else None

    scene.directory.answers = busy
    assert (await scene.arrive(scene.browser(), provider)).status == 503
    assert scene.people.rows("select failures, under_way from directory_failures") == [{"failures": 1, "under_way": 0}]


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

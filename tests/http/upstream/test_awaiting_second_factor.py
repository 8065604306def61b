"""A person has come back from a provider and must still give the second factor. If their access ends meanwhile, so does the sign-in."""

from collections.abc import Awaitable, Callable

import pyotp
import pytest

from tests.http.browsing import Tab, Tabs
from tests.http.people import Person
from tests.http.signing_in import LOGIN, PASSWORD, VERIFY, enable_mfa
from tests.http.upstream.scene import ADA, UpstreamScene

PROVIDERS = "/api/organizations/acme/upstream-providers"


async def awaiting(scene: UpstreamScene, word: str, query: str = "") -> tuple[Tabs, Tab]:
    tabs = scene.browser()
    answer = await scene.go(tabs, query, word=word)
    tab = await tabs.tab().open(answer.header("location") or "")
    assert tab.place.startswith("/ui/sign-in/second-factor")
    assert tabs.session is None
    return tabs, tab


async def connected(scene: UpstreamScene, word: str, ada: Person | None = None) -> tuple[Person, pyotp.TOTP]:
    ada = ada or scene.verified()
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    scene.sits(word=word if word in scene.fakes else "own")
    return ada, totp


async def test_whoever_disconnects_the_identity_ends_the_sign_in_by_it_and_all_others(scene: UpstreamScene) -> None:
    ada, totp = await connected(scene, "websuite", await scene.people.with_password(PASSWORD, ADA))
    tabs, tab = await awaiting(scene, "websuite")
    by_password = (await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})).ok()
    token = await scene.people.token(ada)
    assert (await scene.unlimited.request("DELETE", "/api/user/identities/websuite", token=token)).status == 204
    await tab.send(code=totp.now())
    assert tabs.session is None
    assert tab.status == 400
    # As with a new password: nobody can tell which of them is the owner's.
    assert (await scene.unlimited.post(VERIFY, {"code": totp.now()}, token=by_password["access_token"])).status == 401


async def test_an_identity_that_is_connected_again_does_not_revive_it(scene: UpstreamScene) -> None:
    ada, totp = await connected(scene, "websuite")
    tabs, tab = await awaiting(scene, "websuite")
    scene.people.change("delete from identities")
    again, other = await awaiting(scene, "websuite")
    await tab.send(code=totp.now())
    assert tabs.session is None
    await other.send(code=totp.now())
    assert await scene.who(again) == ada.user


async def disable(scene: UpstreamScene, provider: str) -> None:
    (await scene.request("PATCH", f"{PROVIDERS}/{provider}", {"enabled": False})).ok()


async def delete(scene: UpstreamScene, provider: str) -> None:
    assert (await scene.request("DELETE", f"{PROVIDERS}/{provider}")).status == 204


def by(statement: str) -> Callable[[UpstreamScene, str], Awaitable[None]]:
    async def change(scene: UpstreamScene, _provider: str) -> None:
        scene.people.change(statement)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(disable, id="provider disabled"),
        pytest.param(delete, id="provider deleted"),
        pytest.param(by("delete from domains"), id="domain removed"),
        pytest.param(by("update domains set verified_at = null, next_check_at = null"), id="domain lost"),
        pytest.param(by("update domains set domain = 'example.com'"), id="another domain"),
        pytest.param(by("update all_organizations set status = 'suspended'"), id="organization suspended"),
        pytest.param(by("update users set is_platform_owner = true where email_key = 'ada@example.org'"), id="platform owner"),
        pytest.param(by("update users set deactivated_at = now() where email_key = 'ada@example.org'"), id="account deactivated"),
    ],
)
async def test_what_an_organizations_own_provider_rests_on_must_still_stand(
    scene: UpstreamScene, change: Callable[[UpstreamScene, str], Awaitable[None]]
) -> None:
    provider = await scene.own_provider()
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    _, totp = await connected(scene, provider)
    tabs, tab = await awaiting(scene, provider, "?org=acme")
    await change(scene, provider)
    await tab.send(code=totp.now())
    assert tabs.session is None
    assert tab.status == 400


async def test_as_long_as_it_stands_they_finish(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada, totp = await connected(scene, provider)
    tabs, tab = await awaiting(scene, provider, "?org=acme")
    await tab.send(code=totp.now())
    assert await scene.who(tabs) == ada.user

"""Sign-in, connecting, token refresh and sign-out with a provider by other authors."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import trio

from core.domain.identity.upstream.providers import ClientAtProvider, ProviderEndpoints, Upstream
from core.domain.secrets import Secret
from ports.identity.upstream import GrantEnded
from tests.http.client import Received
from tests.http.federation.arriving import answer_in
from tests.http.people import BASE_URL, Person
from tests.http.upstream.independent_provider import IndependentProvider
from tests.http.upstream.scene import ADA, UpstreamScene
from tests.patience import PATIENCE


@pytest.fixture
def provider() -> Iterator[IndependentProvider]:
    with IndependentProvider() as provider:
        yield provider


async def set_up(scene: UpstreamScene, provider: IndependentProvider) -> str:
    scene.log.remember(provider.client.secret)
    boss = scene.resident(scene.acme, "owner", "keeper")
    body = {"name": "Login", "issuer": provider.issuer, "client_id": provider.client.client_id, "client_secret": provider.client.secret}
    made = (await scene.request("POST", "/api/organizations/acme/upstream-providers", body, by=boss)).ok(201)
    provider.client.redirect_uri = made["callback_url"]
    scene.people.change(
        "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
        " values (%s, %s, 'example.org', 'token', now(), now() + interval '7 days', now(), now())",
        scene.postern.foundation.ids.new(),
        scene.acme.id,
    )
    provider.person = {"sub": "u-1", "email": ADA, "email_verified": True}
    return str(made["id"])


async def visited(address: str) -> str:
    """The person agrees at the provider. Returns the path of ours to which the provider sends them back."""
    answer: Any = await trio.to_thread.run_sync(lambda: httpx.get(address, trust_env=False, timeout=PATIENCE))
    assert answer.status_code == 302, answer.text
    location = str(answer.headers["location"])
    assert location.startswith(f"{BASE_URL}/auth/"), location
    return location.removeprefix(BASE_URL)


async def test_sign_in_and_sign_out(scene: UpstreamScene, provider: IndependentProvider) -> None:
    ada = scene.verified()
    key = await set_up(scene, provider)
    tabs = scene.browser()
    answer: Received = await tabs.request("GET", await visited(await scene.leave(tabs, scene.direct(), word=key)))
    assert answer_in(answer.header("location"))["code"]
    assert await scene.who(tabs) == ada.user
    tab = await tabs.tab().open("/ui")
    (number,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/sign-out"]
    await tab.send(number)
    assert await scene.who(tabs) is None
    # Once more, by what is connected now.
    await tabs.request("GET", await visited(await scene.leave(tabs, "?org=acme", word=key)))
    assert await scene.who(tabs) == ada.user


async def test_connecting(scene: UpstreamScene, provider: IndependentProvider) -> None:
    key = await set_up(scene, provider)
    ada = scene.people.add("other@example.org")
    scene.tenants.join(ada, scene.acme)
    scene.people.change("update users set password_hash = 'x' where id = %s", ada.user)
    token = await scene.tenants.token_in(Person(ada.user, ada.session, ada.email), scene.acme)
    scene.people.change("update sessions set proved_at = now()")
    answer = await scene.unlimited.post(f"/api/user/identities/{key}/link", token=token)
    tabs = scene.browser()
    for name, value in answer.headers:
        if name == "set-cookie":
            cookie, _, kept = value.partition(";")[0].partition("=")
            tabs.cookies[cookie] = kept
    back = await tabs.request("GET", await visited(answer.ok()["authorization_url"]))
    assert "status=success" in (back.header("location") or "")
    assert [one["subject"] for one in scene.identities()] == ["u-1"]


async def test_a_code_that_is_sent_twice_and_one_of_another_client(scene: UpstreamScene, provider: IndependentProvider) -> None:
    key = await set_up(scene, provider)
    tabs = scene.browser()
    place = await visited(await scene.leave(tabs, "?org=acme", word=key))
    provider.codes.clear()
    assert (await tabs.request("GET", place)).status == 502
    assert tabs.session is None


async def test_a_refusal_of_the_client(scene: UpstreamScene, provider: IndependentProvider) -> None:
    key = await set_up(scene, provider)
    tabs = scene.browser()
    place = await visited(await scene.leave(tabs, "?org=acme", word=key))
    provider.client.secret = "changed there"
    assert (await tabs.request("GET", place)).status == 502
    assert tabs.session is None


async def test_renewing_a_token_once(scene: UpstreamScene, provider: IndependentProvider) -> None:
    key = await set_up(scene, provider)
    tabs = scene.browser()
    scene.verified()
    await tabs.request("GET", await visited(await scene.leave(tabs, "?org=acme", word=key)))
    upstream = Upstream(
        key=key,
        name="Login",
        endpoints=ProviderEndpoints(issuer=provider.issuer),
        client=ClientAtProvider(provider.client.client_id, Secret(provider.client.secret)),
        organization=scene.acme.id,  # type: ignore[arg-type]  # the tests' ids are plain
    )
    kept = Secret(provider.tokens[-1].given["refresh_token"])
    renewed = await scene.postern.foundation.upstreams.refresh(upstream, kept)
    assert renewed.access_token.reveal() == provider.tokens[-1].given["access_token"]
    assert (renewed.refresh_token is not None, provider.refreshed) == (True, 1)
    with pytest.raises(GrantEnded):
        await scene.postern.foundation.upstreams.refresh(upstream, kept)

"""Two providers of OpenID Connect by other authors, added by their issuers: registered, signed in, linked, unlinked, refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
import trio

from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL
from tests.http.upstream.further.scene import FurtherScene
from tests.http.upstream.independent_provider import IndependentProvider
from tests.http.upstream.other_independent_provider import OtherIndependentProvider
from tests.http.upstream.scene import ADA
from tests.patience import PATIENCE

Independent = IndependentProvider | OtherIndependentProvider
AUTHORS: Final = ("authlib", "idpyoidc")
PERSON: Final = {"sub": "u-1", "email": ADA, "email_verified": True, "name": "Ada Lovelace"}


@contextmanager
def running(author: str) -> Iterator[Independent]:
    with IndependentProvider() if author == "authlib" else OtherIndependentProvider() as provider:
        provider.person.update(PERSON)
        yield provider


@pytest.fixture(params=AUTHORS)
def author(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider(author: str) -> Iterator[Independent]:
    with running(author) as provider:
        yield provider


async def add(scene: FurtherScene, provider: Independent, key: str = "company") -> None:
    client, secret = (
        (provider.client.client_id, provider.client.secret)
        if isinstance(provider, IndependentProvider)
        else (provider.client_id, provider.secret)
    )
    scene.log.remember(secret)
    body: dict[str, object] = {
        "key": key,
        "name": "Company",
        "kind": "openid",
        "issuer": provider.issuer,
        "client_id": client,
        "client_secret": secret,
    }
    body["active"] = True
    made = await scene.add(body)
    assert made.status == 201, made.body
    callback = made.json()["callback_url"]
    if isinstance(provider, IndependentProvider):
        provider.client.redirect_uri = callback
    else:
        provider.registers(callback)


async def visited(address: str) -> str:
    """The person agrees at the provider. Returns the path of ours to which the provider sends them back."""
    answer: Any = await trio.to_thread.run_sync(lambda: httpx.get(address, trust_env=False, timeout=PATIENCE))
    assert answer.status_code == 302, answer.text
    location = str(answer.headers["location"])
    assert location.startswith(f"{BASE_URL}/auth/"), location
    return location.removeprefix(BASE_URL)


async def come(scene: FurtherScene, tabs: Tabs, key: str = "company") -> Received:
    return await tabs.request("GET", await visited(await scene.leave(tabs, word=key)))


async def link(scene: FurtherScene, tabs: Tabs) -> str:
    asked = "/ui/settings/connections/company/connect"
    left = await scene.send(tabs, PageReader((await tabs.request("GET", asked)).body), asked)
    came = await tabs.request("GET", await visited(PageReader(left.body).refresh))
    return came.header("location") or ""


def changed(back: str, **values: str) -> str:
    parts = urlsplit(back)
    return f"{parts.path}?{urlencode({**dict(parse_qsl(parts.query)), **values})}"


async def test_a_newcomer_gets_an_account_after_a_code_and_signs_in_again(scene: FurtherScene, provider: Independent) -> None:
    await add(scene, provider)
    first = scene.browser()
    page = await scene.asked(first, await come(scene, first))
    assert page.inputs["email"]["value"] == ADA
    assert scene.people.rows("select from users where email = %s", ADA) == []
    assert (await scene.register(first, page)).status == 303
    (account,) = scene.people.rows("select id from users where email = %s", ADA)
    assert await scene.who(first) == account["id"]
    (identity,) = scene.identities()
    assert (identity["user_id"], identity["provider"], identity["issuer"]) == (account["id"], "company", provider.issuer)
    again = scene.browser()
    assert (await come(scene, again)).status == 303
    assert await scene.who(again) == account["id"]
    assert len(scene.identities()) == 1


async def test_an_account_is_linked_by_its_owner_alone_and_unlinked(scene: FurtherScene, provider: Independent) -> None:
    owner = scene.people.proved(ADA)
    await add(scene, provider)
    stranger = scene.browser()
    refused = await scene.register(stranger, await scene.asked(stranger, await come(scene, stranger)))
    assert refused.status == 400
    assert await scene.who(stranger) is None
    assert scene.identities() == []

    assert "status=success" in await link(scene, scene.signed_in(owner))
    other = scene.browser()
    assert (await come(scene, other)).status == 303
    assert await scene.who(other) == owner.user
    scene.people.give_passkey(owner)
    gone = await scene.request("DELETE", "/api/user/identities/company", by=owner)
    assert gone.status == 204, gone.body
    assert scene.identities() == []
    # It leads to nobody from now on.
    await scene.asked(other, await come(scene, other))


async def test_the_answer_of_one_author_is_none_for_the_other(scene: FurtherScene) -> None:
    """Mix-up: the way back, the code and the issuer are each of one provider."""
    with running("authlib") as company, running("idpyoidc") as elsewhere:
        await add(scene, company)
        await add(scene, elsewhere, "elsewhere")
        tabs = scene.browser()
        back = await visited(await scene.leave(tabs, word="company"))
        assert (await tabs.request("GET", back.replace("/auth/company/", "/auth/elsewhere/"))).status == 400
        of_company = await visited(await scene.leave(tabs, word="company"))
        of_elsewhere = await visited(await scene.leave(tabs, word="elsewhere"))
        code = dict(parse_qsl(urlsplit(of_company).query))["code"]
        assert (await tabs.request("GET", changed(of_elsewhere, code=code))).status == 502
        assert (await tabs.request("GET", changed(of_company, iss=elsewhere.issuer))).status == 502
        assert scene.identities() == []
        assert scene.people.rows("select from newcomers") == []


async def test_a_foreign_state_and_another_browser_are_refused(scene: FurtherScene, provider: Independent) -> None:
    await add(scene, provider)
    tabs, other = scene.browser(), scene.browser()
    back = await visited(await scene.leave(tabs, word="company"))
    theirs = dict(parse_qsl(urlsplit(await visited(await scene.leave(other, word="company"))).query))["state"]
    assert (await tabs.request("GET", changed(back, state=theirs))).status == 400
    assert (await other.request("GET", back)).status == 400
    # What is refused in this way leaves the state to its browser.
    await scene.asked(tabs, await tabs.request("GET", back))
    assert scene.identities() == []
    assert [await scene.who(one) for one in (tabs, other)] == [None, None]


async def test_an_issuer_that_answers_as_another_is_not_added(scene: FurtherScene, provider: Independent) -> None:
    body = {"key": "company", "name": "Company", "kind": "openid", "client_id": "c", "client_secret": "s"}
    answer = await scene.add({**body, "issuer": f"{provider.issuer}/"})
    assert answer.status == 400
    assert answer.json()["error"].startswith("issuer: ")

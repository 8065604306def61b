"""Upstream providers of an organization's own, over HTTP."""

from typing import Any

import pytest

from tests.http.browsing import PageReader
from tests.http.client import Received, refused
from tests.http.federation.arriving import is_page
from tests.http.people import BASE_URL
from tests.http.upstream.scene import ADA, UpstreamScene

PATH = "/api/organizations/acme/upstream-providers"


@pytest.fixture
def house(house: UpstreamScene) -> UpstreamScene:
    house.speaker = house.resident(house.acme, "owner", "boss")
    return house


def body(house: UpstreamScene, **changes: Any) -> dict[str, Any]:
    fake = house.fakes["own"]
    made = {"name": "Acme login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret, **changes}
    return {name: value for name, value in made.items() if value is not None}


async def test_one_is_set_up_listed_changed_and_deleted(house: UpstreamScene) -> None:
    assert (await house.request("GET", PATH)).json() == []
    made = (await house.request("POST", PATH, body(house, scopes=["groups"]))).ok(201)
    told = {name: made[name] for name in ("name", "issuer", "client_id", "has_secret", "scopes", "enabled")}
    assert told == {
        "name": "Acme login",
        "issuer": house.fakes["own"].issuer,
        "client_id": "own-client",
        "has_secret": True,
        "scopes": ["groups"],
        "enabled": True,
    }
    assert made["callback_url"] == f"{BASE_URL}/auth/{made['id']}/callback"
    assert (await house.request("GET", PATH)).json() == [made]
    house.log.remember("another-secret-112")
    changed = (
        await house.request(
            "PATCH", f"{PATH}/{made['id']}", {"name": "SSO", "enabled": False, "client_secret": "another-secret-112", "scopes": []}
        )
    ).ok()
    assert (changed["name"], changed["enabled"], changed["scopes"]) == ("SSO", False, [])
    same = (await house.request("PATCH", f"{PATH}/{made['id']}", {"name": "SSO"})).ok()
    assert same["updated_at"] == changed["updated_at"]
    assert (await house.request("PATCH", f"{PATH}/{made['id']}", {"enabled": True})).ok()["enabled"] is True
    assert (await house.request("DELETE", f"{PATH}/{made['id']}")).status == 204
    assert (await house.request("GET", PATH)).json() == []
    assert refused(await house.request("DELETE", f"{PATH}/{made['id']}")) == (404, "NOT_FOUND")
    names = [one["action"] for one in house.audited("organization.upstream_provider.%")]
    assert names == [f"organization.upstream_provider.{what}" for what in ("created", "updated", "updated", "deleted")]


@pytest.mark.parametrize("beside", [{}, {"name": "SSO", "client_id": "another"}])
async def test_another_issuer_is_refused_and_changes_nothing(house: UpstreamScene, beside: dict[str, Any]) -> None:
    made = (await house.request("POST", PATH, body(house))).ok(201)
    path = f"{PATH}/{made['id']}"
    answer = await house.request("PATCH", path, {**beside, "issuer": "https://another.example"})
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "issuer: it cannot be changed" in answer.json()["error"]
    assert (await house.request("GET", PATH)).json() == [made]
    # A program may send back the object that it got.
    changed = (await house.request("PATCH", path, {**beside, "issuer": made["issuer"]})).ok()
    assert {**changed, **{name: made[name] for name in ("updated_at", "digest")}} == {**made, **beside}
    assert (changed["digest"] == made["digest"]) is ("client_id" not in beside)
    assert refused(await house.request("PATCH", path, {})) == (400, "BAD_REQUEST")


async def test_people_sign_in_through_it_and_its_end_is_theirs(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    house.verified()
    house.sits(word="own")
    answer = await house.go(house.browser(), house.direct(), word=provider)
    assert answer.status == 302
    assert house.fakes["own"].asked["scope"] == "openid email profile"
    # Such a provider need not know the prompt for choosing an account.
    assert "prompt" not in house.fakes["own"].asked
    assert "code=" in (answer.header("location") or "")
    assert {one["provider"] for one in house.people.rows("select provider from login_events")} == {"upstream"}
    assert [one["provider"] for one in house.identities()] == [provider]
    assert (await house.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert house.identities() == []


@pytest.mark.parametrize("own", [True, False])
async def test_its_first_sign_in_makes_the_account_and_the_organization_is_the_maker(house: UpstreamScene, *, own: bool) -> None:
    """Whoever comes through a provider of the installation makes their own account, also on the way to an organization's service."""
    word = await house.own_provider() if own else "websuite"
    house.sits(word="own" if own else word)
    await house.go(house.browser(), house.direct(), word=word)
    (account,) = house.people.rows("select origin_org_id from users where email = %s", ADA)
    assert account["origin_org_id"] == (house.acme.id if own else None)


@pytest.mark.parametrize("prompt", ["select_account", "select_account consent"])
async def test_an_application_that_asks_for_a_choice_asks_it_of_us_alone(house: UpstreamScene, prompt: str) -> None:
    provider = await house.own_provider()
    ada = house.verified()
    house.sits(word="own")
    tabs = house.browser()
    flow = (await tabs.tab().open(house.asking(prompt=prompt))).place.partition("flow=")[2]
    await house.go(tabs, f"?flow={flow}", word=provider)
    assert "prompt" not in house.fakes["own"].asked
    assert await house.who(tabs) == ada.user


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"issuer": "http://127.0.0.1:1"},
        {"issuer": "https://127.0.0.1:1"},
        {"issuer": "ftp://example.org"},
        {"issuer": "https://user:secret@example.org"},
        {"issuer": "https://example.org?x=y"},
        {"issuer": f"https://example.org/{'x' * 500}"},
        {"issuer": "https://10.0.0.1"},
        {"client_id": ""},
        {"client_secret": "\n"},
        {"client_secret": None},
        {"scopes": ["two words"]},
        {"scopes": ["x"] * 21},
        {"scopes": ["x" * 201]},
        {"enabled": "yes"},
    ],
)
async def test_what_is_wrong_is_refused(house: UpstreamScene, changes: dict[str, Any]) -> None:
    assert refused(await house.request("POST", PATH, body(house, **changes))) == (400, "BAD_REQUEST")
    assert (await house.request("GET", PATH)).json() == []


async def test_over_http_only_what_the_operator_has_named_is_called(house: UpstreamScene) -> None:
    """The tests' settings allow 127.0.0.1 and nothing else: a public address over http is refused without a call."""
    assert refused(await house.request("POST", PATH, body(house, issuer="http://192.0.2.1"))) == (400, "BAD_REQUEST")
    assert refused(await house.request("POST", PATH, body(house, issuer="http://8.8.8.8"))) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": None},
        {"jwks_uri": "http://10.0.0.1/keys"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": 7},
    ],
)
async def test_metadata_that_lead_elsewhere(house: UpstreamScene, change: dict[str, Any]) -> None:
    fake = house.fakes["own"]
    published = fake.metadata()
    fake.metadata = lambda: {**published, **change}  # type: ignore[method-assign]
    assert refused(await house.request("POST", PATH, body(house))) == (400, "BAD_REQUEST")


async def test_an_address_from_the_user_info_counts_for_the_same_person_alone(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada = house.verified()
    fake = house.sits(word="own")
    claims = fake.claims
    fake.claims = lambda issued: {name: value for name, value in claims(issued).items() if not name.startswith("email")}  # type: ignore[method-assign]
    tabs = house.browser()
    await house.go(tabs, "?org=acme", word=provider)
    assert await house.who(tabs) == ada.user
    about = fake.about
    fake.about = lambda path, person: {**about(path, person), "sub": "somebody-else"}  # type: ignore[method-assign]
    tabs = house.browser()
    await house.go(tabs, "?org=acme", word=provider)
    assert tabs.session is None


async def test_names_are_each_ones_own_and_there_is_an_end_to_them(house: UpstreamScene) -> None:
    first = (await house.request("POST", PATH, body(house))).ok(201)
    assert refused(await house.request("POST", PATH, body(house))) == (400, "BAD_REQUEST")
    (await house.request("POST", PATH, body(house, name="Second"))).ok(201)
    assert refused(await house.request("PATCH", f"{PATH}/{first['id']}", {"name": "Second"})) == (400, "BAD_REQUEST")
    assert refused(await house.request("PATCH", f"{PATH}/{first['id']}", {})) == (400, "BAD_REQUEST")
    for number in range(18):
        (await house.request("POST", PATH, body(house, name=f"Number {number}"))).ok(201)
    assert refused(await house.request("POST", PATH, body(house, name="One too many"))) == (400, "BAD_REQUEST")


async def test_others_may_not(house: UpstreamScene) -> None:
    made = (await house.request("POST", PATH, body(house))).ok(201)
    globex = house.tenants.add("globex")
    stranger, member = house.resident(globex, "owner", "stranger"), house.resident(house.acme, "member", "member")
    theirs = PATH.replace("acme", "globex")
    for who, path, status in ((stranger, PATH, 403), (member, PATH, 403), (stranger, theirs, 404)):
        answers: list[Received] = [
            await house.request("PATCH", f"{path}/{made['id']}", {"name": "Mine"}, by=who),
            await house.request("DELETE", f"{path}/{made['id']}", by=who),
        ]
        assert [answer.status for answer in answers] == [status] * 2
    assert [(await house.request("POST", PATH, body(house), by=who)).status for who in (stranger, member)] == [403, 403]
    assert (await house.request("GET", theirs, by=stranger)).json() == []
    assert (await house.request("GET", PATH)).json() == [made]
    assert ADA


async def test_it_takes_a_fresh_proof(house: UpstreamScene) -> None:
    """With a proved domain, the provider can claim that its user is anybody of the organization, the owner included."""
    made = (await house.request("POST", PATH, body(house))).ok(201)
    house.people.change("update sessions set proved_at = now() - interval '1 hour'")
    for method, path, sent in (
        ("POST", PATH, body(house, name="Another")),
        ("PATCH", f"{PATH}/{made['id']}", {"client_id": "another"}),
        ("DELETE", f"{PATH}/{made['id']}", None),
    ):
        assert refused(await house.request(method, path, sent)) == (401, "REAUTHENTICATION_REQUIRED")
    assert (await house.request("GET", PATH)).json() == [made]


async def test_a_link_alone_signs_nobody_in(house: UpstreamScene) -> None:
    """Otherwise the provider's operator could make others work in the operator's account, and read their work."""
    provider = await house.own_provider()
    eve = house.verified("eve@example.org")
    house.sits("eve@example.org", word="own")
    ada = house.verified()
    tabs = house.signed_in(house.people.session_of(ada))
    for link in (f"/auth/{provider}", f"/auth/{provider}?org=acme", f"/auth/{provider}{house.direct()}"):
        answer = await tabs.request("GET", link)
        is_page(answer, 200, "Go on to Acme login")
        assert answer.header("location") is None
        assert b"http-equiv" not in answer.body
    assert house.people.rows("select from oauth_states") == []
    assert await house.who(tabs) == ada.user
    # It is the button that leads on.
    await house.go(tabs, "?org=acme", word=provider)
    assert await house.who(tabs) == eve.user


async def test_a_flow_of_another_browser_leads_nobody_on(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    (link,) = [
        link for link in PageReader((await house.browser().request("GET", f"/auth/{provider}")).body).links if link.startswith("/auth/")
    ]
    answer = await house.browser().request("GET", link)
    assert (answer.status, answer.header("location")) == (400, None)

"""Upstream providers of an organization's own, over HTTP."""

from typing import Any

import pytest

from ops.browser.page_reader import PageReader
from tests.http.client import Received, refused
from tests.http.federation.arriving import is_page
from tests.http.people import BASE_URL
from tests.http.upstream.scene import ADA, UpstreamScene

PATH = "/api/organizations/acme/upstream-providers"


@pytest.fixture
def scene(scene: UpstreamScene) -> UpstreamScene:
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    return scene


def body(scene: UpstreamScene, **changes: Any) -> dict[str, Any]:
    fake = scene.fakes["own"]
    made = {"name": "Acme login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret, **changes}
    return {name: value for name, value in made.items() if value is not None}


async def test_one_is_set_up_listed_changed_and_deleted(scene: UpstreamScene) -> None:
    assert (await scene.request("GET", PATH)).json() == []
    made = (await scene.request("POST", PATH, body(scene, scopes=["groups"]))).ok(201)
    told = {name: made[name] for name in ("name", "issuer", "client_id", "has_secret", "scopes", "enabled")}
    assert told == {
        "name": "Acme login",
        "issuer": scene.fakes["own"].issuer,
        "client_id": "own-client",
        "has_secret": True,
        "scopes": ["groups"],
        "enabled": True,
    }
    assert made["callback_url"] == f"{BASE_URL}/auth/{made['id']}/callback"
    assert (await scene.request("GET", PATH)).json() == [made]
    scene.log.remember("another-secret-112")
    changed = (
        await scene.request(
            "PATCH", f"{PATH}/{made['id']}", {"name": "SSO", "enabled": False, "client_secret": "another-secret-112", "scopes": []}
        )
    ).ok()
    assert (changed["name"], changed["enabled"], changed["scopes"]) == ("SSO", False, [])
    same = (await scene.request("PATCH", f"{PATH}/{made['id']}", {"name": "SSO"})).ok()
    assert same["updated_at"] == changed["updated_at"]
    assert (await scene.request("PATCH", f"{PATH}/{made['id']}", {"enabled": True})).ok()["enabled"] is True
    assert (await scene.request("DELETE", f"{PATH}/{made['id']}")).status == 204
    assert (await scene.request("GET", PATH)).json() == []
    assert refused(await scene.request("DELETE", f"{PATH}/{made['id']}")) == (404, "NOT_FOUND")
    names = [one["action"] for one in scene.audited("organization.upstream_provider.%")]
    assert names == [f"organization.upstream_provider.{what}" for what in ("created", "updated", "updated", "deleted")]


@pytest.mark.parametrize("beside", [{}, {"name": "SSO", "client_id": "another"}])
async def test_another_issuer_is_refused_and_changes_nothing(scene: UpstreamScene, beside: dict[str, Any]) -> None:
    made = (await scene.request("POST", PATH, body(scene))).ok(201)
    path = f"{PATH}/{made['id']}"
    answer = await scene.request("PATCH", path, {**beside, "issuer": "https://another.example"})
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "issuer: it cannot be changed" in answer.json()["error"]
    assert (await scene.request("GET", PATH)).json() == [made]
    # A program may send back the object that it got.
    changed = (await scene.request("PATCH", path, {**beside, "issuer": made["issuer"]})).ok()
    assert {**changed, **{name: made[name] for name in ("updated_at", "digest")}} == {**made, **beside}
    assert (changed["digest"] == made["digest"]) is ("client_id" not in beside)
    assert refused(await scene.request("PATCH", path, {})) == (400, "BAD_REQUEST")


async def test_people_sign_in_through_it_and_its_end_is_theirs(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.verified()
    scene.sits(word="own")
    answer = await scene.go(scene.browser(), scene.direct(), word=provider)
    assert answer.status == 302
    assert scene.fakes["own"].asked["scope"] == "openid email profile"
    # Such a provider need not know the prompt for choosing an account.
    assert "prompt" not in scene.fakes["own"].asked
    assert "code=" in (answer.header("location") or "")
    assert {one["provider"] for one in scene.people.rows("select provider from login_events")} == {"upstream"}
    assert [one["provider"] for one in scene.identities()] == [provider]
    assert (await scene.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert scene.identities() == []


@pytest.mark.parametrize("own", [True, False])
async def test_its_first_sign_in_makes_the_account_and_the_organization_is_the_maker(scene: UpstreamScene, *, own: bool) -> None:
    """Whoever comes through a provider of the installation makes their own account, also on the way to an organization's service."""
    word = await scene.own_provider() if own else "websuite"
    scene.sits(word="own" if own else word)
    await scene.go(scene.browser(), scene.direct(), word=word)
    (account,) = scene.people.rows("select origin_org_id from users where email = %s", ADA)
    assert account["origin_org_id"] == (scene.acme.id if own else None)


@pytest.mark.parametrize("prompt", ["select_account", "select_account consent"])
async def test_an_application_that_asks_for_a_choice_asks_it_of_us_alone(scene: UpstreamScene, prompt: str) -> None:
    provider = await scene.own_provider()
    ada = scene.verified()
    scene.sits(word="own")
    tabs = scene.browser()
    flow = (await tabs.tab().open(scene.asking(prompt=prompt))).place.partition("flow=")[2]
    await scene.go(tabs, f"?flow={flow}", word=provider)
    assert "prompt" not in scene.fakes["own"].asked
    assert await scene.who(tabs) == ada.user


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
async def test_what_is_wrong_is_refused(scene: UpstreamScene, changes: dict[str, Any]) -> None:
    assert refused(await scene.request("POST", PATH, body(scene, **changes))) == (400, "BAD_REQUEST")
    assert (await scene.request("GET", PATH)).json() == []


async def test_over_http_only_what_the_operator_has_named_is_called(scene: UpstreamScene) -> None:
    """The tests' settings allow 127.0.0.1 and nothing else: a public address over http is refused without a call."""
    assert refused(await scene.request("POST", PATH, body(scene, issuer="http://192.0.2.1"))) == (400, "BAD_REQUEST")
    assert refused(await scene.request("POST", PATH, body(scene, issuer="http://8.8.8.8"))) == (400, "BAD_REQUEST")


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
async def test_metadata_that_lead_elsewhere(scene: UpstreamScene, change: dict[str, Any]) -> None:
    fake = scene.fakes["own"]
    published = fake.metadata()
    fake.metadata = lambda: {**published, **change}  # type: ignore[method-assign]
    assert refused(await scene.request("POST", PATH, body(scene))) == (400, "BAD_REQUEST")


async def test_an_address_from_the_user_info_counts_for_the_same_person_alone(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada = scene.verified()
    fake = scene.sits(word="own")
    claims = fake.claims
    fake.claims = lambda issued: {name: value for name, value in claims(issued).items() if not name.startswith("email")}  # type: ignore[method-assign]
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs) == ada.user
    about = fake.about
    fake.about = lambda path, person: {**about(path, person), "sub": "somebody-else"}  # type: ignore[method-assign]
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert tabs.session is None


async def test_names_are_each_ones_own_and_there_is_an_end_to_them(scene: UpstreamScene) -> None:
    first = (await scene.request("POST", PATH, body(scene))).ok(201)
    assert refused(await scene.request("POST", PATH, body(scene))) == (400, "BAD_REQUEST")
    (await scene.request("POST", PATH, body(scene, name="Second"))).ok(201)
    assert refused(await scene.request("PATCH", f"{PATH}/{first['id']}", {"name": "Second"})) == (400, "BAD_REQUEST")
    assert refused(await scene.request("PATCH", f"{PATH}/{first['id']}", {})) == (400, "BAD_REQUEST")
    for number in range(18):
        (await scene.request("POST", PATH, body(scene, name=f"Number {number}"))).ok(201)
    assert refused(await scene.request("POST", PATH, body(scene, name="One too many"))) == (400, "BAD_REQUEST")


async def test_others_may_not(scene: UpstreamScene) -> None:
    made = (await scene.request("POST", PATH, body(scene))).ok(201)
    globex = scene.tenants.add("globex")
    stranger, member = scene.resident(globex, "owner", "stranger"), scene.resident(scene.acme, "member", "member")
    theirs = PATH.replace("acme", "globex")
    for who, path, status in ((stranger, PATH, 403), (member, PATH, 403), (stranger, theirs, 404)):
        answers: list[Received] = [
            await scene.request("PATCH", f"{path}/{made['id']}", {"name": "Mine"}, by=who),
            await scene.request("DELETE", f"{path}/{made['id']}", by=who),
        ]
        assert [answer.status for answer in answers] == [status] * 2
    assert [(await scene.request("POST", PATH, body(scene), by=who)).status for who in (stranger, member)] == [403, 403]
    assert (await scene.request("GET", theirs, by=stranger)).json() == []
    assert (await scene.request("GET", PATH)).json() == [made]
    assert ADA


async def test_it_takes_a_fresh_proof(scene: UpstreamScene) -> None:
    """With a proved domain, the provider can claim that its user is anybody of the organization, the owner included."""
    made = (await scene.request("POST", PATH, body(scene))).ok(201)
    scene.people.change("update sessions set proved_at = now() - interval '1 hour'")
    for method, path, sent in (
        ("POST", PATH, body(scene, name="Another")),
        ("PATCH", f"{PATH}/{made['id']}", {"client_id": "another"}),
        ("DELETE", f"{PATH}/{made['id']}", None),
    ):
        assert refused(await scene.request(method, path, sent)) == (401, "REAUTHENTICATION_REQUIRED")
    assert (await scene.request("GET", PATH)).json() == [made]


async def test_a_link_alone_signs_nobody_in(scene: UpstreamScene) -> None:
    """Otherwise the provider's operator could make others work in the operator's account, and read their work."""
    provider = await scene.own_provider()
    eve = scene.verified("eve@example.org")
    scene.sits("eve@example.org", word="own")
    ada = scene.verified()
    tabs = scene.signed_in(scene.people.session_of(ada))
    for link in (f"/auth/{provider}", f"/auth/{provider}?org=acme", f"/auth/{provider}{scene.direct()}"):
        answer = await tabs.request("GET", link)
        is_page(answer, 200, "Continue to Acme login")
        assert answer.header("location") is None
        assert b"http-equiv" not in answer.body
    assert scene.people.rows("select from oauth_states") == []
    assert await scene.who(tabs) == ada.user
    # It is the button that leads on.
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs) == eve.user


async def test_a_flow_of_another_browser_leads_nobody_on(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    (link,) = [
        link for link in PageReader((await scene.browser().request("GET", f"/auth/{provider}")).body).links if link.startswith("/auth/")
    ]
    answer = await scene.browser().request("GET", link)
    assert (answer.status, answer.header("location")) == (400, None)

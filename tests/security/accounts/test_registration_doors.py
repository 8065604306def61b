"""A stranger at a closed installation, and at an organization that lets few register: each way in, what the answers tell, and whom the rule
of one organization reaches.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.postgres.driver.connection import TripCounter, round_trips
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.mail import Email
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider, FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.conftest import client, database_url, people, postern_on, with_keys
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.routing import route
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.upstream.scene import ADA, Fakes, UpstreamScene

__all__ = ["client", "database_url", "people"]  # fixtures

REGISTER: Final = "/api/auth/register"
CLOSED: Final = {"POSTERN_REGISTRATION": "closed"}
BY_INVITATION: Final = {"POSTERN_REGISTRATION": "invitation"}
DOMAINS: Final = {"POSTERN_REGISTRATION": "domains", "POSTERN_REGISTRATION_DOMAINS": "acme.example"}
THROWAWAY: Final = {"POSTERN_REGISTRATION": "except_domains", "POSTERN_REGISTRATION_DOMAINS": "example.org"}
EACH: Final = pytest.mark.parametrize("more", [CLOSED, BY_INVITATION, DOMAINS, THROWAWAY], indirect=True)
REFUSED: Final = "You do not have an account here yet"


@pytest.fixture
def more(request: pytest.FixtureRequest) -> dict[str, str]:
    return getattr(request, "param", {})


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with ExitStack() as running:
        yield {
            "websuite": running.enter_context(FakeWebSuite(client_id="websuite-client")),
            "own": running.enter_context(FakeProvider(client_id="own-client", client_secret="own-provider-secret-77")),
        }


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes, more: dict[str, str]) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, {**settings_of("websuite", fakes["websuite"]), **more}) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, fakes: Fakes) -> UpstreamScene:
    return UpstreamScene(postern, people, unlimited(postern), log, fakes)


def rule(scene: UpstreamScene, slug: str, policy: str, *domains: str) -> None:
    scene.people.change(
        "update all_organizations set registration_policy = %s, registration_domains = %s where slug = %s", policy, list(domains), slug
    )


def accounts(scene: UpstreamScene, email: str = ADA) -> int:
    return len(scene.people.rows("select id from users where email_key = %s", email))


def said(answer: Received) -> tuple[int, Any]:
    """What differs in each answer goes: the moment, and the request's id."""
    told = answer.json()
    return answer.status, {name: value for name, value in told.items() if name not in {"timestamp", "request_id"}}


async def come(scene: UpstreamScene, query: str = "", email: str = ADA) -> str:
    """Comes from the provider with the address, each as another person there. Returns the page's text, or nothing when they are in."""
    scene.sits(email, sub=f"110169484474386 {email}")
    tabs = scene.browser()
    answer = await scene.go(tabs, query)
    return answer.body.decode() if tabs.session is None else ""


async def invite(scene: UpstreamScene, email: str = ADA, by: str = "inviter") -> None:
    boss = scene.resident(scene.acme, "owner", by)
    (await scene.request("POST", "/api/organizations/acme/invitations", {"email": email, "role": "member"}, by=boss)).ok()


@EACH
async def test_no_door_of_strangers_makes_an_account(scene: UpstreamScene) -> None:
    for body in ({}, {"org_slug": "acme"}, {"org_slug": "no-such"}):
        answer = await scene.client.post(REGISTER, {"email": ADA, "password": PASSWORD, **body})
        assert answer.status in {400, 403}, body
    tab = await Tabs(scene.client).tab().open("/ui/register")
    if tab.page.forms:
        assert (await tab.send(email=ADA, password=PASSWORD)).status == 400
    for path in ("/api/auth/forgot-password", "/api/auth/magic-link", "/api/auth/resend-verification"):
        assert (await scene.client.post(path, {"email": ADA})).status == 200
    for kind in AccountMail:
        assert not await scene.postern.identity.account_mails.send(AskedMail(kind, Email(ADA), ""))
    assert REFUSED in await come(scene)
    assert REFUSED in await come(scene, "?org=acme")
    assert accounts(scene) == 0
    assert scene.identities() == []


@EACH
async def test_known_and_unknown_addresses_are_refused_alike(scene: UpstreamScene, people: People) -> None:
    people.add(ADA)
    for number, slug in enumerate(("", "acme")):
        body = {"password": PASSWORD, **({"org_slug": slug} if slug else {})}
        answers, trips = [], []
        # The first prepares statements.
        for email in ("first@example.org", ADA, "nobody@example.org"):
            counted = TripCounter()
            round_trips.set(counted)
            answer = await unlimited(scene.postern, address=f"198.51.{number}.7").post(REGISTER, {"email": email, **body})
            answers.append(said(answer))
            trips.append(counted.count)
        assert answers[1][0] in {400, 403}
        assert answers[1] == answers[2]
        assert trips[1] == trips[2]
    assert people.rows("select id from jobs") == []
    assert people.rows("select id from mail_budgets") == []


@pytest.mark.parametrize("more", [BY_INVITATION, DOMAINS, THROWAWAY], indirect=True)
async def test_an_invited_address_may_come_by_a_provider(scene: UpstreamScene) -> None:
    await invite(scene, "bob@example.org")
    assert REFUSED in await come(scene)
    await invite(scene, by="another")
    assert await come(scene) == ""
    assert accounts(scene) == 1


@pytest.mark.parametrize("more", [BY_INVITATION], indirect=True)
async def test_an_invitation_that_is_over_opens_nothing(scene: UpstreamScene) -> None:
    await invite(scene)
    scene.people.change("update invitations set created_at = now() - interval '9 days', expires_at = now() - interval '1 second'")
    assert REFUSED in await come(scene)
    scene.people.change("update invitations set expires_at = now() + interval '1 day'")
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    assert REFUSED in await come(scene)
    assert accounts(scene) == 0


@pytest.mark.parametrize("more", [CLOSED], indirect=True)
async def test_people_who_have_accounts_come_in_as_before(scene: UpstreamScene) -> None:
    scene.verified()
    assert await come(scene) == ""


@pytest.mark.parametrize("more", [CLOSED], indirect=True)
async def test_an_organizations_own_provider_and_domain_give_accounts_themselves(scene: UpstreamScene) -> None:
    rule(scene, "acme", "closed")
    provider = await scene.own_provider()
    scene.sits(word="own")
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert (tabs.session is None, accounts(scene)) == (False, 1)


@pytest.mark.parametrize("more", [CLOSED], indirect=True)
async def test_a_proved_domain_leads_its_people_to_the_shared_provider_and_nobody_elses(scene: UpstreamScene) -> None:
    route(scene.people, scene.acme, "example.org", provider="websuite", login="password_allowed", join="off")
    assert REFUSED in await come(scene, email="eve@other.example")
    assert await come(scene) == ""
    route(scene.people, scene.acme, "unproved.example", provider="websuite", login="password_allowed", proved=False)
    assert REFUSED in await come(scene, email="kim@unproved.example")


async def test_the_rule_of_one_organization_reaches_nobody_on_anothers_pages(scene: UpstreamScene) -> None:
    scene.tenants.add("globex")
    rule(scene, "acme", "closed")
    rule(scene, "globex", "domains", "example.org")
    statuses: dict[str, Any] = {}
    for number, slug in enumerate(("acme", "globex", "")):
        body = {"email": f"p{number}@example.org", "password": PASSWORD, **({"org_slug": slug} if slug else {})}
        statuses[slug] = (await scene.client.post(REGISTER, body)).status
    assert statuses == {"acme": 403, "globex": 200, "": 200}
    assert REFUSED in await come(scene, "?org=acme", "a@example.org")
    assert REFUSED in await come(scene, "?org=globex", "a@other.example")
    assert await come(scene, "?org=globex", "b@example.org") == ""
    assert await come(scene, email="c@other.example") == ""
    # Whoever has an account is let in on the pages of both.
    assert await come(scene, "?org=acme", "b@example.org") == ""


@pytest.mark.parametrize("policy", ["invitation", "closed"])
async def test_an_organizations_invitation_opens_its_own_pages_and_no_others(scene: UpstreamScene, policy: str) -> None:
    scene.tenants.add("globex")
    rule(scene, "acme", policy)
    rule(scene, "globex", policy)
    await invite(scene)
    assert REFUSED in await come(scene, "?org=globex")
    assert (await come(scene, "?org=acme") == "") is (policy == "invitation")


# Each endpoint that may make an account for somebody else, or that leads to one, with what it takes.
OF_OTHERS: Final[tuple[tuple[str, Any], ...]] = (
    ("/scim/v2/Users", {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": ADA}),
    ("/api/service/users", {"email": ADA}),
    ("/api/organizations/acme/invitations", {"email": ADA, "role": "member"}),
    ("/api/organizations/acme/upstream-providers", {"name": "Mine", "issuer": "https://mine.example", "client_id": "c"}),
    ("/api/platform/owners", {"email": ADA}),
    ("/api/invitations/accept", {"token": "A" * 43}),
)


@EACH
async def test_what_others_give_a_stranger_cannot_take(scene: UpstreamScene) -> None:
    """Directories, applications, management keys, invitations and platform owners give accounts under each rule. Neither nobody, nor a key
    that was made up, nor somebody who has an account and is nobody here, gets one from them.
    """
    somebody = scene.verified("somebody@acme.example")
    before = scene.people.rows("select id from users order by id")
    for path, body in OF_OTHERS:
        for token in (None, "made-up", f"pk_{'a' * 43}", await scene.people.token(scene.people.session_of(somebody))):
            answer = await scene.client.post(path, body, token=token)
            assert answer.status in {400, 401, 403, 404}, (path, token, answer.body)
    assert scene.people.rows("select id from users order by id") == before
    assert scene.people.rows("select id from invitations") == []


@EACH
async def test_an_invitation_gives_one_account_to_its_address_while_it_lives(scene: UpstreamScene) -> None:
    postbox, of_acme = Postbox(scene.postern), "/api/organizations/acme/invitations"
    scene.speaker = scene.resident(scene.acme, "owner", "inviter")

    async def invited() -> tuple[str, str]:
        made = (await scene.request("POST", of_acme, {"email": ADA, "role": "member"})).ok()
        return str(made["invitation"]["id"]), await postbox.token()

    for end in ("cancelled", "declined", "over"):
        number, mailed = await invited()
        if end == "cancelled":
            (await scene.request("POST", f"{of_acme}/{number}")).ok()
        elif end == "declined":
            (await scene.client.post("/api/invitations/decline", {"token": mailed})).ok()
        else:
            scene.people.change("update invitations set created_at = now() - interval '9 days', expires_at = now() - interval '1 second'")
        tab = await Tabs(scene.client).tab().open(f"/ui/invitations/accept?token={mailed}")
        assert "password" not in tab.page.inputs, end
        answer = await scene.client.post("/api/invitations/accept", {"token": mailed})
        assert answer.status in {400, 410}, (end, answer.body)
        scene.people.change("delete from invitations")
    assert accounts(scene) == 0
    _, mailed = await invited()
    tab = await Tabs(scene.client).tab().open(f"/ui/invitations/accept?token={mailed}")
    await tab.send(password=PASSWORD, email="eve@other.example")
    assert (tab.status, accounts(scene), accounts(scene, "eve@other.example")) == (200, 1, 0)


@pytest.mark.parametrize("more", [CLOSED], indirect=True)
async def test_applications_that_ask_for_a_new_account_lead_to_the_same_page(scene: UpstreamScene) -> None:
    """`prompt=create`, and a form that somebody makes of another page's."""
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(prompt="create"))
    assert (tab.place.partition("?")[0], tab.page.forms) == ("/ui/register", [])
    assert "You cannot register here" in tab.page.text
    entry = await tabs.tab().open(scene.asking())
    fields = {**entry.page.forms[0].fields, "email": ADA, "password": PASSWORD}
    answer = await tabs.request("POST", "/ui/register", fields)
    assert (answer.status, b"You cannot register here" in answer.body) == (400, True)
    assert accounts(scene) == 0


@pytest.mark.parametrize("more", [CLOSED], indirect=True)
async def test_the_first_owner_is_the_operators_and_there_is_no_second_first(scene: UpstreamScene) -> None:
    """Neither the first start nor the demo has an endpoint, and the first start does nothing once there is an owner."""
    first = await scene.postern.platform.platform_owners.create_first(Email("root@acme.example"), Password(PASSWORD))
    assert first is not None
    assert await scene.postern.platform.platform_owners.create_first(Email(ADA), Password(PASSWORD)) is None
    assert accounts(scene) == 0
    answer = await scene.client.get("/openapi.json")
    paths = " ".join(answer.json()["paths"])
    assert not [word for word in ("demo", "first-start", "import") if f"/{word}" in paths]

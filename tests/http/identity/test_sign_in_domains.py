"""Home realm discovery: people of a domain sign in at their provider, and all other ways are closed to them if the domain demands
it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received, refused
from tests.http.identity.test_passkeys import Owner
from tests.http.people import People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import change_route, own_provider, route
from tests.http.signing_in import LOGIN, PASSWORD, Browser, unlimited

NAME: Final = "acme.example"
LOOKUP: Final = "/api/auth/lookup-email"
FORBIDDEN: Final = (403, "FORBIDDEN")
FALLBACK: Final = "password_fallback_if_provider_unavailable"
NEW: Final = "another moon over the harbour"
HERE: Final = {"connection_id": None, "provider_name": None, "domain_verified": False, "auth_method": "password"}


class SignInDomainScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.browser = Browser(self.client)
        self.own = own_provider(self.people, self.acme)

    async def person(self, name: str = "ada", domain: str = NAME) -> Person:
        return await self.people.with_password(PASSWORD, f"{name}@{domain}")

    async def look_up(self, email: str) -> Any:
        return (await self.client.post(LOOKUP, {"email": email})).ok(200)

    async def sign_in(self, email: str, password: str = PASSWORD, **more: Any) -> Received:
        return await self.browser.post(LOGIN, {"email": email, "password": password, **more})

    async def outage(self, provider: str = "websuite", ago: timedelta = timedelta()) -> None:
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.provider_outages.failed(provider, self.now - ago)
            await uow.commit()

    async def recover(self, provider: str = "websuite") -> None:
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.provider_outages.worked(provider)
            await uow.commit()

    @property
    def now(self) -> datetime:
        return self.postern.foundation.clock.now()

    def failures(self) -> list[str]:
        return [row["reason"] for row in self.people.rows("select reason from login_events where not success order by id")]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> SignInDomainScene:
    async def answers(*_site: object, **_how: object) -> None:
        """The provider is there whenever somebody looks: `tests/http/upstream/test_led_by_domain.py` has those that are not."""

    monkeypatch.setattr(postern.foundation.upstreams, "look", answers)
    return SignInDomainScene(postern, people, unlimited(postern), log)


async def test_an_address_of_no_routed_domain_signs_in_here(scene: SignInDomainScene) -> None:
    assert await scene.look_up("ada@example.org") == HERE


@pytest.mark.parametrize("login", ["password_allowed", "upstream_only", FALLBACK])
async def test_a_shared_provider_is_named(scene: SignInDomainScene, login: str) -> None:
    route(scene.people, scene.acme, NAME, login=login)
    assert await scene.look_up(f"Ada@{NAME.upper()}") == {
        "connection_id": None,
        "provider_name": "websuite",
        "domain_verified": True,
        "auth_method": "oauth",
    }


@pytest.mark.parametrize("login", ["password_allowed", "upstream_only", FALLBACK])
async def test_a_provider_of_its_own_is_named_by_its_id(scene: SignInDomainScene, login: str) -> None:
    route(scene.people, scene.acme, NAME, provider=None, own=scene.own, login=login)
    assert await scene.look_up(f"ada@{NAME}") == {
        "connection_id": str(scene.own),
        "provider_name": "Acme single sign-on",
        "domain_verified": True,
        "auth_method": "upstream",
    }


async def test_a_route_without_provider_says_only_that_the_domain_is_verified(scene: SignInDomainScene) -> None:
    route(scene.people, scene.acme, NAME, provider=None, login="password_allowed", join="on")
    assert await scene.look_up(f"ada@{NAME}") == {**HERE, "domain_verified": True}


async def test_letters_beyond_ascii_lead_to_the_same_domain(scene: SignInDomainScene) -> None:
    route(scene.people, scene.acme, "xn--bcher-kva.example")
    assert (await scene.look_up("ada@bücher.example"))["auth_method"] == "oauth"


async def test_a_domain_stands_for_itself_alone(scene: SignInDomainScene) -> None:
    route(scene.people, scene.acme, NAME)
    for domain in (f"mail.{NAME}", "example", f"x{NAME}"):
        assert await scene.look_up(f"ada@{domain}.example") == HERE


@pytest.mark.parametrize("email", ["", "ada", "@", f"a b@{NAME}", 1, None])
async def test_what_is_no_address_is_refused(scene: SignInDomainScene, email: Any) -> None:
    assert refused(await scene.client.post(LOOKUP, {"email": email})) == (400, "BAD_REQUEST")


async def test_a_route_that_is_not_proved_does_nothing(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, proved=False)
    assert await scene.look_up(person.email) == HERE
    assert (await scene.sign_in(person.email)).status == 200


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_decides_on_nothing(scene: SignInDomainScene, status: str) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME)
    scene.people.change("update organizations set status = %s", status)
    assert await scene.look_up(person.email) == HERE
    assert (await scene.sign_in(person.email)).status == 200


async def test_a_lost_proof_opens_the_ways_again(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME)
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN
    scene.people.change("update domain_routes set verified_at = null, next_check_at = null")
    assert (await scene.sign_in(person.email)).status == 200


async def test_no_password_opens_where_only_the_provider_will_do(scene: SignInDomainScene) -> None:
    """The answer is the same for every address of the domain and every password, so nobody learns of accounts or guesses passwords."""
    known, unproved, gone = await scene.person(), await scene.person("new"), await scene.person("gone")
    scene.people.change("update users set email_verified_at = null where id = %s", unproved.user)
    scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    without = scene.people.add(f"without@{NAME}")
    route(scene.people, scene.acme, NAME)
    answers = []
    for email in (known.email, unproved.email, gone.email, without.email, f"nobody@{NAME}"):
        for password in (PASSWORD, "a wrong one"):
            answer = await scene.sign_in(email, password)
            body = answer.json()
            answers.append((answer.status, body["error"], body["error_code"], sorted(name for name, _ in answer.headers)))
    assert {one[:3] for one in answers} == {(403, answers[0][1], "FORBIDDEN")}
    assert len({tuple(one[3]) for one in answers}) == 1
    assert LOOKUP in answers[0][1]
    assert scene.people.rows("select from sessions where authenticated_by is not null and user_id = %s", known.user) == []
    assert scene.failures()[:2] == ["provider_required", "wrong_password"]


async def test_it_is_logged_and_limited_as_every_attempt(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME)
    statuses = [(await scene.client.post(LOGIN, {"email": person.email, "password": f"guess {n}"})).status for n in range(11)]
    assert statuses == [403] * 10 + [429]


async def test_where_both_will_do_a_password_does(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, login="password_allowed")
    assert (await scene.sign_in(person.email)).status == 200
    assert scene.log.events("request")[-1]["db_round_trips"] <= 5


async def test_a_provider_that_is_away_is_done_without_only_where_the_policy_says_so(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, login=FALLBACK)
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN
    await scene.outage()
    assert (await scene.sign_in(person.email)).status == 200
    assert await scene.look_up(person.email) == {**HERE, "domain_verified": True}
    await scene.recover()
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN
    assert (await scene.look_up(person.email))["auth_method"] == "oauth"
    change_route(scene.people, NAME, login_policy="upstream_only")
    await scene.outage()
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN
    assert (await scene.look_up(person.email))["auth_method"] == "oauth"


async def test_an_outage_is_forgotten_after_a_while(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, login=FALLBACK)
    await scene.outage(ago=timedelta(minutes=10))
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN
    # A failure that happened earlier but is reported later changes nothing.
    await scene.outage(ago=timedelta(minutes=1))
    await scene.outage(ago=timedelta(minutes=30))
    assert (await scene.sign_in(person.email)).status == 200


async def test_the_outage_of_another_provider_is_none(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, login=FALLBACK)
    await scene.outage("officesuite")
    assert refused(await scene.sign_in(person.email)) == FORBIDDEN


@pytest.mark.parametrize("ending", ["disabled", "gone", "away"])
async def test_a_provider_of_its_own_that_cannot_be_used(scene: SignInDomainScene, ending: str) -> None:
    route(scene.people, scene.acme, NAME, provider=None, own=scene.own, login=FALLBACK)
    assert (await scene.look_up(f"ada@{NAME}"))["auth_method"] == "upstream"
    if ending == "disabled":
        scene.people.change("update upstream_providers set enabled = false")
    elif ending == "gone":
        scene.people.change("update upstream_providers set org_id = %s", scene.globex.id)
    else:
        await scene.outage(str(scene.own))
    assert await scene.look_up(f"ada@{NAME}") == {**HERE, "domain_verified": True}
    change_route(scene.people, NAME, login_policy="upstream_only")
    # People are told to go to the provider, although its sign-in will fail.
    assert (await scene.look_up(f"ada@{NAME}"))["auth_method"] == "upstream"
    change_route(scene.people, NAME, login_policy="password_allowed")
    assert (await scene.look_up(f"ada@{NAME}"))["auth_method"] == "password"


async def test_credentials_that_are_removed_leave_no_provider(scene: SignInDomainScene) -> None:
    person = await scene.person()
    route(scene.people, scene.acme, NAME, login=FALLBACK)
    scene.people.change("delete from oauth_credentials")
    assert (await scene.sign_in(person.email)).status == 200


async def test_no_organization_shuts_out_the_owners_of_the_platform(scene: SignInDomainScene) -> None:
    owner = await scene.person("root")
    scene.people.change("update users set is_platform_owner = true")
    route(scene.people, scene.acme, NAME)
    assert (await scene.sign_in(owner.email)).status == 200
    # With a wrong password the answer is the same as for anybody.
    assert refused(await scene.sign_in(owner.email, "a wrong one")) == FORBIDDEN


async def test_sessions_go_on_and_a_password_proves_nothing_in_them(scene: SignInDomainScene) -> None:
    person = await scene.person()
    tokens = await scene.browser.tokens(person)
    route(scene.people, scene.acme, NAME)
    token = tokens["access_token"]
    assert (await scene.client.get("/api/user", token=token)).status == 200
    answer = await scene.client.post("/api/auth/reauthenticate", {"password": PASSWORD}, token=token)
    assert refused(answer) == FORBIDDEN
    assert (await scene.browser.refresh(tokens["refresh_token"])).status == 200


ASKS: Final[dict[str, tuple[str, Callable[[str], dict[str, str]]]]] = {
    "reset": ("/api/auth/forgot-password", lambda email: {"email": email}),
    "link": ("/api/auth/magic-link", lambda email: {"email": email}),
}


@pytest.mark.parametrize("kind", ASKS)
async def test_no_mail_opens_a_way_of_ours(scene: SignInDomainScene, kind: str) -> None:
    person, owner = await scene.person(), await scene.person("root")
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    box = Postbox(scene.postern)
    path, body = ASKS[kind]
    first = await scene.client.post(path, body(person.email))
    assert [mail.to for mail in await box.empty()] == [person.email]
    route(scene.people, scene.acme, NAME)
    again = await scene.client.post(path, body(person.email))
    assert (again.status, again.body) == (first.status, first.body)
    assert await box.empty() == []
    await scene.client.post(path, body(owner.email))
    assert [mail.to for mail in await box.empty()] == [owner.email]


async def test_a_mailed_link_is_of_no_use_once_only_the_provider_will_do(scene: SignInDomainScene) -> None:
    person = await scene.person()
    box = Postbox(scene.postern)
    await scene.client.post("/api/auth/forgot-password", {"email": person.email})
    (mail,) = await box.empty()
    route(scene.people, scene.acme, NAME)
    reset = {"token": token_in(link_in(mail)), "new_password": NEW}
    assert refused(await scene.client.post("/api/auth/reset-password", reset)) == FORBIDDEN
    # The link is not used up: once passwords are allowed again, the link works, too.
    change_route(scene.people, NAME, login_policy="password_allowed")
    assert (await scene.client.post("/api/auth/reset-password", reset)).status == 200
    assert (await scene.sign_in(person.email, NEW)).status == 200


async def test_no_passkey_opens_where_only_the_provider_will_do(scene: SignInDomainScene) -> None:
    person = await scene.person()
    token = (await scene.sign_in(person.email)).json()["access_token"]
    owner = Owner(scene.client, scene.people, scene.postern, person, token)
    passkey, _ = await owner.add()
    route(scene.people, scene.acme, NAME)
    assert refused(await owner.sign_in(passkey)) == FORBIDDEN
    change_route(scene.people, NAME, login_policy="password_allowed")
    assert (await owner.sign_in(passkey)).status == 200


async def test_an_owner_of_the_platform_resets_a_password_all_the_same(scene: SignInDomainScene) -> None:
    owner = await scene.person("root")
    scene.people.change("update users set is_platform_owner = true")
    route(scene.people, scene.acme, NAME)
    box = Postbox(scene.postern)
    await scene.client.post("/api/auth/forgot-password", {"email": owner.email})
    (mail,) = await box.empty()
    assert (await scene.client.post("/api/auth/reset-password", {"token": token_in(link_in(mail)), "new_password": NEW})).status == 200


async def test_registering_and_verifying_stay_open(scene: SignInDomainScene) -> None:
    """An account alone lets nobody in, and the provider's sign-in will find it."""
    route(scene.people, scene.acme, NAME)
    answer = await scene.client.post("/api/auth/register", {"email": f"ada@{NAME}", "password": PASSWORD})
    assert answer.status == 200
    (mail,) = await Postbox(scene.postern).empty()
    assert (await scene.client.get(f"/auth/verify-email?token={token_in(link_in(mail))}")).status == 200
    assert refused(await scene.sign_in(f"ada@{NAME}")) == FORBIDDEN


async def test_round_trips_of_the_lookup(scene: SignInDomainScene) -> None:
    route(scene.people, scene.acme, NAME)
    for email, most in (("ada@example.org", 1), (f"ada@{NAME}", 2)):
        await scene.client.post(LOOKUP, {"email": email})
        assert scene.log.events("request")[-1]["db_round_trips"] <= most

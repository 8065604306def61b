"""Listed is not joined. The tests try each way in which an organization ties a person to itself without the person's consent, against each
door that a tie of the person's own opens. They try the same person again once the tie is the person's own, so both sides can fail.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.devices import Client
from core.domain.services.api_keys import Permission
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving
from tests.http.federation.providing import ACS, SP, asking, authn_request, sent
from tests.http.federation.scim.directories import PATCH_OP, USER, USERS
from tests.http.people import People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import route
from tests.http.service_interface import USERS as SERVICE_USERS
from tests.http.signing_in import FIREFOX, PASSWORD, Browser, unlimited
from tests.http.subscribing import Market
from tests.http.tenants import Tenant

database_url, postern, people = http.database_url, http.postern, http.people

ADA: Final = "ada@example.org"
NEW_PASSWORD: Final = "the harbour under the moon"
LONG_AGO: Final = "2020-01-02T03:04:05"


class ListedTieScene(Arriving):
    """Acme, which lists people, and Ada, who has a life of her own: an old account with a proved address."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.client = self.unlimited
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.people.change("update users set email_verified_at = now() where id = %s", self.owner.user)
        self.box = Postbox(self.postern)
        self.set(self.app, trusted=True)
        self.people.change("update all_organizations set device_trust_days = 0, sign_in_links = false where id = %s", self.acme.id)
        self.key = Market.key_of(self, self.app, tuple(Permission))  # type: ignore[arg-type] # it needs no more of a market than this
        self.scim = ""

    @property
    def admin(self) -> Person:
        """The person who made the key."""
        return self.owner

    async def born(self) -> Person:
        person = self.people.session_of(await self.people.with_password(PASSWORD, ADA))
        self.people.change("update users set created_at = %s where id = %s", LONG_AGO, person.user)
        return person

    async def directory(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        if not self.scim:
            path = "/api/organizations/acme/scim-tokens"
            self.scim = (await self.request("POST", path, {"name": "x"}, by=self.owner)).ok()["token"]
        return await self.client.request(method, target, body=body, token=self.scim)

    async def invited(self) -> dict[str, Any]:
        body = {"email": ADA, "role": "member"}
        issued: dict[str, Any] = (await self.request("POST", "/api/organizations/acme/invitations", body, by=self.owner)).ok()
        return issued

    def make_own(self, ada: Person) -> None:
        """Confirms Ada's ties, as she does herself on the pages."""
        for table in ("memberships", "service_users"):
            self.people.change(f"update {table} set own_since = now() where user_id = %s", ada.user)

    def about(self, table: str, names: str, tenant: Tenant) -> list[dict[str, Any]]:
        column = "name" if table == "events" else "action"
        return self.people.rows(f"select from {table} where organization_id = %s and {column} like %s", tenant.id, names)


Listing = Callable[[ListedTieScene, Person], Awaitable[None]]
Opening = Callable[[ListedTieScene, Person], Awaitable[bool]]


async def by_directory(town: ListedTieScene, ada: Person) -> None:
    assert (await town.directory("POST", USERS, {"schemas": [USER], "userName": ada.email})).status == 201


async def on_behalf(town: ListedTieScene, _ada: Person) -> None:
    invitation = (await town.invited())["invitation"]["id"]
    (await town.request("POST", f"/api/organizations/acme/invitations/{invitation}/accept", by=town.owner)).ok()


async def by_the_inviters_token(town: ListedTieScene, _ada: Person) -> None:
    (await town.client.post("/api/invitations/accept", {"token": (await town.invited())["token"]})).ok()


async def by_domain(town: ListedTieScene, ada: Person) -> None:
    """Many people have addresses in this domain, and its owner lets everybody in who signs in."""
    route(town.people, town.acme, "example.org", login="password_allowed", join="on")
    assert (await Browser(town.client).login(ada)).status == 200


async def by_request(town: ListedTieScene, ada: Person) -> None:
    route(town.people, town.acme, "example.org", login="password_allowed", join="ask")
    assert (await Browser(town.client).login(ada)).status == 200
    (asked,) = (await town.request("GET", "/api/organizations/acme/join-requests")).json()
    (await town.request("POST", f"/api/organizations/acme/join-requests/{asked['id']}/approve")).ok()


async def by_the_release_before(town: ListedTieScene, ada: Person) -> None:
    """The release before did not record who had made a tie."""
    town.tenants.join(ada, town.acme, listed=True)


MEMBERS: Final[Mapping[str, Listing]] = {
    "a directory": by_directory,
    "on behalf": on_behalf,
    "the inviter's token": by_the_inviters_token,
    "a domain": by_domain,
    "an approved request": by_request,
    "the release before": by_the_release_before,
}


async def by_key(town: ListedTieScene, ada: Person) -> None:
    answer = await town.client.request("POST", SERVICE_USERS, body={"email": ada.email}, headers=[("x-api-key", town.key)])
    assert answer.status == 200


async def by_a_visit(town: ListedTieScene, ada: Person) -> None:
    """Earlier, SAML made a service user of every signed-in visitor without a question."""
    town.tenants.uses(ada, town.app, first=town.postern.foundation.clock.now())
    town.people.change("update service_users set own_since = null where user_id = %s", ada.user)


USES: Final[Mapping[str, Listing]] = {"an API key": by_key, "a visit": by_a_visit}
WAYS: Final = {**MEMBERS, **USES}


async def consent_without_a_question(town: ListedTieScene, ada: Person) -> bool:
    answer = await town.signed_in(ada).request("GET", town.asking(prompt="none"))
    said = dict(parse_qsl(urlsplit(answer.header("location") or "").query))
    assert set(said) & {"code", "error"}
    return "code" in said


async def an_assertion_without_a_question(town: ListedTieScene, ada: Person) -> bool:
    saml = "/api/organizations/acme/services/app/saml"
    (await town.request("POST", saml, {"enabled": True, "entity_id": SP, "acs_url": ACS}, by=town.owner)).ok()
    (await town.request("POST", f"{saml}/certificate", by=town.owner)).ok()
    answer = sent(await town.signed_in(ada).request("GET", asking(authn_request(IsPassive="true"))))
    assert answer.status in {"Success", "NoPassive"}
    return answer.status == "Success"


async def trust_in_devices_elsewhere(town: ListedTieScene, ada: Person) -> bool:
    approach = await town.postern.identity.devices.observe(Client("192.0.2.1", FIREFOX))
    async with town.postern.foundation.unit_of_work() as uow:
        return (await uow.devices.knowledge(UserId(ada.user), approach)).trust_days == 0


async def links_elsewhere(town: ListedTieScene, ada: Person) -> bool:
    async with town.postern.foundation.unit_of_work() as uow:
        return not await uow.sign_in_links.are_permitted(UserId(ada.user))


async def news_for_webhooks(town: ListedTieScene, ada: Person) -> bool:
    await new_password(town, ada)
    return bool(town.about("events", "security.password.%", town.acme))


async def news_in_the_log(town: ListedTieScene, ada: Person) -> bool:
    await new_password(town, ada)
    return bool(town.about("audit_log", "security.password.%", town.acme))


async def forgetting(town: ListedTieScene, ada: Person) -> bool:
    answer = await town.request("DELETE", f"/api/privacy/forget/{ada.user}", by=town.owner)
    assert answer.status in {200, 403}
    return answer.status == 200


async def age_of_the_account(town: ListedTieScene, ada: Person) -> bool:
    answer = await town.request("GET", f"/api/privacy/export/{ada.user}", by=town.owner)
    return answer.status == 200 and answer.json()["created_at"].startswith(LONG_AGO)


async def moving(town: ListedTieScene, ada: Person) -> bool:
    await town.directory("PATCH", f"{USERS}/{ada.user}", operations({"op": "replace", "path": "userName", "value": "mine@evil.example"}))
    body = {"email": "mine@evil.example"}
    await town.client.request("PATCH", f"{SERVICE_USERS}/{ada.user}", body=body, headers=[("x-api-key", town.key)])
    return town.people.rows("select email from users where id = %s", ada.user) != [{"email": ADA}]


async def deactivating(town: ListedTieScene, ada: Person) -> bool:
    await town.directory("PATCH", f"{USERS}/{ada.user}", operations({"op": "replace", "path": "active", "value": False}))
    return bool(town.people.rows("select from users where id = %s and deactivated_at is not null", ada.user))


async def deleting(town: ListedTieScene, ada: Person) -> bool:
    await town.directory("DELETE", f"{USERS}/{ada.user}")
    await town.client.request("DELETE", f"{SERVICE_USERS}/{ada.user}", headers=[("x-api-key", town.key)])
    return not town.people.rows("select from users where id = %s", ada.user)


async def news_of_failures(town: ListedTieScene, ada: Person) -> bool:
    answer = await Browser(town.client).login(ada, "a wrong one", org_slug="acme", service_slug="app")
    assert answer.status == 401
    return bool(town.about("events", "user.login.failed", town.acme))


async def the_account_as_it_is(town: ListedTieScene, ada: Person) -> bool:
    answer = await town.request("GET", f"/api/organizations/acme/users/{ada.user}", by=town.owner)
    assert answer.status in {200, 404}
    return answer.status == 200 and (answer.json()["email_verified"] or answer.json()["created_at"].startswith(LONG_AGO))


def operations(*changes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"schemas": [PATCH_OP], "Operations": changes}


async def new_password(town: ListedTieScene, ada: Person) -> None:
    """Ada changes her password on the platform, which is none of acme's business."""
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    (await town.request("POST", "/api/user/change-password", body, by=town.people.session_of(ada))).ok()


async def redeemed(town: ListedTieScene, code: str) -> Received:
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return await town.client.post("/auth/token", {**fields, "client_id": town.client_id(town.app)})


# The doors that a membership of the person's own opens, and the doors that no tie opens, because a proved account is nobody else's.
BY_MEMBERSHIP: Final[Mapping[str, Opening]] = {
    "consent without a question": consent_without_a_question,
    "an assertion without a question": an_assertion_without_a_question,
    "trust in devices elsewhere": trust_in_devices_elsewhere,
    "links elsewhere": links_elsewhere,
    "news for webhooks": news_for_webhooks,
    "news in the log": news_in_the_log,
    "forgetting": forgetting,
    "age of the account": age_of_the_account,
}
BY_USE: Final[Mapping[str, Opening]] = {"news of failures": news_of_failures, "the account as it is": the_account_as_it_is}
BY_NOTHING: Final[Mapping[str, Opening]] = {"moving": moving, "deactivating": deactivating, "deleting": deleting}
OPENED: Final = {**BY_MEMBERSHIP, **BY_USE, **BY_NOTHING}


@pytest.fixture
def town(postern: Postern, people: People, log: CapturedLog) -> ListedTieScene:
    return ListedTieScene(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("way", WAYS)
async def test_a_listed_tie_opens_nothing(town: ListedTieScene, way: str, opened: str) -> None:
    ada = await town.born()
    await WAYS[way](town, ada)
    ties = "select from memberships where user_id = %s" if way in MEMBERS else "select from service_users where user_id = %s"
    assert town.people.rows(ties, ada.user)
    assert not await OPENED[opened](town, ada)


@pytest.mark.parametrize(
    ("way", "opened"),
    [*((way, opened) for way in MEMBERS for opened in BY_MEMBERSHIP), *((way, opened) for way in USES for opened in BY_USE)],
)
async def test_an_own_tie_opens_it(town: ListedTieScene, way: str, opened: str) -> None:
    ada = await town.born()
    await WAYS[way](town, ada)
    town.make_own(ada)
    assert await OPENED[opened](town, ada)


@pytest.mark.parametrize("opened", BY_NOTHING)
@pytest.mark.parametrize("way", WAYS)
async def test_no_tie_opens_an_account_that_its_owner_has_proved(town: ListedTieScene, way: str, opened: str) -> None:
    ada = await town.born()
    await WAYS[way](town, ada)
    town.make_own(ada)
    assert not await OPENED[opened](town, ada)


async def test_with_the_token_in_the_mail_they_have_joined(town: ListedTieScene) -> None:
    ada = await town.born()
    await town.invited()
    (mail,) = await town.box.empty()
    (await town.client.post("/api/invitations/accept", {"token": token_in(link_in(mail))})).ok()
    assert await consent_without_a_question(town, ada)


async def test_what_a_membership_opened_ends_with_it(town: ListedTieScene) -> None:
    """A code that was given a moment before ends with the membership, and so does the session of another code."""
    ada = await town.born()
    town.tenants.join(ada, town.acme)
    browser = town.signed_in(ada)
    codes = []
    for _ in range(2):
        answer = await browser.request("GET", town.asking(prompt="none"))
        codes.append(dict(parse_qsl(urlsplit(answer.header("location") or "").query))["code"])
    tokens = (await redeemed(town, codes[0])).ok()
    assert (await town.client.get("/oauth/userinfo", token=tokens["access_token"])).status == 200
    (await town.request("POST", f"/api/organizations/acme/members/{ada.user}", by=town.owner)).ok()
    assert (await town.client.get("/oauth/userinfo", token=tokens["access_token"])).status == 401
    again = await town.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert again.status == 401
    assert (await redeemed(town, codes[1])).status == 400


async def test_what_a_membership_opened_ends_with_it_beside_a_use_of_their_own(town: ListedTieScene) -> None:
    """Ada has signed in on a page of the application once. The application got later tokens without a question, by the membership, so these
    tokens end. The session that Ada opened herself goes on.
    """
    ada = await town.born()
    town.tenants.join(ada, town.acme)
    own = (await Browser(town.client).login(ada, org_slug="acme", service_slug="app")).ok()
    assert town.people.rows("select from service_users where user_id = %s and own_since is not null", ada.user)
    answer = await town.signed_in(ada).request("GET", town.asking(prompt="none"))
    tokens = (await redeemed(town, dict(parse_qsl(urlsplit(answer.header("location") or "").query))["code"])).ok()
    town.set(town.app, trusted=False)
    (await town.request("POST", f"/api/organizations/acme/members/{ada.user}", by=town.owner)).ok()
    assert (await town.client.get("/oauth/userinfo", token=tokens["access_token"])).status == 401
    assert (await town.client.get("/api/user", token=own["access_token"])).status == 200


async def test_a_code_that_is_redeemed_while_the_membership_ends_opens_nothing(town: ListedTieScene) -> None:
    """The redeeming request has looked at the membership already, and waits for the lock of the account."""
    ada = await town.born()
    town.tenants.join(ada, town.acme)
    answer = await town.signed_in(ada).request("GET", town.asking(prompt="none"))
    code = dict(parse_qsl(urlsplit(answer.header("location") or "").query))["code"]
    answers: list[Received] = []

    async def redeem() -> None:
        answers.append(await redeemed(town, code))

    async with trio.open_nursery() as nursery, town.postern.foundation.unit_of_work() as uow:
        acme, user = OrganizationId(town.acme.id), UserId(ada.user)
        await uow.accounts.lock_for_update(user)
        assert await uow.members.remove(acme, user)
        nursery.start_soon(redeem)
        await town.people.somebody_waits()
        await uow.commit()
    assert [one.status for one in answers] == [400]
    assert not town.people.rows("select from sessions where user_id = %s and scopes is not null and revoked_at is null", ada.user)


async def test_who_leaves_has_an_account_of_their_own(town: ListedTieScene) -> None:
    """The organization that made the account may list the person again, and no more."""
    assert (await town.directory("POST", USERS, {"schemas": [USER], "userName": ADA})).status == 201
    choosing = {"token": await town.box.token(), "new_password": PASSWORD}
    (await town.client.post("/api/auth/reset-password", choosing)).ok()
    (row,) = town.people.rows("select id from users where email = %s", ADA)
    ada = town.people.session_of(Person(row["id"], row["id"], ADA))
    tab = await town.signed_in(ada).tab().open("/ui/organizations/acme/membership")
    await tab.send(len(tab.page.forms) - 1, answer="leave")
    assert not town.people.rows("select from memberships where user_id = %s", ada.user)
    for active in (True, False):
        changed = operations({"op": "replace", "path": "active", "value": active})
        assert (await town.directory("PATCH", f"{USERS}/{ada.user}", changed)).status == 200
    assert not town.people.rows("select from users where id = %s and deactivated_at is not null", ada.user)
    changed = operations({"op": "replace", "path": "active", "value": True})
    assert (await town.directory("PATCH", f"{USERS}/{ada.user}", changed)).status == 200
    assert not await forgetting(town, ada)
    assert (await Browser(town.client).login(ada)).status == 200


@pytest.mark.parametrize("redeemed_before", [True, False])
async def test_what_goes_beyond_a_consent_ends_with_the_membership(town: ListedTieScene, *, redeemed_before: bool) -> None:
    """Ada has allowed fewer scopes than the application got without a question."""
    ada = await town.born()
    town.tenants.join(ada, town.acme)
    town.allow(ada, scopes="openid")
    answer = await town.signed_in(ada).request("GET", town.asking(prompt="none", scope="openid email"))
    code = dict(parse_qsl(urlsplit(answer.header("location") or "").query))["code"]
    remove = f"/api/organizations/acme/members/{ada.user}"
    if not redeemed_before:
        (await town.request("POST", remove, by=town.owner)).ok()
        assert (await redeemed(town, code)).status == 400
        return
    tokens = (await redeemed(town, code)).ok()
    (await town.request("POST", remove, by=town.owner)).ok()
    assert (await town.client.get("/oauth/userinfo", token=tokens["access_token"])).status == 401

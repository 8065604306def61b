"""Whose account it is: who made it, how often its address was proved, what its person and others did, and who asks. `expected` says once,
by itself, what each combination comes to, and each combination is walked through the API; in ordinary runs, a choice in which each two
values meet (`tests/runs/pairs.py`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import pytest

from core.domain.identifiers import OrganizationId
from core.domain.mail import Mail
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving
from tests.http.federation.providing import ACS, SP, asking, authn_request, sent
from tests.http.federation.scim.directories import PATCH_OP, USER, USERS
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.service_interface import Backend
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.subscribing import Market
from tests.runs.pairs import by_pairs

database_url, postern, people = http.database_url, http.postern, http.people

ADA: Final = "ada@example.org"
MINE: Final = "mine@evil.example"


class Home(Market):
    """Acme makes accounts, globex is another organization. Both have a directory and a service with a key."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owners = {tenant.slug: self.resident(tenant, "owner") for tenant in (self.acme, self.globex)}
        for owner in self.owners.values():
            self.people.change("update users set email_verified_at = now() where id = %s", owner.user)
        self.box = Postbox(self.postern)
        self.directories: dict[str, str] = {}
        self.shops = {"acme": Backend(self, self.shop), "globex": Backend(self, self.theirs)}
        self.ada = Person(UUID(int=0), UUID(int=0), ADA)
        self.token = ""

    async def scim(self, method: str, path: str = "", body: Mapping[str, Any] | None = None, *, of: str = "acme") -> Received:
        if of not in self.directories:
            path_of_tokens = f"/api/organizations/{of}/scim-tokens"
            made = await self.request("POST", path_of_tokens, {"name": "x"}, by=self.owners[of])
            self.directories[of] = made.ok()["token"]
        return await self.client.request(method, USERS + path, body=body, token=self.directories[of])

    async def listed(self, of: str = "acme", **more: Any) -> None:
        (await self.scim("POST", body={"schemas": [USER], "userName": ADA, **more}, of=of)).ok(201)

    async def patch(self, path: str, value: object, *, of: str = "acme") -> Received:
        body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": path, "value": value}]}
        return await self.scim("PATCH", f"/{self.ada.user}", body, of=of)

    async def asks_for_link(self) -> str:
        (await self.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
        mails = [mail for mail in await self.box.empty() if mail.to == ADA and "token=" in mail.text]
        return token_in(link_in(mails[-1])) if mails else ""

    async def uses_link(self, token: str) -> Received:
        return await self.client.post("/api/auth/reset-password", {"token": token, "new_password": PASSWORD})

    async def resets(self) -> None:
        (await self.uses_link(await self.asks_for_link())).ok()

    async def signs_in(self, **more: Any) -> Received:
        return await Browser(self.client).login(self.ada, **more)

    async def as_herself(self, method: str, target: str, body: Any = None) -> Received:
        return await self.client.request(method, target, body=body, token=(await self.signs_in()).ok()["access_token"])

    def row(self) -> dict[str, Any]:
        """The account. Empty when it is gone."""
        found = self.people.rows("select * from users where id = %s", self.ada.user)
        return found[0] if found else {}

    def known(self) -> None:
        (row,) = self.people.rows("select id from users where email_key = %s", ADA)
        self.ada = Person(row["id"], row["id"], ADA)

    async def is_in(self, proved: int) -> bool:
        """Whether the person can sign in, and the session from before lives. Before anybody has a password, what the row says."""
        if not proved:
            return self.row()["deactivated_at"] is None
        answers = {(await self.signs_in()).status, (await self.client.get("/api/user", token=self.token)).status}
        assert len(answers) == 1, answers
        return answers == {200}


@pytest.fixture
def home(postern: Postern, people: People, log: CapturedLog) -> Home:
    return Home(postern, people, unlimited(postern), log)


# Who made the account.


async def by_directory(home: Home) -> None:
    await home.listed()


async def by_key(home: Home) -> None:
    await home.shops["acme"].create(ADA)


async def by_own_provider(home: Home) -> None:
    """`tests/http/upstream` has the sign-in that makes such a row."""
    person = home.people.add(ADA)
    home.people.change("update users set origin_org_id = %s, email_verified_at = null where id = %s", home.acme.id, person.user)
    home.people.change("delete from sessions where id = %s", person.session)


async def by_registering(home: Home) -> None:
    (await home.client.post("/api/auth/register", {"email": ADA, "password": "a long password of hers"})).ok()
    await home.box.empty()


MADE: Final[Mapping[str, Callable[[Home], Awaitable[None]]]] = {
    "a directory": by_directory,
    "a key": by_key,
    "an own provider": by_own_provider,
    "the person": by_registering,
}


# What happened then. Each says whether somebody else holds the account from then on.


async def nothing(home: Home) -> None:
    pass


async def accepts_elsewhere(home: Home) -> None:
    await home.box.empty()
    (await home.request("POST", "/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, by=home.owners["globex"])).ok()
    (mail,) = [mail for mail in await home.box.empty() if mail.to == ADA]
    (await home.client.post("/api/invitations/accept", {"token": token_in(link_in(mail))})).ok()


async def accepted_elsewhere_once(home: Home) -> None:
    await accepts_elsewhere(home)
    await home.request("DELETE", f"/api/organizations/globex/members/{home.ada.user}", by=home.owners["globex"])
    home.people.change("delete from memberships where user_id = %s and org_id = %s", home.ada.user, home.globex.id)


async def confirms_elsewhere(home: Home) -> None:
    await home.listed("globex")
    await home.postern.tenancy.members.confirm(await caller(home), [OrganizationId(home.globex.id)])


async def founds(home: Home) -> None:
    (await home.as_herself("POST", "/api/organizations", {"slug": "hers", "name": "Her own"})).ok()


async def founded_once(home: Home) -> None:
    await founds(home)
    home.people.change("delete from all_organizations where slug = 'hers'")


async def visits_elsewhere(home: Home) -> None:
    (await home.signs_in(org_slug="globex", service_slug=home.theirs.slug)).ok()


async def visited_elsewhere_once(home: Home) -> None:
    await visits_elsewhere(home)
    assert (await home.shops["globex"].delete(home.ada)).status == 204


async def takes_office(home: Home) -> None:
    home.people.change("update users set is_platform_owner = true where id = %s", home.ada.user)


async def took_office_once(home: Home) -> None:
    await takes_office(home)
    home.people.change("update users set is_platform_owner = false where id = %s", home.ada.user)


async def caller(home: Home) -> Any:
    tabs, token = Tabs(home.client), home.postern.foundation.secrets.token()
    session = home.people.session_of(home.ada).session
    home.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), session)
    tabs.cookies["__Host-postern_session"] = token.reveal()
    return await home.postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))


async def leaves_the_maker(home: Home) -> None:
    await home.postern.tenancy.members.leave(await caller(home), OrganizationId(home.acme.id))


async def is_refused_elsewhere(home: Home) -> None:
    home.people.change("update all_services set sign_in_policy = 'members' where id = %s", home.theirs.id)
    assert (await home.signs_in(org_slug="globex", service_slug=home.theirs.slug)).status == 403


async def visits_another_service_at_home(home: Home) -> None:
    (await home.signs_in(org_slug="acme", service_slug=home.app.slug)).ok()


async def listed_elsewhere(home: Home) -> None:
    await home.listed("globex")


async def listed_inactive_elsewhere(home: Home) -> None:
    await home.listed("globex", active=False)


async def accepted_on_behalf_elsewhere(home: Home) -> None:
    path, by = "/api/organizations/globex/invitations", home.owners["globex"]
    invitation = (await home.request("POST", path, {"email": ADA, "role": "admin"}, by=by)).ok()["invitation"]["id"]
    (await home.request("POST", f"{path}/{invitation}/accept", by=by)).ok()
    await home.box.empty()


async def added_to_a_service_elsewhere(home: Home) -> None:
    await home.shops["globex"].create(ADA)


async def subscribed_elsewhere(home: Home, **more: str) -> None:
    await added_to_a_service_elsewhere(home)
    key = home.shops["globex"].key
    (await home.subscribe(home.ada, home.plan(home.theirs), key=key, **more)).ok()


async def subscribed_elsewhere_once(home: Home) -> None:
    await subscribed_elsewhere(home, status="cancelled")


async def administrates_at_home(home: Home) -> None:
    home.people.change("update memberships set role = 'admin' where user_id = %s and org_id = %s", home.ada.user, home.acme.id)
    home.people.change("update relations set relation = 'admin' where user_id = %s and organization_id = %s", home.ada.user, home.acme.id)


HOLDS: Final[Mapping[str, Callable[[Home], Awaitable[None]]]] = {
    "an own membership elsewhere": accepts_elsewhere,
    "one that was": accepted_elsewhere_once,
    "one that she confirmed": confirms_elsewhere,
    "an organization of hers": founds,
    "one that she had": founded_once,
    "a session at a service elsewhere": visits_elsewhere,
    "one that has ended": visited_elsewhere_once,
    "a right on the platform": takes_office,
    "one that she gave up": took_office_once,
    "she left the maker": leaves_the_maker,
}
BY_OTHERS: Final[Mapping[str, Callable[[Home], Awaitable[None]]]] = {
    "listed elsewhere": listed_elsewhere,
    "listed elsewhere as inactive": listed_inactive_elsewhere,
    "accepted on behalf elsewhere": accepted_on_behalf_elsewhere,
    "added to a service elsewhere": added_to_a_service_elsewhere,
    "a subscription elsewhere": subscribed_elsewhere,
    "one that is over": subscribed_elsewhere_once,
}
HOLDS_NOTHING: Final[Mapping[str, Callable[[Home], Awaitable[None]]]] = {
    "nothing": nothing,
    "a visit elsewhere that was refused": is_refused_elsewhere,
    "a session at another service at home": visits_another_service_at_home,
    **BY_OTHERS,
}
AT_HOME: Final = {"an administrator at home": administrates_at_home}
HAPPENED: Final = {**HOLDS, **HOLDS_NOTHING, **AT_HOME}
# Whoever has proved nothing has no password, and can do nothing of this.
WITHOUT_PROOF: Final = {"nothing", *BY_OTHERS, *AT_HOME}
WITH_PROOF: Final = set(HAPPENED)

# Who asks for what.
BLOCKS, DELETES, MOVES = "the directory blocks", "the directory deletes", "the directory moves"
KEY_DELETES, KEY_MOVES = "the key deletes", "the key moves"
ASKS: Final = (BLOCKS, DELETES, MOVES, KEY_DELETES, KEY_MOVES)
OFF, GONE, MOVED, NOTHING, REFUSED = "off", "gone", "moved", "nothing", "refused"


def expected(made: str, proved: int, happened: str, ask: str) -> str:
    is_the_makers = made != "the person" and happened not in HOLDS
    if happened in AT_HOME and ask in {BLOCKS, DELETES, MOVES}:
        return REFUSED
    if ask in {KEY_DELETES, KEY_MOVES}:
        # A key reaches what it has made itself, and nothing that another service at home has.
        is_the_makers = is_the_makers and made == "a key" and happened not in {"a session at another service at home", *AT_HOME}
    if ask == BLOCKS:
        return OFF if is_the_makers else NOTHING
    if ask in {MOVES, KEY_MOVES}:
        # As long as nobody has proved the address, and nobody else has anything of the person that would go over to the next.
        return MOVED if is_the_makers and not proved and happened not in BY_OTHERS else REFUSED
    if is_the_makers and happened == "a subscription elsewhere":
        return REFUSED
    if ask == KEY_DELETES and happened in {"a right on the platform", "an organization of hers"}:
        return REFUSED
    return GONE if is_the_makers else NOTHING


async def asked(home: Home, ask: str, proved: int) -> str:
    before = home.row()
    if ask == BLOCKS:
        await home.patch("active", value=True)
        answer = await home.patch("active", value=False)
        if answer.status != 200:
            return REFUSED
        return NOTHING if await home.is_in(proved) else OFF
    if ask in {DELETES, KEY_DELETES}:
        answer = await (home.scim("DELETE", f"/{home.ada.user}") if ask == DELETES else home.shops["acme"].delete(home.ada))
        if not home.row():
            return GONE
        assert home.row()["email"] == before["email"]
        assert answer.status in {204, 400, 403}, answer.body
        return NOTHING if answer.status == 204 else REFUSED
    answer = await (home.patch("userName", MINE) if ask == MOVES else home.shops["acme"].move(home.ada, MINE))
    assert (answer.status == 200) is (home.row()["email"] == MINE)
    return MOVED if answer.status == 200 else REFUSED


async def prepare(home: Home, made: str, proved: int, happened: str, ask: str) -> None:
    await MADE[made](home)
    if ask in {KEY_DELETES, KEY_MOVES}:
        if made != "a key":
            await home.shops["acme"].create(ADA)
    elif made != "a directory":
        await home.listed()
    home.known()
    await home.box.empty()
    for _ in range(proved):
        await home.resets()
    await HAPPENED[happened](home)
    if proved:
        home.token = (await home.signs_in()).ok()["access_token"]


def is_walked(made: str, proved: int, happened: str, ask: str) -> bool:
    if happened not in (WITH_PROOF if proved else WITHOUT_PROOF) or (proved > 1 and happened != "nothing"):
        return False
    if ask in {KEY_DELETES, KEY_MOVES}:
        # Where no directory lists the person, there is nothing to leave.
        return happened != "she left the maker" and (made == "a key" or happened == "nothing")
    return True


CASES: Final = [
    (made, proved, happened, ask)
    for made in MADE
    for proved in (0, 1, 2)
    for happened in HAPPENED
    for ask in ASKS
    if is_walked(made, proved, happened, ask)
]


@pytest.mark.parametrize(("made", "proved", "happened", "ask"), by_pairs("ownership", CASES))
async def test_whose_it_is(home: Home, made: str, proved: int, happened: str, ask: str) -> None:
    if ask in {KEY_DELETES, KEY_MOVES} and happened in AT_HOME:
        await prepare(home, made, proved, "nothing", ask)
        home.tenants.join(home.ada, home.acme, "admin", listed=True)
    else:
        await prepare(home, made, proved, happened, ask)
    assert await asked(home, ask, proved) == expected(made, proved, happened, ask)
    if ask in {DELETES, KEY_DELETES} and not home.row():
        # The address is free: whoever registers it gets another account.
        (await home.client.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).ok()
        assert home.people.rows("select id from users where email_key = %s and id <> %s", ADA, home.ada.user)


async def off(home: Home, made: str, proved: int) -> None:
    await prepare(home, made, proved, "nothing", BLOCKS)
    (await home.patch("active", value=False)).ok()
    assert not await home.is_in(proved)


def logged_how(home: Home) -> list[str]:
    return [one["details"].get("how") for one in home.audited("user.activated")]


async def require_nobodys(home: Home) -> None:
    """The account is on, and no word of acme's counts for it any more. In acme the person stays inactive until its directory says else."""
    assert (await home.scim("GET", f"/{home.ada.user}")).ok()["active"] is False
    home.token = (await home.signs_in()).ok()["access_token"]
    (await home.patch("active", value=True)).ok()
    (await home.patch("active", value=False)).ok()
    assert await home.is_in(1)
    assert (await home.scim("DELETE", f"/{home.ada.user}")).status == 204
    assert await home.is_in(1)


MADE_BY_ACME: Final = [made for made in MADE if made != "the person"]


@pytest.mark.parametrize("proved", [0, 1, 2])
@pytest.mark.parametrize("made", MADE_BY_ACME)
async def test_a_link_that_is_asked_for_afterwards_opens_it_and_then_it_is_nobodys(home: Home, made: str, proved: int) -> None:
    await off(home, made, proved)
    (await home.uses_link(await home.asks_for_link())).ok()
    assert logged_how(home) == ["address_proved"]
    await require_nobodys(home)


async def signed_in_by(home: Home, mail: Mail) -> bool:
    tabs = Tabs(home.client)
    tab = await tabs.tab().open(link_in(mail).removeprefix(BASE_URL))
    if tab.status == 200:
        await tab.send()
    return tabs.session is not None


async def test_a_sign_in_link_that_is_asked_for_afterwards_does_as_well(home: Home) -> None:
    await off(home, "a directory", 1)
    await home.box.empty()
    (await home.client.post("/api/auth/magic-link", {"email": ADA})).ok()
    (mail,) = [mail for mail in await home.box.empty() if mail.to == ADA]
    assert await signed_in_by(home, mail)
    assert logged_how(home) == ["address_proved"]
    await require_nobodys(home)


@pytest.mark.parametrize("active", [True, False])
async def test_another_directory_does_not_open_what_the_maker_has_switched_off(home: Home, *, active: bool) -> None:
    """Otherwise any organization could undo a company's word. It reads what it wrote itself, as of anybody (0071), and the account stays
    as its maker left it, until the person opens it.
    """
    await off(home, "a directory", 1)
    before = home.row()
    assert (before["deactivated_at"] is None, before["deactivated_by_org_id"]) == (False, home.acme.id)
    await home.listed("globex", active=active)
    assert (await home.scim("GET", f"/{home.ada.user}", of="globex")).ok()["active"] is active
    assert not await home.is_in(1)
    # Also taken out, and brought back.
    for again in (True, False, True):
        assert (await home.patch("active", value=again, of="globex")).ok()["active"] is again
        assert not await home.is_in(1)
    assert home.row() == before
    assert logged_how(home) == []
    await home.resets()
    assert logged_how(home) == ["address_proved"]
    assert (await home.patch("active", value=True, of="globex")).ok()["active"] is True
    await require_nobodys(home)


@pytest.mark.parametrize("made", ["a key", "an own provider"])
async def test_a_directory_brings_as_inactive_whom_its_organization_has_made(home: Home, made: str) -> None:
    await MADE[made](home)
    home.known()
    await home.resets()
    home.token = (await home.signs_in()).ok()["access_token"]
    await home.listed(active=False)
    assert not await home.is_in(1)
    (await home.patch("active", value=True)).ok()
    assert (await home.signs_in()).status == 200


@pytest.mark.parametrize("proved", [0, 1, 2])
@pytest.mark.parametrize("made", MADE_BY_ACME)
async def test_registering_does_what_asking_for_a_link_does(home: Home, made: str, proved: int) -> None:
    await off(home, made, proved)
    await home.box.empty()
    before = home.row()
    registered = await home.client.post("/api/auth/register", {"email": ADA, "password": "a stranger's guess 7"})
    other = await home.client.post("/api/auth/register", {"email": "bob@example.org", "password": "a stranger's guess 7"})
    assert (registered.status, registered.json()) == (other.status, other.json())
    assert home.row() == before
    (mail,) = [mail for mail in await home.box.empty() if mail.to == ADA]
    assert home.row() == before
    (await home.uses_link(token_in(link_in(mail)))).ok()
    await require_nobodys(home)


@pytest.mark.parametrize("kind", ["reset", "sign-in", "queued reset", "queued sign-in"])
async def test_a_link_from_before_opens_nothing(home: Home, kind: str) -> None:
    """Also a link that somebody asked for before, and that is mailed after."""
    await prepare(home, "a directory", 1, "nothing", BLOCKS)
    await home.box.empty()
    path = "/api/auth/magic-link" if "sign-in" in kind else "/api/auth/forgot-password"
    (await home.client.post(path, {"email": ADA})).ok()
    mails = [] if kind.startswith("queued") else await home.box.empty()
    (await home.patch("active", value=False)).ok()
    if kind.startswith("queued"):
        assert [mail for mail in await home.box.empty() if mail.to == ADA and "token=" in mail.text] == []
    for mail in mails:
        if "sign-in" in kind:
            assert not await signed_in_by(home, mail)
        else:
            assert (await home.uses_link(token_in(link_in(mail)))).status == 400
    assert not await home.is_in(1)
    assert logged_how(home) == []


async def test_other_organizations_hear_of_the_end(home: Home) -> None:
    await prepare(home, "a directory", 1, "listed elsewhere", DELETES)
    await added_to_a_service_elsewhere(home)
    initech = home.tenants.add("initech")
    home.tenants.join(home.ada, initech, "admin", listed=True)
    assert (await home.scim("DELETE", f"/{home.ada.user}")).status == 204
    heard = [one for one in home.told() if one["name"] == "user.removed" and one["organization_id"] != home.acme.id]
    assert {one["organization_id"] for one in heard} == {home.globex.id, initech.id}
    assert len(heard) == 2
    assert {(one["actor_id"], one["target_id"], str(one["details"])) for one in heard} == {
        (None, str(home.ada.user), str({"account": "deleted"}))
    }
    (count,) = home.people.rows("select member_count from all_organizations where id = %s", initech.id)
    assert count["member_count"] == 0


# What else there is of a session elsewhere: a session by an authorization code, or by SAML.


class Elsewhere(Arriving):
    """Acme has applications here, and another organization, maker, has made Ada's account."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.maker = self.tenants.add("maker")
        self.ada = self.people.add(ADA)
        self.people.change("update users set origin_org_id = %s, email_verified_at = now() where id = %s", self.maker.id, self.ada.user)

    def identity(self, *, own: bool) -> None:
        self.people.connect(self.ada)
        if own:
            provider = self.postern.foundation.ids.new()
            self.people.change(
                "insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled,"
                " created_at, updated_at) values (%s, %s, 'Maker', 'https://maker.example', 'x', 'x', '{}', true, now(), now())",
                *(provider, self.maker.id),
            )
            self.people.change("update identities set upstream_provider_id = %s, provider = %s", provider, str(provider))

    @property
    def is_held(self) -> bool:
        return self.people.rows("select from held_accounts where user_id = %s", self.ada.user) != []

    async def redeems(self, tabs: Tabs) -> None:
        answer = await tabs.request("GET", self.asking(prompt="none"))
        code = dict(parse_qsl(urlsplit(answer.header("location") or "").query))["code"]
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        (await self.unlimited.post("/auth/token", {**fields, "client_id": self.client_id(self.app)})).ok()


@pytest.fixture
def elsewhere(postern: Postern, people: People, log: CapturedLog) -> Elsewhere:
    return Elsewhere(postern, people, unlimited(postern), log)


@pytest.mark.parametrize(
    ("amr", "identity", "holds"),
    [
        ("{pwd}", "", True),
        ("{pwd}", "own", True),
        ("{hwk}", "own", True),
        ("{fed}", "shared", True),
        # The maker itself opens this way in.
        ("{fed}", "own", False),
        ("{fed,otp,mfa}", "own", False),
    ],
)
@pytest.mark.parametrize("way", ["code", "saml"])
async def test_a_session_elsewhere_holds_that_was_opened_by_a_way_in_of_hers(
    elsewhere: Elsewhere, way: str, amr: str, identity: str, *, holds: bool
) -> None:
    if identity:
        elsewhere.identity(own=identity == "own")
    tabs = elsewhere.signed_in(elsewhere.ada, amr=amr)
    if way == "code":
        answer = await tabs.request("GET", elsewhere.asking(prompt="none"))
        assert "error=consent_required" in (answer.header("location") or "")
        # A visit that asked, and got no consent.
        assert not elsewhere.is_held
        elsewhere.allow(elsewhere.ada)
        assert not elsewhere.is_held
        await elsewhere.redeems(tabs)
    else:
        owner = elsewhere.resident(elsewhere.acme, "owner")
        saml = "/api/organizations/acme/services/app/saml"
        (await elsewhere.request("POST", saml, {"enabled": True, "entity_id": SP, "acs_url": ACS}, by=owner)).ok()
        (await elsewhere.request("POST", f"{saml}/certificate", by=owner)).ok()
        assert sent(await tabs.request("GET", asking(authn_request(IsPassive="true")))).status == "NoPassive"
        assert not elsewhere.is_held
        elsewhere.people.change(
            "insert into consents (id, user_id, service_id, saml_entity_id, scopes, granted_at)"
            " values (gen_random_uuid(), %s, %s, %s, '{}', now())",
            *(elsewhere.ada.user, elsewhere.app.id, SP),
        )
        assert sent(await tabs.request("GET", asking(authn_request(IsPassive="true")))).status == "Success"
    assert elsewhere.is_held is holds


async def test_a_session_at_the_makers_own_service_holds_nothing(elsewhere: Elsewhere) -> None:
    elsewhere.people.change("update users set origin_org_id = %s", elsewhere.acme.id)
    elsewhere.allow(elsewhere.ada)
    await elsewhere.redeems(elsewhere.signed_in(elsewhere.ada))
    assert not elsewhere.is_held


async def test_a_key_that_deletes_an_unconfirmed_owner_leaves_the_organization_to_the_former_one(home: Home) -> None:
    """An ownership that others gave holds nothing, and no organization is left without an owner."""
    ada = await home.shops["acme"].create(ADA)
    home.tenants.join(ada, home.globex, listed=True)
    boss, path = home.owners["globex"], "/api/organizations/globex/transfer-ownership"
    (await home.request("POST", path, {"new_owner_user_id": str(ada.user)}, by=boss)).ok()
    await home.box.empty()
    assert (await home.shops["acme"].delete(ada)).status == 204
    assert not home.people.rows("select from users where id = %s", ada.user)
    assert home.people.rows("select status, owner_user_id from all_organizations where id = %s", home.globex.id) == [
        {"status": "active", "owner_user_id": boss.user}
    ]
    assert [(mail.to, mail.subject) for mail in await home.box.empty()] == [(boss.email, "You are the owner of Globex again")]

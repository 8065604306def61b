"""What an address counts as: whoever is behind it (nobody, an organization's own provider, or the mailbox's reader) and what it is asked
for. `TABLE` says once, by itself, what each combination comes to, and each combination is walked by the product's own ways in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import pytest

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.upstream.claims import VOUCHED_COUNTS, AddressUse
from core.domain.mail import Email
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider, FakeWebSuite, settings_of
from tests.authenticator import Passkey
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client
from tests.http.conftest import postern_on, with_keys
from tests.http.federation.arriving import CALLBACK, VERIFIER, told
from tests.http.federation.devices import BROWSER, CODE, DEVICE_CODE
from tests.http.federation.relying import FORM, TOKEN, USERINFO, claims_of
from tests.http.federation.scim.directories import PATCH_OP, USER, USERS
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import route
from tests.http.signing_in import LOGIN, PASSWORD
from tests.http.tenants import Tenant, UsedService
from tests.http.upstream.scene import ADA, Fakes, UpstreamScene

database_url, people, client = http.database_url, http.people, http.client

ELSEWHERE: Final = "ada@elsewhere.example"
DOMAIN: Final = "example.org"
SCOPES: Final = "openid email offline_access"
# What somebody may have left in the account, besides the password.
PLANTED: Final = """
    select password_hash is not null as password, exists (select from passkeys where user_id = users.id) as passkey,
           exists (select from consents where user_id = users.id) as consent
      from users
     where id = %s
"""

NOBODYS, BY_ACME, BY_GLOBEX, PROVED = "nobody's", "vouched for by acme", "vouched for by globex", "proved"
STATES: Final = (NOBODYS, BY_ACME, BY_GLOBEX, PROVED)


@dataclass
class Crossing(UpstreamScene):
    """Acme and globex have a provider each, and acme has another one. Ada's account is her own and has been proved. A way in prepares what
    it needs, and then the address becomes what the test says.
    """

    box: Postbox = field(init=False)
    state: str = ""
    side: str = "acme"
    """The organization that is asked."""
    at: dict[str, str] = field(default_factory=dict)
    """The providers."""
    has_become: bool = False

    async def prepare(self, state: str, side: str) -> None:
        self.state, self.side, self.box = state, side, Postbox(self.postern)
        self.both = {"acme": self.acme, "globex": self.tenants.add("globex")}
        self.site = self.application(self.both["globex"], "site", CALLBACK)
        self.bosses = {slug: self.resident(tenant, "owner", "boss") for slug, tenant in self.both.items()}
        self.at = {
            "acme": await self.provider("acme"),
            "other": await self.provider("acme", "Other"),
            "globex": await self.provider("globex"),
        }
        self.vouchers = {BY_ACME: f"{self.acme.id}/{self.at['acme']}", BY_GLOBEX: f"{self.both['globex'].id}/{self.at['globex']}"}
        self.ada = self.speaker = self.people.add(ADA)
        self.people.change("update users set email_verified_at = now() where id = %s", self.ada.user)

    @property
    def tenant(self) -> Tenant:
        return self.both[self.side]

    @property
    def boss(self) -> Person:
        return self.bosses[self.side]

    async def provider(self, slug: str, name: str = "Login") -> str:
        fake = self.fakes["own"]
        body = {"name": name, "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        made = await self.request("POST", f"/api/organizations/{slug}/upstream-providers", body, by=self.bosses[slug])
        return str(made.ok(201)["id"])

    def becomes(self) -> None:
        self.people.change(
            "update users set email_verified_at = case when %s then now() end, address_vouched_by = %s where id = %s",
            self.state == PROVED,
            self.vouchers.get(self.state),
            self.ada.user,
        )
        # Somebody had proved the address while the test prepared things.
        self.people.change("delete from former_addresses where user_id = %s", self.ada.user)
        self.has_become = True

    async def plants(self) -> None:
        self.people.give_passkey(self.ada)
        self.allow(self.ada)
        await self.chooses_password()

    async def chooses_password(self) -> None:
        encoded = await self.postern.identity.passwords.hash(Password(PASSWORD))
        self.people.change("update users set password_hash = %s where id = %s", encoded, self.ada.user)

    def planted(self) -> str:
        """What became of it: all is there or nothing is."""
        (row,) = self.people.rows(PLANTED, self.ada.user)
        assert len(set(row.values())) == 1, row
        return "kept" if row["passkey"] else "ended"

    def proves_domain(self) -> None:
        """The organization that is asked has proved the domain at this moment."""
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
            self.tenant.id,
            DOMAIN,
        )

    def is_member(self, *, own: bool = False) -> str:
        rows = self.people.rows("select own_since from memberships where user_id = %s and org_id = %s", self.ada.user, self.tenant.id)
        return yes(any(row["own_since"] is not None or not own for row in rows))

    async def scim(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        if not getattr(self, "scim_token", ""):
            made = await self.request("POST", f"/api/organizations/{self.side}/scim-tokens", {"name": "x"}, by=self.boss)
            self.scim_token = made.ok()["token"]
        return await self.unlimited.request(method, USERS + path, body=body, token=self.scim_token)

    async def in_own_list(self) -> dict[str, str]:
        """The tokens of the invitations that Ada sees, by organization."""
        listed = (await self.unlimited.get("/api/invitations", token=await self.people.token(self.ada))).json()
        self.log.remember(*(one["token"] for one in listed))
        return {one["organization"]["slug"]: one["token"] for one in listed}

    async def invites(self) -> None:
        body = {"email": ADA, "role": "member"}
        sent = (await self.request("POST", f"/api/organizations/{self.side}/invitations", body, by=self.boss)).ok()
        self.log.remember(sent["token"])

    @property
    def application_here(self) -> UsedService:
        return self.app if self.side == "acme" else self.site

    async def gets_code(self) -> str:
        """A code for the organization's application, which Ada allows to know her address."""
        self.allow(self.ada, self.application_here, SCOPES)
        answer = await self.signed_in(self.ada).request("GET", self.asking(self.application_here, scope=SCOPES))
        code = told(answer)["code"]
        self.log.remember(code)
        return code

    async def gets_tokens(self, **fields: str) -> dict[str, Any]:
        body = urlencode({"client_id": self.client_id(self.application_here), **fields}).encode()
        tokens: dict[str, Any] = (await self.unlimited.request("POST", TOKEN, body=body, headers=[FORM])).ok()
        self.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))
        return tokens

    async def redeems(self, code: str) -> dict[str, Any]:
        return await self.gets_tokens(grant_type="authorization_code", code=code, redirect_uri=CALLBACK, code_verifier=VERIFIER)

    @staticmethod
    def says(tokens: Mapping[str, Any]) -> str:
        return yes(claims_of(tokens["id_token"])["email_verified"])

    def opened_by(self, provider: str) -> None:
        """The provider has opened Ada's session."""
        self.people.change("update sessions set opened_through = %s where id = %s", self.at[provider], self.ada.session)


def yes(said: object) -> str:
    return "yes" if said else "no"


Way = Callable[[Crossing], Awaitable[str]]

# The ways in. Each says what it came to.


async def by_password(scene: Crossing) -> str:
    await scene.chooses_password()
    scene.becomes()
    answer = await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})
    assert answer.status in {200, 401}, answer.body
    return yes(answer.status == 200)


async def by_passkey(scene: Crossing) -> str:
    token = await scene.people.token(scene.ada)
    options = (await scene.unlimited.post("/api/user/passkeys/options", token=token)).ok()
    passkey = Passkey.made()
    (await scene.unlimited.post("/api/user/passkeys", {"credential": passkey.create(options)}, token=token)).ok(201)
    scene.becomes()
    asked = (await scene.unlimited.post("/api/auth/passkeys/options")).ok()
    answer = await scene.unlimited.post("/api/auth/passkeys", {"credential": passkey.get(asked)})
    assert answer.status in {200, 401}, answer.body
    return yes(answer.status == 200)


async def by_mailed_link(scene: Crossing) -> str:
    await scene.chooses_password()
    scene.becomes()
    (await scene.unlimited.post("/api/auth/magic-link", {"email": ADA})).ok()
    mails = [mail for mail in await scene.box.empty() if mail.subject == "Your sign-in link"]
    if not mails:
        return "no"
    tabs = scene.browser()
    await (await tabs.tab().open(link_in(mails[0]).removeprefix(BASE_URL))).send()
    return yes(await scene.who(tabs) == scene.ada.user)


async def _comes(scene: Crossing, provider: str) -> str:
    await scene.plants()
    scene.becomes()
    if provider == "websuite":
        scene.sits()
    else:
        scene.proves_domain()
        scene.sits(word="own")
    tabs = scene.browser()
    await scene.go(tabs, "" if provider == "websuite" else f"?org={scene.side}", word=scene.at.get(provider, provider))
    assert await scene.who(tabs) == scene.ada.user
    return scene.planted()


async def by_provider(scene: Crossing) -> str:
    return await _comes(scene, scene.side)


async def by_another_provider(scene: Crossing) -> str:
    return await _comes(scene, "other")


async def by_one_of_the_three(scene: Crossing) -> str:
    return await _comes(scene, "websuite")


async def sees_invitation(scene: Crossing) -> str:
    await scene.invites()
    scene.becomes()
    return yes(scene.side in await scene.in_own_list())


async def accepts_invitation(scene: Crossing) -> str:
    """The list from which she accepts is from before."""
    await scene.invites()
    token = (await scene.in_own_list())[scene.side]
    scene.becomes()
    answer = await scene.unlimited.post("/api/invitations/accept", {"token": token})
    assert (answer.status == 200) is (scene.is_member() == "yes"), answer.body
    return scene.is_member(own=True)


async def confirms(scene: Crossing) -> str:
    scene.tenants.join(scene.ada, scene.tenant, listed=True)
    scene.becomes()
    path = f"/ui/organizations/{scene.side}/membership"
    tab = await scene.signed_in(scene.ada).tab().open(path)
    await tab.send(next(number for number, form in enumerate(tab.page.forms) if form.action == path), answer="accept")
    return scene.is_member(own=True)


def through_acme(way: Way) -> Way:
    """Acme's provider has opened the session that asks."""

    async def walk(scene: Crossing) -> str:
        scene.opened_by("acme")
        return await way(scene)

    return walk


async def joins_by_domain(scene: Crossing) -> str:
    """She signs in by an account that is connected already, and that states no address as verified."""
    scene.sits()
    await scene.go(scene.browser(), word="websuite")
    route(scene.people, scene.tenant, DOMAIN, provider=None, login="password_allowed", join="on")
    scene.becomes()
    scene.sits(verified=False)
    tabs = scene.browser()
    await scene.go(tabs, word="websuite")
    assert await scene.who(tabs) == scene.ada.user
    return scene.is_member()


async def takes_office(scene: Crossing) -> str:
    governor = scene.people.add("governor@example.org", platform_owner=True)
    scene.becomes()
    answer = await scene.request("POST", "/api/platform/owners", {"user_id": str(scene.ada.user)}, by=governor)
    (row,) = scene.people.rows("select is_platform_owner from users where id = %s", scene.ada.user)
    assert row["is_platform_owner"] is (answer.status == 200), answer.body
    return yes(row["is_platform_owner"])


async def takes_office_by_operator(scene: Crossing) -> str:
    scene.becomes()
    return yes(await scene.postern.platform.platform_owners.promote(Email(ADA)))


async def founds(scene: Crossing) -> str:
    scene.becomes()
    answer = await scene.request("POST", "/api/organizations", {"slug": "hers", "name": "Hers"}, by=scene.ada)
    assert answer.status in {200, 400}, answer.body
    return yes(scene.people.rows("select from all_organizations where slug = 'hers'"))


async def outlives_sweep(scene: Crossing) -> str:
    scene.people.change("delete from sessions where id = %s", scene.ada.session)
    scene.people.change("update users set created_at = now() - interval '400 days' where id = %s", scene.ada.user)
    scene.becomes()
    assert scene.postern.identity.unverified_accounts.retention > timedelta()
    await scene.postern.identity.unverified_accounts.end_due(None, 20)
    return yes(scene.people.rows("select from users where id = %s and email = %s", scene.ada.user, ADA))


async def is_listed(scene: Crossing) -> str:
    await scene.plants()
    scene.becomes()
    (await scene.scim("POST", "", {"schemas": [USER], "userName": ADA})).ok(201)
    return scene.planted()


def _is_made(scene: Crossing, user: str) -> None:
    """Another account, which somebody has made, has the address."""
    scene.ada = Person(UUID(user), scene.ada.session, ADA)


async def is_moved_by_directory(scene: Crossing) -> str:
    scene.people.change("delete from users where id = %s", scene.ada.user)
    _is_made(scene, (await scene.scim("POST", "", {"schemas": [USER], "userName": ADA})).ok(201)["id"])
    scene.becomes()
    body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "userName", "value": ELSEWHERE}]}
    await scene.scim("PATCH", f"/{scene.ada.user}", body)
    return _is_moved(scene)


async def is_moved_by_key(scene: Crossing) -> str:
    scene.people.change("delete from users where id = %s", scene.ada.user)
    body = {"name": "Key", "permissions": ["read:users", "write:users"]}
    key = (await scene.request("POST", "/api/organizations/acme/services/app/api-keys", body, by=scene.boss)).ok(201)["key"]
    headers = [("x-api-key", key)]
    _is_made(scene, (await scene.unlimited.post("/api/service/users", {"email": ADA}, headers=headers)).ok()["id"])
    scene.becomes()
    await scene.unlimited.request("PATCH", f"/api/service/users/{scene.ada.user}", body={"email": ELSEWHERE}, headers=headers)
    return _is_moved(scene)


def _is_moved(scene: Crossing) -> str:
    (row,) = scene.people.rows("select email from users where id = %s", scene.ada.user)
    return yes(row["email"] == ELSEWHERE)


async def is_forgotten(scene: Crossing) -> str:
    """Whether what others keep about the address goes, too."""
    scene.becomes()
    governor = scene.people.add("governor@example.org", platform_owner=True)
    (await scene.request("DELETE", f"/api/privacy/forget/{scene.ada.user}", by=governor)).ok()
    (row,) = scene.people.rows("select email_keys from privacy_requests where user_id = %s", scene.ada.user)
    return yes(ADA in row["email_keys"])


async def gives_it_up(scene: Crossing) -> str:
    """Whether the address is among those that she has had, once she has proved another one. Nobody moves a vouched account before."""
    scene.becomes()
    answer = await scene.request("PATCH", "/api/user", {"email": ELSEWHERE}, by=scene.ada)
    if answer.status == 400:
        assert _is_moved(scene) == "no"
        return "no"
    (mail,) = [mail for mail in await scene.box.empty() if mail.to == ELSEWHERE]
    await scene.unlimited.get(f"/auth/verify-email?token={token_in(link_in(mail))}")
    assert _is_moved(scene) == "yes"
    return yes(scene.people.rows("select from former_addresses where user_id = %s and email_key = %s", scene.ada.user, ADA))


# Claims, as the application of the organization that is asked reads them.


async def in_id_token(scene: Crossing) -> str:
    code = await scene.gets_code()
    scene.becomes()
    return scene.says(await scene.redeems(code))


async def in_userinfo(scene: Crossing) -> str:
    tokens = await scene.redeems(await scene.gets_code())
    scene.becomes()
    return yes((await scene.unlimited.get(USERINFO, token=tokens["access_token"])).ok()["email_verified"])


async def after_refresh(scene: Crossing) -> str:
    tokens = await scene.redeems(await scene.gets_code())
    scene.becomes()
    return scene.says(await scene.gets_tokens(grant_type="refresh_token", refresh_token=tokens["refresh_token"]))


async def at_device(scene: Crossing) -> str:
    body = {"client_id": scene.client_id(scene.application_here), "org": scene.side, "service": scene.application_here.slug}
    codes = (await scene.unlimited.post(CODE, {**body, "scope": SCOPES})).ok()
    scene.log.remember(codes["device_code"], codes["user_code"])
    scene.becomes()
    caller = Caller(UserId(scene.ada.user), Email(ADA), SessionId(scene.ada.session), is_platform_owner=False)
    found, _ = await scene.postern.federation.device_flow.find_entered(codes["user_code"])
    await scene.postern.federation.device_flow.approve(found.id, caller, BROWSER)
    return scene.says(await scene.gets_tokens(grant_type=DEVICE_CODE, device_code=codes["device_code"]))


@dataclass(frozen=True)
class Tried:
    """What the way in comes to in each state. The organization that is asked is acme, unless `side` says globex."""

    way: Way
    expected: str
    """In the order of `STATES`."""
    voucher: AddressUse | None
    """The purpose, where the organization that is asked has vouched. None: not the address decides."""
    others: AddressUse | None
    """The purpose, where another one has vouched."""
    side: str = "acme"

    def comes_to(self, state: str) -> str:
        return self.expected.split()[STATES.index(state)]


Use = AddressUse
TABLE: Final[Mapping[str, Tried]] = {
    # nobody's, vouched for by acme, vouched for by globex, proved
    "a password": Tried(by_password, "no no no yes", Use.OTHER_SIGN_IN, Use.OTHER_SIGN_IN),
    "a passkey": Tried(by_passkey, "no no no yes", Use.OTHER_SIGN_IN, Use.OTHER_SIGN_IN),
    "a mailed link": Tried(by_mailed_link, "no no no yes", Use.OTHER_SIGN_IN, Use.OTHER_SIGN_IN),
    "acme's provider": Tried(by_provider, "ended kept ended kept", Use.SIGN_IN_AT_VOUCHER, Use.OTHER_PROVIDER),
    "globex's provider": Tried(by_provider, "ended ended kept kept", Use.SIGN_IN_AT_VOUCHER, Use.OTHER_PROVIDER, "globex"),
    "acme's other provider": Tried(by_another_provider, "ended ended ended kept", Use.OTHER_PROVIDER, Use.OTHER_PROVIDER),
    "one of the three": Tried(by_one_of_the_three, "ended ended ended kept", Use.OTHER_PROVIDER, Use.OTHER_PROVIDER),
    "acme's invitation in the list": Tried(sees_invitation, "no no no yes", Use.INVITATIONS, Use.INVITATIONS),
    "globex's invitation in the list": Tried(sees_invitation, "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    "accepting acme's invitation": Tried(accepts_invitation, "no no no yes", Use.INVITATIONS, Use.INVITATIONS),
    "accepting globex's invitation": Tried(accepts_invitation, "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    "confirming acme's membership": Tried(confirms, "no no no yes", Use.INVITATIONS, Use.INVITATIONS),
    "confirming globex's membership": Tried(confirms, "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    # Acme's provider has opened the session: enough for what acme says, and for nothing else.
    "acme's invitation, through acme": Tried(through_acme(sees_invitation), "yes yes yes yes", None, None),
    "globex's invitation, through acme": Tried(through_acme(sees_invitation), "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    "accepting acme's, through acme": Tried(through_acme(accepts_invitation), "yes yes yes yes", None, None),
    "accepting globex's, through acme": Tried(through_acme(accepts_invitation), "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    "confirming acme's, through acme": Tried(through_acme(confirms), "yes yes yes yes", None, None),
    "confirming globex's, through acme": Tried(through_acme(confirms), "no no no yes", Use.INVITATIONS, Use.INVITATIONS, "globex"),
    "joining acme by domain": Tried(joins_by_domain, "no yes no yes", Use.JOINING_VOUCHER, Use.JOINING_ELSEWHERE),
    "joining globex by domain": Tried(joins_by_domain, "no no yes yes", Use.JOINING_VOUCHER, Use.JOINING_ELSEWHERE, "globex"),
    "acme's ID token": Tried(in_id_token, "no yes no yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS),
    "globex's ID token": Tried(in_id_token, "no no yes yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS, "globex"),
    "acme's userinfo": Tried(in_userinfo, "no yes no yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS),
    "globex's userinfo": Tried(in_userinfo, "no no yes yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS, "globex"),
    "acme's refresh": Tried(after_refresh, "no yes no yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS),
    "globex's refresh": Tried(after_refresh, "no no yes yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS, "globex"),
    "acme's device": Tried(at_device, "no yes no yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS),
    "globex's device": Tried(at_device, "no no yes yes", Use.CLAIMS_OF_VOUCHER, Use.CLAIMS_OF_OTHERS, "globex"),
    "becoming a platform owner": Tried(takes_office, "no no no yes", Use.PLATFORM, Use.PLATFORM),
    "becoming one by the operator": Tried(takes_office_by_operator, "no no no yes", Use.PLATFORM, Use.PLATFORM),
    "founding an organization": Tried(founds, "no no no yes", Use.INVITATIONS, Use.INVITATIONS),
    "outliving the sweep": Tried(outlives_sweep, "no yes yes yes", Use.SWEEP, Use.SWEEP),
    "being listed by acme": Tried(is_listed, "ended kept kept kept", Use.LISTING, Use.LISTING),
    "being listed by globex": Tried(is_listed, "ended kept kept kept", Use.LISTING, Use.LISTING, "globex"),
    "moved by its maker's directory": Tried(is_moved_by_directory, "yes yes yes no", Use.HOLDING, Use.HOLDING),
    "moved by its maker's key": Tried(is_moved_by_key, "yes yes yes no", Use.HOLDING, Use.HOLDING),
    "forgetting what others keep": Tried(is_forgotten, "no no no yes", Use.FORGETTING, Use.FORGETTING),
    "a former address": Tried(gives_it_up, "no no no yes", Use.FORGETTING, Use.FORGETTING),
}

CASES: Final = [(name, state) for name in TABLE for state in STATES]


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with (
        FakeWebSuite(client_id="websuite-client") as websuite,
        FakeProvider(client_id="own-client", client_secret="own-provider-secret-77") as own,
    ):
        yield {"websuite": websuite, "own": own}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, settings_of("websuite", fakes["websuite"])) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog, fakes: Fakes) -> Crossing:
    return Crossing(postern, people, client, log, fakes)


@pytest.mark.parametrize(("name", "state"), CASES)
async def test_what_it_counts_as(scene: Crossing, name: str, state: str) -> None:
    row = TABLE[name]
    await scene.prepare(state, row.side)
    assert await row.way(scene) == row.comes_to(state)
    assert scene.has_become


def test_each_purpose_has_a_row_and_each_row_says_what_the_product_s_table_says() -> None:
    walked = {use for row in TABLE.values() for use in (row.voucher, row.others)} - {None}
    assert walked == set(AddressUse) == set(VOUCHED_COUNTS)
    for name, row in TABLE.items():
        assert len(row.expected.split()) == len(STATES), name
        for state, side in ((BY_ACME, "acme"), (BY_GLOBEX, "globex")):
            use = row.voucher if side == row.side else row.others
            if use is not None:
                counts_as = row.comes_to(PROVED if VOUCHED_COUNTS[use] else NOBODYS)
                assert row.comes_to(state) == counts_as, (name, state)
                assert row.comes_to(PROVED) != row.comes_to(NOBODYS), name


@pytest.mark.parametrize("side", ["acme", "globex"])
async def test_the_states_are_those_that_the_product_makes(scene: Crossing, side: str) -> None:
    """An account that comes through the organization's provider, and one whose address is proved after that."""
    await scene.prepare(BY_ACME if side == "acme" else BY_GLOBEX, side)
    scene.becomes()
    columns = "select email_verified_at is null as unproved, address_vouched_by from users where email = %s"
    written = scene.people.rows(columns, ADA)
    scene.people.change("delete from users where id = %s", scene.ada.user)
    scene.proves_domain()
    scene.sits(word="own")
    await scene.go(scene.browser(), f"?org={side}", word=scene.at[side])
    assert scene.people.rows(columns, ADA) == written
    (await scene.unlimited.post("/api/auth/resend-verification", {"email": ADA})).ok()
    assert (await scene.unlimited.request("GET", await scene.box.proof())).status == 200
    assert scene.people.rows(columns, ADA) == [{"unproved": False, "address_vouched_by": None}]


async def test_a_provider_that_is_gone_lets_nobody_answer(scene: Crossing) -> None:
    """The list is from before its owner deleted the provider, and the session goes on."""
    await scene.prepare(BY_ACME, "acme")
    scene.opened_by("acme")
    scene.becomes()
    await scene.invites()
    token = (await scene.in_own_list())["acme"]
    gone = await scene.request("DELETE", f"/api/organizations/acme/upstream-providers/{scene.at['acme']}", by=scene.boss)
    assert gone.status == 204
    assert await scene.in_own_list() == {}
    assert (await scene.unlimited.post("/api/invitations/accept", {"token": token})).status == 400
    assert scene.is_member() == "no"


async def test_whoever_comes_by_a_connection_that_tells_another_address_founds_nothing(scene: Crossing) -> None:
    """Such a connection vouches for nothing, and signs in to an account whose address is nobody's."""
    await scene.prepare(NOBODYS, "acme")
    scene.proves_domain()
    scene.sits(word="own")
    await scene.go(scene.browser(), "?org=acme", word=scene.at["acme"])
    scene.becomes()
    scene.sits(ELSEWHERE, word="own")
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=scene.at["acme"])
    assert await scene.who(tabs) == scene.ada.user
    (session,) = scene.people.rows("select id from sessions where user_id = %s order by id desc limit 1", scene.ada.user)
    asked = {"slug": "hers", "name": "Hers"}
    hers = Person(scene.ada.user, session["id"], ADA)
    assert (await scene.request("POST", "/api/organizations", asked, by=hers)).status == 400

"""SECURITY 6 and 39: somebody prepares an account for another person's address, by one way or by two in either order, and leaves in it
all that a session can leave. Then the reader of the mailbox comes, by each way that a person has. Nothing that was prepared is left.

The five classic attacks are among these: the merge with a later identity, the session that goes on, the foreign identifier, the change
of the address under way, and the provider that verifies nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import PEOPLE, FakeProvider, FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.conftest import postern_on, with_keys
from tests.http.federation.scim.directories import Directory
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.signing_in import LOGIN, PASSWORD
from tests.http.tenants import Tenant
from tests.http.upstream.scene import Fakes, UpstreamScene
from tests.runs.pairs import by_pairs

database_url, people, client = http.database_url, http.people, http.client

VICTIM: Final = "ceo@corp.example"
OTHERS: Final = "mallory@elsewhere.example"
OWN: Final = "a word of the owner's own"


@dataclass
class Prepared(UpstreamScene):
    """Acme is the attacker's organization, and had proved the domain for a while. Corp is the victim's company."""

    box: Postbox = field(init=False)
    held: list[Tabs] = field(default_factory=list)
    """The browsers in which the attacker is signed in."""
    change: str = ""
    """The token of a change of the address, in the attacker's mailbox."""
    evil: str = ""
    """The provider of the attacker's organization."""
    companys: str = ""
    """The provider of the victim's company."""
    digest: str = ""
    """Of the attacker's password."""

    async def prepare(self) -> None:
        self.box = Postbox(self.postern)
        self.corp = self.tenants.add("corp")
        self.mallory = self.resident(self.acme, "owner", "mallory")
        self.evil = await self.provider_of(self.acme, self.fakes["own"], self.mallory)
        self.boss = self.resident(self.corp, "owner", "boss")
        self.companys = await self.provider_of(self.corp, self.fakes["corp"], self.boss)
        self.directory = await Directory(self.postern, self.unlimited, self.people, "initech").connect()
        self.digest = await self.postern.identity.passwords.hash(Password(PASSWORD))

    def account(self) -> dict[str, Any]:
        rows = self.people.rows("select id, email, email_verified_at from users where email_key = %s", VICTIM)
        return rows[0] if rows else {}

    async def provider_of(self, tenant: Tenant, fake: FakeProvider, by: Person) -> str:
        body = {"name": "Login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        path = f"/api/organizations/{tenant.slug}/upstream-providers"
        return str((await self.request("POST", path, body, by=by)).ok(201)["id"])

    def proves(self, tenant: Tenant) -> None:
        self.people.change("delete from domains")
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'corp.example', 'token', now(), now() + interval '7 days', now(), now())",
            tenant.id,
        )

    async def arrives(self, word: str, fake: FakeProvider, query: str, subject: str) -> Tabs:
        """Comes from the provider, which says that the address is verified."""
        fake.person = {**PEOPLE["websuite"](VICTIM, True), "sub": subject}
        tabs = self.browser()
        answer = await tabs.request("GET", fake.consent(await self.leave(tabs, query, word=word)))
        assert answer.status in {302, 303}, answer.body
        return tabs

    async def leaves_all(self) -> None:
        """Leaves what a session can leave, where the attacker has one."""
        account = self.account()
        for tabs in self.held:
            user = await self.who(tabs)
            if user is None or user != account["id"]:
                continue
            session = self.people.rows("select id from sessions where user_id = %s and revoked_at is null order by id limit 1", user)[0][
                "id"
            ]
            person = Person(user, session, VICTIM)
            await self.box.empty()
            await self._asks_for_another_address(person)
            mails = [mail for mail in await self.box.empty() if mail.to == OTHERS]
            if mails:
                self.change = token_in(link_in(mails[0]))
            if not self.people.rows("select from passkeys where user_id = %s", user):
                self.people.give_passkey(person, second_factor=True)
                self.people.connect(person, "codehost", "https://codehost.example", "mallory")
                self.people.change(
                    "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%s, 's', now(), now())", user
                )
                self.people.change(
                    "insert into consents (id, user_id, service_id, granted_at) values (gen_random_uuid(), %s, %s, now())",
                    *(user, self.app.id),
                )
            self.people.change("update users set password_hash = %s where id = %s", self.digest, user)

    async def _asks_for_another_address(self, person: Person) -> None:
        """It is refused before the first proof. A wish from before, or of a process of the release before, may be under way."""
        wish = ("PATCH", "/api/user", {"email": OTHERS})
        assert (await self.request(*wish, by=person)).status == 400
        (row,) = self.people.rows("select address_vouched_by from users where id = %s", person.user)
        self.people.change("update users set email_verified_at = now() where id = %s", person.user)
        (await self.request(*wish, by=person)).ok()
        vouched = "update users set email_verified_at = null, address_vouched_by = %s where id = %s"
        self.people.change(vouched, row["address_vouched_by"], person.user)

    async def is_clean(self, arrived: Tabs | None) -> None:
        """Nothing that the attacker prepared is left, and nothing that the attacker holds opens the account."""
        user = self.account()["id"]
        for tabs in self.held:
            assert await self.who(tabs) != user
        for table, condition in (
            ("passkeys", "true"),
            ("mfa_secrets", "true"),
            ("backup_codes", "true"),
            ("consents", "true"),
            ("identities", "subject like 'mallory%%'"),
            ("devices", "trusted_until > now()"),
        ):
            assert self.people.rows(f"select from {table} where user_id = %s and {condition}", user) == [], table
        answer = await self.unlimited.post(LOGIN, {"email": VICTIM, "password": PASSWORD})
        assert answer.status in {401, 403}, answer.body
        if self.change:
            answer = await self.unlimited.get(f"/auth/verify-email?token={self.change}")
            assert answer.status == 400
        assert self.account()["id"] == user
        if arrived is not None:
            assert await self.who(arrived) == user


Way = Callable[[Prepared], Awaitable[Tabs | None]]


async def _registers(scene: Prepared) -> None:
    answer = await scene.unlimited.post("/api/auth/register", {"email": VICTIM, "password": PASSWORD})
    assert answer.status in {200, 409}, answer.body


async def _makes_by_directory(scene: Prepared) -> None:
    await scene.directory.create(VICTIM)


async def _makes_by_key(scene: Prepared) -> None:
    body = {"name": "Key", "permissions": ["read:users", "write:users"]}
    key = (await scene.request("POST", "/api/organizations/acme/services/app/api-keys", body, by=scene.mallory)).ok(201)["key"]
    answer = await scene.unlimited.post("/api/service/users", {"email": VICTIM}, headers=[("x-api-key", key)])
    assert answer.status == 200, answer.body


async def _comes_by_own_provider(scene: Prepared) -> None:
    """The organization has the proof of the domain for this moment."""
    scene.proves(scene.acme)
    scene.held.append(await scene.arrives(scene.evil, scene.fakes["own"], "?org=acme", "mallory-1"))
    await scene.leaves_all()
    scene.people.change("delete from domains")


PREPARATIONS: Final[Mapping[str, Callable[[Prepared], Awaitable[None]]]] = {
    "registers": _registers,
    "makes it by a directory": _makes_by_directory,
    "makes it by a key": _makes_by_key,
    "comes by an own provider": _comes_by_own_provider,
}


async def _resets_the_password(scene: Prepared) -> None:
    await scene.box.empty()
    (await scene.unlimited.post("/api/auth/forgot-password", {"email": VICTIM})).ok()
    (mail,) = [mail for mail in await scene.box.empty() if mail.to == VICTIM]
    (await scene.unlimited.post("/api/auth/reset-password", {"token": token_in(link_in(mail)), "new_password": OWN})).ok()
    assert (await scene.unlimited.post(LOGIN, {"email": VICTIM, "password": OWN})).ok()["access_token"]


async def _comes_by_one_of_the_three(scene: Prepared) -> Tabs:
    return await scene.arrives("websuite", scene.fakes["websuite"], "", "victim-1")


async def _comes_by_the_companys_provider(scene: Prepared) -> Tabs:
    scene.proves(scene.corp)
    return await scene.arrives(scene.companys, scene.fakes["corp"], "?org=corp", "victim-2")


async def _comes_by_a_mailed_link(scene: Prepared) -> Tabs | None:
    """Or resets the password: where nobody has ever read the mailbox, no link signs in."""
    tabs = scene.browser()
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=VICTIM)
    await scene.box.empty()
    (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-in/mail-link"]
    await tabs.request("POST", form.action, form.fields)
    mails = [mail for mail in await scene.box.empty() if mail.to == VICTIM]
    if not mails:
        await _resets_the_password(scene)
        return None
    await (await tab.open(link_in(mails[0]).removeprefix(BASE_URL))).send()
    return tabs


async def _accepts_a_mailed_invitation(scene: Prepared) -> None:
    """Of the company, whose administrators know nothing of what was prepared."""
    await scene.box.empty()
    (await scene.request("POST", "/api/organizations/corp/invitations", {"email": VICTIM, "role": "admin"}, by=scene.boss)).ok()
    (mail,) = [mail for mail in await scene.box.empty() if mail.to == VICTIM]
    (await scene.unlimited.post("/api/invitations/accept", {"token": token_in(link_in(mail))})).ok()


ARRIVALS: Final[Mapping[str, Way]] = {
    "resets the password": _resets_the_password,
    "comes by a mailed link": _comes_by_a_mailed_link,
    "accepts a mailed invitation": _accepts_a_mailed_invitation,
    "comes by one of the three": _comes_by_one_of_the_three,
    "comes by the company's provider": _comes_by_the_companys_provider,
}


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with (
        FakeWebSuite(client_id="websuite-client") as websuite,
        FakeProvider(client_id="own-client", client_secret="own-provider-secret-77") as own,
        FakeProvider(client_id="corp-client", client_secret="corp-provider-secret-78") as corp,
    ):
        yield {"websuite": websuite, "own": own, "corp": corp}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, settings_of("websuite", fakes["websuite"])) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
async def scene(postern: Postern, people: People, client: object, log: CapturedLog, fakes: Fakes) -> Prepared:
    made = Prepared(postern, people, client, log, fakes)  # type: ignore[arg-type]
    await made.prepare()
    return made


_NOTHING: Final = "nothing"
_ORDERS: Final = [(one, _NOTHING) for one in PREPARATIONS] + list(permutations(PREPARATIONS, 2))
CASES: Final = [(first, second, arrival) for first, second in _ORDERS for arrival in ARRIVALS]


@pytest.mark.parametrize(("first", "second", "arrival"), by_pairs("ownership", CASES))
async def test_nothing_that_was_prepared_is_left(scene: Prepared, first: str, second: str, arrival: str) -> None:
    for one in (first, second):
        if one != _NOTHING:
            await PREPARATIONS[one](scene)
    assert scene.account()
    await scene.is_clean(await ARRIVALS[arrival](scene))

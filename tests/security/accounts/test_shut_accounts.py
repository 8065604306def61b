"""SECURITY 5, 26: an organization that lists an address does not learn that the platform, the person or another organization has shut the
account. It reads what it wrote itself, for each kind of account alike, and nobody gets in.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from difflib import unified_diff
from typing import Any, Final
from uuid import UUID

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.federation.arriving import Arriving
from tests.http.federation.scim.directories import USERS, Directory
from tests.http.inviting import Inviting
from tests.http.people import People, Person
from tests.http.postbox import Postbox, token_in
from tests.http.signing_in import PASSWORD, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

ACTIVE: Final = {"op": "replace", "path": "active"}
# What a person is told of, or asks for themselves, is no answer about one of several people.
_NAMED: Final = {"org_slug", "user_id", "service_slug"}
ABOUT_ONE: Final = [
    one
    for one in (*ROUTES, *PAGES)
    if one.method == "GET" and {"org_slug", "user_id"} <= set(parameters(one.path)) <= _NAMED and not one.path.startswith("/api/platform")
]


class KindsOfShut(Inviting):
    """Acme invites, initech has a directory; each lists the same addresses."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.root = self.people.add("root@platform.example", platform_owner=True)
        self.mails = Postbox(self.postern)

    async def begin(self) -> "KindsOfShut":
        self.owner = self.people.session_of(self.ada)
        self.initech = await Directory(self.postern, self.client, self.people, "initech").connect()
        self.globex = await Directory(self.postern, self.client, self.people, "globex").connect()
        for slug, owner in (("acme", self.owner), ("initech", self.initech.owner)):
            body = {"slug": "app", "name": "App", "service_type": "web", "redirect_uris": ["https://app.example.com/callback"]}
            (await self.request("POST", f"/api/organizations/{slug}/services", body, by=owner)).ok()
        return self

    async def registers(self, email: str) -> None:
        (await self.client.post("/api/auth/register", {"email": email, "password": PASSWORD})).ok()

    async def proves(self, email: str) -> None:
        await self.mails.empty()
        (await self.client.post("/api/auth/forgot-password", {"email": email})).ok()
        (await self.client.post("/api/auth/reset-password", {"token": await self.mails.token(), "new_password": PASSWORD})).ok()

    def signed_in(self, person: Person) -> Tabs:
        scene: Any = self
        return Arriving.signed_in(scene, person)

    def browser(self) -> Tabs:
        return Tabs(self.client)

    def shut(self, email: str) -> list[dict[str, Any]]:
        return self.people.rows("select deactivated_at, password_hash from users where email = %s and deactivated_at is not null", email)

    def user(self, email: str) -> UUID:
        (row,) = self.people.rows("select id from users where email = %s", email)
        found: UUID = row["id"]
        return found

    async def governs(self, email: str, act: str) -> None:
        (await self.request("POST", f"/api/platform/users/{self.user(email)}/{act}", by=self.root)).ok()


async def _nobody(scene: KindsOfShut, email: str) -> None:
    del scene, email


async def _unproved(scene: KindsOfShut, email: str) -> None:
    await scene.registers(email)


async def _proved(scene: KindsOfShut, email: str) -> None:
    await scene.registers(email)
    await scene.proves(email)


async def _elsewhere(scene: KindsOfShut, email: str) -> None:
    await _proved(scene, email)
    person = scene.people.session_of(Person(scene.user(email), scene.user(email), email))
    (await scene.request("POST", "/api/organizations", {"slug": "their-own", "name": "Their own"}, by=person)).ok()


async def _switched_off(scene: KindsOfShut, email: str) -> None:
    await scene.globex.create(email, active=False)


async def _switched_off_after_a_proof(scene: KindsOfShut, email: str) -> None:
    user = (await scene.globex.create(email))["id"]
    await scene.proves(email)
    (await scene.globex.patch(user, {**ACTIVE, "value": False})).ok()


async def _locked(scene: KindsOfShut, email: str) -> None:
    await _proved(scene, email)
    await scene.governs(email, "lock")


async def _shut(scene: KindsOfShut, email: str) -> None:
    await _proved(scene, email)
    await scene.governs(email, "deactivate")


async def _shut_unproved(scene: KindsOfShut, email: str) -> None:
    await scene.registers(email)
    await scene.governs(email, "deactivate")


KINDS: Final[Mapping[str, Callable[[KindsOfShut, str], Awaitable[None]]]] = {
    "nobody": _nobody,
    "unproved": _unproved,
    "proved": _proved,
    "elsewhere": _elsewhere,
    "switched": _switched_off,
    "switchedlater": _switched_off_after_a_proof,
    "locked": _locked,
    "shut": _shut,
    "shutunproved": _shut_unproved,
}
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?|\d+ \w+ \d{4}, \d\d:\d\d UTC")
_AGO: Final = re.compile(r"just now|\d+ minutes? ago")
# The colour of a monogram comes from the account's id.
_SHADE: Final = re.compile(r"shade[0-9]")
_TOKEN: Final = re.compile(r"[0-9A-Za-z_-]{24,}|[0-9a-f]{16,}")


def address(kind: str) -> str:
    """All begin with the same letter, which pages show as a monogram."""
    return f"of-{kind}@people.example"


def alike(kind: str, text: str) -> str:
    """Without what differs between any two people."""
    for pattern, word in ((_UUID, "ID"), (_TIME, "TIME"), (_AGO, "AGO"), (_TOKEN, "TOKEN"), (_SHADE, "shade")):
        text = pattern.sub(word, text)
    return text.replace("<wbr>", "").replace(f"of-{kind}@", "of-one@").replace(f"of-{kind}%40", "of-one%40")


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> KindsOfShut:
    return await KindsOfShut(postern, people, unlimited(postern), log).begin()


async def all_answers(scene: KindsOfShut, tabs: Tabs, by: Person, slug: str, kind: str, user: UUID) -> dict[str, tuple[int, str]]:
    """Of each endpoint and page that shows one person to an organization."""
    shown: dict[str, tuple[int, str]] = {}
    for one in ABOUT_ONE:
        path = one.path.format(org_slug=slug, user_id=user, service_slug="app")
        answer = await (tabs.request("GET", path) if _is_page(one) else scene.request("GET", path, by=by))
        shown[str(one)] = answer.status, alike(kind, answer.body.decode())
    return shown


def unlike(shown: Mapping[str, tuple[int, str]], other: Mapping[str, tuple[int, str]]) -> dict[str, list[str]]:
    """The endpoints whose answers differ, with the lines that do."""
    return {
        name: list(unified_diff(other[name][1].splitlines(), shown[name][1].splitlines(), lineterm="", n=0))
        for name in shown
        if shown[name] != other[name]
    }


def _is_page(one: Endpoint) -> bool:
    return one.path.startswith("/ui/")


async def test_an_acceptance_on_behalf_lists_all_kinds_alike(scene: KindsOfShut) -> None:
    tabs, found = scene.signed_in(scene.owner), {}
    for kind, make in KINDS.items():
        email = address(kind)
        await make(scene, email)
        before = scene.shut(email)
        invited = await scene.invite(email)
        by_token = kind in {"locked", "shutunproved"}
        answer = await (scene.accept(invited["token"]) if by_token else scene.ask("POST", f"/{invited['invitation']['id']}/accept"))
        assert (answer.status, scene.shut(email)) == (200, before), (kind, answer.body)
        found[kind] = await all_answers(scene, tabs, scene.owner, "acme", kind, scene.user(email))
    for kind, shown in found.items():
        assert unlike(shown, found["nobody"]) == {}, kind
    assert found["nobody"]["GET /api/organizations/{org_slug}/members/{user_id}"][0] == 200


async def test_a_directory_lists_all_kinds_alike(scene: KindsOfShut) -> None:
    owner = scene.people.session_of(scene.initech.owner)
    tabs, found, made = scene.signed_in(owner), {}, {}
    for kind, make in KINDS.items():
        email = address(kind)
        await make(scene, email)
        answer = await scene.initech.ask("POST", USERS, {"userName": email})
        assert answer.status == 201, (kind, answer.body)
        user = scene.user(email)
        # Taken out and brought back, as a directory does it.
        for active in (False, True):
            (await scene.initech.patch(str(user), {**ACTIVE, "value": active})).ok()
        made[kind] = alike(kind, answer.body.decode()), alike(kind, (await scene.initech.get(user)).body.decode())
        found[kind] = await all_answers(scene, tabs, owner, "initech", kind, user)
    # Of the account that it has made itself, it knows that it has made it.
    for kind in KINDS.keys() - {"nobody"}:
        assert made[kind] == made["unproved"], kind
        assert unlike(found[kind], found["unproved"]) == {}, kind
    assert found["shut"]["GET /api/organizations/{org_slug}/members/{user_id}"][0] == 200
    said = scene.people.rows(
        "select distinct details ->> 'account' as account from audit_log where action = 'user.joined' and organization_id = %s"
        " and target_id = any(%s)",
        scene.initech.tenant.id,
        [str(scene.user(address(kind))) for kind in KINDS if kind != "nobody"],
    )
    assert len(said) == 1, said


async def test_who_is_shut_stays_shut_and_gets_nothing_of_the_new_place(scene: KindsOfShut) -> None:
    email = "shut@people.example"
    await _shut(scene, email)
    await scene.initech.create(email)
    invited = await scene.invite(email)
    user = scene.user(email)
    assert (await Browser(scene.client).login(Person(user, user, email))).status == 401
    # The person's own mail accepts nothing, as before.
    mails = [mail for mail in await scene.mails.empty() if mail.to == email and "/invitations/accept?token=" in mail.text]
    mailed = token_in(next(word for word in mails[-1].text.split() if "/invitations/accept?token=" in word))
    assert mailed != invited["token"]
    assert (await scene.accept(mailed)).status == 400
    assert scene.people.rows("select own_since from memberships where user_id = %s", user) == [{"own_since": None}]
    assert scene.people.rows("select deactivated_at is not null as shut from users where id = %s", user) == [{"shut": True}]
    # Once the platform lets the person in again, they are listed there, as anybody is, and decide themselves.
    await scene.governs(email, "activate")
    assert (await Browser(scene.client).login(Person(user, user, email))).status == 200


async def test_handing_the_organization_over_asks_nothing_of_an_account_that_is_merely_listed(scene: KindsOfShut) -> None:
    email = "shut@people.example"
    await _shut(scene, email)
    invited = await scene.invite(email)
    (await scene.ask("POST", f"/{invited['invitation']['id']}/accept")).ok()
    body: dict[str, Any] = {"new_owner_user_id": str(scene.user(email))}
    assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body, by=scene.owner)).status == 200

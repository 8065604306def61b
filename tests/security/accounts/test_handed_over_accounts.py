"""A tenant may move an account to another person's address while nobody has proved the earlier address. Then nothing of the earlier holder
is left that the next holder could read, or that would keep the next holder out.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received, refused
from tests.http.federation.scim.directories import Directory, refusal
from tests.http.people import People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.service_interface import Backend, leave_traces, traces
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.subscribing import Market

database_url, postern, people = http.database_url, http.postern, http.people

EARLIER: Final = "ada@example.org"
NEXT: Final = "grace@example.org"

Move = Callable[[str], Awaitable[Received]]


class Handing(Market):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.backend = Backend(self, self.shop)

    async def made(self, way: str) -> tuple[Person, Move]:
        """An account made by acme's shop or by a directory, and a function that moves the account to another address."""
        if way == "service":
            person = await self.backend.create(EARLIER)
            return person, lambda address: self.backend.move(person, address)
        directory = await Directory(self.postern, self.client, self.people, "initech").connect()
        user = (await directory.create(EARLIER))["id"]
        (row,) = self.people.rows("select id from users where id = %s", user)
        return Person(row["id"], self.admin.session, EARLIER), lambda address: directory.patch(
            user, {"op": "replace", "path": "userName", "value": address}
        )

    async def chooses_password(self, person: Person, purpose: str = "reset_password") -> None:
        token = str(self.postern.foundation.ids.new())
        self.people.change(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " select sha256(%s), %s, id, email, now(), now() + interval '1 hour' from users where id = %s",
            *(token.encode(), purpose, person.user),
        )
        (await self.client.post("/api/auth/reset-password", {"token": token, "new_password": PASSWORD})).ok()

    def lived_in(self, person: Person) -> None:
        """Fills the account as an earlier release could leave it: that release moved accounts whose owners had proved their addresses."""
        leave_traces(self, person)
        self.people.give_passkey(person)
        self.people.connect(person)
        for statement in (
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{openid}', now())",
            "update service_users set first_login_at = now(), last_login_at = now() where user_id = %s and %s::uuid is not null",
            "update users set language = 'de', password_changed_at = now() where id = %s and %s::uuid is not null",
        ):
            self.people.change(statement, person.user, self.shop.id)

    def left(self, person: Person) -> dict[str, int]:
        found = dict(traces(self, person))
        for table in ("passkeys", "identities", "consents", "authorization_codes", "flows", "oauth_states", "join_requests"):
            (row,) = self.people.rows(f"select count(*) as n from {table} where user_id = %s", person.user)
            if row["n"]:
                found[table] = row["n"]
        return found

    async def exported(self, person: Person) -> dict[str, Any]:
        session = self.people.session_of(person)
        answer = await self.client.get(f"/api/privacy/export/{person.user}", token=await self.people.token(session))
        body: dict[str, Any] = answer.ok()
        return body


@pytest.fixture
def handing(postern: Postern, people: People, log: CapturedLog) -> Handing:
    return Handing(postern, people, unlimited(postern), log)


WAYS: Final = ("service", "directory")


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_of_the_earlier_holder_is_left(handing: Handing, way: str) -> None:
    person, move = await handing.made(way)
    handing.lived_in(person)
    before = handing.left(person)
    assert {"devices", "sessions", "login_events", "mfa_secrets", "backup_codes", "mfa_events", "passkeys", "consents"} <= before.keys()
    assert (await move(NEXT)).status == 200
    stays = {"users": 1, **({"service_users": 1} if way == "service" else {})}
    # The organizations keep their audit log.
    assert {name: rows for name, rows in handing.left(person).items() if name != "audit_personal"} == stays
    (row,) = handing.people.rows(
        "select language, password_hash, password_changed_at, email_verified_at from users where id = %s", person.user
    )
    assert set(row.values()) == {None}
    assert handing.people.rows("select from service_users where user_id = %s and first_login_at is not null", person.user) == []


@pytest.mark.parametrize("way", WAYS)
async def test_the_next_holder_comes_in_without_the_second_factor_of_the_earlier_one(handing: Handing, way: str) -> None:
    person, move = await handing.made(way)
    handing.lived_in(person)
    (await move(NEXT)).ok()
    await handing.chooses_password(person)
    answer = (await Browser(handing.client).login(Person(person.user, person.session, NEXT))).ok()
    assert answer["access_token"]
    told = [entry for entry in handing.audited("security.mfa.disabled") if entry["target_id"] == str(person.user)]
    (here,) = {entry["organization_id"] for entry in handing.audited("user.email.changed")}
    assert [(entry["organization_id"], entry["details"]["forced"]) for entry in told] == [(here, True)]
    assert [event["organization_id"] for event in handing.told() if event["name"] == "user.mfa.disabled"] == [here]


@pytest.mark.parametrize("way", WAYS)
async def test_the_next_holder_reads_nothing_of_the_earlier_one(handing: Handing, way: str) -> None:
    person, move = await handing.made(way)
    handing.lived_in(person)
    (await move(NEXT)).ok()
    await handing.chooses_password(person)
    exported = str(await handing.exported(Person(person.user, person.session, NEXT)))
    assert NEXT in exported
    assert EARLIER not in exported
    assert "192.0.2.7" not in exported
    devices = await handing.client.get("/api/user/devices", token=await handing.people.token(handing.people.session_of(person)))
    assert "Laptop" not in str(devices.ok())


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_said_of_a_second_factor_where_there_is_none(handing: Handing, way: str) -> None:
    _, move = await handing.made(way)
    (await move(NEXT)).ok()
    assert handing.audited("security.mfa.disabled") == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("purpose", ["reset_password", "set_password"])
async def test_an_account_whose_owner_has_proved_the_address_is_not_moved(handing: Handing, way: str, purpose: str) -> None:
    person, move = await handing.made(way)
    await handing.chooses_password(person, purpose)
    browser = Browser(handing.client)
    (await browser.login(person)).ok()
    before = handing.left(person)
    answer = await move(NEXT)
    assert (refused(answer) if way == "service" else refusal(answer)) == {
        "service": (403, "FORBIDDEN"),
        "directory": (400, "mutability"),
    }[way]
    assert handing.left(person) == before
    assert (await browser.login(person)).status == 200
    assert handing.audited("user.email.changed") == []


@pytest.mark.parametrize("way", WAYS)
async def test_an_account_that_was_moved_before_loses_what_nobody_has_proved_with_the_first_proof(handing: Handing, way: str) -> None:
    """An earlier release kept the second factor. A holder who comes only now must not be locked out by it."""
    person, move = await handing.made(way)
    (await move(NEXT)).ok()
    handing.lived_in(person)
    await handing.chooses_password(person)
    (await Browser(handing.client).login(Person(person.user, person.session, NEXT))).ok()
    assert not {"passkeys", "identities", "consents", "mfa_secrets", "backup_codes"} & handing.left(person).keys()


async def test_what_the_earlier_holder_made_their_own_is_listed_for_the_next_one(handing: Handing) -> None:
    """The reader of the earlier address accepts an invitation by the token in its mail, and proves no address by that."""
    box, initech = Postbox(handing.postern), await Directory(handing.postern, handing.client, handing.people, "initech").connect()
    user = (await initech.create(EARLIER))["id"]
    (await handing.request("POST", f"/api/organizations/initech/members/{user}", by=initech.owner)).ok()
    await box.empty()
    body = {"email": EARLIER, "role": "member"}
    (await handing.request("POST", "/api/organizations/initech/invitations", body, by=initech.owner)).ok()
    (mail,) = await box.empty()
    (await handing.client.post("/api/invitations/accept", {"token": token_in(link_in(mail))})).ok()
    own = "select from memberships where user_id = %s and own_since is not null"
    assert handing.people.rows(own, user)
    (await initech.patch(user, {"op": "replace", "path": "userName", "value": NEXT})).ok()
    assert handing.people.rows("select from memberships where user_id = %s", user)
    assert handing.people.rows(own, user) == []

"""Accounts that change hands: requests and offers for one address are not for the holder of the account under another address."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg
import pytest
import trio

from core.domain.identifiers import UserId
from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received, refused
from tests.http.federation.scim.directories import Directory, refusal
from tests.http.people import People, Person
from tests.http.routing import route
from tests.http.service_interface import Backend
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.subscribing import Market

database_url, postern, people = http.database_url, http.postern, http.people

VICTIM: Final = "ada@globex.example"
MINE: Final = "mallory@evil.example"
REQUESTS: Final = "/api/organizations/globex/join-requests"


class MovedAccountScene(Market):
    """Globex lets people of its domain ask for membership. Acme's shop or directory has made the account of one such person."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.globex, "owner")
        route(self.people, self.globex, "globex.example", join="ask", login="password_allowed")
        self.evil = Backend(self, self.shop)

    async def prove(self, person: Person) -> Person:
        """The person chooses a password by a mailed link, which proves the address."""
        token = str(self.postern.foundation.ids.new())
        self.people.change(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " select sha256(%s), 'reset_password', id, email, now(), now() + interval '1 hour' from users where id = %s",
            token.encode(),
            person.user,
        )
        (await self.client.post("/api/auth/reset-password", {"token": token, "new_password": PASSWORD})).ok()
        return person

    async def asked(self, person: Person) -> dict[str, Any]:
        (await Browser(self.client).login(await self.prove(person))).ok()
        (request,) = await self.pending()
        assert (request["user_id"], request["email"]) == (str(person.user), VICTIM)
        return request

    async def pending(self) -> list[dict[str, Any]]:
        answer = await self.request("GET", f"{REQUESTS}?status=pending", by=self.owner)
        assert answer.status == 200, answer.body
        listed: list[dict[str, Any]] = answer.json()
        return listed

    async def approve(self, request: dict[str, Any]) -> Received:
        return await self.request("POST", f"{REQUESTS}/{request['id']}/approve", by=self.owner)

    def is_proved(self, person: Person) -> bool:
        return bool(self.people.rows("select from users where id = %s and email_verified_at is not null", person.user))

    def move_as_before(self, person: Person, address: str) -> None:
        """Moves the account as an earlier release did, without regard to who had proved the address. Its results stay, and it may run
        beside this release.
        """
        self.people.change(
            "update users set email = %s, email_key = %s, email_verified_at = null, password_hash = null, updated_at = now() where id = %s",
            *(address, address.lower(), person.user),
        )

    def belongs(self, person: Person) -> bool:
        return bool(self.people.rows("select from memberships where org_id = %s and user_id = %s", self.globex.id, person.user))


@pytest.fixture
def moving(postern: Postern, people: People, log: CapturedLog) -> MovedAccountScene:
    return MovedAccountScene(postern, people, unlimited(postern), log)


async def by_service(moving: MovedAccountScene) -> tuple[Person, Callable[[str], Awaitable[None]]]:
    person = await moving.evil.create(VICTIM)

    async def move(address: str) -> None:
        if moving.is_proved(person):
            assert refused(await moving.evil.move(person, address)) == (403, "FORBIDDEN")
            moving.move_as_before(person, address)
        else:
            assert (await moving.evil.move(person, address)).status == 200

    return person, move


async def by_directory(moving: MovedAccountScene) -> tuple[Person, Callable[[str], Awaitable[None]]]:
    directory = await Directory(moving.postern, moving.client, moving.people, "evil").connect()
    made = await directory.create(VICTIM)
    person = Person(UserId(made["id"]), moving.admin.session, VICTIM)

    async def move(address: str) -> None:
        moved = await directory.patch(made["id"], {"op": "replace", "path": "userName", "value": address})
        if moving.is_proved(person) and address.lower() != VICTIM:
            assert refusal(moved) == (400, "mutability")
            moving.move_as_before(person, address)
        else:
            assert moved.status == 200

    return person, move


async def by_themselves(moving: MovedAccountScene) -> tuple[Person, Callable[[str], Awaitable[None]]]:
    person = moving.people.session_of(await moving.people.with_password(PASSWORD, VICTIM))

    async def move(address: str) -> None:
        moving.people.change(
            "update users set pending_email = %s, pending_email_key = %s where id = %s", address, address.lower(), person.user
        )
        async with moving.postern.foundation.unit_of_work() as uow:
            at = moving.postern.foundation.clock.now()
            assert await uow.accounts.change_email(UserId(person.user), Email(address), at) is not None
            await uow.commit()

    return person, move


WAYS: Final = (by_service, by_directory, by_themselves)
Way = Callable[[MovedAccountScene], Awaitable[tuple[Person, Callable[[str], Awaitable[None]]]]]


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_asked_by_an_address_ends_with_it(moving: MovedAccountScene, way: Way) -> None:
    person, move = await way(moving)
    request = await moving.asked(person)
    await move(MINE)
    assert await moving.pending() == []
    assert refused(await moving.approve(request)) == (404, "NOT_FOUND")
    assert not moving.belongs(person)


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_has_another_address_of_the_domain_asks_again(moving: MovedAccountScene, way: Way) -> None:
    person, move = await way(moving)
    request = await moving.asked(person)
    await move("Ada.Lovelace@globex.example")
    await moving.prove(person)
    (await Browser(moving.client).login(Person(person.user, person.session, "ada.lovelace@globex.example"))).ok()
    (again,) = await moving.pending()
    assert (again["email"], again["id"] != request["id"]) == ("Ada.Lovelace@globex.example", True)
    assert (await moving.approve(again)).status == 200
    assert moving.belongs(person)


@pytest.mark.parametrize("way", [by_service, by_directory])
async def test_what_applications_were_allowed_ends_with_the_address(moving: MovedAccountScene, way: Way) -> None:
    """Otherwise the tenant that moved the account would have the next holder's consent to the tenant's own applications."""
    person, move = await way(moving)
    moving.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{openid,email}', now())",
        person.user,
        moving.shop.id,
    )
    await move(MINE)
    assert moving.people.rows("select from consents where user_id = %s", person.user) == []


async def test_another_spelling_of_the_address_changes_nothing(moving: MovedAccountScene) -> None:
    person, move = await by_directory(moving)
    request = await moving.asked(person)
    await move("Ada@Globex.example")
    assert (await moving.approve(request)).status == 200
    assert moving.belongs(person)


@pytest.mark.parametrize("change", ["email = 'x@evil.example', email_key = 'x@evil.example'", "email_verified_at = null"])
async def test_no_request_is_approved_for_an_account_that_has_not_proved_its_address(moving: MovedAccountScene, change: str) -> None:
    """Should such a request be left over."""
    person, _ = await by_service(moving)
    request = await moving.asked(person)
    moving.people.change("alter table users disable trigger users_address_given_up")
    try:
        moving.people.change(f"update users set {change} where id = %s", person.user)
    finally:
        moving.people.change("alter table users enable trigger users_address_given_up")
    assert refused(await moving.approve(request)) == (400, "BAD_REQUEST")
    assert not moving.belongs(person)
    assert (await moving.request("POST", f"{REQUESTS}/{request['id']}/decline", by=moving.owner)).status == 200


async def moved_meanwhile(moving: MovedAccountScene, person: Person, act: Callable[[], Awaitable[object]], database_url: str) -> None:
    """Moves the account in a transaction that is not committed yet when somebody approves the request."""
    with psycopg.connect(database_url) as other:
        other.execute("select from users where id = %s for update", (person.user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            await moving.people.somebody_waits()
            other.execute(
                "update users set email = %s, email_key = %s, email_verified_at = null, updated_at = now() where id = %s",
                (MINE, MINE, person.user),
            )
            other.commit()


async def test_an_account_that_is_moved_while_its_request_is_approved_stays_outside(
    moving: MovedAccountScene, emptied_database_url: str
) -> None:
    person, _ = await by_service(moving)
    request = await moving.asked(person)
    answers: list[Received] = []

    async def approve() -> None:
        answers.append(await moving.approve(request))

    await moved_meanwhile(moving, person, approve, emptied_database_url)
    assert answers[0].status in {400, 404}
    assert not moving.belongs(person)


async def test_an_account_that_is_moved_while_it_joins_by_its_domain_stays_outside(
    moving: MovedAccountScene, emptied_database_url: str
) -> None:
    person = await moving.prove(await moving.evil.create(VICTIM))
    moving.people.change("update domain_routes set join_policy = 'on'")

    async def join() -> None:
        await moving.postern.identity.joining.join_at_sign_in(UserId(person.user), Email(VICTIM))

    await moved_meanwhile(moving, person, join, emptied_database_url)
    assert not moving.belongs(person)


@pytest.mark.parametrize("by_manager", [False, True])
async def test_an_account_that_is_moved_while_its_invitation_is_accepted_stays_outside(
    moving: MovedAccountScene, emptied_database_url: str, *, by_manager: bool
) -> None:
    person = await moving.prove(await moving.evil.create(VICTIM))
    invitations = "/api/organizations/globex/invitations"
    issued = (await moving.request("POST", invitations, {"email": VICTIM, "role": "admin"}, by=moving.owner)).ok()

    async def accept() -> None:
        if by_manager:
            await moving.request("POST", f"{invitations}/{issued['invitation']['id']}/accept", by=moving.owner)
        else:
            await moving.client.post("/api/invitations/accept", {"token": issued["token"]})

    await moved_meanwhile(moving, person, accept, emptied_database_url)
    assert not moving.belongs(person)
    (somebody,) = moving.people.rows("select id from users where email_key = %s", VICTIM)
    assert somebody["id"] != person.user

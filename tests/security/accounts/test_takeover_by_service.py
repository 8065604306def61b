"""Takeover by a service: the owner of a service and its key can neither take over nor take away anybody's account with that key."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
import trio
from psycopg.errors import LockNotAvailable

from adapters.postgres.driver.connection import Connection
from core.domain.identifiers import ServiceId, UserId
from tests.http import conftest as http
from tests.http.client import Received, refused
from tests.http.identity.test_passkeys import Owner
from tests.http.people import Person
from tests.http.service_interface import USERS, Backend, traces
from tests.http.services import conftest as services
from tests.http.signing_in import PASSWORD, Browser
from tests.http.subscribing import Market
from tests.patience import PATIENCE

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
market = services.market

VICTIM: Final = "victim@example.org"
MINE: Final = "mine@evil.example"
FORBIDDEN: Final = (403, "FORBIDDEN")


@pytest.fixture
def evil(market: Market) -> Backend:
    """The servers of a hostile service."""
    return Backend(market, market.shop)


def row(market: Market, person: Person) -> dict[str, Any]:
    (found,) = market.people.rows("select * from users where id = %s", person.user)
    return found


async def reset_password(market: Market, person: Person, password: str) -> None:
    """Resets the password, by the link that was mailed to the account's address."""
    token = str(market.postern.foundation.ids.new())
    market.people.change(
        "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
        " select sha256(%s), 'reset_password', id, email, now(), now() + interval '1 hour' from users where id = %s",
        token.encode(),
        person.user,
    )
    answer = await market.client.post("/api/auth/reset-password", {"token": token, "new_password": password})
    assert answer.status == 200, answer.body


async def verified(market: Market) -> Person:
    return await market.people.with_password(PASSWORD, VICTIM)


async def not_verified(market: Market) -> Person:
    answer = await market.client.post("/api/auth/register", {"email": VICTIM, "password": PASSWORD})
    assert answer.status == 200
    (found,) = market.people.rows("select id from users where email = %s", VICTIM)
    return Person(found["id"], found["id"], VICTIM)


async def registered_through_another(market: Market) -> Person:
    person = await not_verified(market)
    market.people.change("update users set origin_service_id = %s where id = %s", market.theirs.id, person.user)
    return person


async def made_through_another(market: Market) -> Person:
    return await Backend(market, market.theirs).create(VICTIM)


async def made_through_another_of_the_same_organization(market: Market) -> Person:
    return await Backend(market, market.app).create(VICTIM)


async def made_through_a_deleted_service(market: Market) -> Person:
    person = await made_through_another(market)
    market.people.change("delete from service_users where user_id = %s", person.user)
    market.people.change("update users set origin_service_id = null where id = %s", person.user)
    return person


async def a_member_elsewhere(market: Market) -> Person:
    return market.tenants.member(market.globex, "member", VICTIM)


async def a_member_of_our_own(market: Market) -> Person:
    return market.tenants.member(market.acme, "admin", VICTIM)


STRANGERS: Final[tuple[Callable[[Market], Awaitable[Person]], ...]] = (
    verified,
    not_verified,
    registered_through_another,
    made_through_another,
    made_through_another_of_the_same_organization,
    made_through_a_deleted_service,
    a_member_elsewhere,
    a_member_of_our_own,
)


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_an_account_that_is_attached_is_neither_moved_nor_deleted(
    market: Market, evil: Backend, stranger: Callable[[Market], Awaitable[Person]]
) -> None:
    """A service that could move an attached account to its own address and reset the password by mail would have the account. A service
    that could delete the account and register the address again would have the address, and everything that is sent there later.
    """
    victim = await stranger(market)
    before, left = row(market, victim), traces(market, victim)
    for _ in range(2):
        assert (await evil.create("  VICTIM@Example.org".strip())).user == victim.user
        for address in (MINE, "victim@EXAMPLE.org"):
            assert refused(await evil.move(victim, address)) == FORBIDDEN
        assert (await evil.delete(victim)).status == 204
        assert refused(await evil.move(victim, MINE)) == (404, "NOT_FOUND")
    assert row(market, victim) == before
    assert not left - traces(market, victim), "something is gone"
    (found,) = market.people.rows("select id from users where email_key = %s", VICTIM)
    assert found["id"] == victim.user


async def test_the_victim_signs_in_as_before(market: Market, evil: Backend) -> None:
    victim = await verified(market)
    browser = Browser(market.client)
    tokens = await browser.tokens(victim)
    await evil.create(VICTIM)
    await evil.move(victim, MINE)
    await evil.delete(victim)
    assert (await market.client.get("/api/user", token=tokens["access_token"])).json()["email"] == VICTIM
    assert (await browser.refresh(tokens["refresh_token"])).status == 200
    assert (await browser.login(victim)).status == 200


async def joins_an_organization(market: Market, person: Person) -> None:
    market.tenants.join(person, market.globex)


async def joins_an_organization_that_waits_for_approval(market: Market, person: Person) -> None:
    market.tenants.join(person, market.tenants.add("waiting", status="pending"))


async def uses_another_service(market: Market, person: Person) -> None:
    await reset_password(market, person, PASSWORD)
    (await Browser(market.client).login(person, org_slug="globex", service_slug=market.theirs.slug)).ok()


async def uses_another_service_of_the_same_organization(market: Market, person: Person) -> None:
    market.tenants.uses(person, market.app)


async def is_deactivated(market: Market, person: Person) -> None:
    market.people.change("update users set deactivated_at = now() where id = %s", person.user)


HELD: Final[tuple[Callable[[Market, Person], Awaitable[None]], ...]] = (
    joins_an_organization,
    joins_an_organization_that_waits_for_approval,
    uses_another_service,
    uses_another_service_of_the_same_organization,
    is_deactivated,
)


@pytest.mark.parametrize("happens", HELD)
async def test_an_account_that_has_come_to_be_held_elsewhere_is_no_longer_the_services(
    market: Market, evil: Backend, happens: Callable[[Market, Person], Awaitable[None]]
) -> None:
    victim = await evil.create(VICTIM)
    await happens(market, victim)
    before = row(market, victim)
    assert refused(await evil.move(victim, MINE)) == FORBIDDEN
    assert (await evil.delete(victim)).status == 204
    assert row(market, victim) == {**before, "origin_service_id": None}
    # The service does not get hold of the account again.
    assert (await evil.create(VICTIM)).user == victim.user
    assert refused(await evil.move(victim, MINE)) == FORBIDDEN
    assert (await evil.delete(victim)).status == 204
    assert row(market, victim)["email"] == VICTIM


async def test_an_account_that_the_service_has_made_goes_although_its_address_was_proved(market: Market, evil: Backend) -> None:
    """Whoever proves the address of an account that somebody made for them keeps it from being moved, and not from being deleted."""
    victim = await evil.create(VICTIM)
    await reset_password(market, victim, PASSWORD)
    assert refused(await evil.move(victim, MINE)) == FORBIDDEN
    assert (await evil.delete(victim)).status == 204
    assert market.people.rows("select from users where email_key = %s", VICTIM) == []


async def test_a_deactivated_account_does_not_come_back_by_being_made_again(market: Market, evil: Backend) -> None:
    banned = await evil.create(MINE)
    await reset_password(market, banned, PASSWORD)
    await is_deactivated(market, banned)
    assert (await evil.delete(banned)).status == 204
    assert (await evil.create(MINE)).user == banned.user
    assert (await Browser(market.client).login(banned)).status == 401
    assert row(market, banned)["deactivated_at"] is not None


@pytest.mark.parametrize("address", [VICTIM, "VICTIM@EXAMPLE.ORG", "Victim@example.org"])
async def test_nobodys_address_is_taken(market: Market, evil: Backend, address: str) -> None:
    victim, own = await verified(market), await evil.create(MINE)
    assert refused(await evil.move(own, address)) == (400, "BAD_REQUEST")
    assert (row(market, victim)["email"], row(market, own)["email"]) == (VICTIM, MINE)


async def test_an_account_that_is_laid_out_for_somebody_lets_nobody_else_in(market: Market, evil: Backend) -> None:
    """An accomplice makes and opens an account, and then it is moved to the address of a person who has not come yet. The accomplice's
    sessions, password and links no longer work, not even once the owner of the address comes.
    """
    trap = await evil.create(MINE)
    await reset_password(market, trap, PASSWORD)
    accomplice = Browser(market.client)
    tokens = await accomplice.tokens(trap)
    for purpose, address in (("reset_password", MINE), ("change_email", MINE), ("verify_email", VICTIM)):
        market.people.change(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " values (sha256(%s), %s, %s, %s, now(), now() + interval '1 hour')",
            purpose.encode(),
            purpose,
            trap.user,
            address,
        )
    owner = Owner(market.client, market.people, market.postern, trap, tokens["access_token"])
    passkey, _ = await owner.add()
    assert (await owner.sign_in(passkey)).status == 200
    market.people.connect(trap)
    # A person who could sign in has proved the address, and keeps the account. This statement takes the proof away.
    assert refused(await evil.move(trap, VICTIM)) == FORBIDDEN
    market.people.change("update users set email_verified_at = null where id = %s", trap.user)
    assert (await evil.move(trap, VICTIM)).status == 200
    moved = Person(trap.user, trap.session, VICTIM)

    assert (await market.client.get("/api/user", token=tokens["access_token"])).status == 401
    assert (await accomplice.refresh(tokens["refresh_token"])).status == 401
    assert (await accomplice.login(moved)).status == 401
    assert market.people.rows("select from mailed_tokens where used_at is null") == []
    # The accomplice requests a link, which is mailed to the owner of the address. The owner follows it.
    market.people.change(
        "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
        " values (sha256('asked for'), 'verify_email', %s, %s, now(), now() + interval '1 hour')",
        trap.user,
        VICTIM,
    )
    assert (await market.client.get("/auth/verify-email?token=asked%20for")).status == 200
    assert row(market, moved)["email_verified_at"] is not None
    assert (await accomplice.login(moved)).status == 401
    assert (await owner.sign_in(passkey)).status == 401
    assert market.people.rows("select from identities") == []

    await reset_password(market, moved, "a word of the owner's own")
    assert (await accomplice.login(moved)).status == 401
    assert (await Browser(market.client).login(moved, "a word of the owner's own")).status == 200


async def test_a_key_of_one_service_opens_no_other(market: Market) -> None:
    """Another service of the organization, a service with the same slug elsewhere, the same person: only the key's own service counts."""
    ada = market.user(market.app, market.theirs)
    for service in (market.shop, market.app, market.theirs):
        backend = Backend(market, service)
        known = service is not market.shop
        assert (await backend.get(ada)).status == (200 if known else 404)
        listed = (await backend.ask("GET", f"{USERS}?limit=100")).json()
        assert (listed["total"], [user["id"] for user in listed["users"]]) == (int(known), [str(ada.user)] * known)
    assert (await Backend(market, market.app).delete(ada)).status == 204
    assert (await Backend(market, market.theirs).get(ada)).status == 200


BECOMING: Final = {
    "a member": (
        "insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %(globex)s, %(user)s, 'member', now())"
    ),
    "a member by their own act": (
        "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
        " values (gen_random_uuid(), %(globex)s, %(user)s, 'member', now(), now())"
    ),
    "an owner": (
        "insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %(globex)s, %(user)s, 'owner', now())"
    ),
    "a user elsewhere": (
        "insert into service_users (service_id, user_id, org_id, created_at) values (%(theirs)s, %(user)s, %(globex)s, now())"
    ),
    "a platform owner": "update users set is_platform_owner = true where id = %(user)s",
    "deactivated": "update users set deactivated_at = now() where id = %(user)s",
    "the owner of the address": "update users set email_verified_at = now() where id = %(user)s",
}


@pytest.mark.parametrize("becoming", BECOMING)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_what_somebody_is_about_to_become_is_waited_for(
    market: Market, evil: Backend, database_url: str, becoming: str, method: str
) -> None:
    """A tie that is begun before the service acts and committed meanwhile counts: any tie keeps the account from being moved, and the
    person's own act, a right or a deactivation by the platform from being deleted.
    """
    victim = await evil.create(VICTIM)
    answers: list[Received] = []

    async def act() -> None:
        answers.append(await (evil.move(victim, MINE) if method == "PATCH" else evil.delete(victim)))

    async with (
        await Connection.connect(database_url) as elsewhere,
        await Connection.connect(database_url) as watching,
        trio.open_nursery() as nursery,
        elsewhere.transaction(),
    ):
        values = {"user": victim.user, "globex": market.globex.id, "theirs": market.theirs.id}
        await elsewhere.execute(BECOMING[becoming].encode(), values)
        nursery.start_soon(act)
        with trio.fail_after(PATIENCE):
            waiting = b"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            while await (await watching.execute(waiting)).fetchone() == (0,):
                await trio.sleep(0.01)
        assert answers == []
    (answer,) = answers
    there = market.people.rows("select email from users where id = %s", victim.user)
    if method == "PATCH" or becoming in {"an owner", "a platform owner"}:
        assert (answer.status, there) == (403, [{"email": VICTIM}])
    elif becoming == "a member":
        # Another organization has listed the person at this very moment.
        assert (answer.status, there) == (503, [{"email": VICTIM}])
        assert (await evil.delete(victim)).status == 204
        assert market.people.rows("select from users where id = %s", victim.user) == []
    else:
        assert answer.status == 204
        assert bool(there) is (becoming in {"a member by their own act", "deactivated"})


async def test_nobody_becomes_anything_while_the_account_goes(market: Market, evil: Backend, database_url: str) -> None:
    """The other way round: the deletion is first, and a row that would refer to the account is refused."""
    victim = await evil.create(VICTIM)
    async with (
        await Connection.connect(database_url) as elsewhere,
        elsewhere.transaction(force_rollback=True),
        market.postern.foundation.unit_of_work() as uow,
    ):
        assert await uow.service_users.find_for_update(ServiceId(evil.service.id), UserId(victim.user)) is not None
        await elsewhere.execute(b"set local lock_timeout = '200ms'")
        with pytest.raises(LockNotAvailable):
            await elsewhere.execute(BECOMING["a member"].encode(), {"user": victim.user, "globex": market.globex.id})
    assert (await evil.delete(victim)).status == 204
    assert market.people.rows("select from users where email_key = %s", VICTIM) == []

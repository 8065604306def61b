"""Whose account it is, while it changes: the maker blocks or deletes the account at the moment at which its person lets somebody else hold
it, at which another organization lists the person, or at which the maker itself deletes it a second time.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, LiteralString

import pytest
import trio

from adapters.postgres.driver.connection import Connection
from core.domain.identifiers import OrganizationId
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.locks import behind
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.accounts.test_whose_account import BLOCKS, Home, caller, prepare

database_url, postern, people = http.database_url, http.postern, http.people

_JOINS: Final[LiteralString] = """
    insert into memberships (id, org_id, user_id, role, created_at, own_since)
    values (gen_random_uuid(), %(globex)s, %(user)s, 'member', now(), {own})
"""
OWN: Final[LiteralString] = _JOINS.replace("{own}", "now()")
LISTED: Final[LiteralString] = _JOINS.replace("{own}", "null")
ACCOUNT: Final[LiteralString] = "select from users where id = %s for update"


@pytest.fixture
async def home(postern: Postern, people: People, log: CapturedLog) -> Home:
    """A directory has made the account, and its person has proved the address."""
    home = Home(postern, people, unlimited(postern), log)
    await prepare(home, "a directory", 1, "nothing", BLOCKS)
    return home


async def beside(home: Home, url: str, statement: LiteralString, request: Callable[[], Awaitable[Any]]) -> Any:
    """The answer to a request that comes while another transaction has run the statement, and waits for its commit."""
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await request())

    async with await Connection.connect(url) as other, trio.open_nursery() as nursery, other.transaction():
        await other.execute(statement.encode(), {"globex": home.globex.id, "acme": home.acme.id, "user": home.ada.user})
        nursery.start_soon(ask)
        await home.people.somebody_waits()
        assert answers == []
    return answers[0]


async def blocks(home: Home) -> Received:
    return await home.patch("active", value=False)


async def deletes(home: Home) -> Received:
    return await home.scim("DELETE", f"/{home.ada.user}")


@pytest.mark.parametrize("request_", [blocks, deletes])
async def test_an_act_that_comes_first_counts(home: Home, database_url: str, request_: Callable[[Home], Awaitable[Received]]) -> None:
    answer = await beside(home, database_url, OWN, lambda: request_(home))
    assert answer.status in {200, 204}
    assert await home.is_in(1)


async def test_an_act_that_comes_second_does_nothing(home: Home, database_url: str) -> None:
    await home.listed("globex")
    whose = await caller(home)
    block: LiteralString = """
        with held as (select id from users where id = %(user)s for update)
        update users set deactivated_at = now(), deactivated_by_org_id = %(acme)s from held where users.id = held.id
    """
    await beside(home, database_url, block, lambda: home.postern.tenancy.members.confirm(whose, [OrganizationId(home.globex.id)]))
    assert home.people.rows("select from memberships where org_id = %s and own_since is not null", home.globex.id) == [{}]
    assert home.people.rows("select from memberships where user_id = %s and own_since is not null", home.ada.user) == []
    assert home.people.rows("select from held_accounts") == []


async def test_whoever_is_listed_at_this_very_moment_goes_a_moment_later(home: Home, database_url: str) -> None:
    answer = await beside(home, database_url, LISTED, lambda: deletes(home))
    assert answer.status == 503
    assert home.row()
    assert (await deletes(home)).status == 204
    assert not home.row()


async def test_of_two_deletions_one_deletes(home: Home) -> None:
    await home.listed("globex")
    answers: list[int] = []

    async def delete() -> None:
        answers.append((await deletes(home)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(delete)
    assert sorted(answers) == [204, 404]
    told = [one["organization_id"] for one in home.told() if one["name"] == "user.removed"]
    assert sorted(told) == sorted([home.acme.id, home.globex.id])


async def test_a_deletion_locks_the_other_organizations_before_the_account(home: Home, database_url: str) -> None:
    await home.listed("globex")
    first: LiteralString = "select from all_organizations where id = %s for no key update"
    answer = await behind(home.people, database_url, (first, home.globex.id), (ACCOUNT, home.ada.user), lambda: deletes(home))
    assert answer.status == 204


async def test_a_confirmation_locks_the_account_before_the_membership(home: Home, database_url: str) -> None:
    await home.listed("globex")
    whose = await caller(home)

    async def confirm() -> Any:
        await home.postern.tenancy.members.confirm(whose, [OrganizationId(home.globex.id)])

    then: LiteralString = "select from memberships where user_id = %s for update"
    await behind(home.people, database_url, (ACCOUNT, home.ada.user), (then, home.ada.user), confirm)
    assert home.people.rows("select from held_accounts where user_id = %s", home.ada.user) == [{}]

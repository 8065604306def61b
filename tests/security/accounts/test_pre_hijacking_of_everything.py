"""SECURITY 6, 39 and 46: the five classic attacks on an account before its person comes, with everything that such an account can be given.

Whoever runs acme's provider has it say that Grace is there, and gives the account one of each thing (`tests/security/endings/world.py`).
Then Grace comes, who has never heard of it, by each way that reads her mailbox or that another provider vouches for.
"""

from typing import Final

import pytest

from core.domain.identity.endings import OWED, Cause, CredentialKind
from tests.http.browsing import Tabs
from tests.http.people import People
from tests.http.signing_in import LOGIN, PASSWORD
from tests.security.accounts.everything import OPENS, kept, left_open, unspoken
from tests.security.endings.causes import ACTS
from tests.security.endings.conftest import database_url, fakes, people, postern, world
from tests.security.endings.living import opens
from tests.security.endings.world import FullAccount

__all__ = ["database_url", "fakes", "people", "postern", "world"]

_ARRIVALS: Final = (Cause.FIRST_PROOF_INSIDE, Cause.FIRST_PROOF_OUTSIDE, Cause.FORGOTTEN_PASSWORD, Cause.ANOTHER_PROVIDERS_WORD)
_OF_THE_ORGANIZATION: Final = {kind for kind, owed in OWED.items() if isinstance(owed.page, str) and owed.page.startswith("/ui/o/")}
# It was mailed to the address itself, so whoever never read the mailbox does not have it. It lets nobody in: it can only lock (0196).
_OF_THE_MAILBOX: Final = {CredentialKind.LOCK_LINK}


async def test_every_table_of_a_person_is_spoken_of(people: People) -> None:
    assert unspoken(people) == []


async def test_a_table_that_nobody_speaks_of_is_found(people: People) -> None:
    people.change("create table diaries (id uuid primary key, user_id uuid not null)")
    try:
        assert unspoken(people) == ["diaries"]
    finally:
        people.change("drop table diaries")


@pytest.mark.parametrize("arrival", _ARRIVALS, ids=lambda arrival: arrival.name.lower())
async def test_nothing_is_kept_by_whoever_never_read_the_mailbox(world: FullAccount, arrival: Cause) -> None:
    await world.begin(proved=False)
    # The unexpired change of the address: nobody gets as far, before the first proof.
    assert (await world.as_grace("PATCH", "/api/user", {"email": "mallory@elsewhere.example"})).status == 400
    before = left_open(world.people, world.user)
    assert [table for table in OPENS if not before[table]] == [], "the world has to make one"
    token = await world.tenants.token(await world.person(world.inside))
    world.people.change("delete from domains")
    await ACTS[arrival](world)
    remains = dict(kept(before, left_open(world.people, world.user)))
    if arrival is Cause.FIRST_PROOF_INSIDE:
        # The browser in which Grace confirms the address, the identity by which she came to it, and its codes that nobody has redeemed.
        assert remains.pop("sessions") == 1
        assert remains.pop("identities") == 1
        assert remains.pop("devices") == 1
        remains.pop("flows", None)
    assert remains == {}
    await _merges_nothing(world)
    await _keeps_no_session(world, token)
    await _leaves_no_identifier(world)
    assert world.people.rows("select from users where id = %s and pending_email is not null", world.user) == []
    if arrival is not Cause.FIRST_PROOF_INSIDE:
        await _believes_nobody(world)


async def _merges_nothing(world: FullAccount) -> None:
    """The classic and the federated account do not become one: the password of before opens nothing."""
    assert (await world.client.post(LOGIN, {"email": world.email, "password": PASSWORD})).status == 401


async def _keeps_no_session(world: FullAccount, token: str) -> None:
    for tabs in (world.inside, world.elsewhere):
        assert await world.who(tabs) is None
    assert (await world.client.get("/api/user", token=token)).status == 401
    assert {kind for kind, lives in (await opens(world)).items() if lives} - _OF_THE_ORGANIZATION == _OF_THE_MAILBOX


async def _leaves_no_identifier(world: FullAccount) -> None:
    """Neither a connected account, nor one that somebody went to connect before."""
    await world.connecting.request("GET", world.fakes["websuite"].consent(world.given["connecting"]))
    assert world.people.rows("select from identities where user_id = %s and email like 'mallory%%'", world.user) == []
    tabs = Tabs(world.client)
    await world.goes(tabs, "codehost")
    assert await world.who(tabs) != world.user


async def _believes_nobody(world: FullAccount) -> None:
    """The provider that verifies nothing says the same once more."""
    tabs = Tabs(world.client)
    world.fakes["own"].person = {"sub": "u-1", "email": world.email, "email_verified": True}
    await world.goes(tabs, world.provider, "?org=acme")
    assert await world.who(tabs) != world.user

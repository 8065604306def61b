"""A further provider that states an address takes no account over that an organization has made: by its directory, by a key of its service,
or by its own provider. Nor does it with the code that the mailbox got: who reads the mailbox signs in to the account as always.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from tests.http.federation.scim.directories import USER, USERS
from tests.http.people import Person
from tests.http.upstream.further.scene import FurtherScene
from tests.http.upstream.further.test_takeovers import KINDS, has_kind
from tests.http.upstream.scene import ADA


def owner_of(scene: FurtherScene) -> Person:
    owner = scene.resident(scene.acme, "owner", "maker")
    scene.people.change("update users set email_verified_at = now() where id = %s", owner.user)
    return owner


async def by_directory(scene: FurtherScene) -> None:
    made = await scene.request("POST", "/api/organizations/acme/scim-tokens", {"name": "x"}, by=owner_of(scene))
    user = {"schemas": [USER], "userName": ADA}
    (await scene.client.post(USERS, user, token=made.ok()["token"])).ok(201)


async def by_key(scene: FurtherScene) -> None:
    body = {"name": "Server", "permissions": ["write:users"]}
    made = await scene.request("POST", "/api/organizations/acme/services/app/api-keys", body, by=owner_of(scene))
    headers = [("x-api-key", made.ok(201)["key"])]
    (await scene.client.request("POST", "/api/service/users", body={"email": ADA}, headers=headers)).ok()


async def by_connection(scene: FurtherScene) -> None:
    provider = await scene.own_provider()
    scene.sits(word="own")
    tabs = scene.browser()
    await scene.go(tabs, word=provider)
    assert await scene.who(tabs) is not None


MAKERS: Final[Mapping[str, Callable[[FurtherScene], Awaitable[None]]]] = {
    "directory": by_directory,
    "key": by_key,
    "connection": by_connection,
}


def account_of(scene: FurtherScene) -> list[dict[str, Any]]:
    return scene.people.rows("select * from users where email = %s", ADA)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_account_that_an_organization_has_made_stays_as_it_is(scene: FurtherScene, kind: str, maker: str) -> None:
    await MAKERS[maker](scene)
    made, connected = account_of(scene), scene.identities()
    assert len(made) == 1
    await has_kind(scene, kind)
    tabs = scene.browser()
    answer = await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, kind)))
    assert answer.status == 400
    assert await scene.who(tabs) is None
    assert (account_of(scene), scene.identities()) == (made, connected)


@pytest.mark.parametrize("maker", ["directory", "key"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_organization_makes_nothing_of_who_came_first(scene: FurtherScene, kind: str, maker: str) -> None:
    """The account is there, proved by its owner, when the organization lists its address."""
    await has_kind(scene, kind)
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, kind)))
    ada, connected = await scene.who(tabs), scene.identities()
    await MAKERS[maker](scene)
    assert (await scene.who(tabs), scene.identities()) == (ada, connected)
    assert [row["origin_org_id"] for row in account_of(scene)] == [None]

"""Attacks on tokens for APIs. The names of APIs and who may ask for them are in `tests/http/federation/resources`; here are the squatter,
the token at another's door, and the races of every end with two hundred requests.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.record.events import Actor
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.relying import claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS, Asking
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
_INACTIVE: Final = {"active": False}


@pytest.fixture
def asking(postern: Postern, people: People, log: CapturedLog) -> Asking:
    return Asking(postern, people, unlimited(postern), log)


async def test_a_tokens_door_is_its_own(asking: Asking) -> None:
    """A token for one API is refused by the introspection of another API's service, in the organization and outside."""
    asking.api()
    bills = asking.api(BILLS)
    asking.people.change("update resource_servers set service_id = %s where id = %s", asking.other.service.id, bills)
    for resource, door, others in ((ORDERS, asking.desk, (asking.other, asking.theirs)), (BILLS, asking.other, (asking.desk,))):
        token = (await asking.tokens(resource))["access_token"]
        assert (await asking.introspect(door, token))["active"]
        for other in others:
            assert await asking.introspect(other, token) == _INACTIVE
            # And nobody but its own client gives it back.
            assert (await asking.ask("/auth/revoke", {"token": token, **other.posted})).status == 200
        assert (await asking.introspect(door, token))["active"]


async def test_the_same_local_name_is_two_apis(asking: Asking) -> None:
    """Both organizations develop at the same address. A token of one is nothing to the other, and says whose it is."""
    local = "http://localhost:3000/mcp"
    for tenant in (asking.acme, asking.globex):
        asking.api(local, tenant, approved_at=None)
    for application, tenant in ((asking.shop, asking.acme), (asking.theirs, asking.globex)):
        tokens = await asking.tokens(local, application=application)
        assert claims_of(tokens["access_token"])["org_id"] == str(tenant.id)
        other = asking.theirs if application is asking.shop else asking.desk
        assert await asking.introspect(other, tokens["access_token"]) == _INACTIVE


async def test_a_name_that_changes_hands_leaves_nothing_behind(asking: Asking) -> None:
    """Acme's API ends, and globex gets the name: acme's refresh tokens are not for globex's API."""
    api = asking.api()
    tokens = await asking.tokens()
    asking.people.change("delete from resource_servers where id = %s", api)
    asking.api(ORDERS, asking.globex)
    assert await asking.introspect(asking.shop, tokens["access_token"]) == _INACTIVE
    for fields in ({}, {"resource": ORDERS}):
        assert oauth(await asking.refresh(asking.shop, tokens["refresh_token"], **fields)) == (400, "invalid_target")
    # Nor does a session of before become one for no API, when acme registers the name anew.
    asking.people.change("delete from resource_servers")
    asking.api()
    assert oauth(await asking.refresh(asking.shop, tokens["refresh_token"])) == (400, "invalid_target")


async def test_what_changes_between_consent_and_code(asking: Asking) -> None:
    """Between the page and the code, and between the code and the tokens, the API gets other scopes."""
    api = asking.api()
    tab = await asking.asked()
    asking.people.change(
        "update resource_servers set scopes = %s where id = %s",
        Jsonb([{"name": "orders:write", "description": "Wipe everything", "permission": None}]),
        api,
    )
    await tab.send(answer="allow")
    (code,) = asking.people.rows("select audiences from authorization_codes")
    assert code["audiences"][0]["scopes"] == ["orders:write"]
    asking.people.change("update resource_servers set scopes = '[]' where id = %s", api)
    tokens = await asking.tokens(prompt="consent", scope="openid")
    assert claims_of(tokens["access_token"])["scope"] == ""


_Act = Callable[[Asking, UUID], Awaitable[Any]]


async def _take_api_back(asking: Asking, api: UUID) -> None:
    consents, user = asking.postern.federation.consents, UserId(asking.ada.user)
    await consents.revoke_resource(user, ServiceId(asking.shop.service.id), ResourceServerId(api), Actor(user))


async def _take_application_back(asking: Asking, _api: UUID) -> None:
    consents, user = asking.postern.federation.consents, UserId(asking.ada.user)
    await consents.revoke(user, ServiceId(asking.shop.service.id), Actor(user))


async def _delete_api(asking: Asking, api: UUID) -> None:
    owner = asking.resident(asking.acme, "owner")
    assert (await asking.request("DELETE", f"/api/organizations/acme/resource-servers/{api}", by=owner)).status == 204


async def _delete_service(asking: Asking, _api: UUID) -> None:
    owner = asking.resident(asking.acme, "owner")
    assert (await asking.request("DELETE", "/api/organizations/acme/services/shop", by=owner)).status in {200, 202, 204}


async def _sign_out(asking: Asking, _api: UUID) -> None:
    user = UserId(asking.ada.user)
    async with asking.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(user)
        await uow.sessions.revoke_all(user, but=None)
        await uow.commit()


_ACTS: Final[dict[str, _Act]] = {
    "the person takes the API back": _take_api_back,
    "the person takes the application back": _take_application_back,
    "the organization deletes the API": _delete_api,
    "the organization deletes the application": _delete_service,
    "everything of the person ends": _sign_out,
}


@pytest.mark.parametrize("act", _ACTS)
async def test_two_hundred_refreshes_race_with_the_end(asking: Asking, act: str) -> None:
    """Whoever is quicker: at the next look, each token of each of them is over."""
    api = asking.api()
    await asking.tokens()
    refresh_tokens = _sessions(asking, api)
    answers: list[Received] = []

    async def refresh(token: Token) -> None:
        answers.append(await asking.refresh(asking.shop, token.reveal()))

    half = RACERS // 2
    racers = [partial(refresh, token) for token in refresh_tokens]
    await all_at_once(*racers[:half], partial(_ACTS[act], asking, api), *racers[half:])
    assert len(answers) == RACERS
    won = [asking.kept(answer.json()) for answer in answers if answer.status == 200]
    asker = asking.desk
    told = [await asking.introspect(asker, tokens["access_token"]) for tokens in won]
    assert told == [_INACTIVE] * len(won)
    again = [(await asking.refresh(asking.shop, tokens["refresh_token"])).status for tokens in won]
    assert [status for status in again if status == 200] == []
    late = [(await asking.refresh(asking.shop, token.reveal())).status for token in refresh_tokens[:10]]
    assert [status for status in late if status == 200] == []


async def test_two_hundred_refreshes_race_with_a_scope_that_asks_for_more(asking: Asking) -> None:
    """Whoever is quicker: at the next look, no token of a sign-in by password alone has the scope."""
    api = asking.api()
    await asking.tokens()
    owner, refresh_tokens = asking.resident(asking.acme, "owner"), _sessions(asking, api)
    answers: list[Received] = []

    async def refresh(token: Token) -> None:
        answers.append(await asking.refresh(asking.shop, token.reveal()))

    async def ask_for_more() -> None:
        body = {"scopes": [{"name": "orders:read", "description": "See your orders", "acr_values": [TWO_FACTORS]}]}
        assert (await asking.request("PATCH", f"/api/organizations/acme/resource-servers/{api}", body, by=owner)).status == 200

    half = RACERS // 2
    racers = [partial(refresh, token) for token in refresh_tokens]
    await all_at_once(*racers[:half], ask_for_more, *racers[half:])
    won = [asking.kept(answer.ok()) for answer in answers]
    assert len(won) == RACERS
    assert {(await asking.introspect(asking.desk, tokens["access_token"]))["scope"] for tokens in won} == {""}
    again = [asking.kept((await asking.refresh(asking.shop, tokens["refresh_token"])).ok()) for tokens in won]
    assert {claims_of(tokens["access_token"])["scope"] for tokens in again} == {""}


def _sessions(asking: Asking, api: UUID) -> list[Token]:
    """As many sessions of Ada's at the API, as the shop gets them."""
    tokens = [asking.postern.foundation.secrets.token() for _ in range(RACERS)]
    asking.log.remember(*(token.reveal() for token in tokens))
    granted = Jsonb([{"resource_id": str(api), "identifier": ORDERS, "scopes": ["orders:read"]}])
    for token in tokens:
        session = asking.tenants.session(asking.ada, asking.shop.service).session
        asking.people.change("update sessions set scopes = '{openid}', audiences = %s where id = %s", granted, session)
        asking.people.change("insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", token.digest(), session)
    return tokens

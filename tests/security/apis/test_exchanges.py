"""Attacks on token exchange: each token that is not to be exchanged, what an exchanged token must not open, and the races of every end with
two hundred exchanges.
"""

from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from json import dumps
from typing import Any, Final

import pytest

from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.record.events import Actor
from core.domain.tokens import TokenAlgorithm
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.relying import INTROSPECT, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.federation.resources.exchanging import STOCK, Exchanging
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
INVALID: Final = (400, "invalid_request")
TARGET: Final = (400, "invalid_target")


@pytest.fixture
def between(postern: Postern, people: People, log: CapturedLog) -> Exchanging:
    return Exchanging(postern, people, unlimited(postern), log)


_Shown = Callable[[Exchanging], Awaitable[str]]


async def _of_another_api(between: Exchanging) -> str:
    """A token that the shop was given, for an API that another service stands for."""
    between.people.change("update resource_servers set admits = 'all' where id = %s", between.stock)
    return str((await between.tokens(STOCK, scope="openid stock:read"))["access_token"])


async def _of_another_client(between: Exchanging) -> str:
    """A token that the shop was given for itself."""
    return str((await between.signed_in(between.shop))["access_token"])


async def _of_another_organization(between: Exchanging) -> str:
    between.api(f"{ORDERS}/theirs", between.globex)
    return str((await between.tokens(f"{ORDERS}/theirs", application=between.theirs))["access_token"])


async def _id_token(between: Exchanging) -> str:
    return str((await between.tokens(ORDERS))["id_token"])


async def _refresh_token(between: Exchanging) -> str:
    return str((await between.tokens(ORDERS))["refresh_token"])


async def _of_an_application(between: Exchanging) -> str:
    return str(between.kept((await between.own(between.shop, resource=ORDERS)).ok())["access_token"])


async def _without_an_application(between: Exchanging) -> str:
    """A session of our own pages."""
    return await between.tenants.token(between.ada)


async def _impersonation(between: Exchanging) -> str:
    session = between.tenants.session(between.ada, between.desk.service)
    governor = between.people.add("governor@example.org", platform_owner=True)
    between.people.change("update sessions set impersonator_id = %s, impersonation_id = id where id = %s", governor.user, session.session)
    acting = {"token_use": "impersonation", "impersonator": str(governor.user), "act": {"sub": str(governor.user)}}
    return await between.tenants.token(session, between.desk.service, client_id=between.desk.client_id, **acting)


async def _session_of_an_impersonation(between: Exchanging) -> str:
    """As if an impersonation's session had got a token for an API."""
    subject = await between.subject()
    governor = between.people.add("governor@example.org", platform_owner=True)
    between.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = id where id = %s", governor.user, claims_of(subject)["sid"]
    )
    return subject


async def _logout_token(between: Exchanging) -> str:
    return await between.postern.foundation.token_signer.sign_logout(claims_of(await between.subject()), TokenAlgorithm.ES256)


async def _signed_as_id_token(between: Exchanging) -> str:
    """The claims of a good token under a key of ID tokens."""
    return await between.postern.foundation.token_signer.sign_id(claims_of(await between.subject()), TokenAlgorithm.ES256)


async def _unsigned(between: Exchanging) -> str:
    parts = [{"alg": "none", "typ": "at+jwt"}, claims_of(await between.subject())]
    return ".".join([*(urlsafe_b64encode(dumps(part).encode()).rstrip(b"=").decode() for part in parts), ""])


async def _without_its_signature(between: Exchanging) -> str:
    return (await between.subject()).rpartition(".")[0] + "."


async def _expired(between: Exchanging) -> str:
    return await _changed(between, exp=claims_of(await between.subject())["iat"] - 1)


async def _of_another_issuer(between: Exchanging) -> str:
    return await _changed(between, iss="https://sso.evil.example")


async def _of_another_person(between: Exchanging) -> str:
    return await _changed(between, sub=str(between.people.add("eve@example.org").user))


async def _for_no_known_api(between: Exchanging) -> str:
    return await _changed(between, resource_id=str(between.postern.foundation.ids.new()))


async def _for_its_service(between: Exchanging) -> str:
    """The id of a service in place of an API's."""
    return await _changed(between, resource_id=str(between.shop.service.id))


async def _changed(between: Exchanging, **claims: Any) -> str:
    """A good token, signed anew by us with other claims."""
    said = {**claims_of(await between.subject()), **claims}
    token = await between.postern.foundation.token_signer.sign_for_application(said, TokenAlgorithm.ES256)
    between.log.remember(token)
    return token


async def _long(between: Exchanging) -> str:
    return await between.subject() + "x" * 9_000


async def _endless(_between: Exchanging) -> str:
    return "x" * 15_000


async def _no_text(_between: Exchanging) -> str:
    return "ü\x00.\u202e."


_NOT_EXCHANGED: Final[dict[str, _Shown]] = {
    "for another API": _of_another_api,
    "of another client": _of_another_client,
    "of another organization": _of_another_organization,
    "an ID token": _id_token,
    "a refresh token": _refresh_token,
    "of an application itself": _of_an_application,
    "of our own pages": _without_an_application,
    "an impersonation": _impersonation,
    "an impersonation's session": _session_of_an_impersonation,
    "a logout token": _logout_token,
    "under a key of ID tokens": _signed_as_id_token,
    "unsigned": _unsigned,
    "without its signature": _without_its_signature,
    "expired": _expired,
    "of another issuer": _of_another_issuer,
    "of another person": _of_another_person,
    "for no known API": _for_no_known_api,
    "for a service": _for_its_service,
    "long": _long,
    "endless": _endless,
    "no text": _no_text,
}


@pytest.mark.parametrize("shown", _NOT_EXCHANGED)
async def test_a_token_that_is_not_the_services_to_exchange(between: Exchanging, shown: str) -> None:
    token = await _NOT_EXCHANGED[shown](between)
    between.log.remember(token)
    refusal = await between.exchange(between.desk, token)
    assert oauth(refusal) == INVALID
    assert refusal.json()["error_description"].startswith("subject_token:")
    assert between.people.rows("select 1 from sessions where exchanged_from is not null") == []


async def test_only_the_service_of_the_api_exchanges(between: Exchanging) -> None:
    subject = await between.subject()
    between.exchangers(between.bills, between.desk, between.other, between.store, between.page, between.phone)
    for stranger in (between.other, between.store, between.theirs):
        assert oauth(await between.exchange(stranger, subject)) == INVALID
    for public in (between.page, between.phone):
        assert oauth(await between.exchange(public, subject)) == (400, "unauthorized_client")
    for wrong in ({"client_secret": "cs_wrong"}, {"client_secret": None}):
        assert oauth(await between.exchange(between.desk, subject, **wrong)) == (401, "invalid_client")
    # An exchanged token is for the next service, and its holder's.
    token = await between.exchanged(between.desk, subject)
    for stranger in (between.shop, between.store, between.theirs):
        assert oauth(await between.exchange(stranger, token, STOCK)) == INVALID
    # The holder may narrow it, and then acts twice.
    assert claims_of(await between.exchanged(between.desk, token))["act"] == {
        "sub": between.desk.client_id,
        "act": {"sub": between.desk.client_id},
    }


async def test_an_api_of_another_organization_is_no_target(between: Exchanging) -> None:
    """Not even when a row names the service there."""
    subject = await between.subject()
    theirs = between.api(f"{BILLS}/theirs", between.globex)
    local = "http://localhost:3000/mcp"
    for api, identifier in ((theirs, f"{BILLS}/theirs"), (between.api(local, between.globex, approved_at=None), local)):
        between.exchangers(api, between.desk)
        assert oauth(await between.exchange(between.desk, subject, identifier)) == TARGET


@pytest.mark.parametrize("column", ["approved_at = null", "settles_at = now() + interval '1 hour'"])
async def test_an_api_that_waits_or_settles_is_no_target(between: Exchanging, column: str) -> None:
    subject = await between.subject()
    token = await between.exchanged(between.desk, subject)
    for api, refused in ((between.bills, TARGET), (between.orders, INVALID)):
        between.people.change(f"update resource_servers set {column} where id = %s", api)
        assert oauth(await between.exchange(between.desk, subject)) == refused
        assert not await between.is_active(between.other, token)
        between.people.change("update resource_servers set approved_at = now(), settles_at = null where id = %s", api)
    assert await between.is_active(between.other, token)


async def test_a_listed_persons_token_is_not_exchanged(between: Exchanging) -> None:
    """An organization can list anybody as a member. That gives its services no voice in the person's name towards others."""
    subject = await between.subject()
    between.tenants.join(between.ada, between.acme, "member")
    await between.exchanged(between.desk, subject)
    between.people.change("update memberships set own_since = null where user_id = %s", between.ada.user)
    refusal = await between.exchange(between.desk, subject)
    assert oauth(refusal) == INVALID
    assert "has not confirmed" in refusal.json()["error_description"]


async def test_an_exchanged_token_opens_nothing_here(between: Exchanging) -> None:
    token = await between.exchanged(between.desk, await between.subject())
    assert (await between.userinfo(token)).status == 401
    for path in ("/api/user", "/api/user/organizations", "/api/organizations/acme", "/api/service/users", "/api/user/identities"):
        assert (await between.client.get(path, token=token)).status in {401, 404}, path
    assert (await between.client.get("/api/user", token=token)).status == 401
    for fields in (
        {"grant_type": "refresh_token", "refresh_token": token},
        {"grant_type": "authorization_code", "code": token, "redirect_uri": "https://app.example/callback"},
    ):
        assert (await between.ask(fields={**fields, **between.desk.posted})).status == 400
    assert (await between.client.post("/api/auth/logout", token=token)).status == 401


async def test_what_has_changed_hands_is_over(between: Exchanging) -> None:
    """The service no longer stands for the API whose tokens it exchanged."""
    subject = await between.subject()
    first = await between.exchanged(between.desk, subject)
    second = await between.exchanged(between.other, first, STOCK)
    assert await between.is_active(between.store, second)
    between.people.change("update resource_servers set service_id = %s where id = %s", between.store.service.id, between.orders)
    assert not await between.is_active(between.other, first)
    assert not await between.is_active(between.store, second)
    assert oauth(await between.exchange(between.desk, subject)) == INVALID
    assert oauth(await between.exchange(between.other, first, STOCK)) == INVALID


_Act = Callable[[Exchanging], Awaitable[Any]]


async def _take_api_back(between: Exchanging) -> None:
    consents, user = between.postern.federation.consents, UserId(between.ada.user)
    await consents.revoke_resource(user, ServiceId(between.shop.service.id), ResourceServerId(between.orders), Actor(user))


async def _take_application_back(between: Exchanging) -> None:
    user = UserId(between.ada.user)
    await between.postern.federation.consents.revoke(user, ServiceId(between.shop.service.id), Actor(user))


async def _sign_out(between: Exchanging) -> None:
    user = UserId(between.ada.user)
    async with between.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(user)
        await uow.sessions.revoke_all(user, but=None)
        await uow.commit()


async def _give_back(between: Exchanging) -> None:
    (row,) = between.people.rows("select id from sessions where scopes is not null and exchanged_from is null")
    await between.postern.identity.sessions.sign_out(row["id"], Actor(UserId(between.ada.user)))


async def _by_owner(method: str, path: Callable[[Exchanging], str], body: Any, between: Exchanging) -> None:
    owner = between.resident(between.acme, "owner")
    answer = await between.request(method, f"/api/organizations/acme{path(between)}", body, by=owner)
    assert answer.status in {200, 202, 204}, answer.body


_ENDS: Final[dict[str, _Act]] = {
    "the person takes the API back": _take_api_back,
    "the person takes the application back": _take_application_back,
    "everything of the person ends": _sign_out,
    "the application gives its token back": _give_back,
    "the API of the first token is deleted": partial(_by_owner, "DELETE", lambda one: f"/resource-servers/{one.orders}", None),
    "the called API is deleted": partial(_by_owner, "DELETE", lambda one: f"/resource-servers/{one.bills}", None),
    "the called API no longer names the service": partial(
        _by_owner, "PATCH", lambda one: f"/resource-servers/{one.bills}", {"exchanges": ["store"]}
    ),
    "the first API no longer admits the application": partial(
        _by_owner, "PATCH", lambda one: f"/resource-servers/{one.orders}", {"admits": "named"}
    ),
    "the application is deleted": partial(_by_owner, "DELETE", lambda _: "/services/shop", None),
    "the service that acts is deleted": partial(_by_owner, "DELETE", lambda _: "/services/desk", None),
    "the person leaves an application for members": partial(_by_owner, "POST", lambda one: f"/members/{one.ada.user}", None),
}


@pytest.mark.parametrize("end", _ENDS)
async def test_two_hundred_exchanges_race_with_the_end(between: Exchanging, end: str) -> None:
    """Whoever is quicker: at the next look, each token of each of them is over, and so is what came of it."""
    between.tenants.join(between.ada, between.acme, "member")
    between.people.change("update services set sign_in_policy = 'members' where id = %s", between.shop.service.id)
    subject = await between.subject()
    answers: list[Received] = []

    async def exchange() -> None:
        answers.append(await between.exchange(between.desk, subject))

    half, act = RACERS // 2, partial(_ENDS[end], between)
    first = await between.exchanged(between.desk, subject)
    second = await between.exchanged(between.other, first, STOCK)
    await all_at_once(*[exchange] * half, act, *[exchange] * half)
    assert len(answers) == RACERS
    won = [between.kept(answer.json())["access_token"] for answer in answers if answer.status == 200]
    assert {answer.status for answer in answers} <= {200, 400, 401}
    assert [await between.is_active(between.other, token) for token in (first, *won)] == [False] * (1 + len(won))
    assert not await between.is_active(between.store, second)
    assert (await between.exchange(between.desk, subject)).status in {400, 401}
    assert oauth(await between.exchange(between.other, first, STOCK)) == INVALID


async def _deactivate(between: Exchanging) -> None:
    between.people.change("update users set deactivated_at = now() where id = %s", between.ada.user)


async def _suspend(between: Exchanging) -> None:
    between.people.change("update all_organizations set status = 'suspended' where id = %s", between.acme.id)


async def _shorten(between: Exchanging) -> None:
    between.people.change("update all_organizations set session_hours = 1 where id = %s", between.acme.id)
    between.people.change(
        "update sessions set proved_at = now() - interval '2 hours' where parent_id is not null and exchanged_from is null"
    )


async def _end_the_browser(between: Exchanging) -> None:
    (row,) = between.people.rows("select parent_id from sessions where scopes is not null and exchanged_from is null")
    await between.postern.identity.sessions.sign_out(row["parent_id"], Actor(UserId(between.ada.user)))


async def _expire(between: Exchanging) -> None:
    between.people.change("update sessions set expires_at = now() where scopes is not null and exchanged_from is null")


async def _end_the_first_exchange(between: Exchanging) -> None:
    """As if the revocation had not found what came of it."""
    between.people.change("update sessions set revoked_at = now() where exchanged_from = %s", between.orders)


_FURTHER_ENDS: Final[dict[str, _Act]] = {
    "the person is deactivated": _deactivate,
    "the organization is suspended": _suspend,
    "the organization's sessions are shorter": _shorten,
    "the person signs out in the browser": _end_the_browser,
    "the application's session expires": _expire,
    "the first exchange ends": _end_the_first_exchange,
}


@pytest.mark.parametrize("end", _FURTHER_ENDS)
async def test_everything_on_the_way_must_live(between: Exchanging, end: str) -> None:
    subject = await between.subject()
    first = await between.exchanged(between.desk, subject)
    second = await between.exchanged(between.other, first, STOCK)
    await _FURTHER_ENDS[end](between)
    for asker, token in ((between.other, first), (between.store, second)):
        told = await between.ask(INTROSPECT, {"token": token}, asker.basic)
        assert told.status == 403 or told.ok() == {"active": False}
    assert (await between.exchange(between.other, first, STOCK)).status in {400, 403}


async def test_the_person_ends_the_service_that_acts(between: Exchanging) -> None:
    """The person sees it among the applications, and what it holds is over."""
    subject = await between.subject()
    token = await between.exchanged(between.desk, subject)
    user, consents = UserId(between.ada.user), between.postern.federation.consents
    listed = {one.slug: [resource.identifier for resource in one.resources] for one in await consents.list(user)}
    assert listed == {"shop": [ORDERS], "desk": [BILLS]}
    await consents.revoke(user, ServiceId(between.desk.service.id), Actor(user))
    assert not await between.is_active(between.other, token)
    assert await between.is_active(between.desk, subject)

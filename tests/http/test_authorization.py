"""The walk over every declared route as every kind of caller: only what the declaration allows gets in."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from entrypoints.bootstrap import Services
from entrypoints.http.answers import NOTHING, Nothing
from entrypoints.http.application import ROUTES, PosternApplication, build_application
from entrypoints.http.callers import ANYONE, PLATFORM_OWNER, USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import Endpoint, Endpoints, endpoint, parameters
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People


@endpoint.post("/owners-only", caller=PLATFORM_OWNER, tags=("operations",))
async def owners_only(_call: Call, _services: Services) -> Nothing:
    """Stands for the platform's endpoints until there are some"""
    return NOTHING


WALKED = Endpoints([*ROUTES, owners_only])

# What every kind of caller is refused with where the rule asks for a user: status and code.
UNAUTHORIZED, EXPIRED, INVALID = (401, "UNAUTHORIZED"), (401, "TOKEN_EXPIRED"), (401, "JWT_ERROR")


class Kinds:
    """A bearer token for each kind of caller; the methods' names are the kinds."""

    def __init__(self, people: People, services: Services) -> None:
        self._people = people
        self._services = services

    async def token(self, kind: str) -> str | None:
        made: Awaitable[str | None] = getattr(self, kind)()
        return await made

    async def no_token(self) -> str | None:
        return None

    async def garbage(self) -> str | None:
        return "garbage"

    async def empty(self) -> str | None:
        return ""

    async def huge(self) -> str | None:
        return "x" * 10_000

    async def expired(self) -> str | None:
        return await self._people.token(self._people.add(), at=self._services.clock.now() - timedelta(hours=1))

    async def pre_auth(self) -> str | None:
        return await self._people.token(self._people.add(), token_use="mfa_preauth")

    async def id_token(self) -> str | None:
        return await self._people.token(self._people.add(), token_use=None)

    async def other_issuer(self) -> str | None:
        return await self._people.token(self._people.add(), iss="https://evil.example")

    async def other_audience(self) -> str | None:
        return await self._people.token(self._people.add(), aud="service:acme/app")

    async def impersonation_without_impersonator(self) -> str | None:
        return await self._people.token(self._people.add(), token_use="impersonation")

    async def odd_session(self) -> str | None:
        return await self._people.token(self._people.add(), sid="{not-an-id}")

    async def revoked_session(self) -> str | None:
        person = self._people.add()
        self._people.change("update sessions set revoked_at = now() where id = %s", person.session)
        return await self._people.token(person)

    async def expired_session(self) -> str | None:
        person = self._people.add()
        self._people.change("update sessions set expires_at = now() where id = %s", person.session)
        return await self._people.token(person)

    async def deactivated_user(self) -> str | None:
        person = self._people.add()
        self._people.change("update users set deactivated_at = now() where id = %s", person.user)
        return await self._people.token(person)

    async def deleted_user(self) -> str | None:
        person = self._people.add()
        self._people.change("delete from users where id = %s", person.user)
        return await self._people.token(person)

    async def session_of_another(self) -> str | None:
        one, other = self._people.add("one@example.org"), self._people.add("other@example.org")
        return await self._people.token(one, sid=str(other.session))

    async def user(self) -> str | None:
        return await self._people.token(self._people.add())

    async def user_who_claims_to_own(self) -> str | None:
        return await self._people.token(self._people.add(), is_platform_owner=True)

    async def impersonated(self) -> str | None:
        return await self._people.token(self._people.add(), token_use="impersonation", impersonator=str(self._services.ids.new()))

    async def platform_owner(self) -> str | None:
        return await self._people.token(self._people.add(platform_owner=True))


REFUSED: dict[str, tuple[int, str]] = {
    "no_token": UNAUTHORIZED,
    "garbage": INVALID,
    "empty": INVALID,
    "huge": INVALID,
    "expired": EXPIRED,
    "pre_auth": INVALID,
    "id_token": INVALID,
    "other_issuer": INVALID,
    "other_audience": INVALID,
    "impersonation_without_impersonator": INVALID,
    "odd_session": INVALID,
    "revoked_session": UNAUTHORIZED,
    "expired_session": UNAUTHORIZED,
    "deactivated_user": UNAUTHORIZED,
    "deleted_user": UNAUTHORIZED,
    "session_of_another": UNAUTHORIZED,
}
ADMITTED: dict[str, set[str]] = {
    "user": {USER.name},
    "user_who_claims_to_own": {USER.name},
    "impersonated": {USER.name},
    "platform_owner": {USER.name, PLATFORM_OWNER.name},
}


async def call(client: Client, one: Endpoint, token: str | None) -> Received:
    path = one.path
    for name in parameters(path):
        path = path.replace(f"{{{name}}}", "0199d3a0-0000-7000-8000-000000000001")
    body: Any = {} if one.body_type is not None else None
    return await client.request(one.method, path, body=body, token=token)


@pytest.fixture
def walker(services: Services) -> Client:
    return Client(PosternApplication(services, SETTINGS, WALKED))


@pytest.fixture
def kinds(people: People, services: Services) -> Kinds:
    return Kinds(people, services)


# One database for all kinds: cloning one takes longer than the walk.
async def test_a_caller_without_standing_gets_in_nowhere_but_in_public(walker: Client, kinds: Kinds) -> None:
    for kind, refusal in REFUSED.items():
        token = await kinds.token(kind)
        for one in WALKED:
            answer = await call(walker, one, token)
            if one.caller is ANYONE:
                assert answer.status < 400, f"{kind} at {one}"
            else:
                assert (answer.status, answer.error_code) == refusal, f"{kind} at {one}"
                assert (answer.header("www-authenticate") or "").startswith("Bearer"), f"{kind} at {one}"


async def test_a_caller_with_standing_gets_in_exactly_where_declared(walker: Client, kinds: Kinds) -> None:
    for kind, rules in ADMITTED.items():
        token = await kinds.token(kind)
        for one in WALKED:
            answer = await call(walker, one, token)
            if one.caller is ANYONE or one.caller.name in rules:
                assert answer.status not in {401, 403}, f"{kind} at {one}"
            else:
                assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), f"{kind} at {one}"


@pytest.mark.parametrize("header", ["Basic YTpi", "Token x", "bearer", "Bearer\u00e9", "x"])
async def test_another_scheme_is_no_authentication(client: Client, header: str) -> None:
    answer = await client.get("/api/user", headers=[("authorization", header)])
    assert answer.status == 401
    assert answer.error_code in {"UNAUTHORIZED", "JWT_ERROR"}


async def test_the_scheme_is_read_in_any_case_and_two_headers_are_no_token(client: Client, people: People) -> None:
    token = await people.token(people.add())
    assert (await client.get("/api/user", headers=[("authorization", f"bEARER  {token}")])).status == 200
    twice = [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]
    assert (await client.get("/api/user", headers=twice)).status == 401


async def test_a_revoked_session_ends_with_the_next_request(client: Client, people: People) -> None:
    person = people.add()
    token = await people.token(person)
    assert (await client.get("/api/user", token=token)).status == 200
    people.change("update sessions set revoked_at = now() where id = %s", person.session)
    assert (await client.get("/api/user", token=token)).status == 401


async def test_while_the_database_is_away_nobody_is_let_in(lonely_client: Client, people: People) -> None:
    token = await people.token(people.add())
    assert (await lonely_client.get("/api/user", token=token)).status == 503


HOUSE = tuple(ROUTES)


@pytest.mark.parametrize("one", HOUSE, ids=str)
def test_every_endpoint_says_what_it_is_and_where_it_belongs(one: Endpoint) -> None:
    assert one.summary
    assert not one.summary.endswith(".")
    assert one.tags
    assert set(one.caller.refuses) <= set(one.refusals)
    assert not set(one.stated_refusals) & set(one.caller.refuses), "what the caller rule refuses need not be stated"
    assert one.path == one.path.lower()


@pytest.mark.parametrize("one", HOUSE, ids=str)
def test_only_paths_of_the_public_interface_are_open(one: Endpoint) -> None:
    public = ("/health", "/metrics", "/.well-known/")
    assert (one.caller is ANYONE) == one.path.startswith(public)


async def test_no_two_endpoints_share_an_operation_id(lonely_services: Services) -> None:
    names = [one.handler.__name__ for one in build_application(lonely_services, SETTINGS).endpoints]
    assert len(names) == len(set(names))

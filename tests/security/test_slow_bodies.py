"""Slow bodies: a caller sends the head of a request, loses a right, and then sends the body. The request is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from core.domain.services.api_keys import Permission
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import BEARER, LEAVING, OPENID_SESSION
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client, Pairs
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.patience import PATIENCE

database_url, postern, people = http.database_url, http.postern, http.people

TAKING_A_BODY = [one for one in ROUTES if one.body_type is not None]
BY_PEOPLE = [one for one in TAKING_A_BODY if one.caller.scheme is BEARER and one.caller not in {LEAVING, OPENID_SESSION}]
BY_KEYS = [one for one in TAKING_A_BODY if one.caller.scheme is not None and one.caller.scheme.name == "api_key"]
# The caller's key is looked up together with the key in the body, so the body must have one.
ENDS = {"POST /api/service/user-keys/verify": b'"key": "none"}'}
# Longer than the time within which a body counts as sent with its head.
A_WHILE = 0.15


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


async def let_in_too_early(
    client: Client, endpoints: list[Endpoint], credentials: Pairs, people: People, *changes: str
) -> Mapping[str, int]:
    """The status of each request, when rights change after all callers were let in and before they send their bodies."""
    statuses: dict[str, int] = {}
    let_in: list[str] = []
    changed = trio.Event()

    async def ask(one: Endpoint) -> None:
        async def wait() -> None:
            let_in.append(str(one))
            await changed.wait()

        path = one.path
        for name in parameters(path):
            path = path.replace(
                f"{{{name}}}", {"org_slug": "acme", "service_slug": "shop"}.get(name, "0199d3a0-0000-7000-8000-000000000001")
            )
        body = (b"{", wait, ENDS.get(str(one), b"}"))
        answer = await client.exchange(one.method, path, [("content-type", one.accepts.media_type), *credentials], body)
        statuses[str(one)] = answer.status

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for one in endpoints:
                nursery.start_soon(ask, one)
            while len(let_in) + len(statuses) < len(endpoints):
                await trio.sleep(0.01)
            assert statuses == {}, "these were not let in to begin with"
            await trio.sleep(A_WHILE)
            for change in changes:
                people.change(change)
            changed.set()
    return statuses


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ("update sessions set revoked_at = now()", 401),
        ("update users set deactivated_at = now()", 401),
    ],
)
async def test_who_is_signed_out_meanwhile_gets_nothing_done(
    client: Client, postern: Postern, people: People, change: str, refusal: int
) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    tenants.service(acme, "shop")
    owner = tenants.join(people.add(platform_owner=True), acme, "owner")
    credentials = [("authorization", f"Bearer {await people.token(owner, is_platform_owner=True)}")]
    before = _state(people)
    statuses = await let_in_too_early(client, BY_PEOPLE, credentials, people, change)
    assert statuses == {str(one): refusal for one in BY_PEOPLE}
    assert _state(people) == before


async def test_who_leaves_the_organization_or_the_office_meanwhile_does_nothing_there(
    client: Client, postern: Postern, people: People
) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    tenants.service(acme, "shop")
    owner = tenants.join(people.add(platform_owner=True), acme, "owner")
    ruled = [one for one in BY_PEOPLE if "org_slug" in one.caller.reads or one.caller.name == "platform_owner"]
    credentials = [("authorization", f"Bearer {await people.token(owner, is_platform_owner=True)}")]
    changes = ("delete from relations", "delete from memberships", "update users set is_platform_owner = false")
    assert set((await let_in_too_early(client, ruled, credentials, people, *changes)).values()) == {403}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [("delete from api_keys", 401), ("update all_organizations set status = 'suspended'", 403)],
)
async def test_a_key_that_ends_meanwhile_opens_nothing(
    client: Client, postern: Postern, people: People, log: CapturedLog, change: str, refusal: int
) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    tenants.service(acme, "shop")
    asked: dict[str, Any] = {"name": "Backend", "permissions": [permission.value for permission in Permission]}
    token = await tenants.token(tenants.member(acme, "owner"))
    made = await client.post("/api/organizations/acme/services/shop/api-keys", asked, token=token)
    assert made.status == 201, made.body
    log.remember(made.json()["key"])
    statuses = await let_in_too_early(client, BY_KEYS, [("x-api-key", made.json()["key"])], people, change)
    assert statuses == {str(one): refusal for one in BY_KEYS}


def _state(people: People) -> list[Any]:
    return [
        people.rows(f"select * from {table}")
        for table in ("all_organizations", "all_services", "roles", "invitations", "events", "audit_entries")
    ]

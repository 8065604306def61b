"""Lost rights: a request that waits while its caller loses a right no longer does what the right allowed. This file covers results that
outlive the request; members, roles, invitations and API keys have such tests in their own files.
"""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
import trio

from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.client import Client, Received
from tests.http.people import People
from tests.http.tenants import Tenants

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client

ACME = "/api/organizations/acme"
SHOP = f"{ACME}/services/shop"
NEW_SERVICE = {"slug": "left", "name": "Left", "service_type": "web", "redirect_uris": ["https://elsewhere.example/callback"]}
PLAN = {"name": "Cheap", "price_cents": 1, "currency": "usd"}
ROUTE = {"domain": "acme.example", "login_policy": "password_allowed", "join_policy": "on"}
CLERK = (
    *BuiltInRole.MEMBER.capabilities,
    *(Capability.SERVICES_MANAGE, Capability.SERVICES_CREATE, Capability.SETTINGS_MANAGE),
    *(Capability.MEMBERS_MANAGE, Capability.INTEGRATIONS_MANAGE),
)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{SHOP}/client-secrets", None),
        ("PATCH", SHOP, {"redirect_uris": ["https://elsewhere.example/callback"]}),
        ("POST", f"{ACME}/services", NEW_SERVICE),
        ("PATCH", ACME, {"name": "Left"}),
        ("POST", f"{SHOP}/plans", PLAN),
        ("PATCH", f"{SHOP}/plans/{{plan}}", PLAN),
        ("DELETE", f"{SHOP}/plans/{{plan}}", None),
        ("POST", f"{ACME}/domain-routes", ROUTE),
        ("POST", f"{ACME}/scim-tokens", {"name": "left"}),
    ],
)
@pytest.mark.parametrize("loss", ["delete from memberships where user_id = %s", "delete from relations where user_id = %s"])
async def test_what_is_asked_in_the_last_moment_is_not_done(
    client: Client, postern: Postern, people: People, emptied_database_url: str, method: str, path: str, body: Any, loss: str
) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    shop, plan = tenants.service(acme, "shop"), uuid4()
    people.change(
        "insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)"
        " values (%s, %s, 'Pro', 9, 'usd', now(), now())",
        plan,
        shop.id,
    )
    clerk = tenants.member(acme, tenants.role(acme, "clerk", CLERK))
    token = await tenants.token(clerk)
    answers: list[Received] = []

    async def ask() -> None:
        answers.append(await client.request(method, path.format(plan=plan), body=body, token=token))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await people.somebody_waits()
            other.execute(loss.encode(), (clerk.user,))
            other.commit()
    assert (answers[0].status, answers[0].error_code) == (403, "FORBIDDEN")
    assert people.rows("select * from client_secrets") == []
    assert people.rows("select redirect_uris from services") == [{"redirect_uris": []}]
    assert people.rows("select name from plans") == [{"name": "Pro"}]
    assert people.rows("select name from organizations") == [{"name": "Acme"}]
    assert people.rows("select from domain_routes union all select from scim_tokens") == []
    assert people.rows("select * from audit_entries") == []

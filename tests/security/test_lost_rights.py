"""Lost rights: a request that waits while its caller loses a right no longer does what the right allowed. This file covers what outlives
the request; members, roles, invitations and API keys have such tests in their own files.
"""

from typing import Any

import psycopg
import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.client import Client, Received
from tests.http.people import People
from tests.http.tenants import Tenants

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client

SHOP = "/api/organizations/acme/services/shop"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{SHOP}/client-secrets", None),
        ("PATCH", SHOP, {"redirect_uris": ["https://elsewhere.example/callback"]}),
    ],
)
@pytest.mark.parametrize("loss", ["delete from memberships where user_id = %s", "delete from relations where user_id = %s"])
async def test_what_is_asked_in_the_last_moment_is_not_done(
    client: Client, postern: Postern, people: People, emptied_database_url: str, method: str, path: str, body: Any, loss: str
) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    tenants.service(acme, "shop")
    clerk = tenants.member(acme, tenants.role(acme, "clerk", [Capability.SERVICES_MANAGE]))
    token = await tenants.token(clerk)
    answers: list[Received] = []

    async def ask() -> None:
        answers.append(await client.request(method, path, body=body, token=token))

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
    assert people.rows("select * from audit_entries") == []

"""Each entry is in the right log: acts of API keys under the key's name, and acts on an account in all organizations of the person."""

from typing import Any, Final

import pytest

from core.domain.secrets import Password
from tests.http.people import Person
from tests.http.service_interface import Backend
from tests.http.services import conftest as services
from tests.http.subscribing import Market
from tests.http.tenants import Tenant

OLD, NEW = "an old and tired password", "a fresh and lively password"
CHANGE: Final = "/api/user/change-password"
market = services.market


async def logged(market: Market, tenant: Tenant, reader: Person, query: str = "") -> list[dict[str, Any]]:
    path = f"/api/organizations/{tenant.slug}/audit-log{query}"
    answer = await market.client.get(path, token=await market.tenants.token(reader))
    assert answer.status == 200, answer.body
    entries: list[dict[str, Any]] = answer.json()["logs"]
    return entries


async def key_record(market: Market) -> dict[str, Any]:
    (row,) = market.people.rows("select id, name, prefix from api_keys where service_id = %s", market.shop.id)
    return row


async def test_what_a_key_does_stands_in_the_log_under_its_name(market: Market) -> None:
    key = await key_record(market)
    ada = await Backend(market, market.shop).create("ada@example.org")
    subscription = await market.subscribed(ada, market.plan())
    expected = {
        "id": str(key["id"]),
        "email": None,
        "name": None,
        "is_platform_owner": False,
        "api_key": {"name": "key", "prefix": key["prefix"]},
    }
    entries = await logged(market, market.acme, market.admin)
    assert [(one["action"], one["actor"]) for one in entries] == [("subscription.created", expected), ("user.signup.success", expected)]
    assert entries[1]["details"] == {
        "provider": "api_key",
        "service_id": str(market.shop.id),
        "service_slug": "shop",
        "api_key_id": str(key["id"]),
    }
    assert entries[0]["target_id"] == subscription["id"]
    # A filter finds the key like any other actor. A person as actor has no key.
    assert len(await logged(market, market.acme, market.admin, f"?actor_id={key['id']}")) == 2
    assert (await logged(market, market.acme, market.admin, f"?actor_id={market.admin.user}")) == []


async def test_the_log_goes_on_naming_a_key_as_it_was_when_it_is_renamed_and_when_it_is_gone(market: Market) -> None:
    key = await key_record(market)
    await Backend(market, market.shop).create("ada@example.org")
    market.people.change("update api_keys set name = 'other' where id = %s", key["id"])
    token = await market.tenants.token(market.admin)
    answer = await market.client.request("DELETE", f"/api/organizations/acme/services/shop/api-keys/{key['id']}", token=token)
    assert answer.status == 204
    while await market.postern.record.audit.link():
        pass
    deleted, made = await logged(market, market.acme, market.admin)
    assert made["actor"]["api_key"] == {"name": "key", "prefix": key["prefix"]}
    assert deleted["actor"] == {"id": str(market.admin.user), "email": market.admin.email, "name": None, "is_platform_owner": False}


async def test_the_request_log_names_the_key(market: Market) -> None:
    key = await key_record(market)
    reader = market.key_of(market.shop, ())
    market.log.entries.clear()
    for text in (market.key, "sk_nobody_0", reader):
        await market.client.request("GET", "/api/service/users", headers=[("x-api-key", text)])
    (limited,) = market.people.rows("select id from api_keys where id <> %s and service_id = %s", key["id"], market.shop.id)
    assert [(line["status"], line.get("api_key_id")) for line in market.log.events("request")] == [
        (200, str(key["id"])),
        (401, None),
        (403, str(limited["id"])),
    ]


@pytest.fixture
async def ada(market: Market) -> Person:
    """A member of acme, a user of globex's app, with a password."""
    person = market.tenants.member(market.acme, "member", "ada@example.org")
    market.tenants.uses(person, market.theirs)
    encoded = await market.postern.identity.passwords.hash(Password(OLD))
    market.people.change("update users set email_verified_at = now(), password_hash = %s where id = %s", encoded, person.user)
    return person


async def test_a_changed_password_stands_in_the_log_of_every_organization_whose_member_the_person_is(market: Market, ada: Person) -> None:
    initech = market.tenants.add("initech")
    market.tenants.join(ada, initech)
    readers = {tenant.slug: market.tenants.member(tenant, "admin") for tenant in (market.globex, initech)} | {"acme": market.admin}
    answer = await market.client.post(CHANGE, {"current_password": OLD, "new_password": NEW}, token=await market.tenants.token(ada))
    assert answer.status == 200, answer.body
    for tenant in (market.acme, initech):
        (entry,) = await logged(market, tenant, readers[tenant.slug])
        assert (entry["action"], entry["target_id"], entry["details"]) == ("security.password.changed", str(ada.user), {"how": "changed"})
        assert entry["actor"]["id"] == str(ada.user)
        # The person did not belong to these at that time.
        assert (entry["ip_address"], entry["user_agent"]) == (None, None)
    # A person who only uses the organization's application is no member.
    assert await logged(market, market.globex, readers["globex"]) == []


async def test_many_memberships_cost_no_more_statements_than_one(market: Market, ada: Person) -> None:
    async def change(old: str, new: str) -> int:
        market.log.entries.clear()
        answer = await market.client.post(CHANGE, {"current_password": old, "new_password": new}, token=await market.tenants.token(ada))
        assert answer.status == 200, answer.body
        (line,) = market.log.events("request")
        trips: int = line["db_round_trips"]
        return trips

    await change(OLD, NEW)
    one = await change(NEW, OLD)
    market.people.change(
        "insert into organizations (id, slug, name, status, created_at, updated_at)"
        " select gen_random_uuid(), 'many-' || n, 'Many', 'active', now(), now() from generate_series(1, 200) as n"
    )
    market.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
        " select gen_random_uuid(), id, %s, 'member', now(), now() from organizations where slug like 'many-%%'",
        ada.user,
    )
    assert await change(OLD, NEW) == one
    (row,) = market.people.rows("select count(*) as n from audit_entries where action = 'security.password.changed'")
    assert row["n"] == 2 + 2 + 202

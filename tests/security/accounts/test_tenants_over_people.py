"""Tenants and people: a tenant that makes a person a user learns nothing of the person's account, and cannot do so in bulk."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from core.domain.services.service_users import ADDITIONS
from tests.http import conftest as http
from tests.http.machinery.limited import until_refused
from tests.http.people import Person
from tests.http.service_interface import USERS, Backend
from tests.http.services import conftest as services
from tests.http.signing_in import PASSWORD
from tests.http.subscribing import Market

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
market, shop = services.market, services.shop
LONG_AGO: Final = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
ADA: Final = "ada@example.org"


@pytest.fixture
async def ada(market: Market) -> Person:
    """A person with an account of her own: old, verified, with a second factor."""
    person = await market.people.with_password(PASSWORD, ADA)
    market.people.change("update users set created_at = %s, updated_at = %s where id = %s", LONG_AGO, LONG_AGO, person.user)
    market.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", person.user
    )
    return person


async def told(market: Market, shop: Backend, person: Person) -> dict[str, list[Any]]:
    """All fields about the person that a tenant gets in answers."""
    found: dict[str, list[Any]] = {}

    def gather(answer: dict[str, Any]) -> None:
        for name, value in answer.items():
            found.setdefault(name, []).append(value)

    gather((await shop.get(person)).json())
    gather((await shop.ask("PATCH", f"{USERS}/{person.user}", {})).json())
    gather((await shop.ask("POST", body={"email": person.email})).json())
    (listed,) = (await shop.ask("GET")).json()["users"]
    gather(listed)
    token = await market.tenants.token(market.admin)
    path = "/api/organizations/acme/users"
    for query in ("", f"?service_id={market.shop.id}", "?search=ada"):
        (summary,) = (await market.client.get(path + query, token=token)).json()["users"]
        gather(summary)
    gather((await market.client.get(f"{path}/{person.user}", token=token)).json())
    return found


async def test_a_tenant_that_makes_somebody_its_user_learns_nothing_of_the_account(market: Market, shop: Backend, ada: Person) -> None:
    before = market.now
    answer = await shop.ask("POST", body={"email": ADA})
    assert answer.status == 200
    since = answer.json()["created_at"]
    assert before <= datetime.fromisoformat(since) <= market.now
    found = await told(market, shop, ada)
    assert found["created_at"] == [since] * 8
    assert found["updated_at"] == [since]
    assert (found["mfa_enabled"], found["email_verified"]) == ([False] * 4, [False])
    assert found["last_login_at"] == [None] * 4


async def test_what_somebody_does_elsewhere_is_not_told_either(market: Market, shop: Backend, ada: Person) -> None:
    await shop.create(ADA)
    market.tenants.uses(ada, market.theirs, first=LONG_AGO + timedelta(days=1), last=market.now)
    market.people.change("update users set updated_at = now() where id = %s", ada.user)
    found = await told(market, shop, ada)
    assert len(set(found["created_at"] + found["updated_at"])) == 1
    assert set(found["mfa_enabled"] + found["email_verified"]) == {False}


async def test_who_has_come_by_themselves_is_shown_as_they_are(market: Market, shop: Backend, ada: Person) -> None:
    await shop.create(ADA)
    market.people.change(
        "update service_users set first_login_at = now(), last_login_at = now(), own_since = now() where user_id = %s", ada.user
    )
    found = await told(market, shop, ada)
    assert {datetime.fromisoformat(value) for value in found["created_at"]} == {LONG_AGO}
    assert (found["mfa_enabled"], found["email_verified"]) == ([True] * 4, [True])


async def test_in_another_service_of_the_organization_they_are_known_to_the_organization_alone(
    market: Market, shop: Backend, ada: Person
) -> None:
    await shop.create(ADA)
    market.tenants.uses(ada, market.app, first=market.now, last=market.now)
    created = (await shop.get(ada)).json()["created_at"]
    assert datetime.fromisoformat(created) > LONG_AGO
    token = await market.tenants.token(market.admin)
    detail = (await market.client.get(f"/api/organizations/acme/users/{ada.user}", token=token)).json()
    assert datetime.fromisoformat(detail["created_at"]) == LONG_AGO
    assert detail["mfa_enabled"] is detail["email_verified"] is True


async def test_a_key_adds_only_so_many_and_is_told_when_it_may_go_on(market: Market, shop: Backend) -> None:
    statuses, refused = await until_refused(ADDITIONS, lambda: shop.ask("POST", body={"email": f"{uuid4()}@example.org"}))
    assert set(statuses) == {200}
    assert (refused.error_code, int(refused.header("retry-after") or 0) >= 1) == ("RATE_LIMIT_EXCEEDED", True)
    # Another key has its own bucket, and reading does not count as adding.
    assert (await Backend(market, market.app).ask("POST", body={"email": "1@example.org"})).status == 200
    assert (await shop.ask("GET")).status == 200


async def test_the_old_address_is_told_when_a_service_moves_the_account(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    before = {row["id"] for row in market.people.rows("select id from jobs")}
    assert (await shop.move(ada, "new@example.org")).status == 200
    (job,) = [row for row in market.people.rows("select id, kind from jobs") if row["id"] not in before]
    assert job["kind"] == "mail"
    # A move to the account's present address changes nothing, and sends no event.
    assert (await shop.move(ada, "new@example.org")).status == 200
    assert len(market.people.rows("select id from jobs")) == len(before) + 1

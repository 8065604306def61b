"""Attacks on rules for risk: sessions that go on to where a rule would ask, other ways in, and tenants that list somebody."""

from typing import Any, Final
from uuid import uuid4

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.arriving import Arriving
from tests.http.federation.devices import Sets
from tests.http.federation.relying import oauth
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

HERE: Final = {"networks": ["192.0.2.0/24"]}


def policy(action: str, **when: Any) -> dict[str, Any]:
    return {"id": str(uuid4()), "name": "A rule", "when": when or HERE, "action": action, "counts": False}


async def count(scene: Arriving | Sets, owner: Person, slug: str, *policies: dict[str, Any]) -> None:
    """Saves the rules in shadow, and then lets them count."""
    for counts in (False, True):
        body = {"policies": [{**one, "counts": counts} for one in policies]}
        assert (await scene.request("PUT", f"/api/organizations/{slug}/risk-policies", body, by=owner)).status == 200


@pytest.fixture
async def arriving(postern: Postern, people: People, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, unlimited(postern), log)


@pytest.fixture
async def sets(postern: Postern, people: People, log: CapturedLog) -> Sets:
    return Sets(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("way", ["base", "another service"])
async def test_a_rule_for_one_service_keeps_out_a_session_that_goes_on_to_it(arriving: Arriving, way: str) -> None:
    owner = arriving.resident(arriving.acme, "owner")
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    other = arriving.application(arriving.acme, "other", "https://app.example.com/callback")
    for service in (arriving.app, other):
        arriving.allow(grace, service)
    await count(arriving, owner, "acme", policy("second_factor", services=[str(arriving.app.id)]))
    tab = await arriving.browser().tab().open("/ui/sign-in" if way == "base" else arriving.asking(other))
    await tab.send(email=grace.email)
    await tab.send(password=PASSWORD)
    (session,) = arriving.people.rows("select id from sessions where user_id = %s and parent_id is null", grace.user)
    assert arriving.people.rows("select 1 from browser_sessions where session_id = %s", session["id"])
    await tab.open(arriving.asking())
    assert tab.place.startswith("/ui/sign-in")
    # The other one is open to it.
    await tab.open(arriving.asking(other))
    assert not tab.place.startswith("/ui/sign-in")


async def test_a_device_asks_by_the_way_of_whoever_approves_it(sets: Sets) -> None:
    owner = sets.resident(sets.acme, "owner")
    sets.tenants.join(sets.ada, sets.acme)
    sets.people.change("update sessions set authenticated_by = '{pwd}', proved_at = now() where id = %s", sets.ada.session)
    await count(sets, owner, "acme", policy("refuse", ways=["password"]))
    codes = await sets.ask_for_codes()
    await sets.approve(codes)
    assert oauth(await sets.poll(codes)) == (400, "access_denied")


async def test_no_crowd_of_tenants_that_list_somebody_slows_their_sign_ins(arriving: Arriving) -> None:
    grace = await arriving.people.with_password(PASSWORD, "grace@acme.example")
    tenants = [arriving.tenants.add(f"lister-{number}") for number in range(12)]
    for tenant in tenants:
        owner = arriving.resident(tenant, "owner", f"owner of {tenant.slug}")
        await count(arriving, owner, tenant.slug, policy("refuse"))
        arriving.tenants.join(grace, tenant, listed=True)
    own = arriving.tenants.join(grace, arriving.acme)
    await count(arriving, arriving.resident(arriving.acme, "owner"), "acme", policy("refuse"))
    assert (await Browser(arriving.unlimited).login(own)).status == 200
    (session,) = arriving.people.rows("select kept_out_by from sessions where user_id = %s", grace.user)
    assert len(session["kept_out_by"]) == 11
    assert arriving.acme.id in session["kept_out_by"]


async def test_tries_of_strangers_push_nothing_out_of_what_a_tenant_has_seen(arriving: Arriving) -> None:
    owner = arriving.resident(arriving.acme, "owner")
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme, listed=True)
    browser, into = Browser(arriving.unlimited), {"org_slug": "acme", "service_slug": "app"}
    for _ in range(2):
        assert (await browser.login(grace, **into)).status == 200
    arriving.people.change(
        "insert into login_events (id, user_id, provider, success, reason, risk_score, risk_factors, flagged, created_at)"
        " select gen_random_uuid(), %s, 'password', false, 'wrong_password', 0, '{}', false, now() from generate_series(1, 300)",
        grace.user,
    )
    arriving.people.change(
        "update login_events set id = ('ff' || substr(id::text, 3))::uuid where not success and user_id = %s", grace.user
    )
    await count(arriving, owner, "acme", policy("refuse", new_device=True))
    assert (await browser.login(grace, **into)).status == 200

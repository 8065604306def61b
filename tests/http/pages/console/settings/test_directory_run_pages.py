"""The runs of a directory by LDAP in the console, and an owner's word about one that waits."""

from typing import Any, Final

import pytest
from psycopg.types.json import Jsonb

from tests.http.pages.console.conftest import HOME, ConsoleScene

_COUNTS: Final = {"read": 9, "came": 2, "held_back": 1, "left_out": 1, "reasons": {"no_address": 1}}
_LEFT_OUT: Final = {"read": 9, "left_out": 2, "reasons": {"listed_by_scim": 1, "may_more": 1}}


async def _waiting(console: ConsoleScene, **settings: Any) -> tuple[str, str]:
    """A connection whose first plan waits. Only a reading of a real directory makes one."""
    await console.at("/directories/~new")
    await console.submit("/directories/~new", kind="openldap", name="Acme directory")
    kept = Jsonb({"keeps_in_step": True, **settings})
    console.people.change("update upstream_providers set state = 'active', enabled = true, ldap = ldap || %s", kept)
    (provider,) = console.people.rows("select id, org_id from upstream_providers")
    steps = console.postern.federation.directory_keeping
    (step,) = await steps.claim_due(10)
    run, digest = console.postern.foundation.ids.new(), (await console.postern.tenancy.upstream_providers.lookup.list(step.organization))[0]
    console.people.change(
        "insert into directory_runs (id, org_id, connection_id, kind, state, started_at, ended_at, counts, settings_digest, digest)"
        " values (%s, %s, %s, 'plan', 'waiting', now(), now(), %s, %s, %s)",
        *(run, provider["org_id"], provider["id"], Jsonb(_COUNTS), digest.digest, b"d" * 32),
    )
    for place, (what, reason, named) in enumerate((("end", "gone", "<b>bob</b>@acme.example"), ("left_out", "no_address", "uid=eve"))):
        console.people.change(
            "insert into directory_run_people (run_id, org_id, place, what, reason, named) values (%s, %s, %s, %s, %s, %s)",
            *(run, provider["org_id"], place, what, reason, named),
        )
    return f"/directories/{provider['id']}/runs", str(run)


async def test_a_run_that_waits_names_whom_it_would_end_and_goes_on_by_an_owners_press(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    listed = (await console.at(runs)).page.text
    assert "Pending approval" in listed
    shown = await console.at(f"{runs}/{run}")
    assert "No longer in the directory" in shown.page.text
    assert "No email address" in shown.page.text
    assert b"<b>bob" not in shown.shown.body
    asked = await console.at(f"{runs}/{run}/go-on")
    assert "acme.example" in asked.page.text
    done = await console.submit(f"{runs}/{run}/go-on")
    assert done.status == 200, done.shown.body
    assert console.people.rows("select state from directory_runs") == [{"state": "agreed"}]
    assert "Pending approval" not in (await console.at(f"{runs}/{run}")).page.text


async def test_an_owner_leaves_a_run_and_starts_another(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    await console.at(f"{runs}/{run}/leave")
    await console.submit(f"{runs}/{run}/leave")
    assert console.people.rows("select state from directory_runs") == [{"state": "left"}]
    assert "No sync run is scheduled" in (await console.at(f"{runs}/{run}")).page.text
    provider = runs.removesuffix("/runs")
    await console.at(provider)
    await console.submit(f"{provider}/run")
    assert console.people.rows("select wants_whole, next_at is not null as due from directory_steps") == [
        {"wants_whole": True, "due": True}
    ]


async def test_others_see_no_button_and_strangers_see_nothing(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    admin = await console.colleague("admin").open(f"{HOME}{runs}/{run}")
    assert "To be removed" in admin.page.text
    assert f"{HOME}{runs}/{run}/go-on" not in admin.shown.body.decode()
    _, stranger = console.stranger()
    assert (await stranger.open(f"{HOME}{runs}/{run}")).status in {403, 404}
    assert (await stranger.open(f"/ui/o/globex{runs}/{run}")).status == 404


async def _whole(console: ConsoleScene) -> tuple[str, str]:
    """A run of everybody that has left out eve, because SCIM lists her, and grace, an administrator whom the directory names no more."""
    runs, run = await _waiting(console)
    provider = runs.split("/")[2]
    eve, grace = console.people.add("eve@acme.example"), console.people.add("grace@acme.example")
    console.tenants.join(eve, console.acme, "member")
    console.tenants.join(grace, console.acme, "admin")
    console.people.change("update directory_runs set kind = 'whole', state = 'done', counts = %s", Jsonb(_LEFT_OUT))
    console.people.change(
        "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'acme.example', 'token', now(), now() + interval '7 days', now(), now())",
        console.acme.id,
    )
    console.people.change(
        "insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at)"
        " values (gen_random_uuid(), %s, 'SCIM', 'scim', 'x', %s, now())",
        *(console.acme.id, console.ada.user),
    )
    console.people.change(
        "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, true, now(), now())",
        *(console.acme.id, eve.user),
    )
    console.people.change(
        "insert into directory_people (connection_id, external_id, org_id, user_id, digest, is_active) values (%s, 'g', %s, %s, '', true)",
        *(provider, console.acme.id, grace.user),
    )
    for place, (reason, who, key) in enumerate((("listed_by_scim", eve, b"e"), ("may_more", grace, b"g"))):
        console.people.change(
            "insert into directory_run_people (run_id, org_id, place, what, reason, named, user_id, external_id)"
            " values (%s, %s, %s, 'left_out', %s, %s, %s, %s)",
            *(run, console.acme.id, 10 + place, reason, who.email, who.user, key),
        )
    return runs, run


async def test_an_owner_takes_people_over_from_scim(console: ConsoleScene) -> None:
    runs, run = await _whole(console)
    shown = (await console.at(f"{runs}/{run}")).page.text
    assert "People that you can take over from SCIM" in shown
    assert "Stays a member, managed by this directory" in shown
    asked = await console.at(f"{runs}/{run}/take-over")
    assert "eve@acme.example" in asked.page.text
    assert "grace@acme.example" not in asked.page.text
    assert "Postern rejects SCIM requests about them" in asked.page.text
    done = await console.submit(f"{runs}/{run}/take-over")
    assert done.status == 200, done.shown.body
    listed = "select is_active from directory_people join users on users.id = user_id where email = 'eve@acme.example'"
    assert console.people.rows(listed) == [{"is_active": True}]
    assert console.people.rows("select is_scims from provisioned_users") == [{"is_scims": False}]
    assert "People that you can take over" not in (await console.at(f"{runs}/{run}")).page.text


@pytest.mark.parametrize(("act", "stays"), [("keep", True), ("end", False)])
async def test_an_owner_decides_once_about_people_who_may_more(console: ConsoleScene, act: str, stays: bool) -> None:
    runs, run = await _whole(console)
    asked = await console.at(f"{runs}/{run}/{act}")
    assert "grace@acme.example" in asked.page.text
    assert "eve@acme.example" not in asked.page.text
    done = await console.submit(f"{runs}/{run}/{act}")
    assert done.status == 200, done.shown.body
    members = "select 1 from memberships join users on users.id = user_id where email = 'grace@acme.example'"
    assert bool(console.people.rows(members)) is stays
    assert "Privileged members who are no longer" not in (await console.at(f"{runs}/{run}")).page.text


async def test_a_plan_names_who_comes_page_by_page(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    for place in range(30):
        console.people.change(
            "insert into directory_run_people (run_id, org_id, place, what, reason, named) values (%s, %s, %s, 'comes', 'comes', %s)",
            *(run, console.acme.id, 1_000_000 + place, f"New{place:02} <new{place:02}@acme.example>"),
        )
    assert "New29 <new29@acme.example>" in (await console.at(f"{runs}/{run}")).page.text
    first = (await console.at(f"{runs}/{run}/people")).page.text
    assert "New00 <new00@acme.example>" in first
    assert "New29" not in first
    assert "New29" in (await console.at(f"{runs}/{run}/people?page=2")).page.text


async def test_the_page_says_what_happens_to_people_before_the_connection_goes(console: ConsoleScene) -> None:
    runs, _ = await _waiting(console)
    provider = runs.removesuffix("/runs")
    assert "If you turn this off, people stay members" in (await console.at(provider)).page.text
    assert "People from its directory stay members" in (await console.at(f"{provider}/end")).page.text

"""Runs that something overtakes, and what a directory says that is hardly ever said."""

from typing import Any

import psycopg
import trio

from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapStep
from core.frozen import replace
from tests.http.ldap.keeping import KeepingScene, group, named
from tests.http.ldap.scene import PATH
from tests.http.ldap.test_fields import FIELDS

TAKE_OVER = "update directory_steps set holder = gen_random_uuid()"


async def whole(keeping: KeepingScene, provider: str) -> dict[str, Any]:
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    return await keeping.step(provider)


async def test_whoever_registered_an_address_before_its_person_came_loses_it(keeping: KeepingScene) -> None:
    (await keeping.client.post("/api/auth/register", {"email": "person1@example.org", "password": "correct-horse-battery"})).ok()
    thief = keeping.user("person1@example.org")
    keeping.people.change("update users set name = 'Thief' where id = %s", thief)
    await keeping.begun(named(1))
    assert keeping.user("person1@example.org") == thief
    assert keeping.people.rows("select password_hash from users where id = %s", thief) == [{"password_hash": None}]


async def test_a_member_of_before_is_listed_without_joining_again(keeping: KeepingScene) -> None:
    member = keeping.tenants.member(keeping.acme, "member", "person1@example.org")
    await keeping.begun(named(1))
    assert keeping.user("person1@example.org") == member.user
    assert keeping.people.rows("select is_active from directory_people where user_id = %s", member.user) == [{"is_active": True}]
    joined = "select from audit_entries where action = 'user.joined' and target_id = %s"
    assert keeping.people.rows(joined, str(member.user)) == []


async def test_somebody_registers_the_address_at_this_moment(keeping: KeepingScene, emptied_database_url: str) -> None:
    """For a newcomer, and for somebody whose address moves."""
    provider = await keeping.begun(named(1))
    keeping.memory.everybody = [named(1, "moved@example.org"), named(2)]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    with psycopg.connect(emptied_database_url) as other:
        for address in ("moved@example.org", "person2@example.org"):
            other.execute("insert into users (id, email, email_key) values (gen_random_uuid(), %s, %s)", (address, address))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeping.step, provider)
            await keeping.people.somebody_waits()
            other.commit()
    assert (await keeping.newest(provider))["reasons"] == {"address_of_another": 1}
    assert {"person1@example.org"} <= set(keeping.members())
    assert not {"moved@example.org", "person2@example.org"} & set(keeping.members())


async def test_a_value_that_does_not_fit_its_field_stops_no_run(keeping: KeepingScene) -> None:
    (await keeping.request("POST", FIELDS, {"key": "grade", "label": "Grade", "kind": "number", "written_by": ["directory"]})).ok(201)
    await keeping.begun(named(1, grade="many"), profile_mapping={"grade": "grade"})
    assert "person1@example.org" in keeping.members()


async def test_what_is_no_address_is_none(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2, "two words@example.org"))
    assert (await keeping.newest(provider))["reasons"] == {"no_address": 1}


async def test_groups_that_stay_as_they_are_change_nothing(keeping: KeepingScene) -> None:
    await keeping.with_teams()
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.listed_groups = [group(1, "Staff", 1, 2)]
    assert (await whole(keeping, provider))["teams"] == 1
    assert (await whole(keeping, provider))["teams"] == 0
    run = await keeping.step(provider)
    assert (run["kind"], run["teams"]) == ("changes", 0)
    # A group that was too large to be read whole takes nobody out.
    keeping.memory.listed_groups = [replace(group(1, "Staff", 1), is_cut=True)]
    await whole(keeping, provider)
    assert keeping.teams_of("staff") == {"person1@example.org", "person2@example.org"}


async def test_a_connection_that_goes_before_its_run_has_none(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    (step,) = await keeping.due()
    assert (await keeping.request("DELETE", f"{PATH}/{provider}", None)).status == 204
    await keeping.keeping.run(step)
    assert keeping.people.rows("select id from directory_runs") == []


async def test_a_plan_names_those_whom_it_would_end(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.people.change("update directory_steps set agreed_digest = ''")
    keeping.memory.everybody = [named(1)]
    run = await keeping.step(provider)
    assert (run["kind"], run["state"]) == ("plan", "waiting")
    ends = [one["named"] for one in (await keeping.shown(provider, run))["people"] if one["what"] == "end"]
    assert ends == ["person2@example.org"]


async def test_a_run_that_was_taken_over_neither_fails_nor_ends_for_the_other(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))

    async def taken_over() -> None:
        keeping.people.change(TAKE_OVER)

    keeping.memory.meanwhile = taken_over
    keeping.memory.fault = LdapFailed(LdapStep.CONNECTION, LdapFault.TOO_SLOW)
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["state"] == "running"
    # At its very end, too.
    keeping.memory.fault = None
    keeping.people.change("update directory_runs set state = 'over' where state = 'running'")
    keeping.people.change("update directory_steps set leased_until = null, next_at = now(), runs = 3, wants_whole = false")
    run = await keeping.step(provider)
    assert (run["kind"], run["state"]) == ("identities", "failed")

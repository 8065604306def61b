"""Keeping in step under attack: by a directory that says what is not so, two directories, two processes, and one that is killed."""

from contextlib import suppress
from uuid import UUID

import trio

from core.domain.identity.upstream.ldap.surveys import LdapPerson
from tests.http.ldap.keeping import KeepingScene, group, named
from tests.http.ldap.scene import PATH


async def test_of_two_people_with_one_identity_the_second_is_left_out(keeping: KeepingScene) -> None:
    twin = LdapPerson(identity=named(1).identity, dn="uid=twin", is_disabled=False, values={"mail": ("twin@example.org",)})
    provider = await keeping.begun(named(1), twin)
    assert "twin@example.org" not in keeping.members()
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    run = await keeping.step(provider)
    assert run["reasons"] == {"twice": 1}
    assert "person1@example.org" in keeping.members()


async def test_whoever_gets_an_old_address_gets_nobodys_account_with_it(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    first = keeping.user("person1@example.org")
    keeping.memory.everybody = [named(2)]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["ended"] == 1
    keeping.memory.everybody = [named(2), named(3, "person1@example.org")]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["reasons"] == {"address_of_another": 1}
    assert "person1@example.org" not in keeping.members()
    assert keeping.people.rows("select external_id from directory_people where user_id = %s", first) == [{"external_id": named(1).identity}]


async def test_an_address_moves_with_its_person_and_then_is_free(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    first = keeping.user("person1@example.org")
    keeping.memory.changed = [named(1, "renamed@example.org"), named(3, "person1@example.org")]
    await keeping.step(provider)
    assert keeping.user("renamed@example.org") == first
    keeping.memory.everybody = [named(1, "renamed@example.org"), named(2), named(3, "person1@example.org")]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    await keeping.step(provider)
    assert keeping.user("person1@example.org") != first


async def test_nobody_takes_an_address_that_its_owner_has_proved(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    keeping.people.change("update users set email_verified_at = now(), address_vouched_by = null where email = 'person1@example.org'")
    keeping.memory.changed = [named(1, "other@example.org")]
    run = await keeping.step(provider)
    assert run["reasons"] == {"address_stays": 1}
    assert "person1@example.org" in keeping.members()


async def test_a_directory_names_nobody_of_another_organization(keeping: KeepingScene) -> None:
    """Addresses of others are outside the proved domains; platform owners are out of reach also within."""
    globex = keeping.tenants.add("globex")
    theirs = keeping.tenants.member(globex, "member", "bob@globex.example")
    owner = keeping.people.add("root@example.org")
    keeping.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    provider = await keeping.begun(named(1), named(2, "bob@globex.example"), named(3, "root@example.org"))
    runs = (await keeping.request("GET", f"{PATH}/{provider}/runs")).ok()["runs"]
    assert runs[0]["reasons"] == {"other_domain": 1, "not_for_account": 1}
    rows = keeping.people.rows("select org_id from memberships where user_id = %s", theirs.user)
    assert rows == [{"org_id": UUID(str(globex.id))}]
    boss = keeping.resident(globex, "owner", "boss2")
    there = PATH.replace("acme", "globex")
    for method, path in (("GET", "runs"), ("POST", "runs"), ("GET", f"runs/{runs[0]['id']}"), ("POST", f"runs/{runs[0]['id']}/leave")):
        assert (await keeping.request(method, f"{there}/{provider}/{path}", None if method == "GET" else {}, by=boss)).status == 404
        assert (await keeping.request(method, f"{PATH}/{provider}/{path}", None if method == "GET" else {}, by=boss)).status == 403


async def test_a_group_named_as_a_role_gives_no_role(keeping: KeepingScene) -> None:
    await keeping.with_teams()
    keeping.memory.listed_groups = [group(1, "admin", 1), group(2, "owner", 1), group(3, "\0\n", 1)]
    await keeping.begun(named(1))
    assert {row["role"] for row in keeping.people.rows("select role from teams")} == {None}
    assert keeping.members()["person1@example.org"]["role"] == "member"


async def test_scim_and_ldap_about_one_person(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    theirs = await keeping.by_scim("person1@example.org")
    provider = await keeping.begun(named(1), named(2))
    assert (await keeping.newest(provider))["reasons"] == {"listed_by_scim": 1}
    keeping.memory.everybody = [named(2)]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["ended"] == 0, "SCIM lists the person, so LDAP does not end them"
    assert (await keeping.off_by_scim(keeping.user("person2@example.org"))).status == 409
    assert (await keeping.scim("DELETE", f"/Users/{keeping.user('person2@example.org')}")).status == 409
    empty = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Acme", "members": [{"value": theirs}]}
    assert (await keeping.scim("PUT", f"/Groups/{keeping.acme.id}", empty)).status in {200, 204}
    assert "person2@example.org" in keeping.members()
    assert (await keeping.off_by_scim(theirs)).ok()["active"] is False


async def test_scim_sees_no_team_that_ldap_fills(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    await keeping.with_teams()
    keeping.memory.listed_groups = [group(1, "Staff", 1)]
    await keeping.begun(named(1))
    (team,) = keeping.people.rows("select id from teams where slug = 'staff'")
    assert (await keeping.scim("GET", f"/Groups/{team['id']}")).status == 404
    assert (await keeping.scim("DELETE", f"/Groups/{team['id']}")).status == 404
    assert "Staff" not in str((await keeping.scim("GET", "/Groups")).ok())


async def test_two_directories_about_one_person(keeping: KeepingScene) -> None:
    await keeping.begun(named(1))
    second = await keeping.draft(name="Second", keeps_in_step=True)
    await keeping.test(second)
    (await keeping.activate(second)).ok()
    plan = await keeping.step(second)
    assert plan["reasons"] == {"listed_by_another": 1}


async def test_a_connection_that_was_changed_since_the_plan_is_planned_anew(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(1)]
    provider = await keeping.in_step()
    plan = await keeping.step(provider)
    (await keeping.change(provider, person_filter="(uid=*)")).ok()
    assert (await keeping.go_on(provider, plan)).status in {400, 409}
    page = await keeping.test(provider)
    assert b"All checks passed" in page.body
    (await keeping.activate(provider)).ok()
    assert (await keeping.go_on(provider, plan)).status == 409
    assert (await keeping.step(provider))["kind"] == "plan"
    assert "person1@example.org" not in keeping.members()


async def test_a_run_stops_when_its_connection_is_changed_meanwhile(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    keeping.memory.changed, keeping.memory.page = [named(2), named(3)], 1

    async def change() -> None:
        await keeping.change(provider, person_filter="(uid=*)")

    keeping.memory.meanwhile = change
    for step in await keeping.due():
        await keeping.keeping.run(step)
    assert "person2@example.org" in keeping.members()
    assert "person3@example.org" not in keeping.members()
    assert (await keeping.newest(provider))["fault"] == "interrupted"


async def test_of_two_processes_one_makes_the_run(keeping: KeepingScene) -> None:
    await keeping.in_step()
    claimed = list[int]()

    async def claim() -> None:
        claimed.append(len(await keeping.keeping.claim_due(10)))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claim)
    assert sorted(claimed) == [0, 0, 0, 1]


async def test_a_run_that_was_taken_over_writes_nothing_more(keeping: KeepingScene) -> None:
    """As after `kill -9`, or a process that slept for longer than its lease."""
    provider = await keeping.begun(named(1))
    keeping.memory.changed, keeping.memory.page = [named(2), named(3)], 1

    async def sleep() -> None:
        keeping.memory.meanwhile = None
        keeping.people.change("update directory_steps set leased_until = now() - interval '1 second', next_at = now()")
        keeping.memory.changed = [named(2)]
        (other,) = await keeping.due()
        await keeping.keeping.run(other)

    (slow,) = await keeping.due()
    keeping.memory.meanwhile = sleep
    await keeping.keeping.run(slow)
    assert "person2@example.org" in keeping.members()
    assert "person3@example.org" not in keeping.members()
    runs = (await keeping.request("GET", f"{PATH}/{provider}/runs")).ok()["runs"]
    assert [(one["state"], one["fault"]) for one in runs[:2]] == [("done", ""), ("failed", "interrupted")]


async def test_a_killed_run_leaves_nothing_half(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(number) for number in range(1, 5)]
    provider = await keeping.in_step()
    (await keeping.go_on(provider, await keeping.step(provider))).ok()

    async def killed() -> None:
        raise _KilledError

    keeping.memory.meanwhile = killed
    (step,) = await keeping.due()
    with suppress(_KilledError):
        await keeping.keeping.run(step)
    assert len([one for one in keeping.members() if one.startswith("person")]) == 2
    assert list(await keeping.due()) == [], "its lease is not over"
    keeping.memory.meanwhile = None
    keeping.people.change("update directory_steps set leased_until = now()")
    assert (await keeping.step(provider))["came"] == 2
    assert len([one for one in keeping.members() if one.startswith("person")]) == 4


class _KilledError(Exception):
    pass

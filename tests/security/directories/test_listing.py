"""Who lists a person ends them, and nobody else does: SCIM, one connection by LDAP, or nobody. An owner decides who takes whom over."""

from typing import Any

import pytest

from tests.http.client import Received
from tests.http.ldap.keeping import KeepingScene, named
from tests.http.ldap.scene import PATH
from tests.http.people import Person

_LISTED = "select listed.is_active, listed.is_kept from directory_people as listed join users on users.id = user_id where email = %s"


async def _whole(keeping: KeepingScene, provider: str) -> dict[str, Any]:
    """A run of everybody, as an administrator's press begins it, with the people whom it names."""
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    run = await keeping.step(provider)
    assert run["kind"] == "whole"
    return await keeping.shown(provider, run)


async def _decide(
    keeping: KeepingScene, provider: str, run: Any, act: str, digest: str | None = None, by: Person | None = None
) -> Received:
    known = {"take-over": "take_over_digest"}.get(act, "privileged_digest")
    body = {"digest": digest or run[known] or "0" * 64}
    return await keeping.request("POST", f"{PATH}/{provider}/runs/{run['id']}/{act}", body, by=by)


async def _of_scims(keeping: KeepingScene, *more: int) -> tuple[str, dict[str, Any]]:
    """SCIM lists person 1 and person 2, and the directory names both."""
    await keeping.with_scim()
    for number in (1, 2):
        await keeping.by_scim(f"person{number}@example.org")
    provider = await keeping.begun(*(named(number) for number in (1, 2, *more)))
    return provider, await keeping.shown(provider, await keeping.newest(provider))


def _promote(keeping: KeepingScene, email: str, role: str = "admin") -> None:
    user = keeping.user(email)
    keeping.people.change("update memberships set role = %s where user_id = %s", role, user)
    keeping.people.change("update relations set relation = %s where user_id = %s and relation = 'member'", role, user)


async def test_an_owner_takes_people_over_from_scim_and_scims_word_counts_no_more(keeping: KeepingScene) -> None:
    provider, run = await _of_scims(keeping, 3)
    assert run["reasons"] == {"listed_by_scim": 2}
    assert [(one["named"], one["reason"]) for one in run["taken_over"]] == [
        ("person1@example.org", "stays_member"),
        ("person2@example.org", "stays_member"),
    ]
    assert (await _decide(keeping, provider, run, "take-over")).ok() == {"people": 2}
    user = keeping.user("person1@example.org")
    refused = await keeping.off_by_scim(user)
    assert (refused.status, refused.json().get("scimType")) == (409, None)
    assert "The directory Acme directory manages this person" in refused.json()["detail"]
    assert refused.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert "organization.upstream_provider.people.taken_over" in {one["name"] for one in keeping.audited_names()}
    # The directory says the rest, and ends whom it names no more.
    done = await keeping.step(provider)
    assert (done["kind"], done["changed"], done["reasons"]) == ("whole", 2, {})
    keeping.memory.everybody = [named(2), named(3)]
    assert (await _whole(keeping, provider))["ended"] == 1
    assert "person1@example.org" not in keeping.members()


async def test_whom_scim_has_switched_off_comes_back_by_a_take_over(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    user = await keeping.by_scim("person1@example.org")
    (await keeping.off_by_scim(user)).ok()
    provider = await keeping.begun(named(1))
    run = await keeping.shown(provider, await keeping.newest(provider))
    assert [one["reason"] for one in run["taken_over"]] == ["comes_back"]
    (await _decide(keeping, provider, run, "take-over")).ok()
    assert keeping.members()["person1@example.org"]["role"] == "member"
    assert keeping.people.rows("select deactivated_at from users where email = 'person1@example.org'") == [{"deactivated_at": None}]


async def test_whoever_writes_anothers_address_in_the_directory_gets_nobodys_place(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    for number in (1, 2):
        await keeping.by_scim(f"person{number}@example.org")
    provider = await keeping.begun(named(1), named(2), named(9, "person1@example.org"))
    run = await keeping.shown(provider, await keeping.newest(provider))
    assert run["reasons"] == {"listed_by_scim": 3}
    assert [one["named"] for one in run["taken_over"]] == ["person2@example.org"]
    assert (await _decide(keeping, provider, run, "take-over")).ok() == {"people": 1}
    assert keeping.people.rows(_LISTED, "person1@example.org") == []


async def test_only_an_owner_takes_over_what_they_have_seen(keeping: KeepingScene) -> None:
    provider, run = await _of_scims(keeping)
    admin = keeping.resident(keeping.acme, "admin")
    assert (await _decide(keeping, provider, run, "take-over", by=admin)).status == 403
    assert (await _decide(keeping, provider, run, "take-over", digest="0" * 64)).status == 409
    assert (await _decide(keeping, provider, run, "take-over", digest="none")).status == 400
    assert (await _decide(keeping, provider, {**run, "id": provider}, "take-over")).status == 404
    globex = keeping.tenants.add("globex")
    stranger = keeping.resident(globex, "owner", "stranger")
    assert (await _decide(keeping, provider, run, "take-over", by=stranger)).status in {403, 404}
    # Person 1 goes between the look and the press, so it is about others than the owner has seen.
    assert (await keeping.scim("DELETE", f"/Users/{keeping.user('person1@example.org')}")).status == 204
    assert (await _decide(keeping, provider, run, "take-over")).status == 409
    again = await keeping.shown(provider, run)
    assert [one["named"] for one in again["taken_over"]] == ["person2@example.org"]
    (await _decide(keeping, provider, again, "take-over")).ok()
    assert (await _decide(keeping, provider, again, "take-over")).json()["error_code"] == "CONFLICT"


async def test_a_plan_and_a_run_of_yesterday_take_nobody_over(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    await keeping.by_scim("person1@example.org")
    keeping.memory.everybody = [named(1)]
    provider = await keeping.in_step()
    plan = await keeping.shown(provider, await keeping.step(provider))
    assert (plan["reasons"], plan["take_over_digest"]) == ({"listed_by_scim": 1}, None)
    assert (await _decide(keeping, provider, plan, "take-over")).status == 409
    (await keeping.go_on(provider, plan)).ok()
    run = await keeping.shown(provider, await keeping.step(provider))
    keeping.people.change("update directory_runs set started_at = now() - interval '25 hours'")
    assert (await _decide(keeping, provider, run, "take-over")).status == 409
    assert (await keeping.shown(provider, run))["take_over_digest"] is None
    keeping.people.change("update directory_runs set started_at = now()")
    (await keeping.change(provider, person_filter="(uid=*)")).ok()
    assert (await _decide(keeping, provider, run, "take-over")).status == 400
    await keeping.test(provider)
    (await keeping.activate(provider)).ok()
    assert (await _decide(keeping, provider, run, "take-over")).status == 409


async def test_a_take_over_needs_room(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    (await keeping.off_by_scim(await keeping.by_scim("person1@example.org"))).ok()
    provider = await keeping.begun(named(1))
    run = await keeping.shown(provider, await keeping.newest(provider))
    keeping.people.change("update all_organizations set max_users = member_count where id = %s", keeping.acme.id)
    assert (await _decide(keeping, provider, run, "take-over")).json()["error_code"] == "TEAM_LIMIT_EXCEEDED"
    assert "person1@example.org" not in keeping.members()


async def test_a_person_is_scims_by_the_token_that_wrote_them_or_one_made_later(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    first = keeping.scim_token
    await keeping.with_scim()
    await keeping.by_scim("person1@example.org")
    keeping.people.change("delete from scim_tokens where id = (select id from scim_tokens order by id limit 1)")
    provider = await keeping.begun(named(1))
    assert (await keeping.newest(provider))["reasons"] == {"listed_by_scim": 1}, "another token's end changes nothing"
    await keeping.with_scim()
    keeping.people.change("delete from scim_tokens where id = (select id from scim_tokens order by id limit 1)")
    assert (await _whole(keeping, provider))["reasons"] == {"listed_by_scim": 1}, "the newer token has taken its place"
    keeping.people.change("delete from scim_tokens")
    assert ((await _whole(keeping, provider))["came"], first != keeping.scim_token) == (1, True)
    await keeping.with_scim()
    assert (await keeping.off_by_scim(keeping.user("person1@example.org"))).status == 409


async def test_an_older_token_holds_nobody_whom_a_newer_one_has_written(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    await keeping.with_scim()
    await keeping.by_scim("person1@example.org")
    keeping.people.change("delete from scim_tokens where id = (select id from scim_tokens order by id desc limit 1)")
    provider = await keeping.begun(named(1))
    assert (await keeping.newest(provider))["reasons"] == {}
    assert keeping.people.rows(_LISTED, "person1@example.org") == [{"is_active": True, "is_kept": False}]


@pytest.mark.parametrize("way", ["off", "removed"])
async def test_a_connection_that_keeps_in_step_no_more_lists_nobody(keeping: KeepingScene, way: str) -> None:
    await keeping.with_scim()
    provider = await keeping.begun(named(1), named(2))
    user = keeping.user("person1@example.org")
    assert (await keeping.off_by_scim(user)).status == 409
    if way == "off":
        (await keeping.change(provider, keeps_in_step=False)).ok()
    else:
        assert (await keeping.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert "person1@example.org" in keeping.members(), "nobody leaves by this"
    assert "organization.upstream_provider.people.released" in {one["name"] for one in keeping.audited_names()}
    assert keeping.people.rows("select is_scims from provisioned_users where user_id = %s", user) == [{"is_scims": False}]
    # Another connection may list them, without an owner's word about SCIM.
    second = await keeping.draft(name="Second", keeps_in_step=True)
    await keeping.test(second)
    (await keeping.activate(second)).ok()
    plan = await keeping.step(second)
    assert (plan["came"], plan["reasons"]) == (2, {})
    (await keeping.go_on(second, plan)).ok()
    assert (await keeping.step(second))["came"] == 2
    assert (await keeping.off_by_scim(user)).json()["detail"].startswith("The directory Second manages")


async def test_a_connection_that_is_turned_on_again_begins_with_a_plan(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.everybody = []
    (await keeping.change(provider, keeps_in_step=False)).ok()
    (await keeping.change(provider, keeps_in_step=True)).ok()
    plan = await keeping.step(provider)
    assert (plan["kind"], plan["held_back"]) == ("plan", 0), "it lists nobody, so it ends nobody"
    keeping.memory.everybody = [named(1), named(2)]
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    plan = await keeping.step(provider)
    assert (plan["kind"], plan["came"]) == ("plan", 2)
    (await keeping.go_on(provider, plan)).ok()
    assert (await keeping.step(provider))["came"] == 2


async def test_people_who_may_more_stop_no_run_and_an_owner_decides_once(keeping: KeepingScene) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 31)))
    for number in range(1, 7):
        _promote(keeping, f"person{number}@example.org")
    keeping.memory.everybody = [named(number) for number in range(7, 31)]
    run = await _whole(keeping, provider)
    assert (run["state"], run["ended"], run["held_back"], run["reasons"]) == ("done", 0, 0, {"may_more": 6})
    assert {one["reason"] for one in run["privileged"]} == {"may_more"}
    admin = keeping.resident(keeping.acme, "admin")
    assert (await _decide(keeping, provider, run, "keep", by=admin)).status == 403
    assert (await _decide(keeping, provider, run, "keep", digest="1" * 64)).status == 409
    assert (await _decide(keeping, provider, run, "keep")).ok() == {"people": 6}
    assert (await _decide(keeping, provider, run, "keep")).status == 409
    assert "organization.upstream_provider.people.kept" in {one["name"] for one in keeping.audited_names()}
    assert (await _whole(keeping, provider))["reasons"] == {}
    # Also when the directory names them again, and no more.
    keeping.memory.everybody = [named(number) for number in range(1, 31)]
    assert ((again := await _whole(keeping, provider))["came"], again["reasons"]) == (0, {})
    assert keeping.people.rows(_LISTED, "person1@example.org") == [{"is_active": False, "is_kept": True}]
    # Whoever was removed meanwhile is nobody's member, so the directory lets them in as before.
    user = keeping.user("person1@example.org")
    # The role goes first: an administrator ends no other.
    (await keeping.request("PATCH", f"/api/organizations/acme/members/{user}", {"role": "member"})).ok()
    (await keeping.request("POST", f"/api/organizations/acme/members/{user}", {})).ok()
    assert (await _whole(keeping, provider))["came"] == 1


async def test_an_owner_ends_people_who_may_more_and_other_owners_stay(keeping: KeepingScene) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 5)))
    _promote(keeping, "person1@example.org")
    _promote(keeping, "person2@example.org", "owner")
    keeping.memory.everybody = [named(3), named(4)]
    run = await _whole(keeping, provider)
    assert sorted(one["reason"] for one in run["privileged"]) == ["may_more", "owner"]
    assert (await _decide(keeping, provider, run, "end", by=keeping.resident(keeping.acme, "admin"))).status == 403
    assert (await _decide(keeping, provider, run, "end")).ok() == {"people": 1}
    assert "person1@example.org" not in keeping.members()
    assert keeping.members()["person2@example.org"]["role"] == "owner"
    assert "organization.upstream_provider.people.ended" in {one["name"] for one in keeping.audited_names()}
    assert keeping.people.rows("select 1 from relations where user_id = %s", keeping.user("person1@example.org")) == []
    again = await keeping.shown(provider, run)
    assert (await _decide(keeping, provider, again, "end")).status == 409, "owners alone are left"


@pytest.mark.parametrize("act", ["keep", "end"])
async def test_an_owner_decides_by_the_last_run_alone(keeping: KeepingScene, act: str) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 5)))
    _promote(keeping, "person1@example.org")
    keeping.memory.everybody = [named(2), named(3), named(4)]
    run = await _whole(keeping, provider)
    assert [one["named"] for one in run["privileged"]] == ["person1@example.org"]
    # The directory names them again, and the owner presses what the page of the morning shows.
    keeping.memory.everybody = [named(1), named(2), named(3), named(4)]
    assert (await _whole(keeping, provider))["privileged"] == []
    assert (await _decide(keeping, provider, run, act)).status == 409
    assert (await keeping.shown(provider, run))["privileged_digest"] is None
    assert keeping.members()["person1@example.org"]["role"] == "admin"

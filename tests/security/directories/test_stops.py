"""The stop of runs under attack: no other kind of run, no newcomers, and nothing pressed meanwhile let anybody end whom an owner was asked
about.
"""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
import trio

from adapters.postgres.upkeep.housekeeping import sweeps
from tests.conftest import CapturedLog
from tests.http.ldap.keeping import KeepingScene, group, named
from tests.http.ldap.scene import PATH
from tests.http.postbox import Postbox


async def _whole(keeping: KeepingScene, provider: str) -> dict[str, Any]:
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    return await keeping.step(provider)


async def _until(keeping: KeepingScene, provider: str, kind: str) -> dict[str, Any]:
    for _ in range(4):
        run = await keeping.step(provider)
        if run["kind"] == kind:
            return run
    raise AssertionError(kind)


def _listed(keeping: KeepingScene) -> int:
    return len([one for one in keeping.members() if one.startswith("person")])


async def test_a_run_that_sees_fewer_ends_nobody_whom_a_stop_holds(keeping: KeepingScene) -> None:
    """Four are gone and four are disabled: eight are too many, and each half is not."""
    everybody = [named(number) for number in range(1, 31)]
    provider = await keeping.begun(*everybody)
    disabled = [named(number, is_disabled=True) for number in range(5, 9)]
    keeping.memory.everybody = [*disabled, *everybody[8:]]
    stop = await _whole(keeping, provider)
    assert (stop["state"], stop["held_back"]) == ("waiting", 8)
    keeping.memory.changed = [disabled[0]]
    for kind in ("changes", "identities", "changes"):
        run = await _until(keeping, provider, kind)
        assert (run["state"], run["ended"], run["held_back"]) == ("done", 0, 8), kind
    assert _listed(keeping) == 30
    (await keeping.go_on(provider, stop)).ok()
    assert (await keeping.step(provider))["ended"] == 8


async def test_what_an_owner_has_left_stays_left_whichever_run_comes_next(keeping: KeepingScene) -> None:
    everybody = [named(number) for number in range(1, 31)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[8:]
    stop = await _whole(keeping, provider)
    (await keeping.leave_run(provider, stop)).ok()
    await Postbox(keeping.postern).empty()
    for _ in range(6):
        assert (await keeping.step(provider))["state"] == "done"
    assert _listed(keeping) == 30
    assert [one for one in await Postbox(keeping.postern).empty() if "/runs/" in one.text] == []
    # Somebody who is back is not held any more, and a new one is asked about together with the others.
    keeping.memory.everybody = everybody[7:]
    assert (await _until(keeping, provider, "identities"))["held_back"] == 7
    assert _listed(keeping) == 30


async def test_newcomers_make_no_room_for_ends(keeping: KeepingScene) -> None:
    """A second host that is another, larger directory."""
    provider = await keeping.begun(*(named(number) for number in range(1, 9)))
    keeping.people.change("update organizations set max_users = 500")
    keeping.memory.controller, keeping.memory.page = "another", 200
    keeping.memory.everybody = [named(number) for number in range(101, 201)]
    run = await keeping.step(provider)
    assert (run["state"], run["came"], run["ended"], run["held_back"]) == ("waiting", 100, 0, 8)
    run = await _whole(keeping, provider)
    assert (run["state"], run["ended"], run["held_back"]) == ("done", 0, 8), "now they are fewer than a tenth, and still wait"


async def test_who_is_let_in_again_still_counts_as_ended_today(keeping: KeepingScene) -> None:
    """Otherwise a directory ends everybody, five at a time, and names them again between."""
    everybody = [named(number) for number in range(1, 13)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[5:]
    assert (await _whole(keeping, provider))["ended"] == 5
    keeping.memory.everybody = everybody
    assert (await _whole(keeping, provider))["came"] == 5
    keeping.memory.everybody = everybody[:7]
    assert (await _whole(keeping, provider))["state"] == "waiting"


async def test_an_owners_word_during_a_run_stays_for_the_next_one(keeping: KeepingScene) -> None:
    everybody = [named(number) for number in range(1, 21)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[7:]
    stop = await _whole(keeping, provider)

    async def press() -> None:
        keeping.memory.meanwhile = None
        (await keeping.go_on(provider, stop)).ok()

    keeping.memory.meanwhile = press
    await _whole(keeping, provider)
    run = await keeping.step(provider)
    assert (run["kind"], run["ended"], run["held_back"]) == ("whole", 7, 0)


async def test_leave_during_a_run_stays_left(keeping: KeepingScene) -> None:
    everybody = [named(number) for number in range(1, 21)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[7:]
    stop = await _whole(keeping, provider)

    async def press() -> None:
        keeping.memory.meanwhile = None
        (await keeping.leave_run(provider, stop)).ok()

    keeping.memory.meanwhile = press
    await _whole(keeping, provider)
    assert keeping.people.rows("select held_since from directory_steps") == [{"held_since": None}]


async def test_a_start_during_a_run_reads_everybody_again(keeping: KeepingScene) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 5)))

    async def press() -> None:
        keeping.memory.meanwhile = None
        (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()

    keeping.memory.meanwhile = press
    await _whole(keeping, provider)
    assert (await keeping.step(provider))["kind"] == "whole"


async def test_a_connection_that_is_active_again_with_other_settings_goes_on_with_no_old_run(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    keeping.memory.changed, keeping.memory.page = [named(2), named(3)], 1

    async def change() -> None:
        keeping.memory.meanwhile = None
        (await keeping.change(provider, person_filter="(uid=*)")).ok()
        await keeping.test(provider)
        (await keeping.activate(provider)).ok()

    keeping.memory.meanwhile = change
    for step in await keeping.due():
        await keeping.keeping.run(step)
    assert "person3@example.org" not in keeping.members()
    assert (await keeping.newest(provider))["fault"] == "interrupted"


async def test_a_run_writes_nothing_more_once_its_organization_is_suspended(keeping: KeepingScene) -> None:
    await keeping.begun(named(1))
    keeping.memory.changed, keeping.memory.page = [named(2), named(3)], 1

    async def suspend() -> None:
        keeping.people.change("update organizations set status = 'suspended' where id = %s", keeping.acme.id)

    keeping.memory.meanwhile = suspend
    for step in await keeping.due():
        await keeping.keeping.run(step)
    assert "person3@example.org" not in keeping.members()


async def test_a_domain_that_is_lost_during_a_run_vouches_for_nobody_more(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    keeping.memory.changed, keeping.memory.page = [named(2), named(3)], 1

    async def lose() -> None:
        keeping.people.change("delete from domains where org_id = %s", keeping.acme.id)
        keeping.people.change("delete from domain_routes where org_id = %s", keeping.acme.id)

    keeping.memory.meanwhile = lose
    run = await keeping.step(provider)
    assert (run["came"], run["reasons"]) == (1, {"other_domain": 1})
    assert "person3@example.org" not in keeping.members()


async def test_whom_scim_lists_since_ldap_ended_them_stays_scims(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.everybody = [named(2)]
    assert (await _whole(keeping, provider))["ended"] == 1
    user = keeping.user("person1@example.org")
    operation = {"op": "replace", "path": "active", "value": True}
    body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [operation]}
    (await keeping.scim("PATCH", f"/Users/{user}", body)).ok()
    keeping.memory.everybody = [named(1), named(2)]
    assert (await _whole(keeping, provider))["reasons"] == {"listed_by_scim": 1}
    assert (await keeping.off_by_scim(user)).ok()["active"] is False


async def test_where_keeping_in_step_is_off_scim_may_have_the_people(keeping: KeepingScene) -> None:
    await keeping.with_scim()
    provider = await keeping.begun(named(1))
    user = keeping.user("person1@example.org")
    assert (await keeping.off_by_scim(user)).status == 409
    (await keeping.change(provider, keeps_in_step=False)).ok()
    assert (await keeping.off_by_scim(user)).ok()["active"] is False


async def test_an_address_that_stays_is_no_news_each_night(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1))
    keeping.people.change("update users set email_verified_at = now(), address_vouched_by = null where email = 'person1@example.org'")
    keeping.memory.everybody = [named(1, "other@example.org")]
    await _whole(keeping, provider)
    before = len([one for one in keeping.audited_names() if one["name"] == "user.profile.updated"])
    await _whole(keeping, provider)
    assert len([one for one in keeping.audited_names() if one["name"] == "user.profile.updated"]) == before


async def test_the_directories_of_one_organization_take_one_place(keeping: KeepingScene) -> None:
    await keeping.begun(named(1))
    second = await keeping.draft(name="Second", keeps_in_step=True)
    await keeping.test(second)
    (await keeping.activate(second)).ok()
    assert [str(one.connection) for one in await keeping.due()] == [second]
    assert list(await keeping.due()) == [], "the first one waits for the second one's run"
    keeping.people.change("update directory_steps set leased_until = null where connection_id = %s", second)
    assert len(await keeping.due()) == 1


async def test_a_plan_that_was_agreed_days_ago_ends_nobody_by_that(keeping: KeepingScene) -> None:
    everybody = [named(number) for number in range(1, 21)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[7:]
    stop = await _whole(keeping, provider)
    (await keeping.go_on(provider, stop)).ok()
    keeping.people.change("update directory_runs set started_at = started_at - interval '3 days'")
    run = await keeping.step(provider)
    assert (run["kind"], run["ended"], run["held_back"]) == ("whole", 0, 7)


async def test_a_run_that_names_whom_a_stop_holds_stays_as_long_as_the_stop(keeping: KeepingScene) -> None:
    everybody = [named(number) for number in range(1, 21)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[7:]
    stop = await _whole(keeping, provider)
    (await keeping.leave_run(provider, stop)).ok()
    keeping.people.change("update directory_runs set started_at = started_at - interval '31 days'")
    retention = timedelta(days=30)
    every = sweeps(
        keeping.postern.foundation.pool, login_event_retention=retention, delivery_retention=retention, event_retention=retention
    )
    (sweep,) = [one for one in every if one.name == "PastDirectoryRuns"]
    assert await sweep.delete_expired(100) == 2
    assert keeping.people.rows("select id::text from directory_runs") == [{"id": stop["id"]}]


async def test_groups_without_room_take_one_look_in_each_run(
    keeping: KeepingScene, monkeypatch: pytest.MonkeyPatch, log: CapturedLog
) -> None:
    log.allow("directory_group_without_room")
    monkeypatch.setattr("core.usecases.tenancy.teams.MOST_TEAMS", 2)
    await keeping.with_teams()
    keeping.memory.listed_groups = [group(number, f"Group {number}", 1) for number in range(1, 10)]
    provider = await keeping.begun(named(1))
    assert (await keeping.newest(provider))["teams"] == 2
    assert len(log.events("directory_group_without_room")) == 1


async def test_a_directory_that_names_few_of_its_groups_takes_no_team_away(keeping: KeepingScene) -> None:
    await keeping.with_teams()
    keeping.memory.listed_groups = groups = [group(number, f"Group {number}", 1) for number in range(1, 11)]
    provider = await keeping.begun(named(1))
    keeping.memory.listed_groups = groups[:4]
    run = await _whole(keeping, provider)
    assert (run["teams"], run["reasons"]) == (0, {"group_stays": 6})
    assert len(keeping.people.rows("select id from teams")) == 10
    left_out = {one["named"] for one in (await keeping.shown(provider, run))["people"] if one["reason"] == "group_stays"}
    assert left_out == {f"Group {number}" for number in range(5, 11)}
    # As few as five go with their groups.
    keeping.memory.listed_groups = groups[:5]
    assert (await _whole(keeping, provider))["teams"] == 5
    assert len(keeping.people.rows("select id from teams")) == 5


async def test_an_owner_sees_that_a_page_does_not_name_all(keeping: KeepingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.usecases.federation.directory_runs.runs.MOST_PEOPLE_SHOWN", 3)
    everybody = [named(number) for number in range(1, 21)]
    provider = await keeping.begun(*everybody)
    keeping.memory.everybody = everybody[7:]
    stop = await _whole(keeping, provider)
    owner = keeping.signed_in(keeping.speaker, age=1)
    for place in ("", "/go-on"):
        page = await owner.request("GET", f"/ui/o/acme/directories/{provider}/runs/{stop['id']}{place}")
        assert page.status == 200
        assert "And 4 more people, who are not shown here." in page.body.decode(), place


async def test_a_directory_that_names_people_of_others_holds_none_of_their_accounts(keeping: KeepingScene, database_url: str) -> None:
    """Who signs in elsewhere meanwhile would wait for the run."""
    theirs = keeping.people.add("bob@globex.example")
    provider = await keeping.begun(named(1))
    keeping.memory.changed = [named(2, "bob@globex.example")]
    with psycopg.connect(database_url) as other:
        other.execute("select from users where id = %s for update", [theirs.user])
        with trio.fail_after(30):
            run = await keeping.step(provider)
    assert run["reasons"] == {"other_domain": 1}

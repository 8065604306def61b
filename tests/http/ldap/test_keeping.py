"""Keeping in step: people come, change and go with their directory, and an owner is asked before too many go."""

import pytest

from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapStep
from core.domain.identity.upstream.ldap.surveys import words_of
from tests.http.ldap.keeping import KeepingScene, group, named
from tests.http.ldap.scene import PATH
from tests.http.postbox import Postbox
from tests.meanwhile import meanwhile


async def test_the_first_run_is_a_plan_that_does_nothing_until_an_owner_lets_it_go_on(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(1), named(2), named(3, "out@elsewhere.org"), named(4, "")]
    provider = await keeping.in_step()
    plan = await keeping.step(provider)
    assert (plan["kind"], plan["state"], plan["read"], plan["came"], plan["left_out"]) == ("plan", "waiting", 4, 2, 2)
    assert plan["reasons"] == {"other_domain": 1, "no_address": 1}
    assert set(keeping.members()) == {"boss@example.org"} or "person1@example.org" not in keeping.members()
    shown = await keeping.shown(provider, plan)
    assert [(one["what"], one["reason"], one["named"]) for one in shown["people"]] == [
        ("left_out", "other_domain", "out@elsewhere.org"),
        ("left_out", "no_address", "uid=person4,ou=people,dc=example,dc=org"),
        ("comes", "comes", "Family1 <person1@example.org>"),
        ("comes", "comes", "Family2 <person2@example.org>"),
    ]
    people = f"{PATH}/{provider}/runs/{plan['id']}/people"
    (second,) = (await keeping.request("GET", f"{people}?what=comes&limit=1&page=2")).json()
    assert second == {"what": "comes", "reason": "comes", "named": "Family2 <person2@example.org>"}
    assert len((await keeping.request("GET", people)).json()) == 4
    (await keeping.go_on(provider, plan)).ok()
    done = await keeping.step(provider)
    assert (done["kind"], done["state"], done["came"]) == ("whole", "done", 2)
    assert keeping.members()["person1@example.org"]["came_by"] == "ldap"
    assert keeping.members()["person1@example.org"]["own_since"] is None


async def test_a_run_without_changes_does_nothing(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    assert (await keeping.step(provider))["kind"] == "changes"
    assert (await keeping.step(provider))["kind"] == "identities"
    run = await keeping.step(provider)
    assert (run["came"], run["changed"], run["ended"], run["held_back"]) == (0, 0, 0, 0)


async def test_whoever_is_gone_or_disabled_ends(keeping: KeepingScene) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 5)))
    keeping.memory.changed = [named(1, is_disabled=True)]
    assert (await keeping.step(provider))["ended"] == 1
    assert "person1@example.org" not in keeping.members()
    keeping.memory.everybody = [named(number) for number in (3, 4)]
    assert (await keeping.step(provider))["kind"] == "identities"
    assert set(keeping.members()) & {f"person{number}@example.org" for number in range(1, 5)} == {
        "person3@example.org",
        "person4@example.org",
    }
    rows = keeping.people.rows("select deactivated_at is not null as off from users where email = 'person2@example.org'")
    assert rows == [{"off": True}]


async def test_too_many_ends_stop_until_an_owner_lets_them_go_on(keeping: KeepingScene) -> None:
    provider = await keeping.begun(*(named(number) for number in range(1, 21)))
    keeping.memory.everybody = [named(number) for number in range(8, 21)]
    (await keeping.request("POST", f"/api/organizations/acme/upstream-providers/{provider}/runs")).ok()
    stop = await keeping.step(provider)
    assert (stop["state"], stop["held_back"], stop["ended"]) == ("waiting", 7, 0)
    assert "person1@example.org" in keeping.members()
    again = await keeping.step(provider)
    assert (again["state"], again["held_back"]) == ("done", 7), "nobody is asked twice about the same people"
    keeping.memory.everybody = [named(number) for number in range(9, 21)]
    (await keeping.go_on(provider, stop)).ok()
    run = await keeping.step(provider)
    # Person 8 was not in what the owner has seen.
    assert (run["state"], run["ended"], run["held_back"]) == ("waiting", 7, 1)
    assert "person8@example.org" in keeping.members()
    assert "person1@example.org" not in keeping.members()


async def test_only_an_owner_decides_about_a_run_and_only_as_they_have_seen_it(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(1)]
    provider = await keeping.in_step()
    plan = await keeping.step(provider)
    admin = keeping.resident(keeping.acme, "admin")
    assert (await keeping.go_on(provider, plan, by=admin)).status == 403
    assert (await keeping.leave_run(provider, plan, by=admin)).status == 403
    assert (await keeping.go_on(provider, plan, digest="0" * 64)).status == 409
    assert (await keeping.go_on(provider, plan, digest="none")).status == 400
    assert (await keeping.go_on(provider, {**plan, "id": provider})).status == 404
    assert (await keeping.leave_run(provider, plan)).ok()["state"] == "left"
    assert (await keeping.go_on(provider, plan)).status == 409
    assert list(await keeping.due()) == [], "after a plan that was left, nothing runs by itself"
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["state"] == "waiting"
    names = [one["name"] for one in keeping.audited_names()]
    assert [one for one in names if ".run." in one] == [
        "organization.upstream_provider.run.stopped",
        "organization.upstream_provider.run.left",
        "organization.upstream_provider.run.started",
    ], "the same plan is no news"


async def test_the_owner_hears_of_a_run_that_waits(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(1)]
    provider = await keeping.in_step()
    await keeping.step(provider)
    mails = [one for one in await Postbox(keeping.postern).empty() if f"/ui/o/acme/directories/{provider}/runs/" in one.text]
    assert [(one.to, "People to add: 1." in " ".join(one.text.split())) for one in mails] == [("boss@acme.example", True)]


async def test_nothing_runs_where_nobody_keeps_in_step(keeping: KeepingScene) -> None:
    provider = await keeping.active()
    assert list(await keeping.keeping.claim_due(10)) == []
    assert (await keeping.request("POST", f"{PATH}/{provider}/runs")).status == 400
    assert (await keeping.request("GET", f"{PATH}/{provider}/runs")).ok() == {"runs": [], "next_at": None}
    assert (await keeping.change(provider, step_minutes=4)).status == 400
    (await keeping.change(provider, keeps_in_step=True, step_minutes=5)).ok()
    assert (await keeping.record(provider))["state"] == "active", "whether it keeps in step is none of what was tested"
    # As many as were asked for: the next look comes at once.
    assert len(await keeping.keeping.claim_due(1)) == 1


async def test_a_directory_that_is_away_is_news_once_and_ends_nobody(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.everybody, keeping.memory.fault = [named(1)], LdapFailed(LdapStep.CONNECTION, LdapFault.TOO_SLOW)
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    run = await keeping.step(provider)
    assert (run["state"], run["fault"]) == ("failed", " ".join(words_of(LdapFault.TOO_SLOW)))
    assert (await keeping.step(provider))["state"] == "failed"
    assert "person2@example.org" in keeping.members()
    assert len([one for one in keeping.audited_names() if one["name"].endswith("run.failed")]) == 1
    keeping.memory.fault = None
    assert (await keeping.step(provider))["ended"] == 1


async def test_names_fields_and_addresses_follow_the_directory(keeping: KeepingScene) -> None:
    body = {"key": "job", "label": "Job", "kind": "text", "written_by": ["directory"]}
    (await keeping.request("POST", "/api/organizations/acme/profile-fields", body)).ok(201)
    number = {"key": "age", "label": "Age", "kind": "number", "written_by": ["directory"]}
    (await keeping.request("POST", "/api/organizations/acme/profile-fields", number)).ok(201)
    provider = await keeping.begun(named(1, title="Chief", age="old"), profile_mapping={"title": "job", "age": "age"})
    user = keeping.user("person1@example.org")
    path = f"/api/organizations/acme/users/{user}/profile"
    assert (await keeping.request("GET", path)).ok()["values"]["job"] == "Chief"
    keeping.memory.changed = [named(1, "moved@example.org", sn="Other", title="")]
    assert (await keeping.step(provider))["changed"] == 1
    assert keeping.user("moved@example.org") == user
    assert (await keeping.request("GET", path)).ok()["values"].get("job") is None
    (row,) = keeping.people.rows("select family_name from provisioned_users where user_id = %s", user)
    assert row == {"family_name": "Other"}


async def test_who_comes_back_is_let_in_again(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.changed = [named(1, is_disabled=True)]
    await keeping.step(provider)
    keeping.memory.changed = [named(1)]
    assert (await keeping.step(provider))["kind"] == "identities"
    assert (await keeping.step(provider))["came"] == 1
    assert "person1@example.org" in keeping.members()
    assert keeping.people.rows("select deactivated_at from users where email = 'person1@example.org'") == [{"deactivated_at": None}]


async def test_groups_are_teams_where_an_owner_has_switched_to_them(keeping: KeepingScene) -> None:
    keeping.memory.listed_groups = [group(1, "Staff", 1, 2), group(2, "Chiefs", 1)]
    provider = await keeping.begun(named(1), named(2))
    assert keeping.people.rows("select slug from teams") == []
    await keeping.with_teams()
    (await keeping.request("POST", f"{PATH}/{provider}/runs")).ok()
    assert (await keeping.step(provider))["teams"] == 2
    assert keeping.teams_of("staff") == {"person1@example.org", "person2@example.org"}
    keeping.memory.listed_groups = [group(1, "All staff", 2)]
    assert (await keeping.step(provider))["kind"] == "identities"
    assert (await keeping.step(provider))["teams"] == 2
    assert keeping.teams_of("staff") == {"person2@example.org"}
    assert keeping.people.rows("select name, role from teams") == [{"name": "All staff", "role": None}]
    keeping.memory.listed_groups = []
    await keeping.step(provider)
    await keeping.step(provider)
    assert keeping.teams_of("staff") == {"person2@example.org"}, "a directory that names no group has lost its rights"


async def test_another_controller_is_read_whole(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.memory.controller, keeping.memory.everybody = "another", [named(1)]
    run = await keeping.step(provider)
    assert (run["kind"], run["ended"]) == ("whole", 1)


async def test_elsewhere_the_changed_people_tell_how_far_a_run_has_come(keeping: KeepingScene) -> None:
    keeping.memory.controller, keeping.memory.modified = None, "20261127100000Z"
    provider = await keeping.begun(named(1))
    keeping.memory.changed = [named(2, modifytimestamp="20261127110000Z")]
    assert (await keeping.step(provider))["kind"] == "changes"
    (row,) = keeping.people.rows("select marks->>'modified' as modified from directory_steps")
    assert row == {"modified": "20261127110000Z"}


async def test_whoever_becomes_an_administrator_while_a_run_ends_them_stays(keeping: KeepingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = await keeping.begun(named(1), named(2))
    user = keeping.user("person1@example.org")

    def promote() -> None:
        keeping.people.change("update memberships set role = 'admin' where user_id = %s", user)
        keeping.people.change("update relations set relation = 'admin' where user_id = %s and relation = 'member'", user)

    meanwhile(monkeypatch, keeping.keeping.people, "ended_lately", promote)
    keeping.memory.changed = [named(1, is_disabled=True)]
    run = await keeping.step(provider)
    assert (run["ended"], run["reasons"]) == (0, {"may_more": 1})
    assert keeping.members()["person1@example.org"]["role"] == "admin"


async def test_whoever_may_do_more_than_a_member_stays(keeping: KeepingScene) -> None:
    provider = await keeping.begun(named(1), named(2))
    keeping.people.change("update memberships set role = 'admin' where user_id = %s", keeping.user("person1@example.org"))
    keeping.people.change(
        "update relations set relation = 'admin' where user_id = %s and relation = 'member'", keeping.user("person1@example.org")
    )
    keeping.memory.changed = [named(1, is_disabled=True)]
    run = await keeping.step(provider)
    assert (run["ended"], run["held_back"], run["reasons"]) == (0, 0, {"may_more": 1})
    assert keeping.members()["person1@example.org"]["role"] == "admin"


async def test_figures_of_runs_follow_what_is_there(keeping: KeepingScene) -> None:
    """Each time what waits is counted: nothing stands for good that another process has said, or about a connection that is gone."""
    keeping.memory.everybody = [named(1)]
    provider = await keeping.in_step()
    await keeping.step(provider)
    assert await _in_need(keeping) == (1, 0)
    assert (await keeping.request("DELETE", f"{PATH}/{provider}")).status == 204
    assert await _in_need(keeping) == (0, 0)
    keeping.memory.fault = LdapFailed(LdapStep.CONNECTION, LdapFault.TOO_SLOW)
    second = await keeping.draft(name="Second", keeps_in_step=True)
    await keeping.test(second)
    (await keeping.activate(second)).ok()
    assert (await keeping.step(second))["state"] == "failed"
    assert await _in_need(keeping) == (0, 1)
    (await keeping.change(second, keeps_in_step=False)).ok()
    assert await _in_need(keeping) == (0, 0)


async def _in_need(keeping: KeepingScene) -> tuple[int, int]:
    """What the metrics say."""
    counted = (await keeping.postern.platform.gauges.read()).directories
    return counted.waiting, counted.failing

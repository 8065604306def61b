"""Keeping in step: people come, change and go with their directory, and an owner is asked before too many go."""

from tests.http.ldap.keeping import KeepingScene, named


async def test_the_first_run_is_a_plan_that_does_nothing_until_an_owner_lets_it_go_on(keeping: KeepingScene) -> None:
    keeping.memory.everybody = [named(1), named(2), named(3, "out@elsewhere.org"), named(4, "")]
    provider = await keeping.in_step()
    plan = await keeping.step(provider)
    assert (plan["kind"], plan["state"], plan["read"], plan["came"], plan["left_out"]) == ("plan", "waiting", 4, 2, 2)
    assert plan["reasons"] == {"other_domain": 1, "no_address": 1}
    assert set(keeping.members()) == {"boss@example.org"} or "person1@example.org" not in keeping.members()
    shown = await keeping.shown(provider, plan)
    assert {(one["reason"], one["named"]) for one in shown["people"]} == {
        ("other_domain", "out@elsewhere.org"),
        ("no_address", "uid=person4,ou=people,dc=example,dc=org"),
    }
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

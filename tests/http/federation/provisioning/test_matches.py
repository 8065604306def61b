"""Which of theirs is which of ours, and who is refused."""

from typing import Any

import pytest

from core.domain.federation.provisioning.connections import dialect_of
from core.frozen import replace
from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from tests.http.federation.provisioning.scene import ProvisioningScene

_TEAM = "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'crew', 'Crew', now(), now())"
_ROLE = "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at) values (%s, %s, %s, 'r', 'R', now(), now())"


async def test_whoever_is_there_by_a_proved_address_is_matched_and_the_rest_of_theirs_stays(
    scene: ProvisioningScene, far: FakeRemoteSystem
) -> None:
    ada = scene.member("ada@acme.example", given_name="Ada")
    theirs = far.add("Ada@acme.example", nickName="Countess", name={"givenName": "A.", "middleName": "B."})
    scene.active()
    run = await scene.step()
    assert scene.counts(run) == {"made": 1, "matched": 1}
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["id"], there["externalId"], there["nickName"]) == (theirs["id"], str(ada.user), "Countess")
    assert there["name"] == {"givenName": "Ada", "middleName": "B."}


@pytest.mark.parametrize("patches", [True, False], ids=["PATCH", "PUT"])
async def test_a_match_removes_nothing_for_which_there_is_no_value_here(
    scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: pytest.MonkeyPatch, patches: bool
) -> None:
    """The usual member has no name here. What stands there stays: with the match, on the next days, and until there is a name here."""
    monkeypatch.setattr(
        "adapters.postgres.federation.provisioning_runs.dialect_of", lambda preset: replace(dialect_of(preset), patches=patches)
    )
    grace = scene.member("grace@acme.example")
    emails = [{"value": "home@elsewhere.example", "type": "home", "primary": True}, {"value": "old@acme.example", "type": "work"}]
    names = {"givenName": "Grace", "familyName": "Hopper", "honorificPrefix": "Dr."}
    far.add("grace@acme.example", displayName="Grace Hopper", name=names, emails=emails)
    scene.active(agreed=False)
    plan = await scene.step()
    (row,) = scene.people.rows("select attributes from provisioning_run_people where what = 'matched'")
    assert row["attributes"] == ['emails[type eq "work"].value', "externalId"], "what the owner says yes to"
    scene.agree(plan)
    run = await scene.step(whole=False)
    assert scene.counts(run)["matched"] == 1
    (row,) = scene.people.rows("select attributes from provisioning_run_people where what = 'matched' and run_id = %s", run["id"])
    assert row["attributes"] == ['emails[type eq "work"].value', "externalId"]

    def there() -> dict[str, Any]:
        found = far.named("grace@acme.example")
        assert found is not None
        return found

    assert (there()["displayName"], there()["name"]) == ("Grace Hopper", names)
    assert there()["emails"] == [emails[0], {"value": "grace@acme.example", "type": "work"}]
    operations = [one for request in far.writes() if request.method == "PATCH" for one in request.body["Operations"]]
    assert all(one["op"] == "replace" and one["value"] for one in operations)
    for _ in range(2):
        assert scene.counts(await scene.step()) == {"unchanged": 2}, "the next day removes nothing, either"
    # Somebody there gives her another name: it is kept there.
    far.people.keep({**there(), "displayName": "Grace M. Hopper"})
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    # With a name here, the attribute is ours; and it goes there when it goes here.
    scene.people.change("update users set name = 'Admiral', given_name = 'G' where id = %s", grace.user)
    await scene.changed()
    assert (there()["displayName"], there()["name"]) == ("Admiral", {**names, "givenName": "G"})
    scene.people.change("update users set name = null where id = %s", grace.user)
    await scene.changed()
    assert (there().get("displayName"), there()["name"]) == (None, {**names, "givenName": "G"})
    assert scene.counts(await scene.step()) == {"unchanged": 2}


async def test_what_the_other_system_fills_in_stays_while_there_is_no_value_here(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """An application that asks for a name at the first sign-in would lose it again each day."""
    ada = scene.member("ada@acme.example", given_name="Ada")
    scene.active()
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    far.people.keep({**there, "displayName": "Ada L.", "name": {"givenName": "A.", "familyName": "Lovelace"}})
    assert scene.counts(await scene.step()) == {"overwritten": 1, "unchanged": 1}, "the name that we have sent"
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["displayName"], there["name"]) == ("Ada L.", {"givenName": "Ada", "familyName": "Lovelace"})
    # It ends, comes back, and still is theirs.
    scene.leaves(ada)
    await scene.step()
    scene.tenants.join(ada, scene.acme)
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["displayName"], there["active"]) == ("Ada L.", True)


async def test_a_plan_names_each_attribute_that_it_would_change_or_remove(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", given_name="Ada", name="Ada L.")
    bob = scene.member("bob@acme.example", given_name="Bob")
    far.add("ada@acme.example", displayName="Ada L.", name={"givenName": "A."}, active=False)
    scene.active()
    await scene.step()
    far.add("carl@acme.example", name={"givenName": "Carl"}, externalId="")
    scene.member("carl@acme.example", given_name="Carl")
    scene.people.change("update users set given_name = null where id = %s", bob.user)
    scene.people.change("update users set family_name = 'King' where id = %s", ada.user)
    # Other settings: a plan.
    scene.people.change("update provisioning_connections set active_digest = 'other'")
    plan = await scene.step()
    path = f"/api/organizations/acme/services/shop/provisioning/runs/{plan['id']}/people"
    people = {one["named"]: one for one in (await scene.request("GET", path)).ok()["people"]}
    assert {name: (one["what"], one["attributes"]) for name, one in people.items()} == {
        "ada@acme.example": ("changed", ["name.familyName"]),
        "bob@acme.example": ("changed", ["name.givenName"]),
        "carl@acme.example": ("matched", ['emails[type eq "work"].value', "externalId"]),
    }
    assert (plan["unchanged"], far.named("bob@acme.example")["name"]) == (1, {"givenName": "Bob"})  # type: ignore[index]


async def test_an_address_that_nobody_has_proved_leads_to_nobody_there(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ceo@customer.example", listed=True, proved=False)
    theirs = far.add("ceo@customer.example")
    scene.active()
    run = await scene.step()
    assert ("left_out", "address_not_proved", "ceo@customer.example") in scene.named(run)
    assert far.named("ceo@customer.example") == theirs
    assert scene.there()["ceo@customer.example"]["far_id"] is None


async def test_an_address_that_our_own_provider_vouches_for_counts(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", proved=False)
    theirs = far.add("ada@acme.example")
    scene.people.change("update users set address_vouched_by = %s where id = %s", f"{scene.globex.id}/x", ada.user)
    scene.active()
    assert scene.counts(await scene.step())["left_out"] == 1
    scene.people.change("update users set address_vouched_by = %s where id = %s", f"{scene.acme.id}/x", ada.user)
    assert scene.counts(await scene.step())["matched"] == 1
    assert scene.there()["ada@acme.example"]["far_id"] == theirs["id"]


async def test_one_of_theirs_is_no_two_of_ours(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    bob = scene.member("bob@acme.example")
    there = far.named("ada@acme.example")
    assert there is not None
    # Somebody there has tied Ada's account to Bob. Both are sent at once: whoever is first, Bob is looked for before Ada has it again.
    tied = {**there, "externalId": str(bob.user)}
    far.people.keep(dict(tied))
    found = RemoteAnswer(200, {"totalResults": 1, "Resources": [tied]})
    far.answers = lambda request: found if request.query.get("filter") == f'externalId eq "{bob.user}"' else None
    run = await scene.step()
    far.answers = None
    assert ("left_out", "far_id_of_another", "bob@acme.example") in scene.named(run)
    assert ("overwritten", None, "ada@acme.example") in scene.named(run)
    again = far.named("ada@acme.example")
    assert again is not None
    assert (again["id"], again["externalId"]) == (there["id"], str(ada.user))
    assert scene.counts(await scene.step())["made"] == 1, "and then there is room for Bob"


async def test_whoever_is_tied_to_something_else_there_is_left_alone(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    theirs = far.add("ada@acme.example", externalId="payroll-17")
    scene.active()
    assert ("left_out", "other_external_id", "ada@acme.example") in scene.named(await scene.step())
    assert far.named("ada@acme.example") == theirs


async def test_a_name_that_is_taken_where_no_list_shows_it_is_named(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    far.taken = {"ada@acme.example"}
    scene.active()
    assert ("left_out", "uniqueness", "ada@acme.example") in scene.named(await scene.step())
    far.taken = set()
    assert scene.counts(await scene.step())["made"] == 1


async def test_an_answer_about_another_changes_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    before = scene.there()["ada@acme.example"]
    far.answers_id = "somebody-else"
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    run = await scene.step()
    assert ("left_out", "other_id", "ada@acme.example") in scene.named(run)
    after = scene.there()["ada@acme.example"]
    assert (after["far_id"], after["active"], after["state"], after["why"]) == (before["far_id"], True, "refused", "other_id")
    far.answers_id = ""
    assert scene.counts(await scene.step()) == {"unchanged": 2}, "it was written, and only the answer was wrong"
    assert scene.there()["ada@acme.example"]["state"] == "sent"


async def test_an_answer_that_names_one_of_ours_makes_nobody(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    far.answers_id = str(scene.there()["ada@acme.example"]["far_id"])
    scene.member("bob@acme.example")
    run = await scene.step()
    assert ("left_out", "far_id_of_another", "bob@acme.example") in scene.named(run)
    assert scene.there()["bob@acme.example"]["far_id"] is None


async def test_members_of_others_and_people_who_are_no_members_do_not_go(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("eve@globex.example", tenant=scene.globex)
    user = scene.user(scene.shop, email="user@elsewhere.example")
    scene.people.change(
        "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, false, now(), now())",
        scene.acme.id,
        user.user,
    )
    scene.active()
    await scene.step()
    assert far.active() == {scene.boss.email}


async def test_a_listed_member_goes_without_their_own_profile(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", listed=True, given_name="Augusta", name="Countess")
    scene.people.change(
        "insert into provisioned_users (org_id, user_id, given_name, is_member, created_at, updated_at)"
        " values (%s, %s, 'Ada', true, now(), now())",
        scene.acme.id,
        ada.user,
    )
    scene.active()
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["name"], there.get("displayName")) == ({"givenName": "Ada"}, None)
    # Consent for this application opens the profile.
    scene.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{profile}', now())",
        ada.user,
        scene.shop.id,
    )
    await scene.changed()
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["name"], there["displayName"]) == ({"givenName": "Augusta"}, "Countess")


async def test_only_those_who_are_assigned_or_chosen_go(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.member("bob@acme.example")
    team = scene.postern.foundation.ids.new()
    scene.people.change(
        _TEAM,
        team,
        scene.acme.id,
    )
    scene.people.change(
        "insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", team, scene.acme.id, ada.user
    )
    scene.active(team_ids=[team])
    await scene.step()
    assert far.active() == {"ada@acme.example"}
    scene.people.change("update provisioning_connections set team_ids = null")
    scene.people.change("update all_services set sign_in_policy = 'assigned' where id = %s", scene.shop.id)
    role = scene.postern.foundation.ids.new()
    scene.people.change(
        _ROLE,
        role,
        scene.acme.id,
        scene.shop.id,
    )
    scene.people.change(
        "insert into relations (id, organization_id, user_id, relation, object_type, object_id, service_id, created_at)"
        " select gen_random_uuid(), %s, id, 'holder', 'service_role', %s, %s, now()"
        " from users where email in ('ada@acme.example', 'bob@acme.example')",
        scene.acme.id,
        role,
        scene.shop.id,
    )
    await scene.step()
    assert far.active() == {"ada@acme.example", "bob@acme.example"}


async def test_a_lock_counts_for_own_memberships_alone(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    people = {name: scene.member(f"{name}@acme.example", listed=name == "listed") for name in ("own", "listed", "platform", "directory")}
    for number in range(20):
        scene.member(f"p{number}@acme.example")
    scene.active()
    await scene.step()
    for name, changes in {
        "own": "deactivated_at = now(), locked_at = now()",
        "listed": "deactivated_at = now(), locked_at = now()",
        "platform": "deactivated_at = now()",
        "directory": f"deactivated_at = now(), deactivated_by_org_id = '{scene.acme.id}'",
    }.items():
        scene.people.change(f"update users set {changes} where id = %s", people[name].user)
    run = await scene.changed()
    assert {one for one in scene.named(run) if one[0] == "ended"} == {
        ("ended", "locked", "own@acme.example"),
        ("ended", "blocked", "directory@acme.example"),
    }
    assert {"listed@acme.example", "platform@acme.example"} <= far.active()

"""Runs, and the people whom a connection has sent, by the API: who may read, start, decide and try again."""

from typing import Any

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.client import refused
from tests.http.federation.provisioning.scene import ProvisioningScene

PATH = "/api/organizations/acme/services/shop/provisioning"


async def planned(scene: ProvisioningScene) -> dict[str, Any]:
    """A plan that waits, as the API shows it."""
    scene.active(agreed=False)
    await scene.step()
    (plan,) = (await scene.request("GET", f"{PATH}/runs")).json()
    return dict(plan)


async def test_an_owner_lets_a_plan_go_on_by_its_digest(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    plan = await planned(scene)
    assert (plan["kind"], plan["state"], plan["made"]) == ("plan", "waiting", 2)
    assert (await scene.request("GET", f"{PATH}/runs/{plan['id']}")).ok() == plan
    people = f"{PATH}/runs/{plan['id']}/people?what=made&limit=1"
    first = (await scene.request("GET", people)).ok()
    second = (await scene.request("GET", f"{people}&after={first['next']}")).ok()
    assert {one["named"] for one in (*first["people"], *second["people"])} == {"ada@acme.example", scene.boss.email}
    assert (await scene.request("GET", f"{people}&after={second['next']}")).ok() == {"people": [], "next": None}
    assert {one["named"] for one in (await scene.request("GET", f"{PATH}/runs/{plan['id']}/people")).ok()["people"]} == {
        "ada@acme.example",
        scene.boss.email,
    }
    go_on = f"{PATH}/runs/{plan['id']}/go-on"
    assert (await scene.request("POST", go_on, {"digest": "0" * 64})).status == 409
    assert (await scene.request("POST", go_on, {"digest": "none"})).status == 400
    admin = scene.resident(scene.acme, "admin")
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]}, by=admin)).status == 403
    assert far.writes() == []
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]})).ok()["state"] == "agreed"
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]})).status == 409, "once"
    assert scene.counts(await scene.step(whole=False))["made"] == 3
    names = [one["name"] for one in scene.told() if "provisioning" in one["name"]]
    assert names == ["service.provisioning.run.stopped", "service.provisioning.run.agreed"]


async def test_a_plan_of_other_settings_or_of_yesterday_is_not_let_go_on(scene: ProvisioningScene) -> None:
    plan = await planned(scene)
    go_on = f"{PATH}/runs/{plan['id']}/go-on"
    scene.people.change("update provisioning_connections set active_digest = 'other'")
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]})).status == 409
    scene.people.change("update provisioning_connections set active_digest = 'settings'")
    scene.people.change("update provisioning_runs set begun_at = begun_at - interval '25 hours'")
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]})).status == 409


async def test_a_plan_is_not_let_go_on_while_a_draft_of_other_settings_stands(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    body = {"base_url": far.url, "token": far.token}
    (await scene.request("PUT", PATH, body)).ok()
    drafted = (await scene.request("GET", PATH)).ok()
    (await scene.request("POST", f"{PATH}/activate", {"digest": drafted["digest"]})).ok()
    await scene.step()
    (plan,) = (await scene.request("GET", f"{PATH}/runs")).json()
    go_on = f"{PATH}/runs/{plan['id']}/go-on"
    (await scene.request("PUT", PATH, {"base_url": far.url, "attributes_left_out": ["displayName"]})).ok()
    answer = await scene.request("POST", go_on, {"digest": plan["digest"]})
    assert refused(answer) == (409, "CONFLICT")
    assert scene.people.rows("select agreed_run, agreed_digest from provisioning_connections") == [
        {"agreed_run": None, "agreed_digest": None}
    ]
    # The settings of the plan again, with an owner's word.
    (await scene.request("PUT", PATH, {"base_url": far.url})).ok()
    assert refused(await scene.request("POST", go_on, {"digest": plan["digest"]})) == (409, "CONFLICT")
    (await scene.request("POST", f"{PATH}/activate", {"digest": drafted["digest"]})).ok()
    assert (await scene.request("POST", go_on, {"digest": plan["digest"]})).status == 200


async def test_after_a_plan_that_was_left_nothing_goes_by_itself(scene: ProvisioningScene) -> None:
    plan = await planned(scene)
    admin = scene.resident(scene.acme, "admin")
    assert (await scene.request("POST", f"{PATH}/runs/{plan['id']}/leave", by=admin)).status == 403
    assert (await scene.request("POST", f"{PATH}/runs/{plan['id']}/leave")).ok()["state"] == "left"
    scene.people.change("update provisioning_connections set leased_until = null, again_at = null")
    assert list(await scene.keeping.claim_due(10)) == []
    assert (await scene.request("POST", f"{PATH}/runs", by=admin)).ok() == {"started": True}
    assert len(await scene.keeping.claim_due(10)) == 1


async def test_members_who_manage_integrations_read_and_try_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    far.refuses = {"ada@acme.example": (400, "invalidValue", "no such thing")}
    scene.active()
    await scene.step()
    admin = scene.resident(scene.acme, "admin")
    listed = (await scene.request("GET", f"{PATH}/people?place=refused", by=admin)).ok()["people"]
    assert [(one["named"], one["place"], one["why"], one["is_active"]) for one in listed] == [
        ("ada@acme.example", "refused", "invalidValue", False)
    ]
    exchanges = (await scene.request("GET", f"{PATH}/exchanges", by=admin)).json()
    assert [(one["status"], one["scim_type"], one["said"]) for one in exchanges if one["has_failed"]] == [
        (400, "invalidValue", "no such thing")
    ]
    systems = (await scene.request("GET", f"/api/organizations/acme/users/{ada.user}/provisioning", by=admin)).json()
    assert [(one["service_slug"], one["place"], one["why"]) for one in systems] == [("shop", "refused", "invalidValue")]
    far.refuses = {}
    again = f"{PATH}/people/{ada.user}/try-again"
    assert (await scene.request("POST", again, by=admin)).ok() == {"started": True}
    assert scene.counts(await scene.changed())["made"] >= 1
    assert (await scene.request("POST", f"{PATH}/people/{scene.connection}/try-again", by=admin)).status == 404


async def test_nobody_else_reads(scene: ProvisioningScene) -> None:
    plan = await planned(scene)
    member = scene.resident(scene.acme, "member")
    stranger = scene.resident(scene.globex, "owner")
    for path in ("runs", f"runs/{plan['id']}", f"runs/{plan['id']}/people", "people", "exchanges"):
        assert (await scene.request("GET", f"{PATH}/{path}", by=member)).status == 403
        assert (await scene.request("GET", f"{PATH}/{path}", by=stranger)).status in {403, 404}
    systems = f"organizations/{{}}/users/{scene.boss.user}/provisioning"
    assert (await scene.request("GET", f"/api/{systems.format('acme')}", by=member)).status == 403
    assert (await scene.request("GET", f"/api/{systems.format('acme')}", by=stranger)).status in {403, 404}
    assert (await scene.request("GET", f"/api/{systems.format('globex')}", by=stranger)).status == 404
    theirs = "/api/organizations/globex/services/app/provisioning"
    assert (await scene.request("GET", f"{theirs}/runs", by=stranger)).status == 404
    assert (await scene.request("GET", f"{theirs}/runs/{plan['id']}", by=stranger)).status == 404
    assert (await scene.request("POST", f"{theirs}/runs/{plan['id']}/go-on", {"digest": plan["digest"]}, by=stranger)).status == 404
    assert (await scene.request("POST", f"{theirs}/people/{scene.boss.user}/try-again", by=stranger)).status == 404


async def test_a_draft_starts_nothing(scene: ProvisioningScene) -> None:
    assert (await scene.request("POST", f"{PATH}/runs")).status == 404
    scene.active(state="draft")
    assert (await scene.request("POST", f"{PATH}/runs")).status == 409


async def test_a_person_sees_where_they_were_sent(scene: ProvisioningScene) -> None:
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    export = (await scene.request("GET", f"/api/privacy/export/{ada.user}", by=ada)).ok()
    assert export["people_there"] == [
        {
            "organization_id": str(scene.acme.id),
            "service_slug": "shop",
            "user_name": "ada@acme.example",
            "id_there": scene.there()["ada@acme.example"]["far_id"],
            "is_active": True,
        }
    ]

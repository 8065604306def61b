"""A connection outwards is drafted by a member, made active by an owner, and stops with each change."""

from typing import Any, Final

import pytest

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.client import Received, refused
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import Person

PATH: Final = "/api/organizations/acme/services/shop/provisioning"


async def draft(scene: ProvisioningScene, by: Person | None = None, **changed: Any) -> Received:
    body = {"base_url": scene.far.url, "token": scene.far.token, **changed}
    return await scene.request("PUT", PATH, {key: value for key, value in body.items() if value is not ...}, by=by)


async def activate(scene: ProvisioningScene, shown: dict[str, Any], by: Person | None = None) -> Received:
    return await scene.request("POST", f"{PATH}/activate", {"digest": shown["digest"]}, by=by)


async def test_an_application_has_no_connection_before_somebody_drafts_one(scene: ProvisioningScene) -> None:
    shown = (await scene.request("GET", PATH)).ok()
    assert (shown["state"], shown["base_url"], shown["has_token"], shown["mapping"]) == (None, None, False, [])
    assert [one["preset"] for one in shown["presets"]] == ["generic", "postern", "slack", "aws"]
    assert (await scene.request("GET", PATH.replace("shop", "nothing"))).status == 404


async def test_a_draft_is_made_active_and_people_arrive_after_a_plan(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", given_name="Ada")
    shown = (await draft(scene)).ok()
    assert (shown["state"], shown["has_token"], shown["active_there"]) == ("draft", True, 0)
    assert far.token not in str(shown)
    await scene.step()
    assert far.arrived == [], "a draft sends nothing"
    shown = (await activate(scene, shown)).ok()
    assert shown["state"] == "active"
    plan = await scene.step()
    assert (plan["kind"], plan["state"], far.writes()) == ("plan", "waiting", [])
    agreed = await scene.request("POST", f"{PATH}/runs/{plan['id']}/go-on", {"digest": plan["digest"].hex()})
    agreed.ok()
    await scene.step(whole=False)
    assert far.active() == {"ada@acme.example", scene.boss.email}
    assert (await scene.request("GET", PATH)).ok()["active_there"] == 2


async def test_what_was_active_stops_with_each_change_and_waits_for_an_owner(scene: ProvisioningScene) -> None:
    active = (await activate(scene, (await draft(scene)).ok())).ok()
    assert (await draft(scene, token=...)).ok() == active, "nothing has changed"
    changes: list[dict[str, Any]] = [
        {"token": "another-token-of-theirs"},
        {"token": ..., "preset": "postern"},
        {"token": ..., "attributes_left_out": ["displayName"]},
        {"token": ..., "mapping": [{"attribute": "userName", "source": "address"}]},
        {"token": ..., "base_url": f"{scene.far.url}/other"},
    ]
    for change in changes:
        shown = (await draft(scene, **change)).ok()
        assert (shown["state"], shown["has_token"]) == ("draft", True), change
        assert refused(await activate(scene, active)) == (409, "CONFLICT"), change
        active = (await activate(scene, shown)).ok()


@pytest.mark.parametrize(
    "changed",
    [
        {"base_url": "http://scim.example.org/v2"},
        {"base_url": "https://scim.example.org/v2?x=1"},
        {"base_url": "ftp://scim.example.org"},
        {"mapping": []},
        {"mapping": [{"attribute": "displayName", "source": "name"}]},
        {"mapping": [{"attribute": "userName", "source": "address"}, {"attribute": "userName", "source": "name"}]},
        {"mapping": [{"attribute": "userName", "source": "address"}, {"attribute": "password", "source": "constant", "argument": "x"}]},
        {"mapping": [{"attribute": "userName", "source": "address"}, {"attribute": "externalId", "source": "name"}]},
        {"mapping": [{"attribute": "userName", "source": "address"}, {"attribute": "title", "source": "organization_field"}]},
        {"mapping": [{"attribute": "userName", "source": "address", "argument": "x"}]},
        {"attributes_left_out": ["title"]},
        {"attributes_left_out": ["userName"]},
        {"team_ids": []},
        {"team_ids": ["0199d3a0-0000-7000-8000-000000000021"]},
        {"token": "a b"},
        {"token": "a\r\nhost: b"},
        {"preset": "aws", "mapping": [{"attribute": "userName", "source": "address"}]},
    ],
    ids=str,
)
async def test_what_cannot_be_is_refused(scene: ProvisioningScene, changed: dict[str, Any]) -> None:
    answer = await draft(scene, **changed)
    assert answer.status == 400, answer.body
    assert scene.people.rows("select from provisioning_connections") == []


async def test_a_connection_is_stopped_by_hand_and_deleted(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    active = (await activate(scene, (await draft(scene)).ok())).ok()
    assert (await scene.request("POST", f"{PATH}/stop")).ok()["state"] == "stopped"
    far.forget_requests()
    await scene.step()
    assert far.arrived == []
    assert (await activate(scene, active)).ok()["state"] == "active"
    assert (await scene.request("DELETE", PATH)).status == 204
    assert (await scene.request("GET", PATH)).ok()["state"] is None
    assert (await scene.request("DELETE", PATH)).status == 404
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == [
        f"service.provisioning.{name}" for name in ("updated", "activated", "deactivated", "activated", "deleted")
    ]
    assert far.token not in str(scene.told()) + str(scene.audited())


async def test_an_owner_who_deletes_may_end_everybody_there_first(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    active = (await activate(scene, (await draft(scene)).ok())).ok()
    scene.people.change("update provisioning_connections set agreed_digest = active_digest")
    await scene.step()
    assert len(far.active()) == 2
    (await draft(scene, token=..., attributes_left_out=["displayName"])).ok()
    assert refused(await scene.request("POST", f"{PATH}/end")) == (409, "CONFLICT"), "no owner has seen these settings"
    (await draft(scene, token=...)).ok()
    assert (await activate(scene, active)).status == 200
    assert (await scene.request("POST", f"{PATH}/end")).ok()["state"] == "ending"
    assert (await scene.request("GET", PATH)).ok()["state"] == "ending"
    assert (await draft(scene)).status == 409
    await scene.step(whole=False)
    assert far.active() == set()
    assert (await scene.request("GET", PATH)).ok()["state"] is None


async def test_another_address_knows_nobody_of_the_one_before(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """The id 1 of one system is somebody else in another."""
    (await activate(scene, (await draft(scene)).ok())).ok()
    scene.people.change("update provisioning_connections set agreed_digest = active_digest")
    await scene.step()
    assert scene.there() != {}
    with FakeRemoteSystem() as other:
        shown = (await draft(scene, base_url=other.url, token=other.token)).ok()
        assert scene.there() != {}, "a draft is nobody's word"
        (await activate(scene, shown)).ok()
        assert scene.there() == {}
    assert far.active() == {scene.boss.email}


async def test_the_preview_says_what_would_be_sent_and_what_not(scene: ProvisioningScene) -> None:
    ada = scene.member("ada@acme.example", listed=True, given_name="Augusta")
    mapping = [
        {"attribute": "userName", "source": "address"},
        {"attribute": "name.givenName", "source": "given_name"},
        {"attribute": "title", "source": "constant", "argument": "Member"},
    ]
    (await draft(scene, mapping=mapping)).ok()
    shown = (await scene.request("GET", f"{PATH}/preview/{ada.user}")).ok()
    assert (shown["would_go"], shown["why_not"]) == (True, None)
    assert {one["attribute"]: one["value"] for one in shown["attributes"]} == {"userName": "ada@acme.example", "title": "Member"}
    assert [one["attribute"] for one in shown["missing"]] == ["name.givenName"]
    stranger = scene.member("eve@globex.example", tenant=scene.globex)
    assert (await scene.request("GET", f"{PATH}/preview/{stranger.user}")).status == 404
    scene.people.change("update all_services set sign_in_policy = 'assigned' where id = %s", scene.shop.id)
    assert (await scene.request("GET", f"{PATH}/preview/{ada.user}")).ok()["why_not"] == "not_admitted"

"""A look at everybody: people are made, matched, changed and ended in the other system."""

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.federation.provisioning.scene import ProvisioningScene


async def test_everybody_arrives_changes_and_ends(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", given_name="Ada", family_name="Lovelace")
    scene.member("bob@acme.example")
    scene.active()
    run = await scene.step()
    assert (run["kind"], run["state"], scene.counts(run)) == ("whole", "done", {"made": 3})
    there = far.named("ada@acme.example")
    assert there is not None
    assert there == {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "id": there["id"],
        "externalId": str(ada.user),
        "userName": "ada@acme.example",
        "emails": [{"value": "ada@acme.example", "type": "work", "primary": True}],
        "name": {"givenName": "Ada", "familyName": "Lovelace"},
        "active": True,
    }
    assert scene.counts(await scene.step()) == {"unchanged": 3}
    scene.people.change("update users set family_name = 'King' where id = %s", ada.user)
    far.forget_requests()
    assert scene.counts(await scene.step()) == {"changed": 1, "unchanged": 2}
    assert len(far.writes()) == 1
    changed = far.named("ada@acme.example")
    assert changed is not None
    assert changed["name"] == {"givenName": "Ada", "familyName": "King"}
    scene.leaves(ada)
    run = await scene.step()
    assert scene.counts(run) == {"ended": 1, "unchanged": 2}
    assert far.active() == {"bob@acme.example", scene.boss.email}
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    scene.tenants.join(ada, scene.acme)
    assert scene.counts(await scene.step()) == {"changed": 1, "unchanged": 2}
    assert "ada@acme.example" in far.active()
    assert far.doubles() == []

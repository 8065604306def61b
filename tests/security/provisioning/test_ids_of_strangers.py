"""An id that we keep may be somebody else's: another token of the same host leads to another tenant, and systems count from one."""

from typing import Any

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.federation.provisioning.scene import ProvisioningScene


def becomes_a_stranger(far: FakeRemoteSystem, email: str) -> dict[str, Any]:
    there = far.named(email)
    assert there is not None
    stranger = {**there, "userName": "ceo@customer.example", "externalId": "their-hr-7", "displayName": "Somebody else"}
    far.people.keep(stranger)
    return stranger


async def test_nobody_is_written_over_by_an_id_alone(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", given_name="Ada")
    scene.active()
    await scene.step()
    stranger = becomes_a_stranger(far, "ada@acme.example")
    await scene.step()
    assert far.named("ceo@customer.example") == stranger
    ada = far.named("ada@acme.example")
    assert ada is not None
    assert ada["id"] != stranger["id"]
    assert scene.there()["ada@acme.example"]["far_id"] == ada["id"]
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    assert not far.doubles()


async def test_nobody_is_ended_by_an_id_alone(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    stranger = becomes_a_stranger(far, "ada@acme.example")
    scene.leaves(ada)
    run = await scene.changed()
    assert far.named("ceo@customer.example") == stranger
    assert ("left_out", "other_external_id", "ada@acme.example") in scene.named(run)


async def test_a_name_that_we_sent_is_still_the_persons_whatever_it_is_tied_to(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Nobody stays active because somebody there has changed an `externalId`."""
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    far.people.keep({**there, "externalId": "payroll-17"})
    scene.leaves(ada)
    await scene.changed()
    assert far.active() == {scene.boss.email}

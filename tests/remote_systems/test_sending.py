"""People are sent to a server of another author, and to a second Postern: they arrive, change and end, and nobody is there twice."""

from collections.abc import Iterator

import pytest
import trio

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import People
from tests.remote_systems.other_servers import OtherRemoteSystem, RemotePostern


async def arrive_change_and_end(scene: ProvisioningScene, remote_system: OtherRemoteSystem, preset: str) -> None:
    ada = scene.member("ada@acme.example", given_name="Ada", family_name="Lovelace", name="Ada Lovelace")
    scene.member("bob@acme.example")
    scene.active(
        base_url=remote_system.url,
        preset=preset,
        sealed_token=None,
    )
    scene.sealed_token(remote_system.token)
    assert scene.counts(await scene.step())["made"] == 3
    there = await trio.to_thread.run_sync(remote_system.named, "ada@acme.example")
    assert there is not None
    assert (there["externalId"], there["name"]["familyName"], there["active"]) == (str(ada.user), "Lovelace", True)
    assert scene.counts(await scene.step()) == {"unchanged": 3}
    scene.people.change("update users set family_name = 'King', name = 'Ada King' where id = %s", ada.user)
    assert scene.counts(await scene.changed())["changed"] == 1
    there = await trio.to_thread.run_sync(remote_system.named, "ada@acme.example")
    assert there is not None
    assert there["name"]["familyName"] == "King"
    scene.leaves(ada)
    assert scene.counts(await scene.changed())["ended"] == 1
    assert "ada@acme.example" not in await trio.to_thread.run_sync(remote_system.active)
    # Nothing of what was kept is needed to find everybody again.
    scene.people.change("delete from provisioned_people")
    assert scene.counts(await scene.step()) == {"matched": 2}
    everybody = [one["userName"].lower() for one in await trio.to_thread.run_sync(remote_system.everybody)]
    assert len(set(everybody)) == len(everybody)
    assert {"ada@acme.example", "bob@acme.example"} <= set(everybody)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Iterator[ProvisioningScene]:
    with FakeRemoteSystem() as unused:
        yield ProvisioningScene(postern, people, client, log, far=unused)


async def test_a_server_of_another_author_takes_people(scene: ProvisioningScene, others: OtherRemoteSystem) -> None:
    for one in others.everybody():
        others.delete(one["id"])
    await arrive_change_and_end(scene, others, "generic")


async def test_a_second_postern_takes_people(scene: ProvisioningScene, remote_postern: RemotePostern, log: CapturedLog) -> None:
    remote_system = await remote_postern.connected()
    log.remember(remote_system.token)
    await arrive_change_and_end(scene, remote_system, "postern")

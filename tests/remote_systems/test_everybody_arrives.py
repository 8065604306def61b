"""Everybody arrives, changes and ends at every kind of system, and nobody is there twice: servers of others, another Postern, the dialects
of the presets, and servers on bad days.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
import trio
from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.connections import token_context
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from ops.stand_ins.remote_dialects import DIALECTS, RemoteDialect
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.provisioning.scene import MAPPING, ProvisioningScene
from tests.http.people import People
from tests.remote_systems.other_servers import OtherRemoteSystem, RemotePostern

AT_FIRST: Final = 14
Asked = Callable[[], Awaitable[Any]]


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> ProvisioningScene:
    """The remote system of the scene is not the one to which people go here."""
    return ProvisioningScene(postern, people, client, log, far=FakeRemoteSystem())


class Life:
    """People come, change and go, and the other system is compared after each step. `there` tells of it by names of addresses."""

    def __init__(self, scene: ProvisioningScene, everybody: Callable[[], list[dict[str, Any]]], *, name: str = "userName") -> None:
        self.scene = scene
        self._everybody = everybody
        self._name = name
        self.strangers: set[str] = set()

    async def there(self) -> dict[str, dict[str, Any]]:
        """Those who are active, by the address under which they were sent. Nobody is there twice."""
        found = await trio.to_thread.run_sync(self._everybody)
        active = [one for one in found if one.get("active", True)]
        named = {str(self._address(one)).lower(): one for one in active}
        assert len(named) == len(active), active
        ours = [one["externalId"] for one in found if one.get("externalId")]
        assert len(set(ours)) == len(ours), ours
        return {name: one for name, one in named.items() if name not in self.strangers}

    def _address(self, one: dict[str, Any]) -> Any:
        emails = one.get("emails") or [{}]
        return emails[0].get("value") or one[self._name]

    async def until_quiet(self) -> None:
        """Bad days pass."""
        for _ in range(6):
            run = await self.scene.step()
            if run["state"] == "done" and not run["left_out"]:
                return
        raise AssertionError(self.scene.named(self.scene.newest()))

    async def live(self) -> None:
        scene = self.scene
        people = {
            f"p{number}@acme.example": scene.member(
                f"p{number}@acme.example", given_name=f"P{number}", family_name="Q", name=f"P{number} Q"
            )
            for number in range(AT_FIRST)
        }
        scene.people.change("update users set given_name = 'Boss', family_name = 'B', name = 'Boss B' where id = %s", scene.boss.user)
        expected = {*people, scene.boss.email}
        await self.until_quiet()
        assert set(await self.there()) == expected
        changed = people["p3@acme.example"]
        scene.people.change("update users set given_name = 'Petra', name = 'Petra Q' where id = %s", changed.user)
        scene.leaves(people["p5@acme.example"])
        await scene.changed()
        await self.until_quiet()
        there = await self.there()
        assert set(there) == expected - {"p5@acme.example"}
        assert there["p3@acme.example"]["name"]["givenName"] == "Petra"
        # Whoever comes back is the same one there.
        scene.tenants.join(people["p5@acme.example"], scene.acme)
        await scene.changed()
        await self.until_quiet()
        assert set(await self.there()) == expected
        assert scene.counts(await scene.step()) == {"unchanged": len(expected)}


def connected(scene: ProvisioningScene, url: str, token: str, preset: str = "generic") -> None:
    scene.log.remember(token)
    made = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into provisioning_connections"
        " (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest, agreed_digest, whole_due_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, 'active', 'x', 'x', now())",
        made,
        scene.acme.id,
        scene.shop.id,
        preset,
        url,
        scene.people.sealed(token, token_context(made)),
        Jsonb(MAPPING),
    )
    scene.connection = made


@pytest.mark.parametrize("preset", sorted(DIALECTS))
async def test_everybody_arrives_at_a_system_of_each_preset(scene: ProvisioningScene, preset: str) -> None:
    with FakeRemoteSystem(DIALECTS[preset]) as far:
        connected(scene, far.url, far.token, preset)
        await Life(scene, far.everybody).live()
        assert far.statuses[400] == 0, "a preset knows what its system takes"
        assert far.doubles() == []


_BAD_DAYS: Final[dict[str, dict[str, Any]]] = {
    "ids are numbers": {"dialect": RemoteDialect(numbers=True)},
    "each tenth request is too many": {"throttles_each": 10, "retry_after": "0"},
    "names come back in other letters": {"swaps_case": True},
    "errors in the middle": {"fails_at": {2, 9}, "fails_behind": {4, 5}, "hangs_up_behind": {7, 17}},
    "pages of five": {"dialect": RemoteDialect(longest_page=5)},
    "DELETE is refused": {"dialect": RemoteDialect(deletes="refuses")},
}


@pytest.mark.parametrize("day", _BAD_DAYS.values(), ids=_BAD_DAYS)
async def test_everybody_arrives_on_a_bad_day(scene: ProvisioningScene, day: dict[str, Any]) -> None:
    with FakeRemoteSystem(**day) as far:
        connected(scene, far.url, far.token)
        await Life(scene, far.everybody).live()


async def test_everybody_arrives_at_another_authors_server(scene: ProvisioningScene, others: OtherRemoteSystem) -> None:
    connected(scene, others.url, others.token)
    life = Life(scene, others.everybody)
    life.strangers = {one["userName"] for one in await trio.to_thread.run_sync(others.everybody)}
    await life.live()


async def test_everybody_arrives_at_another_postern(scene: ProvisioningScene, remote_postern: RemotePostern) -> None:
    remote_system = await remote_postern.connected()
    connected(scene, remote_system.url, remote_system.token, "postern")
    life = Life(scene, remote_system.everybody)
    life.strangers = {remote_postern.owner.email}
    await life.live()
    assert {row["email"] for row in remote_postern.people.rows("select email from users")} >= {"p0@acme.example"}
    rows = remote_postern.people.rows(
        "select count(*) as members from memberships where org_id = %s and own_since is null", remote_postern.tenant.id
    )
    assert rows == [{"members": AT_FIRST + 1}], "they have confirmed nothing there"


@pytest.mark.parametrize("preset", sorted(DIALECTS))
async def test_whoever_is_deleted_here_is_deleted_there(scene: ProvisioningScene, preset: str) -> None:
    with FakeRemoteSystem(DIALECTS[preset]) as far:
        connected(scene, far.url, far.token, preset)
        for number in range(3):
            scene.member(f"p{number}@acme.example", given_name="P", family_name="Q", name="P Q")
        scene.people.change("update users set given_name = 'Boss', family_name = 'B', name = 'Boss B' where id = %s", scene.boss.user)
        await scene.step()
        assert len(far.active()) == 4
        scene.people.change("delete from users where email = 'p1@acme.example'")
        await scene.changed()
        assert len(far.active()) == 3
        left = [one for one in far.everybody() if not one.get("active", True)]
        assert not any(one.get(key) for one in left for key in ("name", "displayName", "externalId"))
        assert [len(left), len(far.everybody())] == ([1, 4] if preset == "slack" else [0, 3])
        assert scene.people.rows("select from provisioned_people where user_id is null") == []

"""Deleting a service over HTTP: the service is gone at once for everyone, and only the present owner of the organization may delete it."""

from collections import Counter
from typing import Any, Final
from uuid import UUID

import pytest
import trio

from core.domain.errors import Forbidden
from core.domain.identity.callers import Participation
from core.domain.record.events import Actor
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person

SERVICES: Final = "/api/organizations/acme/services"


class ServiceDeletionScene(Shops):
    """Adds a person who uses both services of acme."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.end_user = self.user(self.shop, self.app, email="user@example.org")

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, SERVICES + path, body, by=by)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> ServiceDeletionScene:
    return ServiceDeletionScene(postern, people, client, log)


async def test_it_is_gone_at_once(scene: ServiceDeletionScene) -> None:
    in_shop, in_app = [await scene.tenants.token_in(scene.end_user, place) for place in (scene.shop, scene.app)]
    answer = await scene.ask("DELETE", "/shop")
    assert (answer.status, answer.body) == (204, b"")
    assert [one["slug"] for one in (await scene.ask("GET")).json()["services"]] == ["app"]
    assert (await scene.ask("GET")).json()["usage"]["current_services"] == 1
    for method, path, body in (
        ("GET", "/shop", None),
        ("PATCH", "/shop", {"name": "X"}),
        ("DELETE", "/shop", None),
        ("GET", "/shop/client-secrets", None),
        ("POST", "/shop/client-secrets", None),
    ):
        assert (await scene.ask(method, path, body)).status == 404, (method, path)
    assert (await scene.client.get("/api/user", token=in_shop)).status == 401
    assert (await scene.client.get("/api/user", token=in_app)).status == 200
    # Accounts stay, since they belong to their people.
    assert (await scene.client.get("/api/user", token=await scene.tenants.token(scene.end_user))).status == 200


async def test_it_takes_a_fresh_proof_of_the_owner_in_person(scene: ServiceDeletionScene) -> None:
    stale = "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s"
    scene.people.change(stale, scene.owner.session)
    answer = await scene.ask("DELETE", "/shop")
    assert refused(answer) == (401, "REAUTHENTICATION_REQUIRED")
    assert 'error="insufficient_user_authentication"' in str(answer.header("www-authenticate"))
    scene.people.change("update sessions set proved_at = now() where id = %s", scene.owner.session)
    governor = scene.people.add("root@example.org", platform_owner=True)
    seen = scene.tenants.session(scene.owner, scene.acme)
    by = (governor.user, scene.postern.foundation.ids.new())
    scene.people.change("update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", *by, seen.session)
    acting = await scene.tenants.token(seen, scene.acme, token_use="impersonation", impersonator=str(governor.user))
    assert refused(await scene.client.request("DELETE", f"{SERVICES}/shop", token=acting)) == (403, "FORBIDDEN")
    key = scene.tenants.management_key(scene.acme, scene.owner, [*Capability])
    assert refused(await scene.client.request("DELETE", f"{SERVICES}/shop", token=key)) == (403, "FORBIDDEN")
    assert {one["slug"] for one in (await scene.ask("GET")).json()["services"]} == {"app", "shop"}
    assert (await scene.ask("DELETE", "/shop")).status == 204


async def test_its_slug_and_its_place_are_free_again(scene: ServiceDeletionScene) -> None:
    scene.people.change("update all_organizations set max_services = 2")
    assert (await scene.ask("POST", body={"slug": "new", "name": "New", "service_type": "web"})).error_code == "SERVICE_LIMIT_EXCEEDED"
    assert (await scene.ask("DELETE", "/shop")).status == 204
    answer = await scene.ask("POST", body={"slug": "shop", "name": "Shop", "service_type": "web"})
    assert answer.status == 200
    # A new service of the same slug has none of the old one's data.
    assert UUID(answer.json()["service"]["id"]) != scene.shop.id
    assert (await scene.ask("GET")).json()["services"][1]["subscription_count"] == 0


async def test_it_is_audited_and_its_data_is_queued_to_go(scene: ServiceDeletionScene) -> None:
    (before,) = scene.people.rows("select client_id from services where id = %s", scene.shop.id)
    assert (await scene.ask("DELETE", "/shop")).status == 204
    (entry,) = scene.people.rows("select organization_id, actor_id, action, target_type, target_id, details from audit_log")
    assert entry == {
        "organization_id": scene.acme.id,
        "actor_id": scene.owner.user,
        "action": "service.deleted",
        "target_type": "service",
        "target_id": str(scene.shop.id),
        "details": {"service_slug": "shop", "service_name": "Shop", "client_id": str(before["client_id"])},
    }
    (job,) = scene.people.rows("select kind, payload from jobs")
    assert job == {"kind": "service.purge", "payload": {"service": str(scene.shop.id)}}


async def test_nobody_but_the_owner_deletes_one(scene: ServiceDeletionScene) -> None:
    for role in ("admin", "member"):
        who = scene.tenants.member(scene.acme, role)
        answer = await scene.ask("DELETE", "/shop", by=who)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert (await scene.ask("GET", "/shop")).status == 200


async def test_of_those_who_delete_it_at_once_one_does(scene: ServiceDeletionScene) -> None:
    statuses: Counter[int] = Counter()

    async def delete() -> None:
        statuses[(await scene.ask("DELETE", "/shop")).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)
    assert statuses == {204: 1, 404: 9}
    assert scene.people.rows("select count(*) as n from jobs") == [{"n": 1}]


async def test_who_has_just_handed_the_organization_over_deletes_nothing(scene: ServiceDeletionScene, postern: Postern) -> None:
    """The request came in before the transfer, and is carried out after it."""
    other = scene.tenants.member(scene.acme, "admin")
    member = await postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.owner), "acme", Participation.ACTIVE)
    scene.people.change("update memberships set role = case user_id when %s then 'owner' else 'admin' end", other.user)
    with pytest.raises(Forbidden):
        await postern.services.services.delete(member, "shop", Actor())
    scene.people.change("delete from memberships where user_id = %s", scene.owner.user)
    with pytest.raises(Forbidden):
        await postern.services.services.delete(member, "shop", Actor())
    assert scene.people.rows("select count(*) as n from services where org_id = %s", scene.acme.id) == [{"n": 2}]

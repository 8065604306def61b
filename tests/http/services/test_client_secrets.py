"""Client secrets over HTTP: shown once, two at once, and only for services that can keep them."""

import re
from collections import Counter
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

ORGANIZATION: Final = "/api/organizations/acme"


class ClientSecretScene(Shops):
    """Adds a service of acme's that cannot keep secrets."""

    their_slug = "shop"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants.service(self.acme, "phone", "mobile")
        self.admin = self.speaker = self.resident(self.acme, "admin")

    async def ask(
        self, method: str, path: str = "", *, of: str = "shop", by: Person | None = None, organization: str = ORGANIZATION
    ) -> Received:
        return await self.request(method, f"{organization}/services/{of}/client-secrets{path}", by=by)

    async def made(self) -> dict[str, Any]:
        secret = (await self.ask("POST")).ok(201)
        self.log.remember(secret["client_secret"])
        return secret

    async def listed(self) -> list[str]:
        answer = await self.ask("GET")
        assert answer.status == 200
        return [one["id"] for one in answer.json()]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> ClientSecretScene:
    return ClientSecretScene(postern, people, unlimited(postern), log)


async def test_a_secret_is_shown_once_and_kept_as_a_digest(scene: ClientSecretScene) -> None:
    secret = await scene.made()
    assert set(secret) == {"id", "prefix", "client_secret", "created_at"}
    assert re.fullmatch(r"cs_[a-z0-9]{6}_[0-9A-Za-z]{43}", secret["client_secret"])
    assert secret["client_secret"].startswith(f"{secret['prefix']}_")
    answer = await scene.ask("GET")
    assert answer.json() == [
        {
            "id": secret["id"],
            "prefix": secret["prefix"],
            "created_by": str(scene.admin.user),
            "created_at": secret["created_at"],
            "last_used_at": None,
        }
    ]
    assert answer.header("cache-control") == "no-store"
    (kept,) = scene.people.rows("select service_id, digest from client_secrets")
    assert kept == {"service_id": scene.shop.id, "digest": sha256(secret["client_secret"].encode()).digest()}
    # The secret is nowhere else: neither in the audit log nor in events.
    told = scene.people.rows("select details::text from audit_log union all select details::text from events")
    assert not any(secret["client_secret"] in one["details"] for one in told)


async def test_both_ends_are_audited(scene: ClientSecretScene) -> None:
    secret = await scene.made()
    assert (await scene.ask("DELETE", f"/{secret['id']}")).status == 204
    entries = scene.people.rows("select organization_id, actor_id, action, target_type, target_id, details from audit_log order by id")
    details = {"service_slug": "shop", "client_secret_id": secret["id"], "prefix": secret["prefix"]}
    common = {
        "organization_id": scene.acme.id,
        "actor_id": scene.admin.user,
        "target_type": "service",
        "target_id": str(scene.shop.id),
        "details": details,
    }
    assert entries == [{"action": "client_secret.created", **common}, {"action": "client_secret.deleted", **common}]


async def test_two_may_be_in_force_so_that_one_can_replace_the_other(scene: ClientSecretScene) -> None:
    first, second = await scene.made(), await scene.made()
    assert first["client_secret"] != second["client_secret"]
    third = await scene.ask("POST")
    assert (third.status, third.error_code) == (400, "BAD_REQUEST")
    assert third.json()["error"] == "A service has at most 2 client secrets: delete one first"
    assert await scene.listed() == [first["id"], second["id"]]
    assert (await scene.ask("DELETE", f"/{first['id']}")).status == 204
    third_after_all = await scene.made()
    assert await scene.listed() == [second["id"], third_after_all["id"]]


async def test_of_twenty_made_at_once_two_are(scene: ClientSecretScene) -> None:
    statuses: Counter[int] = Counter()

    async def make() -> None:
        statuses[(await scene.ask("POST")).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(make)
    assert statuses == {201: 2, 400: 18}
    assert len(await scene.listed()) == 2


async def test_of_those_who_delete_one_at_once_one_does(scene: ClientSecretScene) -> None:
    secret = await scene.made()
    statuses: Counter[int] = Counter()

    async def delete() -> None:
        statuses[(await scene.ask("DELETE", f"/{secret['id']}")).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)
    assert statuses == {204: 1, 404: 9}
    assert scene.people.rows("select count(*) as n from audit_log where action = 'client_secret.deleted'") == [{"n": 1}]


async def test_who_becomes_public_and_who_makes_a_secret_do_not_pass_each_other(scene: ClientSecretScene) -> None:
    """In either order, no public service ends up with a secret."""
    token = await scene.tenants.token(scene.admin)
    for _ in range(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.ask, "POST")
            nursery.start_soon(
                lambda: scene.client.request("PATCH", f"{ORGANIZATION}/services/shop", body={"service_type": "mobile"}, token=token)
            )
        (state,) = scene.people.rows(
            "select service_type, (select count(*) from client_secrets where service_id = services.id) as secrets"
            "  from services where id = %s",
            scene.shop.id,
        )
        assert (state["service_type"], state["secrets"]) in {("mobile", 0), ("web", 1)}
        scene.people.change("delete from client_secrets")
        scene.people.change("update services set service_type = 'web' where id = %s", scene.shop.id)


async def test_a_service_in_everybodys_hands_has_none(scene: ClientSecretScene) -> None:
    for kind in ("mobile", "desktop"):
        scene.people.change("update services set service_type = %s where slug = 'phone'", kind)
        answer = await scene.ask("POST", of="phone")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "PKCE" in answer.json()["error"]
        assert (await scene.ask("GET", of="phone")).json() == []


async def test_secrets_of_others_are_unknown_here(scene: ClientSecretScene) -> None:
    theirs, mine = uuid4(), await scene.made()
    scene.people.change(
        "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'cs_abcdef', 'x', now())",
        theirs,
        scene.theirs.id,
    )
    for path, of in ((f"/{theirs}", "shop"), (f"/{uuid4()}", "shop"), (f"/{mine['id']}", "phone"), (f"/{mine['id']}", "nothing")):
        answer = await scene.ask("DELETE", path, of=of)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    for method in ("GET", "POST"):
        assert (await scene.ask(method, of="nothing")).status == 404
        assert (await scene.ask(method, organization="/api/organizations/globex")).status == 403
    assert (await scene.ask("DELETE", f"/{theirs}", organization="/api/organizations/globex")).status == 403
    assert (await scene.ask("DELETE", "/not-an-id")).status in {400, 404}
    assert await scene.listed() == [mine["id"]]
    assert scene.people.rows("select count(*) as n from client_secrets") == [{"n": 2}]


async def test_members_see_them_and_whoever_manages_services_makes_and_deletes_them(scene: ClientSecretScene) -> None:
    secret = await scene.made()
    roles = {one: scene.tenants.role(scene.acme, one.value.replace(".", "-"), [one]) for one in Capability}
    for capability, role in roles.items():
        if capability is not Capability.SERVICES_MANAGE:
            who = scene.tenants.member(scene.acme, role)
            # A role that manages members includes the views of a plain member.
            sees = capability in {Capability.SERVICES_VIEW, Capability.MEMBERS_MANAGE}
            assert (await scene.ask("GET", by=who)).status == (200 if sees else 403), capability
            answers = [await scene.ask("POST", by=who), await scene.ask("DELETE", f"/{secret['id']}", by=who)]
            assert [answer.status for answer in answers] == [403] * 2, capability
    member, stranger = scene.tenants.member(scene.acme), scene.tenants.member(scene.globex, "owner")
    assert (await scene.ask("GET", by=member)).json() == (await scene.ask("GET")).json()
    assert (await scene.ask("GET", by=stranger)).status == 403
    manager = scene.tenants.member(scene.acme, roles[Capability.SERVICES_MANAGE])
    assert (await scene.ask("POST", by=manager)).status == 201
    assert (await scene.ask("DELETE", f"/{secret['id']}", by=manager)).status == 204


# With the caller's own question.
ROUND_TRIPS: Final = {("POST", ""): 5, ("GET", ""): 2, ("DELETE", "/{}"): 4}


async def test_round_trips(scene: ClientSecretScene) -> None:
    measured: dict[tuple[str, str], int] = {}
    for _ in ("warm", "measured"):
        secret = ""
        for method, path in ROUND_TRIPS:
            scene.log.entries.clear()
            answer = await scene.ask(method, path.format(secret))
            assert answer.status in {200, 201, 204}, answer.body
            secret = answer.json()["id"] if method == "POST" else secret
            (line,) = scene.log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS

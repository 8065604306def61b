"""Resource servers over HTTP: made, proved, approved, changed and deleted, and whose an identifier is."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import trio

from actors.sweepers import domain_checker
from adapters.postgres.locks import DOMAINS, NAMESPACE
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.services.resource_servers import MOST_RESOURCE_SERVERS
from core.domain.tenancy.domains import MOST_MISSES
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import Provers, proving
from tests.receiver import answering, receiving

HOST: Final = "api.acme.example"
API: Final = f"https://{HOST}/orders"
LOCAL: Final = "http://localhost:8000/mcp"
READ: Final[dict[str, Any]] = {
    "name": "orders:read",
    "description": "See your orders",
    "permission": None,
    "acr_values": [],
    "max_age": None,
}


class ApiScene(Provers):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.operator = self.people.add(platform_owner=True)
        self.shop, self.till = self.tenants.service(self.acme, "shop"), self.tenants.service(self.acme, "till")
        self.theirs = self.tenants.service(self.globex, "till")
        self.people.change(
            "insert into permissions (id, service_id, key, created_at) values (gen_random_uuid(), %s, 'orders.read', now())", self.shop.id
        )

    async def ask(self, method: str, path: str = "", body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        if by is None and of == "globex":
            by = self.stranger
        return await self.request(method, f"/api/organizations/{of}/resource-servers{path}", body, by=by)

    async def make(self, identifier: str = API, *, of: str = "acme", **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("POST", "", {"identifier": identifier, "name": "Orders", **more}, of=of)).ok(201)
        return told

    async def verify(self, server: dict[str, Any], *, of: str = "acme") -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("POST", f"/{server['id']}/verify", of=of)).ok(200)
        return told

    async def verified(self, identifier: str = API, *, of: str = "acme", **more: Any) -> dict[str, Any]:
        server = await self.make(identifier, of=of, **more)
        self.publish(server)
        assert (await self.verify(server, of=of))["verified"]
        return await self.shown(server, of=of)

    async def asked(self, server: dict[str, Any], *, of: str = "acme") -> Received:
        return await self.ask("POST", f"/{server['id']}/ask-approval", of=of)

    async def approve(self, server: dict[str, Any], *, by: Person | None = None) -> Received:
        return await self.request("POST", f"/api/platform/resource-servers/{server['id']}/approval", by=by or self.operator)

    async def withdraw_approval(self, server: dict[str, Any], *, by: Person | None = None) -> Received:
        return await self.request("DELETE", f"/api/platform/resource-servers/{server['id']}/approval", by=by or self.operator)

    async def approvals(self) -> list[dict[str, Any]]:
        answer = await self.request("GET", "/api/platform/resource-servers", by=self.operator)
        assert answer.status == 200
        told: list[dict[str, Any]] = answer.json()
        return told

    async def all(self, *, by: Person | None = None) -> list[dict[str, Any]]:
        answer = await self.ask("GET", by=by)
        assert answer.status == 200
        told: list[dict[str, Any]] = answer.json()
        return told

    async def change(self, server: dict[str, Any], **more: Any) -> Received:
        return await self.ask("PATCH", f"/{server['id']}", more)

    async def shown(self, server: dict[str, Any], *, of: str = "acme") -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("GET", f"/{server['id']}", of=of)).ok(200)
        return told

    async def state(self, server: dict[str, Any], *, of: str = "acme") -> str:
        return str((await self.shown(server, of=of))["state"])

    async def check(self) -> int:
        """Runs the check, as if it were due."""
        self.people.change("update resource_servers set next_check_at = now() - interval '1 s' where next_check_at is not null")
        return await domain_checker(
            "resource_host_checker",
            self.postern.services.resource_servers,
            metrics=self.postern.foundation.metrics,
            spread=lambda: 0.0,
        ).sweep()

    def recorded(self) -> list[tuple[str, dict[str, Any]]]:
        return [(one["action"].removeprefix("resource_server."), one["details"]) for one in self.audited("resource_server.%")]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[ApiScene]:
    async with proving(ApiScene, postern, people, log, tmp_path, HOST) as made:
        yield made


async def test_an_api_is_made_listed_changed_and_deleted(scene: ApiScene) -> None:
    assert await scene.all() == []
    guarded = {**READ, "permission": "orders.read"}
    server = await scene.make(scopes=[READ], token_lifetime=300, service_slug="shop", admitted_services=["till"], exchanges=["shop"])
    token = server["txt_value"]
    assert server == {
        "id": server["id"],
        "identifier": API,
        "name": "Orders",
        "state": "waiting",
        "development": False,
        "scopes": [READ],
        "token_lifetime": 300,
        "access_token_alg": "ES256",
        "service_slug": "shop",
        "admits": "named",
        "admitted_services": ["till"],
        "metadata_clients": "off",
        "metadata_hosts": [],
        "registered_clients": "off",
        "exchanges": ["shop"],
        **dict.fromkeys(("verified_at", "checked_at", "approval_asked_at", "approved_at", "active_from")),
        "txt_name": f"_postern-verification.{HOST}",
        "txt_value": token,
        "file_url": f"https://{HOST}/.well-known/postern-verification.txt",
        "file_content": token,
        "created_at": server["created_at"],
        "updated_at": server["created_at"],
    }
    other = await scene.make(f"{API}/2", admits="all")
    # One text proves the host for all of them.
    assert other["txt_value"] == token
    assert await scene.all() == [server, other]
    assert await scene.shown(server) == server
    changes = {"admitted_services": ["till", "shop", "shop"], "exchanges": ["till", "till"]}
    changed = (await scene.change(server, name="Bills", scopes=[guarded], **changes)).ok(200)
    assert changed == {
        **server,
        "name": "Bills",
        "scopes": [guarded],
        "admitted_services": ["shop", "till"],
        "exchanges": ["till"],
        "updated_at": changed["updated_at"],
    }
    assert changed["updated_at"] > server["updated_at"]
    # The same again changes nothing.
    assert (await scene.change(server, name=" Bills ", scopes=[guarded])).ok(200) == changed
    assert (await scene.change(other, access_token_alg="RS256")).ok(200)["access_token_alg"] == "RS256"
    other["access_token_alg"] = "RS256"
    described = {**guarded, "description": "See all orders"}
    assert (await scene.change(server, scopes=[described])).ok(200)["scopes"] == [described]
    cleared = (await scene.change(server, scopes=[], service_slug=None, token_lifetime=None, admits="all", admitted_services=[])).ok(200)
    assert (cleared["scopes"], cleared["service_slug"], cleared["token_lifetime"], cleared["admits"]) == ([], None, None, "all")
    assert (await scene.ask("DELETE", f"/{server['id']}")).status == 204
    assert [one["id"] for one in await scene.all()] == [other["id"]]
    known = {"identifier": API}
    told = {"service_slug": "shop", "token_lifetime": 300, "admits": "named", "admitted_services": ["till"], "scopes": ["orders:read"]}
    algorithm = {"access_token_alg": "ES256", "metadata_clients": "off", "metadata_hosts": [], "exchanges": ["shop"]}
    algorithm |= {"registered_clients": "off"}
    assert [one for one in scene.recorded() if one[1]["identifier"] == API] == [
        ("created", {**known, "name": "Orders", **told, **algorithm}),
        (
            "updated",
            {
                **known,
                "old_name": "Orders",
                "new_name": "Bills",
                "old_admitted_services": ["till"],
                "new_admitted_services": ["shop", "till"],
                "old_exchanges": ["shop"],
                "new_exchanges": ["till"],
                "changed_scopes": ["orders:read"],
            },
        ),
        ("updated", {**known, "changed_scopes": ["orders:read"]}),
        (
            "updated",
            {
                **known,
                **{f"old_{name}": value for name, value in told.items()},
                "old_admitted_services": ["shop", "till"],
                "new_service_slug": None,
                "new_token_lifetime": None,
                "new_admits": "all",
                "new_admitted_services": [],
                "new_scopes": [],
            },
        ),
        ("deleted", known),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"identifier": "https://API.acme.example/"}, "lowercase"),
        ({"identifier": "http://api.acme.example/"}, "https://"),
        ({"identifier": f"{API}#a"}, "fragment"),
        ({"identifier": f"https://a:b@{HOST}"}, "user name"),
        ({"identifier": f"https://{HOST}:443/"}, ":443"),
        ({"identifier": f"https://{HOST}"}, "slash"),
        ({"name": ""}, "name"),
        ({"token_lifetime": 59}, "token_lifetime"),
        ({"scopes": [{"name": "openid", "description": "See you"}]}, "scopes[0].name"),
        ({"scopes": [{"name": "a b", "description": "See you"}]}, "scopes[0].name"),
        ({"scopes": [READ, READ]}, "scopes"),
        ({"scopes": [{"name": "a", "description": "<b>"}]}, "scopes[0].description"),
        ({"scopes": [{**READ, "permission": "orders.read"}]}, "scopes[0].permission"),
        ({"scopes": [{**READ, "permission": "orders.write"}], "service_slug": "shop"}, "scopes[0].permission"),
        ({"scopes": [{**READ, "permission": "orders.read"}], "service_slug": "till"}, "scopes[0].permission"),
        ({"service_slug": "none"}, "service_slug"),
        ({"service_slug": "a\0b"}, "service_slug"),
        ({"admitted_services": ["till", "none"]}, "admitted_services[0]"),
        ({"admits": "some"}, "admits"),
        ({"access_token_alg": "HS256"}, "access_token_alg"),
    ],
)
async def test_what_is_no_api_is_refused(scene: ApiScene, body: dict[str, Any], field: str) -> None:
    answer = await scene.ask("POST", "", {"identifier": API, "name": "Orders", **body})
    assert (answer.status, field in answer.json()["error"]) == (400, True), answer.json()
    assert await scene.all() == []
    if "identifier" in body:
        return
    server = await scene.make(LOCAL)
    answer = await scene.change(server, **body)
    assert (answer.status, field in answer.json()["error"]) == (400, True), answer.json()
    assert await scene.shown(server) == server


async def test_an_empty_change_and_a_change_of_the_identifier_are_refused(scene: ApiScene) -> None:
    server = await scene.make()
    assert refused(await scene.change(server)) == (400, "BAD_REQUEST")
    assert refused(await scene.change(server, identifier=f"{API}/2")) == (400, "BAD_REQUEST")


async def test_what_is_not_there_is_not_found(scene: ApiScene) -> None:
    foreign = await scene.make(of="globex")
    for id_ in (str(uuid4()), foreign["id"]):
        for method, path, body in (
            ("GET", "", None),
            ("PATCH", "", {"name": "A"}),
            ("DELETE", "", None),
            ("POST", "/verify", None),
            ("POST", "/ask-approval", None),
        ):
            assert refused(await scene.ask(method, f"/{id_}{path}", body)) == (404, "NOT_FOUND"), (method, path)
    for method in ("POST", "DELETE"):
        path = f"/api/platform/resource-servers/{uuid4()}/approval"
        assert refused(await scene.request(method, path, by=scene.operator)) == (404, "NOT_FOUND")
    assert await scene.shown(foreign, of="globex") == foreign


async def test_a_service_of_another_organization_is_not_named(scene: ApiScene) -> None:
    for more in ({"service_slug": "shop"}, {"admitted_services": ["shop"]}):
        answer = await scene.ask("POST", "", {"identifier": API, "name": "Orders", **more}, of="globex")
        assert refused(answer) == (400, "BAD_REQUEST")


async def test_an_organization_has_an_identifier_once_and_others_may_claim_it(scene: ApiScene) -> None:
    outcomes = await all_at_once(*[partial(scene.ask, "POST", "", {"identifier": API, "name": "Orders"})] * 2)
    assert sorted(one.status for one in outcomes) == [201, 409]
    assert (await scene.make(of="globex"))["state"] == "waiting"


async def test_an_identifier_is_taken_once_in_each_organization(scene: ApiScene) -> None:
    server = await scene.make()
    assert refused(await scene.ask("POST", "", {"identifier": API, "name": "Bills"})) == (409, "CONFLICT")
    assert [one["id"] for one in await scene.all()] == [server["id"]]
    assert [action for action, _ in scene.recorded()] == ["created"]


async def test_an_organization_has_only_so_many(scene: ApiScene) -> None:
    scene.people.change(
        """
        insert into resource_servers (id, org_id, identifier, domain, name, admits, token, created_at, updated_at)
        select gen_random_uuid(), %s, 'https://a.example/' || n, 'a.example', 'A', 'all', 't', now(), now() from generate_series(1, %s) as n
        """,
        scene.acme.id,
        MOST_RESOURCE_SERVERS,
    )
    answer = await scene.ask("POST", "", {"identifier": API, "name": "Orders"})
    assert (answer.status, str(MOST_RESOURCE_SERVERS) in answer.json()["error"]) == (400, True)


async def test_an_api_on_the_own_machine_needs_nothing_and_is_its_organizations_alone(scene: ApiScene) -> None:
    ours, theirs = await scene.make(LOCAL), await scene.make(LOCAL, of="globex")
    for server in (ours, theirs):
        assert (server["state"], server["development"], server["txt_name"], server["file_content"]) == ("active", True, None, None)
    assert refused(await scene.ask("POST", f"/{ours['id']}/verify")) == (400, "BAD_REQUEST")
    assert refused(await scene.asked(ours)) == (400, "BAD_REQUEST")
    assert refused(await scene.approve(ours)) == (400, "BAD_REQUEST")
    assert scene.people.rows("select from resource_identifiers") == []


async def test_a_record_proves_the_host(scene: ApiScene) -> None:
    server = await scene.make()
    outcome = await scene.verify(server)
    assert (outcome["verified"], server["txt_name"] in outcome["message"]) == (False, True)
    scene.publish(server)
    assert (await scene.verify(server))["verified"]
    shown = await scene.shown(server)
    assert shown["state"] == "active"
    assert shown["verified_at"] == shown["checked_at"] is not None
    # To find the proof again changes nothing, and is not recorded.
    assert (await scene.verify(server))["verified"]
    assert (await scene.shown(server))["verified_at"] == shown["verified_at"]
    # A proof that is not found just now ends nothing.
    scene.withdraw(server)
    assert (await scene.verify(server))["verified"]
    assert await scene.state(server) == "active"
    assert [action for action, _ in scene.recorded()] == ["created", "verified"]
    # Nothing is to be asked for, or approved.
    assert refused(await scene.asked(server)) == (400, "BAD_REQUEST")
    assert refused(await scene.approve(server)) == (400, "BAD_REQUEST")


async def test_a_file_proves_the_host(scene: ApiScene) -> None:
    server = await scene.make()
    async with receiving(answering(200, server["file_content"].encode())) as receiver:
        scene.network.port = receiver.port
        assert (await scene.verify(server))["verified"]


async def test_a_host_that_the_organization_has_proved_needs_no_second_proof(scene: ApiScene) -> None:
    domain = (await scene.request("POST", "/api/organizations/acme/domain", {"domain": HOST})).ok(200)
    scene.publish(domain)
    assert (await scene.request("POST", "/api/organizations/acme/domain/verify")).ok(200)["verified"]
    server = await scene.make()
    assert (server["state"], server["txt_value"]) == ("active", domain["verification_token"])
    assert await scene.shown(server) == server
    # A domain does not include its subdomains: whoever has those may be somebody else.
    assert (await scene.make(f"https://deep.{HOST}/"))["state"] == "waiting"
    assert [action for action, _ in scene.recorded()] == ["created", "verified", "created"]


async def test_the_proof_of_a_host_is_no_proof_for_another_organization(scene: ApiScene) -> None:
    await scene.verified()
    theirs = await scene.make(f"https://{HOST}/other", of="globex")
    scene.publish(theirs)
    outcome = await scene.verify(theirs, of="globex")
    assert (outcome["verified"], "Another organization" in outcome["message"]) == (False, True)
    assert await scene.state(theirs, of="globex") == "waiting"
    assert refused(await scene.approve(theirs)) == (409, "CONFLICT")
    # Nor may it have the host as its domain.
    domain = (await scene.request("POST", "/api/organizations/globex/domain", {"domain": HOST}, by=scene.stranger)).ok(200)
    scene.publish(domain)
    assert not (await scene.request("POST", "/api/organizations/globex/domain/verify", by=scene.stranger)).ok(200)["verified"]


async def test_of_two_who_prove_it_one_has_it(scene: ApiScene) -> None:
    ours, theirs = await scene.make(), await scene.make(of="globex")
    scene.publish(ours, theirs)
    outcomes = await all_at_once(partial(scene.verify, ours), partial(scene.verify, theirs, of="globex"))
    assert sorted(one["verified"] for one in outcomes) == [False, True]
    assert len(scene.people.rows("select from resource_servers where verified_at is not null")) == 1
    assert len(scene.audited("resource_server.verified")) == 1


async def test_of_an_approval_and_a_proof_at_once_the_proof_stays(scene: ApiScene) -> None:
    ours, theirs = await scene.make(), await scene.make(of="globex")
    scene.publish(ours)
    await all_at_once(partial(scene.verify, ours), partial(scene.approve, theirs))
    assert await scene.state(theirs, of="globex") == "waiting"
    assert await scene.state(ours) in {"active", "settling"}
    assert len(scene.people.rows("select from resource_identifiers where is_proved")) == 1


async def test_whoever_approves_waits_for_a_proof(scene: ApiScene, database_url: str) -> None:
    ours, theirs = await scene.make(), await scene.make(of="globex")
    outcomes: list[Received] = []

    async def approve() -> None:
        outcomes.append(await scene.approve(theirs))

    with psycopg.connect(database_url) as other:
        # As acme's proof stands just before its commit.
        other.execute("select pg_advisory_xact_lock(%s, %s)", (NAMESPACE, DOMAINS))
        other.execute("update resource_servers set verified_at = now(), next_check_at = now() where id = %s", (ours["id"],))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(approve)
            await scene.people.somebody_waits()
            other.commit()
    assert [refused(one) for one in outcomes] == [(409, "CONFLICT")]


async def test_an_owner_of_the_platform_approves_what_nobody_can_prove(scene: ApiScene) -> None:
    server = await scene.make("https://intranet/api")
    assert (server["state"], server["txt_name"]) == ("waiting", None)
    assert refused(await scene.ask("POST", f"/{server['id']}/verify")) == (400, "BAD_REQUEST")
    assert await scene.approvals() == []
    asking = (await scene.asked(server)).ok(200)
    assert asking == {**server, "approval_asked_at": asking["approval_asked_at"]}
    assert (await scene.asked(server)).ok(200) == asking
    listed = {"resource_server": asking, "org_slug": "acme", "org_name": "Acme", "proved_elsewhere": False}
    assert await scene.approvals() == [listed]
    approved = (await scene.approve(server)).ok(200)
    assert (approved["state"], approved["approval_asked_at"]) == ("active", None)
    assert await scene.shown(server) == approved
    assert refused(await scene.approve(server)) == (400, "BAD_REQUEST")
    assert await scene.approvals() == [{**listed, "resource_server": approved}]
    withdrawn = (await scene.withdraw_approval(server)).ok(200)
    assert (withdrawn["state"], withdrawn["approved_at"]) == ("waiting", None)
    assert (await scene.withdraw_approval(server)).ok(200) == withdrawn
    assert (await scene.approve(server)).ok(200)["state"] == "active"
    assert [action for action, _ in scene.recorded()] == [
        *("created", "approval_asked", "approved", "approval_withdrawn", "approved"),
    ]
    by_operator = scene.audited("resource_server.approved")[0]
    assert (by_operator["organization_id"], by_operator["actor_id"]) == (scene.acme.id, scene.operator.user)


@pytest.mark.parametrize("who", ["owner", "speaker", "stranger"])
async def test_nobody_else_approves(scene: ApiScene, who: str) -> None:
    server = await scene.make()
    person: Person = getattr(scene, who)
    for call in (scene.approve, scene.withdraw_approval):
        assert refused(await call(server, by=person)) == (403, "FORBIDDEN")
    assert refused(await scene.request("GET", "/api/platform/resource-servers", by=person)) == (403, "FORBIDDEN")
    assert await scene.state(server) == "waiting"


async def test_a_proof_ends_a_squatters_approval(scene: ApiScene) -> None:
    squatted, beside = await scene.make(of="globex"), await scene.make(f"{API}/v2", of="globex")
    for server in (squatted, beside):
        assert (await scene.approve(server)).ok(200)["state"] == "active"
    ours = await scene.verified()
    assert (ours["state"], ours["active_from"] > ours["verified_at"]) == ("settling", True)
    for server in (squatted, beside):
        assert await scene.state(server, of="globex") == "waiting"
        assert refused(await scene.approve(server)) == (409, "CONFLICT")
    # The squatter's organization is told.
    told = scene.audited("resource_server.superseded")
    assert {(one["organization_id"], one["target_id"]) for one in told} == {
        (scene.globex.id, str(squatted["id"])),
        (scene.globex.id, str(beside["id"])),
    }
    # Once the squatter's last token is over, tokens are made.
    scene.people.change("update resource_servers set settles_at = now() where id = %s", ours["id"])
    assert await scene.state(ours) == "active"


async def test_what_is_deleted_is_registered_anew_by_the_same_alone(scene: ApiScene) -> None:
    ours = await scene.verified()
    assert (await scene.ask("DELETE", f"/{ours['id']}")).status == 204
    theirs = await scene.make(of="globex")
    scene.publish(theirs)
    assert not (await scene.verify(theirs, of="globex"))["verified"]
    assert refused(await scene.approve(theirs)) == (409, "CONFLICT")
    look_alike = await scene.make(f"{API}/", of="globex")
    assert refused(await scene.approve(look_alike)) == (409, "CONFLICT")
    anew = await scene.make()
    scene.publish(anew)
    assert (await scene.verify(anew))["verified"]
    assert await scene.state(anew) == "active"


async def test_an_organization_that_ends_leaves_its_identifiers_to_nobody(scene: ApiScene) -> None:
    await scene.verified()
    assert (await scene.request("DELETE", "/api/organizations/acme", by=scene.owner)).status == 204
    scene.people.change("delete from all_organizations where slug = 'acme'")
    theirs = await scene.make(of="globex")
    scene.publish(theirs)
    assert not (await scene.verify(theirs, of="globex"))["verified"]
    assert refused(await scene.approve(theirs)) == (409, "CONFLICT")


async def test_a_proof_that_is_lost_waits_again(scene: ApiScene, postern: Postern) -> None:
    server = await scene.verified()
    assert await scene.check() == 1
    assert await scene.state(server) == "active"
    scene.withdraw(server)
    for _ in range(MOST_MISSES):
        assert await scene.state(server) == "active"
        assert await scene.check() == 1
    assert await scene.check() == 0
    assert await scene.state(server) == "waiting"
    assert scene.recorded()[-1] == ("lost", {"identifier": API, "host": HOST})
    mails = await Postbox(postern).empty()
    assert {mail.to for mail in mails} == {scene.owner.email}
    assert [mail.subject for mail in mails] == [f"Verification of the domain {HOST} is failing", f"No more tokens for your API at {HOST}"]


async def test_a_deleted_service_takes_its_permissions_along(scene: ApiScene) -> None:
    guarded = {**READ, "permission": "orders.read"}
    server = await scene.make(LOCAL, service_slug="shop", scopes=[guarded], admitted_services=["till"])
    for slug in ("shop", "till"):
        assert (await scene.request("DELETE", f"/api/organizations/acme/services/{slug}", by=scene.owner)).status == 204
    shown = await scene.shown(server)
    # Nobody holds the permission any more, so the scope is guarded still.
    assert (shown["service_slug"], shown["admitted_services"], shown["scopes"]) == (None, [], [guarded])
    assert refused(await scene.change(server, name="Bills")) == (400, "BAD_REQUEST")
    assert (await scene.change(server, name="Bills", scopes=[READ])).ok(200)["name"] == "Bills"


async def test_a_member_sees_and_changes_nothing(scene: ApiScene) -> None:
    server = await scene.make()
    assert await scene.all(by=scene.member) == [server]
    assert (await scene.ask("GET", f"/{server['id']}", by=scene.member)).ok(200) == server
    for method, path, body in (
        ("POST", "", {"identifier": f"{API}/2", "name": "A"}),
        ("PATCH", f"/{server['id']}", {"name": "A"}),
        ("DELETE", f"/{server['id']}", None),
        ("POST", f"/{server['id']}/verify", None),
        ("POST", f"/{server['id']}/ask-approval", None),
    ):
        assert refused(await scene.ask(method, path, body, by=scene.member)) == (403, "FORBIDDEN")
        assert refused(await scene.ask(method, path, body, by=scene.stranger)) in {(403, "FORBIDDEN"), (404, "NOT_FOUND")}


async def test_a_scope_asks_of_the_sign_in(scene: ApiScene) -> None:
    asking = {**READ, "acr_values": [TWO_FACTORS], "max_age": 300}
    server = await scene.make(scopes=[{**asking, "acr_values": [TWO_FACTORS, TWO_FACTORS]}])
    assert server["scopes"] == [asking]
    assert (await scene.change(server, scopes=[READ])).ok()["scopes"] == [READ]
    (updated,) = [details for name, details in scene.recorded() if name == "updated"]
    assert updated["changed_scopes"] == ["orders:read"]
    # What a scope does not ask for is not kept.
    assert scene.people.rows("select from resource_servers where scopes -> 0 ?| '{acr_values,max_age}'") == []
    for wrong, words in (
        ({"acr_values": [ONE_FACTOR]}, "requires MFA, and no other value is supported"),
        ({"acr_values": [TWO_FACTORS, "urn:mace:silver"]}, "no other value is supported"),
        ({"max_age": 59}, "60 to 2592000 seconds"),
        ({"max_age": 2_592_001}, "60 to 2592000 seconds"),
    ):
        answer = await scene.change(server, scopes=[{**READ, **wrong}])
        assert answer.status == 400
        assert words in answer.body.decode()


@pytest.mark.parametrize("like", ["https://intranet/x%2Forders", "https://intranet/X/orders/", "https://intranet/x/orders%2F"])
async def test_an_approved_identifier_is_given_once_with_all_that_look_like_it(scene: ApiScene, like: str) -> None:
    """Many proxies decode a slash, so the API behind them could not tell the two apart."""
    assert (await scene.approve(await scene.make("https://intranet/x/orders"))).status == 200
    theirs = await scene.make(like, of="globex")
    assert refused(await scene.approve(theirs)) == (409, "CONFLICT")
    assert await scene.state(theirs, of="globex") == "waiting"
    # The organization itself may have both.
    assert (await scene.approve(await scene.make(like))).status == 200

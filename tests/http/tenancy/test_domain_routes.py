"""Domain routes: made over HTTP, proved like domains, and checked again every week. `test_realms` covers their effect."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import trio

from actors.sweepers import domain_checker
from adapters.postgres.locks import DOMAINS, NAMESPACE
from core.domain.tenancy.domains import MOST_MISSES, MOST_ROUTES
from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import Provers, proving
from tests.receiver import Call, answering, receiving

NAME: Final = "acme.example"
NOWHERE: Final = str(uuid4())


class DomainRouteScene(Provers):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        for tenant in (self.acme, self.globex):
            self.people.change(
                """
                insert into oauth_credentials (id, org_id, provider, client_id, sealed_client_secret, created_at, updated_at)
                values (gen_random_uuid(), %s, 'websuite', 'c', '', now(), now())
                """,
                tenant.id,
            )

    async def ask(self, method: str, path: str = "", body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        if by is None and of == "globex":
            by = self.stranger
        return await self.request(method, f"/api/organizations/{of}/domain-routes{path}", body, by=by)

    async def make(self, domain: str = NAME, *, of: str = "acme", **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("POST", "", {"domain": domain, **more}, of=of)).ok(201)
        return told

    async def verify(self, route: dict[str, Any], *, of: str = "acme") -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("POST", f"/{route['id']}/verify", of=of)).ok(200)
        return told

    async def verified(self, domain: str = NAME, *, of: str = "acme", **more: Any) -> dict[str, Any]:
        route = await self.make(domain, of=of, **more)
        self.publish(route)
        assert (await self.verify(route, of=of))["verified"]
        return route

    async def change(self, route: dict[str, Any], **more: Any) -> Received:
        return await self.ask("PATCH", f"/{route['id']}", more)

    async def shown(self, *, of: str = "acme") -> list[dict[str, Any]]:
        answer = await self.ask("GET", of=of)
        assert answer.status == 200
        routes: list[dict[str, Any]] = answer.json()
        return routes

    async def check(self) -> int:
        """Runs the check, as if it were due."""
        self.people.change("update domain_routes set next_check_at = now() - interval '1 s' where next_check_at is not null")
        return await domain_checker(
            "domain_route_checker", self.postern.tenancy.domain_routes, metrics=self.postern.foundation.metrics, spread=lambda: 0.0
        ).sweep()

    def recorded(self) -> list[tuple[str, dict[str, Any]]]:
        return [(one["action"], one["details"]) for one in self.audited("domain_route.%")]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[DomainRouteScene]:
    async with proving(DomainRouteScene, postern, people, log, tmp_path, NAME, "acme.test") as made:
        yield made


async def test_a_route_is_made_listed_changed_and_deleted(scene: DomainRouteScene) -> None:
    assert await scene.shown() == []
    route = await scene.make(" Acme.example. ", upstream_provider_id="websuite")
    token = route["verification_token"]
    assert route == {
        "id": route["id"],
        "domain": NAME,
        "verified": False,
        "verified_at": None,
        "checked_at": None,
        "upstream_provider_id": "websuite",
        "login_policy": "password_allowed",
        "join_policy": "off",
        "verification_token": token,
        "txt_name": f"_postern-verification.{NAME}",
        "txt_value": token,
        "file_url": f"https://{NAME}/.well-known/postern-verification.txt",
        "file_content": token,
        "created_at": route["created_at"],
        "updated_at": route["created_at"],
    }
    other = await scene.make("acme.test", join_policy="ask")
    assert await scene.shown() == [route, other]
    assert other["verification_token"] != token
    changed = (await scene.change(route, login_policy="upstream_only")).ok(200)
    assert changed == {**route, "login_policy": "upstream_only", "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > route["updated_at"]
    # The same again changes nothing.
    assert (await scene.change(route, login_policy="upstream_only", upstream_provider_id="websuite")).ok(200) == changed
    cleared = (await scene.change(route, upstream_provider_id=None, login_policy="password_allowed", join_policy="on")).ok(200)
    assert (cleared["upstream_provider_id"], cleared["join_policy"]) == (None, "on")
    assert (await scene.ask("DELETE", f"/{route['id']}")).status == 204
    assert await scene.shown() == [other]
    known = {"domain_id": route["id"], "domain": NAME}
    assert [(action, details) for action, details in scene.recorded() if details["domain"] == NAME] == [
        ("domain_route.created", {**known, "upstream_provider_id": "websuite", "login_policy": "password_allowed", "join_policy": "off"}),
        ("domain_route.updated", {**known, "old_login_policy": "password_allowed", "new_login_policy": "upstream_only"}),
        (
            "domain_route.updated",
            {
                **known,
                "old_upstream_provider_id": "websuite",
                "new_upstream_provider_id": None,
                "old_login_policy": "upstream_only",
                "new_login_policy": "password_allowed",
                "old_join_policy": "off",
                "new_join_policy": "on",
            },
        ),
        ("domain_route.deleted", {**known, "upstream_provider_id": None, "login_policy": "password_allowed", "join_policy": "on"}),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"domain": ""}, "domain"),
        ({"domain": "localhost"}, "domain"),
        ({"domain": "127.0.0.1"}, "domain"),
        ({"domain": "*.acme.example"}, "domain"),
        ({"domain": "ada@acme.example"}, "domain"),
        ({"domain": "Gmail.com"}, "domain"),
        ({"domain": NAME, "login_policy": "none"}, "login_policy"),
        ({"domain": NAME, "join_policy": "yes"}, "join_policy"),
        ({"domain": NAME, "login_policy": "upstream_only"}, "login_policy"),
        ({"domain": NAME, "login_policy": "password_fallback_if_provider_unavailable"}, "login_policy"),
        ({"domain": NAME, "upstream_provider_id": "facepage"}, "upstream_provider_id"),
        ({"domain": NAME, "upstream_provider_id": NOWHERE}, "upstream_provider_id"),
        # Neither the organization nor the installation has a client at this provider.
        ({"domain": NAME, "upstream_provider_id": "codehost"}, "upstream_provider_id"),
        ({}, "domain"),
    ],
)
async def test_what_is_no_route_is_refused(scene: DomainRouteScene, body: dict[str, Any], field: str) -> None:
    answer = await scene.ask("POST", "", body)
    assert (answer.status, field in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "at least one"),
        ({"domain": "acme.test"}, "domain: no such field"),
        ({"login_policy": "upstream_only"}, "login_policy"),
        ({"login_policy": None}, "login_policy"),
        ({"upstream_provider_id": NOWHERE}, "upstream_provider_id"),
        ({"upstream_provider_id": "officesuite", "login_policy": "upstream_only"}, "upstream_provider_id"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(scene: DomainRouteScene, body: dict[str, Any], field: str) -> None:
    route = await scene.make()
    answer = await scene.change(route, **body)
    assert (answer.status, field in answer.json()["error"]) == (400, True)
    assert await scene.shown() == [route]


async def test_a_route_without_its_provider_would_lead_nowhere(scene: DomainRouteScene) -> None:
    route = await scene.make(upstream_provider_id="websuite", login_policy="upstream_only")
    assert refused(await scene.change(route, upstream_provider_id=None)) == (400, "BAD_REQUEST")


async def test_an_organization_has_one_route_for_a_domain(scene: DomainRouteScene) -> None:
    outcomes = await all_at_once(*[partial(scene.ask, "POST", "", {"domain": NAME})] * 2)
    assert sorted(one.status for one in outcomes) == [201, 409]
    await scene.make(of="globex")


async def test_a_second_route_for_a_domain_is_a_conflict(scene: DomainRouteScene) -> None:
    route = await scene.make()
    assert refused(await scene.ask("POST", "", {"domain": NAME})) == (409, "CONFLICT")
    assert [one["id"] for one in await scene.shown()] == [route["id"]]
    assert [action for action, _ in scene.recorded()] == ["domain_route.created"]


async def test_an_organization_has_only_so_many(scene: DomainRouteScene) -> None:
    scene.people.change(
        """
        insert into domain_routes (id, org_id, domain, token, login_policy, join_policy, created_at, updated_at)
        select gen_random_uuid(), %s, 'd' || n || '.example', 't', 'password_allowed', 'off', now(), now() from generate_series(1, %s) as n
        """,
        scene.acme.id,
        MOST_ROUTES,
    )
    answer = await scene.ask("POST", "", {"domain": NAME})
    assert (answer.status, str(MOST_ROUTES) in answer.json()["error"]) == (400, True)


async def test_a_record_proves_it(scene: DomainRouteScene) -> None:
    route = await scene.make()
    assert (await scene.verify(route))["verified"] is False
    scene.publish(route)
    assert (await scene.verify(route))["verified"]
    (shown,) = await scene.shown()
    assert shown["verified_at"] == shown["checked_at"] is not None
    assert (await scene.verify(route))["verified"]
    assert [action for action, _ in scene.recorded()] == ["domain_route.created", "domain_route.verified"]


async def test_a_file_proves_it(scene: DomainRouteScene) -> None:
    route = await scene.make()
    async with receiving(answering(200, route["file_content"].encode())) as receiver:
        scene.network.port = receiver.port
        assert (await scene.verify(route))["verified"]


async def test_one_proof_is_enough_for_the_domain_and_its_route(scene: DomainRouteScene) -> None:
    domain = (await scene.request("POST", "/api/organizations/acme/domain", {"domain": NAME})).ok(200)
    scene.publish(domain)
    assert (await scene.request("POST", "/api/organizations/acme/domain/verify")).ok(200)["verified"]
    route = await scene.make()
    assert route["verification_token"] == domain["verification_token"]
    assert (await scene.verify(route))["verified"]


async def test_a_route_does_not_get_the_token_of_another_organizations_domain(scene: DomainRouteScene) -> None:
    token = uuid4().hex
    # The published token proves the domain for that organization only.
    scene.people.change(
        """
        insert into domains (id, org_id, domain, token, created_at, updated_at)
        select gen_random_uuid(), id, %s, %s, now(), now() from organizations where slug = 'globex'
        """,
        *(NAME, token),
    )
    assert (await scene.make())["verification_token"] != token


async def test_of_two_who_prove_it_one_has_it(scene: DomainRouteScene) -> None:
    ours, theirs = await scene.make(), await scene.make(of="globex")
    scene.publish(ours, theirs)
    outcomes = await all_at_once(partial(scene.verify, ours), partial(scene.verify, theirs, of="globex"))
    assert sorted(one["verified"] for one in outcomes) == [False, True]
    assert len(scene.people.rows("select from domain_routes where verified_at is not null")) == 1
    assert len(scene.audited("domain_route.verified")) == 1
    won = (await scene.shown())[0]["verified"]
    keeper, waiting = (("acme", ours), ("globex", theirs)) if won else (("globex", theirs), ("acme", ours))
    assert not (await scene.verify(waiting[1], of=waiting[0]))["verified"]
    # Once the other organization gives the domain up, it is free.
    assert (await scene.ask("DELETE", f"/{keeper[1]['id']}", of=keeper[0])).status == 204
    assert (await scene.verify(waiting[1], of=waiting[0]))["verified"]


@pytest.mark.parametrize("first", ["domain", "route"])
async def test_a_domain_of_one_organization_is_no_route_of_another(scene: DomainRouteScene, first: str) -> None:
    domain = (await scene.request("POST", "/api/organizations/globex/domain", {"domain": NAME}, by=scene.stranger)).ok(200)
    route = await scene.make()
    scene.publish(domain, route)

    async def verify_domain() -> bool:
        answer = (await scene.request("POST", "/api/organizations/globex/domain/verify", by=scene.stranger)).ok(200)
        return bool(answer["verified"])

    if first == "domain":
        assert await verify_domain()
        assert not (await scene.verify(route))["verified"]
    else:
        assert (await scene.verify(route))["verified"]
        assert not await verify_domain()


async def test_of_a_domain_and_a_route_at_once_one_is_verified(scene: DomainRouteScene) -> None:
    domain = (await scene.request("POST", "/api/organizations/globex/domain", {"domain": NAME}, by=scene.stranger)).ok(200)
    route = await scene.make()
    scene.publish(domain, route)

    async def verify_domain() -> dict[str, Any]:
        told: dict[str, Any] = (await scene.request("POST", "/api/organizations/globex/domain/verify", by=scene.stranger)).ok(200)
        return told

    outcomes = await all_at_once(verify_domain, partial(scene.verify, route))
    assert sorted(one["verified"] for one in outcomes) == [False, True]


async def test_whoever_verifies_waits_for_another_that_does(scene: DomainRouteScene, database_url: str) -> None:
    domain = (await scene.request("POST", "/api/organizations/globex/domain", {"domain": NAME}, by=scene.stranger)).ok(200)
    route = await scene.make()
    scene.publish(route)
    outcomes: list[dict[str, Any]] = []

    async def verify() -> None:
        outcomes.append(await scene.verify(route))

    with psycopg.connect(database_url) as other:
        # As globex's verification stands just before its commit.
        other.execute("select pg_advisory_xact_lock(%s, %s)", (NAMESPACE, DOMAINS))
        other.execute("update domains set verified_at = now(), next_check_at = now() where domain = %s", (domain["domain"],))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verify)
            await scene.people.somebody_waits()
            other.commit()
    assert [one["verified"] for one in outcomes] == [False]


async def test_it_is_looked_at_again_when_its_time_has_come(scene: DomainRouteScene) -> None:
    await scene.verified()
    metrics = scene.postern.foundation.metrics
    assert (
        await domain_checker("domain_route_checker", scene.postern.tenancy.domain_routes, metrics=metrics, spread=lambda: 0.0).sweep() == 0
    )
    assert await domain_checker("domain_checker", scene.postern.tenancy.domains, metrics=metrics, spread=lambda: 0.0).sweep() == 0
    (first,) = scene.people.rows("select * from domain_routes")
    assert first["next_check_at"] - first["checked_at"] == timedelta(days=7)
    assert await scene.check() == 1
    (second,) = scene.people.rows("select * from domain_routes")
    assert second["checked_at"] > first["checked_at"]
    assert scene.log.events("domains_checked")[-1]["actor"] == "domain_route_checker"


async def test_a_lost_proof_is_told_twice_and_ends_the_route(scene: DomainRouteScene, postern: Postern) -> None:
    route = await scene.verified()
    scene.withdraw(route)
    await scene.check()
    (notice,) = await Postbox(postern).empty()
    assert (notice.to, NAME in notice.text, route["txt_name"] in notice.text) == (scene.owner.email, True, True)
    assert "was not found just now" in (await scene.verify(route))["message"]
    for _ in range(MOST_MISSES - 1):
        assert (await scene.shown())[0]["verified"]
        await scene.check()
    (shown,) = await scene.shown()
    assert (shown["verified"], shown["verified_at"]) == (False, None)
    (lost,) = await Postbox(postern).empty()
    assert (lost.to, "no longer sent to your identity provider" in " ".join(lost.text.split()), NAME in lost.subject) == (
        scene.owner.email,
        True,
        True,
    )
    (entry,) = scene.audited("domain_route.lost")
    assert (entry["actor_id"], entry["details"]) == (None, {"domain_id": route["id"], "domain": NAME})
    assert await scene.check() == 0
    scene.publish(route)
    assert (await scene.verify(route))["verified"]


async def test_a_proof_that_comes_back_in_time_is_as_before(scene: DomainRouteScene) -> None:
    route = await scene.verified()
    scene.withdraw(route)
    await scene.check()
    scene.publish(route)
    await scene.check()
    assert scene.people.rows("select misses from domain_routes") == [{"misses": 0}]


async def test_a_route_that_was_deleted_during_its_check_is_left_alone(scene: DomainRouteScene) -> None:
    route = await scene.verified()
    scene.people.change("update domain_routes set next_check_at = now() - interval '1 s'")
    (claimed,) = await scene.postern.tenancy.domain_routes.claim_due(10)
    await scene.ask("DELETE", f"/{route['id']}")
    scene.withdraw(route)
    await scene.postern.tenancy.domain_routes.recheck(claimed)
    assert scene.audited("domain_route.lost") == []


async def test_a_right_that_is_gone_by_the_end_of_the_check_verifies_nothing(scene: DomainRouteScene) -> None:
    route = await scene.make()
    found = answering(200, route["file_content"].encode())

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        scene.people.change("delete from memberships where user_id = %s", scene.speaker.user)
        return await found(stream, call)

    async with receiving(answer) as receiver:
        scene.network.port = receiver.port
        assert (await scene.ask("POST", f"/{route['id']}/verify")).status == 403
    assert scene.people.rows("select verified_at from domain_routes") == [{"verified_at": None}]


async def test_others_neither_see_nor_change_it(scene: DomainRouteScene) -> None:
    route = await scene.make()
    one = f"/{route['id']}"
    asks: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("POST", "", {"domain": "acme.test"}),
        ("PATCH", one, {"join_policy": "on"}),
        ("POST", f"{one}/verify", None),
        ("DELETE", one, None),
    ]
    for method, path, body in asks:
        for person in (scene.member, scene.stranger):
            assert (await scene.ask(method, path, body, by=person)).status == 403
    assert await scene.shown(of="globex") == []
    for method, path, body in asks[2:]:
        for identity in (route["id"], NOWHERE):
            answer = await scene.ask(method, path.replace(route["id"], identity), body, of="globex")
            assert refused(answer) == (404, "NOT_FOUND")
    assert await scene.shown() == [route]


async def test_whoever_lets_people_become_members_may_invite_them(scene: DomainRouteScene) -> None:
    """Otherwise they could let in a second account of theirs, which would see more than the first."""
    settings = scene.resident(scene.acme, scene.tenants.role(scene.acme, "settings", [Capability.SETTINGS_MANAGE]))
    both = scene.tenants.role(scene.acme, "managing", [Capability.SETTINGS_MANAGE, Capability.MEMBERS_MANAGE])
    managing = scene.resident(scene.acme, both)
    seeing = [*BuiltInRole.MEMBER.capabilities, Capability.SETTINGS_MANAGE, Capability.MEMBERS_MANAGE]
    host = scene.resident(scene.acme, scene.tenants.role(scene.acme, "host", seeing))
    for number, person in enumerate((settings, managing, host, scene.owner, scene.speaker)):
        domain = f"acme{number}.test"
        may = person is not settings
        for join in ("ask", "on"):
            answer = await scene.ask("POST", "", {"domain": f"{join}-{domain}", "join_policy": join}, by=person)
            assert answer.status == (201 if may else 403), join
        route = (await scene.ask("POST", "", {"domain": domain}, by=person)).ok(201)
        for join, wanted in (("ask", may), ("on", may), ("ask", may)):
            answer = await scene.ask("PATCH", f"/{route['id']}", {"join_policy": join}, by=person)
            assert answer.status == (200 if wanted else 403), join
        # An existing rule stays, and anybody who manages the settings can end it.
        assert (await scene.change(route, join_policy="on")).status == 200
        for body in ({"login_policy": "password_allowed", "upstream_provider_id": "websuite", "join_policy": "on"}, {"join_policy": "off"}):
            assert (await scene.ask("PATCH", f"/{route['id']}", body, by=person)).status == 200


async def test_it_takes_a_fresh_proof(scene: DomainRouteScene) -> None:
    route = await scene.make()
    scene.people.change("update sessions set proved_at = now() - interval '1 hour'")
    for method, path, body in (("POST", "", {"domain": "acme.test"}), ("PATCH", f"/{route['id']}", {"join_policy": "on"})):
        assert refused(await scene.ask(method, path, body)) == (401, "REAUTHENTICATION_REQUIRED")
    assert refused(await scene.ask("DELETE", f"/{route['id']}")) == (401, "REAUTHENTICATION_REQUIRED")


async def test_round_trips(scene: DomainRouteScene) -> None:
    route = await scene.make()
    scene.publish(route)
    for method, path, body, most in (
        ("POST", "", {"domain": "acme.test", "upstream_provider_id": "websuite"}, 5),
        ("PATCH", f"/{route['id']}", {"upstream_provider_id": "websuite", "login_policy": "upstream_only"}, 5),
        ("POST", f"/{route['id']}/verify", None, 6),
        ("GET", "", None, 2),
        # Its organization's own texts may lose links.
        ("DELETE", f"/{route['id']}", None, 6),
    ):
        await scene.ask(method, path, body)
        trips = scene.log.events("request")[-1]["db_round_trips"]
        assert trips <= most, (method, path, trips)

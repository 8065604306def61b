"""Services over HTTP: created within the tier, listed, changed, and every refusal."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive
from core.domain.identity.callers import Participation
from core.domain.record.events import Actor
from core.domain.services.services import NewService, ServiceType
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.cli.operating import acting, for_owner
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person

SERVICES: Final = "/api/organizations/acme/services"


class ServiceScene(Neighbours):
    """Acme has its owner and no service yet, globex has one."""

    audited_columns = f"{Neighbours.audited_columns}, success"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.tenants.service(self.globex, "app")

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None, base: str = SERVICES) -> Received:
        return await self.request(method, base + path, body, by=by)

    async def create(self, slug: str = "app", *, by: Person | None = None, **said: Any) -> Received:
        return await self.ask("POST", body={"slug": slug, "name": "App", "service_type": "web", **said}, by=by)

    async def created(self, slug: str = "app", **said: Any) -> dict[str, Any]:
        service: dict[str, Any] = (await self.create(slug, **said)).ok()["service"]
        return service

    async def change(self, slug: str = "app", **said: Any) -> Received:
        return await self.ask("PATCH", f"/{slug}", said)

    def allow(self, most: int) -> None:
        self.people.change("update all_organizations set max_services = %s", most)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> ServiceScene:
    return ServiceScene(postern, people, client, log)


async def test_a_service_begins_with_a_free_plan_and_a_client_id(scene: ServiceScene) -> None:
    answer = await scene.create(
        "shop",
        name="  The\tShop ",
        service_type="mobile",
        codehost_scopes=["read:user", "user:email"],
        websuite_scopes=[],
        redirect_uris=["https://shop.example/callback", "com.example.shop:/callback"],
        device_activation_uri="https://shop.example/activate",
    )
    assert answer.status == 200, answer.body
    body = answer.json()
    service, plan = body["service"], body["default_plan"]
    assert UUID(service.pop("client_id")) != UUID(service["id"])
    created_at = service.pop("created_at")
    assert service == {
        "id": service["id"],
        "org_id": str(scene.acme.id),
        "slug": "shop",
        "name": "The Shop",
        "service_type": "mobile",
        "codehost_scopes": ["read:user", "user:email"],
        "websuite_scopes": [],
        "officesuite_scopes": None,
        "redirect_uris": ["https://shop.example/callback", "com.example.shop:/callback"],
        "device_activation_uri": "https://shop.example/activate",
        "sign_in_policy": "anyone",
        "trusted": False,
        "jwks": None,
        "jwks_uri": None,
        "id_token_alg": "RS256",
        "access_token_alg": "ES256",
        "assertion_audience": "issuer",
        "is_agent": False,
        "post_logout_redirect_uris": [],
        "backchannel_logout_uri": None,
        "backchannel_logout_session_required": False,
        "frontchannel_logout_uri": None,
        "frontchannel_logout_session_required": False,
        "profile": "standard",
        "session_lifetime_hours": None,
        "session_idle_minutes": None,
        "most_sessions": None,
        "dpop_bound_access_tokens": False,
        "initiate_login_uri": None,
        "logo": None,
        "metadata": {},
    }
    assert plan == {
        "id": plan["id"],
        "service_id": service["id"],
        "key": "free",
        "name": "Free",
        "price_cents": 0,
        "currency": "usd",
        "features": [],
        "billing_price_id": None,
        "subscription_count": 0,
        "created_at": created_at,
    }
    assert body["usage"] == {"current_services": 1, "max_services": 3, "tier": "Free"}
    (kept,) = scene.people.rows("select name, currency, price_cents, features from plans where service_id = %s", UUID(service["id"]))
    assert kept == {"name": "Free", "currency": "usd", "price_cents": 0, "features": []}


async def test_what_is_not_said_is_nothing(scene: ServiceScene) -> None:
    service = await scene.created()
    empty = ("codehost_scopes", "websuite_scopes", "officesuite_scopes", "device_activation_uri")
    assert [service[name] for name in empty] == [None] * 4
    assert service["redirect_uris"] == []


async def test_creation_is_audited_with_its_client_id(scene: ServiceScene) -> None:
    service = await scene.created("shop", name="Shop")
    created, planned = scene.audited()
    assert created == {
        "organization_id": scene.acme.id,
        "actor_id": scene.owner.user,
        "action": "service.created",
        "target_type": "service",
        "target_id": service["id"],
        "details": {"service_slug": "shop", "service_name": "Shop", "service_type": "web", "client_id": service["client_id"]},
        "success": True,
    }
    assert (planned["action"], planned["target_type"]) == ("plan.created", "plan")
    assert scene.people.rows("select name from events where organization_id = %s order by id", scene.acme.id) == [
        {"name": "service.created"},
        {"name": "plan.created"},
    ]


REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "slug empty": ({"slug": ""}, "slug: "),
    "slug with capitals": ({"slug": "App"}, "slug: "),
    "slug with a space": ({"slug": "my app"}, "slug: "),
    "slug with an umlaut": ({"slug": "käse"}, "slug: "),
    "slug with a path": ({"slug": "../app"}, "slug: "),
    "slug that begins with a hyphen": ({"slug": "-app"}, "slug: "),
    "slug that ends with a hyphen": ({"slug": "app-"}, "slug: "),
    "slug with a line break": ({"slug": "app\n"}, "slug: "),
    "slug too long": ({"slug": "a" * 51}, "slug: "),
    "name empty": ({"name": ""}, "name: "),
    "name of nothing visible": ({"name": " \u200b\u202e\n"}, "name: "),
    "name too long": ({"name": "a" * 101}, "name: "),
    "no such type": ({"service_type": "spa"}, "service_type: "),
    "type in capitals": ({"service_type": "WEB"}, "service_type: "),
    "scopes that are text": ({"codehost_scopes": "read:user"}, "codehost_scopes: "),
    "scope empty": ({"codehost_scopes": ["ok", ""]}, "codehost_scopes[1]: "),
    "scope with a space": ({"websuite_scopes": ["a b"]}, "websuite_scopes[0]: "),
    "scope with a quote": ({"officesuite_scopes": ['a"b']}, "officesuite_scopes[0]: "),
    "scope with a backslash": ({"officesuite_scopes": ["a\\b"]}, "officesuite_scopes[0]: "),
    "scope with a line break": ({"officesuite_scopes": ["a\n"]}, "officesuite_scopes[0]: "),
    "scope not ASCII": ({"officesuite_scopes": ["ä"]}, "officesuite_scopes[0]: "),
    "scope too long": ({"codehost_scopes": ["a" * 201]}, "codehost_scopes[0]: "),
    "scope twice": ({"codehost_scopes": ["a", "a"]}, "codehost_scopes: each can be listed only once"),
    "too many scopes": ({"codehost_scopes": [f"s{n}" for n in range(101)]}, "codehost_scopes: at most 100"),
    "redirect URIs that are null": ({"redirect_uris": None}, "redirect_uris: "),
    "redirect URI twice": ({"redirect_uris": ["https://a.example/", "https://a.example/"]}, "redirect_uris: each can be listed only once"),
    "too many redirect URIs": ({"redirect_uris": [f"https://a.example/{n}" for n in range(101)]}, "redirect_uris: at most 100"),
    "redirect URI of a phone's": ({"redirect_uris": ["https://a.example/", "com.example.app:/cb"]}, "redirect_uris[1]: "),
    "activation page over http": ({"device_activation_uri": "http://a.example/"}, "device_activation_uri: "),
    "activation page of a phone's": ({"device_activation_uri": "com.example.app:/a", "service_type": "mobile"}, "device_activation_uri: "),
    "activation page empty": ({"device_activation_uri": ""}, "device_activation_uri: "),
    "sign-in over http": ({"initiate_login_uri": "http://a.example/sign-in"}, "initiate_login_uri: http is only for localhost"),
    "sign-in of a phone's": ({"initiate_login_uri": "com.example.app:/a", "service_type": "mobile"}, "initiate_login_uri: "),
    "sign-in empty": ({"initiate_login_uri": ""}, "initiate_login_uri: "),
    "sign-in too long": ({"initiate_login_uri": f"https://a.example/{'a' * 2000}"}, "initiate_login_uri: "),
    "sign-in with an issuer of its own": ({"initiate_login_uri": "https://a.example/?x=1&%69SS="}, "initiate_login_uri: must not have"),
    "sign-in behind a proxy": (
        {"initiate_login_uri": "https://a.example/", "service_type": "proxy"},
        "initiate_login_uri: an application behind a reverse proxy",
    ),
}


async def test_creation_is_refused(scene: ServiceScene) -> None:
    for case, (said, complaint) in REFUSED.items():
        answer = await scene.create(**{"slug": "app", **said})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), case
        assert answer.json()["error"].startswith(complaint), case
    assert scene.people.rows("select from all_services where org_id = %s", scene.acme.id) == []


async def test_what_a_service_needs(scene: ServiceScene) -> None:
    whole = {"slug": "app", "name": "App", "service_type": "web"}
    for missing in whole:
        answer = await scene.ask("POST", body={name: value for name, value in whole.items() if name != missing})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert missing in answer.json()["error"]


async def test_a_slug_is_taken_once_in_an_organization(scene: ServiceScene) -> None:
    # Nobody here learns of globex's service of this slug.
    assert (await scene.create("app")).status == 200
    again = await scene.create("app", name="Other")
    assert (again.status, again.error_code) == (409, "CONFLICT")
    assert len(scene.audited()) == 2


async def test_the_tier_says_how_many(scene: ServiceScene) -> None:
    for slug in ("one", "two", "three"):
        assert (await scene.create(slug)).status == 200
    full = await scene.create("four")
    assert (full.status, full.error_code) == (400, "SERVICE_LIMIT_EXCEEDED")
    # The text names the limit, its source, and a remedy.
    told = full.json()["error"]
    assert "limit of services: 3, on the tier Free. A platform owner can raise it" in told
    assert "PATCH /api/platform/organizations/{org_id}/tier" in told
    assert "postern organization tier" in told
    # The organization's own number comes before the tier's, also if it is smaller. Existing services stay.
    scene.allow(2)
    assert (await scene.create("four")).error_code == "SERVICE_LIMIT_EXCEEDED"
    scene.allow(4)
    answer = await scene.create("four")
    assert answer.json()["usage"] == {"current_services": 4, "max_services": 4, "tier": "Free"}
    scene.allow(0)
    assert (await scene.ask("GET")).json()["usage"] == {"current_services": 4, "max_services": 0, "tier": "Free"}
    scene.people.change("update all_organizations set max_services = null, tier_id = (select id from tiers where name = 'professional')")
    assert (await scene.create("five")).json()["usage"] == {"current_services": 5, "max_services": 10, "tier": "Professional"}


async def test_of_twenty_creations_at_once_for_the_last_place_one_wins(scene: ServiceScene) -> None:
    await scene.created("one")
    await scene.created("two")
    answers: list[Received] = []

    async def one_more(number: int) -> None:
        answers.append(await scene.create(f"more-{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one_more, number)
    outcomes = sorted((answer.status, "" if answer.status == 200 else answer.error_code) for answer in answers)
    assert outcomes == [(200, ""), *[(400, "SERVICE_LIMIT_EXCEEDED")] * 19]
    assert scene.people.rows("select count(*) as n from services where org_id = %s", scene.acme.id) == [{"n": 3}]
    assert scene.people.rows("select count(*) as n from plans") == [{"n": 3}]


async def test_of_ten_creations_at_once_with_one_slug_one_wins(scene: ServiceScene) -> None:
    scene.allow(100)
    answers: list[int] = []

    async def try_it() -> None:
        answers.append((await scene.create("app")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(try_it)
    assert sorted(answers) == [200, *[409] * 9]


async def test_the_list_counts_what_each_has(scene: ServiceScene) -> None:
    scene.allow(10)
    services = [await scene.created(slug, service_type=kind) for slug, kind in (("b", "web"), ("a", "api"), ("c", "mobile"))]
    first = UUID(services[0]["id"])
    plan = uuid4()
    scene.people.change(
        "insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)"
        " values (%s, %s, 'Pro', 900, 'usd', now(), now())",
        plan,
        first,
    )
    for status in ("active", "past_due", "cancelled", "expired"):
        scene.people.change(
            "insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)"
            " values (%s, %s, %s, %s, %s, now(), now(), now())",
            uuid4(),
            first,
            scene.people.add().user,
            plan,
            status,
        )
    # A deleted plan no longer counts.
    scene.people.change("update plans set deleted_at = now() where service_id = %s", UUID(services[2]["id"]))
    answer = await scene.ask("GET")
    assert answer.status == 200
    assert [(one["slug"], one["plan_count"], one["subscription_count"]) for one in answer.json()["services"]] == [
        ("b", 2, 2),
        ("a", 1, 0),
        ("c", 0, 0),
    ]
    assert answer.json()["usage"] == {"current_services": 3, "max_services": 10, "tier": "Free"}
    # Except for the counts and the metadata, a service looks the same in the list as alone.
    listed = answer.json()["services"][1]
    assert {**services[1], "plan_count": 1, "subscription_count": 0} == {**listed, "metadata": {}}
    assert "metadata" not in listed
    assert (await scene.ask("GET", "/a")).json() == services[1]


async def test_the_list_is_filtered_and_cut_and_its_usage_is_of_all(scene: ServiceScene) -> None:
    scene.allow(10)
    for number, kind in enumerate(("web", "api", "web", "desktop", "web")):
        await scene.created(f"s{number}", service_type=kind)

    async def slugs(query: str) -> list[str]:
        answer = await scene.ask("GET", query)
        assert answer.status == 200, answer.body
        assert answer.json()["usage"]["current_services"] == 5
        return [one["slug"] for one in answer.json()["services"]]

    assert await slugs("") == ["s0", "s1", "s2", "s3", "s4"]
    assert await slugs("?service_type=web") == ["s0", "s2", "s4"]
    assert await slugs("?service_type=web&limit=1&offset=1") == ["s2"]
    assert await slugs("?service_type=mobile") == []
    assert await slugs("?limit=2") == ["s0", "s1"]
    assert await slugs("?limit=2&offset=4") == ["s4"]
    assert await slugs("?offset=3") == ["s3", "s4"]
    assert await slugs("?offset=50") == []
    assert await slugs("?offset=2147483647&limit=2147483647") == []


async def test_an_odd_list_is_refused(scene: ServiceScene) -> None:
    for query in ("service_type=spa", "service_type=", "limit=0", "limit=-1", "limit=x", "offset=-1", "offset=2147483648"):
        answer = await scene.ask("GET", f"?{query}")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), query


async def test_an_empty_organization_has_an_empty_list(scene: ServiceScene) -> None:
    assert (await scene.ask("GET")).json() == {"services": [], "usage": {"current_services": 0, "max_services": 3, "tier": "Free"}}


async def test_change_replaces_what_is_said_and_leaves_the_rest(scene: ServiceScene) -> None:
    before = await scene.created(
        codehost_scopes=["a", "b"],
        websuite_scopes=["c"],
        redirect_uris=["https://a.example/", "https://b.example/"],
        device_activation_uri="https://a.example/activate",
    )
    answer = await scene.change(redirect_uris=["https://b.example/", "http://localhost:3000/"], codehost_scopes=["b"], name="Other")
    assert answer.status == 200, answer.body
    after = {**before, "redirect_uris": ["https://b.example/", "http://localhost:3000/"], "codehost_scopes": ["b"], "name": "Other"}
    assert answer.json() == after
    # null clears; an empty list is a list.
    answer = await scene.change(codehost_scopes=None, websuite_scopes=[], redirect_uris=[], device_activation_uri=None)
    after |= {"codehost_scopes": None, "websuite_scopes": [], "redirect_uris": [], "device_activation_uri": None}
    assert answer.json() == after
    assert (await scene.ask("GET", "/app")).json() == after


async def test_a_change_is_audited_with_what_changed(scene: ServiceScene) -> None:
    service = await scene.created(name="App", redirect_uris=["https://a.example/", "https://b.example/"], codehost_scopes=["a"])
    await scene.change(name="Shop", redirect_uris=["https://b.example/", "https://c.example/"], codehost_scopes=["a"])
    await scene.change(
        service_type="desktop",
        device_activation_uri="https://c.example/activate",
        officesuite_scopes=["x"],
        initiate_login_uri="http://localhost:3000/sign-in",
    )
    # A change to equal values sends no event.
    updated = await scene.ask("GET", "/app")
    assert (await scene.change(name=" Shop ", service_type="desktop")).json() == updated.json()
    first, second = scene.audited()[2:]
    assert (first["action"], first["target_type"], first["target_id"], first["actor_id"]) == (
        "service.updated",
        "service",
        service["id"],
        scene.owner.user,
    )
    assert first["details"] == {
        "service_slug": "app",
        "service_name": "Shop",
        "changed": ["name", "redirect_uris"],
        "old_name": "App",
        "redirect_uris_added": ["https://c.example/"],
        "redirect_uris_removed": ["https://a.example/"],
    }
    assert second["details"] == {
        "service_slug": "app",
        "service_name": "Shop",
        "changed": ["service_type", "officesuite_scopes", "device_activation_uri", "initiate_login_uri"],
        "old_service_type": "web",
        "service_type": "desktop",
        "old_device_activation_uri": None,
        "device_activation_uri": "https://c.example/activate",
        "old_initiate_login_uri": None,
        "initiate_login_uri": "http://localhost:3000/sign-in",
    }


async def test_slug_and_client_id_cannot_change(scene: ServiceScene) -> None:
    service = await scene.created()
    answer = await scene.ask("PATCH", "/app", {"slug": "other", "client_id": str(uuid4())})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert answer.json()["error"] == "slug and 1 more: no such field"
    refused = await scene.ask("PATCH", "/app", {"slug": "other", "name": "Other"})
    assert (refused.status, refused.json()["error"]) == (400, "slug: no such field")
    assert (await scene.ask("GET", "/app")).json() == service
    assert (await scene.ask("GET", "/other")).status == 404


CHANGES_REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "nothing": ({}, "Send at least one field"),
    "name null": ({"name": None}, "name: "),
    "type null": ({"service_type": None}, "service_type: "),
    "no such type": ({"service_type": "spa"}, "service_type: "),
    "redirect URIs null": ({"redirect_uris": None}, "redirect_uris: "),
    **{case: refused for case, refused in REFUSED.items() if not case.startswith("slug") and not case.endswith("a proxy")},
}


async def test_a_change_is_refused(scene: ServiceScene) -> None:
    before = await scene.created()
    for case, (said, complaint) in CHANGES_REFUSED.items():
        answer = await scene.change(**said)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), case
        assert answer.json()["error"].startswith(complaint), case
    assert (await scene.ask("GET", "/app")).json() == before
    assert len(scene.audited()) == 2


async def test_what_a_service_has_must_suit_its_new_type(scene: ServiceScene) -> None:
    await scene.created(service_type="mobile", redirect_uris=["com.example.app:/callback"])
    answer = await scene.change(service_type="web")
    assert (answer.status, answer.json()["error"].partition(":")[0]) == (400, "redirect_uris[0]")
    assert (await scene.change(service_type="desktop")).status == 200
    assert (await scene.change(service_type="web", redirect_uris=["https://a.example/"])).status == 200
    assert (await scene.ask("POST", "/app/client-secrets")).status == 201
    answer = await scene.change(service_type="mobile")
    assert (answer.status, answer.json()["error"].partition(":")[0]) == (400, "service_type")
    # From one type that keeps secrets to the other.
    assert (await scene.change(service_type="api")).status == 200


async def test_changes_at_once_do_not_undo_each_other(scene: ServiceScene) -> None:
    await scene.created()
    said: list[dict[str, Any]] = [
        {"name": "Other"},
        {"codehost_scopes": ["a"]},
        {"websuite_scopes": ["b"]},
        {"officesuite_scopes": ["c"]},
        {"redirect_uris": ["https://a.example/"]},
        {"device_activation_uri": "https://a.example/activate"},
        {"service_type": "api"},
    ]

    async def change(said: dict[str, Any]) -> None:
        assert (await scene.change(**said)).status == 200

    async with trio.open_nursery() as nursery:
        for one in said:
            nursery.start_soon(change, one)
    after = (await scene.ask("GET", "/app")).json()
    for one in said:
        for name, value in one.items():
            assert after[name] == value


async def test_services_of_others_are_unknown_here(scene: ServiceScene) -> None:
    await scene.created("mine")
    for slug in ("app", "nothing", "%00", "..", "%F0%9F%A6%84", "MINE", "a" * 300):
        for method in ("GET", "PATCH", "DELETE"):
            answer = await scene.ask(method, f"/{slug}", {"name": "Taken over"} if method == "PATCH" else None)
            assert (answer.status, answer.error_code) == (404, "NOT_FOUND"), (method, slug)
    # They cannot read the other organization either.
    theirs = "/api/organizations/globex/services"
    for method, path, body in (("GET", "", None), ("GET", "/app", None), ("PATCH", "/app", {"name": "X"}), ("DELETE", "/app", None)):
        answer = await scene.ask(method, path, body, base=theirs)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert [one["slug"] for one in (await scene.ask("GET")).json()["services"]] == ["mine"]
    assert scene.people.rows("select name from services where org_id = %s", scene.globex.id) == [{"name": "App"}]


async def test_each_thing_takes_its_own_capability(scene: ServiceScene) -> None:
    scene.allow(100)
    await scene.created()

    def holder(*capabilities: Capability) -> Person:
        slug = "-".join(one.name.lower().replace("_", "-") for one in capabilities)
        return scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, slug, capabilities))

    # Creating, listing, looking, changing, deleting.
    expected = {
        holder(Capability.SERVICES_CREATE): (200, 403, 403, 403, 403),
        holder(Capability.SERVICES_VIEW): (403, 200, 200, 403, 403),
        holder(Capability.SERVICES_MANAGE): (403, 403, 403, 200, 403),
        holder(Capability.SETTINGS_MANAGE, Capability.BILLING_MANAGE): (403, 403, 403, 403, 403),
        scene.tenants.member(scene.acme): (403, 200, 200, 403, 403),
        scene.tenants.member(scene.acme, "admin"): (200, 200, 200, 200, 403),
        scene.owner: (200, 200, 200, 200, 204),
    }
    for number, (who, statuses) in enumerate(expected.items()):
        answers = [
            await scene.create(f"new-{number}", by=who),
            await scene.ask("GET", by=who),
            await scene.ask("GET", "/app", by=who),
            await scene.ask("PATCH", "/app", {"name": f"App {number}"}, by=who),
            await scene.ask("DELETE", "/app", by=who),
        ]
        assert tuple(answer.status for answer in answers) == statuses, who.email


async def test_an_organization_that_is_not_active_has_no_services(scene: ServiceScene) -> None:
    await scene.created()
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    for method, path, body in (("GET", "", None), ("GET", "/app", None), ("PATCH", "/app", {"name": "X"}), ("DELETE", "/app", None)):
        answer = await scene.ask(method, path, body)
        assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    assert (await scene.create("new")).error_code == "ORGANIZATION_NOT_ACTIVE"


async def test_what_became_of_the_organization_meanwhile_is_seen(scene: ServiceScene, postern: Postern) -> None:
    """The request came in while the organization was active, and is carried out after a platform owner has decided otherwise."""
    await scene.created()
    member = await postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.owner), "acme", Participation.ACTIVE)
    wanted = NewService(slug="new", name="New", service_type=ServiceType.WEB)
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    with pytest.raises(OrganizationNotActive):
        await postern.services.services.create(member, wanted, Actor())
    scene.people.change("update all_organizations set status = 'active', deleted_at = now() where slug = 'acme'")
    with pytest.raises(Forbidden):
        await postern.services.services.create(member, wanted, Actor())
    with pytest.raises(NotFound):
        await postern.services.services.list(member)
    assert scene.people.rows("select slug from services where org_id = %s", scene.acme.id) == [{"slug": "app"}]


async def test_an_operator_does_not_furnish_an_organization_that_is_not_active(scene: ServiceScene, postern: Postern) -> None:
    """Operators at the host act in any state of the organization, but no new service may begin to work for one that was suspended."""
    scene.people.change("update organizations set owner_user_id = %s where id = %s", scene.owner.user, scene.acme.id)
    member = await for_owner(postern, "acme")
    assert (member.is_operators, member.organization_is_active) == (True, True)
    wanted = NewService(slug="new", name="New", service_type=ServiceType.WEB)
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    with pytest.raises(OrganizationNotActive):
        await postern.services.services.create(member, wanted, acting())
    assert scene.people.rows("select slug from services where org_id = %s", scene.acme.id) == []
    scene.people.change("update all_organizations set status = 'active' where slug = 'acme'")
    assert (await postern.services.services.create(member, wanted, acting())).service.slug == "new"


HOSTILE_TEXT: Final = (
    "'; drop table services; --",
    "<script>alert(1)</script>",
    "{{7*7}} ${7*7} %s %(name)s",
    "\u202eevil\u202c",
    "name\r\nX-Injected: 1",
    "%' or '1'='1",
    "🦄" * 50,
)


async def test_a_name_with_any_text_stays_a_name(scene: ServiceScene) -> None:
    await scene.created()
    for text in HOSTILE_TEXT:
        name = (await scene.change(name=text)).json()["name"]
        assert (await scene.ask("GET", "/app")).json()["name"] == name
        assert "".join(text.split()).replace("\u202e", "").replace("\u202c", "") == "".join(name.split())
        assert not {"\r", "\n", "\u202e"} & set(name)


async def test_the_longest_that_is_allowed_fits_into_a_body(scene: ServiceScene) -> None:
    def long(number: int, length: int) -> str:
        return f"https://a.example/{number}/".ljust(length, "x")

    scopes = {f"{suite}_scopes": [long(number, 200) for number in range(100)] for suite in ("codehost", "websuite", "officesuite")}
    wanted: dict[str, Any] = {**scopes, "redirect_uris": [long(number, 2000) for number in range(100)]}
    service = await scene.created(**wanted)
    assert {name: service[name] for name in wanted} == wanted
    assert (await scene.change(**wanted)).status == 200


# With the caller's own question.
ROUND_TRIPS: Final = {("POST", ""): 5, ("GET", ""): 2, ("GET", "/{}"): 2, ("PATCH", "/{}"): 4, ("DELETE", "/{}"): 5}


async def test_round_trips(scene: ServiceScene) -> None:
    scene.allow(100)
    measured: dict[tuple[str, str], int] = {}
    for slug in ("warm", "measured"):
        bodies: dict[str, dict[str, str]] = {
            "POST": {"slug": slug, "name": "App", "service_type": "web"},
            "PATCH": {"name": "Other", "service_type": "api"},
        }
        for method, path in ROUND_TRIPS:
            scene.log.entries.clear()
            answer = await scene.ask(method, path.format(slug), bodies.get(method))
            assert answer.status in {200, 204}, answer.body
            (line,) = scene.log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


_KEY: Final = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "one",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}


async def test_what_a_service_says_of_itself_as_a_client(scene: ServiceScene) -> None:
    said: dict[str, Any] = {
        "sign_in_policy": "members",
        "trusted": True,
        "jwks": {"keys": [_KEY]},
        "id_token_alg": "ES256",
        "post_logout_redirect_uris": ["https://a.example/out"],
    }
    service = await scene.created(**said)
    kept = {**said, "jwks": {"keys": [{**_KEY, "use": "sig"}]}}
    assert {name: service[name] for name in said} == kept
    assert (await scene.ask("GET", "/app")).json() == service
    (listed,) = (await scene.ask("GET")).json()["services"]
    assert {name: listed[name] for name in said} == kept
    plain: dict[str, Any] = {
        "sign_in_policy": "anyone",
        "trusted": False,
        "jwks": None,
        "jwks_uri": None,
        "id_token_alg": "RS256",
        "post_logout_redirect_uris": [],
    }
    assert (await scene.change(**plain)).ok() == {**service, **plain}
    entry = scene.audited()[-1]
    assert entry["details"] == {
        "service_slug": "app",
        "service_name": service["name"],
        "changed": ["sign_in_policy", "trusted", "jwks", "id_token_alg", "post_logout_redirect_uris"],
        "old_sign_in_policy": "members",
        "sign_in_policy": "anyone",
        "old_trusted": True,
        "trusted": False,
        "old_id_token_alg": "ES256",
        "id_token_alg": "RS256",
        "old_key_ids": ["one"],
        "key_ids": [],
        "post_logout_redirect_uris_added": [],
        "post_logout_redirect_uris_removed": ["https://a.example/out"],
    }


async def test_what_a_client_may_not_say(scene: ServiceScene) -> None:
    await scene.created()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"sign_in_policy": "nobody"}, "sign_in_policy: "),
        ({"trusted": None}, "trusted: "),
        ({"id_token_alg": "HS256"}, "id_token_alg: "),
        ({"jwks": {"keys": [{**_KEY, "d": "private"}]}}, "jwks.keys[0]: "),
        ({"jwks": {}}, "jwks: "),
        ({"post_logout_redirect_uris": ["http://a.example/"]}, "post_logout_redirect_uris[0]: "),
        ({"post_logout_redirect_uris": ["https://a.example/"] * 2}, "post_logout_redirect_uris: "),
        ({"service_type": "mobile", "jwks": {"keys": [_KEY]}}, "jwks: "),
    ]
    for said, complaint in refused:
        answer = await scene.change(**said)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), said
        assert answer.json()["error"].startswith(complaint), said
    # A service that becomes a public client must give up its keys.
    assert (await scene.change(jwks={"keys": [_KEY]})).status == 200
    answer = await scene.change(service_type="mobile")
    assert (answer.status, answer.json()["error"].partition(":")[0]) == (400, "jwks")


async def test_nothing_that_lasts_is_left_behind_by_an_impersonator(scene: ServiceScene) -> None:
    await scene.created(redirect_uris=["https://app.example.com/cb"], trusted=True, jwks={"keys": [_KEY]})
    governor = await scene.people.token(scene.people.add(platform_owner=True), is_platform_owner=True)
    admin = scene.resident(scene.acme, "admin")
    acting = (await scene.client.post(f"/api/platform/impersonate/{admin.user}", {"reason": "helps"}, token=governor)).ok()["access_token"]

    async def tried(**said: Any) -> int:
        answer = await scene.client.request("PATCH", f"{SERVICES}/app", body=said, token=acting)
        return answer.status

    for lasting in (
        {"redirect_uris": ["https://mine.example.com/cb"]},
        {"post_logout_redirect_uris": ["https://mine.example.com/out"]},
        {"device_activation_uri": "https://mine.example.com/tv"},
        {"initiate_login_uri": "https://mine.example.com/sign-in"},
        {"backchannel_logout_uri": "https://mine.example.com/told"},
        {"jwks": {"keys": [_KEY]}},
        {"jwks_uri": "https://mine.example.com/keys"},
        {"service_type": "mobile"},
        {"sign_in_policy": "anyone"},
        {"trusted": True},
        {"name": "Mine", "trusted": True},
    ):
        assert await tried(**lasting) == 403, lasting
    answer = await scene.client.post(SERVICES, {"slug": "mine", "name": "Mine", "service_type": "web"}, token=acting)
    assert refused(answer) == (403, "FORBIDDEN")
    # Deletions and everyday changes are allowed.
    taking: tuple[dict[str, Any], ...] = ({"name": "Ours"}, {"jwks": None}, {"trusted": False}, {"redirect_uris": []})
    for passing in taking:
        assert await tried(**passing) == 200, passing

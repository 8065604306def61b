"""End users over HTTP: the data that an organization sees about users of its services, and the data that it does not see."""

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
import trio

from adapters.limits import MOST_APPROVALS
from core.domain.requests import LARGEST_PAGE_LIMIT, MOST_ROWS_COUNTED
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.patience import PATIENCE

LIST: Final = "/api/organizations/acme/users"
HOUR: Final = timedelta(hours=1)


class EndUserScene(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.now = self.postern.foundation.clock.now()
        self.admin = self.speaker = self.resident(self.acme, "admin")

    async def ask(self, path: str = "", *, by: Person | None = None, method: str = "GET") -> Received:
        return await self.request(method, LIST + path, by=by)

    async def listed(self, query: str = "") -> list[str]:
        answer = await self.ask(query)
        assert answer.status == 200, answer.body
        return [one["email"] for one in answer.json()["users"]]

    async def total(self, query: str = "") -> int:
        number: int = (await self.ask(query)).json()["pagination"]["total"]
        return number


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> EndUserScene:
    return EndUserScene(postern, people, client, log)


async def test_the_list_has_everybody_once_with_the_organizations_own_services(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, scene.app, email="ada@example.org", first=scene.now - 5 * HOUR, last=scene.now - 2 * HOUR)
    scene.people.change("update service_users set last_login_at = %s where service_id = %s", scene.now - HOUR, scene.app.id)
    # Her acts elsewhere are not shown here.
    scene.tenants.uses(ada, scene.theirs, first=scene.now, last=scene.now)
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())", ada.user)
    bob = scene.user(scene.shop, email="Bob@Example.org")
    answer = await scene.ask()
    assert answer.status == 200
    body = answer.json()
    assert body["pagination"] == {"page": 1, "limit": 50, "total": 2}
    newest, oldest = body["users"]
    assert {name: newest[name] for name in ("id", "email", "last_login_at", "mfa_enabled", "services")} == {
        "id": str(bob.user),
        "email": "Bob@Example.org",
        "last_login_at": None,
        "mfa_enabled": False,
        "services": ["shop"],
    }
    assert (oldest["id"], oldest["mfa_enabled"], oldest["services"]) == (str(ada.user), True, ["app", "shop"])
    assert datetime.fromisoformat(oldest["last_login_at"]) == scene.now - HOUR
    assert set(newest) == {"id", "email", "name", "created_at", "last_login_at", "mfa_enabled", "services"}


async def test_a_factor_that_is_only_being_set_up_does_not_count(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org")
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, '', now())", ada.user)
    assert (await scene.ask()).json()["users"][0]["mfa_enabled"] is False
    assert (await scene.ask(f"/{ada.user}")).json()["mfa_enabled"] is False


async def test_members_are_no_end_users_and_end_users_no_members(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org")
    assert await scene.listed() == ["ada@example.org"]
    assert (await scene.ask(f"/{scene.admin.user}")).status == 404
    assert (await scene.ask(by=ada)).status == 403


async def test_pages_hang_together(scene: EndUserScene) -> None:
    everybody = [scene.user(scene.shop, scene.app, email=f"u{number}@example.org").email for number in range(7)][::-1]
    pages = [await scene.listed(f"?limit=3&page={number}") for number in (1, 2, 3, 4)]
    assert pages == [everybody[:3], everybody[3:6], everybody[6:], []]
    assert [await scene.total(f"?limit=3&page={number}") for number in (1, 4)] == [7, 7]
    assert await scene.listed(f"?search=U&service_id={scene.app.id}&limit=2&page=2") == everybody[2:4]


# Several cases in one test, since the set-up takes longer than the cases.
async def test_what_is_no_page_is_refused(scene: EndUserScene) -> None:
    for query in ("page=0", "page=-1", "page=x", f"page={10**30}", "limit=0", f"limit={LARGEST_PAGE_LIMIT + 1}", "service_id=x"):
        answer = await scene.ask(f"?{query}")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), query


async def test_the_last_page_that_can_be_asked_for_is_empty(scene: EndUserScene) -> None:
    scene.user(scene.shop, email="ada@example.org")
    for query in ("page=10000000&limit=100", f"page={MOST_ROWS_COUNTED // 100}&limit=100&search=a"):
        assert await scene.listed(f"?{query}") == []
        assert await scene.total(f"?{query}") == 1


async def test_a_search_ends_where_no_more_are_counted(scene: EndUserScene) -> None:
    scene.user(scene.shop, email="ada@example.org")
    for page in (MOST_ROWS_COUNTED // 100 + 1, 10_000_000):
        answer = await scene.ask(f"?page={page}&limit=100&search=a")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), page


@pytest.mark.parametrize("query", ["search=a", "page=10000000"])
async def test_an_expensive_caller_leaves_connections_to_others(
    scene: EndUserScene, postern: Postern, database_url: str, query: str
) -> None:
    most = postern.foundation.database.pool_state().max_size
    token = await scene.tenants.token(scene.tenants.member(scene.acme))
    others = await scene.tenants.token(scene.tenants.member(scene.globex))
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await scene.client.get(f"{LIST}?{query}", token=token)).status)

    async with trio.open_nursery() as nursery:
        # While this lock is held, lists wait, as if there were endless end users.
        with psycopg.connect(database_url) as connection:
            connection.execute("lock table service_users")
            for _ in range(2 * most):
                nursery.start_soon(ask)
            await scene.people.somebody_waits()
            with trio.fail_after(PATIENCE):
                while len(statuses) < 2 * most - MOST_APPROVALS - 1:
                    await trio.sleep(0.01)
                assert set(statuses) == {503}
                assert (await scene.client.get("/api/organizations/globex/services", token=others)).status == 200
    assert sorted(statuses) == [200] * (MOST_APPROVALS + 1) + [503] * (2 * most - MOST_APPROVALS - 1)


async def test_one_service_has_its_own_users_and_shows_all_that_they_use(scene: EndUserScene) -> None:
    scene.user(scene.shop, scene.app, email="both@example.org")
    scene.user(scene.shop, email="shop@example.org")
    assert await scene.listed(f"?service_id={scene.app.id}") == ["both@example.org"]
    assert (await scene.ask(f"?service_id={scene.app.id}")).json()["users"][0]["services"] == ["app", "shop"]
    assert await scene.total(f"?service_id={scene.shop.id}") == 2


FOUND: Final = {
    "ada": ["ada@example.org"],
    "ADA@": ["ada@example.org"],
    "example.org": ["under_score@example.org", "ada@example.org"],
    " EXAMPLE.org ": ["under_score@example.org", "ada@example.org"],
    "%": ["100%@percent.example"],
    "_": ["under_score@example.org"],
    "%%": [],
    "a%a": [],
    "ad_": [],
    "\\": [],
    "\\%": [],
    "' or 1=1 --": [],
    "ad[a]": [],
    ".*": [],
    "\u0661": [],
}


async def test_a_search_finds_what_was_typed_letter_by_letter(scene: EndUserScene) -> None:
    for email in ("ada@example.org", "100%@percent.example", "under_score@example.org"):
        scene.user(scene.shop, email=email)
    for search, found in FOUND.items():
        assert await scene.listed(f"?search={quote(search)}") == found, search
        assert await scene.listed(f"?search={quote(search)}&service_id={scene.shop.id}") == found, search
        assert await scene.total(f"?search={quote(search)}") == len(found), search


async def test_a_search_that_no_address_can_match_is_refused(scene: EndUserScene) -> None:
    for search in ("x" * 321, "\ufdfa" * 20, "a\x00b"):
        assert (await scene.ask(f"?search={quote(search)}")).status == 400


async def test_a_search_stays_within_the_organization(scene: EndUserScene) -> None:
    scene.user(scene.theirs, email="ada@example.org")
    scene.people.add("adam@example.org")
    for query in ("", "?search=ada", "?search=ada%40example.org", "?search=a"):
        assert (await scene.listed(query), await scene.total(query)) == ([], 0)


async def test_the_detail_is_of_this_organization_alone(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org", first=scene.now - 2 * HOUR, last=scene.now - HOUR)
    scene.tenants.uses(ada, scene.app)
    scene.tenants.uses(ada, scene.theirs, first=scene.now, last=scene.now)
    for place, began in ((scene.shop, 2 * HOUR), (scene.shop, HOUR), (scene.theirs, timedelta(0)), (scene.acme, timedelta(0))):
        scene.tenants.session(ada, place, began=scene.now - began)
    for column in ("revoked_at", "expires_at", "ends_at"):
        ended = scene.tenants.session(ada, scene.shop)
        scene.people.change(f"update sessions set {column} = now() where id = %s", ended.session)
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    answer = await scene.ask(f"/{ada.user}")
    assert answer.status == 200
    body: dict[str, Any] = answer.json()
    for name in ("created_at", "updated_at"):
        assert datetime.fromisoformat(body.pop(name)).tzinfo is not None
    assert datetime.fromisoformat(body.pop("last_login_at")) == scene.now - HOUR
    assert datetime.fromisoformat(body["sessions"].pop("last_created_at")) == scene.now - HOUR
    app, shop = body.pop("services")
    assert app == {"id": str(scene.app.id), "slug": "app", "name": "App", "first_login_at": None, "last_login_at": None, "metadata": {}}
    assert (shop["id"], shop["slug"]) == (str(scene.shop.id), "shop")
    assert [datetime.fromisoformat(shop[name]) for name in ("first_login_at", "last_login_at")] == [scene.now - 2 * HOUR, scene.now - HOUR]
    assert body == {
        "id": str(ada.user),
        "email": "ada@example.org",
        "name": None,
        "email_verified": True,
        "mfa_enabled": False,
        "linked_identities": [],
        "sessions": {"active_count": 2},
    }


async def test_a_person_who_was_never_there_has_no_last_time(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org")
    body = (await scene.ask(f"/{ada.user}")).json()
    assert (body["last_login_at"], body["email_verified"], body["sessions"]) == (None, False, {"active_count": 0, "last_created_at": None})


async def test_strangers_and_other_organizations_users_do_not_exist_here(scene: EndUserScene) -> None:
    theirs = scene.user(scene.theirs, email="ada@example.org")
    scene.tenants.session(theirs, scene.theirs)
    for who in (theirs.user, uuid4()):
        for method, path in (("GET", f"/{who}"), ("DELETE", f"/{who}/sessions")):
            answer = await scene.ask(path, method=method)
            assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    # The other organization's people, named with its own service: not found.
    for service in (scene.theirs.id, uuid4()):
        answer = await scene.ask(f"?service_id={service}")
        assert (answer.status, answer.json()["error"]) == (404, "The organization has no such service")
    assert scene.people.rows("select from sessions where revoked_at is not null") == []


async def test_what_is_no_id_names_nobody(scene: EndUserScene) -> None:
    for who in ("x", "0", "%00", "..%2F..", "{0199d3a0-0000-7000-8000-000000000001}"):
        assert (await scene.ask(f"/{who}")).status == 404, who
        assert (await scene.ask(f"/{who}/sessions", method="DELETE")).status == 404, who


async def test_revoking_ends_the_sessions_in_the_organizations_services_and_no_others(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, scene.app, email="ada@example.org")
    scene.tenants.uses(ada, scene.theirs)
    scene.tenants.join(ada, scene.acme)
    bob = scene.user(scene.shop, email="bob@example.org")
    ended = [await scene.tenants.token_in(ada, place) for place in (scene.shop, scene.app)]
    others = [await scene.tenants.token_in(ada, place) for place in (None, scene.acme, scene.theirs)]
    others.append(await scene.tenants.token_in(bob, scene.shop))

    async def statuses(tokens: list[str]) -> list[int]:
        return [(await scene.client.get("/api/user", token=token)).status for token in tokens]

    assert await statuses([*ended, *others]) == [200] * 6
    answer = await scene.ask(f"/{ada.user}/sessions", method="DELETE")
    assert answer.status == 200
    assert answer.json() == {"message": "The end user is signed out of the organization's services", "sessions_revoked": 2}
    assert await statuses(ended) == [401] * 2
    assert await statuses(others) == [200] * 4
    # The second time nothing is left to end, and no event is sent.
    assert (await scene.ask(f"/{ada.user}/sessions", method="DELETE")).json()["sessions_revoked"] == 0
    (entry,) = scene.people.rows("select organization_id, actor_id, action, target_type, target_id, details, host(address) from audit_log")
    assert entry == {
        "organization_id": scene.acme.id,
        "actor_id": scene.admin.user,
        "action": "security.sessions.revoked",
        "target_type": "user",
        "target_id": str(ada.user),
        "details": {"sessions": 2},
        "host": "192.0.2.1",
    }


async def test_a_service_that_is_being_deleted_has_no_users_and_no_sessions(scene: EndUserScene) -> None:
    gone = scene.user(scene.shop, email="gone@example.org")
    both = scene.user(scene.shop, scene.app, email="both@example.org")
    scene.user(scene.app, email="app@example.org")
    for person, place in ((gone, scene.shop), (both, scene.shop), (both, scene.app)):
        scene.tenants.session(person, place)
    assert await scene.listed() == ["app@example.org", "both@example.org", "gone@example.org"]
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.shop.id)
    for query, found in {"": 2, "?search=example.org": 2, "?search=gone": 0, f"?service_id={scene.app.id}": 2}.items():
        assert await scene.listed(query) == ["app@example.org", "both@example.org"][:found], query
        assert await scene.total(query) == found, query
    assert await scene.listed("?limit=1&page=2") == ["both@example.org"]
    for method, path in (("GET", f"/{gone.user}"), ("DELETE", f"/{gone.user}/sessions"), ("GET", f"?service_id={scene.shop.id}")):
        answer = await scene.ask(path, method=method)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND"), (method, path)
    # Sessions in that service have ended already.
    assert (await scene.ask(f"/{both.user}")).json()["sessions"]["active_count"] == 1
    assert (await scene.ask(f"/{both.user}/sessions", method="DELETE")).json()["sessions_revoked"] == 1
    # Another organization loses nobody by it.
    scene.tenants.uses(gone, scene.theirs)
    owner = scene.tenants.member(scene.globex, "owner")
    listed = await scene.client.get("/api/organizations/globex/users", token=await scene.tenants.token(owner))
    assert [one["email"] for one in listed.json()["users"]] == ["gone@example.org"]


async def test_looking_takes_one_capability_and_revoking_another(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org")
    viewer = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "viewer", [Capability.END_USERS_VIEW]))
    manager = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "manager", [Capability.END_USERS_MANAGE]))
    member = scene.tenants.member(scene.acme)
    expected = {viewer: (200, 200, 403), manager: (403, 403, 200), member: (200, 200, 403), scene.admin: (200, 200, 200)}
    for who, statuses in expected.items():
        answers = [
            await scene.ask(by=who),
            await scene.ask(f"/{ada.user}", by=who),
            await scene.ask(f"/{ada.user}/sessions", by=who, method="DELETE"),
        ]
        assert tuple(answer.status for answer in answers) == statuses, who.email


async def test_who_is_deactivated_is_still_seen(scene: EndUserScene) -> None:
    ada = scene.user(scene.shop, email="ada@example.org")
    scene.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    assert await scene.listed() == ["ada@example.org"]
    assert (await scene.ask(f"/{ada.user}")).status == 200


# With the caller's own question.
ROUND_TRIPS: Final = {("GET", ""): 2, ("GET", "/{}"): 2, ("DELETE", "/{}/sessions"): 3}


async def test_round_trips(scene: EndUserScene) -> None:
    measured: dict[tuple[str, str], int] = {}
    for _ in ("warm", "measured"):
        ada = scene.user(scene.shop, email=f"{uuid4()}@example.org")
        scene.tenants.session(ada, scene.shop)
        for method, path in ROUND_TRIPS:
            scene.log.entries.clear()
            assert (await scene.ask(path.format(ada.user), method=method)).status == 200
            (line,) = scene.log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS

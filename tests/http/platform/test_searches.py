"""One search over everything that has a name, in an organization and in the whole installation."""

from typing import Any, Final
from uuid import uuid4

import pytest
import trio

from core.domain.platform.platform_users import INSTALLATION
from core.usecases.platform import account_administration, searches
from entrypoints.bootstrap import Postern
from entrypoints.http.routes.searches import LISTED_BY
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.security.organizations.world import World

GLOBEX: Final = "/api/organizations/globex/search"
PLATFORM: Final = "/api/platform/search"
USERS: Final = "/api/platform/users/search"
_OF_SERVICE: Final = "select one.id, one.{} as name from {} as one join services on services.id = service_id where services.org_id = %s"
# For each kind, the statement for its rows in an organization.
ROWS: Final = {
    "application": "select id, name from services where slug = 'shop' and org_id = %s",
    "application_role": _OF_SERVICE.format("name", "service_roles"),
    "permission": _OF_SERVICE.format("key", "permissions"),
    "claim": _OF_SERVICE.format("name", "service_claims"),
    "plan": _OF_SERVICE.format("name", "plans"),
    "api_key": _OF_SERVICE.format("name", "api_keys"),
    "api": "select id, name from resource_servers where org_id = %s",
    "field": "select id, label as name from profile_fields where org_id = %s",
    "invitation": "select id, email as name from invitations where status = 'pending' and org_id = %s",
    "directory": "select id, name from upstream_providers where org_id = %s",
    "domain": "select id, domain as name from domain_routes where org_id = %s",
    "own_domain": "select id, domain as name from domains where org_id = %s",
    "siem": "select id, name from siem_configurations where org_id = %s",
    **{
        name: f"select id, name from {name}s where org_id = %s"
        for name in ("team", "role", "scim_token", "setup_link", "webhook", "management_key")
    },
}


class SearchScene:
    def __init__(self, postern: Postern, people: People) -> None:
        self.world = World(postern, people)
        self.people = people
        self.tenants = Tenants(postern, people)
        self.client: Client = unlimited(postern)

    async def asks(self, person: Person, place: str, text: str, name: str = "q") -> Any:
        answer = await self.client.request("GET", f"{place}?{name}={text}", token=await self.tenants.token(person))
        return answer.ok()

    async def things(self, person: Person, place: str, text: str) -> list[Any]:
        found: list[Any] = (await self.asks(person, place, text))["things"]
        return found


@pytest.fixture
def scene(postern: Postern, people: People) -> SearchScene:
    return SearchScene(postern, people)


async def test_the_owner_finds_each_kind_by_id_and_by_a_part_of_its_name(scene: SearchScene) -> None:
    world, ada = scene.world, scene.world.ada
    assert set(ROWS) == {str(kind) for kind in LISTED_BY}
    for kind, statement in ROWS.items():
        rows = scene.people.rows(statement, world.asked.tenant.id)
        assert rows, kind
        (found,) = await scene.things(ada, GLOBEX, str(rows[0]["id"]))
        assert (found["kind"], found["name"], found["organization_slug"]) == (kind, rows[0]["name"], "globex")
        part = (rows[0]["name"][1:] or rows[0]["name"]).upper().replace(" ", "%20").replace("@", "%40")
        assert kind in {one["kind"] for one in await scene.things(ada, GLOBEX, part)}


async def test_other_organizations_things_are_not_found(scene: SearchScene) -> None:
    for other in scene.world.others:
        for text in (str(other.ids["webhooks"]), str(other.shop.id), other.slug):
            assert await scene.things(scene.world.ada, GLOBEX, text) == []
    texts = [str(one) for one in await scene.things(scene.world.ada, GLOBEX, "e")]
    assert texts
    assert not [one for one in scene.world.ids_of_others() if any(str(one) in text for text in texts)]


async def test_a_member_finds_the_kinds_that_they_may_list(scene: SearchScene) -> None:
    assert await scene.things(scene.world.ada, GLOBEX, "crm")
    assert await scene.things(scene.world.asked.member, GLOBEX, "crm") == []
    assert "role" in {one["kind"] for one in await scene.things(scene.world.asked.member, GLOBEX, "cler")}


async def test_nothing_in_the_text_is_a_wildcard_and_a_blank_text_finds_nothing(scene: SearchScene) -> None:
    for text in ("%25", "%5C", "'", "%20%20", "e%25"):
        assert await scene.things(scene.world.ada, GLOBEX, text) == []
        assert await scene.things(scene.world.governor, PLATFORM, text) == []


@pytest.mark.parametrize("query", ["", "q=", "q=" + "a" * 201, "q=%ff"])
async def test_a_search_without_a_text_or_with_a_long_one_is_refused(scene: SearchScene, query: str) -> None:
    for person, place in ((scene.world.ada, GLOBEX), (scene.world.governor, PLATFORM)):
        answer = await scene.client.request("GET", f"{place}?{query}", token=await scene.tenants.token(person))
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_the_installation_is_searched_for_organizations_and_applications(scene: SearchScene) -> None:
    governor = scene.world.governor
    (found,) = await scene.things(governor, PLATFORM, "LOBE")
    assert (found["kind"], found["slug"], found["organization_id"]) == ("organization", "globex", None)
    shops = await scene.things(governor, PLATFORM, "shop")
    assert {(one["kind"], one["organization_slug"]) for one in shops} == {("application", slug) for slug in ("acme", "globex", "initech")}
    assert (await scene.things(governor, PLATFORM, str(scene.world.asked.shop.id)))[0]["slug"] == "shop"
    assert "tier" in {one["kind"] for one in await scene.things(governor, PLATFORM, "pro")}
    scene.people.change("update all_organizations set deleted_at = now() where slug = 'globex'")
    assert await scene.things(governor, PLATFORM, "lobe") == []
    assert len(await scene.things(governor, PLATFORM, "shop")) == 2


async def test_what_is_read_of_an_installation_is_bounded_and_the_answer_says_so(
    scene: SearchScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    governor = scene.world.governor
    slugs = [one["slug"] for one in scene.people.rows("select slug from organizations order by id")]
    assert (await scene.asks(governor, PLATFORM, slugs[0]))["complete"] is True
    monkeypatch.setattr(searches, "MOST_READ", 1)
    for slug, found in ((slugs[0], []), (slugs[-1], [slugs[-1]])):
        answer = await scene.asks(governor, PLATFORM, slug)
        assert answer["complete"] is False
        assert [one["slug"] for one in answer["things"] if one["kind"] == "organization"] == found


async def test_people_are_found_by_a_part_of_their_name_address_or_user_name(scene: SearchScene, monkeypatch: pytest.MonkeyPatch) -> None:
    governor = scene.world.governor
    old = scene.people.add("old@elsewhere.example")
    scene.people.change("update users set given_name = 'Augusta', family_name = 'Lovelace', username = 'countess' where id = %s", old.user)
    new = scene.people.add("lovely@elsewhere.example")

    async def found(text: str) -> list[str]:
        return [one["email"] for one in (await scene.asks(governor, USERS, text, "search"))["users"]]

    assert await found("LOVEL") == [new.email, old.email]
    assert await found("sta%20love") == [old.email]
    assert await found("untes") == [old.email]
    assert await found("old%40elsewhere.example") == [old.email]
    assert await found("lov_l") == []
    monkeypatch.setattr(account_administration, "MOST_READ", 1)
    answer = await scene.asks(governor, USERS, "lovel", "search")
    assert ([one["email"] for one in answer["users"]], answer["complete"]) == ([new.email], False)
    # A whole address is found whatever its age.
    assert await found("old%40elsewhere.example") == [old.email]


async def test_a_part_of_a_name_is_looked_for_alone(scene: SearchScene) -> None:
    token = await scene.tenants.token(scene.world.governor)
    for more in ("email=a", f"user_id={uuid4()}"):
        answer = await scene.client.request("GET", f"{USERS}?search=a&{more}", token=token)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_searches_over_the_installation_take_turns(scene: SearchScene, postern: Postern) -> None:
    turns: Any = postern.platform.searches.turns
    turns._patience = 0.01  # nobody waits five seconds here
    token = await scene.tenants.token(scene.world.governor)

    async def hold(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with turns.take(INSTALLATION):
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(hold)
        for place in (f"{PLATFORM}?q=a", f"{USERS}?search=a", f"{USERS}?email=a"):
            assert (await scene.client.request("GET", place, token=token)).status == 503
        assert (await scene.client.request("GET", USERS, token=token)).status == 200
        nursery.cancel_scope.cancel()
    assert (await scene.client.request("GET", f"{PLATFORM}?q=a", token=token)).status == 200

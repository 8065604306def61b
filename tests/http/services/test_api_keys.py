"""API keys over HTTP: members of an organization make, list and delete them. A key is shown once, may expire, and never may do more than
its maker.
"""

import re
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from core.domain.identifiers import OrganizationId, RoleId, UserId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.api_keys import MOST_KEYS, Permission
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import replace
from core.usecases.services.api_keys import ApiKeys
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import CREDENTIALS
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

ORGANIZATION: Final = "/api/organizations/acme"
CREATED: Final = {"id", "service_id", "name", "prefix", "key", "permissions", "expires_at", "created_at", "created_by"}
LISTED: Final = (CREATED - {"key"}) | {"last_used_at"}
# The capabilities that a person needs to give a permission to a key, as the specification has it (decisions 3 and 4).
NEEDED: Final = {
    "read:users": "end_users.view",
    "write:users": "end_users.manage",
    "delete:users": "end_users.manage",
    "read:subscriptions": "services.view",
    "write:subscriptions": "billing.manage",
    "delete:subscriptions": "billing.manage",
    "read:analytics": "services.view",
    "read:service": "services.view",
    "write:service": "services.manage",
    "read:user_keys": "end_users.view",
    "write:user_keys": "end_users.manage",
    "verify:user_keys": "end_users.view",
}


class ApiKeyScene(Shops):
    their_slug = "shop"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.admin = self.speaker = self.resident(self.acme, "admin")

    async def ask(
        self,
        method: str,
        path: str = "",
        body: Any = None,
        *,
        of: str = "shop",
        by: Person | None = None,
        organization: str = ORGANIZATION,
    ) -> Received:
        return await self.request(method, f"{organization}/services/{of}/api-keys{path}", body, by=by)

    async def make(
        self,
        permissions: Collection[str] = ("read:users",),
        name: str = "Backend",
        *,
        by: Person | None = None,
        of: str = "shop",
        **more: Any,
    ) -> Received:
        answer = await self.ask("POST", body={"name": name, "permissions": list(permissions), **more}, by=by, of=of)
        if answer.status == 201:
            self.log.remember(answer.json()["key"])
        return answer

    async def made(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        return (await self.make(*arguments, **more)).ok(201)

    async def listed(self, query: str = "", *, of: str = "shop", by: Person | None = None) -> dict[str, Any]:
        return (await self.ask("GET", query, of=of, by=by)).ok()

    async def use(self, key: str) -> int:
        """Calls the service interface with the key, which may read subscriptions or not."""
        return (await self.client.get("/api/service/subscriptions", headers=[("x-api-key", key)])).status

    def count(self) -> int:
        (row,) = self.people.rows("select count(*) as n from api_keys")
        number: int = row["n"]
        return number


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> ApiKeyScene:
    return ApiKeyScene(postern, people, unlimited(postern), log)


async def test_a_key_is_shown_once_and_kept_as_a_digest(scene: ApiKeyScene) -> None:
    answer = await scene.make(["write:users", "read:users"], "  Back\nend ")
    assert answer.status == 201
    assert answer.header("cache-control") == "no-store"
    key = answer.json()
    assert set(key) == CREATED
    assert re.fullmatch(r"sk_[a-z0-9]{6}_[0-9A-Za-z]{43}", key["key"])
    assert key["key"].startswith(f"{key['prefix']}_")
    assert len(key["prefix"]) == len("sk_") + 6
    assert (key["name"], key["permissions"], key["expires_at"]) == ("Back end", ["write:users", "read:users"], None)
    assert (key["service_id"], key["created_by"]) == (str(scene.shop.id), str(scene.admin.user))
    (kept,) = scene.people.rows("select service_id, prefix, digest, permissions from api_keys")
    assert kept == {
        "service_id": scene.shop.id,
        "prefix": key["prefix"],
        "digest": sha256(key["key"].encode()).digest(),
        "permissions": ["write:users", "read:users"],
    }
    record = {name: value for name, value in key.items() if name != "key"} | {"last_used_at": None}
    assert set(record) == LISTED
    assert await scene.listed() == {"api_keys": [record], "total": 1}
    one = await scene.ask("GET", f"/{key['id']}")
    assert (one.status, one.json()) == (200, record | {"user_keys": []})


async def test_two_keys_have_nothing_in_common(scene: ApiKeyScene) -> None:
    keys = [(await scene.made())["key"] for _ in range(20)]
    assert len({key.split("_")[1] for key in keys}) == len({key.split("_")[2] for key in keys}) == 20


async def test_both_ends_are_told_to_webhooks_and_to_the_audit_log_and_neither_hears_the_key(scene: ApiKeyScene) -> None:
    key = await scene.made(["read:users", "read:service"], expires_in_days=30)
    assert (await scene.ask("DELETE", f"/{key['id']}")).status == 204
    details = {
        "api_key_id": key["id"],
        "service_id": str(scene.shop.id),
        "service_slug": "shop",
        "name": "Backend",
        "prefix": key["prefix"],
        "permissions": ["read:users", "read:service"],
        "expires_at": key["expires_at"],
    }
    common = {
        "organization_id": scene.acme.id,
        "actor_id": scene.admin.user,
        "target_type": "api_key",
        "target_id": key["id"],
        "details": details,
    }
    for table in ("events", "audit_log"):
        assert scene.told(table) == [{"name": "api_key.created", **common}, {"name": "api_key.deleted", **common}]
    told = scene.people.rows("select details::text from audit_log union all select details::text from events")
    assert not any(key["key"].rpartition("_")[2] in one["details"] for one in told)


async def test_a_key_lives_as_many_days_as_it_was_given_or_without_end(scene: ApiKeyScene) -> None:
    for days in (1, 30, 3650):
        before = scene.postern.foundation.clock.now()
        key = await scene.made(expires_in_days=days)
        expires, created = datetime.fromisoformat(key["expires_at"]), datetime.fromisoformat(key["created_at"])
        assert expires - created == timedelta(days=days)
        assert before <= created <= scene.postern.foundation.clock.now()
        (kept,) = scene.people.rows("select expires_at from api_keys where id = %s", key["id"])
        assert kept["expires_at"] == expires
    assert (await scene.made(expires_in_days=None))["expires_at"] is None


WRONG: Final[tuple[dict[str, Any], ...]] = (
    {"name": ""},
    {"name": " \u200b\n"},
    {"name": "x" * 101},
    {"name": None},
    {"name": 1},
    {"permissions": []},
    {"permissions": None},
    {"permissions": "read:users"},
    {"permissions": ["read:users", "read:everything"]},
    {"permissions": ["READ:USERS"]},
    {"permissions": ["read:users "]},
    {"permissions": ["*"]},
    {"permissions": [""]},
    {"permissions": [None]},
    {"permissions": {"read:users": True}},
    {"expires_in_days": 0},
    {"expires_in_days": -1},
    {"expires_in_days": 3651},
    {"expires_in_days": 10**30},
    {"expires_in_days": 1.5},
    {"expires_in_days": "30"},
    {"expires_in_days": True},
)


async def test_what_cannot_be_is_refused(scene: ApiKeyScene) -> None:
    whole = {"name": "Backend", "permissions": ["read:users"]}
    for wrong in WRONG:
        answer = await scene.ask("POST", body={**whole, **wrong})
        assert refused(answer) == (400, "BAD_REQUEST"), wrong
        (named,) = wrong
        assert named in answer.json()["error"], wrong
    for missing in whole:
        answer = await scene.ask("POST", body={name: value for name, value in whole.items() if name != missing})
        assert refused(answer) == (400, "BAD_REQUEST"), missing
    assert scene.count() == 0
    # Otherwise the requests are good.
    assert (await scene.make()).status == 201


async def test_a_permission_that_is_said_twice_is_one(scene: ApiKeyScene) -> None:
    key = await scene.made(["read:service", "read:users", "read:service"])
    assert key["permissions"] == ["read:service", "read:users"]


async def test_every_permission_can_be_given_and_takes_what_the_interface_says(scene: ApiKeyScene) -> None:
    assert {permission.value: permission.capability.value for permission in Permission} == NEEDED
    assert (await scene.made(NEEDED))["permissions"] == list(NEEDED)


async def test_nobody_gives_a_key_what_they_may_not_do_themselves(scene: ApiKeyScene) -> None:
    """A person who may manage services and has one further capability tries to give each permission, and can give exactly those that this
    capability covers.
    """
    for further in sorted({*NEEDED.values(), "webhooks.manage"}):
        held = {"services.manage", further}
        role = scene.tenants.role(scene.acme, further.replace(".", "-").replace("_", "-"), [Capability(one) for one in sorted(held)])
        clerk = scene.tenants.member(scene.acme, role)
        given = [permission for permission, needed in NEEDED.items() if needed in held]
        before = scene.count()
        for permission, needed in NEEDED.items():
            answer = await scene.make([permission], by=clerk)
            if permission in given:
                assert answer.status == 201, (further, permission)
            else:
                assert refused(answer) == (403, "FORBIDDEN"), (further, permission)
                assert permission in answer.json()["error"]
                assert needed in answer.json()["error"]
        assert scene.count() == before + len(given)
        # Nor together with permissions that they may give.
        assert (await scene.make(NEEDED, by=clerk)).status == 403
        assert (await scene.make(given, by=clerk)).status == 201


async def test_owner_and_admin_hold_all_and_members_make_none(scene: ApiKeyScene) -> None:
    for role, status in (("owner", 201), ("admin", 201), ("member", 403)):
        person = scene.tenants.member(scene.acme, role)
        assert (await scene.make(NEEDED, by=person)).status == status, role
        assert (await scene.make(["read:users"], by=person)).status == status, role


async def test_making_and_deleting_take_the_capability_to_manage_services_and_seeing_to_view_them(scene: ApiKeyScene) -> None:
    key = await scene.made()
    for capability in Capability:
        role = scene.tenants.role(scene.acme, capability.value.replace(".", "-"), [capability])
        who = scene.tenants.member(scene.acme, role)
        seen = [(await scene.ask("GET", path, by=who)).status for path in ("", f"/{key['id']}")]
        # A role that manages members includes the views of a plain member.
        may_see = capability in {Capability.SERVICES_VIEW, Capability.MEMBERS_MANAGE}
        assert seen == ([200, 200] if may_see else [403, 403]), capability
        if capability is not Capability.SERVICES_MANAGE:
            assert refused(await scene.make(by=who)) == (403, "FORBIDDEN"), capability
            assert refused(await scene.ask("DELETE", f"/{key['id']}", by=who)) == (403, "FORBIDDEN"), capability
    assert scene.count() == 1
    manager = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "manager", [Capability.SERVICES_MANAGE]))
    assert (await scene.ask("DELETE", f"/{key['id']}", by=manager)).status == 204


async def test_members_see_keys_and_never_the_secret(scene: ApiKeyScene) -> None:
    key = await scene.made()
    member = scene.tenants.member(scene.acme)
    for path in ("", f"/{key['id']}"):
        answer = await scene.ask("GET", path, by=member)
        assert answer.status == 200
        assert key["key"].rpartition("_")[2] not in answer.body.decode()
        assert b"digest" not in answer.body
        assert b"hash" not in answer.body


@pytest.mark.parametrize(("taken", "permission"), [("end_users.manage", "write:users"), ("services.manage", "write:users")])
async def test_a_caller_who_loses_a_capability_while_asking_can_no_longer_give_it(scene: ApiKeyScene, taken: str, permission: str) -> None:
    """The request was let in before. The use case checks the rights once more while it holds the organization's lock."""
    own = scene.tenants.role(scene.acme, "clerk", [Capability.SERVICES_MANAGE, Capability.END_USERS_MANAGE])
    clerk = scene.tenants.member(scene.acme, own)
    answers: list[Received] = []

    async def make() -> None:
        answers.append(await scene.make([permission], by=clerk))

    organization = OrganizationId(scene.acme.id)
    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        await uow.members.find_for_update(organization)
        nursery.start_soon(make)
        await scene.people.somebody_waits()
        role = await uow.roles.find_for_update(organization, RoleId(own.id))
        assert role is not None
        await uow.roles.save(replace(role, permissions=role.permissions - {Capability(taken)}))
        await uow.commit()
    assert refused(answers[0]) == (403, "FORBIDDEN")
    assert scene.count() == 0


async def test_a_caller_who_is_removed_while_asking_leaves_no_key_behind(scene: ApiKeyScene) -> None:
    answers: list[Received] = []

    async def make() -> None:
        answers.append(await scene.make())

    organization = OrganizationId(scene.acme.id)
    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        await uow.members.find_for_update(organization)
        nursery.start_soon(make)
        await scene.people.somebody_waits()
        assert await uow.members.remove(organization, UserId(scene.admin.user))
        await uow.commit()
    assert refused(answers[0]) == (403, "FORBIDDEN")
    assert scene.count() == 0


async def test_no_key_comes_to_be_in_a_service_that_is_being_deleted(scene: ApiKeyScene) -> None:
    answers: list[Received] = []

    async def make() -> None:
        answers.append(await scene.make())

    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        service = await uow.services.find_for_update(OrganizationId(scene.acme.id), "shop")
        assert service is not None
        nursery.start_soon(make)
        await scene.people.somebody_waits()
        await uow.services.delete(service.id, scene.postern.foundation.clock.now())
        await uow.commit()
    assert refused(answers[0]) == (404, "NOT_FOUND")
    assert scene.count() == 0


async def test_the_list_is_in_pages_the_youngest_first(scene: ApiKeyScene) -> None:
    ids = [(await scene.made(name=f"Key {number}"))["id"] for number in range(5)]
    # For keys made at the same moment, the ids decide the order.
    scene.people.change("update api_keys set created_at = '2026-01-01'")
    youngest = ids[::-1]
    assert [one["id"] for one in (await scene.listed())["api_keys"]] == youngest
    for query, expected in (
        ("?limit=2", youngest[:2]),
        ("?limit=2&offset=2", youngest[2:4]),
        ("?offset=4", youngest[4:]),
        ("?limit=100&offset=5", []),
        ("?offset=1000000000", []),
    ):
        page = await scene.listed(query)
        assert ([one["id"] for one in page["api_keys"]], page["total"]) == (expected, 5), query
    assert await scene.listed(of="app") == {"api_keys": [], "total": 0}


async def test_fifty_are_a_page_when_nothing_is_said_and_a_hundred_at_most(scene: ApiKeyScene) -> None:
    fill(scene, 120)
    assert [len((await scene.listed(query))["api_keys"]) for query in ("", "?limit=100", "?limit=100&offset=100")] == [50, 100, 20]


async def test_a_page_that_cannot_be_is_refused(scene: ApiKeyScene) -> None:
    for query in ("?limit=0", "?limit=101", "?limit=-1", "?limit=x", "?offset=-1", "?offset=1.5", "?offset=10000000001", "?limit="):
        assert refused(await scene.ask("GET", query)) == (400, "BAD_REQUEST"), query


async def test_one_that_has_expired_stays_listed_until_it_is_deleted(scene: ApiKeyScene) -> None:
    key = await scene.made(["read:subscriptions"], expires_in_days=1)
    assert await scene.use(key["key"]) == 200
    scene.people.change("update api_keys set expires_at = now()")
    assert await scene.use(key["key"]) == 401
    page = await scene.listed()
    assert ([one["id"] for one in page["api_keys"]], page["total"]) == ([key["id"]], 1)
    assert (await scene.ask("GET", f"/{key['id']}")).status == 200
    assert (await scene.ask("DELETE", f"/{key['id']}")).status == 204
    assert await scene.listed() == {"api_keys": [], "total": 0}


async def test_a_deleted_key_is_refused_with_the_next_request_and_is_gone(scene: ApiKeyScene) -> None:
    key, other = await scene.made(["read:subscriptions"]), await scene.made(["read:subscriptions"])
    assert await scene.use(key["key"]) == 200
    answer = await scene.ask("DELETE", f"/{key['id']}")
    assert (answer.status, answer.body) == (204, b"")
    assert await scene.use(key["key"]) == 401
    assert await scene.use(other["key"]) == 200
    for method in ("GET", "DELETE"):
        assert refused(await scene.ask(method, f"/{key['id']}")) == (404, "NOT_FOUND")
    assert [one["id"] for one in (await scene.listed())["api_keys"]] == [other["id"]]


async def test_of_those_who_delete_one_at_once_one_does(scene: ApiKeyScene) -> None:
    key = await scene.made()
    statuses: Counter[int] = Counter()

    async def delete() -> None:
        statuses[(await scene.ask("DELETE", f"/{key['id']}")).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)
    assert statuses == {204: 1, 404: 9}
    assert [event["name"] for event in scene.told("audit_log")] == ["api_key.created", "api_key.deleted"]


async def test_keys_of_others_are_unknown_here(scene: ApiKeyScene) -> None:
    mine, of_app = await scene.made(), await scene.made(of="app")
    their_admin = scene.tenants.member(scene.globex, "admin")
    theirs = (
        await scene.ask("POST", body={"name": "X", "permissions": ["read:users"]}, by=their_admin, organization="/api/organizations/globex")
    ).json()
    scene.log.remember(theirs["key"])
    kept = scene.people.rows("select * from api_keys order by id")
    for path, of in (
        (f"/{theirs['id']}", "shop"),
        (f"/{of_app['id']}", "shop"),
        (f"/{mine['id']}", "app"),
        (f"/{mine['id']}", "nothing"),
        (f"/{mine['id']}", "SHOP"),
        (f"/{uuid4()}", "shop"),
        (f"/{mine['prefix']}", "shop"),
        ("/not-an-id", "shop"),
        (f"/{mine['id']}%00", "shop"),
        (f"/{mine['id']}", "shop%00"),
        (f"/{mine['id']}", "shop'--"),
    ):
        for method in ("GET", "DELETE"):
            assert refused(await scene.ask(method, path, of=of)) == (404, "NOT_FOUND"), (method, path, of)
    for of in ("nothing", "SHOP", "shop%00", "%25"):
        assert refused(await scene.ask("GET", of=of)) == (404, "NOT_FOUND")
        assert refused(await scene.make(of=of)) == (404, "NOT_FOUND")
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{theirs['id']}"), ("DELETE", f"/{theirs['id']}")):
        body = {"name": "X", "permissions": ["read:users"]} if method == "POST" else None
        answer = await scene.ask(method, path, body, organization="/api/organizations/globex")
        assert refused(answer) == (403, "FORBIDDEN")
    assert [one["id"] for one in (await scene.listed())["api_keys"]] == [mine["id"]]
    assert scene.people.rows("select * from api_keys order by id") == kept


async def test_the_keys_of_a_deleted_service_are_nowhere(scene: ApiKeyScene) -> None:
    key = await scene.made(["read:subscriptions"])
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.shop.id)
    for method, path in (("GET", ""), ("GET", f"/{key['id']}"), ("DELETE", f"/{key['id']}")):
        assert refused(await scene.ask(method, path)) == (404, "NOT_FOUND")
    assert refused(await scene.make()) == (404, "NOT_FOUND")
    # The slug is free again, and its next owner gets nothing of the deleted organization.
    scene.tenants.service(scene.acme, "shop")
    assert await scene.listed() == {"api_keys": [], "total": 0}
    assert refused(await scene.ask("DELETE", f"/{key['id']}")) == (404, "NOT_FOUND")
    assert await scene.use(key["key"]) == 401


async def test_an_organization_that_is_not_active_makes_shows_and_deletes_none(scene: ApiKeyScene) -> None:
    key = await scene.made()
    for status in ("pending", "suspended", "rejected"):
        scene.people.change("update all_organizations set status = %s where slug = 'acme'", status)
        for answer in (
            await scene.make(),
            await scene.ask("GET"),
            await scene.ask("GET", f"/{key['id']}"),
            await scene.ask("DELETE", f"/{key['id']}"),
        ):
            assert refused(answer) == (403, "ORGANIZATION_NOT_ACTIVE")
    assert scene.count() == 1


def fill(scene: ApiKeyScene, keys: int) -> None:
    scene.people.change(
        "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
        " select gen_random_uuid(), %s, 'key', 'sk_' || lpad(number::text, 6, '0'), sha256(number::text::bytea), '{read:users}', %s, now()"
        "   from generate_series(1, %s) as number",
        scene.shop.id,
        scene.admin.user,
        keys,
    )


async def test_a_service_has_a_thousand_at_most_however_many_are_made_at_once(scene: ApiKeyScene) -> None:
    fill(scene, MOST_KEYS - 3)
    statuses: Counter[int] = Counter()

    async def make() -> None:
        statuses[(await scene.make()).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(make)
    assert statuses == {201: 3, 400: 17}
    answer = await scene.make()
    assert refused(answer) == (400, "BAD_REQUEST")
    assert answer.json()["error"] == "A service has at most 1000 API keys: delete one first"
    assert (await scene.listed("?limit=1"))["total"] == MOST_KEYS
    # The other service has room.
    assert (await scene.make(of="app")).status == 201


async def test_a_prefix_that_is_taken_is_drawn_again(scene: ApiKeyScene, postern: Postern) -> None:
    taken = await scene.made(of="app")
    secret, free = "x" * 43, "sk_zzzzzz_" + "y" * 43
    drawn = [f"{taken['prefix']}_{secret}", taken["key"], free]

    class Draws:
        """The system's source of secrets, except for keys, which are drawn from a list."""

        def key(self, kind: str) -> Token:
            assert kind == "sk"
            return Token(drawn.pop(0))

        def __getattr__(self, name: str) -> Any:
            return getattr(postern.foundation.secrets, name)

    api_keys = ApiKeys(
        postern.foundation.unit_of_work,
        postern.services.api_keys.lookup,
        postern.services.api_keys.user_keys,
        postern.services.api_keys.presence,
        system=replace(postern.foundation.system, secrets=Draws()),
    )
    member = await postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.admin), "acme")
    created = await api_keys.create(
        member, "shop", Actor(UserId(scene.admin.user)), name="Late", permissions=(Permission.READ_SUBSCRIPTIONS,), expires_in_days=None
    )
    assert drawn == []
    assert created.text.reveal() == free
    assert [row["prefix"] for row in scene.people.rows("select prefix from api_keys order by created_at")] == [taken["prefix"], "sk_zzzzzz"]
    assert await scene.use(free) == 200
    assert [event["details"]["prefix"] for event in scene.told("audit_log")] == [taken["prefix"], "sk_zzzzzz"]


async def test_a_key_outlives_the_account_of_its_maker(scene: ApiKeyScene) -> None:
    """The key belongs to the service. The list still names the maker, whom the audit log may have forgotten."""
    maker = scene.tenants.member(scene.acme, "admin")
    key = await scene.made(["read:subscriptions"], by=maker)
    scene.people.change("delete from users where id = %s", maker.user)
    assert await scene.use(key["key"]) == 200
    (listed,) = (await scene.listed())["api_keys"]
    assert UUID(listed["created_by"]) == maker.user


def test_views_are_what_members_hold() -> None:
    """Keeps the capabilities that are named above equal to those of the roles."""
    assert Capability.SERVICES_VIEW in BuiltInRole.MEMBER.capabilities
    assert Capability.SERVICES_MANAGE not in BuiltInRole.MEMBER.capabilities


# With the caller's own question.
ROUND_TRIPS: Final = {("POST", ""): 5, ("GET", ""): 2, ("GET", "/{}"): 3, ("DELETE", "/{}"): 3}


async def test_round_trips(scene: ApiKeyScene) -> None:
    measured: dict[tuple[str, str], int] = {}
    for _ in ("warm", "measured"):
        key = ""
        for method, path in ROUND_TRIPS:
            scene.log.entries.clear()
            answer = await scene.make() if method == "POST" else await scene.ask(method, path.format(key))
            assert answer.status in {200, 201, 204}, answer.body
            key = answer.json()["id"] if method == "POST" else key
            (line,) = scene.log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


async def test_keys_and_secrets_of_one_address_count_together_and_are_deleted_without_end(scene: ApiKeyScene, client: Client) -> None:
    """`client` is subject to the limits."""
    token = await scene.people.token(scene.tenants.member(scene.acme, "owner"))
    statuses = Counter[int]()
    for _ in range(CREDENTIALS.burst // 2):
        for kind, body in (("api-keys", {"name": "x", "permissions": ["read:users"]}), ("client-secrets", None)):
            statuses[(await client.post(f"{ORGANIZATION}/services/shop/{kind}", body, token=token)).status] += 1
    assert 429 not in statuses
    answer = await client.post(f"{ORGANIZATION}/services/shop/client-secrets", token=token)
    while answer.status != 429:  # one more for each second that this has taken
        answer = await client.post(f"{ORGANIZATION}/services/shop/client-secrets", token=token)
    assert (answer.error_code, answer.header("retry-after") is not None) == ("RATE_LIMIT_EXCEEDED", True)
    listed = (await client.get(f"{ORGANIZATION}/services/shop/api-keys", token=token)).json()
    assert (
        await client.request("DELETE", f"{ORGANIZATION}/services/shop/api-keys/{listed['api_keys'][0]['id']}", token=token)
    ).status == 204

"""Keys that an application lets its users make: set up by members, made for users, checked by the application's servers, and ended."""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final

import pytest
import trio

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from core.domain.services.user_keys import MOST_KEYS, WantedUserKey
from core.domain.tenancy.roles import Capability
from core.usecases.identity.account_endings import hand_over
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.services.governing import BAD_REQUEST, FORBIDDEN, NOT_FOUND, Government
from tests.http.signing_in import unlimited
from tests.http.tenants import UsedService
from tests.meanwhile import meanwhile

API: Final = "https://api.acme.example/orders"
READ: Final = {"name": "orders:read", "description": "See your orders", "permission": None}
WRITE: Final = {"name": "orders:write", "description": "Change your orders", "permission": "orders.write"}
RACERS: Final = 200


class UserKeyScene(Government):
    """The shop stands for an API with two scopes, and offers keys. Ada has signed in to it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ada = self.came(self.shop, email="lady@user.example")
        self.operator = self.people.add(platform_owner=True)
        self.other_key = self.key_of(self.app)

    def came(self, service: UsedService, email: str | None = None) -> Person:
        return self.user(service, email=email, first=self.now, last=self.now)

    async def api(self) -> str:
        """The id of the API, whose host an owner of the platform has approved."""
        await self.permission("orders.write")
        body = {"identifier": API, "name": "Orders", "service_slug": "shop", "scopes": [READ, WRITE]}
        server = (await self.request("POST", "/api/organizations/acme/resource-servers", body)).ok(201)
        await self.approval(server["id"])
        return str(server["id"])

    async def approval(self, server: str, method: str = "POST") -> None:
        (await self.request(method, f"/api/platform/resource-servers/{server}/approval", by=self.operator)).ok()

    async def turn_on(self, *, of: str = "shop", **more: Any) -> dict[str, Any]:
        return (await self.settings({"enabled": True, "prefix": "acme", **more}, of=of)).ok()

    async def settings(self, change: dict[str, Any] | None = None, *, of: str = "shop", by: Person | None = None) -> Received:
        path = f"/api/organizations/acme/services/{of}/user-key-settings"
        return await self.request("GET" if change is None else "PATCH", path, change, by=by)

    async def call(self, method: str, path: str = "", body: Any = None, *, key: str | None = None) -> Received:
        return await self.client.request(method, f"/api/service/user-keys{path}", body=body, headers=[("x-api-key", key or self.key)])

    async def make(self, person: Person | None = None, *, key: str | None = None, **more: Any) -> Received:
        body = {"user_id": str((person or self.ada).user), "name": "Laptop", **more}
        answer = await self.call("POST", body=body, key=key)
        if answer.status == 201:
            self.log.remember(answer.json()["key"])
        return answer

    async def made(self, person: Person | None = None, **more: Any) -> dict[str, Any]:
        return (await self.make(person, **more)).ok(201)

    async def verify(self, text: str, scopes: Sequence[str] = (), *, key: str | None = None) -> dict[str, Any]:
        return (await self.call("POST", "/verify", {"key": text, "scopes": list(scopes)}, key=key)).ok()

    async def verdict(self, text: str, scopes: Sequence[str] = (), *, key: str | None = None) -> str | None:
        told = await self.verify(text, scopes, key=key)
        assert told == {"valid": True, **told} if told["valid"] else told == {"valid": False, "reason": told["reason"]}
        return told.get("reason")


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> UserKeyScene:
    return UserKeyScene(postern, people, unlimited(postern), log)


async def test_the_mail_about_a_key_shows_the_logo_of_the_application(scene: UserKeyScene) -> None:
    await scene.turn_on()
    scene.people.change("update services set logo_digest = %s where id = %s", "0f" * 32, scene.shop.id)
    await scene.made()
    (mail,) = await Postbox(scene.postern).empty()
    assert mail.to == "lady@user.example"
    assert f"/logos/{'0f' * 32}" in mail.html


async def test_a_key_is_shown_once_and_kept_as_a_digest(scene: UserKeyScene) -> None:
    await scene.api()
    await scene.turn_on(resource=API)
    answer = await scene.make(scopes=["orders:read"], expires_in_days=30)
    assert answer.header("cache-control") == "no-store"
    key = answer.ok(201)
    assert re.fullmatch(r"acme_[a-z0-9]{6}_[0-9A-Za-z]{43}", key["key"])
    assert key["key"].startswith(f"{key['prefix']}_")
    (kept,) = scene.people.rows("select * from user_keys")
    assert kept["digest"] == sha256(key["key"].encode()).digest()
    assert key["key"].rpartition("_")[2] not in str(kept)
    told = (await scene.call("GET", f"/{key['id']}")).ok()
    assert told == {name: value for name, value in key.items() if name != "key"} | {"last_used_at": None, "made_by_user": False}
    assert (await scene.call("GET")).ok() == {"user_keys": [told], "next": None}


async def test_lists_are_read_page_by_page_the_newest_first(scene: UserKeyScene) -> None:
    await scene.turn_on()
    bob = scene.came(scene.shop)
    made = [(await scene.made(person))["id"] for person in (scene.ada, bob, scene.ada)]
    member = partial(scene.request, "GET")
    for read, start in ((scene.call, ""), (member, "/api/organizations/acme/services/shop/user-keys")):

        async def page(query: str, read: Any = read, start: str = start) -> tuple[list[str], str | None]:
            told = (await (read("GET", query) if not start else read(start + query))).ok()
            return [one["id"] for one in told["user_keys"]], told["next"]

        assert await page("?limit=2") == (made[:0:-1], made[1])
        assert await page(f"?limit=2&after={made[1]}") == (made[:1], None)
        assert await page(f"?after={made[0]}") == ([], None)
    of_ada = (await scene.call("GET", f"?user_id={scene.ada.user}&limit=1")).ok()
    assert [one["id"] for one in of_ada["user_keys"]] == [made[2]]
    rest = (await scene.call("GET", f"?user_id={scene.ada.user}&after={of_ada['next']}")).ok()
    assert [one["id"] for one in rest["user_keys"]] == [made[0]]
    assert (await scene.call("GET", f"?user_id={scene.end_user.user}")).ok() == {"user_keys": [], "next": None}


async def test_a_check_tells_whose_key_it_is_in_one_round_trip(scene: UserKeyScene) -> None:
    await scene.api()
    await scene.turn_on(resource=API)
    key = await scene.made(scopes=["orders:read"])
    told = await scene.verify(key["key"], ["orders:read"])
    assert last_trips(scene.log) == 1
    assert told == {
        "valid": True,
        "user_id": str(scene.ada.user),
        "key_id": key["id"],
        "name": "Laptop",
        "scopes": ["orders:read"],
    }
    assert await scene.verdict(key["key"], ["orders:read", "orders:write"]) == "lacks_scope"
    assert await scene.verdict(key["key"], ["nothing"]) == "lacks_scope"
    plain = await scene.made(expires_in_days=1)
    assert (await scene.verify(plain["key"]))["expires_at"] == plain["expires_at"]


async def test_the_use_of_a_key_is_noted_once_a_minute(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: scene.postern.services.user_key_presence.run(task_status=task_status))
        assert await scene.verdict(key["key"]) is None
        with trio.fail_after(20):
            while (await scene.call("GET", f"/{key['id']}")).ok()["last_used_at"] is None:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()


async def test_a_key_that_cannot_be_is_unknown_whatever_it_is(scene: UserKeyScene) -> None:
    await scene.turn_on()
    await scene.turn_on(of="app")
    key = (await scene.made())["key"]
    scene.people.change(
        "insert into service_users (service_id, user_id, org_id, first_login_at, created_at, own_since)"
        " values (%s, %s, %s, now(), now(), now())",
        scene.app.id,
        scene.ada.user,
        scene.acme.id,
    )
    of_app = (await scene.made(key=scene.other_key))["key"]
    of_globex = scene.key_of(scene.theirs)
    for text in ("", "acme", key[:-1], key + "x", key.upper(), f" {key}", "é" * 300, key * 500, scene.key, of_app):
        assert await scene.verdict(text) == "unknown", text
    assert await scene.verdict(key, key=scene.other_key) == "unknown"
    assert await scene.verdict(key, key=of_globex) == "unknown"
    assert await scene.verdict(of_app, key=scene.other_key) is None
    ended = await scene.made()
    assert (await scene.call("DELETE", f"/{ended['id']}")).status == 204
    assert await scene.verdict(ended["key"]) == "unknown"


async def test_an_application_reaches_no_key_of_another(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    for stranger in (scene.other_key, scene.key_of(scene.theirs)):
        assert refused(await scene.call("GET", f"/{key['id']}", key=stranger)) == NOT_FOUND
        assert refused(await scene.call("DELETE", f"/{key['id']}", key=stranger)) == NOT_FOUND
        assert (await scene.call("GET", f"?user_id={scene.ada.user}", key=stranger)).ok()["user_keys"] == []
    assert await scene.verdict(key["key"]) is None


async def test_each_permission_opens_its_own_part(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    calls: dict[Permission, Callable[..., Awaitable[Received]]] = {
        Permission.READ_USER_KEYS: partial(scene.call, "GET"),
        Permission.WRITE_USER_KEYS: scene.make,
        Permission.VERIFY_USER_KEYS: partial(scene.call, "POST", "/verify", {"key": key["key"]}),
    }
    for needed, call in calls.items():
        without = scene.key_of(scene.shop, [one for one in Permission if one is not needed])
        assert refused(await call(key=without)) == FORBIDDEN
        assert (await call(key=scene.key_of(scene.shop, [needed]))).status in {200, 201}
    for header in ("", "x" * 201, "sk_aaaaaa_none", key["key"]):
        answer = await scene.client.request(
            "POST", "/api/service/user-keys/verify", body={"key": key["key"]}, headers=[("x-api-key", header)]
        )
        assert refused(answer) == (401, "UNAUTHORIZED")


async def test_keys_are_made_only_for_users_who_came_and_may_come_in(scene: UserKeyScene) -> None:
    assert refused(await scene.make()) == FORBIDDEN
    await scene.turn_on()
    assert refused(await scene.make(scene.stranger)) == NOT_FOUND
    listed = await scene.make(scene.end_user)
    assert refused(listed) == FORBIDDEN
    assert "never signed in" in listed.json()["error"]
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)
    assert "does not admit" in (await scene.make()).json()["error"]
    scene.people.change("update users set deactivated_at = null where id = %s", scene.ada.user)
    scene.people.change("update services set sign_in_policy = 'members' where id = %s", scene.shop.id)
    assert refused(await scene.make()) == FORBIDDEN
    await scene.settings({"enabled": False})
    assert "turned" in (await scene.make()).json()["error"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"scopes": ["nothing"]},
        {"scopes": ["orders:write"]},
        {"scopes": ["x" * 101]},
        {"expires_in_days": 0},
        {"expires_in_days": 31},
        {"expires_in_days": 10**30},
        {"user_id": "ada"},
    ],
    ids=str,
)
async def test_a_key_that_must_not_be_is_refused(scene: UserKeyScene, wrong: dict[str, Any]) -> None:
    await scene.api()
    await scene.turn_on(resource=API, longest_days=30)
    assert refused(await scene.make(**wrong)) == BAD_REQUEST
    assert scene.people.rows("select from user_keys") == []


async def test_a_key_lives_as_long_as_the_application_allows(scene: UserKeyScene) -> None:
    await scene.turn_on(longest_days=30)
    key = await scene.made()
    scene.people.change("update user_keys set created_at = created_at - interval '31 days', expires_at = expires_at - interval '31 days'")
    assert await scene.verdict(key["key"]) == "expired"
    await scene.settings({"longest_days": None})
    assert (await scene.made())["expires_at"] is None


async def test_scopes_end_with_the_persons_permission_with_the_api_and_with_the_scope(scene: UserKeyScene) -> None:
    await scene.api()
    await scene.turn_on(resource=API)
    await scene.role("writer", ["orders.write"])
    assignment = await scene.assigned("writer", user_id=str(scene.ada.user))
    key = (await scene.made(scopes=["orders:write", "orders:read"]))["key"]
    assert (await scene.verify(key))["scopes"] == ["orders:read", "orders:write"]
    assert (await scene.at("DELETE", f"/assignments/{assignment}")).status == 204
    assert (await scene.verify(key))["scopes"] == ["orders:read"]
    assert await scene.verdict(key, ["orders:write"]) == "lacks_scope"
    (server,) = (await scene.request("GET", "/api/organizations/acme/resource-servers")).json()
    path = f"/api/organizations/acme/resource-servers/{server['id']}"
    (await scene.request("PATCH", path, {"scopes": [WRITE]})).ok()
    assert (await scene.verify(key)).get("scopes", []) == []
    (await scene.request("PATCH", path, {"scopes": [READ], "service_slug": None})).ok()
    assert (await scene.verify(key)).get("scopes", []) == []
    assert (await scene.settings()).json()["resource"] is None
    assert (await scene.request("DELETE", path)).status == 204
    assert (await scene.verify(key)).get("scopes", []) == []


async def test_keys_of_one_api_say_nothing_at_the_next(scene: UserKeyScene) -> None:
    await scene.api()
    await scene.turn_on(resource=API)
    key = (await scene.made(scopes=["orders:read"]))["key"]
    other = {"identifier": f"{API}/2", "name": "Others", "service_slug": "shop", "scopes": [READ]}
    (await scene.request("POST", "/api/organizations/acme/resource-servers", other)).ok(201)
    await scene.turn_on(resource=f"{API}/2")
    (server,) = [one for one in (await scene.request("GET", "/api/organizations/acme/resource-servers")).json() if one["identifier"] == API]
    assert (await scene.request("DELETE", f"/api/organizations/acme/resource-servers/{server['id']}")).status == 204
    assert await scene.verdict(key, ["orders:read"]) == "lacks_scope"


async def test_a_key_counts_as_little_as_its_persons_sign_in(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = (await scene.made())["key"]
    change = scene.people.change
    change("update users set deactivated_at = now() where id = %s", scene.ada.user)
    assert await scene.verdict(key) == "barred"
    change("update users set deactivated_at = null where id = %s", scene.ada.user)
    assert await scene.verdict(key) is None
    for policy in ("members", "assigned"):
        change("update services set sign_in_policy = %s where id = %s", policy, scene.shop.id)
        assert await scene.verdict(key) == "barred"
    change("update services set sign_in_policy = 'anyone' where id = %s", scene.shop.id)
    (await scene.settings({"enabled": False})).ok()
    assert await scene.verdict(key) == "off"
    (await scene.settings({"enabled": True})).ok()
    assert await scene.verdict(key) is None
    change("update organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert (await scene.call("POST", "/verify", {"key": key})).status == 403


async def test_a_member_who_owes_a_second_factor_has_no_valid_key(scene: UserKeyScene) -> None:
    await scene.turn_on()
    member = scene.tenants.uses(scene.member, scene.shop, first=scene.now, last=scene.now)
    key = (await scene.made(member))["key"]
    mine = (await scene.made())["key"]
    scene.people.change(
        "update organizations set mfa_required_since = now() - interval '10 days', mfa_grace_days = 1 where id = %s", scene.acme.id
    )
    scene.people.change("update memberships set created_at = now() - interval '10 days' where org_id = %s", scene.acme.id)
    assert await scene.verdict(key) == "barred"
    assert await scene.verdict(mine) is None


async def test_whoever_leaves_the_organization_loses_what_membership_opened(scene: UserKeyScene) -> None:
    await scene.turn_on()
    own = scene.tenants.uses(scene.member, scene.shop, first=scene.now, last=scene.now)
    other = scene.tenants.member(scene.acme)
    scene.tenants.uses(other, scene.shop, first=scene.now, last=scene.now)
    scene.people.change("update service_users set own_since = null where user_id = %s", other.user)
    stays, goes = (await scene.made(own))["key"], (await scene.made(other))["key"]
    for person in (own, other):
        assert (await scene.request("POST", f"/api/organizations/acme/members/{person.user}", by=scene.owner)).status == 200
    assert await scene.verdict(stays) is None
    assert await scene.verdict(goes) == "unknown"


async def test_keys_end_with_the_persons_place_and_with_the_account(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = (await scene.made())["key"]
    removal = await scene.client.request("DELETE", f"/api/service/users/{scene.ada.user}", headers=[("x-api-key", scene.key)])
    assert removal.status == 204
    assert await scene.verdict(key) == "unknown"
    bob = scene.came(scene.shop)
    key = (await scene.made(bob))["key"]
    scene.people.change("delete from users where id = %s", bob.user)
    assert await scene.verdict(key) == "unknown"
    assert scene.people.rows("select from user_keys") == []


async def test_a_persons_export_has_the_keys_and_an_owners_those_of_the_organization(scene: UserKeyScene) -> None:
    await scene.turn_on()
    member = scene.tenants.uses(scene.member, scene.shop, first=scene.now, last=scene.now)
    key = await scene.made(member, expires_in_days=9)
    scene.tenants.uses(member, scene.theirs, first=scene.now, last=scene.now)
    scene.people.change(
        "insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)"
        " values (gen_random_uuid(), %s, %s, 'Of globex', 'x', 'd', '{read}', now())",
        scene.theirs.id,
        member.user,
    )
    shown = {
        "organization_id": str(scene.acme.id),
        "service_slug": "shop",
        "name": "Laptop",
        "prefix": key["prefix"],
        "scopes": [],
        "created_at": key["created_at"],
        "expires_at": key["expires_at"],
        "last_used_at": None,
    }
    export = partial(scene.request, "GET", f"/api/privacy/export/{member.user}")
    assert (await export(by=scene.owner)).ok()["user_keys"] == [shown]
    own = (await export(by=member)).ok()["user_keys"]
    assert {one["name"] for one in own} == {"Laptop", "Of globex"}
    assert shown in own
    operator = scene.people.add(platform_owner=True)
    assert (await scene.request("DELETE", f"/api/privacy/forget/{member.user}", by=operator)).status == 200
    assert scene.people.rows("select from user_keys") == []
    assert await scene.verdict(key["key"]) == "unknown"


async def test_an_account_that_goes_to_another_person_takes_no_keys_along(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = (await scene.made())["key"]
    async with scene.postern.foundation.unit_of_work() as uow:
        await hand_over(uow, UserId(scene.ada.user), scene.now)
        await uow.commit()
    assert await scene.verdict(key) == "unknown"


async def test_the_settings_say_who_may_make_what(scene: UserKeyScene) -> None:
    standing = {"enabled": False, "prefix": None, "most_keys": 10, "longest_days": None, "resource": None}
    assert (await scene.settings()).ok() == standing
    await scene.api()
    wanted = {"enabled": True, "prefix": "ac_9", "most_keys": 2, "longest_days": 90, "resource": API}
    assert (await scene.settings(wanted)).ok() == wanted
    assert (await scene.settings(wanted)).ok() == wanted
    assert (await scene.settings()).ok() == wanted
    (entry,) = scene.audited("service.user_keys.updated")
    assert entry["details"] == {
        "service_slug": "shop",
        **{f"old_{name}": value for name, value in standing.items()},
        **{f"new_{name}": value for name, value in wanted.items()},
    }
    for by in (scene.member, scene.ada, scene.stranger):
        assert (await scene.settings(wanted, by=by)).status == 403
    assert refused(await scene.settings({"enabled": True, "prefix": "acme"}, of="nothing")) == NOT_FOUND


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"enabled": True},
        *(
            {"prefix": prefix}
            for prefix in ("a", "1a", "_a", "a_", "A1", "a-b", "a" * 13, "", "sk", "sk_a", "pto", "ptz_1", "scim", "cs", "é1")
        ),
        {"most_keys": 0},
        {"most_keys": MOST_KEYS + 1},
        {"most_keys": 10**30},
        {"longest_days": 0},
        {"longest_days": 3651},
        {"resource": "https://api.acme.example/none"},
        {"resource": "x" * 3000},
        {"enabled": None},
    ],
    ids=str,
)
async def test_settings_that_cannot_be_are_refused(scene: UserKeyScene, wrong: dict[str, Any]) -> None:
    assert refused(await scene.settings(wrong)) == BAD_REQUEST
    assert scene.people.rows("select from user_key_settings") == []


async def test_an_api_that_the_service_does_not_stand_for_gives_no_scopes(scene: UserKeyScene) -> None:
    await scene.api()
    assert refused(await scene.settings({"resource": API}, of="app")) == BAD_REQUEST


async def test_of_all_who_make_keys_at_once_no_more_than_the_limit_succeed(scene: UserKeyScene) -> None:
    await scene.turn_on(most_keys=3)
    answers = await all_at_once(*[scene.make] * 8)
    assert sorted(answer.status for answer in answers) == [201] * 3 + [400] * 5
    await scene.made(scene.came(scene.shop))
    scene.people.change("update user_keys set expires_at = now() - interval '1 s' where user_id = %s", scene.ada.user)
    await scene.made()


async def test_of_all_who_check_a_key_after_its_end_none_finds_it_valid(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    over = False
    late = list[bool]()

    async def check() -> None:
        began_after = over
        told = await scene.verify(key["key"])
        if began_after:
            late.append(told["valid"])

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(check)
        assert (await scene.call("DELETE", f"/{key['id']}")).status == 204
        over = True
        for _ in range(RACERS):
            nursery.start_soon(check)
    assert late == [False] * RACERS


async def test_of_two_who_end_a_key_one_is_told_that_it_is_gone(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    answers = await all_at_once(*[partial(scene.call, "DELETE", f"/{key['id']}")] * 2)
    assert sorted(answer.status for answer in answers) == [204, 404]
    assert len(scene.audited("user_key.revoked")) == 1


async def test_members_see_and_end_keys_by_their_rights(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made()
    path = "/api/organizations/acme/services/shop/user-keys"
    (row,) = (await scene.request("GET", path)).ok()["user_keys"]
    assert (row["id"], row["email"], row["name"], row["made_by_user"]) == (key["id"], "lady@user.example", "Laptop", False)
    assert refused(await scene.request("GET", path, by=scene.ada)) == FORBIDDEN
    assert refused(await scene.request("DELETE", f"{path}/{key['id']}", by=scene.member)) == FORBIDDEN
    assert refused(await scene.request("GET", path.replace("shop", "none"))) == NOT_FOUND
    assert refused(await scene.request("DELETE", f"{path.replace('shop', 'app')}/{key['id']}")) == NOT_FOUND
    assert refused(await scene.request("DELETE", f"{path.replace('shop', 'none')}/{key['id']}")) == NOT_FOUND
    assert (await scene.request("GET", f"{path}/{key['id']}")).ok() == row
    assert refused(await scene.request("GET", f"{path.replace('shop', 'app')}/{key['id']}")) == NOT_FOUND
    assert (await scene.request("DELETE", f"{path}/{key['id']}")).status == 204
    assert refused(await scene.request("DELETE", f"{path}/{key['id']}")) == NOT_FOUND
    assert await scene.verdict(key["key"]) == "unknown"


async def test_both_ends_are_told_to_webhooks_and_to_the_audit_log_and_neither_hears_the_key_or_its_name(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made(expires_in_days=3)
    assert (await scene.call("DELETE", f"/{key['id']}")).status == 204
    details = {
        "user_key_id": key["id"],
        "user_id": str(scene.ada.user),
        "service_id": str(scene.shop.id),
        "service_slug": "shop",
        "prefix": key["prefix"],
        "scopes": [],
        "expires_at": key["expires_at"],
    }
    for name in ("user_key.created", "user_key.revoked"):
        (told,) = [one for one in scene.told("events") if one["name"] == name]
        assert told["details"] == details
        assert (told["target_type"], told["target_id"], told["organization_id"]) == ("user_key", key["id"], scene.acme.id)
        assert len(scene.audited(name)) == 1
    for row in scene.people.rows("select details::text as said from audit_log union all select details::text from events"):
        assert "Laptop" not in row["said"]
        assert key["key"].rpartition("_")[2] not in row["said"]


async def test_a_key_for_a_service_that_was_deleted_meanwhile_is_none(scene: UserKeyScene) -> None:
    await scene.turn_on()
    holder = await scene.postern.services.api_keys.resolve(Token(scene.key))
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.shop.id)
    with pytest.raises(NotFound):
        await scene.postern.services.user_keys.create(holder, UserId(scene.ada.user), WantedUserKey(name="Late"), Actor())
    assert scene.people.rows("select from user_keys") == []


async def test_a_key_of_a_user_opens_nothing_here_and_is_told_so(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = (await scene.made())["key"]
    for path in ("/api/user", "/api/organizations/acme/services", "/userinfo"):
        answer = await scene.client.get(path, token=key)
        assert answer.status in {401, 404}, path
    told = await scene.client.get("/api/user", token=key)
    assert refused(told) == (401, "JWT_ERROR")
    assert "the application's own API" in told.json()["error"]
    answer = await scene.client.get("/api/service/info", headers=[("x-api-key", key)])
    assert refused(answer) == (401, "UNAUTHORIZED")


async def test_checks_of_many_keys_share_statements_and_each_gets_its_own_answer(scene: UserKeyScene) -> None:
    await scene.turn_on()
    people = [scene.came(scene.shop) for _ in range(6)]
    keys = [(await scene.made(person))["key"] for person in people]
    told = dict(zip(keys, people, strict=True))

    async def check(key: str) -> None:
        assert (await scene.verify(key))["user_id"] == str(told[key].user)
        assert await scene.verdict(key, key=scene.other_key) == "unknown"

    await all_at_once(*[partial(check, key) for key in keys * 5])


async def test_a_stored_key_that_comes_from_the_future_of_the_clock_is_valid_until_its_end(scene: UserKeyScene) -> None:
    await scene.turn_on()
    key = await scene.made(expires_in_days=1)
    scene.people.change("update user_keys set expires_at = %s", scene.now + timedelta(hours=1))
    assert await scene.verdict(key["key"]) is None


@pytest.mark.parametrize("demand", [{"acr_values": [TWO_FACTORS]}, {"max_age": 60}])
async def test_a_key_has_no_scope_that_asks_for_a_proof(scene: UserKeyScene, demand: dict[str, Any]) -> None:
    """Nobody signs in with a key, and its check tells no time of a sign-in. Keys of before lose the scope at the check."""
    api = await scene.api()
    await scene.turn_on(resource=API)
    key = (await scene.made(scopes=["orders:read"]))["key"]
    assert await scene.verdict(key, ["orders:read"]) is None
    (await scene.request("PATCH", f"/api/organizations/acme/resource-servers/{api}", {"scopes": [{**READ, **demand}, WRITE]})).ok()
    assert await scene.verdict(key, ["orders:read"]) == "lacks_scope"
    assert (await scene.verify(key)).get("scopes", []) == []
    assert refused(await scene.make(scopes=["orders:read"])) == BAD_REQUEST
    (await scene.request("PATCH", f"/api/organizations/acme/resource-servers/{api}", {"scopes": [READ, WRITE]})).ok()
    assert await scene.verdict(key, ["orders:read"]) is None


async def test_an_api_without_its_approval_gives_no_scopes(scene: UserKeyScene) -> None:
    api = await scene.api()
    await scene.turn_on(resource=API)
    key = (await scene.made(scopes=["orders:read"]))["key"]
    assert await scene.verdict(key, ["orders:read"]) is None
    await scene.approval(api, "DELETE")
    assert await scene.verdict(key, ["orders:read"]) == "lacks_scope"
    assert refused(await scene.make(scopes=["orders:read"])) == BAD_REQUEST
    # The key itself is as good as before, and has the scope again with the approval.
    assert (await scene.verify(key)).get("scopes", []) == []
    await scene.approval(api)
    assert await scene.verdict(key, ["orders:read"]) is None


API_KEYS: Final = "/api/organizations/acme/services/shop/api-keys"


async def test_an_api_key_lists_the_keys_of_users_that_it_made(scene: UserKeyScene) -> None:
    await scene.turn_on()
    other = scene.key_of(scene.shop)
    made, by_other = await scene.made(), (await scene.make(key=other)).ok(201)
    ids = {row["id"]: str(row["made_by_key"]) for row in scene.people.rows("select id::text, made_by_key from user_keys")}
    path = f"{API_KEYS}/{ids[made['id']]}"
    told = (await scene.request("GET", path)).ok()
    assert told["user_keys"] == [{name: made[name] for name in ("id", "user_id", "name", "prefix")}]
    # Who may not see the users of services sees the key alone.
    viewer = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "viewer", [Capability.SERVICES_VIEW]))
    assert (await scene.request("GET", path, by=viewer)).ok() == {**told, "user_keys": None}
    assert refused(await scene.request("GET", path.replace("acme", "globex"), by=scene.stranger))[0] in {403, 404}
    keeper = scene.tenants.member(
        scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SERVICES_VIEW, Capability.SERVICES_MANAGE])
    )
    assert refused(await scene.request("DELETE", f"{path}?end_made=true", by=keeper)) == FORBIDDEN
    assert (await scene.request("DELETE", f"{path}?end_made=true")).status == 204
    assert [await scene.verdict(one["key"], key=other) for one in (made, by_other)] == ["unknown", None]
    (ended,) = scene.audited("user_key.revoked")
    assert ended["details"]["prefix"] == made["prefix"]
    # Without a word, they stay.
    assert (await scene.request("DELETE", f"{API_KEYS}/{ids[by_other['id']]}")).status == 204
    assert [row["id"] for row in scene.people.rows("select id::text from user_keys")] == [by_other["id"]]


async def test_an_api_key_that_ends_with_all_that_it_made_leaves_nothing_behind(scene: UserKeyScene) -> None:
    """Whoever has the API key goes on making keys while it ends."""
    await scene.turn_on(most_keys=MOST_KEYS)
    await scene.made()
    (row,) = scene.people.rows("select made_by_key from user_keys")

    async def ends() -> int:
        return (await scene.request("DELETE", f"{API_KEYS}/{row['made_by_key']}?end_made=true")).status

    async def makes() -> int:
        return (await scene.make()).status

    statuses = await all_at_once(*[makes] * 10, ends, *[makes] * 10)
    assert set(statuses) <= {201, 401, 204}
    assert scene.people.rows("select from user_keys") == []


async def test_a_key_that_ends_meanwhile_makes_nothing(scene: UserKeyScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.turn_on()
    meanwhile(monkeypatch, scene.postern.services.api_keys, "resolve", lambda: scene.people.change("delete from api_keys"))
    assert (await scene.make()).status == 401
    assert scene.people.rows("select from user_keys") == []

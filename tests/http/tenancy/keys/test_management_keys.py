"""Management keys over HTTP: made, listed, adopted and ended by people; and what they open, to whom they answer, and when they stop."""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres.locks import NAMESPACE, PLATFORM_OWNERS
from adapters.postgres.platform.platform_users import PlatformOwnerRows
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Token
from core.domain.tenancy.management_keys import MOST_KEYS, PlatformCapability
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery import callers
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE

ACME: Final = "/api/organizations/acme"
KEYS: Final = f"{ACME}/management-keys"
OF_PLATFORM: Final = "/api/platform/management-keys"
SHOP: Final = f"{ACME}/services/shop"


class KeyScene(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.people.change("update organizations set owner_user_id = %s where id = %s", self.owner.user, self.acme.id)
        self.admin = self.resident(self.acme, "admin")

    async def make(self, *capabilities: str, by: Person | None = None, place: str = KEYS, **more: Any) -> Received:
        body = {"name": "Robot", "capabilities": list(capabilities or ("services.view",)), **more}
        answer = await self.request("POST", place, body, by=by)
        if answer.status == 201:
            self.log.remember(answer.json()["key"])
        return answer

    async def key(self, *capabilities: str, by: Person | None = None, place: str = KEYS) -> tuple[str, str]:
        """A new key: its id, and the key itself."""
        made = (await self.make(*capabilities, by=by, place=place)).ok(201)
        return made["id"], made["key"]

    async def with_key(self, key: str, method: str, path: str, body: Any = None) -> Received:
        return await self.client.request(method, path, body=body, token=key)

    async def opens(self, key: str, path: str = f"{ACME}/services") -> int:
        return (await self.with_key(key, "GET", path)).status

    def stale(self, person: Person) -> None:
        self.people.change(
            "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s", person.session
        )


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> KeyScene:
    return KeyScene(postern, people, unlimited(postern), log)


async def test_a_key_is_shown_once_and_kept_as_a_digest(scene: KeyScene) -> None:
    made = (await scene.make("services.view", "org.members.view", name=" Night ")).ok(201)
    assert made["key"].startswith(f"{made['prefix']}_pto"[: len(made["prefix"])])
    assert (made["prefix"][:4], len(made["prefix"]), made["name"]) == ("pto_", 10, "Night")
    life = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert life == timedelta(days=90)
    listed = (await scene.request("GET", KEYS)).ok()
    told: dict[str, Any] = {"last_used_at": None, "adopted_at": None, "adopted_by": None, "former_secret_until": None}
    told |= {"maker_email": scene.owner.email, "maker_is_here": True}
    assert listed == {"management_keys": [{name: value for name, value in made.items() if name != "key"} | told], "total": 1}
    one = (await scene.request("GET", f"{KEYS}/{made['id']}")).ok()
    assert one == {"management_key": listed["management_keys"][0], "made": {"api_keys": [], "client_secrets": [], "invitations": []}}
    assert made["key"] not in str(scene.people.rows("select management_keys::text as row from management_keys"))
    (event,) = scene.audited("management_key%")
    assert (event["action"], event["target_id"], event["actor_id"]) == ("management_key.created", made["id"], scene.owner.user)
    assert made["key"] not in str(event)


@pytest.mark.parametrize(
    "body",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"capabilities": []},
        {"capabilities": ["owner"]},
        {"capabilities": ["organizations.view"]},
        {"expires_in_days": 0},
        {"expires_in_days": 366},
        {"expires_in_days": None},
    ],
)
async def test_a_key_that_is_not_one_is_refused(scene: KeyScene, body: dict[str, Any]) -> None:
    assert refused(await scene.make(**{"name": "x", **body} if "capabilities" not in body else body)) == (400, "BAD_REQUEST")


async def test_there_are_not_too_many(scene: KeyScene) -> None:
    for org in (scene.acme.id, None):
        scene.people.change(
            "insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)"
            " select gen_random_uuid(), %s, 'x', prefix, sha256(prefix::bytea), '{}', now(), gen_random_uuid(), now()"
            " from (select coalesce(%s::text, '') || n as prefix from generate_series(1, %s) as n) as them",
            *(org, org, MOST_KEYS),
        )
    assert refused(await scene.make()) == (400, "BAD_REQUEST")
    governor = scene.people.add(platform_owner=True)
    assert refused(await scene.make("people.view", by=governor, place=OF_PLATFORM)) == (400, "BAD_REQUEST")


async def test_making_takes_a_fresh_proof_and_no_impersonation(scene: KeyScene) -> None:
    scene.stale(scene.owner)
    assert refused(await scene.make()) == (401, "REAUTHENTICATION_REQUIRED")
    key, _ = await scene.key(by=scene.admin)
    assert refused(await scene.request("POST", f"{KEYS}/{key}/adopt")) == (401, "REAUTHENTICATION_REQUIRED")
    governor = scene.people.add(platform_owner=True)
    scene.stale(governor)
    assert refused(await scene.make("people.view", by=governor, place=OF_PLATFORM)) == (401, "REAUTHENTICATION_REQUIRED")


async def test_nobody_gives_a_key_what_they_lack(scene: KeyScene) -> None:
    role = scene.tenants.role(scene.acme, "keeper", [Capability.INTEGRATIONS_MANAGE, Capability.CONNECTIONS_MANAGE])
    keeper = scene.tenants.member(scene.acme, role)
    assert refused(await scene.make("services.view", by=keeper)) == (403, "FORBIDDEN")
    assert (await scene.make("integrations.manage", by=keeper)).status == 201
    # Only the owner gives this one, whatever others hold.
    for person in (keeper, scene.admin):
        assert refused(await scene.make("connections.manage", by=person)) == (403, "FORBIDDEN")
    assert (await scene.make("connections.manage")).status == 201
    assert refused(await scene.make(by=scene.resident(scene.acme, "member"))) == (403, "FORBIDDEN")


async def test_only_an_owner_grants_the_right_to_manage_connections(scene: KeyScene) -> None:
    role = {"slug": "linker", "name": "Linker", "permissions": ["connections.manage"]}
    assert refused(await scene.request("POST", f"{ACME}/roles", role, by=scene.admin)) == (403, "FORBIDDEN")
    assert (await scene.request("POST", f"{ACME}/roles", role)).status == 201
    holder = scene.tenants.member(
        scene.acme, scene.tenants.role(scene.acme, "most", [one for one in Capability if one != Capability.BILLING_MANAGE])
    )
    invitation = {"email": "new@people.example", "role": "linker"}
    for person in (holder, scene.admin):
        assert refused(await scene.request("POST", f"{ACME}/invitations", invitation, by=person)) == (403, "FORBIDDEN")
        assert refused(await scene.request("POST", f"{ACME}/roles", {**role, "slug": "x"}, by=person)) == (403, "FORBIDDEN")
    _, key = await scene.key("connections.manage", "org.roles.manage", "org.members.manage")
    assert refused(await scene.with_key(key, "POST", f"{ACME}/roles", {**role, "slug": "y"})) == (403, "FORBIDDEN")
    # Nor does a role get it later, by a person or a key that holds it; a role that has it may still get another name.
    other = scene.tenants.role(scene.acme, "other", [])
    for change in (
        await scene.request("PATCH", f"{ACME}/roles/{other.id}", {"permissions": ["connections.manage"]}, by=holder),
        await scene.with_key(key, "PATCH", f"{ACME}/roles/{other.id}", {"permissions": ["connections.manage"]}),
    ):
        assert refused(change) == (403, "FORBIDDEN")
    linker = scene.tenants.role(scene.acme, "linked", [Capability.CONNECTIONS_MANAGE])
    assert (await scene.request("PATCH", f"{ACME}/roles/{linker.id}", {"name": "New"}, by=holder)).ok()["name"] == "New"
    assert refused(await scene.with_key(key, "POST", f"{ACME}/invitations", invitation)) == (403, "FORBIDDEN")
    assert (await scene.request("POST", f"{ACME}/invitations", invitation)).status == 200


async def test_a_key_opens_what_its_capabilities_say_in_its_organization(scene: KeyScene) -> None:
    _, key = await scene.key("services.view")
    assert await scene.opens(key) == 200
    assert refused(await scene.with_key(key, "GET", f"{ACME}/members")) == (403, "FORBIDDEN")
    assert await scene.opens(key, f"{ACME}/branding") == 200
    for path in ("/api/organizations/globex/services", "/api/organizations/nowhere/services", "/api/platform/organizations"):
        assert refused(await scene.with_key(key, "GET", path)) == (403, "FORBIDDEN")
    same = [await scene.with_key(key, "GET", f"/api/organizations/{slug}/services") for slug in ("globex", "nowhere")]
    assert same[0].json()["error"] == same[1].json()["error"]
    assert refused(await scene.with_key(key, "GET", ACME)) == (403, "FORBIDDEN")
    assert refused(await scene.with_key(key, "GET", "/api/user")) == (403, "FORBIDDEN")
    assert refused(await scene.with_key(f"{key}x", "GET", f"{ACME}/services")) == (401, "UNAUTHORIZED")
    assert refused(await scene.with_key(f"pto_{'x' * 300}", "GET", f"{ACME}/services")) == (401, "UNAUTHORIZED")


async def test_an_ended_or_expired_key_and_one_of_an_inactive_organization_open_nothing(scene: KeyScene) -> None:
    key, text = await scene.key()
    scene.people.change("update organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert refused(await scene.with_key(text, "GET", f"{ACME}/services")) == (403, "ORGANIZATION_NOT_ACTIVE")
    scene.people.change("update organizations set status = 'active' where id = %s", scene.acme.id)
    scene.people.change("update management_keys set expires_at = now()")
    assert refused(await scene.with_key(text, "GET", f"{ACME}/services")) == (401, "UNAUTHORIZED")
    scene.people.change("update management_keys set expires_at = now() + interval '1 hour'")
    assert await scene.opens(text) == 200
    assert (await scene.request("DELETE", f"{KEYS}/{key}")).ok() == {
        "made": {"api_keys": [], "client_secrets": [], "invitations": []},
        "ended_made": False,
    }
    assert refused(await scene.with_key(text, "GET", f"{ACME}/services")) == (401, "UNAUTHORIZED")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/adopt")):
        assert refused(await scene.request(method, f"{KEYS}/{key}{path}")) == (404, "NOT_FOUND")
    assert [one["action"] for one in scene.audited("management_key%")] == ["management_key.created", "management_key.ended"]


LOSSES: Final = {
    "left": "delete from memberships where user_id = %s",
    "demoted": "delete from relations where user_id = %s",
    "deactivated": "update users set deactivated_at = now() where id = %s",
    "deleted": "delete from users where id = %s",
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_key_loses_what_its_maker_loses_until_an_owner_adopts_it(scene: KeyScene, loss: str) -> None:
    key, text = await scene.key("services.view", by=scene.admin)
    assert await scene.opens(text) == 200
    statement = LOSSES[loss]
    if loss == "left":
        scene.people.change("delete from relations where user_id = %s", scene.admin.user)
    scene.people.change(statement, scene.admin.user)
    assert refused(await scene.with_key(text, "GET", f"{ACME}/services")) == (403, "FORBIDDEN")
    before = (await scene.request("GET", f"{KEYS}/{key}")).ok()["management_key"]
    email = None if loss == "deleted" else scene.admin.email
    assert (before["maker_email"], before["maker_is_here"]) == (email, loss == "demoted")
    adopted = (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()
    assert (adopted["adopted_by"], adopted["created_by"]) == (str(scene.owner.user), str(scene.admin.user))
    renewed = adopted["key"]
    scene.log.remember(renewed)
    assert await scene.opens(renewed) == 200
    assert refused(await scene.with_key(renewed, "GET", f"{ACME}/members")) == (403, "FORBIDDEN")
    # The maker knows the former secret. It goes on for a day with a maker who is still a member, and with nobody else.
    assert (await scene.opens(text), adopted["former_secret_until"] is not None) == ((200, True) if loss == "demoted" else (401, False))
    assert (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok() == {**adopted, "key": None}
    assert [one["action"] for one in scene.audited("management_key%")] == ["management_key.created", "management_key.adopted"]
    assert renewed not in str(scene.people.rows("select * from management_keys"))


async def test_the_former_secret_of_an_adopted_key_ends_after_a_day_or_with_its_maker(scene: KeyScene) -> None:
    key, text = await scene.key("services.view", by=scene.admin)
    renewed = (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()["key"]
    scene.log.remember(renewed)
    assert [await scene.opens(one) for one in (text, renewed)] == [200, 200]
    (row,) = scene.people.rows("select former_until - adopted_at as rest, former_holder from management_keys")
    assert row == {"rest": timedelta(hours=24), "former_holder": scene.admin.user}
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.admin.user)
    assert [await scene.opens(one) for one in (text, renewed)] == [401, 200]
    scene.people.change("update users set deactivated_at = null where id = %s", scene.admin.user)
    (await scene.request("POST", f"{ACME}/members/{scene.admin.user}")).ok()
    assert [await scene.opens(one) for one in (text, renewed)] == [401, 200]
    scene.tenants.join(scene.admin, scene.acme, "member")
    scene.people.change("update management_keys set former_until = now()")
    assert [await scene.opens(one) for one in (text, renewed)] == [401, 200]
    assert (await scene.request("GET", f"{KEYS}/{key}")).ok()["management_key"]["former_secret_until"] is None
    # The former secret ends with the key, too.
    scene.people.change("update management_keys set former_until = now() + interval '1 hour'")
    (await scene.request("DELETE", f"{KEYS}/{key}")).ok()
    assert [await scene.opens(one) for one in (text, renewed)] == [401, 401]


async def test_the_next_owner_adopts_from_the_former_one(scene: KeyScene) -> None:
    key, text = await scene.key("services.view", by=scene.admin)
    first = (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()["key"]
    (await scene.request("POST", f"{ACME}/transfer-ownership", {"new_owner_user_id": str(scene.admin.user)})).ok()
    second = (await scene.request("POST", f"{KEYS}/{key}/adopt", by=scene.admin)).ok()["key"]
    for one in (first, second):
        scene.log.remember(one)
    # The maker's own secret is two adoptions old. What the former owner knows goes on for a day.
    assert [await scene.opens(one) for one in (text, first, second)] == [401, 200, 200]
    assert scene.people.rows("select former_holder from management_keys") == [{"former_holder": scene.owner.user}]


async def test_of_fifty_that_adopt_a_key_at_once_one_gets_its_secret(scene: KeyScene) -> None:
    key, text = await scene.key("services.view", by=scene.admin)
    answers = await all_at_once(*[partial(scene.request, "POST", f"{KEYS}/{key}/adopt")] * 50)
    given = [one for answer in answers if (one := answer.ok()["key"]) is not None]
    for one in given:
        scene.log.remember(one)
    assert len(given) == 1
    assert [await scene.opens(one) for one in (text, given[0])] == [200, 200]
    assert len(scene.audited("management_key.adopted")) == 1


async def test_an_adopted_key_never_gets_the_prefix_of_another(scene: KeyScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prefix names the key when its secret is presented, so the other key would stop to be found."""
    other, kept = await scene.key("services.view")
    key, _ = await scene.key("services.view", by=scene.admin)
    secrets = scene.postern.foundation.secrets
    taken = (await scene.request("GET", f"{KEYS}/{other}")).ok()["management_key"]["prefix"]
    drawn = iter([Token(f"{taken}_{'x' * 32}"), fresh := secrets.key("pto")])
    monkeypatch.setattr(type(secrets), "key", lambda _self, _kind: next(drawn))
    adopted = (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()
    scene.log.remember(adopted["key"])
    assert adopted["key"] == fresh.reveal()
    assert adopted["prefix"] != taken
    assert [await scene.opens(one) for one in (kept, adopted["key"])] == [200, 200]
    assert [row["details"]["prefix"] for row in scene.audited("management_key.adopted")] == [adopted["prefix"]]


async def test_a_key_keeps_the_part_that_its_maker_keeps(scene: KeyScene) -> None:
    _, text = await scene.key("services.view", "org.members.manage", by=scene.admin)
    scene.people.change("update relations set relation = 'member' where user_id = %s", scene.admin.user)
    assert await scene.opens(text) == 200
    assert refused(await scene.with_key(text, "GET", f"{ACME}/invitations")) == (403, "FORBIDDEN")
    assert await scene.opens(text, f"{ACME}/members") == 200  # comes with the right to manage members, and the maker still has it


async def test_a_maker_who_owes_a_second_factor_leaves_the_key_nothing(scene: KeyScene) -> None:
    _, text = await scene.key("services.view", by=scene.admin)
    scene.people.change("update organizations set mfa_required_since = now() - interval '40 days', mfa_grace_days = 1")
    scene.people.change("update memberships set created_at = now() - interval '40 days'")
    assert refused(await scene.with_key(text, "GET", f"{ACME}/services")) == (403, "FORBIDDEN")


async def test_only_the_owner_adopts(scene: KeyScene) -> None:
    key, text = await scene.key("org.members.manage", "integrations.manage")
    assert refused(await scene.request("POST", f"{KEYS}/{key}/adopt", by=scene.admin)) == (403, "FORBIDDEN")
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{key}"), ("DELETE", f"/{key}"), ("POST", f"/{key}/adopt")):
        assert refused(await scene.with_key(text, method, f"{KEYS}{path}", {})) == (403, "FORBIDDEN")


async def test_a_key_acts_under_its_own_name(scene: KeyScene) -> None:
    key, text = await scene.key("services.manage", "services.view", "audit_logs.view")
    scene.log.entries.clear()
    made = (await scene.with_key(text, "POST", f"{SHOP}/api-keys", {"name": "CI", "permissions": ["read:service"]})).ok(201)
    scene.log.remember(made["key"])
    assert made["created_by"] == str(scene.owner.user)
    (line,) = scene.log.events("request")
    assert (line["management_key_id"], "user" in line) == (key, False)
    entry = (await scene.with_key(text, "GET", f"{ACME}/audit-log?action=api_key.created")).ok()["logs"][0]
    assert entry["actor"]["id"] == key
    assert entry["actor"]["management_key"] == {"name": "Robot", "prefix": text.rpartition("_")[0]}
    assert {"api_key", "scim_token"} & set(entry["actor"]) == set()
    # The key may not give an API key more than it has itself.
    more = {"name": "CI", "permissions": ["write:users"]}
    assert refused(await scene.with_key(text, "POST", f"{SHOP}/api-keys", more)) == (403, "FORBIDDEN")


@pytest.mark.parametrize("end_made", [False, True])
async def test_ending_a_key_lists_what_it_made_and_may_end_it(scene: KeyScene, end_made: bool) -> None:
    key, text = await scene.key("services.manage", "services.view")
    api_key = (await scene.with_key(text, "POST", f"{SHOP}/api-keys", {"name": "CI", "permissions": ["read:service"]})).ok(201)
    secret = (await scene.with_key(text, "POST", f"{SHOP}/client-secrets")).ok(201)
    scene.log.remember(api_key["key"])
    await scene.request("POST", f"{SHOP}/client-secrets")
    made = {
        "api_keys": [{"id": api_key["id"], "service_slug": "shop", "name": "CI", "prefix": api_key["prefix"]}],
        "client_secrets": [{"id": secret["id"], "service_slug": "shop", "prefix": secret["prefix"]}],
        "invitations": [],
    }
    assert (await scene.request("GET", f"{KEYS}/{key}")).ok()["made"] == made
    ended = (await scene.request("DELETE", f"{KEYS}/{key}{'?end_made=true' if end_made else ''}")).ok()
    assert ended == {"made": made, "ended_made": end_made}
    left = scene.people.rows("select (select count(*) from api_keys) as keys, (select count(*) from client_secrets) as secrets")
    assert left == [{"keys": 0, "secrets": 1} if end_made else {"keys": 1, "secrets": 2}]
    deleted = sorted(one["action"] for one in scene.audited("%deleted"))
    assert deleted == (["api_key.deleted", "client_secret.deleted"] if end_made else [])
    (event,) = [one for one in scene.told() if one["name"] == "management_key.ended"]
    assert event["details"]["made"] == {"api_keys": [api_key["id"]], "client_secrets": [secret["id"]], "invitations": []}


async def test_ending_what_a_key_made_takes_the_right_to_manage_services(scene: KeyScene) -> None:
    key, text = await scene.key()
    keeper = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.INTEGRATIONS_MANAGE]))
    assert refused(await scene.request("DELETE", f"{KEYS}/{key}?end_made=true", by=keeper)) == (403, "FORBIDDEN")
    assert await scene.opens(text) == 200
    assert (await scene.request("DELETE", f"{KEYS}/{key}", by=keeper)).status == 200


async def test_connections_stand_for_a_fresh_proof(scene: KeyScene) -> None:
    _, weak = await scene.key("org.settings.manage")
    _, strong = await scene.key("org.settings.manage", "connections.manage")
    rules = {"device_trust_days": 3}
    assert refused(await scene.with_key(weak, "PATCH", f"{ACME}/sign-in-rules", rules)) == (403, "FORBIDDEN")
    assert (await scene.with_key(strong, "PATCH", f"{ACME}/sign-in-rules", rules)).ok()["device_trust_days"] == 3
    assert (await scene.with_key(strong, "POST", f"{ACME}/domain-routes", {"domain": "acme.example"})).status == 201
    # Nobody locks themselves out with a key.
    assert (await scene.with_key(strong, "PATCH", f"{ACME}/sign-in-rules", {"mfa_policy": "required"})).status == 200


async def test_a_key_invites_in_the_name_of_the_person_who_answers_for_it(scene: KeyScene) -> None:
    key, text = await scene.key("org.members.manage", "org.roles.manage", by=scene.admin)
    made = (await scene.with_key(text, "POST", f"{ACME}/invitations", {"email": "a@people.example", "role": "member"})).ok()
    assert made["inviter"]["email"] == scene.admin.email
    # Beyond what the key holds: an admin may more than the key.
    assert refused(await scene.with_key(text, "POST", f"{ACME}/invitations", {"email": "b@people.example", "role": "admin"})) == (
        403,
        "FORBIDDEN",
    )
    (row,) = scene.people.rows("select id, invited_by from invitations")
    assert row["invited_by"] == scene.admin.user
    assert (await scene.with_key(text, "POST", f"{ACME}/invitations/{row['id']}/accept")).status in {200, 204}
    # An adopted key whose adopter is gone still accepts, but cannot invite: the mail would name nobody.
    (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()
    scene.people.change("update management_keys set adopted_by = gen_random_uuid()")
    assert refused(await scene.with_key(text, "POST", f"{ACME}/invitations", {"email": "c@people.example", "role": "member"})) == (
        *(403, "FORBIDDEN"),
    )


async def test_a_key_removes_members_who_may_no_more_than_the_key(scene: KeyScene) -> None:
    _, text = await scene.key("org.members.manage")
    member = scene.resident(scene.acme, "member")
    assert refused(await scene.with_key(text, "POST", f"{ACME}/members/{scene.admin.user}")) == (403, "FORBIDDEN")
    assert (await scene.with_key(text, "POST", f"{ACME}/members/{member.user}")).status < 300
    # A key may remove its maker, and dies with it.
    _, suicidal = await scene.key(*(one.value for one in Capability if one != Capability.CONNECTIONS_MANAGE), by=scene.admin)
    assert (await scene.with_key(suicidal, "POST", f"{ACME}/members/{scene.admin.user}")).status < 300
    assert refused(await scene.with_key(suicidal, "GET", f"{ACME}/services")) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("loss", "status"),
    [("delete from management_keys", 401), ("delete from relations where relation = 'owner'", 403)],
)
async def test_what_a_key_asks_in_its_last_moment_is_not_done(scene: KeyScene, emptied_database_url: str, loss: str, status: int) -> None:
    _, text = await scene.key("services.manage")
    answers: list[Received] = []

    async def ask() -> None:
        answers.append(await scene.with_key(text, "POST", f"{SHOP}/client-secrets"))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (scene.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await scene.people.somebody_waits()
            other.execute(loss.encode())
            other.commit()
    assert answers[0].status == status
    assert scene.people.rows("select from client_secrets") == []


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        ("delete from management_keys", (401, "UNAUTHORIZED")),
        ("update organizations set status = 'suspended'", (403, "ORGANIZATION_NOT_ACTIVE")),
    ],
)
async def test_a_key_that_opens_nothing_any_more_when_its_work_begins_does_nothing(
    scene: KeyScene, loss: str, code: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = await scene.key("services.manage")
    meanwhile(monkeypatch, scene.postern.tenancy.management_keys, "resolve", lambda: scene.people.change(loss))
    assert refused(await scene.with_key(text, "POST", f"{SHOP}/client-secrets")) == code
    assert scene.people.rows("select from client_secrets") == []


async def test_of_two_who_end_a_key_at_once_one_does(scene: KeyScene) -> None:
    key, _ = await scene.key()
    answers = await all_at_once(*(lambda: scene.request("DELETE", f"{KEYS}/{key}") for _ in range(5)))
    assert sorted(one.status for one in answers) == [200, 404, 404, 404, 404]
    assert len(scene.audited("management_key.ended")) == 1


async def test_keys_of_the_platform(scene: KeyScene) -> None:
    governor, other = scene.people.add(platform_owner=True), scene.people.add(platform_owner=True)
    assert refused(await scene.make("people.view", place=OF_PLATFORM)) == (403, "FORBIDDEN")
    assert refused(await scene.make("services.view", by=governor, place=OF_PLATFORM)) == (400, "BAD_REQUEST")
    key, text = await scene.key("organizations.view", "audit_logs.view", by=governor, place=OF_PLATFORM)
    assert text.startswith("ptp_")
    assert await scene.opens(text, "/api/platform/organizations") == 200
    for method, path in (
        ("GET", "/api/platform/users/search?q=a"),
        ("POST", f"/api/platform/organizations/{scene.acme.id}/approve"),
        # The same word is a capability in organizations, too.
        ("GET", f"{ACME}/audit-log"),
        ("GET", OF_PLATFORM),
        ("POST", f"{OF_PLATFORM}/{key}/adopt"),
    ):
        assert refused(await scene.with_key(text, method, path)) == (403, "FORBIDDEN"), path
    assert (await scene.request("GET", OF_PLATFORM, by=other)).ok()["total"] == 1
    assert (await scene.request("GET", KEYS)).ok()["total"] == 0
    assert refused(await scene.request("DELETE", f"{KEYS}/{key}")) == (404, "NOT_FOUND")
    scene.people.change("update users set is_platform_owner = false where id = %s", governor.user)
    assert await scene.opens(text, "/api/platform/organizations") == 403
    adopted = (await scene.request("POST", f"{OF_PLATFORM}/{key}/adopt", by=other)).ok()
    scene.log.remember(adopted["key"])
    assert (adopted["adopted_by"], adopted["maker_email"], adopted["maker_is_here"]) == (str(other.user), governor.email, False)
    # Whoever made it knows the former secret, and governs no more.
    assert await scene.opens(text, "/api/platform/organizations") == 401
    text = adopted["key"]
    assert await scene.opens(text, "/api/platform/organizations") == 200
    assert (await scene.request("GET", f"{OF_PLATFORM}/{key}", by=other)).ok()["id"] == key
    assert (await scene.request("DELETE", f"{OF_PLATFORM}/{key}", by=other)).status == 204
    assert refused(await scene.request("DELETE", f"{OF_PLATFORM}/{key}", by=other)) == (404, "NOT_FOUND")
    assert refused(await scene.with_key(text, "GET", "/api/platform/organizations")) == (401, "UNAUTHORIZED")
    told = [one["action"] for one in scene.audited("platform.management_key%")]
    assert told == [f"platform.management_key.{what}" for what in ("created", "adopted", "ended")]


async def test_who_leaves_office_at_this_moment_makes_no_key_of_the_platform(scene: KeyScene, emptied_database_url: str) -> None:
    governor, answers = scene.people.add(platform_owner=True), list[Received]()

    async def ask() -> None:
        answers.append(await scene.make("people.view", by=governor, place=OF_PLATFORM))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select pg_advisory_xact_lock(%s, %s)", (NAMESPACE, PLATFORM_OWNERS))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await scene.people.somebody_waits()
            other.execute("update users set is_platform_owner = false where id = %s", (governor.user,))
            other.commit()
    assert refused(answers[0]) == (403, "FORBIDDEN")
    assert scene.people.rows("select from management_keys") == []


@pytest.mark.parametrize("loss", ["is_platform_owner = false", "deactivated_at = now()"])
async def test_who_has_left_office_meanwhile_makes_no_key_of_the_platform(
    scene: KeyScene, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    governor = scene.people.add(platform_owner=True)
    leave = f"update users set {loss} where id = %s"
    meanwhile(monkeypatch, PlatformOwnerRows, "hold", lambda: scene.people.change(leave, governor.user))
    assert refused(await scene.make("people.view", by=governor, place=OF_PLATFORM)) == (403, "FORBIDDEN")
    assert scene.people.rows("select from management_keys") == []
    assert scene.audited("platform.management_key%") == []


async def test_what_a_key_of_the_platform_does_is_told_under_its_name(scene: KeyScene) -> None:
    governor = scene.people.add(platform_owner=True)
    key, text = await scene.key(*map(str, PlatformCapability), by=governor, place=OF_PLATFORM)
    suspended = f"/api/platform/organizations/{scene.acme.id}/suspend"
    assert (await scene.with_key(text, "POST", suspended, {"reason": "Unpaid"})).status == 200
    (entry,) = scene.audited("organization.suspended")
    assert str(entry["actor_id"]) == key


async def test_a_key_of_another_organization_is_not_found(scene: KeyScene) -> None:
    key, text = await scene.key()
    stranger = scene.resident(scene.globex, "owner")
    for method, path in (("GET", ""), ("DELETE", "?end_made=true"), ("POST", "/adopt")):
        answer = await scene.request(method, f"/api/organizations/globex/management-keys/{key}{path}", by=stranger)
        assert refused(answer) == (404, "NOT_FOUND")
    assert await scene.opens(text) == 200


async def test_one_key_cannot_take_all_of_the_process(
    client: Client, postern: Postern, people: People, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = KeyScene(postern, people, client, log)
    monkeypatch.setattr(callers, "MANAGEMENT_KEYS", RateLimit("management_keys", burst=2, seconds_per_request=1000))
    (_, first), (_, second) = await scene.key(), await scene.key()
    assert [await scene.opens(first) for _ in range(3)] == [200, 200, 429]
    assert await scene.opens(second) == 200


async def test_its_last_use_is_marked(scene: KeyScene, postern: Postern) -> None:
    _, text = await scene.key()
    await scene.opens(text)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.tenancy.management_key_presence.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while scene.people.rows("select from management_keys where last_used_at is not null") == []:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def round_trips(scene: KeyScene, by: Collection[str], path: str, method: str = "GET") -> list[int]:
    counted = []
    for token in by:
        for _ in ("warm", "measured"):
            scene.log.entries.clear()
            answer = await scene.with_key(token, method, path)
            assert answer.status < 300, answer.body
        (line,) = scene.log.events("request")
        counted.append(line["db_round_trips"])
    return counted


async def test_a_key_costs_as_many_round_trips_as_a_person(scene: KeyScene) -> None:
    _, text = await scene.key("services.view", "services.manage")
    person = await scene.tenants.token(scene.owner)
    assert await round_trips(scene, (text, person), f"{ACME}/services") == [2, 2]
    # One more to look, while the organization is held, what the key may do at that moment.
    assert await round_trips(scene, (text,), f"{SHOP}/client-secrets", "POST") == [6]


async def test_the_export_of_its_maker_names_it(scene: KeyScene) -> None:
    made = (await scene.make(by=scene.admin)).ok(201)
    exports = [
        (await scene.request("GET", f"/api/privacy/export/{scene.admin.user}", by=asker)).ok() for asker in (scene.admin, scene.owner)
    ]
    assert [one["management_keys"] for one in exports] == [
        [{"organization_id": str(scene.acme.id), **{name: made[name] for name in ("name", "prefix", "created_at", "expires_at")}}]
    ] * 2


async def test_expired_keys_go_after_a_month(scene: KeyScene, postern: Postern) -> None:
    for days in (29, 31):
        key, _ = await scene.key()
        past = "update management_keys set name = %s, expires_at = now() - %s * interval '1 day' where id = %s"
        scene.people.change(past, str(days), days, key)
    assert await sweep(postern.foundation.pool, "ExpiredManagementKeys").delete_expired(10) == 1
    assert scene.people.rows("select name from management_keys") == [{"name": "29"}]


async def test_a_key_lets_no_team_of_a_directory_carry_anything(scene: KeyScene) -> None:
    _, key = await scene.key(*(one.value for one in Capability if one is not Capability.CONNECTIONS_MANAGE))
    for slug in ("crew", "staff"):
        (await scene.with_key(key, "POST", f"{ACME}/teams", {"slug": slug, "name": slug})).ok(201)
    (await scene.with_key(key, "POST", f"{SHOP}/roles", {"slug": "editor", "name": "Editor"})).ok(201)
    scene.people.change("update teams set source = 'directory' where slug = 'staff'")
    for slug, statuses in (("crew", (200, 201)), ("staff", (403, 403))):
        carried = await scene.with_key(key, "PATCH", f"{ACME}/teams/{slug}", {"role": "member"})
        assigned = await scene.with_key(key, "POST", f"{SHOP}/assignments", {"role": "editor", "team": slug})
        assert (carried.status, assigned.status) == statuses
    # A key writes values of people, as far as its capabilities go.
    (await scene.with_key(key, "POST", f"{ACME}/profile-fields", {"key": "desk", "label": "Desk", "kind": "text"})).ok(201)
    values = f"{ACME}/users/{scene.admin.user}/profile"
    assert (await scene.with_key(key, "PATCH", values, {"values": {"desk": "12"}})).ok()["values"] == {"desk": "12"}
    _, poor = await scene.key("services.view")
    assert {
        (await scene.with_key(poor, method, values, {"values": {}} if method == "PATCH" else None)).status for method in ("GET", "PATCH")
    } == {403}

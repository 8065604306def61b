"""Impersonation: the people who may, its duration, the refused requests, and its audit entries."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import IMPERSONATION
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.machinery.limited import until_refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.http.test_authorization import OWN

REASON = "Ticket 4711: sees an empty list"
Body = dict[str, Any]


class ImpersonationScene(Cast):
    """A platform owner and a user."""

    audited_columns = "id, action, actor_id, impersonator_id, organization_id, target_id, details, success, host(address) as address"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.people.add("owner@example.org", platform_owner=True)
        self.user = self.people.add("Ada@example.org")

    async def impersonate(self, user: UUID | str | None = None, *, token: str | None = None, **body: Any) -> Received:
        answer = await self.client.post(
            f"/api/platform/impersonate/{user or self.user.user}",
            {"reason": REASON, **body},
            token=token or await self.people.token(self.owner),
        )
        if answer.status == 200:
            self.log.remember(answer.json()["access_token"], answer.json()["refresh_token"])
        return answer

    async def begin(self, **body: Any) -> Body:
        return (await self.impersonate(**body)).ok()

    async def refresh(self, token: str) -> Received:
        answer = await self.client.post("/api/auth/refresh", {"refresh_token": token})
        if answer.status == 200:
            self.log.remember(answer.json()["access_token"], answer.json()["refresh_token"])
        return answer

    def organization(self, slug: str, status: str = "active", *, member: bool = True) -> UUID:
        tenant = self.tenants.add(slug, status=status)
        if member:
            self.tenants.join(self.user, tenant)
        return tenant.id


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> ImpersonationScene:
    return ImpersonationScene(postern, people, unlimited(postern), log)


def claims(token: str) -> Body:
    payload = token.split(".")[1]
    said: Body = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return said


async def test_a_platform_owner_acts_as_a_user_for_an_hour_and_on_record(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    assert set(begun) == {"access_token", "refresh_token", "impersonated_user", "session_id", "expires_at", "audit_log_id"}
    assert begun["impersonated_user"] == {"id": str(scene.user.user), "email": "Ada@example.org"}
    left = datetime.fromisoformat(begun["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)

    said = claims(begun["access_token"])
    assert said["sub"] == str(scene.user.user)
    assert said["token_use"] == "impersonation"
    assert said["impersonator"] == str(scene.owner.user)
    assert said["act"] == {"sub": str(scene.owner.user)}
    assert said["impersonation_session"] == begun["session_id"]
    assert said["is_platform_owner"] is False

    profile = await scene.client.get("/api/user", token=begun["access_token"])
    told = profile.json()
    assert (told["id"], told["email"], told["org"], told["service"]) == (str(scene.user.user), "Ada@example.org", "", "")

    (entry,) = scene.audited("security.impersonation.started")
    assert str(entry["id"]) == begun["audit_log_id"]
    assert (entry["actor_id"], entry["impersonator_id"], entry["target_id"]) == (scene.owner.user, None, str(scene.user.user))
    assert (entry["details"]["reason"], entry["details"]["impersonation_session"]) == (REASON, begun["session_id"])
    # Text about a person is kept in a table from which it can be deleted.
    (kept,) = scene.people.rows("select details from audit_entries where action = 'security.impersonation.started'")
    assert set(kept["details"]) == {"impersonation_session", "expires_at"}
    assert entry["address"] == "192.0.2.1"
    (row,) = scene.people.rows("select id, impersonator_id, user_id, reason from impersonations")
    assert row == {"id": UUID(begun["session_id"]), "impersonator_id": scene.owner.user, "user_id": scene.user.user, "reason": REASON}
    assert scene.people.rows("select name from events") == [{"name": "security.impersonation.started"}]


async def test_it_does_not_look_as_if_the_user_had_signed_in(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    await scene.client.get("/api/user", token=begun["access_token"])
    for table in ("devices", "login_events", "mfa_events", "preauthentications", "jobs"):
        assert scene.people.rows(f"select * from {table}") == [], table
    (session,) = scene.people.rows("select device_id, authenticated_by from sessions where impersonator_id is not null")
    assert session == {"device_id": None, "authenticated_by": []}


async def test_every_request_in_the_users_name_is_on_record_with_the_impersonator(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    token = begun["access_token"]
    await scene.client.get("/api/user", token=token)
    await scene.client.get("/api/user/devices/0199d3a0-0000-7000-8000-000000000001?x=secret", token=token)
    await scene.client.post("/api/user/change-password", {"current_password": "x", "new_password": "three wet matches"}, token=token)
    await scene.refresh(begun["refresh_token"])
    await scene.client.post("/api/auth/logout", token=token)
    entries = scene.audited()[1:]
    assert [(entry["action"], entry["details"].get("method"), entry["details"].get("path")) for entry in entries] == [
        ("security.impersonation.request", "GET", "/api/user"),
        ("security.impersonation.request", "GET", "/api/user/devices/0199d3a0-0000-7000-8000-000000000001"),
        ("security.impersonation.request", "POST", "/api/user/change-password"),
        ("security.impersonation.request", "POST", "/api/auth/refresh"),
        ("user.logout", None, None),
    ]
    for entry in entries:
        assert (entry["actor_id"], entry["impersonator_id"]) == (scene.user.user, scene.owner.user)
        assert entry["address"] == "192.0.2.1"


async def test_what_is_done_in_the_users_name_carries_the_impersonator(scene: ImpersonationScene, postern: Postern) -> None:
    tenants = Tenants(postern, scene.people)
    acme = tenants.add("acme")
    tenants.join(scene.user, acme, "admin")
    member = tenants.member(acme)
    begun = await scene.begin()
    for method, path, body in (("PATCH", "", {"name": "Other"}), ("POST", f"/members/{member.user}", None)):
        answer = await scene.client.request(method, f"/api/organizations/acme{path}", body=body, token=begun["access_token"])
        assert answer.status == 200
    done = [entry for entry in scene.audited() if not entry["action"].startswith("security.impersonation")]
    assert len(done) == 2
    assert all(entry["impersonator_id"] == scene.owner.user for entry in done)
    published = scene.people.rows("select impersonator_id from events where name not like 'security.impersonation%%'")
    assert all(event["impersonator_id"] == scene.owner.user for event in published)


async def test_what_is_the_persons_own_affair_is_refused_and_changes_nothing(scene: ImpersonationScene) -> None:
    token = (await scene.begin())["access_token"]
    before = scene.people.rows("select * from users"), scene.people.rows("select * from mfa_secrets")
    for one in scene.client.application.endpoints:
        if str(one) in OWN:
            path = one.path.replace("{device_id}", str(uuid4()))
            answer = await scene.client.request(one.method, path, body=None if one.body_type is None else {}, token=token)
            assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), one
            assert "impersonating" in answer.json()["error"]
    assert (scene.people.rows("select * from users"), scene.people.rows("select * from mfa_secrets")) == before


KEPT = ("api_keys", "client_secrets", "invitations", "memberships", "roles", "relations", "all_organizations")


async def test_nothing_that_outlives_it_is_made_or_given_while_impersonating(scene: ImpersonationScene, postern: Postern) -> None:
    """The impersonated owner may make all these requests, and does so afterwards, so the requests themselves are good."""
    tenants = Tenants(postern, scene.people)
    acme = tenants.add("acme")
    tenants.join(scene.user, acme, "owner")
    tenants.service(acme, "app")
    friend, role = tenants.member(acme), tenants.role(acme, "clerk", [])
    here = "/api/organizations/acme"
    own = await scene.people.token(scene.user)
    invited = await scene.client.post(f"{here}/invitations", {"email": "bob@example.org", "role": "admin"}, token=own)
    tries: list[tuple[str, str, Any, int]] = [
        ("POST", f"{here}/services/app/api-keys", {"name": "x", "permissions": ["read:users"]}, 201),
        ("POST", f"{here}/services/app/client-secrets", None, 201),
        ("POST", f"{here}/invitations", {"email": "eve@example.org", "role": "admin"}, 200),
        ("POST", f"{here}/invitations", {"email": "fay@example.org", "role": "member"}, 200),
        ("POST", f"{here}/invitations/{invited.json()['invitation']['id']}/accept", None, 200),
        ("POST", f"{here}/roles", {"slug": "eves", "name": "Eve's", "permissions": ["org.roles.manage"]}, 201),
        ("PATCH", f"{here}/roles/{role.id}", {"permissions": ["org.members.manage"]}, 200),
        ("PATCH", f"{here}/members/{friend.user}", {"role": "admin"}, 200),
        ("POST", f"{here}/transfer-ownership", {"new_owner_user_id": str(friend.user)}, 200),
        ("DELETE", here, None, 204),
    ]
    before = {table: scene.people.rows(f"select * from {table} order by 1") for table in KEPT}
    for context in ({}, {"org_slug": "acme"}):
        token = (await scene.begin(**context))["access_token"]
        for method, path, body, _ in tries:
            answer = await scene.client.request(method, path, body=body, token=token)
            assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), (method, path)
            assert "impersonating" in answer.json()["error"], (method, path)
    assert {table: scene.people.rows(f"select * from {table} order by 1") for table in KEPT} == before
    for method, path, body, status in tries[:-1]:
        answer = await scene.client.request(method, path, body=body, token=own)
        assert answer.status == status, (method, path, answer.body)


async def test_access_and_refresh_token_end_together(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    end = datetime.fromisoformat(begun["expires_at"])
    assert claims(begun["access_token"])["exp"] == int(end.timestamp())
    refreshed = (await scene.refresh(begun["refresh_token"])).json()
    assert claims(refreshed["access_token"])["exp"] == int(end.timestamp())
    assert claims(refreshed["access_token"])["impersonator"] == str(scene.owner.user)
    # The end in the database decides, not the one in the token.
    scene.people.change("update sessions set ends_at = now() where impersonator_id is not null")
    assert (await scene.client.get("/api/user", token=refreshed["access_token"])).status == 401
    assert (await scene.refresh(refreshed["refresh_token"])).status == 401
    with_old_clock = await scene.people.token(
        replace(scene.user, session=scene.people.rows("select id from sessions where impersonator_id is not null")[0]["id"]),
        at=end - timedelta(hours=2),
        token_use="impersonation",
        impersonator=str(scene.owner.user),
    )
    assert (await scene.client.get("/api/user", token=with_old_clock)).error_code == "TOKEN_EXPIRED"


async def test_the_session_ends_with_the_impersonators_office_account_or_sessions(scene: ImpersonationScene, postern: Postern) -> None:
    async def revoke() -> None:
        async with postern.foundation.unit_of_work() as uow:
            await uow.sessions.revoke_all(scene.owner.user, but=scene.owner.session)  # type: ignore[arg-type]  # plain ids
            await uow.commit()

    for statement in ("is_platform_owner = false", "deactivated_at = now()", ""):
        begun = await scene.begin()
        assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 200
        if statement:
            scene.people.change(f"update users set {statement} where id = %s", scene.owner.user)
        else:
            await revoke()
        assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401, statement
        assert (await scene.refresh(begun["refresh_token"])).status == 401, statement
        scene.people.change("update users set is_platform_owner = true, deactivated_at = null where id = %s", scene.owner.user)


@pytest.mark.parametrize("how", ["device revoked", "refresh token stolen"])
async def test_the_session_ends_when_what_it_was_begun_from_is_found_stolen(scene: ImpersonationScene, how: str) -> None:
    thief = replace(scene.owner, session=uuid4())
    device, old, new = uuid4(), Token("old" * 12), Token("new" * 12)
    change = scene.people.change
    change(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (%s, %s, 'Laptop', 'browser', now(), now(), now())",
        device,
        scene.owner.user,
    )
    change(
        "insert into sessions (id, user_id, device_id, created_at, last_seen_at, expires_at)"
        " values (%s, %s, %s, now(), now(), now() + interval '1 day')",
        thief.session,
        scene.owner.user,
        device,
    )
    for refresh, rotated in ((old, "now() - interval '1 minute', 'x'"), (new, "null, null")):
        change(
            f"insert into refresh_tokens (digest, session_id, created_at, rotated_at, rotated_by) values (%s, %s, now(), {rotated})",
            refresh.digest(),
            thief.session,
        )
    begun = await scene.begin(token=await scene.people.token(thief))
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 200
    if how == "device revoked":
        token = await scene.people.token(scene.owner)
        assert (await scene.client.request("DELETE", f"/api/user/devices/{device}", token=token)).status == 200
    else:
        assert (await scene.refresh(old.reveal())).status == 401
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401
    assert (await scene.refresh(begun["refresh_token"])).status == 401
    assert (await scene.client.get("/api/user", token=await scene.people.token(scene.owner))).status == 200


async def test_the_session_ends_when_its_user_comes_to_own_the_platform(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    scene.people.change("update users set is_platform_owner = true where id = %s", scene.user.user)
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401
    assert (await scene.refresh(begun["refresh_token"])).status == 401


async def test_who_cannot_be_impersonated(scene: ImpersonationScene) -> None:
    other = scene.people.add("other@example.org", platform_owner=True)
    gone = scene.people.add("gone@example.org")
    scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    for user, status, code, says in (
        (other.user, 400, "BAD_REQUEST", "platform owner"),
        (scene.owner.user, 400, "BAD_REQUEST", "platform owner"),
        (gone.user, 400, "BAD_REQUEST", "deactivated"),
        (scene.user.session, 404, "NOT_FOUND", "no such user"),
        ("not-an-id", 404, "NOT_FOUND", ""),
    ):
        answer = await scene.impersonate(user)
        assert (answer.status, answer.error_code) == (status, code), user
        assert says in answer.json()["error"]
    assert scene.people.rows("select * from impersonations") == []
    assert scene.audited() == []
    assert scene.people.rows("select count(*) as n from sessions") == [{"n": 4}]


async def test_only_a_platform_owner_in_their_own_name_may(scene: ImpersonationScene) -> None:
    assert (await scene.impersonate(token=await scene.people.token(scene.user))).status == 403
    begun = await scene.begin()
    again = await scene.impersonate(scene.people.add("third@example.org").user, token=begun["access_token"])
    assert (again.status, again.error_code) == (403, "FORBIDDEN")
    assert (await scene.client.post(f"/api/platform/impersonate/{scene.user.user}", {"reason": REASON})).status == 401
    assert len(scene.people.rows("select * from impersonations")) == 1


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (None, "reason"),
        (5, "reason"),
        ("", "reason: must not be empty"),
        (" \t\n\u3000", "reason: must not be empty"),
        ("x" * 501, "at most 500"),
        ("a\0b", "NUL"),
    ],
)
async def test_a_reason_is_required(scene: ImpersonationScene, reason: object, says: str) -> None:
    body = {} if reason is None else {"reason": reason}
    answer = await scene.client.post(f"/api/platform/impersonate/{scene.user.user}", body, token=await scene.people.token(scene.owner))
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert says in answer.json()["error"]
    assert scene.people.rows("select * from impersonations") == []


@pytest.mark.parametrize(
    "raw", [b'{"reason": "\\ud800"}', b'{"reason": "\xff"}', b"[]", b"{", b'{"reason": "x", "reason": "y", "org_slug": 1}']
)
async def test_what_is_no_request_is_none(scene: ImpersonationScene, raw: bytes) -> None:
    answer = await scene.client.post(f"/api/platform/impersonate/{scene.user.user}", raw, token=await scene.people.token(scene.owner))
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_a_reason_is_kept_as_one_line(scene: ImpersonationScene) -> None:
    await scene.begin(reason="  <b>Ticket</b>\r\n4711\u2028'; drop table users --  ")
    (entry,) = scene.audited()
    assert entry["details"]["reason"] == "<b>Ticket</b> 4711 '; drop table users --"


async def test_an_organization_of_the_users_can_be_named(scene: ImpersonationScene) -> None:
    organization = scene.organization("acme")
    begun = await scene.begin(org_slug="acme", service_slug=None)
    said = claims(begun["access_token"])
    assert (said["org"], said["aud"]) == ("acme", "org:acme")
    profile = await scene.client.get("/api/user", token=begun["access_token"])
    assert profile.json()["org"] == "acme"
    assert [entry["organization_id"] for entry in scene.audited()] == [organization, organization]
    scene.people.change("delete from memberships")
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 403


async def test_a_request_about_an_organization_is_on_its_own_record(scene: ImpersonationScene) -> None:
    """The session may be in another organization or in none. The request's own organization sees the impersonator in its log."""
    acme = scene.organization("acme")
    begun = await scene.begin()
    for path, status in (("/api/organizations/acme/members", 200), ("/api/organizations/acme/audit-log", 403), ("/api/user", 200)):
        assert (await scene.client.get(path, token=begun["access_token"])).status == status
    assert [entry["organization_id"] for entry in scene.audited("%.request")] == [acme, acme, None]


async def test_a_request_that_is_refused_at_the_door_is_on_record_too(scene: ImpersonationScene) -> None:
    """Otherwise an impersonator could probe in the person's name, unrecorded. An organization that is not concerned gets no entry."""
    theirs = scene.organization("theirs", member=False)
    mine = scene.organization("mine")
    platform, inside = (await scene.begin())["access_token"], (await scene.begin(org_slug="mine"))["access_token"]
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", mine)
    asked = [
        (platform, "/api/organizations/theirs", 403, None),
        (platform, "/api/organizations/nowhere", 404, None),
        (inside, "/api/organizations/theirs", 403, mine),
        (inside, "/api/subscription", 403, mine),
        (inside, "/api/organizations/mine/members", 403, mine),
    ]
    for token, path, status, _ in asked:
        assert (await scene.client.get(path, token=token)).status == status, path
    entries = scene.audited("%.request")
    assert [(entry["details"]["path"], entry["organization_id"]) for entry in entries] == [(path, log) for _, path, _, log in asked]
    assert theirs not in {entry["organization_id"] for entry in scene.audited()}


async def test_an_organization_that_is_not_the_users_or_not_active_is_refused(scene: ImpersonationScene) -> None:
    scene.organization("theirs", member=False)
    scene.organization("halted", "suspended")
    scene.organization("mine")
    for body, status, code in (
        ({"org_slug": "theirs"}, 400, "BAD_REQUEST"),
        ({"org_slug": "nowhere"}, 400, "BAD_REQUEST"),
        ({"org_slug": "MINE"}, 400, "BAD_REQUEST"),
        ({"org_slug": "x" * 10_000}, 400, "BAD_REQUEST"),
        ({"org_slug": "halted"}, 403, "ORGANIZATION_NOT_ACTIVE"),
    ):
        answer = await scene.impersonate(**body)
        assert (answer.status, answer.error_code) == (status, code), body
    assert scene.people.rows("select * from impersonations") == []


class Mall(ImpersonationScene):
    """Acme with a shop that the user uses, and an app that only others use; globex, suspended, with a shop that the user uses."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme = self.tenants.add("acme")
        self.shop, self.app = self.tenants.service(self.acme, "shop"), self.tenants.service(self.acme, "app")
        self.closed = self.tenants.service(self.tenants.add("globex", status="suspended"), "shop")
        for service in (self.shop, self.closed):
            self.tenants.uses(self.user, service)
        self.tenants.uses(self.people.add(), self.app)


@pytest.fixture
def mall(postern: Postern, people: People, log: CapturedLog) -> Mall:
    return Mall(postern, people, unlimited(postern), log)


async def test_a_service_that_the_user_uses_can_be_named_and_is_seen_as_they_see_it(mall: Mall) -> None:
    mall.people.change(
        "with plan as (insert into plans (id, service_id, name, price_cents, currency, features, created_at, updated_at)"
        "              values (gen_random_uuid(), %s, 'Pro', 900, 'usd', '{export}', now(), now()) returning id, service_id)"
        " insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)"
        " select gen_random_uuid(), service_id, %s, id, 'active', now() + interval '1 day', now(), now() from plan",
        mall.shop.id,
        mall.user.user,
    )
    before = mall.people.rows("select * from service_users order by service_id")
    begun = await mall.begin(org_slug="acme", service_slug="shop")
    for token in (begun["access_token"], (await mall.refresh(begun["refresh_token"])).json()["access_token"]):
        said = claims(token)
        assert (said["aud"], said["org"], said["service"]) == ("service:acme/shop", "acme", "shop")
        assert (said["org_id"], said["service_id"]) == (str(mall.shop.tenant.id), str(mall.shop.id))
        assert (said["plan"], said["features"], said["subscription_status"]) == ("Pro", ["export"], "active")
        assert (said["token_use"], said["impersonator"]) == ("impersonation", str(mall.owner.user))
    profile = await mall.client.get("/api/user", token=begun["access_token"])
    assert (profile.json()["org"], profile.json()["service"]) == ("acme", "shop")
    assert mall.log.events("request")[0]["db_round_trips"] == 3
    # No record looks as if the person had been there.
    assert mall.people.rows("select * from service_users order by service_id") == before
    assert mall.people.rows("select * from login_events") == []
    entries = mall.audited()
    assert [entry["action"] for entry in entries] == [
        "security.impersonation.started",
        "security.impersonation.request",
        "security.impersonation.request",
    ]
    assert {entry["organization_id"] for entry in entries} == {mall.acme.id}
    assert entries[0]["details"]["service_id"] == str(mall.shop.id)
    mall.people.change("update all_services set deleted_at = now() where id = %s", mall.shop.id)
    assert (await mall.client.get("/api/user", token=begun["access_token"])).status == 401


async def test_a_service_that_the_user_does_not_use_is_refused_whether_there_is_one_or_not(mall: Mall) -> None:
    # A member of the organization is not thereby a user of its services.
    mall.tenants.join(mall.user, mall.acme, "admin")
    refusals = set()
    for body in (
        {"org_slug": "acme", "service_slug": "app"},
        {"org_slug": "acme", "service_slug": "none"},
        {"org_slug": "nowhere", "service_slug": "shop"},
        {"org_slug": "acme", "service_slug": "SHOP"},
    ):
        answer = await mall.impersonate(**body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), body
        refusals.add(answer.json()["error"])
    assert refusals == {"The user does not use that service"}
    answer = await mall.impersonate(service_slug="shop")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    answer = await mall.impersonate(org_slug="globex", service_slug="shop")
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    mall.people.change("update all_services set deleted_at = now()")
    answer = await mall.impersonate(org_slug="acme", service_slug="shop")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert mall.people.rows("select * from impersonations") == []
    assert mall.audited() == []


async def test_a_service_whose_row_is_on_its_way_out_is_waited_for(mall: Mall, database_url: str) -> None:
    answers: list[Received] = []

    async def impersonate() -> None:
        answers.append(await mall.impersonate(org_slug="acme", service_slug="shop"))

    with psycopg.connect(database_url) as connection:
        connection.execute("delete from all_services where slug = 'shop'")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(impersonate)
            await mall.people.somebody_waits()
            connection.commit()
    assert [answer.status for answer in answers] == [400]
    assert mall.people.rows("select * from impersonations") == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("update users set is_platform_owner = true where email = 'Ada@example.org'", 400),
        ("update users set deactivated_at = now() where email = 'Ada@example.org'", 400),
        (
            """with held as (select id from users where email = 'owner@example.org' for no key update)
             update sessions set revoked_at = now() from held where user_id = held.id""",
            401,
        ),
    ],
    ids=["promoted", "deactivated", "signed out everywhere"],
)
async def test_what_changes_at_this_moment_is_waited_for(scene: ImpersonationScene, database_url: str, change: str, status: int) -> None:
    answers: list[Received] = []

    async def impersonate() -> None:
        answers.append(await scene.impersonate())

    with psycopg.connect(database_url) as connection:
        connection.execute(change.encode())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(impersonate)
            await scene.people.somebody_waits()
            assert not answers, "it did not wait"
            connection.commit()
    assert answers[0].status == status
    assert scene.people.rows("select * from impersonations") == []


async def test_platform_owners_who_try_each_other_at_once_do_not_wait_for_each_other(scene: ImpersonationScene) -> None:
    other = scene.people.add("other@example.org", platform_owner=True)
    tokens = {one.user: await scene.people.token(one) for one in (scene.owner, other)}
    statuses = []

    async def impersonate(who: Person, whom: Person) -> None:
        statuses.append((await scene.impersonate(whom.user, token=tokens[who.user])).status)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(impersonate, scene.owner, other)
            nursery.start_soon(impersonate, other, scene.owner)
    assert statuses == [400] * 20


async def test_several_at_once_have_a_session_each(scene: ImpersonationScene) -> None:
    begun: list[Body] = []

    async def impersonate() -> None:
        begun.append(await scene.begin())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(impersonate)
    assert len({one["session_id"] for one in begun}) == 10
    assert len(scene.audited("security.impersonation.started")) == 10


async def test_it_stands_under_its_limit(scene: ImpersonationScene, postern: Postern) -> None:
    scene.client = unlimited(postern, SETTINGS)
    statuses, refused = await until_refused(IMPERSONATION, scene.impersonate)
    assert set(statuses) == {200}
    assert int(refused.header("retry-after") or 0) >= 1


async def test_what_it_costs_in_round_trips(scene: ImpersonationScene) -> None:
    begun = await scene.begin()
    await scene.client.get("/api/user", token=begun["access_token"])
    await scene.client.get("/api/user", token=await scene.people.token(scene.user))
    # The caller, the user, the commit. Each impersonated request takes one more round trip, for its audit entry.
    assert [entry["db_round_trips"] for entry in scene.log.events("request")] == [3, 2, 1]


async def test_while_the_database_is_away_nothing_begins(lonely_client: Client, people: People) -> None:
    answer = await lonely_client.post(
        f"/api/platform/impersonate/{people.add().user}", {"reason": REASON}, token=await people.token(people.add(platform_owner=True))
    )
    assert answer.status == 503

"""Members over HTTP: listed and changed, the effect on their sessions, and changes that nobody may make."""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from core.domain.errors import Forbidden, Unauthorized
from core.domain.identifiers import MembershipId, OrganizationId, UserId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member, Membership
from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person

ACME: Final = "/api/organizations/acme"
MEMBERS: Final = f"{ACME}/members"
CROWD: Final = 50


class MemberScene(Neighbours):
    """Acme with its owner, an admin and a member, and globex with its owner and a member."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.admin, self.member = (self.resident(self.acme, role) for role in ("owner", "admin", "member"))
        self.resident(self.globex, "owner")
        self.stranger = self.resident(self.globex, "member")

    async def listed(self, query: str = "", *, by: Person | None = None) -> Any:
        answer = await self.request("GET", MEMBERS + query, by=by or self.member)
        assert answer.status == 200, answer.body
        return answer.json()

    async def change(self, who: Person, role: str, *, by: Person | None = None) -> Received:
        return await self.request("PATCH", f"{MEMBERS}/{who.user}", {"role": role}, by=by or self.owner)

    async def remove(self, who: Person, *, by: Person | None = None) -> Received:
        return await self.request("POST", f"{MEMBERS}/{who.user}", by=by or self.owner)

    async def transfer(self, to: Person | UUID, *, by: Person | None = None) -> Received:
        user = to if isinstance(to, UUID) else to.user
        return await self.request("POST", f"{ACME}/transfer-ownership", {"new_owner_user_id": str(user)}, by=by or self.owner)

    async def select(self, slug: str = "acme", *, by: Person | None = None) -> Received:
        return await self.request("POST", f"/api/organizations/{slug}/select", by=by or self.member)

    async def resolved(self, who: Person) -> Member:
        """The rights as they are resolved before the handler runs, some time before the handler ends."""
        return await self.postern.tenancy.callers.resolve_member(await self.tenants.token(who), "acme")

    def roles(self) -> dict[str, str]:
        rows = self.people.rows("select email, role from memberships join users on users.id = user_id where org_id = %s", self.acme.id)
        return {row["email"]: row["role"] for row in rows}

    def relations(self, who: Person) -> list[tuple[str, str, UUID]]:
        rows = self.people.rows(
            "select relation, object_type, object_id from relations where user_id = %s and organization_id = %s", who.user, self.acme.id
        )
        return [(row["relation"], row["object_type"], row["object_id"]) for row in rows]

    def living(self, who: Person) -> int:
        """Their sessions in acme itself."""
        (row,) = self.people.rows(
            "select count(*) as n from sessions where user_id = %s and organization_id = %s and service_id is null and revoked_at is null",
            who.user,
            self.acme.id,
        )
        number: int = row["n"]
        return number


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> MemberScene:
    return MemberScene(postern, people, client, log)


FORBIDDEN, BAD_REQUEST, NOT_FOUND = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND")


async def test_the_list_has_everybody_in_the_order_in_which_they_came_and_how_many_there_may_be(scene: MemberScene) -> None:
    scene.people.change("update users set is_platform_owner = true where id = %s", scene.admin.user)
    body = await scene.listed()
    assert [one["user"] for one in body["members"]] == [
        {"id": str(scene.owner.user), "email": "owner@acme.example", "is_platform_owner": False, "name": None},
        {"id": str(scene.admin.user), "email": "admin@acme.example", "is_platform_owner": False, "name": None},
        {"id": str(scene.member.user), "email": "member@acme.example", "is_platform_owner": False, "name": None},
    ]
    assert [one["membership"]["role"] for one in body["members"]] == ["owner", "admin", "member"]
    for one in body["members"]:
        assert set(one["membership"]) == {"id", "role", "created_at"}
        assert datetime.fromisoformat(one["membership"]["created_at"]).tzinfo is not None
    assert body["pagination"] == {"page": 1, "limit": 50, "total": 3}
    assert body["limits"] == {"max_users": 100, "source": "tier"}
    scene.people.change("update organizations set max_users = 7 where id = %s", scene.acme.id)
    assert (await scene.listed())["limits"] == {"max_users": 7, "source": "custom"}


async def test_pages_hang_together_and_one_beyond_the_end_is_empty(scene: MemberScene) -> None:
    for number in range(4):
        scene.tenants.member(scene.acme, email=f"m{number}@acme.example")
    pages = [await scene.listed(f"?limit=3&page={number}") for number in (1, 2, 3, 4)]
    assert [len(page["members"]) for page in pages] == [3, 3, 1, 0]
    seen = [one["user"]["email"] for page in pages for one in page["members"]]
    assert (len(set(seen)), seen[-1]) == (7, "m3@acme.example")
    assert [page["pagination"] for page in pages] == [{"page": number, "limit": 3, "total": 7} for number in (1, 2, 3, 4)]
    assert pages[3]["limits"] == {"max_users": 100, "source": "tier"}


async def test_a_page_that_cannot_be_is_refused(scene: MemberScene) -> None:
    for query in ("?page=0", "?limit=0", "?limit=101", "?page=x", "?page=99999999999999999999", f"?role={'x' * 51}"):
        assert refused(await scene.request("GET", MEMBERS + query, by=scene.member)) == BAD_REQUEST, query


async def test_the_list_of_one_role_has_those_in_it_alone(scene: MemberScene) -> None:
    auditor = scene.tenants.role(scene.acme, "auditor", [Capability.AUDIT_LOGS_VIEW])
    scene.tenants.member(scene.acme, auditor, "auditor@acme.example")
    for role, emails in {
        "owner": ["owner@acme.example"],
        "admin": ["admin@acme.example"],
        "member": ["member@acme.example"],
        "auditor": ["auditor@acme.example"],
        "nothing": [],
        "%": [],
        "": [],
    }.items():
        body = await scene.listed(f"?role={role.replace('%', '%25')}")
        assert [one["user"]["email"] for one in body["members"]] == emails, role
        assert body["pagination"]["total"] == len(emails)
    assert (await scene.listed("?role=member&page=2&limit=1"))["pagination"]["total"] == 1


async def test_only_whoever_may_see_members_sees_them(scene: MemberScene) -> None:
    others = set(Capability) - {Capability.MEMBERS_VIEW, Capability.MEMBERS_MANAGE}
    blind = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "blind", others))
    seeing = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "seeing", [Capability.MEMBERS_VIEW]))
    for who, status in {blind: 403, seeing: 200, scene.member: 200, scene.stranger: 403, scene.people.add(): 403}.items():
        assert (await scene.request("GET", MEMBERS, by=who)).status == status
    assert (await scene.client.get(MEMBERS)).status == 401
    assert refused(await scene.request("GET", "/api/organizations/nothing/members", by=scene.member)) == NOT_FOUND


async def test_a_new_role_counts_from_the_next_request_on_and_is_on_record(scene: MemberScene) -> None:
    assert (await scene.remove(scene.admin, by=scene.member)).status == 403
    answer = await scene.change(scene.member, "admin")
    assert answer.status == 200
    body = answer.json()
    assert body["user"] == {"id": str(scene.member.user), "email": "member@acme.example"}
    assert set(body["membership"]) == {"id", "org_id", "user_id", "role", "created_at"}
    assert (body["membership"]["role"], body["membership"]["org_id"], body["membership"]["user_id"]) == (
        "admin",
        str(scene.acme.id),
        str(scene.member.user),
    )
    assert scene.relations(scene.member) == [("admin", "organization", scene.acme.id)]
    (entry,) = scene.audited()
    assert entry == {
        "action": "user.role_updated",
        "organization_id": scene.acme.id,
        "actor_id": scene.owner.user,
        "target_type": "user",
        "target_id": str(scene.member.user),
        "details": {"old_role": "member", "new_role": "admin", "email": "member@acme.example"},
    }
    assert (await scene.remove(scene.admin, by=scene.member)).status == 200


async def test_giving_the_role_that_they_have_changes_nothing(scene: MemberScene) -> None:
    answer = await scene.change(scene.member, "member")
    assert (answer.status, answer.json()["membership"]["role"]) == (200, "member")
    assert scene.audited() == []


async def test_a_role_of_the_organizations_own_is_given_and_taken(scene: MemberScene) -> None:
    auditor = scene.tenants.role(scene.acme, "auditor", [Capability.AUDIT_LOGS_VIEW])
    keeper = scene.tenants.role(scene.acme, "keeper", [Capability.MEMBERS_VIEW])
    for role, expected, status in (
        ("auditor", ("holder", "role", auditor.id), 403),
        ("keeper", ("holder", "role", keeper.id), 200),
        ("member", ("member", "organization", scene.acme.id), 200),
        ("auditor", ("holder", "role", auditor.id), 403),
    ):
        assert (await scene.change(scene.member, role)).json()["membership"]["role"] == role
        assert scene.relations(scene.member) == [expected]
        assert (await scene.request("GET", MEMBERS, by=scene.member)).status == status
    assert [entry["details"]["new_role"] for entry in scene.audited()] == ["auditor", "keeper", "member", "auditor"]


async def test_what_role_changes_are_refused(scene: MemberScene) -> None:
    scene.tenants.role(scene.globex, "theirs", [])
    for role in ("owner", "theirs", "nothing", "", "Admin", "admin ", "\0", "x" * 3000):
        assert refused(await scene.change(scene.member, role)) == BAD_REQUEST, role
    assert refused(await scene.change(scene.owner, "admin")) == BAD_REQUEST
    for who in (scene.stranger, scene.people.add()):
        assert refused(await scene.change(who, "admin")) == NOT_FOUND
    assert refused(await scene.request("PATCH", f"{MEMBERS}/nobody", {"role": "admin"}, by=scene.owner)) == NOT_FOUND
    bodies: list[Any] = [None, {}, {"role": None}, {"role": 1}, {"role": ["admin"]}, []]
    for body in bodies:
        answer = await scene.request("PATCH", f"{MEMBERS}/{scene.member.user}", body, by=scene.owner)
        assert answer.status in {400, 415}, body
    assert scene.roles() == {"owner@acme.example": "owner", "admin@acme.example": "admin", "member@acme.example": "member"}
    assert scene.audited() == []


async def test_only_the_owner_changes_roles(scene: MemberScene) -> None:
    everything = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "everything", list(Capability)))
    for who in (scene.admin, scene.member, everything, scene.stranger, scene.people.add()):
        for target in (scene.member, scene.admin, scene.owner, who):
            assert refused(await scene.change(target, "admin", by=who)) == FORBIDDEN
    assert scene.audited() == []


async def test_who_is_removed_is_out_with_the_next_request_and_nowhere_else(scene: MemberScene) -> None:
    shop, intranet = scene.tenants.service(scene.acme, "shop"), scene.tenants.service(scene.acme, "intranet")
    scene.tenants.join(scene.member, scene.globex)
    scene.tenants.uses(scene.tenants.uses(scene.member, shop, first=datetime.now(UTC)), intranet)
    here, there = scene.tenants.session(scene.member, scene.acme), scene.tenants.session(scene.member, scene.globex)
    in_shop, in_intranet = scene.tenants.session(scene.member, shop), scene.tenants.session(scene.member, intranet)
    tokens = {
        "here": await scene.tenants.token(here, scene.acme),
        "there": await scene.tenants.token(there, scene.globex),
        "in shop": await scene.tenants.token(in_shop, shop),
        "by the membership alone": await scene.tenants.token(in_intranet, intranet),
        "platform": await scene.tenants.token(scene.member),
    }

    async def statuses() -> dict[str, int]:
        return {name: (await scene.client.get("/api/user", token=token)).status for name, token in tokens.items()}

    assert set((await statuses()).values()) == {200}
    answer = await scene.remove(scene.member, by=scene.admin)
    assert (answer.status, set(answer.json())) == (200, {"message"})
    assert await statuses() == {"here": 403, "there": 200, "in shop": 200, "by the membership alone": 401, "platform": 200}
    assert refused(await scene.request("GET", MEMBERS, by=scene.member)) == FORBIDDEN
    assert (await scene.client.get("/api/organizations/globex/members", token=tokens["there"])).status == 200
    assert "member@acme.example" not in scene.roles()
    assert scene.relations(scene.member) == []
    assert (await scene.listed(by=scene.admin))["pagination"]["total"] == 2
    (entry,) = scene.audited()
    assert (entry["action"], entry["actor_id"], entry["target_id"]) == ("user.removed", scene.admin.user, str(scene.member.user))
    assert entry["details"] == {"role": "member", "email": "member@acme.example"}
    assert refused(await scene.remove(scene.member, by=scene.admin)) == NOT_FOUND


async def test_a_session_of_somebody_who_was_removed_stays_refused_when_they_come_back(scene: MemberScene) -> None:
    in_acme, in_globex, in_shop = scene.acme, scene.globex, scene.tenants.service(scene.acme, "shop")
    scene.tenants.join(scene.member, scene.globex)
    scene.tenants.uses(scene.member, in_shop, first=datetime.now(UTC))
    tokens = [await scene.tenants.token(scene.tenants.session(scene.member, place), place) for place in (in_acme, in_globex, in_shop)]
    assert (await scene.remove(scene.member)).status == 200
    async with scene.postern.foundation.unit_of_work() as uow:
        ids = scene.postern.foundation.ids
        membership = Membership(
            MembershipId(ids.new()),
            OrganizationId(scene.acme.id),
            UserId(scene.member.user),
            "member",
            scene.postern.foundation.clock.now(),
        )
        assert await uow.members.add(membership)
        await uow.commit()
    assert [(await scene.client.get("/api/user", token=token)).status for token in tokens] == [401, 200, 200]
    selected = (await scene.select()).json()["access_token"]
    assert (await scene.client.get(MEMBERS, token=selected)).status == 200


async def test_what_removals_are_refused(scene: MemberScene) -> None:
    assert refused(await scene.remove(scene.admin, by=scene.admin)) == BAD_REQUEST
    assert refused(await scene.remove(scene.owner, by=scene.owner)) == BAD_REQUEST
    assert refused(await scene.remove(scene.owner, by=scene.admin)) == BAD_REQUEST
    for who in (scene.stranger, scene.people.add()):
        assert refused(await scene.remove(who)) == NOT_FOUND
    assert refused(await scene.request("POST", f"{MEMBERS}/nobody", by=scene.owner)) == NOT_FOUND
    for by in (scene.member, scene.stranger, scene.people.add()):
        assert refused(await scene.remove(scene.admin, by=by)) == FORBIDDEN
    assert len(scene.roles()) == 3
    assert scene.audited() == []


async def test_nobody_removes_whoever_may_do_more(scene: MemberScene) -> None:
    manager = scene.tenants.member(
        scene.acme, scene.tenants.role(scene.acme, "manager", {Capability.MEMBERS_MANAGE, *BuiltInRole.MEMBER.capabilities})
    )
    biller = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "biller", [Capability.BILLING_MANAGE]))
    narrow = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "narrow", [Capability.MEMBERS_MANAGE]))
    for target, by in ((scene.admin, manager), (biller, manager), (scene.admin, narrow), (biller, narrow)):
        assert refused(await scene.remove(target, by=by)) == FORBIDDEN
    # The views of a plain member come with managing members.
    assert (await scene.remove(scene.member, by=narrow)).status == 200
    assert (await scene.remove(manager, by=narrow)).status == 200


async def test_the_ownership_goes_over_in_one_piece(scene: MemberScene) -> None:
    auditor = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "auditor", []), "auditor@acme.example")
    answer = await scene.transfer(auditor)
    assert answer.status == 200
    body = answer.json()
    assert body.pop("message")
    assert body == {
        "old_owner": {"user_id": str(scene.owner.user), "new_role": "admin"},
        "new_owner": {"user_id": str(auditor.user), "role": "owner"},
    }
    assert scene.roles() == {
        "owner@acme.example": "admin",
        "admin@acme.example": "admin",
        "member@acme.example": "member",
        "auditor@acme.example": "owner",
    }
    assert scene.relations(scene.owner) == [("admin", "organization", scene.acme.id)]
    assert scene.relations(auditor) == [("owner", "organization", scene.acme.id)]
    (row,) = scene.people.rows("select owner_user_id, updated_at > created_at as touched from organizations where id = %s", scene.acme.id)
    assert row == {"owner_user_id": auditor.user, "touched": True}
    (role_ids,) = scene.people.rows("select count(*) as n from memberships where org_id = %s and role_id is not null", scene.acme.id)
    assert role_ids["n"] == 0
    (entry,) = scene.audited()
    assert (entry["action"], entry["target_type"], entry["target_id"]) == ("organization.owner.changed", "organization", str(scene.acme.id))
    assert entry["details"] == {"old_owner_user_id": str(scene.owner.user), "new_owner_user_id": str(auditor.user)}
    assert [row["name"] for row in scene.people.rows("select name from events")] == ["organization.owner.changed"]
    assert refused(await scene.transfer(scene.admin)) == FORBIDDEN
    assert (await scene.transfer(scene.owner, by=auditor)).status == 200


async def test_what_transfers_are_refused(scene: MemberScene) -> None:
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.admin.user)
    for target in (scene.owner, scene.stranger, scene.people.add(), scene.admin, uuid4()):
        assert refused(await scene.transfer(target)) == BAD_REQUEST
    everything = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "everything", list(Capability)))
    for by in (scene.member, everything, scene.stranger):
        assert refused(await scene.transfer(by, by=by)) == FORBIDDEN
    for body in ({}, {"new_owner_user_id": "x"}, {"new_owner_user_id": None}):
        answer = await scene.request("POST", f"{ACME}/transfer-ownership", body, by=scene.owner)
        assert refused(answer) == BAD_REQUEST
    assert scene.audited() == []


async def test_of_fifty_transfers_at_once_one_takes_place(scene: MemberScene) -> None:
    heirs = [scene.tenants.member(scene.acme) for _ in range(CROWD)]
    answers = await all_at_once(*[lambda heir=heir: scene.transfer(heir) for heir in heirs])
    assert sorted(answer.status for answer in answers) == [200] + [403] * (CROWD - 1)
    owners = [email for email, role in scene.roles().items() if role == "owner"]
    assert len(owners) == 1
    assert len(scene.people.rows("select from relations where organization_id = %s and relation = 'owner'", scene.acme.id)) == 1
    assert [entry["action"] for entry in scene.audited()] == ["organization.owner.changed"]


async def test_of_fifty_removals_at_once_one_takes_place(scene: MemberScene) -> None:
    answers = await all_at_once(*[lambda: scene.remove(scene.member) for _ in range(CROWD)])
    assert sorted(answer.status for answer in answers) == [200] + [404] * (CROWD - 1)
    assert [entry["action"] for entry in scene.audited()] == ["user.removed"]


async def test_of_two_who_remove_each_other_one_stays(scene: MemberScene) -> None:
    for _ in range(20):
        ada, bob = scene.tenants.member(scene.acme, "admin"), scene.tenants.member(scene.acme, "admin")
        answers = await all_at_once(partial(scene.remove, ada, by=bob), partial(scene.remove, bob, by=ada))
        assert sorted(answer.status for answer in answers) == [200, 403]
        assert len({ada.email, bob.email} & set(scene.roles())) == 1


async def test_a_crowd_of_changes_leaves_one_role_and_one_relation(scene: MemberScene) -> None:
    own = scene.tenants.role(scene.acme, "own", [Capability.AUDIT_LOGS_VIEW])
    slugs = ("admin", "member", "own")
    await all_at_once(*[lambda slug=slugs[at % 3]: scene.change(scene.member, slug) for at in range(CROWD)])
    role = scene.roles()["member@acme.example"]
    expected = ("holder", "role", own.id) if role == "own" else (role, "organization", scene.acme.id)
    assert scene.relations(scene.member) == [expected]


async def test_what_was_allowed_when_the_request_came_in_is_asked_once_more(scene: MemberScene) -> None:
    """Two changes cross: the second caller was let in before the first change was committed."""
    owner, admin = await scene.resolved(scene.owner), await scene.resolved(scene.admin)
    members, target = scene.postern.tenancy.members, UserId(scene.member.user)
    assert (await scene.transfer(scene.admin)).status == 200
    for late in (members.transfer_ownership(owner, target, Actor()), members.change_role(owner, target, "admin", Actor())):
        with pytest.raises(Forbidden):
            await late
    assert (await scene.change(scene.owner, "member", by=scene.admin)).status == 200
    with pytest.raises(Forbidden):
        await members.remove(owner, target, Actor())
    assert (await scene.remove(scene.owner, by=scene.admin)).status == 200
    with pytest.raises(Forbidden):
        await members.remove(owner, target, Actor())
    # Once the organization is being deleted, nobody is a member.
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", scene.acme.id)
    with pytest.raises(Forbidden):
        await members.remove(admin, target, Actor())
    assert scene.roles()["member@acme.example"] == "member"


async def test_whose_account_is_deactivated_meanwhile_removes_nobody(scene: MemberScene) -> None:
    admin = await scene.resolved(scene.admin)
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.admin.user)
    with pytest.raises(Unauthorized):
        await scene.postern.tenancy.members.remove(admin, UserId(scene.member.user), Actor())
    assert scene.roles()["member@acme.example"] == "member"


async def test_selecting_opens_a_session_in_the_organization(scene: MemberScene) -> None:
    device = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (%s, %s, 'x', 'cli', now(), now(), now())",
        device,
        scene.member.user,
    )
    end = scene.postern.foundation.clock.now() + timedelta(days=3)
    scene.people.change("update sessions set device_id = %s, ends_at = %s where id = %s", device, end, scene.member.session)
    answer = await scene.select()
    assert answer.status == 200
    body = answer.json()
    assert set(body) == {"user", "membership", "access_token", "refresh_token"}
    assert datetime.fromisoformat(body["user"].pop("created_at")).tzinfo is not None
    assert body["user"] == {"id": str(scene.member.user), "email": "member@acme.example", "is_platform_owner": False}
    assert (body["membership"]["role"], body["membership"]["org_id"]) == ("member", str(scene.acme.id))
    claims = await scene.postern.foundation.token_verifier.verify_access(body["access_token"])
    assert (claims["org"], claims["aud"], claims["amr"], claims["token_use"]) == ("acme", "org:acme", ("pwd",), "access")
    (row,) = scene.people.rows(
        "select device_id, ends_at, expires_at, authenticated_by from sessions where id = %s", UUID(str(claims["sid"]))
    )
    assert row == {"device_id": device, "ends_at": end, "expires_at": end, "authenticated_by": ["pwd"]}
    (entry,) = scene.audited()
    assert (entry["action"], entry["organization_id"], entry["target_id"]) == (
        "security.session.opened",
        scene.acme.id,
        str(scene.member.user),
    )
    assert entry["details"] == {"session_id": claims["sid"]}
    assert (await scene.client.get(MEMBERS, token=body["access_token"])).status == 200
    assert (await scene.client.get("/api/user", token=body["access_token"])).json()["org"] == "acme"
    # The session that it was called with goes on.
    assert (await scene.request("GET", MEMBERS, by=scene.member)).status == 200
    refreshed = await scene.client.post("/api/auth/refresh", {"refresh_token": body["refresh_token"]})
    assert (await scene.client.get(MEMBERS, token=refreshed.json()["access_token"])).status == 200


async def test_a_session_that_a_thief_has_selected_ends_with_the_one_that_was_stolen(scene: MemberScene, client: Client) -> None:
    ada = await scene.people.with_password("a long and quiet afternoon", "ada@example.org")
    scene.tenants.join(ada, scene.acme)
    login = {"email": ada.email, "password": "a long and quiet afternoon"}
    stolen = (await client.post("/api/auth/login", login, headers=[("user-agent", "curl/8")])).json()
    elsewhere = (await client.post("/api/auth/login", login, headers=[("user-agent", "Mozilla/5.0 Firefox/133.0")])).json()
    selected = (await client.post(f"{ACME}/select", token=stolen["access_token"])).json()
    assert (await client.get(MEMBERS, token=selected["access_token"])).status == 200
    assert (await client.post("/api/auth/refresh", {"refresh_token": stolen["refresh_token"]})).status == 200
    scene.people.change("update refresh_tokens set rotated_at = rotated_at - interval '1 hour' where rotated_at is not null")
    assert (await client.post("/api/auth/refresh", {"refresh_token": stolen["refresh_token"]})).status == 401
    tokens = (stolen["access_token"], selected["access_token"], elsewhere["access_token"])
    assert [(await client.get("/api/user", token=token)).status for token in tokens] == [401, 401, 200]
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 401


async def test_a_selected_session_without_a_device_is_carried_on_and_ends_when_its_token_comes_twice(
    scene: MemberScene, client: Client
) -> None:
    selected = (await scene.select()).json()
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 200
    scene.people.change("update refresh_tokens set rotated_at = rotated_at - interval '1 hour' where rotated_at is not null")
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 401
    assert scene.living(scene.member) == 0
    assert (await scene.request("GET", MEMBERS, by=scene.member)).status == 200


async def test_selecting_works_from_another_organization_even_one_that_is_suspended(scene: MemberScene) -> None:
    scene.tenants.join(scene.member, scene.globex)
    there = scene.tenants.session(scene.member, scene.globex)
    scene.people.change("update organizations set status = 'suspended' where id = %s", scene.globex.id)
    answer = await scene.client.post(f"{ACME}/select", token=await scene.tenants.token(there, scene.globex))
    assert answer.status == 200
    assert (await scene.client.get(MEMBERS, token=answer.json()["access_token"])).status == 200


async def test_what_selections_are_refused(scene: MemberScene) -> None:
    shop = scene.tenants.service(scene.acme, "shop")
    assert refused(await scene.select("nothing")) == NOT_FOUND
    assert refused(await scene.select("globex")) == FORBIDDEN
    assert refused(await scene.select(by=scene.stranger)) == FORBIDDEN
    in_shop = await scene.tenants.token_in(scene.member, shop)
    assert refused(await scene.client.post(f"{ACME}/select", token=in_shop)) == FORBIDDEN
    assert (await scene.client.post(f"{ACME}/select")).status == 401
    for status in ("pending", "suspended", "rejected"):
        scene.people.change("update organizations set status = %s where id = %s", status, scene.acme.id)
        assert refused(await scene.select()) == (403, "ORGANIZATION_NOT_ACTIVE")
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", scene.acme.id)
    assert refused(await scene.select()) == NOT_FOUND
    assert scene.living(scene.member) == 0
    assert scene.audited() == []


async def test_nobody_selects_in_anothers_name(scene: MemberScene) -> None:
    platform = scene.people.add(platform_owner=True)
    session = scene.tenants.session(scene.member)
    scene.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", platform.user, uuid4(), session.session
    )
    token = await scene.tenants.token(session, token_use="impersonation", impersonator=str(platform.user))
    assert refused(await scene.client.post(f"{ACME}/select", token=token)) == FORBIDDEN
    assert scene.living(scene.member) == 0


async def test_a_session_that_ended_meanwhile_opens_no_other(scene: MemberScene) -> None:
    caller = (await scene.resolved(scene.member)).caller
    scene.people.change("update sessions set revoked_at = now() where id = %s", scene.member.session)
    with pytest.raises(Unauthorized):
        await scene.postern.tenancy.members.select(caller, "acme", Actor())
    assert scene.living(scene.member) == 0


async def test_who_was_removed_gets_403_until_the_session_itself_ends(scene: MemberScene) -> None:
    selected = (await scene.select()).json()
    token, refresh_token = selected["access_token"], selected["refresh_token"]
    assert (await scene.remove(scene.member, by=scene.admin)).status == 200
    for _ in range(2):
        assert refused(await scene.client.get("/api/user", token=token)) == FORBIDDEN
        assert refused(await scene.client.post("/api/auth/refresh", {"refresh_token": refresh_token})) == FORBIDDEN
        assert refused(await scene.client.post(f"{ACME}/select", token=token)) == FORBIDDEN
        assert refused(await scene.client.get(MEMBERS, token=token)) == FORBIDDEN
        assert refused(await scene.client.get("/api/user/devices", token=token)) == FORBIDDEN
    scene.people.change("update sessions set revoked_at = now() where organization_id = %s", scene.acme.id)
    assert (await scene.client.get("/api/user", token=token)).status == 401
    assert (await scene.client.post("/api/auth/refresh", {"refresh_token": refresh_token})).status == 401


async def test_a_removal_refuses_what_is_selected_at_the_same_time(scene: MemberScene) -> None:
    for _ in range(5):
        leaver = scene.tenants.member(scene.acme)
        # Also from the organization itself: both requests need the session and the membership.
        token = await scene.tenants.token_in(leaver, scene.acme)
        calls = [partial(scene.select, by=leaver), partial(scene.client.post, f"{ACME}/select", token=token)] * 6
        answers = await all_at_once(*calls[:6], partial(scene.remove, leaver), *calls[6:])
        assert {answer.status for answer in answers} <= {200, 403}
        assert refused(await scene.client.get("/api/user", token=token)) == FORBIDDEN
        opened = [body["access_token"] for answer in answers if answer.status == 200 and "access_token" in (body := answer.json())]
        for selected in opened:
            assert refused(await scene.client.get("/api/user", token=selected)) == FORBIDDEN


async def test_signing_the_others_out_ends_what_they_are_selecting_at_the_same_time(scene: MemberScene) -> None:
    for _ in range(5):
        thief = scene.tenants.session(scene.member)
        caller = (await scene.resolved(scene.member)).caller
        sign_out = partial(scene.postern.identity.sessions.sign_out_others, caller.user, caller.session, Actor(caller.user))
        async with trio.open_nursery() as nursery:
            for at in range(12):
                if at == 6:
                    nursery.start_soon(sign_out)
                nursery.start_soon(partial(scene.select, by=thief))
        assert scene.living(scene.member) == 0


async def test_revoking_a_device_ends_what_is_selected_on_it_at_the_same_time(scene: MemberScene) -> None:
    for _ in range(5):
        device = scene.postern.foundation.ids.new()
        scene.people.change(
            "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
            " values (%s, %s, 'x', 'cli', now(), now(), now())",
            device,
            scene.member.user,
        )
        thief = scene.tenants.session(scene.member)
        scene.people.change("update sessions set device_id = %s where id = %s", device, thief.session)
        revoke = partial(scene.request, "DELETE", f"/api/user/devices/{device}", by=scene.member)
        calls = [partial(scene.select, by=thief)] * 12
        answers = await all_at_once(*calls[:6], revoke, *calls[6:])
        assert {answer.status for answer in answers} <= {200, 401}
        assert scene.living(scene.member) == 0


# With the caller's own question.
ROUND_TRIPS: Final = {"list": 2, "list of a role": 2, "change": 5, "select": 4, "remove": 4, "transfer": 5}


async def test_round_trips(scene: MemberScene) -> None:
    scene.tenants.role(scene.acme, "own", [])
    measured: dict[str, int] = {}

    async def measure(name: str, call: Awaitable[Received]) -> None:
        scene.log.entries.clear()
        assert (await call).status == 200
        (line,) = scene.log.events("request")
        measured[name] = line["db_round_trips"]

    owner = scene.owner
    for _ in ("warm", "measured"):
        leaver, heir = scene.tenants.member(scene.acme), scene.tenants.member(scene.acme)
        await measure("list", scene.request("GET", MEMBERS, by=owner))
        await measure("list of a role", scene.request("GET", f"{MEMBERS}?role=member", by=owner))
        await measure("change", scene.change(leaver, "own", by=owner))
        await measure("select", scene.select(by=leaver))
        await measure("remove", scene.remove(leaver, by=owner))
        await measure("transfer", scene.transfer(heir, by=owner))
        # The first act of a new owner confirms the ownership, which is one more.
        scene.people.change("update ownerships set confirmed_at = now()")
        owner = heir
    assert measured == ROUND_TRIPS


async def test_one_member_with_what_the_organization_may_see_of_them(scene: MemberScene) -> None:
    scene.people.change("update users set name = 'Mary Member' where id = %s", scene.member.user)
    scene.tenants.session(scene.member, scene.acme)
    scene.tenants.session(scene.member, scene.tenants.add("initech"))
    seen = await scene.request("GET", f"/api/organizations/acme/members/{scene.member.user}", by=scene.admin)
    assert seen.status == 200
    body = seen.json()
    assert body["user"] == {"id": str(scene.member.user), "email": "member@acme.example", "is_platform_owner": False, "name": "Mary Member"}
    assert (body["mfa_enabled"], body["has_devices"], body["teams"]) == (False, False, [])
    # Only the session here counts.
    assert body["active_sessions"] == scene.living(scene.member)
    # Whom the organization has only listed tells it nothing.
    scene.people.change("update memberships set own_since = null where user_id = %s", scene.member.user)
    body = (await scene.request("GET", f"/api/organizations/acme/members/{scene.member.user}", by=scene.admin)).json()
    assert (body["user"]["name"], body["mfa_enabled"], body["has_devices"], body["own_since"]) == (None, None, None, None)
    stranger = scene.people.add()
    assert (await scene.request("GET", f"/api/organizations/acme/members/{stranger.user}", by=scene.admin)).status == 404

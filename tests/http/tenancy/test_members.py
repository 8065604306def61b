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
def house(postern: Postern, people: People, client: Client, log: CapturedLog) -> MemberScene:
    return MemberScene(postern, people, client, log)


FORBIDDEN, BAD_REQUEST, NOT_FOUND = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND")


async def test_the_list_has_everybody_in_the_order_in_which_they_came_and_how_many_there_may_be(house: MemberScene) -> None:
    house.people.change("update users set is_platform_owner = true where id = %s", house.admin.user)
    body = await house.listed()
    assert [one["user"] for one in body["members"]] == [
        {"id": str(house.owner.user), "email": "owner@acme.example", "is_platform_owner": False, "name": None},
        {"id": str(house.admin.user), "email": "admin@acme.example", "is_platform_owner": False, "name": None},
        {"id": str(house.member.user), "email": "member@acme.example", "is_platform_owner": False, "name": None},
    ]
    assert [one["membership"]["role"] for one in body["members"]] == ["owner", "admin", "member"]
    for one in body["members"]:
        assert set(one["membership"]) == {"id", "role", "created_at"}
        assert datetime.fromisoformat(one["membership"]["created_at"]).tzinfo is not None
    assert body["pagination"] == {"page": 1, "limit": 50, "total": 3}
    assert body["limits"] == {"max_users": 100, "source": "tier"}
    house.people.change("update organizations set max_users = 7 where id = %s", house.acme.id)
    assert (await house.listed())["limits"] == {"max_users": 7, "source": "custom"}


async def test_pages_hang_together_and_one_beyond_the_end_is_empty(house: MemberScene) -> None:
    for number in range(4):
        house.tenants.member(house.acme, email=f"m{number}@acme.example")
    pages = [await house.listed(f"?limit=3&page={number}") for number in (1, 2, 3, 4)]
    assert [len(page["members"]) for page in pages] == [3, 3, 1, 0]
    seen = [one["user"]["email"] for page in pages for one in page["members"]]
    assert (len(set(seen)), seen[-1]) == (7, "m3@acme.example")
    assert [page["pagination"] for page in pages] == [{"page": number, "limit": 3, "total": 7} for number in (1, 2, 3, 4)]
    assert pages[3]["limits"] == {"max_users": 100, "source": "tier"}


async def test_a_page_that_cannot_be_is_refused(house: MemberScene) -> None:
    for query in ("?page=0", "?limit=0", "?limit=101", "?page=x", "?page=99999999999999999999", f"?role={'x' * 51}"):
        assert refused(await house.request("GET", MEMBERS + query, by=house.member)) == BAD_REQUEST, query


async def test_the_list_of_one_role_has_those_in_it_alone(house: MemberScene) -> None:
    auditor = house.tenants.role(house.acme, "auditor", [Capability.AUDIT_LOGS_VIEW])
    house.tenants.member(house.acme, auditor, "auditor@acme.example")
    for role, emails in {
        "owner": ["owner@acme.example"],
        "admin": ["admin@acme.example"],
        "member": ["member@acme.example"],
        "auditor": ["auditor@acme.example"],
        "nothing": [],
        "%": [],
        "": [],
    }.items():
        body = await house.listed(f"?role={role.replace('%', '%25')}")
        assert [one["user"]["email"] for one in body["members"]] == emails, role
        assert body["pagination"]["total"] == len(emails)
    assert (await house.listed("?role=member&page=2&limit=1"))["pagination"]["total"] == 1


async def test_only_whoever_may_see_members_sees_them(house: MemberScene) -> None:
    others = set(Capability) - {Capability.MEMBERS_VIEW, Capability.MEMBERS_MANAGE}
    blind = house.tenants.member(house.acme, house.tenants.role(house.acme, "blind", others))
    seeing = house.tenants.member(house.acme, house.tenants.role(house.acme, "seeing", [Capability.MEMBERS_VIEW]))
    for who, status in {blind: 403, seeing: 200, house.member: 200, house.stranger: 403, house.people.add(): 403}.items():
        assert (await house.request("GET", MEMBERS, by=who)).status == status
    assert (await house.client.get(MEMBERS)).status == 401
    assert refused(await house.request("GET", "/api/organizations/nothing/members", by=house.member)) == NOT_FOUND


async def test_a_new_role_counts_from_the_next_request_on_and_is_on_record(house: MemberScene) -> None:
    assert (await house.remove(house.admin, by=house.member)).status == 403
    answer = await house.change(house.member, "admin")
    assert answer.status == 200
    body = answer.json()
    assert body["user"] == {"id": str(house.member.user), "email": "member@acme.example"}
    assert set(body["membership"]) == {"id", "org_id", "user_id", "role", "created_at"}
    assert (body["membership"]["role"], body["membership"]["org_id"], body["membership"]["user_id"]) == (
        "admin",
        str(house.acme.id),
        str(house.member.user),
    )
    assert house.relations(house.member) == [("admin", "organization", house.acme.id)]
    (entry,) = house.audited()
    assert entry == {
        "action": "user.role_updated",
        "organization_id": house.acme.id,
        "actor_id": house.owner.user,
        "target_type": "user",
        "target_id": str(house.member.user),
        "details": {"old_role": "member", "new_role": "admin", "email": "member@acme.example"},
    }
    assert (await house.remove(house.admin, by=house.member)).status == 200


async def test_giving_the_role_that_they_have_changes_nothing(house: MemberScene) -> None:
    answer = await house.change(house.member, "member")
    assert (answer.status, answer.json()["membership"]["role"]) == (200, "member")
    assert house.audited() == []


async def test_a_role_of_the_organizations_own_is_given_and_taken(house: MemberScene) -> None:
    auditor = house.tenants.role(house.acme, "auditor", [Capability.AUDIT_LOGS_VIEW])
    keeper = house.tenants.role(house.acme, "keeper", [Capability.MEMBERS_VIEW])
    for role, expected, status in (
        ("auditor", ("holder", "role", auditor.id), 403),
        ("keeper", ("holder", "role", keeper.id), 200),
        ("member", ("member", "organization", house.acme.id), 200),
        ("auditor", ("holder", "role", auditor.id), 403),
    ):
        assert (await house.change(house.member, role)).json()["membership"]["role"] == role
        assert house.relations(house.member) == [expected]
        assert (await house.request("GET", MEMBERS, by=house.member)).status == status
    assert [entry["details"]["new_role"] for entry in house.audited()] == ["auditor", "keeper", "member", "auditor"]


async def test_what_role_changes_are_refused(house: MemberScene) -> None:
    house.tenants.role(house.globex, "theirs", [])
    for role in ("owner", "theirs", "nothing", "", "Admin", "admin ", "\0", "x" * 3000):
        assert refused(await house.change(house.member, role)) == BAD_REQUEST, role
    assert refused(await house.change(house.owner, "admin")) == BAD_REQUEST
    for who in (house.stranger, house.people.add()):
        assert refused(await house.change(who, "admin")) == NOT_FOUND
    assert refused(await house.request("PATCH", f"{MEMBERS}/nobody", {"role": "admin"}, by=house.owner)) == NOT_FOUND
    bodies: list[Any] = [None, {}, {"role": None}, {"role": 1}, {"role": ["admin"]}, []]
    for body in bodies:
        answer = await house.request("PATCH", f"{MEMBERS}/{house.member.user}", body, by=house.owner)
        assert answer.status in {400, 415}, body
    assert house.roles() == {"owner@acme.example": "owner", "admin@acme.example": "admin", "member@acme.example": "member"}
    assert house.audited() == []


async def test_only_the_owner_changes_roles(house: MemberScene) -> None:
    everything = house.tenants.member(house.acme, house.tenants.role(house.acme, "everything", list(Capability)))
    for who in (house.admin, house.member, everything, house.stranger, house.people.add()):
        for target in (house.member, house.admin, house.owner, who):
            assert refused(await house.change(target, "admin", by=who)) == FORBIDDEN
    assert house.audited() == []


async def test_who_is_removed_is_out_with_the_next_request_and_nowhere_else(house: MemberScene) -> None:
    shop, intranet = house.tenants.service(house.acme, "shop"), house.tenants.service(house.acme, "intranet")
    house.tenants.join(house.member, house.globex)
    house.tenants.uses(house.tenants.uses(house.member, shop, first=datetime.now(UTC)), intranet)
    here, there = house.tenants.session(house.member, house.acme), house.tenants.session(house.member, house.globex)
    in_shop, in_intranet = house.tenants.session(house.member, shop), house.tenants.session(house.member, intranet)
    tokens = {
        "here": await house.tenants.token(here, house.acme),
        "there": await house.tenants.token(there, house.globex),
        "in shop": await house.tenants.token(in_shop, shop),
        "by the membership alone": await house.tenants.token(in_intranet, intranet),
        "platform": await house.tenants.token(house.member),
    }

    async def statuses() -> dict[str, int]:
        return {name: (await house.client.get("/api/user", token=token)).status for name, token in tokens.items()}

    assert set((await statuses()).values()) == {200}
    answer = await house.remove(house.member, by=house.admin)
    assert (answer.status, set(answer.json())) == (200, {"message"})
    assert await statuses() == {"here": 403, "there": 200, "in shop": 200, "by the membership alone": 401, "platform": 200}
    assert refused(await house.request("GET", MEMBERS, by=house.member)) == FORBIDDEN
    assert (await house.client.get("/api/organizations/globex/members", token=tokens["there"])).status == 200
    assert "member@acme.example" not in house.roles()
    assert house.relations(house.member) == []
    assert (await house.listed(by=house.admin))["pagination"]["total"] == 2
    (entry,) = house.audited()
    assert (entry["action"], entry["actor_id"], entry["target_id"]) == ("user.removed", house.admin.user, str(house.member.user))
    assert entry["details"] == {"role": "member", "email": "member@acme.example"}
    assert refused(await house.remove(house.member, by=house.admin)) == NOT_FOUND


async def test_a_session_of_somebody_who_was_removed_stays_refused_when_they_come_back(house: MemberScene) -> None:
    in_acme, in_globex, in_shop = house.acme, house.globex, house.tenants.service(house.acme, "shop")
    house.tenants.join(house.member, house.globex)
    house.tenants.uses(house.member, in_shop, first=datetime.now(UTC))
    tokens = [await house.tenants.token(house.tenants.session(house.member, place), place) for place in (in_acme, in_globex, in_shop)]
    assert (await house.remove(house.member)).status == 200
    async with house.postern.foundation.unit_of_work() as uow:
        ids = house.postern.foundation.ids
        membership = Membership(
            MembershipId(ids.new()),
            OrganizationId(house.acme.id),
            UserId(house.member.user),
            "member",
            house.postern.foundation.clock.now(),
        )
        assert await uow.members.add(membership)
        await uow.commit()
    assert [(await house.client.get("/api/user", token=token)).status for token in tokens] == [401, 200, 200]
    selected = (await house.select()).json()["access_token"]
    assert (await house.client.get(MEMBERS, token=selected)).status == 200


async def test_what_removals_are_refused(house: MemberScene) -> None:
    assert refused(await house.remove(house.admin, by=house.admin)) == BAD_REQUEST
    assert refused(await house.remove(house.owner, by=house.owner)) == BAD_REQUEST
    assert refused(await house.remove(house.owner, by=house.admin)) == BAD_REQUEST
    for who in (house.stranger, house.people.add()):
        assert refused(await house.remove(who)) == NOT_FOUND
    assert refused(await house.request("POST", f"{MEMBERS}/nobody", by=house.owner)) == NOT_FOUND
    for by in (house.member, house.stranger, house.people.add()):
        assert refused(await house.remove(house.admin, by=by)) == FORBIDDEN
    assert len(house.roles()) == 3
    assert house.audited() == []


async def test_nobody_removes_whoever_may_do_more(house: MemberScene) -> None:
    manager = house.tenants.member(
        house.acme, house.tenants.role(house.acme, "manager", {Capability.MEMBERS_MANAGE, *BuiltInRole.MEMBER.capabilities})
    )
    biller = house.tenants.member(house.acme, house.tenants.role(house.acme, "biller", [Capability.BILLING_MANAGE]))
    narrow = house.tenants.member(house.acme, house.tenants.role(house.acme, "narrow", [Capability.MEMBERS_MANAGE]))
    for target, by in ((house.admin, manager), (biller, manager), (house.admin, narrow), (biller, narrow)):
        assert refused(await house.remove(target, by=by)) == FORBIDDEN
    # The views of a plain member come with managing members.
    assert (await house.remove(house.member, by=narrow)).status == 200
    assert (await house.remove(manager, by=narrow)).status == 200


async def test_the_ownership_goes_over_in_one_piece(house: MemberScene) -> None:
    auditor = house.tenants.member(house.acme, house.tenants.role(house.acme, "auditor", []), "auditor@acme.example")
    answer = await house.transfer(auditor)
    assert answer.status == 200
    body = answer.json()
    assert body.pop("message")
    assert body == {
        "old_owner": {"user_id": str(house.owner.user), "new_role": "admin"},
        "new_owner": {"user_id": str(auditor.user), "role": "owner"},
    }
    assert house.roles() == {
        "owner@acme.example": "admin",
        "admin@acme.example": "admin",
        "member@acme.example": "member",
        "auditor@acme.example": "owner",
    }
    assert house.relations(house.owner) == [("admin", "organization", house.acme.id)]
    assert house.relations(auditor) == [("owner", "organization", house.acme.id)]
    (row,) = house.people.rows("select owner_user_id, updated_at > created_at as touched from organizations where id = %s", house.acme.id)
    assert row == {"owner_user_id": auditor.user, "touched": True}
    (role_ids,) = house.people.rows("select count(*) as n from memberships where org_id = %s and role_id is not null", house.acme.id)
    assert role_ids["n"] == 0
    (entry,) = house.audited()
    assert (entry["action"], entry["target_type"], entry["target_id"]) == ("organization.owner.changed", "organization", str(house.acme.id))
    assert entry["details"] == {"old_owner_user_id": str(house.owner.user), "new_owner_user_id": str(auditor.user)}
    assert [row["name"] for row in house.people.rows("select name from events")] == ["organization.owner.changed"]
    assert refused(await house.transfer(house.admin)) == FORBIDDEN
    assert (await house.transfer(house.owner, by=auditor)).status == 200


async def test_what_transfers_are_refused(house: MemberScene) -> None:
    house.people.change("update users set deactivated_at = now() where id = %s", house.admin.user)
    for target in (house.owner, house.stranger, house.people.add(), house.admin, uuid4()):
        assert refused(await house.transfer(target)) == BAD_REQUEST
    everything = house.tenants.member(house.acme, house.tenants.role(house.acme, "everything", list(Capability)))
    for by in (house.member, everything, house.stranger):
        assert refused(await house.transfer(by, by=by)) == FORBIDDEN
    for body in ({}, {"new_owner_user_id": "x"}, {"new_owner_user_id": None}):
        answer = await house.request("POST", f"{ACME}/transfer-ownership", body, by=house.owner)
        assert refused(answer) == BAD_REQUEST
    assert house.audited() == []


async def test_of_fifty_transfers_at_once_one_takes_place(house: MemberScene) -> None:
    heirs = [house.tenants.member(house.acme) for _ in range(CROWD)]
    answers = await all_at_once(*[lambda heir=heir: house.transfer(heir) for heir in heirs])
    assert sorted(answer.status for answer in answers) == [200] + [403] * (CROWD - 1)
    owners = [email for email, role in house.roles().items() if role == "owner"]
    assert len(owners) == 1
    assert len(house.people.rows("select from relations where organization_id = %s and relation = 'owner'", house.acme.id)) == 1
    assert [entry["action"] for entry in house.audited()] == ["organization.owner.changed"]


async def test_of_fifty_removals_at_once_one_takes_place(house: MemberScene) -> None:
    answers = await all_at_once(*[lambda: house.remove(house.member) for _ in range(CROWD)])
    assert sorted(answer.status for answer in answers) == [200] + [404] * (CROWD - 1)
    assert [entry["action"] for entry in house.audited()] == ["user.removed"]


async def test_of_two_who_remove_each_other_one_stays(house: MemberScene) -> None:
    for _ in range(20):
        ada, bob = house.tenants.member(house.acme, "admin"), house.tenants.member(house.acme, "admin")
        answers = await all_at_once(partial(house.remove, ada, by=bob), partial(house.remove, bob, by=ada))
        assert sorted(answer.status for answer in answers) == [200, 403]
        assert len({ada.email, bob.email} & set(house.roles())) == 1


async def test_a_crowd_of_changes_leaves_one_role_and_one_relation(house: MemberScene) -> None:
    own = house.tenants.role(house.acme, "own", [Capability.AUDIT_LOGS_VIEW])
    slugs = ("admin", "member", "own")
    await all_at_once(*[lambda slug=slugs[at % 3]: house.change(house.member, slug) for at in range(CROWD)])
    role = house.roles()["member@acme.example"]
    expected = ("holder", "role", own.id) if role == "own" else (role, "organization", house.acme.id)
    assert house.relations(house.member) == [expected]


async def test_what_was_allowed_when_the_request_came_in_is_asked_once_more(house: MemberScene) -> None:
    """Two changes cross: the second caller was let in before the first change was committed."""
    owner, admin = await house.resolved(house.owner), await house.resolved(house.admin)
    members, target = house.postern.tenancy.members, UserId(house.member.user)
    assert (await house.transfer(house.admin)).status == 200
    for late in (members.transfer_ownership(owner, target, Actor()), members.change_role(owner, target, "admin", Actor())):
        with pytest.raises(Forbidden):
            await late
    assert (await house.change(house.owner, "member", by=house.admin)).status == 200
    with pytest.raises(Forbidden):
        await members.remove(owner, target, Actor())
    assert (await house.remove(house.owner, by=house.admin)).status == 200
    with pytest.raises(Forbidden):
        await members.remove(owner, target, Actor())
    # Once the organization is being deleted, nobody is a member.
    house.people.change("update all_organizations set deleted_at = now() where id = %s", house.acme.id)
    with pytest.raises(Forbidden):
        await members.remove(admin, target, Actor())
    assert house.roles()["member@acme.example"] == "member"


async def test_selecting_opens_a_session_in_the_organization(house: MemberScene) -> None:
    device = house.postern.foundation.ids.new()
    house.people.change(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (%s, %s, 'x', 'cli', now(), now(), now())",
        device,
        house.member.user,
    )
    end = house.postern.foundation.clock.now() + timedelta(days=3)
    house.people.change("update sessions set device_id = %s, ends_at = %s where id = %s", device, end, house.member.session)
    answer = await house.select()
    assert answer.status == 200
    body = answer.json()
    assert set(body) == {"user", "membership", "access_token", "refresh_token"}
    assert datetime.fromisoformat(body["user"].pop("created_at")).tzinfo is not None
    assert body["user"] == {"id": str(house.member.user), "email": "member@acme.example", "is_platform_owner": False}
    assert (body["membership"]["role"], body["membership"]["org_id"]) == ("member", str(house.acme.id))
    claims = await house.postern.foundation.token_verifier.verify_access(body["access_token"])
    assert (claims["org"], claims["aud"], claims["amr"], claims["token_use"]) == ("acme", "org:acme", ("pwd",), "access")
    (row,) = house.people.rows(
        "select device_id, ends_at, expires_at, authenticated_by from sessions where id = %s", UUID(str(claims["sid"]))
    )
    assert row == {"device_id": device, "ends_at": end, "expires_at": end, "authenticated_by": ["pwd"]}
    (entry,) = house.audited()
    assert (entry["action"], entry["organization_id"], entry["target_id"]) == (
        "security.session.opened",
        house.acme.id,
        str(house.member.user),
    )
    assert entry["details"] == {"session_id": claims["sid"]}
    assert (await house.client.get(MEMBERS, token=body["access_token"])).status == 200
    assert (await house.client.get("/api/user", token=body["access_token"])).json()["org"] == "acme"
    # The session that it was called with goes on.
    assert (await house.request("GET", MEMBERS, by=house.member)).status == 200
    refreshed = await house.client.post("/api/auth/refresh", {"refresh_token": body["refresh_token"]})
    assert (await house.client.get(MEMBERS, token=refreshed.json()["access_token"])).status == 200


async def test_a_session_that_a_thief_has_selected_ends_with_the_one_that_was_stolen(house: MemberScene, client: Client) -> None:
    ada = await house.people.with_password("a long and quiet afternoon", "ada@example.org")
    house.tenants.join(ada, house.acme)
    login = {"email": ada.email, "password": "a long and quiet afternoon"}
    stolen = (await client.post("/api/auth/login", login, headers=[("user-agent", "curl/8")])).json()
    elsewhere = (await client.post("/api/auth/login", login, headers=[("user-agent", "Mozilla/5.0 Firefox/133.0")])).json()
    selected = (await client.post(f"{ACME}/select", token=stolen["access_token"])).json()
    assert (await client.get(MEMBERS, token=selected["access_token"])).status == 200
    assert (await client.post("/api/auth/refresh", {"refresh_token": stolen["refresh_token"]})).status == 200
    house.people.change("update refresh_tokens set rotated_at = rotated_at - interval '1 hour' where rotated_at is not null")
    assert (await client.post("/api/auth/refresh", {"refresh_token": stolen["refresh_token"]})).status == 401
    tokens = (stolen["access_token"], selected["access_token"], elsewhere["access_token"])
    assert [(await client.get("/api/user", token=token)).status for token in tokens] == [401, 401, 200]
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 401


async def test_a_selected_session_without_a_device_is_carried_on_and_ends_when_its_token_comes_twice(
    house: MemberScene, client: Client
) -> None:
    selected = (await house.select()).json()
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 200
    house.people.change("update refresh_tokens set rotated_at = rotated_at - interval '1 hour' where rotated_at is not null")
    assert (await client.post("/api/auth/refresh", {"refresh_token": selected["refresh_token"]})).status == 401
    assert house.living(house.member) == 0
    assert (await house.request("GET", MEMBERS, by=house.member)).status == 200


async def test_selecting_works_from_another_organization_even_one_that_is_suspended(house: MemberScene) -> None:
    house.tenants.join(house.member, house.globex)
    there = house.tenants.session(house.member, house.globex)
    house.people.change("update organizations set status = 'suspended' where id = %s", house.globex.id)
    answer = await house.client.post(f"{ACME}/select", token=await house.tenants.token(there, house.globex))
    assert answer.status == 200
    assert (await house.client.get(MEMBERS, token=answer.json()["access_token"])).status == 200


async def test_what_selections_are_refused(house: MemberScene) -> None:
    shop = house.tenants.service(house.acme, "shop")
    assert refused(await house.select("nothing")) == NOT_FOUND
    assert refused(await house.select("globex")) == FORBIDDEN
    assert refused(await house.select(by=house.stranger)) == FORBIDDEN
    in_shop = await house.tenants.token_in(house.member, shop)
    assert refused(await house.client.post(f"{ACME}/select", token=in_shop)) == FORBIDDEN
    assert (await house.client.post(f"{ACME}/select")).status == 401
    for status in ("pending", "suspended", "rejected"):
        house.people.change("update organizations set status = %s where id = %s", status, house.acme.id)
        assert refused(await house.select()) == (403, "ORGANIZATION_NOT_ACTIVE")
    house.people.change("update all_organizations set deleted_at = now() where id = %s", house.acme.id)
    assert refused(await house.select()) == NOT_FOUND
    assert house.living(house.member) == 0
    assert house.audited() == []


async def test_nobody_selects_in_anothers_name(house: MemberScene) -> None:
    platform = house.people.add(platform_owner=True)
    session = house.tenants.session(house.member)
    house.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", platform.user, uuid4(), session.session
    )
    token = await house.tenants.token(session, token_use="impersonation", impersonator=str(platform.user))
    assert refused(await house.client.post(f"{ACME}/select", token=token)) == FORBIDDEN
    assert house.living(house.member) == 0


async def test_a_session_that_ended_meanwhile_opens_no_other(house: MemberScene) -> None:
    caller = (await house.resolved(house.member)).caller
    house.people.change("update sessions set revoked_at = now() where id = %s", house.member.session)
    with pytest.raises(Unauthorized):
        await house.postern.tenancy.members.select(caller, "acme", Actor())
    assert house.living(house.member) == 0


async def test_who_was_removed_gets_403_until_the_session_itself_ends(house: MemberScene) -> None:
    selected = (await house.select()).json()
    token, refresh_token = selected["access_token"], selected["refresh_token"]
    assert (await house.remove(house.member, by=house.admin)).status == 200
    for _ in range(2):
        assert refused(await house.client.get("/api/user", token=token)) == FORBIDDEN
        assert refused(await house.client.post("/api/auth/refresh", {"refresh_token": refresh_token})) == FORBIDDEN
        assert refused(await house.client.post(f"{ACME}/select", token=token)) == FORBIDDEN
        assert refused(await house.client.get(MEMBERS, token=token)) == FORBIDDEN
        assert refused(await house.client.get("/api/user/devices", token=token)) == FORBIDDEN
    house.people.change("update sessions set revoked_at = now() where organization_id = %s", house.acme.id)
    assert (await house.client.get("/api/user", token=token)).status == 401
    assert (await house.client.post("/api/auth/refresh", {"refresh_token": refresh_token})).status == 401


async def test_a_removal_refuses_what_is_selected_at_the_same_time(house: MemberScene) -> None:
    for _ in range(5):
        leaver = house.tenants.member(house.acme)
        # Also from the organization itself: both requests need the session and the membership.
        token = await house.tenants.token_in(leaver, house.acme)
        calls = [partial(house.select, by=leaver), partial(house.client.post, f"{ACME}/select", token=token)] * 6
        answers = await all_at_once(*calls[:6], partial(house.remove, leaver), *calls[6:])
        assert {answer.status for answer in answers} <= {200, 403}
        assert refused(await house.client.get("/api/user", token=token)) == FORBIDDEN
        opened = [body["access_token"] for answer in answers if answer.status == 200 and "access_token" in (body := answer.json())]
        for selected in opened:
            assert refused(await house.client.get("/api/user", token=selected)) == FORBIDDEN


async def test_signing_the_others_out_ends_what_they_are_selecting_at_the_same_time(house: MemberScene) -> None:
    for _ in range(5):
        thief = house.tenants.session(house.member)
        caller = (await house.resolved(house.member)).caller
        sign_out = partial(house.postern.identity.sessions.sign_out_others, caller.user, caller.session, Actor(caller.user))
        async with trio.open_nursery() as nursery:
            for at in range(12):
                if at == 6:
                    nursery.start_soon(sign_out)
                nursery.start_soon(partial(house.select, by=thief))
        assert house.living(house.member) == 0


async def test_revoking_a_device_ends_what_is_selected_on_it_at_the_same_time(house: MemberScene) -> None:
    for _ in range(5):
        device = house.postern.foundation.ids.new()
        house.people.change(
            "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
            " values (%s, %s, 'x', 'cli', now(), now(), now())",
            device,
            house.member.user,
        )
        thief = house.tenants.session(house.member)
        house.people.change("update sessions set device_id = %s where id = %s", device, thief.session)
        revoke = partial(house.request, "DELETE", f"/api/user/devices/{device}", by=house.member)
        calls = [partial(house.select, by=thief)] * 12
        answers = await all_at_once(*calls[:6], revoke, *calls[6:])
        assert {answer.status for answer in answers} <= {200, 401}
        assert house.living(house.member) == 0


# With the caller's own question.
ROUND_TRIPS: Final = {"list": 2, "list of a role": 2, "change": 5, "select": 4, "remove": 4, "transfer": 5}


async def test_round_trips(house: MemberScene) -> None:
    house.tenants.role(house.acme, "own", [])
    measured: dict[str, int] = {}

    async def measure(name: str, call: Awaitable[Received]) -> None:
        house.log.entries.clear()
        assert (await call).status == 200
        (line,) = house.log.events("request")
        measured[name] = line["db_round_trips"]

    owner = house.owner
    for _ in ("warm", "measured"):
        leaver, heir = house.tenants.member(house.acme), house.tenants.member(house.acme)
        await measure("list", house.request("GET", MEMBERS, by=owner))
        await measure("list of a role", house.request("GET", f"{MEMBERS}?role=member", by=owner))
        await measure("change", house.change(leaver, "own", by=owner))
        await measure("select", house.select(by=leaver))
        await measure("remove", house.remove(leaver, by=owner))
        await measure("transfer", house.transfer(heir, by=owner))
        # The first act of a new owner confirms the ownership, which is one more.
        house.people.change("update ownerships set confirmed_at = now()")
        owner = heir
    assert measured == ROUND_TRIPS


async def test_one_member_with_what_the_organization_may_see_of_them(house: MemberScene) -> None:
    house.people.change("update users set name = 'Mary Member' where id = %s", house.member.user)
    house.tenants.session(house.member, house.acme)
    house.tenants.session(house.member, house.tenants.add("initech"))
    seen = await house.request("GET", f"/api/organizations/acme/members/{house.member.user}", by=house.admin)
    assert seen.status == 200
    body = seen.json()
    assert body["user"] == {"id": str(house.member.user), "email": "member@acme.example", "is_platform_owner": False, "name": "Mary Member"}
    assert (body["mfa_enabled"], body["has_devices"], body["teams"]) == (False, False, [])
    # Only the session here counts.
    assert body["active_sessions"] == house.living(house.member)
    # Whom the organization has only listed tells it nothing.
    house.people.change("update memberships set own_since = null where user_id = %s", house.member.user)
    body = (await house.request("GET", f"/api/organizations/acme/members/{house.member.user}", by=house.admin)).json()
    assert (body["user"]["name"], body["mfa_enabled"], body["has_devices"], body["own_since"]) == (None, None, None, None)
    stranger = house.people.add()
    assert (await house.request("GET", f"/api/organizations/acme/members/{stranger.user}", by=house.admin)).status == 404

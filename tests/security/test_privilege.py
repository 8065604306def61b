"""Privilege: nobody gets more rights in an organization than they were given, by any route; the owner stays the owner."""

from collections.abc import Mapping
from typing import Any

import pytest

from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people

ACME = "/api/organizations/acme"
# This person may manage people and roles, and has otherwise the rights of a member.
STEWARD = (*sorted(BuiltInRole.MEMBER.capabilities), Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE)


class PrivilegeScene(Cast):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme = self.tenants.add("acme")
        self.steward_role = self.tenants.role(self.acme, "steward", STEWARD)
        roles = ("owner", "admin", self.steward_role, "member")
        self.owner, self.admin, self.steward, self.member = (self.resident(self.acme, role) for role in roles)

    async def ask(self, by: Person, method: str, path: str, body: Any = None) -> Received:
        return await self.request(method, ACME + path, body, by=by)

    def standing(self) -> Mapping[str, Any]:
        """The roles of the people, and the permissions of the roles."""
        return {
            "memberships": self.people.rows("select user_id, role, role_id from memberships order by user_id"),
            "relations": self.people.rows("select * from relations order by user_id, role_id, relation, object_id"),
            "owner": self.people.rows("select owner_user_id from organizations"),
            "invitations": self.people.rows("select email, role, status from invitations order by id"),
        }


@pytest.fixture
def house(postern: Postern, people: People, log: CapturedLog) -> PrivilegeScene:
    return PrivilegeScene(postern, people, unlimited(postern), log)


async def test_a_role_is_no_ladder(house: PrivilegeScene) -> None:
    """The caller may manage people and roles, and tries every request that would turn this right into more."""
    mighty = house.tenants.role(house.acme, "mighty", list(Capability))
    invited = await house.ask(house.owner, "POST", "/invitations", {"email": "mighty@acme.example", "role": "mighty"})
    invitation = invited.json()["invitation"]["id"]
    before = house.standing()
    own, me = house.steward_role.id, house.steward.user
    more = [*map(str, STEWARD), "audit_logs.view"]
    tries: list[tuple[str, str, Any]] = [
        ("POST", "/invitations", {"email": "friend@example.org", "role": "admin"}),
        ("POST", "/invitations", {"email": "friend@example.org", "role": "mighty"}),
        ("POST", "/invitations", {"email": "friend@example.org", "role": "owner"}),
        ("POST", f"/invitations/{invitation}/accept", None),
        ("POST", "/roles", {"slug": "more", "name": "More", "permissions": ["audit_logs.view"]}),
        ("POST", "/roles", {"slug": "all", "name": "All", "permissions": list(map(str, Capability))}),
        ("PATCH", f"/roles/{own}", {"permissions": more}),
        ("PATCH", f"/roles/{mighty.id}", {"permissions": []}),
        ("DELETE", f"/roles/{mighty.id}", None),
        ("PATCH", f"/members/{me}", {"role": "admin"}),
        ("PATCH", f"/members/{house.member.user}", {"role": "admin"}),
        ("POST", f"/members/{house.owner.user}", None),
        ("POST", f"/members/{house.admin.user}", None),
        ("POST", f"/members/{me}", None),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(me)}),
        ("PATCH", "", {"name": "Mine"}),
        ("DELETE", "", None),
        ("GET", "/audit-log", None),
        ("DELETE", f"/users/{house.member.user}/sessions", None),
    ]
    for method, path, body in tries:
        answer = await house.ask(house.steward, method, path, body)
        assert answer.status in {400, 403}, (method, path, body, answer.status)
    assert house.standing() == before
    # The role still permits its own work.
    less = {"slug": "less", "name": "Less", "permissions": ["services.view"]}
    assert (await house.ask(house.steward, "POST", "/roles", less)).status == 201
    assert (await house.ask(house.steward, "POST", "/invitations", {"email": "friend@example.org", "role": "less"})).status == 200
    assert (await house.ask(house.steward, "POST", f"/members/{house.member.user}")).status == 200


async def test_members_change_nothing(house: PrivilegeScene) -> None:
    before = house.standing()
    for method, path, body in (
        ("POST", "/invitations", {"email": "friend@example.org", "role": "member"}),
        ("GET", "/invitations", None),
        ("POST", "/roles", {"slug": "own", "name": "Own", "permissions": ["services.view"]}),
        ("PATCH", f"/roles/{house.steward_role.id}", {"name": "Mine"}),
        ("DELETE", f"/roles/{house.steward_role.id}", None),
        ("PATCH", f"/members/{house.member.user}", {"role": "admin"}),
        ("POST", f"/members/{house.admin.user}", None),
        ("POST", f"/members/{house.member.user}", None),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(house.member.user)}),
        ("PATCH", "", {"name": "Mine"}),
        ("DELETE", "", None),
        ("GET", "/audit-log", None),
    ):
        answer = await house.ask(house.member, method, path, body)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), (method, path)
    assert house.standing() == before


async def test_nobody_removes_the_owner_or_adds_another(house: PrivilegeScene) -> None:
    before = house.standing()
    owner = house.owner.user
    for by in (house.owner, house.admin):
        for method, path, body in (
            ("POST", f"/members/{owner}", None),
            ("PATCH", f"/members/{owner}", {"role": "admin"}),
            ("PATCH", f"/members/{owner}", {"role": "member"}),
            ("PATCH", f"/members/{house.admin.user}", {"role": "owner"}),
            ("POST", "/invitations", {"email": "second@example.org", "role": "owner"}),
            ("POST", "/transfer-ownership", {"new_owner_user_id": str(house.people.add().user)}),
        ):
            answer = await house.ask(by, method, path, body)
            assert answer.status in {400, 403, 404}, (by.email, method, path)
    assert house.standing() == before
    owners = house.people.rows("select user_id from memberships where role = 'owner'")
    assert [one["user_id"] for one in owners] == [owner]


async def test_what_somebody_may_give_ends_with_their_own_rights(house: PrivilegeScene) -> None:
    """Postern compares invitations and roles with the rights that their maker has now, not with those at the sign-in."""
    answer = await house.ask(house.admin, "POST", "/invitations", {"email": "a@example.org", "role": "admin"})
    assert answer.status == 200
    assert (await house.ask(house.owner, "PATCH", f"/members/{house.admin.user}", {"role": "member"})).status == 200
    for method, path, body in (
        ("POST", "/invitations", {"email": "b@example.org", "role": "admin"}),
        ("POST", "/roles", {"slug": "own", "name": "Own", "permissions": ["services.view"]}),
        ("GET", "/audit-log", None),
    ):
        assert (await house.ask(house.admin, method, path, body)).status == 403


@pytest.mark.parametrize("how", ["demoted", "removed", "deactivated", "of a lesser role"])
async def test_nobody_comes_back_by_an_invitation_of_their_own(house: PrivilegeScene, how: str) -> None:
    """A member who may invite makes an invitation to another address of their own, keeps its link, and then loses that right."""
    role, by = ("steward", house.steward) if how == "of a lesser role" else ("admin", house.admin)
    invited = await house.ask(by, "POST", "/invitations", {"email": "again@example.org", "role": role})
    assert invited.status == 200, invited.body
    invitation, token = invited.json()["invitation"]["id"], invited.json()["token"]
    page = f"/ui/invitations/accept?token={token}"
    assert (await house.client.get(page)).status == 200
    match how:
        case "demoted":
            assert (await house.ask(house.owner, "PATCH", f"/members/{by.user}", {"role": "member"})).status == 200
        case "removed":
            assert (await house.ask(house.owner, "POST", f"/members/{by.user}")).status == 200
        case "deactivated":
            house.people.change("update users set deactivated_at = now() where id = %s", by.user)
        case _:
            less = {"permissions": ["org.members.view"]}
            assert (await house.ask(house.owner, "PATCH", f"/roles/{house.steward_role.id}", less)).status == 200
    before = house.standing()
    for refused in (await house.client.post("/api/invitations/accept", {"token": token}), await house.client.get(page)):
        assert refused.status == 400
    assert house.standing() == before
    # A person who may still invite can let them in all the same.
    assert (await house.ask(house.owner, "POST", f"/invitations/{invitation}/accept")).status == 200

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
def scene(postern: Postern, people: People, log: CapturedLog) -> PrivilegeScene:
    return PrivilegeScene(postern, people, unlimited(postern), log)


async def test_a_role_is_no_ladder(scene: PrivilegeScene) -> None:
    """The caller may manage people and roles, and tries every request that would turn this right into more."""
    mighty = scene.tenants.role(scene.acme, "mighty", list(Capability))
    invited = await scene.ask(scene.owner, "POST", "/invitations", {"email": "mighty@acme.example", "role": "mighty"})
    invitation = invited.json()["invitation"]["id"]
    before = scene.standing()
    own, me = scene.steward_role.id, scene.steward.user
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
        ("PATCH", f"/members/{scene.member.user}", {"role": "admin"}),
        ("POST", f"/members/{scene.owner.user}", None),
        ("POST", f"/members/{scene.admin.user}", None),
        ("POST", f"/members/{me}", None),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(me)}),
        ("PATCH", "", {"name": "Mine"}),
        ("DELETE", "", None),
        ("GET", "/audit-log", None),
        ("DELETE", f"/users/{scene.member.user}/sessions", None),
    ]
    for method, path, body in tries:
        answer = await scene.ask(scene.steward, method, path, body)
        assert answer.status in {400, 403}, (method, path, body, answer.status)
    assert scene.standing() == before
    # The role still permits its own work.
    less = {"slug": "less", "name": "Less", "permissions": ["services.view"]}
    assert (await scene.ask(scene.steward, "POST", "/roles", less)).status == 201
    assert (await scene.ask(scene.steward, "POST", "/invitations", {"email": "friend@example.org", "role": "less"})).status == 200
    assert (await scene.ask(scene.steward, "POST", f"/members/{scene.member.user}")).status == 200


async def test_members_change_nothing(scene: PrivilegeScene) -> None:
    before = scene.standing()
    for method, path, body in (
        ("POST", "/invitations", {"email": "friend@example.org", "role": "member"}),
        ("GET", "/invitations", None),
        ("POST", "/roles", {"slug": "own", "name": "Own", "permissions": ["services.view"]}),
        ("PATCH", f"/roles/{scene.steward_role.id}", {"name": "Mine"}),
        ("DELETE", f"/roles/{scene.steward_role.id}", None),
        ("PATCH", f"/members/{scene.member.user}", {"role": "admin"}),
        ("POST", f"/members/{scene.admin.user}", None),
        ("POST", f"/members/{scene.member.user}", None),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(scene.member.user)}),
        ("PATCH", "", {"name": "Mine"}),
        ("DELETE", "", None),
        ("GET", "/audit-log", None),
    ):
        answer = await scene.ask(scene.member, method, path, body)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), (method, path)
    assert scene.standing() == before


async def test_nobody_removes_the_owner_or_adds_another(scene: PrivilegeScene) -> None:
    before = scene.standing()
    owner = scene.owner.user
    for by in (scene.owner, scene.admin):
        for method, path, body in (
            ("POST", f"/members/{owner}", None),
            ("PATCH", f"/members/{owner}", {"role": "admin"}),
            ("PATCH", f"/members/{owner}", {"role": "member"}),
            ("PATCH", f"/members/{scene.admin.user}", {"role": "owner"}),
            ("POST", "/invitations", {"email": "second@example.org", "role": "owner"}),
            ("POST", "/transfer-ownership", {"new_owner_user_id": str(scene.people.add().user)}),
        ):
            answer = await scene.ask(by, method, path, body)
            assert answer.status in {400, 403, 404}, (by.email, method, path)
    assert scene.standing() == before
    owners = scene.people.rows("select user_id from memberships where role = 'owner'")
    assert [one["user_id"] for one in owners] == [owner]


async def test_what_somebody_may_give_ends_with_their_own_rights(scene: PrivilegeScene) -> None:
    """Postern compares invitations and roles with the rights that their maker has now, not with those at the sign-in."""
    answer = await scene.ask(scene.admin, "POST", "/invitations", {"email": "a@example.org", "role": "admin"})
    assert answer.status == 200
    assert (await scene.ask(scene.owner, "PATCH", f"/members/{scene.admin.user}", {"role": "member"})).status == 200
    for method, path, body in (
        ("POST", "/invitations", {"email": "b@example.org", "role": "admin"}),
        ("POST", "/roles", {"slug": "own", "name": "Own", "permissions": ["services.view"]}),
        ("GET", "/audit-log", None),
    ):
        assert (await scene.ask(scene.admin, method, path, body)).status == 403


@pytest.mark.parametrize("how", ["demoted", "removed", "deactivated", "of a lesser role"])
async def test_nobody_comes_back_by_an_invitation_of_their_own(scene: PrivilegeScene, how: str) -> None:
    """A member who may invite makes an invitation to another address of their own, keeps its link, and then loses that right."""
    role, by = ("steward", scene.steward) if how == "of a lesser role" else ("admin", scene.admin)
    invited = await scene.ask(by, "POST", "/invitations", {"email": "again@example.org", "role": role})
    assert invited.status == 200, invited.body
    invitation, token = invited.json()["invitation"]["id"], invited.json()["token"]
    page = f"/ui/invitations/accept?token={token}"
    assert (await scene.client.get(page)).status == 200
    match how:
        case "demoted":
            assert (await scene.ask(scene.owner, "PATCH", f"/members/{by.user}", {"role": "member"})).status == 200
        case "removed":
            assert (await scene.ask(scene.owner, "POST", f"/members/{by.user}")).status == 200
        case "deactivated":
            scene.people.change("update users set deactivated_at = now() where id = %s", by.user)
        case _:
            less = {"permissions": ["org.members.view"]}
            assert (await scene.ask(scene.owner, "PATCH", f"/roles/{scene.steward_role.id}", less)).status == 200
    before = scene.standing()
    for refused in (await scene.client.post("/api/invitations/accept", {"token": token}), await scene.client.get(page)):
        assert refused.status == 400
    assert scene.standing() == before
    # A person who may still invite can let them in all the same.
    assert (await scene.ask(scene.owner, "POST", f"/invitations/{invitation}/accept")).status == 200

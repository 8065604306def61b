"""Roles over HTTP: an organization's own roles beside the built-in ones. Nobody gains rights through a role that they do not have."""

from collections.abc import Awaitable, Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import RoleId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import MOST_ROLES, BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.tenants import OwnRole

ACME: Final = "/api/organizations/acme"
ROLES: Final = f"{ACME}/roles"
CROWD: Final = 50
NEW: Final = {"slug": "auditor", "name": "Auditor", "permissions": ["audit_logs.view"]}


class RoleScene(Neighbours):
    """Acme with an owner, a member, and a person who manages roles and reads the audit log; and globex with a role of the same slug."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.member = self.resident(self.acme, "owner"), self.resident(self.acme, "member")
        self.speaker = self.owner
        self.manages = self.tenants.role(self.acme, "role-manager", [Capability.ROLES_MANAGE, Capability.AUDIT_LOGS_VIEW])
        self.manager = self.resident(self.acme, self.manages, "manager")
        self.theirs = self.tenants.role(self.globex, "auditor", [Capability.AUDIT_LOGS_VIEW])

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, ROLES + path, body, by=by)

    async def create(
        self, slug: str = "auditor", permissions: Collection[str] = ("audit_logs.view",), *, by: Person | None = None
    ) -> Received:
        return await self.ask("POST", "", {"slug": slug, "name": slug.title(), "permissions": list(permissions)}, by=by)

    async def made(self, slug: str = "auditor", permissions: Collection[str] = ("audit_logs.view",)) -> str:
        return str((await self.create(slug, permissions)).ok(201)["id"])

    async def change(self, role: str | UUID, *, by: Person | None = None, **body: Any) -> Received:
        return await self.ask("PATCH", f"/{role}", body, by=by)

    async def slugs(self) -> list[str]:
        answer = await self.ask("GET", by=self.member)
        assert answer.status == 200
        return [one["slug"] for one in answer.json()]

    async def resolved(self, who: Person) -> Member:
        """The rights as they are resolved before the handler runs, some time before the handler ends."""
        return await self.postern.tenancy.callers.resolve_member(await self.tenants.token(who), "acme")


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> RoleScene:
    return RoleScene(postern, people, client, log)


FORBIDDEN, BAD_REQUEST, NOT_FOUND, CONFLICT = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND"), (409, "CONFLICT")


async def test_a_role_is_made_and_read_and_its_making_is_on_record(scene: RoleScene) -> None:
    answer = await scene.ask(
        "POST",
        "",
        {
            "slug": "a_1-b",
            "name": "  Two\n words ",
            "description": " Looks\tat things ",
            "permissions": ["services.view", "audit_logs.view", "services.view"],
        },
    )
    assert answer.status == 201
    body = answer.json()
    role = body["id"]
    assert datetime.fromisoformat(body["created_at"]) == datetime.fromisoformat(body["updated_at"])
    assert {name: body[name] for name in set(body) - {"id", "created_at", "updated_at"}} == {
        "org_id": str(scene.acme.id),
        "slug": "a_1-b",
        "name": "Two words",
        "description": "Looks at things",
        "permissions": ["services.view", "audit_logs.view"],
    }
    assert (await scene.ask("GET", f"/{role}", by=scene.member)).json() == body
    assert (await scene.ask("GET", by=scene.member)).json()[0] == body
    (entry,) = scene.audited()
    assert entry == {
        "action": "role.created",
        "organization_id": scene.acme.id,
        "actor_id": scene.owner.user,
        "target_type": "role",
        "target_id": role,
        "details": {"role_slug": "a_1-b", "name": "Two words", "permissions": ["audit_logs.view", "services.view"]},
    }


async def test_the_list_is_by_slug_and_of_this_organization_alone(scene: RoleScene) -> None:
    for slug in ("zulu", "alpha", "mike"):
        await scene.made(slug)
    assert await scene.slugs() == ["alpha", "mike", "role-manager", "zulu"]
    nobody = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "nothing-at-all", []))
    assert (await scene.ask("GET", by=nobody)).status == 200


# Of a name that stands beside it, each of them alone.
CANNOT_BE: Final[list[dict[str, Any]]] = [
    *({"slug": slug} for slug in ("owner", "admin", "member", "", "-a", "a-", "A", "a b", "ä", "a/b", "x" * 51, "\0", 5, None)),
    *({"name": name} for name in ("", "   ", "x" * 101, "\x07", 5, None)),
    *({"description": text} for text in ("x" * 501, 5, None)),
    *({"permissions": names} for names in (["nothing"], ["owner"], ["holder"], ["audit_logs.view "], [None], "audit_logs.view", None, 5)),
]


async def test_a_role_that_cannot_be_is_refused(scene: RoleScene) -> None:
    for changed in CANNOT_BE:
        assert refused(await scene.ask("POST", "", {**NEW, **changed})) == BAD_REQUEST, changed
        if "slug" not in changed:
            assert refused(await scene.change(scene.manages.id, **changed)) == BAD_REQUEST, changed
    for left_out in NEW:
        body = {name: value for name, value in NEW.items() if name != left_out}
        assert refused(await scene.ask("POST", "", body)) == BAD_REQUEST, left_out
    assert await scene.slugs() == ["role-manager"]
    assert scene.audited() == []


async def test_a_slug_is_taken_once_in_each_organization(scene: RoleScene) -> None:
    await scene.made()
    assert refused(await scene.create()) == CONFLICT
    assert [entry["action"] for entry in scene.audited()] == ["role.created"]


async def test_of_fifty_who_make_the_same_role_at_once_one_does(scene: RoleScene) -> None:
    answers = await all_at_once(*[scene.create] * CROWD)
    assert sorted(answer.status for answer in answers) == [201] + [409] * (CROWD - 1)
    assert [entry["action"] for entry in scene.audited()] == ["role.created"]


async def test_an_organization_has_a_hundred_of_its_own_at_most_even_when_many_are_made_at_once(scene: RoleScene) -> None:
    scene.people.change(
        "insert into roles (id, org_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'r' || n, 'R', now(), now() from generate_series(1, %s) as n",
        scene.acme.id,
        MOST_ROLES - 2,
    )
    answers = await all_at_once(*[lambda at=at: scene.create(f"new-{at}") for at in range(CROWD)])
    assert sorted(answer.status for answer in answers) == [201] + [400] * (CROWD - 1)
    assert len(await scene.slugs()) == MOST_ROLES


async def test_a_role_beyond_the_hundred_is_refused(scene: RoleScene) -> None:
    scene.people.change(
        "insert into roles (id, org_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'r' || n, 'R', now(), now() from generate_series(1, %s) as n",
        *(scene.acme.id, MOST_ROLES - 1),
    )
    answer = await scene.create()
    assert (refused(answer), str(MOST_ROLES) in answer.json()["error"]) == (BAD_REQUEST, True)
    assert (len(await scene.slugs()), scene.audited()) == (MOST_ROLES, [])


async def test_a_change_replaces_what_it_names_and_says_what_was_before(scene: RoleScene) -> None:
    role = await scene.made(permissions=["audit_logs.view", "services.view"])
    before = (await scene.ask("GET", f"/{role}")).json()
    answer = await scene.change(role, name="Reader", permissions=["audit_logs.view", "billing.manage"])
    assert answer.status == 200
    after = answer.json()
    assert after["updated_at"] > before["updated_at"]
    assert {**before, "updated_at": after["updated_at"], "name": "Reader", "permissions": ["billing.manage", "audit_logs.view"]} == after
    assert (await scene.ask("GET", f"/{role}")).json() == after
    assert (await scene.change(role, description="x", permissions=[])).json()["permissions"] == []
    assert [entry["details"] for entry in scene.audited()[1:]] == [
        {
            "role_slug": "auditor",
            "old_name": "Auditor",
            "new_name": "Reader",
            "granted": ["billing.manage"],
            "revoked": ["services.view"],
        },
        {"role_slug": "auditor", "description_changed": True, "granted": [], "revoked": ["audit_logs.view", "billing.manage"]},
    ]


async def test_a_change_to_what_it_is_already_changes_nothing(scene: RoleScene) -> None:
    role = await scene.made()
    body = (await scene.ask("GET", f"/{role}")).json()
    assert (await scene.change(role, name="Auditor", description="", permissions=["audit_logs.view"])).json() == body
    assert refused(await scene.change(role)) == BAD_REQUEST
    assert [entry["action"] for entry in scene.audited()] == ["role.created"]


async def test_managing_members_shows_what_a_member_sees_and_is_kept_as_it_was_said(scene: RoleScene) -> None:
    """A role that manages members includes the views of a member. The views are not written into the role, which may lose them again."""
    role = await scene.made(permissions=["org.members.manage"])
    holder = scene.tenants.member(scene.acme, OwnRole(UUID(role), "auditor"))
    paths = ("members", "services", "users")
    for permissions, status in ((["org.members.manage"], 200), (["billing.manage"], 403)):
        assert (await scene.change(role, permissions=permissions, name="Other")).json()["permissions"] == permissions
        assert (await scene.change(role, name="Auditor")).json()["permissions"] == permissions
        assert scene.people.rows("select relation from relations where role_id = %s", role) == [{"relation": permissions[0]}]
        token = await scene.tenants.token(holder)
        assert [(await scene.client.get(f"{ACME}/{path}", token=token)).status for path in paths] == [status] * 3


async def test_a_slug_never_changes(scene: RoleScene) -> None:
    role = await scene.made()
    refused = await scene.change(role, slug="other", name="Other")
    assert (refused.status, refused.json()["error"]) == (400, "slug: no such field")
    assert (await scene.change(role, name="Other")).json()["slug"] == "auditor"


async def test_a_member_with_a_role_may_do_what_it_permits_from_the_next_request_on(scene: RoleScene) -> None:
    role = await scene.made(permissions=["services.view"])
    holder = scene.tenants.member(scene.acme, OwnRole(UUID(role), "auditor"))
    for permissions, status in ((["org.members.view"], 200), ([], 403), (["org.members.view", "billing.manage"], 200)):
        assert (await scene.change(role, permissions=permissions)).status == 200
        answer = await scene.client.get(f"{ACME}/members", token=await scene.tenants.token(holder))
        assert answer.status == status


async def test_a_role_in_use_or_on_offer_is_not_deleted(scene: RoleScene) -> None:
    role = await scene.made()
    holder = scene.tenants.member(scene.acme, OwnRole(UUID(role), "auditor"))
    assert refused(await scene.ask("DELETE", f"/{role}")) == CONFLICT
    scene.people.change("delete from memberships where user_id = %s", holder.user)
    scene.people.change("delete from relations where user_id = %s", holder.user)
    scene.people.change(
        "insert into invitations (id, org_id, email, email_key, role, role_id, token_digest, expires_at, created_at)"
        " values (%s, %s, 'x@example.org', 'x@example.org', 'auditor', %s, '', now(), now())",
        uuid4(),
        scene.acme.id,
        UUID(role),
    )
    assert refused(await scene.ask("DELETE", f"/{role}")) == CONFLICT
    scene.people.change("update invitations set status = 'cancelled', closed_at = now()")
    answer = await scene.ask("DELETE", f"/{role}")
    assert (answer.status, answer.body) == (204, b"")
    assert await scene.slugs() == ["role-manager"]
    assert scene.people.rows("select from relations where role_id = %s", UUID(role)) == []
    # The records of earlier offers stay.
    assert scene.people.rows("select role, role_id from invitations") == [{"role": "auditor", "role_id": None}]
    assert [entry["action"] for entry in scene.audited()] == ["role.created", "role.deleted"]
    for method in ("GET", "DELETE"):
        assert refused(await scene.ask(method, f"/{role}")) == NOT_FOUND
    assert refused(await scene.change(role, name="x")) == NOT_FOUND


async def test_of_fifty_who_delete_and_give_a_role_at_once_the_outcome_is_one_of_both(scene: RoleScene) -> None:
    for _ in range(3):
        role = await scene.made()
        member = scene.tenants.member(scene.acme)

        async def give() -> Received:
            token = await scene.tenants.token(scene.owner)
            return await scene.client.request("PATCH", f"{ACME}/members/{member.user}", body={"role": "auditor"}, token=token)  # noqa: B023

        answers = await all_at_once(*([give] * (CROWD // 2)), *([lambda: scene.ask("DELETE", f"/{role}")] * (CROWD // 2)))  # noqa: B023
        assert {answer.status for answer in answers} <= {200, 204, 400, 404, 409}
        (row,) = scene.people.rows("select role, role_id from memberships where user_id = %s", member.user)
        assert row == (
            {"role": "auditor", "role_id": UUID(role)} if "auditor" in await scene.slugs() else {"role": "member", "role_id": None}
        )
        scene.people.change("update memberships set role = 'member', role_id = null where user_id = %s", member.user)
        scene.people.change("delete from roles where id = %s", UUID(role))


async def test_ids_of_another_organization_are_not_found(scene: RoleScene) -> None:
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        for role in (scene.theirs.id, uuid4(), "nothing"):
            assert refused(await scene.ask(method, f"/{role}", body)) == NOT_FOUND
    assert scene.people.rows("select name from roles where id = %s", scene.theirs.id) == [{"name": "Auditor"}]


async def test_members_see_roles_and_only_their_managers_change_them(scene: RoleScene) -> None:
    role = await scene.made()
    everything_else = scene.tenants.role(scene.acme, "else", set(Capability) - {Capability.ROLES_MANAGE})
    for who in (scene.member, scene.tenants.member(scene.acme, everything_else)):
        assert (await scene.ask("GET", by=who)).status == (await scene.ask("GET", f"/{role}", by=who)).status == 200
        assert refused(await scene.create("other", by=who)) == FORBIDDEN
        assert refused(await scene.change(role, name="x", by=who)) == FORBIDDEN
        assert refused(await scene.ask("DELETE", f"/{role}", by=who)) == FORBIDDEN
    stranger = scene.tenants.member(scene.globex, "owner")
    for method, path, body in (("GET", "", None), ("POST", "", NEW), ("GET", f"/{role}", None), ("DELETE", f"/{role}", None)):
        assert refused(await scene.ask(method, path, body, by=stranger)) == FORBIDDEN
    assert (await scene.client.get(ROLES)).status == 401


async def test_nobody_grants_what_they_do_not_hold(scene: RoleScene) -> None:
    beyond = [capability for capability in Capability if capability not in {Capability.ROLES_MANAGE, Capability.AUDIT_LOGS_VIEW}]
    for capability in beyond:
        assert refused(await scene.create("beyond", ["audit_logs.view", capability], by=scene.manager)) == FORBIDDEN
    answer = await scene.create("beyond", list(Capability), by=scene.manager)
    assert all(capability in answer.json()["error"] for capability in beyond)
    made = await scene.create(by=scene.manager)
    assert made.status == 201
    role = made.json()["id"]
    assert refused(await scene.change(role, permissions=["billing.manage"], by=scene.manager)) == FORBIDDEN
    # Not even to themselves, nor a little at a time.
    assert refused(await scene.change(scene.manages.id, permissions=["org.roles.manage", "billing.manage"], by=scene.manager)) == FORBIDDEN
    assert (await scene.change(role, permissions=["org.roles.manage"], by=scene.manager)).status == 200


async def test_nobody_touches_a_role_that_permits_more_than_they_hold(scene: RoleScene) -> None:
    role = await scene.made("biller", ["billing.manage"])
    assert refused(await scene.change(role, name="x", by=scene.manager)) == FORBIDDEN
    assert refused(await scene.change(role, permissions=["audit_logs.view"], by=scene.manager)) == FORBIDDEN
    assert refused(await scene.ask("DELETE", f"/{role}", by=scene.manager)) == FORBIDDEN
    assert "biller" in await scene.slugs()


async def test_what_was_allowed_when_the_request_came_in_is_asked_once_more(scene: RoleScene) -> None:
    """Two changes cross: the second caller was let in before the first change was committed."""
    late, roles = await scene.resolved(scene.manager), scene.postern.tenancy.roles
    own = RoleId(scene.manages.id)
    assert (await scene.change(scene.manages.id, permissions=["org.roles.manage"])).status == 200
    with pytest.raises(Forbidden):  # what was just taken is not given back
        await roles.change(late, own, Actor(), permissions=["org.roles.manage", "audit_logs.view"])
    with pytest.raises(Forbidden):
        await roles.create(late, "other", Actor(), name="Other", description="", permissions=["audit_logs.view"])
    assert (await scene.change(scene.manages.id, permissions=[])).status == 200
    with pytest.raises(Forbidden):
        await roles.change(late, own, Actor(), name="x")
    with pytest.raises(Forbidden):
        await roles.delete(late, own, Actor())
    scene.people.change("delete from memberships where user_id = %s", scene.manager.user)
    with pytest.raises(Forbidden):
        await roles.create(late, "other", Actor(), name="Other", description="", permissions=[])
    assert await scene.slugs() == ["role-manager"]


async def test_a_suspended_organization_shows_and_changes_no_roles(scene: RoleScene) -> None:
    role = await scene.made()
    scene.people.change("update organizations set status = 'suspended' where id = %s", scene.acme.id)
    for method, path, body in (("GET", "", None), ("POST", "", NEW), ("GET", f"/{role}", None), ("DELETE", f"/{role}", None)):
        assert refused(await scene.ask(method, path, body)) == (403, "ORGANIZATION_NOT_ACTIVE")


def test_the_built_in_roles_permit_what_the_interface_says() -> None:
    assert BuiltInRole.OWNER.capabilities == set(Capability)
    assert BuiltInRole.ADMIN.capabilities == set(Capability) - {Capability.CONNECTIONS_MANAGE}
    assert BuiltInRole.MEMBER.capabilities == {"org.members.view", "services.view", "end_users.view"}


# With the caller's own question.
ROUND_TRIPS: Final = {"list": 2, "detail": 2, "create": 5, "change": 5, "delete": 5}


async def test_round_trips(scene: RoleScene) -> None:
    measured: dict[str, int] = {}

    async def measure(name: str, call: Awaitable[Received]) -> Received:
        scene.log.entries.clear()
        answer = await call
        assert answer.status < 300, answer.body
        (line,) = scene.log.events("request")
        measured[name] = line["db_round_trips"]
        return answer

    for _ in ("warm", "measured"):
        role = (await measure("create", scene.create())).json()["id"]
        await measure("list", scene.ask("GET"))
        await measure("detail", scene.ask("GET", f"/{role}"))
        await measure("change", scene.change(role, name="Other", permissions=["billing.manage"]))
        await measure("delete", scene.ask("DELETE", f"/{role}"))
    assert measured == ROUND_TRIPS

"""Ownership that others have given to somebody: confirmed by the first act that needs an owner, or declined."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.identifiers import ManagementKeyId, OrganizationId, UserId
from core.domain.record.events import Actor
from core.domain.tenancy.members import DECLINED
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.cli.operating import acting, for_owner
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Received, refused
from tests.http.federation.scim.directories import PATCH_OP, Directory
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited

ACME: Final = "/api/organizations/acme"


class OwnershipScene(Neighbours):
    """Acme with its owner Ann, its admin Ben, and Cleo, whom somebody listed as a member."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.postbox = Postbox(self.postern)
        self.ann = self.speaker = self.resident(self.acme, "owner", "ann")
        self.ben = self.resident(self.acme, "admin", "ben")
        self.cleo = self.tenants.join(self.people.add("cleo@example.org"), self.acme, listed=True)

    async def transfer(self, to: Person, *, by: Person | None = None) -> Received:
        return await self.request("POST", f"{ACME}/transfer-ownership", {"new_owner_user_id": str(to.user)}, by=by)

    async def handed(self, to: Person | None = None) -> Person:
        """Ann hands acme over, and everybody reads their mail."""
        heir = to or self.cleo
        (await self.transfer(heir)).ok()
        await self.postbox.empty()
        return heir

    async def say(self, answer: str, by: Person | None = None, slug: str = "acme") -> Received:
        return await self.request("POST", f"/api/organizations/{slug}/ownership", {"answer": answer}, by=by or self.cleo)

    def roles(self) -> dict[str, str]:
        """The roles of the members, by the first parts of their addresses. Checks that the relations agree."""
        rows = self.people.rows(
            """
            select split_part(email, '@', 1) as name, role, role_id, array(
                       select relation || ' ' || object_id from relations where user_id = users.id and organization_id = org_id
                   ) as relations, owner_user_id is not distinct from users.id as owns
              from memberships join users on users.id = user_id join all_organizations on all_organizations.id = org_id
             where org_id = %s
            """,
            self.acme.id,
        )
        for row in rows:
            role = f"holder {row['role_id']}" if row["role_id"] else f"{row['role']} {self.acme.id}"
            assert row["relations"] == [role], row
            assert row["owns"] is (row["role"] == "owner"), row
        return {row["name"]: row["role"] for row in rows}

    def state(self) -> tuple[str, bool, str | None]:
        """The status, whether somebody owns it, and why it is suspended."""
        (row,) = self.people.rows(
            "select status, owner_user_id is not null as owned, suspension_reason from all_organizations where id = %s", self.acme.id
        )
        return row["status"], row["owned"], row["suspension_reason"]

    def is_unconfirmed(self) -> bool:
        return bool(self.people.rows("select from ownerships where org_id = %s and confirmed_at is null", self.acme.id))

    def unconfirm(self) -> None:
        """Ann is the former owner again, as before the owner confirmed."""
        self.people.change(
            "update ownerships set confirmed_at = null, former_membership_id = memberships.id from memberships where user_id = %s",
            self.ann.user,
        )

    def happened(self) -> list[tuple[str, UUID | None]]:
        """What the audit log says of the ownership, and in which log."""
        return [
            (one["action"].removeprefix("organization."), one["organization_id"])
            for one in self.audited("organization.%")
            if one["action"] != "organization.updated"
        ]

    async def mailed(self) -> list[tuple[str, str]]:
        """The receivers of mails, and the subjects."""
        return sorted((mail.to, mail.subject) for mail in await self.postbox.empty())


async def house_confirms(scene: OwnershipScene, owner: Person) -> Received:
    return await scene.say("confirm", owner)


async def house_acts(scene: OwnershipScene, owner: Person) -> Received:
    return await scene.request("PATCH", f"{ACME}/members/{scene.ben.user}", {"role": "member"}, by=owner)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> OwnershipScene:
    return OwnershipScene(postern, people, unlimited(postern), log)


async def test_ownership_goes_to_a_member_who_has_not_confirmed_the_membership(scene: OwnershipScene) -> None:
    assert (await scene.transfer(scene.cleo)).status == 200
    assert scene.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}
    (mail,) = await scene.postbox.empty()
    assert (mail.to, mail.subject) == ("cleo@example.org", "You are the owner of Acme")
    assert f"{BASE_URL}/ui/organizations/acme/ownership" in mail.text
    assert scene.is_unconfirmed()
    # Being made the owner is no word of the person: their membership is not their own.
    assert scene.people.rows("select own_since from memberships where user_id = %s", scene.cleo.user) == [{"own_since": None}]


@pytest.mark.parametrize("role", ["member", "admin", "clerk"])
async def test_who_declines_has_the_role_of_before_and_the_former_owner_is_the_owner_again(scene: OwnershipScene, role: str) -> None:
    given = scene.tenants.role(scene.acme, "clerk", [Capability.AUDIT_LOGS_VIEW]) if role == "clerk" else role
    dora = await scene.handed(scene.resident(scene.acme, given, "dora"))
    before = len(scene.happened())
    assert (await scene.say("decline", dora)).json() == {"message": "The organization is not yours"}
    assert scene.roles() == {"ann": "owner", "ben": "admin", "cleo": "member", "dora": role}
    assert scene.state() == ("active", True, None)
    assert await scene.mailed() == [(scene.ann.email, "You are the owner of Acme again")]
    acme = scene.acme.id
    assert scene.happened()[before:] == [("owner.declined", acme), ("owner.changed", acme)]
    declined, changed = scene.audited("organization.owner.%")[-2:]
    names = {"owner_user_id": str(dora.user), "former_owner_user_id": str(scene.ann.user)}
    assert (declined["actor_id"], declined["target_id"], declined["details"]) == (dora.user, str(acme), names)
    assert changed["details"] == {"old_owner_user_id": str(dora.user), "new_owner_user_id": str(scene.ann.user)}
    # The organization does not learn where they answered. Its webhooks hear of both.
    rows = scene.people.rows("select address, user_agent from audit_log where action = 'organization.owner.declined'")
    assert rows == [{"address": None, "user_agent": None}]
    heard = [row["name"] for row in scene.people.rows("select name from events order by id")]
    assert heard[-2:] == ["organization.owner.declined", "organization.owner.changed"]
    assert refused(await scene.transfer(scene.ben, by=dora))[0] == 403
    # The same answer again is no error, and changes nothing.
    assert (await scene.say("decline", dora)).status == 200
    assert len(scene.happened()) == before + 2


def removed(scene: OwnershipScene) -> None:
    scene.people.change("delete from memberships where user_id = %s", scene.ann.user)
    scene.people.change("delete from relations where user_id = %s", scene.ann.user)


def removed_and_back(scene: OwnershipScene) -> None:
    removed(scene)
    scene.tenants.join(scene.ann, scene.acme)


def deactivated(scene: OwnershipScene) -> None:
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ann.user)


def gone(scene: OwnershipScene) -> None:
    scene.people.change("delete from relations where user_id = %s", scene.ann.user)
    scene.people.change("delete from users where id = %s", scene.ann.user)


@pytest.mark.parametrize("how", [removed, removed_and_back, deactivated, gone])
async def test_without_a_former_owner_the_organization_is_suspended_and_the_platform_told(
    scene: OwnershipScene, how: Callable[[OwnershipScene], None]
) -> None:
    roots = [scene.people.add(f"root{number}@example.org", platform_owner=True) for number in range(3)]
    scene.people.change("update users set deactivated_at = now() where id = %s", roots[2].user)
    await scene.handed()
    how(scene)
    before = len(scene.happened())
    assert (await scene.say("decline")).status == 200
    assert scene.state() == ("suspended", False, DECLINED)
    assert scene.roles()["cleo"] == "member"
    assert await scene.mailed() == [(f"root{number}@example.org", "Acme has no owner") for number in range(2)]
    acme = scene.acme.id
    assert scene.happened()[before:] == [("owner.declined", acme), ("owner.declined", None), ("suspended", acme)]
    platform = scene.audited("organization.owner.declined")[-1]
    assert platform["details"] == {"owner_user_id": str(scene.cleo.user), "former_owner_user_id": None, "slug": "acme", "name": "Acme"}
    assert refused(await scene.request("GET", f"{ACME}/members", by=scene.ben))[0] == 403
    # The platform decides.
    path = f"/api/platform/organizations/{acme}/activate"
    token = await scene.people.token(roots[0], is_platform_owner=True)
    assert (await scene.client.post(path, token=token)).status == 200


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_stays_as_it_is(scene: OwnershipScene, status: str) -> None:
    await scene.handed()
    removed(scene)
    scene.people.change("update all_organizations set status = %s, suspension_reason = 'other' where id = %s", status, scene.acme.id)
    assert (await scene.say("decline")).status == 200
    assert scene.state() == (status, False, "other")
    assert "suspended" not in [name for name, _ in scene.happened()]


Act = Callable[[OwnershipScene], Awaitable[Received]]


def act(method: str, path: str, body: Any = None) -> Act:
    return lambda scene: scene.request(method, f"{ACME}{path}", body, by=scene.cleo)


async def adopt(scene: OwnershipScene) -> Received:
    key = ManagementKeyId(uuid4())
    scene.people.change(
        "insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)"
        " values (%s, %s, 'Key', 'pto_xxxxxx', %s, '{services.manage}', now() + interval '1 day', %s, now())",
        *(key, scene.acme.id, b"digest", scene.ben.user),
    )
    return await scene.request("POST", f"{ACME}/management-keys/{key}/adopt", by=scene.cleo)


async def change_role(scene: OwnershipScene) -> Received:
    return await scene.request("PATCH", f"{ACME}/members/{scene.ben.user}", {"role": "member"}, by=scene.cleo)


async def hand_on(scene: OwnershipScene) -> Received:
    return await scene.transfer(scene.ben, by=scene.cleo)


async def end_service(scene: OwnershipScene) -> Received:
    scene.tenants.service(scene.acme, "shop")
    return await scene.request("DELETE", f"{ACME}/services/shop", by=scene.cleo)


_GRANTS: Final = {"name": "Clerk", "slug": "clerk", "permissions": ["org.members.view", "connections.manage"]}
_KEY: Final = {"name": "Key", "capabilities": ["connections.manage"], "expires_in_days": 3}
ACTS: Final[Mapping[str, Act]] = {
    "adopting a key": adopt,
    "changing a role": change_role,
    "handing it on": hand_on,
    "ending an application": end_service,
    "switching the directory": act("PATCH", "/scim/settings", {"groups": "teams"}),
    "making a role with what only an owner grants": act("POST", "/roles", _GRANTS),
    "making a key with what only an owner grants": act("POST", "/management-keys", _KEY),
    "saying so": act("POST", "/ownership", {"answer": "confirm"}),
}


@pytest.mark.parametrize("name", ACTS)
async def test_the_first_act_that_needs_an_owner_confirms_the_ownership(scene: OwnershipScene, name: str) -> None:
    await scene.handed()
    assert (await ACTS[name](scene)).status in {200, 201, 204}
    confirmed = scene.audited("organization.owner.confirmed")
    assert [(one["actor_id"], one["details"]) for one in confirmed] == [(scene.cleo.user, {"owner_user_id": str(scene.cleo.user)})]
    (answer, owner) = ("decline", scene.ben) if name == "handing it on" else ("confirm", scene.cleo)
    if owner is scene.cleo:
        assert not scene.is_unconfirmed()
        (row,) = scene.people.rows("select confirmed_at, former_membership_id from ownerships")
        assert row["confirmed_at"] is not None
        assert row["former_membership_id"] is None
        assert refused(await scene.say("decline"))[0] == 400
    assert (await scene.say(answer, owner)).status == 200
    assert scene.roles()["cleo"] == "owner"
    # The act does not make the membership the person's own.
    assert scene.people.rows("select own_since from memberships where user_id = %s", scene.cleo.user) == [{"own_since": None}]


async def test_deleting_the_organization_needs_an_owner_too(scene: OwnershipScene) -> None:
    await scene.handed()
    assert (await scene.request("DELETE", ACME, by=scene.cleo)).status == 204
    assert [name for name, _ in scene.happened()][-3:] == ["owner.confirmed", "deleted", "deleted"]


async def test_what_an_admin_may_do_too_or_what_is_refused_confirms_nothing(scene: OwnershipScene) -> None:
    await scene.handed()
    for method, path, body in (
        ("GET", "/members", None),
        ("PATCH", "", {"name": "Acme Ltd"}),
        ("POST", "/roles", {"name": "Clerk", "slug": "clerk", "permissions": ["org.members.view"]}),
        ("PATCH", f"/members/{scene.ben.user}", {"role": "admin"}),
        ("PATCH", f"/members/{uuid4()}", {"role": "admin"}),
        ("PATCH", f"/members/{scene.ben.user}", {"role": "nonsense"}),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(uuid4())}),
    ):
        await scene.request(method, f"{ACME}{path}", body, by=scene.cleo)
        assert scene.is_unconfirmed(), path
    assert (await scene.say("decline")).status == 200
    assert scene.roles()["ann"] == "owner"


async def test_nobody_confirms_or_declines_in_another_persons_name(scene: OwnershipScene) -> None:
    await scene.handed()
    scene.tenants.service(scene.acme, "shop")
    members, services = scene.postern.tenancy, scene.postern.services.services
    member = await members.callers.resolve_member(await scene.tenants.token(scene.cleo), "acme")
    root = scene.people.add(platform_owner=True)
    acting = replace(member.caller, impersonator=UserId(root.user))
    organization = OrganizationId(scene.acme.id)
    for answering in (members.ownerships.confirm(acting, organization), members.ownerships.decline(acting, organization)):
        with pytest.raises(Forbidden):
            await answering
    # Ending an application is open to who acts for somebody.
    await services.delete(replace(member, signed_in=acting), "shop", Actor(UserId(scene.cleo.user)))
    assert scene.is_unconfirmed()


async def test_an_operator_who_acts_in_the_owners_place_confirms_nothing(scene: OwnershipScene) -> None:
    await scene.handed()
    scene.tenants.service(scene.acme, "shop")
    await scene.postern.services.services.delete(await for_owner(scene.postern, "acme"), "shop", acting())
    assert scene.is_unconfirmed()
    assert (await scene.say("decline")).status == 200


async def test_until_it_is_confirmed_mails_for_owners_go_to_the_former_owner_too(scene: OwnershipScene) -> None:
    async def owners() -> set[str]:
        async with scene.postern.foundation.unit_of_work() as uow:
            return {one.email.address for one in await uow.webhooks.owners(OrganizationId(scene.acme.id))}

    assert await owners() == {scene.ann.email}
    await scene.handed()
    assert await owners() == {scene.cleo.email, scene.ann.email}
    deactivated(scene)
    assert await owners() == {scene.cleo.email}
    scene.people.change("update users set deactivated_at = null")
    assert (await scene.say("confirm")).status == 200
    assert await owners() == {scene.cleo.email}


async def test_a_demoted_former_owner_is_the_owner_again(scene: OwnershipScene) -> None:
    await scene.handed()
    scene.people.change("update memberships set role = 'member' where user_id = %s", scene.ann.user)
    scene.people.change("update relations set relation = 'member' where user_id = %s", scene.ann.user)
    assert (await scene.say("decline")).status == 200
    assert scene.roles() == {"ann": "owner", "ben": "admin", "cleo": "member"}


async def test_who_loses_their_own_role_meanwhile_is_a_plain_member(scene: OwnershipScene) -> None:
    clerk = scene.tenants.role(scene.acme, "clerk", [])
    dora = await scene.handed(scene.resident(scene.acme, clerk, "dora"))
    assert (await scene.request("DELETE", f"{ACME}/roles/{clerk.id}", by=scene.ann)).status == 204
    assert (await scene.say("decline", dora)).status == 200
    assert scene.roles()["dora"] == "member"


async def test_handed_on_twice_the_one_before_is_the_former_owner(scene: OwnershipScene) -> None:
    await scene.handed()
    assert (await scene.transfer(scene.ben, by=scene.cleo)).status == 200
    assert refused(await scene.transfer(scene.ann, by=scene.cleo))[0] == 403
    assert (await scene.say("decline", scene.ben)).status == 200
    assert scene.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}
    assert refused(await scene.say("decline"))[0] == 400


async def test_a_transfer_of_the_release_before_is_confirmed(scene: OwnershipScene) -> None:
    """A process of that release changes the roles and knows no `ownerships`."""
    await scene.handed()
    for person, role in ((scene.cleo, "admin"), (scene.ben, "owner")):
        scene.people.change("update memberships set role = %s where user_id = %s", role, person.user)
        scene.people.change("update relations set relation = %s where user_id = %s", role, person.user)
    scene.people.change("update all_organizations set owner_user_id = %s where id = %s", scene.ben.user, scene.acme.id)
    assert (await scene.say("decline", scene.cleo)).status == 200
    assert refused(await scene.say("decline", scene.ben))[0] == 400
    assert scene.roles() == {"ann": "admin", "ben": "owner", "cleo": "admin"}


async def test_a_directory_does_not_switch_a_new_owner_off(scene: OwnershipScene) -> None:
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    made = await directory.create("dan@example.org")
    body = {"new_owner_user_id": made["id"]}
    path = "/api/organizations/initech/transfer-ownership"
    assert (await scene.request("POST", path, body, by=directory.owner)).status == 200
    change = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    for method, sent in (("PATCH", change), ("DELETE", None)):
        assert (await directory.ask(method, f"/scim/v2/Users/{made['id']}", sent)).status in {400, 403}
    assert scene.people.rows("select deactivated_at from users where id = %s", UUID(made["id"])) == [{"deactivated_at": None}]


async def test_others_learn_nothing_and_change_nothing(scene: OwnershipScene) -> None:
    theirs = scene.resident(scene.globex, "owner")
    await scene.handed()
    for answer in ("confirm", "decline"):
        assert refused(await scene.say(answer, theirs))[0] == 404
        assert refused(await scene.say(answer, slug="nowhere"))[0] == 404
        assert (await scene.client.post(f"{ACME}/ownership", {"answer": answer})).status == 401
        # A token of another organization is good there alone.
        elsewhere = scene.tenants.add(f"tenant-{answer}")
        token = await scene.tenants.token_in(scene.tenants.join(scene.cleo, elsewhere), elsewhere)
        assert (await scene.client.post(f"{ACME}/ownership", {"answer": answer}, token=token)).status == 403
    assert refused(await scene.say("confirm", scene.ben))[0] == 400
    # Whoever owns nothing has nothing to decline.
    assert (await scene.say("decline", scene.ben)).status == 200
    assert refused(await scene.say("perhaps"))[0] == 400
    assert scene.is_unconfirmed()
    assert scene.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}


async def test_of_both_answers_at_once_one_counts(scene: OwnershipScene) -> None:
    for _ in range(10):
        heir = await scene.handed(scene.tenants.member(scene.acme))
        statuses = await all_at_once(partial(scene.say, "confirm", heir), partial(scene.say, "decline", heir))
        (row,) = scene.people.rows("select role from memberships where user_id = %s", heir.user)
        names = [one["action"] for one in scene.audited("organization.owner.%")][-2:]
        if row["role"] == "owner":
            assert sorted(one.status for one in statuses) == [200, 400]
            assert names[-1] == "organization.owner.confirmed"
            scene.unconfirm()
            assert (await scene.say("decline", heir)).status == 200
        else:
            assert sorted(one.status for one in statuses) in ([200, 200], [200, 400])
            assert "organization.owner.confirmed" not in names


async def test_declining_twice_at_once_happens_once(scene: OwnershipScene) -> None:
    await scene.handed()
    answers = await all_at_once(*[partial(scene.say, "decline") for _ in range(20)])
    assert {one.status for one in answers} == {200}
    assert [name for name, _ in scene.happened()].count("owner.declined") == 1
    assert len(await scene.mailed()) == 1


async def test_an_act_of_the_owner_and_not_mine_at_once(scene: OwnershipScene) -> None:
    for _ in range(10):
        heir = await scene.handed(scene.tenants.member(scene.acme))
        target = scene.tenants.member(scene.acme)
        changing = partial(scene.request, "PATCH", f"{ACME}/members/{target.user}", {"role": "admin"}, by=heir)
        answers = await all_at_once(changing, partial(scene.say, "decline", heir))
        (row,) = scene.people.rows("select role from memberships where user_id = %s", target.user)
        acted = row["role"] == "admin"
        assert sorted(one.status for one in answers) == ([200, 400] if acted else [200, 403])
        if acted:
            scene.unconfirm()
            assert (await scene.say("decline", heir)).status == 200


async def test_not_mine_while_the_former_owner_is_removed(scene: OwnershipScene, database_url: str) -> None:
    await scene.handed()
    with psycopg.connect(database_url) as other:
        other.execute("select from organizations where id = %s for no key update", [scene.acme.id])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.say, "decline")
            await scene.people.somebody_waits()
            other.execute("delete from relations where user_id = %s", [scene.ann.user])
            other.execute("delete from memberships where user_id = %s", [scene.ann.user])
            other.commit()
    assert scene.state() == ("suspended", False, DECLINED)


async def test_a_person_who_is_forgotten_gives_the_ownership_back(scene: OwnershipScene) -> None:
    await scene.handed()
    own = scene.tenants.join(scene.cleo, scene.tenants.add("own"), "owner")
    # Others have made them the owner of acme, which does not keep them.
    assert (await scene.request("DELETE", f"/api/privacy/forget/{own.user}", by=own)).status == 200
    assert scene.state() == ("active", True, None)
    (row,) = scene.people.rows("select role from memberships where user_id = %s", scene.ann.user)
    assert row["role"] == "owner"
    assert await scene.mailed() == [(scene.ann.email, "You are the owner of Acme again")]


async def test_whom_nothing_else_ties_can_have_themselves_forgotten(scene: OwnershipScene) -> None:
    await scene.handed()
    removed(scene)
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert (await scene.request("DELETE", f"/api/privacy/forget/{scene.cleo.user}", by=scene.cleo)).status == 200
    assert scene.state()[:2] == ("suspended", False)


async def test_a_confirmed_owner_is_kept_by_a_membership_that_is_not_their_own(scene: OwnershipScene) -> None:
    await scene.handed()
    assert (await scene.say("confirm")).status == 200
    assert refused(await scene.request("DELETE", f"/api/privacy/forget/{scene.cleo.user}", by=scene.cleo))[0] == 403


async def test_the_platform_forgets_a_new_owner(scene: OwnershipScene) -> None:
    await scene.handed()
    root = scene.people.add("root@example.org", platform_owner=True)
    token = await scene.people.token(root, is_platform_owner=True)
    answer = await scene.client.request("DELETE", f"/api/privacy/forget/{scene.cleo.user}", token=token)
    assert answer.status == 200, answer.body
    (row,) = scene.people.rows("select role from memberships where user_id = %s", scene.ann.user)
    assert row["role"] == "owner"


async def test_a_forgotten_former_owner_gets_nothing_back(scene: OwnershipScene) -> None:
    await scene.handed()
    root = scene.people.add("root@example.org", platform_owner=True)
    token = await scene.people.token(root, is_platform_owner=True)
    (await scene.client.request("DELETE", f"/api/privacy/forget/{scene.ann.user}", token=token)).ok()
    assert (await scene.say("decline")).status == 200
    assert scene.state() == ("suspended", False, DECLINED)


async def test_leaving_is_declining_too(scene: OwnershipScene) -> None:
    await scene.handed()
    members = scene.postern.tenancy
    caller = (await members.callers.resolve_member(await scene.tenants.token(scene.cleo), "acme")).caller
    before = len(scene.happened())
    await members.members.leave(caller, OrganizationId(scene.acme.id))
    assert scene.roles() == {"ann": "owner", "ben": "admin"}
    acme = scene.acme.id
    assert scene.happened()[before:] == [("owner.declined", acme), ("owner.changed", acme)]
    assert [one["action"] for one in scene.audited()][-1] == "user.removed"
    # Two tabs.
    await members.members.leave(caller, OrganizationId(acme))


async def test_who_confirmed_the_membership_declines_and_cannot_leave(scene: OwnershipScene) -> None:
    dora = await scene.handed(scene.resident(scene.acme, "member", "dora"))
    members = scene.postern.tenancy
    caller = (await members.callers.resolve_member(await scene.tenants.token(dora), "acme")).caller
    with pytest.raises(BadRequest):
        await members.members.leave(caller, OrganizationId(scene.acme.id))
    assert scene.is_unconfirmed()
    assert scene.roles()["dora"] == "owner"


async def test_leaving_and_confirming_at_once(scene: OwnershipScene) -> None:
    members = scene.postern.tenancy
    for number in range(10):
        heir = await scene.handed(scene.tenants.join(scene.people.add(f"heir{number}@example.org"), scene.acme, listed=True))
        scene.people.change("update users set email_verified_at = now() where id = %s", heir.user)
        caller = (await members.callers.resolve_member(await scene.tenants.token(heir), "acme")).caller
        organization = OrganizationId(scene.acme.id)

        async def leave(caller: Any = caller, organization: OrganizationId = organization) -> str:
            try:
                await members.members.leave(caller, organization)
            except BadRequest:
                return "refused"
            return "left"

        async def confirm(caller: Any = caller, organization: OrganizationId = organization) -> str:
            await members.members.confirm(caller, [organization])
            return "confirmed"

        outcome = await all_at_once(leave, confirm)
        rows = scene.people.rows("select role from memberships where user_id = %s", heir.user)
        assert bool(rows) is ("refused" in outcome)
        if rows:
            # Confirming the membership as the owner, on a page that names the role, confirms the ownership.
            assert not scene.is_unconfirmed()
            scene.unconfirm()
            assert (await scene.say("decline", heir)).status == 200


async def test_a_directory_that_deletes_an_unconfirmed_owner_leaves_the_organization_to_the_former_one(scene: OwnershipScene) -> None:
    """Another organization's directory has made the account, and nobody else holds it: an ownership that others gave holds nothing."""
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    made = (await directory.create("dora@initech.example"))["id"]
    dora = scene.tenants.join(Person(UUID(made), scene.cleo.session, "dora@initech.example"), scene.acme, listed=True)
    await scene.handed(dora)
    assert scene.roles()["dora"] == "owner"
    assert (await directory.ask("DELETE", f"/scim/v2/Users/{made}")).status == 204
    assert scene.people.rows("select from users where id = %s", dora.user) == []
    assert scene.roles() == {"ann": "owner", "ben": "admin", "cleo": "member"}
    assert scene.state()[:2] == ("active", True)
    assert ("ann@acme.example", "You are the owner of Acme again") in await scene.mailed()


async def test_only_the_owner_says_whose_it_is(scene: OwnershipScene) -> None:
    """The roles are looked up again where the answer is stored: the first look may be older."""
    ownerships, acme = scene.postern.tenancy.ownerships, OrganizationId(scene.acme.id)
    member = (await scene.postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.ben), "acme")).caller
    stranger = replace(member, user=UserId(scene.people.add().user))
    for say in (ownerships.confirm, ownerships.decline):
        with pytest.raises(NotFound):
            await say(stranger, acme)
    with pytest.raises(BadRequest):
        await ownerships.confirm(member, acme)
    await ownerships.decline(member, acme)
    assert scene.roles()["ann"] == "owner"


@pytest.mark.parametrize("confirms", [house_confirms, house_acts], ids=["says so", "acts as the owner"])
async def test_a_confirmed_ownership_holds_the_account_against_its_maker(
    scene: OwnershipScene, confirms: Callable[[OwnershipScene, Person], Awaitable[Received]]
) -> None:
    """The membership is still one that others made. But whoever has made the account would take the organization's owner away."""
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    made = (await directory.create("dora@initech.example"))["id"]
    dora = scene.people.session_of(Person(UUID(made), scene.cleo.session, "dora@initech.example"))
    await scene.handed(scene.tenants.join(dora, scene.acme, listed=True))
    (await confirms(scene, dora)).ok()
    assert not scene.is_unconfirmed()
    assert (await directory.ask("DELETE", f"/scim/v2/Users/{made}")).status == 204
    assert scene.roles()["dora"] == "owner"
    assert scene.people.rows("select from users where id = %s and deactivated_at is null", dora.user)

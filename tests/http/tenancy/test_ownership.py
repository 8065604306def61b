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


async def house_confirms(house: OwnershipScene, owner: Person) -> Received:
    return await house.say("confirm", owner)


async def house_acts(house: OwnershipScene, owner: Person) -> Received:
    return await house.request("PATCH", f"{ACME}/members/{house.ben.user}", {"role": "member"}, by=owner)


@pytest.fixture
def house(postern: Postern, people: People, log: CapturedLog) -> OwnershipScene:
    return OwnershipScene(postern, people, unlimited(postern), log)


async def test_ownership_goes_to_a_member_who_has_not_confirmed_the_membership(house: OwnershipScene) -> None:
    assert (await house.transfer(house.cleo)).status == 200
    assert house.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}
    (mail,) = await house.postbox.empty()
    assert (mail.to, mail.subject) == ("cleo@example.org", "You are the owner of Acme")
    assert f"{BASE_URL}/ui/organizations/acme/ownership" in mail.text
    assert house.is_unconfirmed()
    # Being made the owner is no word of the person: their membership is not their own.
    assert house.people.rows("select own_since from memberships where user_id = %s", house.cleo.user) == [{"own_since": None}]


@pytest.mark.parametrize("role", ["member", "admin", "clerk"])
async def test_who_declines_has_the_role_of_before_and_the_former_owner_is_the_owner_again(house: OwnershipScene, role: str) -> None:
    given = house.tenants.role(house.acme, "clerk", [Capability.AUDIT_LOGS_VIEW]) if role == "clerk" else role
    dora = await house.handed(house.resident(house.acme, given, "dora"))
    before = len(house.happened())
    assert (await house.say("decline", dora)).json() == {"message": "The organization is not yours"}
    assert house.roles() == {"ann": "owner", "ben": "admin", "cleo": "member", "dora": role}
    assert house.state() == ("active", True, None)
    assert await house.mailed() == [(house.ann.email, "You are the owner of Acme again")]
    acme = house.acme.id
    assert house.happened()[before:] == [("owner.declined", acme), ("owner.changed", acme)]
    declined, changed = house.audited("organization.owner.%")[-2:]
    names = {"owner_user_id": str(dora.user), "former_owner_user_id": str(house.ann.user)}
    assert (declined["actor_id"], declined["target_id"], declined["details"]) == (dora.user, str(acme), names)
    assert changed["details"] == {"old_owner_user_id": str(dora.user), "new_owner_user_id": str(house.ann.user)}
    # The organization does not learn where they answered. Its webhooks hear of both.
    rows = house.people.rows("select address, user_agent from audit_log where action = 'organization.owner.declined'")
    assert rows == [{"address": None, "user_agent": None}]
    heard = [row["name"] for row in house.people.rows("select name from events order by id")]
    assert heard[-2:] == ["organization.owner.declined", "organization.owner.changed"]
    assert refused(await house.transfer(house.ben, by=dora))[0] == 403
    # The same answer again is no error, and changes nothing.
    assert (await house.say("decline", dora)).status == 200
    assert len(house.happened()) == before + 2


def removed(house: OwnershipScene) -> None:
    house.people.change("delete from memberships where user_id = %s", house.ann.user)
    house.people.change("delete from relations where user_id = %s", house.ann.user)


def removed_and_back(house: OwnershipScene) -> None:
    removed(house)
    house.tenants.join(house.ann, house.acme)


def deactivated(house: OwnershipScene) -> None:
    house.people.change("update users set deactivated_at = now() where id = %s", house.ann.user)


def gone(house: OwnershipScene) -> None:
    house.people.change("delete from relations where user_id = %s", house.ann.user)
    house.people.change("delete from users where id = %s", house.ann.user)


@pytest.mark.parametrize("how", [removed, removed_and_back, deactivated, gone])
async def test_without_a_former_owner_the_organization_is_suspended_and_the_platform_told(
    house: OwnershipScene, how: Callable[[OwnershipScene], None]
) -> None:
    roots = [house.people.add(f"root{number}@example.org", platform_owner=True) for number in range(3)]
    house.people.change("update users set deactivated_at = now() where id = %s", roots[2].user)
    await house.handed()
    how(house)
    before = len(house.happened())
    assert (await house.say("decline")).status == 200
    assert house.state() == ("suspended", False, DECLINED)
    assert house.roles()["cleo"] == "member"
    assert await house.mailed() == [(f"root{number}@example.org", "Nobody owns Acme") for number in range(2)]
    acme = house.acme.id
    assert house.happened()[before:] == [("owner.declined", acme), ("owner.declined", None), ("suspended", acme)]
    platform = house.audited("organization.owner.declined")[-1]
    assert platform["details"] == {"owner_user_id": str(house.cleo.user), "former_owner_user_id": None, "slug": "acme", "name": "Acme"}
    assert refused(await house.request("GET", f"{ACME}/members", by=house.ben))[0] == 403
    # The platform decides.
    path = f"/api/platform/organizations/{acme}/activate"
    token = await house.people.token(roots[0], is_platform_owner=True)
    assert (await house.client.post(path, token=token)).status == 200


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_stays_as_it_is(house: OwnershipScene, status: str) -> None:
    await house.handed()
    removed(house)
    house.people.change("update all_organizations set status = %s, suspension_reason = 'other' where id = %s", status, house.acme.id)
    assert (await house.say("decline")).status == 200
    assert house.state() == (status, False, "other")
    assert "suspended" not in [name for name, _ in house.happened()]


Act = Callable[[OwnershipScene], Awaitable[Received]]


def act(method: str, path: str, body: Any = None) -> Act:
    return lambda house: house.request(method, f"{ACME}{path}", body, by=house.cleo)


async def adopt(house: OwnershipScene) -> Received:
    key = ManagementKeyId(uuid4())
    house.people.change(
        "insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)"
        " values (%s, %s, 'Key', 'pto_xxxxxx', %s, '{services.manage}', now() + interval '1 day', %s, now())",
        *(key, house.acme.id, b"digest", house.ben.user),
    )
    return await house.request("POST", f"{ACME}/management-keys/{key}/adopt", by=house.cleo)


async def change_role(house: OwnershipScene) -> Received:
    return await house.request("PATCH", f"{ACME}/members/{house.ben.user}", {"role": "member"}, by=house.cleo)


async def hand_on(house: OwnershipScene) -> Received:
    return await house.transfer(house.ben, by=house.cleo)


async def end_service(house: OwnershipScene) -> Received:
    house.tenants.service(house.acme, "shop")
    return await house.request("DELETE", f"{ACME}/services/shop", by=house.cleo)


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
async def test_the_first_act_that_needs_an_owner_confirms_the_ownership(house: OwnershipScene, name: str) -> None:
    await house.handed()
    assert (await ACTS[name](house)).status in {200, 201, 204}
    confirmed = house.audited("organization.owner.confirmed")
    assert [(one["actor_id"], one["details"]) for one in confirmed] == [(house.cleo.user, {"owner_user_id": str(house.cleo.user)})]
    (answer, owner) = ("decline", house.ben) if name == "handing it on" else ("confirm", house.cleo)
    if owner is house.cleo:
        assert not house.is_unconfirmed()
        (row,) = house.people.rows("select confirmed_at, former_membership_id from ownerships")
        assert row["confirmed_at"] is not None
        assert row["former_membership_id"] is None
        assert refused(await house.say("decline"))[0] == 400
    assert (await house.say(answer, owner)).status == 200
    assert house.roles()["cleo"] == "owner"
    # The act does not make the membership the person's own.
    assert house.people.rows("select own_since from memberships where user_id = %s", house.cleo.user) == [{"own_since": None}]


async def test_deleting_the_organization_needs_an_owner_too(house: OwnershipScene) -> None:
    await house.handed()
    assert (await house.request("DELETE", ACME, by=house.cleo)).status == 204
    assert [name for name, _ in house.happened()][-3:] == ["owner.confirmed", "deleted", "deleted"]


async def test_what_an_admin_may_do_too_or_what_is_refused_confirms_nothing(house: OwnershipScene) -> None:
    await house.handed()
    for method, path, body in (
        ("GET", "/members", None),
        ("PATCH", "", {"name": "Acme Ltd"}),
        ("POST", "/roles", {"name": "Clerk", "slug": "clerk", "permissions": ["org.members.view"]}),
        ("PATCH", f"/members/{house.ben.user}", {"role": "admin"}),
        ("PATCH", f"/members/{uuid4()}", {"role": "admin"}),
        ("PATCH", f"/members/{house.ben.user}", {"role": "nonsense"}),
        ("POST", "/transfer-ownership", {"new_owner_user_id": str(uuid4())}),
    ):
        await house.request(method, f"{ACME}{path}", body, by=house.cleo)
        assert house.is_unconfirmed(), path
    assert (await house.say("decline")).status == 200
    assert house.roles()["ann"] == "owner"


async def test_nobody_confirms_or_declines_in_another_persons_name(house: OwnershipScene) -> None:
    await house.handed()
    house.tenants.service(house.acme, "shop")
    members, services = house.postern.tenancy, house.postern.services.services
    member = await members.callers.resolve_member(await house.tenants.token(house.cleo), "acme")
    root = house.people.add(platform_owner=True)
    acting = replace(member.caller, impersonator=UserId(root.user))
    organization = OrganizationId(house.acme.id)
    for answering in (members.ownerships.confirm(acting, organization), members.ownerships.decline(acting, organization)):
        with pytest.raises(Forbidden):
            await answering
    # Ending an application is open to who acts for somebody.
    await services.delete(replace(member, signed_in=acting), "shop", Actor(UserId(house.cleo.user)))
    assert house.is_unconfirmed()


async def test_an_operator_who_acts_in_the_owners_place_confirms_nothing(house: OwnershipScene) -> None:
    await house.handed()
    house.tenants.service(house.acme, "shop")
    await house.postern.services.services.delete(await for_owner(house.postern, "acme"), "shop", acting())
    assert house.is_unconfirmed()
    assert (await house.say("decline")).status == 200


async def test_until_it_is_confirmed_mails_for_owners_go_to_the_former_owner_too(house: OwnershipScene) -> None:
    async def owners() -> set[str]:
        async with house.postern.foundation.unit_of_work() as uow:
            return {one.email.address for one in await uow.webhooks.owners(OrganizationId(house.acme.id))}

    assert await owners() == {house.ann.email}
    await house.handed()
    assert await owners() == {house.cleo.email, house.ann.email}
    deactivated(house)
    assert await owners() == {house.cleo.email}
    house.people.change("update users set deactivated_at = null")
    assert (await house.say("confirm")).status == 200
    assert await owners() == {house.cleo.email}


async def test_a_demoted_former_owner_is_the_owner_again(house: OwnershipScene) -> None:
    await house.handed()
    house.people.change("update memberships set role = 'member' where user_id = %s", house.ann.user)
    house.people.change("update relations set relation = 'member' where user_id = %s", house.ann.user)
    assert (await house.say("decline")).status == 200
    assert house.roles() == {"ann": "owner", "ben": "admin", "cleo": "member"}


async def test_who_loses_their_own_role_meanwhile_is_a_plain_member(house: OwnershipScene) -> None:
    clerk = house.tenants.role(house.acme, "clerk", [])
    dora = await house.handed(house.resident(house.acme, clerk, "dora"))
    assert (await house.request("DELETE", f"{ACME}/roles/{clerk.id}", by=house.ann)).status == 204
    assert (await house.say("decline", dora)).status == 200
    assert house.roles()["dora"] == "member"


async def test_handed_on_twice_the_one_before_is_the_former_owner(house: OwnershipScene) -> None:
    await house.handed()
    assert (await house.transfer(house.ben, by=house.cleo)).status == 200
    assert refused(await house.transfer(house.ann, by=house.cleo))[0] == 403
    assert (await house.say("decline", house.ben)).status == 200
    assert house.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}
    assert refused(await house.say("decline"))[0] == 400


async def test_a_transfer_of_the_release_before_is_confirmed(house: OwnershipScene) -> None:
    """A process of that release changes the roles and knows no `ownerships`."""
    await house.handed()
    for person, role in ((house.cleo, "admin"), (house.ben, "owner")):
        house.people.change("update memberships set role = %s where user_id = %s", role, person.user)
        house.people.change("update relations set relation = %s where user_id = %s", role, person.user)
    house.people.change("update all_organizations set owner_user_id = %s where id = %s", house.ben.user, house.acme.id)
    assert (await house.say("decline", house.cleo)).status == 200
    assert refused(await house.say("decline", house.ben))[0] == 400
    assert house.roles() == {"ann": "admin", "ben": "owner", "cleo": "admin"}


async def test_a_directory_does_not_switch_a_new_owner_off(house: OwnershipScene) -> None:
    directory = await Directory(house.postern, house.client, house.people, "initech").connect()
    made = await directory.create("dan@example.org")
    body = {"new_owner_user_id": made["id"]}
    path = "/api/organizations/initech/transfer-ownership"
    assert (await house.request("POST", path, body, by=directory.owner)).status == 200
    change = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    for method, sent in (("PATCH", change), ("DELETE", None)):
        assert (await directory.ask(method, f"/scim/v2/Users/{made['id']}", sent)).status in {400, 403}
    assert house.people.rows("select deactivated_at from users where id = %s", UUID(made["id"])) == [{"deactivated_at": None}]


async def test_others_learn_nothing_and_change_nothing(house: OwnershipScene) -> None:
    theirs = house.resident(house.globex, "owner")
    await house.handed()
    for answer in ("confirm", "decline"):
        assert refused(await house.say(answer, theirs))[0] == 404
        assert refused(await house.say(answer, slug="nowhere"))[0] == 404
        assert (await house.client.post(f"{ACME}/ownership", {"answer": answer})).status == 401
        # A token of another organization is good there alone.
        elsewhere = house.tenants.add(f"tenant-{answer}")
        token = await house.tenants.token_in(house.tenants.join(house.cleo, elsewhere), elsewhere)
        assert (await house.client.post(f"{ACME}/ownership", {"answer": answer}, token=token)).status == 403
    assert refused(await house.say("confirm", house.ben))[0] == 400
    # Whoever owns nothing has nothing to decline.
    assert (await house.say("decline", house.ben)).status == 200
    assert refused(await house.say("perhaps"))[0] == 400
    assert house.is_unconfirmed()
    assert house.roles() == {"ann": "admin", "ben": "admin", "cleo": "owner"}


async def test_of_both_answers_at_once_one_counts(house: OwnershipScene) -> None:
    for _ in range(10):
        heir = await house.handed(house.tenants.member(house.acme))
        statuses = await all_at_once(partial(house.say, "confirm", heir), partial(house.say, "decline", heir))
        (row,) = house.people.rows("select role from memberships where user_id = %s", heir.user)
        names = [one["action"] for one in house.audited("organization.owner.%")][-2:]
        if row["role"] == "owner":
            assert sorted(one.status for one in statuses) == [200, 400]
            assert names[-1] == "organization.owner.confirmed"
            house.unconfirm()
            assert (await house.say("decline", heir)).status == 200
        else:
            assert sorted(one.status for one in statuses) in ([200, 200], [200, 400])
            assert "organization.owner.confirmed" not in names


async def test_declining_twice_at_once_happens_once(house: OwnershipScene) -> None:
    await house.handed()
    answers = await all_at_once(*[partial(house.say, "decline") for _ in range(20)])
    assert {one.status for one in answers} == {200}
    assert [name for name, _ in house.happened()].count("owner.declined") == 1
    assert len(await house.mailed()) == 1


async def test_an_act_of_the_owner_and_not_mine_at_once(house: OwnershipScene) -> None:
    for _ in range(10):
        heir = await house.handed(house.tenants.member(house.acme))
        target = house.tenants.member(house.acme)
        changing = partial(house.request, "PATCH", f"{ACME}/members/{target.user}", {"role": "admin"}, by=heir)
        answers = await all_at_once(changing, partial(house.say, "decline", heir))
        (row,) = house.people.rows("select role from memberships where user_id = %s", target.user)
        acted = row["role"] == "admin"
        assert sorted(one.status for one in answers) == ([200, 400] if acted else [200, 403])
        if acted:
            house.unconfirm()
            assert (await house.say("decline", heir)).status == 200


async def test_not_mine_while_the_former_owner_is_removed(house: OwnershipScene, database_url: str) -> None:
    await house.handed()
    with psycopg.connect(database_url) as other:
        other.execute("select from organizations where id = %s for no key update", [house.acme.id])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.say, "decline")
            await house.people.somebody_waits()
            other.execute("delete from relations where user_id = %s", [house.ann.user])
            other.execute("delete from memberships where user_id = %s", [house.ann.user])
            other.commit()
    assert house.state() == ("suspended", False, DECLINED)


async def test_a_person_who_is_forgotten_gives_the_ownership_back(house: OwnershipScene) -> None:
    await house.handed()
    own = house.tenants.join(house.cleo, house.tenants.add("own"), "owner")
    # Others have made them the owner of acme, which does not keep them.
    assert (await house.request("DELETE", f"/api/privacy/forget/{own.user}", by=own)).status == 200
    assert house.state() == ("active", True, None)
    (row,) = house.people.rows("select role from memberships where user_id = %s", house.ann.user)
    assert row["role"] == "owner"
    assert await house.mailed() == [(house.ann.email, "You are the owner of Acme again")]


async def test_whom_nothing_else_ties_can_have_themselves_forgotten(house: OwnershipScene) -> None:
    await house.handed()
    removed(house)
    house.people.change("update all_organizations set status = 'suspended' where id = %s", house.acme.id)
    assert (await house.request("DELETE", f"/api/privacy/forget/{house.cleo.user}", by=house.cleo)).status == 200
    assert house.state()[:2] == ("suspended", False)


async def test_a_confirmed_owner_is_kept_by_a_membership_that_is_not_their_own(house: OwnershipScene) -> None:
    await house.handed()
    assert (await house.say("confirm")).status == 200
    assert refused(await house.request("DELETE", f"/api/privacy/forget/{house.cleo.user}", by=house.cleo))[0] == 403


async def test_the_platform_forgets_a_new_owner(house: OwnershipScene) -> None:
    await house.handed()
    root = house.people.add("root@example.org", platform_owner=True)
    token = await house.people.token(root, is_platform_owner=True)
    answer = await house.client.request("DELETE", f"/api/privacy/forget/{house.cleo.user}", token=token)
    assert answer.status == 200, answer.body
    (row,) = house.people.rows("select role from memberships where user_id = %s", house.ann.user)
    assert row["role"] == "owner"


async def test_a_forgotten_former_owner_gets_nothing_back(house: OwnershipScene) -> None:
    await house.handed()
    root = house.people.add("root@example.org", platform_owner=True)
    token = await house.people.token(root, is_platform_owner=True)
    (await house.client.request("DELETE", f"/api/privacy/forget/{house.ann.user}", token=token)).ok()
    assert (await house.say("decline")).status == 200
    assert house.state() == ("suspended", False, DECLINED)


async def test_leaving_is_declining_too(house: OwnershipScene) -> None:
    await house.handed()
    members = house.postern.tenancy
    caller = (await members.callers.resolve_member(await house.tenants.token(house.cleo), "acme")).caller
    before = len(house.happened())
    await members.members.leave(caller, OrganizationId(house.acme.id))
    assert house.roles() == {"ann": "owner", "ben": "admin"}
    acme = house.acme.id
    assert house.happened()[before:] == [("owner.declined", acme), ("owner.changed", acme)]
    assert [one["action"] for one in house.audited()][-1] == "user.removed"
    # Two tabs.
    await members.members.leave(caller, OrganizationId(acme))


async def test_who_confirmed_the_membership_declines_and_cannot_leave(house: OwnershipScene) -> None:
    dora = await house.handed(house.resident(house.acme, "member", "dora"))
    members = house.postern.tenancy
    caller = (await members.callers.resolve_member(await house.tenants.token(dora), "acme")).caller
    with pytest.raises(BadRequest):
        await members.members.leave(caller, OrganizationId(house.acme.id))
    assert house.is_unconfirmed()
    assert house.roles()["dora"] == "owner"


async def test_leaving_and_confirming_at_once(house: OwnershipScene) -> None:
    members = house.postern.tenancy
    for number in range(10):
        heir = await house.handed(house.tenants.join(house.people.add(f"heir{number}@example.org"), house.acme, listed=True))
        house.people.change("update users set email_verified_at = now() where id = %s", heir.user)
        caller = (await members.callers.resolve_member(await house.tenants.token(heir), "acme")).caller
        organization = OrganizationId(house.acme.id)

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
        rows = house.people.rows("select role from memberships where user_id = %s", heir.user)
        assert bool(rows) is ("refused" in outcome)
        if rows:
            # Confirming the membership as the owner, on a page that names the role, confirms the ownership.
            assert not house.is_unconfirmed()
            house.unconfirm()
            assert (await house.say("decline", heir)).status == 200


async def test_a_directory_that_deletes_an_unconfirmed_owner_leaves_the_organization_to_the_former_one(house: OwnershipScene) -> None:
    """Another organization's directory has made the account, and nobody else holds it: an ownership that others gave holds nothing."""
    directory = await Directory(house.postern, house.client, house.people, "initech").connect()
    made = (await directory.create("dora@initech.example"))["id"]
    dora = house.tenants.join(Person(UUID(made), house.cleo.session, "dora@initech.example"), house.acme, listed=True)
    await house.handed(dora)
    assert house.roles()["dora"] == "owner"
    assert (await directory.ask("DELETE", f"/scim/v2/Users/{made}")).status == 204
    assert house.people.rows("select from users where id = %s", dora.user) == []
    assert house.roles() == {"ann": "owner", "ben": "admin", "cleo": "member"}
    assert house.state()[:2] == ("active", True)
    assert ("ann@acme.example", "You are the owner of Acme again") in await house.mailed()


async def test_only_the_owner_says_whose_it_is(house: OwnershipScene) -> None:
    """The roles are looked up again where the answer is stored: the first look may be older."""
    ownerships, acme = house.postern.tenancy.ownerships, OrganizationId(house.acme.id)
    member = (await house.postern.tenancy.callers.resolve_member(await house.tenants.token(house.ben), "acme")).caller
    stranger = replace(member, user=UserId(house.people.add().user))
    for say in (ownerships.confirm, ownerships.decline):
        with pytest.raises(NotFound):
            await say(stranger, acme)
    with pytest.raises(BadRequest):
        await ownerships.confirm(member, acme)
    await ownerships.decline(member, acme)
    assert house.roles()["ann"] == "owner"


@pytest.mark.parametrize("confirms", [house_confirms, house_acts], ids=["says so", "acts as the owner"])
async def test_a_confirmed_ownership_holds_the_account_against_its_maker(
    house: OwnershipScene, confirms: Callable[[OwnershipScene, Person], Awaitable[Received]]
) -> None:
    """The membership is still one that others made. But whoever has made the account would take the organization's owner away."""
    directory = await Directory(house.postern, house.client, house.people, "initech").connect()
    made = (await directory.create("dora@initech.example"))["id"]
    dora = house.people.session_of(Person(UUID(made), house.cleo.session, "dora@initech.example"))
    await house.handed(house.tenants.join(dora, house.acme, listed=True))
    (await confirms(house, dora)).ok()
    assert not house.is_unconfirmed()
    assert (await directory.ask("DELETE", f"/scim/v2/Users/{made}")).status == 204
    assert house.roles()["dora"] == "owner"
    assert house.people.rows("select from users where id = %s and deactivated_at is null", dora.user)

"""Invitations into roles that carry roles of an application: whoever invites must be able to assign these."""

from typing import Any, Final

import psycopg
import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.services.governing import BAD_REQUEST, FORBIDDEN, Government

ACME: Final = "/api/organizations/acme"
INVITATIONS: Final = f"{ACME}/invitations"
MANAGER: Final = (Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE)
ACCEPT: Final = "/api/invitations/accept"
INVITED: Final = "invited@people.example"


class Inviters(Government):
    """The role `plain` permits nothing in the organization. Its holders may refund in the shop, once `carry` has run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants.role(self.acme, "plain", [])
        self.manager = self.tenants.member(self.acme, self.tenants.role(self.acme, "manager", MANAGER))
        keeper = self.tenants.role(self.acme, "keeper", [*MANAGER, Capability.SERVICES_MANAGE])
        self.keeper = self.tenants.member(self.acme, keeper)

    async def carry(self, subject: str = "plain") -> None:
        await self.permission("refund")
        await self.role("boss", ["refund"])
        await self.assigned("boss", organization_role=subject)

    async def robot(self, *capabilities: Capability) -> str:
        body = {"name": "Robot", "capabilities": [one.value for one in capabilities]}
        made = (await self.request("POST", f"{ACME}/management-keys", body, by=self.owner)).ok(201)
        self.log.remember(made["key"])
        return str(made["key"])

    async def invite(self, by: Person | str, role: str = "plain") -> Received:
        body = {"email": INVITED, "role": role}
        if isinstance(by, str):
            return await self.client.request("POST", INVITATIONS, body=body, token=by)
        return await self.request("POST", INVITATIONS, body, by=by)

    async def accept_on_behalf(self, invitation: str, by: Person | str) -> Received:
        path = f"{INVITATIONS}/{invitation}/accept"
        if isinstance(by, str):
            return await self.client.request("POST", path, token=by)
        return await self.request("POST", path, by=by)

    def joined(self) -> bool:
        statement = "select from memberships join users on users.id = memberships.user_id where users.email = %s"
        return bool(self.people.rows(statement, INVITED))


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Inviters:
    return Inviters(postern, people, client, log)


async def test_who_may_not_assign_the_roles_of_an_application_invites_nobody_into_a_role_that_carries_them(scene: Inviters) -> None:
    await scene.carry()
    assert refused(await scene.invite(scene.manager)) == FORBIDDEN
    assert refused(await scene.invite(await scene.robot(*MANAGER))) == FORBIDDEN
    assert scene.people.rows("select from invitations") == []
    assert (await scene.invite(scene.keeper)).status == 200


async def test_a_key_that_may_assign_them_invites(scene: Inviters) -> None:
    await scene.carry()
    issued = (await scene.invite(await scene.robot(*MANAGER, Capability.SERVICES_MANAGE))).ok()
    assert (await scene.client.post(ACCEPT, {"token": issued["token"]})).status == 200
    assert scene.joined()


async def shown(scene: Inviters, issued: Any) -> tuple[str, str]:
    """The page of the invitation, and its mail."""
    page = (await scene.client.get(f"/ui/invitations/accept?token={issued['token']}")).body.decode()
    scene.people.change("delete from invitations")
    return page, (await Postbox(scene.postern).empty())[-1].text


async def test_an_invitation_names_the_application_that_it_is_for(scene: Inviters) -> None:
    before, _ = await shown(scene, (await scene.invite(scene.keeper)).ok())
    assert "Application" not in before
    await scene.carry()
    logo = f"/logos/{'0f' * 32}"
    scene.people.change("update all_services set name = 'Webshop', logo_digest = %s where id = %s", "0f" * 32, scene.shop.id)
    page, mail = await shown(scene, (await scene.invite(scene.keeper)).ok())
    assert f'src="{logo}" alt=""><bdi>Webshop</bdi>' in page
    assert "You get access to Webshop." in " ".join(mail.split())
    # A name that leads somewhere stands on our page, and in no mail to a stranger.
    scene.people.change("update all_services set name = 'Win at evil.example' where id = %s", scene.shop.id)
    page, mail = await shown(scene, (await scene.invite(scene.keeper)).ok())
    assert "Win at evil.example" in page
    assert "evil" not in mail


async def test_who_may_not_assign_them_accepts_nobody_on_behalf(scene: Inviters) -> None:
    await scene.carry()
    invitation = (await scene.invite(scene.keeper)).ok()["invitation"]["id"]
    weak, strong = await scene.robot(*MANAGER), await scene.robot(*MANAGER, Capability.SERVICES_MANAGE)
    for by in (scene.manager, weak):
        assert refused(await scene.accept_on_behalf(invitation, by)) == FORBIDDEN
        assert not scene.joined()
    assert (await scene.accept_on_behalf(invitation, strong)).status == 200
    assert scene.joined()


async def test_an_assignment_that_is_younger_than_the_invitation_counts(scene: Inviters) -> None:
    issued = (await scene.invite(scene.manager)).ok()
    await scene.carry()
    assert refused(await scene.client.post(ACCEPT, {"token": issued["token"]})) == BAD_REQUEST
    assert not scene.joined()
    # Whoever may assign the role answers in the invited person's place.
    assert (await scene.accept_on_behalf(issued["invitation"]["id"], scene.keeper)).status == 200
    assert scene.joined()


async def test_an_inviter_who_loses_the_right_backs_the_invitation_no_more(scene: Inviters) -> None:
    await scene.carry()
    issued = (await scene.invite(scene.keeper)).ok()
    lost = "delete from relations where relation = %s and role_id = (select role_id from memberships where user_id = %s)"
    scene.people.change(lost, Capability.SERVICES_MANAGE.value, scene.keeper.user)
    assert refused(await scene.client.post(ACCEPT, {"token": issued["token"]})) == BAD_REQUEST
    assert not scene.joined()


async def test_every_manager_of_members_gives_what_the_built_in_role_of_members_carries(scene: Inviters) -> None:
    await scene.carry("member")
    issued = (await scene.invite(scene.manager, "member")).ok()
    assert (await scene.client.post(ACCEPT, {"token": issued["token"]})).status == 200
    assert scene.joined()


async def test_an_acceptance_sees_what_was_assigned_while_it_waited(scene: Inviters, emptied_database_url: str) -> None:
    issued = (await scene.invite(scene.manager)).ok()
    await scene.permission("refund")
    await scene.role("boss", ["refund"])
    answers: list[Received] = []

    async def accept() -> None:
        answers.append(await scene.client.post(ACCEPT, {"token": issued["token"]}))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (scene.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            await scene.people.somebody_waits()
            other.execute(
                "insert into relations (organization_id, role_id, relation, object_type, object_id, id, service_id, created_at)"
                " select service_roles.org_id, roles.id, 'holder', 'service_role', service_roles.id, gen_random_uuid(), service_id, now()"
                "   from service_roles join roles on roles.slug = 'plain'"
            )
            other.commit()
    assert (refused(answers[0]), scene.joined()) == (BAD_REQUEST, False)

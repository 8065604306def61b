"""Requests lock the same rows in one order, which docs/architecture.md gives. A request that deletes or forgets an account locks the
account first, and then the rows that depend on it. Each request here waits for the account, and must not hold a lock on those rows yet.
"""

from collections.abc import Awaitable, Callable
from typing import Final, LiteralString
from uuid import UUID

import pytest

from core.domain.identifiers import MembershipId, OrganizationId, UserId
from core.domain.tenancy.members import Membership
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Received
from tests.http.inviting import ACCEPT, Inviting
from tests.http.locks import behind
from tests.http.people import People, Person
from tests.http.postbox import link_in, proof_by
from tests.http.signing_in import unlimited

_ACCOUNT: Final = "select from users where id = %s for update"


class LockOrderScene(Inviting):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.bob = self.verified("bob@example.org")

    async def behind_bob(self, url: str, then: LiteralString, what: object, request: Callable[[], Awaitable[Received]]) -> Received:
        return await behind(self.people, url, (_ACCOUNT, self.bob.user), (then, what), request)

    def joined(self) -> Person:
        return self.tenants.join(self.bob, self.acme)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> LockOrderScene:
    return LockOrderScene(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("by_manager", [False, True])
async def test_accepting_an_invitation(scene: LockOrderScene, database_url: str, *, by_manager: bool) -> None:
    issued = await scene.invite(scene.bob.email)
    invitation = issued["invitation"]["id"]

    async def accept() -> Received:
        if by_manager:
            return await scene.ask("POST", f"/{invitation}/accept")
        return await scene.client.post(ACCEPT, {"token": issued["token"]})

    answer = await scene.behind_bob(database_url, "select from invitations where id = %s for update", invitation, accept)
    assert answer.status == 200
    assert scene.members()[scene.bob.email] == "member"


async def test_approving_a_request_to_join(scene: LockOrderScene, database_url: str) -> None:
    request = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into join_requests (id, org_id, user_id, email, status, created_at) values (%s, %s, %s, %s, 'pending', now())",
        request,
        scene.acme.id,
        scene.bob.user,
        scene.bob.email,
    )

    async def approve() -> Received:
        return await scene.request("POST", f"/api/organizations/acme/join-requests/{request}/approve")

    answer = await scene.behind_bob(database_url, "select from join_requests where id = %s for update", request, approve)
    assert answer.status == 200
    assert scene.members()[scene.bob.email] == "member"


async def test_selecting_an_organization(scene: LockOrderScene, database_url: str) -> None:
    bob = scene.joined()

    async def select() -> Received:
        return await scene.request("POST", "/api/organizations/acme/select", by=bob)

    then: LiteralString = "select from memberships where user_id = %s for update"
    assert (await scene.behind_bob(database_url, then, bob.user, select)).status == 200


async def test_selecting_beside_a_removal(scene: LockOrderScene, database_url: str) -> None:
    """The removal has locked the membership, and locks sessions next."""
    bob = scene.joined()

    async def select() -> Received:
        return await scene.request("POST", "/api/organizations/acme/select", by=bob)

    first = ("select from memberships where user_id = %s for update", bob.user)
    then = ("select from sessions where user_id = %s for no key update", bob.user)
    assert (await behind(scene.people, database_url, first, then, select)).status == 200


async def test_removing_somebody_whom_a_directory_knows(scene: LockOrderScene, database_url: str) -> None:
    bob = scene.joined()
    scene.people.change(
        "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, true, now(), now())",
        scene.acme.id,
        bob.user,
    )

    async def remove() -> Received:
        return await scene.request("POST", f"/api/organizations/acme/members/{bob.user}")

    answer = await scene.behind_bob(database_url, "select from provisioned_users where user_id = %s for update", bob.user, remove)
    assert answer.status == 200
    assert scene.people.rows("select is_member from provisioned_users") == [{"is_member": False}]


async def test_handing_the_organization_over(scene: LockOrderScene, database_url: str) -> None:
    bob = scene.joined()

    async def hand_over() -> Received:
        return await scene.request("POST", "/api/organizations/acme/transfer-ownership", {"new_owner_user_id": str(bob.user)})

    then: LiteralString = "select from memberships where user_id = %s for update"
    assert (await scene.behind_bob(database_url, then, bob.user, hand_over)).status == 200


async def test_inviting_where_an_earlier_invitation_has_lapsed(scene: LockOrderScene, database_url: str) -> None:
    """The lapsed invitation may have gone to an earlier address of the inviter."""
    issued = await scene.invite("carol@example.org")
    scene.overdue()

    async def invite() -> Received:
        return await scene.ask("POST", "", {"email": "carol@example.org", "role": "member"})

    first = (_ACCOUNT, scene.ada.user)
    then = ("select from invitations where id = %s for update", issued["invitation"]["id"])
    answer = await behind(scene.people, database_url, first, then, invite)
    assert answer.status == 200
    assert scene.statuses() == ["expired", "pending"]


async def test_moving_an_account_by_the_mailed_link(scene: LockOrderScene, database_url: str) -> None:
    """A transaction that has added a row with a reference to the account may go on to change the account and its rows."""
    bob = scene.bob
    (await scene.request("PATCH", "/api/user", {"email": "new@example.org"}, by=bob)).ok()
    link = next(link_in(mail) for mail in await scene.postbox.empty() if mail.to == "new@example.org")

    async def prove() -> Received:
        return await scene.client.get(proof_by(link))

    first = ("select from users where id = %s for key share", bob.user)
    then = ("select from mailed_tokens where user_id = %s for update", bob.user)
    assert (await behind(scene.people, database_url, first, then, prove)).status == 200
    assert scene.people.rows("select email from users where id = %s", bob.user) == [{"email": "new@example.org"}]


async def test_nobody_is_added_to_whom_nobody_belongs_any_more(scene: LockOrderScene) -> None:
    async def added(user: UUID) -> bool:
        async with scene.postern.foundation.unit_of_work() as uow:
            membership = Membership(
                MembershipId(scene.postern.foundation.ids.new()),
                OrganizationId(scene.acme.id),
                UserId(user),
                "member",
                scene.postern.foundation.clock.now(),
            )
            done = await uow.members.add(membership)
            await uow.commit()
        return done

    scene.people.change("update users set anonymized_at = now(), deactivated_at = now() where id = %s", scene.bob.user)
    assert not await added(scene.bob.user)
    scene.people.change("delete from users where id = %s", scene.bob.user)
    assert not await added(scene.bob.user)
    assert list(scene.members()) == [scene.ada.email]


async def test_declining_an_ownership(scene: LockOrderScene, database_url: str) -> None:
    bob = scene.joined()
    body = {"new_owner_user_id": str(bob.user)}
    (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).ok()

    async def decline() -> Received:
        return await scene.request("POST", "/api/organizations/acme/ownership", {"answer": "decline"}, by=bob)

    answer = await scene.behind_bob(database_url, "select from memberships where user_id = %s for update", bob.user, decline)
    assert answer.status == 200
    assert scene.members()[bob.email] == "member"


async def test_forgetting_a_new_owner(scene: LockOrderScene, database_url: str) -> None:
    bob = scene.joined()
    body = {"new_owner_user_id": str(bob.user)}
    (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).ok()

    async def forget() -> Received:
        return await scene.request("DELETE", f"/api/privacy/forget/{bob.user}", by=bob)

    # Whoever holds the organization goes on to the account, which the request must not hold yet.
    answer = await behind(
        scene.people,
        database_url,
        ("select from all_organizations where id = %s for update", scene.acme.id),
        ("select from users where id = %s for update", bob.user),
        forget,
    )
    assert answer.status == 200
    assert scene.members()[scene.ada.email] == "owner"

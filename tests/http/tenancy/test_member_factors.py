"""Members who have lost their second factor, and the people who may help them."""

from typing import Final

import pytest

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.postbox import Postbox

REASON: Final = "Lost the phone; seen in person"
FORBIDDEN, BAD_REQUEST, NOT_FOUND = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND")


class MemberFactorScene(Neighbours):
    """Acme with its owner, two admins and a member, whose account acme made and who has a second factor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.admin, self.member = (self.resident(self.acme, role) for role in ("owner", "admin", "member"))
        self.people.change("update memberships set came_by = 'created' where user_id = %s", self.member.user)
        self.give_factor(self.member)

    def give_factor(self, person: Person) -> None:
        self.people.change(
            "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%s, 'x', now(), now())", person.user
        )

    async def reset(self, person: Person, reason: str = REASON, *, by: Person | None = None, org: str = "acme") -> Received:
        path = f"/api/organizations/{org}/members/{person.user}/mfa"
        return await self.request("DELETE", path, {"reason": reason}, by=by or self.admin)

    def has_factor(self, person: Person) -> bool:
        return bool(self.people.rows("select from mfa_secrets where user_id = %s", person.user))


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> MemberFactorScene:
    return MemberFactorScene(postern, people, client, log)


@pytest.mark.parametrize("made_by", ["an invitation", "a directory"])
async def test_whoever_manages_members_helps_one_of_the_organizations_own(scene: MemberFactorScene, made_by: str) -> None:
    if made_by == "a directory":
        scene.people.change("update memberships set came_by = 'added' where user_id = %s", scene.member.user)
        scene.people.change("update users set origin_org_id = %s where id = %s", scene.acme.id, scene.member.user)
    scene.people.change("update memberships set role = 'member' where user_id = %s", scene.member.user)
    answer = await scene.reset(scene.member)
    assert (answer.status, answer.json()) == (200, {"success": True, "message": "MFA is disabled"})
    assert not scene.has_factor(scene.member)
    assert scene.log.events("request")[-1]["db_round_trips"] <= 6
    assert [mail.to for mail in await Postbox(scene.postern).empty()] == [scene.member.email]
    entries = scene.audited("security.mfa.disabled")
    # Recorded in the organization and on the platform.
    assert {one["organization_id"] for one in entries} == {None, scene.acme.id}
    assert {(one["actor_id"], one["target_id"], one["details"]["forced"]) for one in entries} == {
        (scene.admin.user, str(scene.member.user), True)
    }
    # The second request has nothing left to do, and sends no event.
    answer = await scene.reset(scene.member)
    assert (answer.status, answer.json()["message"]) == (200, "MFA was not enabled")
    assert len(scene.audited("security.mfa.disabled")) == 2


@pytest.mark.parametrize(
    "holder", ["they registered", "another organization", "their own organization", "a service of others", "a directory", "the platform"]
)
async def test_what_an_account_opens_elsewhere_is_not_theirs_to_open(scene: MemberFactorScene, holder: str) -> None:
    match holder:
        case "they registered":
            scene.people.change("update memberships set came_by = 'accepted' where user_id = %s", scene.member.user)
        case "another organization":
            scene.tenants.join(scene.member, scene.globex)
        case "their own organization":
            scene.people.change("update all_organizations set owner_user_id = %s where id = %s", scene.member.user, scene.globex.id)
        case "a service of others":
            shop = scene.tenants.service(scene.globex, "shop")
            scene.people.change(
                "insert into service_users (service_id, user_id, org_id, created_at) values (%s, %s, %s, now())",
                shop.id,
                scene.member.user,
                scene.globex.id,
            )
        case "a directory":
            scene.people.change(
                "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, false, now(), now())",
                scene.globex.id,
                scene.member.user,
            )
        case _:
            scene.people.change("update users set is_platform_owner = true where id = %s", scene.member.user)
    assert refused(await scene.reset(scene.member)) == FORBIDDEN
    assert scene.has_factor(scene.member)
    assert scene.audited("security.mfa.disabled") == []


async def test_nobody_else_may(scene: MemberFactorScene) -> None:
    stranger = scene.resident(scene.globex, "owner")
    other = scene.resident(scene.acme, "member", "other")
    assert refused(await scene.reset(scene.member, by=other)) == FORBIDDEN
    assert refused(await scene.reset(scene.member, by=stranger)) == FORBIDDEN
    # By their own organization: it has no such member.
    assert refused(await scene.reset(scene.member, by=stranger, org="globex")) == NOT_FOUND
    assert scene.has_factor(scene.member)


async def test_not_for_oneself_nor_the_owner_nor_whoever_may_more(scene: MemberFactorScene) -> None:
    scene.people.change("update memberships set came_by = 'created'")
    scene.people.change("update all_organizations set owner_user_id = %s where id = %s", scene.owner.user, scene.acme.id)
    assert refused(await scene.reset(scene.admin, by=scene.admin)) == BAD_REQUEST
    assert refused(await scene.reset(scene.owner, by=scene.admin)) == BAD_REQUEST
    helper = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "helper", [Capability.MEMBERS_MANAGE]), "helper@acme.example")
    scene.give_factor(scene.admin)
    assert refused(await scene.reset(scene.admin, by=helper)) == FORBIDDEN
    assert scene.has_factor(scene.admin)


@pytest.mark.parametrize("reason", ["", " "])
async def test_a_reason_is_required(scene: MemberFactorScene, reason: str) -> None:
    assert refused(await scene.reset(scene.member, reason)) == BAD_REQUEST
    assert scene.has_factor(scene.member)


async def test_it_needs_a_fresh_proof(scene: MemberFactorScene) -> None:
    scene.people.change("update sessions set proved_at = now() - interval '1 hour', second_factor_at = null")
    assert refused(await scene.reset(scene.member)) == (401, "REAUTHENTICATION_REQUIRED")


async def test_of_many_at_once_one_does_it(scene: MemberFactorScene) -> None:
    answers = await all_at_once(*[lambda: scene.reset(scene.member)] * 5)
    assert sorted(answer.json()["message"] for answer in answers) == ["MFA is disabled", *["MFA was not enabled"] * 4]
    assert len(scene.audited("security.mfa.disabled")) == 2

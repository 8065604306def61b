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
def house(postern: Postern, people: People, client: Client, log: CapturedLog) -> MemberFactorScene:
    return MemberFactorScene(postern, people, client, log)


@pytest.mark.parametrize("made_by", ["an invitation", "a directory"])
async def test_whoever_manages_members_helps_one_of_the_organizations_own(house: MemberFactorScene, made_by: str) -> None:
    if made_by == "a directory":
        house.people.change("update memberships set came_by = 'added' where user_id = %s", house.member.user)
        house.people.change("update users set origin_org_id = %s where id = %s", house.acme.id, house.member.user)
    house.people.change("update memberships set role = 'member' where user_id = %s", house.member.user)
    answer = await house.reset(house.member)
    assert (answer.status, answer.json()) == (200, {"success": True, "message": "MFA is disabled"})
    assert not house.has_factor(house.member)
    assert house.log.events("request")[-1]["db_round_trips"] <= 6
    assert [mail.to for mail in await Postbox(house.postern).empty()] == [house.member.email]
    entries = house.audited("security.mfa.disabled")
    # Recorded in the organization and on the platform.
    assert {one["organization_id"] for one in entries} == {None, house.acme.id}
    assert {(one["actor_id"], one["target_id"], one["details"]["forced"]) for one in entries} == {
        (house.admin.user, str(house.member.user), True)
    }
    # The second request has nothing left to do, and sends no event.
    answer = await house.reset(house.member)
    assert (answer.status, answer.json()["message"]) == (200, "MFA was not enabled")
    assert len(house.audited("security.mfa.disabled")) == 2


@pytest.mark.parametrize(
    "holder", ["they registered", "another organization", "their own organization", "a service of others", "a directory", "the platform"]
)
async def test_what_an_account_opens_elsewhere_is_not_theirs_to_open(house: MemberFactorScene, holder: str) -> None:
    match holder:
        case "they registered":
            house.people.change("update memberships set came_by = 'accepted' where user_id = %s", house.member.user)
        case "another organization":
            house.tenants.join(house.member, house.globex)
        case "their own organization":
            house.people.change("update all_organizations set owner_user_id = %s where id = %s", house.member.user, house.globex.id)
        case "a service of others":
            shop = house.tenants.service(house.globex, "shop")
            house.people.change(
                "insert into service_users (service_id, user_id, org_id, created_at) values (%s, %s, %s, now())",
                shop.id,
                house.member.user,
                house.globex.id,
            )
        case "a directory":
            house.people.change(
                "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, false, now(), now())",
                house.globex.id,
                house.member.user,
            )
        case _:
            house.people.change("update users set is_platform_owner = true where id = %s", house.member.user)
    assert refused(await house.reset(house.member)) == FORBIDDEN
    assert house.has_factor(house.member)
    assert house.audited("security.mfa.disabled") == []


async def test_nobody_else_may(house: MemberFactorScene) -> None:
    stranger = house.resident(house.globex, "owner")
    other = house.resident(house.acme, "member", "other")
    assert refused(await house.reset(house.member, by=other)) == FORBIDDEN
    assert refused(await house.reset(house.member, by=stranger)) == FORBIDDEN
    # By their own organization: it has no such member.
    assert refused(await house.reset(house.member, by=stranger, org="globex")) == NOT_FOUND
    assert house.has_factor(house.member)


async def test_not_for_oneself_nor_the_owner_nor_whoever_may_more(house: MemberFactorScene) -> None:
    house.people.change("update memberships set came_by = 'created'")
    house.people.change("update all_organizations set owner_user_id = %s where id = %s", house.owner.user, house.acme.id)
    assert refused(await house.reset(house.admin, by=house.admin)) == BAD_REQUEST
    assert refused(await house.reset(house.owner, by=house.admin)) == BAD_REQUEST
    helper = house.tenants.member(house.acme, house.tenants.role(house.acme, "helper", [Capability.MEMBERS_MANAGE]), "helper@acme.example")
    house.give_factor(house.admin)
    assert refused(await house.reset(house.admin, by=helper)) == FORBIDDEN
    assert house.has_factor(house.admin)


@pytest.mark.parametrize("reason", ["", " "])
async def test_a_reason_is_required(house: MemberFactorScene, reason: str) -> None:
    assert refused(await house.reset(house.member, reason)) == BAD_REQUEST
    assert house.has_factor(house.member)


async def test_it_needs_a_fresh_proof(house: MemberFactorScene) -> None:
    house.people.change("update sessions set proved_at = now() - interval '1 hour', second_factor_at = null")
    assert refused(await house.reset(house.member)) == (401, "REAUTHENTICATION_REQUIRED")


async def test_of_many_at_once_one_does_it(house: MemberFactorScene) -> None:
    answers = await all_at_once(*[lambda: house.reset(house.member)] * 5)
    assert sorted(answer.json()["message"] for answer in answers) == ["MFA is disabled", *["MFA was not enabled"] * 4]
    assert len(house.audited("security.mfa.disabled")) == 2

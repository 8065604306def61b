"""Names beside addresses: an organization sees the names of people who came to it by themselves, and of nobody whom it merely listed. The
platform's owners see all names. A mail to an address that nobody has proved has no name in it.
"""

from typing import Any

import pytest

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.identity.profile.profiles import OwnProfileChange, shown_name
from core.domain.record.events import Actor, Event, Target
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.inviting import Inviting
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

NAME = "Ada Lovelace"


@pytest.fixture
def house(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, unlimited(postern), log)


async def named(house: Inviting, person: Person) -> Person:
    user = UserId(person.user)
    # Most people have one name. Of those who say only the parts, lists show the parts.
    change = OwnProfileChange(given_name="Ada", family_name="Lovelace")
    await house.postern.identity.profiles.change(user, change, Actor(user=user), username=None)
    return person


async def listed(house: Inviting, path: str, by: Person) -> Any:
    answer = await house.request("GET", path, by=by)
    assert answer.status == 200, answer.body
    return answer.json()


def own(house: Inviting, person: Person, since: str) -> None:
    house.people.change(f"update memberships set own_since = {since} where user_id = %s", person.user)


@pytest.mark.parametrize(("since", "told"), [("now()", NAME), ("null", None)])
async def test_an_organization_sees_names_of_its_own_members_alone(house: Inviting, since: str, told: str | None) -> None:
    bob = await named(house, house.resident(house.acme, "admin", "bob"))
    own(house, bob, since)
    members = (await listed(house, "/api/organizations/acme/members", house.ada))["members"]
    assert [one["user"]["name"] for one in members if one["user"]["id"] == str(bob.user)] == [told]
    await house.invite(by=bob)
    (invitation,) = await listed(house, "/api/organizations/acme/invitations", house.ada)
    assert invitation["inviter"]["name"] == told
    entries = (await listed(house, "/api/organizations/acme/audit-log", house.ada))["logs"]
    assert {one["actor"]["name"] for one in entries if one["actor"]} == {told}
    await house.request("POST", "/api/organizations/acme/teams", {"slug": "watch", "name": "Watch"}, by=house.ada)
    await house.request("PUT", f"/api/organizations/acme/teams/watch/members/{bob.user}", by=house.ada)
    (member,) = (await listed(house, "/api/organizations/acme/teams/watch/members", house.ada))["members"]
    assert (member["email"], member["name"]) == (bob.email, told)
    assert NAME not in str(house.people.rows("select * from audit_log where action like 'user.invited'")), "the chain has no name"


async def test_an_act_elsewhere_shows_no_name(house: Inviting) -> None:
    """The person is another organization's own member, and acts in this one's log without being one of its people."""
    rival = await named(house, house.resident(house.tenants.add("globex"), "owner", "rival"))
    own(house, rival, "now()")
    async with house.postern.foundation.unit_of_work() as uow:
        actor = Actor(user=UserId(rival.user))
        await uow.record(Event("invitation.declined", actor, Target("invitation", "1"), OrganizationId(house.acme.id)))
        await uow.commit()
    (entry,) = (await listed(house, "/api/organizations/acme/audit-log", house.ada))["logs"]
    assert (entry["actor"]["id"], entry["actor"]["name"]) == (str(rival.user), None)


async def test_an_organization_sees_names_of_end_users_who_came(house: Inviting) -> None:
    shop, customer = house.tenants.service(house.acme, "shop"), await named(house, house.people.add("customer@example.org"))
    house.tenants.uses(customer, shop)
    for own_since, told in (("null", None), ("now()", NAME)):
        house.people.change(f"update service_users set own_since = {own_since}")
        (one,) = (await listed(house, "/api/organizations/acme/users", house.ada))["users"]
        assert one["name"] == told
        assert (await listed(house, f"/api/organizations/acme/users/{customer.user}", house.ada))["name"] == told
        found = await house.postern.services.service_users.lookup.detail(ServiceId(shop.id), UserId(customer.user))
        page = await house.postern.services.service_users.lookup.list(ServiceId(shop.id), 10, 0)
        assert found is not None
        assert [found.user.name, *(user.name for user in page.items)] == [told, told]


async def test_the_platforms_owners_see_all_names(house: Inviting) -> None:
    governor, ada = house.people.add("governor@example.org", platform_owner=True), await named(house, house.ada)
    (found,) = (await listed(house, f"/api/platform/users/search?user_id={ada.user}", governor))["users"]
    assert found["name"] == NAME
    assert (await listed(house, f"/api/platform/users/{ada.user}/mfa/status", governor))["name"] == NAME
    organizations = (await listed(house, "/api/platform/organizations", governor))["organizations"]
    assert [one["owner"]["name"] for one in organizations] == [NAME]


async def test_no_mail_to_an_unproved_address_has_a_name_in_it(house: Inviting) -> None:
    await named(house, house.ada)
    await house.invite("bob@example.org")
    (mail,) = await house.postbox.empty()
    assert "Lovelace" not in mail.subject + mail.text + (mail.html or "")


_PARTS = [(name, given, family) for name in (None, "Countess") for given in (None, "Ada") for family in (None, "Lovelace")]


async def test_lists_and_pages_show_the_same_name(house: Inviting) -> None:
    """Lists make it in SQL, and pages in Python."""
    governor = house.people.add("governor@example.org", platform_owner=True)
    for parts in _PARTS:
        house.people.change("update users set name = %s, given_name = %s, family_name = %s where id = %s", *parts, house.ada.user)
        (found,) = (await listed(house, f"/api/platform/users/search?user_id={house.ada.user}", governor))["users"]
        assert found["name"] == shown_name(*parts), parts

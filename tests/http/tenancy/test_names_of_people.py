"""Names beside addresses: an organization sees the names of people who came to it by themselves, and of nobody whom it merely listed. The
platform's owners see all names. A mail to an address that nobody has proved has no name in it.
"""

from typing import Any

import pytest

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.identity.profiles import OwnProfileChange, shown_name
from core.domain.record.events import Actor, Event, Target
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.inviting import Inviting
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

NAME = "Ada Lovelace"


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, unlimited(postern), log)


async def named(scene: Inviting, person: Person) -> Person:
    user = UserId(person.user)
    # Most people have one name. Of those who say only the parts, lists show the parts.
    change = OwnProfileChange(given_name="Ada", family_name="Lovelace")
    await scene.postern.identity.profiles.change(user, change, Actor(user=user), username=None)
    return person


async def listed(scene: Inviting, path: str, by: Person) -> Any:
    answer = await scene.request("GET", path, by=by)
    assert answer.status == 200, answer.body
    return answer.json()


def own(scene: Inviting, person: Person, since: str) -> None:
    scene.people.change(f"update memberships set own_since = {since} where user_id = %s", person.user)


@pytest.mark.parametrize(("since", "told"), [("now()", NAME), ("null", None)])
async def test_an_organization_sees_names_of_its_own_members_alone(scene: Inviting, since: str, told: str | None) -> None:
    bob = await named(scene, scene.resident(scene.acme, "admin", "bob"))
    own(scene, bob, since)
    members = (await listed(scene, "/api/organizations/acme/members", scene.ada))["members"]
    assert [one["user"]["name"] for one in members if one["user"]["id"] == str(bob.user)] == [told]
    await scene.invite(by=bob)
    (invitation,) = await listed(scene, "/api/organizations/acme/invitations", scene.ada)
    assert invitation["inviter"]["name"] == told
    entries = (await listed(scene, "/api/organizations/acme/audit-log", scene.ada))["logs"]
    assert {one["actor"]["name"] for one in entries if one["actor"]} == {told}
    await scene.request("POST", "/api/organizations/acme/teams", {"slug": "watch", "name": "Watch"}, by=scene.ada)
    await scene.request("PUT", f"/api/organizations/acme/teams/watch/members/{bob.user}", by=scene.ada)
    (member,) = (await listed(scene, "/api/organizations/acme/teams/watch/members", scene.ada))["members"]
    assert (member["email"], member["name"]) == (bob.email, told)
    assert NAME not in str(scene.people.rows("select * from audit_log where action like 'user.invited'")), "the chain has no name"


async def test_an_act_elsewhere_shows_no_name(scene: Inviting) -> None:
    """The person is another organization's own member, and acts in this one's log without being one of its people."""
    rival = await named(scene, scene.resident(scene.tenants.add("globex"), "owner", "rival"))
    own(scene, rival, "now()")
    async with scene.postern.foundation.unit_of_work() as uow:
        actor = Actor(user=UserId(rival.user))
        await uow.record(Event("invitation.declined", actor, Target("invitation", "1"), OrganizationId(scene.acme.id)))
        await uow.commit()
    (entry,) = (await listed(scene, "/api/organizations/acme/audit-log", scene.ada))["logs"]
    assert (entry["actor"]["id"], entry["actor"]["name"]) == (str(rival.user), None)


async def test_an_organization_sees_names_of_end_users_who_came(scene: Inviting) -> None:
    shop, customer = scene.tenants.service(scene.acme, "shop"), await named(scene, scene.people.add("customer@example.org"))
    scene.tenants.uses(customer, shop)
    for own_since, told in (("null", None), ("now()", NAME)):
        scene.people.change(f"update service_users set own_since = {own_since}")
        (one,) = (await listed(scene, "/api/organizations/acme/users", scene.ada))["users"]
        assert one["name"] == told
        assert (await listed(scene, f"/api/organizations/acme/users/{customer.user}", scene.ada))["name"] == told
        found = await scene.postern.services.service_users.lookup.detail(ServiceId(shop.id), UserId(customer.user))
        page = await scene.postern.services.service_users.lookup.list(ServiceId(shop.id), 10, 0)
        assert found is not None
        assert [found.user.name, *(user.name for user in page.items)] == [told, told]


async def test_the_platforms_owners_see_all_names(scene: Inviting) -> None:
    governor, ada = scene.people.add("governor@example.org", platform_owner=True), await named(scene, scene.ada)
    (found,) = (await listed(scene, f"/api/platform/users/search?user_id={ada.user}", governor))["users"]
    assert found["name"] == NAME
    assert (await listed(scene, f"/api/platform/users/{ada.user}/mfa/status", governor))["name"] == NAME
    organizations = (await listed(scene, "/api/platform/organizations", governor))["organizations"]
    assert [one["owner"]["name"] for one in organizations] == [NAME]


async def test_no_mail_to_an_unproved_address_has_a_name_in_it(scene: Inviting) -> None:
    await named(scene, scene.ada)
    await scene.invite("bob@example.org")
    (mail,) = await scene.postbox.empty()
    assert "Lovelace" not in mail.subject + mail.text + (mail.html or "")


_PARTS = [(name, given, family) for name in (None, "Countess") for given in (None, "Ada") for family in (None, "Lovelace")]


async def test_lists_and_pages_show_the_same_name(scene: Inviting) -> None:
    """Lists make it in SQL, and pages in Python."""
    governor = scene.people.add("governor@example.org", platform_owner=True)
    for parts in _PARTS:
        scene.people.change("update users set name = %s, given_name = %s, family_name = %s where id = %s", *parts, scene.ada.user)
        (found,) = (await listed(scene, f"/api/platform/users/search?user_id={scene.ada.user}", governor))["users"]
        assert found["name"] == shown_name(*parts), parts

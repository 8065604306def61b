"""Organizations over HTTP: founded, shown, renamed, deleted; the callers who may, and the answers to all others."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
import trio

from core.domain.errors import Forbidden, Unauthorized
from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.tenancy.organizations import MOST_APPROVALS, MOST_OWNED, PURGE_JOB
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.tiers import FREE
from core.frozen import replace
from core.usecases.tenancy.organizations import Organizations
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.settings import read
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person
from tests.http.tenants import OwnRole, Tenants

ORGANIZATIONS: Final = "/api/organizations"
CROWD: Final = 50
FREE_TIER: Final = {
    "id": str(FREE),
    "name": "free",
    "display_name": "Free",
    "default_max_services": 3,
    "default_max_users": 100,
    "price_cents": 0,
}


@pytest.fixture
def tenants(postern: Postern, people: People) -> Tenants:
    return Tenants(postern, people)


@pytest.fixture
def ada(people: People) -> Person:
    return people.proved("Ada@example.org")


def at(slug: str) -> str:
    return f"{ORGANIZATIONS}/{slug}"


async def insist(client: Client, method: str, target: str, body: Any = None, *, token: str) -> Received:
    """Repeats the request while the busy server asks to come back."""
    while True:
        answer = await client.request(method, target, body=body, token=token)
        if answer.status != 503:
            return answer
        await trio.sleep(0.2)


async def found(client: Client, token: str, slug: str = "acme", name: str = "Acme") -> Received:
    return await client.post(ORGANIZATIONS, {"slug": slug, "name": name}, token=token)


def approving(postern: Postern, client: Client) -> Client:
    """The same installation with POSTERN_ORG_AUTO_APPROVE=on."""
    organizations = postern.tenancy.organizations
    approved = Organizations(
        postern.foundation.unit_of_work,
        organizations.lookup,
        organizations.tiers,
        postern.identity.sessions,
        auto_approve=True,
        system=postern.foundation.system,
    )
    return Client(build_application(replace(postern, tenancy=replace(postern.tenancy, organizations=approved)), SETTINGS), client.address)


def audited(people: People, organization: str | None = None) -> list[dict[str, Any]]:
    return people.rows(
        "select action, actor_id, target_type, target_id, success, details, host(address) as address from audit_log"
        " where organization_id is not distinct from %s order by id",
        organization,
    )


def published(people: People) -> list[str]:
    return [row["name"] for row in people.rows("select name from events order by id")]


# Founding


async def test_whoever_founds_an_organization_owns_it_and_is_signed_in_to_it(client: Client, people: People, ada: Person) -> None:
    before = datetime.now(UTC)
    answer = await found(client, await people.token(ada), "acme-co", "  Acme   Co ")
    assert answer.status == 200, answer.body
    body = answer.json()
    organization, membership = body["organization"], body["membership"]
    created = datetime.fromisoformat(organization["created_at"])
    assert before <= created <= datetime.now(UTC)
    assert organization == {
        "id": organization["id"],
        "slug": "acme-co",
        "name": "Acme Co",
        "status": "pending",
        "tier_id": str(FREE),
        "owner_user_id": str(ada.user),
        "max_services": None,
        "max_users": None,
        "approved_at": None,
        "approved_by": None,
        "rejected_at": None,
        "rejection_reason": None,
        "suspended_at": None,
        "suspension_reason": None,
        "created_at": organization["created_at"],
        "updated_at": organization["created_at"],
    }
    assert membership == {
        "id": membership["id"],
        "org_id": organization["id"],
        "user_id": str(ada.user),
        "role": "owner",
        "created_at": organization["created_at"],
        "own_since": organization["created_at"],
    }
    assert (body["owner"]["id"], body["owner"]["email"], body["owner"]["is_platform_owner"]) == (str(ada.user), "Ada@example.org", False)
    # While it is pending, these tokens show the organization, and little else.
    seen = await client.get(at("acme-co"), token=body["access_token"])
    assert seen.status == 200
    assert seen.json() == {
        "organization": organization,
        "membership": membership,
        "member_count": 1,
        "service_count": 0,
        "metadata": {},
        "tier": FREE_TIER,
    }
    assert (await client.get("/api/user", token=body["access_token"])).error_code == "ORGANIZATION_NOT_ACTIVE"


async def test_what_a_platform_owner_founds_has_the_largest_tier_also_when_approved(client: Client, people: People, ada: Person) -> None:
    owner = people.proved(platform_owner=True)
    token = await people.token(owner)

    def tier_of(organization: Any) -> str:
        (row,) = people.rows("select name from tiers where id = (select tier_id from organizations where id = %s)", organization["id"])
        return str(row["name"])

    async def approved(organization: Any, body: Any) -> str:
        (await client.post(f"/api/platform/organizations/{organization['id']}/approve", body, token=token)).ok()
        return tier_of(organization)

    for slug, by, tier in (("ours", token, "professional"), ("hers", await people.token(ada), "free")):
        founded = (await found(client, by, slug, "Name")).ok()["organization"]
        assert (tier_of(founded), await approved(founded, {})) == (tier, tier)
    founded = (await found(client, token, "other", "Name")).ok()["organization"]
    assert await approved(founded, {"tier_id": str(FREE)}) == "free"
    # A former platform owner founds organizations like everybody else.
    people.change("update users set is_platform_owner = false where id = %s", owner.user)
    assert tier_of((await found(client, token, "later", "Name")).ok()["organization"]) == "free"


async def test_with_auto_approval_it_is_active_at_once(postern: Postern, client: Client, people: People, ada: Person) -> None:
    client = approving(postern, client)
    body = (await found(client, await people.token(ada))).json()
    organization = body["organization"]
    assert (organization["status"], organization["approved_at"], organization["approved_by"]) == (
        "active",
        organization["created_at"],
        None,
    )
    profile = await client.get("/api/user", token=body["access_token"])
    assert (profile.json()["org"], profile.json()["service"]) == ("acme", "")
    # And the session goes on with its refresh token, in its context.
    refreshed = await client.post("/api/auth/refresh", {"refresh_token": body["refresh_token"]})
    assert refreshed.status == 200
    assert (await client.get("/api/user", token=refreshed.json()["access_token"])).json()["org"] == "acme"


def test_the_setting_is_off_unless_it_is_said(tmp_path: Path) -> None:
    assert not read({"POSTERN_DATA_DIR": str(tmp_path)}).org_auto_approve
    assert read({"POSTERN_DATA_DIR": str(tmp_path), "POSTERN_ORG_AUTO_APPROVE": "on"}).org_auto_approve


async def test_founding_is_on_record(client: Client, people: People, ada: Person) -> None:
    organization = (await found(client, await people.token(ada))).json()["organization"]["id"]
    (session,) = people.rows("select id from sessions where organization_id = %s", organization)
    by_ada = {"actor_id": ada.user, "success": True, "address": "192.0.2.1"}
    assert audited(people, organization) == [
        {
            **by_ada,
            "action": "organization.created",
            "target_type": "organization",
            "target_id": organization,
            "details": {"slug": "acme", "name": "Acme", "status": "pending"},
        },
        {
            **by_ada,
            "action": "security.session.opened",
            "target_type": "user",
            "target_id": str(ada.user),
            "details": {"session_id": str(session["id"])},
        },
    ]
    assert published(people) == ["organization.created"]


async def test_a_session_in_the_new_organization_does_not_outlive_the_one_it_comes_from(
    client: Client, people: People, ada: Person
) -> None:
    people.change("update sessions set ends_at = now() + interval '3 days', authenticated_by = '{pwd,otp}' where id = %s", ada.session)
    device = people.rows(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'Telephone', 'mobile', now(), now(), now()) returning id",
        ada.user,
    )[0]["id"]
    people.change("update sessions set device_id = %s where id = %s", device, ada.session)
    await found(client, await people.token(ada, amr=["pwd", "otp"]))
    old, new = people.rows("select * from sessions order by organization_id nulls first")
    assert new["ends_at"] == old["ends_at"]
    assert (new["device_id"], new["authenticated_by"]) == (device, ["pwd", "otp"])


@pytest.mark.parametrize(
    "slug",
    ["", "ab", "a" * 51, "Acme", "ac me", "-acme", "acme-", "acmé", "ac_me", "ac.me", "a\u0000b", "api", "admin", "well-known", "ui"],
)
async def test_a_slug_that_cannot_be_had_is_refused(client: Client, people: People, ada: Person, slug: str) -> None:
    answer = await found(client, await people.token(ada), slug)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert people.rows("select id from all_organizations") == []


@pytest.mark.parametrize("slug", ["abc", "a" * 50, "0-0", "a--b"])
async def test_a_slug_at_the_edge_is_taken(client: Client, people: People, ada: Person, slug: str) -> None:
    assert (await found(client, await people.token(ada), slug)).status == 200


@pytest.mark.parametrize("name", ["", "A", " A ", "\u202e\u202e\u202e", "a" * 101])
async def test_a_name_that_cannot_be_had_is_refused(client: Client, people: People, ada: Person, name: str) -> None:
    answer = await found(client, await people.token(ada), name=name)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_a_hostile_name_is_kept_as_a_name(client: Client, people: People, ada: Person) -> None:
    name = "'; drop table users; -- <script>alert(1)</script> %s %(x)s"
    answer = await found(client, await people.token(ada), name=name)
    assert answer.json()["organization"]["name"] == name
    hidden = await found(client, await people.token(ada), "other", "Be\u202eta")
    assert hidden.json()["organization"]["name"] == "Beta"


@pytest.mark.parametrize(
    "body", [{}, {"slug": "acme"}, {"name": "Acme"}, {"slug": 1, "name": "Acme"}, {"slug": "acme", "name": None}, [], b"{"]
)
async def test_a_body_that_says_less_is_refused(client: Client, people: People, ada: Person, body: Any) -> None:
    assert (await client.post(ORGANIZATIONS, body, token=await people.token(ada))).status == 400


async def test_a_taken_slug_is_a_conflict_whoever_has_it(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    tenants.add("acme", status="suspended")
    answer = await found(client, await people.token(ada))
    assert (answer.status, answer.error_code) == (409, "CONFLICT")
    # The failed try leaves no session, no membership and no entry.
    assert [len(people.rows(f"select from {table}")) for table in ("memberships", "sessions", "audit_entries", "events")] == [0, 1, 0, 0]


async def test_of_fifty_who_want_a_slug_at_once_one_gets_it(postern: Postern, people: People) -> None:
    tokens = [await people.token(people.proved()) for _ in range(CROWD)]
    statuses: list[int] = []

    async def attempt(number: int, token: str) -> None:
        own = Client(build_application(postern, SETTINGS), f"192.0.2.{number + 1}")
        statuses.append((await insist(own, "POST", ORGANIZATIONS, {"slug": "acme", "name": "Acme"}, token=token)).status)

    async with trio.open_nursery() as nursery:
        for number, token in enumerate(tokens):
            nursery.start_soon(attempt, number, token)
    assert sorted(statuses) == [200] + [409] * (CROWD - 1)
    assert len(people.rows("select from organizations")) == 1
    assert [row["role"] for row in people.rows("select role from memberships")] == ["owner"]
    assert people.rows("select member_count from organizations") == [{"member_count": 1}]


async def crowd_founds(client: Client, token: str) -> list[int]:
    """The statuses, sorted, when one person founds as many at once."""
    statuses: list[int] = []

    async def attempt(number: int) -> None:
        body = {"slug": f"new-{number}", "name": "New"}
        statuses.append((await insist(client, "POST", ORGANIZATIONS, body, token=token)).status)

    async with trio.open_nursery() as nursery:
        for number in range(CROWD):
            nursery.start_soon(attempt, number)
    return sorted(statuses)


async def test_nobody_has_more_than_a_hundred_organizations_waiting_even_at_once(client: Client, people: People, ada: Person) -> None:
    people.change(
        "insert into organizations (id, slug, name, status, owner_user_id, created_at, updated_at)"
        " select gen_random_uuid(), 'waiting-' || n, 'Waiting', 'pending', %s, now(), now() from generate_series(1, %s) as n",
        ada.user,
        MOST_APPROVALS - 2,
    )
    token = await people.token(ada)
    assert await crowd_founds(client, token) == [200, 200] + [400] * (CROWD - 2)
    people.change("update organizations set status = 'active' where slug = 'waiting-1'")
    assert (await found(client, token, "approved-meanwhile")).status == 200
    assert (await found(client, token, "once-more")).status == 400
    # Other people's organizations do not count.
    assert (await found(client, await people.token(people.proved()), "somebody-elses")).status == 200


async def test_nobody_owns_more_than_a_thousand_organizations_even_at_once(
    postern: Postern, client: Client, people: People, ada: Person
) -> None:
    client = approving(postern, client)
    people.change(
        "insert into organizations (id, slug, name, status, owner_user_id, created_at, updated_at)"
        " select gen_random_uuid(), 'mine-' || n, 'Mine', (array['active', 'suspended', 'rejected'])[1 + n %% 3], %s, now(), now()"
        "   from generate_series(1, %s) as n",
        ada.user,
        MOST_OWNED - 2,
    )
    people.change("update users set is_platform_owner = true where id = %s", ada.user)
    token = await people.token(ada)
    assert await crowd_founds(client, token) == [200, 200] + [400] * (CROWD - 2)
    # An organization that is being deleted is no longer theirs.
    people.change("update all_organizations set deleted_at = now() where slug = 'mine-1'")
    assert (await found(client, token, "one-went")).status == 200
    assert (await found(client, token, "once-more")).status == 400
    assert (await found(client, await people.token(people.proved()), "somebody-elses")).status == 200


async def test_whose_session_ends_meanwhile_founds_nothing(postern: Postern, people: People, ada: Person) -> None:
    caller = await postern.tenancy.callers.resolve(await people.token(ada))
    people.change("update sessions set revoked_at = now() where id = %s", ada.session)
    with pytest.raises(Unauthorized, match="The session has ended"):
        await postern.tenancy.organizations.found(caller, "acme", "Acme", actor=Actor(UserId(ada.user)))
    assert people.rows("select from all_organizations") == []


async def test_who_may_found(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house", status="suspended")
    tenants.join(ada, house)
    # The session may be in another organization of theirs, even a suspended one, since the person founds.
    assert (await found(client, await tenants.token_in(ada, house))).status == 200
    active = tenants.add("active")
    service = tenants.service(active, "shop")
    in_service = await found(client, await tenants.token_in(tenants.uses(ada, service), service), "other")
    assert (in_service.status, in_service.error_code) == (403, "FORBIDDEN")
    owner = people.proved(platform_owner=True)
    impersonated = tenants.session(ada)
    people.change(
        "update sessions set impersonator_id = %s, impersonation_id = gen_random_uuid() where id = %s", owner.user, impersonated.session
    )
    token = await people.token(
        impersonated, token_use="impersonation", impersonator=str(owner.user), impersonation_session=str(owner.user), act={}
    )
    assert (await found(client, token, "third")).error_code == "FORBIDDEN"
    assert (await client.post(ORGANIZATIONS, {"slug": "fourth", "name": "Fourth"})).status == 401


# Seeing


async def test_the_list_is_of_all_that_one_belongs_to_in_any_state_and_of_no_other(
    client: Client, people: People, tenants: Tenants, ada: Person
) -> None:
    for slug, status, name in (
        ("zebra", "pending", "alpha"),
        ("ant", "suspended", "Beta"),
        ("bee", "rejected", "beta"),
        ("cow", "active", "Zulu"),
    ):
        tenants.join(ada, tenants.add(slug, status=status, name=name), "admin" if slug == "cow" else "member")
    other = tenants.add("others", name="Aardvark")
    tenants.member(other, "owner")
    answer = await client.get(ORGANIZATIONS, token=await people.token(ada))
    assert answer.status == 200
    assert [(one["organization"]["slug"], one["organization"]["status"], one["membership"]["role"]) for one in answer.json()] == [
        ("zebra", "pending", "member"),
        ("ant", "suspended", "member"),
        ("bee", "rejected", "member"),
        ("cow", "active", "admin"),
    ]
    assert all(one["membership"]["user_id"] == str(ada.user) for one in answer.json())
    assert (await client.get(ORGANIZATIONS, token=await people.token(people.proved()))).json() == []


async def test_counts_are_of_the_organization_alone(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    mine, theirs = tenants.add("mine"), tenants.add("theirs")
    tenants.join(ada, mine, "owner")
    for _ in range(3):
        tenants.member(mine)
    tenants.service(mine, "shop")
    for slug in ("shop", "forum"):
        tenants.service(theirs, slug)
    tenants.member(theirs)
    for answer in (
        (await client.get(ORGANIZATIONS, token=await people.token(ada))).json()[0],
        (await client.get(at("mine"), token=await people.token(ada))).json(),
    ):
        assert (answer["member_count"], answer["service_count"]) == (4, 1)


async def test_what_a_platform_owner_gave_is_seen(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house")
    tenants.join(ada, house)
    people.change(
        "update organizations set max_users = 7, max_services = 0, status = 'suspended', suspension_reason = 'unpaid',"
        " tier_id = (select id from tiers where name = 'professional') where id = %s",
        house.id,
    )
    seen = (await client.get(at("house"), token=await tenants.token_in(ada, house))).json()
    organization = seen["organization"]
    assert (organization["max_users"], organization["max_services"], organization["suspension_reason"]) == (7, 0, "unpaid")
    assert (seen["tier"]["name"], organization["tier_id"]) == ("professional", seen["tier"]["id"])


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_to_others_it_is_closed(client: Client, people: People, tenants: Tenants, ada: Person, method: str) -> None:
    house, other = tenants.add("house"), tenants.add("other")
    tenants.join(ada, other, "owner")
    owner = tenants.member(house, "owner")
    body = {"name": "Mine now"} if method == "PATCH" else None

    async def status(token: str, slug: str = "house") -> tuple[int, str]:
        answer = await client.request(method, at(slug), body=body, token=token)
        return answer.status, answer.error_code

    assert await status(await people.token(ada)) == (403, "FORBIDDEN")
    assert await status(await tenants.token_in(ada, other)) == (403, "FORBIDDEN")
    # Its own owner, with a token for another organization, or for a service of this one.
    tenants.join(owner, other)
    service = tenants.service(house, "shop")
    assert await status(await tenants.token_in(owner, other)) == (403, "FORBIDDEN")
    assert await status(await tenants.token_in(owner, service)) == (403, "FORBIDDEN")
    assert await status(await people.token(people.proved(platform_owner=True))) == (403, "FORBIDDEN")
    assert await status(await people.token(owner), "nothing-there") == (404, "NOT_FOUND")
    assert await status(await people.token(owner), "HOUSE") == (404, "NOT_FOUND")
    assert people.rows("select name, deleted_at from all_organizations where slug = 'house'") == [{"name": "House", "deleted_at": None}]


async def test_a_member_who_is_removed_sees_it_no_more(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house")
    tenants.join(ada, house)
    token = await people.token(ada)
    assert (await client.get(at("house"), token=token)).status == 200
    people.change("delete from memberships where user_id = %s", ada.user)
    people.change("delete from relations where user_id = %s", ada.user)
    assert (await client.get(at("house"), token=token)).status == 403
    assert (await client.get(ORGANIZATIONS, token=token)).json() == []


# Renaming


async def test_renaming(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    token = await people.token(ada)
    answer = await client.request("PATCH", at("house"), body={"name": " The  House "}, token=token)
    assert answer.status == 200, answer.body
    assert answer.json() == (await client.get(at("house"), token=token)).json()
    organization = answer.json()["organization"]
    assert (organization["name"], organization["slug"]) == ("The House", "house")
    assert organization["updated_at"] > organization["created_at"]
    (entry,) = audited(people, str(house.id))
    assert (entry["action"], entry["actor_id"], entry["details"]) == (
        "organization.updated",
        ada.user,
        {"changed": ["name"], "old_name": "House", "name": "The House"},
    )
    assert published(people) == ["organization.updated"]
    # Repeat the new password changes nothing and says nothing.
    assert (await client.request("PATCH", at("house"), body={"name": "The House"}, token=token)).json() == answer.json()
    assert len(audited(people, str(house.id))) == 1


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": " x "}, {"name": "x" * 101}, {"name": None}, {"name": ["House"]}])
async def test_a_name_that_cannot_be_had_changes_nothing(client: Client, people: People, tenants: Tenants, ada: Person, body: Any) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    answer = await client.request("PATCH", at("house"), body=body, token=await people.token(ada))
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert people.rows("select name from organizations") == [{"name": "House"}]


async def test_nothing_but_the_name_can_be_said(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house", status="active")
    tenants.join(ada, house, "owner")
    before = people.rows("select slug, status, tier_id, owner_user_id, max_users from organizations")
    body = {"name": "Palace", "slug": "palace", "status": "suspended", "max_users": 9999, "owner_user_id": None, "member_count": 0}
    await client.request("PATCH", at("house"), body=body, token=await people.token(ada))
    assert people.rows("select slug, status, tier_id, owner_user_id, max_users from organizations") == before


async def test_who_may_rename(client: Client, people: People, tenants: Tenants) -> None:
    house = tenants.add("house")
    settings = tenants.role(house, "settings", [Capability.SETTINGS_MANAGE])
    everything_else = tenants.role(house, "everything-else", sorted(set(Capability) - {Capability.SETTINGS_MANAGE}))
    roles: list[str | OwnRole] = ["owner", "admin", "member", settings, everything_else]
    statuses = {}
    for number, role in enumerate(roles):
        token = await people.token(tenants.member(house, role))
        statuses[str(role)] = (await client.request("PATCH", at("house"), body={"name": f"House {number}"}, token=token)).status
    assert list(statuses.values()) == [200, 200, 403, 200, 403]


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_what_is_not_active_is_not_renamed(client: Client, people: People, tenants: Tenants, ada: Person, status: str) -> None:
    house = tenants.add("house", status=status)
    tenants.join(ada, house, "owner")
    answer = await client.request("PATCH", at("house"), body={"name": "Palace"}, token=await people.token(ada))
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_fifty_who_rename_at_once_leave_one_name_and_one_entry_each(
    client: Client, people: People, tenants: Tenants, ada: Person
) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    token = await people.token(ada)

    async def attempt(number: int) -> None:
        assert (await insist(client, "PATCH", at("house"), {"name": f"House {number}"}, token=token)).status == 200

    async with trio.open_nursery() as nursery:
        for number in range(CROWD):
            nursery.start_soon(attempt, number)
    # Each entry begins where the one before ended: none was written over unseen.
    changes = [entry["details"] for entry in audited(people, str(house.id))]
    assert len(changes) == CROWD
    by_old = {change["old_name"]: change["name"] for change in changes}
    name = "House"
    for _ in range(CROWD):
        name = by_old.pop(name)
    assert people.rows("select name from organizations") == [{"name": name}]


# Deleting


async def test_a_deleted_organization_is_gone_from_every_answer_at_once(
    client: Client, people: People, tenants: Tenants, ada: Person
) -> None:
    house, other = tenants.add("house"), tenants.add("other")
    tenants.join(ada, house, "owner")
    tenants.join(ada, other)
    admin = tenants.member(house, "admin")
    service = tenants.service(house, "shop")
    customer = tenants.uses(people.proved(), service)
    tokens = {
        "owner on the platform": await people.token(ada),
        "owner in it": await tenants.token_in(ada, house),
        "admin": await people.token(admin),
        "customer": await tenants.token_in(customer, service),
    }
    refresh = b"r" * 32
    people.change(
        "insert into refresh_tokens (digest, session_id, created_at)"
        " select sha256(%s), id, now() from sessions where user_id = %s and service_id is not null",
        refresh,
        customer.user,
    )
    answer = await client.request("DELETE", at("house"), token=tokens["owner on the platform"])
    assert (answer.status, answer.body) == (204, b"")
    # Nothing has been swept yet.
    assert len(people.rows("select from memberships where org_id = %s", house.id)) == 2
    assert (await client.get(at("house"), token=tokens["owner on the platform"])).status == 404
    assert (await client.get(at("house"), token=tokens["admin"])).status == 404
    assert (await client.request("DELETE", at("house"), token=tokens["owner on the platform"])).status == 404
    assert (await client.request("PATCH", at("house"), body={"name": "Palace"}, token=tokens["admin"])).status == 404
    assert [one["organization"]["slug"] for one in (await client.get(ORGANIZATIONS, token=tokens["owner on the platform"])).json()] == [
        "other"
    ]
    # A person who is signed in to it, or to a service of it, no longer is.
    for who in ("owner in it", "customer"):
        assert (await client.get("/api/user", token=tokens[who])).status == 401
    assert (await client.post("/api/auth/refresh", {"refresh_token": refresh.decode()})).status == 401
    # Elsewhere everything goes on.
    assert (await client.get(at("other"), token=tokens["owner on the platform"])).status == 200
    assert (await client.get("/api/user", token=tokens["admin"])).status == 200


async def test_its_slug_is_free_at_once_and_old_tokens_do_not_open_the_new_one(
    postern: Postern, client: Client, people: People, ada: Person
) -> None:
    client = approving(postern, client)
    old = (await found(client, await people.token(ada))).json()
    assert (await client.request("DELETE", at("acme"), token=old["access_token"])).status == 204
    new = await found(client, await people.token(ada), name="Acme Two")
    assert new.status == 200
    assert new.json()["organization"]["id"] != old["organization"]["id"]
    assert (await client.get(at("acme"), token=old["access_token"])).status == 401
    assert (await client.post("/api/auth/refresh", {"refresh_token": old["refresh_token"]})).status == 401
    seen = (await client.get(at("acme"), token=new.json()["access_token"])).json()
    assert (seen["organization"]["name"], seen["member_count"]) == ("Acme Two", 1)


async def test_deleting_is_on_record_on_the_platform_and_queued(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    await client.request("DELETE", at("house"), token=await people.token(ada))
    for organization in (None, str(house.id)):
        (entry,) = audited(people, organization)
        assert (entry["action"], entry["actor_id"], entry["target_type"], entry["target_id"], entry["details"]) == (
            "organization.deleted",
            ada.user,
            "organization",
            str(house.id),
            {"slug": "house", "name": "House"},
        )
    assert published(people) == []
    (job,) = people.rows("select payload, state from jobs where kind = %s", PURGE_JOB)
    assert job == {"payload": {"organization": str(house.id)}, "state": "waiting"}


@pytest.mark.parametrize("status", ["pending", "rejected"])
async def test_the_owner_may_delete_one_that_never_was_active(
    client: Client, people: People, tenants: Tenants, ada: Person, status: str
) -> None:
    tenants.join(ada, tenants.add("house", status=status), "owner")
    assert (await client.request("DELETE", at("house"), token=await people.token(ada))).status == 204


async def test_nobody_else_may_whatever_their_capabilities(client: Client, people: People, tenants: Tenants) -> None:
    house = tenants.add("house")
    everything = tenants.role(house, "everything", list(Capability))
    for role in ("admin", "member", everything):
        answer = await client.request("DELETE", at("house"), token=await people.token(tenants.member(house, role)))
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert len(people.rows("select from organizations")) == 1


async def test_of_fifty_who_delete_at_once_one_does(client: Client, people: People, tenants: Tenants, ada: Person) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    token = await people.token(ada)
    statuses: list[int] = []

    async def attempt() -> None:
        statuses.append((await insist(client, "DELETE", at("house"), token=token)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(attempt)
    assert sorted(statuses) == [204] + [404] * (CROWD - 1)
    assert len(audited(people)) == 1
    assert len(people.rows("select from jobs where kind = %s", PURGE_JOB)) == 1


async def test_whoever_has_just_handed_it_over_does_not_delete_it(
    postern: Postern, client: Client, people: People, tenants: Tenants, ada: Person
) -> None:
    house = tenants.add("house")
    tenants.join(ada, house, "owner")
    heir = tenants.member(house, "admin")
    member = await postern.tenancy.callers.resolve_member(await people.token(ada), "house")
    transferred = await client.post(
        f"{at('house')}/transfer-ownership", {"new_owner_user_id": str(heir.user)}, token=await people.token(ada)
    )
    assert transferred.status == 200
    with pytest.raises(Forbidden):
        await postern.tenancy.organizations.delete(member, Actor(UserId(ada.user)))
    assert len(people.rows("select from organizations")) == 1


async def test_whoever_serves_takes_deleted_organizations_away(postern: Postern) -> None:
    assert [actor.name for actor in postern.actors].count("organization_purger") == 1


# What it costs: with the caller's own question. Founding asks for terms of the installation, too.
ROUND_TRIPS: Final = {"POST": 6, "GET list": 2, "GET": 2, "PATCH": 5, "DELETE": 6}


async def test_round_trips(client: Client, people: People, ada: Person, postern: Postern, log: CapturedLog) -> None:
    client = approving(postern, client)
    token = await people.token(ada)
    measured: dict[str, int] = {}
    for slug in ("warm", "measured"):
        calls: dict[str, tuple[str, str, Any]] = {
            "POST": ("POST", ORGANIZATIONS, {"slug": slug, "name": "House"}),
            "GET list": ("GET", ORGANIZATIONS, None),
            "GET": ("GET", at(slug), None),
            "PATCH": ("PATCH", at(slug), {"name": "Palace"}),
            "DELETE": ("DELETE", at(slug), None),
        }
        for name, (method, target, body) in calls.items():
            log.entries.clear()
            assert (await client.request(method, target, body=body, token=token)).status in {200, 204}
            (line,) = log.events("request")
            measured[name] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


async def test_ids_are_uuids_of_this_installation(client: Client, people: People, ada: Person) -> None:
    body = (await found(client, await people.token(ada))).json()
    assert {UUID(body[part]["id"]).version for part in ("organization", "membership")} == {7}

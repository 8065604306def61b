"""What an application is told of people's rights, and whom a service admits that asks for an assigned role."""

from collections.abc import Awaitable
from functools import partial
from typing import Final
from uuid import uuid4

from core.domain.identifiers import OrganizationId, UserId
from core.domain.services.api_keys import Permission
from core.domain.services.rights import ServiceRights
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.people import Person
from tests.http.services.governing import BAD_REQUEST, FORBIDDEN, NOT_FOUND, Government


async def test_an_application_is_told_roles_permissions_and_teams_with_what_gives_each(government: Government) -> None:
    await government.permission("read", "invoices:write", "all")
    await government.role("editor", ["read", "invoices:write"])
    await government.role("boss", ["all"])
    await government.role("guest", ["read"], given_to_everybody=True)
    await government.role("nobodys", ["all"])
    member = government.tenants.uses(government.member, government.shop)
    government.team("zeta", member, role="admin")
    government.team("alpha", member)
    own = await government.assigned("editor", user_id=str(member.user))
    by_team = await government.assigned("editor", team="alpha")
    by_role = await government.assigned("boss", organization_role="admin")
    await government.assigned("nobodys", organization_role="owner")
    assert (await government.rights(member)).ok() == {
        "user_id": str(member.user),
        "barred": None,
        "roles": [
            {
                "slug": "boss",
                "permissions": ["all"],
                "given_to_everybody": False,
                "given_by": [{"assignment_id": by_role, "team": None, "organization_role": "admin"}],
            },
            {
                "slug": "editor",
                "permissions": ["invoices:write", "read"],
                "given_to_everybody": False,
                "given_by": [
                    {"assignment_id": own, "team": None, "organization_role": None},
                    {"assignment_id": by_team, "team": "alpha", "organization_role": None},
                ],
            },
            {"slug": "guest", "permissions": ["read"], "given_to_everybody": True, "given_by": []},
        ],
        "permissions": ["all", "invoices:write", "read"],
        "teams": ["alpha", "zeta"],
    }
    of = government.postern.services.rights.lookup.of
    assert await of(OrganizationId(government.acme.id), government.shop_id, UserId(member.user)) == ServiceRights(
        ("boss", "editor", "guest"), ("all", "invoices:write", "read")
    )
    assert (await government.check(member, "all")).ok() == {
        "allowed": True,
        "because": {
            "reason": "role",
            "role": "boss",
            "given_by": {"assignment_id": by_role, "team": None, "organization_role": "admin"},
        },
    }
    # An assignment says more than that everybody has the role.
    assert (await government.check(member, "read")).ok()["because"]["role"] == "editor"
    assert (await government.check(government.end_user, "read")).ok() == {
        "allowed": True,
        "because": {"reason": "role", "role": "guest", "given_by": None},
    }


async def test_each_reason_against_is_told(government: Government) -> None:
    await government.permission("invoices:write", "other")
    await government.role("editor", ["invoices:write"])
    user = government.end_user
    assert await government.reason(user) == "no_role"
    assert await government.reason(user, "none") == await government.reason(user, "") == ("unknown_permission")
    government.asks_for_roles()
    assert await government.reason(user) == "not_admitted"
    await government.assigned(user_id=str(user.user))
    assert await government.reason(user) == "role"
    assert await government.reason(user, "other") == "no_role"
    government.people.change("update service_users set own_since = now() where user_id = %s", user.user)
    government.people.change("update users set deactivated_at = now() where id = %s", user.user)
    assert await government.reason(user) == "deactivated"
    told = (await government.rights(user)).ok()
    assert (told["barred"], told["roles"], told["permissions"]) == ("deactivated", [], [])
    # A service can list anybody, and learns nothing of their account by that.
    government.people.change("update service_users set own_since = null, first_login_at = null where user_id = %s", user.user)
    assert ((await government.rights(user)).ok()["barred"], await government.reason(user)) == (None, "role")
    assert refused(await government.client.request("POST", "/api/service/check", body={}, headers=[("x-api-key", government.key)])) == (
        BAD_REQUEST
    )


async def test_each_change_is_seen_on_the_next_request(government: Government) -> None:
    await government.permission("invoices:write", "other")
    await government.role("editor", ["invoices:write"])
    user = government.tenants.uses(government.member, government.shop)
    for to in ({"user_id": str(user.user)}, {"organization_role": "member"}, {"team": "crew"}):
        if "team" in to:
            government.team("crew", user)
        one = await government.assigned(**to)
        assert await government.reason(user) == "role"
        assert (await government.at("DELETE", f"/assignments/{one}")).status == 204
        assert await government.reason(user) == "no_role"
    await government.assigned(team="crew")
    (await government.at("PATCH", "/roles/editor", {"permissions": ["other"]})).ok()
    assert await government.reason(user) == "no_role"
    assert await government.reason(user, "other") == "role"
    government.people.change("delete from team_members")
    assert await government.reason(user, "other") == "no_role"
    (await government.at("PATCH", "/roles/editor", {"given_to_everybody": True})).ok()
    assert await government.reason(user, "other") == "role"
    assert (await government.at("DELETE", "/permissions/other")).status == 204
    assert await government.reason(user, "other") == "unknown_permission"
    assert (await government.at("DELETE", "/roles/editor")).status == 204
    assert (await government.rights(user)).ok()["roles"] == []


async def test_users_of_others_are_not_found_and_other_keys_are_refused(government: Government) -> None:
    await government.role()
    theirs, of_app = government.user(government.theirs), government.user(government.app)
    for person in (theirs, of_app, government.stranger, government.member, Person(uuid4(), uuid4(), "")):
        assert refused(await government.rights(person)) == NOT_FOUND
        assert refused(await government.check(person)) == NOT_FOUND
    # A person of two organizations: each is told its own alone.
    await government.assigned(user_id=str(government.tenants.uses(theirs, government.shop).user))
    assert (await government.rights(theirs, key=government.key_of(government.theirs))).ok()["roles"] == []
    assert len((await government.rights(theirs)).ok()["roles"]) == 1
    unable = government.key_of(government.shop, set(Permission) - {Permission.READ_USERS})
    assert refused(await government.rights(theirs, key=unable)) == refused(await government.check(theirs, key=unable)) == FORBIDDEN
    assert (await government.client.get(f"/api/service/users/{theirs.user}/rights")).status == 401


async def test_taking_the_last_role_away_ends_the_next_request_and_the_refresh(government: Government) -> None:
    government.asks_for_roles()
    await government.role()
    await government.role("guest", given_to_everybody=True)
    user = government.tenants.uses(government.member, government.shop)
    first = await government.assigned(user_id=str(user.user))
    second = await government.assigned(organization_role="member")
    token = await government.tenants.token_in(user, government.shop)

    async def status() -> int:
        return (await government.client.get("/api/user", token=token)).status

    live = "select from sessions where service_id = %s and revoked_at is null"
    assert await status() == 200
    assert (await government.at("DELETE", f"/assignments/{first}")).status == 204
    assert await status() == 200
    assert len(government.people.rows(live, government.shop.id)) == 1
    assert (await government.at("DELETE", f"/assignments/{second}")).status == 204
    assert await status() == 403
    first = await government.assigned(user_id=str(user.user))
    assert await status() == 200
    # The person's own assignment ends their sessions with it, as the end of a membership does.
    assert (await government.at("DELETE", f"/assignments/{first}")).status == 204
    assert await status() == 401
    assert government.people.rows(live, government.shop.id) == []
    await government.assigned(user_id=str(user.user))
    assert await status() == 401


async def test_only_where_a_service_asks_for_a_role_do_sessions_end_with_it(government: Government) -> None:
    await government.role()
    user = government.tenants.uses(government.member, government.shop)
    for policy in ("anyone", "members"):
        government.people.change("update services set sign_in_policy = %s where id = %s", policy, government.shop.id)
        token = await government.tenants.token_in(user, government.shop)
        one = await government.assigned(user_id=str(user.user))
        assert (await government.at("DELETE", f"/assignments/{one}")).status == 204
        assert (await government.client.get("/api/user", token=token)).status == 200


async def test_a_service_is_made_to_ask_for_a_role(government: Government) -> None:
    assert (await government.at("PATCH", "", {"sign_in_policy": "assigned"})).ok()["sign_in_policy"] == "assigned"
    token = await government.tenants.token_in(government.tenants.uses(government.admin, government.shop), government.shop)
    assert (await government.client.get("/api/user", token=token)).status == 403
    body = {"slug": "strict", "name": "Strict", "service_type": "web", "sign_in_policy": "assigned"}
    made = (await government.request("POST", "/api/organizations/acme/services", body)).ok()
    assert made["service"]["sign_in_policy"] == "assigned"


# With the look-up of the caller, which is asked of every request.
ROUND_TRIPS: Final = {
    "rights": 2,
    "check": 2,
    "permissions": 2,
    "roles": 2,
    "role": 2,
    "assignments": 2,
}


async def test_round_trips(government: Government) -> None:
    await government.permission("read")
    await government.role("editor", ["read"])
    await government.assigned(user_id=str(government.end_user.user))
    measured: dict[str, int] = {}

    async def measure(name: str, call: Awaitable[Received]) -> None:
        government.log.entries.clear()
        assert (await call).status < 300
        (line,) = government.log.events("request")
        measured[name] = line["db_round_trips"]

    for _ in ("warm", "measured"):
        await measure("rights", government.rights(government.end_user))
        await measure("check", government.check(government.end_user, "read"))
        await measure("permissions", government.at("GET", "/permissions"))
        await measure("roles", government.at("GET", "/roles"))
        await measure("role", government.at("GET", "/roles/editor"))
        await measure("assignments", government.at("GET", "/assignments"))
    assert measured == ROUND_TRIPS


async def test_taking_the_last_role_away_beside_refreshes_opens_nothing(government: Government) -> None:
    government.asks_for_roles()
    await government.role()
    user = government.tenants.uses(government.member, government.shop)
    for _ in range(3):
        one = await government.assigned(user_id=str(user.user))
        tokens = [await government.tenants.token_in(user, government.shop) for _ in range(4)]
        await all_at_once(
            *[partial(government.client.get, "/api/user", token=token) for token in tokens],
            partial(government.at, "DELETE", f"/assignments/{one}"),
        )
        assert [(await government.client.get("/api/user", token=token)).status for token in tokens] == [401] * 4

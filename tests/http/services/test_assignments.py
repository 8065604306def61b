"""Assignments of a service's roles over HTTP: to people, to roles of the organization and to teams."""

from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import AssignmentId, OrganizationId
from core.domain.record.events import Actor
from core.domain.services.service_roles import WantedAssignee
from core.domain.tenancy.roles import Capability
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.people import Person
from tests.http.services.governing import BAD_REQUEST, CONFLICT, FORBIDDEN, NOT_FOUND, Government
from tests.http.tenants import OwnRole
from tests.meanwhile import meanwhile

CROWD: Final = 20


async def test_a_role_is_assigned_to_each_kind_of_subject_and_each_is_on_record(government: Government) -> None:
    await government.role()
    own = government.tenants.role(government.acme, "auditor", [])
    government.team("crew")
    subjects: list[dict[str, Any]] = [
        {"user_id": str(government.member.user)},
        {"user_id": str(government.end_user.user)},
        {"organization_role": "member"},
        {"organization_role": own.slug},
        {"team": "crew"},
    ]
    made = [(await government.assign(**to)).ok(201) for to in subjects]
    nobody = {"user_id": None, "email": None, "organization_role": None, "team": None}
    for to, one in zip(subjects, made, strict=True):
        assert {name: one[name] for name in set(one) - {"id", "created_at"}} == {"role": "editor", **nobody, **to}
        assert refused(await government.assign(**to)) == CONFLICT
    listed = (await government.at("GET", "/assignments")).ok()
    addresses = government.people.rows("select id, email from users")
    assert [one.pop("email") for one in listed["assignments"]] == [
        next((one["email"] for one in addresses if str(one["id"]) == to.get("user_id")), None) for to in subjects
    ]
    assert listed == {"assignments": [{name: one[name] for name in set(one) - {"email"}} for one in made], "next": None}
    for one in made:
        assert (await government.at("DELETE", f"/assignments/{one['id']}")).status == 204
        assert refused(await government.at("DELETE", f"/assignments/{one['id']}")) == NOT_FOUND
    # Teams and applications also by their names, which people read in the log.
    subjects[-1]["team_name"] = "Crew"
    told = [
        {"service_slug": "shop", "service_name": "Shop", "role_slug": "editor", "assignment_id": one["id"], **to}
        for to, one in zip(subjects, made, strict=True)
    ]
    for action in ("added", "removed"):
        entries = government.audited(f"service.assignment.{action}")
        assert [entry["details"] for entry in entries] == told
        people = [str(government.member.user), str(government.end_user.user)]
        assert [entry["target_id"] for entry in entries] == [*people, *[str(government.shop.id)] * 3]
    assert [event["name"] for event in government.told()].count("service.assignment.added") == 5


async def test_addresses_are_told_to_those_alone_who_may_see_them(government: Government) -> None:
    await government.role()
    await government.assigned(user_id=str(government.member.user))
    keeper = government.tenants.role(government.acme, "keeper", [Capability.SERVICES_VIEW, Capability.SERVICES_MANAGE])
    by = government.tenants.join(government.people.add(), government.acme, keeper)
    (one,) = (await government.at("GET", "/assignments", by=by)).ok()["assignments"]
    assert (one["user_id"], one["email"]) == (str(government.member.user), None)


async def test_who_is_unknown_here_is_assigned_nothing(government: Government) -> None:
    await government.role()
    theirs = government.resident(government.globex, "member")
    government.tenants.role(government.globex, "theirs", [])
    government.team("theirs", tenant=government.globex)
    of_the_app = government.user(government.app)
    wrong: list[dict[str, Any]] = [
        {"user_id": str(government.stranger.user)},
        {"user_id": str(theirs.user)},
        {"user_id": str(of_the_app.user)},
        {"user_id": str(uuid4())},
        {"user_id": "nobody"},
        {"organization_role": "theirs"},
        {"organization_role": "\0"},
        {"team": "theirs"},
        {"team": "none"},
        {},
        {"user_id": str(government.member.user), "team": "none"},
    ]
    for to in wrong:
        assert refused(await government.assign(**to)) == BAD_REQUEST, to
    assert refused(await government.assign("none", user_id=str(government.member.user))) == BAD_REQUEST
    nowhere = "/api/organizations/acme/services/none/assignments"
    for method, body in (("GET", None), ("POST", {"role": "editor", "user_id": str(government.member.user)})):
        assert refused(await government.request(method, nowhere, body)) == NOT_FOUND
    for path in (uuid4(), "nothing"):
        assert refused(await government.at("DELETE", f"/assignments/{path}")) == NOT_FOUND
    assert (await government.at("GET", "/assignments")).ok()["assignments"] == []


async def test_assignments_of_another_service_and_organization_are_not_found(government: Government) -> None:
    await government.role()
    assignment = await government.assigned(user_id=str(government.member.user))
    boss = government.resident(government.globex, "owner")
    for service, by in (("acme/services/app", government.admin), ("globex/services/app", boss)):
        path = f"/api/organizations/{service}/assignments"
        assert (await government.request("GET", path, by=by)).ok()["assignments"] == []
        of = f"?user_id={government.member.user}"
        assert (await government.request("GET", path + of, by=by)).ok()["assignments"] == []
        assert refused(await government.request("DELETE", f"{path}/{assignment}", by=by)) == NOT_FOUND
    assert refused(await government.at("GET", "/assignments", by=boss)) == FORBIDDEN
    assert len((await government.at("GET", "/assignments")).ok()["assignments"]) == 1


async def test_a_list_is_read_page_by_page_and_can_be_of_a_role_or_a_person(government: Government) -> None:
    await government.role("editor")
    await government.role("reader")
    people = [government.tenants.member(government.acme) for _ in range(3)]
    wanted = []
    for person in people:
        for role in ("editor", "reader"):
            wanted.append((role, str(person.user)))
            await government.assigned(role, user_id=str(person.user))

    async def read(query: str) -> list[tuple[str, str]]:
        found, after = [], ""
        while True:
            page = (await government.at("GET", f"/assignments?limit=2{query}{after}")).ok()
            found += [(one["role"], one["user_id"]) for one in page["assignments"]]
            if page["next"] is None:
                return found
            assert len(page["assignments"]) == 2
            after = f"&after={page['next']}"

    assert await read("") == wanted
    assert await read("&role=reader") == [one for one in wanted if one[0] == "reader"]
    assert await read(f"&user_id={people[1].user}") == wanted[2:4]
    assert await read(f"&user_id={people[1].user}&role=editor") == wanted[2:3]
    assert await read("&role=none") == []
    for query in ("limit=0", "limit=101", "after=x", "user_id=x"):
        assert refused(await government.at("GET", f"/assignments?{query}")) == BAD_REQUEST


async def test_of_many_who_assign_or_end_the_same_one_does(government: Government) -> None:
    await government.role()
    to: dict[str, Any] = {"user_id": str(government.member.user)}
    answers = await all_at_once(*[lambda: government.assign(**to)] * CROWD)
    assert sorted(answer.status for answer in answers) == [201] + [409] * (CROWD - 1)
    (one,) = (await government.at("GET", "/assignments")).ok()["assignments"]
    answers = await all_at_once(*[lambda: government.at("DELETE", f"/assignments/{one['id']}")] * CROWD)
    assert sorted(answer.status for answer in answers) == [204] + [404] * (CROWD - 1)
    assert len(government.audited("service.assignment.%")) == 2


async def test_an_assignment_that_goes_at_this_moment_is_not_found(government: Government, monkeypatch: pytest.MonkeyPatch) -> None:
    await government.role()
    one = await government.assigned(user_id=str(government.member.user))
    gone = "delete from relations where id = %s"
    meanwhile(monkeypatch, government.postern.services.assignments.lookup, "find", lambda: government.people.change(gone, one))
    assert refused(await government.at("DELETE", f"/assignments/{one}")) == NOT_FOUND
    assert government.audited("service.assignment.removed") == []


async def test_only_managers_of_services_see_and_change_assignments(government: Government) -> None:
    await government.role()
    one = await government.assigned(user_id=str(government.member.user))
    else_ = government.tenants.role(government.acme, "else", set(Capability) - {Capability.SERVICES_MANAGE})
    for who in (government.member, government.tenants.member(government.acme, else_)):
        assert refused(await government.at("GET", "/assignments", by=who)) == FORBIDDEN
        assert refused(await government.assign(by=who, user_id=str(government.admin.user))) == FORBIDDEN
        assert refused(await government.at("DELETE", f"/assignments/{one}", by=who)) == FORBIDDEN


async def test_a_caller_who_lost_the_right_meanwhile_changes_nothing(government: Government) -> None:
    await government.role()
    one = await government.assigned(user_id=str(government.member.user))
    manager = government.tenants.member(government.acme, government.tenants.role(government.acme, "m", [Capability.SERVICES_MANAGE]))
    late = await government.postern.tenancy.callers.resolve_member(await government.tenants.token(manager), "acme")
    government.people.change("delete from relations where relation = 'services.manage'")
    services = government.postern.services
    with pytest.raises(Forbidden):
        await services.assignments.add(late, "shop", "editor", WantedAssignee(role="member"), Actor(), is_proved=False)
    with pytest.raises(Forbidden):
        await services.assignments.remove(late, "shop", AssignmentId(UUID(one)), Actor())
    with pytest.raises(Forbidden):
        await services.permissions.create(late, "shop", "x", "", Actor())
    with pytest.raises(Forbidden):
        await services.service_roles.delete(late, "shop", "editor", Actor())
    assert len((await government.at("GET", "/assignments")).ok()["assignments"]) == 1


async def test_an_owner_alone_freshly_proved_assigns_to_a_team_that_a_directory_fills(government: Government) -> None:
    await government.role()
    government.team("theirs", source="directory")
    body = {"role": "editor", "team": "theirs"}
    now = government.postern.foundation.clock.now()
    old = government.tenants.session(government.owner, began=now - timedelta(hours=2))
    assert refused(await government.at("POST", "/assignments", body, by=old)) == (401, "REAUTHENTICATION_REQUIRED")
    fresh = government.tenants.session(government.admin)
    assert refused(await government.at("POST", "/assignments", body, by=fresh)) == FORBIDDEN
    assert (await government.at("POST", "/assignments", body, by=government.tenants.session(government.owner))).status == 201
    # Of a team of the organization's own, nobody is asked.
    government.team("ours")
    stale = government.tenants.session(government.admin, began=now - timedelta(hours=2))
    assert (await government.at("POST", "/assignments", {"role": "editor", "team": "ours"}, by=stale)).status == 201
    owner = await government.postern.tenancy.callers.resolve_member(await government.tenants.token(government.owner), "acme")
    with pytest.raises(Forbidden):
        await government.postern.services.assignments.add(owner, "shop", "editor", WantedAssignee(team="theirs"), Actor(), is_proved=False)
    # The same holds for a role of the organization that such a team carries.
    carried = government.tenants.role(government.acme, "carried", [])
    government.team("crew", source="directory", role="carried")
    government.people.change("update teams set role_id = %s where slug = 'crew'", carried.id)
    body = {"role": "editor", "organization_role": "carried"}
    assert refused(await government.at("POST", "/assignments", body, by=fresh)) == FORBIDDEN
    assert refused(await government.at("POST", "/assignments", body, by=old)) == (401, "REAUTHENTICATION_REQUIRED")
    assert (await government.at("POST", "/assignments", body, by=government.tenants.session(government.owner))).status == 201


async def assigned_people(government: Government) -> list[str]:
    return [one["user_id"] for one in (await government.at("GET", "/assignments")).ok()["assignments"]]


async def test_what_is_assigned_to_a_member_ends_with_the_membership_and_stays_with_another_role(government: Government) -> None:
    await government.role()
    await government.assigned(user_id=str(government.member.user))
    people = "/api/organizations/acme/members"
    own = government.tenants.role(government.acme, "other", [])
    for role in ("admin", own.slug, "member"):
        (await government.request("PATCH", f"{people}/{government.member.user}", {"role": role}, by=government.owner)).ok()
        assert await assigned_people(government) == [str(government.member.user)]
    await government.assigned(user_id=str(government.owner.user))
    body = {"new_owner_user_id": str(government.member.user)}
    (await government.request("POST", "/api/organizations/acme/transfer-ownership", body, by=government.owner)).ok()
    assert await assigned_people(government) == [str(government.member.user), str(government.owner.user)]
    (await government.request("POST", f"{people}/{government.owner.user}", by=government.member)).ok()
    assert await assigned_people(government) == [str(government.member.user)]


async def test_what_is_assigned_to_an_end_user_ends_when_they_leave_the_service(government: Government) -> None:
    await government.role()
    government.tenants.uses(government.end_user, government.app)
    await government.assigned(user_id=str(government.end_user.user))
    await government.request("POST", "/api/organizations/acme/services/app/roles", {"slug": "other", "name": "Other"})
    there = "/api/organizations/acme/services/app/assignments"
    (await government.request("POST", there, {"role": "other", "user_id": str(government.end_user.user)})).ok(201)
    headers = [("x-api-key", government.key)]
    assert (await government.client.request("DELETE", f"/api/service/users/{government.end_user.user}", headers=headers)).status == 204
    assert await assigned_people(government) == []
    assert len((await government.request("GET", there)).ok()["assignments"]) == 1


async def test_what_is_assigned_to_a_role_or_a_team_ends_with_it(government: Government) -> None:
    await government.role()
    own: OwnRole = government.tenants.role(government.acme, "own", [])
    team = government.team("crew")

    async def gives_roles() -> bool:
        async with government.postern.foundation.unit_of_work() as uow:
            crew = await uow.teams.find(OrganizationId(government.acme.id), "crew")
            assert crew is not None
            return await uow.teams.gives_service_roles(crew)

    await government.assigned(organization_role="own")
    assert not await gives_roles()
    await government.assigned(team="crew")
    assert await gives_roles()
    assert (await government.request("DELETE", f"/api/organizations/acme/roles/{own.id}", by=government.owner)).status == 204
    government.people.change("delete from teams where id = %s", team)
    assert (await government.at("GET", "/assignments")).ok()["assignments"] == []


async def test_assigning_beside_a_leaving_leaves_nothing_behind(government: Government) -> None:
    await government.role()
    for _ in range(5):
        person: Person = government.tenants.member(government.acme)
        await all_at_once(
            *[partial(government.assign, user_id=str(person.user))] * 4,
            partial(government.request, "POST", f"/api/organizations/acme/members/{person.user}", by=government.owner),
        )
        assert government.people.rows("select from relations where user_id = %s", person.user) == []


async def test_an_export_has_a_persons_roles_and_forgetting_takes_them(government: Government) -> None:
    await government.role()
    await government.role("reader")
    person = government.tenants.uses(government.member, government.shop)
    for to in ({"user_id": str(person.user)}, {"organization_role": "member"}):
        await government.assigned(**to)
    government.team("crew", person)
    await government.assigned("reader", team="crew")
    roles = [{"organization_id": str(government.acme.id), "service_slug": "shop", "role": role} for role in ("editor", "reader")]
    export = f"/api/privacy/export/{person.user}"
    for asker in (person, government.owner):
        assert (await government.request("GET", export, by=asker)).ok()["service_roles"] == roles
    # Another organization of the person reads nothing of it.
    government.tenants.join(person, government.globex)
    boss = government.resident(government.globex, "owner")
    assert (await government.request("GET", export, by=boss)).ok()["service_roles"] == []
    government.people.change("update users set is_platform_owner = true where id = %s", government.stranger.user)
    (await government.request("DELETE", f"/api/privacy/forget/{person.user}", by=government.stranger)).ok()
    assert government.people.rows("select from relations where user_id = %s and service_id is not null", person.user) == []

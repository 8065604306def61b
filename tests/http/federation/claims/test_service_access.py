"""Who can open a service, and what a person can open: the verdicts with their reasons, fifty people at a time, in turns."""

from typing import Any
from uuid import UUID

import pytest

from core.domain.federation.token_preview import PEOPLE_ON_A_PAGE
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.tenants import Tenant, Tenants, UsedService

AT = "/api/organizations/acme/services/board/access"


class Board:
    def __init__(self, postern: Postern, people: People, client: Client) -> None:
        self.people, self.client = people, client
        self.tenants = Tenants(postern, people)
        self.acme: Tenant = self.tenants.add("acme")
        self.service: UsedService = self.tenants.service(self.acme, "board")
        self.owner = people.add("owner@example.org")
        self.tenants.join(self.owner, self.acme, "owner")
        self.policy("members")

    def policy(self, policy: str) -> None:
        self.people.change("update all_services set sign_in_policy = %s where id = %s", policy, self.service.id)

    def member(self, email: str, *, listed: bool = False) -> Person:
        return self.tenants.join(self.people.add(email), self.acme, "member", listed=listed)

    async def page(self, query: str = "", *, by: Person | None = None, at: str = AT) -> Any:
        token = await self.people.token(by or self.owner)
        return (await self.client.get(f"{at}{query}", token=token)).ok()

    async def found(self) -> dict[str, Any]:
        return {one["email"]: one for one in (await self.page())["people"]}


@pytest.fixture
def board(postern: Postern, people: People, client: Client) -> Board:
    return Board(postern, people, client)


async def test_members_are_there_by_the_policy_and_nobody_else(board: Board) -> None:
    board.member("grace@example.org")
    user = board.tenants.uses(board.people.add("user@example.org"), board.service)
    board.people.add("stranger@example.org")
    found = await board.found()
    assert set(found) == {"owner@example.org", "grace@example.org"}
    assert found["grace@example.org"]["sign_in"] == {
        "may_sign_in": True,
        "rule": "policy_members",
        "because": "Members can sign in to the service, and the person is a member",
        "outside_unknown": False,
    }
    board.policy("anyone")
    assert set(await board.found()) == {"owner@example.org", "grace@example.org", "user@example.org"}
    assert user.user in {UUID(one["user_id"]) for one in (await board.found()).values()}


async def test_a_role_a_team_and_a_plan_stand_beside_the_verdict(board: Board) -> None:
    grace = board.member("grace@example.org")
    board.member("mary@example.org")
    board.policy("assigned")
    assert await board.found() == {}
    board.tenants.assign(board.service, user_id=grace.user)
    found = await board.found()
    assert set(found) == {"grace@example.org"}
    assert found["grace@example.org"]["sign_in"]["rule"] == "policy_assigned"
    assert len(found["grace@example.org"]["held"]["roles"]) == 1
    assert found["grace@example.org"]["held"]["plan"] == "free"
    # The same question by the person.
    at = f"/api/organizations/acme/users/{grace.user}/sign-in-verdicts"
    (opens,) = (await board.page(at=at))["services"]
    assert opens["slug"] == "board"
    assert (opens["sign_in"], opens["held"]) == (found["grace@example.org"]["sign_in"], found["grace@example.org"]["held"])


class _Mixed:
    """People of two organizations who hold roles of Board in each way, beside others who hold none."""

    def __init__(self, board: Board) -> None:
        self._board = board
        tenants, acme, people = board.tenants, board.acme, board.people
        globex = tenants.add("globex")
        elsewhere = tenants.service(acme, "elsewhere")
        own, foreign = tenants.role(acme, "keepers", ()), tenants.role(globex, "keepers", ())
        carried = tenants.role(acme, "carried", ())
        everybody = [tenants.member(acme) for _ in range(12)]
        tenants.member(acme, own)
        tenants.member(acme, "admin")
        for one in (tenants.member(globex, foreign), tenants.member(globex, "admin"), people.add()):
            tenants.assign(board.service, user_id=one.user)
        user, both = tenants.uses(people.add(), board.service), tenants.uses(everybody[0], board.service)
        tenants.uses(people.add(), board.service)
        for one in (user, both, everybody[1], everybody[1]):
            tenants.assign(board.service, user_id=one.user)
        tenants.assign(elsewhere, user_id=everybody[2].user)
        tenants.assign(elsewhere, team_id=self._team("none", everybody[3]))
        tenants.assign(board.service, role_id=own.id)
        tenants.assign(board.service, built_in_role="admin")
        tenants.assign(board.service, team_id=self._team("direct", everybody[4], everybody[1]))
        tenants.assign(board.service, role_id=carried.id)
        self._team("carrying", everybody[5], role="carried", role_id=carried.id)
        self._team("admins", everybody[6], role="admin")
        self._team("members", everybody[7], role="member")

    def _team(self, slug: str, *members: Person, role: str | None = None, role_id: UUID | None = None) -> UUID:
        (team,) = self._board.people.rows(
            "insert into teams (id, org_id, slug, name, role, role_id, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, 'Team', %s, %s, now(), now()) returning id",
            *(self._board.acme.id, slug, role, role_id),
        )
        for one in members:
            self._board.people.change(
                "insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())",
                *(team["id"], self._board.acme.id, one.user),
            )
        found: UUID = team["id"]
        return found

    def by_the_rule(self) -> list[str]:
        """Of everybody with a tie, one after the other, whether the rule admits them."""
        rows = self._board.people.rows(
            "select tied.user_id::text as id from services cross join lateral ("
            " select user_id from memberships where org_id = services.org_id"
            " union select user_id from service_users where service_id = services.id) as tied"
            " where services.id = %s and case sign_in_policy when 'anyone' then true"
            " when 'assigned' then holds_service_role(tied.user_id, services.org_id, services.id)"
            " else exists (select from memberships where org_id = services.org_id and user_id = tied.user_id) end"
            " order by tied.user_id",
            self._board.service.id,
        )
        return [row["id"] for row in rows]


@pytest.mark.parametrize(("policy", "number"), [("assigned", 8), ("members", 15), ("anyone", 17)])
async def test_the_people_are_those_whom_the_rule_admits_by_whichever_way(board: Board, policy: str, number: int) -> None:
    mixed = _Mixed(board)
    board.policy(policy)
    wanted = mixed.by_the_rule()
    assert len(wanted) == number
    found, query = list[str](), "?limit=2"
    while query:
        page = await board.page(query)
        found += [one["user_id"] for one in page["people"]]
        query = f"?limit=2&after={page['next']}" if page["next"] else ""
    assert found == wanted
    board.people.change("delete from relations where service_id = %s and (user_id is null or built_in_role is not null)", board.service.id)
    assert [one["user_id"] for one in (await board.page())["people"]] == mixed.by_the_rule()


async def test_what_else_keeps_somebody_out_is_said_of_people_who_came_themselves(board: Board) -> None:
    grace, mary = board.member("grace@example.org"), board.member("mary@example.org", listed=True)
    for one in (grace, mary):
        board.people.change("update users set deactivated_at = now() where id = %s", one.user)
    found = await board.found()
    assert found["grace@example.org"]["sign_in"]["rule"] == "account_deactivated"
    assert found["grace@example.org"]["sign_in"]["outside_unknown"] is False
    # Of the listed one, the same as if nothing were the matter.
    listed = found["mary@example.org"]["sign_in"]
    assert (listed["may_sign_in"], listed["rule"], listed["outside_unknown"]) == (True, "policy_members", True)
    board.people.change("update users set deactivated_at = null where id = %s", mary.user)
    assert (await board.found())["mary@example.org"]["sign_in"] == listed


async def test_fifty_at_a_time_and_no_totals(board: Board) -> None:
    for number in range(PEOPLE_ON_A_PAGE + 1):
        board.member(f"m{number}@example.org")
    first = await board.page()
    assert set(first) == {"people", "next"}
    assert len(first["people"]) == PEOPLE_ON_A_PAGE
    second = await board.page(f"?after={first['next']}")
    assert second["next"] is None
    both = [one["user_id"] for one in (*first["people"], *second["people"])]
    assert len(set(both)) == len(both) == PEOPLE_ON_A_PAGE + 2


async def test_who_may_not_list_end_users_or_manage_services_is_refused(board: Board) -> None:
    for held in ([Capability.SERVICES_MANAGE], [Capability.END_USERS_VIEW]):
        person = board.people.add()
        board.tenants.join(
            person, board.acme, board.tenants.role(board.acme, f"r-{held[0].value.replace('.', '-').replace('_', '-')}", held)
        )
        answer = await board.client.get(AT, token=await board.people.token(person))
        assert answer.status == 403


async def test_another_organization_has_no_such_service(board: Board) -> None:
    other = board.people.add()
    board.tenants.join(other, board.tenants.add("globex"), "owner")
    token = await board.people.token(other)
    assert (await board.client.get(AT, token=token)).status in {403, 404}
    assert (await board.client.get("/api/organizations/globex/services/board/access", token=token)).status == 404
    assert (
        await board.client.get("/api/organizations/acme/services/none/access", token=await board.people.token(board.owner))
    ).status == 404
    assert (await board.client.get(AT)).status == 401

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
        "because": "The service lets in members, and the person is one",
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

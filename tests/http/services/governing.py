"""A shop whose roles and permissions are governed over HTTP, and whose servers ask what people may do."""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID, uuid4

from core.domain.identifiers import ServiceId
from tests.http.client import Received
from tests.http.people import Person
from tests.http.subscribing import Market
from tests.http.tenants import Tenant

SHOP: Final = "/api/organizations/acme/services/shop"
FORBIDDEN, BAD_REQUEST, NOT_FOUND, CONFLICT = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND"), (409, "CONFLICT")


class Government(Market):
    """Acme's owner and administrator, a plain member, and an end user of the shop."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.member = self.resident(self.acme, "owner"), self.resident(self.acme, "member")
        self.end_user = self.user(email="end@user.example")
        self.stranger = self.people.add("stranger@nowhere.example")

    async def at(self, method: str, path: str, body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, SHOP + path, body, by=by)

    async def listed(self, noun: str) -> list[dict[str, Any]]:
        answer = await self.at("GET", f"/{noun}")
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json()
        return found

    async def permission(self, *keys: str) -> None:
        for key in keys:
            (await self.at("POST", "/permissions", {"key": key})).ok(201)

    async def role(self, slug: str = "editor", permissions: Collection[str] = (), **more: Any) -> dict[str, Any]:
        body = {"slug": slug, "name": slug.title(), "permissions": list(permissions), **more}
        return (await self.at("POST", "/roles", body)).ok(201)

    async def assign(self, role: str = "editor", *, by: Person | None = None, **to: Any) -> Received:
        return await self.at("POST", "/assignments", {"role": role, **to}, by=by)

    async def assignments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.at("GET", "/assignments")).ok()["assignments"]
        return found

    async def assigned(self, role: str = "editor", **to: Any) -> str:
        return str((await self.assign(role, **to)).ok(201)["id"])

    def team(self, slug: str, *members: Person, source: str = "own", role: str | None = None, tenant: Tenant | None = None) -> UUID:
        team, organization = uuid4(), (tenant or self.acme).id
        self.people.change(
            "insert into teams (id, org_id, slug, name, source, role, created_at, updated_at)"
            " values (%s, %s, %s, %s, %s, %s, now(), now())",
            team,
            organization,
            slug,
            slug.title(),
            source,
            role,
        )
        for person in members:
            self.people.change(
                "insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", team, organization, person.user
            )
        return team

    async def rights(self, person: Person, *, key: str | None = None) -> Received:
        headers = [("x-api-key", key or self.key)]
        return await self.client.request("GET", f"/api/service/users/{person.user}/rights", headers=headers)

    async def check(self, person: Person, permission: str = "invoices:write", *, key: str | None = None) -> Received:
        body = {"user_id": str(person.user), "permission": permission}
        return await self.client.request("POST", "/api/service/check", body=body, headers=[("x-api-key", key or self.key)])

    async def reason(self, person: Person, permission: str = "invoices:write") -> str:
        answer = (await self.check(person, permission)).ok()
        assert answer["allowed"] is (answer["because"]["reason"] == "role")
        return str(answer["because"]["reason"])

    def asks_for_roles(self) -> None:
        self.people.change("update services set sign_in_policy = 'assigned' where id = %s", self.shop.id)

    @property
    def shop_id(self) -> ServiceId:
        return ServiceId(self.shop.id)

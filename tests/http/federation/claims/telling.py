"""An application whose people have profiles, fields, teams and roles, for tests of claims."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.federation.relying import Application, Relying, claims_of
from tests.http.people import Person
from tests.http.tenants import Tenant, UsedService

EVERYTHING = "openid profile email organization roles groups"


class Furnishing(Cast):
    """Gives people profiles, fields, teams and roles, and services claims. The rows come by SQL: other tests use the endpoints."""

    def new_id(self) -> UUID:
        return self.postern.foundation.ids.new()

    def profile(self, person: Person, **columns: Any) -> None:
        named = ", ".join(f"{name} = %s" for name in columns)
        self.people.change(f"update users set {named}, profile_updated_at = now() where id = %s", *columns.values(), person.user)

    def field(self, keeper: Tenant | None, key: str, *, scope: str | None = None, written_by: Collection[str] = ("administrator",)) -> UUID:
        field = self.new_id()
        self.people.change(
            "insert into profile_fields (id, org_id, key, label, kind, written_by, scope, created_at, updated_at)"
            " values (%s, %s, %s, %s, 'text', %s, %s, now(), now())",
            *(field, None if keeper is None else keeper.id, key, key, list(written_by), scope),
        )
        return field

    def value(self, keeper: Tenant | None, person: Person, field: UUID, value: Any) -> None:
        organization = None if keeper is None else keeper.id
        self.people.change(
            "delete from profile_values where user_id = %s and org_id is not distinct from %s::uuid", person.user, organization
        )
        self.people.change(
            "insert into profile_values (user_id, org_id, values, updated_at) values (%s, %s, %s, now())",
            *(person.user, organization, Jsonb({str(field): value})),
        )

    def role_in(self, service: Application | UsedService, slug: str, permissions: Sequence[str] = (), *, everybody: bool = False) -> UUID:
        role = self.new_id()
        self.people.change(
            "insert into service_roles (id, org_id, service_id, slug, name, permissions, given_to_everybody, created_at, updated_at)"
            " values (%s, (select org_id from services where id = %s), %s, %s, %s, %s, %s, now(), now())",
            *(role, _id(service), _id(service), slug, slug, list(permissions), everybody),
        )
        return role

    def assign(self, role: UUID, subject: Person | UUID) -> None:
        """To a person, or to the team of this id."""
        column, id_ = ("user_id", subject.user) if isinstance(subject, Person) else ("team_id", subject)
        self.people.change(
            f"insert into relations (organization_id, {column}, relation, object_type, object_id, id, service_id, created_at)"
            " select org_id, %s, 'holder', 'service_role', id, %s, service_id, now() from service_roles where id = %s",
            *(id_, self.new_id(), role),
        )

    def team(self, tenant: Tenant, slug: str, *members: Person) -> UUID:
        team = self.new_id()
        self.people.change(
            "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, %s, %s, now(), now())",
            *(team, tenant.id, slug, slug),
        )
        for member in members:
            self.people.change(
                "insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", team, tenant.id, member.user
            )
        return team

    def claim(self, service: Application | UsedService, name: str, source: str, argument: Any = None, *into: str) -> None:
        places = list(into or ("id_token", "userinfo", "access_token"))
        self.people.change(
            "insert into service_claims (id, service_id, name, source, argument, told_in, created_at)"
            " values (%s, %s, %s, %s, %s, %s, now())",
            *(self.new_id(), _id(service), name, source, None if argument is None else Jsonb(argument), places),
        )


class Telling(Furnishing, Relying):
    """Ada is a member of acme, and its admin looks after the shop."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants.join(self.ada, self.acme, "member")
        self.admin = self.resident(self.acme, "admin")

    async def learned(
        self, application: Application, person: Person | None = None, scopes: str = EVERYTHING
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """What the application learns at a sign-in: by the ID token, the access token and userinfo."""
        tokens = await self.signed_in(application, person, scopes=scopes)
        userinfo = (await self.userinfo(tokens["access_token"])).ok()
        return claims_of(tokens["id_token"]), claims_of(tokens["access_token"]), userinfo

    async def preview(self, person: Person, *, service: str = "shop", by: Person | None = None, **query: str) -> Received:
        asked = "".join(f"&{name}={value}" for name, value in query.items())
        path = f"/api/organizations/acme/services/{service}/token-preview?user_id={person.user}{asked.replace(' ', '%20')}"
        return await self.request("GET", path, by=by or self.admin)


def _id(service: Application | UsedService) -> UUID:
    return service.id if isinstance(service, UsedService) else service.service.id

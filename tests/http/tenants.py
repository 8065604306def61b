"""Organizations with their people, roles, services and end users, written straight into the database, because the API
has tests of its own.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from core.domain.tenancy.management_keys import OF_ORGANIZATION, OF_PLATFORM
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.http.people import People, Person


@dataclass(frozen=True, slots=True)
class Tenant:
    id: UUID
    slug: str


@dataclass(frozen=True, slots=True)
class OwnRole:
    """A role of the organization's own."""

    id: UUID
    slug: str


@dataclass(frozen=True, slots=True)
class UsedService:
    id: UUID
    slug: str
    tenant: Tenant


class Tenants:
    def __init__(self, postern: Postern, people: People) -> None:
        self._postern = postern
        self._people = people

    def add(self, slug: str, *, status: str = "active", name: str = "") -> Tenant:
        tenant = Tenant(self._postern.foundation.ids.new(), slug)
        self._people.change(
            "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, %s, %s, now(), now())",
            tenant.id,
            slug,
            name or slug.title(),
            status,
        )
        return tenant

    def role(self, tenant: Tenant, slug: str, capabilities: Collection[Capability]) -> OwnRole:
        role = OwnRole(self._postern.foundation.ids.new(), slug)
        self._people.change(
            "insert into roles (id, org_id, slug, name, created_at, updated_at) values (%s, %s, %s, %s, now(), now())",
            role.id,
            tenant.id,
            slug,
            slug.title(),
        )
        for capability in capabilities:
            self._people.change(
                "insert into relations (organization_id, role_id, relation, object_type, object_id)"
                " values (%s, %s, %s, 'organization', %s)",
                tenant.id,
                role.id,
                capability.value,
                tenant.id,
            )
        return role

    def join(self, person: Person, tenant: Tenant, role: str | OwnRole = "member", *, listed: bool = False) -> Person:
        """Makes the person a member, with a built-in role or a role of the organization's own. `listed`: others have added the person, who
        has not confirmed the membership.
        """
        own = role if isinstance(role, OwnRole) else None
        slug = role if isinstance(role, str) else role.slug
        self._people.change(
            "insert into memberships (id, org_id, user_id, role, role_id, created_at, own_since)"
            " values (%s, %s, %s, %s, %s, now(), case when not %s then now() end)",
            self._postern.foundation.ids.new(),
            tenant.id,
            person.user,
            slug,
            None if own is None else own.id,
            listed,
        )
        self._people.change(
            "insert into relations (organization_id, user_id, relation, object_type, object_id) values (%s, %s, %s, %s, %s)",
            tenant.id,
            person.user,
            slug if own is None else "holder",
            "organization" if own is None else "role",
            tenant.id if own is None else own.id,
        )
        if slug == "owner":
            self._people.change("update all_organizations set owner_user_id = %s where id = %s", person.user, tenant.id)
        return person

    def member(self, tenant: Tenant, role: str | OwnRole = "member", email: str | None = None) -> Person:
        """A new person who is a member, with a session on the platform."""
        return self.join(self._people.add(email), tenant, role)

    def export_sign_ins(self, tenant: Tenant) -> None:
        """Exports the organization's sign-ins to a SIEM that is never called."""
        self._people.change(
            "insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'SIEM', 'generic', 'https://siem.example/', 1, now(), now())",
            tenant.id,
        )

    def exported(self) -> list[tuple[UUID, UUID, bool]]:
        """The sign-ins that wait for export: the organization, the person, and whether the person got in."""
        rows = self._people.rows(
            "select org_id, user_id, success from sign_in_pending join login_events on login_events.id = event_id"
            " join siem_configurations on siem_configurations.id = export_id and org_id = organization_id"
        )
        return [(row["org_id"], row["user_id"], row["success"]) for row in rows]

    def service(self, tenant: Tenant, slug: str, service_type: str = "web") -> UsedService:
        service = UsedService(self._postern.foundation.ids.new(), slug, tenant)
        self._people.change(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (%s, %s, %s, %s, %s, %s, now(), now())",
            service.id,
            tenant.id,
            slug,
            slug.title(),
            service_type,
            self._postern.foundation.ids.new(),
        )
        return service

    def management_key(self, tenant: Tenant | None, maker: Person, capabilities: Sequence[str]) -> str:
        """A management key of the organization, or of the platform. It needs no proof of the maker."""
        token = self._postern.foundation.secrets.key(OF_PLATFORM if tenant is None else OF_ORGANIZATION)
        self._people.change(
            "insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)"
            " values (gen_random_uuid(), %s, 'Robot', %s, %s, %s, now() + interval '1 day', %s, now())",
            None if tenant is None else tenant.id,
            token.reveal().rpartition("_")[0],
            token.digest(),
            [str(one) for one in capabilities],
            maker.user,
        )
        return token.reveal()

    def assign(self, service: UsedService, **subject: Any) -> UUID:
        """Assigns a new role of the service: to `user_id`, `team_id`, `role_id` or `built_in_role`. Returns the assignment's id."""
        role, assignment = self._postern.foundation.ids.new(), self._postern.foundation.ids.new()
        self._people.change(
            "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)"
            " values (%s, %s, %s, %s, 'Role', now(), now())",
            role,
            service.tenant.id,
            service.id,
            role.hex,
        )
        ((column, who),) = subject.items()
        self._people.change(
            f"insert into relations (organization_id, {column}, relation, object_type, object_id, id, service_id, created_at)"
            " values (%s, %s, 'holder', 'service_role', %s, %s, %s, now())",
            service.tenant.id,
            who,
            role,
            assignment,
            service.id,
        )
        return assignment

    def uses(self, person: Person, service: UsedService, *, first: datetime | None = None, last: datetime | None = None) -> Person:
        """Adds an end user of the service. Without times, the user was made through the service and has never signed in."""
        self._people.change(
            "insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)"
            " values (%s, %s, %s, %s, %s, now(), %s)",
            service.id,
            person.user,
            service.tenant.id,
            first,
            last,
            first,
        )
        return person

    def session(self, person: Person, place: Tenant | UsedService | None = None, *, began: datetime | None = None) -> Person:
        """One more session of the same person: on the platform, in an organization, or in a service."""
        session = self._postern.foundation.ids.new()
        tenant = place.tenant if isinstance(place, UsedService) else place
        at = began or self._postern.foundation.clock.now()
        self._people.change(
            "insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at, authenticated_by,"
            " proved_at) values (%s, %s, %s, %s, %s, %s, %s, '{pwd}', %s)",
            session,
            person.user,
            None if tenant is None else tenant.id,
            place.id if isinstance(place, UsedService) else None,
            at,
            at,
            self._postern.foundation.clock.now() + timedelta(days=30),
            at,
        )
        return Person(person.user, session, person.email)

    async def token(self, person: Person, place: Tenant | UsedService | None = None, **claims: Any) -> str:
        """A token for the person's session, which must be in that place."""
        match place:
            case UsedService():
                context = {"org": place.tenant.slug, "service": place.slug, "aud": f"service:{place.tenant.slug}/{place.slug}"}
            case Tenant():
                context = {"org": place.slug, "aud": f"org:{place.slug}"}
            case _:
                context = {}
        return await self._people.token(person, **{**context, **claims})

    async def token_in(self, person: Person, place: Tenant | UsedService | None = None) -> str:
        """A token of a new session of the person in that place."""
        return await self.token(self.session(person, place), place)

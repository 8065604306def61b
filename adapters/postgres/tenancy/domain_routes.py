"""The domain routes of organizations in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import Statements, first_made, only
from adapters.postgres.tenancy.domain_proofs import DOMAIN, DomainRow, ProofRows, ProofTable
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import DomainId, OrganizationId, UpstreamProviderId
from core.domain.identity.realms import LoginPolicy
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.domains import NO_PROVIDER, DomainRoute, JoinPolicy, NamedProvider
from ports.tenancy.organizations import ExistingRoutes, HeldRoute


class _Route(DomainRow):
    shared_provider: str | None
    own_provider: UUID | None
    login_policy: str
    join_policy: str
    updated_at: datetime

    def made(self) -> DomainRoute:
        return DomainRoute(
            **self.proof(),
            shared_provider=None if self.shared_provider is None else Provider(self.shared_provider),
            own_provider=None if self.own_provider is None else UpstreamProviderId(self.own_provider),
            login_policy=LoginPolicy(self.login_policy),
            join_policy=JoinPolicy(self.join_policy),
            updated_at=self.updated_at,
        )


class _Held(_Route):
    provider_is_known: bool


_COLUMNS: Final[LiteralString] = f"{DOMAIN}, shared_provider, own_provider, login_policy, join_policy, updated_at"
_PROOFS: Final = ProofTable("domain_routes", _COLUMNS, _Route)


class DomainRouteRows(ProofRows[DomainRoute]):
    """Implements `ports.tenancy.organizations.DomainRouteStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        super().__init__(statements, _PROOFS)

    async def list(self, organization: OrganizationId) -> Sequence[DomainRoute]:
        return [row.made() for row in await self._statements.ask(_Route, _LIST, {"organization": organization})]

    async def find_route(self, organization: OrganizationId, route: DomainId) -> DomainRoute | None:
        return first_made(await self._statements.ask(_Route, _GET, {"organization": organization, "id": route}), _Route.made)

    async def standing(self, organization: OrganizationId, domain: str) -> ExistingRoutes:
        return only(await self._statements.ask(ExistingRoutes, _STANDING, {"organization": organization, "domain": domain}))

    async def add(self, route: DomainRoute, most: int, *, provider_is_known: bool) -> DomainRoute | None:
        parameters = {
            **_led(route),
            "most": most,
            "provider_is_known": provider_is_known,
            "organization": route.organization,
            "domain": route.name,
            "token": route.token,
            "created_at": route.created_at,
        }
        return first_made(await self._statements.ask(_Route, _ADD, parameters), _Route.made)

    async def find(self, organization: OrganizationId, route: DomainId, provider: NamedProvider = NO_PROVIDER) -> HeldRoute | None:
        shared, own = provider
        parameters = {
            "organization": organization,
            "id": route,
            "shared_provider": None if shared is None else shared.value,
            "own_provider": own,
        }
        return first_made(await self._statements.ask(_Held, _FIND, parameters), lambda row: HeldRoute(row.made(), row.provider_is_known))

    async def save(self, route: DomainRoute) -> None:
        await self._statements.tell(_SAVE, _led(route))

    async def remove(self, route: DomainId) -> None:
        await self._statements.tell(_REMOVE, {"id": route})


def _led(route: DomainRoute) -> Mapping[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": route.id,
        "shared_provider": None if route.shared_provider is None else route.shared_provider.value,
        "own_provider": route.own_provider,
        "login_policy": route.login_policy.value,
        "join_policy": route.join_policy.value,
        "updated_at": route.updated_at,
    }


_STANDING: Final = """
    select count(*) as count, coalesce(bool_or(domain = %(domain)s), false) as has_domain from domain_routes where org_id = %(organization)s
"""

# A provider that was never tested successfully may not be named, unless it was active from its beginning. `for key share` keeps other
# transactions from deleting the provider until this route refers to it.
_KNOWS_PROVIDER: Final = """
           (
               %(own_provider)s::uuid is null
            or exists (
                   select
                     from upstream_providers
                    where upstream_providers.id = %(own_provider)s::uuid and upstream_providers.org_id = %(organization)s
                      and (
                              upstream_providers.state = 'active' or upstream_providers.activated_at is not null
                           or upstream_providers.tested_at is not null
                          )
                      for key share
               )
           )
       and (
               %(shared_provider)s::text is null
            or exists (
                   select
                     from oauth_credentials
                    where oauth_credentials.org_id = %(organization)s and oauth_credentials.provider = %(shared_provider)s
               )
           )"""

_ADD: Final[LiteralString] = f"""
    insert into domain_routes (id, org_id, domain, token, shared_provider, own_provider, login_policy, join_policy, created_at, updated_at)
    select %(id)s, %(organization)s, %(domain)s,
           coalesce((select token from domains where org_id = %(organization)s and domain = %(domain)s), %(token)s),
           %(shared_provider)s, %(own_provider)s, %(login_policy)s, %(join_policy)s, %(created_at)s, %(updated_at)s
     where (select count(*) from domain_routes where org_id = %(organization)s) < %(most)s
       and (%(provider_is_known)s or ({_KNOWS_PROVIDER}))
        on conflict (org_id, domain) do nothing
 returning {_COLUMNS}
"""

_SAVE: Final = """
    update domain_routes
       set shared_provider = %(shared_provider)s, own_provider = %(own_provider)s, login_policy = %(login_policy)s,
           join_policy = %(join_policy)s, updated_at = %(updated_at)s
     where id = %(id)s
"""

_REMOVE: Final = "delete from domain_routes where id = %(id)s"

_LIST: Final[LiteralString] = f"select {_COLUMNS} from domain_routes where org_id = %(organization)s order by id"

_FIND: Final[LiteralString] = f"""
    select {_COLUMNS}, {_KNOWS_PROVIDER} as provider_is_known from domain_routes where org_id = %(organization)s and id = %(id)s
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} from domain_routes where org_id = %(organization)s and id = %(id)s"

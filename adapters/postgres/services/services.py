"""Services in PostgreSQL. The statements read the view `services`, which leaves out services that are being deleted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import Statements, ask
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER, WithTierRow
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.pages import MOST_COUNTED, Listed
from core.domain.services.services import (
    AssertionAudience,
    IdTokenAlgorithm,
    ListedService,
    RegisteredService,
    Service,
    ServiceList,
    ServiceType,
    ServiceUsage,
    SignInPolicy,
    service_usage,
)
from core.domain.tenancy.organizations import Organization
from core.frozen import Frozen, names_of, replace
from ports.services.services import KeptMetadata


class ServiceRow(Frozen, kw_only=True):
    """The columns of `SERVICE`. Rows with more columns extend this class."""

    service_id: UUID
    service_organization_id: UUID
    service_slug: str
    service_name: str
    service_type: str
    client_id: UUID
    codehost_scopes: list[str] | None
    websuite_scopes: list[str] | None
    officesuite_scopes: list[str] | None
    redirect_uris: list[str]
    device_activation_uri: str | None
    service_created_at: datetime
    service_updated_at: datetime
    sign_in_policy: str
    trusted: bool
    jwks: dict[str, Any] | None
    id_token_alg: str
    assertion_audience: str
    post_logout_redirect_uris: list[str]
    backchannel_logout_uri: str | None
    backchannel_logout_session_required: bool
    jwks_uri: str | None
    jwks_fetched_at: datetime | None

    def service(self) -> Service:
        return Service(
            id=ServiceId(self.service_id),
            organization=OrganizationId(self.service_organization_id),
            slug=self.service_slug,
            name=self.service_name,
            service_type=ServiceType(self.service_type),
            client_id=ClientId(self.client_id),
            codehost_scopes=_tuple(self.codehost_scopes),
            websuite_scopes=_tuple(self.websuite_scopes),
            officesuite_scopes=_tuple(self.officesuite_scopes),
            redirect_uris=tuple(self.redirect_uris),
            device_activation_uri=self.device_activation_uri,
            sign_in_policy=SignInPolicy(self.sign_in_policy),
            trusted=self.trusted,
            jwks=self.jwks,
            jwks_uri=self.jwks_uri,
            jwks_fetched_at=self.jwks_fetched_at,
            id_token_alg=IdTokenAlgorithm(self.id_token_alg),
            assertion_audience=AssertionAudience(self.assertion_audience),
            post_logout_redirect_uris=tuple(self.post_logout_redirect_uris),
            backchannel_logout_uri=self.backchannel_logout_uri,
            backchannel_logout_session_required=self.backchannel_logout_session_required,
            created_at=self.service_created_at,
            updated_at=self.service_updated_at,
        )


# Columns of a statement that reads `services`.
SERVICE: Final = """
           services.id as service_id, services.org_id as service_organization_id, services.slug as service_slug,
           services.name as service_name, services.service_type, services.client_id, services.codehost_scopes, services.websuite_scopes,
           services.officesuite_scopes, services.redirect_uris, services.device_activation_uri,
           services.created_at as service_created_at, services.updated_at as service_updated_at, services.sign_in_policy,
           services.trusted, services.jwks, services.id_token_alg, services.assertion_audience,
           services.post_logout_redirect_uris,
           services.backchannel_logout_uri, services.backchannel_logout_session_required, services.jwks_uri,
           services.jwks_fetched_at"""


class _WithMetadata(ServiceRow, kw_only=True):
    metadata: dict[str, Any]

    def service(self) -> Service:
        return replace(super().service(), metadata=self.metadata)


class _Usage(WithTierRow, kw_only=True):
    service_count: int


class ServiceRows:
    """Implements `ports.services.services.ServiceStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        parameters = {"organization": organization, "type": service_type, "limit": limit, "offset": offset}
        rows = await self._statements.ask(_Listed, LIST if service_type is None else LIST_OF_TYPE, parameters)
        if not rows:
            return None
        usage = service_usage(rows[0].service_count, rows[0].within.organization(), rows[0].within.tier())
        return ServiceList([row.listed for row in rows if row.listed is not None], usage)

    async def get(self, organization: OrganizationId, slug: str) -> Service | None:
        rows = await self._statements.ask(_WithMetadata, _FIND, {"organization": organization, "slug": storable_text(slug)})
        return rows[0].service() if rows else None

    async def metadata(self, service: ServiceId) -> KeptMetadata | None:
        rows = await self._statements.ask(KeptMetadata, _METADATA, {"service": service})
        return rows[0] if rows else None

    async def add(self, service: Service) -> bool:
        parameters = {
            **_columns(service),
            "organization": service.organization,
            "slug": service.slug,
            "client_id": service.client_id,
            "created_at": service.created_at,
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def usage(self, organization: OrganizationId) -> tuple[Organization, ServiceUsage]:
        (row,) = await self._statements.ask(_Usage, _USAGE, {"organization": organization})
        return row.organization(), service_usage(row.service_count, row.organization(), row.tier())

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        await self._statements.tell(_HOLD, {"organization": organization, "slug": storable_text(slug)})
        return await self.get(organization, slug)

    async def save(self, service: Service) -> None:
        await self._statements.tell(_SAVE, _columns(service))

    async def delete(self, service: ServiceId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": service, "at": at})


class _Listed:
    """A row of the list. For an empty page, one row without a service carries the organization's numbers."""

    def __init__(self, *, service_count: int, plan_count: int | None, subscription_count: int | None, **columns: Any) -> None:
        of_service = {name: columns.pop(name) for name in names_of(ServiceRow)}
        self.service_count = service_count
        self.within = WithTierRow(**columns)
        self.listed = None
        if of_service["service_id"] is not None:
            self.listed = ListedService(ServiceRow(**of_service).service(), plan_count or 0, subscription_count or 0)


class _Registered(ServiceRow, kw_only=True):
    organization_slug: str
    organization_is_active: bool
    user_count: int
    plan_count: int
    subscription_count: int
    key_count: int
    secret_count: int

    def registered(self) -> RegisteredService:
        return RegisteredService(
            service=self.service(),
            organization_slug=self.organization_slug,
            organization_is_active=self.organization_is_active,
            users=self.user_count,
            plans=self.plan_count,
            subscriptions=self.subscription_count,
            api_keys=self.key_count,
            client_secrets=self.secret_count,
        )


class PostgresServiceRegister:
    """Implements `ports.services.services.ServiceRegister`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        organization = None if organization_slug is None else storable_text(organization_slug)
        parameters = {"organization": organization, "limit": limit, "offset": offset, "most": MOST_COUNTED}
        (counted,) = await ask(self._pool, CountRow, _COUNT_REGISTERED, parameters)
        rows = await ask(self._pool, _Registered, _LIST_REGISTERED, parameters)
        return Listed([row.registered() for row in rows], counted.count)

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None:
        parameters = {"organization": storable_text(organization_slug), "slug": storable_text(slug)}
        rows = await ask(self._pool, _Registered, _FIND_REGISTERED, parameters)
        return rows[0].registered() if rows else None


def _tuple(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


def _columns(service: Service) -> dict[str, Any]:
    """The service's columns that may change, and its id."""
    return {
        "id": service.id,
        "name": storable_text(service.name),
        "type": service.service_type.value,
        "codehost_scopes": _list_of(service.codehost_scopes),
        "websuite_scopes": _list_of(service.websuite_scopes),
        "officesuite_scopes": _list_of(service.officesuite_scopes),
        "redirect_uris": list(service.redirect_uris),
        "device_activation_uri": service.device_activation_uri,
        "sign_in_policy": service.sign_in_policy.value,
        "trusted": service.trusted,
        "jwks": None if service.jwks is None else Jsonb(service.jwks),
        "jwks_uri": service.jwks_uri,
        "jwks_fetched_at": service.jwks_fetched_at,
        "id_token_alg": service.id_token_alg.value,
        "assertion_audience": service.assertion_audience.value,
        "post_logout_redirect_uris": list(service.post_logout_redirect_uris),
        "backchannel_logout_uri": service.backchannel_logout_uri,
        "backchannel_logout_session_required": service.backchannel_logout_session_required,
        "metadata": None if service.metadata is None else Jsonb(storable(service.metadata)),
        "updated_at": service.updated_at,
    }


def _list_of(texts: Sequence[str] | None) -> list[str] | None:
    return None if texts is None else list(texts)


# The dispatchers of logout notices take turns at this row. The row stays when the address is removed, because notices that are under way
# still need the row.
_RECEIVER: Final = """
             insert into logout_receivers (service_id)
             select changed.id from changed where %(backchannel_logout_uri)s::text is not null
                 on conflict (service_id) do update set failing_since = null, rests_until = null
"""

# The slug of a service that is being deleted is free again: the unique index leaves out deleted services.
_ADD: Final[LiteralString] = f"""
    with changed as (
             insert into all_services
                    (id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
                     device_activation_uri, sign_in_policy, trusted, jwks, id_token_alg, assertion_audience,
                     post_logout_redirect_uris, backchannel_logout_uri,
                     backchannel_logout_session_required, jwks_uri, jwks_fetched_at, metadata, created_at, updated_at)
             values (%(id)s, %(organization)s, %(slug)s, %(name)s, %(type)s, %(client_id)s, %(codehost_scopes)s, %(websuite_scopes)s,
                     %(officesuite_scopes)s, %(redirect_uris)s, %(device_activation_uri)s, %(sign_in_policy)s, %(trusted)s, %(jwks)s,
                     %(id_token_alg)s, %(assertion_audience)s, %(post_logout_redirect_uris)s, %(backchannel_logout_uri)s,
                     %(backchannel_logout_session_required)s, %(jwks_uri)s, %(jwks_fetched_at)s, coalesce(%(metadata)s, '{{}}'),
                     %(created_at)s, %(updated_at)s)
                 on conflict (org_id, slug) where deleted_at is null do nothing
          returning id
         ),
         receiver as ({_RECEIVER})
  select id from changed
"""

_USAGE: Final[LiteralString] = f"""
    select {ORGANIZATION},
           {TIER},
           (select count(*) from services where services.org_id = organizations.id) as service_count
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(organization)s
"""

_FIND: Final[LiteralString] = f"select {SERVICE}, services.metadata from services where org_id = %(organization)s and slug = %(slug)s"

_METADATA: Final = """
    select services.metadata as of_service, organizations.metadata as of_organization
      from services
      join organizations on organizations.id = services.org_id
     where services.id = %(service)s
"""

# A statement of its own, so that the next statement sees what others committed while this one waited. It is the weakest lock that works:
# sessions and other rows that refer to the service can be added meanwhile.
_HOLD: Final = "select from services where org_id = %(organization)s and slug = %(slug)s for no key update"

_SAVE: Final[LiteralString] = f"""
    with changed as (
             update services
                set name = %(name)s, service_type = %(type)s, codehost_scopes = %(codehost_scopes)s, websuite_scopes = %(websuite_scopes)s,
                    officesuite_scopes = %(officesuite_scopes)s, redirect_uris = %(redirect_uris)s,
                    device_activation_uri = %(device_activation_uri)s, sign_in_policy = %(sign_in_policy)s, trusted = %(trusted)s,
                    jwks = %(jwks)s, jwks_uri = %(jwks_uri)s, jwks_fetched_at = %(jwks_fetched_at)s,
                    id_token_alg = %(id_token_alg)s, assertion_audience = %(assertion_audience)s,
                    post_logout_redirect_uris = %(post_logout_redirect_uris)s,
                    backchannel_logout_uri = %(backchannel_logout_uri)s,
                    backchannel_logout_session_required = %(backchannel_logout_session_required)s,
                    metadata = coalesce(%(metadata)s, metadata), updated_at = %(updated_at)s
              where id = %(id)s
          returning id
         )
    {_RECEIVER}
"""

_DELETE: Final = "update all_services set deleted_at = %(at)s where id = %(id)s"

# The organization's row gives the limit on its services. An index finds the services of the page in their order. The plans are counted only
# for the services of the page.
_LIST: Final[LiteralString] = f"""
    select counted.count as service_count, of_plans.plan_count, of_plans.subscription_count,
           {ORGANIZATION},
           {TIER},
           {SERVICE}
      from organizations
      join tiers on tiers.id = organizations.tier_id
     cross join lateral (select count(*) as count from services where services.org_id = organizations.id) as counted
      left join lateral (
                select *
                  from services
                 where services.org_id = organizations.id {{condition}}
                 order by services.created_at, services.id
                 limit %(limit)s::bigint
                offset %(offset)s::bigint
           ) as services on true
      left join lateral (
                select count(*) as plan_count, sum(plans.subscription_count) as subscription_count
                  from plans
                 where plans.service_id = services.id and plans.deleted_at is null
           ) as of_plans on true
     where organizations.id = %(organization)s
     order by services.created_at, services.id
"""

LIST: Final[LiteralString] = _LIST.format(condition="")
LIST_OF_TYPE: Final[LiteralString] = _LIST.format(condition="and services.service_type = %(type)s")

_REGISTERED: Final[LiteralString] = f"""
    select organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active, services.user_count,
           of_plans.plan_count, of_plans.subscription_count,
           (select count(*) from api_keys where api_keys.service_id = services.id) as key_count,
           (select count(*) from client_secrets where client_secrets.service_id = services.id) as secret_count,
           {SERVICE}
      from services
      join organizations on organizations.id = services.org_id
     cross join lateral (
                select count(*) filter (where plans.deleted_at is null) as plan_count,
                       coalesce(sum(plans.subscription_count), 0) as subscription_count
                  from plans
                 where plans.service_id = services.id
           ) as of_plans
"""

_FIND_REGISTERED: Final[LiteralString] = f"{_REGISTERED} where organizations.slug = %(organization)s and services.slug = %(slug)s"

_WANTED: Final = """
             select services.id
               from services
               join organizations on organizations.id = services.org_id
              where %(organization)s::text is null or organizations.slug = %(organization)s
"""

_COUNT_REGISTERED: Final[LiteralString] = f"select count(*) as count from ({_WANTED} limit %(most)s) as counted"

# Ids grow with time, so the largest is the newest.
_LIST_REGISTERED: Final[LiteralString] = f"""
    {_REGISTERED}
     where services.id in ({_WANTED} order by services.id desc limit %(limit)s offset %(offset)s)
     order by services.id desc
"""

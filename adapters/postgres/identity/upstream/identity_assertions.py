"""Identity assertions in PostgreSQL: who issues them, and which were used."""

from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.statements import ask, first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for
from adapters.postgres.transaction import OnPool, OnTransaction
from core.domain.identifiers import OrganizationId, ServiceId, UpstreamProviderId, UserId
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind
from core.domain.identity.upstream.identity_assertions import AssertionSettings, AssertionUse, IssuingConnection, UsedIdentityAssertion

ASSERTION_SETTINGS: Final = Columns(
    AssertionSettings,
    "upstream_providers",
    named={
        "issues": "issues_assertions",
        "issuer": "assertion_issuer",
        "jwks_uri": "assertion_jwks_uri",
        "jwks": "assertion_jwks",
        "subject": "assertion_subject",
    },
    texts=("subject",),
    empties=("issuer", "jwks_uri"),
    prefix="assertion_",
)


def _connection(*, kind: str, state: str, enabled: bool, **columns: Any) -> IssuingConnection:
    assertions = ASSERTION_SETTINGS.taken(columns)
    is_on = enabled and state == ConnectionState.ACTIVE
    return IssuingConnection(**columns, assertions=assertions, speaks_saml=kind == ProviderKind.SAML, is_on=is_on)


class PostgresIssuingConnections(OnPool):
    """Implements `ports.identity.upstream.IssuingConnections`."""

    async def find_by_id(self, organization: OrganizationId, connection: UpstreamProviderId) -> IssuingConnection | None:
        return first(await ask(self._pool, _connection, _GET, {"organization": organization, "id": connection}))

    async def find(self, organization: OrganizationId, issuer: str) -> IssuingConnection | None:
        return first(await ask(self._pool, _connection, _FIND, {"organization": organization, "issuer": storable_text(issuer)}))


class IdentityAssertionRows(OnTransaction):
    """Implements `ports.identity.upstream.IdentityAssertionStore` in one transaction."""

    async def use(self, used: UsedIdentityAssertion, user: UserId) -> AssertionUse:
        parameters = {
            "provider": used.provider,
            "digest": used.digest,
            "session": used.session,
            "expires_at": used.expires_at,
            "user": user,
        }
        return only(await self._transaction.ask(AssertionUse, _USE, parameters))

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        await self._transaction.tell_along(_ENTER, {"user": user, "service": service, "at": at})


_CONNECTION: Final[LiteralString] = f"""
    select upstream_providers.id, upstream_providers.org_id as organization, upstream_providers.name, upstream_providers.issuer,
           upstream_providers.kind, upstream_providers.state, upstream_providers.enabled, {ASSERTION_SETTINGS.names}
      from upstream_providers
     where upstream_providers.org_id = %(organization)s
"""

_GET: Final[LiteralString] = f"{_CONNECTION} and upstream_providers.id = %(id)s"

# A connection by SAML that nobody has named an issuer for has none here.
_FIND: Final[LiteralString] = f"""
    {_CONNECTION}
       and case kind when 'saml' then assertion_issuer else issuer end = %(issuer)s
     order by issues_assertions and enabled desc, created_at
     limit 1
"""

# Whoever turns the connection off waits for this transaction, and then finds its session.
_USE: Final[LiteralString] = f"""
    with connection as materialized (
             select id, org_id from upstream_providers
              where id = %(provider)s and issues_assertions and enabled and state = 'active'
                for share
         ),
         member as materialized (
             select memberships.id
               from connection
               join memberships on memberships.org_id = connection.org_id and memberships.user_id = %(user)s
               join users on users.id = memberships.user_id
              where {IS_OWN_MEMBERSHIP} and {counts_for()}
                for share of memberships
         ),
         used as (
             insert into identity_assertions (id, upstream_provider_id, digest, expires_at)
             select %(session)s, connection.id, %(digest)s, %(expires_at)s from connection cross join member
                 on conflict (upstream_provider_id, digest) do nothing
          returning id
         )
  select exists (select from connection) as issues, exists (select from member) as is_member, exists (select from used) as is_first
"""

# The person's directory has let the application act for them, so it is no act of their own.
_ENTER: Final[LiteralString] = f"""
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at)
    select services.id, %(user)s, services.org_id, %(at)s, %(at)s, %(at)s
      from services
     where services.id = %(service)s
        on conflict (service_id, user_id) do update
       set {ENTERED_AGAIN}
"""

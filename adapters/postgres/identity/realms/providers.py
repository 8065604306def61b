"""The provider that a realm names, whether it can be used, and the known outages, in PostgreSQL."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from adapters.postgres.transaction import OnTransaction
from core.domain.identity.realms import Realm, RealmProvider
from core.domain.identity.upstream.providers import is_away
from core.frozen import Frozen
from ports.system import Clock


class _Provider(Frozen):
    failed_at: datetime | None
    has_credentials: bool
    own_name: str | None
    own_enabled: bool | None
    own_issuer: str | None


class PostgresRealmProviders:
    """Implements `ports.identity.sign_in.RealmProviders`."""

    def __init__(self, pool: Pool, clock: Clock, *, configured: Collection[str] = ()) -> None:
        """`configured` names the shared providers at which the installation has a client of its own."""
        self._pool = pool
        self._clock = clock
        self._configured = frozenset(configured)

    async def find(self, realm: Realm) -> RealmProvider | None:
        parameters = {"organization": realm.organization, "provider": realm.provider, "own_provider": realm.own_provider}
        (row,) = await ask(self._pool, _Provider, _PROVIDER, parameters)
        answers = not is_away(row.failed_at, self._clock.now())
        if realm.own_provider is not None:
            return None if row.own_name is None else RealmProvider(row.own_name, bool(row.own_enabled) and answers, row.own_issuer or "")
        if not row.has_credentials and realm.shared_provider not in self._configured:
            return None
        return RealmProvider(realm.shared_provider, answers)


class ProviderOutageRows(OnTransaction):
    """Implements `ports.identity.sign_in.ProviderOutageStore` in one transaction."""

    async def failed(self, provider: str, at: datetime) -> None:
        await self._transaction.tell(_FAILED, {"provider": provider, "at": at})

    async def worked(self, provider: str) -> None:
        await self._transaction.tell(_WORKED, {"provider": provider})


_PROVIDER: Final = """
    select (select failed_at from provider_outages where provider = %(provider)s) as failed_at,
           exists (
               select
                 from oauth_credentials
                where oauth_credentials.org_id = %(organization)s and oauth_credentials.provider = %(provider)s
           ) as has_credentials,
           own.name as own_name, own.enabled as own_enabled,
           case own.kind when 'oidc' then own.issuer end as own_issuer
      from (values (true)) as this (realm)
      left join upstream_providers as own on own.id = %(own_provider)s::uuid and own.org_id = %(organization)s
"""

_FAILED: Final = """
    insert into provider_outages (provider, failed_at)
    values (%(provider)s, %(at)s)
        on conflict (provider) do update
       set failed_at = greatest(provider_outages.failed_at, excluded.failed_at)
"""

_WORKED: Final = "delete from provider_outages where provider = %(provider)s"

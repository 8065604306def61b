"""The state of the installation, from PostgreSQL and its statistics."""

from datetime import datetime
from typing import Any, Final

from adapters.postgres.driver.listener import APPLICATION_NAME
from adapters.postgres.statements import ask, only
from adapters.postgres.transaction import OnPool
from core.domain.platform.installation import AwayProvider, FirstStepsDone, InstallationState, ServingProcess
from core.frozen import Frozen

MOST_LISTED: Final = 100


class _State(Frozen):
    schema: str | None
    processes: list[dict[str, Any]]
    providers: list[dict[str, Any]]


class PostgresInstallation(OnPool):
    """Implements `ports.platform.InstallationLookup`."""

    async def state(self) -> InstallationState:
        (row,) = await ask(self._pool, _State, _STATE, {"listener": APPLICATION_NAME, "most": MOST_LISTED})
        return InstallationState(
            row.schema or "",
            tuple(
                ServingProcess(one["name"].removeprefix(APPLICATION_NAME).strip(), one["host"] or "", datetime.fromisoformat(one["since"]))
                for one in row.processes
            ),
            tuple(
                AwayProvider(one["provider"], one["organization"] or "", datetime.fromisoformat(one["failed_at"])) for one in row.providers
            ),
        )

    async def first_steps(self) -> FirstStepsDone:
        return only(await ask(self._pool, FirstStepsDone, _FIRST_STEPS, {}))


# Each serving process listens on one connection. Every role sees the names and the beginnings of connections.
_STATE: Final = """
    select (select lpad(number::text, 4, '0') || '_' || name from schema_migrations order by number desc limit 1) as schema,
           array(
               select jsonb_build_object('name', application_name, 'host', host(client_addr), 'since', backend_start)
                 from pg_stat_activity
                where datname = current_database()
                  and (application_name = %(listener)s or starts_with(application_name, %(listener)s || ' '))
                order by backend_start nulls last
                limit %(most)s
           ) as processes,
           array(
               select jsonb_build_object('provider', coalesce(upstream_providers.name, provider_outages.provider),
                                         'organization', organizations.slug, 'failed_at', provider_outages.failed_at)
                 from provider_outages
                 left join upstream_providers on upstream_providers.id::text = provider_outages.provider
                 left join organizations on organizations.id = upstream_providers.org_id
                order by provider_outages.failed_at desc
                limit %(most)s
           ) as providers
"""

_FIRST_STEPS: Final = """
    select exists (select from organizations) as organization,
           exists (select from invitations) or exists (select from users where not is_platform_owner) as invitation,
           exists (select from services) as application,
           exists (select from service_users where first_login_at is not null) as sign_in
"""

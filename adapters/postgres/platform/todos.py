"""Open todos in PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.statements import ask
from adapters.postgres.tenancy.connection_refreshes import ENDS_SOON, WAITS
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId
from core.domain.platform.todos import MOST_COUNTED, SOON, Todo, Todos
from core.frozen import Frozen

# Members whom the statement looks at for a second factor. A look costs two look-ups in indexes.
_MOST_MEMBERS: Final = 1000


class _Counted(Frozen):
    todo: str
    found: int


class PostgresTodos(OnPool):
    """Implements `ports.platform.TodoLookup`."""

    async def of(self, organization: OrganizationId, now: datetime) -> Todos:
        counts = await ask(self._pool, _Counted, COUNTED, counting(organization, now))
        return {Todo(row.todo): row.found for row in counts if row.found}


def counting(organization: OrganizationId, now: datetime) -> Mapping[str, Any]:
    """The parameters of `COUNTED`."""
    return {"organization": organization, "now": now, "soon": now + SOON, "most": MOST_COUNTED, "most_members": _MOST_MEMBERS}


def counted(todo: LiteralString, rows: LiteralString) -> LiteralString:
    return f"select '{todo}' as todo, (select count(*) from ({rows} limit %(most)s) as counted)::int as found"


COUNTED: Final[LiteralString] = "\nunion all\n".join(
    (
        counted("join_requests", "select from join_requests where org_id = %(organization)s and status = 'pending'"),
        counted(
            "certificates",
            """
            select
              from services
              join saml_certificates on saml_certificates.service_id = services.id and saml_certificates.state = 'active'
             where services.org_id = %(organization)s
               and saml_certificates.valid_until < %(soon)s
               and not exists (
                       select from saml_certificates as following
                        where following.service_id = services.id and following.state = 'next'
                   )
            """,
        ),
        counted(
            "connections",
            f"""
            select from upstream_providers where org_id = %(organization)s and (({ENDS_SOON}) or {WAITS})
            """,
        ),
        counted(
            "webhooks",
            """
            select from webhooks
             where org_id = %(organization)s and (paused_at is not null or is_active and failing_since is not null)
            """,
        ),
        counted(
            "domains",
            """
            select from domain_routes where org_id = %(organization)s and (misses > 0 or verified_at is null and checked_at is not null)
             union all
            select from domains where org_id = %(organization)s and (misses > 0 or verified_at is null and checked_at is not null)
            """,
        ),
        counted(
            "resource_servers",
            """
            select from resource_servers
             where org_id = %(organization)s and identifier not like 'http:%%'
               and (misses > 0 or verified_at is null and approved_at is null)
            """,
        ),
        counted(
            "second_factors",
            f"""
            select
              from (
                       select {second_factor_due("memberships.user_id")} as due
                         from organizations
                         join memberships on memberships.org_id = organizations.id
                        where organizations.id = %(organization)s
                          and (organizations.mfa_required_since is not null or organizations.admin_factor is not null
                               or organizations.all_factor is not null)
                        limit %(most_members)s
                   ) as asked
             where asked.due is not null
            """,
        ),
        counted("mail_server", "select from mail_servers where org_id = %(organization)s and failing_since is not null"),
        counted("siem", "select from siem_configurations where org_id = %(organization)s and last_error is not null and is_active"),
        counted(
            "setup_links",
            """
            select
              from setup_drafts
              left join upstream_providers on upstream_providers.id = setup_drafts.upstream_provider_id
             where setup_drafts.org_id = %(organization)s and setup_drafts.state = 'waiting'
               and (upstream_providers.id is null or upstream_providers.state = 'tested' and upstream_providers.activated_at is null)
            """,
        ),
        counted("texts", "select from organization_texts where org_id = %(organization)s and outdated"),
        counted(
            "keys",
            """
            select from management_keys where org_id = %(organization)s and expires_at between %(now)s and %(soon)s
             union all
            select from scim_tokens where org_id = %(organization)s and expires_at between %(now)s and %(soon)s
             union all
            select
              from services
              join api_keys on api_keys.service_id = services.id
             where services.org_id = %(organization)s and api_keys.expires_at between %(now)s and %(soon)s
            """,
        ),
    )
)

"""Logout notices in PostgreSQL: their queue and their outcomes. `identity/sessions/revoking.py` writes the notices."""

from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, page_of
from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.revoking import noticing
from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from core.domain.federation.logouts import DueNotice, LogoutNotice
from core.domain.identifiers import ClientId, OrganizationId, SessionId, UserId
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen
from ports.federation.oauth import ClaimedService

NOTICE: Final = Columns(LogoutNotice, "logout_notices", named={"session": "session_id", "user": "user_id"})


class _Claim(Frozen):
    """One row of nulls when nothing was claimed. `url` is null also when the service's address was removed at this moment."""

    last: UUID | None
    id: UUID | None
    lease: UUID
    org_id: UUID
    url: str | None
    client_id: str
    id_token_alg: str | None

    def claimed(self, *, failing: bool) -> ClaimedService | None:
        if self.id is None or self.url is None:
            return None
        return ClaimedService(
            id=self.id,
            organization=OrganizationId(self.org_id),
            url=self.url,
            is_failing=failing,
            lease=self.lease,
            client=ClientId(self.client_id),
            algorithm=TokenAlgorithm(self.id_token_alg or TokenAlgorithm.RS256),
        )


class _Due(Frozen):
    id: UUID
    attempts: int
    session_id: UUID
    user_id: UUID

    def due(self) -> DueNotice:
        return DueNotice(SessionId(self.session_id), UserId(self.user_id), id=self.id, attempts=self.attempts)


class PostgresLogoutNotices:
    """Implements `ports.federation.oauth.LogoutNoticeLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(self, organization: OrganizationId, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice] | None:
        wanted = {"organization": organization, "slug": storable_text(slug), "delivered": delivered}
        parameters = {**wanted, "limit": page.limit, "offset": page.offset, "most": MOST_ROWS_COUNTED}
        rows = await ask(self._pool, NOTICE.counted, LIST, parameters)
        return page_of(rows) if rows else None


LOGOUTS: Final[DeliveryTables[ClaimedService, DueNotice]] = DeliveryTables(
    waiting="logout_notices",
    of="service_id",
    receivers="logout_receivers",
    key="service_id",
    joins="join services on services.id = logout_receivers.service_id join organizations on organizations.id = services.org_id",
    may_be_called="services.backchannel_logout_uri is not null and organizations.status = 'active'",
    row=_Claim,
    columns=(
        "services.id, services.org_id, services.backchannel_logout_uri as url, services.oauth_client_id as client_id, services.id_token_alg"
    ),
    claimed_joins="left join services on services.id = claimed.service_id",
    due_row=_Due,
    due_columns="deliveries.session_id, deliveries.user_id",
    due_order="deliveries.id",
)

_WANTED: Final = """
                 logout_notices.service_id = services.id
             and (%(delivered)s::boolean is null or (logout_notices.delivered_at is not null) = %(delivered)s)
"""

LIST: Final[LiteralString] = f"""
    select counted.total, {NOTICE.names_in("listed")}
      from services
     cross join lateral (
               select count(*) as total from (select from logout_notices where {_WANTED} limit %(most)s) as rows
           ) as counted
      left join lateral (
               select *
                 from logout_notices
                where {_WANTED}
                order by logout_notices.id desc
                limit %(limit)s offset %(offset)s
           ) as listed on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by listed.id desc
"""

# The janitor runs this statement, which writes notices for sessions that expired since the last run, in the order of their expiry. Each
# notice waits a minute after the expiry, because clocks differ and a session may still be renewed until then. A revoked session has its
# notice already. The count of rows is the number of sessions that the statement looked at.
EXPIRE: Final[LiteralString] = f"""
    with since as materialized (
             select greatest((select seen_until from logout_expiry), now() - interval '1 day') as at
              where exists (select from logout_receivers) and {BELIEVED}
         ),
         batch as materialized (
             select expired.id, expired.expires_at
               from since
              cross join lateral (
                        select id, expires_at
                          from sessions
                         where expires_at > since.at and expires_at <= now() - interval '1 minute'
                         order by expires_at
                         fetch first (%(limit)s) rows with ties
                    ) as expired
         ),
         held as (
             select id, user_id, service_id
               from sessions
              where id = any (array(select id from batch)) and revoked_at is null and service_id is not null
              order by id
                for no key update
         ),
         noticed as ({noticing("held")}),
         moved as (
             insert into logout_expiry (seen_until)
             select coalesce((select max(expires_at) from batch having count(*) >= %(limit)s), now() - interval '1 minute')
               from since
                 on conflict (is_only) do update set seen_until = greatest(logout_expiry.seen_until, excluded.seen_until)
         )
  select from batch
"""

# The janitor runs this statement, which gives up notices that nobody has received within a day. Services that are not called any longer
# have such notices, too.
FORSAKE: Final[LiteralString] = f"""
    update logout_notices
       set next_at = null, error = coalesce(error, 'not called'), updated_at = now()
     where {BELIEVED} and id in (
               select id
                 from logout_notices
                where next_at is not null and created_at < now() - interval '1 day'
                order by created_at
                limit %(limit)s
                  for update skip locked
           )
"""

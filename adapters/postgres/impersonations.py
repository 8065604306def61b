"""Impersonations in PostgreSQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.revoking import revoking
from adapters.postgres.sign_in import DESTINATION, DestinationRow
from adapters.postgres.storable import storable_text
from adapters.postgres.subscriptions import SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.transaction import Transaction
from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.impersonation import Impersonation
from ports.impersonations import Impersonable, Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class _User(DestinationRow):
    id: UUID
    email: str
    is_platform_owner: bool
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime
    joined_id: UUID | None
    joined_slug: str | None
    joined_is_active: bool | None
    by_live_session: bool
    subscription: Mapping[str, Any] | None


class ImpersonationRows:
    """Implements `ports.impersonations.ImpersonationStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        await self._transaction.tell(_HOLD, {"users": [user, by]})
        slugs = {"slug": storable_text(organization_slug), "service_slug": storable_text(service_slug)}
        found = await self._transaction.ask(_User, _FIND_USER, {"user": user, **slugs, "by": by, "session": session})
        if not found:
            return None
        row = found[0]
        account = Account(
            UserId(row.id),
            Email(row.email),
            is_platform_owner=row.is_platform_owner,
            email_verified_at=row.email_verified_at,
            deactivated_at=row.deactivated_at,
            created_at=row.created_at,
        )
        membership = None
        if row.joined_id is not None:
            membership = Membership(OrganizationId(row.joined_id), row.joined_slug or "", bool(row.joined_is_active))
        return Impersonable(account, membership, row.by_live_session, row.destination(), subscription_state(row.subscription))

    async def add(self, impersonation: Impersonation) -> None:
        await self._transaction.tell(
            _ADD,
            {
                "id": impersonation.id,
                "impersonator": impersonation.impersonator,
                "user": impersonation.user,
                "reason": storable_text(impersonation.reason),
                "session": impersonation.session,
                "created_at": impersonation.created_at,
                "expires_at": impersonation.expires_at,
            },
        )

    async def end_all(self, user: UserId) -> None:
        await self._transaction.tell(_END_ALL, {"user": user})


# Whoever deactivates one of them, or ends their sessions, holds the account first: they wait until the new session is there to be ended, or
# we see what they have done. In one order, so that two platform owners who try each other do not wait for each other. A statement of its
# own: the next one sees what was committed while this one waited.
_HOLD: Final = "select from users where id = any(%(users)s) order by id for share"

# The service is held as a foreign key holds it: the session comes to be in it while its rows stay.
_FIND_USER: Final[LiteralString] = f"""
    with services as (
             select {DESTINATION}, services.id
               from service_users
               join services on services.id = service_users.service_id
               join organizations on organizations.id = services.org_id
              where service_users.user_id = %(user)s and organizations.slug = %(slug)s and services.slug = %(service_slug)s
                for key share
         )
    select users.id, users.email, users.is_platform_owner, users.email_verified_at, users.deactivated_at, users.created_at,
           joined.id as joined_id, joined.slug as joined_slug, joined.status = 'active' as joined_is_active,
           services.service_id, services.service_slug, services.organization_id, services.organization_slug,
           services.organization_is_active,
           {SUBSCRIPTION_STATE} as subscription,
           exists (
               select from sessions where sessions.id = %(session)s and sessions.user_id = %(by)s and sessions.revoked_at is null
           ) as by_live_session
      from users
      left join services on true
      left join (memberships join organizations as joined on joined.id = memberships.org_id and joined.slug = %(slug)s)
             on memberships.user_id = users.id
     where users.id = %(user)s
"""

_ADD: Final = """
    insert into impersonations (id, impersonator_id, user_id, reason, session_id, created_at, expires_at)
    values (%(id)s, %(impersonator)s, %(user)s, %(reason)s, %(session)s, %(created_at)s, %(expires_at)s)
"""

_END_ALL: Final = revoking("user_id = %(user)s and impersonator_id is not null")

"""Impersonations in PostgreSQL."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.impersonation import Impersonation
from ports.impersonations import Impersonable, Membership


@dataclass(frozen=True, slots=True)
class _User:
    id: UUID
    email: str
    is_platform_owner: bool
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime
    organization_id: UUID | None
    organization_slug: str | None
    organization_is_active: bool | None
    by_live_session: bool


class ImpersonationRows:
    """Implements `ports.impersonations.ImpersonationStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find_user(self, user: UserId, organization_slug: str, *, by: UserId, session: SessionId) -> Impersonable | None:
        await self._transaction.tell(_HOLD, {"users": [user, by]})
        found = await self._transaction.ask(
            _User, _FIND_USER, {"user": user, "slug": storable_text(organization_slug), "by": by, "session": session}
        )
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
        if row.organization_id is not None:
            membership = Membership(OrganizationId(row.organization_id), row.organization_slug or "", bool(row.organization_is_active))
        return Impersonable(account, membership, row.by_live_session)

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


# Whoever deactivates one of them, or ends their sessions, holds the account first: they wait until the new session is there to be ended, or
# we see what they have done. In one order, so that two platform owners who try each other do not wait for each other. A statement of its
# own: the next one sees what was committed while this one waited.
_HOLD: Final = "select from users where id = any(%(users)s) order by id for share"

_FIND_USER: Final = """
    select users.id, users.email, users.is_platform_owner, users.email_verified_at, users.deactivated_at, users.created_at,
           organizations.id as organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active,
           exists (
               select from sessions where sessions.id = %(session)s and sessions.user_id = %(by)s and sessions.revoked_at is null
           ) as by_live_session
      from users
      left join (memberships join organizations on organizations.id = memberships.org_id and organizations.slug = %(slug)s)
             on memberships.user_id = users.id
     where users.id = %(user)s
"""

_ADD: Final = """
    insert into impersonations (id, impersonator_id, user_id, reason, session_id, created_at, expires_at)
    values (%(id)s, %(impersonator)s, %(user)s, %(reason)s, %(session)s, %(created_at)s, %(expires_at)s)
"""

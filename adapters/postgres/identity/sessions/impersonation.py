"""Impersonations in PostgreSQL."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.proofs.sign_in import DESTINATION, destination_of
from adapters.postgres.identity.sessions.profile_columns import tells_more
from adapters.postgres.identity.sessions.revoking import revoking
from adapters.postgres.identity.sessions.sessions import PARENT
from adapters.postgres.identity.sessions.subscription_state import SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.statements import first
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.callers import Impersonation
from core.domain.identity.proofs import UNPROVED
from ports.identity.sessions import Impersonable, MembershipHeld


def _impersonable(
    *,
    joined_id: UUID | None,
    joined_slug: str | None,
    joined_is_active: bool | None,
    subscription: Mapping[str, Any] | None,
    tells_more: bool,
    **columns: Any,
) -> Impersonable:
    """The platform owner's proofs do not count for the new session: they gave these for their own account, not for the user's."""
    return Impersonable(
        ACCOUNT.taken(columns),
        None if joined_id is None else MembershipHeld(OrganizationId(joined_id), joined_slug or "", bool(joined_is_active)),
        service=destination_of(columns),
        opener=PARENT.found(**columns, proved=UNPROVED),
        subscription=subscription_state(subscription),
        tells_more=tells_more,
    )


class ImpersonationRows(OnTransaction):
    """Implements `ports.identity.sessions.ImpersonationStore` in one transaction."""

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        await self._transaction.tell(_HOLD, {"users": [user, by]})
        slugs = {"slug": storable_text(organization_slug), "service_slug": storable_text(service_slug)}
        parameters = {"user": user, **slugs, "by": by, "session": session}
        return first(await self._transaction.ask(_impersonable, _FIND_USER, parameters))

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


# A request that deactivates one of the two accounts, or ends the account's sessions, locks the account first. Either that request waits
# until the new session exists, and ends the new session, too, or we see the changes of that request. The locks are taken in the order of
# the ids, so that two platform owners who impersonate each other do not deadlock. The lock is a statement of its own, so that the next
# statement sees everything that was committed while the lock was awaited.
_HOLD: Final = "select from users where id = any(%(users)s) order by id for share"

# The lock on the service is the one that a foreign key takes: the service's rows stay until the session is there.
_FIND_USER: Final[LiteralString] = f"""
    with services as (
             select {DESTINATION}, services.id
               from service_users
               join services on services.id = service_users.service_id
               join organizations on organizations.id = services.org_id
              where service_users.user_id = %(user)s and organizations.slug = %(slug)s and services.slug = %(service_slug)s
                for key share
         )
    select {ACCOUNT.names},
           joined.id as joined_id, joined.slug as joined_slug, joined.status = 'active' as joined_is_active,
           services.service_id, services.service_slug, services.organization_id, services.organization_slug,
           services.organization_is_active, services.is_agent, services.binds_tokens,
           {SUBSCRIPTION_STATE} as subscription,
           {tells_more("services.id", "services.organization_id", "users.id")} as tells_more,
           {PARENT.names_in("opener")}
      from users
      left join sessions as opener on opener.id = %(session)s and opener.user_id = %(by)s and opener.revoked_at is null
                                  and opener.expires_at > now() and opener.ends_at > now()
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

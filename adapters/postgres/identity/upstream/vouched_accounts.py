"""What an account has whose address only an organization's own provider has vouched for, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.frozen import Frozen


class _Added(Frozen):
    kind: str
    id: UUID
    name: str
    at: datetime | None
    application: str
    made_by_service: bool
    last_used_at: datetime | None

    def added(self) -> AddedWay:
        return AddedWay(
            AddedKind(self.kind),
            self.id,
            self.name,
            self.at,
            application=self.application,
            made_by_service=self.made_by_service,
            last_used_at=self.last_used_at,
        )


class VouchedAccountRows(OnStatements):
    """Implements `ports.identity.upstream.VouchedAccountStore`."""

    async def added(self, user: UserId, session: SessionId) -> Sequence[AddedWay]:
        return [row.added() for row in await self._statements.ask(_Added, _ADDED, {"user": user, "session": session})]


_ADDED: Final = """
    select 'password' as kind, id, '' as name, password_changed_at as at, '' as application, false as made_by_service,
           null::timestamptz as last_used_at
      from users
     where id = %(user)s and password_hash is not null
     union all
    select 'second_factor', user_id, '', enabled_at, '', false, null
      from mfa_secrets
     where user_id = %(user)s and enabled_at is not null and made_in is distinct from %(session)s
     union all
    select 'passkey', id, name, created_at, '', false, null
      from passkeys
     where user_id = %(user)s and made_in is distinct from %(session)s
     union all
    select 'identity', identities.id, coalesce(providers.name, identities.provider), identities.linked_at, '', false, null
      from identities
      left join upstream_providers as providers on providers.id = identities.upstream_provider_id
     where identities.user_id = %(user)s and identities.made_in is distinct from %(session)s
       and not exists (
               select from sessions where sessions.id = %(session)s and sessions.opened_through = identities.upstream_provider_id
           )
     union all
    select 'user_key', user_keys.id, user_keys.name, user_keys.created_at, services.name, user_keys.made_by_key is not null,
           user_keys.last_used_at
      from user_keys
      join services on services.id = user_keys.service_id
     where user_keys.user_id = %(user)s and (user_keys.expires_at is null or user_keys.expires_at > now())
     order by at, kind, id
"""

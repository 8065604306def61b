"""What sessions have proved, in PostgreSQL."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.proofs import Proved, Standing


@dataclass(frozen=True, slots=True)
class _Standing:
    proved_at: datetime | None
    second_factor_at: datetime | None
    enabled_at: datetime | None
    has_password: bool

    def standing(self) -> Standing:
        return Standing(Proved(self.proved_at, self.second_factor_at), self.enabled_at, self.has_password)


class PostgresProofs:
    """Implements `ports.identity.proofs.ProofLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, session: SessionId, user: UserId) -> Standing | None:
        rows = await ask(self._pool, _Standing, _FIND, {"session": session, "user": user})
        return rows[0].standing() if rows else None


_FIND: Final = """
    select sessions.proved_at, sessions.second_factor_at, mfa_secrets.enabled_at,
           users.password_hash is not null as has_password
      from sessions
      join users on users.id = sessions.user_id
      left join mfa_secrets on mfa_secrets.user_id = sessions.user_id
     where sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.revoked_at is null
"""

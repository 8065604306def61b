"""The proofs that a person has given in a session, in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.statements import ask, first_made
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.proofs import Proved, Standing
from core.frozen import Frozen


class _Standing(Frozen):
    proved_at: datetime | None
    second_factor_at: datetime | None
    stated_at: datetime | None
    second_factor_since: datetime | None
    has_password: bool
    has_authenticator: bool
    has_passkey: bool
    has_proved_address: bool

    def standing(self) -> Standing:
        proved = Proved(self.proved_at, self.second_factor_at, self.stated_at)
        return Standing(
            proved, self.second_factor_since, self.has_password, self.has_authenticator, self.has_passkey, self.has_proved_address
        )


class PostgresProofs(OnPool):
    """Implements `ports.identity.sign_in.ProofLookup`."""

    async def find(self, session: SessionId, user: UserId) -> Standing | None:
        return first_made(await ask(self._pool, _Standing, _FIND, {"session": session, "user": user}), _Standing.standing)


_FIND: Final[LiteralString] = f"""
    select sessions.proved_at, sessions.second_factor_at, sessions.stated_at,
           {second_factor_since("sessions.user_id")} as second_factor_since,
           users.password_hash is not null as has_password,
           exists (
               select from mfa_secrets where mfa_secrets.user_id = sessions.user_id and mfa_secrets.enabled_at is not null
           ) as has_authenticator,
           exists (select from passkeys where passkeys.user_id = sessions.user_id) as has_passkey,
           {is_proved()} as has_proved_address
      from sessions
      join users on users.id = sessions.user_id
     where sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.revoked_at is null
"""

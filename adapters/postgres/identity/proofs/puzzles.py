"""Puzzles that were used, in PostgreSQL. Its key lets each count once, whichever process it reaches."""

from datetime import datetime
from typing import Final
from uuid import UUID

from adapters.postgres.statements import ask_in_order, tell
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnPool
from core.domain.mail import Email
from core.domain.secrets import Token


class PostgresPuzzles(OnPool):
    """Implements `ports.identity.sign_in.PuzzleStore`."""

    async def use(self, puzzle: UUID, until: datetime) -> bool:
        return await tell(self._pool, _USE, {"puzzle": puzzle, "until": until}) == 1

    async def is_known_device(self, email: Email, device_token: Token) -> bool:
        parameters = {"email_key": storable_text(email.key), "device_digest": device_token.digest()}
        return bool(await ask_in_order(self._pool, int, _KNOWN, parameters))


_USE: Final = "insert into used_puzzles (id, expires_at) values (%(puzzle)s, %(until)s) on conflict (id) do nothing"

_KNOWN: Final = """
    select 1
      from devices
      join users on users.id = devices.user_id
     where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s
"""

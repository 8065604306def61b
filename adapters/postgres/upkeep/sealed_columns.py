"""Every place where the database keeps sealed values, so that they can be sealed again after a rotation of the key ring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from ports.encryption import KeyRing, SealedValue


@dataclass(frozen=True, slots=True)
class _Column:
    """`outdated` takes `header` and `limit`; `replace` takes `row`, `old` and `new`."""

    outdated: LiteralString
    replace: LiteralString


# Builds the context that the value was sealed with. It must be the same text as where the value is sealed.
_COLUMNS: Final[Mapping[str, _Column]] = {
    "signing_keys.sealed_private_key": _Column(
        outdated="""
            select id as row, sealed_private_key as sealed, 'signing_keys.sealed_private_key:' || id as context
              from signing_keys
             where substring(sealed_private_key from 1 for length(%(header)s)) <> %(header)s
             order by id
             limit %(limit)s
        """,
        replace="update signing_keys set sealed_private_key = %(new)s where id = %(row)s and sealed_private_key = %(old)s",
    ),
    "jobs.sealed_payload": _Column(
        outdated="""
            select id::text as row, sealed_payload as sealed, 'jobs.payload:' || id as context
              from jobs
             where substring(sealed_payload from 1 for length(%(header)s)) <> %(header)s
             order by id
             limit %(limit)s
        """,
        replace="update jobs set sealed_payload = %(new)s where id = %(row)s::uuid and sealed_payload = %(old)s",
    ),
    "mfa_secrets.sealed_secret": _Column(
        outdated="""
            select user_id::text as row, sealed_secret as sealed, 'mfa_secrets.sealed_secret:' || user_id as context
              from mfa_secrets
             where substring(sealed_secret from 1 for length(%(header)s)) <> %(header)s
             order by user_id
             limit %(limit)s
        """,
        replace="update mfa_secrets set sealed_secret = %(new)s where user_id = %(row)s::uuid and sealed_secret = %(old)s",
    ),
    "server_secrets.sealed_secret": _Column(
        outdated="""
            select purpose as row, sealed_secret as sealed, 'server_secrets.sealed_secret:' || purpose as context
              from server_secrets
             where substring(sealed_secret from 1 for length(%(header)s)) <> %(header)s
             order by purpose
             limit %(limit)s
        """,
        replace="update server_secrets set sealed_secret = %(new)s where purpose = %(row)s and sealed_secret = %(old)s",
    ),
}


class PostgresSealedColumns:
    """Implements `ports.encryption.SealedColumns`."""

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    @property
    def columns(self) -> Sequence[str]:
        return tuple(_COLUMNS)

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        parameters = {"header": self._keyring.current_header(), "limit": limit}
        return await ask(self._pool, SealedValue, _COLUMNS[column].outdated, parameters)

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        return await tell(self._pool, _COLUMNS[column].replace, {"row": row, "old": old, "new": new}) == 1

"""Every place where the database keeps sealed values, so that a command can seal them again after a rotation of the key ring."""

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from core.frozen import Frozen
from ports.encryption import KeyRing, SealedValue


class _Column(Frozen):
    """The parameters: `after` and `limit` of `all`; `header`, and `limit` of `outdated`; `row`, `old` and `new` of `replace`."""

    all: LiteralString
    outdated: LiteralString
    count: LiteralString
    replace: LiteralString
    key: LiteralString


class _Count(Frozen):
    values: int


def _column(
    table: LiteralString, column: LiteralString, key: LiteralString, key_type: LiteralString, context: LiteralString | None = None
) -> _Column:
    """`context` is what the value was sealed with, before the row's key. It must be the same text as in the code that seals the value."""
    values: LiteralString = (
        f"select {key}::text as row, {column} as sealed, '{context or f'{table}.{column}'}:' || {key} as context from {table}"
    )
    return _Column(
        all=f"""
            {values}
             where {column} is not null and (%(after)s::text is null or {key} > %(after)s::{key_type})
             order by {key}
             limit %(limit)s
        """,
        outdated=f"""
            {values}
             where substring({column} from 1 for length(%(header)s)) <> %(header)s
             order by {key}
             limit %(limit)s
        """,
        count=f"select count(*) as values from {table} where substring({column} from 1 for length(%(header)s)) <> %(header)s",
        replace=f"update {table} set {column} = %(new)s where {key} = %(row)s::{key_type} and {column} = %(old)s",
        key=key,
    )


_COLUMNS: Final[Mapping[str, _Column]] = {
    "all_signing_keys.sealed_private_key": _column(
        "all_signing_keys", "sealed_private_key", "id", "text", context="signing_keys.sealed_private_key"
    ),
    "connection_answers.sealed_answer": _column("connection_answers", "sealed_answer", "id", "uuid"),
    "connection_tests.sealed_result": _column("connection_tests", "sealed_result", "id", "uuid"),
    "identity_grants.sealed_access_token": _column("identity_grants", "sealed_access_token", "id", "uuid"),
    "identity_grants.sealed_refresh_token": _column("identity_grants", "sealed_refresh_token", "id", "uuid"),
    "jobs.sealed_payload": _column("jobs", "sealed_payload", "id", "uuid", context="jobs.payload"),
    "mail_servers.sealed_password": _column("mail_servers", "sealed_password", "id", "uuid"),
    "mfa_secrets.sealed_secret": _column("mfa_secrets", "sealed_secret", "user_id", "uuid"),
    "oauth_credentials.sealed_client_secret": _column("oauth_credentials", "sealed_client_secret", "id", "uuid"),
    "saml_certificates.sealed_private_key": _column("saml_certificates", "sealed_private_key", "id", "uuid"),
    "server_secrets.sealed_secret": _column("server_secrets", "sealed_secret", "purpose", "text"),
    "setup_drafts.sealed_credentials": _column("setup_drafts", "sealed_credentials", "id", "uuid"),
    "siem_configurations.sealed_credentials": _column("siem_configurations", "sealed_credentials", "id", "uuid"),
    "upstream_providers.sealed_client_secret": _column("upstream_providers", "sealed_client_secret", "id", "uuid"),
    "upstream_providers.sealed_private_key": _column("upstream_providers", "sealed_private_key", "id", "uuid"),
    "upstream_providers.next_sealed_private_key": _column("upstream_providers", "next_sealed_private_key", "id", "uuid"),
    "upstream_providers.former_sealed_private_key": _column("upstream_providers", "former_sealed_private_key", "id", "uuid"),
    "webhooks.sealed_secret": _column("webhooks", "sealed_secret", "id", "uuid"),
    "webhooks.previous_sealed_secret": _column("webhooks", "previous_sealed_secret", "id", "uuid"),
}


def sealed_in(table: str) -> Mapping[str, str]:
    """The sealed columns of a table, each with the column of the key that is part of its context."""
    return {column.removeprefix(f"{table}."): found.key for column, found in _COLUMNS.items() if column.startswith(f"{table}.")}


class PostgresSealedColumns:
    """Implements `ports.encryption.SealedColumns`."""

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    @property
    def columns(self) -> Sequence[str]:
        return tuple(_COLUMNS)

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:
        return await ask(self._pool, SealedValue, _COLUMNS[column].all, {"after": after, "limit": limit})

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        parameters = {"header": self._keyring.current_header(), "limit": limit}
        return await ask(self._pool, SealedValue, _COLUMNS[column].outdated, parameters)

    async def count_outdated(self, column: str) -> int:
        (row,) = await ask(self._pool, _Count, _COLUMNS[column].count, {"header": self._keyring.current_header()})
        return row.values

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        return await tell(self._pool, _COLUMNS[column].replace, {"row": row, "old": old, "new": new}) == 1

"""Machine keys in PostgreSQL: those of a further kind, with an organization or without, are added, found and marked as all others are."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID, uuid4

from adapters.postgres.statements import ask
from adapters.postgres.tenancy.management_keys import KeyLookups, KeyTable, PostgresKeyUse, adding, asked_keys
from core.domain.tenancy.management_keys import KnownKey
from core.frozen import Frozen
from tests.adapters.postgres.conftest import Store

NOON: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEYS: Final = KeyTable("further_keys", "org_id", ("capabilities",))
MADE: Final = """
    create table further_keys (
        id uuid primary key, org_id uuid, name text not null, prefix text not null unique, digest bytea not null unique,
        capabilities text[] not null, expires_at timestamptz, last_used_at timestamptz, created_by uuid not null, created_at timestamptz
    )
"""
ADD: Final[LiteralString] = adding(KEYS)
FIND: Final[LiteralString] = f"select keys.digest, keys.org_id, keys.capabilities, keys.expires_at from {asked_keys(KEYS)}"


class Added(Frozen):
    before: int


class Known(NamedTuple):
    digest: bytes
    org_id: UUID | None
    capabilities: list[str]
    expires_at: datetime | None

    def known(self) -> KnownKey[tuple[UUID | None, list[str]]]:
        return KnownKey((self.org_id, self.capabilities), self.digest, self.expires_at, organization_is_active=True)


async def add(store: Store, prefix: str, organization: UUID | None, digest: bytes = b"") -> int | None:
    told = {"name": "Deploys", "prefix": prefix, "digest": digest or prefix.encode(), "capabilities": ["org.read"], "expires_at": NOON}
    parameters = {"id": uuid4(), "org_id": organization, "created_by": uuid4(), "created_at": NOON, **told}
    rows = await ask(store.pool, Added, ADD, parameters)
    return rows[0].before if rows else None


async def test_each_key_of_an_organization_is_counted_and_a_prefix_is_given_once(fresh_store: Store) -> None:
    await fresh_store.query(MADE)
    organization = uuid4()
    assert [await add(fresh_store, prefix, organization) for prefix in ("pto_a", "pto_b")] == [0, 1]
    assert await add(fresh_store, "pto_a", organization, b"another digest") is None
    assert await add(fresh_store, "pto_c", uuid4()) == 0
    assert await fresh_store.count("further_keys") == 3


async def test_a_key_is_found_by_its_digest_alone(fresh_store: Store) -> None:
    await fresh_store.query(MADE)
    organization = uuid4()
    await add(fresh_store, "pto_a", organization)
    await add(fresh_store, "ptp_a", None)
    lookups: KeyLookups[Any] = KeyLookups(fresh_store.pool, Known, FIND)
    found = [await lookups.find(digest) for digest in (b"pto_a", b"ptp_a", b"pto_b")]
    assert [None if known is None else known.holder for known in found] == [(organization, ["org.read"]), (None, ["org.read"]), None]


async def test_its_use_is_marked_once_a_minute(fresh_store: Store) -> None:
    await fresh_store.query(MADE)
    await add(fresh_store, "ptp_a", None)
    (row,) = await fresh_store.query("select id from further_keys")
    for seconds, written in ((0, 0), (59, 0), (60, 60)):
        await PostgresKeyUse(fresh_store.pool, KEYS).mark_seen({row["id"]: NOON + timedelta(seconds=seconds)})
        (kept,) = await fresh_store.query("select last_used_at from further_keys")
        assert kept["last_used_at"] == NOON + timedelta(seconds=written)

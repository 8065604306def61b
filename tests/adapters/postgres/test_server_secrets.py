"""Server secrets: random, one for each purpose, the same for everybody, and sealed."""

import trio

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.server_secrets import PostgresServerSecrets
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from tests.adapters.postgres.conftest import Store


def server_secrets(store: Store) -> PostgresServerSecrets:
    """Each call is another process."""
    return PostgresServerSecrets(store.pool, store.keyring, store.clock)


async def test_each_purpose_has_one_that_stays_the_same(store: Store) -> None:
    one = await server_secrets(store).get("one")
    assert len(one) == 32
    assert await server_secrets(store).get("one") == one
    assert await server_secrets(store).get("other") != one


async def test_of_many_first_uses_at_once_all_get_the_same(store: Store) -> None:
    got: set[bytes] = set()

    async def get() -> None:
        got.add(await server_secrets(store).get("one"))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(get)
    assert len(got) == 1


async def test_the_database_is_asked_once(store: Store) -> None:
    secrets = server_secrets(store)
    await secrets.get("one")
    round_trips.set(trips := TripCounter())
    await secrets.get("one")
    assert trips.count == 0


async def test_it_is_stored_sealed_and_survives_a_rotation_of_the_ring(store: Store) -> None:
    secret = await server_secrets(store).get("one")
    (row,) = await store.query("select sealed_secret from server_secrets")
    assert secret not in row["sealed_secret"]
    column, ring = "server_secrets.sealed_secret", AesGcmKeyRing([EncryptionKey("new", b"n" * 32), EncryptionKey("first", b"1" * 32)])
    columns = PostgresSealedColumns(store.pool, ring)
    (value,) = await columns.outdated(column, 10)
    assert await columns.replace(column, value.row, value.sealed, ring.seal(ring.open(value.sealed, value.context), value.context))
    assert await columns.outdated(column, 10) == []
    assert await PostgresServerSecrets(store.pool, AesGcmKeyRing([EncryptionKey("new", b"n" * 32)]), store.clock).get("one") == secret

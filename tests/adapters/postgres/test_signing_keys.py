"""Signing keys: one current and one next per purpose, changed by one writer at a time."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import trio

from core.domain.identifiers import KeyId
from core.domain.tokens import KeyPurpose, KeyState, SigningKey
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str, state: KeyState = KeyState.NEXT, purpose: KeyPurpose = KeyPurpose.ACCESS) -> SigningKey:
    return SigningKey(
        id=KeyId(name),
        purpose=purpose,
        state=state,
        public_jwk={"kty": "EC", "crv": "P-256", "kid": name},
        sealed_private_key=b"\x00sealed",
        created_at=NOW,
        activated_at=NOW if state is KeyState.CURRENT else None,
        retires_at=None,
    )


async def add(store: Store, *keys: SigningKey) -> None:
    async with store.unit_of_work() as uow:
        for each in keys:
            await uow.signing_keys.add(each)
        await uow.commit()


async def stored(store: Store) -> list[SigningKey]:
    async with store.unit_of_work() as uow:
        return list(await uow.signing_keys.all())


async def test_a_key_comes_back_as_it_was_stored(store: Store) -> None:
    kept = [key("a", KeyState.CURRENT), key("b"), key("c", KeyState.CURRENT, KeyPurpose.ID)]
    await add(store, *kept)
    assert await stored(store) == kept


async def test_a_rotation_retires_activates_and_adds(store: Store) -> None:
    await add(store, key("a", KeyState.CURRENT), key("b"))
    later = NOW + timedelta(days=1)
    async with store.unit_of_work() as uow:
        await uow.signing_keys.lock_for_update()
        await uow.signing_keys.retire(KeyId("a"), later)
        await uow.signing_keys.activate(KeyId("b"), NOW)
        await uow.signing_keys.add(key("c"))
        await uow.commit()
    found = [(each.id, each.state, each.activated_at, each.retires_at) for each in await stored(store)]
    assert found == [
        ("a", KeyState.OUTGOING, NOW, later),
        ("b", KeyState.CURRENT, NOW, None),
        ("c", KeyState.NEXT, None, None),
    ]


@pytest.mark.parametrize("state", [KeyState.NEXT, KeyState.CURRENT])
async def test_the_database_itself_allows_one_current_and_one_next(store: Store, state: KeyState) -> None:
    await add(store, key("a", state), key("b", state, KeyPurpose.ID))
    with pytest.raises(psycopg.errors.UniqueViolation):
        await add(store, key("c", state))


async def test_only_the_next_is_activated_and_only_the_current_retired(store: Store) -> None:
    kept = [key("a", KeyState.CURRENT), key("b")]
    await add(store, *kept)
    async with store.unit_of_work() as uow:
        await uow.signing_keys.activate(KeyId("a"), NOW + timedelta(days=1))
        await uow.signing_keys.retire(KeyId("b"), NOW)
        await uow.commit()
    assert await stored(store) == kept


async def test_retired_keys_go_and_the_others_stay(store: Store) -> None:
    await add(store, key("a", KeyState.CURRENT), key("b"))
    async with store.unit_of_work() as uow:
        await uow.signing_keys.retire(KeyId("a"), NOW)
        assert await uow.signing_keys.delete_retired(NOW) == 0
        assert await uow.signing_keys.delete_retired(NOW + timedelta(seconds=1)) == 1
        await uow.commit()
    assert [each.id for each in await stored(store)] == ["b"]


@pytest.mark.parametrize("purpose", [KeyPurpose.ID, KeyPurpose.ID_ES256])
async def test_a_retired_key_of_id_tokens_stays_as_long_as_they_may_come_back(store: Store, purpose: KeyPurpose) -> None:
    await add(store, key("a", KeyState.CURRENT, purpose))
    async with store.unit_of_work() as uow:
        await uow.signing_keys.retire(KeyId("a"), NOW)
        assert await uow.signing_keys.delete_retired(NOW + timedelta(days=400)) == 0
        assert await uow.signing_keys.delete_retired(NOW + timedelta(days=400, seconds=1)) == 1
        await uow.commit()


async def test_of_many_first_starts_one_makes_the_keys_and_readers_do_not_wait(store: Store) -> None:
    made: list[int] = []

    async def first_start(number: int) -> None:
        async with store.unit_of_work() as uow:
            await uow.signing_keys.lock_for_update()
            if not await uow.signing_keys.all():
                await uow.signing_keys.add(key(f"key{number}", KeyState.CURRENT))
                with trio.fail_after(PATIENCE):
                    assert await stored(store) == []
                await uow.commit()
                made.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(first_start, number)
    assert len(made) == len(await stored(store)) == 1

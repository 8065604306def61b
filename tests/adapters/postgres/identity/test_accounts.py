"""Accounts: one per e-mail address, even when several are made at once."""

import pytest
import trio

from adapters.postgres import statements
from core.domain.errors import Unavailable
from core.domain.identifiers import UserId
from core.domain.mail import Email
from tests.adapters.postgres.conftest import Store


async def test_an_account_is_stored_as_it_is(store: Store) -> None:
    account = store.account("Straße@Example.ORG", owner=True)
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(account, "argon2 hash")
        await uow.commit()
    (row,) = await store.query("select * from users")
    assert (row["id"], row["email"], row["email_key"]) == (account.id, "Straße@Example.ORG", "strasse@example.org")
    assert (row["password_hash"], row["is_platform_owner"], row["created_at"]) == ("argon2 hash", True, account.created_at)


async def test_an_e_mail_is_taken_however_it_is_written(store: Store) -> None:
    await store.sign_up("ada@example.org")
    async with store.unit_of_work() as uow:
        assert not await uow.accounts.add(store.account("ADA@example.org"), None)
        # The refusal does not spoil the transaction.
        assert await uow.accounts.add(store.account("bob@example.org"), None)
        await uow.commit()
    assert await store.count("users") == 2


async def test_of_fifty_who_take_an_e_mail_at_once_one_gets_it(store: Store) -> None:
    won: list[bool] = []

    async def register() -> None:
        async with store.unit_of_work() as uow:
            added = await uow.accounts.add(store.account(), None)
            await uow.commit()
        won.append(added)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(register)
    assert sorted(won) == [False] * 49 + [True]
    assert await store.count("users") == 1


async def test_who_waits_for_the_same_e_mail_gets_it_when_the_other_gives_up(store: Store) -> None:
    added: list[bool] = []

    async def register() -> None:
        async with store.unit_of_work() as uow:
            added.append(await uow.accounts.add(store.account(), None))
            await uow.commit()

    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        assert await uow.accounts.add(store.account(), None)
        nursery.start_soon(register)
        await trio.sleep(0.05)
        assert added == []
    assert added == [True]


async def test_an_active_account_is_promoted_and_that_may_be_repeated(store: Store) -> None:
    account, _ = await store.sign_up()
    await store.query("update users set email_verified_at = now()")
    for _ in range(2):
        async with store.unit_of_work() as uow:
            assert await uow.platform_owners.promote(Email("Ada@Example.org")) == account.id
            await uow.commit()
    assert await store.query("select is_platform_owner from users") == [{"is_platform_owner": True}]


@pytest.mark.parametrize("why_not", ["deactivated_at = now(), email_verified_at = now()", "email_verified_at = null"])
async def test_nobody_the_deactivated_and_the_unverified_are_not_promoted(store: Store, why_not: str) -> None:
    await store.sign_up()
    await store.query(f"update users set {why_not}")
    async with store.unit_of_work() as uow:
        assert await uow.platform_owners.promote(Email("ada@example.org")) is None
        assert await uow.platform_owners.promote(Email("nobody@example.org")) is None
        await uow.commit()
    assert await store.query("select is_platform_owner from users") == [{"is_platform_owner": False}]


async def test_whether_there_is_a_platform_owner(store: Store) -> None:
    await store.sign_up()
    await store.query("update users set email_verified_at = now()")
    async with store.unit_of_work() as uow:
        assert not await uow.platform_owners.exist()
        assert await uow.platform_owners.promote(Email("ada@example.org"))
        assert await uow.platform_owners.exist()
        await uow.commit()
    await store.query("update users set deactivated_at = now()")
    async with store.unit_of_work() as uow:
        assert await uow.platform_owners.exist()


async def test_of_many_first_starts_one_makes_the_owner(store: Store) -> None:
    made: list[UserId] = []

    async def first_start(number: int) -> None:
        async with store.unit_of_work() as uow:
            await uow.platform_owners.lock_first_start()
            if not await uow.platform_owners.exist():
                account = store.account(f"owner{number}@example.org", owner=True)
                await uow.accounts.add(account, None)
                await uow.commit()
                made.append(account.id)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(first_start, number)
    assert len(made) == await store.count("users") == 1


async def test_a_lock_that_is_held_too_long_is_unavailable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "LONGEST_HOLD", "20ms")
    async with store.unit_of_work() as holder:
        await holder.platform_owners.lock_first_start()
        await holder.platform_owners.exist()
        async with store.unit_of_work() as uow:
            await uow.platform_owners.lock_first_start()
            with pytest.raises(Unavailable):
                await uow.platform_owners.exist()

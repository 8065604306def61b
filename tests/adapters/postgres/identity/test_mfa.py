"""Second factors in the database: of many uses of a single-use code one succeeds, and guesses are counted."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import trio

from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.statements import Statements
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.identifiers import PreauthenticationId, SessionId, UserId
from core.domain.identity.mfa import MOST_WRONG_CODES, PREAUTHENTICATION_LIFETIME, MfaEvent, Preauthentication, SecondFactorStatus
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Actor
from ports.unit_of_work import UnitOfWork
from tests.adapters.postgres.conftest import Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STEP = 59_000_000
CROWD = 50
HERE, ELSEWHERE = SessionId(UUID(int=1)), SessionId(UUID(int=2))
FEW = RateLimit("few", burst=3, seconds_per_request=60)


async def set_up(store: Store, address: str = "ada@example.org", *, enabled: bool = True) -> UserId:
    account = store.account(address)
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(account, None)
        assert await uow.mfa.put_pending(account.id, HERE, b"sealed", NOW)
        if enabled:
            assert await uow.mfa.enable(account.id, STEP, NOW)
            await uow.mfa.replace_backup_codes(account.id, [b"one", b"two"])
        await uow.commit()
    return account.id


async def committed(store: Store, act: Callable[[UnitOfWork], Awaitable[bool]]) -> bool:
    async with store.unit_of_work() as uow:
        result = await act(uow)
        await uow.commit()
    return result


async def winners(store: Store, act: Callable[[UnitOfWork], Awaitable[bool]]) -> int:
    """How many of a crowd at once are told that it was them."""
    results: list[bool] = []

    async def one() -> None:
        results.append(await committed(store, act))

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(one)
    assert len(results) == CROWD
    return results.count(True)


async def status(store: Store, user: UserId) -> SecondFactorStatus:
    return await MfaRows(Statements(store.pool), store.ids, store.clock).status(user)


async def test_a_secret_awaits_its_first_code_and_is_replaced_by_another(store: Store) -> None:
    user = await set_up(store, enabled=False)
    assert await committed(store, lambda uow: uow.mfa.put_pending(user, ELSEWHERE, b"newer", NOW + timedelta(minutes=1)))
    async with store.unit_of_work() as uow:
        found = await uow.mfa.find(user)
        assert not await uow.mfa.is_enabled_for_update(user)
    assert found is not None
    assert (found.sealed_secret, found.created_at, found.enabled_at, found.last_step) == (b"newer", NOW + timedelta(minutes=1), None, 0)
    assert (found.session, found.awaits_code_in(ELSEWHERE), found.awaits_code_in(HERE)) == (ELSEWHERE, True, False)
    assert await status(store, user) == SecondFactorStatus(enabled=False, has_backup_codes=False)


async def test_an_enabled_secret_is_not_replaced(store: Store) -> None:
    user = await set_up(store)
    assert not await committed(store, lambda uow: uow.mfa.put_pending(user, ELSEWHERE, b"mine", NOW))
    async with store.unit_of_work() as uow:
        found = await uow.mfa.find(user)
    assert found is not None
    assert (found.sealed_secret, found.enabled_at, found.last_step, found.session) == (b"sealed", NOW, STEP, None)
    assert not found.awaits_code_in(HERE)
    assert await status(store, user) == SecondFactorStatus(enabled=True, has_backup_codes=True)


async def test_nothing_is_found_where_nothing_was_set_up(store: Store) -> None:
    account = store.account()
    async with store.unit_of_work() as uow:
        assert await uow.mfa.find(account.id) is None
        assert not await uow.mfa.is_enabled_for_update(account.id)
        assert not await uow.mfa.is_enabled(account.id)
        assert (await uow.mfa.begin_guess(account.id, FEW)).secret is None
        assert not await uow.mfa.enable(account.id, STEP, NOW)
        assert not await uow.mfa.redeem_step(account.id, STEP)
        assert not await uow.mfa.redeem_backup_code(account.id, b"one", NOW)
        assert not await uow.mfa.disable(account.id)
    assert await status(store, account.id) == SecondFactorStatus(enabled=False, has_backup_codes=False)


async def test_of_a_crowd_that_enables_one_does(store: Store) -> None:
    user = await set_up(store, enabled=False)
    assert await winners(store, lambda uow: uow.mfa.enable(user, STEP, NOW)) == 1


async def test_of_a_crowd_with_the_same_step_one_gets_in(store: Store) -> None:
    user = await set_up(store)
    assert await winners(store, lambda uow: uow.mfa.redeem_step(user, STEP + 1)) == 1


async def test_of_a_crowd_with_the_same_backup_code_one_gets_in(store: Store) -> None:
    user = await set_up(store)
    assert await winners(store, lambda uow: uow.mfa.redeem_backup_code(user, b"one", NOW)) == 1
    assert (await status(store, user)).has_backup_codes
    assert await committed(store, lambda uow: uow.mfa.redeem_backup_code(user, b"two", NOW))
    assert not (await status(store, user)).has_backup_codes


async def test_of_a_crowd_with_the_same_preauthentication_one_gets_in(store: Store) -> None:
    preauthentication = await await_second_factor(store, await set_up(store))
    assert await winners(store, lambda uow: uow.mfa.consume_preauthentication(preauthentication.id, datetime.now(UTC))) == 1


@pytest.mark.parametrize(("step", "accepted"), [(STEP - 1, False), (STEP, False), (STEP + 1, True)])
async def test_a_step_counts_once_and_none_before_it_any_more(store: Store, step: int, accepted: bool) -> None:
    user = await set_up(store)
    assert await committed(store, lambda uow: uow.mfa.redeem_step(user, step)) is accepted
    assert not await committed(store, lambda uow: uow.mfa.redeem_step(user, step))


async def test_a_pending_set_up_lets_nobody_in(store: Store) -> None:
    user = await set_up(store, enabled=False)
    async with store.unit_of_work() as uow:
        await uow.mfa.replace_backup_codes(user, [b"one"])
        assert not await uow.mfa.redeem_step(user, STEP)
        assert not await uow.mfa.redeem_backup_code(user, b"one", NOW)


async def test_codes_of_one_person_are_nothing_to_another(store: Store) -> None:
    ada, bob = await set_up(store), await set_up(store, "bob@example.org")
    async with store.unit_of_work() as uow:
        await uow.mfa.replace_backup_codes(ada, [b"adas"])
        await uow.commit()
    assert not await committed(store, lambda uow: uow.mfa.redeem_backup_code(bob, b"adas", NOW))
    assert await committed(store, lambda uow: uow.mfa.redeem_step(bob, STEP + 5))
    assert await committed(store, lambda uow: uow.mfa.redeem_step(ada, STEP + 1))
    assert await committed(store, lambda uow: uow.mfa.disable(bob))
    assert await committed(store, lambda uow: uow.mfa.redeem_backup_code(ada, b"adas", NOW))


async def test_new_backup_codes_end_the_earlier_ones_used_or_not(store: Store) -> None:
    user = await set_up(store)
    assert await committed(store, lambda uow: uow.mfa.redeem_backup_code(user, b"one", NOW))
    async with store.unit_of_work() as uow:
        # Even the used one may come again: it is another code now.
        await uow.mfa.replace_backup_codes(user, [b"one", b"three"])
        await uow.commit()
    assert not await committed(store, lambda uow: uow.mfa.redeem_backup_code(user, b"two", NOW))
    assert await committed(store, lambda uow: uow.mfa.redeem_backup_code(user, b"three", NOW))
    assert await store.count("backup_codes") == 2


async def test_disabling_deletes_the_secret_and_every_code(store: Store) -> None:
    user = await set_up(store)
    assert await winners(store, lambda uow: uow.mfa.disable(user)) == 1
    assert (await store.count("mfa_secrets"), await store.count("backup_codes")) == (0, 0)
    assert not await committed(store, lambda uow: uow.mfa.redeem_step(user, STEP + 1))


async def test_disabling_deletes_a_pending_set_up_and_says_that_nothing_was_enabled(store: Store) -> None:
    user = await set_up(store, enabled=False)
    assert not await committed(store, lambda uow: uow.mfa.disable(user))
    assert await store.count("mfa_secrets") == 0


async def test_codes_that_are_renewed_while_it_is_disabled_do_not_stay_behind(store: Store) -> None:
    user = await set_up(store)
    async with trio.open_nursery() as nursery, store.unit_of_work() as renewing:
        assert await renewing.mfa.is_enabled_for_update(user)
        nursery.start_soon(committed, store, lambda uow: uow.mfa.disable(user))
        await trio.sleep(0.05)
        await renewing.mfa.replace_backup_codes(user, [b"new"])
        await renewing.commit()
    assert (await store.count("mfa_secrets"), await store.count("backup_codes")) == (0, 0)


async def test_guesses_are_counted_for_each_person_and_give_the_secret(store: Store) -> None:
    ada, bob = await set_up(store), await set_up(store, "bob@example.org")

    async def guess(user: UserId) -> float:
        async with store.unit_of_work() as uow:
            found = await uow.mfa.begin_guess(user, FEW)
            await uow.commit()
        assert found.secret is not None
        assert (found.secret.user, found.secret.sealed_secret, found.secret.last_step) == (user, b"sealed", STEP)
        return found.wait

    assert [await guess(ada) for _ in range(3)] == [0, 0, 0]
    assert 55 < await guess(ada) <= 60
    assert await guess(bob) == 0


async def test_of_a_crowd_that_guesses_no_more_than_the_bucket_holds_are_looked_at(store: Store) -> None:
    user = await set_up(store)

    async def admitted(uow: UnitOfWork) -> bool:
        return (await uow.mfa.begin_guess(user, FEW)).wait == 0

    assert await winners(store, admitted) == FEW.burst


async def test_while_a_code_is_checked_the_secret_under_it_stays(store: Store) -> None:
    user = await set_up(store, enabled=False)
    async with trio.open_nursery() as nursery, store.unit_of_work() as checking:
        guess = await checking.mfa.begin_guess(user, FEW)
        assert guess.secret is not None
        nursery.start_soon(committed, store, lambda uow: uow.mfa.put_pending(user, ELSEWHERE, b"another", NOW))
        await trio.sleep(0.05)
        # The secret that the code was checked against is the one that is enabled.
        assert await checking.mfa.enable(user, STEP, NOW)
        await checking.commit()
    (row,) = await store.query("select sealed_secret, enabled_at from mfa_secrets")
    assert (row["sealed_secret"], row["enabled_at"]) == (b"sealed", NOW)


async def await_second_factor(store: Store, user: UserId, lifetime: timedelta = PREAUTHENTICATION_LIFETIME) -> Preauthentication:
    now = datetime.now(UTC)
    made = Preauthentication(PreauthenticationId(store.ids.new()), user, None, None, created_at=now, expires_at=now + lifetime)
    async with store.unit_of_work() as uow:
        await uow.mfa.add_preauthentication(made)
        await uow.commit()
    return made


async def find(store: Store, made: Preauthentication) -> Preauthentication | None:
    async with store.unit_of_work() as uow:
        return await uow.mfa.find_preauthentication(made.id)


async def test_a_preauthentication_is_found_until_it_is_consumed(store: Store) -> None:
    made = await await_second_factor(store, await set_up(store))
    assert await find(store, made) == made
    assert await committed(store, lambda uow: uow.mfa.consume_preauthentication(made.id, datetime.now(UTC)))
    assert await find(store, made) is None
    assert not await committed(store, lambda uow: uow.mfa.consume_preauthentication(made.id, datetime.now(UTC)))


async def test_a_preauthentication_ends_with_its_time(store: Store) -> None:
    made = await await_second_factor(store, await set_up(store), timedelta(seconds=-1))
    assert await find(store, made) is None
    assert not await committed(store, lambda uow: uow.mfa.consume_preauthentication(made.id, datetime.now(UTC)))
    later = await await_second_factor(store, made.user)
    assert not await committed(store, lambda uow: uow.mfa.consume_preauthentication(later.id, later.expires_at))


async def test_a_preauthentication_dies_of_its_fifth_wrong_code(store: Store) -> None:
    made = await await_second_factor(store, await set_up(store))
    for failures in range(1, MOST_WRONG_CODES + 1):
        assert await find(store, made) == made
        async with store.unit_of_work() as uow:
            assert await uow.mfa.fail_preauthentication(made.id) == failures
            await uow.commit()
    assert await find(store, made) is None
    assert not await committed(store, lambda uow: uow.mfa.consume_preauthentication(made.id, datetime.now(UTC)))


async def test_of_a_crowd_of_wrong_codes_no_more_than_five_are_looked_at(store: Store) -> None:
    made = await await_second_factor(store, await set_up(store))

    async def wrong(uow: UnitOfWork) -> bool:
        if await uow.mfa.find_preauthentication(made.id) is None:
            return False
        await uow.mfa.fail_preauthentication(made.id)
        return True

    assert await winners(store, wrong) == MOST_WRONG_CODES


async def test_an_unknown_preauthentication_is_not_found_and_cannot_fail(store: Store) -> None:
    unknown = PreauthenticationId(store.ids.new())
    async with store.unit_of_work() as uow:
        assert await uow.mfa.find_preauthentication(unknown) is None
        assert await uow.mfa.fail_preauthentication(unknown) == 0


async def test_the_log_says_who_did_what_from_where(store: Store) -> None:
    user = await set_up(store)
    helper = UserId(store.ids.new())
    async with store.unit_of_work() as uow:
        await uow.mfa.log(MfaEvent.ENABLED, user, Actor(user, None, "192.0.2.7", "curl\0" + "x" * 600), success=True)
        await uow.mfa.log(
            MfaEvent.FORCE_DISABLED, user, Actor(helper, None, "not an address"), success=False, details={"reason": "lost \0 phone"}
        )
        await uow.mfa.log(MfaEvent.DISABLED, user, SYSTEM, success=True)
        await uow.commit()
    own, forced, system = await store.query("select *, host(address) as host from mfa_events order by id")
    assert (own["user_id"], own["name"], own["success"], own["host"], own["details"]) == (user, "mfa_enabled", True, "192.0.2.7", {})
    assert own["user_agent"].startswith("curl\N{REPLACEMENT CHARACTER}x")
    assert len(own["user_agent"]) == 512
    assert (forced["name"], forced["success"], forced["host"]) == ("mfa_force_disabled_by_admin", False, None)
    assert forced["details"] == {"actor": str(helper), "reason": "lost \N{REPLACEMENT CHARACTER} phone"}
    assert (system["details"], system["user_agent"]) == ({}, None)


async def test_a_check_takes_two_round_trips_and_the_commit(store: Store) -> None:
    user = await set_up(store)

    async def round_trips() -> int:
        async with store.pool.connection() as connection:
            return connection.round_trips

    # The second time, since a statement is prepared at its first use on a connection.
    taken = 0
    for step in (1, 2):
        before = await round_trips()
        async with store.unit_of_work() as uow:
            await uow.mfa.begin_guess(user, FEW)
            assert await uow.mfa.redeem_step(user, STEP + step)
            await uow.mfa.log(MfaEvent.VERIFY_SUCCESS, user, SYSTEM, success=True)
            await uow.commit()
        taken = await round_trips() - before
    assert taken == 3


async def test_expired_preauthentications_are_swept(store: Store) -> None:
    user = await set_up(store)
    await await_second_factor(store, user, timedelta(seconds=-1))
    living = await await_second_factor(store, user)
    assert [await sweep(store.pool, "ExpiredPreauthentications").delete_expired(10) for _ in range(2)] == [1, 0]
    assert await find(store, living) == living

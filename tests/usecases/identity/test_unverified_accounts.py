"""Accounts that nobody verified and nobody used end. All others stay, and whoever proves an address at this moment has their way."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
import trio

from actors.sweepers import registration_sweeper
from adapters.postgres.identity.accounts import HOLD_UNPROVED
from adapters.postgres.identity.privacy.forgetting import NEVER_USED, TIES
from core.domain.identifiers import UserId
from core.domain.identity.account_mails import AccountMail, LinkRefused
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.actors.observed import no_doubt, no_spread
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.signing import SettableClock
from tests.usecases.identity.test_accounts import EMAIL, GOOD, ada, postern, rows, token

__all__ = ["ada", "postern"]

SESSIONS = "insert into sessions (id, user_id, created_at, last_seen_at, expires_at) select id, id, now(), now(), now() from users"
ORGANIZATION = "00000000-0000-0000-0000-000000000001"


async def change(postern: Postern, statement: str) -> None:
    async with postern.foundation.database._pool.connection() as connection:
        await connection.execute(statement.encode())


async def age(postern: Postern, days: int = 31) -> None:
    await change(postern, f"update users set created_at = now() - interval '{days} days'")


async def sweep(postern: Postern, batch: int = 20) -> None:
    with trio.fail_after(PATIENCE):
        await registration_sweeper(postern.identity.unverified_accounts, doubt=no_doubt, spread=no_spread, batch=batch).sweep()


async def people(postern: Postern) -> list[str]:
    return [row["email"] for row in await rows(postern, "select email from users order by email")]


async def is_there(postern: Postern, user: UserId) -> bool:
    return user in [row["id"] for row in await rows(postern, "select id from users")]


async def test_an_account_that_nobody_verified_ends_and_its_address_is_free(postern: Postern, ada: UserId, log: CapturedLog) -> None:
    await age(postern, 29)
    await sweep(postern)
    assert await people(postern) == [EMAIL.address]
    await age(postern)
    await sweep(postern)
    assert await people(postern) == []
    entries = await rows(postern, "select actor_id, target_id from audit_log where action = 'user.registration.lapsed'")
    assert entries == [{"actor_id": None, "target_id": str(ada)}]
    assert len(await rows(postern, "select from jobs where kind = 'privacy.forget'")) == 1
    assert [entry["accounts"] for entry in log.events("registrations_lapsed")] == [1]
    assert await postern.identity.accounts.register(EMAIL, GOOD, "", SYSTEM) != ada


async def test_zero_keeps_all(postern: Postern, ada: UserId) -> None:
    await age(postern, 3000)
    keeping = replace(postern.identity.unverified_accounts, retention=timedelta())
    await registration_sweeper(keeping, doubt=no_doubt, spread=no_spread).sweep()
    assert await is_there(postern, ada)


async def test_a_link_that_works_keeps_its_account_and_an_old_one_does_not(postern: Postern, ada: UserId, log: CapturedLog) -> None:
    link = await token(postern, AccountMail.VERIFICATION, ada)
    log.remember(link.reveal())
    await age(postern)
    await sweep(postern)
    assert await people(postern) == [EMAIL.address]
    await change(postern, "update mailed_tokens set expires_at = now()")
    await sweep(postern)
    assert await people(postern) == []
    with pytest.raises(LinkRefused):
        await postern.identity.accounts.prove_address(link, SYSTEM)


@pytest.mark.parametrize("days", [800, -800])
async def test_no_clock_that_is_wrong_ends_an_account(days: int, postern: Postern, ada: UserId) -> None:
    """The process has one clock, and the database another. An account ends when it is old by both, and its link by both."""
    clock = SettableClock(postern.foundation.clock.now() + timedelta(days=days))
    accounts = replace(postern.identity.unverified_accounts, system=replace(postern.foundation.system, clock=clock))
    link = "update mailed_tokens set expires_at = now() + interval '{days} days'"
    for account, lasts, stays in ((29, -900, True), (31, 1, True), (31, -1, days < 0), (900, -900, False)):
        await token(postern, AccountMail.VERIFICATION, ada)
        await change(postern, link.format(days=lasts))
        await age(postern, account)
        with trio.fail_after(PATIENCE):
            await registration_sweeper(accounts, doubt=no_doubt, spread=no_spread).sweep()
        assert await is_there(postern, ada) is stays, (account, lasts)
        if not stays:
            return


@pytest.mark.parametrize(
    "use",
    [
        "update users set email_verified_at = now()",
        "update users set is_platform_owner = true",
        "update users set deactivated_at = now()",
        "update users set origin_org_id = '{org}'",
        "insert into memberships (id, org_id, user_id, role, created_at) select id, '{org}', id, 'member', now() from users",
        (
            "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at)"
            " select '{org}', id, false, now(), now() from users"
        ),
        "update organizations set owner_user_id = users.id from users",
        "insert into former_addresses select id, 'old@example.org', now() from users",
        SESSIONS,
        (
            "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
            " select id, id, 'x', 'browser', now(), now(), now() from users"
        ),
        "insert into login_events (id, user_id, provider, success, created_at) select id, id, 'password', true, now() from users",
        "insert into imported_people (digest, user_id, is_new, imported_at) select 'x', id, true, now() from users",
    ],
)
async def test_what_was_used_or_is_held_stays(use: str, postern: Postern, ada: UserId) -> None:
    await change(
        postern,
        "insert into organizations (id, slug, name, status, created_at, updated_at)"
        f" values ('{ORGANIZATION}', 'acme', 'Acme', 'active', now(), now())",
    )
    await age(postern)
    await change(postern, use.format(org=ORGANIZATION))
    await sweep(postern)
    assert await is_there(postern, ada)


async def test_a_failed_sign_in_of_a_stranger_keeps_nothing(postern: Postern, ada: UserId) -> None:
    await age(postern)
    failed = "insert into login_events (id, user_id, provider, success, created_at) select id, id, 'password', false, now() from users"
    await change(postern, failed)
    await sweep(postern)
    assert not await is_there(postern, ada)
    assert await rows(postern, "select from login_events") == []


async def test_whoever_proves_the_address_first_keeps_the_account(postern: Postern, ada: UserId) -> None:
    """The sweep does not wait for them, and does not end what they have proved."""
    await age(postern)
    async with postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(ada)
        assert await uow.accounts.verify_email(ada, EMAIL, postern.foundation.clock.now()) is not None
        await sweep(postern)
        await uow.commit()
    await sweep(postern)
    assert await people(postern) == [EMAIL.address]


async def test_whoever_comes_after_the_sweep_finds_no_account(postern: Postern, ada: UserId) -> None:
    """They wait for the sweep, and are told."""
    await age(postern)
    accounts, found = postern.identity.unverified_accounts, [True]

    async def prove() -> None:
        async with postern.foundation.unit_of_work() as uow:
            await uow.accounts.lock_for_update(ada)
            found[0] = await uow.accounts.verify_email(ada, EMAIL, postern.foundation.clock.now()) is not None
            await uow.commit()

    async with postern.foundation.unit_of_work() as uow:
        now = postern.foundation.clock.now()
        held = await uow.accounts.list_unverified_for_update(now, accounts.retention, None, 20)
        assert [one.id for one in held] == [ada]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(prove)
            waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            with trio.fail_after(PATIENCE):
                while not await rows(postern, waiting):
                    await trio.sleep(0.01)
            # Nobody has used the account before the sweep held it, and nobody can meanwhile.
            assert await uow.accounts.never_used([ada], now) == [ada]
            await uow.service_users.delete_account(ada, UUID(int=1), now)  # type: ignore[arg-type]  # any request
            await uow.commit()
    assert found == [False]
    assert await people(postern) == []


async def test_a_use_between_the_look_and_the_lock_is_seen(postern: Postern, ada: UserId) -> None:
    await age(postern)
    async with postern.foundation.unit_of_work() as uow:
        now = postern.foundation.clock.now()
        assert await uow.accounts.never_used([ada], now) == [ada]
        await change(postern, SESSIONS)
        assert await uow.accounts.never_used([ada], now) == []


async def test_a_sweep_gets_past_accounts_that_stay(postern: Postern) -> None:
    """Also past many that were made at the same moment."""
    await change(
        postern,
        "insert into users (id, email, email_key, created_at) select gen_random_uuid(), 'p' || n, 'p' || n, now() - interval '40 days'"
        " from generate_series(1, 7) as n",
    )
    await change(postern, SESSIONS)
    for number in range(5):
        await postern.identity.accounts.register(Email(f"late{number}@example.org"), GOOD, "", SYSTEM)
    await change(postern, "update users set created_at = created_at - interval '31 days' where email like 'late%'")
    await sweep(postern, batch=3)
    assert await people(postern) == [f"p{number}" for number in range(1, 8)]


# What goes with an account that nobody used: a sign-in that somebody began, and keys, which hang on a user of an application.
# Whom a directory lists has a tie beside the list, which is asked for, and so has whom an organization sends to another system: what such a
# row leaves behind is deleted there. Only members allow signals.
GOES_ALONG = {
    *("afar_requests.user_id", "flows.user_id", "user_keys.user_id", "directory_people.user_id", "directory_run_people.user_id"),
    *("provisioned_people.user_id", "provisioning_run_people.user_id", "signal_streams.granted_by", "awaited_sign_ins.user_id"),
}


async def test_every_table_that_names_people_is_asked_or_goes_along(postern: Postern) -> None:
    references = await rows(
        postern,
        "select conrelid::regclass::text as of, attname as by from pg_constraint"
        "  join pg_attribute on attrelid = conrelid and attnum = conkey[1]"
        " where contype = 'f' and confrelid = 'users'::regclass",
    )
    asked = {f"{row['of']}.{row['by']}" for row in references}
    missing = {name for name in asked if f"{name} = users.id" not in NEVER_USED and f"{name} = users.id" not in TIES}
    assert missing == GOES_ALONG


def test_the_look_reads_an_index(database_url: str) -> None:
    parameters = {"now": datetime.now(UTC), "retention": timedelta(days=30), "after": None, "limit": 20}
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into users (id, email, email_key, created_at, email_verified_at)"
            " select gen_random_uuid(), 'p' || n, 'p' || n, now() - interval '1 day' * n, case when n % 500 > 0 then now() end"
            "   from generate_series(1, 20000) as n"
        )
        connection.execute("analyze users")
        plan = connection.execute(b"explain (format json) " + HOLD_UNPROVED.encode(), parameters).fetchall()
    assert "users_nobody_knows" in str(plan)
    assert "Sort" not in str(plan)

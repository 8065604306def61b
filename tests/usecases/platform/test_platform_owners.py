"""Platform owners: one first owner after any number of first starts; further ones made or promoted; each recorded."""

from collections.abc import AsyncIterator, Collection, Sequence

import pytest
import trio

from adapters.crypto.key_ring import AesGcmKeyRing, generate_key
from adapters.crypto.known_passwords.filters import NoBreachedPasswords
from adapters.mail_address import LibraryEmailSyntax
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.unit_of_work import unit_of_work
from adapters.system import SystemClock, SystemIds, SystemSecrets
from core.domain.errors import BadRequest, Conflict
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.sign_in import Priority
from core.domain.mail import Email
from core.domain.secrets import Password
from core.usecases.identity.account_passwords import PasswordRules
from core.usecases.platform.platform_owners import PlatformOwners
from ports.crypto import Examined
from ports.system import System
from tests.conftest import CapturedLog

GOOD = "correct-horse-battery"
COMMON = "correct-but-common"
EMAIL = LibraryEmailSyntax().parse("First.Owner@example.com")


class QuickHashes:
    """Argon2 has tests of its own; these are about accounts."""

    async def hash(self, password: Password, precedence: Priority = Priority.STRANGER) -> str:  # noqa: ARG002 - the port's signature
        await trio.lowlevel.checkpoint()
        return f"hash of {len(password.reveal())}"

    async def verify(self, encoded: str | None, password: Password, precedence: Priority = Priority.STRANGER) -> bool:
        raise NotImplementedError

    def is_outdated(self, encoded: str) -> bool:
        raise NotImplementedError

    async def examine(self, encoded: str | None, password: Password, precedence: Priority = Priority.STRANGER) -> Examined:
        raise NotImplementedError

    async def hold_back(self, examined: Examined) -> None:
        raise NotImplementedError

    async def renew(self, encoded: str, password: Password, precedence: Priority = Priority.STRANGER) -> str:
        raise NotImplementedError

    async def expect(self, shapes: Collection[str]) -> None:
        raise NotImplementedError

    async def stored(self, hashes: Sequence[ForeignHash]) -> Sequence[str]:
        raise NotImplementedError


class OneCommonPassword:
    def contains(self, password: Password) -> bool:
        return password.reveal() == COMMON


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = Pool(database_url, max_size=20)
    await pool.open()
    yield pool
    await pool.aclose()


@pytest.fixture
def owners(pool: Pool, database_url: str) -> PlatformOwners:
    new_unit_of_work = unit_of_work(pool, SystemIds(), SystemClock(), AesGcmKeyRing([generate_key()]), PostgresDoorbell(database_url))
    return PlatformOwners(
        new_unit_of_work,
        QuickHashes(),
        PasswordRules(OneCommonPassword(), NoBreachedPasswords(), 8),
        System(SystemClock(), SystemIds(), SystemSecrets()),
    )


async def _rows(pool: Pool, query: str) -> list[tuple[object, ...]]:
    async with pool.connection() as connection:
        return await (await connection.execute(query.encode())).fetchall()


async def test_the_first_owner_is_verified_and_on_record(owners: PlatformOwners, pool: Pool) -> None:
    assert not await owners.exist()
    user = await owners.create_first(EMAIL, Password(GOOD))
    assert await owners.exist()
    rows = await _rows(pool, "select id, email, password_hash, is_platform_owner, email_verified_at is not null from users")
    assert rows == [(user, "First.Owner@example.com", "hash of 21", True, True)]
    audited = await _rows(pool, "select action, actor_id, target_type, target_id, details, success from audit_log")
    assert audited == [("platform.owner.created", None, "user", str(user), {"promoted": False}, True)]


async def test_there_is_no_second_first_owner(owners: PlatformOwners, pool: Pool) -> None:
    await owners.create_first(EMAIL, Password(GOOD))
    assert await owners.create_first(Email("other@example.com"), Password(GOOD)) is None
    assert await _rows(pool, "select count(*) from users") == [(1,)]
    assert await _rows(pool, "select count(*) from audit_log") == [(1,)]


async def test_of_many_first_starts_at_once_one_makes_the_owner(owners: PlatformOwners, pool: Pool) -> None:
    made = []

    async def start(number: int) -> None:
        made.append(await owners.create_first(Email(f"owner{number}@example.com"), Password(GOOD)))

    async with trio.open_nursery() as nursery:
        for number in range(15):
            nursery.start_soon(start, number)
    assert len([user for user in made if user is not None]) == 1
    assert await _rows(pool, "select count(*) from users") == [(1,)]


async def test_a_further_owner_can_be_made(owners: PlatformOwners, pool: Pool) -> None:
    await owners.create_first(EMAIL, Password(GOOD))
    user = await owners.create(Email("second@example.com"), Password(GOOD))
    assert await _rows(pool, f"select email, is_platform_owner from users where id = '{user}'") == [("second@example.com", True)]
    assert await _rows(pool, "select count(*) from audit_log") == [(2,)]


@pytest.mark.parametrize("way", ["promote", "create"])
async def test_an_existing_account_is_promoted_and_keeps_its_password(way: str, owners: PlatformOwners, pool: Pool) -> None:
    user = await owners.create(EMAIL, Password(GOOD))
    await _demote(pool)
    same = Email("FIRST.owner@EXAMPLE.com")
    promoted = await owners.promote(same) if way == "promote" else await owners.create(same, Password("another-long-one"))
    assert promoted == user
    assert await _rows(pool, "select is_platform_owner, password_hash from users") == [(True, "hash of 21")]
    assert await _rows(pool, "select details from audit_log order by id desc limit 1") == [({"promoted": True},)]


async def test_an_account_that_a_stranger_may_have_registered_is_taken_from_them_first(owners: PlatformOwners, pool: Pool) -> None:
    user = await owners.create(EMAIL, Password("the stranger's"))
    async with pool.connection() as connection:
        await connection.execute("update users set is_platform_owner = false, email_verified_at = null")
        await connection.execute(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " values ('x', 'verify_email', %s, %s, now(), now() + interval '1 day')",
            (user, EMAIL.address),
        )
        await connection.execute(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at)"
            " values (%s, %s, now(), now(), now() + interval '1 day')",
            (user, user),
        )
    assert await owners.promote(EMAIL) is None
    assert await owners.create(EMAIL, Password(GOOD)) == user
    rows = await _rows(pool, "select is_platform_owner, password_hash, email_verified_at is not null from users")
    assert rows == [(True, "hash of 21", True)]
    assert await _rows(pool, "select used_at is not null from mailed_tokens") == [(True,)]
    assert await _rows(pool, "select revoked_at is not null from sessions") == [(True,)]


async def test_nobody_is_promoted_who_has_no_account(owners: PlatformOwners, pool: Pool) -> None:
    assert await owners.promote(EMAIL) is None
    assert await _rows(pool, "select count(*) from audit_log") == [(0,)]


async def test_a_deactivated_account_stays_out_of_office(owners: PlatformOwners, pool: Pool) -> None:
    await owners.create(EMAIL, Password(GOOD))
    await _demote(pool)
    async with pool.connection() as connection:
        await connection.execute("update users set deactivated_at = now()")
    assert await owners.promote(EMAIL) is None
    with pytest.raises(Conflict, match="deactivated"):
        await owners.create(EMAIL, Password(GOOD))
    assert await _rows(pool, "select is_platform_owner from users") == [(False,)]


@pytest.mark.parametrize(
    ("password", "says"),
    [("short", "at least 8"), (COMMON, "most common"), (EMAIL.address, "must not be the email"), ("x" * 129, "at most 128")],
)
async def test_a_weak_password_makes_no_owner(password: str, says: str, owners: PlatformOwners, pool: Pool, log: CapturedLog) -> None:
    log.remember(password)
    with pytest.raises(BadRequest, match=says):
        await owners.create(EMAIL, Password(password))
    with pytest.raises(BadRequest, match=says):
        await owners.create_first(EMAIL, Password(password))
    assert await _rows(pool, "select count(*) from users") == [(0,)]


async def _demote(pool: Pool) -> None:
    async with pool.connection() as connection:
        await connection.execute("update users set is_platform_owner = false")

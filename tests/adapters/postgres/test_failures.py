"""Which of the database's errors pass by themselves, and which are bugs of ours."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.statements import tell
from core.domain.errors import Unavailable
from tests.adapters.postgres.conftest import Store


async def fail_with(pool: Pool, code: str) -> None:
    """An error as the server raises it, with something in it that is nobody's business."""
    with translated():
        async with pool.connection() as connection:
            await connection.execute(
                f"do $$ begin raise exception 'it broke' using errcode = '{code}', detail = 'Key (email)=(ada)'; end $$".encode()
            )


@pytest.mark.parametrize(
    "code",
    [
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53100",  # disk full
        "53300",  # too many connections
        "55P03",  # lock not available
        "57014",  # statement time-out
        "57P03",  # starting up
        "58030",  # input or output error
        "08006",  # connection failure
    ],
)
async def test_what_passes_by_itself_is_unavailable(store: Store, code: str) -> None:
    with pytest.raises(Unavailable) as refusal:
        await fail_with(store.pool, code)
    assert (refusal.value.detail, refusal.value.retry_after) == ("it broke", 2)


@pytest.mark.parametrize("code", ["23505", "23503", "42P01", "42601", "22P05", "54000", "55000", "P0001"])
async def test_a_bug_stays_what_it_is(store: Store, code: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        await fail_with(store.pool, code)
    assert error.value.sqlstate == code


async def test_a_server_that_became_a_standby_is_unavailable(shared_database: str) -> None:
    pool = Pool(make_conninfo(shared_database, options="-c default_transaction_read_only=on"))
    with pytest.raises(Unavailable):
        await tell(pool, "delete from users")
    await pool.aclose()


async def test_a_password_that_the_server_refuses_is_unavailable(shared_database: str) -> None:
    pool = Pool(make_conninfo(shared_database, user="nobody_that_exists"))
    with pytest.raises(Unavailable):
        await tell(pool, "select 1")
    await pool.aclose()

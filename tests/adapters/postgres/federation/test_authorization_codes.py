"""The statements that redeem a code: their rows are made of the columns in their order."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString
from uuid import uuid4

import psycopg
import pytest

from adapters.postgres.federation.authorization_codes import REDEEM, REDEEM_WITH_SECRET, _Presented
from adapters.postgres.federation.clients import ClientRow
from adapters.postgres.identity.proofs.login_events import login_parameters, published_parameters
from core.domain.identifiers import EventId, LoginEventId
from core.domain.identity.login_events import login_event
from core.domain.record.events import SYSTEM

LOGIN: Final = login_event(LoginEventId(uuid4()), SYSTEM, datetime.now(UTC), user=None, provider="")
PARAMETERS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("digest", "proof", "refresh_digest"), b"none"),
    **dict.fromkeys(("redirect_uri", "code_challenge", "root"), "none"),
    **dict.fromkeys(("service", "client", "session"), uuid4()),
    **dict.fromkeys(("lifetime", "idle"), timedelta(days=1)),
    "minutes_idle": None,
    **dict.fromkeys(("secret", "resource", "key")),
    **login_parameters(LOGIN),
    **published_parameters(EventId(uuid4()), LOGIN),
    "at": datetime.now(UTC),
}


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        (REDEEM, _Presented._fields),
        (REDEEM_WITH_SECRET, (*(f"client_{name}" for name in ClientRow._fields), *_Presented._fields)),
    ],
)
def test_the_columns_of_a_redemption_are_in_the_order_in_which_they_are_read(
    database_url: str, statement: LiteralString, columns: tuple[str, ...]
) -> None:
    # Some neighbours are of one type: swapped, they would be taken for each other without an error.
    with psycopg.connect(database_url) as connection:
        cursor = connection.execute(statement, PARAMETERS)
        assert tuple(column.name for column in cursor.description or ()) == columns


# What a call has looked at in its transaction, in tables or their indexes.
LOOKED_AT: Final = """
    select relname::text, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) as looks
      from pg_stat_xact_user_tables
     where coalesce(seq_scan, 0) + coalesce(idx_scan, 0) > 0
     order by relname
"""


def test_a_redemption_by_nobody_looks_for_client_and_code_alone(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute(REDEEM_WITH_SECRET, PARAMETERS).fetchall() == []
        assert connection.execute(LOOKED_AT).fetchall() == [("all_services", 1), ("authorization_codes", 1)]


def test_a_redemption_of_an_unknown_code_looks_for_the_code_alone(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute(REDEEM, PARAMETERS).fetchall() == []
        assert connection.execute(LOOKED_AT).fetchall() == [("authorization_codes", 1)]

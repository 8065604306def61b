"""The statement that redeems a code: its row is made of the columns in their order."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg

from adapters.postgres.federation.authorization_codes import _REDEEM, _Presented


def test_the_columns_of_a_redemption_are_in_the_order_in_which_they_are_read(database_url: str) -> None:
    # Some neighbours are of one type: swapped, they would be taken for each other without an error.
    parameters = {
        **dict.fromkeys(("digest", "proof", "refresh_digest"), b"none"),
        **dict.fromkeys(("redirect_uri", "code_challenge", "root", "provider"), "none"),
        **dict.fromkeys(("service", "session", "login_event", "event"), uuid4()),
        **dict.fromkeys(("lifetime", "idle"), timedelta(days=1)),
        **dict.fromkeys(("address", "user_agent"), None),
        "at": datetime.now(UTC),
    }
    with psycopg.connect(database_url) as connection:
        cursor = connection.execute(_REDEEM, parameters)
        assert tuple(column.name for column in cursor.description or ()) == _Presented._fields

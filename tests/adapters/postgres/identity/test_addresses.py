"""What an address is worth: statements and the domain say the same, and nobody asks in another way."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.identity.addresses import is_proved, is_unproved, is_verified_for, is_vouched, nobody_knows
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.claims import VOUCHED_COUNTS, AddressUse, Voucher
from core.domain.mail import Email

HERE: Final = OrganizationId(UUID(int=1))
ELSEWHERE: Final = OrganizationId(UUID(int=2))
AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
ROOT: Final = Path(__file__).parents[4]
# A look at the column that does not say which of the two it means.
BARE: Final = re.compile(r"email_verified_at\s+is\s+(?:not\s+)?(?:null|None)")
# Here the two have their names.
NAMED: Final = {"adapters/postgres/identity/addresses.py", "core/domain/identity/accounts.py"}


@pytest.mark.parametrize("organization", [HERE, ELSEWHERE, None])
@pytest.mark.parametrize("voucher", [None, Voucher(HERE, UUID(int=7)), Voucher(ELSEWHERE, UUID(int=7))])
@pytest.mark.parametrize("proved", [None, AT])
def test_statements_and_the_domain_agree(
    database_url: str, proved: datetime | None, voucher: Voucher | None, organization: OrganizationId | None
) -> None:
    user = UserId(UUID(int=3))
    account = Account(user, Email("ada@example.org"), False, proved, None, AT, address_vouched_by=voucher)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into users (id, email, email_key, email_verified_at, address_vouched_by) values (%s, 'a@b.c', 'a@b.c', %s, %s)",
            (user, proved, None if voucher is None else voucher.text),
        )
        conditions = ", ".join((is_proved(), is_unproved(), nobody_knows(), is_vouched(), is_verified_for("%(organization)s::uuid")))
        row = connection.execute(f"select {conditions} from users".encode(), {"organization": organization}).fetchone()
    assert row == (
        account.address_is_proved,
        not account.address_is_proved,
        account.nobody_knows_address,
        account.address_is_idp_verified,
        account.address_is_verified_for(organization),
    )


def test_a_voucher_is_read_as_it_was_written() -> None:
    voucher = Voucher(HERE, UUID(int=7))
    assert Voucher.of(voucher.text) == voucher
    assert Voucher.of(None) is None


def test_each_use_of_an_address_is_in_the_table() -> None:
    assert set(VOUCHED_COUNTS) == set(AddressUse)
    assert {use for use, counts in VOUCHED_COUNTS.items() if counts} == {
        *(AddressUse.SIGN_IN_AT_VOUCHER, AddressUse.SWEEP, AddressUse.CLAIMS_OF_VOUCHER, AddressUse.JOINING_VOUCHER, AddressUse.LISTING),
    }


def test_nobody_asks_the_column_without_saying_what_for() -> None:
    found = {
        str(file.relative_to(ROOT))
        for folder in ("adapters", "core", "entrypoints", "ports", "actors")
        for file in (ROOT / folder).rglob("*.py")
        if BARE.search(file.read_text())
    }
    assert found == NAMED
    assert BARE.search("where users.email_verified_at is  not null"), "the look finds what it looks for"

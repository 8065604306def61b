"""Accounts whose address only an organization's own provider has stated, as a process of an earlier release still writes them."""

from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

ORGANIZATION: Final = "01900000-0000-7000-8000-0000000000aa"
PROVIDER: Final = "01900000-0000-7000-8000-0000000000bb"
VOUCHER: Final = f"{ORGANIZATION}/{PROVIDER}"

BEFORE: Final = f"""
    insert into users (id, email, email_key) values ('01900000-0000-7000-8000-000000000099', 'boss@x.y', 'boss@x.y');
    insert into all_organizations (id, slug, name, status, owner_user_id, tier_id, created_at, updated_at)
    values ('{ORGANIZATION}', 'acme', 'Acme', 'active', '01900000-0000-7000-8000-000000000099',
            '01900000-0000-7000-8000-000000000001', now(), now());
    insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)
    values ('{PROVIDER}', '{ORGANIZATION}', 'Login', 'https://login.example', 'c', '\\x00', '{{}}', true, now(), now());
"""
USER: Final = """
    insert into users (id, email, email_key, created_at, email_verified_at, password_hash, password_changed_at)
    values (gen_random_uuid(), %(email)s, %(email)s, %(made)s, %(proved)s, %(password)s, %(chosen)s)
 returning id
"""
IDENTITY: Final = f"""
    insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)
    values (gen_random_uuid(), %(user)s, '{PROVIDER}', '{PROVIDER}', 'https://login.example', %(user)s::text, '', %(linked)s)
"""
MADE, LATER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def account(connection: psycopg.Connection[dict[str, Any]], email: str, **given: Any) -> Any:
    values = {"email": email, "made": MADE, "proved": MADE, "password": None, "chosen": None, **given}
    row = connection.execute(USER, values).fetchone()
    assert row is not None
    return row["id"]


def vouchers(connection: psycopg.Connection[dict[str, Any]]) -> dict[str, str | None]:
    rows = connection.execute("select email, address_vouched_by, email_verified_at from users where email like '%%@example.org'").fetchall()
    assert all(row["email_verified_at"] is None or row["address_vouched_by"] is None for row in rows)
    return {row["email"].partition("@")[0]: row["address_vouched_by"] for row in rows if row["email_verified_at"] is None}


async def test_a_release_before_may_go_on_beside_it(database_url: str) -> None:
    with psycopg.connect(database_url, row_factory=dict_row, autocommit=True) as connection:
        connection.execute(BEFORE.encode())
        # It makes an account by a provider's word, and writes that the address is proved.
        with connection.transaction():
            user = account(connection, "made@example.org")
            connection.execute(IDENTITY, {"user": user, "linked": MADE})
        # It gives an account that nobody has proved to a provider's person.
        other = account(connection, "reclaimed@example.org", proved=None)
        with connection.transaction():
            connection.execute("update users set email_verified_at = now() where id = %s", (other,))
            connection.execute(IDENTITY, {"user": other, "linked": LATER})
        # It connects somebody who has proved the address.
        proved = account(connection, "proved@example.org")
        with connection.transaction():
            connection.execute("select from users where id = %s for no key update", (proved,))
            connection.execute(IDENTITY, {"user": proved, "linked": LATER})
        # An import brings somebody who has proved it.
        with connection.transaction():
            connection.execute("select set_config('postern.brings_proofs', 'yes', true)")
            brought = account(connection, "brought@example.org")
            connection.execute(IDENTITY, {"user": brought, "linked": LATER})
        assert vouchers(connection) == {"made": VOUCHER, "reclaimed": VOUCHER}
        assert connection.execute("select from former_addresses").fetchall() == []
        # The first proof, and another address, end the vouching.
        connection.execute("update users set email_verified_at = now() where id = %s", (user,))
        connection.execute("update users set email = 'moved@example.org', email_key = 'moved@example.org' where id = %s", (other,))
        assert vouchers(connection) == {"moved": None}

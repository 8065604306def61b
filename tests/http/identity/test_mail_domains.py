"""A domain is the same in any spelling of its dots and letters: one address, one account."""

from pathlib import Path
from typing import Final

import psycopg
import pytest

import adapters.postgres
from core.domain.email import Email
from entrypoints.bootstrap import Postern
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenants

DOTS: Final = ("\u3002", "\uff0e", "\uff61")
MIGRATION: Final = Path(adapters.postgres.__file__).parent / "migrations" / "0042_keys_by_mail_domain.sql"


@pytest.mark.parametrize("dot", DOTS)
async def test_another_dot_registers_nobody_beside_the_owner(postern: Postern, people: People, dot: str) -> None:
    client = unlimited(postern)
    ada = await people.with_password(PASSWORD, "ada@corp.example.com")
    address = f"ada@corp{dot}example.com"
    known = await client.post("/api/auth/register", {"email": ada.email, "password": "three wet matches"})
    answer = await client.post("/api/auth/register", {"email": address, "password": "three wet matches"})
    assert (answer.status, answer.error_code) == (known.status, known.error_code)
    assert [row["id"] for row in people.rows("select id from users")] == [ada.user]
    # A person who types this spelling can sign in.
    assert (await client.post("/api/auth/login", {"email": address, "password": PASSWORD})).status == 200
    await Postbox(postern).empty()


@pytest.mark.parametrize("dot", DOTS)
async def test_an_account_that_was_made_with_another_dot_has_the_plain_key(postern: Postern, people: People, dot: str) -> None:
    client = unlimited(postern)
    answer = await client.post("/api/auth/register", {"email": f"Ada@Corp{dot}example.com", "password": PASSWORD})
    assert answer.status < 300, answer.body
    (row,) = people.rows("select email, email_key from users")
    assert (row["email"], row["email_key"]) == (f"Ada@Corp{dot}example.com", "ada@corp.example.com")
    await Postbox(postern).empty()


async def test_accounts_of_the_release_before_keep_signing_in(postern: Postern, people: People, database_url: str) -> None:
    """If two accounts have one address, the account with the plain dot keeps it."""
    client = unlimited(postern)
    ada, eve = await people.with_password(PASSWORD, "ada@corp.example.com"), await people.with_password(PASSWORD, "eve@corp.example.com")
    double = await people.with_password(PASSWORD, "x@corp.example.com")
    for person, key in ((eve, "eve@corp\u3002example.com"), (double, "ada@corp\u3002example.com")):
        people.change("update users set email = %s, email_key = %s where id = %s", key, key, person.user)
    domains = (
        "b\u00fccher.example",
        "\u4f8b\u3048\u3002\u30c6\u30b9\u30c8",
        "\u0645\u062b\u0627\u0644.example",
        "m\u00fcn-\u00e9a\u00e9.b\u00fc.example",
    )
    international = {domain: await people.with_password(PASSWORD, f"i@{domain}") for domain in domains}
    for domain, person in international.items():
        people.change("update users set email_key = %s, pending_email_key = %s where id = %s", f"i@{domain}", f"p@{domain}", person.user)
    org = Tenants(postern, people).add("acme").id
    asking = international[domains[0]].user
    people.change("update users set email_verified_at = now() where id = %s", asking)
    people.change(
        "insert into join_requests (id, org_id, user_id, email, status, created_at) values (%s, %s, %s, 'x', 'pending', now())",
        postern.foundation.ids.new(),
        org,
        asking,
    )
    people.change("insert into former_addresses (user_id, email_key, held_until) values (%s, %s, now())", asking, f"old@{domains[0]}")
    with psycopg.connect(database_url) as connection:
        for _ in ("once", "twice"):
            connection.execute(MIGRATION.read_bytes())
            connection.commit()
    for domain, person in international.items():
        (row,) = people.rows("select email_key, pending_email_key from users where id = %s", person.user)
        assert (row["email_key"], row["pending_email_key"]) == (Email(f"i@{domain}").key, Email(f"p@{domain}").key)
        assert row["email_key"].isascii()
    # Nobody has given up an address here. Texts contain a former address as it was written.
    assert people.rows("select status from join_requests") == [{"status": "pending"}]
    former = {row["email_key"] for row in people.rows("select email_key from former_addresses where user_id = %s", asking)}
    assert former == {f"old@{domains[0]}", Email(f"old@{domains[0]}").key}
    theirs = [person.user for person in international.values()]
    keys = {row["id"]: row["email_key"] for row in people.rows("select id, email_key from users where id <> all (%s)", theirs)}
    assert keys == {ada.user: "ada@corp.example.com", eve.user: "eve@corp.example.com", double.user: "ada@corp\u3002example.com"}
    for address in ("eve@corp\u3002example.com", "eve@corp.example.com", "eve@corp\uff0eexample.com"):
        assert (await client.post("/api/auth/login", {"email": address, "password": PASSWORD})).status == 200
    await Postbox(postern).empty()

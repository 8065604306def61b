"""A domain is the same in any spelling of its dots and letters: one address, one account."""

from typing import Final

import pytest

from entrypoints.bootstrap import Postern
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited

DOTS: Final = ("\u3002", "\uff0e", "\uff61")


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

"""The parts of accounts that other use cases build on, and changes between two steps of a use case."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import BadRequest, NotFound, Unauthorized
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.account_mails import AccountMail, AskedMail, LinkRefused
from core.domain.identity.devices import Client
from core.domain.identity.profiles import OwnProfileChange
from core.domain.languages import Language
from core.domain.mail import MAIL_JOB, Email
from core.domain.record.events import SYSTEM
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.settings import read
from tests.meanwhile import meanwhile

EMAIL, OTHER = Email("ada@example.org"), Email("new@example.org")
CLIENT = Client("192.0.2.1", "", None, None)
GOOD, NEW = Password("a long and quiet afternoon"), Password("a fresh and lively password")


def settings(database_url: str, directory: Path, **more: str) -> dict[str, str]:
    return {
        "POSTERN_DATABASE_URL": database_url,
        "POSTERN_DATA_DIR": str(directory),
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "POSTERN_ARGON2_MEMORY": "8KiB",
        "POSTERN_ARGON2_PASSES": "1",
        **more,
    }


@pytest.fixture
async def postern(emptied_database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with open_postern(read(settings(emptied_database_url, tmp_path))) as postern:
        yield postern


@pytest.fixture
async def ada(postern: Postern) -> UserId:
    return await postern.identity.accounts.register(EMAIL, GOOD, "", SYSTEM)


async def rows(postern: Postern, query: str) -> list[dict[str, Any]]:
    async with postern.foundation.database._pool.connection() as connection:
        return await (await connection.cursor(row_factory=dict_row).execute(query.encode())).fetchall()


async def session_of(postern: Postern, user: UserId) -> SessionId:
    async with postern.foundation.database._pool.connection() as connection:
        await connection.execute(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, ends_at) "
            "values (%s, %s, now(), now(), now() + interval '1 hour', now() + interval '1 hour')",
            [user, user],
        )
    return SessionId(user)


async def mails(postern: Postern) -> list[dict[str, Any]]:
    return [dict(job.payload) for job in await postern.foundation.jobs.claim([MAIL_JOB], 10, timedelta(seconds=9))]


async def token(postern: Postern, kind: AccountMail, user: UserId) -> Token:
    assert await postern.identity.account_mails.send(AskedMail(kind, EMAIL, ""))
    assert [row["user_id"] for row in await rows(postern, "select user_id from mailed_tokens where used_at is null")] == [user]
    *_, mail = await mails(postern)
    return Token(str(mail["text"]).partition("token=")[2].split()[0])


async def disown(postern: Postern, user: UserId) -> bool:
    async with postern.foundation.unit_of_work() as uow:
        disowned = await postern.identity.accounts.disown_unverified(uow, user, SYSTEM)
        await uow.commit()
    return disowned


async def test_a_person_who_registered_an_address_without_proving_it_leaves_nothing_behind(postern: Postern, ada: UserId) -> None:
    """SECURITY 6: the password of a stranger must not outlive the arrival of the address's owner."""
    link = await token(postern, AccountMail.RESET, ada)
    await session_of(postern, ada)
    assert await disown(postern, ada)
    assert (await rows(postern, "select password_hash from users")) == [{"password_hash": None}]
    assert await rows(postern, "select from sessions where revoked_at is null") == []
    with pytest.raises(LinkRefused):
        await postern.identity.account_passwords.look_at_link(link)
    assert {"how": "removed_unverified"} in [row["details"] for row in await rows(postern, "select details from audit_log")]


@pytest.mark.parametrize("verified", [False, True])
async def test_nor_does_the_service_that_they_came_through(postern: Postern, ada: UserId, verified: bool) -> None:
    if verified:
        await postern.identity.accounts.prove_address(await token(postern, AccountMail.VERIFICATION, ada), SYSTEM)
    await rows(
        postern,
        "with acme as (insert into organizations (id, slug, name, status, created_at, updated_at)"
        "              select id, 'acme', 'X', 'active', now(), now() from users returning id)"
        " insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
        " select id, id, 'shop', 'X', 'web', id, now(), now() from acme returning id",
    )
    await rows(postern, "update users set origin_service_id = id returning id")
    await disown(postern, ada)
    assert await rows(postern, "select origin_service_id = id as still from users") == [{"still": True if verified else None}]


async def test_a_verified_account_keeps_what_it_has(postern: Postern, ada: UserId) -> None:
    await postern.identity.accounts.prove_address(await token(postern, AccountMail.VERIFICATION, ada), SYSTEM)
    assert not await disown(postern, ada)
    assert (await rows(postern, "select password_hash is not null as kept from users")) == [{"kept": True}]


async def test_where_changes_are_immediate_the_new_address_is_in_force_at_once(emptied_database_url: str, tmp_path: Path) -> None:
    async with open_postern(read(settings(emptied_database_url, tmp_path, POSTERN_EMAIL_CHANGE="immediate"))) as postern:
        user = await postern.identity.accounts.register(EMAIL, GOOD, "", SYSTEM)
        await postern.identity.accounts.register(Email("taken@example.org"), GOOD, "", SYSTEM)
        session = await session_of(postern, user)
        change = await postern.identity.accounts.ask_for_email(user, session, OTHER, SYSTEM)
        assert (change.email, change.pending) == (OTHER, None)
        assert [(mail["to"], mail["subject"]) for mail in await mails(postern)] == [("ada@example.org", "Your email address was changed")]
        with pytest.raises(BadRequest):
            await postern.identity.accounts.ask_for_email(user, session, Email("taken@example.org"), SYSTEM)
        assert {row["email"] for row in await rows(postern, "select email from users")} == {"new@example.org", "taken@example.org"}


class TestBetweenTwoSteps:
    """In each test another request changes a thing between the look at it and its change."""

    async def test_an_account_that_goes_away(self, postern: Postern, ada: UserId) -> None:
        await rows(postern, "update users set deactivated_at = now() returning id")
        session = SessionId(postern.foundation.ids.new())
        with pytest.raises(NotFound):
            await postern.identity.account_passwords.set(ada, session, NEW, SYSTEM)
        with pytest.raises(NotFound):
            await postern.identity.account_passwords.change(ada, session, GOOD, NEW, SYSTEM)
        with pytest.raises(NotFound):
            await postern.identity.accounts.ask_for_email(ada, session, OTHER, SYSTEM)

    async def test_a_change_of_address_that_was_withdrawn(self, postern: Postern, ada: UserId) -> None:
        await postern.identity.accounts.ask_for_email(ada, await session_of(postern, ada), OTHER, SYSTEM)
        link = next(mail for mail in await mails(postern) if mail["to"] == OTHER.address)
        await rows(postern, "update users set pending_email = null returning id")
        with pytest.raises(LinkRefused):
            await postern.identity.accounts.prove_address(Token(str(link["text"]).partition("token=")[2].split()[0]), SYSTEM)
        # Nothing has changed: the link still works.
        assert await rows(postern, "select from mailed_tokens where purpose = 'change_email' and used_at is null")

    async def test_a_link_that_is_used_while_the_password_is_hashed(
        self, postern: Postern, monkeypatch: pytest.MonkeyPatch, ada: UserId
    ) -> None:
        link = await token(postern, AccountMail.RESET, ada)
        use = "update mailed_tokens set used_at = now() returning digest"
        meanwhile(monkeypatch, postern.identity.passwords, "hash", lambda: rows(postern, use))
        with pytest.raises(LinkRefused):
            await postern.identity.account_passwords.reset(link, NEW, SYSTEM)

    async def test_a_link_that_is_used_while_another_holds_the_account(self, postern: Postern, ada: UserId) -> None:
        link = await token(postern, AccountMail.VERIFICATION, ada)
        await postern.identity.accounts.prove_address(link, SYSTEM)
        with pytest.raises(LinkRefused, match="used"):
            await postern.identity.accounts.prove_address(link, SYSTEM)


async def test_a_person_chooses_a_language_or_leaves_it_to_the_browser(postern: Postern, ada: UserId) -> None:
    for language in (Language.SPANISH, Language.GERMAN, None):
        await postern.identity.profiles.change(ada, OwnProfileChange(language=language), SYSTEM, username=None)
        assert await rows(postern, "select language from users") == [{"language": language}]
    async with postern.foundation.unit_of_work() as uow:
        assert await uow.accounts.deactivate(ada, postern.foundation.clock.now())
        await uow.commit()
    with pytest.raises(NotFound):
        await postern.identity.profiles.change(ada, OwnProfileChange(language=Language.FRENCH), SYSTEM, username=None)


class TestBetweenLookAndProof:
    """The page of a mailed link: while a password is checked or hashed, the account changes."""

    async def test_the_password_that_was_checked_is_gone(self, postern: Postern, monkeypatch: pytest.MonkeyPatch, ada: UserId) -> None:
        link = await token(postern, AccountMail.VERIFICATION, ada)
        change = "update users set password_hash = 'another' returning id"
        meanwhile(monkeypatch, postern.identity.passwords, "examine", lambda: rows(postern, change))
        with pytest.raises(Unauthorized):
            await postern.identity.address_proofs.prove(link, None, GOOD, CLIENT)
        assert await self._untouched(postern)

    async def test_the_address_was_proved_in_another_way(self, postern: Postern, monkeypatch: pytest.MonkeyPatch, ada: UserId) -> None:
        link = await token(postern, AccountMail.VERIFICATION, ada)
        change = "update users set email_verified_at = now() returning id"
        for method in ("examine", "hash"):
            meanwhile(monkeypatch, postern.identity.passwords, method, lambda: rows(postern, change))
        with pytest.raises(Unauthorized):
            await postern.identity.address_proofs.prove(link, None, GOOD, CLIENT)
        await rows(postern, "update users set email_verified_at = null returning id")
        with pytest.raises(LinkRefused, match="used"):
            await postern.identity.address_proofs.prove_with_new_password(link, NEW, SYSTEM)
        # Nothing has changed: the person who has proved the address keeps the password.
        assert (await rows(postern, "select password_changed_at from users")) == [{"password_changed_at": None}]
        assert await rows(postern, "select from mailed_tokens where used_at is null")
        with pytest.raises(LinkRefused, match="used"):
            await postern.identity.address_proofs.refuse(link, SYSTEM)
        assert await rows(postern, "select from users") == [{}]

    async def test_an_account_that_goes_away(self, postern: Postern, ada: UserId) -> None:
        link = await token(postern, AccountMail.VERIFICATION, ada)
        await rows(postern, "update users set deactivated_at = now() returning id")
        with pytest.raises(LinkRefused):
            await postern.identity.address_proofs.prove(link, None, GOOD, CLIENT)
        with pytest.raises(LinkRefused):
            await postern.identity.address_proofs.prove_with_new_password(link, NEW, SYSTEM)
        assert await self._untouched(postern)
        # A person whom the platform has deactivated does not come back by a new registration.
        await postern.identity.address_proofs.refuse(link, SYSTEM)
        assert await rows(postern, "select password_hash, deactivated_at is null as active from users") == [
            {"password_hash": None, "active": False}
        ]

    @staticmethod
    async def _untouched(postern: Postern) -> bool:
        (user,) = await rows(postern, "select email_verified_at, password_hash from users")
        links = await rows(postern, "select from mailed_tokens where used_at is null")
        return user["email_verified_at"] is None and user["password_hash"] is not None and len(links) == 1

"""Accounts, sessions and tokens, made without a sign-in."""

from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any, Self
from uuid import UUID

import psycopg
import trio

from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from tests.kept_connections import lent_connection
from tests.patience import PATIENCE

BASE_URL = "https://id.example.org"


class Person(Frozen):
    user: UUID
    session: UUID
    email: str


class People:
    def __init__(self, postern: Postern, database_url: str) -> None:
        self._postern = postern
        self._database_url = database_url
        self._numbers = count(1)
        self._lending = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self._lending.close()

    @cached_property
    def _connection(self) -> psycopg.Connection[dict[str, Any]]:
        """A connection beside the pool, and kept: a new connection for each statement would take longer than the statement."""
        return self._lending.enter_context(lent_connection(self._database_url))

    def change(self, statement: str, *values: Any) -> None:
        self._connection.execute(statement.encode(), values)

    def add(self, email: str | None = None, *, platform_owner: bool = False) -> Person:
        person = Person(
            self._postern.foundation.ids.new(), self._postern.foundation.ids.new(), email or f"person{next(self._numbers)}@example.org"
        )
        now = self._postern.foundation.clock.now()
        self.change(
            "insert into users (id, email, email_key, is_platform_owner) values (%s, %s, %s, %s)",
            person.user,
            person.email,
            Email(person.email).key,
            platform_owner,
        )
        self.change(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, proved_at) values (%s, %s, %s, %s, %s, %s)",
            person.session,
            person.user,
            now,
            now,
            now + timedelta(days=30),
            now,
        )
        return person

    def proved(self, email: str | None = None, *, platform_owner: bool = False) -> Person:
        """A person who has proved their address."""
        person = self.add(email, platform_owner=platform_owner)
        self.change("update users set email_verified_at = now() where id = %s", person.user)
        return person

    def give_passkey(self, person: Person, *, second_factor: bool = False) -> None:
        """Gives the person a passkey with which nobody can sign in."""
        self.change(
            """
            insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,
                                  created_at, second_factor_since)
            values (%s, %s, gen_random_uuid()::text::bytea, 'k', 0, 'Key', gen_random_uuid(), '{}', false, false, now(),
                    case when %s then now() end)
            """,
            self._postern.foundation.ids.new(),
            person.user,
            second_factor,
        )

    def sealed(self, text: str, context: str) -> bytes:
        return self._postern.foundation.keyring.seal(text.encode(), context)

    def opened(self, sealed: bytes, context: str) -> str:
        return self._postern.foundation.keyring.open(sealed, context).decode()

    def connect(self, person: Person, provider: str = "websuite", issuer: str = "https://provider.example", subject: str = "ada") -> None:
        """Connects the person's account to an account at a provider."""
        self.change(
            "insert into identities (id, user_id, provider, issuer, subject, email, linked_at) values (%s, %s, %s, %s, %s, '', now())",
            self._postern.foundation.ids.new(),
            person.user,
            provider,
            issuer,
            subject,
        )

    def session_of(self, person: Person) -> Person:
        """One more session of the same person."""
        session = self._postern.foundation.ids.new()
        self.change(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, proved_at)"
            " values (%s, %s, now(), now(), now() + interval '1 day', now())",
            session,
            person.user,
        )
        return Person(person.user, session, person.email)

    async def with_password(self, password: str, email: str | None = None, *, verified: bool = True) -> Person:
        """A person with a password, who can sign in and never has."""
        person = self.add(email)
        self.change("delete from sessions where id = %s", person.session)
        self.change(
            "update users set password_hash = %s, email_verified_at = case when %s then now() end where id = %s",
            await self._postern.identity.passwords.hash(Password(password)),
            verified,
            person.user,
        )
        return person

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        return self._connection.execute(statement.encode(), values).fetchall()

    async def somebody_waits(self) -> None:
        """Waits until a statement waits for a lock that another transaction holds."""
        await self.all_wait(1)

    async def all_wait(self, number: int) -> None:
        """Waits until this many statements wait for locks."""
        waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        with trio.fail_after(PATIENCE):
            while len(self.rows(waiting)) < number:
                await trio.sleep(0.01)

    async def token(self, person: Person, *, at: datetime | None = None, **claims: Any) -> str:
        """An access token of the person's session, made at `at` or now. A claim given as None is left out."""
        issued = int((at or self._postern.foundation.clock.now()).timestamp())
        stated = {
            "iss": self._postern.foundation.public_url,
            "sub": str(person.user),
            "aud": "platform",
            "exp": issued + 900,
            "iat": issued,
            "jti": str(self._postern.foundation.ids.new()),
            "sid": str(person.session),
            "email": person.email,
            "is_platform_owner": False,
            "token_use": "access",
            "amr": ["pwd"],
            **claims,
        }
        return await self._postern.foundation.token_signer.sign_access({name: value for name, value in stated.items() if value is not None})

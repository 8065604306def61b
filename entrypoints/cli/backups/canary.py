"""A canary: an account that is made in a restored database, and signs in there as a person does."""

import secrets
from typing import Final

from adapters.postgres.driver.connection import Connection
from core.domain.identity.devices import Client
from core.domain.identity.sign_in import SignedIn
from core.domain.mail import Email
from entrypoints.bootstrap import Postern

_USER_AGENT: Final = "postern backup check"
# The entries of the audit log stay: nothing is taken out of it. Ids grow with time, so what the account did has greater ids than its own.
_REMOVE: Final = (
    """
    delete from events
     using users
     where email_key = %(key)s and events.id > users.id and events.actor_id = users.id
    """,
    """
    delete from uncounted_logins
     using login_events
      join users on users.id = login_events.user_id
     where email_key = %(key)s and uncounted_logins.id = login_events.id
    """,
    "delete from login_events using users where email_key = %(key)s and user_id = users.id",
    "delete from users where email_key = %(key)s",
)


async def sign_in(postern: Postern) -> str:
    """Makes the account, signs in, verifies the access token and renews it. Returns the account's address. Raises what the use cases
    raise.
    """
    email = Email(f"backup-canary-{secrets.token_hex(8)}@canary.invalid")
    password = postern.foundation.secrets.password()
    client = Client(None, _USER_AGENT)
    await postern.platform.platform_owners.create(email, password)
    signed_in = await postern.identity.sign_in.with_password(email, password, client)
    assert isinstance(signed_in, SignedIn)  # noqa: S101 - for the type checker: a new account has no second factor
    await postern.foundation.token_verifier.verify_access(signed_in.tokens.access_token.reveal())
    await postern.identity.sessions.refresh(signed_in.tokens.refresh_token, client)
    return email.key


async def remove(url: str, key: str) -> None:
    """Removes the account and its sign-in, so that a later check of the copy finds the rows of the backup."""
    async with await Connection.connect(url) as connection, connection.transaction():
        for statement in _REMOVE:
            await connection.execute(statement, {"key": key})

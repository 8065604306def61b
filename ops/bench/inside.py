"""Acts in the name of the installation, with its keys: signs a token for a person, queues mails."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe

from core.domain.mail import Mail
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.http.machinery.browser_cookies import SESSION_COOKIE
from entrypoints.settings import read
from ops.bench.filling.fill import Person, growing
from ops.bench.harness import Server


@asynccontextmanager
async def postern_of(settings: Mapping[str, str]) -> AsyncIterator[Postern]:
    """The services of a running installation, in this process."""
    async with open_postern(read(settings)) as postern:
        yield postern


async def bearer(server: Server, person: Person) -> Mapping[str, str]:
    """The header that authenticates this person for an hour."""
    return await bearer_for(server.settings, person)


async def bearer_for(settings: Mapping[str, str], person: Person) -> Mapping[str, str]:
    (header,) = await bearers_for(settings, [person])
    return header


async def bearers_for(settings: Mapping[str, str], people: Sequence[Person]) -> Sequence[Mapping[str, str]]:
    now = datetime.now(UTC)
    async with postern_of(settings) as postern:
        tokens = [
            await postern.foundation.token_signer.sign_access(
                {
                    "iss": read(settings).public_url,
                    "sub": str(person.user),
                    "aud": "platform",
                    "exp": int((now + timedelta(hours=1)).timestamp()),
                    "iat": int(now.timestamp()),
                    "jti": str(postern.foundation.ids.new()),
                    "sid": str(person.session),
                    "email": person.email,
                    "is_platform_owner": False,
                    "token_use": "access",
                    "amr": ["pwd"],
                }
            )
            for person in people
        ]
    return [{"Authorization": f"Bearer {token}"} for token in tokens]


def browser_cookie(database_url: str, person: Person) -> str:
    """The header `Cookie` of a browser in which this person is signed in."""
    token = Token(token_urlsafe(32))
    with growing(database_url) as connection:
        connection.execute("insert into browser_sessions (digest, session_id) values (%s, %s)", [token.digest(), person.session])
    return f"{SESSION_COOKIE}={token.reveal()}"


async def hashed(settings: Mapping[str, str], password: str) -> str:
    """Hashes a password with the installation's parameters, so that a sign-in does not renew the hash."""
    async with postern_of(settings) as postern:
        return await postern.identity.passwords.hash(Password(password))


async def queue_mails(server: Server, count: int) -> frozenset[str]:
    """Queues this many mails, each in its own transaction. Returns their ids: the server must send every one."""
    promised = set()
    async with postern_of(server.settings) as postern:
        for number in range(count):
            mail = Mail(f"person-{number}@bench.example", "Measured", "A mail of the benchmark.", "<p>A mail of the benchmark.</p>")
            async with postern.foundation.unit_of_work() as uow:
                job = await uow.jobs.add(mail.as_job())
                await uow.commit()
            promised.add(str(job))
    return frozenset(promised)

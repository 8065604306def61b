"""What a case does in the installation's own name, with its keys: sign a token for somebody, queue mails."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from core.domain.mail import Mail
from core.domain.secrets import Password
from entrypoints.bootstrap import Services, open_services
from entrypoints.settings import read
from ops.bench.fill import Person
from ops.bench.harness import Server


@asynccontextmanager
async def services_of(settings: Mapping[str, str]) -> AsyncIterator[Services]:
    """The services of a running installation, in this process."""
    async with open_services(read(settings)) as services:
        yield services


async def bearer(server: Server, person: Person) -> Mapping[str, str]:
    """The header that lets this person in, for an hour."""
    return await bearer_for(server.settings, person)


async def bearer_for(settings: Mapping[str, str], person: Person) -> Mapping[str, str]:
    (header,) = await bearers_for(settings, [person])
    return header


async def bearers_for(settings: Mapping[str, str], people: Sequence[Person]) -> Sequence[Mapping[str, str]]:
    now = datetime.now(UTC)
    async with services_of(settings) as services:
        tokens = [
            await services.token_signer.sign_access(
                {
                    "iss": read(settings).public_url,
                    "sub": str(person.user),
                    "aud": "platform",
                    "exp": int((now + timedelta(hours=1)).timestamp()),
                    "iat": int(now.timestamp()),
                    "jti": str(services.ids.new()),
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


async def hashed(settings: Mapping[str, str], password: str) -> str:
    """As the installation's parameters have it: none that it would renew."""
    async with services_of(settings) as services:
        return await services.passwords.hash(Password(password))


async def queue_mails(server: Server, count: int) -> frozenset[str]:
    """Promise so many mails, each in a transaction of its own. Returns their ids: what was promised must come."""
    promised = set()
    async with services_of(server.settings) as services:
        for number in range(count):
            mail = Mail(f"person-{number}@bench.example", "Measured", "A mail of the benchmark.", "<p>A mail of the benchmark.</p>")
            async with services.unit_of_work() as uow:
                job = await uow.jobs.add(mail.as_job())
                await uow.commit()
            promised.add(str(job))
    return frozenset(promised)

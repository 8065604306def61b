"""The cost of a sign-in through an organization's own directory: by SAML, against one by OpenID Connect in the same run."""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import count
from operator import attrgetter
from typing import Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import psycopg
import trio

from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.connections import SamlChange
from core.domain.record.events import SYSTEM
from core.frozen import Frozen
from core.usecases.tenancy.upstream_providers import add
from ops.bench.answers import SETTINGS
from ops.bench.cases.webhooks import make_tenants
from ops.bench.harness import DidNotStart, Options, Server, directory, serving
from ops.bench.inside import postern_of
from ops.bench.load import Answer, Client, Summary, Tally, Target
from ops.bench.paired import Contestant, Side, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres
from ops.stand_ins.fake_directory import SSO, FakeDirectory
from ops.stand_ins.fake_providers import FakeProvider
from ops.stand_ins.saml import MAIL

PEOPLE: Final = 100
TURNS: Final = 5
AT_ONCE: Final = 4
DOMAIN: Final = "bench.example"
CPU: Final = attrgetter("server")
SLUG: Final = "hook-0"
_LINK: Final = re.compile(r'href="(/auth/[^"]+)"')

SignIn = Callable[[Client, int], Awaitable[Answer]]


async def directories(options: Options) -> Sequence[Figure]:
    """Sign-ins of known people through a directory by SAML and by OpenID Connect, from the way there to the way back."""
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        fake = stack.enter_context(FakeProvider(client_id="bench"))
        data_dir = place / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern"), settings=SETTINGS))
        (tenant,) = await make_tenants(server, [[]])
        oidc, saml = await providers_of(server, tenant.organization, fake)
        side = Side(server.pid, "postern", postgres)
        ways: Sequence[tuple[str, SignIn]] = (
            ("sign-in by OpenID Connect", partial(_by_openid, _Way(server, oidc), fake)),
            ("sign-in by SAML", partial(_by_saml, _Way(server, saml), FakeDirectory())),
        )
        complain("directories: everybody for the first time …")
        for _, way in ways:
            async with Client.connected(server.target("/health/live")) as client:
                for number in range(PEOPLE):
                    await way(client, number)
        await trio.to_thread.run_sync(postgres.settle)
        complain("directories: 4 at once …")
        by_openid, by_saml = (Contestant(name, side, partial(_sign_ins, server, way, count(), seconds)) for name, way in ways)
        await take_turns([by_openid, by_saml], TURNS)
    return [
        *(Figure(f"{one.name}: CPU each", one.median(CPU), "µs", beside=one.described()) for one in (by_openid, by_saml)),
        Figure("sign-in by SAML against one by OpenID Connect: CPU", ratio(by_saml, by_openid, CPU), bar=at_most(1.5)),
        Figure("requests that failed", by_openid.failures + by_saml.failures, bar=at_most(0)),
    ]


async def providers_of(server: Server, organization: UUID, fake: FakeProvider) -> tuple[UUID, UUID]:
    """Two providers of the organization, active, and the domain that they may vouch for."""
    org = OrganizationId(organization)
    async with postern_of(server.settings) as postern:
        providers = postern.tenancy.upstream_providers
        certificate = await postern.foundation.directory_documents.read_certificate(FakeDirectory().certificate)
        described = SamlChange(sso_url=SSO, certificates=(certificate,), email_sources=(MAIL,))
        by_saml = await providers.prepared_saml(org, name="SAML", issued_by=FakeDirectory().issuer, settings=described, mapping={})
        by_openid = await providers.prepared(
            org,
            name="OpenID Connect",
            issued_by=fake.issuer,
            client=fake.client_id,
            secret=fake.client_secret,
            asked=(),
            enabled=True,
            mapping={},
        )
        async with postern.foundation.unit_of_work() as uow:
            await uow.organizations.find_for_update(org)
            for made in (by_openid, by_saml):
                await add(uow, made, SYSTEM)
            await uow.commit()
    await trio.to_thread.run_sync(_activate, server.database_url, organization)
    return by_openid.provider.id, by_saml.provider.id


def _activate(url: str, organization: UUID) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update upstream_providers set state = 'active', enabled = true")
        connection.execute(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
            [organization, DOMAIN],
        )


async def _sign_ins(server: Server, way: SignIn, numbers: "count[int]", seconds: float) -> Summary:
    """Each sign-in has its own person and its own browser."""
    tally, until, began = Tally(), trio.current_time() + seconds, trio.current_time()

    async def one_after_another() -> None:
        async with Client.connected(server.target("/health/live")) as client:
            while trio.current_time() < until:
                tally.answered(await way(client, next(numbers) % PEOPLE))

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(one_after_another)
    tally.seconds = trio.current_time() - began
    return tally.summary()


class _Way(Frozen):
    """To one provider of the organization."""

    server: Server
    provider: UUID

    async def leave(self, client: Client) -> tuple[str, str]:
        """The address at the provider, and the browser's cookie."""
        page = await client.ask(self.server.target(f"/auth/{self.provider}?org={SLUG}"))
        link = _LINK.search(page.body.decode())
        if link is None:
            raise DidNotStart(f"the page before a provider answers {page.status} and has no button")
        cookie = page.headers["set-cookie"].partition(";")[0]
        left = await client.ask(self.server.target(unescape(link[1]), {"Cookie": cookie}))
        return left.headers["location"], cookie


async def _by_openid(way: _Way, fake: FakeProvider, client: Client, number: int) -> Answer:
    location, cookie = await way.leave(client)
    place = fake.consent(location, sub=str(number), email=f"openid{number}@{DOMAIN}", email_verified=True)
    return await _back(client, way.server.target(place, {"Cookie": cookie}))


async def _by_saml(way: _Way, fake: FakeDirectory, client: Client, number: int) -> Answer:
    location, cookie = await way.leave(client)
    fake.subject, fake.email = str(number), f"saml{number}@{DOMAIN}"
    target = way.server.target(f"/saml/sp/{way.provider}/acs", {"Content-Type": "application/x-www-form-urlencoded"})
    received = await client.ask(replace(target, method="POST", body=urlencode(fake.answer(location)).encode()))
    parts = urlsplit(received.headers["location"])
    return await _back(client, way.server.target(f"{parts.path}?{parts.query}", {"Cookie": cookie}))


async def _back(client: Client, target: Target) -> Answer:
    """A sign-in answers with a redirect, and the tally counts everything but 2xx as failed."""
    back = await client.ask(target)
    return Answer(200 if back.status == 303 else back.status, back.headers, back.body, back.seconds)

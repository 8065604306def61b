"""The clients of a drill: users, applications, a directory and a payment provider, each at an even pace, each as patient as in life."""

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, cycle
from typing import Any, Final
from uuid import UUID

import psycopg
import trio

from core.domain.secrets import Token
from ops.bench.cases.billing import SETTINGS as BILLING
from ops.bench.cases.billing import TOLD, Purchase, event_of, handed, purchases_of
from ops.bench.cases.identity import PASSWORD, people
from ops.bench.cases.scim import newcomer
from ops.bench.cases.webhooks import SETTINGS as WEBHOOKS
from ops.bench.cases.webhooks import make_tenants
from ops.bench.filling.fill import Person
from ops.bench.filling.fill_services import Customer, Size, grow_services
from ops.bench.harness import Server
from ops.bench.inside import bearers_for
from ops.bench.load import Answer, Target, fetch
from ops.bench.receivers import Receivers
from ops.drill.ledger import Ledger, Told

# Hashing at full strength, at a low priority, would wait for other work on the machine.
SETTINGS: Final = {**BILLING, **WEBHOOKS, "POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_PASSES": "1"}
# A mark of "last used" is written once a minute. So many take turns that each of them is due when it is used again.
READERS: Final = 1_000
KEYS: Final = 600
DIRECTORY_TOKENS: Final = 400
BUYERS: Final = 3_000
TENANTS: Final = 5
CHAINS: Final = 4
# Seconds between two requests of a client of this kind.
PACE: Final = {"sign-in": 0.2, "refresh": 0.5, "SCIM": 0.25, "billing event": 0.25, "mail": 0.5, "read": 0.1, "key": 0.25}
# Longer than any request may last.
PATIENCE: Final = 45.0
# Between a sign-in and its sign-out.
STAY: Final = 2.5
# Before a client repeats a request. Real ones wait longer; a short time finds more.
AGAIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Material:
    """What is in the database before the drill. Readers, keys and the directory's tokens take turns; nothing else is used twice."""

    people: Iterator[Person]
    readers: Iterator[Mapping[str, str]]
    keys: Iterator[Customer]
    purchases: Iterator[tuple[Purchase, int]]
    directory: Iterator[Token]
    newcomers: Iterator[int] = field(default_factory=count)


async def prepared(server: Server, sink: Receivers, strangers: int = 5_000) -> Material:
    tenants = [tenant.organization for tenant in await make_tenants(server, [[sink.url(f"ok/{number}")] for number in range(TENANTS)])]
    tokens = [Token(f"scim_live_drill{number:03}_0123456789") for number in range(DIRECTORY_TOKENS)]
    await trio.to_thread.run_sync(_open_organization, server.database_url, tenants, tokens)
    persons = await people(server, strangers)
    keys = await trio.to_thread.run_sync(grow_services, server.database_url, Size(services=2, users=BUYERS, keys=KEYS))
    purchases = await trio.to_thread.run_sync(purchases_of, server.database_url)
    readers = await bearers_for(server.settings, persons[:READERS])
    events = ((purchase, step) for purchase in purchases for step in range(len(TOLD)))
    return Material(iter(persons[READERS:]), cycle(readers), cycle(keys), events, cycle(tokens))


def _open_organization(url: str, tenants: Sequence[UUID], tokens: Sequence[Token]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update all_organizations set max_users = 1000000")
        connection.cursor().executemany(
            "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (uuidv7(), %s, 'app', 'App', 'web', uuidv7(), now(), now())",
            [(tenant,) for tenant in tenants],
        )
        for number, token in enumerate(tokens):
            connection.execute(
                "insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at)"
                " values (gen_random_uuid(), %s, %s, %s, %s, gen_random_uuid(), now())",
                [tenants[0], f"Drill {number}", token.reveal()[:18], token.digest()],
            )


@dataclass(slots=True)
class Chain:
    """A session of an application, which renews its tokens again and again."""

    session: str
    token: str
    used: list[bytes] = field(default_factory=list)
    """The digests of the tokens that were exchanged, oldest first."""
    ended: bool = False
    """The server has refused the last token."""


@dataclass(slots=True)
class Clients:
    """They repeat what their kind repeats: an application its refresh, a directory and the payment provider everything. Nobody repeats a
    sign-in.
    """

    server: Server
    material: Material
    ledger: Ledger = field(default_factory=Ledger)
    chains: list[Chain] = field(default_factory=list)
    signed_in: dict[str, str] = field(default_factory=dict)
    """The session of each person who signed in."""
    refused_people: dict[str, Told] = field(default_factory=dict)
    """People whose sign-in failed, and what they were told."""
    signed_out: list[Mapping[str, str]] = field(default_factory=list)
    """What those may try again whose sign-out was answered."""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    _free: list[Chain] = field(default_factory=list)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Those that are in the middle of something finish it, as far as they can, at the end of the block."""
        stopping = trio.Event()
        async with trio.open_nursery() as nursery:
            for work in (self._sign_ins, self._directory, self._provider, self._forgetful, self._readers, self._keys):
                nursery.start_soon(work, stopping)
            for _ in range(CHAINS):
                nursery.start_soon(self._application, stopping)
            yield
            stopping.set()
            with trio.move_on_after(PATIENCE) as patience:
                await _all_done(nursery)
            if patience.cancelled_caught:
                nursery.cancel_scope.cancel()

    async def _ask(self, what: str, target: Target) -> tuple[Told, Answer | None]:
        began = trio.current_time()
        answer = await fetch(target, PATIENCE)
        return self.ledger.note(what, began, answer), answer

    async def _until_done(self, what: str, target: Target, stopping: trio.Event, name: str) -> bool:
        """Repeats the request. Returns whether it was done in the end."""
        maybe = failed = False
        while True:
            told, answer = await self._ask(what, target)
            there_already = answer is not None and answer.status == 409
            if told is Told.DONE or (there_already and (failed or maybe)):
                if there_already and not maybe:
                    self.ledger.refused_yet_done[what] += 1
                self.ledger.promise(what, name, Told.DONE)
                return True
            maybe, failed = maybe or told is Told.UNKNOWN, True
            self.ledger.promise(what, name, Told.UNKNOWN if maybe else Told.REFUSED)
            if stopping.is_set():
                return False
            await trio.sleep(AGAIN)

    async def _sign_ins(self, stopping: trio.Event) -> None:
        async with trio.open_nursery() as nursery:
            for number, person in enumerate(self.material.people):
                if stopping.is_set():
                    return
                nursery.start_soon(self._visit, person, number)
                await trio.sleep(PACE["sign-in"])

    async def _visit(self, person: Person, number: int) -> None:
        body = {"email": person.email, "password": PASSWORD, "org_slug": f"hook-{number // 2 % TENANTS}", "service_slug": "app"}
        told, answer = await self._ask("sign-in", self.server.target("/api/auth/login").posting(body))
        if told is not Told.DONE or answer is None:
            self.refused_people[str(person.user)] = told
            return
        content = json.loads(answer.body)
        session = str(_claims(content["access_token"])["sid"])
        self.signed_in[str(person.user)] = session
        self.ledger.promise("sign-in", session, Told.DONE)
        if number % 2:
            self._free.append(Chain(session, content["refresh_token"]))
            return
        headers = {"Authorization": f"Bearer {content['access_token']}"}
        await trio.sleep(STAY)
        told, _ = await self._ask("sign-out", replace(self.server.target("/api/auth/logout", headers), method="POST"))
        self.ledger.promise("sign-out", session, told)
        if told is Told.DONE:
            self.signed_out.append(headers)

    async def _application(self, stopping: trio.Event) -> None:
        chain: Chain | None = None
        while not stopping.is_set():
            if chain is None or chain.ended:
                if not self._free:
                    await trio.sleep(PACE["refresh"])
                    continue
                chain = self._free.pop()
                self.chains.append(chain)
            told, answer = await self._ask("refresh", self.server.target("/api/auth/refresh").posting({"refresh_token": chain.token}))
            digest = Token(chain.token).digest()
            if told is Told.DONE and answer is not None:
                chain.used.append(digest)
                chain.token = json.loads(answer.body)["refresh_token"]
                self.ledger.promise("refresh", digest.hex(), Told.DONE)
            else:
                self.ledger.promise("refresh", digest.hex(), told)
                chain.ended = told is Told.REFUSED and answer is not None and answer.status < 500
            await trio.sleep(PACE["refresh"])

    async def _directory(self, stopping: trio.Event) -> None:
        while not stopping.is_set():
            number = next(self.material.newcomers)
            headers = {"Authorization": f"Bearer {next(self.material.directory).reveal()}", "Content-Type": "application/scim+json"}
            target = replace(self.server.target("/scim/v2/Users", headers), method="POST", body=newcomer(number))
            await self._until_done("SCIM", target, stopping, f"e-{number}")
            await trio.sleep(PACE["SCIM"])

    async def _provider(self, stopping: trio.Event) -> None:
        for purchase, step in self.material.purchases:
            if stopping.is_set():
                return
            event = event_of(purchase, step)
            await self._until_done("billing event", handed(self.server, event), stopping, json.loads(event)["id"])
            await trio.sleep(PACE["billing event"])

    async def _forgetful(self, stopping: trio.Event) -> None:
        for person in self.material.people:
            if stopping.is_set():
                return
            target = self.server.target("/api/auth/forgot-password").posting({"email": person.email})
            told, _ = await self._ask("mail", target)
            self.ledger.promise("mail", person.email, told)
            await trio.sleep(PACE["mail"])

    async def _readers(self, stopping: trio.Event) -> None:
        async with trio.open_nursery() as nursery:
            for headers in self.material.readers:
                if stopping.is_set():
                    return
                nursery.start_soon(self._ask, "read", self.server.target("/api/user", headers))
                await trio.sleep(PACE["read"])

    async def _keys(self, stopping: trio.Event) -> None:
        async with trio.open_nursery() as nursery:
            for one in self.material.keys:
                if stopping.is_set():
                    return
                target = self.server.target(f"/api/service/users/{one.user}", {"X-Api-Key": one.key})
                nursery.start_soon(self._ask, "key", target)
                await trio.sleep(PACE["key"])


async def _all_done(nursery: trio.Nursery) -> None:
    while nursery.child_tasks:  # noqa: ASYNC110 - a nursery has no event for this
        await trio.sleep(0.05)


def _claims(token: str) -> Mapping[str, Any]:
    part = token.split(".")[1]
    claims: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims

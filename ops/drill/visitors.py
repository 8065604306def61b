"""The clients of the drill of machines: people who read and sign in, and a directory that adds people, through two proxies.

They are as patient as real ones. Whom a proxy does not let in goes to the other one, as browsers go to a name's next address. A read is
repeated until it is answered. A change is repeated only if the answer says that nothing happened.
"""

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio

from core.domain.errors import OutcomeUnknown, Unavailable
from ops.bench.cases.identity import PASSWORD
from ops.bench.cases.scim import newcomer
from ops.bench.filling.fill import Person
from ops.bench.load import Answer, Broken, Client, Target
from ops.drill.clients import Material
from ops.drill.proxies import Proxy

# Seconds between two requests of a kind.
PACE: Final = {"read": 0.1, "sign-in": 0.25, "directory": 0.25}
# A client that was told to come again waits so long at first.
AGAIN: Final = 0.5
PATIENCE: Final = 40.0


@dataclass(slots=True)
class Visit:
    """One wish of a client, with every try."""

    what: str
    name: str
    began: float
    ended: float = 0.0
    tries: int = 0
    code: str = ""
    """The last answer: a status, an error's code behind it, or "no answer"."""
    refused: list[float] = field(default_factory=list)
    """When a try was not answered as it should."""

    @property
    def done(self) -> bool:
        return self.code.startswith("2")

    @property
    def was_smooth(self) -> bool:
        return self.done and self.tries == 1


@dataclass(slots=True)
class Visitors:
    proxies: Sequence[Proxy]
    material: Material
    visits: list[Visit] = field(default_factory=list)
    under_way: set[int] = field(default_factory=set)
    """The changes that wait for their answer, as places in `visits`."""
    sessions: dict[str, str] = field(default_factory=dict)
    """By the name of each sign-in that was answered: its session."""
    people: dict[str, str] = field(default_factory=dict)
    """By the name of each sign-in: the account."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """At the end of the block they finish what they began."""
        stopping = trio.Event()
        async with trio.open_nursery() as nursery:
            for what, begin in (("read", self.read), ("sign-in", self.sign_in), ("directory", self.provision)):
                nursery.start_soon(self._keep_coming, PACE[what], begin, nursery, stopping)
            yield
            stopping.set()

    async def _keep_coming(self, pace: float, begin: Any, nursery: trio.Nursery, stopping: trio.Event) -> None:
        while not stopping.is_set():
            nursery.start_soon(begin)
            await trio.sleep(pace)

    async def read(self) -> None:
        target = replace(self.proxies[0].target("/api/user"), headers=next(self.material.readers))
        await self._visit("read", "", target)

    async def sign_in(self) -> None:
        await self.sign_in_as(next(self.material.people))

    async def sign_in_as(self, person: Person) -> None:
        self.people[person.email] = str(person.user)
        target = self.proxies[0].target("/api/auth/login").posting({"email": person.email, "password": PASSWORD})
        answer = await self._visit("sign-in", person.email, target)
        if answer is not None and answer.status == 200:
            part = json.loads(answer.body)["access_token"].split(".")[1]
            self.sessions[person.email] = str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sid"])

    async def provision(self) -> None:
        number = next(self.material.newcomers)
        headers = {"Authorization": f"Bearer {next(self.material.directory).reveal()}", "Content-Type": "application/scim+json"}
        target = replace(self.proxies[0].target("/scim/v2/Users", headers), method="POST", body=newcomer(number))
        await self._visit("directory", f"e-{number}", target)

    async def _visit(self, what: str, name: str, target: Target) -> Answer | None:
        visit = Visit(what, name, trio.current_time())
        place = len(self.visits)
        self.visits.append(visit)
        if what != "read":
            self.under_way.add(place)
        answer: Answer | None = None
        with trio.move_on_after(PATIENCE):
            while True:
                visit.tries += 1
                answer = await self._asked(target, place)
                visit.code = _code(answer)
                if not visit.done:
                    visit.refused.append(trio.current_time())
                may_repeat = what == "read" or visit.code == f"503 {Unavailable.code}"
                if visit.done or not may_repeat:
                    break
                await trio.sleep(AGAIN)
        visit.ended = trio.current_time()
        self.under_way.discard(place)
        return answer

    async def _asked(self, target: Target, turn: int) -> Answer | None:
        """Half of them come to the one proxy first, half to the other."""
        for proxy in (self.proxies[turn % 2], self.proxies[1 - turn % 2]):
            try:
                client = await Client.open(replace(target, port=proxy.port))
            except (OSError, trio.BrokenResourceError):
                continue  # nobody took the request
            try:
                return await client.get()
            except (OSError, Broken, trio.BrokenResourceError):
                if target.method != "GET":
                    return None
            finally:
                await client.aclose()
        return None


def _code(answer: Answer | None) -> str:
    if answer is None:
        return "no answer"
    if answer.status < 300:
        return str(answer.status)
    try:
        told = json.loads(answer.body)
    except ValueError:
        return str(answer.status)
    code = told.get("error_code", "")
    if not code and answer.status == 503:
        # SCIM has no field for our codes.
        code = OutcomeUnknown.code if told.get("detail") == OutcomeUnknown.text else Unavailable.code
    return f"{answer.status} {code}".rstrip()

"""A visitor of every route: each endpoint and each page, one after the other, as an owner of the platform, then as nobody.

Reading, the owner names what is there. Changing, the owner names what nobody has, with a body that says nothing, so that
what the drill counts stays countable.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final
from uuid import UUID

import psycopg
import trio

from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes import ROUTES
from ops.bench.filling.fill import Person
from ops.bench.harness import Server
from ops.bench.inside import bearer, browser_cookie
from ops.bench.load import Answer, Target, fetch

# Between two requests, in seconds: about 20 a second.
PACE: Final = 0.05
PATIENCE: Final = 45.0
NOBODY: Final = str(UUID(int=7))
PAGES: Final = "/ui"
READING: Final = frozenset({"GET", "HEAD"})
# These wait for something on purpose, or answer what they know of the process: 503 is their work.
LEFT_OUT: Final = frozenset({"/health/ready"})
_PARAMETER: Final = re.compile(r"{([a-z_]+)}")
_KNOWN: Final = """
    select (select id from organizations order by id limit 1) as org_id, (select slug from organizations order by id limit 1) as org_slug,
           (select id from services order by id limit 1) as service_id, (select slug from services order by id limit 1) as service_slug,
           (select id from users order by id limit 1) as user_id
"""


@dataclass(frozen=True, slots=True)
class Broke:
    """An answer that no fault excuses, or none."""

    what: str
    code: str
    began: float
    ended: float


@dataclass(slots=True)
class Visitor:
    server: Server
    for_endpoints: dict[str, str]
    for_pages: dict[str, str]
    known: Mapping[str, str]
    routes: Sequence[Endpoint] = field(default_factory=lambda: [one for one in ROUTES if one.path not in LEFT_OUT])
    rounds: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    broke: list[Broke] = field(default_factory=list)

    async def visit(self) -> None:
        """Goes round until it is cancelled."""
        while True:
            for one, known in product(self.routes, (True, False)):
                began = trio.current_time()
                answer = await fetch(self.target(one, known=known), PATIENCE)
                self.note(f"{one.method} {one.path}", began, answer)
                await trio.sleep(PACE)
            self.rounds += 1

    def target(self, one: Endpoint, *, known: bool) -> Target:
        """The request of the owner, or of nobody."""
        reading = one.method in READING
        path = _PARAMETER.sub(lambda found: self.known.get(found[1], NOBODY) if reading else NOBODY, one.path)
        own = self.for_pages if one.path.startswith(PAGES) else self.for_endpoints
        headers = (own if known else {}) | ({} if reading else {"Content-Type": "application/json"})
        target = self.server.target(path, headers)
        return Target(target.host, target.port, path, headers, target.tls, one.method, b"" if reading else b"{}")

    def note(self, what: str, began: float, answer: Answer | None) -> None:
        """503 is what Postern says in an outage; whether there was one then, the drill knows. 501 is said by what is not set up."""
        status = 0 if answer is None else answer.status
        self.answers[status] += 1
        if status == 0 or (status >= 500 and status != 501):
            self.broke.append(Broke(what, str(status or "no answer"), began, trio.current_time()))


async def visitor_of(server: Server, person: Person) -> Visitor:
    """The person becomes an owner of the platform."""
    known = await trio.to_thread.run_sync(_promoted, server.database_url, person)
    cookie = await trio.to_thread.run_sync(browser_cookie, server.database_url, person)
    return Visitor(server, dict(await bearer(server, person)), {"Cookie": cookie, "Accept": "text/html"}, known)


def _promoted(url: str, person: Person) -> Mapping[str, str]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update users set is_platform_owner = true where id = %s", [person.user])
        cursor = connection.execute(_KNOWN)
        names = [column.name for column in cursor.description or ()]
        (row,) = cursor.fetchall()
    known = {name: str(value) for name, value in zip(names, row, strict=True) if value is not None}
    return known | {"slug": known.get("org_slug", NOBODY), "id": known.get("user_id", NOBODY)}

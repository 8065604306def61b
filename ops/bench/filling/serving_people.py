"""Servers with people who can sign in, each with its own database on one PostgreSQL. For comparisons of two trees, or of two settings."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import trio

from ops.bench.harness import DidNotStart, Server, environment_of, serving
from ops.bench.load import Client, Target
from ops.bench.paired import Side, check
from ops.bench.shared_postgres import SharedPostgres

PASSWORD: Final = "a password of ordinary length"  # noqa: S105 - of people made up
PEOPLE: Final = 20_000
ASKING: Final = 1_000
SIGNING_IN: Final = 16
SETTINGS: Final[Mapping[str, str]] = {
    "POSTERN_ARGON2_MEMORY": "8KiB",
    "POSTERN_ARGON2_PASSES": "1",
    "POSTERN_ACCESS_TOKEN_LIFETIME": "24h",
}


@dataclass(frozen=True, slots=True)
class Revised:
    """A tree that is served, and the people in its database."""

    name: str
    server: Server
    side: Side
    emails: Sequence[str]

    @property
    def asked(self) -> Path:
        """The file with the tokens of the signed-in people."""
        return self.server.data_dir / "tokens"


def credentials(one: Revised, emails: Iterable[str]) -> Iterator[Target]:
    target = one.server.target("/api/auth/login")
    return (target.posting({"email": email, "password": PASSWORD}) for email in emails)


async def sign_in_all(one: Revised) -> None:
    """Signs in the first thousand people, and keeps their tokens."""
    lines = []
    async with Client.connected(one.server.target("/")) as client:
        for target in credentials(one, one.emails[:ASKING]):
            answer = await client.ask(target)
            if answer.status != 200:
                raise DidNotStart(f"{one.name}: nobody can sign in: {answer}")
            lines.append(f"Authorization: Bearer {json.loads(answer.body)['access_token']}")
    file = trio.Path(one.asked)
    await file.touch(mode=0o600)
    await file.write_text("\n".join(lines))
    await check(one.name, one.server.target("/api/user"), one.asked, ASKING)


async def serve_people(
    name: str, tree: Path, stack: AsyncExitStack, place: Path, postgres: SharedPostgres, *, more: Mapping[str, str] = MappingProxyType({})
) -> Revised:
    """`more` are further settings."""
    await trio.Path(place).mkdir()
    url = postgres.create(place.name)
    server = await stack.enter_async_context(serving(place, database_url=url, settings={**SETTINGS, **more}, tree=tree))
    given = {"url": url, "settings": dict(server.settings), "password": PASSWORD, "count": PEOPLE}
    done = await trio.run_process(
        [sys.executable, "-c", _FILL], stdin=json.dumps(given).encode(), capture_stdout=True, cwd=tree, env=environment_of(tree)
    )
    await trio.to_thread.run_sync(postgres.settle)
    return Revised(name, server, Side(server.pid, place.name, postgres), json.loads(done.stdout.splitlines()[-1]))


# This program runs in either tree, because each tree has its own tables.
_FILL: Final = """
import json, sys, trio
try:
    from ops.bench.filling.fill import fill
except ModuleNotFoundError:  # an earlier tree
    from ops.bench.fill import fill
from ops.bench.inside import hashed
given = json.load(sys.stdin)
encoded = trio.run(hashed, given["settings"], given["password"])
print(json.dumps([one.email for one in fill(given["url"], given["count"], encoded)]))
"""

"""Every question that an owner of an organization, and an owner of the platform, may ask with nothing but the names of what was filled."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Final

import trio

from ops.bench.alternating import Latencies, Refused, alternate
from ops.bench.cases.tenancy import Asking, ask_all, asking
from ops.bench.harness import DidNotStart, Server
from ops.bench.large.twins import PASSWORD, Twin
from ops.bench.load import Target, fetch
from ops.bench.report import Figure, at_most, complain

_PAIRS: Final = 40
# Paths take their parameters from these.
_KNOWN: Final = {"org_slug": "{slug}", "service_slug": "shop", "user_id": "{end_user}"}
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
# Beside the paths as they stand.
_QUESTIONS: Final = (
    "/api/organizations/{slug}/members?page=2",
    "/api/organizations/{slug}/members?role=admin",
    "/api/organizations/{slug}/members?search=person-1",
    "/api/organizations/{slug}/invitations?status=pending",
    "/api/organizations/{slug}/users?search=person-1",
    "/api/organizations/{slug}/audit-log?action=user.joined",
    "/api/organizations/{slug}/audit-log?target_type=user&target_id={end_user}",
    "/api/organizations/{slug}/audit-log?page=3",
    "/api/platform/organizations?limit=10",
    "/api/platform/organizations?status=active&limit=10",
    "/api/platform/organizations?search=tenant-7&limit=1",
    "/api/platform/users/search?email=tenant-person-7@scale.test&limit=1",
)
# These make a file, read what only the process knows, fill a page in one installation and not in the other, or have a line for each
# organization.
_LEFT_OUT: Final = ("/metrics", "/api/privacy/export/{user_id}", "/api/platform/organizations", "/api/platform/configuration")


async def routes(small: Twin, large: Twin) -> Sequence[Figure]:
    """The latency on one connection each, in blocks that alternate: the owners of ten organizations, and those of five hundred."""
    async with small.served() as few_server, large.served() as many_server:
        few, many = await asking(few_server, small.tenants), await asking(many_server, large.tenants)
        figures: list[Figure] = []
        refused: list[str] = []
        for path in await _paths(few_server):
            if not (await _answers(few, path) and await _answers(many, path)):
                refused.append(path)
                continue
            await ask_all(_of(many, path), len(many.tenants))
            figures += _told(path, await _compared(_of(many, path), _of(few, path)))
        figures += _told("POST /api/auth/login", await _compared(_signing_in(many), _signing_in(few)))
    complain(f"not 200, or not to be asked by these people: {', '.join(refused)}")
    return figures


async def _paths(server: Server) -> Sequence[str]:
    answer = await fetch(server.target("/openapi.json"))
    if answer is None or answer.status != 200:
        raise DidNotStart(f"there is no document of the interface: {answer}")
    found = [path for path, of in json.loads(answer.body)["paths"].items() if "get" in of and path not in _LEFT_OUT]
    known = [path for path in found if set(_PARAMETER.findall(path)) <= set(_KNOWN)]
    return [*(_PARAMETER.sub(lambda name: _KNOWN[name[1]], path) for path in known), *_QUESTIONS]


async def _answers(asker: Asking, path: str) -> bool:
    answer = await fetch(next(_of(asker, path)))
    return answer is not None and answer.status == 200


def _of(asker: Asking, path: str) -> Iterator[Target]:
    """The first one owns the platform, too."""
    if path.startswith("/api/platform"):
        return cycle([asker.first(path)])
    return asker.endless(path)


def _signing_in(asker: Asking) -> Iterator[Target]:
    target = asker.server.target("/api/auth/login")
    return cycle([target.posting({"email": one.owner.email, "password": PASSWORD}) for one in asker.tenants])


async def _compared(many: Iterator[Target], few: Iterator[Target]) -> Latencies | Refused:
    try:
        return await trio.to_thread.run_sync(alternate, many, few, _PAIRS)
    except Refused as refused:
        return refused


def _told(path: str, found: Latencies | Refused) -> Sequence[Figure]:
    if isinstance(found, Refused):
        return [Figure(f"{path}: refused {found}", 1, bar=at_most(0))]
    complain(f"{path}: {found.ratio:.3f}")
    return [Figure(f"{path}: large against small", found.ratio, bar=at_most(1.2), beside=_beside(found))]


def _beside(found: Latencies) -> str:
    return f"{found.first * 1e3:.2f} ms against {found.second * 1e3:.2f} ms"

"""The console's pages beside 10, 10 000 and 100 000 other organizations: how long the slowest of twenty takes, and what a page costs."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import trio

from ops.bench.furnished import ASKING, SIZES, House, house_of
from ops.bench.harness import DidNotStart, Options, directory
from ops.bench.inside import browser_cookie
from ops.bench.load import fetch
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres

_PAGES: Final[Mapping[str, str]] = {
    "overview": "",
    "members": "/people",
    "members, searched": "/people?search=1",
    "end users": "/people/users",
    "teams": "/people/teams",
    "applications": "/applications",
    "audit log": "/audit-log",
    "search": "/search?q=1",
}
_LOOKS: Final = 100
_LONGEST: Final = 60.0
"""Milliseconds."""


async def console(options: Options) -> Sequence[Figure]:  # noqa: ARG001 - every case takes the options
    """The pages of one organization's console, loaded one after the other by its owner, in a small and in large installations."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        houses = [await house_of(stack, postgres, members=ASKING, others=size) for size in SIZES]
        cookies = [await trio.to_thread.run_sync(browser_cookie, house.server.database_url, house.persons[0]) for house in houses]
        for name, path in _PAGES.items():
            complain(f"console: {name} …")
            first = 0.0
            for house, cookie, size in zip(houses, cookies, SIZES, strict=True):
                taken = await _times(house, cookie, path)
                middle, late = taken[len(taken) // 2], taken[len(taken) * 95 // 100]
                first = first or middle
                figures.append(Figure(f"{name}, {size} organizations: 95 of 100 within", late, "ms", bar=at_most(_LONGEST)))
                figures.append(Figure(f"{name}, {size} organizations: against {SIZES[0]}", middle / first, bar=at_most(1.2)))
    return figures


async def _times(house: House, cookie: str, path: str) -> Sequence[float]:
    taken = []
    target = house.server.target(f"/ui/o/{house.furnished.slug}{path}", {"Cookie": cookie, "Accept": "text/html"})
    for _ in range(_LOOKS):
        began = time.perf_counter()
        answer = await fetch(target)
        taken.append((time.perf_counter() - began) * 1000)
        if answer is None or answer.status != 200:
            raise DidNotStart(f"the page {path} does not come: {answer}")
    return sorted(taken)

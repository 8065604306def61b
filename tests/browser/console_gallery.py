"""The console's pages for pictures: each page as the owner of an organization with everything sees it, and each list of an organization
that has nothing yet; beside them, the owner's own pages. They come from the application and a database of their own, so a new page needs
nothing here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import migrate
from core.domain.languages import Language
from core.frozen import Frozen
from entrypoints.http.machinery.endpoints import parameters
from tests.browser.settings import of_ones_own, own_address
from tests.http.browsing import Tabs
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.security.organizations.console import COOKIE, OF_ORGANIZATION, address, pages_of, shown_in_windows, signed_in
from tests.security.organizations.world import World

CONSOLE: Final = "console"
OWN: Final = "own"
# In place of the names that tests look for.
_NAMES: Final = (
    "update all_organizations set name = initcap(slug) || ' Metals'",
    "update users set name = initcap(split_part(split_part(email, '@', 1), '-', 1)) || ' Lovelace'",
)


class ConsolePage(Frozen):
    """A page that was answered, as a state of the gallery."""

    name: str
    contents: Mapping[Language, bytes]

    def page(self, language: Language) -> bytes:
        """The page in a language in which it was asked for."""
        return self.contents[language]


async def console_pages(languages: Sequence[Language], directory: Path, is_wanted: Callable[[str], bool]) -> Sequence[ConsolePage]:
    """The pages whose names are wanted. No other is asked for."""
    # A line for each request would hide the list of the pictures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with EmbeddedPostgres(directory / "postgres") as server:
        url = server.url("postgres")
        await migrate(url, lambda _: None)
        async with postern_on(url, directory) as postern:
            await with_keys(postern)
            with People(postern, url) as people:
                world, tenants = World(postern, people), Tenants(postern, people)
                for statement in _NAMES:
                    people.change(statement)
                client = unlimited(postern)
                owner, newcomer, governor = (Tabs(client) for _ in range(3))
                owner.cookies[COOKIE] = signed_in(postern, people, world.ada)
                founder = tenants.member(tenants.add("empty", name="Nothing Yet"), "owner")
                newcomer.cookies[COOKIE] = signed_in(postern, people, founder)
                governor.cookies[COOKIE] = signed_in(postern, people, world.governor)
                asked = [
                    *[(owner, one, address(one, world, world.asked), "") for one in shown_in_windows()],
                    *[
                        (newcomer, one, one.path.format(org_slug="empty"), " of nothing")
                        for one in pages_of("GET")
                        if parameters(one.path) == ("org_slug",) and "~" not in one.path
                    ],
                    *[(governor, one, address(one, world, world.asked), "") for one in pages_of("GET", organization=False)],
                ]
                named = [
                    *((f"{CONSOLE}{of}: {one.path.removeprefix(OF_ORGANIZATION) or '/'}", tabs, at) for tabs, one, at, of in asked),
                    *((f"{OWN}: {one.path}", owner, own_address(one, {})) for one in of_ones_own()),
                ]
                answered = [
                    ConsolePage(name=name, contents={language: await _asked(tabs, at, language) for language in languages})
                    for name, tabs, at in named
                    if is_wanted(name)
                ]
    # The forms of a record are shown on the record's page, at their own addresses, too.
    return list({page.page(languages[0]): page for page in reversed(answered)}.values())[::-1]


async def _asked(tabs: Tabs, at: str, language: Language) -> bytes:
    tabs.language = language.value
    answer = await tabs.request("GET", at)
    if onward := answer.header("location"):
        answer = await tabs.request("GET", onward)
    return answer.body

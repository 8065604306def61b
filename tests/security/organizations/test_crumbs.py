"""The crumbs of the console's pages: each names a thing as people call it, never by a part of its address."""

import re
from typing import Final

from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.organizations.console import Readers, address, shown_in_windows
from tests.security.organizations.world import World

database_url, postern, people = http.database_url, http.postern, http.people

_CRUMBS: Final = re.compile(r'<nav class="crumbs".*?</nav>', re.DOTALL)
_NAME: Final = re.compile(r"<bdi>(.*?)</bdi>")
_TITLE: Final = re.compile(r"<h1[^>]*>(.*?)</h1>")
_NAMED: Final = ("services", "service_roles", "teams", "webhooks", "upstream_providers")
# A permission has no name but its key, and a secret none but its beginning.
_OF_PROGRAMS: Final = ("/permissions/", "/secrets/")


async def test_crumbs_and_titles_carry_names(postern: Postern, people: People) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    for table in _NAMED:
        people.change(f"update {table} set name = 'Called ' || name")
    found: set[str] = set()
    faults = []
    for one in shown_in_windows():
        at = address(one, world, world.asked)
        body = (await readers.owner.tabs.request("GET", at)).body.decode()
        said = [name.replace("<wbr>", "") for part in _CRUMBS.findall(body) for name in _NAME.findall(part)]
        found |= {name for name in said if name.startswith("Called ")}
        parts = set(at.split("?", maxsplit=1)[0].split("/"))
        faults += [f"{at}: the crumb {name}" for name in said if name in parts and not any(part in at for part in _OF_PROGRAMS)]
        if (
            "/applications/" in at
            and "~new" not in at.partition("/applications/")[2].split("/")[0]
            and "Called " not in "".join(_TITLE.findall(body))
        ):
            faults.append(f"{at}: without the application's name")
    assert faults == [], "\n".join(faults)
    # The name of an application heads its pages, and no crumb says it again. What a person lets an agent do is called by the agent.
    assert len(found - {"Called Helper"}) == len(_NAMED) - 1, found

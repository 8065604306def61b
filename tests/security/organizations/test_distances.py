"""The jobs of an owner, in clicks and fields from the overview. The links are counted on the pages themselves, and the presses and fields
of the last page are named here. `tests/browser/console/test_jobs.py` does the jobs in Chromium, those of platform owners too.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final
from urllib.parse import urldefrag

from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageReader
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.organizations.console import FILES, OF_ORGANIZATION, Readers, address, pages_of
from tests.security.organizations.world import World

database_url, postern, people = http.database_url, http.postern, http.people

MOST: Final = 9
_HOME: Final = "GET /ui/o/{org_slug}"
_APPLICATION: Final = f"{_HOME}/applications/{{service_slug}}"


class Job(Frozen):
    page: str
    there: int
    """The presses and fields on that page, and on those behind its forms."""


JOBS: Final[Mapping[str, Job]] = {
    "invite thirty people": Job(page=f"{_HOME}/people/invitations/~new", there=2),
    "why Ada cannot sign in": Job(page=f"{_HOME}/people/{{user_id}}", there=0),
    "a second client secret": Job(page=f"{_APPLICATION}/secrets/~new", there=1),
    "the end of the old one": Job(page=f"{_APPLICATION}/secrets/{{client_secret_id}}/end", there=1),
    "who signed in to an application, as a file": Job(page=f"{_HOME}/sign-ins", there=3),
    "a team": Job(page=f"{_HOME}/people/teams/~new", there=2),
    "a person in a team": Job(page=f"{_HOME}/people/teams/{{team_slug}}/members", there=2),
    "a role for a team in an application": Job(page=f"{_APPLICATION}/assignments/~new", there=3),
    "a directory, as a draft": Job(page=f"{_HOME}/directories/~new", there=4),
    "a mail domain": Job(page=f"{_HOME}/directories/domains/~new", there=3),
    "a token for SCIM": Job(page=f"{_HOME}/directories/scim/~new", there=2),
    "the end of one person's sessions": Job(page=f"{_HOME}/people/{{user_id}}/end-sessions", there=1),
    "a logo": Job(page=f"{_HOME}/settings/looks", there=2),
    "one entry of the audit log": Job(page=f"{_HOME}/audit-log/{{entry_id}}", there=0),
    "a delivery sent again": Job(page=f"{_HOME}/events/{{webhook_id}}/deliveries/{{delivery_id}}", there=1),
    "another owner": Job(page=f"{_HOME}/settings/danger/transfer", there=3),
    "a key for machines": Job(page=f"{_HOME}/keys/~new", there=4),
    "a claim of one's own": Job(page=f"{_APPLICATION}/claims/~new", there=4),
    "a test sign-in": Job(page=f"{_APPLICATION}/test-sign-in", there=3),
    "the end of an application": Job(page=f"{_APPLICATION}/settings/end", there=2),
    "passkeys for administrators": Job(page=f"{_HOME}/sign-in", there=3),
    "a changed setting put back": Job(page=f"{_HOME}/settings", there=1),
    "a thing by its name": Job(page=_HOME, there=2),
    "what ends soon": Job(page=f"{_HOME}/ends-soon", there=0),
}


async def _clicks(tabs: Tabs, home: str) -> Mapping[str, int]:
    """Of each page of the organization, how many links away it is."""
    found = {home: 0}
    ahead = deque([home])
    while ahead:
        at = ahead.popleft()
        page = PageReader((await tabs.request("GET", at)).body)
        for link in page.links:
            to = urldefrag(link).url
            if to.startswith(f"{home}/") and to not in found and not to.partition("?")[0].endswith(FILES):
                found[to] = found[at] + 1
                ahead.append(to)
    return found


async def test_no_job_takes_more_than_nine_clicks_and_fields(postern: Postern, people: People) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    pages = {str(one): one for one in pages_of("GET")}
    found = await _clicks(readers.owner.tabs, OF_ORGANIZATION.format(org_slug=world.asked.slug))
    by_page = {to.partition("?")[0]: 99 for to in found}
    for to, clicks in found.items():
        by_page[to.partition("?")[0]] = min(by_page[to.partition("?")[0]], clicks)
    counted = {name: by_page.get(address(pages[job.page], world, world.asked), 99) + job.there for name, job in JOBS.items()}
    assert {name: count for name, count in counted.items() if count > MOST} == {}, counted

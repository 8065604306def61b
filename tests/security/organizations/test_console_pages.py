"""All pages and forms of the console: each person sees the pages and does what the rules of the endpoints say, nobody sees or changes
anything of another organization, and forms that are foreign, out of date or sent twice are harmless.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urldefrag

import pytest

from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.organizations.console import ACTING, COOKIE, PARTS, Reader, Readers, address, pages_of
from tests.security.organizations.test_several_organizations import among_others
from tests.security.organizations.walk import named_in
from tests.security.organizations.world import FIRST, LAST, NOBODYS, World

database_url, postern, people = http.database_url, http.postern, http.people

# Times in words, which differ from moment to moment. A mail has some, too, and so has its file.
_MOMENTS: Final = re.compile(rb'<time[^>]*>[^<]*</time>|\d\d:\d\d Uhr UTC|data:text/html;[^"]*')
# Words in the addresses of forms that end something, so that they are sent after all others.
_ENDS: Final = ("/end", "/remove", "/cancel", "/decline", "/danger", "/delete")
# Where the page of an earlier address stands now.
_MOVED: Final[Mapping[str, str | tuple[str, ...]]] = {
    # The first that the reader may open.
    "GET /ui/o/{org_slug}/settings/brand": ("/settings/looks", "/settings/languages"),
    "GET /ui/o/{org_slug}/settings/danger": "/settings",
    "GET /ui/o/{org_slug}/sign-in/change": "/sign-in",
    "GET /ui/o/{org_slug}/sign-in/change/undo": "/sign-in",
}
_OF_END_USER: Final = "GET /ui/o/{org_slug}/people/users/{user_id}"
# Forms that no page shows in the state of the world, each with the reason.
NOT_SHOWN: Final[Mapping[str, str]] = {
    # tests/http/pages/console/events presses these.
    **{f"POST /ui/o/{{org_slug}}/events/hooks/{act}": "the hook of the walk has no secret" for act in ("count", "try")},
    "POST /ui/o/{org_slug}/search": "it stands in the frame of each page (`test_asking.py`)",
    "POST /ui/o/{org_slug}/search/suggestions": "the script of the search sends it, while somebody types",
    # tests/http/pages/console/applications/test_first_sign_in.py presses it.
    "POST /ui/o/{org_slug}/applications/{service_slug}/first-sign-in/address": "nobody of the walk waits, and nothing was refused",
    "POST /ui/o/{org_slug}/applications/{service_slug}/saml-certificate": "the next certificate is there already",
    "POST /ui/o/{org_slug}/apis/{resource_id}/ask-approval": "the API has asked already",
    "POST /ui/o/{org_slug}/directories/{provider_id}/activate": "the walk opens a provider that is active",
    "POST /ui/o/{org_slug}/directories/{provider_id}/saml": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/ldap": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/run": "only a directory by LDAP keeps in step",
    # tests/http/pages/console/settings/test_directory_run_pages.py presses these, and test_risk_page.py the last one.
    **{
        f"POST /ui/o/{{org_slug}}/directories/{{provider_id}}/runs/{{run_id}}/{act}": "no run of the walk names anybody"
        for act in ("take-over", "keep", "end")
    },
    "POST /ui/o/{org_slug}/sign-in/risk/act": "the organization has no rule",
    "POST /ui/o/{org_slug}/directories/{provider_id}/connection/metadata": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/connection/certificate": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/certificates/{fingerprint}/approve": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/certificates/{fingerprint}/decline": "the walk opens a provider of OpenID Connect",
    "POST /ui/o/{org_slug}/directories/{provider_id}/certificates/former": "the walk opens a provider of OpenID Connect",
    # tests/http/pages/console/settings/test_proposals.py presses it.
    "POST /ui/o/{org_slug}/settings/proposals/{proposal_id}/apply": "the digest of the walk's proposal is that of no plan",
    **{
        f"POST /ui/o/{{org_slug}}/settings/looks/{picture}/remove": "the organization names no such picture"
        for picture in ("logo", "dark-logo", "favicon", "background")
    },
    "POST /ui/o/{org_slug}/applications/{service_slug}/logo/remove": "the application names no logo",
    **{
        f"POST /ui/o/{{org_slug}}/applications/{{service_slug}}/people-there/{act}": "the connection outwards of the walk is a draft"
        for act in ("run", "stop")
    },
    "POST /ui/o/{org_slug}/settings/billing": "there is no payment provider here",
    **{str(one): "it stands there for ten minutes after a change" for one in CONSOLE if one.path.endswith("/undo")},
}
# The menu names the reader's own organizations, to change between them. Lines for a framework have a new secret each time.
_ORGANIZATIONS: Final = re.compile(rb'<details class="menu place".*?</details>|[0-9a-f]{64}', re.DOTALL)
# Forms whose refusal has a status of 500, as that of their endpoint: there is no payment provider here.
WITHOUT_PROVIDER: Final = ("/settings/billing",)


class SentForm(Frozen):
    """A form that a page has shown to the owner."""

    action: str
    shown_on: str
    fields: Mapping[str, Any]
    with_file: bool


class ConsoleWalk:
    def __init__(self, world: World, people: People, postern: Postern) -> None:
        self.world = world
        self.people = people
        self.readers = Readers(world, people, postern, unlimited(postern))

    def at(self, one: Endpoint, **instead: str) -> str:
        return address(one, self.world, self.world.asked, **instead)

    async def forms(self) -> Mapping[str, SentForm]:
        """The forms on all pages that the owner sees, by their actions."""
        found: dict[str, SentForm] = {}
        for one in pages_of("GET"):
            at = self.at(one)
            page = PageReader((await self.readers.owner.tabs.request("GET", at)).body)
            for form in page.forms:
                action = urldefrag(form.action).url
                if action.startswith("/ui/o/") and "form_token" in form.fields:
                    found.setdefault(action, SentForm(action=action, shown_on=at, fields=form.fields, with_file=form.with_file))
        return dict(sorted(found.items(), key=lambda item: (any(word in item[0] for word in _ENDS), item[0].count("/"), item[0])))

    def changes(self, before: Iterable[Any]) -> set[str]:
        """The tables with rows that were added, changed or removed since, without the record of what an impersonator does."""
        return {table for table, _, _ in frozenset(before) ^ self.world.rows()}


@pytest.fixture
def walk(postern: Postern, people: People, log: CapturedLog) -> ConsoleWalk:  # noqa: ARG001 - it fails for what the walk logs as an error
    return ConsoleWalk(World(postern, people), people, postern)


# The installation of the walk has no hook.
_WITHOUT_HOOK: Final = {
    *("GET /ui/platform/hooks/count", "GET /ui/platform/hooks/exchanges", "GET /ui/platform/hooks/exchanges/{question_id}"),
}


def is_shown(one: Endpoint, answer: Received) -> bool:
    """Whether a page answers a reader who is admitted: itself, or the page that asks for a fresh proof first."""
    if str(one) in _WITHOUT_HOOK:
        return answer.status == 404
    location = answer.header("location") or ""
    return answer.status == 200 or (one.step_up is not None and answer.status == 303 and location.startswith("/ui/prove?"))


def leads_on(one: Endpoint, answer: Received) -> bool:
    """Whether a page of a person as an end user leads to the page of the same person as a member, or an earlier address to its page."""
    location = answer.header("location") or ""
    if str(one) in _MOVED and answer.status == 303:
        return location.startswith("/ui/o/") and location.endswith(_MOVED[str(one)])
    return (
        str(one) == _OF_END_USER and answer.status == 303 and re.fullmatch(r"/ui/o/[a-z0-9-]+/people/[0-9a-f-]{36}", location) is not None
    )


def is_page(answer: Received) -> bool:
    """Whether this is a page, and neither a redirect nor a file."""
    return answer.status == 200 and (answer.header("content-type") or "").startswith("text/html")


async def test_each_reader_sees_the_pages_that_the_rules_of_their_endpoints_admit(walk: ConsoleWalk) -> None:
    wrong: list[str] = []
    # A part of a page stands in one that says who acts.
    shown_whole = [one for one in CONSOLE if not one.path.endswith(PARTS)]
    for reader in walk.readers.all:
        for one in [*pages_of("GET"), *pages_of("GET", organization=False)]:
            answer = await reader.tabs.request("GET", walk.at(one))
            if reader.is_admitted(one):
                if not is_shown(one, answer) and not leads_on(one, answer):
                    wrong.append(f"{reader.name} should see {one}: {answer.status} {answer.header('location')}")
                elif reader.is_impersonated and one in shown_whole and is_page(answer) and b'class="acting"' not in answer.body:
                    wrong.append(f"{one} does not say who acts")
            elif answer.status != 403:
                wrong.append(f"{reader.name} should not see {one}: {answer.status}")
    nobody = Tabs(walk.readers.owner.tabs.client)
    for one in CONSOLE:
        answer = await nobody.request(one.method, walk.at(one), {} if one.method == "POST" else None)
        if (answer.status, (answer.header("location") or "")[:15]) != (303, "/ui/sign-in?to="):
            wrong.append(f"{one} for nobody: {answer.status}")
    assert wrong == [], "\n".join(wrong)


async def test_a_page_leads_its_reader_only_to_pages_that_are_there_for_the_reader(walk: ConsoleWalk) -> None:
    wrong: list[str] = []
    home = f"/ui/o/{walk.world.asked.slug}"
    for reader in walk.readers.all:
        links: dict[str, str] = {}
        for one in pages_of("GET"):
            if reader.is_admitted(one):
                at = walk.at(one)
                page = PageReader((await reader.tabs.request("GET", at)).body)
                links |= {link: at for link in page.links if link.startswith(home) and link not in links}
        for link, at in links.items():
            answer = await reader.tabs.request("GET", link)
            if (answer.header("location") or "").startswith(f"{home}/people/"):
                answer = await reader.tabs.request("GET", answer.header("location") or "")
            if answer.status != 200 and not (answer.header("location") or "").startswith("/ui/prove?"):
                wrong.append(f"{reader.name}: {at} leads to {link}: {answer.status}")
    assert wrong == [], "\n".join(wrong)


async def test_a_page_is_as_if_there_were_no_other_organization(walk: ConsoleWalk) -> None:
    pages = pages_of("GET")
    readers = [walk.readers.owner, walk.readers.admin, walk.readers.member]

    async def bodies() -> dict[tuple[str, str], bytes]:
        return {
            (reader.name, str(one)): _ORGANIZATIONS.sub(b"", _MOMENTS.sub(b"", (await reader.tabs.request("GET", walk.at(one))).body))
            for reader in readers
            for one in pages
        }

    among = await bodies()
    others = [other.encode() for other in (FIRST, LAST, *walk.world.ids_of_others())]
    assert [(where, other) for where, body in among.items() for other in others if other in body] == []
    walk.world.without_others()
    alone = await bodies()
    assert [where for where in among if among[where] != alone[where]] == []


# What the log says of a person, whoever it is: of whom it does not name, it says nothing (`tests/security/receivers`).
_OF_ANYBODY = "/ui/o/{org_slug}/audit-log/~offboarding/{user_id}"


async def test_what_another_organization_has_is_nothing_here(walk: ConsoleWalk) -> None:
    """With the ids of another organization in the address, a page is not found, and a form changes nothing."""
    wrong: list[str] = []
    owner, before = walk.readers.owner, walk.world.rows()
    token = token_of(owner)
    first = walk.world.others[0]
    for one in CONSOLE:
        names = [name for name in parameters(one.path) if name != "org_slug"]
        if not names or "org_slug" not in parameters(one.path):
            continue
        if one.path.startswith(_OF_ANYBODY):
            continue
        instead = foreign(walk, names[-1])
        if instead is None:
            continue
        answer = await owner.tabs.request(one.method, walk.at(one, **instead), {"form_token": token} if one.method == "POST" else None)
        if one.method == "GET" and answer.status != 404 and not (answer.header("location") or "").startswith("/ui/prove?"):
            wrong.append(f"{one} with {instead}: {answer.status}")
        if answer.status >= 500 or first.slug.encode() in answer.body:
            wrong.append(f"{one} with {instead}: {answer.status}")
    assert wrong == [], "\n".join(wrong)
    assert walk.changes(before) <= {"sessions"}


def foreign(walk: ConsoleWalk, name: str) -> Mapping[str, str] | None:
    """The parameter with something of the first organization. None if the name names the same thing everywhere."""
    here, there = named_in(walk.world, walk.world.asked), named_in(walk.world, walk.world.others[0])
    if name == "user_id":
        return {name: there["member"]}
    if name not in here or here[name] == there[name]:
        return None
    return {name: there[name]}


def token_of(reader: Reader) -> str:
    if reader.is_impersonated:
        return form_token(Token(reader.tabs.cookies[ACTING]), "acting")
    return form_token(Token(reader.tabs.cookies[COOKIE]), "session")


async def test_every_form_is_shown_somewhere(walk: ConsoleWalk) -> None:
    shown = await walk.forms()
    posts = {walk.at(one): str(one) for one in pages_of("POST")}
    assert {page for at, page in posts.items() if at not in shown} - set(NOT_SHOWN) == set()


async def test_a_form_without_its_token_or_with_anothers_or_of_a_lesser_person_does_nothing(walk: ConsoleWalk) -> None:
    forms = await walk.forms()
    pages = {walk.at(one): one for one in pages_of("POST")}
    owner, before = walk.readers.owner, walk.world.rows()
    wrong: list[str] = []
    of_member = (await walk.readers.member.tabs.tab().open("/ui")).page.forms[0].fields["form_token"]

    async def send(reader: Reader, form: SentForm, status: int = 403, **more: str) -> None:
        fields = {name: value for name, value in form.fields.items() if name != "form_token"}
        answer = await reader.tabs.request("POST", form.action, {**fields, **more}, with_file=form.with_file)
        if answer.status != status:
            wrong.append(f"{form.action} by {reader.name} with {more}: {answer.status}")

    for form in forms.values():
        await send(owner, form)
        await send(owner, form, form_token=token_of(walk.readers.member))
        # The whole token of another account's page is told apart.
        await send(owner, form, 409, form_token=of_member)
        await send(walk.readers.stranger, form, form_token=token_of(owner))
        for reader in walk.readers.all:
            if form.action in pages and not reader.is_admitted(pages[form.action]):
                await send(reader, form, form_token=token_of(reader))
    assert wrong == [], "\n".join(wrong)
    # What somebody tries in another person's name is in the audit log.
    assert walk.changes(before) <= {"audit_entries", "audit_personal", "audit_pending", "sessions", "events", "jobs"}
    assert among_others(walk.world, before ^ walk.world.rows()) == []


async def test_forms_that_are_sent_twice_and_after_the_thing_is_gone_are_harmless(walk: ConsoleWalk, log: CapturedLog) -> None:
    log.allow("request_failed")
    forms, owner, before = await walk.forms(), walk.readers.owner, walk.world.rows()
    wrong: list[str] = []
    for time in ("first", "again", "when all is over"):
        for form in forms.values():
            for again in ("", " twice") if time == "first" else ("",):
                answer = await owner.tabs.request("POST", form.action, form.fields, with_file=form.with_file)
                if answer.status >= 500 and not form.action.endswith(WITHOUT_PROVIDER):
                    wrong.append(f"{form.action} {time}{again}: {answer.status}")
    assert wrong == [], "\n".join(wrong)
    changed = before ^ walk.world.rows()
    assert among_others(walk.world, changed) == []
    # Something has happened, so the comparison can fail.
    assert {table for table, _, _ in changed} - NOBODYS

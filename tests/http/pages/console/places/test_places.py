"""The places of the console: what stands in the side list and in the tabs, for whom; the addresses that people have kept; and the words
by which pages are found, of before among them.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from adapters.texts import shipped
from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.navigation import ConsolePlace, Tab
from entrypoints.http.console.organization import organization_tabs as of_organization
from entrypoints.http.console.organization.organization_tabs import ORGANIZATION
from entrypoints.http.console.platform import platform_tabs as of_platform
from entrypoints.http.console.platform.platform_tabs import PLATFORM
from tests.http.browsing import Tabs
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.places import PAGES
from tests.security.organizations.console import Readers, address, pages_of
from tests.security.organizations.world import World

MOST_ENTRIES: Final = 9
MOST_TABS: Final = 5
# An entry, and its tabs where it has more than one.
Place = Mapping[str, Sequence[str]]
OF_OWNER: Final[Sequence[Place]] = (
    {
        "Overview": ("Overview", "Expiring soon"),
        "People": ("Members", "End users", "Invitations", "Teams", "Roles"),
        "Applications": ("Applications", "APIs"),
    },
    {
        "Identity providers": ("Providers", "Social providers", "Directory sync (SCIM)", "Domains", "Setup links"),
        "Security": ("Sign-in rules", "Risk policies", "Sign-in hook", "Rate-limited emails"),
    },
    {
        "Logs": ("Sign-ins", "Audit log", "Log streams (SIEM)", "Offboarding deadline"),
        "Developers": ("Webhooks", "Management API keys", "Trusted issuers"),
        "Branding": ("Branding", "Custom text", "Languages", "Custom domain", "Email server"),
        "Settings": ("General", "Profile fields", "Terms of service", "Billing", "Configuration files"),
    },
)
# Billing is for the owner in person.
OF_ADMIN: Final[Sequence[Place]] = (
    *OF_OWNER[:2],
    {**OF_OWNER[2], "Settings": ("General", "Profile fields", "Terms of service", "Configuration files")},
)
OF_MEMBER: Final[Sequence[Place]] = (
    {"Overview": (), "People": ("Members", "End users", "Teams", "Roles"), "Applications": ("Applications", "APIs")},
    {"Logs": (), "Developers": (), "Branding": (), "Settings": ()},
)
OF_AUDITOR: Final[Sequence[Place]] = (
    {"Overview": (), "People": ()},
    {"Logs": ("Sign-ins", "Audit log"), "Branding": (), "Settings": ()},
)
OF_PLATFORM: Final[Sequence[Place]] = (
    {
        "Overview": ("Overview", "Expiring soon"),
        "Organizations": ("Organizations", "Approvals", "Tiers"),
        "People": ("People", "Platform owners", "MFA status", "Profile fields"),
    },
    {
        "Social providers": (),
        "Security": ("Risk policies", "Sign-in hook", "Rate-limited emails"),
        "Branding": ("Default text", "Terms of service"),
    },
    {
        "System": ("Health", "Failed jobs", "Signing keys", "Management API keys"),
        "Audit log": (),
        "Configuration": ("Effective settings", "Configuration files"),
    },
)
# What leads to further pages, in the order of the page.
LEADS: Final[Mapping[ConsolePlace, Mapping[Tab, tuple[Tab, ...]]]] = {
    ORGANIZATION: {
        of_organization.INVITATIONS_TAB: (of_organization.REQUESTS_TAB,),
        of_organization.GENERAL_TAB: (of_organization.TRANSFER_TAB, of_organization.DELETE_TAB),
        of_organization.DOCUMENTS_TAB: (of_organization.PROPOSALS_TAB,),
    },
    PLATFORM: {of_platform.APPROVALS_TAB: (of_platform.TEXT_APPROVALS_TAB,)},
}
# All addresses of pages from before the places moved. People have kept them, and documents of others name them.
KEPT: Final = Path(__file__).with_name("addresses.txt").read_text().split()
# The pages that are gone: two had nothing but links, one was the form that is now five.
_GONE: Final = {
    "/ui/o/{org_slug}/settings/danger": "/ui/o/{org_slug}/settings",
    "/ui/o/{org_slug}/settings/brand": "/ui/o/{org_slug}/settings/looks",
    "/ui/o/{org_slug}/sign-in/change": "/ui/o/{org_slug}/sign-in",
    "/ui/o/{org_slug}/sign-in/change/undo": "/ui/o/{org_slug}/sign-in",
}
# By the address of a page and the language: what the page, its tab and its entry were called before.
FORMER: Final[Mapping[str, Mapping[str, Sequence[str]]]] = tomllib.loads(
    Path(__file__).with_name("former_names.toml").read_text(encoding="utf-8")
)
_SIDE: Final = re.compile(r'<nav class="side".*?</nav>', re.DOTALL)
_TABS: Final = re.compile(r'<nav class="tabs".*?</nav>', re.DOTALL)
_LIST: Final = re.compile(r"<ul.*?</ul>", re.DOTALL)
_LINK: Final = re.compile(r'<a href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
_DRAWING: Final = re.compile(r"<svg.*?</svg>|<span.*</span>", re.DOTALL)


async def _places(tabs: Tabs, home: str) -> Sequence[Place]:
    """What somebody sees: by the groups of the side list, its entries with the tabs on the page that each leads to."""

    async def tabs_at(where: str) -> Sequence[str]:
        answer = await tabs.request("GET", where)
        assert answer.status == 200, where
        return [label for part in _TABS.findall(answer.body.decode()) for _, label in _links(part)]

    body = (await tabs.request("GET", home)).body.decode()
    (side,) = _SIDE.findall(body)
    return [{label: tuple(await tabs_at(where)) for where, label in _links(group)} for group in _LIST.findall(side)]


def _links(part: str) -> Sequence[tuple[str, str]]:
    return [(unescape(where), unescape(_DRAWING.sub("", label)).strip()) for where, label in _LINK.findall(part)]


async def test_each_person_sees_the_places_that_they_may_open(postern: Postern, people: People) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    home = f"/ui/o/{world.asked.slug}"
    for reader, seen in (
        (readers.owner, OF_OWNER),
        (readers.admin, OF_ADMIN),
        (readers.acting, OF_ADMIN),
        (readers.member, OF_MEMBER),
        (readers.auditor, OF_AUDITOR),
    ):
        assert await _places(reader.tabs, home) == list(seen), reader.name
    assert await _places(readers.governor.tabs, "/ui/platform") == list(OF_PLATFORM)


@pytest.mark.parametrize("place", [ORGANIZATION, PLATFORM], ids=["organization", "platform"])
def test_a_place_has_nine_entries_of_five_tabs_at_most(place: ConsolePlace) -> None:
    entries = [entry for _, group in place.groups for entry in group]
    assert len(entries) == MOST_ENTRIES
    assert all(len(entry.tabs) <= MOST_TABS for entry in entries)
    led = {tab: tab.beneath for entry in entries for tab in entry.tabs if tab.beneath}
    assert led == LEADS[place]


async def test_each_address_of_before_leads_to_its_page(postern: Postern, people: People) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    pages = {one.path: one for organization in (True, False) for one in pages_of("GET", organization=organization)}
    assert set(KEPT) - set(pages) == set()
    faults = []
    for path in KEPT:
        one = pages[path]
        tabs = readers.owner.tabs if "{org_slug}" in path else readers.governor.tabs
        at = address(one, world, world.asked)
        answer = await tabs.request("GET", at)
        if path in _GONE:
            onward = answer.header("location") or ""
            assert onward == _GONE[path].format(org_slug=world.asked.slug)
            answer = await tabs.request("GET", onward)
        if (answer.header("location") or "").startswith(("/ui/prove?", f"/ui/o/{world.asked.slug}/people/")):
            continue
        if answer.status != 200:
            faults.append(f"{at}: {answer.status} {answer.header('location')}")
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_page_of_a_place_has_words_beside_its_title(language: Language) -> None:
    texts = shipped(language, PAGES)
    for place in (ORGANIZATION, PLATFORM):
        for tab in (tab for _, group in place.groups for entry in group for tab in entry.pages):
            assert texts[tab.title]
            said = [word.strip() for word in texts[tab.words].split(",")]
            assert len(said) > 1, tab
            assert all(said), tab
            assert len(said) == len({one.casefold() for one in said}), tab


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_a_page_has_its_former_names_among_its_words(language: Language) -> None:
    texts = shipped(language, PAGES)
    pages = {tab.at: tab for place in (ORGANIZATION, PLATFORM) for _, group in place.groups for entry in group for tab in entry.pages}
    assert set(FORMER) <= set(pages)
    for at, names in FORMER.items():
        words = [word.strip().casefold() for word in texts[pages[at].words].split(",")]
        assert [name for name in names.get(language, ()) if name.casefold() not in words] == [], at


async def test_a_search_finds_a_page_by_what_it_was_called(console: ConsoleScene) -> None:
    for sought, where in (
        ("own provider accounts", "/sign-in/providers"),
        ("transfer and delete", "/settings/danger/delete"),
        ("two factor", "/sign-in"),
        ("smtp", "/settings/mail-server"),
    ):
        assert f"/ui/o/acme{where}" in (await console.asks(sought)).page.links, sought
    member = await console.asks("smtp", console.colleague())
    assert "/ui/o/acme/settings/mail-server" not in member.page.links


async def test_the_former_page_about_branding_leads_to_the_first_page_that_its_reader_may_open(console: ConsoleScene) -> None:
    former = "/ui/o/acme/settings/brand"
    owner = await console.tabs.request("GET", former)
    assert (owner.status, owner.header("location")) == (303, "/ui/o/acme/settings/looks")
    member = await console.colleague().tabs.request("GET", former)
    assert (member.status, member.header("location")) == (303, "/ui/o/acme/settings/languages")
    _, stranger = console.stranger()
    assert (await stranger.open(former)).status == 403


async def test_a_tab_leads_to_the_pages_beneath_it(console: ConsoleScene) -> None:
    for tab, beneath in (("people/invitations", "people/requests"), ("settings/documents", "settings/proposals")):
        above, below = f"/ui/o/acme/{tab}", f"/ui/o/acme/{beneath}"
        for reader in (console.tab, console.colleague("admin")):
            assert below in (await reader.open(above)).page.links
            assert above in (await reader.open(below)).page.links
        member = console.colleague()
        assert [(await member.open(one)).status for one in (above, below)] == [403, 403]


async def test_the_menu_of_general_leads_to_the_ends(console: ConsoleScene) -> None:
    settings = "/ui/o/acme/settings"
    ends = {f"{settings}/danger/transfer", f"{settings}/danger/delete"}
    assert ends <= set((await console.at("/settings")).page.links)
    admin = await console.colleague("admin").open(settings)
    assert not ends & set(admin.page.links)
    # The owner of an organization that waits for its approval deletes it, and cannot hand it over.
    console.people.change("update organizations set status = 'pending'")
    assert ends & set((await console.at("/settings")).page.links) == {f"{settings}/danger/delete"}
    assert (await console.at("/settings/danger")).place == settings
    # The owners of the installation alone delete one that is suspended.
    console.people.change("update organizations set status = 'suspended'")
    assert not ends & set((await console.at("/settings")).page.links)

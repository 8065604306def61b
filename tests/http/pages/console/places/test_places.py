"""The places of the console: what stands in the side list and in the tabs, for whom; the addresses that people have kept; and the words
by which pages are found, of before among them.
"""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from adapters.texts import shipped
from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.console.navigation import ConsolePlace, Tab
from entrypoints.http.pages.console.organization import organization_tabs as of_organization
from entrypoints.http.pages.console.organization.organization_tabs import ORGANIZATION
from entrypoints.http.pages.console.platform import platform_tabs as of_platform
from entrypoints.http.pages.console.platform.platform_tabs import PLATFORM
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
        "People": ("Members", "Invitations", "Requests", "Teams", "Roles"),
        "Applications": ("Applications", "End users", "APIs"),
    },
    {
        "Identity providers": ("Providers", "Domains", "SCIM", "Setup links"),
        "Signing in": ("Sign-ins", "Sign-in rules", "Risk policies", "Rate-limited emails", "Social providers"),
        "Events": ("Webhooks", "SIEM", "Sign-in hook"),
    },
    {
        "Keys": ("Keys", "Trusted issuers"),
        "Audit log": (),
        "Settings": ("General", "Branding", "Fields", "Terms", "Billing"),
    },
)
# Billing is for the owner in person.
OF_ADMIN: Final[Sequence[Place]] = (*OF_OWNER[:2], {**OF_OWNER[2], "Settings": ("General", "Branding", "Fields", "Terms")})
OF_MEMBER: Final[Sequence[Place]] = (
    {"Overview": (), "People": ("Members", "Teams", "Roles"), "Applications": ("Applications", "End users", "APIs")},
    {"Signing in": ()},
    {"Keys": (), "Settings": ("Branding", "Fields")},
)
OF_AUDITOR: Final[Sequence[Place]] = (
    {"Overview": (), "People": ()},
    {"Signing in": ()},
    {"Audit log": (), "Settings": ("Branding", "Fields")},
)
OF_PLATFORM: Final[Sequence[Place]] = (
    {
        "Overview": ("Overview", "Expiring soon", "Jobs", "Rate-limited emails"),
        "Organizations": ("Organizations", "APIs", "Tiers"),
        "People": ("People", "Platform owners", "MFA status", "Fields"),
    },
    {"Social providers": (), "Risk policies": (), "Branding": ("Texts", "Approvals", "Terms")},
    {"System": ("Health", "Signing keys", "Keys", "Sign-in hook"), "Audit log": (), "Settings": ("Settings", "Configuration files")},
)
# What leads to further pages, in the order of the page.
LEADS: Final[Mapping[Tab, tuple[Tab, ...]]] = {
    of_organization.GENERAL_TAB: (
        of_organization.DOCUMENTS_TAB,
        of_organization.PROPOSALS_TAB,
        of_organization.TRANSFER_TAB,
        of_organization.DELETE_TAB,
    ),
    of_organization.BRAND_TAB: (
        of_organization.LOOKS_TAB,
        of_organization.TEXTS_TAB,
        of_organization.LANGUAGES_TAB,
        of_organization.DOMAIN_TAB,
        of_organization.MAIL_SERVER_TAB,
    ),
}
# All addresses of pages from before the places moved. People have kept them, and documents of others name them.
KEPT: Final = Path(__file__).with_name("addresses.txt").read_text().split()
# The pages that are gone: one had nothing but two links, one was the form that is now five.
_GONE: Final = {
    "/ui/o/{org_slug}/settings/danger": "/ui/o/{org_slug}/settings",
    "/ui/o/{org_slug}/sign-in/change": "/ui/o/{org_slug}/sign-in",
    "/ui/o/{org_slug}/sign-in/change/undo": "/ui/o/{org_slug}/sign-in",
}
# The name of a page of before, or of the entry that it stood in, in the languages of the console.
_EN, _DE, _ES, _FR = (Language(one) for one in ("en", "de", "es", "fr"))
BEFORE: Final[Mapping[Tab, Sequence[Mapping[Language, str]]]] = {
    of_organization.REQUESTS_TAB: (
        {_EN: "Join requests", _DE: "Beitrittsanfragen", _ES: "Solicitudes de ingreso", _FR: "Demandes d’adhésion"},  # noqa: RUF001 - as it stands there
    ),
    of_organization.DOMAINS_TAB: ({_EN: "Email domains", _DE: "E-Mail-Domains", _ES: "Dominios de correo", _FR: "Domaines de messagerie"},),
    of_organization.KEYS_TAB: ({_EN: "Management API keys", _DE: "Verwaltungs-API-Schlüssel", _ES: "Claves de API de administración", _FR: "Accès d’API"},),  # noqa: RUF001 - as it stands there
    of_organization.CREDENTIALS_TAB: (
        {
            _EN: "Own provider accounts",
            _DE: "Eigene Konten bei Anbietern",
            _ES: "Cuentas propias en proveedores",
            _FR: "Comptes propres chez les fournisseurs",
        },
    ),
    **dict.fromkeys(
        (of_organization.TRANSFER_TAB, of_organization.DELETE_TAB),
        ({_EN: "Transfer and delete", _DE: "Übergeben und löschen", _ES: "Transferir y eliminar", _FR: "Transférer et supprimer"},),
    ),
    **dict.fromkeys(
        (of_organization.END_USERS_TAB, of_organization.FIELDS_TAB), ({_EN: "People", _DE: "Personen", _ES: "Personas", _FR: "Personnes"},)
    ),
    **dict.fromkeys(
        (of_organization.SIGN_INS_TAB, of_organization.EXPIRIES_TAB, of_platform.HEALTH_TAB),
        ({_EN: "Overview", _DE: "Übersicht", _ES: "Resumen", _FR: "Aperçu"},),
    ),
    **dict.fromkeys(
        (*LEADS[of_organization.BRAND_TAB], of_organization.PROPOSALS_TAB, of_platform.TERMS_TAB),
        ({_EN: "Settings", _DE: "Einstellungen", _ES: "Configuración", _FR: "Paramètres"},),
    ),
    of_organization.DOCUMENTS_TAB: (
        {
            _EN: "Configuration files",
            _DE: "Konfigurationsdateien",
            _ES: "Archivos de configuración",
            _FR: "Fichiers de configuration",
        },
        {_EN: "Settings", _DE: "Einstellungen", _ES: "Configuración", _FR: "Paramètres"},
    ),
    of_platform.JOBS_TAB: ({_EN: "Failed jobs", _DE: "Fehlgeschlagene Aufträge", _ES: "Tareas fallidas", _FR: "Tâches échouées"},),
    of_platform.OWNERS_TAB: (
        {_EN: "Platform owners", _DE: "Plattforminhaber", _ES: "Propietarios de la plataforma", _FR: "Propriétaires de la plateforme"},
    ),
    of_platform.KEYS_TAB: ({_EN: "Management API keys", _DE: "Verwaltungs-API-Schlüssel", _ES: "Claves de API de administración", _FR: "Accès d’API"},),  # noqa: RUF001 - as it stands there
    of_platform.SETTINGS_TAB: (
        {_EN: "Effective settings", _DE: "Wirksame Einstellungen", _ES: "Configuración efectiva", _FR: "Paramètres effectifs"},
    ),
    of_platform.TEXT_APPROVALS_TAB: (
        {_EN: "Custom text", _DE: "Eigene Texte", _ES: "Textos personalizados", _FR: "Textes personnalisés"},
        {_EN: "Organizations", _DE: "Organisationen", _ES: "Organizaciones", _FR: "Organisations"},
    ),
}
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
    assert led == (LEADS if place is ORGANIZATION else {})


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
def test_a_page_that_has_moved_is_called_as_before(language: Language) -> None:
    texts = shipped(language, PAGES)
    for tab, names in BEFORE.items():
        words = [word.strip().casefold() for word in texts[tab.words].split(",")]
        for name in names:
            assert name[language].casefold() in words, (tab.title, words)


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


async def test_brand_leads_to_what_its_reader_may_open(console: ConsoleScene) -> None:
    parts = ("looks", "texts", "languages", "domain", "mail-server")
    tab = await console.at("/settings/brand")
    assert [one for one in tab.page.links if one in {f"/ui/o/acme/settings/{part}" for part in parts}] == [
        f"/ui/o/acme/settings/{part}" for part in parts
    ]
    for part in parts:
        assert "/ui/o/acme/settings/brand" in (await console.at(f"/settings/{part}")).page.links
    member = await console.colleague().open("/ui/o/acme/settings/brand")
    assert [part for part in parts if f"/ui/o/acme/settings/{part}" in member.page.links] == ["languages"]
    _, stranger = console.stranger()
    assert (await stranger.open("/ui/o/acme/settings/brand")).status == 403


async def test_general_leads_to_documents_and_proposals_and_its_menu_to_the_ends(console: ConsoleScene) -> None:
    settings = "/ui/o/acme/settings"
    shown = {f"{settings}/documents", f"{settings}/proposals"}
    ends = {f"{settings}/danger/transfer", f"{settings}/danger/delete"}
    assert shown | ends <= set((await console.at("/settings")).page.links)
    admin = await console.colleague("admin").open(settings)
    assert shown <= set(admin.page.links)
    assert not ends & set(admin.page.links)
    # The owner of an organization that waits for its approval deletes it, and cannot hand it over.
    console.people.change("update organizations set status = 'pending'")
    assert ends & set((await console.at("/settings")).page.links) == {f"{settings}/danger/delete"}
    assert (await console.at("/settings/danger")).place == settings
    # The owners of the installation alone delete one that is suspended.
    console.people.change("update organizations set status = 'suspended'")
    assert not ends & set((await console.at("/settings")).page.links)

"""All pages of the console in Chromium, in the world of three organizations and in an organization that has nothing yet: axe-core finds
nothing, nothing is wider than the window, nothing comes from elsewhere, and pages stay light.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest

from core.domain.languages import Language
from core.domain.record.event_types import WEBHOOK_EVENTS
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import NARROW, WIDE, Page, new_page
from tests.browser.checks import EVERY, console_findings, contrast_findings, require_keyboard
from tests.browser.conftest import ADDRESS
from tests.browser.settings import FORTY, SETTINGS, Setting, of_ones_own, own_address, settings_of
from tests.http.browsing import Tabs
from tests.http.people import BASE_URL, People
from tests.http.running_server import Certificate, running
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.runs.rooms import Sweep
from tests.security.organizations.console import COOKIE, OF_ORGANIZATION, Readers, address, pages_of, shown_in_windows, signed_in
from tests.security.organizations.walk import named_in
from tests.security.organizations.world import World
from tests.words import private_phrases

NARROWEST: Final = 320
LAPTOP: Final = 1024
# Of a page that is 390 pixels wide.
EARLIEST: Final = 300
MOST_TABS: Final = 5
IN_ALL_SETTINGS: Final = 40
# Pages of one's own that show something, in the settings in which they are visited.
LEAST_OF_ONES_OWN: Final = 60
OK: Final = 200
# A page of the console with its stylesheets, scripts and pictures, uncompressed. The heaviest one lists all events.
MOST_BYTES: Final = 120 << 10
_ASSET: Final = re.compile(r'(?:href|src)="/assets/(\w+)/([\w.-]+)"')
_ASSETS: Final = re.compile(rb'="/assets/(\w+)/([\w.-]+)"')
_DAYS: Final = "Mon Tue Wed Thu Fri Sat Sun January February March April May June July August September October November December"
# A number that counts as one or as many also chooses between two words.
_DRAWN: Final = re.compile(
    rb"[\w-]*\d[\w.:-]*|[\w-]{20,}|<time\b.*?</time>|<text\b.*?</text>|\b(?:" + "|".join(_DAYS.split()).encode() + rb")\w*|\bs\b", re.DOTALL
)
# As long as names may be, in one word and from right to left.
LONG: Final = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
FROM_THE_RIGHT: Final = "شركة ياسمين للتجارة الدولية"
NAMES: Final = (LONG, FROM_THE_RIGHT)


class Town(Frozen):
    """The world, and a page in the browser of somebody in it."""

    world: World
    people: People
    postern: Postern
    page: Page

    def owner(self) -> Tabs:
        """The owner in a browser that only loads."""
        tabs = Tabs(unlimited(self.postern))
        tabs.cookies[COOKIE] = signed_in(self.postern, self.people, self.world.ada)
        return tabs

    async def enter(self, cookie: str) -> None:
        await self.page.keep_cookie(COOKIE, cookie)

    def pages(self) -> Mapping[str, str]:
        """The pages by their addresses, each by a name that is the same in the next world."""
        return {address(one, self.world, self.world.asked): one.path for one in shown_in_windows()}


@pytest.fixture
async def town(postern: Postern, people: People, chromium: Chromium, certificate: Certificate) -> AsyncIterator[Town]:
    world = World(postern, people)
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key, drain=0)
    async with (
        running(unlimited(postern).application, settings, address=ADDRESS),
        new_page(chromium, BASE_URL, scripts=True) as page,
    ):
        yield Town(world=world, people=people, postern=postern, page=page)


async def faults_at(page: Page, at: str, number: int, *, named: str = "", narrow_only: bool = False) -> list[str]:
    """What is wrong with the page at this address, in its settings (`settings_of`)."""
    found: list[str] = []
    if narrow_only:
        await page.show(width=NARROWEST)
        await page.open(at)
    else:
        for setting in settings_of(named, number):
            found += [f"{setting.name}: {one}" for one in await _faults_in(setting, page, at)]
        # Tables stand beside the menu here, and have the least room.
        await page.show(width=LAPTOP)
        found += [f"{LAPTOP}: {one}" for one in await page._probe("untidy")]
        await page.show(width=NARROWEST, scheme="dark")
        # The colours of all pages are the same, and have a test (`test_look.py`).
        if number % 4 == 0:
            found += await contrast_findings(page)
    if await page.overflow():
        found.append(f"the page is wider than {NARROWEST} pixels")
    found += [f"{probe}: {one}" for probe in ("torn", "collided") for one in await page._probe(probe)]
    return [f"{at}: {one}" for one in found]


async def _faults_in(setting: Setting, page: Page, at: str) -> list[str]:
    await setting.show(page)
    await page.open(at)
    found = [*await console_findings(page), *await page._probe("untidy")]
    return [*found, "the page is wider than its window"] if await page.overflow() else found


def looks_of(body: bytes) -> bytes:
    """What tells one look of a page from another: its words, its structure, and the digests of its styles and scripts. Ids, figures, tokens
    and days are others in each world.
    """
    return b"".join([*(digest for digest, _ in _ASSETS.findall(body)), _DRAWN.sub(b"*", body)])


def weight_of(body: bytes) -> int:
    """The bytes of a page and of all that it loads."""
    assets = {shipped_pages().asset(*found) for found in _ASSET.findall(body.decode())}
    contents = [asset[0] for asset in assets if asset is not None]
    assert not any(b"@font-face" in content for content in contents)
    return len(body) + sum(map(len, contents))


async def test_every_page_of_an_organization_with_everything_is_sound_and_light(town: Town, sweep: Sweep) -> None:
    owner = town.owner()
    await town.enter(owner.cookies[COOKIE])
    faults: list[str] = []
    seen: set[bytes] = set()
    for number, (at, named) in enumerate(town.pages().items()):
        body = (await owner.request("GET", at)).body
        if (weight := weight_of(body)) > MOST_BYTES:
            faults.append(f"{at}: {weight} bytes")
        faults += [f"{at}: {one}" for one in private_phrases(body)]
        # The forms of a record are shown on the record's page, at their own addresses, too.
        if body not in seen and sweep.is_due(f"everything {named}", looks_of(body)):
            faults += await faults_at(town.page, at, number, named=named)
        seen.add(body)
    assert faults == [], "\n".join(faults)
    assert town.page.violations == []


async def test_every_page_of_the_installation_is_sound_and_light(town: Town, sweep: Sweep) -> None:
    """A page may look at things that the world lacks, such as a job that was given up: it then says so, as any page does."""
    governor = Tabs(unlimited(town.postern))
    governor.cookies[COOKIE] = signed_in(town.postern, town.people, town.world.governor)
    # What strangers do.
    town.people.change(
        "insert into guess_alerts (id, type, network, family, marks, failures, first_at, last_at)"
        " select gen_random_uuid(), type, network, 'firefox', 63, 12345, now(), now()"
        " from (values ('one_password_over_many_accounts', null), ('many_accounts_from_one_network', '2001:db8:1234:5600::/56'))"
        " as made (type, network)"
    )
    await town.enter(governor.cookies[COOKIE])
    assert b"2001:db8:1234:5600::/56" in (await governor.request("GET", "/ui/platform/people/second-factors")).body
    faults: list[str] = []
    seen: set[bytes] = set()
    of_platform = [one for one in pages_of("GET", organization=False) if one.path.startswith("/ui/platform")]
    assert of_platform
    for number, one in enumerate(of_platform):
        at = address(one, town.world, town.world.asked)
        body = (await governor.request("GET", at)).body
        if (weight := weight_of(body)) > MOST_BYTES:
            faults.append(f"{at}: {weight} bytes")
        faults += [f"{at}: {one}" for one in private_phrases(body)]
        if body and body not in seen and sweep.is_due(f"installation {one.path}", looks_of(body)):
            # The addresses of a database and of a proxy have an @, too, and may break anywhere.
            mailless = ("torn: postgresql://", "torn: http://user:password@")
            found = await faults_at(town.page, at, number, named=one.path)
            faults += [fault for fault in found if not any(one in fault for one in mailless)]
        seen.add(body)
    assert faults == [], "\n".join(faults)
    assert town.page.violations == []


async def test_every_page_of_an_organization_with_nothing_is_sound(town: Town, sweep: Sweep) -> None:
    tenants = Tenants(town.postern, town.people)
    owner = Tabs(unlimited(town.postern))
    owner.cookies[COOKIE] = signed_in(town.postern, town.people, tenants.member(tenants.add("empty", name="Empty"), "owner"))
    await town.enter(owner.cookies[COOKIE])
    faults: list[str] = []
    # Forms of things are the same as where there is something.
    empty = [one for one in pages_of("GET") if parameters(one.path) == ("org_slug",) and "~" not in one.path]
    for number, one in enumerate(empty):
        at = one.path.format(org_slug="empty")
        body = (await owner.request("GET", at)).body
        faults += [f"{at}: {one}" for one in private_phrases(body)]
        # The forty are visited in each setting where there is something.
        if sweep.is_due(f"nothing {one.path}", looks_of(body)):
            faults += await faults_at(town.page, at, number)
    assert faults == [], "\n".join(faults)
    assert town.page.violations == []


async def test_every_page_of_ones_own_is_sound(town: Town, sweep: Sweep) -> None:
    """What a page of a way through several pages says in each state is visited as such (`test_states.py`)."""
    town.people.give_passkey(town.world.ada)
    (passkey,) = town.people.rows("select id from passkeys where user_id = %s", town.world.ada.user)
    named = {**named_in(town.world, town.world.asked), "passkey_id": str(passkey["id"]), "session_id": str(town.world.ada.session)}
    browsers = {one.language: Tabs(unlimited(town.postern), language=one.language.value) for one in SETTINGS}
    cookie = signed_in(town.postern, town.people, town.world.ada)
    await town.enter(cookie)
    faults: list[str] = []
    seen: set[bytes] = set()
    shown = 0
    for number, one in enumerate(of_ones_own()):
        at = own_address(one, named)
        for setting in settings_of(one.path, number):
            browser = browsers[setting.language]
            browser.cookies[COOKIE] = cookie
            answer = await browser.request("GET", at)
            shown += answer.status == OK
            if setting.language is Language.ENGLISH:
                faults += [f"{at}: {one}" for one in private_phrases(answer.body)]
            looks = looks_of(answer.body)
            first = one.path in FORTY or looks not in seen
            seen.add(looks)
            if answer.body and first and sweep.is_due(f"own {one.path} {setting.name}", looks):
                faults += [f"{at}: {setting.name}: {fault}" for fault in await _faults_in(setting, town.page, at)]
    assert faults == [], "\n".join(faults)
    assert shown >= LEAST_OF_ONES_OWN
    assert town.page.violations == []


def test_forty_handlers_are_visited_in_every_setting() -> None:
    handlers = {*(one.path for one in shown_in_windows()), *(one.path for one in pages_of("GET", organization=False))}
    assert len(FORTY) == IN_ALL_SETTINGS
    assert FORTY - handlers - {one.path for one in of_ones_own()} == set()


@pytest.mark.parametrize("name", NAMES, ids=["long", "from the right"])
async def test_names_fit_into_the_narrowest_window(town: Town, name: str, sweep: Sweep) -> None:
    rename(town.people, name)
    owner = town.owner()
    await town.enter(owner.cookies[COOKIE])
    faults: list[str] = []
    # Each page under one of the names; `make check-all` visits it under both.
    for number, (at, named) in enumerate(town.pages().items()):
        its_own = EVERY or NAMES[number % len(NAMES)] == name
        if its_own and sweep.is_due(f"{name[:7]} {named}", looks_of((await owner.request("GET", at)).body)):
            faults += await faults_at(town.page, at, number, narrow_only=True)
    assert faults == [], "\n".join(faults)
    assert town.page.violations == []


def rename(people: People, name: str) -> None:
    """Gives everything that people name this name, with a number where names must differ."""
    for row in people.rows(
        """
        select relname, attname
          from pg_attribute
          join pg_class on pg_class.oid = attrelid and relkind = 'r' and relnamespace = 'public'::regnamespace
         where attnum > 0 and not attisdropped and atttypid = 'text'::regtype
           and attname in ('name', 'label', 'description', 'display_name')
           and relname <> all ('{tiers,schema_migrations,events,jobs,server_secrets}')
        """
    ):
        table, column = row["relname"], row["attname"]
        people.change(
            f"update {table} as one set {column} = %s || ' ' || number from (select ctid, row_number() over () as number from {table}) as n"
            f" where n.ctid = one.ctid",
            name,
        )


# Where the content of a page begins, below its title, its tabs and the crumbs within a tab.
BEGINNING: Final = """(() => {
  const above = [...document.querySelector('#content').children].filter(one => one.matches('.head, .tabs, .crumbs, h2.unseen'))
  return above.at(-1).nextElementSibling.getBoundingClientRect().top
})()"""
# The order of the title and the tabs, and the rows that the tabs take.
ORDER: Final = (
    "[...document.querySelectorAll('#content > .crumbs, #content > .head, #content > .tabs')].map(one => one.className).join(' ')"
)
ROWS: Final = "new Set([...document.querySelectorAll('.tabs li')].map(one => Math.round(one.getBoundingClientRect().top))).size"


async def test_the_content_begins_early_on_a_narrow_page_and_below_the_name(town: Town) -> None:
    await town.enter(signed_in(town.postern, town.people, town.world.ada))
    page, ids = town.page, town.world.asked.ids
    home = OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    (shop, *_) = town.people.rows(
        "select services.slug from services join organizations on organizations.id = org_id where organizations.slug = %s",
        town.world.asked.slug,
    )
    one = f"{home}/applications/{shop['slug']}"
    faults: list[str] = []
    await page.show(width=NARROW)
    for at, order in {
        home: "head tabs",
        f"{home}/people": "head tabs",
        f"{home}/people/invitations": "head tabs",
        f"{home}/people/teams/~new": "crumbs head",
        f"{home}/settings": "head tabs",
        f"{home}/events/{ids['webhooks']}": "crumbs head",
        one: "crumbs head tabs",
        f"{one}/access": "crumbs head tabs",
        f"{one}/sign-in": "crumbs head tabs",
        f"{one}/roles": "crumbs head tabs crumbs head",
    }.items():
        await page.open(at)
        if (begins := await page.evaluate(BEGINNING)) > EARLIEST:
            faults.append(f"{at}: begins at {begins}")
        if (found := await page.evaluate(ORDER)) != order:
            faults.append(f"{at}: {found}")
        if "tabs" in order and await page.evaluate(ROWS) != 1:
            faults.append(f"{at}: its tabs take several rows")
    assert faults == [], "\n".join(faults)
    await page.open(one)
    assert await page.evaluate("document.querySelectorAll('.tabs li').length") == MOST_TABS


async def test_ten_thousand_people_take_a_page_of_fifty(town: Town) -> None:
    town.people.change(
        """
        with made as (
          insert into users (id, email, email_key, name)
          select gen_random_uuid(), 'p' || n || '@many.example', 'p' || n || '@many.example', 'Person ' || n
            from generate_series(1, 10000) as n
          returning id
        )
        insert into memberships (id, org_id, user_id, role, created_at, own_since)
        select gen_random_uuid(), %s, id, 'member', now(), now() from made
        """,
        town.world.asked.tenant.id,
    )
    owner = town.owner()
    await town.enter(owner.cookies[COOKIE])
    home = OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    faults: list[str] = []
    for number, at in enumerate((home, f"{home}/people", f"{home}/people?page=2", f"{home}/search?q=p1")):
        faults += await faults_at(town.page, at, number)
        if (weight := weight_of((await owner.request("GET", at)).body)) > MOST_BYTES:
            faults.append(f"{at}: {weight} bytes")
    assert faults == [], "\n".join(faults)
    await town.page.open(f"{home}/people")
    assert await town.page.evaluate("document.querySelectorAll('tbody tr').length") == 50
    assert town.page.violations == []


async def test_pages_of_each_kind_are_reached_and_sent_with_the_keyboard(town: Town) -> None:
    await town.enter(signed_in(town.postern, town.people, town.world.ada))
    home, ids = OF_ORGANIZATION.format(org_slug=town.world.asked.slug), town.world.asked.ids
    webhook = f"{home}/events/{ids['webhooks']}"
    for at in (home, f"{home}/people", f"{home}/events/~new", webhook, f"{webhook}/end", f"{home}/directories/scim/settings"):
        await town.page.open(at)
        await require_keyboard(town.page)


async def test_pages_of_refusals_are_sound(town: Town) -> None:
    """A lesser role, another organization, nothing at the address, a wrong form, a form that came too late, and somebody else's name."""
    home, ids = OF_ORGANIZATION.format(org_slug=town.world.asked.slug), town.world.asked.ids
    page = town.page
    faults: list[str] = []
    readers = Readers(town.world, town.people, town.postern, unlimited(town.postern))
    for reader, at in (
        (readers.member, f"{home}/events"),
        (readers.stranger, f"{home}/people"),
        (readers.owner, f"{home}/events/none"),
        (readers.acting, f"{home}/people"),
        (readers.member, home),
    ):
        await town.enter(reader.tabs.cookies[COOKIE])
        faults += await faults_at(page, at, len(faults))
    await town.enter(readers.owner.tabs.cookies[COOKIE])
    await page.show(width=WIDE)
    await page.open(f"{home}/events/~new")
    await page.follow("Add webhook")
    faults += await console_findings(page)
    await page.open(f"{home}/events/{ids['webhooks']}/change")
    town.people.change("update webhooks set name = 'Moved on' where id = %s", ids["webhooks"])
    await page.fill("Name", "Mine")
    await page.follow("Save")
    assert page.status == 409
    faults += await console_findings(page)
    await page.show(width=NARROWEST)
    assert await page.overflow() == 0
    assert faults == [], "\n".join(faults)
    assert page.violations == []


async def test_the_tick_of_a_group_follows_its_events_and_they_follow_it(town: Town) -> None:
    owner = town.owner()
    await town.enter(owner.cookies[COOKIE])
    home, ids = OF_ORGANIZATION.format(org_slug=town.world.asked.slug), town.world.asked.ids
    page = town.page
    # The heaviest webhook gets every event.
    every = "{" + ",".join(one.name for one in WEBHOOK_EVENTS) + "}"
    town.people.change("update webhooks set events = %s where id = %s", every, ids["webhooks"])
    faults: list[str] = []
    for number, at in enumerate((f"{home}/events/~new", f"{home}/events/{ids['webhooks']}")):
        weight = weight_of((await owner.request("GET", at)).body)
        faults += [f"{at}: {weight} bytes"] if weight > MOST_BYTES else []
        faults += await faults_at(page, at, number)
    assert faults == [], "\n".join(faults)
    await page.show(width=WIDE)
    await page.open(f"{home}/events/~new")
    group = "[...document.querySelectorAll('fieldset.group')].find(one => one.querySelector('legend').textContent === 'Teams')"
    states = f"[...{group}.querySelectorAll('input')].map(one => one.checked)"
    await page.evaluate(f"{group}.querySelector('[data-all]').click()")
    assert set(await page.evaluate(states)) == {True}
    await page.evaluate(f"{group}.querySelector('input:not([data-all])').click()")
    assert (await page.evaluate(states))[:3] == [False, False, True]
    await page.evaluate(f"{group}.querySelector('input:not([data-all])').click()")
    assert set(await page.evaluate(states)) == {True}
    assert page.violations == []


async def test_what_belongs_to_a_choice_shows_while_it_is_chosen(town: Town) -> None:
    owner = town.owner()
    await town.enter(owner.cookies[COOKIE])
    home = OF_ORGANIZATION.format(org_slug=town.world.asked.slug)
    page = town.page
    visible = (
        "[...document.querySelectorAll('.card > .field')].filter(one => one.checkVisibility()).map(one => one.querySelector('[name]').name)"
    )
    choose = "document.querySelector('[type=radio][value=\"{}\"]').click()"
    faults: list[str] = []
    (shop,) = town.people.rows(
        "select services.slug from services join organizations on organizations.id = org_id where organizations.slug = %s limit 1",
        town.world.asked.slug,
    )
    for number, (at, choice, its) in enumerate(
        (
            (f"{home}/applications/{shop['slug']}/claims/~new", "constant", ["argument__constant"]),
            (f"{home}/directories/~new", "oidc", ["issuer", "client_id", "client_secret"]),
            (f"{home}/people/fields/~new", "list", ["rule__choices__list", "rule__max_items", "rule__max_length__list"]),
        )
    ):
        faults += await faults_at(page, at, number)
        assert await page.evaluate(visible) == []
        await page.evaluate(choose.format(choice))
        assert await page.evaluate(visible) == its
        faults += await console_findings(page)
        await require_keyboard(page)
    assert faults == [], "\n".join(faults)
    assert page.violations == []


# Resolves once there are suggestions.
_SUGGESTED: Final = """new Promise(done => {
  const look = () => document.querySelector('.suggested:not([hidden]) a') ? done(true) : setTimeout(look, 20);
  look();
})"""


async def test_a_key_leads_to_the_search_of_each_place(town: Town) -> None:
    for person, home in ((town.world.ada, OF_ORGANIZATION.format(org_slug=town.world.asked.slug)), (town.world.governor, "/ui/platform")):
        await town.enter(signed_in(town.postern, town.people, person))
        await town.page.open(home)
        await town.page.press("/")
        assert await town.page.evaluate("document.activeElement.name") == "q"
        await town.page.evaluate("document.activeElement.blur()")
        await town.page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true}))")
        assert await town.page.evaluate("document.activeElement.name") == "q"
        # In the field, the key is a letter.
        await town.page.press("/")
        await town.page.type("globex")
        assert await town.page.evaluate("document.activeElement.value") == "/globex"
        await town.page.evaluate("document.activeElement.value = ''")
        await town.page.type("setti")
        # Suggestions come while one types. The arrows lead to them, and Escape out of the dialog, where what was typed stays.
        await town.page.evaluate(_SUGGESTED)
        await town.page.press("Down")
        assert "etting" in await town.page.evaluate("document.activeElement.textContent")
        await town.page.press("Escape")
        assert await town.page.evaluate("document.querySelector('.suggested').hidden")
        assert not await town.page.evaluate("document.querySelector('dialog.ask').open")
        await town.page.press("/")
        await town.page.press("Enter")
        # What was typed stands in no address.
        await town.page.arrived(f"{BASE_URL}{home}/search")
        assert "Settings" in await town.page.text()
        assert town.page.violations == []


async def test_what_is_done_with_several_rows_shows_once_one_is_ticked(town: Town) -> None:
    await town.enter(signed_in(town.postern, town.people, town.world.ada))
    page = town.page
    shown = "document.querySelector('.rows > .buttons').checkVisibility()"
    await page.show(width=NARROW)
    await page.open(f"{OF_ORGANIZATION.format(org_slug=town.world.asked.slug)}/people")
    assert await page.evaluate(shown) is False
    await page.evaluate("document.querySelector('.pick input:not([disabled])').click()")
    assert await page.evaluate(shown) is True
    assert await page.evaluate("document.querySelector('.rows > .buttons').getBoundingClientRect().bottom <= innerHeight") is True
    assert await console_findings(page) == []

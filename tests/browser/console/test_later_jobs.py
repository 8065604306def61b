"""The jobs of administrators that came later: what people meet, terms, approvals, refusals, accounts. As in `test_jobs.py`, each is done by
clicks and typing in Chromium. Those with products beside Postern have files of their own.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from core.domain.secrets import Password
from ops.browser.page import WIDE, new_page
from tests.browser.checks import enter
from tests.browser.console.bars import clicked, too_long
from tests.browser.console.clicking import CountedClicks
from tests.browser.test_console import Town, town
from tests.http.browsing import Tabs
from tests.http.federation.arriving import AUTHORIZE, CHALLENGE
from tests.http.people import BASE_URL, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.security.organizations.console import signed_in

__all__ = ["town"]  # a fixture
HOME: Final = "/ui/o/globex"
PLATFORM: Final = "/ui/platform"
Job = Callable[[CountedClicks, Town], Awaitable[None]]
OF_OWNERS: Final[dict[str, Job]] = {}
OF_PLATFORM: Final[dict[str, Job]] = {}


def job(name: str, among: dict[str, Job] = OF_OWNERS) -> Callable[[Job], Job]:
    def declared(done: Job) -> Job:
        among[name] = done
        return done

    return declared


@job("a webhook")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Developers")
    await one.press("Add webhook")
    await one.type("Name", "Shop floor")
    await one.type("URL", "https://floor.example/events")
    await one.pick("Teams 0/5")
    await one.pick("All of these")
    await one.press("Add webhook")
    await one.reads("Webhook signing secret", "Copy this value now")


@job("limits of sessions")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Security")
    await one.press("Edit: Sessions")
    await one.type("Session lifetime (hours)", "12")
    await one.press("Continue")
    await one.press("Edit session rules")
    await one.reads("Session lifetime: 12 hours.")


@job("requests from afar")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Security")
    await one.press("Edit: AI agents and dynamic clients")
    await one.choose("Backchannel authentication (CIBA)", "On, for members")
    await one.press("Continue")
    await one.press("Edit rules for agents and clients")
    await one.reads("can ask members to approve requests on another device")


@job("texts in English and German")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Branding")
    await one.press("Custom text")
    await one.type("Footer", "Globex, Berlin")
    await one.press("Save")
    await one.reads("Globex, Berlin")
    await one.press("Deutsch")
    await one.type("Footer", "Globex, Berlin, Deutschland")
    await one.press("Save")
    await one.reads("Globex, Berlin, Deutschland")


@job("colours and corners")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Branding")
    await one.type("Primary color", "#a01040")
    await one.choose("Corner radius", "Square")
    await one.press("Save")
    await one.reads("Preview")
    assert await one.page.evaluate("document.querySelector('[name=primary_color]').value") == "#a01040"


@job("terms published, and accepted")
async def _(one: CountedClicks, town: Town) -> None:
    await one.press("Settings")
    await one.press("Terms of service")
    await one.type("Version", "2026-11")
    await one.type("URL", "https://globex.example/terms")
    await one.type_moment("Accept by", f"{datetime.now(UTC) + timedelta(days=30):%m%d%Y}\t1200A")
    await one.press("Save")
    await one.reads("2026-11")
    # The next sign-in to an application asks.
    async with new_page(town.page.chromium, BASE_URL, scripts=True) as one.page:
        await one.page.open(asking(town))
        await enter(one.page, {"Email address": town.world.bob.email})
        await enter(one.page, {"Password": PASSWORD})
        async with one.page.loading():
            await one.pick("I accept")
        await one.page.open("/ui/terms")
        await one.reads("2026-11", "Accepted")


@job("a rule for risk, in shadow with its report")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Security")
    await one.press("Risk policies")
    await one.press("Add policy")
    await one.type("Policy name", "New devices")
    await one.choose("Action", "Require MFA")
    await one.choose("Device", "New device")
    await one.press("Add policy")
    await one.reads("New devices", "Report-only", "would have matched")


@job("lines for nginx")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Applications")
    await one.press("Create application")
    await one.pick("Application behind a reverse proxy")
    await one.type("Name", "Wiki")
    await one.type("At which host name do people open the application?", "wiki.globex.example")
    await one.press("Create application")
    lines = str(await one.page.evaluate("[...document.querySelectorAll('pre')].map(one => one.textContent).join()"))
    assert "auth_request " in lines
    assert "server_name wiki.globex.example" in lines


@job("mails held back")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Security")
    await one.press("Rate-limited emails")
    await one.reads("Emails per hour", "Rate-limited emails 0")


@job("who signed in, and how")
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("All sign-ins")
    await one.reads("bob@people.example", "Password", "GitHub")


@job("why one cannot, with the attempts")
async def _(one: CountedClicks, town: Town) -> None:
    tab = await (await Tabs(unlimited(town.postern)).tab().open(asking(town))).send(email=town.world.bob.email)
    assert "The password is incorrect" in (await tab.send(password="not his at all")).page.text
    await one.press("People")
    await one.press(town.world.bob.email)
    await one.reads("Access to applications", "Wrong password")


@job("texts of an organization approved", OF_PLATFORM)
async def _(one: CountedClicks, _: Town) -> None:
    await one.press("Organizations")
    await one.press("Approvals")
    await one.press("Custom text approvals")
    await one.press("Globex")
    await one.press("Approve texts")
    await one.press("Approve texts")
    await one.reads("Approved")


def _within(done: Job, town: Town) -> Callable[[CountedClicks], Awaitable[None]]:
    return lambda one: done(one, town)


def asking(town: Town) -> str:
    """Where the shop sends whoever signs in."""
    (shop,) = town.people.rows(
        "select client_id from services join organizations on organizations.id = org_id"
        " where organizations.slug = 'globex' and services.slug = 'shop'"
    )
    asked = {"redirect_uri": "https://app.example/back", "response_type": "code", "scope": "openid", "code_challenge_method": "S256"}
    return f"{AUTHORIZE}?{urlencode({**asked, 'client_id': shop['client_id'], 'code_challenge': CHALLENGE})}"


async def have_passwords(town: Town, *people: Person) -> None:
    known = await town.postern.identity.passwords.hash(Password(PASSWORD))
    for person in people:
        town.people.change("update users set password_hash = %s where id = %s", known, person.user)


async def enters(town: Town, person: Person) -> None:
    await town.enter(signed_in(town.postern, town.people, person))


async def test_jobs_that_came_later_take_seven_presses_at_most(town: Town) -> None:
    await town.page.show(width=WIDE)
    client, ada = unlimited(town.postern), town.world.ada
    renamed = await client.request("PATCH", "/api/organizations/globex", body={"name": "Globex"}, token=await town.people.token(ada))
    assert renamed.status == 200
    await have_passwords(town, town.world.bob)
    counted: dict[str, CountedClicks] = {}
    for person, home, jobs in ((ada, HOME, OF_OWNERS), (town.world.governor, PLATFORM, OF_PLATFORM)):
        await enters(town, person)
        counted |= await clicked(town.page, home, {name: _within(done, town) for name, done in jobs.items()})
    assert [said for name, clicks in counted.items() if (said := too_long(name, clicks))] == []


async def test_another_account_of_the_same_browser_is_two_presses_away(town: Town) -> None:
    page, both = town.page, (town.world.bob, town.world.ada)
    await have_passwords(town, *both)
    await page.show(width=WIDE)
    for person in both:
        await page.open("/ui/sign-in?again=another&to=/ui")
        await enter(page, {"Email address": person.email})
        await enter(page, {"Password": PASSWORD})
    await page.open(HOME)
    one = CountedClicks(page)
    await one.pick(f"Your account: {town.world.ada.email}")
    await one.press("Switch account")
    await one.press(f"Use account {town.world.bob.email}")
    assert f"Your account: {town.world.bob.email}" in await page.text()
    assert too_long("another account of the same browser", one) == ""

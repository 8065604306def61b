"""Two jobs with a provider beside Postern, by clicks and typing in Chromium: a directory by LDAP, against Debian's slapd, until all checks
pass, and any provider of OpenID Connect for everybody, until it shows.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from ops.browser.page import WIDE
from ops.stand_ins.fake_providers import FakeProvider
from tests.browser.console.bars import too_long
from tests.browser.console.clicking import CountedClicks
from tests.browser.console.test_first_directory import slapd
from tests.browser.test_console import Town, town
from tests.ldap.slapd import READER, READER_PASSWORD, Slapd
from tests.security.organizations.console import signed_in
from tests.tools import needs

__all__ = ["slapd", "town"]  # fixtures
ADA: Final = "ada@example.org"


@pytest.fixture
def company() -> Iterator[FakeProvider]:
    with FakeProvider(client_id="openid-client", client_secret="openid-provider-secret-78") as running:
        running.person = {"sub": "1815", "email": ADA, "email_verified": True, "name": "Ada Lovelace"}
        yield running


async def press_through(one: CountedClicks, name: str, to: str) -> None:
    """Presses what leads through a page that leaves by itself, perhaps before it has loaded, to a page with this in its address."""
    await one.press(name)
    await one.page.heard.until(lambda: to in one.page.heard.place)


@needs("slapd", "ldapmodify")
async def test_a_directory_passes_all_checks_within_ten_presses(town: Town, slapd: Slapd) -> None:
    one = CountedClicks(town.page)
    await town.page.show(width=WIDE)
    # The proved domain is that of the directory's people; a proof needs DNS.
    town.people.change("update domains set domain = 'example.org' from organizations as one where one.id = org_id and one.slug = 'globex'")
    await town.enter(signed_in(town.postern, town.people, town.world.ada))
    await town.page.open("/ui/o/globex")
    await one.press("Identity providers")
    await one.press("Add identity provider")
    await one.pick("OpenLDAP LDAP")
    await one.press("Add identity provider")
    await one.pick("More options")
    await one.type("Hosts", f"ldaps://127.0.0.1:{slapd.tls_port}")
    await one.type("CA certificates (PEM)", slapd.authority.pem)
    await one.type("Bind DN", READER)
    await one.type("Bind password", READER_PASSWORD)
    await one.press("Save")
    await one.press("Run test")
    await press_through(one, "Start test", "/auth/")
    await one.type("Name or email address at the directory", "ada")
    await one.type("Password at OpenLDAP", "password of ada")
    await press_through(one, "Sign in", "/ui/connections/test")
    await one.reads("All checks passed")
    assert too_long("a directory by LDAP, until all checks pass", one) == ""


async def test_any_provider_of_openid_connect_shows_within_eight_presses(town: Town, company: FakeProvider) -> None:
    one, page = CountedClicks(town.page), town.page
    await page.show(width=WIDE)
    await town.enter(signed_in(town.postern, town.people, town.world.governor))
    await page.open("/ui/platform")
    await one.press("Social providers")
    await one.press("Add provider")
    await one.type("Issuer", company.issuer)
    await one.press("Continue with OpenID Connect")
    await one.type("Client ID", company.client_id)
    await one.type("Client secret", company.client_secret)
    await one.press("Add provider")
    await one.press("Test provider")
    await one.pick("Start test")
    await page.arrived(company.url)
    await page.open(company.consent(await page.place()))
    await one.reads(ADA)
    await one.press("Activate provider")
    await one.press("Activate")
    await page.open("/ui/sign-in?again=another")
    await one.reads("Continue with 127.0.0.1")
    assert too_long("any provider of OpenID Connect for everybody", one) == ""

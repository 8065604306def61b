"""From "Add a directory" to the first person in, as the guide has it, against Debian's slapd."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.chromium import Chromium
from ops.browser.page import WIDE, Page, new_page
from tests.browser.test_first_application import Walk
from tests.conftest import CapturedLog
from tests.http.ldap.scene import LdapScene
from tests.http.people import BASE_URL, People
from tests.ldap.slapd import READER, READER_PASSWORD, Slapd
from tests.security.organizations.console import COOKIE, signed_in
from tests.tools import needs, place_of

pytestmark = needs("slapd", "ldapmodify")
MOST_TO_THE_TEST = 8
MOST_ACTIONS = 14
"""What somebody opens or presses, choices and folds among it. The fields of a form are filled between."""


@pytest.fixture
def slapd(tmp_path: Path) -> Iterator[Slapd]:
    started = Slapd.start(tmp_path, place_of("slapd"))
    yield started
    started.stop()


@pytest.fixture
def scene(postern: Postern, people: People, client: object, log: CapturedLog) -> LdapScene:
    scene = LdapScene(postern, people, client, log)  # type: ignore[arg-type]
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    return scene


async def test_from_add_a_directory_to_the_first_person_in(plain_page: Page, scene: LdapScene, slapd: Slapd, chromium: Chromium) -> None:
    page = plain_page
    scene.prove_domain()
    await page.keep_cookie(COOKIE, signed_in(scene.postern, scene.people, scene.speaker))
    await page.show(width=WIDE)
    walk = Walk(page)
    await page.open("/ui/o/acme/directories")
    await walk.open("press Add identity provider", "/ui/o/acme/directories/~new")
    await choose(page, "input[value=openldap]")
    walk.actions.append("press OpenLDAP")
    await walk.follow("Add identity provider")
    # The second step is the form. The authority of this directory stands among what can wait.
    await choose(page, "#theirs ~ form details > summary")
    walk.actions.append("press More options")
    for label, value in (
        ("Hosts", f"ldaps://127.0.0.1:{slapd.tls_port}"),
        ("CA certificates (PEM)", slapd.authority.pem),
        ("Bind DN", READER),
        ("Bind password", READER_PASSWORD),
    ):
        await page.fill(label, value)
    await choose(page, "#theirs ~ form button:last-of-type", turns=True)
    walk.actions.append("press Save")
    await walk.follow("Run test")
    await walk.follow("Start test")
    await sign_in(walk, "ada")
    assert "All checks passed" in await page.text()
    assert len(walk.actions) <= MOST_TO_THE_TEST, walk.actions
    await walk.follow("Back to the provider")
    await walk.follow("Activate")
    await walk.follow("Activate")
    provider = (await page.place()).partition("?")[0].rpartition("/")[2]
    async with new_page(chromium, BASE_URL, scripts=False) as hers:
        first = Walk(hers)
        await first.open("open the sign-in of the organization", f"/auth/{provider}?org=acme")
        await first.follow("Continue")
        await sign_in(first, "bob")
        assert (await hers.place()).endswith("/ui")
        assert "bob@example.org" in await hers.text()
    actions = [*walk.actions, *first.actions]
    assert len(actions) <= MOST_ACTIONS, actions


async def choose(page: Page, selector: str, *, turns: bool = False) -> None:
    press = f"document.querySelector({json.dumps(selector)}).click()"
    if turns:
        async with page.loading():
            await page.evaluate(press)
    else:
        await page.evaluate(press)


async def sign_in(walk: Walk, name: str) -> None:
    await walk.page.fill("Name or email address at the directory", name)
    await walk.page.fill("Password at OpenLDAP", f"password of {name}")
    await walk.follow("Sign in")

"""Ask finds what is meant whatever stands around it: an address in a sentence, "and why", "for everyone", a product and "SSO"."""

from typing import Final

import pytest

from tests.http.pages.console.asking.test_why_and_who import OPENS, WHY, found
from tests.http.pages.console.conftest import HOME, ConsoleScene

REMOVE: Final = "{home}/people/{person}/remove"
PERSON: Final = "{home}/people/{person}"
ADDRESS: Final = "dave@acme.example"


@pytest.mark.parametrize(
    ("language", "asked", "where"),
    [
        ("en", f"unlock {ADDRESS}", WHY),
        ("en", f"{ADDRESS} is locked out again", WHY),
        ("en", f"unlock mailto:<{ADDRESS}>, please", WHY),
        ("en", "unlock dave", WHY),
        ("en", "unlock the account of dave now", WHY),
        ("en", f"what happened to {ADDRESS}\u2019s holiday?", PERSON),
        ("en", f"delete {ADDRESS}", REMOVE),
        ("de", f"{ADDRESS} löschen", REMOVE),
        ("en", "Which applications can Dave sign in to?", OPENS),
        ("en", "Why can\u02bct Dave sign in?", WHY),
        ("en", "Why can\u2032t Dave sign in?", WHY),
        ("de", "Bei welchen Anwendungen kann sich Dave anmelden?", OPENS),
        ("de", f"bitte {ADDRESS} entsperren", WHY),
        ("fr", "Que peut ouvrir Dave, et pourquoi ?", OPENS),
        ("fr", f"débloquer {ADDRESS}", WHY),
        ("es", "¿En qué aplicaciones puede iniciar sesión Dave?", OPENS),
        ("es", f"desbloquear a {ADDRESS}", WHY),
    ],
)
async def test_a_person_is_found_whatever_stands_around_the_name(console: ConsoleScene, language: str, asked: str, where: str) -> None:
    dave = console.people.add(ADDRESS)
    console.tenants.join(dave, console.acme)
    console.people.change("update users set name = 'Dave' where id = %s", dave.user)
    console.tabs.language = language
    assert found(await console.asks(asked))[:1] == [where.format(home=HOME, person=dave.user)]


async def test_an_application_that_is_called_as_people_call_any_is_found(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "app")
    assert f"{HOME}/applications/app/secrets/~new" in (await console.asks("rotate secret of app")).page.links


@pytest.mark.parametrize(
    ("language", "asked"),
    [
        ("en", "force 2fa for everyone"),
        ("en", "please turn on 2fa for everybody"),
        ("en", "turn on 2fa"),
        ("de", "2FA für jeden einschalten"),
        ("fr", "exiger 2FA de chacun"),
        ("es", "forzar 2FA"),
    ],
)
async def test_words_that_say_no_place_hide_none(console: ConsoleScene, language: str, asked: str) -> None:
    console.tabs.language = language
    card = {
        "en": "Multi-factor authentication (MFA)",
        "de": "Multi-Faktor-Authentifizierung (MFA)",
        "fr": "Authentification multifacteur (MFA)",
        "es": "Autenticación multifactor (MFA)",
    }[language]
    content = (await console.asks(asked)).shown.body.decode().partition('<main id="content">')[2]
    first = content.partition("<h3>")[2].partition("</h3>")[0]
    assert f'href="{HOME}/sign-in"' in first
    assert card in first


@pytest.mark.parametrize("asked", ["grafana sso", "how do I set up grafana login?"])
async def test_a_product_that_has_a_guide_leads_to_it(console: ConsoleScene, asked: str) -> None:
    assert found(await console.asks(asked))[:1] == ["/docs/guides/applications-grafana"]

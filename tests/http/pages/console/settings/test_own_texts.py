"""The pages on which an organization puts texts in place of ours."""

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
import trio

from adapters.texts import shipped
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.texts.own_texts import OPEN_TEXTS, TextPlace
from entrypoints.http.console.kit.own_texts import COMMON_KEYS
from entrypoints.http.console.kit.own_texts.names import label_of
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.tenancy.texts.written_texts import write_texts
from tests.places import PAGES

TEXTS = "/settings/texts"
COMMON = f"{TEXTS}/common/en"
SIGN_IN = f"{TEXTS}/sign_in/de"
OUTDATED = f"{TEXTS}/outdated"


def kept(console: ConsoleScene) -> dict[tuple[str, str], str]:
    rows = console.people.rows("select language, key, text from organization_texts where org_id is not null")
    return {(row["language"], row["key"]): row["text"] for row in rows}


async def write(console: ConsoleScene, place: str = SIGN_IN, **fields: str) -> Tab:
    await console.at(place)
    return await console.submit(place, **fields)


async def ask_by_api(console: ConsoleScene, method: str, path: str, **asked: Any) -> Any:
    token = await console.tenants.token(console.ada)
    return await console.client.request(method, f"/api/organizations/acme{path}", token=token, **asked)


async def test_a_text_is_written_beside_ours_and_taken_back(console: ConsoleScene) -> None:
    tab = await console.at(SIGN_IN)
    assert tab.status == 200
    assert "Titel" not in tab.page.text
    assert "Title \u2013 without an application Anmelden" in tab.page.text
    assert "Required placeholders: {service}" in tab.page.text
    tab = await write(console, sign_in__title="Willkommen bei Acme", sign_in__title_to="Zu {service}", sign_in__next="")
    assert f"{SIGN_IN}?done=saved&" in tab.place
    assert "Saved: Title \u2013 without an application; Title \u2013 with an application (Deutsch)." in tab.page.text
    assert kept(console) == {("de", "sign_in.title"): "Willkommen bei Acme", ("de", "sign_in.title_to"): "Zu {service}"}
    assert console.fields(SIGN_IN).fields["sign_in__title"] == "Willkommen bei Acme"
    assert "Deutsch 2" in (await console.at(TEXTS)).page.text
    # The button at a text takes it back, and saves what else was written.
    tab = await write(console, back="sign_in.title", sign_in__next="Los")
    assert "?done=saved&" in tab.place
    assert kept(console) == {("de", "sign_in.title_to"): "Zu {service}", ("de", "sign_in.next"): "Los"}
    assert (await write(console)).place.endswith("?done=unchanged")
    # A key that is none changes nothing.
    assert (await write(console, back="consent.title")).place.endswith("?done=unchanged")


async def test_what_is_wrong_stands_at_each_field_and_all_that_was_written_stays(console: ConsoleScene) -> None:
    await write(console, sign_in__title="Hallo")
    tab = await write(
        console, sign_in__title="<b>Hallo</b>", sign_in__title_to="Ohne Platzhalter", sign_in__next="x" * 41, password__title="Gut"
    )
    assert tab.status == 400
    for said in (
        "HTML is not supported and would be shown as text",
        "The text must contain {service}",
        "The text is 1 characters over the limit of 40",
    ):
        assert said in tab.page.text, tab.page.text
    for field in ("sign_in__title", "sign_in__title_to", "sign_in__next"):
        assert f'href="#{field}"' in tab.shown.body.decode()
    assert console.fields(SIGN_IN).fields["password__title"] == "Gut"
    assert kept(console) == {("de", "sign_in.title"): "Hallo"}


async def test_what_is_saved_shows_in_each_preview(console: ConsoleScene) -> None:
    """Each of the two titles of the sign-in page: in the small one, and in the whole page that the list leads to."""
    tab = await write(console, f"{TEXTS}/common/de", sign_in__title="Willkommen bei Acme")
    assert '<p class="title" dir="auto">Willkommen bei Acme</p>' in tab.shown.body.decode()
    tab = await write(console, f"{TEXTS}/common/de", sign_in__title_to="Weiter zu {service}")
    assert '<p class="title" dir="auto">Weiter zu Shop</p>' in tab.shown.body.decode()
    assert "Saved: Title \u2013 with an application (Deutsch)." in tab.page.text
    for said in ("without an application", "with an application"):
        assert f"Full sign-in page, {said} (Deutsch)" in tab.page.text
    wholes = [one for one in tab.page.links if "/pages/sign_in/de" in one]
    assert {wholes.count(one) for one in wholes} == {2}  # below the previews, and at each own text
    shown = [(await console.tab.open(one)).page.text for one in dict.fromkeys(wholes)]
    assert [("Willkommen bei Acme" in one, "Weiter zu" in one) for one in shown] == [(True, False), (False, True)]


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_within_a_page_or_mail_each_text_has_a_name_of_its_own(language: Language) -> None:
    texts = shipped(language, PAGES)
    pages: dict[tuple[str, str], list[str]] = {}
    for one in OPEN_TEXTS.values():
        pages.setdefault((one.place, one.page), []).append(texts[label_of(one)])
    for names in (*pages.values(), [texts[label_of(OPEN_TEXTS[key])] for key in COMMON_KEYS]):
        assert len(set(names)) == len(names), names


async def test_within_a_place_each_text_is_told_by_its_heading_and_name(console: ConsoleScene) -> None:
    # Where people enter the code of a device, no organization is known.
    assert (await console.at(f"{TEXTS}/{TextPlace.DEVICE}/en")).status == 404
    assert "Devices" not in (await console.at(TEXTS)).page.text
    for place in set(TextPlace) - {TextPlace.DEVICE}:
        shown = (await console.at(f"{TEXTS}/{place}/en")).shown.body.decode()
        told = []
        for of_page in shown.split("<legend>")[1:]:
            heading = of_page.partition("</legend>")[0]
            # Without ours, which stands beside the name.
            names = [one.partition(" <span")[0] for one in re.findall(r"<label [^>]+>(.*?)</label>", of_page)]
            assert names, place
            told += [(heading, one) for one in names]
        assert len(set(told)) == len(told), (place, told)
    assert "Browser tab title Sign in" in (await console.at(f"{TEXTS}/sign_in/en")).page.text
    assert "Preview text Verify your email address to use your account" in (await console.at(f"{TEXTS}/mail_registration/en")).page.text


async def test_links_lead_to_proved_domains_in_the_footer(console: ConsoleScene) -> None:
    tab = await write(console, COMMON, own__footer="Acme GmbH\r\n\r\n[Imprint](https://acme.example/imprint)")
    assert tab.status == 400
    assert "Verify the domain of acme.example or a parent domain first" in tab.page.text
    tab = await write(console, COMMON, own__footer="Acme GmbH\r\n\r\nBerlin", sign_in__title="Welcome")
    assert f"{COMMON}?done=saved&" in tab.place
    # Nothing of ours stands in place of a footer.
    buttons = dict(re.findall(r'name="back" value="([^"]+)"[^>]*>([^<]+)', tab.shown.body.decode()))
    assert buttons == {"sign_in.title": "Restore default text", "own.footer": "Delete text"}
    # The list shows how people see it, with the values of the mail.
    assert "Welcome" in tab.page.text
    assert "Acme GmbH Berlin" in tab.page.text
    assert "Invitation to Acme" in tab.page.text
    await write(console, COMMON, mail_invitation__subject="{organization} asks you in")
    assert "Acme asks you in" in (await console.at(TEXTS)).page.text


async def test_the_text_above_a_field_is_the_one_that_people_read_while_it_is_empty(console: ConsoleScene) -> None:
    write_texts(console.people, None, {"en": {"sign_in.title": "Welcome to the house", "own.footer": "House Ltd"}})
    await console.postern.foundation.installation_words.read()
    tab = await console.at(COMMON)
    assert "Title \u2013 without an application Welcome to the house" in tab.page.text
    assert "Footer House Ltd" in tab.page.text
    assert '<p class="title" dir="auto">Welcome to the house</p>' in tab.shown.body.decode()
    assert "Title \u2013 without an application Anmelden" in (await console.at(SIGN_IN)).page.text


async def test_people_are_seen_to_see_the_looks_of_the_organization(console: ConsoleScene) -> None:
    assert "a01040" not in (await console.at(TEXTS)).shown.body.decode()
    assert (await ask_by_api(console, "PATCH", "/branding", body={"primary_color": "#a01040", "corner": 12})).status == 200
    assert re.search(r'<link rel="stylesheet" href="[^"]+a01040[^"]+">', (await console.at(TEXTS)).shown.body.decode())


async def test_a_text_that_somebody_else_has_changed_is_not_lost(console: ConsoleScene) -> None:
    await console.at(SIGN_IN)
    body = {"language": "de", "texts": {"sign_in.title": "Von Bob", "password.title": "Auch von Bob"}}
    assert (await ask_by_api(console, "PATCH", "/texts", body=body)).status == 200
    tab = await console.submit(SIGN_IN, sign_in__title="Von Ada", sign_in__next="Los")
    assert tab.status == 409
    assert "Von Bob" in tab.page.text
    assert kept(console)["de", "sign_in.title"] == "Von Bob"
    # Another text of the same place is no conflict.
    await console.at(SIGN_IN)
    body = {"language": "de", "texts": {"sign_in.title": "Nochmals Bob"}}
    await ask_by_api(console, "PATCH", "/texts", body=body)
    assert (await console.submit(SIGN_IN, sign_in__next="Los")).page.text.count("Saved: Button \u2013 continue (Deutsch).") == 1
    assert kept(console)["de", "sign_in.title"] == "Nochmals Bob"


async def test_of_two_who_save_the_same_text_at_once_one_is_told(console: ConsoleScene) -> None:
    tabs = [console.colleague("admin") for _ in range(3)]
    for tab in tabs:
        await tab.open(f"/ui/o/acme{SIGN_IN}")
    number = console_number(tabs[0])

    async def send(tab: Tab, text: str) -> None:
        await tab.send(number, sign_in__title=text)

    await all_at_once(*[lambda tab=tab, text=f"Text {at}": send(tab, text) for at, tab in enumerate(tabs)])
    assert sorted(tab.status for tab in tabs) == [200, 409, 409]
    (winner,) = [at for at, tab in enumerate(tabs) if tab.status == 200]
    assert kept(console)["de", "sign_in.title"] == f"Text {winner}"


def console_number(tab: Tab) -> int:
    return next(number for number, one in enumerate(tab.page.forms) if one.action == f"/ui/o/acme{SIGN_IN}")


async def test_a_change_of_texts_is_put_back(console: ConsoleScene) -> None:
    await write(console, sign_in__title="Eins", sign_in__next="Los")
    await write(console, sign_in__title="Zwei", sign_in__register="Neu")
    tab = await console.at(SIGN_IN)
    assert "Previous values: Title \u2013 without an application Eins Button \u2013 create account None Undo change" in tab.page.text, (
        tab.page.text
    )
    undo = next(number for number, one in enumerate(tab.page.forms) if one.action.endswith(f"{SIGN_IN}/undo"))
    tab = await console.tab.send(undo)
    assert tab.place.endswith(f"{SIGN_IN}?done=put_back"), tab.page.text
    assert kept(console) == {("de", "sign_in.title"): "Eins", ("de", "sign_in.next"): "Los"}


async def test_texts_beneath_which_ours_have_changed_show_both_versions(console: ConsoleScene) -> None:
    await write(console, sign_in__title="Willkommen", sign_in__next="Los")
    await write(console, f"{TEXTS}/sign_in/en", sign_in__title="Welcome")
    assert "No texts to review" in (await console.at(OUTDATED)).page.text
    console.people.change("update organization_texts set based_on = 'Log in' where key <> 'sign_in.next'")
    console.people.change("update organization_texts set key = 'sign_in.gone' where key = 'sign_in.next'")
    text = (await console.at(TEXTS)).page.text
    assert "The default text has changed for 2 of your custom texts." in text
    assert "1 of your custom texts is no longer used." in text
    assert "The default text has changed since. Previous default: Log in" in (await console.at(SIGN_IN)).page.text
    tab = await console.at(OUTDATED)
    assert "Previous default text Log in Current default text Anmelden Your text Willkommen" in tab.page.text, tab.page.text
    tab = await look(console, "sign_in.title", "de", "console.own_texts.keep")
    assert "Custom text kept" in tab.page.text
    assert kept(console)["de", "sign_in.title"] == "Willkommen"
    tab = await look(console, "sign_in.title", "en", "console.own_texts.take")
    assert "Default text restored." in tab.page.text
    tab = await look(console, "sign_in.gone", "de", "console.own_texts.remove")
    assert kept(console) == {("de", "sign_in.title"): "Willkommen"}
    assert "No texts to review" in tab.page.text


def numbered(console: ConsoleScene, key: str, language: str) -> int:
    forms = enumerate(console.tab.page.forms)
    return next(number for number, one in forms if (one.fields.get("key"), one.fields.get("language")) == (key, language))


async def look(console: ConsoleScene, key: str, language: str, step: str) -> Tab:
    await console.at(OUTDATED)
    return await console.tab.send(numbered(console, key, language), step=step)


async def test_what_is_decided_about_other_texts_than_were_seen_is_refused(console: ConsoleScene) -> None:
    await write(console, sign_in__title="Willkommen")
    console.people.change("update organization_texts set based_on = 'Log in'")
    await console.at(OUTDATED)
    number = numbered(console, "sign_in.title", "de")
    body = {"language": "en", "texts": {"sign_in.title": "Welcome"}}
    assert (await ask_by_api(console, "PATCH", "/texts", body=body)).status == 200
    tab = await console.tab.send(number, step="console.own_texts.take")
    assert tab.status == 409
    assert "These texts were changed after you opened them" in tab.page.text
    assert kept(console)["de", "sign_in.title"] == "Willkommen"
    # The page has them now.
    number = numbered(console, "sign_in.title", "de")
    await console.tab.send(number, step="console.own_texts.take")
    assert kept(console) == {("en", "sign_in.title"): "Welcome"}
    await console.tab.open(f"/ui/o/acme{OUTDATED}")
    # Sent twice: it is gone already.
    assert kept(console) == {("en", "sign_in.title"): "Welcome"}


async def test_a_page_and_a_mail_are_looked_at_and_the_mail_is_sent_to_its_reader(console: ConsoleScene) -> None:
    await write(
        console,
        COMMON,
        sign_in__title_to="Welcome to {service}",
        mail_invitation__subject="{organization} asks you in",
        own__footer="Berlin",
    )
    tab = await console.at(f"{TEXTS}/pages/sign_in/en")
    assert "Welcome to Shop" in tab.page.text
    assert "Berlin" in tab.page.text
    assert b"<script" not in tab.shown.body
    assert "form-action 'none'" in str(tab.shown.header("content-security-policy"))
    at = f"{TEXTS}/mails/invitation/en"
    tab = await console.at(at)
    assert "Acme asks you in" in tab.page.text
    assert f"/ui/o/acme{at}/html" in tab.page.links
    require_html_part(await console.at(f"{at}/html"))
    await console.at(at)
    tab = await console.submit(at)
    assert "Test email sent to your email address." in tab.page.text
    assert len(console.people.rows("select from jobs")) == 1
    console.people.change("update users set email_verified_at = null")
    tab = await console.submit(at)
    assert tab.status == 400, tab.page.text


def require_html_part(tab: Tab) -> None:
    """The mail with its footer. No attribute has styles, and the policy lets in the sheet that has them, and nothing else."""
    assert "Berlin" in tab.page.text
    shown = tab.shown.body.decode()
    assert " style=" not in shown
    sheet = shown.partition("<style>")[2].partition("</style>")[0]
    assert "[data-style=" in sheet
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    policy = str(tab.shown.header("content-security-policy"))
    assert f"style-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy


async def test_what_is_no_place_no_language_and_no_mail_is_not_found(console: ConsoleScene) -> None:
    for place in (
        "nowhere/en",
        "sign_in/xx",
        "common/DE",
        "pages/consent/en",
        "pages/sign_in/xx",
        "mails/password_changed/en",
        "mails/password_changed/en/html",
    ):
        assert (await console.at(f"{TEXTS}/{place}")).status == 404, place


async def test_what_waits_for_an_approval_is_said(console: ConsoleScene) -> None:
    waiting = "until a platform owner approves these texts, emails"
    assert waiting not in (await console.at(TEXTS)).page.text
    await write(console, sign_in__title="Willkommen")
    assert waiting in (await console.at(TEXTS)).page.text


async def test_languages_are_those_that_the_organization_speaks(console: ConsoleScene) -> None:
    await write(console, f"{TEXTS}/sign_in/es", sign_in__title="Hola")
    console.people.change("update all_organizations set languages = 'fr,de'")
    tab = await console.at(TEXTS)
    links = [one.removeprefix(f"/ui/o/acme{TEXTS}/common/") for one in tab.page.links if "/common/" in one]
    # Texts of another language can be taken back, so they can be reached.
    assert links == ["fr", "de", "es"]
    assert console.fields(f"{TEXTS}/common/fr").fields["sign_in__title"] == ""


async def test_a_notice_has_a_begin_and_an_end(console: ConsoleScene) -> None:
    # Its times are found where its text is, and nowhere else.
    for place, has_notice in ((TEXTS, True), (f"{TEXTS}/everywhere/en", True), (SIGN_IN, False)):
        assert ("Notice schedule" in (await console.at(place)).page.text) is has_notice, place
    tab = await console.at(f"{TEXTS}/notice")
    assert tab.status == 200
    tab = await console.submit(f"{TEXTS}/notice/change", begins_at="2030-01-01T00:00", ends_at="2029-01-01T00:00")
    assert tab.status == 400
    tab = await console.submit(f"{TEXTS}/notice/change", begins_at="2030-01-01T00:00", ends_at="2031-01-01T00:00")
    assert tab.place.endswith("?done=saved&fields=begins_at+ends_at")
    answer = await ask_by_api(console, "GET", "/notice")
    assert answer.json()["ends_at"].startswith("2031-01-01T00:00:00")


async def test_members_without_the_right_and_owners_elsewhere_see_and_change_nothing(console: ConsoleScene) -> None:
    await write(console, sign_in__title="Willkommen")
    _, elsewhere = console.stranger()
    for tab in (console.colleague("member"), elsewhere):
        for place in (
            TEXTS,
            SIGN_IN,
            OUTDATED,
            f"{TEXTS}/pages/sign_in/de",
            f"{TEXTS}/mails/invitation/de",
            f"{TEXTS}/mails/invitation/de/html",
        ):
            assert (await tab.open(f"/ui/o/acme{place}")).status in {403, 404}, place
    await trio.lowlevel.checkpoint()
    assert kept(console) == {("de", "sign_in.title"): "Willkommen"}

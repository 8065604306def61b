"""Pages are in the language of their reader, mails in the language of their receiver, and answers to programs in English."""

import re

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.profiles import OwnProfileChange
from core.domain.languages import Language
from core.domain.record.events import SYSTEM
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.client import Client, Pairs
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited

PASSWORD = "a long and quiet afternoon"
LINK = "/ui/reset-password?token=x"


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


def reading(*languages: str) -> Pairs:
    return (("accept-language", ", ".join(languages)),) if languages else ()


def written(people: People, email: str) -> str | None:
    (row,) = people.rows("select language from users where email = %s", email)
    language: str | None = row["language"]
    return language


@pytest.mark.parametrize("language", Language)
async def test_a_page_says_which_language_it_speaks(language: Language, client: Client) -> None:
    answer = await client.get("/ui/password-chosen", headers=reading(f"{language}-XX", "en;q=0.1"))
    assert answer.status == 200
    assert f'<html lang="{language.tag}"' in answer.body.decode()
    assert (answer.header("content-language"), answer.header("vary")) == (language.tag, "Accept-Language")


@pytest.mark.parametrize(("target", "said"), [(LINK, "Dieser Link ist nicht gültig"), ("/ui/nothing", "Seite nicht gefunden")])
async def test_a_page_that_says_no_says_it_in_the_language_of_its_reader(target: str, said: str, client: Client) -> None:
    answer = await client.get(target, headers=reading("de"))
    assert said in answer.body.decode()
    assert (answer.header("content-language"), answer.header("vary")) == ("de", "Accept-Language")
    assert said not in (await client.get(target)).body.decode()


async def test_programs_are_told_in_english(client: Client) -> None:
    for target in ("/docs", "/health/live", "/api/user"):
        answer = await client.get(target, headers=reading("de"))
        assert (answer.header("content-language"), answer.header("vary")) == (None, None)
    refused = await client.post("/api/auth/reset-password", {"token": "x", "new_password": PASSWORD}, headers=reading("de"))
    assert refused.json()["error"] == "This link is not valid"
    assert '<html lang="en">' in (await client.get("/docs", headers=reading("de"))).body.decode()


@pytest.mark.parametrize(("headers", "language", "subject"), [(reading("fr-CA"), "fr", "Vérifiez"), (reading("sv"), None, "Verify your")])
async def test_whoever_registers_is_written_to_in_the_language_they_read(
    headers: Pairs, language: str | None, subject: str, client: Client, people: People, postbox: Postbox
) -> None:
    (await client.post("/api/auth/register", {"email": "ada@example.org", "password": PASSWORD}, headers=headers)).ok()
    assert written(people, "ada@example.org") == language
    (mail,) = await postbox.empty()
    assert mail.subject.startswith(subject)
    assert mail.language == (language or "en")


async def test_who_registers_on_a_page_reads_on_in_its_language(postern: Postern, people: People, postbox: Postbox) -> None:
    tabs = Tabs(unlimited(postern), language="de-AT")
    tab = await tabs.tab().open("/ui/sign-in")
    (register,) = [link for link in tab.page.links if link.startswith("/ui/register")]
    await (await tab.open(register)).send(email="bob@example.org", password=PASSWORD)
    assert "Ein Bestätigungslink wurde an bob@example.org gesendet" in tab.page.text
    await tab.send()
    assert written(people, "bob@example.org") == "de"
    forgotten = await Tabs(unlimited(postern), language="de").tab().open("/ui/forgot-password")
    await forgotten.send(email="bob@example.org")
    assert {mail.language for mail in await postbox.empty()} == {"de"}


@pytest.mark.parametrize(
    ("chosen", "headers", "language"), [("es", reading("de"), "es"), (None, reading("de"), "de"), (None, (), "en"), ("tlh", (), "en")]
)
async def test_a_link_that_somebody_asks_for_is_in_the_language_of_the_account(
    chosen: str | None, headers: Pairs, language: str, client: Client, people: People, postbox: Postbox
) -> None:
    people.add("ada@example.org")
    people.change("update users set language = %s", chosen)
    for email in ("ada@example.org", "nobody@example.org"):
        (await client.post("/api/auth/forgot-password", {"email": email}, headers=headers)).ok()
    (mail,) = await postbox.empty()
    assert (mail.to, mail.language) == ("ada@example.org", language)


async def test_what_concerns_an_account_is_told_in_its_language(client: Client, people: People, postern: Postern, postbox: Postbox) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    french = OwnProfileChange(language=Language.FRENCH)
    await postern.identity.profiles.change(UserId(ada.user), french, SYSTEM, username=None)
    signing_in = {"email": ada.email, "password": PASSWORD}
    for device in ("Firefox/140.0", "Safari/18.0"):
        (await client.post("/api/auth/login", signing_in, headers=(*reading("de"), ("user-agent", device)))).ok()
    token = await people.token(people.session_of(ada))
    changed = {"current_password": PASSWORD, "new_password": "a fresh and lively password"}
    assert (await client.post("/api/user/change-password", changed, token=token, headers=reading("de"))).status == 200
    asked = await client.request("PATCH", "/api/user", body={"email": "new@example.org"}, token=token, headers=reading("de"))
    assert asked.status == 200
    mails = await postbox.empty()
    assert len(mails) == 4
    assert {mail.language for mail in mails} == {"fr"}
    assert {html for mail in mails for html in re.findall(r'<html lang="(\w+)"', mail.html)} == {"fr"}


@pytest.mark.parametrize(("chosen", "language"), [("es", "es"), (None, "fr")])
async def test_an_invitation_is_in_the_language_of_the_invited_or_of_the_inviter(
    chosen: str | None, language: str, client: Client, people: People, postern: Postern, log: CapturedLog
) -> None:
    scene = Inviting(postern, people, client, log)
    if chosen is not None:
        people.change("update users set language = %s where id = %s", chosen, scene.verified("bob@example.org").user)
    token = await people.token(scene.ada)
    body = {"email": "bob@example.org", "role": "member"}
    issued = (await client.post(scene.path(), body, token=token, headers=reading("fr"))).ok()
    log.remember(issued["token"])
    (mail,) = await scene.postbox.empty()
    assert mail.language == language
    (await client.post("/api/invitations/accept", {"token": issued["token"]}, headers=reading("de"))).ok()
    assert written(people, "bob@example.org") == (chosen or "de")

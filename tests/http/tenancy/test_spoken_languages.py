"""The languages of an organization over HTTP, and the pages and mails that speak them."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from core.domain.branding import branding
from core.domain.languages import Language
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import language_headers
from entrypoints.http.pages.kit import shipped_pages
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited

EVERY = [one.value for one in Language]
PASSWORD = "a long and quiet afternoon"


class LanguageScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.postbox = Postbox(self.postern)

    async def ask(self, method: str, body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        return await self.request(method, f"/api/organizations/{of}/languages", body, by=by)

    async def speak(self, *languages: str) -> None:
        (await self.ask("PATCH", {"languages": list(languages)})).ok(200)

    async def page(self, place: str, *accepted: str) -> tuple[str, str]:
        """The language that the page says, which its header repeats, and the page."""
        answer = await self.client.get(place, headers=(("accept-language", ", ".join(accepted)),))
        page = answer.body.decode()
        (said,) = re.findall(r'<html lang="([A-Za-z-]+)"', page)
        assert (answer.header("content-language"), answer.header("vary")) == (said, "Accept-Language")
        return said, page

    async def invite(self, email: str) -> str:
        body = {"email": email, "role": "member"}
        token: str = (await self.request("POST", "/api/organizations/acme/invitations", body)).ok()["token"]
        self.log.remember(token)
        return token


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> LanguageScene:
    return LanguageScene(postern, people, unlimited(postern), log)


def kept(scene: LanguageScene) -> str | None:
    (row,) = scene.people.rows("select languages from organizations where slug = 'acme'")
    found: str | None = row["languages"]
    return found


async def test_languages_are_chosen_in_order_and_given_up(scene: LanguageScene) -> None:
    assert (await scene.ask("GET", by=scene.member)).ok(200) == {"languages": []}
    chosen = {"languages": ["ar", "de"]}
    assert (await scene.ask("PATCH", chosen)).ok(200) == chosen
    assert (await scene.ask("PATCH", chosen)).ok(200) == chosen
    assert (await scene.ask("GET", by=scene.member)).ok(200) == chosen
    assert kept(scene) == "ar,de"
    assert (await scene.ask("PATCH", {"languages": EVERY})).ok(200) == {"languages": EVERY}
    assert (await scene.ask("PATCH", {"languages": None})).ok(200) == {"languages": []}
    assert (await scene.ask("PATCH", {"languages": []})).ok(200) == {"languages": []}
    assert kept(scene) is None
    changes = [(one["details"]["old_languages"], one["details"]["new_languages"]) for one in scene.audited("languages.updated")]
    assert changes == [([], ["ar", "de"]), (["ar", "de"], EVERY), (EVERY, [])]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (["de", "xx"], "languages[1]: 'xx' is not turned on; available languages: en, de, es, fr, nl, it, pt, pl, tr, uk, ja, ko, zh, ar"),
        (["EN"], "languages[0]: 'EN' is not turned on"),
        (["pt-BR"], "languages[0]: 'pt-BR' is not turned on"),
        ([""], "languages[0]: '' is not turned on"),
        (["x" * 100], f"languages[0]: '{'x' * 40}' is not turned on"),
        (["de", "ar", "de"], "languages[2]: de is listed twice"),
        ("de", "languages: expected array"),
        ([None], "languages[0]: expected string"),
    ],
)
async def test_what_cannot_be_spoken_is_refused_in_words(languages: Any, message: str, scene: LanguageScene) -> None:
    answer = await scene.ask("PATCH", {"languages": languages})
    assert answer.status == 400
    assert message in answer.json()["error"]
    assert kept(scene) is None


async def test_who_may_choose_them(scene: LanguageScene) -> None:
    chosen = {"languages": ["de"]}
    assert (await scene.ask("PATCH", chosen, by=scene.speaker)).status == 200
    assert (await scene.ask("PATCH", chosen, by=scene.member)).status == 403
    for method, body in (("GET", None), ("PATCH", chosen)):
        assert (await scene.ask(method, body, by=scene.stranger)).status in {403, 404}
    assert (await scene.ask("PATCH", {})).status == 400


@pytest.mark.parametrize(
    ("spoken", "accepted", "said"),
    [
        ((), ("pl",), "pl"),
        ((), (), "en"),
        (("de", "ar"), ("pl",), "de"),
        (("ar", "de"), ("pl", "de;q=0.5"), "de"),
        (("ar", "de"), (), "ar"),
        (("pt", "zh"), ("zh-CN",), "zh-Hans"),
        (("pt", "zh"), ("zh-TW",), "pt-BR"),
        (("fr",), ("en",), "fr"),
    ],
)
async def test_a_page_of_an_organization_speaks_the_best_of_its_languages(
    spoken: Sequence[str], accepted: Sequence[str], said: str, scene: LanguageScene
) -> None:
    if spoken:
        await scene.speak(*spoken)
    token = await scene.invite("new@example.org")
    for place in (f"/ui/invitations/accept?token={token}", "/ui/register?org_slug=acme", f"/ui/invitations/declined?token={token}"):
        assert (await scene.page(place, *accepted))[0] == said, place
    # Elsewhere the reader's own language counts.
    own = Language.of(accepted[0].partition(";")[0] if accepted else None)
    assert (await scene.page("/ui/register?org_slug=globex", *accepted))[0] == (own.tag if own is not None else "en")


async def test_all_that_a_page_says_is_in_one_language(scene: LanguageScene) -> None:
    """Also what Python writes on it, and what it says about a wrong form."""
    await scene.speak("fr", "de")
    tab = await Tabs(scene.client, language="es").tab().open("/ui/register?org_slug=acme")
    await tab.send(email="no address", password=PASSWORD)
    french, spanish = (shipped_pages().text(one) for one in (Language.FRENCH, Language.SPANISH))
    assert french("sign_in.no_address").replace("\u2060", "") in tab.page.text.replace("\u2060", "")
    assert spanish("sign_in.no_address").replace("\u2060", "") not in tab.page.text.replace("\u2060", "")
    token = await scene.invite("new@example.org")
    accepted = await scene.page(f"/ui/invitations/accepted?token={token}", "es")
    assert french("invitation_accepted.title_of", organization="Acme").split(" Acme")[0] in accepted[1]


async def test_a_sign_in_for_an_organization_is_in_its_languages_to_the_end(scene: LanguageScene) -> None:
    await scene.speak("fr", "ar")
    tabs = Tabs(scene.client, language="pl")
    tab = await tabs.tab().open("/ui/register?org_slug=acme")
    await tab.send(email="new@example.org", password=PASSWORD)
    assert 'lang="fr"' in tab.shown.body.decode()[:80]
    assert tab.shown.header("content-language") == "fr"
    (mail,) = await scene.postbox.empty()
    assert mail.language == "fr"
    # The account keeps the language of its reader.
    (row,) = scene.people.rows("select language from users where email = 'new@example.org'")
    assert row["language"] == "pl"


@pytest.mark.parametrize(("spoken", "language"), [((), "es"), (("fr", "de"), "fr"), (("de", "es"), "es")])
async def test_a_mail_of_an_organization_is_in_one_of_its_languages(spoken: Sequence[str], language: str, scene: LanguageScene) -> None:
    if spoken:
        await scene.speak(*spoken)
    scene.people.change("update users set language = 'es' where id = %s", scene.people.add("known@example.org").user)
    (await scene.client.post("/api/auth/forgot-password", {"email": "known@example.org", "org_slug": "acme"})).ok()
    (mail,) = await scene.postbox.empty()
    assert mail.language == language
    assert f'lang="{language}"' in mail.html


async def test_a_language_that_only_a_later_release_has_is_as_if_it_were_not_chosen(scene: LanguageScene) -> None:
    scene.people.change("update organizations set languages = 'xx,de' where slug = 'acme'")
    assert (await scene.ask("GET")).ok(200) == {"languages": ["de"]}
    assert (await scene.page("/ui/register?org_slug=acme", "pl"))[0] == "de"


def test_a_page_that_asks_for_another_language_still_speaks_the_organizations() -> None:
    """A handler that forgets to ask the organization cannot speak for it in a language that it has not chosen."""
    acme = branding("Acme", None, None, [None, None, None, None, "ar,de", None])
    said = {one: shipped_pages().outcome("locked", one, good=True, brand=acme).decode()[:80] for one in Language}
    assert all(f'lang="{"de" if one is Language.GERMAN else "ar"}"' in page for one, page in said.items())


def test_the_header_says_what_the_page_says() -> None:
    page = shipped_pages().outcome("locked", Language.ARABIC, good=True)
    for body, said in ((page, b"ar"), (b"no page", b"de"), (None, b"de")):
        assert dict(language_headers(body, Language.GERMAN)) == {b"content-language": said, b"vary": b"Accept-Language"}

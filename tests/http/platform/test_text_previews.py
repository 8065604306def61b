"""Platform owners see pages and mails with the installation's texts before others do."""

import pytest

from core.domain.languages import Language
from core.domain.tenancy.texts import MAILS
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import write_texts

PAGES = tuple(dict.fromkeys(text.page for text in OPEN_TEXTS.values() if not text.place.is_mail))


class HousePreviews(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.people.add("grace@example.org", platform_owner=True)

    async def look(self, query: str, *, by: Person | None = None) -> Received:
        return await self.request("GET", f"/api/platform/texts/preview?{query}", by=by)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> HousePreviews:
    return HousePreviews(postern, people, unlimited(postern), log)


async def test_a_text_leads_to_its_page_and_its_mail_in_its_language(scene: HousePreviews) -> None:
    write_texts(scene.people, None, {"de": {"register.title": "Neu im Haus?", "mail_reset.subject": "Ein neues Passwort vom Haus"}})
    write_texts(scene.people, "acme", {"de": {"register.title": "Neu bei Acme?"}})
    await scene.postern.foundation.installation_words.read()
    page = (await scene.look("key=register.title&language=de")).ok()
    assert "<h1>Neu im Haus?</h1>" in page["html"]
    assert (page["language"], page["text"], page["subject"]) == ("de", None, None)
    mail = (await scene.look("key=mail_reset.subject&language=de")).ok()
    assert mail["subject"] == "Ein neues Passwort vom Haus"
    assert "grace@example.org" in mail["text"]


async def test_a_page_of_the_installation_has_its_sign_and_its_foot(scene: HousePreviews) -> None:
    write_texts(scene.people, None, {"en": {"own.footer": "House foot"}})
    await scene.postern.foundation.installation_words.read()
    real, shown = (await scene.client.get("/ui/register")).body.decode(), (await scene.look("on_page=register")).ok()["html"]
    for start, end in (("<svg", "</svg>"), ("<footer>", "</footer>")):
        part = start + real.partition(start)[2].partition(end)[0] + end
        assert part in shown, part


async def test_each_page_and_mail_can_be_looked_at(scene: HousePreviews) -> None:
    for page in PAGES:
        assert "<h1" in (await scene.look(f"on_page={page}")).ok()["html"], page
    for mail in MAILS:
        assert (await scene.look(f"mail={mail}")).ok()["subject"], mail


async def test_each_text_of_the_installation_alone_is_seen_where_it_leads(scene: HousePreviews) -> None:
    ours = scene.postern.foundation.shipped_words.written(Language.GERMAN)
    keys = [key for key, one in OPEN_TEXTS.items() if not one.is_of_organizations]
    assert not any("{" in ours[key] and key != "choose_organization.none" for key in keys)
    write_texts(scene.people, None, {"de": {key: f"Own{at:03}" for at, key in enumerate(keys)}})
    await scene.postern.foundation.installation_words.read()
    for at, key in enumerate(keys):
        shown = (await scene.look(f"key={key}&language=de")).ok()
        assert f"Own{at:03}" in shown["html"], key
        assert "<h1></h1>" not in shown["html"], key


@pytest.mark.parametrize("query", ["", "on_page=consent", "mail=passkey_added", "key=consent.title"])
async def test_what_has_no_open_text_cannot_be_looked_at(scene: HousePreviews, query: str) -> None:
    assert (await scene.look(query)).status == 404


async def test_nobody_else_looks(scene: HousePreviews) -> None:
    assert (await scene.look("on_page=sign_in", by=scene.resident(scene.acme, "owner"))).status == 403


async def test_a_text_of_paragraphs_has_them_and_its_links_where_the_preview_has(scene: HousePreviews) -> None:
    said = "Until tomorrow.\n\nSee [our help](https://help.example.org/)."
    write_texts(scene.people, None, {"en": {"signed_out.text": said, "stale.text": said}})
    await scene.postern.foundation.installation_words.read()
    shown = '<p>Until tomorrow.</p>\n<p>See <a href="https://help.example.org/" rel="noopener nofollow">our help</a>.</p>'
    for key, at in (("signed_out.text", "/ui/signed-out"), ("stale.text", "/ui/choose-account?flow=01a21f36-6e11-77f8-89e9-f804bea9081d")):
        for page in ((await scene.look(f"key={key}")).ok()["html"], (await scene.client.get(at)).body.decode()):
            assert shown in page, (key, page)

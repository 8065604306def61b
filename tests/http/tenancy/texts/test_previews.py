"""Those who look after an organization's texts see each page and mail before others do, and send themselves a mail."""

import re

import pytest

from core.domain.languages import Language
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from core.domain.tenancy.texts import MAILS
from core.domain.texts.own_texts import OPEN_TEXTS
from core.domain.texts.rules import PLACEHOLDER
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.kit import previews
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import write_texts

PAGES = tuple(dict.fromkeys(text.page for text in OPEN_TEXTS.values() if not text.place.is_mail))


class Previewing(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "admin", "ada")
        self.people.change("update users set email_verified_at = now()")
        self.postbox = Postbox(self.postern)

    async def look(self, query: str, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request("GET", f"/api/organizations/{of}/texts/preview?{query}", by=by)

    async def send(self, mail: str, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request("POST", f"/api/organizations/{of}/mails/{mail}/send-to-me", {}, by=by)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Previewing:
    return Previewing(postern, people, unlimited(postern), log)


async def test_a_text_leads_to_its_page_and_its_mail_in_its_language(scene: Previewing) -> None:
    write_texts(scene.people, "acme", {"de": {"register.title": "Neu hier?", "mail_invitation.subject": "Auf zu {organization}"}})
    page = (await scene.look("key=register.title&language=de")).ok()
    assert "<h1>Neu hier?</h1>" in page["html"]
    assert (page["language"], page["text"], page["subject"]) == ("de", None, None)
    mail = (await scene.look("key=mail_invitation.subject&language=de")).ok()
    assert (mail["subject"], "ada@acme.example" in mail["text"]) == ("Auf zu Acme", True)
    assert (await scene.look("mail=invitation")).ok()["subject"] != mail["subject"]


@pytest.mark.parametrize("language", Language)
async def test_each_page_and_mail_can_be_looked_at(scene: Previewing, language: Language) -> None:
    for page in PAGES:
        assert "<h1" in (await scene.look(f"on_page={page}&language={language}")).ok()["html"], page
    for mail in MAILS:
        shown = (await scene.look(f"mail={mail}&language={language}")).ok()
        assert shown["subject"], mail


async def test_texts_of_a_language_that_is_not_on_yet_can_be_looked_at_and_sent(scene: Previewing) -> None:
    texts = {"register.title": "Nowe konto", "signed_out.title": "Gotowe", "mail_invitation.subject": "Do {organization}"}
    write_texts(scene.people, "acme", {"pl": texts})
    scene.people.change("update all_organizations set languages = 'de' where slug = 'acme'")
    for page, title in (("register", "Nowe konto"), ("signed_out", "Gotowe")):
        shown = (await scene.look(f"on_page={page}&language=pl")).ok()
        assert (shown["language"], '<html lang="pl"' in shown["html"], f"<h1>{title}</h1>" in shown["html"]) == ("pl", True, True), page
    mail = (await scene.look("mail=invitation&language=pl")).ok()
    assert (mail["language"], mail["subject"]) == ("pl", "Do Acme")
    await scene.request("POST", "/api/organizations/acme/mails/invitation/send-to-me", {"language": "pl"})
    assert [one.subject for one in await scene.postbox.empty()] == ["Do Acme"]


async def test_a_notice_can_be_looked_at_before_it_stands_and_afterwards(scene: Previewing) -> None:
    write_texts(scene.people, "acme", {"en": {"own.notice": "Away on Friday"}})
    for times in ({"begins_at": "2100-01-01T00:00:00Z"}, {"ends_at": "2020-01-01T00:00:00Z"}):
        assert (await scene.request("PUT", "/api/organizations/acme/notice", times)).status == 200
        assert "Away on Friday" in (await scene.look("key=own.notice")).ok()["html"], times
        assert b"Away on Friday" not in (await scene.client.get("/ui/register?org_slug=acme")).body


async def test_each_text_of_an_organization_is_seen_where_it_leads(scene: Previewing) -> None:
    ours = scene.postern.foundation.shipped_words.written(Language.POLISH)
    keys = [key for key, one in OPEN_TEXTS.items() if one.is_of_organizations]
    own = {key: f"Own{at:03} {' '.join(PLACEHOLDER.findall(ours.get(key, '')))}" for at, key in enumerate(keys)}
    own = {key: re.sub(r"(?<= )(\w+)", r"{\1}", text) for key, text in own.items()}
    write_texts(scene.people, "acme", {"pl": own})
    # Whoever prepares a language looks at it before the organization speaks it.
    scene.people.change("update all_organizations set languages = 'en,de' where slug = 'acme'")
    for at, key in enumerate(keys):
        shown = (await scene.look(f"key={key}&language=pl")).ok()
        assert shown["language"] == "pl"
        assert f"Own{at:03}" in "".join(filter(None, (shown["html"], shown["text"], shown["subject"]))), key
        assert "<h1></h1>" not in shown["html"], key


def test_each_page_of_the_open_list_has_its_preview() -> None:
    assert set(PAGES) == {*previews.TEMPLATES, *previews.OUTCOMES, *previews.LEAVING, previews.STALE}


@pytest.mark.parametrize("query", ["", "on_page=consent", "mail=passkey_added", "key=consent.title", "on_page=../layout"])
async def test_what_has_no_open_text_cannot_be_looked_at(scene: Previewing, query: str) -> None:
    assert (await scene.look(query)).status == 404


async def test_a_mail_goes_to_the_caller_and_nobody_else(scene: Previewing) -> None:
    write_texts(scene.people, "acme", {"en": {"mail_invitation.subject": "On to {organization}"}})
    assert (await scene.send("invitation")).ok() == {"to": "ada@acme.example"}
    (job,) = scene.people.rows("select kind from jobs")
    assert job["kind"] == ORGANIZATION_MAIL_JOB
    (mail,) = await scene.postbox.empty()
    assert (mail.to, mail.subject) == ("ada@acme.example", "On to Acme")
    assert "token=" not in mail.text
    assert (await scene.send("passkey_added")).status == 404


async def test_nobody_sends_to_an_address_that_is_not_verified(scene: Previewing) -> None:
    scene.people.change("update users set email_verified_at = null")
    assert (await scene.send("invitation")).status == 400


async def test_nobody_looks_or_sends_as_another_organization(scene: Previewing) -> None:
    member, stranger = scene.resident(scene.acme, "member"), scene.resident(scene.globex, "owner")
    for other in (member, stranger):
        assert ((await scene.look("on_page=sign_in", by=other)).status, (await scene.send("invitation", by=other)).status) == (403, 403)
    assert await scene.postbox.empty() == []


async def test_an_organization_that_is_not_active_wears_ours(scene: Previewing) -> None:
    write_texts(scene.people, "acme", {"en": {"register.title": "Not yet"}})
    scene.people.change("update all_organizations set status = 'pending' where slug = 'acme'")
    answer = await scene.look("on_page=register")
    assert answer.status == 403 or "Not yet" not in answer.ok()["html"]

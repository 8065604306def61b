"""Texts of organizations' own, on pages and in mails. They are written straight into their table here, as rows may stand there that an
older release let in: whatever somebody has stored is text, stands on pages and in mails of that organization alone, and reaches strangers
through the installation's server only if a platform owner has said yes.
"""

from html import unescape
from html.parser import HTMLParser

import pytest

from core.domain.mail import Mail
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import Neighbours
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import Texts, write_texts

database_url, postern, people = http.database_url, http.postern, http.people

TITLE = "Willkommen bei den Werken"
HOSTILE = (
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    '" onfocus="alert(1)',
    "{{ 7 * 7 }}",
    "{organization.__class__} {organization!r}",
    "[go](javascript:alert(1)) [go](http://evil.example)",
    '[go](https://x.example/"onclick="alert(1))',
    "a\nBcc: everybody@example.org",
    "=?utf-8?q?hidden?=",
    "\u202emoc.live",
    "zero\u200bwidth",
    "bell\x07",
    "w" * 3000,
)


class Speaking(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "owner")
        self.postbox = Postbox(self.postern)

    def write(self, organization: str | None, **texts: str) -> str:
        """Texts in English, with two underscores for a dot."""
        own: Texts = {"en": {key.replace("__", "."): text for key, text in texts.items()}}
        return write_texts(self.people, organization, own)

    async def page(self, target: str) -> str:
        answer = await self.client.get(target)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    async def register_page(self, organization: str = "acme") -> str:
        return await self.page(f"/ui/register?org_slug={organization}" if organization else "/ui/register")

    async def mails(self, email: str, organization: str = "acme") -> Mail:
        """The mail for a new password, asked for in the organization's name."""
        answer = await self.client.post("/api/auth/forgot-password", {"email": email, "org_slug": organization})
        assert answer.status == 200
        (mail,) = await self.postbox.empty()
        return mail

    def approve(self, digest: str) -> None:
        self.people.change("update all_organizations set approved_texts = %s where texts_digest = %s", digest, digest)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Speaking:
    return Speaking(postern, people, unlimited(postern), log)


async def test_own_texts_stand_on_the_pages_of_the_organization_alone(scene: Speaking) -> None:
    scene.write("acme", register__title=TITLE, own__footer="Acme [Imprint](https://acme.example/imprint)\n\nStreet 1")
    shown = await scene.register_page()
    assert f"<h1>{TITLE}</h1>" in shown
    link = '<a href="https://acme.example/imprint" rel="noopener nofollow">Imprint</a>'
    assert f"<p>Acme {link}</p>\n<p>Street 1</p>" in shown
    for other in ("globex", ""):
        assert TITLE not in (page := await scene.register_page(other))
        assert "acme.example" not in page


async def test_the_organizations_stand_over_the_installations_and_these_on_every_page(scene: Speaking) -> None:
    scene.write(None, register__title="House", own__footer="House foot")
    await scene.postern.foundation.installation_words.read()
    scene.write("acme", register__title=TITLE)
    assert ("House foot" in (acme := await scene.register_page()), TITLE in acme) == (True, True)
    for other in ("globex", ""):
        assert ("<h1>House</h1>" in (page := await scene.register_page(other)), "House foot" in page) == (True, True)


async def test_what_became_of_a_page_is_said_with_links_and_paragraphs(scene: Speaking) -> None:
    own = "Ask [us](https://help.example/a)\n\nOr wait"
    scene.write(None, stale__text=own, signed_out__text=own)
    await scene.postern.foundation.installation_words.read()
    shown = '<p>Ask <a href="https://help.example/a" rel="noopener nofollow">us</a></p>\n<p>Or wait</p>'
    for target in ("/ui/choose-account?flow=0198c2a0-0000-7000-8000-000000000001", "/ui/signed-out"):
        assert shown in (await scene.client.get(target)).body.decode(), target


async def test_a_change_of_the_installations_is_seen_on_the_page_that_is_kept(scene: Speaking) -> None:
    """The page without a flow is the same for everybody, and rendered once for each text that it may have."""
    for foot in ("", "First foot", "Second foot", ""):
        scene.write(None, **({"own__footer": foot} if foot else {}))
        await scene.postern.foundation.installation_words.read()
        page = await scene.page("/ui/sign-in")
        assert [one in page for one in ("First foot", "Second foot")] == [foot == "First foot", foot == "Second foot"]


async def test_a_change_is_seen_on_the_next_page(scene: Speaking) -> None:
    scene.write("acme", register__title="First")
    assert "<h1>First</h1>" in await scene.register_page()
    scene.write("acme", register__title="Second")
    assert "<h1>Second</h1>" in await scene.register_page()
    scene.people.change("update all_organizations set texts_digest = null")
    assert "<h1>Create an account</h1>" in await scene.register_page()


async def test_the_first_page_of_all_follows_the_installations_texts(scene: Speaking) -> None:
    """It is the same for everybody, so it is kept ready."""
    assert "<h1>Sign in</h1>" in await scene.page("/ui/sign-in")
    for title in ("House", "Garden"):
        scene.write(None, sign_in__title=title)
        await scene.postern.foundation.installation_words.read()
        assert f"<h1>{title}</h1>" in await scene.page("/ui/sign-in")


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:20].strip().encode("unicode_escape").decode() for text in HOSTILE])
async def test_hostile_texts_are_text_on_pages_and_in_mails(scene: Speaking, text: str) -> None:
    ours = await scene.register_page()
    text += f" {TITLE}"
    scene.log.remember(TITLE)
    written = dict.fromkeys(("register__page", "register__title", "register__create", "register__have_one", "own__footer"), text)
    digest = scene.write(
        "acme", **written, mail_reset__subject_for=f"{{organization}} {text}", mail_reset__text_at=f"{text} {{organization}}"
    )
    scene.approve(digest)
    shown = await scene.register_page()
    # But for the foot with its lines, the page has no other elements and attributes than before.
    assert _made_of(shown) - {"footer", "p", "br"} == _made_of(ours) - {"footer", "p", "br"}
    assert not set("\u202e\u200b\x07") & set(shown)
    mail = await scene.mails((await scene.people.with_password("correct horse battery")).email)
    assert "\n" not in mail.subject
    assert "\u202e" not in mail.subject + mail.text + mail.html
    assert not {one for one in _made_of(mail.html) if one in {"script", "img"} or one.startswith("on")}
    assert not [word for word in unescape(mail.html).split('href="')[1:] if not word.startswith("https://")]


class _Parts(HTMLParser):
    """The names of elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def _made_of(page: str) -> set[str]:
    parts = _Parts()
    parts.feed(page)
    return parts.found


@pytest.mark.parametrize("key", ["refusals.link_expired", "consent.title", "check_mail.reset", "no.such_key"])
async def test_closed_keys_are_never_shown(scene: Speaking, key: str) -> None:
    write_texts(scene.people, "acme", {"en": {key: "Not ours", "register.title": TITLE}})
    page = await scene.register_page()
    assert (TITLE in page, "Not ours" in page) == (True, False)


async def test_a_stranger_reads_our_words_in_mails_that_others_ask_for(scene: Speaking) -> None:
    """Whoever founds an organization could otherwise have the installation's server write to anybody."""
    scene.write(
        "acme",
        mail_reset__subject_for="You have won, {organization}",
        mail_verification__subject_for="Won {organization}",
        own__footer="Pay",
    )
    stranger = (await scene.people.with_password("correct horse battery", "stranger@example.org")).email
    mail = await scene.mails(stranger)
    assert mail.subject == "Choose a new password for Acme"
    assert "Pay" not in mail.text + mail.html
    body = {"email": "new@example.org", "password": "correct horse battery", "org_slug": "acme"}
    assert (await scene.client.post("/api/auth/register", body)).status < 300
    (mail,) = await scene.postbox.empty()
    assert ("Won" in mail.subject, "Pay" in mail.text + mail.html) == (False, False)


async def test_no_address_of_an_organizations_choosing_is_mailed_to_strangers(scene: Speaking) -> None:
    """The links at the foot lead wherever an administrator likes, and their paths can be read like a message. A yes to texts is none to
    them: they are no part of its digest.
    """
    own, stranger = (await _member(scene, "own@example.org")).email, "stranger@example.org"
    scene.people.change("update memberships set own_since = now()")
    await scene.people.with_password("correct horse battery", stranger)
    scene.people.change("update all_organizations set help_url = 'https://prize.example/you-have-won' where slug = 'acme'")
    invited = {"email": "invited@example.org", "role": "member"}
    assert (await scene.request("POST", "/api/organizations/acme/invitations", invited)).status == 200
    mails = await scene.postbox.empty()
    for _ in range(2):
        mails.append(await scene.mails(stranger))
        scene.approve(scene.write("acme", register__title=TITLE))
    assert not [mail.to for mail in mails if "prize.example" in mail.text + mail.html]
    assert "prize.example" in (await scene.mails(own)).text


async def test_members_by_their_own_act_read_the_organizations_words(scene: Speaking) -> None:
    scene.write("acme", mail_reset__subject_for="Neues Passwort, {organization}", own__footer="Acme [Imprint](https://acme.example/i)")
    own, listed = await _member(scene, "own@example.org"), await _member(scene, "listed@example.org")
    scene.people.change("update memberships set own_since = null where user_id = %s", listed.user)
    scene.people.change("update memberships set own_since = now() where user_id = %s", own.user)
    mail = await scene.mails(own.email)
    assert mail.subject == "Neues Passwort, Acme"
    assert "Acme Imprint (https://acme.example/i)" in mail.text
    assert '<a href="https://acme.example/i" rel="noopener nofollow">Imprint</a>' in mail.html
    for other in (listed, own):
        if other is own:
            # Whoever registers somebody else's address has ties, too.
            scene.people.change("update users set email_verified_at = null where id = %s", own.user)
        mail = await scene.mails(other.email)
        assert ("Neues" in mail.subject, "Imprint" in mail.html) == (False, False), other.email


async def test_an_own_tie_to_another_organization_is_none(scene: Speaking) -> None:
    scene.write("globex", mail_reset__subject_for="Globex for {organization}")
    person = await _member(scene, "own@example.org")
    scene.people.change("update memberships set own_since = now()")
    assert "Globex for" not in (await scene.mails(person.email, "globex")).subject
    assert "Globex for" not in (await scene.mails(person.email, "acme")).subject


async def test_approved_texts_are_in_mails_to_everybody_until_they_change(scene: Speaking) -> None:
    stranger = (await scene.people.with_password("correct horse battery", "stranger@example.org")).email
    digest = scene.write("acme", mail_reset__subject_for="Approved {organization}")
    scene.approve(digest)
    assert (await scene.mails(stranger)).subject == "Approved Acme"
    scene.write("acme", mail_reset__subject_for="Changed {organization}")
    assert "Changed" not in (await scene.mails(stranger)).subject
    scene.people.change("insert into text_approval_rules (mails) values (false)")
    await scene.postern.foundation.installation_words.read()
    assert (await scene.mails(stranger)).subject == "Changed Acme"


async def test_where_pages_need_a_yes_texts_wait_there_too(scene: Speaking) -> None:
    digest = scene.write("acme", register__title=TITLE)
    scene.people.change("insert into text_approval_rules (pages) values (true)")
    await scene.postern.foundation.installation_words.read()
    assert TITLE not in await scene.register_page()
    scene.approve(digest)
    assert TITLE in await scene.register_page()


async def _member(scene: Speaking, email: str) -> Person:
    person = await scene.people.with_password("correct horse battery", email)
    return scene.tenants.join(person, scene.acme, "member")

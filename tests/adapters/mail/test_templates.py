"""The wording of mails: every template in text and HTML, as a real SMTP server receives it."""

import re
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest
from jinja2 import TemplateNotFound, UndefinedError

from adapters.mail.templates import ShippedMailTemplates
from adapters.mail.transports import transport_for
from adapters.system import SystemClock
from adapters.texts import ShippedTexts, shipped
from core.domain.branding import POSTERN, Branding, branding
from core.domain.identifiers import JobId, UserId
from core.domain.identity.account_locks import LOCKING_MAILS, LockedBy
from core.domain.languages import Language
from core.domain.texts.own_texts import FOOTER, OwnTexts
from ops.stand_ins.mail_server import mail_server
from tests.words import private_phrases

TEMPLATES = ShippedMailTemplates(ShippedTexts(), "https://id.example.org")
LINK = "https://id.example.org/auth/verify-email?token=2b1c6c1e-7b7e-4a2e-9a8b-0f3a5f1c9d10"
WHEN = datetime(2026, 5, 1, 14, 5, tzinfo=timezone(timedelta(hours=2)))
CIRCUMSTANCES: dict[str, Any] = {"when": WHEN, "address": "192.0.2.7", "device": "Firefox on Linux", "location": "Vienna, Austria"}
LINKED = ("verification", "welcome", "reset", "set_password", "email_changed_new", "risk_way_back", "risk_installation_way_back")
TOLD = ("mfa_disabled", "password_breached", "backup_codes_renewed", "new_device", "unusual_sign_in")
VALUES: dict[str, dict[str, Any]] = {
    **{name: {"link": LINK} for name in LINKED},
    **dict.fromkeys(TOLD, CIRCUMSTANCES),
    "password_changed": {"keys_ended": ("Laptop (Shop)",), "keys_stay": (), **CIRCUMSTANCES},
    "password_set": {"keys_ended": (), "keys_stay": ("Laptop (Shop)", "…"), **CIRCUMSTANCES},
    "user_key_made": {
        "called": "Laptop",
        "application": "Shop",
        "organization": "Globex",
        "by_application": False,
        "application_logo": "",
        **CIRCUMSTANCES,
    },
    "afar_request": {
        "application": "Helper",
        "application_logo": "",
        "organization": "Globex",
        "api": "Orders",
        "says": ("See your orders",),
        "message": "Invoice 4711",
        "until": WHEN,
        "link": LINK,
    },
    "mfa_enabled": {"by_passkeys": False, **CIRCUMSTANCES},
    "account_locked": {"link": LINK, "by": "mail", "recent": ("Laptop", "GitHub"), "has_recent_app": True, **CIRCUMSTANCES},
    "access_reset": {"link": LINK, "at_provider": False, "when": WHEN},
    "passkey_added": {"passkey": "Laptop", "link": LINK, "by_itself": True, **CIRCUMSTANCES},
    **{f"passkey_{what}": {"passkey": "Laptop", **CIRCUMSTANCES} for what in ("removed", "copied")},
    "session_displaced": {"place": "Shop", **CIRCUMSTANCES},
    "risk_owner_notice": {"person": "grace@example.org", "rule": "Travellers", "everywhere": False, **CIRCUMSTANCES},
    "offboarding_late": {"receivers": "3", "link": LINK},
    "mail_server_failed": {"host": "smtp.example.org"},
    "mail_server_test": {"host": "smtp.example.org", "when": WHEN},
    "domain_proof_missing": {"domain": "login.example.org", "record": "_postern-verification.login.example.org", "when": WHEN},
    "domain_route_lost": {"domain": "example.org", "record": "_postern-verification.example.org", "when": WHEN},
    "resource_host_lost": {"domain": "api.example.org", "record": "_postern-verification.api.example.org", "when": WHEN},
    "join_requested": {"person": "grace@example.org", "domain": "example.org"},
    "join_approved": {},
    **{f"ownership_{what}": {"link": LINK} for what in ("received", "returned", "declined")},
    "connection_ends": {"connection": "Our login", "what": "directory", "date": "2026-08-01", "link": LINK},
    "connection_certificate_waits": {"connection": "Our login", "reason": "other_host", "fingerprint": "9f2c4d", "link": LINK},
    "connection_unread": {"connection": "Our login", "other_entity": False, "since": "2026-08-01", "link": LINK},
    "invitation": {"link": LINK, "inviter": "grace@example.org", "until": WHEN, "application": "Shop", "application_logo": ""},
    "email_changed_old": {"new_email": "new@example.org", "done": False, **CIRCUMSTANCES},
}
ACME = branding("Acme & Söhne", "0f" * 32, "#ffd166")


class ParsedMail(HTMLParser):
    """A mail as a mail program parses it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("language", Language)
async def test_every_mail_arrives_with_both_parts(language: Language) -> None:
    with mail_server() as server:
        transport = transport_for(server.url(), "Postern <postern@example.org>", clock=SystemClock())
        for number, (name, values) in enumerate(VALUES.items(), start=1):
            mail = TEMPLATES.mail(name, "ada@example.org", account=None, language=language, branding=ACME, **values)
            await transport.send(mail, JobId(uuid4()))
            received = (await server.wait_for(number))[-1]
            assert received.recipients == ["ada@example.org"]
            assert received.message["Subject"] == mail.subject
            assert received.message["Content-Language"] == language.tag
            assert received.part("plain") == mail.text
            assert received.part("html") == mail.html


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("name", VALUES)
def test_a_mail_is_well_made(name: str, language: Language) -> None:
    mail = TEMPLATES.mail(name, "ada@example.org", account=None, language=language, branding=ACME, **VALUES[name])
    assert mail.language is language
    assert mail.subject
    assert "\n" not in mail.subject
    assert max(map(len, mail.text.splitlines())) <= 100
    assert "\n\n\n" not in mail.text
    assert not re.search(r"[{}<>]|None|Undefined|\*\*", mail.text), mail.text
    read = ParsedMail(mail.html)
    (html,) = read.of("html")
    assert html["lang"] == language.tag
    assert len(read.of("h1")) == len(read.of("title")) == 1
    # Layout tables say that they are no data tables; images say what they show.
    assert all(table.get("role") == "presentation" for table in read.of("table") if table.get("class") != "facts")
    assert [image["alt"] for image in read.of("img")] == ["Acme & Söhne"]
    assert {meta.get("content") for meta in read.of("meta") if meta.get("name") == "color-scheme"} == {"light dark"}
    assert "prefers-color-scheme: dark" in mail.html
    assert not {"script", "link", "iframe", "form", "object", "video"} & {tag for tag, _ in read.tags}
    assert "url(" not in mail.html
    links = {link["href"] for link in read.of("a")}
    assert links == ({LINK} if "link" in VALUES[name] else set())
    for field, value in VALUES[name].items():
        # Words choose a sentence, and stand in none.
        if isinstance(value, str) and field not in {"what", "reason"}:
            assert value in mail.text
            assert value in mail.html
    if "when" in VALUES[name]:
        assert ShippedTexts().of(language).moment(WHEN) in mail.text
    if language is Language.ENGLISH:
        assert private_phrases(f"{mail.subject}\n{mail.html}".encode()) == []


@pytest.mark.parametrize("name", VALUES)
def test_without_branding_it_is_ours_and_fetches_nothing(name: str) -> None:
    mail = TEMPLATES.mail(name, "ada@example.org", account=None, language=None, **VALUES[name])
    assert not ParsedMail(mail.html).of("img")
    assert POSTERN.color in mail.html
    assert "Acme" not in mail.html


@pytest.mark.parametrize("name", TOLD)
def test_what_is_not_known_is_left_out(name: str) -> None:
    mail = TEMPLATES.mail(name, "ada@example.org", account=None, language=None, when=None, address=None)
    assert "When" not in mail.text + mail.html
    assert "IP address" not in mail.text
    assert not [table for table in ParsedMail(mail.html).of("table") if table.get("class") == "facts"]


def test_a_change_that_has_happened_reads_otherwise_than_one_that_was_asked_for() -> None:
    asked, done = (
        TEMPLATES.mail("email_changed_old", "a@example.org", account=None, language=None, new_email="n@example.org", done=done)
        for done in (False, True)
    )
    assert asked.subject == "Email address change requested"
    assert "was changed" in done.subject
    assert asked.text != done.text


def test_a_second_factor_is_called_what_it_is() -> None:
    by_app, by_passkeys = (
        TEMPLATES.mail("mfa_enabled", "a@example.org", account=None, language=None, by_passkeys=by_passkeys).text
        for by_passkeys in (False, True)
    )
    assert ("authenticator app" in by_app, "passkeys" in by_app) == (True, False)
    assert ("authenticator app" in by_passkeys, "passkeys" in by_passkeys) == (False, True)


def test_all_access_has_ended_says_how_to_come_in_again() -> None:
    handed, at_provider = (
        TEMPLATES.mail("access_reset", "a@example.org", account=None, language=None, link=None, at_provider=at_provider)
        for at_provider in (False, True)
    )
    assert "gives you a link" in handed.text
    assert "provider, as before" in at_provider.text
    for mail in (handed, at_provider):
        assert "http" not in mail.text.replace("https://id.example.org", "")
        assert not ParsedMail(mail.html).of("a")


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 777 * 777 }}{% raw %}",
    "line\r\nBcc: eve@example.org",
    "\u202eevil",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_values_stay_text(text: str) -> None:
    mail, honest = (
        TEMPLATES.mail(
            "new_device", "ada@example.org", account=None, language=None, device=one, location=one, address=one, when=datetime.now(UTC)
        )
        for one in (text, "x")
    )
    assert [tag for tag, _ in ParsedMail(mail.html).tags] == [tag for tag, _ in ParsedMail(honest.html).tags]
    assert len(mail.text.splitlines()) == len(honest.text.splitlines())
    assert "603729" not in mail.text
    assert len(mail.text) < 3000
    mail = TEMPLATES.mail("verification", "ada@example.org", account=None, language=None, branding=branding(text, text, text), link=LINK)
    assert "\n" not in mail.subject
    assert "\r" not in mail.subject
    assert "onerror=alert(1)>" not in mail.html
    assert {link["href"] for link in ParsedMail(mail.html).of("a")} == {LINK}


TEMPTING = "Evil https://evil.example/x HTTP://Evil.example Www.evil.example evil.example"
# What a mail program takes for a link. A word joiner before a dot, or behind a colon, ends it.
LINKS = re.compile(r"[a-z]://|www\.|[a-z0-9]\.[a-z]", re.IGNORECASE)
# Values of ours, or of which a domain, an address or a key has to be copied.
COPIED = {"link", "record", "domain", "host", "new_email", "address", "what", "by", "reason"}
BILLING = ("billing_action_required", "billing_payment_failed", "billing_trial_ends")
MORE: dict[str, dict[str, Any]] = {
    **VALUES,
    **{name: {"plan": "Pro", "service": "Shop", "application_logo": ""} for name in BILLING},
    "saml_certificate_ends": {"service": "Shop", "date": "2026-08-01"},
    "webhook_paused": {"webhook": "To Slack", "host": "hooks.example.org"},
    **{f"identity_{what}": {"provider": "Our login", "signed_out": False, **CIRCUMSTANCES} for what in ("linked", "unlinked")},
    "joined": {"link": LINK},
    "setup_link": {"link": LINK, "until": WHEN},
}


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("name", MORE)
def test_what_people_and_tenants_call_themselves_is_no_link(name: str, language: Language) -> None:
    given = {field: TEMPTING if isinstance(value, str) and field not in COPIED else value for field, value in MORE[name].items()}
    looks = branding(TEMPTING, None, None)
    mail = TEMPLATES.mail(name, "ada@people", account=None, language=language, branding=looks, carries_own_texts=False, **given)
    for part in (mail.subject, mail.text, re.sub(r"<[^>]*>", " ", mail.html.partition("</head>")[2])):
        shown = part
        for copied in (*(MORE[name][field] for field in COPIED & MORE[name].keys()), "https://id.example.org"):
            shown = shown.replace(str(copied), "")
        around = [shown[found.start() - 10 : found.end() + 10] for found in LINKS.finditer(shown) if "evil" in shown.lower()]
        assert [one for one in around if "evil" in one.lower()] == []
        # To the eye it is what it was.
        assert "www\u2060." in shown.lower() or "evil" not in shown.lower()


def test_an_invitation_for_an_application_shows_which() -> None:
    told: dict[str, Any] = {**MORE["invitation"], "application_logo": f"/logos/{'0f' * 32}"}
    acme = branding("Acme", None, None)
    mail = TEMPLATES.mail("invitation", "a@example.org", account=None, language=Language.ENGLISH, branding=acme, **told)
    assert "You get access to Shop." in " ".join(mail.text.split())
    assert f'src="https://id.example.org/logos/{"0f" * 32}"' in mail.html
    told |= {"application": "", "application_logo": ""}
    mail = TEMPLATES.mail("invitation", "a@example.org", account=None, language=Language.ENGLISH, branding=acme, **told)
    assert "access" not in mail.text
    assert "<img" not in mail.html


def test_an_own_footer_keeps_its_lines_in_both_parts() -> None:
    footer = f"Acme Ltd & Sons\nHigh Street 1\n\n{'Registered in London. ' * 6}"
    acme = Branding("Acme", texts=OwnTexts("own", {Language.ENGLISH: {FOOTER: footer}}), texts_are_approved=True)
    mail = TEMPLATES.mail("welcome", "a@example.org", account=None, language=Language.ENGLISH, branding=acme, link=LINK)
    assert "\nAcme Ltd & Sons\nHigh Street 1\n\nRegistered in London." in mail.text
    assert max(map(len, mail.text.partition("Acme Ltd")[2].splitlines())) <= 79
    assert "Acme Ltd &amp; Sons<br>\nHigh Street 1</p>" in mail.html


@pytest.mark.parametrize("name", ["user_key_made", "afar_request", *BILLING])
def test_a_mail_about_an_application_shows_its_logo(name: str) -> None:
    told: dict[str, Any] = {**MORE[name], "application_logo": f"/logos/{'0f' * 32}"}
    mail = TEMPLATES.mail(name, "a@example.org", account=None, language=Language.ENGLISH, branding=branding("Acme", None, None), **told)
    (image,) = ParsedMail(mail.html).of("img")
    # The name stands below it: to read it out twice helps nobody.
    assert (image["src"], image["alt"]) == (f"https://id.example.org/logos/{'0f' * 32}", "")
    assert "/logos/" not in mail.text


def test_a_slip_of_ours_is_noticed() -> None:
    with pytest.raises(TemplateNotFound):
        TEMPLATES.mail("nothing", "ada@example.org", account=None, language=None)
    with pytest.raises(UndefinedError):
        TEMPLATES.mail("reset", "ada@example.org", account=None, language=None)


def test_a_new_password_names_the_keys_that_ended_and_those_that_go_on() -> None:
    keys: dict[str, Any] = {"keys_ended": ("Laptop (Shop)", "Visit http://evil.example (Shop)"), "keys_stay": ("Nightly (Desk)", "…")}
    mail = TEMPLATES.mail("password_changed", "a@example.org", account=None, language=None, **keys)
    said = " ".join(mail.text.split())
    assert "were revoked: Laptop (Shop), Visit http" in said
    assert "http://evil.example" not in mail.text + mail.html
    assert "still work: Nightly (Desk), …." in said
    none = TEMPLATES.mail("password_changed", "a@example.org", account=None, language=None, keys_ended=(), keys_stay=())
    assert "API keys" not in none.text


def test_a_key_that_the_application_made_is_told_otherwise_than_one_of_the_person() -> None:
    values: dict[str, Any] = {"called": "Laptop", "application": "Shop", "application_logo": "", "organization": "Acme"}
    own, given = (
        " ".join(TEMPLATES.mail("user_key_made", "a@b.example", account=None, language=None, by_application=by, **values).text.split())
        for by in (False, True)
    )
    assert "was created in your account, for Shop of Acme" in own
    assert "Shop of Acme created the API key “Laptop” for you" in given
    assert "choose a new password" not in given


@pytest.mark.parametrize("by", LockedBy)
def test_whoever_locked_the_account_is_told(by: LockedBy) -> None:
    given: dict[str, Any] = {"link": LINK, "by": by.value, "recent": (), "has_recent_app": False}
    mail = TEMPLATES.mail("account_locked", "a@example.org", account=None, language=None, **given)
    others = {one: shipped(Language.ENGLISH, None)[f"mail_account_locked.text_{one}"] for one in LockedBy}
    text = " ".join(mail.text.split())
    assert [one for one, words in others.items() if words in text] == [by]
    assert "last 30 days" not in text


class CountingLinks:
    """Makes links that tell what they were made of."""

    def issue(self, user: UserId, to: str, mail: str) -> str:
        return f"https://id.example.org/ui/lock-account?token={user}.{to}.{mail}"


def test_mails_of_what_a_stranger_may_have_done_lock_the_account() -> None:
    templates = ShippedMailTemplates(ShippedTexts(), "https://id.example.org", CountingLinks())
    user = UserId(uuid4())
    for name, values in VALUES.items():
        mail = templates.mail(name, "a@example.org", account=user, language=None, **values)
        assert (f"token={user}.a@example.org.{name}" in mail.text) is (name in LOCKING_MAILS), name
        assert ("Lock account" in mail.html) is (name in LOCKING_MAILS), name
        # Somebody else's mail to an address has none.
        assert "lock-account" not in templates.mail(name, "a@example.org", account=None, language=None, **values).text
    # The account has another address by now.
    done = {**VALUES["email_changed_old"], "done": True}
    assert "lock-account" not in templates.mail("email_changed_old", "a@example.org", account=user, language=None, **done).text


def test_every_mail_that_asks_whether_it_was_you_locks() -> None:
    asking = set()
    for name, values in VALUES.items():
        if "Was this not you?" in TEMPLATES.mail(name, "a@example.org", account=None, language=None, **values).text:
            asking.add(name)
    assert asking <= LOCKING_MAILS
    assert LOCKING_MAILS & VALUES.keys() - asking == {"passkey_copied"}

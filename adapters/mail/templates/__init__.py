"""Render mails from templates. Each mail has one template, in the folder of its area, which is rendered as text and as HTML. All mails
share a layout, and their words are in the catalogue. A mail loads nothing from the network except an organization's logo, from this
installation.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from adapters.compiled_templates import CompiledTemplates
from adapters.mail.message import FILL
from core.domain.branding import POSTERN, Branding, dark_logo
from core.domain.identifiers import UserId
from core.domain.identity.account_locks import LOCKING_MAILS
from core.domain.languages import Language, spoken_language
from core.domain.lines import one_line, unlinked
from core.domain.mail import Mail
from core.domain.texts.own_texts import InstallationWords, OwnTexts
from core.frozen import replace
from ports.mail import LockLinkMaker
from ports.texts import SpokenInstallationWords, Text, Texts, WearingText

_NO_WORDS: Final = InstallationWords()
_SUBJECT: Final = "Subject: "
# Several empty lines in a row. They remain where a template leaves out a part of the text.
_GAP: Final = re.compile(r"\n{3,}")
_LONGEST_VALUE: Final = 300
# Values of ours, and those that somebody copies: a link, a code, the record and the name of a domain, an address.
_COPIED: Final = frozenset({"link", "code", "domain", "record", "host", "new_email", "address"})

# The layout is in the first folder. All folders are searched, because a use case names its mail without the area.
_HERE: Final = Path(__file__).parent
_FOLDERS: Final = (_HERE, *(_HERE / area for area in ("federation", "identity", "services", "tenancy")))

Form = Literal["txt", "html"]
_COMPILED: Final[Mapping[Form, CompiledTemplates]] = {"txt": CompiledTemplates(), "html": CompiledTemplates()}
Value = str | bool | datetime | tuple[str, ...] | None


class ShippedMailTemplates:
    """Implements `ports.mail.MailTemplates`. `origin` is the address of this installation. Every mail ends with `origin`. Without
    `lock_links`, no mail locks an account.
    """

    def __init__(
        self, texts: Texts, origin: str, lock_links: LockLinkMaker | None = None, words: SpokenInstallationWords | None = None
    ) -> None:
        """Without `words`, the installation has no texts of its own."""
        self._texts = texts
        self._words = words
        self._origin = origin
        self._lock_links = lock_links

    def mail(
        self,
        name: str,
        to: str,
        *,
        account: UserId | None,
        language: Language | None,
        branding: Branding = POSTERN,
        carries_own_texts: bool = False,
        **values: Value,
    ) -> Mail:
        spoken = spoken_language(language, branding.languages)
        plain, html = self._texts.of(spoken), self._texts.html(spoken)
        given = {
            # Only some mails have these values.
            "code": "",
            "when": None,
            "address": None,
            "device": None,
            "location": None,
            "lock": self._lock_link(name, to, account),
            **{one: _shown(value, plain, is_copied=one in _COPIED) for one, value in values.items()},
            "to": _shown(to, plain, is_copied=True),
            "branding": replace(branding, name=unlinked(branding.name)),
            "dark_logo": dark_logo(branding),
            "links": _links(branding, plain) if self._carries_links(carries_own_texts=carries_own_texts) else [],
            "origin": self._origin,
            "language": spoken,
        }
        own = self._own(branding, carries_own_texts=carries_own_texts)
        text = _rendered("txt", name, plain, given, own)
        subject, _, text = text.partition("\n")
        subject = subject.removeprefix(_SUBJECT)
        text = _GAP.sub("\n\n", text.strip()) + "\n"
        return Mail(to, subject, text, _rendered("html", name, html, {**given, "subject": subject}, own), spoken, account)

    def _carries_links(self, *, carries_own_texts: bool) -> bool:
        """Whether the foot has the organization's links. They lead wherever an administrator likes, and a path can be read like a message.
        No platform owner has said yes to them: they are no part of the texts' digest.
        """
        return self._spoken().rules.carry_in_mails(approved=False, is_own=carries_own_texts)

    def _spoken(self) -> InstallationWords:
        return _NO_WORDS if self._words is None else self._words.current

    def _own(self, branding: Branding, *, carries_own_texts: bool) -> list[OwnTexts]:
        """The own texts that stand over ours, the nearest first."""
        spoken = self._spoken()
        may_show = spoken.rules.carry_in_mails(approved=branding.texts_are_approved, is_own=carries_own_texts)
        return spoken.over_ours(branding.texts, may_show=may_show)

    def _lock_link(self, name: str, to: str, account: UserId | None) -> str:
        if self._lock_links is None or account is None or name not in LOCKING_MAILS:
            return ""
        return self._lock_links.issue(account, to, name)


def _rendered(form: Form, name: str, text: WearingText, given: Mapping[str, Any], own: Sequence[OwnTexts]) -> str:
    branding: Branding = given["branding"]

    def branded(plain: str, named: str, **values: object) -> str:
        """The text `named` if an organization brands the mail, and otherwise the text `plain`."""
        return said(text, plain, named, **values)

    def branded_paragraphs(plain: str, named: str, **values: object) -> str:
        return said(text.paragraphs, plain, named, **values)

    def said(saying: Callable[..., str], plain: str, named: str, **values: object) -> str:
        return saying(plain, **values) if branding.name == POSTERN.name else saying(named, organization=branding.name, **values)

    template = _templates(form, text).get_template(f"{name}.jinja")
    text.lay_over(*own)
    try:
        return template.render({**given, "branded": branded, "branded_paragraphs": branded_paragraphs})
    finally:
        text.lay_over()


@cache
def _templates(form: Form, text: WearingText) -> Environment:
    """Imported macros see only the globals of the environment, so each language has an environment with its own globals."""
    templates = Environment(
        loader=FileSystemLoader(_FOLDERS),
        autoescape=form == "html",  # noqa: S701 - the text of a mail is no HTML
        undefined=StrictUndefined,
        auto_reload=False,  # otherwise the environment checks the template's file at each use
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_COMPILED[form],
    )
    # Outlook knows no logical properties, so a template aligns by `start`, and asks for the direction where two sides differ.
    direction = text.language.direction
    templates.globals |= {"text": text, "direction": direction, "start": "right" if direction == "rtl" else "left"}
    templates.globals |= {"paragraphs": text.paragraphs, "layout": f"layout.{form}", "parts": f"parts.{form}"}
    templates.filters["filled"] = partial(_filled, FILL[text.language])
    templates.filters["filled_lines"] = partial(_filled_lines, FILL[text.language])
    return templates


def _links(branding: Branding, text: Text) -> list[tuple[str, str]]:
    links = branding.links
    named = ((links.help_url, "common.help"), (links.privacy_url, "common.privacy"), (links.terms_url, "common.terms"))
    return [(address, text(key)) for address, key in named if address]


def _filled(fill: Callable[[str], str], text: str) -> str:
    return "\n\n".join(fill(paragraph) for paragraph in text.split("\n\n"))


def _filled_lines(fill: Callable[[str], str], text: str) -> str:
    """Each line ends where it ended, or earlier."""
    return "\n".join(map(fill, text.split("\n")))


def _shown(value: Value, text: Text, *, is_copied: bool) -> str | bool | None:
    """The value for a template. A text is put on one line and cut, and is no link, because people choose the names of devices and
    organizations.
    """
    if isinstance(value, datetime):
        return text.moment(value)
    if isinstance(value, tuple):
        return text.listed([str(_shown(one, text, is_copied=False)) for one in value])
    if isinstance(value, str):
        line = one_line(value)
        line = line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}…"
        return line if is_copied else unlinked(line)
    return value

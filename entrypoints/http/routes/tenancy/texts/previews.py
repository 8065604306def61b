"""Previews of pages and mails with an organization's own texts."""

from typing import Annotated

import msgspec

from core.domain.branding import Branding
from core.domain.errors import BadRequest, NotFound
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import EmailAddress, OrganizationPath, example
from entrypoints.http.machinery.limits import OWN_MAILS
from entrypoints.http.pages import shipped_pages

_TAGS = ("settings",)
_ORGANIZATION = "/api/organizations/{org_slug}"
# Mails have the caller's own address in them, so nobody looks in the name of somebody else, and no key does.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)


class TextPreviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to show: a mail, a page, or the page or mail on which a text stands."""

    mail: Annotated[str, example("invitation")] = ""
    """A mail, by the name that the list of texts has for it."""
    on_page: Annotated[str, example("sign_in")] = ""
    """A page, likewise."""
    key: Annotated[str, example("sign_in.title")] = ""
    """A text."""
    language: Language = DEFAULT
    """In this language."""


class TextPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A page or mail, as people would see it."""

    language: Language
    """The language that it speaks."""
    html: Annotated[str, example("<!doctype html>…")]
    """The page, or the HTML part of the mail. Show it in a frame with `sandbox`."""
    text: Annotated[str, example("Ada invites you …")] | None
    """The text part of the mail; null for a page."""
    subject: Annotated[str, example("Invitation to Acme")] | None
    """The subject of the mail; null for a page."""


class OwnMailPath(OrganizationPath, frozen=True):
    mail: Annotated[str, example("invitation")]
    """The mail, by the name that the list of texts has for it."""


class OwnMail(msgspec.Struct, frozen=True, kw_only=True):
    """How you want the mail."""

    language: Language = DEFAULT
    """In this language."""


class MailSent(msgspec.Struct, frozen=True, kw_only=True):
    """Where the mail goes."""

    to: EmailAddress


@endpoint.get(f"{_ORGANIZATION}/texts/preview", caller=_IN_PERSON, tags=_TAGS)
async def preview_texts(call: Call[None, TextPreviewQuery, OrganizationPath, Member], postern: Postern) -> TextPreview:
    """Look at a page or mail of an organization

    Name a mail, a page or a text. A page has made-up values, a mail yours; its link leads nowhere in particular. Own texts stand there
    whether a platform owner has approved them or not.
    """
    return preview_of(call.query, call.caller.caller, await postern.tenancy.mail_previews.branding(call.caller), postern)


def preview_of(wanted: TextPreviewQuery, reader: Caller, branding: Branding, postern: Postern) -> TextPreview:
    opened = OPEN_TEXTS.get(wanted.key)
    mail, page = wanted.mail, wanted.on_page
    if opened is not None:
        mail, page = (opened.page, "") if opened.place.is_mail else ("", opened.page)
    if mail:
        shown = postern.tenancy.mail_previews.show(reader, mail, wanted.language, branding)
        return TextPreview(language=shown.language, html=shown.html, text=shown.text, subject=shown.subject)
    html = shipped_pages().preview(page, wanted.language, branding, "" if opened is None else opened.key)
    if html is None:
        raise NotFound("There is no such page or mail", words="preview_unknown")
    return TextPreview(language=wanted.language, html=html.decode(), text=None, subject=None)


@endpoint.post(
    f"{_ORGANIZATION}/mails/{{mail}}/send-to-me",
    caller=_IN_PERSON,
    limit=OWN_MAILS,
    refuses=(BadRequest,),
    tags=_TAGS,
    verb="texts send-to-me",
)
async def test_organization_mail(call: Call[OwnMail, None, OwnMailPath, Member], postern: Postern) -> MailSent:
    """Send yourself a mail of an organization

    It goes to your own verified address and to nobody else, through the server that sends the organization's mails. Its values are yours,
    and its link leads nowhere in particular.
    """
    return MailSent(to=await postern.tenancy.mail_previews.send(call.caller, call.path.mail, call.body.language))

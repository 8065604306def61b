"""The texts that an organization puts in place of ours, when its notice stands above the sign-in, and previews of both."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Union

import msgspec

from core.domain.branding import Branding
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts import KeptText, ListedText, NoticeTimes, OwnCount, TextListing, TextsChange, WholeTexts
from core.domain.texts.own_texts import OPEN_TEXTS, TextKind, TextPlace
from core.domain.texts.rules import LONGEST
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import EmailAddress, OrganizationPath, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS, OWN_MAILS
from entrypoints.http.pages.kit import shipped_pages

_TAGS = ("settings",)
_TEXTS = "/api/organizations/{org_slug}/texts"
_MANAGERS = able(Capability.SETTINGS_MANAGE, impersonated=True)

_Key = Annotated[str, example("sign_in.title")]
_Own = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST}, examples=["Welcome to Acme"])]
_Version = Annotated[
    Word,
    msgspec.Meta(
        extra_json_schema={"pattern": "^[0-9a-f]{64}$"}, examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    ),
]
_LanguageCode = Annotated[Word, msgspec.Meta(extra_json_schema={"pattern": "^[a-z]{2,8}$"}, examples=["de"])]


class TextsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which texts to list."""

    language: Language = DEFAULT
    """The language of the texts."""
    place: TextPlace | None = None
    """Return only texts of these pages or emails."""


class TextsPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of custom texts in one language. Omitted texts are unchanged."""

    language: _LanguageCode
    """The language of the texts."""
    texts: Annotated[Mapping[Word, _Own | None], example({"sign_in.title": "Willkommen bei Acme", "register.title": None})]
    """The custom texts, by key; null restores the default."""
    version: _Version | msgspec.UnsetType | None = msgspec.UNSET
    """The version that you have read, or null if there was none. If someone else has changed the texts since, the change is rejected. If
    omitted, the change always applies.
    """


def _by_language() -> type[msgspec.Struct]:
    """A field for each language that we speak."""
    kind = Mapping[Word, _Own]
    described = [
        (language.value, Annotated[kind, msgspec.Meta(description=f"All custom texts in the language {language.value}, by key.")])
        for language in Language
    ]
    made = msgspec.defstruct(
        "WholeTextsBody",
        [(name, Union[hint, msgspec.UnsetType], msgspec.UNSET) for name, hint in described],  # noqa: UP007
        frozen=True,
        kw_only=True,
        # A language that we do not speak is a mistake, and nothing to pass over.
        forbid_unknown_fields=True,
        module=__name__,
    )
    made.__doc__ = "All custom texts in the languages that you name. Other languages are unchanged."
    return made


WholeTextsBody: Final[Any] = _by_language()


class OpenTextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A text that can be customized."""

    key: _Key
    """The key of the text."""
    place: TextPlace
    """The pages or emails that show the text."""
    page: Annotated[str, example("sign_in")]
    """The page or email that shows the text."""
    kind: TextKind
    """The kind of text. Titles, buttons, hints and subjects have one line. Paragraphs, footer and notice can have up to 4 paragraphs, and
    links: `[words](https://…)`.
    """
    ours: Annotated[str, example("Sign in")]
    """The default text, with its placeholders; empty for the footer and the notice, which have no default."""
    own: _Own | None
    """The custom text; null while the default is used."""
    placeholders: Annotated[Sequence[str], example(["service"])]
    """The placeholders, without braces. A custom text must contain each of them, at most twice."""
    most: Annotated[int, example(60)]
    """The maximum length of a custom text, in characters."""
    was_ours: Annotated[str, example("Log in")] | None
    """The default text when the custom text was set, if it has changed since; otherwise null."""
    unlinked: bool
    """Whether the custom text is shown without its links, because the domain of a link is no longer verified."""


class StoredTextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A custom text to review."""

    key: _Key
    """The key of the text."""
    language: _LanguageCode
    """The language of the text."""
    text: _Own
    """The custom text."""
    based_on: Annotated[str, example("Log in")]
    """The default text when the custom text was set."""
    updated_at: datetime
    """When the custom text was set."""


class OwnCountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The number of custom texts of a page or email in one language."""

    place: TextPlace
    """The pages or emails that show the texts."""
    language: Language
    """The language of the texts."""
    count: Annotated[int, example(3)]
    """The number of texts."""


class TextsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The texts that can be customized."""

    version: _Version | None
    """The version of the custom texts in all languages; null if there are none. Send it with a change."""
    language: Language
    """The language of the listed texts."""
    texts: Sequence[OpenTextRecord]
    """The texts, in the order in which people see them."""
    counts: Sequence[OwnCountRecord]
    """The number of custom texts, for each page, email and language that has custom texts."""
    outdated: Sequence[StoredTextRecord]
    """Custom texts, in all languages, whose default text has changed since they were set. They are still shown. Send a custom text again to
    confirm it.
    """
    gone: Sequence[StoredTextRecord]
    """Custom texts that are not shown, because this release no longer has the text, or does not support the language. Send null to delete
    them.
    """


class TextsVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change."""

    version: _Version | None
    """The new version of the custom texts; null if there are none."""


@endpoint.get(_TEXTS, caller=MEMBER, keys=True, tags=_TAGS)
async def list_texts(call: Call[None, TextsQuery, OrganizationPath, Member], postern: Postern) -> TextsRecord:
    """List the texts of an organization

    Return the texts of pages and emails that an organization can customize: titles, introductions, buttons, help below fields, subjects and
    paragraphs of emails, a footer, and a notice above the sign-in. All other texts are fixed, because people base decisions on them. An
    organization's custom texts take precedence over those of the installation, and these over the default texts.
    """
    return texts_record(await postern.tenancy.own_texts.list(call.caller.organization, call.query.language, call.query.place), call.query)


@endpoint.patch(_TEXTS, caller=_MANAGERS, keys=True, limit=CREDENTIALS, refuses=(BadRequest, Conflict), tags=_TAGS)
async def change_texts(call: Call[TextsPatch, None, OrganizationPath, Member], postern: Postern) -> TextsVersion:
    """Change custom texts of an organization

    Either all texts in the request are saved or none; an error lists each problem. Write placeholders in braces. Links must be https URLs
    in domains that the organization has verified, or that the operator allows.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change(call.caller, change_of_texts(call.body), call.actor))


@endpoint.put(_TEXTS, caller=_MANAGERS, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), verb="texts replace", tags=_TAGS)
async def replace_texts(call: Call[WholeTextsBody, None, OrganizationPath, Member], postern: Postern) -> TextsVersion:
    """Replace the custom texts of an organization

    In each language of the body, omitted texts are reset to the default; an empty language has no custom texts. Other languages do not
    change. Configuration files use this endpoint.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change(call.caller, whole_of(call.body), call.actor))


def change_of_texts(body: TextsPatch) -> TextsChange:
    return TextsChange(body.language, body.texts, None if body.version is msgspec.UNSET else body.version or "")


def whole_of(body: Any) -> WholeTexts:
    said = {language: getattr(body, language.value) for language in Language}
    return WholeTexts({language: texts for language, texts in said.items() if texts is not msgspec.UNSET})


def texts_record(texts: TextListing, query: TextsQuery) -> TextsRecord:
    return TextsRecord(
        version=texts.digest,
        language=query.language,
        texts=[_listed(one) for one in texts.listed],
        counts=[_counted(one) for one in texts.counts],
        outdated=[_stored(one) for one in texts.outdated],
        gone=[_stored(one) for one in texts.gone],
    )


_counted = shown(OwnCount, OwnCountRecord)
_stored = shown(KeptText, StoredTextRecord)
_listed = shown(
    ListedText,
    OpenTextRecord,
    key=lambda one: one.open.key,
    place=lambda one: one.open.place,
    page=lambda one: one.open.page,
    kind=lambda one: one.open.kind,
)


_NOTICE = "/api/organizations/{org_slug}/notice"

_At = Annotated[datetime, msgspec.Meta(tz=True)]


class NoticeBody(msgspec.Struct, frozen=True, kw_only=True):
    """The period in which the notice is shown. Its text is `own.notice`."""

    begins_at: _At | None = None
    """The time from which the notice is shown; null to show it as soon as it has a text."""
    ends_at: _At | None = None
    """The time until which the notice is shown; null to show it until its text is removed."""


@endpoint.get(_NOTICE, caller=MEMBER, keys=True, tags=_TAGS)
async def get_notice(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoticeBody:
    """Get the schedule of an organization's notice

    Return the times. The text of the notice is one of the organization's texts.
    """
    return _body(await postern.tenancy.notices.get(call.caller))


@endpoint.put(_NOTICE, caller=_MANAGERS, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def set_notice(call: Call[NoticeBody, None, OrganizationPath, Member], postern: Postern) -> NoticeBody:
    """Set the schedule of an organization's notice

    Between these times, by the server's clock, the pages on which people sign in or register show the text `own.notice`. To hide the notice
    and keep its text, set an end in the past.
    """
    times = NoticeTimes(call.body.begins_at, call.body.ends_at)
    return _body(await postern.tenancy.notices.set(call.caller, times, call.actor))


_body = shown(NoticeTimes, NoticeBody)


_ORGANIZATION = "/api/organizations/{org_slug}"
# Mails have the caller's own address in them, so nobody looks in the name of somebody else, and no key does.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)


class TextPreviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to show: a mail, a page, or the page or mail on which a text stands."""

    mail: Annotated[Word, example("invitation")] = ""
    """The email to preview, by its name in the list of texts."""
    on_page: Annotated[Word, example("sign_in")] = ""
    """The page to preview, by its name in the list of texts."""
    key: Annotated[Word, example("sign_in.title")] = ""
    """The key of a text. The preview shows the page or email with this text."""
    language: Language = DEFAULT
    """The language of the preview."""


class TextPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A preview of a page or an email."""

    language: Language
    """The language of the preview."""
    html: Annotated[str, example("<!doctype html>…")]
    """The page, or the HTML part of the email. Show it in a frame with the attribute `sandbox`."""
    text: Annotated[str, example("Ada invites you …")] | None
    """The text part of the email; null for a page."""
    subject: Annotated[str, example("Invitation to Acme")] | None
    """The subject of the email; null for a page."""


class OwnMailPath(OrganizationPath, frozen=True):
    mail: Annotated[Word, example("invitation")]
    """The email to send, by its name in the list of texts."""


class OwnMail(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the test email."""

    language: Language = DEFAULT
    """The language of the email."""


class MailSent(msgspec.Struct, frozen=True, kw_only=True):
    """The recipient of the test email."""

    to: EmailAddress


@endpoint.get(f"{_ORGANIZATION}/texts/preview", caller=_IN_PERSON, tags=_TAGS)
async def preview_texts(call: Call[None, TextPreviewQuery, OrganizationPath, Member], postern: Postern) -> TextPreview:
    """Preview a page or email of an organization

    Send the name of an email, a page or a text. A page has sample values; an email has your own values, and its link is not valid. Custom
    texts are shown even if a platform owner has not approved them.
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
        raise NotFound("Page or email not found", words="preview_unknown")
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
    """Send a test email of an organization

    The email goes only to your own verified email address, through the server that sends the organization's emails. It has your own values,
    and its link is not valid.
    """
    return MailSent(to=await postern.tenancy.mail_previews.send(call.caller, call.path.mail, call.body.language))

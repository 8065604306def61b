"""Fields that several endpoints share: their descriptions and the checks that types cannot make; and paged lists."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.callers import LONGEST_REASON
from core.domain.lines import LONGEST_TYPED
from core.domain.mail import Email
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT, UNCHANGED, Page, Unchanged
from core.domain.services.clients import LONGEST_URI
from core.domain.services.plans import LONGEST_PRICE_ID
from core.domain.tenancy.roles import LONGEST_DESCRIPTION
from ports.identity.accounts import EmailSyntax

# The slug of an organization or a service. No slug is longer.
Slug = Annotated[str, msgspec.Meta(max_length=50)]


def example(value: Any) -> msgspec.Meta:
    """The value that the documentation shows for a field."""
    return msgspec.Meta(examples=[value])


SHOWN_ONCE = msgspec.Meta(extra={"shown_once": True})
"""Marks a field that no other answer shows, such as a new key. The command line prints it alone."""


SECRET = msgspec.Meta(extra={"secret": True})
"""Marks a field of a body that holds a secret. The command line takes it from a file or from standard input, too."""


def _described(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


# Every text of a request has a bound, and the decoder refuses a longer one before anything reads it: `tests/security/test_texts.py` walks
# them all. These are for texts whose rule the handler or the domain words better; a field with a bound of its own says it with `Meta`.
Word = Annotated[str, msgspec.Meta(max_length=200)]
"""A value that stands for something: a choice, an id, a slug, a scope."""
Line = Annotated[str, msgspec.Meta(max_length=LONGEST_TYPED)]
"""What somebody types or links to: a name, an address."""
Parameter = Annotated[str, msgspec.Meta(max_length=8 << 10)]
"""A parameter of a protocol, in a query or a form. All of them together are not longer."""
Lines = Annotated[str, msgspec.Meta(max_length=64 << 10)]
"""A document, or several values, one a line. The limit of the body is less."""


def bounded(schema: Mapping[str, object], *, examples: list[Any] | None = None) -> msgspec.Meta:
    """The bounds of a text in the documentation. The domain checks them in the text's stored form, and words the refusal. The decoder
    refuses what is longer than any line that somebody types, or than the bound if that is more.
    """
    most = schema.get("maxLength", 0)
    assert isinstance(most, int)  # noqa: S101 - for the type checker
    return msgspec.Meta(max_length=max(most, LONGEST_TYPED), extra_json_schema={**schema, _STORED: most}, examples=examples)


# In a schema, the bound of the stored form, beside the decoder's.
_STORED: Final = "x-stored"


def tell_stored_bounds(schema: Any) -> None:
    """Puts the bounds of `bounded` into a schema, and into all schemas inside, in place of the decoder's."""
    if isinstance(schema, dict):
        if _STORED in schema:
            schema["maxLength"] = schema.pop(_STORED)
        for one in schema.values():
            tell_stored_bounds(one)
    elif isinstance(schema, list | tuple):
        for one in schema:
            tell_stored_bounds(one)


def _said(**schema: object) -> msgspec.Meta:
    return bounded(schema)


# Fields of request bodies.
EmailText = Annotated[str, _said(format="email", maxLength=254), example("ada@example.org")]
Name = Annotated[str, _said(minLength=1, maxLength=100)]
Reason = Annotated[str, _said(minLength=1, maxLength=LONGEST_REASON)]
OptionalReason = Annotated[str, _said(maxLength=LONGEST_REASON)]
RoleSlug = Annotated[str, _said(minLength=1, maxLength=50, pattern="^[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?$")]
PermissionKey = Annotated[str, _said(minLength=1, maxLength=80, pattern="^[a-z0-9_.:-]{1,80}$")]
RoleDescription = Annotated[str, _said(maxLength=LONGEST_DESCRIPTION)]
ServiceSlug = Annotated[str, _said(minLength=1, maxLength=50, pattern="^[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?$")]
Uri = Annotated[str, _said(maxLength=LONGEST_URI)]
Currency = Annotated[str, _said(minLength=3, maxLength=3, pattern="^[A-Za-z]{3}$")]
PriceId = Annotated[str, _said(minLength=1, maxLength=LONGEST_PRICE_ID)]

# Fields of paths and answers as well.
Id = Annotated[UUID, _described("The ID. It never changes.")]
OrganizationUuid = Annotated[UUID, _described("The organization's ID.")]
ServiceUuid = Annotated[UUID, _described("The service's ID.")]
UserUuid = Annotated[UUID, _described("The user's ID.")]
BackchannelRequestUuid = Annotated[UUID, _described("The request's ID.")]
AgentGrantUuid = Annotated[UUID, _described("The grant's ID.")]
SlugOfOrganization = Annotated[Word, _described("The organization's slug."), example("acme")]
SlugOfService = Annotated[Word, _described("The service's slug."), example("billing")]
SlugOfRole = Annotated[Word, _described("The slug of the role: `owner`, `admin`, `member`, or a custom role."), example("member")]
EmailAddress = Annotated[str, _described("The email address."), example("ada@example.org")]
PersonName = Annotated[
    str,
    _described("The person's full name, or their first and last name; null if unset, or if you may not see it."),
    example("Ada Lovelace"),
]
IsPlatformOwner = Annotated[
    bool, _described("Whether the account is a platform owner. Only platform owners see it for other accounts."), example(False)
]
HasSecondFactor = Annotated[bool, _described("Whether the account has MFA enabled."), example(True)]
MetadataHosts = Annotated[Sequence[Line], example(["claude.ai"])]
CreatedAt = Annotated[datetime, _described("The time of creation.")]
UpdatedAt = Annotated[datetime, _described("The time of the last change.")]
AccessTokenText = Annotated[str, _described("The access token."), example("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")]
RefreshTokenText = Annotated[
    str, _described("The refresh token: exchange it when the access token expires."), example("5vXkS0mJtq1WcR8nZbYd2LhE7aPoGuKfZ3iN4wTqB9s")
]
ExpiresIn = Annotated[int, _described("The lifetime of the access token in seconds."), example(900)]
Total = Annotated[int, _described("The total number of entries on all pages."), example(42)]
MessageText = Annotated[str, _described("A human-readable description of the event."), example("Done.")]
_WAY = (
    "The sign-in method: `password`, `passkey`, `link`, or the provider. `session` means that a signed-in person continued to an"
    " application, `device` the device flow, and `saml` a SAML request of a service."
)
WayIn = Annotated[str, _described(_WAY), example("codehost")]
Success = Annotated[bool, _described("Always true.")]


Given = TypeVar("Given")


def given(value: Given | msgspec.UnsetType) -> Given | None:
    """None when the field was left out."""
    return None if isinstance(value, msgspec.UnsetType) else value


def changed(value: Given | msgspec.UnsetType) -> Given | Unchanged:
    """For a field that may also be null: leaving it out changes nothing."""
    return UNCHANGED if isinstance(value, msgspec.UnsetType) else value


def email_field(text: str, syntax: EmailSyntax) -> Email:
    """The parsed address. Raises `BadRequest`, which names the field."""
    try:
        return syntax.parse(text)
    except BadRequest as refusal:
        raise BadRequest("email: not a valid e-mail address", detail=refusal.detail, words="address_invalid") from None


# What the paths of most endpoints name: an organization, or one of its services. The path of anything inside adds its own id.


class OrganizationPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class ServicePath(OrganizationPath, frozen=True):
    service_slug: SlugOfService


# Nobody reads a list beyond this page, and PostgreSQL can still hold the offset of this page in a bigint.
_LAST_PAGE = 10_000_000
_LARGEST_OFFSET = 1_000_000_000


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """The requested page of a list."""

    page: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PAGE)] = 1
    """The page number. The first page is 1."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The number of entries on a page. Values above the maximum are rejected."""


class OffsetPaging(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a list, in entries instead of pages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_OFFSET)] = 0
    """The number of entries to skip."""


class Pagination(msgspec.Struct, frozen=True):
    """The position of this page in the list."""

    page: Annotated[int, example(1)]
    """The number of this page. The first page is 1."""
    limit: Annotated[int, example(50)]
    """The number of entries on a page."""
    total: Total


def page_of(asked: Paging) -> Page:
    return Page(asked.page, asked.limit)

"""The terms that a person has accepted, or is asked to accept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import Conflict, NotFound
from core.domain.identity.terms import LONGEST_VERSION, AcceptedTerms, OwnTerms, PendingTerms
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Slug, Word, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("account",)
_TERMS = "/api/user/terms"
_VersionText = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_VERSION, examples=["2026-11"])]
_Version = Annotated[Word, example("2026-11")]
_Address = Annotated[str, example("https://acme.example/terms")]
_OrganizationName = Annotated[str, example("Acme")]


class TermsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the terms to accept."""

    version: _VersionText
    """The current version. It must match exactly."""
    organization: Annotated[Slug, example("acme")] | None = None
    """The slug of the organization of the terms; null for those of the installation."""


class OwnTermsQuery(msgspec.Struct, frozen=True):
    organization: Annotated[Slug, example("acme")] = ""
    """The slug of an organization with an application that allows anyone to sign in. Its pending terms are included, even before your first
    sign-in.
    """


class PendingTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Current terms that the person has not accepted yet."""

    organization: Annotated[str, example("acme")] | None
    """The slug of the organization of the terms; null for those of the installation."""
    organization_name: _OrganizationName | None
    """The organization's name."""
    version: _Version
    """The version to accept."""
    address: _Address
    """The URL of the text."""
    due_at: datetime
    """Until when the person can continue without accepting the terms."""


class AcceptedTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version of terms that the person has accepted."""

    organization: Annotated[str, example("acme")] | None
    """The slug of the organization of the terms; null for those of the installation."""
    organization_name: _OrganizationName | None
    """The organization's name."""
    version: _Version
    """The version."""
    address: _Address
    """The URL of the text."""
    accepted_at: datetime
    """When the person accepted it."""
    in_force: bool
    """Whether this is the current version."""


class OwnTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The terms that a person has to accept, and those that they have accepted."""

    pending: Sequence[PendingTermsRecord]
    """The pending terms of the installation, and of organizations that the person belongs to, uses, or has accepted terms of before. Also
    those of the organization in the query, if one of its applications allows anyone to sign in.
    """
    accepted: Sequence[AcceptedTermsRecord]
    """The accepted terms, newest first."""


@endpoint.get(_TERMS, caller=OWN_PERSON, tags=_TAGS)
async def list_own_terms(call: Call[None, OwnTermsQuery], postern: Postern) -> OwnTermsRecord:
    """List your terms

    Returns the terms that you have to accept, and those that you have accepted, of the installation and of organizations. Each entry has
    the version, the URL of the text, and the date until which you can continue without accepting. If a first sign-in to an application is
    rejected (`TERMS_REQUIRED`), send the organization of the application.
    """
    return _record(await postern.identity.terms.own(call.caller.user, call.query.organization))


@endpoint.post(_TERMS, caller=OWN_PERSON, limit=CREDENTIALS, refuses=(NotFound, Conflict), tags=_TAGS)
async def accept_terms(call: Call[TermsSeen], postern: Postern) -> OwnTermsRecord:
    """Accept terms

    Send the version that you have read. If a newer version exists, the response is 409, and nothing is accepted. You can accept terms only
    for yourself: neither another person nor an application can accept them for you. Accepting a version again changes nothing.

    The terms are those of the installation or of an organization. You must belong to the organization, use it, or have accepted its terms
    before. If one of its applications allows anyone to sign in, you can always accept its terms. For any other organization, the response
    is 404, as if it had no terms.
    """
    organization = call.body.organization or ""
    await postern.identity.terms.accept(call.caller, organization, call.body.version, call.actor)
    return _record(await postern.identity.terms.own(call.caller.user, organization))


def _organization(terms: PendingTerms | AcceptedTerms) -> str | None:
    return terms.organization_slug or None


def _name(terms: PendingTerms | AcceptedTerms) -> str | None:
    return terms.organization_name or None


pending_record = shown(PendingTerms, PendingTermsRecord, organization=_organization, organization_name=_name)
_accepted = shown(AcceptedTerms, AcceptedTermsRecord, organization=_organization, organization_name=_name)


def _record(own: OwnTerms) -> OwnTermsRecord:
    return OwnTermsRecord(pending=[pending_record(one) for one in own.pending], accepted=[_accepted(one) for one in own.accepted])

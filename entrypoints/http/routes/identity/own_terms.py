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
    """The version that you have read."""

    version: _VersionText
    """Exactly the version in force."""
    organization: Annotated[Slug, example("acme")] | None = None
    """The organization whose terms they are; null for those of the installation."""


class OwnTermsQuery(msgspec.Struct, frozen=True):
    organization: Annotated[Slug, example("acme")] = ""
    """An organization whose application lets anyone in: its terms stand among those that wait, also before your first sign-in there."""


class PendingTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Terms in force that the person has not accepted yet."""

    organization: Annotated[str, example("acme")] | None
    """The organization whose terms they are; null for those of the installation."""
    organization_name: _OrganizationName | None
    """Its name."""
    version: _Version
    """The version to accept."""
    address: _Address
    """The URL of the text."""
    due_at: datetime
    """Until when the person may continue without accepting."""


class AcceptedTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version that a person has accepted."""

    organization: Annotated[str, example("acme")] | None
    """The organization whose terms they are; null for those of the installation."""
    organization_name: _OrganizationName | None
    """Its name."""
    version: _Version
    """The version."""
    address: _Address
    """The URL of the text."""
    accepted_at: datetime
    """When the person accepted it."""
    in_force: bool
    """Whether no other version has followed."""


class OwnTermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked to accept, and what they have accepted."""

    pending: Sequence[PendingTermsRecord]
    """What is not accepted yet: of the installation, of the organizations that the person belongs to, uses, or has accepted terms of
    before, and of the one that was asked about, if one of its applications lets anyone in.
    """
    accepted: Sequence[AcceptedTermsRecord]
    """What was accepted, the newest first."""


@endpoint.get(_TERMS, caller=OWN_PERSON, tags=_TAGS)
async def list_own_terms(call: Call[None, OwnTermsQuery], postern: Postern) -> OwnTermsRecord:
    """List the terms that you are asked to accept, and those that you have accepted

    Terms of the installation and of organizations: each with its version, the address of its text, and the date until which you may
    continue without accepting it. If a first sign-in to an application is refused (`TERMS_REQUIRED`), name its organization.
    """
    return _record(await postern.identity.terms.own(call.caller.user, call.query.organization))


@endpoint.post(_TERMS, caller=OWN_PERSON, limit=CREDENTIALS, refuses=(NotFound, Conflict), tags=_TAGS)
async def accept_terms(call: Call[TermsSeen], postern: Postern) -> OwnTermsRecord:
    """Accept terms

    Send the version that you have read. If another one has followed, the response is 409, and nothing is accepted. No one accepts terms in
    another person's name, and no application accepts them for its users. Accepting a version again changes nothing.

    The terms are those of the installation, or of an organization that you belong to, use, or have accepted terms of before, or whose
    application lets anyone in. For any other organization, the response is 404, as if it asked for nothing.
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

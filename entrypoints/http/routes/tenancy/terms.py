"""The terms that an organization asks people to accept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.proofs import StepUp
from core.domain.identity.terms import LONGEST_ADDRESS, LONGEST_VERSION, KeptTerms, TermsChange, TermsVersion
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, bounded, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("settings",)
_TERMS = "/api/organizations/{org_slug}/terms"
Version = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_VERSION}, examples=["2026-11"])]
_AddressText = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_ADDRESS}, examples=["https://acme.example/terms"])]


class TermsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The version that people are asked to accept."""

    version: Version
    """A short label of your own. Each is used once. With that of the version in force, only the date changes."""
    address: _AddressText
    """The URL of the text, beginning with https://. People open it; Postern never does."""
    due_at: Annotated[datetime, msgspec.Meta(tz=True, examples=["2027-01-01T00:00:00Z"])]
    """Until when people may continue without accepting; in the future."""


class TermsVersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One version of terms."""

    version: Annotated[str, example("2026-11")]
    """The label of the version."""
    address: Annotated[str, example("https://acme.example/terms")]
    """The URL of the text."""
    due_at: datetime
    """Until when people may continue without accepting."""
    set_at: datetime
    """When it was put in force."""
    set_by: UUID | None
    """Who put it in force; null if the account is gone."""
    ended_at: datetime | None
    """When another version followed, or the terms were withdrawn; null for the version in force."""
    accepted: Annotated[int, example(41)]
    """How many people have accepted it."""


class TermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The terms in force, and all versions."""

    in_force: TermsVersionRecord | None
    """What people are asked to accept; null if nothing."""
    versions: Sequence[TermsVersionRecord]
    """All versions, the newest first."""


@endpoint.get(_TERMS, caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def get_terms(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> TermsRecord:
    """Get the terms of an organization

    All versions are kept, with who set them and how many people have accepted each.
    """
    return terms_record(await postern.tenancy.terms.list(call.caller.organization))


@endpoint.put(_TERMS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def set_terms(call: Call[TermsBody, None, OrganizationPath, Member], postern: Postern) -> TermsRecord:
    """Set the terms of service of an organization

    People who sign in to the organization's applications, or who are its confirmed members, are asked at the next sign-in on the pages, and
    may continue without accepting until the date. From then on, `select`, the organization's routes and its applications answer
    `TERMS_REQUIRED`, also to sessions that run, until the person has accepted exactly the version in force. A person's account, its export
    and its deletion never ask. Those who have accepted an earlier version are asked again. The organization's keys and directories are no
    people, and continue. Requires a recent sign-in or reauthentication.
    """
    await postern.tenancy.terms.set(call.caller, change_of_terms(call.body), call.actor)
    return terms_record(await postern.tenancy.terms.list(call.caller.organization))


@endpoint.delete(_TERMS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS)
async def end_terms(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Withdraw the terms of service of an organization

    What people have accepted stays, and so does each version.
    """
    await postern.tenancy.terms.withdraw(call.caller, call.actor)
    return NO_BODY


change_of_terms = taken(TermsBody, TermsChange)


def terms_record(kept: Sequence[KeptTerms]) -> TermsRecord:
    versions = [msgspec.structs.replace(_version_record(one.terms), accepted=one.accepted) for one in kept]
    return TermsRecord(in_force=next((one for one in versions if one.ended_at is None), None), versions=versions)


_version_record = shown(TermsVersion, TermsVersionRecord, accepted=lambda _terms: 0)

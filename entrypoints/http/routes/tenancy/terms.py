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
    """The version of the terms of service to accept."""

    version: Version
    """A short label of your choice. Each label can be used once. With the label of the current version, only the date changes."""
    address: _AddressText
    """The URL of the text, beginning with https://. People open it; Postern never requests it."""
    due_at: Annotated[datetime, msgspec.Meta(tz=True, examples=["2027-01-01T00:00:00Z"])]
    """The end of the period in which people can continue without accepting. It must be in the future."""


class TermsVersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the terms of service."""

    version: Annotated[str, example("2026-11")]
    """The label of the version."""
    address: Annotated[str, example("https://acme.example/terms")]
    """The URL of the text."""
    due_at: datetime
    """The end of the period in which people can continue without accepting."""
    set_at: datetime
    """When the version took effect."""
    set_by: UUID | None
    """The user who set the version; null if the account was deleted."""
    ended_at: datetime | None
    """When the version was replaced or withdrawn; null for the current version."""
    accepted: Annotated[int, example(41)]
    """The number of people who have accepted the version."""


class TermsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The current terms of service, and all versions."""

    in_force: TermsVersionRecord | None
    """The current version; null if there is none."""
    versions: Sequence[TermsVersionRecord]
    """All versions, the newest first."""


@endpoint.get(_TERMS, caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def get_terms(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> TermsRecord:
    """Get the terms of service of an organization

    Return the current version and all earlier versions, each with the user who set it and the number of people who have accepted it.
    """
    return terms_record(await postern.tenancy.terms.list(call.caller.organization))


@endpoint.put(_TERMS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def set_terms(call: Call[TermsBody, None, OrganizationPath, Member], postern: Postern) -> TermsRecord:
    """Set the terms of service of an organization

    At their next sign-in, people who use the organization's applications, and its confirmed members, are asked to accept the version. They
    can continue without accepting until the date. From then on, `select`, the organization's endpoints and its applications respond with
    `TERMS_REQUIRED` until the person accepts the current version. This includes existing sessions. A person's account, its export and its
    deletion do not require acceptance. People who accepted an earlier version are asked again. The organization's keys and directories are
    not affected. Requires a recent sign-in or reauthentication.
    """
    await postern.tenancy.terms.set(call.caller, change_of_terms(call.body), call.actor)
    return terms_record(await postern.tenancy.terms.list(call.caller.organization))


@endpoint.delete(_TERMS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS)
async def end_terms(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Withdraw the terms of service of an organization

    All versions are kept, and so is the record of who accepted them.
    """
    await postern.tenancy.terms.withdraw(call.caller, call.actor)
    return NO_BODY


change_of_terms = taken(TermsBody, TermsChange)


def terms_record(kept: Sequence[KeptTerms]) -> TermsRecord:
    versions = [msgspec.structs.replace(_version_record(one.terms), accepted=one.accepted) for one in kept]
    return TermsRecord(in_force=next((one for one in versions if one.ended_at is None), None), versions=versions)


_version_record = shown(TermsVersion, TermsVersionRecord, accepted=lambda _terms: 0)

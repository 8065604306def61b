"""The domain of an organization."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.tenancy.domains import Domain
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import MessageText, SlugOfOrganization, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_DOMAIN = "/api/organizations/{org_slug}/domain"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# A proved domain outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

VerificationToken = Annotated[str, example("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo")]


class DomainPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class DomainBody(msgspec.Struct, frozen=True):
    """A domain."""

    domain: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": 253}, examples=["login.acme.example"])]
    """The domain, in ASCII (`xn--…` for other letters)."""


class DomainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The domain of an organization, and what to publish to prove that it owns it: the record or the file, one of them is enough. If none
    is set, all but `verified` is null.
    """

    domain: Annotated[str, example("login.acme.example")] | None
    """The domain, in lower case."""
    verified: Annotated[bool, example(False)]
    """Whether the organization has proved that it owns the domain."""
    verified_at: datetime | None
    """When it did."""
    checked_at: datetime | None
    """When the proof was last looked for."""
    verification_token: VerificationToken | None
    """What proves it, as the value of the record or the content of the file."""
    txt_name: Annotated[str, example("_postern-verification.login.acme.example")] | None
    """The name of the TXT record."""
    txt_value: VerificationToken | None
    """Its value."""
    file_url: Annotated[str, example("https://login.acme.example/.well-known/postern-verification.txt")] | None
    """The address of the file. `http` will do as well; redirects are not followed."""
    file_content: VerificationToken | None
    """Its content."""


_NONE: Final = DomainRecord(
    domain=None,
    verified=False,
    verified_at=None,
    checked_at=None,
    verification_token=None,
    txt_name=None,
    txt_value=None,
    file_url=None,
    file_content=None,
)


class DomainVerification(msgspec.Struct, frozen=True):
    """What became of looking for the proof."""

    verified: Annotated[bool, example(True)]
    """Whether the domain is verified."""
    message: MessageText


@endpoint.post(_DOMAIN, caller=_IN_PERSON, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def set_domain(call: Call[DomainBody, None, DomainPath, Member], postern: Postern) -> DomainRecord:
    """Set the domain of an organization

    It takes the place of the one before. Publish what the answer says, then verify. An organization has one domain, and only one
    organization can verify it.
    """
    return _record(await postern.tenancy.domains.set(call.caller, call.actor, call.body.domain))


@endpoint.get(_DOMAIN, caller=_MANAGE, tags=_TAGS)
async def show_domain(call: Call[None, None, DomainPath, Member], postern: Postern) -> DomainRecord:
    """Get the domain of an organization, and what to publish to prove that it owns it"""
    return _record(await postern.tenancy.domains.get(call.caller))


@endpoint.post(f"{_DOMAIN}/verify", caller=_IN_PERSON, limit=CREDENTIALS, tags=_TAGS)
async def verify_domain(call: Call[None, None, DomainPath, Member], postern: Postern) -> DomainVerification:
    """Look for the proof that an organization owns its domain

    Leave the proof published: it is looked for every week. When it is missing, the owners get a mail; after two further days without it,
    the domain is no longer verified.
    """
    outcome = await postern.tenancy.domains.verify(call.caller, call.actor)
    return DomainVerification(outcome.verified, outcome.message)


@endpoint.delete(_DOMAIN, caller=_IN_PERSON, limit=CREDENTIALS, status=204, tags=_TAGS)
async def remove_domain(call: Call[None, None, DomainPath, Member], postern: Postern) -> NoBody:
    """Remove the domain of an organization

    If none is set, nothing happens.
    """
    await postern.tenancy.domains.remove(call.caller, call.actor)
    return NO_BODY


def _record(domain: Domain | None) -> DomainRecord:
    if domain is None:
        return _NONE
    return DomainRecord(
        domain=domain.name,
        verified=domain.is_verified,
        verified_at=domain.verified_at,
        checked_at=domain.checked_at,
        verification_token=domain.token,
        txt_name=domain.record,
        txt_value=domain.token,
        file_url=domain.file_url,
        file_content=domain.token,
    )

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
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import MessageText, OrganizationPath, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_DOMAIN = "/api/organizations/{org_slug}/domain"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# A proved domain outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

VerificationToken = Annotated[str, example("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo")]


class DomainBody(msgspec.Struct, frozen=True):
    """A domain."""

    domain: Annotated[str, bounded({"maxLength": 253}, examples=["login.acme.example"])]
    """The domain, in ASCII (`xn--…` for other letters)."""


class DomainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The custom domain of an organization, and the record and the file that verify it. Publishing one of the two is enough. If no domain
    is set, all fields but `verified` are null.
    """

    domain: Annotated[str, example("login.acme.example")] | None
    """The domain, in lowercase."""
    verified: Annotated[bool, example(False)]
    """Whether the organization has verified the domain."""
    verified_at: datetime | None
    """When the domain was verified."""
    checked_at: datetime | None
    """When Postern last looked for the record and the file."""
    verification_token: VerificationToken | None
    """The verification token, for the value of the record or the content of the file."""
    txt_name: Annotated[str, example("_postern-verification.login.acme.example")] | None
    """The name of the TXT record."""
    txt_value: VerificationToken | None
    """The value of the TXT record."""
    file_url: Annotated[str, example("https://login.acme.example/.well-known/postern-verification.txt")] | None
    """The URL of the file. `http` is also accepted. Postern does not follow redirects."""
    file_content: VerificationToken | None
    """The content of the file."""


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
    """The result of the verification."""

    verified: Annotated[bool, example(True)]
    """Whether the domain is verified."""
    message: MessageText


@endpoint.post(_DOMAIN, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def set_domain(call: Call[DomainBody, None, OrganizationPath, Member], postern: Postern) -> DomainRecord:
    """Set the custom domain of an organization

    The new domain replaces the previous one. Publish the record or the file in the response, then verify the domain. An organization can
    have one custom domain, and only one organization can verify a domain.
    """
    return _record(await postern.tenancy.domains.set(call.caller, call.actor, call.body.domain))


@endpoint.get(_DOMAIN, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_domain(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> DomainRecord:
    """Get the custom domain of an organization

    Return the domain, and the record and the file that verify it. Publish one of the two, then verify the domain.
    """
    return _record(await postern.tenancy.domains.get(call.caller))


@endpoint.post(f"{_DOMAIN}/verify", caller=_IN_PERSON, keys=True, limit=CREDENTIALS, tags=_TAGS)
async def verify_domain(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> DomainVerification:
    """Verify the custom domain of an organization

    Keep the record or the file published: Postern checks it every week. If both are missing, the owners get an email. If both are still
    missing after 2 more days, the domain is no longer verified.
    """
    outcome = await postern.tenancy.domains.verify(call.caller, call.actor)
    return DomainVerification(outcome.verified, outcome.message)


@endpoint.delete(_DOMAIN, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, status=204, tags=_TAGS)
async def remove_domain(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the custom domain of an organization

    If no domain is set, nothing happens.
    """
    await postern.tenancy.domains.remove(call.caller, call.actor)
    return NO_BODY


def _record(domain: Domain | None) -> DomainRecord:
    if domain is None:
        return _NONE
    return _shown(domain)


# What the records of a domain and of its route call the parts of the proof.
PROOF: Final = {
    "domain": "name",
    "verified": "is_verified",
    "verification_token": "token",
    "txt_name": "record",
    "txt_value": "token",
    "file_content": "token",
}
_shown = shown(Domain, DomainRecord, named=PROOF)

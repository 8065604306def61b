"""The last refused requests of a service: authorization requests, requests for tokens, SAML messages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.federation.authorization_refusals import ListedRefusal, RefusingEndpoint
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, ServicePath, example

_CALLBACK = "https://billing.acme.example/callback"


class AuthorizationRefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A refused request, without data about people."""

    id: Id
    place: Annotated[RefusingEndpoint, example("authorize")]
    """`authorize` for a request that brought a person, `token` for a request for tokens, `saml` for a SAML message."""
    reason: Annotated[RefusalReason, example("redirect_unregistered")]
    """The reason, as a word."""
    because: Annotated[str, example("The redirect URI is not registered")]
    """The reason in words."""
    advice: Annotated[str, example("Register the redirect URI exactly as received, or send a registered one")]
    """The change that avoids the refusal."""
    received: Annotated[str, example(f"{_CALLBACK}/")]
    """What the application sent: an address without its query, scopes, the name of a parameter, the beginning of a client secret. Empty if
    it was nothing, or nothing that may be kept.
    """
    registered: Annotated[Sequence[str], example([_CALLBACK])]
    """What is registered, or expected, in its place."""
    created_at: datetime
    """When the request was refused."""


class AuthorizationRefusalList(msgspec.Struct, frozen=True):
    """The last fifty refused requests of the last seven days."""

    refusals: Sequence[AuthorizationRefusalRecord]
    """Newest first."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/refusals",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("services",),
)
async def list_authorization_refusals(call: Call[None, None, ServicePath, Member], postern: Postern) -> AuthorizationRefusalList:
    """List the recent failed requests of a service, with the reasons

    Returns the last fifty of the last seven days: authorization requests, requests for tokens, SAML messages. Each has the reason, what was
    received beside what is registered, and the change that helps. A refusal appears a second after it. Anyone can send requests in the name
    of your application, so a refusal alone does not mean that something is wrong.
    """
    listed = await postern.federation.authorization_refusals.list(call.caller, call.path.service_slug)
    return AuthorizationRefusalList([_record(one) for one in listed])


_record = shown(ListedRefusal, AuthorizationRefusalRecord, named={"place": "at", "created_at": "occurred_at"})

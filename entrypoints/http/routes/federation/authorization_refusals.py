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
    """A rejected request, without personal data."""

    id: Id
    place: Annotated[RefusingEndpoint, example("authorize")]
    """Where the request was rejected: `authorize` for an authorization request, `token` for a token request, `saml` for a SAML message."""
    reason: Annotated[RefusalReason, example("redirect_unregistered")]
    """The reason, as a code."""
    because: Annotated[str, example("The service has not registered this redirect_uri")]
    """A description of the reason."""
    advice: Annotated[str, example("Register the address exactly as it was received, or send a registered one")]
    """The change that fixes the request."""
    received: Annotated[str, example(f"{_CALLBACK}/")]
    """What the application sent: a URL without its query, scopes, the name of a parameter, or the prefix of a client secret. Empty if the
    application sent nothing, or nothing that Postern may store.
    """
    registered: Annotated[Sequence[str], example([_CALLBACK])]
    """The registered or expected value."""
    created_at: datetime
    """When the request was rejected."""


class AuthorizationRefusalList(msgspec.Struct, frozen=True):
    """The last 50 rejected requests of the last 7 days."""

    refusals: Sequence[AuthorizationRefusalRecord]
    """The rejected requests, newest first."""


@endpoint.get(
    "/api/organizations/{org_slug}/services/{service_slug}/refusals",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("services",),
)
async def list_authorization_refusals(call: Call[None, None, ServicePath, Member], postern: Postern) -> AuthorizationRefusalList:
    """List rejected requests of a service

    Returns the last 50 rejected requests of the last 7 days, newest first: authorization requests, token requests and SAML messages. Each
    entry has the reason, the received value, the registered value, and the change that fixes the request. A rejected request appears after
    about a second. Anyone can send requests with your client ID, so a rejected request alone does not indicate a problem.
    """
    listed = await postern.federation.authorization_refusals.list(call.caller, call.path.service_slug)
    return AuthorizationRefusalList([_record(one) for one in listed])


_record = shown(ListedRefusal, AuthorizationRefusalRecord, named={"place": "at", "created_at": "occurred_at"})

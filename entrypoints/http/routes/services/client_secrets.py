"""The client secrets of `web` and `api` services."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientSecretId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE, CreatedAt, Id, ServicePath, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("services",)
_SECRETS = "/api/organizations/{org_slug}/services/{service_slug}/client-secrets"


class ClientSecretPath(ServicePath, frozen=True):
    client_secret_id: UUID
    """The client secret's ID."""


class ClientSecretRecord(msgspec.Struct, frozen=True):
    """A client secret, without the secret itself."""

    id: Id
    prefix: Annotated[str, example("cs_d4e5f6")]
    """The prefix of the secret, for identification."""
    created_by: UUID | None
    """The user who created the secret; null if the account was deleted."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When the application last used the secret, with a precision of 1 minute; null if never."""


class CreatedClientSecret(msgspec.Struct, frozen=True):
    """The new client secret. Only this response contains the secret itself."""

    id: Id
    prefix: Annotated[str, example("cs_d4e5f6")]
    """The prefix of the secret, for identification."""
    client_secret: Annotated[str, SHOWN_ONCE, example("cs_d4e5f6_Rf2yT9uJ4kWq8ZxV6nBm1GhS")]
    """The secret. It is shown only once."""
    created_at: CreatedAt


@endpoint.post(
    _SECRETS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=CREDENTIALS,
    status=201,
    refuses=(BadRequest,),
    tags=_TAGS,
    verb="service secret",
)
async def create_client_secret(call: Call[None, None, ServicePath, Member], postern: Postern) -> CreatedClientSecret:
    """Create a client secret

    For `web` and `api` services. The secret is shown only once: Postern stores only its digest. A service can have two secrets, so that you
    can rotate them without downtime. Create the second secret, replace the first one in the application, then delete the first.
    """
    created = await postern.services.client_secrets.create(call.caller, call.path.service_slug, call.actor)
    secret = created.secret
    return CreatedClientSecret(secret.id, secret.prefix, created.text.reveal(), secret.created_at)


@endpoint.get(_SECRETS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_client_secrets(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ClientSecretRecord]:
    """List client secrets

    Returns the client secrets of a service, oldest first, without the secrets themselves.
    """
    listed = await postern.services.client_secrets.list(call.caller, call.path.service_slug)
    return [ClientSecretRecord(secret.id, secret.prefix, secret.created_by, secret.created_at, secret.last_used_at) for secret in listed]


@endpoint.delete(
    f"{_SECRETS}/{{client_secret_id}}", caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, tags=_TAGS
)
async def delete_client_secret(call: Call[None, None, ClientSecretPath, Member], postern: Postern) -> NoBody:
    """Delete a client secret

    From the next request, the secret is rejected. If a `web` service has no secret and no key left, it is a public client, which uses PKCE.
    Refresh tokens that it got as a confidential client are then rejected: its users must sign in again.
    """
    path = call.path
    await postern.services.client_secrets.delete(call.caller, path.service_slug, ClientSecretId(path.client_secret_id), call.actor)
    return NO_BODY

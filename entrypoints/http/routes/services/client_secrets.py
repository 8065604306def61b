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
    """The prefix of the secret, to tell it apart."""
    created_by: UUID | None
    """The user who created the secret; null if the account was deleted."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When the application last showed the secret, with a precision of one minute; null if it never did."""


class CreatedClientSecret(msgspec.Struct, frozen=True):
    """The new client secret. This is the only response with the secret itself."""

    id: Id
    prefix: Annotated[str, example("cs_d4e5f6")]
    """The prefix of the secret, to tell it apart."""
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

    For `web` and `api` services. A service may have two secrets, so that you can replace one without an interruption: create the second,
    put it in place of the first, then delete the first. The secret is shown only once: Postern stores only a digest of it.
    """
    created = await postern.services.client_secrets.create(call.caller, call.path.service_slug, call.actor)
    secret = created.secret
    return CreatedClientSecret(secret.id, secret.prefix, created.text.reveal(), secret.created_at)


@endpoint.get(_SECRETS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_client_secrets(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ClientSecretRecord]:
    """List the client secrets of a service, the oldest first

    The secrets themselves are never shown.
    """
    listed = await postern.services.client_secrets.list(call.caller, call.path.service_slug)
    return [ClientSecretRecord(secret.id, secret.prefix, secret.created_by, secret.created_at, secret.last_used_at) for secret in listed]


@endpoint.delete(
    f"{_SECRETS}/{{client_secret_id}}", caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, tags=_TAGS
)
async def delete_client_secret(call: Call[None, None, ClientSecretPath, Member], postern: Postern) -> NoBody:
    """Delete a client secret

    The secret is refused with the next request. A `web` service without any secret or key is a public client, which uses PKCE. The refresh
    tokens that the service got as a confidential client are then refused: its users sign in again.
    """
    path = call.path
    await postern.services.client_secrets.delete(call.caller, path.service_slug, ClientSecretId(path.client_secret_id), call.actor)
    return NO_BODY

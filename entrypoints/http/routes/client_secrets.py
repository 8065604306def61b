"""The client secrets of services that can keep one."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientSecretId
from core.domain.members import Member
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.routes.services import ServicePath

_TAGS = ("services",)
_SECRETS = "/api/organizations/{org_slug}/services/{service_slug}/client-secrets"


class ClientSecretPath(msgspec.Struct, frozen=True):
    org_slug: str
    service_slug: str
    client_secret_id: UUID


class ClientSecretRecord(msgspec.Struct, frozen=True):
    """`prefix` is how the secret begins: enough to tell it from the other one."""

    id: UUID
    prefix: str
    created_by: UUID | None
    created_at: datetime


class CreatedClientSecret(msgspec.Struct, frozen=True):
    """`client_secret` is shown here and never again."""

    id: UUID
    prefix: str
    client_secret: str
    created_at: datetime


@endpoint.post(_SECRETS, caller=able(Capability.SERVICES_MANAGE), status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_client_secret(call: Call[None, None, ServicePath, Member], services: Services) -> CreatedClientSecret:
    """Make a client secret

    For `web` and `api` services. Two may be in force at once: make the second, bring it to where the first is used, delete the first. It is
    shown once, and kept as a digest.
    """
    created = await services.client_secrets.create(call.caller, call.path.service_slug, call.actor)
    secret = created.secret
    return CreatedClientSecret(secret.id, secret.prefix, created.text.reveal(), secret.created_at)


@endpoint.get(_SECRETS, caller=able(Capability.SERVICES_MANAGE), tags=_TAGS)
async def list_client_secrets(call: Call[None, None, ServicePath, Member], services: Services) -> Sequence[ClientSecretRecord]:
    """The client secrets in force, the oldest first

    Without the secrets themselves, which nobody can look up.
    """
    listed = await services.client_secrets.list(call.caller, call.path.service_slug)
    return [ClientSecretRecord(secret.id, secret.prefix, secret.created_by, secret.created_at) for secret in listed]


@endpoint.delete(f"{_SECRETS}/{{client_secret_id}}", caller=able(Capability.SERVICES_MANAGE), status=204, tags=_TAGS)
async def delete_client_secret(call: Call[None, None, ClientSecretPath, Member], services: Services) -> NoBody:
    """Delete a client secret

    It is refused from the next request on.
    """
    path = call.path
    await services.client_secrets.delete(call.caller, path.service_slug, ClientSecretId(path.client_secret_id), call.actor)
    return NO_BODY

"""Client secrets: a service that can keep a secret authenticates itself with one at the token endpoint. Two secrets may be valid at once,
so that one can replace the other while the service runs.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientSecretId, ManagementKeyId, OrganizationId, ServiceId, UserId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.services.services import Service
from core.frozen import Frozen

MOST_AT_ONCE: Final = 2
KIND: Final = "cs"


class ClientSecret(Frozen):
    """The stored data of a secret. The secret itself is only in the answer that creates it."""

    id: ClientSecretId
    service: ServiceId
    prefix: str
    created_by: UserId | None
    created_at: datetime
    made_by_key: ManagementKeyId | None = None
    last_used_at: datetime | None = None


class PlacedSecret(Frozen):
    """A secret, with its service and organization."""

    secret: ClientSecret
    service_slug: str
    organization: OrganizationId


def require_confidential(service: Service) -> None:
    if not service.service_type.is_confidential:
        raise BadRequest(
            f"A {service.service_type} service is a public client, which cannot keep a secret: use PKCE instead", words="public_client"
        )


def require_room(count: int) -> None:
    if count >= MOST_AT_ONCE:
        raise BadRequest(
            f"A service has at most {MOST_AT_ONCE} client secrets: delete one first", words="limit_reached", values={"most": MOST_AT_ONCE}
        )


def require_none(count: int) -> None:
    """Called before a service changes to a type that cannot keep a secret."""
    if count:
        raise BadRequest(
            "service_type: a service of this type cannot keep a secret; delete its client secrets first", words="public_client"
        )


def client_secret_created(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event("client_secret.created", PlacedSecret(secret, service.slug, service.organization), actor)


def client_secret_deleted(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event("client_secret.deleted", PlacedSecret(secret, service.slug, service.organization), actor)


def made_secret_deleted(placed: PlacedSecret, actor: Actor) -> Event:
    """The secret ends with the management key that made it."""
    return _event("client_secret.deleted", placed, actor)


def _event(name: str, placed: PlacedSecret, actor: Actor) -> Event:
    secret = placed.secret
    details: Mapping[str, Json] = {"service_slug": placed.service_slug, "client_secret_id": str(secret.id), "prefix": secret.prefix}
    return Event(name, actor, Target("service", str(secret.service)), placed.organization, details)

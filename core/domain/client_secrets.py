"""Client secrets: by them a service that can keep one shows, at the token endpoint, that it is itself. Two may be in force at once, so that
one can be replaced by the other while the service runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import ClientSecretId, ServiceId, UserId
from core.domain.json import Json
from core.domain.services import Service

MOST_AT_ONCE: Final = 2
KIND: Final = "cs"


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """What is known of one: not the secret itself, which only its first answer tells."""

    id: ClientSecretId
    service: ServiceId
    prefix: str
    created_by: UserId | None
    created_at: datetime


def require_confidential(service: Service) -> None:
    if not service.service_type.is_confidential:
        raise BadRequest(f"A {service.service_type} service is in everybody's hands and can keep no secret: it uses PKCE")


def require_room(count: int) -> None:
    if count >= MOST_AT_ONCE:
        raise BadRequest(f"A service has at most {MOST_AT_ONCE} client secrets: delete one first")


def require_none(count: int) -> None:
    """Before a service becomes one that can keep no secret."""
    if count:
        raise BadRequest("service_type: such a service can keep no secret; delete its client secrets first")


def client_secret_created(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event("client_secret.created", secret, service, actor)


def client_secret_deleted(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event("client_secret.deleted", secret, service, actor)


def _event(name: str, secret: ClientSecret, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {"service_slug": service.slug, "client_secret_id": str(secret.id), "prefix": secret.prefix}
    return Event(name, actor, Target("service", str(service.id)), service.organization, details)

"""The service itself and how much it is used, for the service's own servers."""

from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.api_keys import KeyHolder, Permission
from core.domain.errors import BadRequest
from core.domain.services import Service, ServiceType
from entrypoints.bootstrap import Services
from entrypoints.http.callers import key
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

_TAGS = ("service-interface",)
_INFO = "/api/service/info"


class ServiceInfoPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays. Nothing but the name is a key's to change."""

    name: str | msgspec.UnsetType = msgspec.UNSET


class ServiceInfoRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    slug: str
    service_type: ServiceType
    created_at: datetime


class ServiceAnalyticsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`total_subscriptions` are all that there ever were and are not deleted. The last two are of the last thirty days."""

    total_users: int
    total_subscriptions: int
    active_subscriptions: int
    total_logins_30d: int
    unique_users_30d: int


@endpoint.get(_INFO, caller=key(Permission.READ_SERVICE), tags=_TAGS)
async def service_info(call: Call[None, None, None, KeyHolder], services: Services) -> ServiceInfoRecord:
    """The service that the API key is for"""
    return _record(await services.service_info.get(call.caller))


@endpoint.patch(_INFO, caller=key(Permission.WRITE_SERVICE), refuses=(BadRequest,), tags=_TAGS)
async def change_service_info(call: Call[ServiceInfoPatch, None, None, KeyHolder], services: Services) -> ServiceInfoRecord:
    """Rename the service

    1 to 100 characters. Without a name, the record as it is.
    """
    given = call.body.name
    return _record(await services.service_info.rename(call.caller, None if isinstance(given, msgspec.UnsetType) else given, call.actor))


@endpoint.get("/api/service/analytics", caller=key(Permission.READ_ANALYTICS), tags=_TAGS)
async def service_analytics(call: Call[None, None, None, KeyHolder], services: Services) -> ServiceAnalyticsRecord:
    """How much the service is used"""
    found = await services.service_analytics.get(call.caller)
    return ServiceAnalyticsRecord(
        total_users=found.total_users,
        total_subscriptions=found.total_subscriptions,
        active_subscriptions=found.active_subscriptions,
        total_logins_30d=found.total_logins,
        unique_users_30d=found.unique_users,
    )


def _record(service: Service) -> ServiceInfoRecord:
    return ServiceInfoRecord(
        id=service.id, name=service.name, slug=service.slug, service_type=service.service_type, created_at=service.created_at
    )

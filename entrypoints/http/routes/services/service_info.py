"""The service of an API key, and figures on its use, for the service's own servers."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from core.domain.errors import BadRequest
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.service_users import ServiceAnalytics
from core.domain.services.services import Service, ServiceType
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Name, example
from entrypoints.http.machinery.limits import UNLIMITED
from ports.services.services import KeptMetadata

_TAGS = ("service-interface",)
_INFO = "/api/service/info"


class ServiceInfoPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to the service. An omitted field keeps its value. An API key can change only the name."""

    name: Annotated[Name, example("Billing")] | msgspec.UnsetType = msgspec.UNSET
    """The new name, 1 to 100 characters."""


class ServiceInfoRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The service that the API key belongs to."""

    id: Id
    name: Annotated[str, example("Billing")]
    """The service's name."""
    slug: Annotated[str, example("billing")]
    """The service's slug."""
    service_type: Annotated[ServiceType, example("web")]
    """The application type."""
    created_at: CreatedAt
    metadata: Annotated[Mapping[str, Any], example({"cost_center": "4711"})]
    """The metadata of the service. API keys have read-only access."""
    organization_metadata: Annotated[Mapping[str, Any], example({"contract": "A-17"})]
    """The metadata of the service's organization. API keys have read-only access."""


class ServiceAnalyticsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the service."""

    total_users: Annotated[int, example(240)]
    """The number of users of the service."""
    total_subscriptions: Annotated[int, example(260)]
    """The number of subscriptions, including ended ones, excluding deleted ones."""
    active_subscriptions: Annotated[int, example(180)]
    """The number of active subscriptions."""
    total_logins_30d: Annotated[int, example(3100)]
    """The number of sign-ins to the service in the last 30 days."""
    unique_users_30d: Annotated[int, example(190)]
    """The number of unique users who signed in to the service in the last 30 days."""


@endpoint.get(_INFO, caller=key(Permission.READ_SERVICE), tags=_TAGS)
async def get_service_info(call: Call[None, None, None, KeyHolder], postern: Postern) -> ServiceInfoRecord:
    """Get the service of an API key

    Returns the service, with its own metadata and that of its organization. API keys have read-only access to both.
    """
    holder = call.caller
    kept = await postern.services.service_info.metadata(holder)
    return _of_holder(holder, metadata=kept.of_service, organization_metadata=kept.of_organization)


@endpoint.patch(_INFO, caller=key(Permission.WRITE_SERVICE), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_service_info(call: Call[ServiceInfoPatch, None, None, KeyHolder], postern: Postern) -> ServiceInfoRecord:
    """Change the service of an API key

    Only the name can change. If the name is omitted, nothing changes, and the response has the current service.
    """
    given = call.body.name
    info = postern.services.service_info
    service = await info.rename(call.caller, None if isinstance(given, msgspec.UnsetType) else given, call.actor)
    return _record(service, await info.metadata(call.caller))


@endpoint.get("/api/service/analytics", caller=key(Permission.READ_ANALYTICS), tags=_TAGS)
async def get_service_analytics(call: Call[None, None, None, KeyHolder], postern: Postern) -> ServiceAnalyticsRecord:
    """Get the statistics of a service

    Returns current numbers of users and subscriptions, and sign-ins of the last 30 days.
    """
    found = await postern.services.service_analytics.get(call.caller)
    return _analytics(found)


def _record(service: Service, kept: KeptMetadata) -> ServiceInfoRecord:
    return _of_service(service, metadata=kept.of_service, organization_metadata=kept.of_organization)


_KEPT = ("metadata", "organization_metadata")
_of_service = shown(Service, ServiceInfoRecord, given=_KEPT)
# The name of a key's holder is the name of the key.
_of_holder = shown(
    KeyHolder,
    ServiceInfoRecord,
    within=("profile",),
    given=_KEPT,
    named={"id": "service", "slug": "service_slug", "name": "profile.name"},
)
_analytics = shown(ServiceAnalytics, ServiceAnalyticsRecord, named={"total_logins_30d": "total_logins", "unique_users_30d": "unique_users"})

"""The services of an organization: the applications that people sign in to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, ServiceLimitExceeded
from core.domain.governance import UNCHANGED, Unchanged
from core.domain.members import Member
from core.domain.plans import PlanOverview
from core.domain.roles import Capability
from core.domain.services import ListedService, NewService, Service, ServiceChange, ServiceType, ServiceUsage
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import OWNER, able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.routes.plans import PlanRecord, plan_record

Value = TypeVar("Value")

_TAGS = ("services",)
_SERVICES = "/api/organizations/{org_slug}/services"
_SERVICE = "/api/organizations/{org_slug}/services/{service_slug}"
# Numbers that PostgreSQL knows, and more than anybody has.
_MOST = 2**31 - 1
# In bytes: a hundred redirect URIs and three hundred scopes, each as long as may be, and their commas.
_LONGEST_BODY = 320 << 10


class ServicesPath(msgspec.Struct, frozen=True):
    org_slug: str


class ServicePath(msgspec.Struct, frozen=True):
    org_slug: str
    service_slug: str


class ServicesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Without `limit`, all of them."""

    service_type: ServiceType | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0


class ServiceWish(msgspec.Struct, frozen=True, kw_only=True):
    """`slug`: 1 to 50 of a-z, 0-9 and -, with a letter or digit at both ends; it never changes. `name`: 1 to 100 characters."""

    slug: str
    name: str
    service_type: ServiceType
    codehost_scopes: Sequence[str] | None = None
    websuite_scopes: Sequence[str] | None = None
    officesuite_scopes: Sequence[str] | None = None
    redirect_uris: Sequence[str] = ()
    device_activation_uri: str | None = None


class ServicePatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays, but one field at least is needed. Lists are replaced, not merged; null clears what may be null."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    service_type: ServiceType | msgspec.UnsetType = msgspec.UNSET
    codehost_scopes: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET
    websuite_scopes: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET
    officesuite_scopes: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET
    redirect_uris: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    device_activation_uri: str | msgspec.UnsetType | None = msgspec.UNSET


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The scopes are those asked of each external provider; null leaves that to the provider's usual ones."""

    id: UUID
    org_id: UUID
    slug: str
    name: str
    service_type: ServiceType
    client_id: UUID
    codehost_scopes: Sequence[str] | None
    websuite_scopes: Sequence[str] | None
    officesuite_scopes: Sequence[str] | None
    redirect_uris: Sequence[str]
    device_activation_uri: str | None
    created_at: datetime


class ListedServiceRecord(ServiceRecord, frozen=True, kw_only=True):
    """`subscription_count` is of those that live: active or past due."""

    plan_count: int
    subscription_count: int


class ServiceUsageRecord(msgspec.Struct, frozen=True):
    """`tier` is its display name."""

    current_services: int
    max_services: int
    tier: str


class ServiceCreated(msgspec.Struct, frozen=True):
    service: ServiceRecord
    default_plan: PlanRecord
    usage: ServiceUsageRecord


class ServiceListAnswer(msgspec.Struct, frozen=True):
    services: Sequence[ListedServiceRecord]
    usage: ServiceUsageRecord


@endpoint.post(
    _SERVICES,
    caller=able(Capability.SERVICES_CREATE),
    refuses=(BadRequest, Conflict, ServiceLimitExceeded),
    tags=_TAGS,
    body_limit=_LONGEST_BODY,
)
async def create_service(call: Call[ServiceWish, None, ServicesPath, Member], services: Services) -> ServiceCreated:
    """Create a service

    With a plan that costs nothing. `web` and `api` are confidential clients, which may have client secrets; `mobile` and `desktop` are
    public ones, which must use PKCE. A redirect URI is https, http on localhost, 127.0.0.1 or [::1], or for `mobile` and `desktop` a scheme
    of the application's own, as in `com.example.app:/callback` (RFC 8252); it is compared byte for byte.
    """
    body = call.body
    wanted = NewService(
        slug=body.slug,
        name=body.name,
        service_type=body.service_type,
        codehost_scopes=body.codehost_scopes,
        websuite_scopes=body.websuite_scopes,
        officesuite_scopes=body.officesuite_scopes,
        redirect_uris=body.redirect_uris,
        device_activation_uri=body.device_activation_uri,
    )
    created = await services.services.create(call.caller, wanted, call.actor)
    return ServiceCreated(service_record(created.service), plan_record(PlanOverview(created.default_plan, 0)), _usage(created.usage))


@endpoint.get(_SERVICES, caller=able(Capability.SERVICES_VIEW), tags=_TAGS)
async def list_services(call: Call[None, ServicesQuery, ServicesPath, Member], services: Services) -> ServiceListAnswer:
    """The organization's services, the oldest first"""
    query = call.query
    listed = await services.services.list(call.caller, service_type=query.service_type, limit=query.limit, offset=query.offset)
    return ServiceListAnswer([_listed(one) for one in listed.services], _usage(listed.usage))


@endpoint.get(_SERVICE, caller=able(Capability.SERVICES_VIEW), tags=_TAGS)
async def service_detail(call: Call[None, None, ServicePath, Member], services: Services) -> ServiceRecord:
    """One of the organization's services"""
    return service_record(await services.services.get(call.caller, call.path.service_slug))


@endpoint.patch(_SERVICE, caller=able(Capability.SERVICES_MANAGE), refuses=(BadRequest,), tags=_TAGS, body_limit=_LONGEST_BODY)
async def change_service(call: Call[ServicePatch, None, ServicePath, Member], services: Services) -> ServiceRecord:
    """Change a service

    The slug and the client id stay. What the service has must suit its new type, if that changes: a service that becomes public may not
    have client secrets, one that becomes confidential no redirect URI with a scheme of its own.
    """
    body = call.body
    change = ServiceChange(
        name=_said(body.name),
        service_type=_said(body.service_type),
        codehost_scopes=_said(body.codehost_scopes),
        websuite_scopes=_said(body.websuite_scopes),
        officesuite_scopes=_said(body.officesuite_scopes),
        redirect_uris=_said(body.redirect_uris),
        device_activation_uri=_said(body.device_activation_uri),
    )
    return service_record(await services.services.change(call.caller, call.path.service_slug, change, call.actor))


@endpoint.delete(_SERVICE, caller=OWNER, status=204, tags=_TAGS)
async def delete_service(call: Call[None, None, ServicePath, Member], services: Services) -> NoBody:
    """Delete a service with all its data, for good

    It is gone at once: from every list, for every token and key, and its slug is free. Its data is removed in the background, within a
    minute even when there is much of it: plans, subscriptions, keys, secrets, sessions, and who used it. Accounts stay: they are their
    people's.
    """
    await services.services.delete(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


def service_record(service: Service) -> ServiceRecord:
    return ServiceRecord(
        id=service.id,
        org_id=service.organization,
        slug=service.slug,
        name=service.name,
        service_type=service.service_type,
        client_id=service.client_id,
        codehost_scopes=service.codehost_scopes,
        websuite_scopes=service.websuite_scopes,
        officesuite_scopes=service.officesuite_scopes,
        redirect_uris=service.redirect_uris,
        device_activation_uri=service.device_activation_uri,
        created_at=service.created_at,
    )


def _listed(one: ListedService) -> ListedServiceRecord:
    record = msgspec.structs.asdict(service_record(one.service))
    return ListedServiceRecord(**record, plan_count=one.plan_count, subscription_count=one.subscription_count)


def _usage(usage: ServiceUsage) -> ServiceUsageRecord:
    return ServiceUsageRecord(usage.current, usage.most, usage.tier)


def _said(value: Value | msgspec.UnsetType) -> Value | Unchanged:
    return UNCHANGED if isinstance(value, msgspec.UnsetType) else value

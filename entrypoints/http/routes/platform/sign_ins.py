"""Sign-in analytics of an organization, its applications and the installation, and the sign-in log of an organization."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, ServiceId
from core.domain.identity.callers import Caller
from core.domain.identity.login_events import LoginFailure
from core.domain.platform.analytics import DEFAULT_RECENT, LoggedSignIn, RecentLogin, SignInFilter, person_wanted
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Streamed
from entrypoints.http.machinery.callers import MEMBER, PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, PersonName, ServiceUuid, UserUuid, WayIn, Word, example

_TAGS: Final = ("analytics",)
_ANALYTICS: Final = "/api/organizations/{org_slug}/analytics"
_Day = Annotated[Word, msgspec.Meta(extra_json_schema={"format": "date"}, examples=["2026-03-01"])]
_Logins = Annotated[int, msgspec.Meta(description="The number of sign-ins.", examples=[42])]


class SpanQuery(msgspec.Struct, frozen=True):
    """Whole days in UTC, both included."""

    start_date: _Day | None = None
    """The first day; 30 days before the last day by default."""
    end_date: _Day | None = None
    """The last day; today by default."""


class RecentQuery(msgspec.Struct, frozen=True):
    limit: Annotated[int, msgspec.Meta(examples=[10])] = DEFAULT_RECENT
    """The number of sign-ins to return. There is no upper limit."""


class LoginTrend(msgspec.Struct, frozen=True):
    """The number of sign-ins on one day."""

    date: _Day
    """The day, in UTC."""
    count: _Logins


class FailedLogins(msgspec.Struct, frozen=True):
    """The failed sign-in attempts of the last 30 days."""

    since: _Day
    """The first day that is counted. If the organization had more than 20 000 attempts in the last 30 days, this day is later."""
    days: Sequence[LoginTrend]
    """The number of failed attempts by day, without days that had none."""


class ServiceLogins(msgspec.Struct, frozen=True):
    """The number of sign-ins to a service."""

    service_id: UUID
    """The service's ID."""
    service_name: Annotated[str, example("Billing")]
    """The service's name; for a deleted service, its last name."""
    count: _Logins


class ProviderLogins(msgspec.Struct, frozen=True):
    """The number of sign-ins with one method."""

    provider: WayIn
    count: _Logins


class RecentLoginRecord(msgspec.Struct, frozen=True):
    """A sign-in."""

    id: Id
    user_id: UserUuid
    service_id: UUID | None
    """The service that the person signed in to; null if it was deleted, or if the sign-in was to the organization."""
    provider: WayIn
    created_at: datetime
    """When the person signed in."""


class PlatformOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the installation. Large numbers of users are estimates. Days are in UTC."""

    total_users: Annotated[int, example(1204)]
    """The number of accounts that are not deactivated."""
    mfa_enabled_users: Annotated[int, example(640)]
    """The number of these accounts that have MFA."""
    total_organizations: Annotated[int, example(31)]
    """The number of organizations in any state."""
    organizations_by_status: Annotated[Mapping[str, int], example({"active": 29, "pending": 2})]
    """The number of organizations in each state."""
    total_services: Annotated[int, example(87)]
    """The number of services of all organizations."""
    logins_today: Annotated[int, example(310)]
    """The number of sign-ins since midnight."""
    logins_7d: Annotated[int, example(2280)]
    """The number of sign-ins today and in the 6 days before."""
    logins_30d: Annotated[int, example(9120)]
    """The number of sign-ins today and in the 29 days before."""


@endpoint.get(f"{_ANALYTICS}/login-trends", caller=MEMBER, keys=Capability.MEMBERS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_login_trends(call: Call[None, SpanQuery, OrganizationPath, Member], postern: Postern) -> Sequence[LoginTrend]:
    """List the number of sign-ins by day

    Return the number of sign-ins to the organization and its services on each day, without days that had none. People who only use a
    service are included. For failed attempts, use `failed-logins`.
    """
    days = await postern.platform.analytics.by_day(call.caller.organization, call.query.start_date, call.query.end_date)
    return [LoginTrend(one.day.isoformat(), one.logins) for one in days]


@endpoint.get(f"{_ANALYTICS}/failed-logins", caller=MEMBER, keys=Capability.MEMBERS_VIEW, tags=_TAGS)
async def get_failed_logins(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> FailedLogins:
    """Get the number of failed sign-ins by day

    Return the failed attempts of the last 30 days. Only attempts of confirmed members, and of people who have signed in before, are
    counted. The list of sign-in attempts has each of them with its reason.
    """
    found = await postern.platform.analytics.failures(call.caller.organization)
    return FailedLogins(found.since.isoformat(), [LoginTrend(one.day.isoformat(), one.logins) for one in found.days])


@endpoint.get(f"{_ANALYTICS}/logins-by-service", caller=MEMBER, keys=Capability.MEMBERS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_logins_by_service(call: Call[None, SpanQuery, OrganizationPath, Member], postern: Postern) -> Sequence[ServiceLogins]:
    """List the number of sign-ins by service

    Return the most used service first. Deleted services are included, under their last name. Sign-ins to the organization itself are not
    included.
    """
    services = await postern.platform.analytics.by_service(call.caller.organization, call.query.start_date, call.query.end_date)
    return [ServiceLogins(one.service, one.name, one.logins) for one in services]


@endpoint.get(f"{_ANALYTICS}/logins-by-provider", caller=MEMBER, keys=Capability.MEMBERS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_logins_by_provider(call: Call[None, SpanQuery, OrganizationPath, Member], postern: Postern) -> Sequence[ProviderLogins]:
    """List the number of sign-ins by method

    Return the most used method first. The sign-ins are those from `start_date` to `end_date`, or of the last 30 days.
    """
    providers = await postern.platform.analytics.by_provider(call.caller.organization, call.query.start_date, call.query.end_date)
    return [ProviderLogins(one.provider, one.logins) for one in providers]


@endpoint.get(f"{_ANALYTICS}/recent-logins", caller=MEMBER, keys=Capability.MEMBERS_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def list_recent_logins(
    call: Call[None, RecentQuery, OrganizationPath, Member], postern: Postern
) -> Streamed[Sequence[RecentLoginRecord]]:
    """List the latest sign-ins

    Return the latest sign-ins to the organization and its services, each with the person, the service and the sign-in method.
    """
    return Streamed(_parts(await postern.platform.analytics.recent(call.caller.organization, call.query.limit)))


@endpoint.get("/api/platform/analytics/overview", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_VIEW, tags=("platform",))
async def get_platform_overview(_call: Call[None, None, None, Caller], postern: Postern) -> PlatformOverview:
    """Get statistics of the installation

    Large numbers of users are estimates. Days are in UTC.
    """
    found = await postern.platform.analytics.overview()
    return PlatformOverview(
        total_users=found.users,
        mfa_enabled_users=found.users_with_second_factor,
        total_organizations=found.organizations,
        organizations_by_status=found.organizations_by_status,
        total_services=found.services,
        logins_today=found.logins_today,
        logins_7d=found.logins_7d,
        logins_30d=found.logins_30d,
    )


_encode: Final = msgspec.json.Encoder().encode


async def _parts(pages: AsyncGenerator[Sequence[RecentLogin], None]) -> AsyncGenerator[bytes, None]:
    yield b"["
    separator = b""
    async for page in pages:
        records = [RecentLoginRecord(one.id, one.user, one.service, one.provider, one.created_at) for one in page]
        yield separator + _encode(records)[1:-1]
        separator = b","
    yield b"]"


_LONGEST_PERSON = 254
_LONGEST_PROVIDER = 50


class SignInsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The span begins at `since` and ends before `until`. Both need their offset from UTC."""

    person: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_PERSON, examples=["ada@example.org"])] | None = None
    """Return only attempts of the person with this email address or ID."""
    service_id: ServiceUuid | None = None
    """Return only attempts to sign in to this service."""
    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_PROVIDER, examples=["password"])] | None = None
    """Return only attempts with this sign-in method."""
    success: bool | None = None
    """True returns only successful attempts; false returns only failed ones."""
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Return only attempts at or after this time. Include the UTC offset."""
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Return only attempts before this time. Include the UTC offset."""
    after: UUID | None = None
    """The `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""


class SignInRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to sign in to the organization or to one of its services."""

    id: Id
    user_id: UUID | None
    """The person; null if the person was erased."""
    email: Annotated[str, example("ada@example.org")] | None
    """The person's current email address; null if the account was deleted."""
    name: PersonName | None
    service_id: UUID | None
    """The service that the person signed in to; null for the organization itself."""
    service_slug: Annotated[str, example("billing")] | None
    """The service's slug; null if it was deleted, and for the organization itself."""
    service_name: Annotated[str, example("Billing")] | None
    """The service's name; null if it was deleted, and for the organization itself."""
    provider: WayIn
    success: bool
    """Whether the attempt succeeded."""
    failure: Annotated[LoginFailure, example("wrong_password")] | None
    """The reason for the failure; null if the attempt succeeded."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The IP address of the attempt; null if it was deleted."""
    country: Annotated[str, example("DE")] | None
    """The country of the IP address; null if unknown."""
    city: Annotated[str, example("Berlin")] | None
    """The city of the IP address; null if unknown."""
    created_at: datetime
    """The time of the attempt."""


class SignInList(msgspec.Struct, frozen=True):
    """One page of sign-in attempts."""

    sign_ins: Sequence[SignInRecord]
    """The attempts on this page, the newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(
    "/api/organizations/{org_slug}/sign-ins",
    caller=able(Capability.AUDIT_LOGS_VIEW, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=("audit",),
)
async def list_sign_ins(call: Call[None, SignInsQuery, OrganizationPath, Member], postern: Postern) -> SignInList:
    """List the sign-in attempts of an organization

    Return the attempts to sign in to the organization and its services, the newest first. The list has the attempts of confirmed members,
    and of people who have signed in to the service before. Wrong passwords of other people are not disclosed. Sign-ins that a service
    denies have the `failure` `not_member` or `no_role`. Sign-ins that a hook denies have `refused_by_hook`, `hook_wants_factor` or
    `hook_silent`. Attempts are kept as long as the installation keeps them. Filtered lists of an organization run one at a time. If too
    many requests are waiting, the response is 503.
    """
    query = call.query
    user, email = (None, None) if query.person is None else person_wanted(query.person)
    wanted = SignInFilter(
        user=user,
        email=email,
        service=None if query.service_id is None else ServiceId(query.service_id),
        provider=query.provider,
        success=query.success,
        since=query.since,
        until=query.until,
    )
    before = None if query.after is None else LoginEventId(query.after)
    found = await postern.platform.analytics.sign_ins(call.caller.organization, wanted, before, query.limit + 1)
    listed = found[: query.limit]
    return SignInList([_record(one) for one in listed], listed[-1].event.id if len(found) > query.limit else None)


_record = shown(
    LoggedSignIn,
    SignInRecord,
    named={
        "id": "event.id",
        "user_id": "event.user",
        "service_id": "event.service",
        "provider": "event.provider",
        "failure": "event.failure",
        "ip_address": "event.address",
        "country": "event.country",
        "city": "event.city",
        "created_at": "event.created_at",
    },
    success=lambda one: one.event.failure is None,
)

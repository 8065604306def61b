"""The log of an organization's sign-ins, for members who may read its audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, ServiceId
from core.domain.identity.login_events import LoginFailure
from core.domain.platform.analytics import LoggedSignIn, SignInFilter, person_wanted
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, PersonName, ServiceUuid, WayIn, example

_LONGEST_PERSON = 254
_LONGEST_PROVIDER = 50


class SignInsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The span begins at `since` and ends before `until`. Both need their offset from UTC."""

    person: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_PERSON, examples=["ada@example.org"])] | None = None
    """Only attempts of this person: the e-mail address, or the id."""
    service_id: ServiceUuid | None = None
    """Only attempts to sign in to this service."""
    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_PROVIDER, examples=["password"])] | None = None
    """Only attempts in this way."""
    success: bool | None = None
    """Only attempts that got in, or only those that did not."""
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Only attempts from this moment on. State the offset from UTC."""
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Only attempts before this moment. State the offset from UTC."""
    after: UUID | None = None
    """The `next` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The largest number of entries in the answer. A number above the maximum is refused."""


class SignInRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to sign in to the organization or one of its services."""

    id: Id
    user_id: UUID | None
    """The person; null if the person has been forgotten."""
    email: Annotated[str, example("ada@example.org")] | None
    """The person's present address; null if the account is deleted."""
    name: PersonName | None
    service_id: UUID | None
    """The service that the person signed in to; null for the organization itself."""
    service_slug: Annotated[str, example("billing")] | None
    """The service's slug; null if it is deleted, and for the organization itself."""
    service_name: Annotated[str, example("Billing")] | None
    """The service's name; null if it is deleted, and for the organization itself."""
    provider: WayIn
    success: bool
    """Whether the person got in."""
    failure: Annotated[LoginFailure, example("wrong_password")] | None
    """The reason why the person did not get in; null if the person did."""
    ip_address: Annotated[str, example("203.0.113.7")] | None
    """The address that the attempt came from; null if it has been forgotten."""
    country: Annotated[str, example("DE")] | None
    """The country of that address; null if it is not known."""
    city: Annotated[str, example("Berlin")] | None
    """The city of that address; null if it is not known."""
    created_at: datetime
    """When the person tried."""


class SignInList(msgspec.Struct, frozen=True):
    """One page of the log."""

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
    """List attempts to sign in to the organization and its services, the newest first

    You get the attempts of members by their own act, and of people who have signed in to the service before. Wrong passwords of others are
    not told to you. Visits that a service refuses have the `failure` `not_member` or `no_role`. Attempts stay as long as the installation
    keeps them. Filtered lists of one organization are made one after the other; if too many requests wait, the answer is 503.
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

"""Exports of personal data, and the erasure of a user."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import Forbidden, OrganizationNotActive
from core.domain.formats import Json
from core.domain.identifiers import LoginEventId, OrganizationId, PasskeyId, PrivacyRequestId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.profiles import HeldProfile, Picture
from core.domain.jobs import NewJob
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.frozen import Frozen

FORGET_JOB: Final = "privacy.forget"
"""Its payload names the request as `privacy`."""

PLACEHOLDER_DOMAIN: Final = "deleted.local"
# The request itself handles so many rows of each log; a job does the rest. The number is enough for nearly everybody, and takes less than a
# second.
MOST_AT_ONCE: Final = 10_000
# An export reads so many rows at a time. More would keep the event loop busy for longer than other requests should wait.
PAGE: Final = 100
# Limits the list of second factors, and the list of memberships. Only automated accounts have more.
MOST_LISTED: Final = 10_000

_NOT_YOURS: Final = "You do not have permission to do this with this person's data"


class PrivacyRequester(Frozen, kw_only=True):
    """The person who asks for an export or a deletion. `user` is None for an operator at the command line, who may do all that platform
    owners may.
    """

    user: UserId | None = None
    session: SessionId | None = None
    organization: OrganizationId | None = None
    """The organization of the requester's session. If it is set, the requester has rights in no other organization."""
    operator: str = ""


class Belonging(Frozen, kw_only=True):
    """A person's membership.

    A tenant can make anyone its member without asking, so a membership alone gives the tenant no access to the user's data.
    """

    organization: OrganizationId
    organization_slug: str
    role: str
    joined_at: datetime
    is_the_askers: bool
    """The requester owns the active organization, and has satisfied its sign-in rules."""
    is_own: bool
    """The person made or confirmed the membership. Otherwise the organization has merely listed the person."""
    made_the_account: bool
    """The account was created through the organization."""
    knows_the_account: bool
    """The organization may know how old the account is: the person joined by themselves, came through it, or signed in there."""
    teams: Sequence[str] = ()
    """The slugs of the person's teams in the organization."""
    is_unconfirmed_owner: bool = False
    """Others have made the person the owner, and the person has not confirmed it: that stops nobody from going."""
    is_owner_of_suspended: bool = False
    """The person owns the organization, which is suspended. The person cannot delete it before they go: only platform owners may."""


class Subject(Frozen, kw_only=True):
    """The person whose data are concerned, as far as the requester may know."""

    account: Account
    belongings: Sequence[Belonging]
    asker_governs: bool
    """The requester is a platform owner at this moment, or an operator."""
    is_held_elsewhere: bool
    """An organization that the requester does not own has the person as a member, knows the person by its directory, or has a service to
    which the person signs in.
    """
    request: "PrivacyRequest | None"
    """The earlier request by which the person was forgotten already."""

    @property
    def askers(self) -> Sequence[Belonging]:
        return [one for one in self.belongings if one.is_the_askers]


class PrivacyRequest(Frozen):
    """The receipt of a deletion. `requested_by` is None for an operator."""

    id: PrivacyRequestId
    user: UserId
    requested_by: UserId | None
    requested_at: datetime
    completed_at: datetime | None

    @property
    def is_completed(self) -> bool:
        return self.completed_at is not None


class ExportedLogin(Frozen, kw_only=True):
    id: LoginEventId
    at: datetime
    address: str | None
    user_agent: str | None
    provider: str
    success: bool
    risk_score: float
    risk_factors: Sequence[str]
    country: str | None
    city: str | None
    spot: Sequence[int] | None
    """Latitude and longitude in tenths of a degree."""


class ExportedFactorEvent(Frozen):
    name: str
    at: datetime
    success: bool


class ExportedIdentity(Frozen):
    """An account at a provider that is connected to the person's account."""

    provider: str
    subject: str
    linked_at: datetime


class ExportedManagementKey(Frozen, kw_only=True):
    """A management key that the person has made or adopted, without the key itself."""

    organization: OrganizationId | None
    """None for a key of the platform."""
    name: str
    prefix: str
    created_at: datetime
    expires_at: datetime


class ExportedUserKey(Frozen, kw_only=True):
    """A key that the person has for the API of an application, without the key itself."""

    organization: OrganizationId
    service_slug: str
    name: str
    prefix: str
    scopes: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class ExportedPasskey(Frozen, kw_only=True):
    """A passkey without its key."""

    id: PasskeyId
    name: str
    aaguid: UUID | None
    """None when the authenticator does not say."""
    made_on: str | None
    backup_eligible: bool
    created_at: datetime
    last_used_at: datetime | None


class ExportedConsent(Frozen, kw_only=True):
    """What the person has allowed an application: to learn of them, or to do at an API."""

    organization: OrganizationId
    service_slug: str
    resource: str | None
    """The API's identifier; None for what the application learns of the person."""
    scopes: Sequence[str]
    granted_at: datetime
    expires_at: datetime | None
    """When an agent may no longer act."""


class ExportedTerms(Frozen, kw_only=True):
    """Terms that the person has accepted."""

    organization: OrganizationId | None
    """None: the installation's."""
    version: str
    address: str
    accepted_at: datetime


class ExportedBlockedClient(Frozen, kw_only=True):
    """An application that the person has blocked from backchannel authentication (CIBA)."""

    organization: OrganizationId
    service_slug: str
    blocked_at: datetime


class ExportedDevice(Frozen, kw_only=True):
    """A device from which the person has signed in."""

    name: str
    device_type: str
    browser: str | None
    os: str | None
    created_at: datetime
    last_used_at: datetime
    last_address: str | None
    trusted_until: datetime | None


class ExportedProfile(Frozen, kw_only=True):
    """The words of an organization's directory about the person. An empty value is None."""

    organization: OrganizationId
    external_id: str | None
    work_email: str | None
    formatted_name: str | None
    given_name: str | None
    family_name: str | None
    display_name: str | None


class ExportedPersonThere(Frozen, kw_only=True):
    """The person in a system that an organization provisions its people to."""

    organization: OrganizationId
    service_slug: str
    user_name: str | None
    far_id: str | None
    is_active: bool


class ExportedServiceRole(Frozen):
    """A role that the person holds in a service by an assignment: their own, or that of a team or of a role of the organization."""

    organization: OrganizationId
    service_slug: str
    role: str


class ExportedOwnProfile(Frozen):
    """The profile that the person maintains."""

    held: HeldProfile
    picture: Picture | None


class ExportedFields(Frozen):
    """What one organization keeps of the person by fields, or the installation, if `organization` is None. `values` are by key."""

    organization: OrganizationId | None
    values: Mapping[str, Json]


class Export(Frozen, kw_only=True):
    """A person's data without the sign-ins. There may be many sign-ins, and they follow page by page."""

    account: Account
    created_at: datetime
    belongings: Sequence[Belonging]
    login_events: int
    """The number of all sign-ins, whether or not the export names all of them."""
    mfa_events: Sequence[ExportedFactorEvent]
    management_keys: Sequence[ExportedManagementKey]
    user_keys: Sequence[ExportedUserKey]
    passkeys: Sequence[ExportedPasskey]
    consents: Sequence[ExportedConsent]
    terms: Sequence[ExportedTerms]
    """An export for organizations has only their own."""
    blocked_clients: Sequence[ExportedBlockedClient]
    """None in an export for organizations: what a person refuses says nothing that the application may know."""
    devices: Sequence[ExportedDevice]
    own_profile: ExportedOwnProfile | None
    """None in an export for organizations: what a person says of themselves belongs to no organization."""
    profiles: Sequence[ExportedProfile]
    people_there: Sequence[ExportedPersonThere]
    """The systems that organizations have provisioned the person to."""
    service_roles: Sequence[ExportedServiceRole]
    fields: Sequence[ExportedFields]
    """What the installation, and organizations, keep of the person by fields."""
    metadata: Mapping[ServiceId, Mapping[str, Json]]
    """What services keep of their user."""
    identities: Sequence[ExportedIdentity]
    """An export for organizations has only identities that are used in their services, or are at their own providers."""


class Scope(Frozen):
    """How much of a person's data an export shows: everything, or the data that belong to these organizations. `organizations` is None for
    everything.
    """

    organizations: Sequence[OrganizationId] | None

    @property
    def is_whole(self) -> bool:
        return self.organizations is None


def export_scope(subject: Subject, asker: PrivacyRequester) -> Scope:
    """How much this requester may see: everything (`Scope(None)`) of themselves, or as one who governs; otherwise what belongs to the
    requester's organizations. Raises `Forbidden` when none of those has the person.
    """
    if subject.asker_governs or subject.account.id == asker.user:
        return Scope(None)
    if not subject.askers:
        raise Forbidden(_NOT_YOURS)
    return Scope([one.organization for one in subject.askers])


def exported_belongings(subject: Subject, scope: Scope) -> Sequence[Belonging]:
    return subject.belongings if scope.is_whole else subject.askers


def shown_since(subject: Subject, scope: Scope) -> datetime:
    """When the account was made. For an organization that must not know this, the time when the person became its member."""
    shown = exported_belongings(subject, scope)
    if scope.is_whole or any(one.knows_the_account for one in shown):
        return subject.account.created_at
    return min(one.joined_at for one in shown)


def require_may_forget(subject: Subject, asker: PrivacyRequester) -> None:
    """Raises `Forbidden` when the requester may not have this person forgotten. An owner of organizations must own all organizations of the
    person. The person must also have joined them by themselves, or the account must have been created through one of them. Otherwise a
    tenant could make somebody its member, and then delete the account. What others have made people the owner of stops nobody who asks for
    themselves. Raises `OrganizationNotActive`, which names whom to ask, for somebody who asks for themselves and owns a suspended one.
    """
    if subject.account.is_platform_owner:
        raise Forbidden("A platform owner cannot be forgotten: demote them first")
    if subject.asker_governs:
        return
    asks_for_themselves = subject.account.id == asker.user
    belongings = [one for one in subject.belongings if not (asks_for_themselves and one.is_unconfirmed_owner)]
    if asks_for_themselves and (suspended := next((one.organization_slug for one in belongings if one.is_owner_of_suspended), "")):
        raise OrganizationNotActive(f"You own the organization {suspended}, which is suspended: contact a platform owner first")
    owns_all = bool(subject.belongings) and all(one.is_the_askers for one in belongings) and not subject.is_held_elsewhere
    came_there = all(one.is_own for one in belongings) or any(one.made_the_account for one in belongings)
    if not (owns_all and came_there):
        raise Forbidden(_NOT_YOURS)


def placeholder(at: datetime, attempt: int) -> Email:
    """The address that replaces the person's address. No two are equal: when one is taken, the next `attempt` follows."""
    moment = at + timedelta(microseconds=attempt)
    stamp = int(moment.timestamp()) * 1_000_000 + moment.microsecond
    return Email(f"anonymized-{stamp}@{PLACEHOLDER_DOMAIN}")


def forget_job(request: UUID) -> NewJob:
    return NewJob(FORGET_JOB, {"privacy": str(request)})


def forgotten(user: UserId, actor: Actor, operator: str) -> Event:
    """When people ask for their own deletion, the event has no address and no client of theirs: the audit log would keep this after the
    deletion.
    """
    by = Actor(user=user) if actor.user == user else actor
    personal = {"operator": operator} if operator else {}
    return Event("user.anonymized", by, Target("user", str(user)), details={"user_id": str(user)}, personal=personal)


def exported(subject: Subject, scope: Scope, actor: Actor, operator: str) -> Sequence[Event]:
    """One event for each log that the exported data came from: each log records the export."""
    target = Target("user", str(subject.account.id))
    if operator:
        return [Event("user.exported", SYSTEM, target, personal={"operator": operator})]
    details: Mapping[str, Json] = {"whole": scope.is_whole}
    logs: Sequence[OrganizationId | None] = scope.organizations or (None,)
    return [Event("user.exported", actor, target, organization, details) for organization in logs]

"""What a person may have of their data, and what is left when they are forgotten. A tenant can make anybody its member without asking, so
that somebody is a member opens nothing of the person by itself.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.identifiers import LoginEventId, OrganizationId, PasskeyId, PrivacyRequestId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.frozen import Frozen

FORGET_JOB: Final = "privacy.forget"
"""Its payload names the request as `privacy`."""

PLACEHOLDER_DOMAIN: Final = "deleted.local"
# In the request itself of each log; a job does the rest. Enough for nearly everybody, and done within a second.
MOST_AT_ONCE: Final = 10_000
# What an export reads at a time: more would keep the event loop for longer than others should wait.
PAGE: Final = 100
# Of second factors, and of memberships. Only automated accounts have more.
MOST_LISTED: Final = 10_000

_NOT_YOURS: Final = "You may not do this with this person's data"


class PrivacyRequester(Frozen, kw_only=True):
    """Who asks about a person's data. `user` is None for an operator at the command line, who may do all that platform owners may."""

    user: UserId | None = None
    session: SessionId | None = None
    organization: OrganizationId | None = None
    """The one that their session is for. Then no other counts."""
    operator: str = ""


class Belonging(Frozen, kw_only=True):
    """A person's membership."""

    organization: OrganizationId
    organization_slug: str
    role: str
    joined_at: datetime
    is_the_askers: bool
    """The asker owns the active organization, and has satisfied its sign-in rules."""
    is_own: bool
    """The person made or confirmed it themselves; otherwise the organization has merely listed them."""
    made_the_account: bool
    """The account came to be through the organization."""
    knows_the_account: bool
    """The person has given it reason to know how old the account is."""


class Subject(Frozen, kw_only=True):
    """The person, as the asker meets them."""

    account: Account
    belongings: Sequence[Belonging]
    asker_governs: bool
    """The asker is a platform owner, now, or an operator."""
    is_held_elsewhere: bool
    """An organization that the asker does not own has the person as a member, knows them by its directory, or has a service to which they
    sign in.
    """
    request: "PrivacyRequest | None"
    """They have been forgotten already."""

    @property
    def askers(self) -> Sequence[Belonging]:
        return [one for one in self.belongings if one.is_the_askers]


class PrivacyRequest(Frozen):
    """The receipt of a person's forgetting. `requested_by` is None for an operator."""

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


class ExportedFactorEvent(Frozen):
    name: str
    at: datetime
    success: bool


class ExportedIdentity(Frozen):
    """An account at a provider that the person signs in with."""

    provider: str
    subject: str
    linked_at: datetime


class ExportedPasskey(Frozen, kw_only=True):
    """Without its key."""

    id: PasskeyId
    name: str
    aaguid: UUID | None
    """None: the authenticator does not say."""
    backup_eligible: bool
    created_at: datetime
    last_used_at: datetime | None


class ExportedProfile(Frozen, kw_only=True):
    """What an organization's directory says about the person. Sent empty, it is None."""

    organization: OrganizationId
    external_id: str | None
    work_email: str | None
    formatted_name: str | None
    given_name: str | None
    family_name: str | None
    display_name: str | None


class Export(Frozen, kw_only=True):
    """A person's data, without the sign-ins, which may be many and follow page by page."""

    account: Account
    created_at: datetime
    belongings: Sequence[Belonging]
    login_events: int
    """How many there are, whether or not the export names them all."""
    mfa_events: Sequence[ExportedFactorEvent]
    passkeys: Sequence[ExportedPasskey]
    profiles: Sequence[ExportedProfile]
    identities: Sequence[ExportedIdentity]
    """For organizations: those that are used in their services, or are at providers of their own."""


class Scope(Frozen):
    """How much of a person's data is shown: all of it, or what belongs to these organizations."""

    organizations: Sequence[OrganizationId] | None

    @property
    def is_whole(self) -> bool:
        return self.organizations is None


def export_scope(subject: Subject, asker: PrivacyRequester) -> Scope:
    """Raises `Forbidden`."""
    if subject.asker_governs or subject.account.id == asker.user:
        return Scope(None)
    if not subject.askers:
        raise Forbidden(_NOT_YOURS)
    return Scope([one.organization for one in subject.askers])


def exported_belongings(subject: Subject, scope: Scope) -> Sequence[Belonging]:
    return subject.belongings if scope.is_whole else subject.askers


def shown_since(subject: Subject, scope: Scope) -> datetime:
    """When the account was made; for an organization that the person has told nothing, when they became its member."""
    shown = exported_belongings(subject, scope)
    if scope.is_whole or any(one.knows_the_account for one in shown):
        return subject.account.created_at
    return min(one.joined_at for one in shown)


def require_may_forget(subject: Subject) -> None:
    """Raises `Forbidden`. An owner of organizations needs to own all of the person's, and the person must have come there by themselves, or
    have no account but through them: otherwise a tenant could make somebody its member, and then delete them.
    """
    if subject.account.is_platform_owner:
        raise Forbidden("A platform owner cannot be forgotten: demote them first")
    if subject.asker_governs:
        return
    belongings = subject.belongings
    owns_all = bool(belongings) and all(one.is_the_askers for one in belongings) and not subject.is_held_elsewhere
    came_there = all(one.is_own for one in belongings) or any(one.made_the_account for one in belongings)
    if not (owns_all and came_there):
        raise Forbidden(_NOT_YOURS)


def placeholder(at: datetime, attempt: int) -> Email:
    """What stands in place of the address. No two are equal, so a taken one is followed by the next."""
    moment = at + timedelta(microseconds=attempt)
    stamp = int(moment.timestamp()) * 1_000_000 + moment.microsecond
    return Email(f"anonymized-{stamp}@{PLACEHOLDER_DOMAIN}")


def forget_job(request: UUID) -> NewJob:
    return NewJob(FORGET_JOB, {"privacy": str(request)})


def forgotten(user: UserId, actor: Actor, operator: str) -> Event:
    """If they asked themselves, nothing says where from: that would outlive what was forgotten."""
    by = Actor(user=user) if actor.user == user else actor
    personal = {"operator": operator} if operator else {}
    return Event("user.anonymized", by, Target("user", str(user)), details={"user_id": str(user)}, personal=personal)


def exported(subject: Subject, scope: Scope, actor: Actor, operator: str) -> Sequence[Event]:
    """That somebody's data was handed out is on record in each log that it came from."""
    target = Target("user", str(subject.account.id))
    if operator:
        return [Event("user.exported", SYSTEM, target, personal={"operator": operator})]
    details: Mapping[str, Json] = {"whole": scope.is_whole}
    logs: Sequence[OrganizationId | None] = scope.organizations or (None,)
    return [Event("user.exported", actor, target, organization, details) for organization in logs]

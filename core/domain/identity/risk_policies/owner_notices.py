"""Notices to owners: a rule for risk has them hear of a sign-in. A job mails them, so that no sign-in waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Self
from uuid import UUID

from core.domain.email import Email
from core.domain.identifiers import LoginEventId, OrganizationId, UserId
from core.domain.identity.devices import Location
from core.domain.identity.risk_policies.policies import Decided
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen

OWNER_NOTICE_JOB: Final = "risk.owner_notice"
OWNER_NOTICES: Final = RateLimit("risk_owner_notices", burst=1, seconds_per_request=3600)
"""Of one rule about one person."""
OWNER_NOTICES_OF_RULE: Final = RateLimit("risk_owner_notices_of_rule", burst=30, seconds_per_request=120)
"""Of one rule about everybody: whoever makes many accounts at an application cannot fill the mailboxes of its owners."""


class NoOwnerNotice(Exception):
    """The payload names no sign-in."""


class OwnerNotice(Frozen, kw_only=True):
    login: LoginEventId
    user: UserId
    organization: OrganizationId | None
    """None for a rule of the installation, of which platform owners hear."""
    policy: UUID
    name: str
    """The name that the rule had at the sign-in."""

    @classmethod
    def of(cls, login: LoginEventId, user: UserId, decided: Decided) -> Self:
        return cls(login=login, user=user, organization=decided.organization, policy=decided.policy, name=decided.name)

    def as_job(self) -> NewJob:
        payload: Mapping[str, Json] = {
            "login": str(self.login),
            "user": str(self.user),
            "organization": None if self.organization is None else str(self.organization),
            "policy": str(self.policy),
            "name": self.name,
        }
        return NewJob(OWNER_NOTICE_JOB, payload)

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> Self:
        """Raises `NoOwnerNotice`."""
        try:
            kept = payload["organization"]
            return cls(
                login=LoginEventId(UUID(str(payload["login"]))),
                user=UserId(UUID(str(payload["user"]))),
                organization=None if kept is None else OrganizationId(UUID(str(kept))),
                policy=UUID(str(payload["policy"])),
                name=str(payload["name"]),
            )
        except (KeyError, ValueError):
            raise NoOwnerNotice from None

    @property
    def key(self) -> str:
        """Of the bucket that bounds notices of one rule about one person."""
        return f"{self.key_of_rule}:{self.user}"

    @property
    def key_of_rule(self) -> str:
        """Of the bucket that bounds notices of one rule. Organizations choose the ids of their rules, and two may choose the same."""
        return f"{self.organization}:{self.policy}"


class NoticedSignIn(Frozen, kw_only=True):
    """What owners hear of the sign-in."""

    email: Email
    """The person's present address."""
    at: datetime
    address: str | None
    user_agent: str | None
    location: Location | None


def owners_notified(notice: OwnerNotice, owners: int) -> Event:
    details: Mapping[str, Json] = {"policy_id": str(notice.policy), "name": notice.name, "owners": owners}
    if notice.organization is None:
        return Event("platform.risk_policies.notified", SYSTEM, Target("user", str(notice.user)), details=details)
    return Event("organization.risk_policies.notified", SYSTEM, Target("user", str(notice.user)), notice.organization, details)

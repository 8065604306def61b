"""Mails that risk policies cause: notices to owners, and recovery links that set a policy to report-only."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import LoginEventId, OrganizationId, UserId
from core.domain.identity.account_locks import address_digest
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Location
from core.domain.identity.risk_policies.policies import Decided, RiskAction, RiskPolicies, RiskPolicy
from core.domain.jobs import NewJob
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen, json_of

OWNER_NOTICE_JOB: Final = "risk.owner_notice"
OWNER_NOTICES: Final = RateLimit("risk_owner_notices", burst=1, seconds_per_request=3600)
"""Of one rule about one person."""
OWNER_NOTICES_OF_RULE: Final = RateLimit("risk_owner_notices_of_rule", burst=30, seconds_per_request=120)
"""Of one rule about everybody: whoever makes many accounts at an application cannot fill the mailboxes of its owners."""


class NoOwnerNotice(Exception):
    """The payload names no sign-in."""


class OwnerNotice(Frozen, kw_only=True):
    """A notice to owners about a sign-in, because a risk policy asks for it. A job mails it, so that no sign-in waits."""

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
        return NewJob(OWNER_NOTICE_JOB, json_of(self))

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


WAY_BACK_LIFETIME: Final = timedelta(hours=1)
WAY_BACK_MAILS: Final = RateLimit("risk_way_back_mails", burst=3, seconds_per_request=600)
_NOBODY: Final = UUID(int=0)
_LENGTH: Final = 56
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class NotAWayBack(ValueError):
    """What the key ring opened is no link of this kind."""


class WayBack(Frozen):
    """A recovery link for users whom risk policies refuse: an owner lifts what refuses at their organization, or a platform owner what
    refuses everywhere.

    The link is bound to these values, and nothing of it is stored. The policies show whether it is used up, by the time since when each is
    enforced. The account shows whether it is still the reader's.
    """

    user: UserId
    organization: OrganizationId | None
    """None for the way back of a platform owner whom a rule of the installation refuses."""
    address: bytes
    """A part of the digest of the address that the mail went to."""
    mailed_at: datetime

    @classmethod
    def of(cls, user: UserId, organization: OrganizationId | None, address: Email, now: datetime) -> Self:
        return cls(user, organization, address_digest(address), now)

    def is_good_for(self, owner: Account) -> bool:
        """Whether the account still has the address, and has neither been locked since nor got another password: the reader of the mail may
        be whom that was to keep out.
        """
        changed = (at for at in (owner.locked_at, owner.password_changed_at) if at is not None)
        return address_digest(owner.email) == self.address and all(at < self.mailed_at for at in changed)

    def lifts(self, rules: RiskPolicies) -> tuple[RiskPolicy, ...]:
        """The rules that refuse, and have counted since before the mail. What somebody has let count again is no longer among them."""
        refusing = (one for one in rules.counting if one.action is RiskAction.REFUSE)
        return tuple(one for one in refusing if one.counts_since is None or one.counts_since < self.mailed_at)

    def is_over(self, now: datetime) -> bool:
        return now >= self.mailed_at + WAY_BACK_LIFETIME

    def packed(self) -> bytes:
        mailed_at = ((self.mailed_at - _EPOCH) // _MICROSECOND).to_bytes(8)
        return self.user.bytes + (self.organization or _NOBODY).bytes + mailed_at + self.address

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Reads what `packed` wrote. Raises `NotAWayBack`."""
        if len(packed) != _LENGTH:
            raise NotAWayBack
        mailed_at = _EPOCH + int.from_bytes(packed[32:40]) * _MICROSECOND
        organization = UUID(bytes=packed[16:32])
        return cls(
            UserId(UUID(bytes=packed[:16])),
            None if organization == _NOBODY else OrganizationId(organization),
            packed[40:],
            mailed_at,
        )

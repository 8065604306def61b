"""Terms of service that an installation or an organization asks users to accept."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Conflict, TermsRequired
from core.domain.identifiers import OrganizationId, SessionId, TermsId, UserId
from core.domain.lines import one_line
from core.domain.outbound import NotADestination, destination
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LONGEST_VERSION: Final = 40
LONGEST_ADDRESS: Final = 500
# Enough for a new version each week for many years. Lists show them all.
MOST_VERSIONS: Final = 1000
# What a person has accepted, on one page.
MOST_LISTED: Final = 1000


class TermsKeeper(StrEnum):
    """Who asks people to accept."""

    INSTALLATION = "installation"
    ORGANIZATION = "organization"


class TermsVersion(Frozen, kw_only=True):
    """One version.

    The text is at its own URL; Postern stores its versions, and who has accepted which.
    """

    id: TermsId
    organization: OrganizationId | None
    """None: the installation's."""
    version: str
    address: str
    due_at: datetime
    """Who has not accepted the version by then goes no further."""
    set_at: datetime
    set_by: UserId | None
    """None when the person's account is gone."""
    ended_at: datetime | None = None
    """When another version followed, or nobody was asked any more. None for the version in force."""

    @property
    def keeper(self) -> TermsKeeper:
        return TermsKeeper.INSTALLATION if self.organization is None else TermsKeeper.ORGANIZATION


class KeptTerms(Frozen):
    """A version, and how many people have accepted it."""

    terms: TermsVersion
    accepted: int


class TermsChange(Frozen):
    """The version that people are to be asked for from now on."""

    version: str
    address: str
    due_at: datetime

    def checked(self, before: Sequence[TermsVersion], now: datetime) -> "TermsChange":
        """The change as it is kept. `before` are all versions of the keeper. Of the version in force, only the date can change. Raises
        `BadRequest` with the field.
        """
        version, address = terms_version(self.version), terms_address(self.address)
        standing = in_force(before)
        stays = standing is not None and (standing.version, standing.address) == (version, address)
        if not stays and any(one.version == version for one in before):
            raise BadRequest("version: this version was used before, for another text or at another time", words="terms_version_used")
        if self.due_at <= now and not (standing is not None and stays and standing.due_at == self.due_at):
            raise BadRequest("due_at: must be in the future, so that people have time to accept", words="terms_due_past")
        if not stays and len(before) >= MOST_VERSIONS:
            raise BadRequest(f"version: at most {MOST_VERSIONS} versions are stored", words="terms_most", values={"most": MOST_VERSIONS})
        return TermsChange(version, address, self.due_at)


def in_force(versions: Sequence[TermsVersion]) -> TermsVersion | None:
    return next((one for one in versions if one.ended_at is None), None)


class PendingTerms(Frozen, kw_only=True):
    """Terms in force that the person has not accepted yet."""

    id: TermsId
    organization: OrganizationId | None
    organization_slug: str
    """Empty for the installation's, and so is the name."""
    organization_name: str
    version: str
    address: str
    due_at: datetime
    is_over: bool
    """The time to accept them is over."""

    def stops(self, organization: OrganizationId | None) -> bool:
        """Whether somebody who does not accept them stays out of this organization; with None, out of everything but the account."""
        return self.is_over and self.concern(organization)

    def concern(self, organization: OrganizationId | None) -> bool:
        """Whether they are the installation's, or this organization's."""
        return self.organization in {None, organization}


class AcceptedTerms(Frozen, kw_only=True):
    """What a person has accepted, and when."""

    organization_slug: str
    organization_name: str
    version: str
    address: str
    accepted_at: datetime
    in_force: bool
    """No other version has followed."""


class OwnTerms(Frozen):
    """Everything about a person and terms."""

    pending: Sequence[PendingTerms]
    accepted: Sequence[AcceptedTerms]


class Acceptance(Frozen):
    """A person accepts a version. `session` is None at the registration, where nobody is signed in yet."""

    user: UserId
    terms: TermsId
    session: SessionId | None
    at: datetime


def require_accepted(due: datetime | None, now: datetime) -> None:
    """`due` is when the person must have accepted what is missing. Raises `TermsRequired` from then on."""
    if due is not None and due <= now:
        raise TermsRequired


def another_version() -> Conflict:
    return Conflict("version: not the current version: read the terms again", words="terms_changed")


def terms_set(before: TermsVersion | None, after: TermsVersion, actor: Actor) -> Event:
    details = {
        "version": after.version,
        "address": after.address,
        "due_at": after.due_at.isoformat(),
        **({} if before is None else {"old_version": before.version, "old_due_at": before.due_at.isoformat()}),
    }
    return Event("terms.set", actor, _target(after.organization), after.organization, details)


def terms_withdrawn(ended: TermsVersion, actor: Actor) -> Event:
    details = {"version": ended.version, "address": ended.address}
    return Event("terms.withdrawn", actor, _target(ended.organization), ended.organization, details)


def terms_accepted(terms: TermsVersion, user: UserId, actor: Actor) -> Event:
    details = {"version": terms.version, "address": terms.address}
    return Event("terms.accepted", actor, Target("user", str(user)), terms.organization, details)


def _target(organization: OrganizationId | None) -> Target:
    return Target("terms", "installation") if organization is None else Target("organization", str(organization))


def terms_version(text: str) -> str:
    version = one_line(text.strip())
    if not version or len(version) > LONGEST_VERSION:
        raise BadRequest(
            f"version: from 1 to {LONGEST_VERSION} characters, such as 2026-11", words="terms_version", values={"most": LONGEST_VERSION}
        )
    return version


def terms_address(text: str) -> str:
    """People open it by themselves; we never call it. Only https, so that nobody on the way can change what people read."""
    address = text.strip()
    if len(address) > LONGEST_ADDRESS:
        raise BadRequest(
            f"address: the URL has at most {LONGEST_ADDRESS} characters", words="text_too_long", values={"most": LONGEST_ADDRESS}
        )
    try:
        place = destination(address)
    except NotADestination as refusal:
        raise BadRequest(f"address: {refusal}", words="web_address") from None
    if place.scheme != "https" or not address.startswith("https://"):
        raise BadRequest("address: must start with https://", words="https_only")
    return address

"""Set-up links: with such a link, somebody without an account sets up domain, connection, SCIM or SIEM of one organization.

A link does no more than its maker may do at that moment. It makes drafts, and has no hold on what is active.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.branding import Branding
from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.identifiers import OrganizationId, SetupLinkId, UserId
from core.domain.json import Json, timestamp
from core.domain.lines import typed_line
from core.domain.record.events import ActingKey, ActingKind, Actor, Event, Target
from core.domain.tenancy.roles import Capability, capabilities_of
from core.frozen import Frozen

KIND: Final = "pts"
LIFETIME: Final = timedelta(days=7)
KEPT: Final = timedelta(days=30)
"""An ended link stays listed for this time."""
MOST_LINKS: Final = 100
"""The limit of an organization. Ended links count until the janitor deletes them."""
LONGEST_USER: Final = 200
LONGEST_USER_AGENT: Final = 512


class SetupPurpose(StrEnum):
    """What a link sets up."""

    DOMAIN = "domain"
    CONNECTION = "connection"
    SCIM = "scim"
    SIEM = "siem"


# As the use cases demand it that members call for the same.
_NEEDED: Final = {
    SetupPurpose.DOMAIN: capabilities_of([Capability.SETTINGS_MANAGE]),
    SetupPurpose.CONNECTION: capabilities_of([Capability.SETTINGS_MANAGE]),
    SetupPurpose.SCIM: capabilities_of([Capability.INTEGRATIONS_MANAGE, Capability.MEMBERS_MANAGE]),
    SetupPurpose.SIEM: capabilities_of([Capability.INTEGRATIONS_MANAGE, Capability.AUDIT_LOGS_VIEW]),
}


class SetupLinkState(StrEnum):
    """The state of a link."""

    UNUSED = "unused"
    """Nobody has pressed the button yet."""
    IN_USE = "in_use"
    """A browser owns the link."""
    FINISHED = "finished"
    """Everything is active."""
    EXPIRED = "expired"
    REVOKED = "revoked"


class SetupLink(Frozen, kw_only=True):
    """The stored data of a link. The token is only in the answer that makes the link, and in its mail. `prefix` is its beginning."""

    id: SetupLinkId
    organization: OrganizationId
    name: str
    prefix: str
    purposes: tuple[SetupPurpose, ...]
    activates: bool
    """What the link sets up becomes active by itself. Otherwise an owner makes it active."""
    by_platform: bool
    """A platform owner made the link for a customer."""
    mailed_to: str | None
    expires_at: datetime
    created_by: UserId
    created_at: datetime
    used_by: str | None = None
    """The name that somebody typed in the browser that owns the link."""
    used_at: datetime | None = None
    used_from: str | None = None
    """The address of the browser that owns the link."""
    used_with: str | None = None
    """The name that the browser gives itself."""
    finished_at: datetime | None = None
    revoked_at: datetime | None = None

    def state(self, now: datetime) -> SetupLinkState:
        if self.revoked_at is not None:
            return SetupLinkState.REVOKED
        if self.finished_at is not None:
            return SetupLinkState.FINISHED
        if self.expires_at <= now:
            return SetupLinkState.EXPIRED
        return SetupLinkState.UNUSED if self.used_at is None else SetupLinkState.IN_USE

    @property
    def acting(self) -> ActingKey:
        return ActingKey(self.id, self.name, self.prefix, ActingKind.SETUP_LINK)


class KnownSetupLink(Frozen):
    """A link as the database knows it for this request, with what its maker may do at this moment."""

    link: SetupLink
    browser_digest: bytes | None
    organization_slug: str
    organization_is_active: bool
    branding: Branding
    makers_capabilities: frozenset[Capability]

    def may(self, purpose: SetupPurpose) -> bool:
        return purpose in self.link.purposes and _NEEDED[purpose] <= self.makers_capabilities


class SetupLinkRefused(Forbidden):
    """The link does not open the page, for the reason that `words` names."""

    text = "This set-up link cannot be used"


class SetupLinkUnknown(NotFound):
    text = "There is no such set-up link"

    def __init__(self) -> None:
        super().__init__(words="setup_unknown")


def require_usable(known: KnownSetupLink, now: datetime) -> None:
    """Raises `SetupLinkRefused`. A link that is finished can be looked at until it ends."""
    organization = known.branding.name
    words = ""
    if known.link.revoked_at is not None:
        words = "setup_revoked"
    elif known.link.expires_at <= now:
        words = "setup_expired"
    elif not known.organization_is_active:
        words = "setup_organization_inactive"
    elif not any(map(known.may, known.link.purposes)):
        words = "setup_maker_gone"
    if words:
        raise SetupLinkRefused(words=words, values={"organization": organization})


def require_browser(known: KnownSetupLink, browser: bytes | None) -> None:
    """Raises `SetupLinkRefused` for any browser but the one that owns the link. `browser` is the digest of its cookie."""
    if browser is None or known.browser_digest != browser:
        finished = known.link.finished_at is not None
        words = "setup_used_up" if finished else "setup_not_begun" if known.browser_digest is None else "setup_other_browser"
        raise SetupLinkRefused(words=words, values={"organization": known.branding.name})


def require_purpose(known: KnownSetupLink, purpose: SetupPurpose) -> None:
    """Raises `SetupLinkRefused`, also if the maker of the link may not do this any more."""
    if purpose not in known.link.purposes:
        raise SetupLinkUnknown
    if not known.may(purpose):
        raise SetupLinkRefused(words="setup_maker_gone", values={"organization": known.branding.name})


def wanted_purposes(wanted: Collection[SetupPurpose]) -> tuple[SetupPurpose, ...]:
    """Each purpose once, in the order in which people set them up. Raises `BadRequest`."""
    if not wanted:
        raise BadRequest("purposes: at least one is required", words="tick_one")
    return tuple(purpose for purpose in SetupPurpose if purpose in set(wanted))


def require_may_make(purposes: Sequence[SetupPurpose], held: frozenset[Capability]) -> None:
    """Nobody makes a link that does what they may not do. Raises `Forbidden`."""
    missing = sorted(frozenset[Capability]().union(*(_NEEDED[one] for one in purposes)) - held)
    if missing:
        raise Forbidden(f"A link for these purposes takes {', '.join(missing)}", words="rights_missing")


def user_name(text: str) -> str:
    """The name that somebody types before the first button. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_USER:
        raise BadRequest(f"name: 1 to {LONGEST_USER} characters", words="setup_name")
    return name


def require_links_room(count: int) -> None:
    if count >= MOST_LINKS:
        raise BadRequest(
            f"An organization has at most {MOST_LINKS} set-up links: ended ones go after thirty days",
            words="setup_links_most",
            values={"most": MOST_LINKS},
        )


def setup_link_created(link: SetupLink, actor: Actor) -> Event:
    return _event("setup_link.created", link, actor, {**_facts(link), "activates": link.activates}, mailed_to=link.mailed_to)


def setup_link_used(link: SetupLink, actor: Actor) -> Event:
    return _event("setup_link.used", link, actor, _facts(link), used_by=link.used_by)


def setup_link_released(link: SetupLink, actor: Actor) -> Event:
    return _event("setup_link.released", link, actor, _facts(link))


def setup_link_revoked(link: SetupLink, actor: Actor, dropped: int) -> Event:
    return _event("setup_link.revoked", link, actor, {**_facts(link), "dropped_drafts": dropped})


def _facts(link: SetupLink) -> dict[str, Json]:
    return {
        "name": link.name,
        "prefix": link.prefix,
        "purposes": [purpose.value for purpose in link.purposes],
        "expires_at": timestamp(link.expires_at),
    }


def _event(name: str, link: SetupLink, actor: Actor, details: dict[str, Json], **personal: str | None) -> Event:
    known = {field: value for field, value in personal.items() if value is not None}
    return Event(name, actor, Target("setup_link", str(link.id)), link.organization, details, personal=known)

"""Setup links, with which someone without an account configures a domain, a connection, SCIM or SIEM of an organization."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from core.domain.branding import Branding
from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from core.domain.formats import Json, timestamp
from core.domain.identifiers import DomainId, OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId, UserId
from core.domain.identity.upstream.connections import SamlChange
from core.domain.identity.upstream.saml.assertions import NAME_ID, PRESETS, AttributeMapping, DirectoryPreset
from core.domain.lines import typed_line
from core.domain.record.events import ActingKey, ActingKind, Actor, Event, Target
from core.domain.tenancy.domains import Domain
from core.domain.tenancy.roles import Capability, capabilities_of
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen

SETUP_LINK_KIND: Final = "pts"
SETUP_LINK_LIFETIME: Final = timedelta(days=7)
SETUP_LINKS_KEPT: Final = timedelta(days=30)
"""An ended link stays listed for this time."""
MOST_LINKS: Final = 100
"""The limit of an organization. Ended links count until the janitor deletes them."""
LONGEST_USER: Final = 200
LONGEST_USER_AGENT: Final = 512


class SetupPurpose(StrEnum):
    """What a setup link configures."""

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
    """The stored data of a setup link. The link does no more than its creator may do at that time. It creates drafts, and cannot change
    what is active. The token is only in the response that creates the link, and in its mail. `prefix` is its beginning.
    """

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
    text = "Setup link not found"

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
        raise Forbidden(f"A link for these purposes requires {', '.join(missing)}", words="rights_missing")


def user_name(text: str) -> str:
    """The name that somebody types before the first button. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_USER:
        raise BadRequest(f"name: 1 to {LONGEST_USER} characters", words="setup_name")
    return name


def require_links_room(count: int) -> None:
    if count >= MOST_LINKS:
        raise BadRequest(
            f"An organization can have at most {MOST_LINKS} setup links: expired and revoked ones are deleted after 30 days",
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


MOST_DOMAINS: Final = 10
"""The limit of one link."""
IN_HAND: Final = "A setup link that activates by itself is in use for this: revoke the link first, or wait until its settings are submitted"
NOT_HANDED_OVER: Final = "These settings were not submitted through the setup link"


NO_MORE: Final[Mapping[str, Json]] = MappingProxyType({})


class SetupDraftState(StrEnum):
    """The state of a draft."""

    DRAFT = "draft"
    TESTED = "tested"
    """The settings, as they are, have passed their test."""
    WAITING = "waiting"
    """An owner decides."""
    ACTIVE = "active"


class SetupDraft(Frozen, kw_only=True):
    """What someone has configured with a setup link. A draft has no effect until it is active, and then the link cannot change it any more.
    `subject` is what people call the draft by: the domain, the receiver's host, the name of the connection or of the directory.
    """

    id: SetupDraftId
    link: SetupLinkId
    organization: OrganizationId
    purpose: SetupPurpose
    subject: str
    settings: Mapping[str, Json]
    provider: UpstreamProviderId | None = None
    """The connection, whose own row has its settings."""
    has_credentials: bool = False
    state: SetupDraftState = SetupDraftState.DRAFT
    came: str = ""
    """What the last test found. Empty before the first."""
    tested_at: datetime | None = None
    """The last test, passed or failed."""
    first_request_at: datetime | None = None
    """The first request of the directory."""
    waiting_since: datetime | None = None
    activated_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_active(self) -> bool:
        return self.state is SetupDraftState.ACTIVE

    @property
    def domain(self) -> Domain:
        """For a draft of a domain: the domain, with the text that proves it."""
        return Domain(
            id=DomainId(self.id),
            organization=self.organization,
            name=self.subject,
            token=str(self.settings["token"]),
            created_at=self.created_at,
        )


def seen_digest(draft: SetupDraft, connection: UpstreamProvider | None) -> bytes:
    """What an owner says yes to: the settings as they are, and the hand-over, since nothing shows credentials that somebody has changed."""
    since = None if draft.waiting_since is None else draft.waiting_since.isoformat()
    settings = None if connection is None else connection.digest.hex()
    told = [str(draft.id), draft.purpose.value, draft.subject, dict(draft.settings), settings, since]
    return sha256(json.dumps(told, sort_keys=True).encode()).digest()


def require_handed_over(draft: SetupDraft) -> None:
    """Raises `BadRequest` while the test has not passed, and `Conflict` for settings that nobody has handed over as they are."""
    require_passed(draft)
    if draft.state is not SetupDraftState.WAITING:
        raise Conflict(NOT_HANDED_OVER, words="setup_not_handed_over")


def require_changeable(draft: SetupDraft) -> None:
    """Raises `Conflict`: a link has no hold on what is active."""
    if draft.is_active:
        raise Conflict("This is active: an administrator of the organization changes it", words="setup_active")


def require_passed(draft: SetupDraft) -> None:
    """A directory's token has nothing to pass: the directory sends its first request when it is set up. Raises `BadRequest`."""
    if draft.purpose is SetupPurpose.SCIM:
        return
    if draft.state is SetupDraftState.DRAFT:
        raise BadRequest(
            "The settings have not passed their test", words="setup_not_tested" if draft.tested_at is None else "setup_test_failed"
        )


def passed_again(draft: SetupDraft) -> SetupDraftState:
    """The state after a test that has passed. It takes nothing back from a draft that waits."""
    return SetupDraftState.TESTED if draft.state is SetupDraftState.DRAFT else draft.state


def is_finished(link: SetupLink, drafts: Sequence[SetupDraft]) -> bool:
    """Whether everything that the link is for is active, and nothing waits."""
    done = {draft.purpose for draft in drafts if draft.is_active}
    return done >= set(link.purposes) and all(draft.is_active for draft in drafts)


def setup_draft_waiting(link: SetupLink, draft: SetupDraft, actor: Actor) -> Event:
    return _event_setup_draft("setup_link.draft.waiting", link, draft, actor)


def setup_draft_activated(link: SetupLink, draft: SetupDraft, actor: Actor, digest: bytes) -> Event:
    """`digest` is that of the settings, as `seen_digest` has it."""
    return _event_setup_draft("setup_link.draft.activated", link, draft, actor, {"digest": digest.hex()})


def _event_setup_draft(name: str, link: SetupLink, draft: SetupDraft, actor: Actor, more: Mapping[str, Json] = NO_MORE) -> Event:
    details: dict[str, Json] = {
        "name": link.name,
        "prefix": link.prefix,
        "draft_id": str(draft.id),
        "purpose": draft.purpose.value,
        "subject": draft.subject,
        **more,
    }
    return Event(name, actor, Target("setup_link", str(link.id)), link.organization, details)


_BEGINNING: Final = 2000
_NAME_ID_FOR_PEOPLE: Final = "NameID"


class DirectoryProduct(StrEnum):
    """The identity providers that users choose from when they set a connection up: those with a preset for the attribute mapping, and any
    other.
    """

    ENTRA_ID = "entra_id"
    OKTA = "okta"
    GOOGLE = "google"
    AD_FS = "ad_fs"
    PING = "ping"
    SHIBBOLETH = "shibboleth"
    KEYCLOAK = "keycloak"
    OTHER = "other"


# Of a directory that we do not know: the names that most of them use.
_OTHER: Final = AttributeMapping(
    email=(
        "email",
        "mail",
        "urn:oid:0.9.2342.19200300.100.1.3",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
        NAME_ID,
    )
)


def mapping_of(product: DirectoryProduct) -> AttributeMapping:
    return _OTHER if product is DirectoryProduct.OTHER else PRESETS[DirectoryPreset(product.value)].mapping


def settings_of(product: DirectoryProduct) -> SamlChange:
    if product is DirectoryProduct.OTHER:
        return SamlChange(subject_source=_OTHER.subject, email_sources=tuple(_OTHER.email))
    return SamlChange(preset=DirectoryPreset(product.value))


def product_named(text: str) -> DirectoryProduct:
    """Raises `BadRequest`."""
    try:
        return DirectoryProduct(text)
    except ValueError:
        raise BadRequest("directory: choose one of the list", words="field_choice") from None


def source_named(text: str) -> str:
    """The source that somebody names for a connection, who reads "NameID" on our pages and in their directory."""
    return NAME_ID if text.casefold() == _NAME_ID_FOR_PEOPLE.casefold() else text


def words_for(document: bytes) -> str:
    """What somebody gave in place of a directory's metadata, for the words of the refusal."""
    beginning = document[:_BEGINNING].decode("utf-8", "replace").strip().lower()
    if not beginning:
        return "setup_metadata_missing"
    if "<!doctype html" in beginning or "<html" in beginning:
        return "setup_metadata_is_page"
    if beginning.startswith(("-----begin", "mii")):
        return "setup_metadata_is_certificate"
    if b"SPSSODescriptor" in document and b"IDPSSODescriptor" not in document:
        return "setup_metadata_of_application"
    if b"IDPSSODescriptor" in document:
        return "setup_metadata_lacks"
    return "setup_metadata_unreadable"

"""Drafts of a set-up link: what somebody has set up with the link. A draft has no effect until it is active, and then the link has no hold
on it any more.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import DomainId, OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.domains import Domain
from core.domain.tenancy.setup.setup_links import SetupLink, SetupPurpose
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen

MOST_DOMAINS: Final = 10
"""The limit of one link."""
IN_HAND: Final = "A set-up link that activates by itself has this in hand: revoke the link first, or wait until it is handed over"
NOT_HANDED_OVER: Final = "Whoever has the set-up link has not handed these settings over"


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
    """`subject` is what people call the draft by: the domain, the receiver's host, the name of the connection or of the directory."""

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
    return _event("setup_link.draft.waiting", link, draft, actor)


def setup_draft_activated(link: SetupLink, draft: SetupDraft, actor: Actor, digest: bytes) -> Event:
    """`digest` is that of the settings, as `seen_digest` has it."""
    return _event("setup_link.draft.activated", link, draft, actor, {"digest": digest.hex()})


def _event(name: str, link: SetupLink, draft: SetupDraft, actor: Actor, more: Mapping[str, Json] = NO_MORE) -> Event:
    details: dict[str, Json] = {
        "name": link.name,
        "prefix": link.prefix,
        "draft_id": str(draft.id),
        "purpose": draft.purpose.value,
        "subject": draft.subject,
        **more,
    }
    return Event(name, actor, Target("setup_link", str(link.id)), link.organization, details)

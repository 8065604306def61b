"""The store of set-up links, as digests, and of their drafts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId
from core.domain.tenancy.setup.setup_drafts import SetupDraft
from core.domain.tenancy.setup.setup_links import KnownSetupLink, SetupLink
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen


class ListedSetupLink(Frozen):
    link: SetupLink
    drafts: Sequence[SetupDraft]
    """Oldest first."""
    connections: Mapping[UpstreamProviderId, UpstreamProvider]
    """Those of the drafts."""


class UsedBy(Frozen, kw_only=True):
    """The browser that presses the button, and the name that somebody typed there."""

    digest: bytes
    name: str
    address: str | None
    user_agent: str | None


class SetupLinkStore(Protocol):
    """Outside a unit of work, `find`, `find_by_token`, `find_by_connection`, `drafts` and `seen` are one statement and one round trip each,
    `list` and `find_listed` three. The other methods need a unit of work in which the organization is locked: by `hold`, or as a member's
    rights are.
    """

    async def find(self, link: SetupLinkId) -> KnownSetupLink | None:
        """None when there is no such link, or its organization is gone."""

    async def find_by_token(self, digest: bytes) -> KnownSetupLink | None:
        """As `find`."""

    async def find_by_connection(self, provider: UpstreamProviderId, browser: bytes) -> SetupLinkId | None:
        """The link with which this browser sets the connection up. One statement outside a unit of work."""

    async def list(self, organization: OrganizationId) -> Sequence[ListedSetupLink]:
        """Newest first, ended links included."""

    async def find_listed(self, organization: OrganizationId, link: SetupLinkId) -> ListedSetupLink | None: ...

    async def drafts(self, link: SetupLinkId) -> Sequence[SetupDraft]:
        """Oldest first."""

    async def hold_organization(self, organization: OrganizationId) -> bool:
        """Locks the organization. False when it does not exist, or is not active."""

    async def hold(self, link: SetupLinkId) -> KnownSetupLink | None:
        """Locks the organization and then reads the link, so that neither the link nor what its maker may do changes meanwhile."""

    async def add(self, link: SetupLink, digest: bytes) -> int | None:
        """Returns how many links the organization had before. None when another link has this prefix."""

    async def own(self, link: SetupLinkId, browser: UsedBy, at: datetime) -> SetupLink | None:
        """None when a browser owns the link already: of two browsers, one gets it."""

    async def release(self, organization: OrganizationId, link: SetupLinkId) -> SetupLink | None:
        """No browser owns the link any more. None when none did, or there is no such link."""

    async def revoke(self, organization: OrganizationId, link: SetupLinkId, at: datetime) -> SetupLink | None:
        """None when there is no such link, or somebody has revoked it already."""

    async def finish(self, link: SetupLinkId, at: datetime) -> None: ...

    async def drop_drafts(self, link: SetupLinkId) -> None:
        """Deletes the drafts that are not active."""

    async def is_being_set_up(self, provider: UpstreamProviderId, now: datetime) -> bool:
        """Whether somebody can still change the provider with a set-up link, and has not handed it over."""

    async def will_activate(self, provider: UpstreamProviderId, now: datetime) -> bool:
        """As `is_being_set_up`, with a link that makes active what is handed over."""

    async def find_draft(self, organization: OrganizationId, draft: SetupDraftId) -> SetupDraft | None: ...

    async def credentials(self, draft: SetupDraftId) -> tuple[bytes | None, bytes | None]:
        """The sealed credentials of a receiver, and the digest of a directory's token."""

    async def save_draft(self, draft: SetupDraft, *, sealed: bytes | None = None, digest: bytes | None = None) -> None:
        """Adds the draft, or changes it. `sealed` and `digest` stay as they are when they are None. A draft that is active keeps
        neither.
        """

    async def remove_draft(self, draft: SetupDraftId) -> None: ...

    async def seen(self, digest: bytes, at: datetime) -> bool:
        """A directory has shown this token. Marks the first time, for a draft that is not active. False when no such draft has the
        token.
        """

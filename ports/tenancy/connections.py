"""Stores of enterprise connections: settings, refreshed metadata, setup links, and tests."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ConnectionTestId, OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.providers import Provider
from core.domain.identity.upstream.refreshes import ConnectionEnding, RefreshFault
from core.domain.tenancy.setup import KnownSetupLink, SetupDraft, SetupLink
from core.domain.tenancy.upstream_providers import OAuthCredentials, UpstreamProvider
from core.frozen import Frozen
from ports.tenancy.receivers import Owner


class UpstreamProviderStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the organization. Only PostgreSQL implements `UpstreamProviderStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[UpstreamProvider]:
        """All providers of the organization, oldest first."""

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, provider: UpstreamProvider, sealed_secret: bytes | None, sealed_key: bytes | None = None) -> bool:
        """`sealed_secret` is the client's, or a bind password, and `sealed_key` our private key at a SAML provider. False when the
        organization has a provider of this name.
        """

    async def hold(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
        """The provider stays as it is until the unit of work ends. None when the organization has no such provider."""

    async def save(self, provider: UpstreamProvider, sealed_secret: bytes | None) -> bool:
        """After `hold`. Without a secret, the old secret stays; a bind password goes if the provider has none any more. The sessions that
        the provider's assertions have opened end, unless it goes on to issue assertions. False when another provider of the organization
        has this name.
        """

    async def is_issuing(self, provider: UpstreamProvider) -> bool:
        """Whether another provider of the organization issues assertions with this one's issuer."""

    async def save_assertions(self, provider: UpstreamProvider) -> None:
        """After `hold`. Keeps the owner's decision about the provider's assertions. The sessions that these have opened end, unless the
        provider goes on to issue them.
        """

    async def succeeded_by(self, organization: OrganizationId, former: UpstreamProviderId) -> Sequence[Voucher] | None:
        """The providers that a former one succeeds. It may be deleted. None when the organization has no such provider, and nobody was
        vouched for by it.
        """

    async def succeed(self, provider: UpstreamProvider) -> None:
        """After `hold`. Keeps whose successor the provider is."""

    async def follow(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, now: datetime) -> None:
        """After `hold`. Keeps our next key pair at a directory, in place of the one that was the next before."""

    async def advance(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, sealed_former: bytes, now: datetime) -> None:
        """After `hold`. This key pair is the present one from now on, and there is no next one. `sealed_former` is the private key that was
        present, sealed for its new place.
        """

    async def drop_former(self, provider: UpstreamProviderId, now: datetime) -> None:
        """After `hold`. Deletes our former key pair."""

    async def is_named(self, provider: UpstreamProviderId) -> bool:
        """Whether a domain route names the provider. After `hold`, so that no route comes to name it meanwhile."""

    async def delete(self, provider: UpstreamProviderId) -> None:
        """Deletes the provider with the identities that people have there, and ends the sessions that its assertions have opened."""


class DueConnection(Frozen):
    provider: UpstreamProvider
    organization_slug: str
    is_active_organization: bool


class ConnectionsEnding(Frozen):
    """Connections of active organizations with which somebody has to do something."""

    ending: int
    """Their last certificate, or ours, ends within thirty days."""
    urgent: int
    """The same, within seven days."""
    waiting: int
    """A certificate waits for an owner."""
    failing: int
    """Their metadata could not be read for days."""


class ConnectionRefreshStore(Protocol):
    """Outside a unit of work, `claim_due` and `counted` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[DueConnection]:
        """Connections whose turn it is, the longest overdue first. No other process gets them before `until`."""

    async def counted(self, now: datetime, soon: datetime, failing_before: datetime, *, urgent: datetime) -> ConnectionsEnding: ...

    async def hold(self, provider: UpstreamProviderId) -> UpstreamProvider | None:
        """The provider stays as it is until the unit of work ends. None when it is gone."""

    async def read(self, provider: UpstreamProvider, at: datetime, next_turn: datetime) -> None:
        """After `hold`. Stores the certificates, and that the metadata were read."""

    async def decided(self, provider: UpstreamProvider) -> None:
        """After `hold`. Stores the certificates after an owner's decision."""

    async def failed(self, provider: UpstreamProviderId, fault: RefreshFault, at: datetime, next_turn: datetime) -> None: ...

    async def put_off(self, provider: UpstreamProviderId, next_turn: datetime) -> None: ...

    async def dated(self, provider: UpstreamProviderId, certificate: str, until: datetime) -> None:
        """Notes when our certificate ends, unless another one is in its place by now."""

    async def warned(self, provider: UpstreamProviderId, ending: ConnectionEnding, ends_at: datetime, days: int) -> bool:
        """Of several callers, one gets True for each end and number of days. A smaller number includes the larger."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class OAuthCredentialStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the organization. Only PostgreSQL implements `OAuthCredentialStore`.
    """

    async def find(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None: ...

    async def save(self, credentials: OAuthCredentials, sealed_secret: bytes) -> None:
        """Replaces the credentials that the organization had at the provider."""

    async def remove(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        """Returns the credentials that were removed."""


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


class TestStarters(Protocol):
    """One statement and one round trip."""

    async def may_go_on(self, test: ConnectionTestId) -> bool:
        """Whether the session, key or link that has started the test is still there, and whoever is behind it may still manage settings."""

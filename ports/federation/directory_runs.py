"""The stores of keeping in step with directories by LDAP: what is due, runs, and the people and groups whom a connection lists."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.federation.directory_runs.people import KnownPerson, MetAccount, PersonInDirectory, WhyLeftOut
from core.domain.federation.directory_runs.runs import DirectoryRun, DirectoryStep, NamedAs, RunPerson
from core.domain.identifiers import DirectoryRunId, MembershipId, OrganizationId, TeamId, UpstreamProviderId, UserId
from core.domain.identity.accounts import Account
from core.domain.requests import Page
from core.domain.tenancy.teams import Team
from core.frozen import Frozen
from ports.federation.scim import Capacity
from ports.tenancy.receivers import Owner


class EndedLately(Frozen):
    """How many people a connection lists, and how many of its people have ended since some time."""

    listed: int
    ended: int


class ListedPerson(Frozen, kw_only=True):
    """A person whom a connection lists, or has listed."""

    user: UserId
    email: str
    is_active: bool
    may_more: bool
    """They may do more than a member."""
    is_owner: bool


class ListedGroup(Frozen):
    external_id: bytes
    team: Team
    digest: bytes


class DirectoryRunStore(Protocol):
    """Outside a unit of work, `claim_due`, `list`, `find`, `people`, `open`, `next_at` and `owners` are one statement and one
    round trip. The others need a unit of work. `renew_step_lease` and `find_run_for_update` hold the organization, and then the row of the
    connection.
    """

    async def claim_due(self, at: datetime, until: datetime, holder: UUID, limit: int) -> Sequence[DirectoryStep]:
        """Takes what is due, until then. Of several that ask at once, one gets a connection."""

    async def list(self, organization: OrganizationId, connection: UpstreamProviderId, limit: int) -> Sequence[DirectoryRun]:
        """Newest first."""

    async def find(self, organization: OrganizationId, connection: UpstreamProviderId, run: DirectoryRunId) -> DirectoryRun | None: ...

    async def people(self, run: DirectoryRunId, what: NamedAs | None, page: Page | None) -> Sequence[RunPerson]:
        """Those who end come first, and those who come last. None for all."""

    async def open(self, run: DirectoryRunId, reason: WhyLeftOut) -> Sequence[RunPerson]:
        """Those whom the run has left out for this reason, about whom an owner may decide."""

    async def next_at(self, organization: OrganizationId, connection: UpstreamProviderId) -> datetime | None: ...

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...

    async def renew_step_lease(self, step: DirectoryStep, until: datetime) -> bool:
        """Holds the organization and goes on with the run until then. False when the run has been taken over, or nobody keeps in step any
        more: then nothing may be written.
        """

    async def begin(self, run: DirectoryRun) -> None:
        """A run that was under way before was interrupted. After `renew_step_lease`."""

    async def name(self, run: DirectoryRun, people: Sequence[RunPerson], after: int) -> None:
        """People who come by a plan, behind as many others. After `renew_step_lease`."""

    async def end(self, run: DirectoryRun, people: Sequence[RunPerson]) -> None:
        """Saves the run with whom it names. One that waits takes the place of the one that waited. After `renew_step_lease`."""

    async def save_step(self, claimed: DirectoryStep, step: DirectoryStep, next_at: datetime | None) -> None:
        """Saves how far the connection has come, and gives the lease back. What others have pressed since it was claimed stays. After
        `renew_step_lease`.
        """

    async def find_run_for_update(
        self, organization: OrganizationId, connection: UpstreamProviderId, run: DirectoryRunId
    ) -> DirectoryRun | None:
        """Holds the run, for an owner who decides about it."""

    async def decide(self, run: DirectoryRun, *, starts_at: datetime | None) -> None:
        """Saves the owner's word. A plan that an owner lets go on is agreed for its settings. `starts_at` is when the next run begins; None
        leaves that.
        """

    async def interrupt(self, run: DirectoryRunId, at: datetime) -> None:
        """A run that is still under way is none any more."""

    async def start(self, organization: OrganizationId, connection: UpstreamProviderId, holder: UUID, at: datetime) -> None:
        """The next run begins then, and reads everybody."""


class DirectoryPeopleStore(Protocol):
    """Outside a unit of work, `known`, `active`, `named`, `met`, `ended_lately`, `room`, `proved_domains`, `groups` and `users_of` are
    one statement and one round trip. The others need a unit of work that holds the connection's step.
    """

    async def known(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Mapping[bytes, KnownPerson]: ...

    async def active(self, connection: UpstreamProviderId) -> Sequence[bytes]:
        """The identities of all whom the connection lists as active."""

    async def named(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Mapping[bytes, ListedPerson]:
        """The people whom the connection lists by these identities."""

    async def met(
        self, organization: OrganizationId, connection: UpstreamProviderId, people: Sequence[PersonInDirectory]
    ) -> Mapping[bytes, MetAccount]:
        """The accounts that these identities, and otherwise these addresses, lead to."""

    async def ended_lately(self, connection: UpstreamProviderId, since: datetime) -> EndedLately: ...

    async def room(self, organization: OrganizationId) -> Capacity | None:
        """None when the organization is gone."""

    async def proved_domains(self, organization: OrganizationId) -> Collection[str]: ...

    async def groups(self, connection: UpstreamProviderId) -> Sequence[ListedGroup]:
        """The teams that the connection fills."""

    async def users_of(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Sequence[UserId]:
        """Those whom the connection lists as active."""

    async def lock_people(self, connection: UpstreamProviderId, people: Sequence[PersonInDirectory]) -> None:
        """Holds the accounts that these people have, or would get. After `renew_step_lease`."""

    async def add_accounts(self, organization: OrganizationId, accounts: Sequence[Account]) -> Collection[UserId]:
        """Those that were added. The others have lost against somebody who registered with the address at this moment."""

    async def enter(self, organization: OrganizationId, users: Mapping[UserId, MembershipId], at: datetime) -> None:
        """As `ProvisionedUserStore.enter`, for people who come by LDAP."""

    async def save_people(
        self, organization: OrganizationId, connection: UpstreamProviderId, people: Mapping[UserId, PersonInDirectory], at: datetime
    ) -> None:
        """They are listed as active."""

    async def take_over(self, organization: OrganizationId, connection: UpstreamProviderId, people: Mapping[UserId, bytes]) -> None:
        """The connection lists these people from now on, by these identities, and SCIM does not. The next run writes what the directory
        says of them.
        """

    async def keep(self, connection: UpstreamProviderId, users: Collection[UserId]) -> None:
        """The connection lists these people no more, as long as they are members."""

    async def release(self, connection: UpstreamProviderId) -> int:
        """The connection lists nobody any more, and begins anew with a plan. Returns how many it has listed. The caller holds the
        organization.
        """

    async def end_people(self, connection: UpstreamProviderId, users: Collection[UserId], at: datetime) -> None: ...

    async def team(self, connection: UpstreamProviderId, external_id: bytes) -> Team | None:
        """The team that the connection fills from this group, as it is now."""

    async def save_group(self, connection: UpstreamProviderId, external_id: bytes, team: TeamId, digest: bytes) -> None: ...

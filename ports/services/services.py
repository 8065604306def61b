"""Stores of applications: keys and secrets, roles and rights, claims, users, proxies, and resource servers."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.formats import Json
from core.domain.identifiers import (
    ApiKeyId,
    AssignmentId,
    ClientId,
    ClientSecretId,
    LogoId,
    ManagementKeyId,
    OrganizationId,
    PrivacyRequestId,
    ResourceServerId,
    ServiceClaimId,
    ServiceId,
    ServiceRoleId,
    UserId,
    UserKeyId,
)
from core.domain.identity.made_accounts import Elsewhere
from core.domain.mail import Email
from core.domain.requests import Listed, Page
from core.domain.services.api_keys import ApiKey, ClientSecret, KeyHolder, PlacedKey, PlacedSecret
from core.domain.services.proxies import KeptProxy, ProxySettings
from core.domain.services.resource_servers import (
    NamedServices,
    ResourceApproval,
    ResourceHost,
    ResourceServer,
)
from core.domain.services.rights import ExplainedRights, FoundSubjects, ServiceRights
from core.domain.services.service_claims import ConfiguredClaim
from core.domain.services.service_roles import Assignment, AssignmentPage, ServicePermission, ServiceRole, ToRole, ToTeam
from core.domain.services.service_users import EndUser, EndUserDetail, HeldServiceUser, ServiceAnalytics, ServiceUser, ServiceUserDetail
from core.domain.services.services import RegisteredService, Service, ServiceList, ServiceType, ServiceUsage
from core.domain.services.user_keys import (
    HeldUserKey,
    KnownUserKey,
    MadeUserKey,
    OwnedUserKey,
    PlacedUserKey,
    UserKey,
    UserKeyPage,
    UserKeyPlace,
    UserKeySettings,
)
from core.domain.tenancy.branding import Logo
from core.domain.tenancy.management_keys import KnownKey
from core.domain.tenancy.organizations import Metadata, Organization
from core.frozen import Frozen
from ports.tenancy.organizations import ProofStore


class ApiKeyLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of keys by many requests share one statement, so
    they stay apart from `ApiKeyStore`. Keys of services that are being deleted do not exist here.
    """

    async def find(self, digest: bytes) -> KnownKey[KeyHolder] | None:
        """Every request with a key asks here. None when there is no such key, or its service or organization is gone."""

    async def list(self, organization: OrganizationId, service_slug: str, limit: int, offset: int) -> Listed[ApiKey] | None:
        """Newest first, expired keys included. None when the organization has no such service."""

    async def find_by_id(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> ApiKey | None:
        """None when the organization has no such service, or the service no such key."""


class ApiKeyStore(Protocol):
    """All methods need a unit of work. Keys of services that are being deleted do not exist here."""

    async def add(self, key: ApiKey, digest: bytes) -> int | None:
        """Returns how many keys the service had before. None when another key has this prefix; then nothing is added. The service is held
        first.
        """

    async def delete(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> PlacedKey | None:
        """Returns the deleted key. None when the organization has no such service, or the service no such key: of two callers, one gets
        None.
        """

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedKey]:
        """Returns the deleted keys: all that this management key made. The organization is held."""

    async def revoke(self, prefix: str) -> PlacedKey | None:
        """As `delete`, for a caller who knows only the prefix of the key, in any organization."""


class AssignmentStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each, and so are `role` and `team`. The other methods
    need a unit of work in which the caller has already locked the organization, the person who is assigned, and the service.
    """

    async def list(
        self,
        organization: OrganizationId,
        service_slug: str,
        *,
        role_slug: str | None,
        user: UserId | None,
        after: AssignmentId | None,
        limit: int,
    ) -> AssignmentPage | None:
        """Oldest first; of one role, or of one person's own assignments, if they are given. None when the organization has no such
        service.
        """

    async def find(self, organization: OrganizationId, service_slug: str, assignment: AssignmentId) -> Assignment | None:
        """None when the organization has no such service, or the service no such assignment."""

    async def is_known(self, organization: OrganizationId, service: ServiceId, user: UserId) -> bool:
        """Whether the person is a member of the organization, or an end user of the service. The unit of work has locked the account, so
        the answer holds until it ends.
        """

    async def role(self, organization: OrganizationId, slug: str) -> ToRole | None:
        """The role of the organization with this slug, built in or its own. Within a unit of work, the role stays until it ends."""

    async def team(self, organization: OrganizationId, slug: str) -> ToTeam | None:
        """The organization's team with this slug. Within a unit of work, the team stays until it ends."""

    async def add(self, organization: OrganizationId, assignment: Assignment) -> bool:
        """False when the role is already assigned to whom the assignment names: of two callers, one gets False."""

    async def remove(self, service: ServiceId, assignment: AssignmentId) -> bool:
        """False when there is no such assignment: of two callers, one gets False."""

    async def end_access(self, service: ServiceId, user: UserId) -> None:
        """Ends the person's sessions in a service that asks for an assigned role, and the codes for such sessions, unless the person still
        holds such a role.
        """


class ClientSecretStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the service. Only PostgreSQL implements `ClientSecretStore`.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ClientSecret] | None:
        """Oldest first. None when the organization has no such service."""

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, secret: ClientSecret, digest: bytes) -> None: ...

    async def delete(self, service: ServiceId, secret: ClientSecretId) -> ClientSecret | None:
        """Returns the deleted secret. None when the service has no such secret: of two callers, one gets None."""

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedSecret]:
        """Returns the deleted secrets: all that this management key made. It holds their services; the organization is held before."""


class EndUserStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. `end_sessions` needs a unit of work. People who
    use none of the organization's services do not exist here.
    """

    async def list(self, organization: OrganizationId, page: Page, *, search: str, service: ServiceId | None) -> Listed[EndUser] | None:
        """People whose address contains `search` literally, the newest account first, in all services or in one. None when the organization
        has no such service.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> EndUserDetail | None: ...

    async def end_sessions(self, organization: OrganizationId, user: UserId, *, of_member: bool = False) -> int | None:
        """Ends the person's sessions in the organization's services, and approved codes that have no session yet, and no other sessions.
        The account is held. Returns how many sessions ended; None when the person uses none of the organization's services. `of_member`:
        also the sessions in the organization itself; None when the person is no member.
        """


class ServicePermissionStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServicePermission] | None:
        """By key. None when the organization has no such service."""

    async def count(self, service: ServiceId) -> int: ...

    async def unknown(self, service: ServiceId, keys: Collection[str]) -> Collection[str]:
        """Those of the keys that no permission of the service has."""

    async def find(self, service: ServiceId, key: str) -> ServicePermission | None: ...

    async def add(self, permission: ServicePermission) -> bool:
        """False when a permission of the service has this key, or once had it."""

    async def save(self, permission: ServicePermission) -> None:
        """Saves the description."""

    async def delete(self, permission: ServicePermission, at: datetime) -> None:
        """Takes the permission out of the service's roles, too. Its key is never used again."""


class ProxyStore(Protocol):
    """Outside a unit of work, `find` may be called, as one statement and one round trip. The other methods need a unit of work, in which
    the service is held.
    """

    async def find(self, organization: OrganizationId, service_slug: str) -> KeptProxy | None:
        """Of a service that never set anything, the usual settings. None when the organization has no such service."""

    async def rights(self, service: ServiceId) -> ServiceRights:
        """All roles and permissions of the application."""

    async def proved(self, organization: OrganizationId, hosts: Collection[str]) -> Collection[str]:
        """Those of the hosts that lie in a domain of this organization, and in no nearer one of another."""

    async def claim(self, service: ServiceId, host: str, approved_at: datetime | None) -> bool:
        """False when another application has the host. A claim of an organization that has lost the domain, or has had no more than an
        approval where this one has a proof, is no hindrance: it ends. Claiming again changes nothing.
        """

    async def release(self, service: ServiceId, but: Sequence[str]) -> None:
        """Let all other hosts go."""

    async def save(self, service: ServiceId, settings: ProxySettings, at: datetime) -> None: ...


class KeySets(Protocol):
    """A guarded HTTP client implements it."""

    async def fetch(self, url: str) -> Mapping[str, Json]:
        """The keys as the service publishes them now. Raises `BadRequest` for an answer that is no key set, and `OutboundFailed`."""

    async def renewed(self, url: str) -> Mapping[str, Json] | None:
        """The keys as the service published them some seconds ago at most. Callers at the same time, and in the seconds after, share one
        look and its result. None when the keys could not be read.
        """


class KeptKeys(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def keep(self, service: ServiceId, url: str, keys: Mapping[str, Json], at: datetime) -> None:
        """Stores the keys, if the service still publishes its keys at this address."""


class ExistingResourceServers(Frozen):
    """What a new resource server meets in its organization."""

    count: int
    has_identifier: bool
    token: str | None
    """The text by which the organization proves the host already, or would: one proof is enough."""
    is_proved: bool


class Given(Frozen):
    """`is_new`: no tokens were made for the resource server before."""

    server: ResourceServer
    is_new: bool


class ResourceServerStore(ProofStore[ResourceHost], Protocol):
    """Outside a unit of work, `list`, `find_own`, `approvals` and `claim_due` are one statement and one round trip
    each. The other methods need a unit of work; when a member acts, the caller has already locked the organization. Only PostgreSQL
    implements `ResourceServerStore`.

    `verify` of the proofs is not called: `prove` does more.
    """

    async def list(self, organization: OrganizationId) -> Sequence[ResourceServer]:
        """Oldest first."""

    async def find_own(self, organization: OrganizationId, server: ResourceServerId) -> ResourceServer | None: ...

    async def existing(self, organization: OrganizationId, identifier: str, host: str) -> ExistingResourceServers: ...

    async def services(self, organization: OrganizationId, slugs: Collection[str], stands: str | None) -> NamedServices:
        """Those of the services that exist, and the permissions of the one that stands for the API. They stay until the unit of work
        ends.
        """

    async def add(self, server: ResourceServer) -> bool:
        """False when the organization has the identifier: of two callers, one gets False. Named services are those in `save`."""

    async def save(self, server: ResourceServer) -> None:
        """Saves everything that an organization sets, with the services that it names."""

    async def remove(self, server: ResourceServerId) -> None:
        """Its identifier stays the organization's, so that no other organization ever gets it."""

    async def prove(self, server: ResourceServer, at: datetime, next_check_at: datetime) -> Given | None:
        """The organization has proved the host, so tokens are made for the identifier from now on; after another organization had it by an
        approval, from `SETTLES_AFTER` on. None when another organization has proved the host or has had the identifier by a proof, or when
        the resource server is gone. Of two organizations that prove a host, one gets it. Called after `claim`.
        """

    async def claim(self, server: ResourceServer) -> Sequence[ResourceServer]:
        """Nobody else proves or approves anything until the unit of work ends. Ends the approvals that other organizations have on the
        host, and returns their resource servers.
        """

    async def ask_approval(self, server: ResourceServerId, at: datetime) -> bool:
        """False when the resource server does not wait, or has asked already."""

    async def approvals(self, most: int) -> Sequence[ResourceApproval]:
        """Those that asked for an approval, longest first, of active organizations; then all that have one, the newest first."""

    async def find(self, server: ResourceServerId) -> ResourceServer | None:
        """Of any organization that is not being deleted. Nobody else proves or approves anything until the unit of work ends."""

    async def approve(self, server: ResourceServer, at: datetime) -> Given | None:
        """None when another organization has proved the host, or has had the identifier, or when the resource server does not wait.
        Called after `find`.
        """

    async def withdraw_approval(self, server: ResourceServerId, at: datetime) -> bool:
        """False when it has no approval."""


class RightsStore(Protocol):
    """Each question is one statement, and outside a unit of work one round trip."""

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        """The rights of somebody who signs in to this service of the organization, as they are now. Roles that are given to everybody are
        among them; whether the service admits the person is asked elsewhere.
        """

    async def explain(
        self, service: ServiceId, user: UserId, permissions: Collection[str] = ()
    ) -> tuple[ExplainedRights, Collection[str]] | None:
        """A user of the service with all that gives them rights, and those of the permissions that the service has. None when the service
        has no such user.
        """

    async def holders(self, service: ServiceId, permission: str, after: UserId | None, limit: int) -> FoundSubjects:
        """The users of the service who hold the permission there at this moment, among the next ones by their ids. An answer may have fewer
        than `limit` and still go on: each looks at a bounded number of users.
        """


class ServiceAnalyticsLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, service: ServiceId, since: datetime) -> ServiceAnalytics | None:
        """Sign-ins from `since` on. None when the service is gone."""


class ServiceClaimStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ConfiguredClaim] | None:
        """By name. None when the organization has no such service."""

    async def find(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None: ...

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, claim: ConfiguredClaim) -> bool:
        """False when the service has a claim of this name."""

    async def save(self, claim: ConfiguredClaim) -> bool:
        """Saves name, source, argument and places. False when the service has another claim of this name."""

    async def is_made_of(self, organization: OrganizationId, field: str) -> bool:
        """Whether a service of the organization makes a claim of the organization's field with this key. Needs a lock on the organization
        alone: nobody configures claims without it.
        """

    async def delete(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        """Returns the deleted claim. None when the service has no such claim: of two callers, one gets None."""


class ServiceRoleStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work in which
    the caller has already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServiceRole] | None:
        """By slug. None when the organization has no such service."""

    async def find(self, organization: OrganizationId, service_slug: str, slug: str) -> ServiceRole | None:
        """None when the organization has no such service, or the service no such role."""

    async def find_in_service(self, service: ServiceId, slug: str) -> ServiceRole | None: ...

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, role: ServiceRole) -> bool:
        """False when a role of the service has this slug, or once had it."""

    async def save(self, role: ServiceRole) -> None:
        """Saves name, description, permissions, and whether everybody has the role."""

    async def delete(self, role: ServiceRoleId) -> int:
        """Ends the role's assignments, too, and returns their number. Its slug is never used again."""


class ServiceUserStore(Protocol):
    """Outside a unit of work, `list` and `detail` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, service: ServiceId, limit: int, offset: int) -> Listed[ServiceUser]:
        """The users in the order in which they became users, with their exact number."""

    async def detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None: ...

    async def hold_detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None:
        """The person stays a user of the service, and nobody else changes what the service keeps, until the unit of work ends."""

    async def save_metadata(self, service: ServiceId, user: UserId, metadata: Metadata) -> None:
        """After `hold_detail`."""

    async def join(self, service: ServiceId, email: Email, at: datetime) -> tuple[ServiceUser, bool] | None:
        """Makes the account with this address a user of the service. The bool says whether the account was a user before. None when there
        is no such account, or the service is gone. Called near the end of the unit of work, because a new user is counted in the row of the
        service.
        """

    async def hold(self, service: ServiceId, user: UserId) -> HeldServiceUser | None:
        """Nobody else changes the account, and nothing new refers to it, until the unit of work ends. Comes first in its unit of work."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> None:
        """The new address is unverified. Raises `BadRequest` when somebody has the address; the caller must then leave the unit of work.
        After `hold`.
        """

    async def hold_organizations(self, user: UserId, maker: OrganizationId, *, also: OrganizationId | None) -> frozenset[OrganizationId]:
        """If this organization has made the account, locks the organizations in which the person is a member. `also` is one that the caller
        locks in any case. Comes before `hold`.
        """

    async def elsewhere(self, user: UserId, maker: OrganizationId) -> Elsewhere:
        """What other organizations than the maker have of the person. After `hold`."""

    async def delete_account(self, user: UserId, request: PrivacyRequestId, at: datetime) -> None:
        """Deletes the account with everything that belongs to it, its sign-ins, and what the audit log knows of the person. The job of this
        request removes the rest. After `hold`.
        """

    async def leave(self, service: ServiceId, organization: OrganizationId, user: UserId) -> None:
        """Removes everything that the service has about its user. The account stays, and the service can no longer change the account.
        After `hold`.
        """


class KeptMetadata(Frozen):
    """The metadata of a service, and of its organization."""

    of_service: Metadata
    of_organization: Metadata


class ServiceStore(Protocol):
    """Outside a unit of work, `list`, `find` and `metadata` are one statement and one round trip each. The other methods need a unit of
    work. Services that are being deleted do not exist here.
    """

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        """Oldest first; all services unless a limit is given. None when the organization is being deleted."""

    async def find(self, organization: OrganizationId, slug: str) -> Service | None:
        """With its metadata."""

    async def metadata(self, service: ServiceId) -> KeptMetadata | None:
        """None when there is no such service."""

    async def add(self, service: Service) -> bool:
        """False when the organization has a service with this slug: of two callers, one gets False. The organization is held before."""

    async def usage(self, organization: OrganizationId) -> tuple[Organization, ServiceUsage]:
        """How many services the organization has and may have. Called after the organization is held."""

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        """One change to the service, or to the number of its plans, keys or secrets, at a time. It stays as it is until the unit of work
        ends. Comes with its metadata. None when there is no such service.
        """

    async def save(self, service: Service) -> None:
        """Saves everything but id, organization, slug, client id and creation. Metadata that are None stay as they are. After `hold`."""

    async def replace_logo(self, service: Service, logo: Logo | None, id: LogoId) -> None:  # noqa: A002 - the noun's own word
        """Keeps the picture that the service names, and says when it changed. With None, removes the logo. After `hold`."""

    async def keep_client_id(self, service: ServiceId, kept: ClientId | None) -> ClientId | None:
        """The client id that counts from now on: `kept`, or the service's own one. None when another service has it, and then the unit of
        work is over. After `hold`.
        """

    async def end_requests(self, service: ServiceId) -> None:
        """Ends the codes that nobody has redeemed, and the pushed requests: they began under another profile."""

    async def delete(self, service: ServiceId, at: datetime) -> None:
        """The service is gone from every answer with the commit. Its rows are removed in batches. After `hold`."""


class ServiceRegister(Protocol):
    """The services of all organizations, outside any unit of work. Services and organizations that are being deleted do not exist here."""

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """Newest first. The total is counted up to `MOST_COUNTED`."""

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None: ...


class UserKeyLookup(Protocol):
    """One statement and one round trip, outside any unit of work. Look-ups by many requests share one statement."""

    async def find(self, api_key: bytes, user_key: bytes) -> tuple[KnownKey[KeyHolder], KnownUserKey | None] | None:
        """By their digests, the API key of an application's server, and a key of the application's users. None when there is no such API
        key. The user key is None when the application has no such key.
        """


class UserKeyStore(Protocol):
    """Outside a unit of work, `list`, `list_of`, `held_by`, `made_with`, `find`, `settings`, `service`, `place` and `place_at` are one
    statement and one round trip each. The other methods need a unit of work. Keys of services that are being deleted do not exist here.
    """

    async def settings(self, organization: OrganizationId, service_slug: str) -> UserKeySettings | None:
        """None when the organization has no such service."""

    async def standing_for(self, service: ServiceId, identifier: str) -> ResourceServerId | None:
        """The API with this identifier that the service stands for. The API is held until the unit of work ends."""

    async def save_settings(self, service: ServiceId, settings: UserKeySettings, at: datetime) -> None:
        """The service is held."""

    async def place(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        """None when the service is gone."""

    async def place_at(self, organization_slug: str, service_slug: str, user: UserId) -> UserKeyPlace | None:
        """The same by the names of the service. None when there is no such service of an active organization."""

    async def hold_place(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        """As `place`. The account is held. Nobody else makes a key for the person there until the unit of work ends, and the person stays
        a user.
        """

    async def hold_maker(self, key: ApiKeyId) -> bool:
        """The API key that makes a key stays until the unit of work ends. False when it has gone since the request came in. Comes before
        `hold_place`.
        """

    async def add(self, key: UserKey, digest: bytes) -> int | None:
        """Returns how many keys the person had before that have not expired. None when another key has this prefix; then nothing is
        added. The place is held.
        """

    async def list(self, service: ServiceId, user: UserId | None, after: UserKeyId | None, limit: int) -> UserKeyPage:
        """Newest first, expired keys included. Of all users, or of one."""

    async def list_of(self, organization: OrganizationId, service_slug: str, after: UserKeyId | None, limit: int) -> UserKeyPage | None:
        """The same for a member of the organization. None when it has no such service."""

    async def find(self, service: ServiceId, key: UserKeyId) -> OwnedUserKey | None: ...

    async def delete(self, service: ServiceId, key: UserKeyId, user: UserId | None = None) -> UserKey | None:
        """Returns the deleted key: the service's, and this person's if one is named. Of two callers, one gets None."""

    async def held_by(self, user: UserId, at: datetime) -> Sequence[HeldUserKey]:
        """The person's keys at all services, the newest first, without those that have expired."""

    async def made_with(self, service: ServiceId, key: ApiKeyId) -> Sequence[MadeUserKey]:
        """What the service's API key has made that lasts: the newest, at most `MOST_LISTED`."""

    async def end_made(self, service: ServiceId, key: ApiKeyId) -> Sequence[UserKey]:
        """Ends all that the service's API key has made, and returns it."""

    async def delete_held(self, user: UserId, key: UserKeyId) -> PlacedUserKey | None:
        """As `delete`, at whatever service the person has the key."""

    async def end_held(
        self, user: UserId, at: datetime, *, but: Collection[UserKeyId] | None, organization: OrganizationId | None = None
    ) -> Sequence[PlacedUserKey]:
        """Ends the person's keys at all services, or at those of one organization, except for these and for expired ones, and returns them.
        None: those that applications made for the person stay. The account is held, so that nobody makes a key meanwhile.
        """

    async def remove_all(self, user: UserId) -> None:
        """End the person's keys at all services. The account is held."""

    async def service(self, organization: OrganizationId, service_slug: str) -> ServiceId | None: ...

"""Stores and look-ups of OAuth: clients, requests, codes (as digests), consents, and the sessions and logouts of applications."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from core.domain.federation.authorization_refusals import (
    AuthorizationRefusal,
    AwaitedPage,
    AwaitedSignIn,
    DocumentRefusal,
    ListedRefusal,
    NewAwaitedSignIn,
)
from core.domain.federation.backchannel_requests import NewBackchannelRequest, OwnRequests, PolledRequest, WaitingRequest
from core.domain.federation.logouts import LogoutNotice
from core.domain.federation.oauth.authorization_codes import Claim, Contended, EarlierUse, Issue, NewCode, Opening, Redeemed, Untargeted
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import LookedAfter
from core.domain.federation.oauth.client_documents import DocumentService, DocumentTarget, KeptDocument
from core.domain.federation.oauth.clients import ClientCredentials, RegisteredClient, UsedAssertion
from core.domain.federation.oauth.consents import AgentGrant, AgentReach, ApplicationAccess, Consent, ConsentedService, UnplacedClient
from core.domain.federation.oauth.device_flow import AskedFor, AskingClient, DeviceApproval, EnteredCode, NewDeviceCode, Poll
from core.domain.federation.oauth.exchanges import Exchangeable, SubjectToken, TokenExchange
from core.domain.federation.oauth.given_sessions import ApiSnapshot, GivenSession, LivingAudience, LivingSession
from core.domain.federation.oauth.resources import OfferedResource
from core.domain.federation.open_registrations import RegistrationKey
from core.domain.federation.proxy_checks import FoundProxy, ProxiedRequest
from core.domain.federation.token_preview import PreviewedPerson
from core.domain.formats import Json
from core.domain.identifiers import (
    AgentGrantId,
    BackchannelRequestId,
    ClientId,
    ConsentId,
    DeviceCodeId,
    OrganizationId,
    PushedRequestId,
    ResourceServerId,
    ServiceId,
    SessionId,
    UserId,
)
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.outbound import Provenance
from core.domain.requests import Listed, Page
from core.domain.services.services import Service
from core.domain.tokens import TokenAlgorithm, TokenAudience
from core.frozen import Frozen
from ports.outbound import OutboundAnswer
from ports.record import ClaimedReceiver


class BackchannelRequestStore(Protocol):
    """Outside a unit of work, `poll`, `list_own`, `find_waiting` and `find_to_tell` are one statement and one
    round trip each. The other methods need a unit of work; `allow`, `refuse`, `consume`, `block` and `unblock` one in which the caller has
    already locked the account of the person. Only PostgreSQL implements `BackchannelRequestStore`.

    A request waits for its person while it has not expired, nobody has decided about it, its organization lets applications ask, the person
    is an own member of it, and has not blocked the application.
    """

    async def add(self, new: NewBackchannelRequest) -> bool:
        """Adds the request for the person whom its hint names, if this is an own member who may be asked, and for nobody otherwise: always
        one row, by one statement. False when the organization does not let its applications ask.
        """

    async def poll(self, digest: bytes, service: ServiceId, at: datetime) -> PolledRequest | None:
        """The request of this service. A poll of a pending one is recorded. If the poll came too soon, all further polls have to wait
        longer.
        """

    async def list_own(self, user: UserId) -> OwnRequests:
        """Those that wait for this person, and the applications that the person has blocked."""

    async def find_waiting(self, user: UserId, request: BackchannelRequestId) -> WaitingRequest | None: ...

    async def find_to_tell(self, request: BackchannelRequestId) -> WaitingRequest | None:
        """The request, if it waits for anybody."""

    async def allow(
        self, request: BackchannelRequestId, user: UserId, session: SessionId, granted: Sequence[TokenAudience], at: datetime
    ) -> bool:
        """The person says yes, in this session. Of several callers at once, one gets True. False when the request waits no more, or the
        session has ended.
        """

    async def refuse(self, request: BackchannelRequestId, user: UserId, at: datetime) -> bool:
        """False when the request waits no more."""

    async def consume(self, request: BackchannelRequestId, at: datetime) -> bool:
        """Of many callers at once, one gets True, and only while everything stands that the yes rests on."""

    async def block(self, user: UserId, service: ServiceId, at: datetime) -> bool:
        """Refuses all requests of the service that wait for the person. False when the person has blocked it before."""

    async def unblock(self, user: UserId, service: ServiceId) -> bool:
        """False when the person has not blocked it."""


class AuthorizationCodeStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, code: NewCode, registered: Sequence[str], *, by_trust: bool) -> Issue:
        """Stores the code, and uses up the pushed request that it answers: of many callers at once, one gets `ISSUED`. The caller has
        already locked the account. `REFUSED` when the account or the service has ended, or when the service has registered other redirect
        URIs. `REFUSED` also when nothing permits the code any more: the consent of the person or, `by_trust`, their own membership of an
        organization that trusts the service. Whoever does not get `ISSUED` must not commit.
        """


Redemption = Redeemed | EarlierUse | Untargeted | Contended | None
"""The result of a claim. Of many callers, one gets `Redeemed`. `EarlierUse` is for a code that was redeemed before, by any claim. None is
for every other code that does not open.
"""


class CodeRedemption(Protocol):
    """Exchanges a code for a session outside any unit of work, in one statement and one round trip. The session comes with its refresh
    token and its records. The claim must be good, the code not expired and its browser session alive, and the service must let the person
    in. PostgreSQL implements it, and so does a test of the use case, for races that two real requests cannot be made to lose.
    """

    async def redeem(self, claim: Claim, client: RegisteredClient, opening: Opening, at: datetime) -> Redemption:
        """For a client that has been authenticated."""

    async def redeem_with_secret(
        self, claim: Claim, client: ClientId, secret_digest: bytes | None, opening: Opening, at: datetime
    ) -> tuple[RegisteredClient, Redemption] | None:
        """For a client that shows a secret: the same statement looks the client up, as `ClientLookup.find` does. Redeems nothing unless the
        secret is one of the client's and its organization is active. None when there is no such client.
        """


class AuthorizationRefusalStore(Protocol):
    """Outside any unit of work."""

    async def add(self, refusals: Sequence[AuthorizationRefusal | DocumentRefusal]) -> None:
        """Adds the refusals of clients that exist, in parts. The oldest of each service and API go when there are too many. A refused code
        is looked up, to say why it was refused.
        """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ListedRefusal] | None:
        """Newest first, with the failed SAML messages. None when the organization has no such service."""

    async def list_of_api(self, organization: OrganizationId, api: ResourceServerId) -> Sequence[DocumentRefusal] | None:
        """Newest first. None when the organization has no such API."""

    async def find_looked_after(self, client: ClientId, user: UserId) -> LookedAfter | None:
        """The service with this client id. None when the person may not read its refusals, or there is no such service."""


class AwaitedSignInStore(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Looks of many pages share theirs."""

    async def begin(self, new: NewAwaitedSignIn) -> bool:
        """Lets the person wait on this page, and on no other one any more. False when the organization has no such service, or the session
        is gone.
        """

    async def look(self, page: AwaitedPage) -> AwaitedSignIn | None:
        """What there is to see. None when the person waits on another page by now, in another session, or nowhere."""


class AuthorizationContext(Frozen):
    application: RequestingApplication
    signed_in: SignedInPerson | None
    """The caller, as the application will know them."""
    pushed: Mapping[str, Any] | None = None
    """The pushed request that this look-up was for."""


class AuthorizationContexts(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Services that are being deleted, and their organizations,
    do not exist here.
    """

    async def find(self, client: ClientId, caller: Caller | None) -> AuthorizationContext | None:
        """None when no service has this client id."""

    async def find_in_session(self, client: ClientId, session: SessionId, user: UserId, email: str) -> AuthorizationContext | None:
        """As `find`, with the person of this session. Whether the session lives is seen when a code is issued and redeemed."""

    async def find_named(self, organization: str, service: str) -> AuthorizationContext | None:
        """By the slugs of organization and service."""

    async def find_unplaced(self, client: UnplacedClient, caller: Caller | None) -> AuthorizationContext | None:
        """As `find`, for a client that nobody has placed yet, as if it had its service. None when its organization is gone."""

    async def find_pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> AuthorizationContext | None:
        """As `find`, with the request that this client has pushed, if it has not expired and no code was issued for it."""


class PushedRequestStore(Protocol):
    async def add(
        self,
        id: PushedRequestId,  # noqa: A002 - the noun's own word
        digest: bytes,
        service: ServiceId | None,
        request: Mapping[str, Json],
        expires_at: datetime,
    ) -> None:
        """One statement and one round trip, outside any unit of work. A client that nobody has placed yet has no service."""


Result = TypeVar("Result")


class DocumentSource(Protocol):
    """A guarded HTTP client implements it."""

    async def fetch(self, address: str) -> OutboundAnswer:
        """What the address answers. Raises `OutboundFailed`."""


class SharedFetches(Protocol):
    """Work in this process, of which there is one at a time for one key."""

    async def join(self, key: str, work: Callable[[], Awaitable[Result]], organization: str, *, is_known: bool) -> Result:
        """Does the work, or waits for the same work that somebody else does and shares its result. Raises `Overloaded` when too much is
        under way, in all or for this organization. Some of the room is for work on what is known.
        """


class NewDocuments(Protocol):
    """Documents that this process has read lately, of clients that have a place nowhere. It holds some, and may lose them at any time."""

    def find(self, address: str) -> KeptDocument | None: ...

    def keep(self, kept: KeptDocument) -> None: ...


class DocumentLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        """The active APIs with these identifiers, in active organizations. Those on the developer's own machine do not exist here: their
        identifiers name no organization.
        """

    async def kept(self, address: str) -> KeptDocument | None: ...

    async def keep(self, kept: KeptDocument) -> None:
        """Keeps the document, unless a later one is kept."""

    async def service(self, client: ClientId) -> DocumentService | None:
        """The service of a placed client id."""

    async def holder(self, address: str, digest: bytes) -> ClientId | None:
        """The placed client id of the metadata client that a code or a refresh token with this digest was given to. None if there is none,
        or it is another client's.
        """

    async def pushed(self, address: str, digest: bytes) -> Mapping[str, Any] | None:
        """The pushed request with this digest, if it is the metadata client's and has not expired."""


class DocumentServiceStore(Protocol):
    """For one unit of work, which ends at once."""

    async def lock_organization(self, organization: OrganizationId) -> bool:
        """Locks the organization. False when it is not active."""

    async def count(self, organization: OrganizationId) -> int:
        """How many metadata clients the organization has."""

    async def unused(self, organization: OrganizationId, before: datetime) -> str | None:
        """The slug of the metadata client that was not described anew for the longest time, before this moment, that no person allows
        anything, that has neither sessions nor codes, and about which no owner has decided anything.
        """

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        """As `DocumentLookup.targets`."""

    async def find(self, client: ClientId) -> ServiceId | None:
        """The service of a placed client id."""

    async def add(self, service: Service, digest: bytes) -> None:
        """The caller holds the organization, and the organization has no such client."""

    async def keep(self, kept: KeptDocument) -> None:
        """As `DocumentLookup.keep`."""

    async def describe(self, service: Service, digest: bytes) -> bool:
        """Stores what a document says: name, addresses, keys. False when the service says the same already."""


class ClientOriginLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def includes(self, origin: str) -> bool:
        """Whether a public web client of an active organization has a redirect URI of this origin."""


class ClientLookup(Protocol):
    """Look-ups of many requests share one statement and one round trip, outside any unit of work."""

    async def find(self, client: ClientId, secret_digest: bytes | None) -> RegisteredClient | None:
        """The client, and whether it has this secret. None when there is no such service, or the service or its organization is being
        deleted.
        """


class UsedAssertions(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def use(self, client: RegisteredClient, assertion: UsedAssertion) -> bool:
        """False when the assertion has been used before: of two callers, one gets True. False also when the client is gone or closed by
        now, or has other keys, or another address for them. A client that nobody has placed yet has no service to look at.
        """


class ClientAssertions(Protocol):
    """Reads assertions: JSON Web Tokens under a client's own keys. A library implements it."""

    def claimed_client(self, assertion: str) -> str:
        """The client that the assertion names, before anything is verified. Raises `Unauthorized`."""

    def verify(self, assertion: str, keys: Mapping[str, Json], algorithms: Mapping[str, Sequence[str]]) -> Mapping[str, Json]:
        """The claims, verified under one of these keys with one of the algorithms for its kind of key. Raises `Unauthorized`."""


class ConsentStore(Protocol):
    """Outside a unit of work, `list`, `list_grants` and `find_grant` are one statement and one round trip each. The other methods need a
    unit of work in which the caller has already locked the account, so that nobody withdraws a consent of the person meanwhile. Only
    PostgreSQL implements `ConsentStore`.
    """

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        """The applications that can act for this person, by the names of their organizations and their own."""

    async def list_grants(
        self, organization: OrganizationId, reach: AgentReach, before: AgentGrantId | None, limit: int
    ) -> Sequence[AgentGrant]:
        """What people let the organization's agents do at this moment, the newest first, from before this one on."""

    async def find_grant(self, organization: OrganizationId, grant: AgentGrantId) -> AgentGrant | None: ...

    async def give(self, id: ConsentId, consent: Consent) -> ConsentedService | None:  # noqa: A002 - the noun's own word
        """Adds scopes to what the person has allowed the service before. Returns the service; None when the service is
        being deleted. Nothing is kept when the account has ended.
        """

    async def revoke(self, user: UserId, service: ServiceId) -> ApplicationAccess | None:
        """Withdraws the consent, and ends the service's sessions for this person and the codes that the service has not redeemed. Returns
        the access that there was; None when there was none.
        """

    async def revoke_resource(self, user: UserId, service: ServiceId, resource: ResourceServerId) -> ApplicationAccess | None:
        """Withdraws what the person has allowed at one API, and ends the sessions and codes that were granted it. Returns the access that
        there was; None when there was none at all.
        """

    async def revoke_all(self, user: UserId) -> None:
        """Withdraws all consents of the person, and ends the sessions that rest on them. The caller has ended the codes."""

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. The caller ends its sessions."""


class DeviceCodeStore(Protocol):
    """Outside a unit of work, `ask`, `poll`, `find_entered` and `find` are one statement and one round trip each. The other methods need a
    unit of work in which the caller has already locked the account of the person. Only PostgreSQL implements `DeviceCodeStore`.
    """

    async def ask(self, code: NewDeviceCode, client: AskingClient) -> AskedFor | None:
        """Adds the code, if the client's organization is active and no pending code has the same user code. None when there is no such
        client.
        """

    async def poll(self, digest: bytes, shown: ClientCredentials | None, at: datetime) -> Poll | None:
        """The client that polls, and its device code. A poll of a pending code is recorded. If the poll came too soon, all further polls
        have to wait longer. With `shown` None, the device code alone tells the client. None when there is no such client, or no such code
        to tell the client by.
        """

    async def find_entered(self, user_code_hmac: bytes) -> EnteredCode | None:
        """The code that shows this user code and that nobody has decided about."""

    async def find(self, code: DeviceCodeId) -> EnteredCode | None:
        """The code, in any state."""

    async def approve(self, code: DeviceCodeId, user: UserId, session: SessionId, at: datetime) -> bool:
        """Approves the code with what the session has proved. Of two callers at once, one gets True. False when the code is no longer
        pending, or the session has ended. It is the person's newest answer to the application: what they refused before and approve now is
        no longer refused.
        """

    async def deny(self, code: DeviceCodeId, user: UserId, at: datetime) -> bool:
        """False when the code is no longer pending."""

    async def consume(self, code: DeviceCodeId, at: datetime) -> DeviceApproval | None:
        """Of many callers at once, one gets the approval."""


class ExchangeStore(Protocol):
    """Outside a unit of work, `find` and `add` are one statement and one round trip each. Only PostgreSQL implements it."""

    async def find(self, subject: SubjectToken, service: ServiceId, resource: str) -> Exchangeable | None:
        """The subject as it is now, and the API of this name. None when the session or an API on the way to it has ended, when its
        application no longer admits the person, or when the token is not the service's to exchange.
        """

    async def add(self, exchange: TokenExchange) -> bool:
        """Opens the session, as a child of the subject's, without a refresh token. False when the subject's has ended: whoever ends the
        person's sessions either waits and finds the new one, or was first.
        """


class GivenSessionLookup(Protocol):
    """Look-ups of many requests share one statement and one round trip, outside any unit of work."""

    async def find(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId
    ) -> tuple[RegisteredClient, LivingSession | None] | None:
        """The client, as `ClientLookup.find` finds it, and this person's session, if the session is alive at this moment and is in a
        service.
        """

    async def find_at_resource(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> tuple[RegisteredClient, LivingAudience | None] | None:
        """As `find`, for a session's token for an API."""

    async def find_exchanged(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> tuple[RegisteredClient, LivingAudience | None] | None:
        """As `find_at_resource`, for the token of a session that an exchange opened. The session of the person's own application below it
        must be alive, too, and everything on the way.
        """

    async def find_api(self, resource: ResourceServerId, holder: ServiceId) -> ApiSnapshot | None:
        """None unless the API is open to the application that holds the token."""

    async def find_by_refresh_token(self, digest: bytes) -> GivenSession | None:
        """None when no application was given a session with such a refresh token."""


class ClaimedService(ClaimedReceiver, kw_only=True):
    client: ClientId
    algorithm: TokenAlgorithm


class LogoutNoticeLookup(Protocol):
    """Outside any unit of work."""

    async def list(self, organization: OrganizationId, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice] | None:
        """Newest first. The total is counted up to `MOST_COUNTED`. None when the organization has no such service."""


class KnownRegistrationKeys(Protocol):
    """The installation's keys as this process knows them. It is a cache."""

    async def all(self) -> Sequence[RegistrationKey]:
        """All keys, the oldest first. The first call of an installation makes one. Raises `Unavailable` when none have ever been read."""

    async def find(self) -> Sequence[RegistrationKey]:
        """As the database has them at this moment. Makes none."""


class RegistrationKeyStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, key: str, sealed_secret: bytes, at: datetime) -> None: ...

    async def delete(self, keys: Sequence[str]) -> None: ...


class ProxyLookup(Protocol):
    """One statement and one round trip, outside any unit of work. Look-ups by many requests share one statement."""

    async def find(self, request: ProxiedRequest) -> FoundProxy | None:
        """The application by the proxy's secret, and who comes by the cookie or the key. A session that has ended is none. None when there
        is no such secret of an application behind a proxy.
        """

    async def client_at(self, host: str) -> ClientId | None:
        """The application of the host. Another statement, for requests that are refused."""


class ProxyAssertions(Protocol):
    async def signed(self, claims: Mapping[str, Json], now: datetime) -> str:
        """ES256, under the current access key; its type is `proxy+jwt`. The same claims get the same assertion for some seconds."""


class ResourceLookup(Protocol):
    async def find(self, service: ServiceId, identifiers: Sequence[str], user: UserId | None) -> Sequence[OfferedResource]:
        """The APIs with these identifiers that are active, belong to the organization of the service, and admit it. Other APIs do not exist
        here. With a user, each API says which of its scopes the user may have, and which the user has allowed the service. One statement
        and one round trip, outside any unit of work.
        """

    async def find_for(self, client: UnplacedClient, user: UserId | None) -> Sequence[OfferedResource]:
        """The same for a client that nobody has placed yet, and the APIs that its request names: those that let its document in."""


class PreviewLookup(Protocol):
    """Each question is one round trip, outside any unit of work."""

    async def find(self, organization: OrganizationId, service_slug: str, user: UserId) -> PreviewedPerson | None:
        """None when there is no such service, or the person is neither a member of the organization nor a user of the service."""

    async def find_all(self, organization: OrganizationId, user: UserId, limit: int) -> Sequence[PreviewedPerson]:
        """The same for each service that the person may have to do with, by the names of the services."""

    async def find_named(self, organization_slug: str, service_slug: str, email: Email) -> PreviewedPerson | None:
        """For operators, who know names alone."""

    async def find_tied(self, organization: OrganizationId, email: Email) -> UserId | None:
        """The member or user with this address. None for every other address: the work is the same, whether an account has it or not."""

    async def hook_refused_at(self, organization: OrganizationId, user: UserId) -> datetime | None:
        """When the organization's hook has last refused a session of this person that is still open, as it counts today. None where it has
        not, or does not hear of the person.
        """

    async def find_admitted(
        self, organization: OrganizationId, service_slug: str, after: UserId | None, limit: int
    ) -> Sequence[PreviewedPerson] | None:
        """The members and users whom the service admits, by their ids, from after this one on. None when there is no such service. It may
        read all members: the caller takes turns.
        """

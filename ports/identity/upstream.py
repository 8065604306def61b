"""What a sign-in at a provider needs: its protocol, and the stores of identities, connections, provider tokens and answers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import FlowId, IdentityGrantId, IdentityId, OrganizationId, ServiceId, SessionId, UpstreamProviderId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.claims import AddedWay, Asserted, Voucher
from core.domain.identity.upstream.connection_tests import ConnectionExchange, ConnectionTest, Examination, NewConnectionTest
from core.domain.identity.upstream.directories import AskedDirectory, AskedPassword, ConnectedDirectory, NewAnswer
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.domain.identity.upstream.further import FurtherProvider, ProviderPreset
from core.domain.identity.upstream.further_sign_ins import PostedAnswer, WaitingNewcomer
from core.domain.identity.upstream.identities import Asker, ConnectedIdentity, IdentityGrant, MatchingAccounts
from core.domain.identity.upstream.identity_assertions import AssertionUse, IssuingConnection, UsedIdentityAssertion
from core.domain.identity.upstream.jwt_assertions import SignedToken, TrustedKeys
from core.domain.identity.upstream.ldap.answers import LdapAnswer, LdapEntry, LdapSite
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson, LdapSurvey
from core.domain.identity.upstream.providers import ClientAtProvider, FurtherSettings, OfferedFurther, OwnProviders, ProviderSite, Upstream
from core.domain.identity.upstream.saml.assertions import (
    DirectoryCertificate,
    DirectoryMetadata,
    Expected,
    OurAuthnRequest,
    ServiceProviderMetadata,
)
from core.domain.identity.upstream.sign_in import NewState, ProviderRequest, ReceivedTokens, ServicePlace, TakenState, UsedState, WayThrough
from core.domain.mail import Email
from core.domain.saml import KeyPair
from core.domain.secrets import Secret, Token
from core.domain.tenancy.branding import Logo
from core.frozen import Frozen
from ports.saml import LogoutDocuments


class ConnectionLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def directory(self, provider: UpstreamProviderId) -> ConnectedDirectory | None: ...

    async def asked(self, provider: UpstreamProviderId, state_digest: bytes) -> AskedDirectory | None:
        """The provider, and what is known of this state. None when there is no such provider."""

    async def asked_password(self, provider: UpstreamProviderId, state_digest: bytes, browser: bytes) -> AskedPassword | None:
        """A directory by LDAP, and what is known of this state in this browser. None when there is no such directory."""

    async def proved_domains(self, organization: OrganizationId) -> frozenset[str]:
        """The mail domains that the organization has proved."""

    async def keep(self, answer: NewAnswer) -> bool:
        """False when the assertion has come before: nothing is stored then."""

    async def redeem(self, provider: UpstreamProviderId, code_digest: bytes) -> tuple[bytes, str] | None:
        """The sealed answer that waits for this code, once, with the context that it is sealed for."""

    async def exchanges(self, organization: OrganizationId, provider: UpstreamProviderId) -> Sequence[ConnectionExchange] | None:
        """Newest first. None when the organization has no such provider."""

    async def test(self, digest: bytes) -> ConnectionTest | None:
        """The test with this state, until it expires."""

    async def begin_test(self, digest: bytes, browser: bytes, now: datetime) -> ConnectionTest | None:
        """Gives the test to the browser that opens it first. None when another browser has it, or when it is over."""


class ConnectionExchangeStore(Protocol):
    async def add(self, exchanges: Sequence[ConnectionExchange]) -> None:
        """Adds exchanges, and drops the oldest of each provider when there are too many. Those that are counted are added to the entry that
        counts them; a call has at most one for each such entry.
        """


class ConnectionRecorder(Protocol):
    """An actor implements it."""

    def record(self, exchange: ConnectionExchange) -> None:
        """Never waits and never fails."""


class ConnectionTestStore(Protocol):
    """In a unit of work."""

    async def add(self, test: NewConnectionTest) -> None:
        """The former tests of the provider that nobody has finished end."""

    async def finish(self, digest: bytes, *, succeeded: bool, sealed_result: bytes, now: datetime, expires_at: datetime) -> bool:
        """False when the test is over, or has a result already."""


class DirectorySessionStore(Protocol):
    """In a unit of work."""

    async def keep(self, session: SessionId, visit: DirectoryVisit, now: datetime) -> None:
        """The directory that has opened the session, or has proved its person again."""

    async def of_name(
        self, provider: UpstreamProviderId, name_digest: bytes, indexes: Sequence[str], asked_at: datetime
    ) -> Sequence[tuple[SessionId, UserId]]:
        """The living sessions of the person with this name at the directory, whose assertions it made before it asked; with indexes, those
        alone.
        """


class DirectoryFailureStore(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def begin(self, person: UUID, provider: UpstreamProviderId, *, most: int, now: datetime, until: datetime) -> bool:
        """Before the directory gets a password. False when it has got `most` wrong ones of this person, those counted that it has not
        judged yet: then it must get none. However many ask at once, in whatever process, no more than `most` get True.
        """

    async def end(self, person: UUID, *, was_wrong: bool, was_right: bool, until: datetime) -> None:
        """After the directory has judged it, or cannot. A right password forgets the wrong ones, as the directory does. One that is neither
        does not count. Until then, it counts as wrong. A cancelled caller ends it, too.
        """


class ProviderPresets(Protocol):
    """Files implement it."""

    def all(self) -> Sequence[ProviderPreset]:
        """In the order of their names."""

    def find(self, key: str) -> ProviderPreset | None: ...


class FurtherProviderStore(Protocol):
    """Outside a unit of work, `list`, `offered`, `kept`, `people` and `find` are one statement and one round trip each. The other methods
    need a unit of work. Only PostgreSQL implements `FurtherProviderStore`.
    """

    async def list(self) -> Sequence[FurtherProvider]:
        """In the order of their buttons."""

    async def offered(self) -> Sequence[OfferedFurther]:
        """Those that are on, in the order of their buttons."""

    async def kept(self) -> Sequence[tuple[FurtherProvider, bytes]]:
        """Those that are on, with the sealed secrets of our clients there, in the order of their buttons."""

    async def find(self, key: str) -> FurtherProvider | None: ...

    async def people(self, keys: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """How many people are connected to these, by short name and by the issuer that they are known by, also one of before."""

    async def lock_all(self) -> None:
        """Of two that add a provider at once, the second waits."""

    async def find_for_update(self, key: str) -> tuple[FurtherProvider, bytes] | None:
        """The provider and the sealed secret of our client there. Nobody else changes them meanwhile."""

    async def unknown_organizations(self, slugs: Sequence[str]) -> Sequence[str]:
        """Those that do not exist."""

    async def save(self, provider: FurtherProvider, sealed_secret: bytes) -> bool:
        """False when another provider has the short name."""

    async def save_logo(self, provider: FurtherProvider, logo: Logo | None) -> None:
        """With None, removes the logo."""

    async def remove(self, provider: FurtherProvider) -> int:
        """Removes the provider with all identities there. Returns how many they were."""


class NewcomerStore(Protocol):
    """In a unit of work."""

    async def keep(self, newcomer: WaitingNewcomer) -> None:
        """In place of the newcomer that the flow had."""

    async def find(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None: ...

    async def send(self, flow: FlowId, email: str, code_digest: bytes, most: int, now: datetime) -> bool:
        """Keeps a code in place of the one before. False when so many codes were sent, or nobody waits in the flow."""

    async def attempt(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        """Counts a try of the code. Of several at once, each is counted."""

    async def remove(self, flow: FlowId) -> None: ...


class PostedAnswerStore(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def keep(self, answer: PostedAnswer) -> bool:
        """In place of the answer that waited for the same state, so that a form that comes again and again keeps one. False unless the
        provider sends answers by forms, and a browser has left for it with this state and has not come back.
        """

    async def redeem(self, provider: str, code_digest: bytes, state_digest: bytes) -> tuple[UUID, bytes] | None:
        """The id that the answer is sealed for, and the sealed answer, once."""


class HeldIdentity(Frozen):
    """An identity that nobody else changes meanwhile."""

    identity: ConnectedIdentity
    service: ServiceId | None
    """The service in which the identity was looked for."""


class IdentityStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the account. An organization's own provider must vouch for the account at that moment: the provider is on, its
    organization is active, the domain of the account's address is proved, and the account is no platform owner's. Only PostgreSQL
    implements `IdentityStore`.
    """

    async def list(self, user: UserId, organization: str = "", service: str = "") -> Sequence[ConnectedIdentity]:
        """The oldest first. With the slugs of a service, only identities that are used in the service."""

    async def add(
        self, identity: ConnectedIdentity, account: Account, *, origin: ServiceId | None, made_in: SessionId | None = None
    ) -> bool:
        """`made_in` is the session in which the person asked for it. False when somebody is connected to the identity already, or the
        account to another identity of the provider: of two callers at once, one gets False. False also when the provider no longer vouches
        for the account.
        """

    async def reclaim(self, user: UserId, email: Email, at: datetime, *, by: Voucher | None) -> bool:
        """The account now belongs to the person whom a provider has told of. It loses its password and its second factor. The address is
        proved, or, if `by` is an organization's own provider, vouched for. The caller removes what else the earlier holder had there. False
        when somebody has proved the address meanwhile, or the account has another address by now.
        """

    async def vouch(self, provider: str, account: Account) -> None:
        """Keeps that an organization's own provider has vouched for the account's address, if nobody has proved or vouched for it yet."""

    async def keep_email(self, identity: IdentityId, email: str) -> None:
        """Keeps the address that the provider tells now. Needs no round trip of its own."""

    async def own_membership(self, provider: str, account: Account, at: datetime) -> None:
        """A person who signs in at an organization's own provider belongs to the organization by that act: a membership that others have
        made becomes the person's own, if the provider vouches for the account. Needs no round trip of its own.
        """

    async def find_for_update(self, user: UserId, provider: str) -> HeldIdentity | None: ...

    async def find_in_service_for_update(self, user: UserId, provider: str, organization: str, service: str) -> HeldIdentity | None:
        """`organization` and `service` are slugs. None also when there is no such service, or its organization is not active."""

    async def is_used_elsewhere(self, identity: IdentityId, service: ServiceId) -> bool:
        """Whether the identity was connected through another service or on the platform, or is used in another service."""

    async def remove(self, identity: IdentityId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """Removes all identities, with the tokens that services have at the providers. Needs no round trip of its own."""


class IssuingConnections(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Only PostgreSQL implements it."""

    async def find_by_id(self, organization: OrganizationId, connection: UpstreamProviderId) -> IssuingConnection | None:
        """The organization's connection with this id, whatever its state."""

    async def find(self, organization: OrganizationId, issuer: str) -> IssuingConnection | None:
        """The organization's connection with this issuer, whatever its state: the one that issues assertions, if there are several."""


class IdentityAssertionStore(Protocol):
    """In a unit of work that holds the account."""

    async def use(self, used: UsedIdentityAssertion, user: UserId) -> AssertionUse:
        """Remembers the assertion, if the connection issues assertions, the person is a member, and nobody has used it: of two callers, one
        gets True. Connection and membership stay as they are until the unit of work ends.
        """

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """The person uses the service, without having told it so themselves. Needs no round trip of its own."""


class AssertionSignatures(Protocol):
    """Checks signatures in threads of its own. No unit of work may be open meanwhile, since keys may have to be fetched."""

    async def signed(self, assertion: str, keys: TrustedKeys) -> SignedToken:
        """The assertion, if one of these keys has signed it. Raises `AssertionRefused`: `MALFORMED`, `KEY`, `SIGNATURE`, `KEYS_AWAY`."""

    async def look(self, address: str) -> None:
        """Fetch the keys at the address. Raises `AssertionRefused`: `KEYS_AWAY`."""


class LdapFound(Frozen):
    """Who has a name at a directory."""

    entries: Sequence[LdapEntry]
    """At most two: that there are two is enough to know."""
    host: str
    base: str
    is_more: bool = False
    """The directory has more than these, or has stopped before it looked at everybody."""


class LdapDirectories(Protocol):
    """Every method opens connections of its own, in a few seconds at most, and raises `LdapFailed`. No unit of work may be open
    meanwhile.
    """

    async def look(self, site: LdapSite) -> None:
        """Whether one of the hosts answers, in TLS. Nothing is said there."""

    async def search(self, site: LdapSite, name: str, attributes: Sequence[str]) -> LdapFound:
        """Those who have this name in one of the sign-in attributes, with these attributes."""

    async def prove(self, site: LdapSite, host: str, dn: str, password: Secret) -> LdapAnswer:
        """One bind as this entry, at the host that has found it, in a connection that does nothing else."""

    async def survey(self, provider: UpstreamProviderId, site: LdapSite, attributes: Sequence[str]) -> LdapSurvey:
        """Asks every host, and reads at the first what a test tells about. A process makes one at a time of a connection."""


class LdapReading(Protocol):
    """Every method opens a connection of its own, and raises `LdapFailed`, also for an answer that is not whole. No unit of work may be
    open meanwhile. Somebody without exactly one usable identity is nobody, here as at a sign-in. Two people may have one identity.
    """

    async def marks(self, site: LdapSite) -> LdapMarks:
        """What the next run begins from, if this is called before the run reads. All are None where the directory tells no changes."""

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        """Everybody whom the filter finds, in pages."""

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        """In pages: those who have changed since the marks; some of them may not have. Everybody without marks, and where the marks are
        another controller's.
        """

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        """Those below the base, and those that people name in the attribute of groups. Empty when the settings name no such attribute."""


class GrantEnded(Exception):
    """The provider no longer renews the tokens: the person has to sign in there again."""


class UpstreamProtocols(Protocol):
    """OpenID Connect and the protocols of single providers implement it. A new provider is one more implementation."""

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        """The provider's page that the person goes to. Raises `OAuthError`."""

    async def look(self, site: ProviderSite, *, at_attempt: bool = False, is_away: bool = False) -> None:
        """Looks whether the provider answers; an answer counts for a minute, and for a second where somebody attempts to come in otherwise.
        Raises `ProviderAway`, also when nothing comes within a few seconds. A failure of the last seconds counts, too, but only if the
        provider `is_away` by what is noted: otherwise somebody has got through since.
        """

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        """The person whom the provider vouches for, and the tokens. Raises `OAuthError`; raises `IdentityNotAsserted` for an answer that
        shows nobody's identity.
        """

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        """Raises `OAuthError`, `GrantEnded`, and `IdentityNotAsserted` for a malformed answer."""

    async def keys_address(self, issuer: str) -> str:
        """Where an organization's own provider publishes its keys. Raises `OAuthError`."""

    async def check_further(self, settings: FurtherSettings, client: ClientAtProvider) -> None:
        """Looks up a further provider of the installation, and makes a secret of our key there, if it is one. Raises `BadRequest` when
        nobody can sign in through it.
        """

    async def check(self, issuer: str) -> None:
        """Looks up an organization's own provider. Raises `BadRequest` when nobody can sign in through it."""


class GrantFound(Frozen, kw_only=True):
    """The tokens of an application at a provider. `grant` is None when the person is not connected there through the application."""

    way: WayThrough
    grant: IdentityGrant | None


class IdentityGrantStore(Protocol):
    """Outside a unit of work, `find` and `is_renewable` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def find(self, user: UserId, provider: str, organization: str, service: str) -> GrantFound:
        """`organization` and `service` are slugs."""

    async def is_renewable(self, grant: IdentityGrantId, client: str) -> bool:
        """Whether the provider has given this client a refresh token."""

    async def keep(self, grant: IdentityGrant, at: datetime, *, replaces: bool = True) -> None:
        """Replaces the grant that was there; without `replaces`, keeps that one. A grant without a refresh token keeps the refresh token
        that the same client was given before. Needs no round trip of its own.
        """

    async def remove(self, identity: IdentityId, service: ServiceId) -> None: ...

    async def lease(self, grant: IdentityGrant, now: datetime, until: datetime) -> bool:
        """Of many callers, one may refresh the grant. False when somebody else is refreshing it, or has."""

    async def renew(self, grant: IdentityGrant, leased_until: datetime, at: datetime) -> bool:
        """Stores the new tokens, if the caller still has the lease. Without a new refresh token, the old one stays."""

    async def give_up(self, grant: IdentityGrantId, leased_until: datetime, *, ended: bool) -> None:
        """Ends the lease. With `ended`, the refresh token no longer counts."""


class ServiceProviderDocuments(LogoutDocuments, Protocol):
    """Every method may raise `Overloaded`, when too many documents wait for the threads that read them. Libraries for XML and its
    signatures implement it. Messages of a sign-out are those of `LogoutDocuments`, with the directory's certificates.
    """

    async def write_authn_request(self, request: OurAuthnRequest, signer: KeyPair, *, relay_state: str | None) -> str:
        """The address that the browser goes to, with the signed request in its query. Raises `RequestDeclined` for text that XML cannot
        contain.
        """

    async def read_response(self, packed: str, expected: Expected) -> Examination:
        """Examines an answer that came by POST. `packed` is the value of `SAMLResponse`, in base64. Never raises for what the answer
        contains: the examination tells.
        """

    async def read_directory(self, document: bytes, known: Sequence[str] = ()) -> DirectoryMetadata:
        """The metadata of a directory. `known` are certificates in PEM that the connection has already; the document's own signature is
        verified with these and no others. Raises `BadRequest`, which says what is missing and what would help.
        """

    async def read_certificate(self, text: str) -> DirectoryCertificate:
        """A certificate that somebody has pasted: PEM, or bare base64 with any line breaks. Raises `BadRequest`, as `read_directory`."""

    async def write_service_provider(self, metadata: ServiceProviderMetadata, signer: KeyPair | None) -> bytes:
        """Our metadata for a connection, signed if there is a signer. Raises `RequestDeclined` for text that XML cannot contain."""


class UpstreamLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work; `take` needs two for a person who comes back to connect an
    identity.
    """

    async def way(self, provider: str, place: ServicePlace) -> WayThrough: ...

    async def own(self, organization: str) -> OwnProviders:
        """The own providers of the organization with this slug, while it is active."""

    async def leave(self, state: NewState, place: ServicePlace, begun: Flow | None = None) -> WayThrough:
        """Keeps the state if there is a client at the provider. For a flow, it also keeps the organization that the place names. The answer
        tells what was found. `begun` is a flow that begins here; it is kept in any case.
        """

    async def asker(self, session: SessionId) -> Asker | None:
        """None when the session has ended, or its organization is not active."""

    async def take(self, digest: bytes, provider: str, browser: bytes) -> TakenState | None:
        """Uses the state up: of many callers, one gets it. The state must be of this browser and must not have expired. For a person who
        connects an identity, the sessions in which they asked for it and went to the provider must still live.
        """

    async def used(self, digest: bytes, provider: str, browser: bytes) -> UsedState | None:
        """The state that somebody took in this browser a moment ago. None when nobody did, or when it led nowhere."""

    async def settle(self, digest: bytes, led_to: str) -> None:
        """Records the address that the taken state has led to. An empty address means that it led nowhere."""

    async def meet(
        self,
        provider: str,
        asserted: Asserted,
        email: Email | None,
        approach: Approach,
        *,
        organization: OrganizationId | None = None,
        user: UserId | None = None,
        application: Context = PLATFORM,
    ) -> MatchingAccounts:
        """The accounts that the provider's assertion may be about. `organization` is the one whose own provider it is. `user` is a person
        who wants to connect the identity; then no account is looked for by an address. `application` is the one that the browser's flow
        leads to.
        """


class IdpVerifiedAccountStore(Protocol):
    """Outside a unit of work, `added` is one statement and one round trip."""

    async def added(self, user: UserId, session: SessionId) -> Sequence[AddedWay]:
        """The ways into the account and its second factor, except those that were made in this session, or that opened it."""

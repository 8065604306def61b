"""Linked identities: accounts at identity providers that are connected to an account here, and the provider tokens that applications
use.
"""

import hmac
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

from core.domain.identifiers import IdentityGrantId, IdentityId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller, CallerContext
from core.domain.identity.flows import FlowOver
from core.domain.identity.realms import Realm
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.claims import Asserted, Voucher
from core.domain.identity.upstream.providers import Naming, ProviderOff
from core.domain.identity.upstream.sign_in import ReceivedTokens, ServicePlace
from core.domain.mail import Email, mail_domain
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen


class ConnectedIdentity(Frozen, kw_only=True):
    id: IdentityId
    user: UserId
    provider: str
    issuer: str
    subject: str
    email: str = ""
    """The provider's latest address for the person. It says nothing about the account's own address."""
    linked_at: datetime
    provider_name: str = ""
    """The name of an organization's own provider. Empty for the others."""
    naming: Naming | None = None
    """What the id meant when the provider's word was read, for a new identity at a further provider. None for any other."""


class Encounter(Frozen, kw_only=True):
    """The accounts that a provider's word may be about."""

    provider_is_on: bool = True
    """False when an organization's own provider was turned off or deleted, or the organization was suspended, while the provider was asked.
    Also when a further one was turned off or deleted, or ids there mean other people by now.
    """
    identity: IdentityId | None = None
    connected: NamedAccount | None = None
    """The account that the identity is connected to."""
    named: NamedAccount | None = None
    """The account that has the address. Looked up only when the identity is not connected."""
    named_has_provider: bool = False
    """The named account is connected to another identity at the same provider."""
    other_stated: str = ""
    """The address that the provider told for that other identity."""
    asserted_domain_is_theirs: bool = False
    """The organization with this own provider has proved the domain of the address that the provider tells."""
    account_domain_is_theirs: bool = False
    """The organization with this own provider has proved the domain of the connected account's address."""
    vouches_as: frozenset[Voucher] = frozenset()
    """What an organization's own provider counts as: itself, and the providers whose successor an owner has named it."""
    realm: Realm | None = None
    """The realm of the domain of the address that the provider tells."""

    def require_provider(self) -> None:
        """Raises `ProviderOff`."""
        if not self.provider_is_on:
            raise ProviderOff(detail="the provider was turned off during the sign-in")


class Linking(Enum):
    """The consequence of the provider's word."""

    SIGN_IN = auto()
    """The identity is connected. Issuer and subject decide, whatever the addresses say."""
    CREATE = auto()
    """No account has the address, and the provider has verified it: a new account is made."""
    CONNECT = auto()
    """The account's address is proved, or this very provider has vouched for it, and the provider has verified the same address: the two
    are connected.
    """
    RECLAIM = auto()
    """An account has the address, but its owner has never proved the address, and at most another provider has vouched for it. The
    account's password and all that rests on it are removed.
    """
    UNVERIFIED = auto()
    """The provider does not vouch for the address, so the address names no account."""
    OTHER_CONNECTED = auto()
    """The account is connected to another identity at this provider. The address may have a new owner."""
    REPLACE = auto()
    """The account is connected to another identity at this provider, with an address of another domain. The organization of the account's
    domain now accepts only addresses of this domain there, so the new identity replaces the old one.
    """
    NOT_FOR_ACCOUNT = auto()
    """An organization's own provider tells of an account that the organization may not vouch for."""
    ASK = auto()
    """A further provider of the installation tells of somebody who is not connected. Its word about an address is worth nothing: a mailed
    code has to show whose address it is.
    """
    DEACTIVATED = auto()
    NOT_REGISTERED = auto()
    """No account has the address, and the rules of registration give it none. `linking` does not know these rules."""


def linking(asserted: Asserted, met: Encounter, provider: str, *, of_organization: bool, proves: bool = True) -> Linking:
    """Decides which account a provider's assertion opens; there is no other place that decides it. `of_organization`: the provider is an
    organization's own, whose owner can make it assert anything. Its assertion counts for addresses in a domain that the organization has
    verified, and never for platform owners. Unless it `proves`, its assertion about an address never counts.
    """
    if met.connected is not None:
        if of_organization and (met.connected.account.is_platform_owner or not met.account_domain_is_theirs):
            return Linking.NOT_FOR_ACCOUNT
        return Linking.SIGN_IN if met.connected.account.deactivated_at is None else Linking.DEACTIVATED
    if not proves:
        return Linking.ASK
    vouches = asserted.email != "" and asserted.email_is_verified and (not of_organization or met.asserted_domain_is_theirs)
    if not vouches:
        return Linking.UNVERIFIED
    return Linking.CREATE if met.named is None else _to_account(met.named.account, met, provider, of_organization=of_organization)


def _to_account(account: Account, met: Encounter, provider: str, *, of_organization: bool) -> Linking:
    """The decision about an existing account with the address that the provider vouches for."""
    if account.deactivated_at is not None and not _opens(account, met, of_organization=of_organization):
        return Linking.DEACTIVATED
    if account.is_platform_owner and (of_organization or not account.address_is_proved):
        return Linking.NOT_FOR_ACCOUNT
    if not account.address_is_proved and account.address_vouched_by not in met.vouches_as:
        return Linking.RECLAIM
    if not met.named_has_provider:
        return Linking.CONNECT
    is_led = met.realm is not None and met.realm.shared_provider == provider and met.realm.may_close_others
    may_replace = is_led and not account.is_platform_owner and is_elsewhere(met.other_stated, account)
    return Linking.REPLACE if may_replace else Linking.OTHER_CONNECTED


def _opens(account: Account, met: Encounter, *, of_organization: bool) -> bool:
    """Whether the provider's word opens the deactivated account. An organization's own provider proves nothing. So it opens neither what it
    has vouched for, nor what the directory of its own organization has deactivated, which means to keep the person out. It opens what
    another organization has deactivated: otherwise this one could keep people of any domain away from their own provider.
    """
    if not account.opens_by_first_proof:
        return False
    if not of_organization:
        return True
    is_its_own = any(one.organization == account.deactivated_by for one in met.vouches_as)
    return not is_its_own and account.address_vouched_by not in met.vouches_as


def is_elsewhere(told: str, account: Account) -> bool:
    """Whether the provider told no address, or one of another domain than the account's."""
    return told == "" or mail_domain(Email(told)) != mail_domain(account.email)


def gives_accounts(of_organization: OrganizationId | None, provider: str, realm: Realm | None) -> OrganizationId | None:
    """The organization whose word gives the person an account: the provider is its own, or the shared one where it sends the people of its
    proved domain. None when the word is nobody's but the provider's.
    """
    if of_organization is not None or realm is None or realm.shared_provider != provider:
        return of_organization
    return realm.organization


class Connecting(Enum):
    """The outcome of a signed-in person's request to connect an identity."""

    CONNECT = auto()
    ALREADY = auto()
    TAKEN = auto()
    """The identity is connected to another account."""
    OTHER_CONNECTED = auto()
    NOT_FOR_ACCOUNT = auto()


def connecting(user: UserId, met: Encounter, *, of_organization: bool) -> Connecting:
    """`met.named` is the person's own account. The person is signed in, so the provider need not vouch for any address."""
    if met.connected is not None and met.connected.account.id != user:
        return Connecting.TAKEN
    own = met.connected or met.named
    if of_organization and (own is None or own.account.is_platform_owner or not met.account_domain_is_theirs):
        return Connecting.NOT_FOR_ACCOUNT
    if met.connected is not None:
        return Connecting.ALREADY
    return Connecting.OTHER_CONNECTED if met.named_has_provider else Connecting.CONNECT


# The reasons in refusals, also for programs.
UNVERIFIED: Final = "unverified"
OTHER_CONNECTED: Final = "other_connected"
NOT_FOR_ACCOUNT: Final = "not_for_account"
TAKEN: Final = "taken"
DEACTIVATED: Final = "deactivated"
NOT_REGISTERED: Final = "not_registered"
ADDRESS_TAKEN: Final = "address_taken"
CANCELLED: Final = "cancelled"
ODD_PROFILE: Final = "odd_profile"


def identity_linked(identity: ConnectedIdentity, actor: Actor, *, service: ServiceId | None, how: str) -> Event:
    return _event("user.identity.linked", identity, actor, service, {"how": how})


def identity_unlinked(identity: ConnectedIdentity, actor: Actor, *, service: ServiceId | None) -> Event:
    return _event("user.identity.unlinked", identity, actor, service, {})


def _event(name: str, identity: ConnectedIdentity, actor: Actor, service: ServiceId | None, more: dict[str, str]) -> Event:
    through = {} if service is None else {"service_id": str(service)}
    personal = {"email": identity.email} if identity.email else {}
    details = {"provider": identity.provider, **more, **through}
    return Event(name, actor, Target("user", str(identity.user)), details=details, personal=personal)


LINK_REQUEST_LIFETIME: Final = timedelta(minutes=15)
_PARTS: Final = 3


class Asker(Frozen, kw_only=True):
    """A living session in which somebody has asked to connect an identity, and the person of this session."""

    session: SessionId
    user: UserId
    place: ServicePlace
    application: str = ""
    """The name of the application's service. Empty when no application asked."""
    organization: str = ""
    """The name of the organization."""
    redirect_uri: str = ""
    """The first redirect URI that the service has registered."""


class LinkRequest(Frozen, kw_only=True):
    """A request to link an identity that came from an application, or from a frontend elsewhere, and perhaps not from the user. It leads to
    a page of ours, which shows it, and nothing goes to the provider before the user presses the button there.
    """

    provider: str
    name: str
    """The provider's display name."""
    asker: Asker


def may_leave_at_once(caller: Caller) -> bool:
    """Whether the person asks, and not an application. The owner of an application could have somebody else consent at the provider. That
    other person could then sign in as this person everywhere.
    """
    return caller.context is not CallerContext.SERVICE and caller.scopes is None


def request_of(provider: str, session: SessionId, now: datetime, key: bytes) -> str:
    """The value in the address of the page. It is no secret: the page opens only for the person of the session."""
    ends = int((now + LINK_REQUEST_LIFETIME).timestamp())
    return f"{session}~{ends}~{_mac(provider, str(session), ends, key)}"


def session_in(request: str, provider: str, now: datetime, key: bytes) -> SessionId:
    """Raises `FlowOver` for a request that we did not make, or that is too old."""
    parts = request.split("~")
    try:
        if len(parts) != _PARTS or not hmac.compare_digest(_mac(provider, parts[0], int(parts[1]), key).encode(), parts[2].encode()):
            raise FlowOver
        session, ends = SessionId(UUID(parts[0])), datetime.fromtimestamp(int(parts[1]), UTC)
    except ValueError:
        raise FlowOver from None
    if ends <= now:
        raise FlowOver
    return session


def _mac(provider: str, session: str, ends: int, key: bytes) -> str:
    return hmac.digest(key, f"link {provider} {session} {ends}".encode("utf-8", "surrogatepass"), sha256).hex()


# A token that is about to expire could expire before the application's call arrives.
LEEWAY: Final = timedelta(seconds=30)
# Longer than the call may take. The refreshing process has finished by then, or has died.
LEASE: Final = timedelta(seconds=15)
CALL_TIMEOUT: Final = timedelta(seconds=10)
LOOK_AGAIN_AFTER: Final = 0.1


class IdentityGrant(Frozen, kw_only=True):
    """A person uses a service with an identity, and the service may have asked for scopes at the provider. Tokens are sealed."""

    id: IdentityGrantId
    identity: IdentityId
    service: ServiceId
    client_id: str
    """The client that got the tokens."""
    scopes: tuple[str, ...] = ()
    sealed_access_token: bytes | None = None
    sealed_refresh_token: bytes | None = None
    expires_at: datetime | None = None
    """None when the provider did not say; then the token does not expire."""
    refreshing_until: datetime | None = None
    updated_at: datetime | None = None
    """When these tokens were stored. A new seal, while the keys rotate, does not change this time."""


class GrantReadiness(Enum):
    READY = auto()
    REFRESH = auto()
    WAIT = auto()
    """Another process is refreshing the token."""
    LOST = auto()
    """The token has expired, and nothing can renew it: the person has to sign in through the provider again."""


class ProviderToken(Frozen, kw_only=True):
    """A provider's token, with which an application uses the provider in a user's name. One process refreshes it, and the others wait."""

    provider: str
    access_token: Secret
    expires_at: datetime | None
    scopes: tuple[str, ...]


def grant_id(identity: IdentityId, service: ServiceId) -> IdentityGrantId:
    """The id is the same each time. So we can seal a token for the row, and write the row, without reading its id first."""
    return IdentityGrantId(uuid5(identity, str(service)))


def provider_token_context(column: str, grant: IdentityGrantId) -> str:
    """Binds a sealed token to its row. `column` is `sealed_access_token` or `sealed_refresh_token`."""
    return f"identity_grants.{column}:{grant}"


def readiness(grant: IdentityGrant, now: datetime) -> GrantReadiness:
    if grant.sealed_access_token is None:
        return GrantReadiness.LOST
    if grant.expires_at is None or now + LEEWAY < grant.expires_at:
        return GrantReadiness.READY
    if grant.sealed_refresh_token is None:
        return GrantReadiness.LOST
    return GrantReadiness.WAIT if grant.refreshing_until is not None and now < grant.refreshing_until else GrantReadiness.REFRESH


def expiry(tokens: ReceivedTokens, now: datetime) -> datetime | None:
    return None if tokens.expires_in is None else now + timedelta(seconds=tokens.expires_in)

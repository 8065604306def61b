"""Identities: accounts at upstream providers that are connected to an account here, and the one decision whom a provider's word lets in."""

from datetime import datetime
from enum import Enum, auto
from typing import Final

from core.domain.email import Email, mail_domain
from core.domain.identifiers import IdentityId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.realms import Realm
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.providers import ProviderOff
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class ConnectedIdentity(Frozen, kw_only=True):
    id: IdentityId
    user: UserId
    provider: str
    issuer: str
    subject: str
    email: str = ""
    """As the provider told it last; it says nothing about the account's own address."""
    linked_at: datetime
    provider_name: str = ""
    """Of an organization's own provider."""


class Encounter(Frozen, kw_only=True):
    """Whom a provider's word may be about."""

    provider_is_on: bool = True
    """An organization's own may have been turned off or deleted while it was asked, or the organization suspended."""
    identity: IdentityId | None = None
    connected: NamedAccount | None = None
    """The account that the identity is connected to."""
    named: NamedAccount | None = None
    """The account that has the address. Looked for where nobody is connected."""
    named_has_provider: bool = False
    """It is connected to somebody else at the same provider."""
    other_told: str = ""
    """The address that the provider told of that one."""
    asserted_domain_is_theirs: bool = False
    """The organization whose own provider it is has proved the domain of the address that the provider tells."""
    account_domain_is_theirs: bool = False
    """The same for the address of the connected account."""
    realm: Realm | None = None
    """Of the domain of the address that the provider tells."""

    def require_provider(self) -> None:
        """Raises `ProviderOff`."""
        if not self.provider_is_on:
            raise ProviderOff(detail="it was turned off while it was asked")


class Linking(Enum):
    """What the provider's word leads to."""

    SIGN_IN = auto()
    """The identity is connected: by issuer and subject, whatever the addresses say."""
    CREATE = auto()
    """Nobody has the address, and the provider has verified it: a new account."""
    CONNECT = auto()
    """Provider and account have both verified the same address."""
    RECLAIM = auto()
    """The address has an account whose owner never proved that it is theirs. Its password and all that rests on it go."""
    UNVERIFIED = auto()
    """The provider does not vouch for the address, so it names nobody."""
    OTHER_CONNECTED = auto()
    """The account is connected to somebody else there. The address may have been given to a new owner."""
    REPLACE = auto()
    """It is, but with an address elsewhere, and now nothing but an address of the account's domain will do there."""
    NOT_FOR_ACCOUNT = auto()
    """An organization's own provider, and an account that is not the organization's to vouch for."""
    DEACTIVATED = auto()


def linking(asserted: Asserted, met: Encounter, provider: str, *, of_organization: bool) -> Linking:
    """`of_organization`: an organization's own provider, whose owner can make it say anything. Its word counts for addresses in a domain
    that the organization has proved, and never for platform owners.
    """
    if met.connected is not None:
        if of_organization and (met.connected.account.is_platform_owner or not met.account_domain_is_theirs):
            return Linking.NOT_FOR_ACCOUNT
        return Linking.SIGN_IN if met.connected.account.deactivated_at is None else Linking.DEACTIVATED
    vouches = asserted.email != "" and asserted.email_is_verified and (not of_organization or met.asserted_domain_is_theirs)
    if not vouches:
        return Linking.UNVERIFIED
    return Linking.CREATE if met.named is None else _to_account(met.named.account, met, provider, of_organization=of_organization)


def _to_account(account: Account, met: Encounter, provider: str, *, of_organization: bool) -> Linking:
    """The account that has the address, which the provider vouches for."""
    if account.is_shut:
        return Linking.DEACTIVATED
    if account.is_platform_owner and (of_organization or account.email_verified_at is None):
        return Linking.NOT_FOR_ACCOUNT
    if account.email_verified_at is None:
        return Linking.RECLAIM
    if not met.named_has_provider:
        return Linking.CONNECT
    is_led = met.realm is not None and met.realm.shared_provider == provider and met.realm.may_close_others
    may_replace = is_led and not account.is_platform_owner and is_elsewhere(met.other_told, account)
    return Linking.REPLACE if may_replace else Linking.OTHER_CONNECTED


def is_elsewhere(told: str, account: Account) -> bool:
    """Whether an address that a provider told, if it told one, is of another domain than the account's."""
    return told == "" or mail_domain(Email(told)) != mail_domain(account.email)


class Connecting(Enum):
    """What becomes of an identity that a person who is signed in wants to connect."""

    CONNECT = auto()
    ALREADY = auto()
    TAKEN = auto()
    """By another account."""
    OTHER_CONNECTED = auto()
    NOT_FOR_ACCOUNT = auto()


def connecting(user: UserId, met: Encounter, *, of_organization: bool) -> Connecting:
    """`met.named` is the person's own account. They are signed in, so the provider need not vouch for any address."""
    if met.connected is not None and met.connected.account.id != user:
        return Connecting.TAKEN
    own = met.connected or met.named
    if of_organization and (own is None or own.account.is_platform_owner or not met.account_domain_is_theirs):
        return Connecting.NOT_FOR_ACCOUNT
    if met.connected is not None:
        return Connecting.ALREADY
    return Connecting.OTHER_CONNECTED if met.named_has_provider else Connecting.CONNECT


# The words of refusals, also for programs.
UNVERIFIED: Final = "unverified"
OTHER_CONNECTED: Final = "other_connected"
NOT_FOR_ACCOUNT: Final = "not_for_account"
TAKEN: Final = "taken"
DEACTIVATED: Final = "deactivated"
CANCELLED: Final = "cancelled"


def identity_linked(identity: ConnectedIdentity, actor: Actor, *, service: ServiceId | None, how: str) -> Event:
    return _event("user.identity.linked", identity, actor, service, {"how": how})


def identity_unlinked(identity: ConnectedIdentity, actor: Actor, *, service: ServiceId | None) -> Event:
    return _event("user.identity.unlinked", identity, actor, service, {})


def _event(name: str, identity: ConnectedIdentity, actor: Actor, service: ServiceId | None, more: dict[str, str]) -> Event:
    through = {} if service is None else {"service_id": str(service)}
    personal = {"email": identity.email} if identity.email else {}
    details = {"provider": identity.provider, **more, **through}
    return Event(name, actor, Target("user", str(identity.user)), details=details, personal=personal)

"""Provider tokens: an application uses a provider in a person's name. One process refreshes a token, and the others wait for it."""

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final
from uuid import uuid5

from core.domain.identifiers import IdentityGrantId, IdentityId, ServiceId
from core.domain.identity.upstream.sign_in import ReceivedTokens
from core.domain.secrets import Secret
from core.frozen import Frozen

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
    """A provider's token, as the application gets it."""

    provider: str
    access_token: Secret
    expires_at: datetime | None
    scopes: tuple[str, ...]


def grant_id(identity: IdentityId, service: ServiceId) -> IdentityGrantId:
    """The id is the same each time. So we can seal a token for the row, and write the row, without reading its id first."""
    return IdentityGrantId(uuid5(identity, str(service)))


def sealing_context(column: str, grant: IdentityGrantId) -> str:
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

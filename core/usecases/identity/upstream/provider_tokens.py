"""Gives applications the provider tokens of their users. One process refreshes an expired token while the others wait."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Forbidden, NotFound, Unavailable
from core.domain.identifiers import IdentityId
from core.domain.identity.callers import Caller
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.identities import (
    LEASE,
    LOOK_AGAIN_AFTER,
    GrantReadiness,
    IdentityGrant,
    ProviderToken,
    expiry,
    grant_id,
    provider_token_context,
    readiness,
)
from core.domain.identity.upstream.providers import UnknownProvider, Upstream, is_one_of_three, provider_key
from core.domain.identity.upstream.sign_in import OAuthError, ReceivedTokens, RenewalEnded, WayThrough
from core.domain.secrets import Secret
from core.frozen import Frozen
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.crypto import KeyRing
from ports.identity.upstream import GrantEnded, GrantFound, IdentityGrantStore, UpstreamProtocols
from ports.metrics import Metrics
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class IdentityGrants(Frozen):
    lookup: IdentityGrantStore
    keyring: KeyRing
    clock: Clock

    async def lasts(self, identity: IdentityId, upstream: Upstream, way: WayThrough, tokens: ReceivedTokens) -> bool:
        """Returns whether the service's access at the provider can go on after these tokens expire. True also if the service asks the
        provider for nothing.
        """
        if way.service is None or not way.service_scopes or tokens.expires_in is None or tokens.refresh_token is not None:
            return True
        return await self.lookup.is_renewable(grant_id(identity, way.service), upstream.client.client_id)

    async def keep(self, uow: UnitOfWork, identity: IdentityId, upstream: Upstream, way: WayThrough, tokens: ReceivedTokens) -> None:
        """Records that the identity is used in the service that the sign-in leads to, if there is a service. Tokens are kept only for a
        service that asks the provider for scopes.
        """
        if way.service is None:
            return
        grant = IdentityGrant(
            id=grant_id(identity, way.service), identity=identity, service=way.service, client_id=upstream.client.client_id
        )
        if way.service_scopes:
            grant = self.sealed(grant, tokens, way.service_scopes)
        # Tokens that the service's own client was given stay.
        await uow.identity_grants.keep(grant, self.clock.now(), replaces=not way.is_lent)

    def sealed(self, grant: IdentityGrant, tokens: ReceivedTokens, asked: tuple[str, ...]) -> IdentityGrant:
        """Returns the grant with these tokens, sealed. If no refresh token came, the grant has none here, and the stored one stays under
        its present seal.
        """
        refresh = tokens.refresh_token
        return IdentityGrant(
            id=grant.id,
            identity=grant.identity,
            service=grant.service,
            client_id=grant.client_id,
            scopes=asked if tokens.scopes is None else tokens.scopes,
            sealed_access_token=self.keyring.seal(
                tokens.access_token.reveal().encode(), provider_token_context("sealed_access_token", grant.id)
            ),
            sealed_refresh_token=None
            if refresh is None
            else self.keyring.seal(refresh.reveal().encode(), provider_token_context("sealed_refresh_token", grant.id)),
            expires_at=expiry(tokens, self.clock.now()),
        )


# Looks go on for the time of one lease, and of a second lease for the process that takes the work over.
_LOOKS: Final = int(2 * LEASE.total_seconds() / LOOK_AGAIN_AFTER)


class ProviderTokens(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: IdentityGrantStore
    protocols: UpstreamProtocols
    providers: UpstreamProviders
    grants: IdentityGrants
    keyring: KeyRing
    metrics: Metrics
    clock: Clock
    pause: Callable[[float], Awaitable[None]]

    async def get(self, caller: Caller, provider: str, require_scope: Callable[[], None], must_finish: Callable[[], None]) -> ProviderToken:
        """Returns the provider's token. `require_scope` refuses a session without the scope, once it is known that there is a token to
        refuse. The call that renews an expired token calls `must_finish` first, because many providers accept a refresh token only once.
        Raises `BadRequest` outside a service, `UnknownProvider`, `ProviderOff`, `Forbidden` when the service asks
        the provider for nothing, `NotFound` when the person has not connected the provider through the service, `RenewalEnded` when an
        expired token can no longer be renewed, and `OAuthError` when the provider fails to renew it now.
        """
        key = provider_key(provider)
        if not is_one_of_three(key):
            # Services have scopes only at the three shared providers.
            raise UnknownProvider
        if not caller.service:
            raise BadRequest("Only a service can request this: sign in to it first")
        waited = False
        for _ in range(_LOOKS):
            found = await self.lookup.find(caller.user, key, caller.organization, caller.service)
            upstream, grant = self._usable(found, key)
            require_scope()
            now = self.clock.now()
            match readiness(grant, now):
                case GrantReadiness.READY:
                    return self._opened(grant, key)
                case GrantReadiness.LOST:
                    raise RenewalEnded(detail="nothing was given to renew it with, or the provider has refused it before")
                case GrantReadiness.REFRESH if waited and grant.refreshing_until is None:
                    # The process with the lease has given up, and another try a moment later would not get a token either.
                    raise OAuthError(detail="another request could not renew the token")
                case GrantReadiness.REFRESH if (renewed := await self._refreshed(grant, upstream, now, must_finish)) is not None:
                    return self._opened(renewed, key)
                case _:  # another process does it
                    pass
            waited = True
            await self.pause(LOOK_AGAIN_AFTER)
        raise Unavailable(retry_after=1, detail="a provider's token stayed contended")

    def _usable(self, found: GrantFound, key: str) -> tuple[Upstream, IdentityGrant]:
        if not found.way.service_scopes:
            raise Forbidden("This service requests nothing from the provider: configure scopes there first")
        upstream = self.providers.found(key, found.way)
        grant = found.grant
        if grant is None or grant.sealed_access_token is None or grant.client_id != upstream.client.client_id:
            raise NotFound("You are not connected to this provider in this service", words="provider_not_connected")
        return upstream, grant

    async def _refreshed(
        self, grant: IdentityGrant, upstream: Upstream, now: datetime, must_finish: Callable[[], None]
    ) -> IdentityGrant | None:
        """Refreshes the token. Returns None when another process refreshes it. Raises `OAuthError`."""
        until = now + LEASE
        async with self.unit_of_work() as uow:
            if not await uow.identity_grants.lease(grant, now, until):
                return None
            await uow.commit()
        must_finish()
        assert grant.sealed_refresh_token is not None  # noqa: S101 - for the type checker: only such a one is refreshed
        refresh_token = self._open("sealed_refresh_token", grant, grant.sealed_refresh_token)
        try:
            tokens = await self.protocols.refresh(upstream, refresh_token)
        except (GrantEnded, OAuthError, NotVouched) as failure:
            ended = isinstance(failure, GrantEnded)
            self.metrics.provider_token_refreshed(upstream.label, "ended" if ended else "failed")
            async with self.unit_of_work() as uow:
                await uow.identity_grants.give_up(grant.id, until, ended=ended)
                await uow.commit()
            if ended:
                raise RenewalEnded(detail="the provider refuses to renew it") from None
            raise OAuthError(detail="the provider failed") from None
        renewed = self.grants.sealed(grant, tokens, grant.scopes)
        async with self.unit_of_work() as uow:
            # If nothing was written, the person has signed in through the provider meanwhile: the stored token is newer, and this token is
            # valid, too.
            await uow.identity_grants.renew(renewed, until, self.clock.now())
            await uow.commit()
        self.metrics.provider_token_refreshed(upstream.label, "renewed")
        return renewed

    def _opened(self, grant: IdentityGrant, key: str) -> ProviderToken:
        assert grant.sealed_access_token is not None  # noqa: S101 - for the type checker: it is ready
        token = self._open("sealed_access_token", grant, grant.sealed_access_token)
        return ProviderToken(provider=key, access_token=token, expires_at=grant.expires_at, scopes=grant.scopes)

    def _open(self, column: str, grant: IdentityGrant, sealed: bytes) -> Secret:
        return Secret(self.keyring.open(sealed, provider_token_context(column, grant.id)).decode())

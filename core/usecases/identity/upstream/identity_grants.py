"""Writes identity grants: the tokens that a provider gave for a service, sealed for their row."""

from core.domain.identifiers import IdentityId
from core.domain.identity.upstream.provider_tokens import IdentityGrant, expiry, grant_id, sealing_context
from core.domain.identity.upstream.providers import Upstream
from core.domain.identity.upstream.sign_in import ReceivedTokens, WayThrough
from core.frozen import Frozen
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.identity.upstream.provider_tokens import IdentityGrantStore
from ports.unit_of_work import UnitOfWork


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
            sealed_access_token=self.keyring.seal(tokens.access_token.reveal().encode(), sealing_context("sealed_access_token", grant.id)),
            sealed_refresh_token=None
            if refresh is None
            else self.keyring.seal(refresh.reveal().encode(), sealing_context("sealed_refresh_token", grant.id)),
            expires_at=expiry(tokens, self.clock.now()),
        )

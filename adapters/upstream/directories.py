"""Identity providers of organizations that speak LDAP or SAML, as redirects that end with a code."""

import json
from uuid import UUID

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.claims import Asserted, NotVouched
from core.domain.identity.upstream.connections import addresses
from core.domain.identity.upstream.directories import DirectoryRefused, asserted_by, password_page, request_id, restored_word
from core.domain.identity.upstream.ldap.answers import LdapFailed
from core.domain.identity.upstream.providers import ProviderSite, SamlAtProvider, Upstream
from core.domain.identity.upstream.saml.assertions import TOLERANCE, OurAuthnRequest, restored
from core.domain.identity.upstream.sign_in import NO_TOKENS, OAuthError, ProviderAway, ProviderRequest, ReceivedTokens
from core.domain.saml import RequestedContext
from core.domain.secrets import Secret, Token
from ports.crypto import KeyRing
from ports.identity.upstream import ConnectionLookup, LdapDirectories, ServiceProviderDocuments
from ports.system import Clock


class LdapPasswordPages:
    """Users enter their password on a page of ours, which asks the directory. The assertion is stored until the browser returns with a
    code.
    """

    def __init__(self, directories: LdapDirectories, answers: ConnectionLookup, keyring: KeyRing, base_url: str) -> None:
        self._directories = directories
        self._answers = answers
        self._keyring = keyring
        self._base_url = base_url

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        return password_page(self._base_url, upstream.key, asked.state, asked.login_hint)

    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None:
        del at_attempt, is_away
        if not isinstance(site, Upstream) or site.ldap is None:
            return
        try:
            await self._directories.look(site.ldap)
        except LdapFailed as failed:
            if not failed.is_outage:
                # A certificate that does not count opens no other way in: somebody on the way may have put it there.
                return
            raise ProviderAway(detail=f"{site.label}: {failed}") from None

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        waiting = await self._answers.redeem(UpstreamProviderId(UUID(upstream.key)), code.digest())
        if waiting is None:
            raise NotVouched("no answer waits for this code")
        kept = json.loads(self._keyring.open(*waiting))
        if kept["request"] != request_id(asked.nonce):
            raise NotVouched("the answer is for another request")
        word = restored_word(kept["word"])
        if asked.since is not None and word.authenticated_at is not None and word.authenticated_at < asked.since:
            raise NotVouched("the person has typed the password too long ago")
        return word, NO_TOKENS

    async def refresh(self, _upstream: Upstream, _refresh_token: Secret) -> ReceivedTokens:
        raise OAuthError(detail="a directory by LDAP gives no tokens")


class SamlDirectories:
    """The browser carries every SAML message, so nothing is called here. The response is validated and stored until its browser returns
    with a code.
    """

    def __init__(
        self, documents: ServiceProviderDocuments, answers: ConnectionLookup, keyring: KeyRing, clock: Clock, base_url: str
    ) -> None:
        self._documents = documents
        self._answers = answers
        self._keyring = keyring
        self._clock = clock
        self._base_url = base_url

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        saml, ours = _saml(upstream), addresses(self._base_url, upstream.key)
        if not saml.settings.is_complete or not upstream.endpoints.issuer:
            raise OAuthError(detail="the directory's address, entity id or certificate is missing")
        contexts = asked.contexts or saml.settings.contexts
        request = OurAuthnRequest(
            id=request_id(asked.nonce),
            issuer=ours.entity_id,
            destination=saml.settings.sso_url,
            acs_url=ours.acs,
            issued_at=self._clock.now(),
            force=asked.fresh,
            name_id_format=saml.settings.name_id_format or None,
            context=RequestedContext(classes=contexts) if contexts else None,
        )
        return await self._documents.write_authn_request(request, saml.key, relay_state=asked.state.reveal())

    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None:
        """Nothing calls a directory, so nothing notices its outage: the person sees it at the directory."""

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        provider = UpstreamProviderId(UUID(upstream.key))
        waiting = await self._answers.redeem(provider, code.digest())
        if waiting is None:
            raise NotVouched("no answer waits for this code")
        kept = json.loads(self._keyring.open(*waiting))
        if kept["request"] != request_id(asked.nonce):
            raise NotVouched("the answer is for another request")
        if "refused" in kept:
            raise DirectoryRefused(kept["refused"], without_address=kept["without_address"])
        asserting = restored(kept["asserting"])
        if asked.since is not None and asserting.assertion.authenticated_at < asked.since - TOLERANCE:
            raise NotVouched("the person has signed in there too long ago")
        return asserted_by(provider, asserting), NO_TOKENS

    async def refresh(self, _upstream: Upstream, _refresh_token: Secret) -> ReceivedTokens:
        raise OAuthError(detail="a directory by SAML gives no tokens")


def _saml(upstream: Upstream) -> SamlAtProvider:
    if upstream.saml is None:
        raise OAuthError(detail="the provider does not speak SAML")
    return upstream.saml

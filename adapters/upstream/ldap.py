"""Directories that speak LDAP. People type their password on a page of ours, which asks the directory. Its word waits in the database until
the browser comes back with a code.
"""

import json
from uuid import UUID

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.claims import Asserted, NotVouched
from core.domain.identity.upstream.directories import password_page, request_id, restored_word
from core.domain.identity.upstream.ldap.answers import LdapFailed
from core.domain.identity.upstream.providers import ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import NO_TOKENS, OAuthError, ProviderAway, ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token
from ports.crypto import KeyRing
from ports.identity.upstream import ConnectionLookup, LdapDirectories


class LdapPasswordPages:
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

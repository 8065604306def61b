"""The web suite: OpenID Connect, with a parameter of its own for refresh tokens (`access_type`)."""

from collections.abc import Mapping
from typing import Any

from adapters.upstream.oidc import OpenId
from core.domain.identity.upstream.claims import Asserted, of_websuite
from core.domain.identity.upstream.sign_in import ProviderRequest


class WebSuite(OpenId):
    def wishes(self, asked: ProviderRequest) -> Mapping[str, str]:
        """The web suite does not know `prompt=login`, so it gets `select_account`. A person who chooses an account there may have to sign
        in.
        """
        words = (*(("select_account",) if asked.fresh or asked.choose else ()), *(("consent",) if asked.consent else ()))
        prompt = {"prompt": " ".join(words)} if words else {}
        return {**prompt, "access_type": "offline"} if asked.offline else prompt

    def scopes_offline(self, asked: ProviderRequest) -> tuple[str, ...]:  # noqa: ARG002 - it has none
        return ()

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_websuite(claims)

"""The office suite: OpenID Connect, for people of many tenants and of none."""

from collections.abc import Mapping
from typing import Any

from adapters.upstream.oidc import OpenId
from core.domain.identity.upstream.claims import Asserted, of_officesuite
from core.domain.identity.upstream.sign_in import ProviderRequest


class OfficeSuite(OpenId):
    def wishes(self, asked: ProviderRequest) -> Mapping[str, str]:
        return super().wishes(asked) or ({"prompt": "select_account"} if asked.choose else {})

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_officesuite(claims)

"""The office suite: OpenID Connect, for people of many tenants and of none."""

from collections.abc import Mapping
from typing import Any

from adapters.upstream.oidc import OpenId
from core.domain.identity.upstream.claims import Asserted, of_officesuite


class OfficeSuite(OpenId):
    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_officesuite(claims)

"""Audiences: the APIs that a session may have access tokens for (RFC 8707). A session keeps each API that was granted, and an access token
is for one of them alone. The APIs themselves are in `core/domain/services/resource_servers.py`.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from core.domain.identifiers import ResourceServerId
from core.domain.signing_keys import TokenAlgorithm
from core.frozen import Frozen

ONE_AT_A_TIME: Final = "resource: a token is for one API. Name one of those that were granted"
NOT_GRANTED: Final = "resource: this API was not granted, or is not open any more. Name one that was granted, or ask the person again"


class NoAudience(Exception):
    """The request names no API, or not one alone, that the session may have a token for."""


class TokenAudience(Frozen):
    """The API that an access token is for, and the scopes that the token has there."""

    id: ResourceServerId
    identifier: str
    scopes: tuple[str, ...]
    lifetime: timedelta | None = None
    """How long the API lets its tokens last. None for as long as any access token."""
    algorithm: TokenAlgorithm = TokenAlgorithm.ES256


class TokenAudiences(Frozen):
    """The APIs that a code or a session was granted."""

    granted: int
    open: Sequence[TokenAudience]
    """Those of them that a request may have a token for at this moment."""

    def chosen(self, named: str | None) -> TokenAudience | None:
        """The API of the next token. None without APIs. Raises `NoAudience`."""
        if not self.granted and named is None:
            return None
        found = [audience for audience in self.open if named in {None, audience.identifier}]
        if len(found) == 1 and (named is not None or self.granted == 1):
            return found[0]
        raise NoAudience(self.missing(named))

    def missing(self, named: str | None) -> str:
        """The reason why there is no such audience."""
        return ONE_AT_A_TIME if named is None and self.granted > 1 else NOT_GRANTED


NO_AUDIENCES: Final = TokenAudiences(0, ())

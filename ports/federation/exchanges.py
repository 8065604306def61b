"""The store of exchanges: sessions that services open with the tokens that they receive."""

from typing import Protocol

from core.domain.federation.oauth.exchanges import Exchangeable, SubjectToken, TokenExchange
from core.domain.identifiers import ServiceId


class ExchangeStore(Protocol):
    """Outside a unit of work, `find` and `add` are one statement and one round trip each. Only PostgreSQL implements it."""

    async def find(self, subject: SubjectToken, service: ServiceId, resource: str) -> Exchangeable | None:
        """The subject as it is now, and the API of this name. None when the session or an API on the way to it has ended, when its
        application no longer admits the person, or when the token is not the service's to exchange.
        """

    async def add(self, exchange: TokenExchange) -> bool:
        """Opens the session, as a child of the subject's, without a refresh token. False when the subject's has ended: whoever ends the
        person's sessions either waits and finds the new one, or was first.
        """

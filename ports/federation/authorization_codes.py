"""Where authorization codes are kept: as digests."""

from datetime import datetime
from typing import Protocol

from core.domain.federation.authorization_codes import Claim, Contended, EarlierUse, NewCode, Opening, Redeemed
from core.domain.identity.sessions import Context


class AuthorizationCodeStore(Protocol):
    """Part of the unit of work."""

    async def add(self, code: NewCode) -> None:
        """Nobody waits for it."""


class CodeRedemption(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def redeem(self, claim: Claim, context: Context, opening: Opening, at: datetime) -> Redeemed | EarlierUse | Contended | None:
        """Exchanges the code for the session, with its refresh token and what is on record of it, if the claim is good, the code has not
        expired, its browser session lives, and the service lets the person in: of many callers, one gets `Redeemed`. `EarlierUse` for a
        code that was redeemed before, whoever claims it. None for any other.
        """

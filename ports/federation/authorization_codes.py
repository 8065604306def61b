"""The store of authorization codes, as digests, and their exchange."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.federation.oauth.authorization_codes import Claim, Contended, EarlierUse, Issue, NewCode, Opening, Redeemed, Untargeted
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.identifiers import ClientId


class AuthorizationCodeStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, code: NewCode, registered: Sequence[str], *, by_trust: bool) -> Issue:
        """Stores the code, and uses up the pushed request that it answers: of many callers at once, one gets `ISSUED`. The caller has
        already locked the account. `REFUSED` when the account or the service has ended, or when the service has registered other redirect
        URIs. `REFUSED` also when nothing permits the code any more: the consent of the person or, `by_trust`, their own membership of an
        organization that trusts the service. Whoever does not get `ISSUED` must not commit.
        """


Redemption = Redeemed | EarlierUse | Untargeted | Contended | None
"""The result of a claim. Of many callers, one gets `Redeemed`. `EarlierUse` is for a code that was redeemed before, by any claim. None is
for every other code that does not open.
"""


class CodeRedemption(Protocol):
    """Exchanges a code for a session outside any unit of work, in one statement and one round trip. The session comes with its refresh
    token and its records. The claim must be good, the code not expired and its browser session alive, and the service must let the person
    in. PostgreSQL implements it, and so does a test of the use case, for races that two real requests cannot be made to lose.
    """

    async def redeem(self, claim: Claim, client: RegisteredClient, opening: Opening, at: datetime) -> Redemption:
        """For a client that has been authenticated."""

    async def redeem_with_secret(
        self, claim: Claim, client: ClientId, secret_digest: bytes | None, opening: Opening, at: datetime
    ) -> tuple[RegisteredClient, Redemption] | None:
        """For a client that shows a secret: the same statement looks the client up, as `ClientLookup.find` does. Redeems nothing unless the
        secret is one of the client's and its organization is active. None when there is no such client.
        """

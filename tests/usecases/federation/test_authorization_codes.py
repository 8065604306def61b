"""Redeeming a code that others redeem at the same moment."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest

from adapters.system import SystemClock, SystemIds, SystemSecrets
from core.domain.errors import Unavailable
from core.domain.federation.authorization_codes import CONTENDED, Claim, Contended, EarlierUse, Opening, Redeemed, claim_of
from core.domain.federation.clients import AuthenticatedClient, AuthenticationMethod, RegisteredClient
from core.domain.federation.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth_errors import InvalidGrant
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import Context
from core.domain.secrets import Token
from core.domain.services.services import IdTokenAlgorithm, ServiceType
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.identity.sessions import Sessions
from ports.unit_of_work import UnitOfWorkFactory

SERVICE, ORGANIZATION = ServiceId(UUID(int=1)), OrganizationId(UUID(int=2))
PHONE = AuthenticatedClient(
    RegisteredClient(
        client=ClientId(UUID(int=3)),
        context=Context(ORGANIZATION, "acme", SERVICE, "phone"),
        service=SERVICE,
        organization=ORGANIZATION,
        organization_is_active=True,
        service_type=ServiceType.MOBILE,
        id_token_algorithm=IdTokenAlgorithm.RS256,
        members_only=False,
        keys=None,
        has_secret=False,
        secret_matches=False,
    ),
    AuthenticationMethod.NONE,
)
REQUEST = TokenRequest(grant_type=AUTHORIZATION_CODE, code=Token("code"), redirect_uri="https://a.example/", code_verifier=Token("v" * 43))


@dataclass
class Redemption:
    """Answers as it is told, and then with the last answer."""

    answers: list[Redeemed | EarlierUse | Contended | None]
    sessions: list[SessionId] = field(default_factory=list)

    async def redeem(self, claim: Claim, context: Context, opening: Opening, at: datetime) -> Redeemed | EarlierUse | Contended | None:
        assert (claim.service, context) == (SERVICE, PHONE.registered.context)
        assert at.tzinfo is not None
        self.sessions.append(opening.session)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Lasting:
    lifetime = timedelta(days=90)


def codes(redemption: Redemption) -> AuthorizationCodes:
    return AuthorizationCodes(
        cast("UnitOfWorkFactory", None),
        redemption,
        cast("Sessions", Lasting()),
        clock=SystemClock(),
        ids=SystemIds(),
        secrets=SystemSecrets(),
    )


async def test_who_meets_another_looks_again_and_finds_the_code_redeemed() -> None:
    proof = claim_of(Token("code"), "https://a.example/", Token("v" * 43), PHONE).proof
    earlier = EarlierUse(datetime.now(UTC), proof, SessionId(UUID(int=4)), UserId(UUID(int=5)), ORGANIZATION, SERVICE)
    redemption = Redemption([CONTENDED, earlier])
    with pytest.raises(InvalidGrant):
        await codes(redemption).redeem(REQUEST, PHONE, Client(None, ""))
    assert len(redemption.sessions) == 2


async def test_a_code_that_stays_contended_is_left_alone_for_now() -> None:
    redemption = Redemption([CONTENDED])
    with pytest.raises(Unavailable):
        await codes(redemption).redeem(REQUEST, PHONE, Client(None, ""))
    # It would have been the same session each time.
    assert len(redemption.sessions) == 3
    assert len(set(redemption.sessions)) == 1

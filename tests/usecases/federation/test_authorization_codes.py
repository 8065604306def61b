"""A code that other requests redeem at the same moment."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID, uuid4

import pytest

from adapters.system import SystemClock, SystemIds, SystemSecrets
from core.domain.errors import OrganizationNotActive, Unauthorized, Unavailable
from core.domain.federation.oauth.authorization_codes import CONTENDED, Claim, EarlierUse, Opening, claim_of
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, ClientCredentials, RegisteredClient
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import Context
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import replace
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.federation.clients import Clients
from core.usecases.identity.sessions import Sessions
from ports.federation.oauth import ClientAssertions, ClientLookup, Redemption, UsedAssertions
from ports.services.services import KeptKeys, KeySets
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

SERVICE, ORGANIZATION = ServiceId(UUID(int=1)), OrganizationId(UUID(int=2))
PHONE = AuthenticatedClient(
    RegisteredClient(
        client=ClientId(str(UUID(int=3))),
        context=Context(ORGANIZATION, "acme", SERVICE, "phone"),
        service=SERVICE,
        organization=ORGANIZATION,
        organization_is_active=True,
        service_type=ServiceType.MOBILE,
        id_token_algorithm=TokenAlgorithm.RS256,
        access_token_algorithm=TokenAlgorithm.ES256,
        keys=None,
        has_secret=False,
        secret=None,
    ),
    AuthenticationMethod.NONE,
)
SHOP = replace(PHONE.registered, service_type=ServiceType.WEB, has_secret=True, secret=ClientSecretId(uuid4()))
SHOWN = ClientCredentials(SHOP.client, AuthenticationMethod.POST, Token("secret"))
REQUEST = TokenRequest(grant_type=AUTHORIZATION_CODE, code=Token("code"), redirect_uri="https://a.example/", code_verifier=Token("v" * 43))
CLAIM = claim_of(REQUEST, SHOP.client, is_public=False)


@dataclass
class Answering:
    """Gives these answers in turn, and then repeats the last one."""

    answers: list[Redemption]
    client: RegisteredClient | None = PHONE.registered
    sessions: list[SessionId] = field(default_factory=list)

    async def redeem_with_secret(
        self, claim: Claim, client: ClientId, secret_digest: bytes | None, opening: Opening, at: datetime
    ) -> tuple[RegisteredClient, Redemption] | None:
        assert (client, secret_digest) == (SHOWN.client, Token("secret").digest())
        return None if self.client is None else (self.client, await self.redeem(claim, self.client, opening, at))

    async def redeem(self, claim: Claim, client: RegisteredClient, opening: Opening, at: datetime) -> Redemption:
        assert claim == CLAIM
        assert client == self.client
        assert at.tzinfo is not None
        self.sessions.append(opening.session)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Lasting:
    lifetime = timedelta(days=90)
    idle = timedelta(days=30)


class Unseen:
    def seen(self, _one: object, _at: object) -> None:
        """Nobody asks for the last use here."""


def codes(redemption: Answering) -> AuthorizationCodes:
    clients = Clients(
        cast("ClientLookup", None),
        cast("ClientAssertions", None),
        cast("UsedAssertions", None),
        cast("KeySets", None),
        cast("KeptKeys", None),
        Unseen(),
        clock=SystemClock(),
        issuer="https://id.example.org",
        endpoints=(),
    )
    return AuthorizationCodes(
        cast("UnitOfWorkFactory", None),
        redemption,
        clients,
        cast("Sessions", Lasting()),
        system=System(SystemClock(), SystemIds(), SystemSecrets()),
    )


async def test_who_meets_another_looks_again_and_finds_the_code_redeemed() -> None:
    earlier = EarlierUse(datetime.now(UTC), CLAIM.proof, SessionId(UUID(int=4)), UserId(UUID(int=5)), ORGANIZATION, SERVICE)
    redemption = Answering([CONTENDED, earlier])
    with pytest.raises(InvalidGrant):
        await codes(redemption).redeem(REQUEST, PHONE, Client(None, ""))
    assert len(redemption.sessions) == 2


async def test_a_code_that_stays_contended_is_left_alone_for_now() -> None:
    redemption = Answering([CONTENDED])
    with pytest.raises(Unavailable):
        await codes(redemption).redeem(REQUEST, PHONE, Client(None, ""))
    # It would have been the same session each time.
    assert len(redemption.sessions) == 3
    assert len(set(redemption.sessions)) == 1


async def test_a_client_that_shows_a_secret_looks_again_too() -> None:
    earlier = EarlierUse(datetime.now(UTC), CLAIM.proof, SessionId(UUID(int=4)), UserId(UUID(int=5)), ORGANIZATION, SERVICE)
    redemption = Answering([CONTENDED, earlier], SHOP)
    with pytest.raises(InvalidGrant):
        await codes(redemption).redeem_with_secret(REQUEST, SHOWN, Client(None, ""))
    assert len(redemption.sessions) == 2


@pytest.mark.parametrize(
    ("client", "refusal"),
    [
        (None, Unauthorized),
        (replace(SHOP, secret=None), Unauthorized),
        (replace(SHOP, organization_is_active=False), OrganizationNotActive),
    ],
)
async def test_a_client_that_is_refused_hears_nothing_of_the_code(client: RegisteredClient | None, refusal: type[Exception]) -> None:
    for answer in (None, CONTENDED):
        redemption = Answering([answer], client)
        with pytest.raises(refusal):
            await codes(redemption).redeem_with_secret(REQUEST, SHOWN, Client(None, ""))
        assert len(redemption.sessions) <= 1

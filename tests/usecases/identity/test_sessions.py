"""Sessions in unlikely situations: endless contention, and nobody signed in."""

from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest

from adapters.system import SystemClock, SystemIds, SystemSecrets
from core.domain.errors import Unauthorized, Unavailable
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken
from core.domain.identity.sessions import Session
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.usecases.identity.sessions import Sessions
from ports.crypto import TokenSigner
from ports.identity.accounts import FactLookup
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SESSION = Session(SessionId(UUID(int=1)), UserId(UUID(int=2)), NOW, NOW, NOW + timedelta(days=30), NOW + timedelta(days=90))


class Contended:
    """A token that other requests rotate and roll back for ever, and the key for its exchange."""

    looks = 0

    async def rotate(self, digest: bytes, successor: bytes, by: bytes, at: datetime, holder: Holder | None = None) -> PresentedRefreshToken:
        assert holder is None
        assert len({digest, successor, by}) == 3
        assert at.tzinfo is not None
        self.looks += 1
        return PresentedRefreshToken(
            SESSION,
            Email("ada@example.org"),
            is_platform_owner=False,
            is_live=True,
            is_admitted=False,
            organization_is_active=False,
            rotated=False,
            rotated_at=None,
            rotated_by=None,
        )

    async def get(self, purpose: str) -> bytes:
        return purpose.encode()


def sessions(scene: Contended) -> Sessions:
    return Sessions(
        cast("UnitOfWorkFactory", None),
        scene,
        cast("FactLookup", None),
        cast("TokenSigner", None),
        scene,
        cast("Metrics", None),
        issuer="https://id.example.org",
        access_lifetime=timedelta(minutes=15),
        lifetime=timedelta(days=90),
        system=System(SystemClock(), SystemIds(), SystemSecrets()),
    )


async def test_a_token_that_stays_contended_is_left_alone_for_now() -> None:
    scene = Contended()
    with pytest.raises(Unavailable):
        await sessions(scene).refresh(Token("token"), Client(None, ""))
    assert scene.looks == 3


async def test_nobody_cannot_sign_out() -> None:
    with pytest.raises(Unauthorized):
        await sessions(Contended()).sign_out(SESSION.id, Actor())

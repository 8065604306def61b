"""The times at which a provider's token is valid, and at which it is refreshed."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest

from core.domain.identifiers import IdentityId, ServiceId
from core.domain.identity.upstream.identities import LEEWAY, GrantReadiness, IdentityGrant, expiry, grant_id, readiness
from core.domain.identity.upstream.sign_in import ReceivedTokens
from core.domain.secrets import Secret
from core.frozen import replace

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
IDENTITY, SERVICE = IdentityId(UUID(int=1)), ServiceId(UUID(int=2))
GOOD: Final = IdentityGrant(
    id=grant_id(IDENTITY, SERVICE),
    identity=IDENTITY,
    service=SERVICE,
    client_id="client",
    sealed_access_token=b"a",
    sealed_refresh_token=b"r",
    expires_at=NOW + timedelta(hours=1),
)
SECOND: Final = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        (GOOD, GrantReadiness.READY),
        (replace(GOOD, expires_at=None), GrantReadiness.READY),
        (replace(GOOD, sealed_access_token=None), GrantReadiness.LOST),
        (replace(GOOD, expires_at=NOW + LEEWAY + SECOND), GrantReadiness.READY),
        (replace(GOOD, expires_at=NOW + LEEWAY), GrantReadiness.REFRESH),
        (replace(GOOD, expires_at=NOW, sealed_refresh_token=None), GrantReadiness.LOST),
        (replace(GOOD, expires_at=NOW, refreshing_until=NOW + SECOND), GrantReadiness.WAIT),
        (replace(GOOD, expires_at=NOW, refreshing_until=NOW), GrantReadiness.REFRESH),
    ],
)
def test_what_is_to_be_done(grant: IdentityGrant, expected: GrantReadiness) -> None:
    assert readiness(grant, NOW) is expected


def test_the_row_of_a_service_is_the_same_each_time_and_nobody_elses() -> None:
    assert grant_id(IDENTITY, SERVICE) == grant_id(IDENTITY, SERVICE)
    assert grant_id(IDENTITY, SERVICE) != grant_id(IdentityId(UUID(int=3)), SERVICE)
    assert grant_id(IDENTITY, SERVICE) != grant_id(IDENTITY, ServiceId(UUID(int=3)))


def test_a_token_without_an_end_has_none() -> None:
    token = Secret("x")
    assert expiry(ReceivedTokens(access_token=token), NOW) is None
    assert expiry(ReceivedTokens(access_token=token, expires_in=60), NOW) == NOW + timedelta(minutes=1)

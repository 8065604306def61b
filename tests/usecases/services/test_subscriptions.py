"""Subscriptions, in moments that no request can reach: what was there when the caller was admitted and is gone a moment later."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from core.domain.errors import BadRequest, Unauthorized
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.http.conftest import postern_on


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path) as opened:
        yield opened


async def test_a_service_that_is_gone_since_the_request_came_in_has_ended_its_sessions(postern: Postern) -> None:
    caller = Caller(
        UserId(uuid4()),
        Email("ada@example.org"),
        SessionId(uuid4()),
        is_platform_owner=False,
        organization="acme",
        service="shop",
        organization_id=OrganizationId(uuid4()),
    )
    with pytest.raises(Unauthorized, match="The session has ended"):
        await postern.services.subscriptions.own(caller)


async def test_nobody_has_a_subscription_to_the_platform(postern: Postern) -> None:
    caller = Caller(UserId(uuid4()), Email("ada@example.org"), SessionId(uuid4()), is_platform_owner=False)
    with pytest.raises(BadRequest, match="This needs a token for a service: sign in to the service"):
        await postern.services.subscriptions.own(caller)


async def test_when_nothing_is_due_nothing_is_done(postern: Postern) -> None:
    assert await postern.services.subscriptions.expire_due(None, 10) == (0, None)

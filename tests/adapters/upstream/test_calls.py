"""Calls to providers that answer without end."""

import pytest

from adapters.outbound.client import GuardedClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, SystemNames
from adapters.upstream.oauth import Calls
from core.domain.identity.upstream.sign_in import ProviderAway
from tests.conftest import CapturedLog
from tests.receiver import CRUMBS, receiving


@pytest.mark.parametrize("crumbs", CRUMBS)
async def test_a_provider_that_answers_in_crumbs_is_away(crumbs: str, log: CapturedLog) -> None:
    client = GuardedClient(Dialer(SystemNames(), EVERYWHERE))
    calls = Calls(client, client)
    async with receiving(CRUMBS[crumbs]) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        with pytest.raises(ProviderAway):
            await calls.get(url)
        with pytest.raises(ProviderAway):
            await calls.post(url, {"code": "x"})
    await client.aclose()
    assert [one["why"] for one in log.events("upstream_failed")] == ["malformed_answer"] * 2

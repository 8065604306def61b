"""An application's own token that is bound to a key opens its streams to whoever has the key (RFC 9449)."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Received, refused
from tests.http.federation.bound.proving import ClientKey, Proving
from tests.http.federation.signals.scene import STREAMS, Signalling
from tests.http.people import People
from tests.http.signing_in import unlimited


class ProvingSignals(Proving, Signalling):
    """An application with a key hears of what happens."""

    async def own_token_of(self, key: ClientKey) -> str:
        answer = await self.with_proof(key, {"grant_type": "client_credentials", **self.shop.posted})
        return str(self.kept(answer.ok())["access_token"])

    async def shown(self, token: str, scheme: str, key: ClientKey | None = None, path: str = STREAMS) -> Received:
        proof = [] if key is None else [key.dpop("GET", path, token)]
        return await self.client.request("GET", path, headers=[("authorization", f"{scheme} {token}"), *proof])


@pytest.fixture
def proving(postern: Postern, people: People, log: CapturedLog) -> ProvingSignals:
    return ProvingSignals(postern, people, unlimited(postern), log)


async def test_a_bound_token_opens_the_streams_with_its_key(proving: ProvingSignals) -> None:
    await proving.turned_on()
    key = proving.key()
    token = await proving.own_token_of(key)
    assert (await proving.shown(token, "DPoP", key)).body == b"[]"


async def test_a_bound_token_opens_nothing_without_its_key(proving: ProvingSignals) -> None:
    await proving.turned_on()
    token = await proving.own_token_of(proving.key())
    for answer in (
        await proving.shown(token, "Bearer"),
        await proving.shown(token, "DPoP"),
        await proving.shown(token, "DPoP", proving.key()),
    ):
        assert (answer.status, answer.json()["error"], answer.json()["error_code"]) == (401, "invalid_token", "JWT_ERROR")
        assert dict(answer.headers)["www-authenticate"].startswith("DPoP ")


async def test_a_bound_token_of_an_application_is_no_persons(proving: ProvingSignals) -> None:
    await proving.turned_on()
    key = proving.key()
    token = await proving.own_token_of(key)
    for path in ("/api/user", "/oauth/userinfo"):
        assert refused(await proving.shown(token, "DPoP", key, path)) == (401, "JWT_ERROR")

"""Nonces of proofs: whose proofs need one, and which count."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest

from core.domain.key_proofs import NONCE_PURPOSE, nonce_at
from core.domain.rate_limits import RateLimit
from entrypoints.http.application import build_application
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.federation.bound.proving import Proving
from tests.http.federation.devices import DEVICE_CODE
from tests.http.federation.relying import FORM, TOKEN, oauth
from tests.http.people import People
from tests.http.signing_in import unlimited

OWN: Final = {"grant_type": "client_credentials"}
NEEDED: Final = (400, "use_dpop_nonce")


@asynccontextmanager
async def proving_with(database_url: str, directory: Path, log: CapturedLog, nonces: str) -> AsyncIterator[Proving]:
    async with postern_on(database_url, directory, {"POSTERN_DPOP_NONCES": nonces}) as postern:
        await with_keys(postern)
        with People(postern, database_url) as people:
            yield Proving(postern, people, unlimited(postern), log)


async def test_nobody_needs_a_nonce_until_the_operator_says_so(proving: Proving) -> None:
    answer = await proving.with_proof(proving.key(), OWN, proving.shop.basic)
    assert (answer.status, answer.header("dpop-nonce")) == (200, None)
    # A nonce that nobody asked for says nothing.
    (await proving.with_proof(proving.key(), OWN, proving.shop.basic, nonce="mine")).ok()
    assert oauth(await proving.with_proof(proving.key(), OWN, proving.shop.basic, nonce=7)) == (400, "invalid_dpop_proof")


async def test_applications_that_authenticate_need_one(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with proving_with(database_url, tmp_path, log, "confidential") as proving:
        key = proving.key()
        answer = await proving.with_proof(key, OWN, proving.shop.basic)
        assert oauth(answer) == NEEDED
        nonce = answer.header("dpop-nonce")
        answer = await proving.with_proof(key, OWN, proving.shop.basic, nonce=nonce)
        assert answer.ok()["token_type"] == "DPoP"
        assert answer.header("dpop-nonce")
        # Public applications, and requests with a token, need none: their libraries know no nonces.
        token = (await proving.bound(key, proving.page))["access_token"]
        (await proving.userinfo_with(key, token)).ok()


async def test_the_nonce_of_an_hour_ago_and_one_of_nobody(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with proving_with(database_url, tmp_path, log, "confidential") as proving:
        secret, now = await proving.postern.foundation.server_secrets.get(NONCE_PURPOSE), proving.postern.foundation.clock.now()
        for nonce in (
            nonce_at(now - timedelta(hours=1), secret),
            nonce_at(now - timedelta(minutes=3), secret),
            nonce_at(now + timedelta(minutes=2), secret),
            nonce_at(now, b"x" * 32),
            "",
            "ä",
            "x" * 5000,
        ):
            assert oauth(await proving.with_proof(proving.key(), OWN, proving.shop.basic, nonce=nonce)) == NEEDED
        (await proving.with_proof(proving.key(), OWN, proving.shop.basic, nonce=nonce_at(now, secret))).ok()


async def test_everybody_needs_one(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    async with proving_with(database_url, tmp_path, log, "everybody") as proving:
        key, code = proving.key(), await proving.code(proving.page)
        answer = await proving.redeem_with(key, proving.page, code)
        assert oauth(answer) == NEEDED
        nonce = answer.header("dpop-nonce")
        token = proving.kept((await proving.redeem_with(key, proving.page, code, nonce=nonce)).ok())["access_token"]
        answer = await proving.userinfo_with(key, token)
        assert (answer.status, answer.header("www-authenticate")) == (
            401,
            'DPoP error="use_dpop_nonce", algs="ES256 ES384 EdDSA PS256 RS256"',
        )
        (await proving.userinfo_with(key, token, nonce=answer.header("dpop-nonce"))).ok()


async def test_a_stranger_who_asks_for_nonces(database_url: str, tmp_path: Path, log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request counts by its address, and not against the application that it names: else a stranger could lock the application out."""
    few = RateLimit("few", burst=5, seconds_per_request=3600)
    for name in ("key_proofs.KEY_PROOFS", "routes.federation.grants.OF_CLIENT", "machinery.clients.CLIENT"):
        monkeypatch.setattr(f"entrypoints.http.{name}", few)
    async with proving_with(database_url, tmp_path, log, "confidential") as proving:
        application = build_application(proving.postern, SETTINGS)
        servers = Client(application, "203.0.113.10")
        for address, grant in (("203.0.113.8", {"grant_type": DEVICE_CODE, "device_code": "x"}), ("203.0.113.9", OWN)):
            body = urlencode({**grant, "client_id": proving.shop.client_id, "client_secret": "cs_none"}).encode()
            stranger = Client(application, address)
            answers = [await stranger.request("POST", TOKEN, body=body, headers=[FORM, proving.key().dpop()]) for _ in range(8)]
            assert [answer.status for answer in answers] == [400] * 5 + [429] * 3
            # Its own requests have no proof, and need none.
            own = await servers.request("POST", TOKEN, body=urlencode(OWN).encode(), headers=[FORM, *proving.shop.basic])
            assert own.status == 200, grant

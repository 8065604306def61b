"""`POSTERN_RATE_LIMITS=off` lifts every limit: by address, by account, by device and by API key."""

from collections.abc import AsyncIterator
from pathlib import Path

import pyotp
import pytest

from adapters.crypto.key_ring import EncryptionKey
from core.domain.identity.accounts import EMAIL_CHANGES, PASSWORD_GUESSES
from core.domain.identity.mfa import CODES_AT_SET_UP
from core.domain.identity.sign_in import TRIES_FROM_ANYWHERE
from core.domain.services.service_users import ADDITIONS
from core.domain.tokens import KeyPurpose
from core.frozen import replace
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.http.application import build_application
from entrypoints.settings import read
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client
from tests.http.people import BASE_URL, People
from tests.http.service_interface import Backend
from tests.http.signing_in import PASSWORD
from tests.http.subscribing import Market
from tests.signing import current_key

database_url, people = http.database_url, http.people


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    settings = read(
        {
            "POSTERN_DATABASE_URL": database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_BASE_URL": BASE_URL,
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
            "POSTERN_ARGON2_MEMORY": "8KiB",
            "POSTERN_ARGON2_PASSES": "1",
            "POSTERN_RATE_LIMITS": "off",
        }
    )
    async with open_postern(settings) as opened:
        async with opened.foundation.unit_of_work() as uow:
            await uow.signing_keys.lock_for_update()
            for purpose in KeyPurpose:
                await uow.signing_keys.add(current_key(purpose))
            await uow.commit()
        yield opened


@pytest.fixture
def client(postern: Postern) -> Client:
    return Client(build_application(postern, replace(http.SETTINGS, rate_limits=False)), "192.0.2.1")


async def test_nothing_is_answered_429(postern: Postern, people: People, client: Client, log: CapturedLog) -> None:
    market = Market(postern, people, client, log)
    ada = await people.with_password(PASSWORD, "ada@example.org")

    for _ in range(TRIES_FROM_ANYWHERE.burst + 2):
        assert (await client.post("/api/auth/login", {"email": ada.email, "password": "wrong horse"})).status == 401
    answer = await client.post("/api/auth/login", {"email": ada.email, "password": PASSWORD})
    assert answer.status == 200
    token = answer.json()["access_token"]

    for _ in range(PASSWORD_GUESSES.burst + 2):
        body = {"current_password": "wrong horse", "new_password": "a fresh and lively password"}
        assert (await client.post("/api/user/change-password", body, token=token)).status == 401

    for number in range(EMAIL_CHANGES.burst + 2):
        answer = await client.request("PATCH", "/api/user", body={"email": f"{number}@example.org"}, token=token)
        assert answer.status == 200, answer.body

    secret = (await client.post("/api/user/mfa/setup", token=token)).json()["secret"]
    for _ in range(CODES_AT_SET_UP.burst + 2):
        wrong = f"{(int(pyotp.TOTP(secret).now()) + 1) % 1_000_000:06}"
        assert (await client.post("/api/user/mfa/verify", {"code": wrong}, token=token)).status == 400

    shop = Backend(market, market.shop)
    for _ in range(ADDITIONS.burst + 2):
        assert (await shop.ask("POST", body={"email": "eve@example.org"})).status == 200
    assert people.rows("select limit_name from rate_limit_buckets where limit_name like 'service%%' or limit_name like 'email%%'") == []

"""Unreadable ID tokens are refused, without a call to the provider."""

from typing import Any

import pytest

from adapters.upstream.keys import LONGEST_TOKEN, ProviderKeys
from core.domain.identity.upstream.claims import IdentityNotAsserted

HEADER = "eyJhbGciOiJSUzI1NiJ9"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "x.e30.x",
        "bnVsbA.e30.x",  # null
        "W10.e30.x",  # []
        "IngiCg.e30.x",  # "x"
        "ey.e30.x",
        f"{HEADER}.a.x",
        f"{HEADER}.e30\u00e9.x",
        "W1tbW1tbW1tb" * 2000 + ".e30.x",  # [[[…
        "x" * (LONGEST_TOKEN + 1),
    ],
)
async def test_a_token_that_cannot_be_read(token: str) -> None:
    calls: Any = None
    with pytest.raises(IdentityNotAsserted):
        await ProviderKeys(calls).verified(token, "https://id.example/keys")

"""A hint names a person and a client only if it says both as we write them."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from core.usecases.federation.logouts import read_hint


class OwnTokens:
    """Tokens of ours, whatever they say."""

    def __init__(self, claims: Mapping[str, Any]) -> None:
        self._claims = claims

    async def verify_id(self, token: str) -> Mapping[str, Any]:
        assert token == "a.b.c"
        return self._claims


@pytest.mark.parametrize("claims", [{}, {"sub": "nobody", "aud": "billing-app"}, {"sub": str(uuid4())}])
async def test_a_token_that_names_no_person_or_no_client_is_no_hint(claims: Mapping[str, Any]) -> None:
    assert await read_hint(OwnTokens(claims), "a.b.c") is None  # type: ignore[arg-type]  # it verifies nothing else


async def test_a_client_id_is_a_text() -> None:
    user = uuid4()
    hint = await read_hint(OwnTokens({"sub": str(user), "aud": "billing-app"}), "a.b.c")  # type: ignore[arg-type]  # as above
    assert hint is not None
    assert (hint.user, hint.client) == (user, "billing-app")

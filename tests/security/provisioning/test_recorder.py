"""The list of requests shows what the other system said to members who manage integrations. It must not carry our token out to them."""

import base64
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import pytest

from adapters.outbound.scim import without_secret
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.federation.provisioning.scene import ProvisioningScene

TOKEN: Final = "Scim-live_7Qa91c3Zt/Wk+8LmN0pRx2vB"
PATH: Final = "/api/organizations/acme/services/shop/provisioning"


def of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "in other letters": str.swapcase,
    "backwards": lambda token: token[::-1],
    "base64": of,
    "base64, with what the header has before it": lambda token: of(f"Bearer {token}"),
    "base64 of two bytes before it": lambda token: of(f"::{token}"),
    "base64 for addresses, without padding": lambda token: base64.urlsafe_b64encode(token.encode()).decode().rstrip("="),
    "base64 behind other letters": lambda token: f"token{of(token)}",
    "base64 in lines": lambda token: " ".join(of(token)[at : at + 16] for at in range(0, len(of(token)), 16)),
    "base64 backwards": lambda token: of(token)[::-1],
    "base64 of it backwards": lambda token: of(token[::-1]),
    "hexadecimal": lambda token: token.encode().hex(),
    "hexadecimal, large": lambda token: token.encode().hex().upper(),
    "for addresses": lambda token: quote(token, safe=""),
    "each letter for addresses": lambda token: "".join(f"%{ord(one):02X}" for one in token),
    "half of it in base64": lambda token: of(token[: len(token) // 2]),
}


def leaks(said: str, form: str) -> bool:
    """Whether a part of the form, long enough to help, stands in the text."""
    return any(form[at : at + 10] in said for at in range(max(len(form) - 9, 1)))


@pytest.mark.parametrize("form", FORMS)
async def test_the_token_is_masked_in_each_form(scene: ProvisioningScene, far: FakeRemoteSystem, form: str) -> None:
    far.token = TOKEN
    scene.log.remember(TOKEN)
    said_back = FORMS[form](TOKEN)
    far.refuses = {"ada@acme.example": (400, "invalidValue", f"The header was: {said_back} (not good)")}
    scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    (failed,) = [one for one in (await scene.request("GET", f"{PATH}/exchanges")).json() if one["has_failed"]]
    assert failed["said"].startswith("The header was: …")
    assert not leaks(failed["said"], said_back)
    assert not leaks(str(scene.people.rows("select said from provisioning_exchanges")), said_back)


def test_what_has_nothing_of_the_token_stays() -> None:
    said = "Attribute name.givenName is required by urn:ietf:params:scim:schemas:core:2.0:User, see /docs/errors#invalidValue (0x1f)"
    assert without_secret(said, TOKEN) == said
    assert without_secret("deadbeef" * 8, TOKEN) == "deadbeef" * 8


def test_the_longest_token_and_the_longest_text_hold_nobody_up() -> None:
    secret = ("Aa0-" * 1000)[:4000]
    spent = []
    for said in ("QWEwLUFhMC1B" * 25, "%41" * 100, "z" * 300, "61" * 150, "a/" * 150):
        turns = []
        for _ in range(5):
            began = time.thread_time()
            without_secret(said[:300], secret)
            turns.append(time.thread_time() - began)
        spent.append(min(turns))
    assert max(spent) < 0.005

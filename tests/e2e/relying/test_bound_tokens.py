"""Tokens bound to a key (DPoP, RFC 9449): openid-client and oauth4webapi, as they come, sign a person in, ask who that is, and refresh;
with a secret and without one, at a server that asks for nonces and at one that does not. The same walk shows what its tokens are without
the key.

`make .venv/ready-node` installs the libraries, by npm; without them, there are no tests of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest

from ops.browser.signing import SigningBrowser
from ops.middleware.installed import INSTALLED
from tests.e2e.conftest import Installation
from tests.e2e.relying.conftest import CALLBACK, EMAIL, RunningProvider, provider_on
from tests.e2e.relying.nodes import run_in_node
from tests.patience import PATIENCE
from tests.places import ROOT

LIBRARIES: Final = ("openid-client", "oauth4webapi")
TOKEN, USERINFO = "/auth/token", "/oauth/userinfo"
_WALK: Final = [f"{TOKEN} 200", f"{USERINFO} 200", f"{TOKEN} 200", f"{USERINFO} 200"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (INSTALLED / "node_modules" / "openid-client").exists(), reason="make .venv/ready-node installs it, by npm"),
]


@pytest.fixture(scope="module")
def asking_for_nonces(e2e_directory: Path, installation: Installation) -> Iterator[RunningProvider]:
    with provider_on(e2e_directory / "relying-nonces", installation, POSTERN_DPOP_NONCES="everybody") as provider:
        yield provider


def walk(provider: RunningProvider, kind: str, library: str, ada: SigningBrowser, place: Path) -> dict[str, Any]:
    application = provider.page if kind == "public" else provider.shop
    arguments = [provider.issuer, application.client_id, CALLBACK, *filter(None, [application.secret])]
    told = run_in_node(place, f"{library.replace('-', '_')}_bound.mjs", arguments, lambda address: ada.arrive(address, CALLBACK))
    outcome: dict[str, Any] = json.loads(told)
    return outcome


def require_bound(provider: RunningProvider, kind: str, outcome: dict[str, Any]) -> None:
    # The libraries write the type in small letters.
    assert outcome["types"] == ["dpop", "dpop"]
    assert outcome["emails"] == [EMAIL, EMAIL]
    assert jwt.decode(outcome["token"], options={"verify_signature": False})["cnf"] == {"jkt": outcome["thumbprint"]}
    # Another key redeems no code of this one, and nobody redeems it without a key.
    assert outcome["codes"] == ["invalid_grant", "invalid_grant"]
    assert outcome["userinfo"] == ["401 dpop invalid_token", "401 dpop invalid_token"]
    # A public client keeps its key. One that authenticates may come with another, and not without one.
    assert outcome["refreshes"] == ["invalid_grant", "dpop" if kind == "confidential" else "invalid_grant"]
    answer = httpx.get(f"{provider.issuer}{USERINFO}", headers={"Authorization": f"Bearer {outcome['token']}"}, timeout=PATIENCE)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith('DPoP error="invalid_token"')


@pytest.mark.parametrize("kind", ["public", "confidential"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_with_a_key(provider: RunningProvider, ada: SigningBrowser, tmp_path: Path, library: str, kind: str) -> None:
    outcome = walk(provider, kind, library, ada, tmp_path)
    require_bound(provider, kind, outcome)
    assert outcome["walked"] == _WALK


@pytest.mark.parametrize("kind", ["public", "confidential"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_is_asked_for_nonces(
    asking_for_nonces: RunningProvider, ada: SigningBrowser, tmp_path: Path, library: str, kind: str
) -> None:
    outcome = walk(asking_for_nonces, kind, library, ada, tmp_path)
    require_bound(asking_for_nonces, kind, outcome)
    # It asks once without a nonce, and keeps the nonce of each answer.
    assert outcome["walked"] == [f"{TOKEN} 400", *_WALK]


def test_the_guide_names_the_versions_that_are_tried() -> None:
    pinned = json.loads((ROOT / "ops/middleware/package.json").read_text())["dependencies"]
    guide = (ROOT / "docs/guides/apis/bound-tokens.md").read_text()
    for name in LIBRARIES:
        assert f"{name} {pinned[name]}" in guide

"""The code of the guide "Bind tokens to a key" makes proofs that count."""

import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.http.federation.bound.proving import Proving
from tests.http.federation.relying import TOKEN, USERINFO, claims_of
from tests.http.people import BASE_URL
from tests.places import ROOT

_GUIDE: Final = (ROOT / "docs" / "guides" / "apis" / "bound-tokens.md").read_text(encoding="utf-8")
OWN: Final = {"grant_type": "client_credentials"}


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", _GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


async def test_the_code_for_a_server(proving: Proving) -> None:
    code = block("python").partition("token_endpoint =")[0].replace("import httpx, jwt", "import jwt")
    made: dict[str, Any] = {}
    exec(compile(code, "guide", "exec"), made)  # noqa: S102 - the guide is ours
    proof: Callable[..., str] = made["proof"]
    shown = [*proving.shop.basic, ("dpop", proof("POST", BASE_URL + TOKEN))]
    token = (await proving.ask(fields=OWN, headers=shown)).ok()["access_token"]
    assert "jkt" in claims_of(token)["cnf"]
    fields = {"grant_type": "authorization_code", "code": await proving.code(proving.page), "redirect_uri": "https://app.example/callback"}
    fields |= {"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", **proving.page.posted}
    bound = proving.kept((await proving.ask(fields=fields, headers=[("dpop", proof("POST", BASE_URL + TOKEN))])).ok())
    access = bound["access_token"]
    headers = [("authorization", f"DPoP {access}"), ("dpop", proof("GET", f"{BASE_URL}{USERINFO}?a=b", access))]
    (await proving.client.request("GET", USERINFO, headers=headers)).ok()


@pytest.mark.skipif(shutil.which("node") is None, reason="the code for a browser runs in Node")
async def test_the_code_for_a_browser(proving: Proving) -> None:
    """Node has the same WebCrypto, and no IndexedDB."""
    code = block("js").replace("const kept = await open()", "const kept = 0")
    code = code.replace("const found = await wait(kept", "const found = null && wait(kept")
    code = code.replace('await wait(kept.transaction("keys", "readwrite")', '0 && await wait(kept.transaction("keys", "readwrite")')
    code += f'\nconsole.log(await proof("POST", "{BASE_URL}{TOKEN}?a=b#c"))\n'
    made = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True).stdout.strip()
    shown = [*proving.shop.basic, ("dpop", made)]
    assert (await proving.ask(fields=OWN, headers=shown)).ok()["token_type"] == "DPoP"

"""The code of the guide "Bind tokens to a key" in a browser: its key stays where it is, and outlives the page."""

import json
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

from core.domain.federation.oauth.oidc import TOKEN_ENDPOINT
from entrypoints.bootstrap import Postern
from ops.browser.chromium import Chromium
from ops.browser.page import Page, new_page
from tests.browser.checks import enter
from tests.browser.conftest import Site
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, answer_in
from tests.http.federation.relying import USERINFO, claims_of
from tests.http.people import BASE_URL, People
from tests.http.signing_in import PASSWORD
from tests.places import ROOT

EMAIL: Final = "ada@example.org"
GUIDE: Final = (ROOT / "docs" / "guides" / "apis" / "bound-tokens.md").read_text(encoding="utf-8")
SCRIPT: Final = "https://app.example.com/bound.js"
TOKEN: Final = BASE_URL + TOKEN_ENDPOINT

# What the page of the application does with the functions of the guide.
_TOKENS: Final = """
  const headers = { DPoP: await proof("POST", token) };
  const answer = await fetch(token, { method: "POST", headers, body: new URLSearchParams(given) });
  return { ...await answer.json(), status: answer.status };
"""
_CALL: Final = """
  const answer = await call("GET", userinfo, given);
  return { ...await answer.json(), status: answer.status, challenge: answer.headers.get("www-authenticate") };
"""
_BEARER: Final = """
  const answer = await fetch(userinfo, { headers: { Authorization: `Bearer ${given}` } });
  return { status: answer.status, challenge: answer.headers.get("www-authenticate") };
"""
_KEY: Final = """
  const { publicKey, privateKey } = await keyPair();
  const taken = kind => crypto.subtle.exportKey(kind, privateKey).then(() => "taken", error => error.name);
  const { kty, crv, x, y } = await crypto.subtle.exportKey("jwk", publicKey);
  return { jwk: { crv, kty, x, y }, taken: [await taken("jwk"), await taken("pkcs8")] };
"""


async def run(page: Page, script: str, given: Any = None) -> Any:
    found = f"const {{ call, keyPair, proof }} = await import({SCRIPT!r}), given = {json.dumps(given)}"
    return await page.evaluate(f"(async () => {{ {found}, token = {TOKEN!r}, userinfo = {BASE_URL + USERINFO!r}; {script} }})()")


def thumbprint(jwk: dict[str, str]) -> str:
    digest = sha256(json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_refused(answer: dict[str, Any]) -> bool:
    return bool(answer["status"] == 401 and answer["challenge"].startswith('DPoP error="invalid_token"'))


async def test_the_key_outlives_the_page_and_never_leaves_the_browser(
    scripted_page: Page, site: Site, chromium: Chromium, postern: Postern, people: People, client: Client, log: CapturedLog
) -> None:
    scene, page = Arriving(postern, people, client, log), scripted_page
    await people.with_password(PASSWORD, EMAIL)
    (code_of_guide,) = re.findall(r"^```js\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    site.scripts[SCRIPT] = code_of_guide.encode()

    # The person signs in, and the page of the application redeems the code with a proof.
    await page.open(scene.asking())
    await enter(page, {"Email address": EMAIL})
    await enter(page, {"Password": PASSWORD})
    await page.click("Allow")
    await page.arrived(CALLBACK)
    public = {"client_id": scene.client_id(scene.app)}
    redeemed = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **public}
    code = answer_in(await page.place())["code"]
    first = await run(page, _TOKENS, {**redeemed, "code": code})
    assert (first["status"], first["token_type"]) == (200, "DPoP"), first
    log.remember(code, first["access_token"], first["refresh_token"])
    key = await run(page, _KEY)
    assert claims_of(first["access_token"])["cnf"] == {"jkt": thumbprint(key["jwk"])}

    # After a reload it is the same key, and no script reads it out.
    await page.reload()
    assert await run(page, _KEY) == key
    assert key["taken"] == ["InvalidAccessError", "InvalidAccessError"]
    answer = await run(page, _CALL, first["access_token"])
    assert (answer["status"], answer["email"]) == (200, EMAIL), answer
    second = await run(page, _TOKENS, {"grant_type": "refresh_token", "refresh_token": first["refresh_token"], **public})
    assert (second["status"], second["token_type"]) == (200, "DPoP"), second
    log.remember(second["access_token"], second["refresh_token"])

    # Whoever has the tokens alone has nothing: not without a proof, and not in another browser, which has a key of its own.
    assert is_refused(await run(page, _BEARER, second["access_token"]))
    async with new_page(chromium, BASE_URL, scripts=True) as other:
        await other.open(CALLBACK)
        assert is_refused(await run(other, _CALL, second["access_token"]))
        stolen = await run(other, _TOKENS, {"grant_type": "refresh_token", "refresh_token": second["refresh_token"], **public})
        assert (stolen["status"], stolen["error"]) == (400, "invalid_grant")
    assert (await run(page, _CALL, second["access_token"]))["status"] == 200

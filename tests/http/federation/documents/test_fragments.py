"""The way of a front end in the browser, as keycloak-js goes it: a code in the fragment, and requests that send cookies along."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Pairs, Received
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, told
from tests.http.people import People, Person
from tests.http.signing_in import UNLIMITED, unlimited

PAGE: Final = "https://app.example.com"
LISTED: Final = "https://listed.example"
FORM: Final = ("content-type", "application/x-www-form-urlencoded")
_CREDENTIALED: Final = (
    ("POST", "/auth/token"),
    ("POST", "/oauth/token"),
    ("POST", "/auth/revoke"),
    ("POST", "/oauth/revoke"),
    ("GET", "/oauth/userinfo"),
    ("POST", "/oauth/userinfo"),
)
_OTHERS: Final = (
    ("POST", "/oauth/par"),
    ("POST", "/auth/device/code"),
    ("POST", "/oauth/introspect"),
    ("POST", "/oauth/register"),
    ("GET", "/.well-known/openid-configuration"),
    ("GET", "/api/user"),
    ("GET", "/oauth/authorize"),
)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
def ada(scene: Arriving) -> Person:
    person = scene.people.add("ada@example.org")
    scene.allow(person)
    return scene.people.session_of(person)


def in_fragment(location: str | None) -> Mapping[str, str]:
    assert location is not None
    assert location.startswith(f"{CALLBACK}#"), location
    return dict(parse_qsl(location.partition("#")[2], strict_parsing=True))


async def _asked(scene: Arriving, method: str, path: str, fields: Mapping[str, str] | None, *headers: tuple[str, str]) -> Received:
    body = None if fields is None else urlencode({"client_id": scene.client_id(scene.app), **fields}).encode()
    return await scene.unlimited.request(method, path, body=body, headers=[("origin", PAGE), FORM, *headers])


async def test_a_front_end_signs_in_refreshes_and_signs_out_with_cookies_along(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    said = in_fragment((await browser.request("GET", scene.asking(response_mode="fragment", nonce="n"))).header("location"))
    assert set(said) == {"code", "state", "iss"}
    cookies = ("cookie", "; ".join(f"{name}={value}" for name, value in browser.cookies.items()))
    redeem = {"grant_type": "authorization_code", "code": said["code"], "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    tokens = await _asked(scene, "POST", "/auth/token", redeem, cookies)
    kept: dict[str, Any] = tokens.ok()
    scene.log.remember(*(kept[name] for name in ("access_token", "refresh_token", "id_token")))
    refreshed = await _asked(scene, "POST", "/auth/token", {"grant_type": "refresh_token", "refresh_token": kept["refresh_token"]}, cookies)
    scene.log.remember(*(refreshed.ok()[name] for name in ("access_token", "refresh_token", "id_token")))
    about = await _asked(scene, "GET", "/oauth/userinfo", None, ("authorization", f"Bearer {refreshed.json()['access_token']}"), cookies)
    assert about.ok()["sub"] == str(ada.user)
    for answer in (tokens, refreshed, about):
        assert (answer.header("access-control-allow-origin"), answer.header("access-control-allow-credentials")) == (PAGE, "true")
        assert answer.header("set-cookie") is None
    leaving = {"client_id": scene.client_id(scene.app), "id_token_hint": kept["id_token"], "post_logout_redirect_uri": CALLBACK}
    out = await browser.request("GET", f"/oauth/logout?{urlencode(leaving)}")
    assert (out.status, (out.header("location") or "").startswith(CALLBACK)) == (303, True)


async def test_a_person_who_signs_in_first_gets_there_too(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking(response_mode="fragment", prompt="consent"))
    await tab.send(answer="allow")
    assert set(in_fragment(tab.page.refresh)) == {"code", "state", "iss"}


async def test_a_refusal_comes_in_the_fragment(scene: Arriving) -> None:
    answer = await scene.browser().request("GET", scene.asking(response_mode="fragment", prompt="none"))
    assert in_fragment(answer.header("location"))["error"] == "login_required"


async def test_a_fragment_needs_a_challenge_also_of_a_client_with_a_secret(scene: Arriving, ada: Person) -> None:
    scene.log.remember(scene.secret(scene.app))
    browser = scene.signed_in(ada)
    without = {"code_challenge": None, "code_challenge_method": None}
    assert "code" in told(await browser.request("GET", scene.asking(**without)))
    for mode in ("fragment", "code_fragment"):
        answer = await browser.request("GET", scene.asking(response_mode=mode, **without))
        assert "error=invalid_request" in (answer.header("location") or "")
        assert "access_token" not in (answer.header("location") or "")
    assert "error" in told(await browser.request("GET", scene.asking(response_mode="code_fragment")))


async def test_cookies_pass_at_three_endpoints_from_registered_origins_alone(scene: Arriving) -> None:
    """The operator's list gives no credentials, and takes none away."""
    client = unlimited(scene.postern, replace(UNLIMITED, cors_origins=(LISTED, PAGE)))

    async def allowed(method: str, path: str, origin: str, more: Pairs = ()) -> tuple[str | None, str | None]:
        answer = await client.request(method, path, headers=[("origin", origin), *more])
        return answer.header("access-control-allow-origin"), answer.header("access-control-allow-credentials")

    for method, path in _CREDENTIALED:
        for verb, more in ((method, []), ("OPTIONS", [("access-control-request-method", method)])):
            assert await allowed(verb, path, PAGE, more) == (PAGE, "true")
            assert await allowed(verb, path, LISTED, more) == (LISTED, None)
            for foreign in ("https://evil.example", "null", "*", f"{PAGE}.evil.example", "http://app.example.com", "http://localhost:6274"):
                assert await allowed(verb, path, foreign, more) == (None, None)
    for method, path in _OTHERS:
        assert (await allowed(method, path, PAGE))[1] is None


async def test_cookies_change_no_answer(scene: Arriving, ada: Person) -> None:
    """All cookies of a signed-in browser, without any other credential, with a wrong one, and with a token."""
    browser = scene.signed_in(ada)
    await browser.request("GET", scene.asking(prompt="login"))
    cookies = ("cookie", "; ".join(f"{name}={value}" for name, value in browser.cookies.items()))
    assert len(browser.cookies) > 1
    wrong = {"grant_type": "refresh_token", "refresh_token": "A" * 43}
    bearer = ("authorization", f"Bearer {await scene.people.token(ada)}")
    for method, path, fields, headers in (
        ("GET", "/oauth/userinfo", None, []),
        ("GET", "/oauth/userinfo", None, [bearer]),
        ("POST", "/oauth/userinfo", {}, []),
        ("POST", "/auth/revoke", {"token": "A" * 43}, []),
        ("POST", "/auth/token", wrong, []),
        ("POST", "/auth/token", {}, []),
    ):
        one, other = [await _asked(scene, method, path, fields, *headers, *more) for more in ([], [cookies])]
        assert one.status == other.status, path
        if one.body:
            assert {**one.json(), "timestamp": ""} == {**other.json(), "timestamp": ""}, path
        assert other.header("set-cookie") is None

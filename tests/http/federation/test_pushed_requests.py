"""`/oauth/par`: authorization requests that applications push here first."""

from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import pytest

from core.domain.federation.oauth.authorization_parameters import Parameters
from core.domain.federation.oauth.authorizations import UnknownRecipient
from core.domain.identifiers import ClientId
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, CHALLENGE, Arriving, is_page, told
from tests.http.people import Person
from tests.http.tenants import UsedService

PAR = "/oauth/par"


async def push(scene: Arriving, service: UsedService | None = None, /, basic: str | None = None, **changes: str | None) -> Received:
    asked: dict[str, str | None] = {
        "client_id": scene.client_id(service or scene.app),
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email",
        "state": "pushed",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    headers = [("content-type", "application/x-www-form-urlencoded")]
    if basic is not None:
        headers.append(("authorization", f"Basic {b64encode(basic.encode()).decode()}"))
    body = urlencode({name: value for name, value in asked.items() if value is not None}).encode()
    return await scene.unlimited.request("POST", PAR, body=body, headers=headers)


async def name(scene: Arriving, service: UsedService | None = None, /, **changes: str | None) -> str:
    return str((await push(scene, service, **changes)).ok(201)["request_uri"])


def going(scene: Arriving, request_uri: str, service: UsedService | None = None, **more: str) -> str:
    return f"{AUTHORIZE}?{urlencode({'client_id': scene.client_id(service or scene.app), 'request_uri': request_uri, **more})}"


async def test_a_request_that_was_left_here_is_good_for_one_code(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    pushed = (await push(scene)).ok(201)
    assert pushed["expires_in"] == 60
    assert pushed["request_uri"].startswith("urn:ietf:params:oauth:request_uri:")
    scene.log.remember(pushed["request_uri"])
    (kept,) = scene.people.rows("select *, expires_at - now() <= interval '60 seconds' as soon from pushed_requests")
    assert kept["soon"]
    assert pushed["request_uri"].rpartition(":")[2] not in repr(kept)
    # Parameters beside the request URI do not count.
    place = going(scene, pushed["request_uri"], redirect_uri="https://evil.example/", state="mine", scope="openid profile", prompt="login")
    said = told(await browser.request("GET", place))
    assert said["state"] == "pushed"
    assert scene.code(said["code"])["scopes"] == ["openid", "email"]
    assert scene.log.events("request")[-1]["db_round_trips"] == 4
    is_page(await browser.request("GET", place), 400, "was already used")
    assert scene.people.rows("select * from pushed_requests") == []


async def test_of_fifty_browsers_one_gets_it(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    for _ in range(3):
        place = going(scene, await name(scene))
        answers = await all_at_once(*[lambda place=place: browser.request("GET", place)] * 50)
        assert sorted(answer.status for answer in answers) == [303, *[400] * 49]
    assert len(scene.codes()) == 3


async def test_it_may_lead_through_a_sign_in(scene: Arriving) -> None:
    tab = await scene.browser().tab().open(going(scene, await name(scene, login_hint="ada@example.org")))
    assert tab.place.startswith("/ui/sign-in")
    assert tab.page.inputs["email"]["value"] == "ada@example.org"
    # A reload of the sign-in page no longer needs the request URI.
    assert (await tab.open(tab.place)).status == 200


async def test_it_does_not_last_and_belongs_to_its_application(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    other = scene.application(scene.tenants.add("globex"), "other", CALLBACK)
    request_uri = await name(scene)
    is_page(await browser.request("GET", going(scene, request_uri, other)), 400, "was already used")
    is_page(await browser.request("GET", going(scene, request_uri[:-1])), 400, "was already used")
    # Another caller's try has not used the request up.
    scene.people.change("update pushed_requests set expires_at = now()")
    is_page(await browser.request("GET", going(scene, request_uri)), 400, "has expired")
    again = await name(scene)
    scene.set(scene.app, redirect_uris=["https://app.example.com/elsewhere"])
    is_page(await browser.request("GET", going(scene, again)), 400, "a redirect URI that is not registered")


async def test_who_has_a_secret_shows_it(scene: Arriving) -> None:
    secret = scene.secret(scene.app)
    client = scene.client_id(scene.app)
    for wrong in (
        await push(scene),
        await push(scene, client_secret=f"{secret}x"),
        await push(scene, client_id=None, basic=f"{client}:wrong"),
        await push(scene, client_id=str(scene.postern.foundation.ids.new())),
    ):
        assert (wrong.status, wrong.json()["error"]) == (401, "invalid_client")
    (await push(scene, client_secret=secret)).ok(201)
    (await push(scene, client_id=None, basic=f"{client}:{secret}")).ok(201)
    # Then the application may omit PKCE.
    (await push(scene, client_secret=secret, code_challenge=None, code_challenge_method=None)).ok(201)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"redirect_uri": None}, "invalid_request"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "phone"}, "invalid_scope"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        ({"request_uri": "urn:ietf:params:oauth:request_uri:abc"}, "invalid_request"),
        ({"registration": "{}"}, "registration_not_supported"),
        ({"id_token_hint": "a.b.c"}, "invalid_request"),
        ({"state": "a" * 2001}, "invalid_request"),
        ({"client_id": None}, "invalid_request"),
    ],
)
async def test_what_is_wrong_is_told_at_once(scene: Arriving, changes: dict[str, Any], word: str) -> None:
    answer = await push(scene, **changes)
    assert (answer.status, answer.json()["error"]) == (400, word)
    assert b"evil" not in answer.body
    assert scene.people.rows("select * from pushed_requests") == []


async def test_a_server_with_nothing_to_show_leaves_nothing(scene: Arriving, ada: Person) -> None:
    backend = scene.application(scene.acme, "backend", CALLBACK, kind="api")
    answer = await push(scene, backend)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_client")
    assert scene.people.rows("select * from pushed_requests") == []
    secret = scene.secret(backend)
    request_uri = (await push(scene, backend, f"{scene.client_id(backend)}:{secret}")).ok(201)["request_uri"]
    scene.people.change("delete from client_secrets")
    answer = await scene.signed_in(ada).request("GET", going(scene, request_uri, backend))
    assert told(answer)["error"] == "unauthorized_client"


async def test_an_application_that_has_just_gone_leaves_nothing(scene: Arriving) -> None:
    gone = ClientId(str(scene.postern.foundation.ids.new()))
    with pytest.raises(UnknownRecipient):
        await scene.postern.federation.pushed_requests.push(Parameters([("redirect_uri", CALLBACK)]), gone)


async def test_nothing_is_said_twice(scene: Arriving) -> None:
    body = f"client_id={scene.client_id(scene.app)}&state=a&state=b".encode()
    answer = await scene.unlimited.request("POST", PAR, body=body, headers=[("content-type", "application/x-www-form-urlencoded")])
    assert (answer.status, answer.json()["error"]) == (400, "invalid_request")


async def test_an_application_of_a_suspended_organization_leaves_nothing(scene: Arriving) -> None:
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    answer = await push(scene)
    assert (answer.status, answer.json()["error"]) == (403, "access_denied")


async def test_the_token_of_a_person_says_who_is_expected(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    request_uri = await name(scene, id_token_hint=await scene.id_token(scene.people.add()), prompt="none")
    assert told(await browser.request("GET", going(scene, request_uri)))["error"] == "login_required"
    request_uri = await name(scene, id_token_hint=await scene.id_token(ada), prompt="none")
    assert "code" in told(await browser.request("GET", going(scene, request_uri)))

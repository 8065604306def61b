"""Applications behind a proxy: set up by members, checked at each request, signed in to and out of at their own host."""

from base64 import b64encode
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
import trio

from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.user_keys import WantedUserKey
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received, refused
from tests.http.federation.front_channel.test_frames import frames_in, policy_of, signed_in_to
from tests.http.federation.proxied.behind_proxies import COOKIE, HOST, PAGE, USUAL, Proxied, set_cookies, told
from tests.http.federation.relying import FORM
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import BASE_URL, People
from tests.patience import PATIENCE

NAVIGATES = [("accept", PAGE), ("sec-fetch-mode", "navigate")]


@pytest.fixture
def wiki(postern: Postern, people: People, client: Client, log: CapturedLog) -> Proxied:
    return Proxied(postern, people, client, log)


async def test_a_person_signs_in_at_the_base_address_and_the_cookie_opens_the_host(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    answer = await wiki.ask(secret, "/page", cookie=cookie)
    assert told(answer) == {
        "remote-user": "ada@acme.example",
        "remote-email": "ada@acme.example",
        "remote-name": "Zoë",
        "remote-groups": "",
    }
    (session,) = wiki.people.rows("select * from sessions where service_id = %s", wiki.service.id)
    assert (session["user_id"], session["parent_id"]) == (wiki.ada.user, wiki.ada.session)
    assert set(session["scopes"]) == {"openid", "email", "groups", "profile"}


async def test_nobody_is_led_to_the_sign_in_and_a_program_gets_401(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    answer = await wiki.ask(secret, "/page?x=1", headers=NAVIGATES)
    assert (answer.status, answer.header("location")) == (302, "/.postern/sign-in?to=%2Fpage%3Fx%3D1")
    for headers, method in (
        ([("accept", "*/*")], "GET"),
        ([("accept", PAGE), ("sec-fetch-mode", "cors")], "GET"),
        ([("accept", PAGE), ("sec-fetch-mode", "cors")], "POST"),
        ([("accept", "application/json"), ("sec-fetch-mode", "navigate")], "POST"),
        ([("accept", "*/*")], "POST"),
        (NAVIGATES, "DELETE"),
        ([*NAVIGATES, ("upgrade", "websocket")], "GET"),
    ):
        answer = await wiki.ask(secret, "/page", headers=headers, method=method)
        assert (answer.status, answer.header("www-authenticate"), answer.body) == (401, 'Bearer realm="application"', b"")
    for method in ("GET", "POST"):
        answer = await wiki.ask(secret, "/page", headers=NAVIGATES, method=method, answer="status")
        assert (answer.status, answer.body) == (401, b"")


async def test_a_form_after_the_end_of_the_session_gets_a_page_that_keeps_nothing_of_it(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    await wiki.visit(secret, "/.postern/sign-out", cookies={COOKIE: cookie})
    for by in ("GET", "POST"):  # the method by which the proxy asks
        answer = await wiki.ask(secret, "/save?draft=mine", cookie=cookie, headers=NAVIGATES, method="POST", by=by)
        assert (answer.status, answer.header("www-authenticate")) == (401, 'Bearer realm="application"')
        assert (answer.header("content-type"), answer.header("cache-control")) == ("text/html; charset=utf-8", "no-store")
        page = answer.body.decode()
        assert "Your session has ended" in page
        assert "Your form was not sent to The Wiki" in page.replace("<bdi>", "").replace("</bdi>", "")
        assert 'href="/.postern/sign-in?to=%2F" target="_blank" rel="noopener"' in page
        assert 'href="/.postern/assets/' in page
        assert "mine" not in page
        assert set_cookies(answer) == {}
    spoken = await wiki.ask(secret, "/save", headers=[*NAVIGATES, ("accept-language", "de")], method="POST")
    assert "Ihre Sitzung ist beendet" in spoken.body.decode()


async def test_a_form_that_somebody_may_not_send_gets_a_page_that_says_so(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    answer = await wiki.ask(secret, "/admin", cookie=cookie, headers=NAVIGATES, method="POST")
    assert (answer.status, b"You do not have access to this page" in answer.body) == (403, True)
    answer = await wiki.ask(secret, "/admin", cookie=cookie, method="POST")
    assert (answer.status, answer.body) == (403, b"")


async def test_open_paths_tell_nobody_and_whoever_is_there(wiki: Proxied) -> None:
    secret = await wiki.wiki(headers=["X-Webauth-User username"])
    answer = await wiki.ask(secret, "/public/a")
    assert told(answer) == USUAL
    headers = dict(answer.headers)
    assert (headers["x-webauth-user"], headers["x-postern-assertion"]) == ("", "")


async def test_a_path_asks_for_a_role_and_the_page_says_so(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    answer = await wiki.ask(secret, "/admin", cookie=cookie, headers=[*NAVIGATES, ("accept-language", "de")])
    assert answer.status == 403
    assert b"Sie haben keinen Zugriff auf diese Seite" in answer.body
    assert b'href="/.postern/assets/' in answer.body
    assert b'"/assets/' not in answer.body
    assert (await wiki.ask(secret, "/admin", cookie=cookie)).status == 403
    await wiki.give(wiki.ada, "admin")
    assert (await wiki.ask(secret, "/admin", cookie=cookie)).status == 200


async def test_the_assertion_says_the_same_signed_for_the_application_alone(wiki: Proxied) -> None:
    secret = await wiki.wiki(headers=["Remote-User id", "X-Roles roles", "Remote-Email email"])
    await wiki.give(wiki.ada, "editor")
    answer = await wiki.ask(secret, "/page", cookie=await wiki.cookie_of(secret, wiki.ada))
    token = answer.header("x-postern-assertion") or ""
    assert jwt.get_unverified_header(token)["typ"] == "proxy+jwt"
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["aud"] == wiki.client_id(wiki.service)
    assert claims["exp"] - claims["iat"] == 60
    said = {name: claims[name] for name in ("iss", "sub", "email", "roles", "token_use", "host")}
    assert said == {
        "iss": BASE_URL,
        "sub": str(wiki.ada.user),
        "email": "ada@acme.example",
        "roles": ["editor"],
        "token_use": "proxy",
        "host": HOST,
    }
    assert dict(answer.headers)["x-roles"] == "editor"


async def test_sign_out_ends_the_session_of_the_host_or_all_of_the_browsers(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    browser = wiki.signed_in(wiki.ada)
    first = await wiki.cookie_of(secret, wiki.ada, browser=browser)
    second = await wiki.cookie_of(secret, wiki.ada, browser=browser)
    crossing = await wiki.visit(secret, "/.postern/sign-out", cookies={COOKIE: first}, headers=[("sec-fetch-site", "cross-site")])
    assert b"Sign out of The Wiki?" in crossing.body
    assert (await wiki.ask(secret, "/", cookie=first)).status == 200
    answer = await wiki.visit(secret, "/.postern/sign-out", cookies={COOKIE: first})
    assert b"You are signed out of this application" in answer.body
    assert [(await wiki.ask(secret, "/", cookie=one)).status for one in (first, second)] == [401, 200]
    await wiki.visit(secret, "/.postern/sign-out?everywhere", cookies={COOKIE: second})
    assert (await wiki.ask(secret, "/", cookie=second)).status == 401
    assert wiki.people.rows("select from sessions where user_id = %s and revoked_at is null", wiki.ada.user) == []
    again = await wiki.visit(secret, "/.postern/sign-out", cookies={COOKIE: second})
    assert again.status == 200


async def test_a_session_without_use_ends_and_asks_for_a_proof(wiki: Proxied) -> None:
    secret = await wiki.wiki(idle_minutes=5)
    cookie = await wiki.cookie_of(secret, wiki.ada)
    wiki.people.change("update sessions set last_seen_at = now() - interval '6 minutes' where service_id = %s", wiki.service.id)
    assert (await wiki.ask(secret, "/", cookie=cookie)).status == 401
    answer = await wiki.visit(secret, "/.postern/sign-in", cookies={COOKIE: cookie})
    assert "&prompt=login" in (answer.header("location") or "")


async def test_two_secrets_count_while_one_takes_the_place_of_the_other(wiki: Proxied) -> None:
    first = await wiki.wiki()
    second = await wiki.secret_for()
    assert [(await wiki.ask(one, "/public")).status for one in (first, second)] == [200, 200]
    listed = (await wiki.request("GET", wiki.at("client-secrets"))).json()
    await wiki.request("DELETE", wiki.at(f"client-secrets/{listed[0]['id']}"))
    assert [(await wiki.ask(one, "/public")).status for one in (first, second)] == [403, 200]


async def test_the_reason_of_a_proxy_without_a_secret_is_among_the_refusals(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    answer = await wiki.ask("", "/public")
    assert (answer.status, b"did not send the application\xe2\x80\x99s secret" in answer.body) == (403, True)
    await wiki.ask(secret, "/public", host="other.acme.example")
    assert await _refusals(wiki, 2) == [("proxy", "proxy_host", "other.acme.example"), ("proxy", "proxy_secret", "")]


async def test_of_a_suspended_organization_only_foreign_hosts_are_among_the_refusals(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    operator = wiki.people.add(platform_owner=True)
    path = f"/api/platform/organizations/{wiki.acme.id}"
    (await wiki.request("POST", f"{path}/suspend", {"reason": "Unpaid"}, by=operator)).ok()
    for host in (HOST, "other.acme.example"):
        assert (await wiki.ask(secret, "/public", host=host)).status == 403
        assert (await wiki.visit(secret, "/.postern/sign-in", host=host)).status == 404
    (await wiki.request("POST", f"{path}/activate", by=operator)).ok()
    assert await _refusals(wiki, 2) == [("proxy", "proxy_host", "other.acme.example")] * 2


async def _refusals(wiki: Proxied, at_least: int) -> list[tuple[str, str, str]]:
    """Place, reason and what was received of each refusal, as soon as the recorder has written so many."""
    recorder = wiki.postern.federation.refusal_recorder
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while len(listed := (await wiki.request("GET", wiki.at("refusals"))).ok()["refusals"]) < at_least:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    return [(one["place"], one["reason"], one["received"]) for one in listed]


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({"hosts": ["wiki.globex.example"]}, 400, "is not in a verified domain"),
        ({"hosts": ["https://wiki.acme.example"]}, 400, "a name with a dot"),
        ({"hosts": ["*.acme.example"]}, 400, "a name with a dot"),
        ({"rules": ["/a//b open"]}, 400, "never matches"),
        ({"rules": ["/a/../b open"]}, 400, "never matches"),
        ({"rules": ["/.postern/x open"]}, 400, "belong to Postern"),
        ({"rules": ["/a open", "/A signed_in"]}, 400, "already"),
        ({"rules": ["/a role nobody"]}, 400, "no role nobody"),
        ({"rules": ["/a permission nothing"]}, 400, "no permission nothing"),
        ({"rules": ["/a sometimes"]}, 400, "its requirement"),
        ({"headers": ["X-Postern-Assertion id"]}, 400, "choose another name"),
        ({"headers": ["Connection email"]}, 400, "choose another name"),
        ({"headers": ["X-Forwarded-User email"]}, 400, "choose another name"),
        ({"headers": ["Remote_User email"]}, 400, "letters, digits and -"),
        ({"headers": ["Remote-User password"]}, 400, "letters, digits and -"),
        ({"headers": ["Remote-User id", "remote-user email"]}, 400, "only once"),
        ({"idle_minutes": 1}, 400, "5 to 43200"),
        ({}, 400, "at least one field"),
    ],
)
async def test_what_can_never_be_gets_words(wiki: Proxied, said: dict[str, Any], status: int, words: str) -> None:
    await wiki.wiki()
    answer = await wiki.set_proxy(**said)
    assert (answer.status, words in answer.json()["error"]) == (status, True), answer.body


async def test_one_host_has_one_application_and_a_platform_owner_needs_no_proof(wiki: Proxied) -> None:
    await wiki.wiki()
    (await wiki.request("POST", "/api/organizations/acme/services", {"slug": "two", "name": "Two", "service_type": "proxy"})).ok()
    taken = await wiki.set_proxy(slug="two", hosts=[HOST])
    assert refused(taken) == (409, "CONFLICT")
    operator = wiki.people.add(platform_owner=True)
    wiki.tenants.join(operator, wiki.acme, "admin")
    kept = (await wiki.set_proxy(slug="two", by=operator, hosts=["two.elsewhere.example"])).ok()
    assert (kept["hosts"], kept["approved_hosts"], kept["closed_hosts"]) == (["two.elsewhere.example"], ["two.elsewhere.example"], [])
    globex = wiki.tenants.add("globex")
    wiki.prove(globex.id, "elsewhere.example")
    shown = (await wiki.request("GET", wiki.at("proxy", slug="two"))).ok()
    assert shown["closed_hosts"] == ["two.elsewhere.example"]
    (entry, *_) = wiki.audited("service.proxy.updated")[::-1]
    assert entry["details"]["approved_hosts"] == ["two.elsewhere.example"]


async def test_only_services_of_the_type_have_a_proxy_and_stay_so(wiki: Proxied) -> None:
    await wiki.wiki()
    assert (await wiki.request("GET", wiki.at("proxy", slug="app"))).ok()["hosts"] == []
    assert (await wiki.set_proxy(slug="app", rules=[])).status == 400
    for slug, kind in (("wiki", "web"), ("app", "proxy")):
        changed = await wiki.request("PATCH", f"/api/organizations/acme/services/{slug}", {"service_type": kind})
        assert refused(changed) == (400, "BAD_REQUEST")
    said = await wiki.request("PATCH", "/api/organizations/acme/services/wiki", {"redirect_uris": ["https://evil.example/cb"]})
    assert refused(said) == (400, "BAD_REQUEST")
    body = {"slug": "x", "name": "X", "service_type": "proxy", "redirect_uris": ["https://evil.example/cb"]}
    assert (await wiki.request("POST", "/api/organizations/acme/services", body)).status == 400


@pytest.mark.parametrize(
    ("path", "place", "demands"),
    [
        ("/admin/x", "/admin/x", ["role admin"]),
        ("/public", "/public", ["open"]),
        ("/else", "/else", ["signed_in"]),
        ("/public/../admin", None, ["role admin"]),
    ],
)
async def test_the_preview_says_what_a_path_asks_for(wiki: Proxied, path: str, place: str | None, demands: list[str]) -> None:
    await wiki.wiki()
    assert (await wiki.request("GET", f"{wiki.at('proxy/preview')}?path={path}")).ok() == {"place": place, "demands": demands}


async def test_keys_of_users_and_the_applications_own_token_open_it_to_programs(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    await wiki.cookie_of(secret, wiki.ada)
    (await wiki.request("PATCH", wiki.at("user-key-settings"), {"enabled": True, "prefix": "wik"})).ok()
    key = await _key_of(wiki)
    for value in (f"Bearer {key}", _basic("ada", key), _basic(key, "")):
        answer = await wiki.ask(secret, "/page", headers=[("authorization", value)])
        assert told(answer)["remote-user"] == "ada@acme.example"
    own = await wiki.unlimited.request(
        "POST",
        "/auth/token",
        body={"grant_type": "client_credentials", "client_id": wiki.client_id(wiki.service), "client_secret": secret},
    )
    token = own.ok()["access_token"]
    wiki.log.remember(token)
    answer = await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {token}")])
    assert told(answer) == USUAL
    assert answer.header("x-postern-assertion")
    assert (await wiki.ask(secret, "/admin", headers=[("authorization", f"Bearer {token}")])).status == 403
    wiki.people.change("delete from user_keys")
    assert (await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {key}")])).status == 401


async def test_a_key_that_its_person_has_narrowed_to_scopes_of_an_api_opens_nothing_behind_the_proxy(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    await wiki.cookie_of(secret, wiki.ada)
    scope = {"name": "pages:read", "description": "Read pages"}
    api = {"identifier": "https://wiki.acme.example/api", "name": "Pages", "service_slug": "wiki", "scopes": [scope]}
    server = (await wiki.request("POST", "/api/organizations/acme/resource-servers", api)).ok(201)
    operator = wiki.people.add(platform_owner=True)
    (await wiki.request("POST", f"/api/platform/resource-servers/{server['id']}/approval", by=operator)).ok()
    settings = {"enabled": True, "prefix": "wik", "resource": api["identifier"]}
    (await wiki.request("PATCH", wiki.at("user-key-settings"), settings)).ok()
    whole, narrow = await _key_of(wiki), await _key_of(wiki, "pages:read")
    assert (await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {whole}")])).status == 200
    assert (await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {narrow}")])).status == 401


async def test_a_check_costs_one_round_trip_and_writes_no_row(wiki: Proxied, log: CapturedLog) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    written = "select xmin::text, ctid::text, last_seen_at from sessions order by id"
    before = wiki.people.rows(written)
    assert (await wiki.ask(secret, "/page", cookie=cookie)).status == 200
    assert last_trips(log) == 1
    assert wiki.people.rows(written) == before


async def _key_of(wiki: Proxied, *scopes: str) -> str:
    caller = Caller(UserId(wiki.ada.user), Email("ada@acme.example"), SessionId(wiki.ada.session), is_platform_owner=False)
    made = await wiki.postern.services.user_keys.create_own(
        caller, "acme", "wiki", WantedUserKey(name="Laptop", scopes=scopes), Actor(caller.user)
    )
    wiki.log.remember(made.text.reveal())
    return made.text.reveal()


def _basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


async def client_id(wiki: Proxied) -> str:
    return str((await wiki.request("GET", "/api/organizations/acme/services/wiki")).ok()["client_id"])


async def test_other_applications_hear_of_it_in_frames(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    browser = wiki.signed_in(wiki.ada)
    cookie = await wiki.cookie_of(secret, wiki.ada, browser=browser)
    shop = wiki.tenants.service(wiki.acme, "shop")
    wiki.people.change("update all_services set frontchannel_logout_uri = 'https://shop.example/bye' where id = %s", shop.id)
    child = wiki.tenants.session(wiki.ada, shop)
    wiki.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", wiki.ada.session, child.session)
    answer = await wiki.visit(secret, "/.postern/sign-out?everywhere", cookies={COOKIE: cookie})
    assert b'<iframe src="https://shop.example/bye"' in answer.body
    assert "frame-src https://shop.example;" in (answer.header("content-security-policy") or "")


async def test_a_secret_that_ended_meanwhile_redeems_nothing(wiki: Proxied) -> None:
    await wiki.wiki()
    found: Any = SimpleNamespace(client=await client_id(wiki))
    request: Any = SimpleNamespace(secret=Token("cs_" + "A" * 40).digest(), host=HOST)
    nobody: Any = None
    with pytest.raises(InvalidGrant):
        await wiki.postern.federation.proxy_checks.redeem(found, request, Token("code"), Token("verifier"), nobody)


async def test_whoever_comes_with_a_key_has_no_session_to_end(wiki: Proxied) -> None:
    await wiki.wiki()
    before = wiki.people.rows("select id, revoked_at from sessions order by id")
    person: Any = SimpleNamespace(parent=None, session=None)
    sender: Any = None
    await wiki.postern.federation.proxy_checks.sign_out(sender, person, sender, everywhere=True)
    assert wiki.people.rows("select id, revoked_at from sessions order by id") == before


async def test_no_device_gets_in_as_an_application_behind_a_proxy(wiki: Proxied, client: Client) -> None:
    secret = await wiki.wiki()
    credentials = {"client_id": await client_id(wiki), "client_secret": secret}

    async def ask(path: str, **fields: str) -> Received:
        return await client.request("POST", path, body=urlencode({**credentials, **fields}).encode(), headers=[FORM])

    begun = (await ask("/auth/device/code")).ok()
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    polled = await ask("/auth/token", grant_type=grant, device_code=begun["device_code"])
    assert (polled.status, polled.json()["error"]) == (400, "unauthorized_client")


async def test_no_key_is_made_where_no_program_has_registered(postern: Postern) -> None:
    assert await postern.federation.open_registrations.rotate(Actor(UserId(postern.foundation.ids.new()))) is None


async def test_the_page_of_a_sign_out_shows_nothing_of_other_organizations(wiki: Proxied) -> None:
    """The page passes through acme's proxy. What somebody uses elsewhere is none of acme's business, and hears of it by its notices."""
    secret = await wiki.wiki()
    globex = wiki.tenants.add("globex")
    theirs = wiki.application(globex, "secret-project", "https://globex.example/back")
    ours = wiki.application(wiki.acme, "shop", "https://shop.acme.example/back")
    wiki.set(theirs, frontchannel_logout_uri="https://globex.example/bye")
    wiki.set(ours, frontchannel_logout_uri="https://shop.acme.example/bye")
    browser = wiki.signed_in(wiki.ada)
    for service, back in ((theirs, "https://globex.example/back"), (ours, "https://shop.acme.example/back")):
        await signed_in_to(wiki, browser, wiki.ada, service, back)
    cookie = await wiki.cookie_of(secret, wiki.ada, browser=browser)
    answer = await wiki.visit(secret, "/.postern/sign-out?everywhere", cookies={COOKIE: cookie})
    assert frames_in(answer) == ["https://shop.acme.example/bye"]
    assert policy_of(answer)["frame-src"] == "https://shop.acme.example"
    assert "globex" not in f"{answer.body!r} {answer.headers}"

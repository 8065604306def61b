"""What opens nothing at an application behind a proxy, and what its cookie, codes and assertions open nowhere else."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.services.user_keys import WantedUserKey
from entrypoints.http.machinery.limits import AUTH, PAGE_SIGN_INS
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.federation.proxied.behind_proxies import CHECK, COOKIE, HOST, PAGE, Proxied, set_cookies
from tests.http.signing_in import unlimited

OTHER: Final = "docs.acme.example"
# As Traefik 3.1 sends them for a page that a browser asks for.
TRAEFIK: Final = (
    ("user-agent", "Mozilla/5.0"),
    ("accept", "text/html,application/xhtml+xml"),
    ("accept-encoding", "gzip, deflate"),
    ("x-forwarded-for", "198.51.100.7"),
    ("x-forwarded-host", HOST),
    ("x-forwarded-method", "GET"),
    ("x-forwarded-port", "443"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-server", "traefik"),
    ("x-forwarded-uri", "/page?x=1"),
    ("x-real-ip", "198.51.100.7"),
)


async def test_a_good_secret_opens_no_host_of_another_application_or_tenant(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    globex = wiki.tenants.add("globex")
    wiki.prove(globex.id, "globex.example")
    for host in (
        "wiki.globex.example",
        "other.acme.example",
        f"{HOST}, wiki.globex.example",
        f"x@{HOST}",
        f"{HOST}.",
        "",
        "a b",
        f"{HOST}/",
    ):
        answer = await wiki.ask(secret, "/public", host=host)
        assert answer.status == 403, host
    assert (await wiki.ask(secret, "/public", host=f"{HOST.upper()}:8443")).status == 200


async def test_without_a_secret_of_the_application_nothing_counts(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    other = wiki.secret(wiki.app)
    for shown in ("", "cs_wrong", secret[:-1], secret + "x", f"{secret}, {secret}", other, "x" * 300, "é"):
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = await wiki.ask(shown, "/public", by=method)
            assert answer.status == 403, (shown, method)
    for method in ("HEAD", "POST", "OPTIONS", "DELETE"):
        assert (await wiki.ask(secret, "/public", by=method)).status == 200
        assert (await wiki.ask(secret, "/page", by=method)).status == 401
    assert (await wiki.ask(secret, "/page", by="PROPFIND")).status == 405


async def test_a_cookie_opens_its_own_host_alone_and_is_no_token(wiki: Proxied) -> None:
    secret = await wiki.wiki(hosts=[HOST, OTHER])
    cookie = await wiki.cookie_of(secret, wiki.ada)
    assert (await wiki.ask(secret, "/", cookie=cookie)).status == 200
    assert (await wiki.ask(secret, "/", cookie=cookie, host=OTHER)).status == 401
    # Tossed from a neighbour: two of one name, or without the prefix that only the host itself can set.
    tossed = [("cookie", f"{COOKIE}=x; {COOKIE}={cookie}"), ("cookie", f"postern={cookie}"), ("cookie", f"{COOKIE}={cookie}; {COOKIE}=x")]
    for header in tossed:
        assert (await wiki.ask(secret, "/", headers=[header])).status == 401
    client = {"client_id": wiki.client_id(wiki.service), "client_secret": secret}
    for grant in ("refresh_token", "authorization_code"):
        fields = {"grant_type": grant, "refresh_token": cookie, "code": cookie, "redirect_uri": f"https://{HOST}/.postern/return", **client}
        assert (await wiki.unlimited.post("/auth/token", fields)).status == 400
    assert (await wiki.unlimited.post("/api/auth/refresh", {"refresh_token": cookie})).status == 401
    assert (await wiki.unlimited.get("/api/user", token=cookie)).status == 401


async def test_a_code_counts_once_for_this_browser_at_this_host(wiki: Proxied) -> None:
    secret = await wiki.wiki(hosts=[HOST, OTHER])
    address, kept = await wiki.begun(secret)
    back = await wiki.came_back(address, wiki.signed_in(wiki.ada))
    _, others = await wiki.begun(secret)
    for cookies, host in (({}, HOST), (others, HOST), (kept, OTHER)):
        answer = await wiki.visit(secret, back, cookies=cookies, host=host)
        assert (answer.status, COOKIE in set_cookies(answer)) == (400, False)
    # The proxy's secret redeems none of these codes at the token endpoint.
    code = back.partition("code=")[2].partition("&")[0]
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": f"https://{HOST}/.postern/return",
        "code_verifier": "v" * 43,
    }
    said = {**fields, "client_id": wiki.client_id(wiki.service), "client_secret": secret}
    assert (await wiki.unlimited.post("/auth/token", said)).status == 400
    address, kept = await wiki.begun(secret)
    back = await wiki.came_back(address, wiki.signed_in(wiki.people.session_of(wiki.ada)))
    first = await wiki.visit(secret, back, cookies=kept)
    assert COOKIE in set_cookies(first)
    again = await wiki.visit(secret, back, cookies=kept)
    assert (again.status, COOKIE in set_cookies(again)) == (400, False)


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "\\evil", "javascript:1", "/a\r\nx: y", "/\t/e"]
)
async def test_the_way_back_never_leaves_the_host(wiki: Proxied, to: str) -> None:
    secret = await wiki.wiki()
    address, kept = await wiki.begun(secret, to)
    back = await wiki.came_back(address, wiki.signed_in(wiki.ada))
    answer = await wiki.visit(secret, back, cookies=kept)
    assert (answer.status, answer.header("location")) == (302, "/")


Change = Callable[[Proxied], Awaitable[Any]]


async def _rows(wiki: Proxied, statement: str, *values: Any) -> None:
    wiki.people.change(statement, *values)


CHANGES: Final[dict[str, tuple[Change, int]]] = {
    "the session is revoked": (lambda wiki: _rows(wiki, "update sessions set revoked_at = now() where parent_id is not null"), 401),
    "the browser's session ends": (lambda wiki: wiki.request("POST", "/api/auth/logout", by=wiki.ada), 401),
    "the account is deactivated": (lambda wiki: _rows(wiki, "update users set deactivated_at = now() where id = %s", wiki.ada.user), 401),
    "only people with a role are let in": (lambda wiki: _admit(wiki, "assigned"), 403),
    "the organization is suspended": (lambda wiki: _rows(wiki, "update organizations set status = 'suspended'"), 403),
    "the domain is somebody else's": (lambda wiki: _rows(wiki, "delete from domains"), 403),
    "the host is let go": (lambda wiki: wiki.set_proxy(hosts=[]), 403),
    "the service becomes an agent": (
        lambda wiki: wiki.request("PATCH", "/api/organizations/acme/services/wiki", {"is_agent": True}),
        401,
    ),
    "a second factor is asked for": (
        lambda wiki: _rows(wiki, "update all_organizations set mfa_required_since = now() - interval '9 days', mfa_grace_days = 0"),
        401,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_ends_access_ends_it_at_the_next_check(wiki: Proxied, change: str) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    assert (await wiki.ask(secret, "/page", cookie=cookie)).status == 200
    make, status = CHANGES[change]
    await make(wiki)
    assert (await wiki.ask(secret, "/page", cookie=cookie)).status == status


async def _admit(wiki: Proxied, policy: str) -> None:
    (await wiki.request("PATCH", "/api/organizations/acme/services/wiki", {"sign_in_policy": policy})).ok()


async def test_an_unproved_address_is_told_to_nobody(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    wiki.people.change("update users set email_verified_at = null where id = %s", wiki.ada.user)
    answer = await wiki.ask(secret, "/page", cookie=cookie)
    assert (answer.status, dict(answer.headers)["remote-user"]) == (200, "")


async def test_the_application_is_told_no_more_than_the_person_allowed(wiki: Proxied) -> None:
    secret = await wiki.wiki(headers=["Remote-User id"])
    await wiki.give(wiki.ada, "editor")
    cookie = await wiki.cookie_of(secret, wiki.ada)
    (await wiki.set_proxy(headers=["Remote-User id", "Remote-Email email", "Remote-Name name", "X-Roles roles"])).ok()
    told = dict((await wiki.ask(secret, "/page", cookie=cookie)).headers)
    assert (told["remote-user"], told["remote-email"], told["remote-name"], told["x-roles"]) == (str(wiki.ada.user), "", "", "")


async def test_no_other_door_takes_the_assertion(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    answer = await wiki.ask(secret, "/page", cookie=await wiki.cookie_of(secret, wiki.ada))
    token = answer.header("x-postern-assertion") or ""
    assert token
    doors = [one for one in wiki.unlimited.application.endpoints if one.caller.scheme is not None or one.keys is not None]
    assert len(doors) > 100
    for one in doors:
        path = one.path
        for name in ("org_slug", "service_slug"):
            path = path.replace(f"{{{name}}}", {"org_slug": "acme", "service_slug": "wiki"}[name])
        path = path if "{" not in path else "".join(part.partition("}")[2] or part for part in path.split("{"))
        headers = [("authorization", f"Bearer {token}"), ("x-api-key", token)]
        got = await wiki.unlimited.request(one.method, path, body=None if one.method == "GET" else {}, headers=headers)
        assert got.status in {400, 401, 403, 404, 405, 415}, (str(one), got.status, got.body)
    client = {"client_id": wiki.client_id(wiki.service), "client_secret": secret}
    introspected = await wiki.unlimited.post("/oauth/introspect", {"token": token, **client})
    assert introspected.json() == {"active": False}
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    kind = "urn:ietf:params:oauth:token-type:access_token"
    fields = {"grant_type": exchange, "subject_token": token, "subject_token_type": kind, **client}
    assert (await wiki.unlimited.post("/auth/token", fields)).status == 400
    hinted = await wiki.unlimited.get(f"{wiki.asking(id_token_hint=token)}&prompt=none")
    assert "error=invalid_request" in (hinted.header("location") or "")
    # Not even the application itself is opened by it.
    assert (await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {token}")])).status == 401


async def test_tokens_of_people_and_of_other_applications_open_nothing_here(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    other = wiki.secret(wiki.app)
    own = await wiki.unlimited.post(
        "/auth/token", {"grant_type": "client_credentials", "client_id": wiki.client_id(wiki.app), "client_secret": other}
    )
    for token in (own.ok()["access_token"], await wiki.people.token(wiki.ada), "a.b.c"):
        wiki.log.remember(token)
        assert (await wiki.ask(secret, "/page", headers=[("authorization", f"Bearer {token}")])).status == 401


async def test_wrong_keys_count_as_failed_sign_ins_by_the_address_that_the_proxy_names(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    (await wiki.request("PATCH", wiki.at("user-key-settings"), {"enabled": True, "prefix": "wik"})).ok()
    await wiki.cookie_of(secret, wiki.ada)
    caller = Caller(UserId(wiki.ada.user), Email("ada@acme.example"), SessionId(wiki.ada.session), is_platform_owner=False)
    key = (
        await wiki.postern.services.user_keys.create_own(caller, "acme", "wiki", WantedUserKey(name="x"), Actor(caller.user))
    ).text.reveal()
    wiki.log.remember(key)
    limited = unlimited(wiki.postern, SETTINGS)

    async def ask(shown: str, address: str) -> int:
        said = [("x-postern-proxy", secret), ("x-forwarded-host", HOST), ("x-forwarded-uri", "/"), ("x-forwarded-for", address)]
        return (await limited.get(CHECK, headers=[*said, ("authorization", f"Bearer {shown}")])).status

    wrong = f"wik_abc123_{'x' * 43}"
    answers = [await ask(wrong, "198.51.100.7") for _ in range(PAGE_SIGN_INS.burst + 1)]
    assert (set(answers[:-1]), answers[-1]) == ({401}, 429)
    # Whoever has reached the limit does not learn which key is right; nobody else waits.
    assert await ask(key, "198.51.100.7") == 429
    assert await ask(key, "203.0.113.9") == 200


@pytest.mark.parametrize(
    "name",
    [
        *("remote_user", "Remote_Groups", "x_postern_assertion", "x_forwarded_host", "remote-user_"),
        # PHP reads a dot as `_`; others whatever is no letter or digit.
        *("Remote.User", "remote~groups", "x.postern-assertion", "x_original_url"),
    ],
)
async def test_a_header_that_servers_read_as_one_of_ours_is_refused(wiki: Proxied, name: str) -> None:
    secret = await wiki.wiki()
    status = (await wiki.ask(secret, "/public", headers=[(name, "root")])).status
    assert status == (200 if name == "remote-user_" else 403)


@pytest.mark.parametrize("name", ["X-Original-URL", "X-Rewrite-URL"])
async def test_a_second_path_in_a_header_meets_every_rule(wiki: Proxied, name: str) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    for other in ("/admin", "https://wiki.acme.example/admin"):
        assert (await wiki.ask(secret, "/public", headers=[(name, other)])).status == 401
        assert (await wiki.ask(secret, "/public", cookie=cookie, headers=[(name, other)])).status == 403
    # Some proxies say the path of the request itself.
    assert (await wiki.ask(secret, "/public", headers=[(name, f"https://{HOST}/public")])).status == 200


async def test_wrong_secrets_from_the_address_of_a_proxy_shut_no_good_one_out(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    limited = unlimited(wiki.postern, SETTINGS)

    async def ask(shown: str) -> int:
        said = [("x-postern-proxy", shown), ("x-forwarded-host", HOST), ("x-forwarded-uri", "/public"), ("x-forwarded-for", "198.51.100.7")]
        return (await limited.get(CHECK, headers=said)).status

    for wrong in ("", "cs_wrong"):
        answers = [await ask(wrong) for _ in range(AUTH.burst + 2)]
        assert answers[-1] == 429
    assert await ask(secret) == 200


async def test_no_scope_lets_the_session_of_a_host_outlive_the_browsers(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    address, kept = await wiki.begun(secret)
    back = await wiki.came_back(address.replace("scope=openid", "scope=openid+offline_access"), wiki.signed_in(wiki.ada))
    answer = await wiki.visit(secret, back, cookies=kept)
    cookie = set_cookies(answer)[COOKIE]
    wiki.log.remember(cookie)
    assert (await wiki.ask(secret, "/", cookie=cookie)).status == 200
    (await wiki.request("POST", "/api/auth/logout", by=wiki.ada)).ok()
    assert (await wiki.ask(secret, "/", cookie=cookie)).status == 401


async def test_the_heads_that_traefik_sends_are_understood(wiki: Proxied) -> None:
    secret = await wiki.wiki()
    cookie = await wiki.cookie_of(secret, wiki.ada)
    said = [*TRAEFIK, ("x-postern-proxy", secret)]
    answer = await wiki.unlimited.get(CHECK, headers=said)
    assert (answer.status, answer.header("location")) == (302, "/.postern/sign-in?to=%2Fpage%3Fx%3D1")
    answer = await wiki.unlimited.get(CHECK, headers=[*said, ("cookie", f"theme=dark; {COOKIE}={cookie}")])
    assert (answer.status, dict(answer.headers)["remote-user"]) == (200, "ada@acme.example")


async def test_strangers_at_the_pages_of_a_host_get_nothing(client: Client, wiki: Proxied) -> None:
    await wiki.wiki()
    for path in ("/.postern/sign-in", "/.postern/return?code=x&state=y", "/.postern/sign-out"):
        answer = await client.get(path, headers=[("accept", PAGE), ("x-forwarded-host", HOST)])
        assert (answer.status, set_cookies(answer)) == (403, {})

"""Tokens for APIs: the request names an API as its resource, the person allows it, and the token is for this API alone (RFC 8707)."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import trio

from core.domain.identifiers import OrganizationId, ResourceServerId
from tests.http.client import refused
from tests.http.federation.arriving import left, told
from tests.http.federation.relying import CALLBACK, FORM, VERIFIER, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS, SCOPES, Asking
from tests.patience import PATIENCE

LOCAL: Final = "http://localhost:3000/mcp"
TARGET: Final = (400, "invalid_target")


async def test_a_person_allows_an_application_to_act_at_an_api(asking: Asking) -> None:
    api = asking.api()
    tab = await asking.asked()
    for words in ("will be able to:", "Orders", "See your orders", "Order in your name", ORDERS):
        assert words in tab.page.text
    code = left(await tab.send(answer="allow", scopes=[f"{api} orders:read"]), CALLBACK)["code"]
    tokens = asking.kept((await asking.redeem(asking.shop, code)).ok())
    assert tokens["scope"] == "openid orders:read"
    claims = claims_of(tokens["access_token"])
    assert {name: claims[name] for name in ("aud", "scope", "client_id", "sub", "token_use", "org_id", "resource_id")} == {
        "aud": ORDERS,
        "scope": "orders:read",
        "client_id": asking.shop.client_id,
        "sub": str(asking.ada.user),
        "token_use": "resource",
        "org_id": str(asking.acme.id),
        "resource_id": str(api),
    }
    assert not {"email", "is_platform_owner", "plan"} & claims.keys()
    # What the person has refused, they are not asked again, and the application does not get it.
    again = told(await asking.browser().request("GET", asking.address()), CALLBACK)
    assert (await asking.redeem(asking.shop, again["code"])).ok()["scope"] == "openid orders:read"
    # What nobody has asked yet, they are asked.
    asking.people.change(
        "update resource_servers set scopes = scopes || %s::jsonb", '[{"name": "orders:cancel", "description": "Cancel orders"}]'
    )
    asked = await asking.asked(scope="openid orders:read orders:cancel")
    assert "Cancel orders" in asked.page.text
    (given, *_) = asking.audited("user.consent.given")
    assert given["details"]["resources"] == [ORDERS]


async def test_the_session_goes_on_at_the_same_api(asking: Asking) -> None:
    asking.api(token_lifetime=120)
    tokens = await asking.tokens()
    assert tokens["expires_in"] == 120
    for fields in ({}, {"resource": ORDERS}, {"scope": "orders:read"}, {"scope": "openid orders:read", "resource": ORDERS}):
        refreshed = asking.kept((await asking.refresh(asking.shop, tokens["refresh_token"], **fields)).ok())
        claims = claims_of(refreshed["access_token"])
        assert (claims["aud"], claims["scope"]) == (ORDERS, "orders:read" if "scope" in fields else "orders:read orders:write")
        tokens = refreshed


async def test_each_token_is_for_one_of_the_apis(asking: Asking) -> None:
    asking.api()
    asking.api(BILLS, scopes=[{"name": "bills:pay", "description": "Pay bills"}])
    code = await asking.allowed(ORDERS, BILLS, scope="openid orders:read bills:pay")
    # A request that names none leaves the code as it is.
    for _ in range(2):
        assert oauth(await asking.redeem(asking.shop, code)) == TARGET
    fields = [("resource", ORDERS), ("resource", BILLS), ("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK)]
    body = urlencode([*fields, ("code_verifier", VERIFIER), *asking.shop.posted.items()]).encode()
    assert oauth(await asking.client.request("POST", "/auth/token", body=body, headers=[FORM])) == TARGET
    tokens = asking.kept((await asking.redeem(asking.shop, code, resource=BILLS)).ok())
    assert (claims_of(tokens["access_token"])["aud"], claims_of(tokens["access_token"])["scope"]) == (BILLS, "bills:pay")
    assert oauth(await asking.refresh(asking.shop, tokens["refresh_token"])) == TARGET
    for resource, scope in ((ORDERS, "orders:read"), (BILLS, "bills:pay")):
        # The scopes of one API are none at the other, and nothing widens.
        other = "bills:pay" if resource == ORDERS else "orders:read"
        for wider in (other, f"{scope} {other}", "orders:write"):
            refusal = await asking.refresh(asking.shop, tokens["refresh_token"], resource=resource, scope=wider)
            assert oauth(refusal) == (400, "invalid_scope")
        tokens = asking.kept((await asking.refresh(asking.shop, tokens["refresh_token"], resource=resource)).ok())
        assert claims_of(tokens["access_token"])["scope"] == scope


async def test_without_a_resource_everything_is_as_before(asking: Asking) -> None:
    asking.api()
    tokens = await asking.signed_in(asking.shop)
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"
    assert oauth(await asking.refresh(asking.shop, tokens["refresh_token"], resource=ORDERS)) == TARGET
    assert oauth(await asking.redeem(asking.shop, await asking.code(asking.shop), resource=ORDERS)) == TARGET
    (await asking.refresh(asking.shop, tokens["refresh_token"], scope="openid orders:read")).ok()


_UNKNOWN: Final = (
    *("https://api.acme.example/order", "https://api.acme.example/orders/", "https://api.acme.example/Orders"),
    *("https://API.acme.example/orders", "https://api.acme.example:443/orders", "https://api.acme.example/orders?", f"{ORDERS}#x"),
    *("https://evil.example/mcp", "notaurl#x", "service:acme/shop", "urn:x", "https://api.acme.example/%6Frders", f"{ORDERS} ", "\x00"),
    "https://" + "x" * 1000,
)


@pytest.mark.parametrize("resource", _UNKNOWN)
async def test_an_api_has_one_name(asking: Asking, resource: str) -> None:
    asking.api()
    place = asking.address(asking.shop, resource)
    assert told(await asking.browser().request("GET", place), CALLBACK)["error"] == "invalid_target"
    assert told(await asking.browser().request("GET", asking.address(asking.shop, ORDERS, resource)), CALLBACK)["error"] == "invalid_target"
    if "\x00" not in resource:
        assert oauth(await asking.own(resource=resource)) == TARGET
        code = await asking.allowed()
        assert oauth(await asking.redeem(asking.shop, code, resource=resource)) == TARGET
        (await asking.redeem(asking.shop, code, resource=ORDERS)).ok()


async def test_six_resources_are_too_many(asking: Asking) -> None:
    asking.api()
    place = asking.address(asking.shop, *(f"{ORDERS}/{number}" for number in range(6)))
    assert told(await asking.browser().request("GET", place), CALLBACK)["error"] == "invalid_target"


_CLOSED: Final[dict[str, Callable[[Asking], Any]]] = {
    "another organization's": lambda asking: asking.api(ORDERS, asking.globex),
    "another organization's local one": lambda asking: asking.api(LOCAL, asking.globex, approved_at=None),
    "waiting": lambda asking: asking.api(approved_at=None),
    "settling": lambda asking: asking.api(settles_at="2999-01-01"),
    "not admitted": lambda asking: asking.api(admits="named"),
}


@pytest.mark.parametrize("closed", _CLOSED)
async def test_an_api_that_is_not_open_to_the_application_does_not_exist(asking: Asking, closed: str) -> None:
    _CLOSED[closed](asking)
    resource = LOCAL if "local" in closed else ORDERS
    for prompt in ("login", "none"):
        answer = told(await asking.browser().request("GET", asking.address(asking.shop, resource, prompt=prompt)), CALLBACK)
        assert (answer["error"], "code" in answer) == ("invalid_target", False)
    assert oauth(await asking.own(resource=resource)) == TARGET
    pushed = {**_parameters(asking), "resource": resource, **asking.shop.posted}
    assert oauth(await asking.ask("/oauth/par", pushed)) == TARGET
    device = await asking.ask("/auth/device/code", {**asking.shop.posted, "resource": resource, "scope": "openid"})
    assert oauth(device) == TARGET


async def test_a_named_application_is_admitted(asking: Asking) -> None:
    api = asking.api(admits="named")
    asking.people.change(
        "insert into resource_admissions (id, resource_id, service_id) values (gen_random_uuid(), %s, %s)", api, asking.shop.service.id
    )
    assert claims_of((await asking.tokens())["access_token"])["aud"] == ORDERS


async def test_a_local_api_is_good_inside_its_organization(asking: Asking) -> None:
    asking.api(LOCAL, approved_at=None)
    claims = claims_of((await asking.tokens(LOCAL))["access_token"])
    assert (claims["aud"], claims["org_id"]) == (LOCAL, str(asking.acme.id))


async def test_a_pushed_request_keeps_its_api(asking: Asking) -> None:
    asking.api()
    pushed = (await asking.ask("/oauth/par", {**_parameters(asking), "resource": ORDERS, **asking.shop.posted})).ok(201)
    place = f"/oauth/authorize?{urlencode({'client_id': asking.shop.client_id, 'request_uri': pushed['request_uri']})}"
    tab = await asking.browser().tab().open(place)
    code = left(await tab.send(answer="allow"), CALLBACK)["code"]
    assert claims_of((await asking.redeem(asking.shop, code)).ok()["access_token"])["scope"] == "orders:read"


def _parameters(asking: Asking) -> dict[str, str]:
    query = dict(pair.split("=", 1) for pair in asking.address().partition("?")[2].split("&"))
    kept = {"response_type": "code", "redirect_uri": CALLBACK, "scope": "openid orders:read", "code_challenge_method": "S256"}
    return {**kept, "code_challenge": query["code_challenge"]}


async def test_scopes_that_the_api_does_not_have(asking: Asking) -> None:
    asking.api()
    answer = told(await asking.browser().request("GET", asking.address(scope="anything")), CALLBACK)
    assert answer["error"] == "invalid_scope"
    tokens = await asking.tokens(scope="openid orders:read anything")
    assert tokens["scope"] == "openid orders:read"
    # Without any, the token is for the API all the same.
    bare = await asking.tokens(scope="openid")
    assert (claims_of(bare["access_token"])["aud"], claims_of(bare["access_token"])["scope"]) == (ORDERS, "")


async def test_a_trusted_application_asks_its_own_members_nothing(asking: Asking) -> None:
    asking.api()
    asking.people.change("update services set trusted = true where id = %s", asking.shop.service.id)
    ada = asking.tenants.join(asking.ada, asking.acme, "member")
    code = told(await asking.browser(ada).request("GET", asking.address()), CALLBACK)["code"]
    assert (await asking.redeem(asking.shop, code)).ok()["scope"] == "openid orders:read orders:write"


async def test_prompt_none_does_not_allow(asking: Asking) -> None:
    asking.api()
    answer = told(await asking.browser().request("GET", asking.address(prompt="none")), CALLBACK)
    assert answer["error"] == "consent_required"
    await asking.allowed()
    assert "code" in told(await asking.browser().request("GET", asking.address(prompt="none")), CALLBACK)
    assert (
        told(await asking.browser().request("GET", asking.address(prompt="none", scope="openid email")), CALLBACK)["error"]
        == "consent_required"
    )


async def test_a_form_ticks_nothing_that_was_not_asked(asking: Asking) -> None:
    api, other = asking.api(), asking.api(BILLS, scopes=SCOPES)
    tab = await asking.asked(scope="openid orders:read")
    ticks = [f"{api} orders:read", f"{api} orders:write", f"{other} orders:read", "nonsense", f"{api}", f"{api} openid"]
    code = left(await tab.send(answer="allow", scopes=ticks), CALLBACK)["code"]
    assert claims_of((await asking.redeem(asking.shop, code)).ok()["access_token"])["scope"] == "orders:read"


async def test_a_scope_asks_for_a_permission(asking: Asking) -> None:
    """Only whoever holds the permission at the service that stands for the API gets the scope, and only as long as they hold it."""
    asking.api(scopes=[*SCOPES[:1], {"name": "orders:approve", "description": "Approve orders", "permission": "approve"}])
    wanted = "openid orders:read orders:approve"
    asking.people.change(
        "insert into permissions (id, service_id, key, created_at) values (gen_random_uuid(), %s, 'approve', now())", asking.desk.service.id
    )
    tab = await asking.asked(scope=wanted)
    assert "Approve orders" not in tab.page.text
    code = left(await tab.send(answer="allow"), CALLBACK)["code"]
    assert (await asking.redeem(asking.shop, code)).ok()["scope"] == "openid orders:read"
    assignment = asking.tenants.assign(asking.desk.service, user_id=asking.tenants.join(asking.ada, asking.acme, "member").user)
    asking.people.change("update service_roles set permissions = '{approve}'")
    tokens = await asking.tokens(scope=wanted)
    assert tokens["scope"] == "openid orders:read orders:approve"
    assert (await asking.introspect(asking.desk, tokens["access_token"]))["scope"] == "orders:read orders:approve"
    # No application has a permission.
    assert oauth(await asking.own(resource=ORDERS, scope="orders:approve")) == (400, "invalid_scope")
    asking.people.change("delete from relations where id = %s", assignment)
    asking.people.change("update service_roles set permissions = '{}'")
    assert (await asking.introspect(asking.desk, tokens["access_token"]))["scope"] == "orders:read"
    refreshed = (await asking.refresh(asking.shop, tokens["refresh_token"])).ok()
    assert claims_of(refreshed["access_token"])["scope"] == "orders:read"


@pytest.mark.parametrize("path", ["/api/user", "/api/user/devices", "/api/organizations", "/api/organizations/acme"])
async def test_such_a_token_opens_nothing_here(asking: Asking, path: str) -> None:
    asking.api()
    owner = asking.resident(asking.acme, "owner")
    code = await asking.allowed(person=owner, scope="openid email orders:read")
    token = (await asking.redeem(asking.shop, code)).ok()["access_token"]
    assert refused(await asking.client.get(path, token=token)) == (401, "JWT_ERROR")
    assert refused(await asking.client.post("/api/auth/logout", {}, token=token)) == (401, "JWT_ERROR")
    own = (await asking.own(resource=ORDERS)).ok()["access_token"]
    assert refused(await asking.client.get(path, token=own)) == (401, "JWT_ERROR")
    # Userinfo tells what the application was granted.
    said = (await asking.userinfo(token)).ok()
    assert (said["sub"], said["email"]) == (str(owner.user), owner.email)


async def test_userinfo_needs_openid(asking: Asking) -> None:
    asking.api()
    token = (await asking.tokens(scope="orders:read"))["access_token"]
    assert refused(await asking.userinfo(token)) == (403, "FORBIDDEN")
    own = (await asking.own(resource=ORDERS, scope="orders:read")).ok()["access_token"]
    assert refused(await asking.userinfo(own)) == (401, "JWT_ERROR")


async def test_who_may_ask_about_a_token(asking: Asking) -> None:
    asking.api()
    tokens = await asking.tokens()
    own = (await asking.own(resource=ORDERS, scope="orders:read")).ok()
    assert (own["scope"], claims_of(own["access_token"])["aud"]) == ("orders:read", ORDERS)
    for token in (tokens["access_token"], own["access_token"]):
        for who in (asking.desk, asking.shop):
            said = await asking.introspect(who, token)
            assert (said["active"], said["aud"], said["client_id"]) == (True, ORDERS, asking.shop.client_id)
        for who in (asking.other, asking.theirs):
            assert await asking.introspect(who, token) == {"active": False}


async def test_an_applications_own_token(asking: Asking) -> None:
    asking.api()
    assert oauth(await asking.own(resource=ORDERS, scope="orders:read openid")) == (400, "invalid_scope")
    assert oauth(await asking.own(scope="orders:read")) == (400, "invalid_scope")
    assert oauth(await asking.own(asking.theirs, resource=ORDERS)) == TARGET
    assert claims_of((await asking.own()).ok()["access_token"])["aud"] == "services:acme"


async def test_a_device_asks_for_an_api(asking: Asking) -> None:
    asking.api()
    tv = asking.application(asking.acme, "tv", "desktop")
    assert oauth(await asking.ask("/auth/device/code", {**tv.posted, "resource": ORDERS, "scope": "anything"})) == (400, "invalid_scope")
    codes = (await asking.ask("/auth/device/code", {**tv.posted, "resource": ORDERS, "scope": "openid orders:read"})).ok()
    asking.log.remember(codes["device_code"], codes["user_code"])
    tab = await asking.browser().tab().open(f"/ui/device?user_code={codes['user_code']}")
    await tab.send()
    for words in ("it will be able to:", "Orders", "See your orders", ORDERS):
        assert words in tab.page.text
    assert "Order in your name" not in tab.page.text
    await tab.send(answer="approve")
    poll = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": codes["device_code"], **tv.posted}
    assert oauth(await asking.ask(fields={**poll, "resource": BILLS})) == TARGET
    tokens = asking.kept((await asking.ask(fields=poll)).ok())
    assert (tokens["scope"], claims_of(tokens["access_token"])["aud"]) == ("openid orders:read", ORDERS)
    assert claims_of((await asking.refresh(tv, tokens["refresh_token"])).ok()["access_token"])["aud"] == ORDERS


_Ends = Callable[[Asking], Awaitable[None]]


async def _change(asking: Asking, statement: str) -> None:
    asking.people.change(statement)


async def _take_back(asking: Asking, page: str) -> None:
    tab = await asking.browser().tab().open("/ui/applications")
    (link,) = [link for link in tab.page.links if link.endswith(page)]
    await tab.open(link)
    (form,) = [number for number, form in enumerate(tab.page.forms) if form.action.endswith("/revoke")]
    await tab.send(form)
    assert tab.place.startswith("/ui/applications?done=")


_ENDS: Final[dict[str, _Ends]] = {
    "the application": lambda asking: _take_back(asking, f"{asking.shop.service.id}/revoke"),
    "the API": lambda asking: _take_back(asking, "/apis/" + _only_api(asking) + "/revoke"),
    "the API's row": lambda asking: _change(asking, "delete from resource_servers"),
    "its proof": lambda asking: _change(asking, "update resource_servers set approved_at = null"),
    "its admission": lambda asking: _change(asking, "update resource_servers set admits = 'named'"),
    "the organization": lambda asking: _change(asking, "update organizations set status = 'suspended' where slug = 'acme'"),
    "the person": lambda asking: _change(asking, "update users set deactivated_at = now() where email = 'ada@example.org'"),
    "the service": lambda asking: _change(asking, "update all_services set deleted_at = now() where slug = 'shop'"),
    "the session": lambda asking: _change(asking, "update sessions set revoked_at = now()"),
}


def _only_api(asking: Asking) -> str:
    (row,) = asking.people.rows("select id from resource_servers")
    return str(row["id"])


@pytest.mark.parametrize("ended", _ENDS)
async def test_the_next_request_knows_what_has_ended(asking: Asking, ended: str) -> None:
    asking.api()
    tokens = await asking.tokens()
    waiting = await asking.allowed(prompt="consent")
    assert (await asking.introspect(asking.desk, tokens["access_token"]))["active"]
    await _ENDS[ended](asking)
    if ended != "the organization":
        assert await asking.introspect(asking.desk, tokens["access_token"]) == {"active": False}
    assert (await asking.refresh(asking.shop, tokens["refresh_token"])).status in {400, 401, 403}
    # A code that was given a moment before opens nothing either.
    assert (await asking.redeem(asking.shop, waiting)).status in {400, 401, 403}
    assert (
        asking.people.rows("select * from sessions where scopes is not null and revoked_at is null and id <> %s", tokens_session(tokens))
        == []
    )


def tokens_session(tokens: dict[str, Any]) -> str:
    return str(claims_of(tokens["access_token"])["sid"])


async def test_taking_an_api_away_leaves_the_rest(asking: Asking) -> None:
    asking.api()
    plain = await asking.signed_in(asking.shop)
    await asking.tokens()
    await _ENDS["the API"](asking)
    (await asking.refresh(asking.shop, plain["refresh_token"])).ok()
    (revoked,) = asking.audited("user.consent.revoked")
    named = {"service_id": str(asking.shop.service.id), "service_slug": "shop", "service_name": "Shop"}
    assert revoked["details"] == {**named, "resource": ORDERS}
    # The person is asked again.
    assert ORDERS in (await asking.asked()).page.text


async def test_a_public_client_too(asking: Asking) -> None:
    asking.api()
    tokens = await asking.tokens(application=asking.page)
    answer = await asking.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert claims_of(answer.ok()["access_token"])["aud"] == ORDERS


async def test_the_schema_and_the_domain_agree_on_what_is_open(asking: Asking) -> None:
    past, future = "2000-01-01", "2999-01-01"
    kinds: list[dict[str, Any]] = [
        {"approved_at": None},
        {"approved_at": past},
        {"approved_at": None, "verified_at": past, "next_check_at": future},
        {"settles_at": past},
        {"settles_at": future},
        {"approved_at": None, "settles_at": past},
    ]
    found = []
    for number, columns in enumerate(kinds):
        for host in ("https://api.acme.example", "http://localhost:3000"):
            if "verified_at" in columns:
                api = asking.api(f"{host}/{number}", approved_at=None)
                asking.people.change("update resource_servers set verified_at = %s, next_check_at = %s where id = %s", past, future, api)
            else:
                api = asking.api(f"{host}/{number}", **columns)
            (row,) = asking.people.rows("select resource_is_open(resource_servers) as is_open from resource_servers where id = %s", api)
            server = await asking.postern.services.resource_servers.lookup.find_own(OrganizationId(asking.acme.id), ResourceServerId(api))
            assert server is not None
            found.append(row["is_open"])
            assert row["is_open"] == server.is_active(asking.postern.foundation.clock.now()), (host, columns)
    assert set(found) == {True, False}


async def test_a_code_is_worth_no_more_than_what_the_person_still_allows(asking: Asking) -> None:
    """The person takes a tick away before the application has redeemed the code of before."""
    api = asking.api()
    code = await asking.allowed()
    tab = await asking.asked(prompt="consent")
    fewer = left(await tab.send(answer="allow", scopes=[f"{api} orders:read"]), CALLBACK)["code"]
    assert oauth(await asking.redeem(asking.shop, code)) == (400, "invalid_grant")
    assert (await asking.redeem(asking.shop, fewer)).ok()["scope"] == "openid orders:read"


async def test_what_may_not_be_asked_for_is_recorded_beside_what_may(asking: Asking) -> None:
    asking.api()
    asking.api(BILLS, admits="named")
    owner = asking.resident(asking.acme, "owner")
    found: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: asking.postern.federation.refusal_recorder.run(task_status=task_status))
        told(await asking.browser().request("GET", asking.address(asking.shop, BILLS)), CALLBACK)
        assert oauth(await asking.own(resource=f"{ORDERS}/")) == TARGET
        with trio.fail_after(PATIENCE):
            while len(found) < 2:
                await trio.sleep(0.05)
                found = (await asking.request("GET", "/api/organizations/acme/services/shop/refusals", by=owner)).ok()["refusals"]
        nursery.cancel_scope.cancel()
    assert sorted((one["place"], one["reason"], one["received"], tuple(one["registered"])) for one in found) == [
        ("authorize", "resource_unknown", BILLS, (ORDERS,)),
        ("token", "resource_unknown", f"{ORDERS}/", (ORDERS,)),
    ]


async def test_a_device_names_few_apis_and_its_client(asking: Asking) -> None:
    asking.api()
    tv = asking.application(asking.acme, "tv", "desktop")
    for fields, expected in (
        ([*tv.posted.items(), *(("resource", f"{ORDERS}/{number}") for number in range(6))], (400, "invalid_request")),
        ([("client_id", "0199d3a0-0000-7000-8000-00000000000f"), ("resource", ORDERS)], (401, "invalid_client")),
    ):
        body = urlencode(fields).encode()
        assert oauth(await asking.client.request("POST", "/auth/device/code", body=body, headers=[FORM])) == expected


async def test_a_refresh_without_a_client_cannot_choose_among_apis(asking: Asking) -> None:
    asking.api()
    asking.api(BILLS, scopes=[{"name": "bills:pay", "description": "Pay bills"}])
    code = await asking.allowed(ORDERS, BILLS, application=asking.page, scope="openid orders:read bills:pay")
    tokens = asking.kept((await asking.redeem(asking.page, code, resource=BILLS)).ok())
    assert refused(await asking.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})) == (401, "UNAUTHORIZED")
    assert claims_of((await asking.refresh(asking.page, tokens["refresh_token"], resource=ORDERS)).ok()["access_token"])["aud"] == ORDERS

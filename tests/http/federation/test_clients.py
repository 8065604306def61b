"""How clients authenticate, and how they are refused."""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from entrypoints.bootstrap import Postern
from tests.http.cast import all_at_once
from tests.http.client import Pairs
from tests.http.federation.relying import CALLBACK, INTROSPECT, JWT_BEARER, REVOKE, VERIFIER, Application, Relying, basic, oauth
from tests.http.people import BASE_URL
from tests.patience import PATIENCE

CREDENTIALS: Final = {"grant_type": "client_credentials"}


async def test_by_the_header_and_by_the_body(relying: Relying) -> None:
    assert (await relying.ask(fields=CREDENTIALS, headers=relying.shop.basic)).status == 200
    assert (await relying.ask(fields={**CREDENTIALS, **relying.shop.posted})).status == 200
    # Many libraries also send the client id in the body.
    fields = {**CREDENTIALS, "client_id": relying.shop.client_id, "client_secret": ""}
    assert (await relying.ask(fields=fields, headers=relying.shop.basic)).status == 200


async def test_the_last_use_of_a_secret_is_marked(relying: Relying, postern: Postern) -> None:
    owner = relying.people.add()
    relying.tenants.join(owner, relying.acme, "owner")
    relying.application(relying.acme, "quiet", secret=True)

    async def used(service: str) -> Any:
        answer = await relying.client.get(
            f"/api/organizations/acme/services/{service}/client-secrets", token=await relying.people.token(owner)
        )
        found: list[dict[str, Any]] = answer.json()
        return [one["last_used_at"] for one in found]

    assert (await relying.ask(fields=CREDENTIALS, headers=[basic(relying.shop.client_id, "cs_wrong_secret")])).status == 401
    (await relying.redeem(relying.shop, await relying.code(relying.shop))).ok()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.client_secret_presence.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while await used("shop") == [None]:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    # Who shows a wrong secret, or none, has used none.
    assert await used("quiet") == [None]


async def test_a_public_client_may_name_itself_in_the_header(relying: Relying) -> None:
    """Many libraries send the client id with an empty password by default."""
    page = relying.page
    fields = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    (named,) = page.basic
    tokens = (await relying.ask(fields={**fields, "code": await relying.code(page)}, headers=[named])).ok()
    relying.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token")))
    more = {"client_id": page.client_id, "client_secret": ""}
    refreshing = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **more}
    assert (await relying.ask(fields=refreshing, headers=[named])).status == 200
    assert (await relying.ask(REVOKE, {"token": tokens["access_token"]}, [named])).status == 200
    assert oauth(await relying.ask(INTROSPECT, {"token": tokens["access_token"]}, [named])) == (401, "invalid_client")
    other = {**fields, "code": await relying.code(page), "client_id": relying.phone.client_id}
    assert oauth(await relying.ask(fields=other, headers=[named])) == (400, "invalid_request")


async def test_a_name_in_the_header_stands_beside_another_method(relying: Relying) -> None:
    shop = relying.shop
    nameless = basic(shop.client_id, "")
    assert (await relying.ask(fields={**CREDENTIALS, **shop.posted}, headers=[nameless])).status == 200
    relying.keyed(shop)
    assert (await relying.ask(fields=asserting(relying.assertion(shop)), headers=[nameless])).status == 200
    others = [basic(relying.page.client_id, "")]
    for fields in ({**CREDENTIALS, **shop.posted}, asserting(relying.assertion(shop))):
        assert oauth(await relying.ask(fields=fields, headers=others)) == (400, "invalid_request")


async def test_a_second_secret_is_as_good_until_it_is_deleted(relying: Relying) -> None:
    second = relying.secret_of(relying.shop.service)
    header = basic(relying.shop.client_id, second)
    assert (await relying.ask(fields=CREDENTIALS, headers=[header])).status == 200
    relying.people.change("delete from client_secrets where id = (select id from client_secrets order by id desc limit 1)")
    assert oauth(await relying.ask(fields=CREDENTIALS, headers=[header])) == (401, "invalid_client")
    assert (await relying.ask(fields=CREDENTIALS, headers=relying.shop.basic)).status == 200


def refusals(relying: Relying) -> Mapping[str, tuple[Mapping[str, str], Pairs, tuple[int, str]]]:
    shop, secret = relying.shop.client_id, relying.shop.secret or ""
    theirs = relying.theirs.secret or ""
    colonless = b64encode(shop.encode()).decode()
    return {
        "nobody": ({}, [], (400, "invalid_request")),
        "only a name": ({"client_id": shop}, [], (401, "invalid_client")),
        "no such client": ({}, [basic(str(uuid4()), secret)], (401, "invalid_client")),
        "not a client id": ({}, [basic("shop", secret)], (401, "invalid_client")),
        "an id in capitals": ({}, [basic(shop.upper(), secret)], (401, "invalid_client")),
        "a wrong secret": ({}, [basic(shop, secret[:-1])], (401, "invalid_client")),
        "no secret": ({}, [basic(shop, "")], (401, "invalid_client")),
        "another's secret": ({}, [basic(shop, theirs)], (401, "invalid_client")),
        "another's secret, posted": ({"client_id": shop, "client_secret": theirs}, [], (401, "invalid_client")),
        "a secret for a client without": ({}, [basic(relying.page.client_id, secret)], (401, "invalid_client")),
        "two methods": ({"client_secret": secret}, [basic(shop, secret)], (400, "invalid_request")),
        "two names": ({"client_id": relying.page.client_id}, [basic(shop, secret)], (400, "invalid_request")),
        "another scheme": ({}, [("authorization", f"Bearer {secret}")], (401, "invalid_client")),
        "not base64": ({}, [("authorization", "Basic %%%")], (401, "invalid_client")),
        "not UTF-8": ({}, [("authorization", f"Basic {b64encode(b'%ff:%ff').decode()}")], (401, "invalid_client")),
        "without a colon": ({}, [("authorization", f"Basic {colonless}")], (401, "invalid_client")),
        "far too long": ({}, [("authorization", f"Basic {'A' * 4000}")], (401, "invalid_client")),
        "an assertion without its type": ({"client_assertion": "x.y.z"}, [], (401, "invalid_client")),
        "a type without assertion": ({"client_id": shop, "client_assertion_type": JWT_BEARER}, [], (400, "invalid_request")),
    }


async def test_whoever_is_not_the_client_is_refused_in_the_words_of_oauth(relying: Relying) -> None:
    for case, (fields, headers, refusal) in refusals(relying).items():
        answer = await relying.ask(fields={**CREDENTIALS, **fields}, headers=headers)
        assert oauth(answer) == refusal, case
        challenge = answer.header("www-authenticate")
        assert challenge == ('Basic realm="clients", charset="UTF-8"' if answer.status == 401 else None), case
    fields = {**CREDENTIALS, "client_assertion": relying.assertion(relying.shop)}
    assert oauth(await relying.ask(fields=fields)) == (400, "invalid_request")


async def test_known_and_unknown_clients_are_refused_alike(relying: Relying) -> None:
    answers = [await relying.ask(fields=CREDENTIALS, headers=[basic(name, "x")]) for name in (relying.shop.client_id, str(uuid4()))]
    first, second = [{**answer.json(), "timestamp": ""} for answer in answers]
    assert first == second


async def test_each_field_counts_once(relying: Relying) -> None:
    body = f"grant_type=client_credentials&grant_type=refresh_token&client_id={relying.page.client_id}".encode()
    answer = await relying.client.request("POST", "/auth/token", body=body, headers=[("content-type", "application/x-www-form-urlencoded")])
    assert oauth(answer) == (400, "invalid_request")


@pytest.mark.parametrize("kid", [None, "2026"])
async def test_by_an_assertion_once(relying: Relying, kid: str | None) -> None:
    relying.keyed(relying.shop, kid=kid)
    for audience in (
        BASE_URL,
        f"{BASE_URL}/auth/token",
        f"{BASE_URL}/oauth/token",
        [f"{BASE_URL}/oauth/par"],
        [BASE_URL],
        f"{BASE_URL}/oauth/introspect",
    ):
        fields = asserting(relying.assertion(relying.shop, aud=audience, header={"kid": kid} if kid else {}))
        assert (await relying.ask(fields=fields)).status == 200
        assert oauth(await relying.ask(fields=fields)) == (401, "invalid_client")


# What a malicious server could have an application sign, to use it here or to let us use it there (CVE-2025-27370, CVE-2025-27371).
SEVERAL: Final[tuple[Any, ...]] = (
    [BASE_URL, "https://other.example"],
    ["https://other.example", BASE_URL],
    [BASE_URL, BASE_URL],
    [BASE_URL, f"{BASE_URL}/auth/token"],
    [],
    [[BASE_URL]],
    {BASE_URL: 1},
)


@pytest.mark.parametrize("path", ["/auth/token", "/oauth/par", "/oauth/introspect", "/auth/revoke"])
@pytest.mark.parametrize("setting", ["issuer", "endpoint"])
async def test_an_assertion_has_one_audience_at_each_endpoint(relying: Relying, path: str, setting: str) -> None:
    relying.keyed(relying.shop)
    relying.people.change("update all_services set assertion_audience = %s", setting)
    for audience in SEVERAL:
        fields = {"token": "x", **asserting(relying.assertion(relying.shop, aud=audience))}
        assert oauth(await relying.ask(path, fields)) == (401, "invalid_client"), audience


async def test_the_endpoints_address_is_taken_where_the_service_says_so(relying: Relying) -> None:
    relying.keyed(relying.shop)
    at_endpoint = f"{BASE_URL}/auth/token"
    for setting, audience, status in (
        ("issuer", BASE_URL, 200),
        ("issuer", at_endpoint, 401),
        ("issuer", [at_endpoint], 401),
        ("endpoint", at_endpoint, 200),
        ("endpoint", BASE_URL, 200),
    ):
        relying.people.change("update all_services set assertion_audience = %s", setting)
        answer = await relying.ask(fields=asserting(relying.assertion(relying.shop, aud=audience)))
        assert answer.status == status, (setting, audience)


async def test_of_many_with_one_assertion_one_gets_in(relying: Relying) -> None:
    relying.keyed(relying.shop)
    fields = asserting(relying.assertion(relying.shop))
    answers = await all_at_once(*[lambda: relying.ask(fields=fields)] * 20)
    assert Counter(answer.status for answer in answers) == {200: 1, 401: 19}


async def test_a_client_with_keys_alone_is_not_public(relying: Relying) -> None:
    relying.keyed(relying.page)
    assert oauth(await relying.ask(fields={**CREDENTIALS, **relying.page.posted})) == (401, "invalid_client")
    assert (await relying.ask(fields=asserting(relying.assertion(relying.page)))).status == 200


def bad_assertions(relying: Relying) -> Mapping[str, str]:
    shop, now = relying.shop, int(relying.postern.foundation.clock.now().timestamp())
    good = relying.assertion(shop)
    head, payload, signature = good.split(".")
    none = jwt.utils.base64url_encode(b'{"alg":"none","typ":"JWT"}').decode()
    return {
        "under another key": relying.assertion(shop, key=generate_private_key(SECP256R1())),
        "no signature": f"{none}.{payload}.",
        "the signature cut off": f"{head}.{payload}.{signature[:-4]}",
        "under its own secret": jwt.encode({"iss": shop.client_id, "sub": shop.client_id}, "k" * 32, "HS256"),
        "with a key in its header": relying.assertion(shop, key=generate_private_key(SECP256R1()), header={"jwk": {"kty": "EC"}}),
        "by another name": relying.assertion(shop, header={"kid": "other"}),
        "with what must be understood": relying.assertion(shop, header={"crit": ["x"], "x": 1}),
        "from another": relying.assertion(shop, iss=relying.page.client_id),
        "about another": relying.assertion(shop, sub=relying.theirs.client_id),
        "about nobody": relying.assertion(shop, sub=None),
        "for another": relying.assertion(shop, aud="https://other.example"),
        "for another path": relying.assertion(shop, aud=f"{BASE_URL}/auth/token/"),
        "for a number": relying.assertion(shop, aud=[5]),
        "for nobody": relying.assertion(shop, aud=None),
        "expired": relying.assertion(shop, exp=now - 60),
        "for ever": relying.assertion(shop, exp=now + 3700),
        "without an end": relying.assertion(shop, exp=None),
        "with an end that is no time": relying.assertion(shop, exp=True),
        "from tomorrow": relying.assertion(shop, iat=now + 3600),
        "for tomorrow": relying.assertion(shop, nbf=now + 3600),
        "from no time": relying.assertion(shop, iat="now"),
        "without an id": relying.assertion(shop, jti=None),
        "with an empty id": relying.assertion(shop, jti=""),
        "with a long id": relying.assertion(shop, jti="x" * 501),
        "no token": "nothing",
        "not ASCII": "é.é.é",
    }


async def test_an_assertion_that_is_anything_else_is_refused(relying: Relying) -> None:
    relying.keyed(relying.shop)
    for case, assertion in bad_assertions(relying).items():
        assert oauth(await relying.ask(fields=asserting(assertion))) == (401, "invalid_client"), case
    assert oauth(await relying.ask(fields=asserting(relying.assertion(relying.theirs)))) == (401, "invalid_client")
    assert oauth(await relying.ask(fields=asserting("x" * 5000))) == (400, "invalid_request")


def asserting(assertion: str) -> dict[str, str]:
    return {**CREDENTIALS, "client_assertion": assertion, "client_assertion_type": JWT_BEARER}


async def test_a_key_that_was_taken_away_opens_nothing(relying: Relying) -> None:
    relying.keyed(relying.shop)
    relying.people.change("update services set jwks = null")
    assert oauth(await relying.ask(fields=asserting(relying.assertion(relying.shop)))) == (401, "invalid_client")


async def test_an_api_service_without_credentials_is_nobody(relying: Relying) -> None:
    backend = relying.application(relying.acme, "backend", "api")
    assert oauth(await relying.ask(fields={**CREDENTIALS, **backend.posted})) == (401, "invalid_client")


SUSPENDED: Final[Mapping[str, tuple[str, tuple[int, str]]]] = {
    "suspended organization": ("update organizations set status = 'suspended' where slug = 'acme'", (403, "access_denied")),
    "deleted organization": ("update all_organizations set deleted_at = now() where slug = 'acme'", (401, "invalid_client")),
    "deleted service": ("update all_services set deleted_at = now()", (401, "invalid_client")),
}


@pytest.mark.parametrize("case", SUSPENDED)
async def test_what_is_disabled_is_refused_on_the_next_request(relying: Relying, case: str) -> None:
    statement, refusal = SUSPENDED[case]
    tokens, code = await relying.signed_in(relying.shop), await relying.code(relying.shop)
    own = (await relying.ask(fields=CREDENTIALS, headers=relying.shop.basic)).ok()["access_token"]
    sibling = relying.application(relying.acme, "sibling", secret=True)
    relying.people.change(statement)
    shop: Application = relying.shop
    asked: list[Any] = [
        await relying.ask(fields=CREDENTIALS, headers=shop.basic),
        await relying.redeem(shop, code),
        await relying.refresh(shop, tokens["refresh_token"]),
        await relying.ask("/oauth/introspect", {"token": tokens["access_token"]}, shop.basic),
        await relying.ask("/oauth/introspect", {"token": own}, shop.basic),
        await relying.ask("/auth/revoke", {"token": tokens["access_token"]}, shop.basic),
    ]
    assert [oauth(answer) for answer in asked] == [refusal] * len(asked)
    assert (await relying.userinfo(tokens["access_token"])).status in {401, 403}
    if case == "deleted service":
        # Another service of the same organization, which still exists.
        relying.people.change("update all_services set deleted_at = null where id = %s", sibling.service.id)
        assert await relying.introspect(sibling, own) == {"active": False}
        assert await relying.introspect(sibling, tokens["refresh_token"]) == {"active": False}
        assert await relying.introspect(sibling, tokens["access_token"]) == {"active": False}

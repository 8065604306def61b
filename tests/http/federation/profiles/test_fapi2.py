"""An application that holds the FAPI 2.0 Security Profile: what is taken of it, what is refused and how, and what a change ends."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from core.domain.federation.oauth.clients import ASSERTION_TYPE
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Client, Received, refused
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, CHALLENGE, VERIFIER, Arriving, told
from tests.http.federation.bound.proving import ClientKey
from tests.http.federation.relying import claims_of, oauth
from tests.http.people import BASE_URL, People, Person

_EC: Final = generate_private_key(SECP256R1())
_RSA: Final = rsa_key(65537, 2048)
_ED: Final = Ed25519PrivateKey.generate()
_KEYS: Final[Mapping[str, tuple[Any, Any]]] = {
    "ES256": (_EC, ECAlgorithm),
    "PS256": (_RSA, RSAAlgorithm),
    "RS256": (_RSA, RSAAlgorithm),
    "EdDSA": (_ED, OKPAlgorithm),
}
_SERVICE: Final = "/api/organizations/acme/services/app"
_FORM: Final = ("content-type", "application/x-www-form-urlencoded")


def public(*algorithms: str) -> dict[str, Any]:
    """The public keys, each under the name of its algorithm."""
    members = {"kty", "crv", "x", "y", "n", "e"}
    written = {name: json.loads(_KEYS[name][1].to_jwk(_KEYS[name][0].public_key())) for name in algorithms}
    return {"keys": [{**{key: one[key] for key in members if key in one}, "kid": name} for name, one in written.items()]}


class ProfiledApplication(Arriving):
    """Acme's application on the web has keys, and holds the profile when its owner says so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.ada = self.people.add("ada@example.org")
        self.key = ClientKey(self.postern.foundation.clock.now)

    async def change(self, **fields: Any) -> Received:
        return await self.request("PATCH", _SERVICE, fields, by=self.owner)

    async def held(self, *algorithms: str) -> None:
        (await self.change(jwks=public(*algorithms or ("ES256",)), profile="fapi2")).ok()

    def assertion(self, algorithm: str = "ES256", **changed: Any) -> dict[str, str]:
        now, client = int(self.postern.foundation.clock.now().timestamp()), self.client_id(self.app)
        said = {"iss": client, "sub": client, "aud": BASE_URL, "exp": now + 60, "iat": now, "jti": str(self.postern.foundation.ids.new())}
        claims = {name: value for name, value in {**said, **changed}.items() if value is not None}
        text = jwt.encode(claims, _KEYS[algorithm][0], algorithm, {"kid": "PS256" if algorithm == "RS256" else algorithm})
        return {"client_assertion": text, "client_assertion_type": ASSERTION_TYPE}

    def now(self, ahead: int) -> int:
        return int(self.postern.foundation.clock.now().timestamp()) + ahead

    async def ask(self, path: str, fields: Mapping[str, str], *, proof: bool = True) -> Received:
        shown = [self.key.dpop(path=path)] if proof else []
        return await self.unlimited.request("POST", path, body=urlencode(fields).encode(), headers=[_FORM, *shown])

    async def push(self, shown: Mapping[str, str] | None = None, **changed: str | None) -> Received:
        asked: dict[str, str | None] = {
            "client_id": self.client_id(self.app),
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid email",
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changed,
        }
        fields = {name: value for name, value in asked.items() if value is not None}
        return await self.ask("/oauth/par", {**fields, **(self.assertion() if shown is None else shown)}, proof=False)

    async def got(self) -> str:
        pushed = (await self.push()).ok(201)["request_uri"]
        self.people.change("delete from consents")
        self.allow(self.ada)
        going = f"{AUTHORIZE}?{urlencode({'client_id': self.client_id(self.app), 'request_uri': pushed})}"
        answer = told(await self.signed_in(self.people.session_of(self.ada)).request("GET", going))
        assert answer["iss"] == BASE_URL
        self.log.remember(answer["code"])
        return answer["code"]

    async def redeem(self, code: str, shown: Mapping[str, str] | None = None, *, proof: bool = True, **changed: str | None) -> Received:
        asked: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **(self.assertion() if shown is None else shown),
            **changed,
        }
        return await self.ask("/oauth/token", {name: value for name, value in asked.items() if value is not None}, proof=proof)

    async def tokens(self) -> dict[str, Any]:
        return self.kept(await self.redeem(await self.got()))

    async def refresh(self, token: str, *, proof: bool = True) -> Received:
        return await self.ask("/oauth/token", {"grant_type": "refresh_token", "refresh_token": token, **self.assertion()}, proof=proof)

    def kept(self, answer: Received) -> dict[str, Any]:
        tokens = answer.ok()
        self.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))
        return tokens


@pytest.fixture
def holding(postern: Postern, people: People, client: Client, log: CapturedLog) -> ProfiledApplication:
    return ProfiledApplication(postern, people, client, log)


def says(answer: Received, status: int, error: str, words: str) -> None:
    assert oauth(answer) == (status, error), answer.body
    assert words in answer.json()["error_description"], answer.body


async def test_the_profile_sets_what_it_holds(holding: ProfiledApplication) -> None:
    holding.set(holding.app, assertion_audience="endpoint")
    shown = (await holding.change(jwks=public("ES256"), profile="fapi2")).ok()
    assert (shown["profile"], shown["dpop_bound_access_tokens"], shown["assertion_audience"]) == ("fapi2", True, "issuer")
    (entry,) = holding.audited("service.updated")
    assert (entry["details"]["old_profile"], entry["details"]["profile"]) == ("standard", "fapi2")
    assert (await holding.change(profile="standard")).ok()["profile"] == "standard"
    body = {"slug": "bank", "name": "Bank", "service_type": "web", "jwks": public("EdDSA"), "profile": "fapi2", "redirect_uris": [CALLBACK]}
    created = (await holding.request("POST", "/api/organizations/acme/services", body, by=holding.owner)).ok()["service"]
    assert (created["profile"], created["dpop_bound_access_tokens"]) == ("fapi2", True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dpop_bound_access_tokens": False}, "dpop_bound_access_tokens: the profile fapi2 binds"),
        ({"assertion_audience": "endpoint"}, "assertion_audience: with the profile fapi2"),
        ({"redirect_uris": ["http://localhost/callback"]}, "redirect_uris: with the profile fapi2"),
        ({"jwks": None}, "profile: fapi2 requires jwks or jwks_uri"),
        ({"service_type": "mobile", "jwks": None}, "profile: fapi2 is for web and api services"),
    ],
)
async def test_no_setting_undoes_the_profile(holding: ProfiledApplication, fields: dict[str, Any], words: str) -> None:
    await holding.held()
    answer = await holding.change(**fields)
    assert refused(answer)[0] == 400
    assert words in answer.body.decode()


async def test_an_application_with_secrets_alone_is_told_at_the_field(holding: ProfiledApplication) -> None:
    holding.secret(holding.app)
    answer = await holding.change(profile="fapi2")
    assert refused(answer)[0] == 400
    assert (
        "profile: fapi2 requires jwks or jwks_uri, with a key for PS256, ES256 or EdDSA; client secrets are no longer accepted"
        in answer.body.decode()
    )
    only_rs256 = {"keys": [{**public("PS256")["keys"][0], "alg": "RS256"}]}
    assert "profile: fapi2 requires" in (await holding.change(jwks=only_rs256, profile="fapi2")).body.decode()


@pytest.mark.parametrize("algorithm", ["ES256", "PS256", "EdDSA"])
async def test_a_sign_in_by_each_algorithm(holding: ProfiledApplication, algorithm: str) -> None:
    await holding.held("ES256", "PS256", "EdDSA")
    pushed = (await holding.push(holding.assertion(algorithm))).ok(201)
    assert pushed["expires_in"] == 60
    tokens = holding.kept(await holding.redeem(await holding.got(), holding.assertion(algorithm)))
    assert tokens["token_type"] == "DPoP"
    assert claims_of(tokens["access_token"])["cnf"] == {"jkt": holding.key.thumbprint}


async def test_a_code_works_once(holding: ProfiledApplication) -> None:
    await holding.held()
    code = await holding.got()
    holding.kept(await holding.redeem(code))
    says(await holding.redeem(code), 400, "invalid_grant", "")
    code = await holding.got()
    holding.people.change("update authorization_codes set expires_at = now() where redeemed_at is null")
    says(await holding.redeem(code), 400, "invalid_grant", "")


@pytest.mark.parametrize(
    ("algorithm", "changed"),
    [
        ("RS256", {}),
        ("ES256", {"aud": [BASE_URL]}),
        ("ES256", {"aud": f"{BASE_URL}/oauth/token"}),
        ("ES256", {"aud": f"{BASE_URL}/oauth/par"}),
        ("ES256", {"aud": [BASE_URL, "https://other.example"]}),
        ("ES256", {"exp": 1000}),
    ],
)
async def test_another_assertion_is_refused_with_the_rule(holding: ProfiledApplication, algorithm: str, changed: dict[str, Any]) -> None:
    await holding.held("ES256", "PS256")
    words = "signed with PS256, ES256 or EdDSA, whose aud is the issuer only, as a string"
    says(await holding.push(holding.assertion(algorithm, **changed)), 401, "invalid_client", words)
    says(await holding.redeem("x" * 43, holding.assertion(algorithm, **changed)), 401, "invalid_client", words)


@pytest.mark.parametrize(("ahead", "counts"), [(8, True), (10, True), (61, False)])
@pytest.mark.parametrize("name", ["iat", "nbf"])
async def test_a_clock_that_is_ahead(holding: ProfiledApplication, name: str, ahead: int, *, counts: bool) -> None:
    await holding.held()
    changed: dict[str, Any] = {name: holding.now(ahead), "exp": holding.now(120)}
    answer = await holding.push(holding.assertion(**changed))
    assert answer.status == (201 if counts else 401), answer.body


async def test_secrets_count_no_more(holding: ProfiledApplication) -> None:
    secret, client = holding.secret(holding.app), holding.client_id(holding.app)
    await holding.held()
    code = await holding.got()
    shown = {"client_id": client, "client_secret": secret}
    words = "Its security profile fapi2 requires private_key_jwt"
    says(await holding.redeem(code, shown), 401, "invalid_client", words)
    says(await holding.push(shown), 401, "invalid_client", words)
    says(await holding.redeem(code, {"client_id": client}), 401, "invalid_client", "")
    says(await holding.ask("/oauth/token", {"grant_type": "client_credentials", **shown}), 401, "invalid_client", words)
    # None of that used the code up.
    holding.kept(await holding.redeem(code))


async def test_only_pushed_requests_with_s256(holding: ProfiledApplication) -> None:
    await holding.held()
    holding.allow(holding.ada)
    answer = told(await holding.signed_in(holding.ada).request("GET", holding.asking()))
    assert (answer["error"], answer["state"]) == ("invalid_request", "a b&c")
    assert "requires pushed requests" in answer["error_description"]
    says(await holding.push(code_challenge=None, code_challenge_method=None), 400, "invalid_request", "requires PKCE with S256")
    says(await holding.push(code_challenge_method="plain"), 400, "invalid_request", "S256")
    says(await holding.push(code_challenge_method=None), 400, "invalid_request", "S256")
    says(await holding.push(redirect_uri="https://other.example/"), 400, "invalid_request", "")
    says(await holding.push(response_type="code id_token"), 400, "unsupported_response_type", "")
    code = await holding.got()
    says(
        await holding.redeem(code, code_verifier=None), 400, "invalid_grant", "the security profile fapi2 of this application requires PKCE"
    )
    says(await holding.redeem(code, code_verifier="x" * 43), 400, "invalid_grant", "")
    holding.kept(await holding.redeem(code))


async def test_an_applications_own_page_leads_to_no_provider(holding: ProfiledApplication) -> None:
    await holding.held()
    answer = await holding.browser().request("GET", "/auth/codehost?service=app&org=acme")
    assert answer.status in {303, 400, 404}
    assert "githu" not in (answer.header("location") or "")


async def test_no_device_gets_in_by_a_code(holding: ProfiledApplication) -> None:
    """Nor gets one a code, since a person would allow what never comes. A code of before opens nothing."""
    asked = {"client_id": holding.client_id(holding.app), "scope": "openid"}
    codes = (await holding.ask("/auth/device/code", asked, proof=False)).ok()
    holding.log.remember(codes["device_code"], codes["user_code"])
    await holding.held()
    for shown in ({}, holding.assertion()):
        answer = await holding.ask("/auth/device/code", {**asked, **shown}, proof=False)
        says(answer, 400, "unauthorized_client", "does not support device codes")
    assert len(holding.people.rows("select from device_codes")) == 1
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    answer = await holding.ask("/oauth/token", {"grant_type": grant, "device_code": codes["device_code"], **holding.assertion()})
    says(answer, 400, "unauthorized_client", "does not support device codes")


async def test_tokens_are_bound(holding: ProfiledApplication) -> None:
    await holding.held()
    code = await holding.got()
    says(await holding.redeem(code, proof=False), 400, "invalid_dpop_proof", "")
    tokens = holding.kept(await holding.redeem(code))
    says(await holding.refresh(tokens["refresh_token"], proof=False), 400, "invalid_dpop_proof", "")
    assert (await holding.client.get("/oauth/userinfo", token=tokens["access_token"])).status == 401


async def test_refresh_tokens_stay(holding: ProfiledApplication) -> None:
    """Two requests at once, an answer that is lost, a repeat much later: nothing of it is a theft."""
    await holding.held()
    tokens = await holding.tokens()
    for _ in range(3):
        again = holding.kept(await holding.refresh(tokens["refresh_token"]))
        assert again["refresh_token"] == tokens["refresh_token"]
        assert again["token_type"] == "DPoP"
        holding.people.change("update refresh_tokens set created_at = created_at - interval '1 hour'")
    at_once = await all_at_once(*[lambda: holding.refresh(tokens["refresh_token"])] * 5)
    assert {holding.kept(answer)["refresh_token"] for answer in at_once} == {tokens["refresh_token"]}
    (kept,) = holding.people.rows("select rotated_at, rotated_by from refresh_tokens")
    assert kept == {"rotated_at": None, "rotated_by": None}
    assert not holding.told("events") or "reused" not in str(holding.told())


async def test_tokens_of_before_the_profile(holding: ProfiledApplication) -> None:
    """One that was exchanged before is refused, and ends no session; the newest goes on, from now on with a key."""
    (await holding.change(jwks=public("ES256"))).ok()
    first = holding.kept(await holding.redeem(await holding.got(), proof=False))
    second = holding.kept(await holding.refresh(first["refresh_token"], proof=False))
    holding.people.change("update refresh_tokens set rotated_at = rotated_at - interval '1 hour'")
    (await holding.change(profile="fapi2")).ok()
    says(await holding.refresh(first["refresh_token"]), 400, "invalid_grant", "")
    says(await holding.refresh(second["refresh_token"], proof=False), 400, "invalid_dpop_proof", "")
    third = holding.kept(await holding.refresh(second["refresh_token"]))
    assert third["refresh_token"] == second["refresh_token"]
    # Whoever takes the profile back exchanges tokens again. Each session is what it began as, and this one began without a key.
    bound = holding.kept(await holding.redeem(await holding.got()))
    (await holding.change(profile="standard", dpop_bound_access_tokens=False)).ok()
    says(await holding.refresh(bound["refresh_token"], proof=False), 400, "invalid_grant", "")
    fourth = holding.kept(await holding.refresh(third["refresh_token"], proof=False))
    assert fourth["refresh_token"] != third["refresh_token"]


async def test_a_change_ends_what_is_under_way(holding: ProfiledApplication) -> None:
    """Switched back while codes are out: neither the code nor the pushed request counts by the weaker rules."""
    secret = holding.secret(holding.app)
    await holding.held()
    code = await holding.got()
    pushed = (await holding.push()).ok(201)["request_uri"]
    (await holding.change(profile="standard", dpop_bound_access_tokens=False)).ok()
    shown = {"client_id": holding.client_id(holding.app), "client_secret": secret}
    says(await holding.redeem(code, shown, proof=False), 400, "invalid_grant", "")
    says(await holding.redeem(code), 400, "invalid_grant", "")
    going = f"{AUTHORIZE}?{urlencode({'client_id': holding.client_id(holding.app), 'request_uri': pushed})}"
    answer = await holding.signed_in(holding.people.session_of(holding.ada)).request("GET", going)
    assert answer.status == 400
    # And the other way round.
    holding.allow(holding.people.add("bob@example.org"))
    weak = told(
        await holding.signed_in(holding.people.session_of(holding.ada)).request(
            "GET", holding.asking(code_challenge=None, code_challenge_method=None)
        )
    )["code"]
    holding.log.remember(weak)
    (await holding.change(profile="fapi2")).ok()
    says(await holding.redeem(weak), 400, "invalid_grant", "")


async def test_a_request_of_before_the_profile_gets_no_code(holding: ProfiledApplication) -> None:
    tab = await holding.signed_in(holding.ada).tab().open(holding.asking())
    assert "Allow" in tab.shown.body.decode()
    await holding.held()
    await tab.send(answer="allow")
    assert "requires+pushed+requests" in tab.page.refresh
    assert holding.codes() == []


async def test_who_holds_no_profile_notices_nothing(holding: ProfiledApplication) -> None:
    (await holding.change(jwks=public("PS256", "EdDSA"))).ok()
    listed = holding.assertion("RS256", aud=[BASE_URL])
    (await holding.push(listed, code_challenge=None, code_challenge_method=None)).ok(201)
    (await holding.push(holding.assertion("EdDSA"))).ok(201)
    holding.allow(holding.ada)
    assert "code" in told(await holding.signed_in(holding.ada).request("GET", holding.asking()))


async def test_discovery_names_the_algorithm(holding: ProfiledApplication) -> None:
    said = (await holding.client.get("/.well-known/openid-configuration")).ok()
    assert "EdDSA" in said["token_endpoint_auth_signing_alg_values_supported"]
    assert said["authorization_response_iss_parameter_supported"] is True


async def test_another_tenant_cannot_set_it(holding: ProfiledApplication) -> None:
    stranger: Person = holding.resident(holding.tenants.add("globex"), "owner")
    assert (await holding.request("PATCH", _SERVICE, {"profile": "fapi2"}, by=stranger)).status == 403

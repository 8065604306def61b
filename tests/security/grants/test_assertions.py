"""Attacks on identity assertions: what another directory, another application, another organization and a thief bring, what was turned
off meanwhile, and the races of each end.
"""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from hashlib import sha256
from time import time
from typing import Any, Final, NamedTuple

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from psycopg.types.json import Jsonb

from core.domain.identity.sessions import TWO_FACTORS
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import KEY, OTHER_KEY, FakeProvider, public_jwk
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.connections.asserting import GRANT, PROVIDERS, TYPE, Asserting, pasted
from tests.http.federation.relying import claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
_REFUSED: Final = (400, "invalid_grant")
_TARGET: Final = (400, "invalid_target")
_SCOPE: Final = (400, "invalid_scope")


@pytest.fixture
def directory() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, directory: FakeProvider) -> Asserting:
    return Asserting(postern, people, unlimited(postern), log).begin(directory)


async def test_a_good_assertion_gives_one_token_and_nothing_else(scene: Asserting) -> None:
    answer = (await scene.bring(scene.assertion())).ok()
    assert sorted(answer) == ["access_token", "expires_in", "scope", "token_type"]
    assert (answer["expires_in"], answer["scope"]) == (600, "orders:read orders:write")
    scene.log.remember(answer["access_token"])
    said = claims_of(answer["access_token"])
    assert (said["aud"], said["sub"], said["client_id"]) == (ORDERS, str(scene.ada.user), scene.shop.client_id)
    assert (said["token_use"], said["amr"], said["scope"], "auth_time" in said) == ("resource", ["fed"], "orders:read orders:write", False)
    assert await scene.lives(answer["access_token"])
    (session,) = scene.people.rows("select * from sessions where scopes is not null")
    assert (session["parent_id"], session["opened_through"], session["scopes"]) == (None, scene.provider, [])
    assert scene.people.rows("select from refresh_tokens where session_id = %s", session["id"]) == []
    (used,) = scene.people.rows("select first_login_at is not null as came, own_since from service_users")
    assert (used["came"], used["own_since"]) == (True, None)
    (entry,) = scene.audited("user.assertion.accepted")
    assert (entry["actor_id"], entry["details"]["provider"], entry["details"]["resource"]) == (scene.ada.user, "Acme login", ORDERS)
    # It opens nothing of ours, userinfo included: the person allowed the application nothing.
    assert (await scene.userinfo(answer["access_token"])).status in {401, 403}
    assert (await scene.client.get("/api/user", token=answer["access_token"])).status == 401


async def test_the_token_ends_as_early_as_the_api_lets_it(scene: Asserting) -> None:
    scene.people.change("update resource_servers set token_lifetime = 60")
    assert (await scene.bring(scene.assertion())).ok()["expires_in"] == 60


async def test_a_request_narrows_and_never_widens(scene: Asserting) -> None:
    scene.api(BILLS, scopes=[{"name": "bills:read", "description": "See bills"}])
    two = [ORDERS, BILLS]
    assert claims_of((await scene.bring(scene.assertion(), scope="orders:read")).ok()["access_token"])["scope"] == "orders:read"
    assert claims_of((await scene.bring(scene.assertion(scope=None))).ok()["access_token"])["scope"] == ""
    assert claims_of((await scene.bring(scene.assertion(resource=two), resource=ORDERS)).ok()["access_token"])["aud"] == ORDERS
    assert claims_of((await scene.bring(scene.assertion(resource=[ORDERS]))).ok()["access_token"])["aud"] == ORDERS
    refused: dict[str, tuple[str, dict[str, Any], tuple[int, str]]] = {
        "a scope that the assertion does not have": (scene.assertion(scope="orders:read"), {"scope": "orders:read orders:write"}, _SCOPE),
        "a scope without any in the assertion": (scene.assertion(scope=None), {"scope": "orders:read"}, _SCOPE),
        "scopes of another API alone": (scene.assertion(scope="bills:read"), {}, _SCOPE),
        "a scope that is no text": (scene.assertion(scope=["orders:read"]), {}, _SCOPE),
        "another API": (scene.assertion(), {"resource": BILLS}, _TARGET),
        "no API in the assertion": (scene.assertion(resource=None), {"resource": ORDERS}, _TARGET),
        "several, and none chosen": (scene.assertion(resource=two), {}, _TARGET),
        "an API that is no text": (scene.assertion(resource=[{"a": 1}]), {}, _TARGET),
        "more APIs than a request may name": (scene.assertion(resource=[ORDERS] * 6), {}, _TARGET),
        "an unknown API": (scene.assertion(resource="https://api.acme.example/none"), {}, _TARGET),
    }
    for what, (assertion, fields, outcome) in refused.items():
        assert oauth(await scene.bring(assertion, **fields)) == outcome, what


async def test_an_api_of_another_organization_and_one_that_does_not_admit(scene: Asserting) -> None:
    theirs = "https://api.globex.example/"
    scene.api(theirs, scene.globex)
    assert oauth(await scene.bring(scene.assertion(resource=theirs, scope=None))) == _TARGET
    scene.people.change("update resource_servers set admits = 'named'")
    assert oauth(await scene.bring(scene.assertion())) == _TARGET
    assert await scene.faults() == [("resource_closed", 2)]


async def test_a_scope_whose_permission_the_person_lacks_is_left_out(scene: Asserting) -> None:
    scopes = [
        {"name": "orders:read", "description": "d", "permission": None},
        {"name": "orders:write", "description": "d", "permission": "p"},
    ]
    scene.people.change("update resource_servers set scopes = %s", Jsonb(scopes))
    assert claims_of(await scene.token())["scope"] == "orders:read"


@pytest.mark.parametrize("demand", [{"acr_values": [TWO_FACTORS]}, {"max_age": 300}])
async def test_a_scope_that_asks_for_a_proof_is_left_out(scene: Asserting, demand: dict[str, Any]) -> None:
    """Nobody signs in here, whatever the directory says of its own sign-in."""
    scopes = [
        {"name": f"orders:{word}", "description": "d", "permission": None, **more} for word, more in (("read", {}), ("write", demand))
    ]
    scene.people.change("update resource_servers set scopes = %s", Jsonb(scopes))
    assert claims_of(await scene.token(amr=["mfa"], acr=TWO_FACTORS, auth_time=int(time())))["scope"] == "orders:read"


class _Shift(NamedTuple):
    """So many seconds from when the assertion is made: a long run collects its tests long before."""

    seconds: int


_WRONG: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "another issuer": ({"iss": "https://elsewhere.example"}, ""),
    "no issuer": ({"iss": None}, ""),
    "another audience": ({"aud": "https://elsewhere.example"}, "audience"),
    "our audience and another": ({"aud": [BASE_URL, "https://elsewhere.example"]}, "audience"),
    "our token endpoint": ({"aud": f"{BASE_URL}/auth/token"}, "audience"),
    "no audience": ({"aud": None}, "audience"),
    "old": ({"iat": _Shift(-900), "exp": _Shift(-600)}, "expired"),
    "without an end": ({"exp": None}, "expired"),
    "for an hour": ({"exp": _Shift(3600)}, "lifetime"),
    "for an hour, half over": ({"iat": _Shift(-3400), "exp": _Shift(200)}, "lifetime"),
    "without a beginning": ({"iat": None}, "lifetime"),
    "from the future": ({"iat": _Shift(200), "exp": _Shift(290)}, "early"),
    "valid later": ({"nbf": _Shift(200)}, "early"),
    "without an id": ({"jti": None}, "repeatable"),
    "another application's": ({"client_id": "0199d3a0-0000-7000-8000-000000000001"}, "client"),
    "nobody's": ({"client_id": None}, "client"),
    "an unknown person": ({"sub": "u-2"}, "person_unknown"),
    "a person by the address alone": ({"sub": "ada@example.org", "email": "ada@example.org"}, "person_unknown"),
    "no person": ({"sub": None}, "subject"),
    "a key to prove": ({"cnf": {"jkt": "x"}}, "narrower"),
    "structured details": ({"authorization_details": []}, "narrower"),
    "somebody acting": ({"act": {"sub": "bot"}}, "narrower"),
    "a tenant of theirs": ({"tenant": "t"}, "narrower"),
    "a tenant of ours": ({"aud_tenant": "globex"}, "narrower"),
}


@pytest.mark.parametrize("what", _WRONG)
async def test_a_wrong_claim_gives_no_token_and_the_recorder_says_why(scene: Asserting, what: str) -> None:
    changed, fault = _WRONG[what]
    now = int(time())
    said: dict[str, Any] = {name: now + value.seconds if isinstance(value, _Shift) else value for name, value in changed.items()}
    assert oauth(await scene.bring(scene.assertion(**said))) == _REFUSED
    assert await scene.faults() == ([(fault, 1)] if fault else [])
    assert scene.living() == 0
    assert scene.people.rows("select from identity_assertions") == []


async def test_the_organizations_own_id_is_its_tenant_here(scene: Asserting) -> None:
    assert (await scene.bring(scene.assertion(aud_tenant=str(scene.acme.id)))).status == 200


def _part(value: dict[str, Any]) -> bytes:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _hmac_with_public_key(scene: Asserting) -> str:
    """HS256 under what anybody can read. The library refuses to make it, so it is put together here."""
    secret = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    message = _part({"alg": "HS256", "typ": TYPE, "kid": "one"}) + b"." + _part(scene.claims())
    return (message + b"." + urlsafe_b64encode(hmac.new(secret, message, sha256).digest()).rstrip(b"=")).decode()


_SIGNED: Final[dict[str, tuple[Callable[[Asserting], str], str]]] = {
    "none": (lambda scene: jwt.encode(scene.claims(), "", algorithm="none", headers={"typ": TYPE, "kid": "one"}), "signature"),
    "the public key as a secret": (_hmac_with_public_key, "signature"),
    "another key by the same name": (
        lambda scene: jwt.encode(scene.claims(), OTHER_KEY, algorithm="RS256", headers={"typ": TYPE, "kid": "one"}),
        "signature",
    ),
    "an unknown key": (lambda scene: jwt.encode(scene.claims(), KEY, algorithm="RS256", headers={"typ": TYPE, "kid": "two"}), "key"),
    "the key of the message": (
        lambda scene: jwt.encode(
            scene.claims(),
            OTHER_KEY,
            algorithm="RS256",
            headers={"typ": TYPE, "kid": "mine", "jwk": public_jwk("mine", OTHER_KEY), "jku": "https://evil.example/keys"},
        ),
        "key",
    ),
    "critical members": (
        lambda scene: jwt.encode(scene.claims(), KEY, algorithm="RS256", headers={"typ": TYPE, "kid": "one", "crit": ["x"], "x": 1}),
        "malformed",
    ),
    "cut off": (lambda scene: scene.assertion()[:-8], "signature"),
}


@pytest.mark.parametrize("what", _SIGNED)
async def test_another_signature_gives_no_token(scene: Asserting, what: str) -> None:
    made, fault = _SIGNED[what]
    assert oauth(await scene.bring(made(scene))) == _REFUSED
    assert await scene.faults() == [(fault, 1)]


_NO_ISSUER: Final = "eyJ0eXAiOiJvYXV0aC1pZC1qYWcrand0In0.eyJpc3MiOnsiYSI6MX19.x"


@pytest.mark.parametrize("text", [_NO_ISSUER, "x", "a.b.c", "e30.e30.", "é.e30.x", "[]." * 1000, "eyJ0eXAiOjF9.bnVsbA.x"])
async def test_what_is_no_assertion_is_refused(scene: Asserting, text: str) -> None:
    assert oauth(await scene.bring(text)) in {_REFUSED, (400, "invalid_request")}
    assert await scene.faults() == []


@pytest.mark.parametrize("named", ["JWT", None, "at+jwt", "oauth-id-jag"])
async def test_another_token_of_the_directory_is_no_assertion(scene: Asserting, named: str | None) -> None:
    """An ID token, for one. It is taken for a workload's, whose issuer somebody must trust."""
    signed = jwt.encode(scene.claims(), KEY, algorithm="RS256", headers={"typ": named, "kid": "one"})
    assert (await scene.bring(signed)).status in {400, 401}
    assert scene.living() == 0


async def test_what_is_too_long_is_not_read(scene: Asserting) -> None:
    answer = await scene.bring(scene.assertion(more="x" * (16 << 10)))
    assert answer.status in {400, 413}
    assert oauth(await scene.ask(fields={"grant_type": GRANT, **scene.shop.posted})) == (400, "invalid_request")


async def test_an_assertion_is_for_the_client_that_authenticates(scene: Asserting) -> None:
    """Neither another application of the organization, nor one that cannot authenticate, nor another organization's can use it."""
    assertion = scene.assertion()
    assert oauth(await scene.bring(assertion, scene.other)) == _REFUSED
    assert oauth(await scene.bring(assertion, scene.theirs)) == _REFUSED
    for public in (scene.page, scene.phone):
        assert oauth(await scene.bring(scene.assertion(public), public)) == (400, "unauthorized_client")
    wrong = {**scene.shop.posted, "client_secret": "cs_wrong_wrong"}
    assert oauth(await scene.ask(fields={"grant_type": GRANT, "assertion": assertion, **wrong})) == (401, "invalid_client")
    # Nobody has used it up meanwhile.
    assert (await scene.bring(assertion)).status == 200


async def test_one_issuer_in_two_organizations(scene: Asserting, directory: FakeProvider) -> None:
    """Globex connects the same issuer, and knows Ada by another subject. Each application finds its own organization's connection alone."""
    scene.api("https://api.globex.example/", scene.globex)
    at_globex = {"resource": "https://api.globex.example/", "scope": None}
    # Without a connection of its own, globex's application gets nothing from acme's.
    assert oauth(await scene.bring(scene.assertion(scene.theirs, **at_globex), scene.theirs)) == _REFUSED
    theirs = scene.connect(scene.globex, directory, name="Globex login")
    # Globex has not proved the domain, and Ada is no member there.
    scene.know(scene.ada, "g-1", theirs)
    for subject in ("g-1", "u-1"):
        assert oauth(await scene.bring(scene.assertion(scene.theirs, sub=subject, **at_globex), scene.theirs)) == _REFUSED
    # Acme's application gets nobody by globex's subject.
    assert oauth(await scene.bring(scene.assertion(sub="g-1"))) == _REFUSED
    assert scene.living() == 0
    assert (await scene.bring(scene.assertion())).status == 200


async def test_another_connection_of_the_organization(scene: Asserting) -> None:
    """The keys, and the people, are those of the connection with the issuer of the assertion."""
    with FakeProvider(key=OTHER_KEY, published=[public_jwk("one", OTHER_KEY)]) as other:
        scene.connect(scene.acme, other, name="Another login")
        # Acme's directory signs in the other's name.
        assert oauth(await scene.bring(scene.assertion(iss=other.issuer))) == _REFUSED
        # And the other directory names the people of the first one.
        signed = jwt.encode(scene.claims(iss=other.issuer), OTHER_KEY, algorithm="RS256", headers={"kid": "one", "typ": TYPE})
        assert oauth(await scene.bring(signed)) == _REFUSED
    assert await scene.faults() == [("person_unknown", 1), ("signature", 1)]


_OFF: Final[dict[str, tuple[str, str]]] = {
    "off": ("update upstream_providers set enabled = false", "connection_off"),
    "a draft": ("update upstream_providers set enabled = false, state = 'draft'", "connection_off"),
    "tested alone": ("update upstream_providers set enabled = false, state = 'tested'", "connection_off"),
    "issuing nothing": ("update upstream_providers set issues_assertions = false", "not_issuing"),
    "of another domain": ("update domains set domain = 'another.example'", "domain"),
    "of a domain that is not proved any more": ("update domains set verified_at = null, next_check_at = null", "domain"),
    "of an owner of the platform": ("update users set is_platform_owner = true where email = 'ada@example.org'", "domain"),
    "of a deactivated person": ("update users set deactivated_at = now() where email = 'ada@example.org'", "person_deactivated"),
    "of nobody's account": ("delete from identities", "person_unknown"),
    "of a person who left": ("delete from memberships where role = 'member'", "not_member"),
    "of a listed person": ("update memberships set own_since = null", "not_member"),
    "for an application with roles": ("update all_services set sign_in_policy = 'assigned'", "not_admitted"),
    "of a person who owes a factor": (
        "update all_organizations set mfa_required_since = now() - interval '99 days', mfa_grace_days = 0",
        "not_admitted",
    ),
}


@pytest.mark.parametrize("what", _OFF)
async def test_what_does_not_stand_gives_no_token(scene: Asserting, what: str) -> None:
    change, fault = _OFF[what]
    scene.people.change(change)
    answer = await scene.bring(scene.assertion())
    assert oauth(answer) == _REFUSED
    assert await scene.faults() == [(fault, 1)]
    assert scene.living() == 0
    if fault in {"domain", "person_deactivated", "person_unknown", "not_member", "not_admitted"}:
        # The application does not learn which of these it was.
        assert answer.json()["error_description"] == "The connection does not let this person in: its recorder says why"


async def test_people_who_must_sign_in_elsewhere(scene: Asserting) -> None:
    """The organization leads people of the domain to another provider, and accepts nothing else."""
    with FakeProvider() as other:
        wanted = scene.connect(scene.acme, other, name="The only login", issues=False)
        scene.people.change("delete from domains")
        scene.people.change(
            "insert into domain_routes (id, org_id, domain, own_provider, login_policy, join_policy, token, verified_at, next_check_at,"
            " created_at, updated_at) values (gen_random_uuid(), %s, 'example.org', %s, 'upstream_only', 'off', 't', now(),"
            " now() + interval '1 day', now(), now())",
            *(scene.acme.id, wanted),
        )
        assert oauth(await scene.bring(scene.assertion())) == _REFUSED
        assert await scene.faults() == [("domain", 1)]
        scene.people.change("update domain_routes set own_provider = %s", scene.provider)
        assert (await scene.bring(scene.assertion())).status == 200


async def test_a_closed_organization(scene: Asserting) -> None:
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert (await scene.bring(scene.assertion())).status == 403


@pytest.mark.parametrize("end", ["delete from identities", "delete from users where email = 'ada@example.org'"])
async def test_what_ends_while_its_assertion_is_examined_gives_no_token(
    scene: Asserting, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    resources = scene.postern.federation.identity_assertions.resources
    meanwhile(monkeypatch, resources, "find", lambda: scene.people.change(end))
    assert oauth(await scene.bring(scene.assertion())) == _REFUSED
    assert await scene.faults() == [("domain", 1)]
    assert scene.living() == 0
    assert scene.people.rows("select from identity_assertions") == []


async def test_an_assertion_works_once(scene: Asserting) -> None:
    assertion = scene.assertion()
    assert (await scene.bring(assertion)).status == 200
    assert oauth(await scene.bring(assertion)) == _REFUSED
    # Another assertion with the same id is the same one.
    (jti,) = (jwt.decode(assertion, options={"verify_signature": False})["jti"],)
    assert oauth(await scene.bring(scene.assertion(jti=jti))) == _REFUSED
    assert await scene.faults() == [("used", 2)]


async def test_of_twenty_at_once_one_wins(scene: Asserting) -> None:
    assertion = scene.assertion()
    answers = await all_at_once(*[partial(scene.bring, assertion)] * 20)
    assert sorted(answer.status for answer in answers) == [200] + [400] * 19
    assert scene.living() == 1


async def test_a_directory_that_cannot_be_reached(scene: Asserting, directory: FakeProvider) -> None:
    directory.fails = True
    assert oauth(await scene.bring(scene.assertion())) == _REFUSED
    assert await scene.faults() == [("keys_away", 1)]


async def test_a_directory_by_saml_signs_with_the_keys_that_an_owner_named(scene: Asserting, directory: FakeProvider) -> None:
    scene.people.change(
        "update upstream_providers set kind = 'saml', client_id = null, sealed_client_secret = null, saml = '{}', certificate = 'c',"
        " sealed_private_key = 'k', issuer = 'urn:acme:directory'"
    )
    scene.people.change("update identities set issuer = 'urn:acme:directory'")
    # Its entity id is no issuer of assertions.
    assert oauth(await scene.bring(scene.assertion(iss="urn:acme:directory"))) == _REFUSED
    scene.people.change(
        "update upstream_providers set assertion_issuer = %s, assertion_jwks_uri = %s", directory.issuer, f"{directory.url}/keys"
    )
    assert (await scene.bring(scene.assertion())).status == 200
    scene.people.change("update upstream_providers set assertion_jwks_uri = null, assertion_jwks = %s", pasted())
    assert (await scene.bring(scene.assertion())).status == 200
    keys = Jsonb({"keys": [public_jwk("one", OTHER_KEY)]})
    scene.people.change("update upstream_providers set assertion_jwks = %s", keys)
    assert oauth(await scene.bring(scene.assertion())) == _REFUSED
    assert await scene.faults() == [("signature", 1)]


async def test_the_claim_with_the_subject_is_named(scene: Asserting) -> None:
    """A `sub` that differs from client to client: another claim has the one of sign-ins here."""
    scene.people.change("update upstream_providers set assertion_subject = 'oid'")
    assert (await scene.bring(scene.assertion(sub="pairwise", oid="u-1"))).status == 200
    for wrong in ({"oid": None}, {"oid": 1}, {"oid": ""}, {"oid": "x" * 256}):
        assert oauth(await scene.bring(scene.assertion(**wrong))) == _REFUSED
    assert oauth(await scene.bring(scene.assertion(oid="u-2"))) == _REFUSED
    assert await scene.faults() == [("person_unknown", 1), ("subject", 4)]


_Act = Callable[[Asserting], Awaitable[Any]]


async def _turn_off(scene: Asserting) -> None:
    (await scene.request("PATCH", f"{PROVIDERS}/{scene.provider}", {"enabled": False}, by=scene.boss)).ok()


async def _stop_issuing(scene: Asserting) -> None:
    (await scene.request("PUT", f"{PROVIDERS}/{scene.provider}/assertions", {"issues": False}, by=scene.boss)).ok()


async def _delete_connection(scene: Asserting) -> None:
    assert (await scene.request("DELETE", f"{PROVIDERS}/{scene.provider}", by=scene.boss)).status == 204


async def _remove_member(scene: Asserting) -> None:
    answer = await scene.request("POST", f"/api/organizations/acme/members/{scene.ada.user}", by=scene.boss)
    assert answer.status in {200, 204}, answer.body


async def _deactivate(scene: Asserting) -> None:
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)


async def _delete_service(scene: Asserting) -> None:
    assert (await scene.request("DELETE", "/api/organizations/acme/services/shop", by=scene.boss)).status in {200, 202, 204}


async def _delete_api(scene: Asserting) -> None:
    path = f"/api/organizations/acme/resource-servers/{scene.api_id}"
    assert (await scene.request("DELETE", path, by=scene.boss)).status == 204


_ENDS: Final[dict[str, _Act]] = {
    "the connection is turned off": _turn_off,
    "it issues no assertions any more": _stop_issuing,
    "it is deleted": _delete_connection,
    "the person is no member any more": _remove_member,
    "the person is deactivated": _deactivate,
    "the application is deleted": _delete_service,
    "the API is deleted": _delete_api,
}


@pytest.mark.parametrize("end", _ENDS)
async def test_each_end_counts_from_the_next_request_on(scene: Asserting, end: str) -> None:
    token = await scene.token()
    assert await scene.lives(token)
    await _ENDS[end](scene)
    assert not await scene.lives(token)


async def test_the_membership_ends_it_also_for_whoever_uses_the_application_by_themselves(scene: Asserting) -> None:
    token = await scene.token()
    scene.people.change("update service_users set own_since = now()")
    scene.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{openid}', now())",
        *(scene.ada.user, scene.shop.service.id),
    )
    await _remove_member(scene)
    assert not await scene.lives(token)


@pytest.mark.parametrize("end", list(_ENDS)[:4])
async def test_two_hundred_assertions_race_with_the_end(scene: Asserting, end: str) -> None:
    """Whoever is quicker: at the next look, each token of each of them is over."""
    tokens: list[str] = []

    async def one(assertion: str) -> None:
        answer = await scene.bring(assertion)
        if answer.status == 200:
            tokens.append(answer.json()["access_token"])
        else:
            assert oauth(answer) == _REFUSED

    async def in_the_middle() -> None:
        with trio.fail_after(PATIENCE):
            while len(tokens) < RACERS // 10:
                await trio.sleep(0)
        await _ENDS[end](scene)

    await all_at_once(in_the_middle, *[partial(one, scene.assertion()) for _ in range(RACERS)])
    assert tokens
    assert [token for token in tokens if await scene.lives(token)] == []
    assert scene.living() == 0

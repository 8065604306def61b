"""Attacks on workloads: tokens of another issuer, audience, subject or time, keys that are not the issuer's, and rules of somebody else."""

import hmac
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_encode

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.bound.proving import ClientKey
from tests.http.federation.relying import Relying, oauth
from tests.http.federation.workloads.issuing import GRANT, KEY, STRANGERS_KEY, SUBJECT, Issuer, issuing, public_jwk
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
REFUSED: Final = (400, "invalid_grant")
RACERS: Final = 50
SERVICES: Final = "/api/organizations/acme/services"
RULES: Final = "/api/organizations/acme/trusted-issuers"


@pytest.fixture
async def issuer(postern: Postern, people: People, log: CapturedLog) -> AsyncIterator[Issuer]:
    async with issuing(Relying(postern, people, unlimited(postern), log)) as made:
        yield made


def said(answer: Received) -> tuple[tuple[int, str], str]:
    """The refusal, and the part of the assertion that it names. Nothing of the token is in it."""
    description = str(answer.json()["error_description"])
    assert SUBJECT not in description
    return oauth(answer), description


def parts(issuer: Issuer, header: Mapping[str, Any], key: bytes | None = None) -> str:
    """A token that PyJWT would not make. With `key`, it is signed by HMAC."""
    payload = issuer.token().split(".")[1]
    head = f"{base64url_encode(json.dumps(header).encode()).decode()}.{payload}"
    signature = b"" if key is None else hmac.digest(key, head.encode(), "sha256")
    return f"{head}.{base64url_encode(signature).decode()}"


async def test_another_clients_rule_is_nobodys(issuer: Issuer) -> None:
    """A rule counts for its own client alone: not for another of the organization, of another organization, or for a key."""
    relying = issuer.relying
    await issuer.trusted()
    _, key = issuer.key("services.view")
    for other in (relying.page, relying.theirs, relying.phone, str(key), str(uuid4()), str(relying.acme.id)):
        assert said(await issuer.asks(issuer.token(), other)) == (REFUSED, "assertion: nobody trusts its issuer here")
    (await issuer.asks(issuer.token())).ok()


async def test_the_same_issuer_in_two_organizations(issuer: Issuer) -> None:
    """Both trust one issuer. Each gets what its own pattern says."""
    relying = issuer.relying
    globex_owner = relying.resident(relying.globex, "owner")
    await issuer.trusted()
    await issuer.trusted(by=globex_owner, slug="globex", subject_pattern="repo:globex/shop:ref:refs/heads/main")
    assert oauth(await issuer.asks(issuer.token(), relying.theirs)) == REFUSED
    assert oauth(await issuer.asks(issuer.token(sub="repo:globex/shop:ref:refs/heads/main"))) == REFUSED
    (await issuer.asks(issuer.token(sub="repo:globex/shop:ref:refs/heads/main"), relying.theirs)).ok()


_AUDIENCE: Final = "assertion: it is for another audience, or for several"
_EXPIRED: Final = "assertion: it has expired"
_SUBJECT: Final = "assertion: its subject does not fit"


def _claims(now: int) -> list[tuple[Mapping[str, Any], str]]:
    return [
        ({"aud": f"{BASE_URL}/"}, _AUDIENCE),
        ({"aud": "https://elsewhere.example"}, _AUDIENCE),
        ({"aud": [BASE_URL, "https://elsewhere.example"]}, _AUDIENCE),
        ({"aud": [BASE_URL, BASE_URL]}, _AUDIENCE),
        ({"aud": []}, _AUDIENCE),
        ({"aud": ...}, _AUDIENCE),
        ({"exp": now - 31, "iat": now - 600}, _EXPIRED),
        ({"exp": ...}, _EXPIRED),
        ({"exp": "9999999999"}, _EXPIRED),
        ({"iat": now + 600, "exp": now + 900}, "assertion: it is from the future"),
        ({"nbf": now + 600, "exp": now + 900}, "assertion: it is from the future"),
        ({"exp": now + 25 * 3600}, "assertion: it lives for more than a day"),
        ({"exp": now + 60, "iat": now - 25 * 3600, "nbf": now - 25 * 3600}, "assertion: it lives for more than a day"),
        ({"sub": f"{SUBJECT}2"}, _SUBJECT),
        ({"sub": f"x{SUBJECT}"}, _SUBJECT),
        ({"sub": SUBJECT.upper()}, _SUBJECT),
        ({"sub": SUBJECT.replace("a", "\u0430")}, _SUBJECT),
        ({"sub": f"{SUBJECT}\n"}, _SUBJECT),
        ({"sub": f"{SUBJECT}\x00"}, _SUBJECT),
        ({"sub": [SUBJECT]}, _SUBJECT),
        ({"sub": {"0": SUBJECT}}, _SUBJECT),
        ({"sub": ""}, _SUBJECT),
        ({"sub": "x" * 1001}, _SUBJECT),
        ({"sub": ...}, _SUBJECT),
        ({"repository_id": ...}, "assertion: one of its claims does not match"),
        ({"repository_id": 74}, "assertion: one of its claims does not match"),
        ({"repository_id": ["74"]}, "assertion: one of its claims does not match"),
        ({"repository_id": "074"}, "assertion: one of its claims does not match"),
        ({"repository_id": None}, "assertion: one of its claims does not match"),
    ]


async def test_claims_that_do_not_fit(issuer: Issuer) -> None:
    await issuer.trusted(claims={"repository_id": "74"})
    now = int(issuer.relying.postern.foundation.clock.now().timestamp())
    for changed, expected in _claims(now):
        answer = await issuer.asks(issuer.token(**{"repository_id": "74", **changed}))
        assert said(answer) == (REFUSED, expected), changed
    (await issuer.asks(issuer.token(repository_id="74"))).ok()


async def test_an_issuer_is_compared_byte_by_byte(issuer: Issuer) -> None:
    await issuer.trusted()
    for other in (
        f"{issuer.address}/",
        issuer.address.upper(),
        issuer.address.replace("127.0.0.1", "localhost"),
        "",
        [issuer.address],
        None,
        ...,
    ):
        assert oauth(await issuer.asks(issuer.token(iss=other))) == REFUSED
    # And the other way round: the rule has the slash, and the token has none.
    issuer.relying.people.change("update trusted_issuers set issuer = issuer || '/'")
    assert said(await issuer.asks(issuer.token())) == (REFUSED, "assertion: nobody trusts its issuer here")


async def test_the_key_is_the_issuers_alone(issuer: Issuer) -> None:
    """The token has no say in its verification."""
    await issuer.trusted()
    stranger = public_jwk(STRANGERS_KEY)
    own: Mapping[str, Any] = {"jwk": stranger, "jku": f"{issuer.address}/strangers", "x5u": f"{issuer.address}/strangers", "x5c": ["AAAA"]}
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for hostile in (
        issuer.token(key=STRANGERS_KEY),
        issuer.token(key=STRANGERS_KEY, header=own),
        issuer.token(key=STRANGERS_KEY, header={**own, "kid": "b"}),
        issuer.token(header={"kid": "unknown"}),
        issuer.token(header={"crit": ["exp"]}),
        parts(issuer, {"alg": "none", "kid": "a"}),
        parts(issuer, {"alg": "None"}),
        parts(issuer, {"alg": "HS256", "kid": "a"}, pem),
        parts(issuer, {"alg": "HS256", "kid": "a"}, json.dumps(public_jwk()).encode()),
        parts(issuer, {"kid": "a"}),
        f"{issuer.token()[:-8]}AAAAAAAA",
        issuer.token().replace(".", ".e30", 1),
    ):
        assert oauth(await issuer.asks(hostile)) == REFUSED
    assert {call.target for call in issuer.receiver.calls} == {"/keys"}


async def test_what_is_no_token_is_refused_unread(issuer: Issuer) -> None:
    await issuer.trusted()
    good = issuer.token()
    texts = (
        "x",
        "a.b",
        f"{good}.x",
        f"Bearer {good}",
        f" {good}",
        f"{good}\n",
        "\u00e9",
        "." * 3,
        f"e30.{'W1tb' * 3000}.x",
    )
    for text in texts:
        assert oauth(await issuer.asks(text)) == REFUSED, text[:20]
    before = len(issuer.receiver.calls)
    huge = issuer.token(more="x" * 7_000)
    assert said(await issuer.asks(huge)) == (REFUSED, "assertion: it is no signed token of the usual size")
    assert len(issuer.receiver.calls) == before


async def test_a_closed_service_and_a_closed_organization(issuer: Issuer) -> None:
    relying = issuer.relying
    await issuer.trusted()
    relying.people.change("update services set service_type = 'mobile' where id = %s", relying.shop.service.id)
    assert oauth(await issuer.asks(issuer.token())) == REFUSED
    relying.people.change("update services set service_type = 'web' where id = %s", relying.shop.service.id)
    relying.people.change("update all_organizations set status = 'suspended', suspended_at = now() where slug = 'acme'")
    assert oauth(await issuer.asks(issuer.token())) == (403, "access_denied")
    relying.people.change("update all_organizations set status = 'active', suspended_at = null where slug = 'acme'")
    (await issuer.asks(issuer.token())).ok()
    relying.people.change("update all_services set deleted_at = now() where id = %s", relying.shop.service.id)
    assert oauth(await issuer.asks(issuer.token())) == REFUSED


async def test_a_token_of_ours_is_no_assertion(issuer: Issuer) -> None:
    """Nobody makes this installation a trusted issuer, so no token of ours opens anything by this grant."""
    relying = issuer.relying
    rule = issuer.rule(issuer=BASE_URL, jwks_uri=f"{BASE_URL}/.well-known/jwks.json")
    assert refused(await relying.request("POST", RULES, rule, by=issuer.owner)) == (400, "BAD_REQUEST")
    await issuer.trusted()
    for token in ((await relying.signed_in(relying.shop))["id_token"], await relying.tenants.token(issuer.owner)):
        assert oauth(await issuer.asks(token)) == REFUSED


async def test_nobody_gives_a_workload_more_than_they_may(issuer: Issuer) -> None:
    """A rule for a management key gives the key's rights away: to whoever may give them, in person, with a fresh proof."""
    relying = issuer.relying
    text, key = issuer.key("services.manage", "integrations.manage", "org.members.manage")
    body = issuer.rule(service_slug=..., management_key_id=str(key))
    both = [Capability.SERVICES_VIEW, Capability.SERVICES_MANAGE, Capability.INTEGRATIONS_MANAGE]
    role = relying.tenants.role(relying.acme, "integrator", both)
    services = relying.tenants.role(relying.acme, "services", both[:2])
    integrator, other = relying.resident(relying.acme, role), relying.resident(relying.acme, services)
    for who in (integrator, other, relying.resident(relying.acme, "member"), relying.resident(relying.globex, "owner")):
        assert refused(await relying.request("POST", RULES, body, by=who)) == (403, "FORBIDDEN")
    assert refused(await relying.client.post(RULES, body, token=text)) == (403, "FORBIDDEN")
    relying.people.change(
        "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s",
        issuer.owner.session,
    )
    assert refused(await relying.request("POST", RULES, body, by=issuer.owner)) == (401, "REAUTHENTICATION_REQUIRED")
    assert relying.people.rows("select from trusted_issuers") == []
    # What somebody else has set, they neither see nor change.
    fresh = relying.people.session_of(issuer.owner)
    rule = await issuer.trusted(by=fresh, service_slug=..., management_key_id=str(key))
    one = f"{RULES}/{rule['id']}"
    assert refused(await relying.request("GET", one, by=other)) == (404, "NOT_FOUND")
    assert (await relying.request("GET", RULES, by=other)).json() == []
    assert refused(await relying.request("PATCH", one, {"audience": "x"}, by=other)) == (404, "NOT_FOUND")
    assert refused(await relying.request("DELETE", one, by=other)) == (403, "FORBIDDEN")
    assert refused(await relying.request("PATCH", one, {"audience": "x"}, by=integrator)) == (403, "FORBIDDEN")
    assert refused(await relying.client.request("PATCH", one, body={"audience": "x"}, token=text)) == (403, "FORBIDDEN")
    assert refused(await relying.request("PATCH", one, {"audience": "x"}, by=issuer.owner)) == (401, "REAUTHENTICATION_REQUIRED")
    # Whoever manages integrations may take it away.
    assert (await relying.request("DELETE", one, by=integrator)).status == 204


async def test_another_organizations_key_and_service(issuer: Issuer) -> None:
    relying = issuer.relying
    _, key = issuer.key("services.view")
    outsider = relying.resident(relying.globex, "owner")
    path = "/api/organizations/globex/trusted-issuers"
    for holder in ({"service_slug": ..., "management_key_id": str(key)}, {"service_slug": "page"}):
        assert refused(await relying.request("POST", path, issuer.rule(**holder), by=outsider)) == (404, "NOT_FOUND")
    rule = await issuer.trusted()
    for method, body in (("GET", None), ("PATCH", {"name": "Theirs"}), ("DELETE", None)):
        assert refused(await relying.request(method, f"{path}/{rule['id']}", body, by=outsider)) == (404, "NOT_FOUND")
        assert refused(await relying.request(method, f"{RULES}/{rule['id']}", body, by=outsider)) == (403, "FORBIDDEN")
    assert (await relying.request("GET", path, by=outsider)).json() == []


async def test_a_keys_token_opens_nothing_else(issuer: Issuer) -> None:
    """It is refused wherever a session, a client or a person is asked for, with and without its beginning."""
    relying = issuer.relying
    _, key = issuer.key("services.view")
    await issuer.trusted(service_slug=..., management_key_id=str(key))
    token = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"]
    bare = token.removeprefix("ptw_")
    relying.log.remember(bare)
    for text in (token, bare):
        assert (await relying.introspect(relying.shop, text)) == {"active": False}
        assert (await relying.userinfo(text)).status in {401, 403}
        assert (await relying.client.get("/api/user", token=text)).status in {401, 403}
    assert (await relying.client.get(SERVICES, token=bare)).status == 401
    client = relying.kept((await relying.ask(fields={"grant_type": "client_credentials", **relying.shop.posted})).ok())["access_token"]
    person = await relying.tenants.token(issuer.owner)
    for other in (client, person, "x", "", "a.b.c"):
        assert (await relying.client.get(SERVICES, token=f"ptw_{other}")).status == 401


@pytest.mark.parametrize("ending", ["delete from management_keys", "delete from trusted_issuers"])
async def test_whoever_races_the_end_is_refused_afterwards(issuer: Issuer, ending: str) -> None:
    relying = issuer.relying
    _, key = issuer.key("services.view")
    await issuer.trusted(service_slug=..., management_key_id=str(key))
    tokens = [relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"] for _ in range(3)]
    relying.people.change(ending)

    async def comes(at: int) -> int:
        if at % 2:
            return (await issuer.asks(issuer.token(), str(key))).status
        return (await relying.client.get(SERVICES, token=tokens[at % 3])).status

    statuses = await all_at_once(*[lambda at=at: comes(at) for at in range(RACERS)])
    assert set(statuses) == {400, 401}


async def test_a_workload_is_no_way_around_the_profile_fapi2(issuer: Issuer) -> None:
    """The profile takes assertions of the client's own key alone."""
    relying = issuer.relying
    await issuer.trusted()
    relying.people.change("update services set profile = 'fapi2', dpop_bound_access_tokens = true where id = %s", relying.shop.service.id)
    fields = {"grant_type": GRANT, "client_id": relying.shop.client_id, "assertion": issuer.token()}
    proof = ClientKey(relying.postern.foundation.clock.now).dpop()
    assert oauth(await relying.ask(fields=fields, headers=[proof])) == (401, "invalid_client")

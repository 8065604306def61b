"""Workloads get tokens with the signed tokens of trusted issuers: for a service, or with the rights of a management key."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

import pytest

from tests.http.federation.relying import Relying, claims_of, oauth
from tests.http.federation.workloads.issuing import STRANGERS_KEY, SUBJECT, Issuer, issuing, public_jwk

REFUSED: Final = (400, "invalid_grant")


@pytest.fixture
async def issuer(relying: Relying) -> AsyncIterator[Issuer]:
    async with issuing(relying) as made:
        yield made


async def test_a_workload_gets_what_client_credentials_gives(issuer: Issuer) -> None:
    relying = issuer.relying
    rule = await issuer.trusted()
    answer = await issuer.asks(issuer.token())
    tokens = relying.kept(answer.ok())
    assert set(tokens) == {"access_token", "token_type", "expires_in"}
    assert answer.header("cache-control") == "no-store"
    by_secret = relying.kept((await relying.ask(fields={"grant_type": "client_credentials", **relying.shop.posted})).ok())
    mine, theirs = claims_of(tokens["access_token"]), claims_of(by_secret["access_token"])
    changing = {"exp", "iat", "jti"}
    assert {name: mine[name] for name in mine if name not in changing} == {name: theirs[name] for name in theirs if name not in changing}
    assert (await relying.introspect(relying.shop, tokens["access_token"]))["active"] is True
    # The assertion may be used again while it lives.
    (await issuer.asks(issuer.token())).ok()
    assert [one["trusted_issuer"] for one in relying.log.events("workload_admitted")] == [rule["id"]] * 2


async def test_scopes_need_a_resource(issuer: Issuer) -> None:
    await issuer.trusted()
    assert oauth(await issuer.asks(issuer.token(), scope="orders:read")) == (400, "invalid_scope")
    assert oauth(await issuer.asks(issuer.token(), resource="https://api.acme.example/")) == (400, "invalid_target")


async def test_pasted_keys_and_claims(issuer: Issuer) -> None:
    await issuer.trusted(jwks_uri=..., jwks={"keys": [public_jwk()]}, claims={"repository_id": "74", "attempt": 1, "protected": True})
    good = issuer.token(repository_id="74", attempt=1, protected=True)
    (await issuer.asks(good)).ok()
    assert issuer.receiver.calls == []
    for wrong in (
        {"repository_id": 74, "attempt": 1, "protected": True},
        {"repository_id": ["74"], "attempt": 1, "protected": True},
        {"repository_id": "74", "attempt": True, "protected": True},
        {"repository_id": "74", "attempt": 1, "protected": 1},
        {"repository_id": "74", "attempt": 1.0, "protected": True},
        {"attempt": 1, "protected": True},
    ):
        assert oauth(await issuer.asks(issuer.token(**wrong))) == REFUSED


async def test_of_several_rules_one_is_enough(issuer: Issuer) -> None:
    await issuer.trusted(name="Other issuer", issuer="https://elsewhere.example")
    await issuer.trusted(name="Other keys", jwks_uri=..., jwks={"keys": [public_jwk(STRANGERS_KEY)]})
    await issuer.trusted(name="Other branch", subject_pattern="repo:acme/shop:ref:refs/heads/other")
    before = len(issuer.receiver.calls)
    assert oauth(await issuer.asks(issuer.token())) == REFUSED
    await issuer.trusted(name="This one", subject_pattern="repo:acme/*:ref:refs/heads/*")
    (await issuer.asks(issuer.token())).ok()
    # The keys are known since somebody set the rule.
    assert len(issuer.receiver.calls) == before + 1


async def test_a_key_that_is_new_at_the_issuer(issuer: Issuer) -> None:
    await issuer.trusted()
    fresh = issuer.token(key=STRANGERS_KEY, header={"kid": "b"})
    assert oauth(await issuer.asks(fresh)) == REFUSED
    issuer.keys.append(public_jwk(STRANGERS_KEY, "b"))
    # Whoever makes key names up does not have it asked all the time.
    assert oauth(await issuer.asks(fresh)) == REFUSED
    assert [call.target for call in issuer.receiver.calls] == ["/keys"]


async def test_a_token_with_the_rights_of_a_management_key(issuer: Issuer) -> None:
    relying = issuer.relying
    text, key = issuer.key("services.view")
    rule = await issuer.trusted(service_slug=..., management_key_id=str(key))
    tokens = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())
    assert (tokens["token_type"], tokens["expires_in"], set(tokens)) == ("Bearer", 900, {"access_token", "token_type", "expires_in"})
    token = tokens["access_token"]
    services = "/api/organizations/acme/services"
    mine = await relying.client.get(services, token=token)
    assert mine.ok() == (await relying.client.get(services, token=text)).ok()
    for path, status in (
        ("/api/organizations/acme/members", 403),
        ("/api/organizations/globex/services", 403),
        ("/api/user", 403),
        ("/api/platform/organizations", 403),
    ):
        assert (await relying.client.get(path, token=token)).status == status, path
    # What it does is the key's.
    relying.people.change("update management_keys set capabilities = '{services.create,services.manage}'")
    relying.people.change("update all_organizations set max_services = 100")
    made = await relying.client.post(services, {"slug": "robot", "name": "Robot", "service_type": "api"}, token=token)
    assert made.ok()["service"]["slug"] == "robot"
    (entry,) = relying.audited("service.created")
    assert str(key) in str(entry)
    return_path = f"/api/organizations/acme/trusted-issuers/{rule['id']}"
    assert (await relying.request("GET", return_path, by=issuer.owner)).ok()["management_key_id"] == str(key)


_ENDS: Final = {
    "the key is ended": "delete from management_keys",
    "the key expires": "update management_keys set expires_at = now()",
    "the rule is deleted": "delete from trusted_issuers",
    "the rule is changed": "update trusted_issuers set updated_at = now()",
    "the organization is suspended": "update all_organizations set status = 'suspended', suspended_at = now() where slug = 'acme'",
    "the organization is deleted": "update all_organizations set deleted_at = now() where slug = 'acme'",
}


@pytest.mark.parametrize("change", _ENDS.values(), ids=list(_ENDS))
async def test_the_token_ends_with_the_next_request(issuer: Issuer, change: str) -> None:
    relying = issuer.relying
    _, key = issuer.key("services.view")
    await issuer.trusted(service_slug=..., management_key_id=str(key))
    token = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"]
    services = "/api/organizations/acme/services"
    (await relying.client.get(services, token=token)).ok()
    relying.people.change(change)
    assert (await relying.client.get(services, token=token)).status == (403 if "suspended" in change else 401)
    again = await issuer.asks(issuer.token(), str(key))
    if "updated_at" in change:
        assert again.ok()
    elif "suspended" in change:
        assert oauth(again) == (403, "access_denied")
    else:
        assert oauth(again) == REFUSED


async def test_the_token_never_outlives_its_key(issuer: Issuer) -> None:
    _, key = issuer.key("services.view")
    issuer.relying.people.change("update management_keys set expires_at = now() + interval '5 minutes'")
    await issuer.trusted(service_slug=..., management_key_id=str(key))
    seconds = issuer.relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["expires_in"]
    assert 0 < seconds <= timedelta(minutes=5).total_seconds()


async def test_the_token_loses_what_the_maker_loses(issuer: Issuer) -> None:
    relying = issuer.relying
    admin = relying.resident(relying.acme, "admin", "amy")
    _, key = issuer.key("services.view", maker=admin)
    await issuer.trusted(service_slug=..., management_key_id=str(key), by=admin)
    token = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"]
    relying.people.change("delete from relations where user_id = %s", admin.user)
    assert (await relying.client.get("/api/organizations/acme/services", token=token)).status == 403
    relying.people.change("update users set deactivated_at = now() where id = %s", admin.user)
    assert (await relying.client.get("/api/organizations/acme/services", token=token)).status == 401


async def test_a_managements_token_is_for_no_api_and_no_scope(issuer: Issuer) -> None:
    _, key = issuer.key("services.view")
    await issuer.trusted(service_slug=..., management_key_id=str(key))
    for more in ({"scope": "services.view"}, {"resource": "https://api.acme.example/"}):
        assert oauth(await issuer.asks(issuer.token(), str(key), **more)) == (400, "invalid_request")


async def test_what_is_missing_is_named(issuer: Issuer) -> None:
    await issuer.trusted()
    assert oauth(await issuer.asks(None)) == (400, "invalid_request")
    assert oauth(
        await issuer.asks(
            issuer.token(),
            "",
        )
    ) == (400, "invalid_request")
    both = await issuer.asks(issuer.token(), client_secret=str(issuer.relying.shop.secret))
    assert oauth(both) == (400, "invalid_request")
    assert SUBJECT.encode() not in both.body


async def test_a_rule_of_a_key_is_its_holders_and_ends_with_an_adoption(issuer: Issuer) -> None:
    """A rule is as good as a secret that its setter knows: it must not bring back who has gone."""
    relying = issuer.relying
    admin = relying.resident(relying.acme, "admin", "amy")
    _, key = issuer.key("services.view", maker=admin)
    body = issuer.rule(service_slug=..., management_key_id=str(key))
    answer = await relying.request("POST", "/api/organizations/acme/trusted-issuers", body, by=issuer.owner)
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    made = await issuer.trusted(service_slug=..., management_key_id=str(key), by=admin)
    token = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"]
    services = "/api/organizations/acme/services"
    assert (await relying.client.get(services, token=token)).status == 200
    (await relying.request("POST", f"/api/organizations/acme/management-keys/{key}/adopt", by=issuer.owner)).ok()
    assert (await relying.client.get(services, token=token)).status == 401
    assert oauth(await issuer.asks(issuer.token(), str(key))) == (400, "invalid_grant")
    # The new holder says anew whom the key trusts.
    rule = f"/api/organizations/acme/trusted-issuers/{made['id']}"
    (await relying.request("PATCH", rule, {"name": "Deploys"}, by=issuer.owner)).ok()
    token = relying.kept((await issuer.asks(issuer.token(), str(key))).ok())["access_token"]
    assert (await relying.client.get(services, token=token)).status == 200
    relying.people.change("update users set deactivated_at = now() where id = %s", issuer.owner.user)
    assert (await relying.client.get(services, token=token)).status == 401


async def test_a_management_key_trusts_nobody(issuer: Issuer) -> None:
    """What it let in would outlive the key."""
    text, _ = issuer.key("services.manage")
    made = await issuer.trusted()
    at = "/api/organizations/acme/trusted-issuers"
    for method, path, body in (("POST", at, issuer.rule(name="Other")), ("PATCH", f"{at}/{made['id']}", {"subject_pattern": "a:b:c"})):
        assert (await issuer.relying.client.request(method, path, body=body, token=text)).status in {401, 403}

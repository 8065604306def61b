"""Evidence as any other token, by whoever may not make it, of people of another organization, and after an erasure."""

import jwt
import pytest

from core.domain.tenancy.roles import Capability
from tests.http.client import refused
from tests.http.record.receiving_scene import DEAD, ReceivingScene

MARKUP = "<script>alert(1)</script>"
FORBIDDEN = (403, "FORBIDDEN")


def path(scene: ReceivingScene, organization: str = "acme") -> str:
    return f"/api/organizations/{organization}/users/{scene.ada.user}/offboarding/evidence"


async def evidence(scene: ReceivingScene) -> str:
    return str((await scene.request("POST", path(scene), by=scene.owner)).ok()["file"])


async def test_no_other_check_takes_it(scene: ReceivingScene) -> None:
    """As a token of a person, of a service, of a client, an assertion, a refresh token, an ID token hint, a code."""
    await scene.webhook(DEAD)
    await scene.removed()
    file = await evidence(scene)
    bearer = [("authorization", f"Bearer {file}")]
    for place in ("/api/user", "/oauth/userinfo", "/api/organizations/acme", "/api/service/users", "/ssf/streams", "/scim/v2/Users"):
        assert (await scene.client.request("GET", place, headers=bearer)).status in {401, 403, 404}, place
    form = scene.shop.posted
    for fields in (
        {"grant_type": "refresh_token", "refresh_token": file},
        {"grant_type": "authorization_code", "code": file, "redirect_uri": "https://a.example/"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": file},
        {"grant_type": "client_credentials", "client_assertion": file,
         "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": file,
         "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"},
    ):  # fmt: skip
        assert (await scene.ask(fields={**form, **fields})).status in {400, 401}, fields["grant_type"]
    # The keys that verify tokens do not verify it.
    published = (await scene.client.get("/.well-known/jwks.json")).ok(200)["keys"]
    kid = jwt.get_unverified_header(file)["kid"]
    assert kid not in {key["kid"] for key in published}


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "logout+jwt", "secevent+jwt", "postern-head+jwt"])
async def test_its_type_is_no_type_of_a_token(scene: ReceivingScene, typ: str) -> None:
    assert jwt.get_unverified_header(await evidence(scene))["typ"] != typ


async def test_no_key_no_impersonation_and_nobody_without_the_right(scene: ReceivingScene) -> None:
    token = scene.tenants.management_key(scene.acme, scene.owner, sorted(Capability))
    scene.log.remember(token)
    assert (await scene.client.request("POST", path(scene), headers=[("authorization", f"Bearer {token}")])).status in {401, 403}
    without = scene.tenants.join(scene.people.add(), scene.acme, scene.tenants.role(scene.acme, "w", [Capability.WEBHOOKS_MANAGE]))
    for person in (without, scene.ada, scene.stranger):
        assert refused(await scene.request("POST", path(scene), by=person))[0] == 403
    reader = scene.tenants.join(scene.people.add(), scene.acme, scene.tenants.role(scene.acme, "reader", [Capability.AUDIT_LOGS_VIEW]))
    (await scene.request("POST", path(scene), by=reader)).ok()
    rows = scene.people.rows("select actor_id from audit_entries where action = 'offboarding.evidence.created'")
    assert [row["actor_id"] for row in rows] == [reader.user]


async def test_another_organizations_person_is_somebody_whom_the_log_does_not_name(scene: ReceivingScene) -> None:
    await scene.webhook(DEAD)
    await scene.removed()
    scene.tenants.join(scene.ada, scene.globex)
    file = str((await scene.request("POST", path(scene, "globex"), by=scene.stranger)).ok()["file"])
    told = jwt.decode(file, options={"verify_signature": False})
    assert told["entries"] == []
    assert "acme" not in str(told).lower()
    assert str(scene.acme.id) not in str(told)


async def test_names_with_markup_stay_text_and_what_was_erased_stays_erased(scene: ReceivingScene) -> None:
    await scene.webhook(DEAD, name=MARKUP)
    await scene.removed()
    told = jwt.decode(await evidence(scene), options={"verify_signature": False})
    assert MARKUP in {one["name"] for one in told["entries"][0]["receivers"]}
    email = scene.people.rows("select email from users where id = %s", scene.ada.user)[0]["email"]
    scene.people.change("delete from users where id = %s", scene.ada.user)
    after = jwt.decode(await evidence(scene), options={"verify_signature": False})
    assert [one["entry_id"] for one in after["entries"]] == [one["entry_id"] for one in told["entries"]]
    for one in (told, after):
        assert email not in str(one)
        assert DEAD not in str(one)

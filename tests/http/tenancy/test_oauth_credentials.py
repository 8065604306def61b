"""An organization's own clients at sign-in providers, over HTTP."""

from typing import Any, Final

import pytest

from core.domain.tenancy.upstream_providers import OAuthCredentials
from core.frozen import names_of
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

SECRET: Final = "provider-secret-9c15224a8228b9"
BODY: Final = {"client_id": "Iv1.4f2d", "client_secret": SECRET}
UNSET: Final = {"provider": "codehost", "client_id": None, "has_secret": False}


class OAuthCredentialScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.log.remember(SECRET)

    async def ask(
        self, method: str, provider: str = "codehost", body: Any = None, *, of: str = "acme", by: Person | None = None
    ) -> Received:
        return await self.request(method, f"/api/organizations/{of}/oauth-credentials/{provider}", body, by=by)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> OAuthCredentialScene:
    return OAuthCredentialScene(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("provider", ["codehost", "websuite", "officesuite"])
async def test_credentials_are_set_replaced_and_removed(scene: OAuthCredentialScene, provider: str) -> None:
    told = {"provider": provider, "client_id": "Iv1.4f2d", "has_secret": True}
    assert (await scene.ask("GET", provider)).ok(200) == {**UNSET, "provider": provider}
    assert (await scene.ask("POST", provider, BODY)).ok(200) == told
    assert (await scene.ask("GET", provider)).ok(200) == told
    assert (await scene.ask("POST", provider, {**BODY, "client_id": "other"})).ok(200) == {**told, "client_id": "other"}
    assert len(scene.people.rows("select from oauth_credentials")) == 1
    for _ in range(2):
        assert (await scene.ask("DELETE", provider)).status == 204
    assert (await scene.ask("GET", provider)).ok(200) == {**UNSET, "provider": provider}
    assert [(one["action"], one["details"]) for one in scene.audited("%oauth%")] == [
        ("service.oauth_credentials.updated", {"provider": provider, "client_id": "Iv1.4f2d"}),
        ("service.oauth_credentials.updated", {"provider": provider, "client_id": "other"}),
        ("service.oauth_credentials.removed", {"provider": provider, "client_id": "other"}),
    ]


async def test_the_secret_is_kept_sealed_for_its_row_alone(scene: OAuthCredentialScene) -> None:
    await scene.ask("POST", "codehost", BODY)
    (row,) = scene.people.rows("select * from oauth_credentials")
    assert SECRET.encode() not in row["sealed_client_secret"]
    context = f"oauth_credentials.sealed_client_secret:{row['id']}"
    assert scene.postern.foundation.keyring.open(row["sealed_client_secret"], context) == SECRET.encode()
    assert {"secret", "client_secret"}.isdisjoint(names_of(OAuthCredentials))


async def test_each_organization_has_its_own(scene: OAuthCredentialScene) -> None:
    await scene.ask("POST", "codehost", BODY)
    assert (await scene.ask("GET", of="globex", by=scene.stranger)).ok(200) == UNSET
    assert (await scene.ask("DELETE", of="globex", by=scene.stranger)).status == 204
    assert (await scene.ask("GET")).ok(200)["has_secret"]
    for method, body in (("GET", None), ("POST", BODY), ("DELETE", None)):
        assert (await scene.ask(method, body=body, by=scene.stranger)).status == 403
        assert (await scene.ask(method, body=body, by=scene.member)).status == 403


@pytest.mark.parametrize("provider", ["CODEHOST", "saml", "%00", "codehost%20"])
async def test_other_providers_are_not_found(scene: OAuthCredentialScene, provider: str) -> None:
    for method, body in (("GET", None), ("POST", BODY), ("DELETE", None)):
        assert (await scene.ask(method, provider, body)).status in {400, 404}


@pytest.mark.parametrize("field", BODY)
@pytest.mark.parametrize("value", ["", "x" * 501, "line\nbreak", "nul\0", "ключ", None, 1])
async def test_what_is_wrong_is_refused(scene: OAuthCredentialScene, field: str, value: Any) -> None:
    answer = await scene.ask("POST", "codehost", {**BODY, field: value})
    assert (answer.status, field in answer.json()["error"]) == (400, True)
    assert scene.people.rows("select from oauth_credentials") == []


async def test_a_former_admin_changes_nothing_more(scene: OAuthCredentialScene) -> None:
    """The use case checks the right again once it holds the organization's lock."""
    token = await scene.tenants.token(scene.speaker)
    scene.people.change("update organizations set status = 'suspended'")
    answer = await scene.client.request("POST", "/api/organizations/acme/oauth-credentials/codehost", body=BODY, token=token)
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_round_trips(scene: OAuthCredentialScene) -> None:
    for method, body, most in (("POST", BODY, 5), ("GET", None, 2), ("DELETE", None, 5)):
        await scene.ask(method, body=body)
        assert scene.log.events("request")[-1]["db_round_trips"] <= most

"""An organization's own clients at sign-in providers, over HTTP."""

from typing import Any, Final

import pytest

from core.domain.tenancy.oauth_credentials import OAuthCredentials
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
def house(postern: Postern, people: People, log: CapturedLog) -> OAuthCredentialScene:
    return OAuthCredentialScene(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("provider", ["codehost", "websuite", "officesuite"])
async def test_credentials_are_set_replaced_and_removed(house: OAuthCredentialScene, provider: str) -> None:
    told = {"provider": provider, "client_id": "Iv1.4f2d", "has_secret": True}
    assert (await house.ask("GET", provider)).ok(200) == {**UNSET, "provider": provider}
    assert (await house.ask("POST", provider, BODY)).ok(200) == told
    assert (await house.ask("GET", provider)).ok(200) == told
    assert (await house.ask("POST", provider, {**BODY, "client_id": "other"})).ok(200) == {**told, "client_id": "other"}
    assert len(house.people.rows("select from oauth_credentials")) == 1
    for _ in range(2):
        assert (await house.ask("DELETE", provider)).status == 204
    assert (await house.ask("GET", provider)).ok(200) == {**UNSET, "provider": provider}
    assert [(one["action"], one["details"]) for one in house.audited("%oauth%")] == [
        ("service.oauth_credentials.updated", {"provider": provider, "client_id": "Iv1.4f2d"}),
        ("service.oauth_credentials.updated", {"provider": provider, "client_id": "other"}),
        ("service.oauth_credentials.removed", {"provider": provider, "client_id": "other"}),
    ]


async def test_the_secret_is_kept_sealed_for_its_row_alone(house: OAuthCredentialScene) -> None:
    await house.ask("POST", "codehost", BODY)
    (row,) = house.people.rows("select * from oauth_credentials")
    assert SECRET.encode() not in row["sealed_client_secret"]
    context = f"oauth_credentials.sealed_client_secret:{row['id']}"
    assert house.postern.foundation.keyring.open(row["sealed_client_secret"], context) == SECRET.encode()
    assert {"secret", "client_secret"}.isdisjoint(names_of(OAuthCredentials))


async def test_each_organization_has_its_own(house: OAuthCredentialScene) -> None:
    await house.ask("POST", "codehost", BODY)
    assert (await house.ask("GET", of="globex", by=house.stranger)).ok(200) == UNSET
    assert (await house.ask("DELETE", of="globex", by=house.stranger)).status == 204
    assert (await house.ask("GET")).ok(200)["has_secret"]
    for method, body in (("GET", None), ("POST", BODY), ("DELETE", None)):
        assert (await house.ask(method, body=body, by=house.stranger)).status == 403
        assert (await house.ask(method, body=body, by=house.member)).status == 403


@pytest.mark.parametrize("provider", ["CODEHOST", "saml", "%00", "codehost%20"])
async def test_other_providers_are_not_found(house: OAuthCredentialScene, provider: str) -> None:
    for method, body in (("GET", None), ("POST", BODY), ("DELETE", None)):
        assert (await house.ask(method, provider, body)).status in {400, 404}


@pytest.mark.parametrize("field", BODY)
@pytest.mark.parametrize("value", ["", "x" * 501, "line\nbreak", "nul\0", "ключ", None, 1])
async def test_what_is_wrong_is_refused(house: OAuthCredentialScene, field: str, value: Any) -> None:
    answer = await house.ask("POST", "codehost", {**BODY, field: value})
    assert (answer.status, field in answer.json()["error"]) == (400, True)
    assert house.people.rows("select from oauth_credentials") == []


async def test_a_former_admin_changes_nothing_more(house: OAuthCredentialScene) -> None:
    """The use case checks the right again once it holds the organization's lock."""
    token = await house.tenants.token(house.speaker)
    house.people.change("update organizations set status = 'suspended'")
    answer = await house.client.request("POST", "/api/organizations/acme/oauth-credentials/codehost", body=BODY, token=token)
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_round_trips(house: OAuthCredentialScene) -> None:
    for method, body, most in (("POST", BODY, 5), ("GET", None, 2), ("DELETE", None, 5)):
        await house.ask(method, body=body)
        assert house.log.events("request")[-1]["db_round_trips"] <= most

"""A client id that a service of one organization has kept is nobody else's: no owner takes it, and no other client passes for it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.relying import JWT_BEARER, Application, Relying
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
KEPT = "shop-frontend"


@pytest.fixture
def relying(postern: Postern, people: People, log: CapturedLog) -> Relying:
    return Relying(postern, people, unlimited(postern), log)


@pytest.fixture
async def shop(relying: Relying) -> Application:
    keeps = relying.postern.services.kept_client_ids.keep
    await keeps(OrganizationId(relying.acme.id), "shop", KEPT, Actor(operator="root"))
    return replace(relying.shop, client_id=KEPT)


@pytest.mark.parametrize(
    ("method", "place", "body"),
    [
        ("POST", "", {"slug": "thief", "name": "Thief", "service_type": "web", "client_id": KEPT}),
        ("PATCH", "/shop", {"client_id": KEPT}),
        ("PATCH", "/shop", {"kept_client_id": KEPT}),
        ("PATCH", "/shop", {"oauth_client_id": KEPT}),
    ],
)
async def test_no_owner_takes_it(relying: Relying, shop: Application, method: str, place: str, body: Mapping[str, Any]) -> None:
    relying.tenants.join(relying.ada, relying.globex, "owner")
    token = await relying.people.token(relying.ada)
    answer = await relying.client.request(method, f"/api/organizations/globex/services{place}", body=body, token=token)
    held = relying.people.rows("select slug from services where org_id = %s and oauth_client_id = %s", relying.globex.id, KEPT)
    assert held == []
    assert answer.status == 400 or "client_id" not in body or answer.json()["service"]["client_id"] != KEPT
    (row,) = relying.people.rows("select id from services where oauth_client_id = %s", shop.client_id)
    assert row["id"] == shop.service.id


async def test_a_neighbour_does_not_pass_for_it(relying: Relying, shop: Application) -> None:
    code = await relying.code(shop)
    # With its own secret, with none, and with the id of the other and its own secret.
    for passing in (relying.theirs, replace(relying.theirs, client_id=KEPT), replace(relying.theirs, client_id=KEPT, secret=None)):
        assert (await relying.redeem(passing, code)).status in {400, 401}, passing
    forger = relying.keyed(relying.application(relying.globex, "forger"))
    forged = relying.assertion(forger, iss=KEPT, sub=KEPT, aud=BASE_URL)
    fields = {"grant_type": "client_credentials", "client_assertion_type": JWT_BEARER, "client_assertion": forged}
    assert (await relying.ask(fields=fields)).status == 401
    assert (await relying.redeem(shop, await relying.code(shop))).status == 200


async def test_a_neighbour_reads_and_revokes_none_of_its_tokens(relying: Relying, shop: Application) -> None:
    tokens = await relying.signed_in(shop, scopes="openid offline_access")
    assert (await relying.introspect(relying.theirs, tokens["access_token"]))["active"] is False
    await relying.ask("/auth/revoke", {"token": tokens["refresh_token"]}, relying.theirs.basic)
    assert (await relying.introspect(shop, tokens["access_token"]))["active"] is True
    assert (await relying.refresh(replace(relying.theirs, client_id=KEPT), tokens["refresh_token"])).status == 401


async def test_spellings_of_it_are_other_ids(relying: Relying, shop: Application) -> None:
    for spelled in (KEPT.upper(), f"{KEPT} ", f" {KEPT}", f"{KEPT}\x00", f"{KEPT}%00", "shop\N{HYPHEN}frontend", "SHOP-frontend"):
        answer = await relying.ask(fields={"grant_type": "client_credentials", **replace(shop, client_id=spelled).posted})
        assert answer.status in {400, 401}, spelled

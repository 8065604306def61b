"""The far sides that are not of the tests answer as SCIM servers do."""

import httpx
import trio

from tests.conftest import CapturedLog
from tests.far_sides.other_servers import FarPostern, OtherFarSide

PERSON = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "externalId": "s-1", "active": True}


def create(far_side: OtherFarSide, user_name: str) -> httpx.Response:
    body = {**PERSON, "userName": user_name, "emails": [{"value": user_name, "primary": True, "type": "work"}]}
    return httpx.post(f"{far_side.url}/Users", json=body, headers={"Authorization": f"Bearer {far_side.token}"}, timeout=60)


def test_another_authors_server_keeps_people(others: OtherFarSide) -> None:
    assert create(others, "ada@example.org").status_code == 201
    assert create(others, "ada@example.org").status_code == 409
    assert httpx.get(f"{others.url}/Users").status_code == 401
    assert others.active() == {"ada@example.org"}
    found = others.named("ada@example.org")
    assert found is not None
    assert found["externalId"] == "s-1"


async def test_another_postern_keeps_people(far_postern: FarPostern, log: CapturedLog) -> None:
    far_side = await far_postern.connected()
    log.remember(far_side.token)
    answer = await trio.to_thread.run_sync(create, far_side, "ada@example.org")
    assert answer.status_code == 201, answer.text
    assert await trio.to_thread.run_sync(far_side.active) == {"ada@example.org", "owner@customer.example"}

"""The remote systems that are not of the tests answer as SCIM servers do."""

import httpx
import trio

from tests.conftest import CapturedLog
from tests.remote_systems.other_servers import OtherRemoteSystem, RemotePostern

PERSON = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "externalId": "s-1", "active": True}


def create(remote_system: OtherRemoteSystem, user_name: str) -> httpx.Response:
    body = {**PERSON, "userName": user_name, "emails": [{"value": user_name, "primary": True, "type": "work"}]}
    return httpx.post(f"{remote_system.url}/Users", json=body, headers={"Authorization": f"Bearer {remote_system.token}"}, timeout=60)


def test_another_authors_server_keeps_people(others: OtherRemoteSystem) -> None:
    assert create(others, "ada@example.org").status_code == 201
    assert create(others, "ada@example.org").status_code == 409
    assert httpx.get(f"{others.url}/Users").status_code == 401
    assert others.active() == {"ada@example.org"}
    found = others.named("ada@example.org")
    assert found is not None
    assert found["externalId"] == "s-1"


async def test_another_postern_keeps_people(remote_postern: RemotePostern, log: CapturedLog) -> None:
    remote_system = await remote_postern.connected()
    log.remember(remote_system.token)
    answer = await trio.to_thread.run_sync(create, remote_system, "ada@example.org")
    assert answer.status_code == 201, answer.text
    assert await trio.to_thread.run_sync(remote_system.active) == {"ada@example.org", "owner@customer.example"}

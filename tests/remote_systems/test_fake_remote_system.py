"""The remote system of the tests does what its switches say, so that a test of ours that is green says something."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from ops.stand_ins.remote_dialects import AWS, SLACK, RemoteDialect

ADA = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ada@example.org", "externalId": "s-1"}


@pytest.fixture
def remote_system() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as made:
        yield made


def client(remote_system: FakeRemoteSystem) -> httpx.Client:
    return httpx.Client(headers={"Authorization": f"Bearer {remote_system.token}"}, base_url=remote_system.url, timeout=30)


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": list(operations)}


def test_a_person_is_made_found_changed_ended_and_deleted(remote_system: FakeRemoteSystem) -> None:
    with client(remote_system) as scim:
        made = scim.post("/Users", json=ADA)
        assert made.status_code == 201
        number = made.json()["id"]
        assert [one["id"] for one in scim.get("/Users", params={"filter": 'externalId eq "s-1"'}).json()["Resources"]] == [number]
        assert [one["id"] for one in scim.get("/Users", params={"filter": 'userName eq "ADA@example.org"'}).json()["Resources"]] == [number]
        assert scim.get("/Users", params={"filter": 'externalId eq "S-1"'}).json()["totalResults"] == 0
        assert scim.post("/Users", json=ADA).status_code == 409
        operations: list[dict[str, Any]] = [
            {"op": "replace", "path": "active", "value": False},
            {"op": "add", "path": "name.givenName", "value": "Ada"},
            {"op": "add", "path": 'emails[type eq "work"].value', "value": "ada@example.org"},
            {"op": "replace", "value": {"displayName": "Ada L."}},
            {"op": "remove", "path": "externalId"},
        ]
        assert scim.patch(f"/Users/{number}", json=patch(*operations)).status_code == 200
        assert remote_system.named("ada@example.org") == {
            **{key: value for key, value in ADA.items() if key != "externalId"},
            "id": number,
            "active": False,
            "name": {"givenName": "Ada"},
            "emails": [{"type": "work", "value": "ada@example.org"}],
            "displayName": "Ada L.",
        }
        assert remote_system.active() == set()
        assert scim.put(f"/Users/{number}", json={**ADA, "active": True}).json() == {**ADA, "id": number, "active": True}
        assert scim.delete(f"/Users/{number}").status_code == 204
        assert scim.get(f"/Users/{number}").status_code == 404
    assert [one.method for one in remote_system.writes()] == ["POST", "POST", "PATCH", "PUT", "DELETE"]
    assert remote_system.statuses[409] == 1


def test_an_extension_is_changed_by_its_path(remote_system: FakeRemoteSystem) -> None:
    urn = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
    with client(remote_system) as scim:
        number = scim.post("/Users", json={**ADA, urn: {"department": "Engines"}}).json()["id"]
        changed = scim.patch(f"/Users/{number}", json=patch({"op": "replace", "path": f"{urn}:department", "value": "Mills"})).json()
    assert changed[urn] == {"department": "Mills"}


def test_lists_have_pages(remote_system: FakeRemoteSystem) -> None:
    for number in range(250):
        remote_system.add(f"p{number}@example.org")
    with client(remote_system) as scim:
        sizes = [len(scim.get("/Users", params={"startIndex": start, "count": 200}).json()["Resources"]) for start in (1, 101, 201)]
    assert sizes == [100, 100, 50]


def test_dialects_refuse_what_they_do_not_take() -> None:
    with FakeRemoteSystem(RemoteDialect(patches=False, filters=frozenset(), numbers=True)) as remote_system, client(remote_system) as scim:
        number = scim.post("/Users", json=ADA).json()["id"]
        assert number == 1
        assert scim.patch(f"/Users/{number}", json=patch()).status_code == 501
        assert scim.get("/Users", params={"filter": 'externalId eq "s-1"'}).json()["scimType"] == "invalidFilter"
    with FakeRemoteSystem(AWS) as remote_system, client(remote_system) as scim:
        assert scim.post("/Users", json=ADA).json()["detail"] == "displayName is required"
        whole = {**ADA, "displayName": "Ada", "name": {"givenName": "Ada", "familyName": "L."}}
        assert scim.post("/Users", json={**whole, "password": "x"}).status_code == 400
        assert scim.post("/Users", json=whole).status_code == 201
        assert scim.get("/Users", params={"startIndex": 2}).json()["Resources"] != []
    with FakeRemoteSystem(SLACK) as remote_system, client(remote_system) as scim:
        made = scim.post("/Users", json={**ADA, "emails": [{"value": "ada@example.org"}]}).json()
        assert made["userName"] == "ada"
        assert scim.delete(f"/Users/{made['id']}").status_code == 204
        assert remote_system.people.resources[made["id"]]["active"] is False


def test_it_misbehaves_as_it_is_told(remote_system: FakeRemoteSystem) -> None:
    with client(remote_system) as scim:
        assert httpx.get(f"{remote_system.url}/Users").status_code == 401
        remote_system.forget_requests()
        remote_system.throttles_each = 2
        assert [scim.get("/Users").status_code for _ in range(4)] == [200, 429, 200, 429]
        remote_system.throttles_each = 0
        remote_system.fails_at, remote_system.fails_behind, remote_system.hangs_up_behind = {1}, {2}, {3}
        statuses = [scim.post("/Users", json={**ADA, "userName": name}).status_code for name in ("first", "second")]
        assert statuses == [500, 500]
        with pytest.raises(httpx.RemoteProtocolError):
            scim.post("/Users", json={**ADA, "userName": "third", "externalId": "s-3"})
        assert remote_system.active() == {"second", "third"}
        remote_system.answers_id, remote_system.swaps_case = "somebody-else", True
        answered = scim.post("/Users", json={**ADA, "userName": "Fourth", "externalId": "s-1"}).json()
        assert (answered["id"], answered["userName"]) == ("somebody-else", "fOURTH")
        assert remote_system.doubles() == ["s-1"]
        remote_system.echoes = True
        assert remote_system.token in scim.post("/Users", json=ADA).json()["detail"]
        remote_system.redirects_to = "http://127.0.0.1:1/inside"
        assert scim.get("/Users").headers["location"] == "http://127.0.0.1:1/inside"


def test_a_write_waits_until_the_test_goes_on(remote_system: FakeRemoteSystem) -> None:
    remote_system.holds_behind = {1}
    answered: list[int] = []
    with client(remote_system) as scim:
        thread = threading.Thread(target=lambda: answered.append(scim.post("/Users", json=ADA).status_code))
        thread.start()
        remote_system.until(lambda one: len(one.people.resources) == 1)
        assert answered == []
        remote_system.go_on()
        thread.join()
    assert answered == [201]


def test_a_huge_answer_has_no_end_that_a_reader_waits_for(remote_system: FakeRemoteSystem) -> None:
    remote_system.is_huge = True
    with client(remote_system) as scim, scim.stream("GET", "/Users") as answer:
        pieces = answer.iter_raw()
        assert sum(len(next(pieces)) for _ in range(8)) > 0
    assert remote_system.sent < 1 << 30


def test_its_state_is_told(remote_system: FakeRemoteSystem) -> None:
    remote_system.add("ada@example.org", active=False)
    with client(remote_system) as scim:
        scim.get("/Users")
    state = json.loads(httpx.get(f"http://127.0.0.1:{remote_system.port}/state").content)
    assert state == {"people": 1, "active": 0, "doubles": [], "requests": {"GET": 1}, "statuses": {"200": 1}}

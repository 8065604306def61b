"""The flight recorder: a directory's requests and the reasons for refusals, without data about people."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from entrypoints.bootstrap import Postern
from tests.http.client import Client, refused
from tests.http.federation.scim.directories import USERS, Directory, refusal
from tests.http.people import People
from tests.patience import PATIENCE

EXCHANGES = "/api/organizations/acme/scim/exchanges"
Read = Callable[[int], Awaitable[list[dict[str, Any]]]]


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


@pytest.fixture
async def read(directory: Directory, postern: Postern) -> AsyncIterator[Read]:
    """Reads the kept exchanges, once there are this many."""

    async def until(number: int) -> list[dict[str, Any]]:
        token = await directory.people.token(directory.owner)
        with trio.fail_after(PATIENCE):
            while True:
                found: list[dict[str, Any]] = (await directory.client.get(f"{EXCHANGES}?limit=100", token=token)).ok()["exchanges"]
                if len(found) >= number:
                    return found
                await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.scim_recorder.run(task_status=task_status))
        yield until
        nursery.cancel_scope.cancel()


async def test_exchanges_are_kept_with_the_reason_of_each_refusal(directory: Directory, read: Read) -> None:
    ada = await directory.create("ada@example.org", displayName="Countess", name={"familyName": "Lovelace"}, externalId="Staff number")
    await directory.patch(ada["id"], {"op": "replace", "path": "shoeSize", "value": "Countess"})
    await directory.ask("GET", f"{USERS}?filter=userName%20eq%20%22ada@example.org%22&count=5")
    await directory.ask("GET", f"{USERS}?filter=userName%20eq%20ada@example.org")
    await directory.ask("GET", f"{USERS}/lovelace")
    await directory.ask("POST", USERS, b"{Lovelace")
    found = list(reversed(await read(6)))
    assert [(one["method"], one["status"], one["scim_type"]) for one in found] == [
        ("POST", 201, None),
        ("PATCH", 400, "invalidPath"),
        ("GET", 200, None),
        ("GET", 400, "invalidFilter"),
        ("GET", 404, None),
        ("POST", 400, "invalidSyntax"),
    ]
    assert found[1]["reason"] == "path: shoesize is not stored"
    assert found[1]["path"] == f"{USERS}/{ada['id']}"
    operations = [{"op": "replace", "path": "shoeSize", "value": "…"}]
    assert found[1]["request"] == {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations}
    assert found[2]["query"] == 'filter=userName eq "…"&count=5'
    assert found[4]["path"] == f"{USERS}/…"
    assert found[5]["request"] is None
    assert {one["token_name"] for one in found} == {"Directory"}
    written = json.dumps(found).lower() + str(directory.people.rows("select scim_exchanges::text as row from scim_exchanges")).lower()
    for secret in ("ada@", "countess", "lovelace", "staff number", directory.token):
        assert secret not in written
    only = await directory.client.get(f"{EXCHANGES}?refused=true&limit=2", token=await directory.people.token(directory.owner))
    assert [one["status"] for one in only.ok()["exchanges"]] == [400, 404]


async def test_what_a_directory_states_and_nobody_keeps_has_a_line(directory: Directory, read: Read) -> None:
    ada = await directory.create("ada@example.org", title="Countess")
    answer = await directory.patch(ada["id"], {"op": "add", "path": 'phoneNumbers[type eq "work"].value', "value": "+44 20"})
    assert (answer.status, "phoneNumbers" in answer.json()) == (200, False)
    await directory.patch(ada["id"], {"op": "add", "path": "displayName", "value": "Ada"})
    found = list(reversed(await read(3)))
    assert [one["reason"] for one in found] == ["Not kept here: title", "Not kept here: phoneNumbers", None]


async def test_a_body_that_is_no_text_is_refused_and_noted_without_it(directory: Directory, read: Read) -> None:
    for body in (b'{"userName": "\xab"}', b"\xff\xfe{\x00}\x00", b'{"userName": "\\ud800"}', b"[" * 10_000):
        assert refusal(await directory.ask("POST", USERS, body)) == (400, "invalidSyntax"), body
    assert [(one["status"], one["request"]) for one in await read(4)] == [(400, None)] * 4


async def test_only_so_many_are_kept_and_none_of_another_organization_is_shown(
    directory: Directory, read: Read, postern: Postern, client: Client, people: People
) -> None:
    globex = await Directory(postern, client, people, "globex").connect()
    directory.people.change(
        "insert into scim_exchanges (id, org_id, token_id, token_name, method, path, status, occurred_at)"
        " select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, %s, 'Old', 'GET', '/', 200, now()"
        " from generate_series(1, 1500) as n",
        directory.tenant.id,
        directory.tenant.id,
    )
    await globex.ask("GET", USERS)
    await directory.ask("GET", USERS)
    with trio.fail_after(PATIENCE):
        while directory.people.rows("select count(*) as n from scim_exchanges where org_id = %s", directory.tenant.id) != [{"n": 1000}]:
            await trio.sleep(0.05)
    assert (await read(100))[0]["token_name"] == "Directory"
    stranger = await people.token(globex.owner)
    assert refused(await client.get(EXCHANGES, token=stranger)) == (403, "FORBIDDEN")
    assert refused(await client.get(f"{EXCHANGES}?limit=101", token=await people.token(directory.owner))) == (400, "BAD_REQUEST")

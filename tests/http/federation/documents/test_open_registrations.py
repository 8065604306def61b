"""Programs that register themselves: what they get, and their way from there to tokens, a place and an end."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import left
from tests.http.federation.documents.publishing import ON_DEVICE, PublishingClients, publishing
from tests.http.federation.relying import REVOKE, claims_of
from tests.http.federation.resources.asking import ORDERS
from tests.http.people import People
from tests.patience import PATIENCE

HERE: Final = "http://127.0.0.1:50123/callback"
GONE: Final = {"active": False}


@pytest.fixture
async def clients(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    async with publishing(postern, people, log, tmp_path) as scene:
        scene.api(ORDERS)
        scene.let_registered_in()
        yield scene


async def test_a_program_registers_itself_and_gets_tokens(clients: PublishingClients) -> None:
    """It takes another port at each start, so its id is about none."""
    answer = (await clients.registers(grant_types=["authorization_code", "refresh_token", "client_credentials"], logo_uri="x")).ok(201)
    client, issued = answer.pop("client_id"), answer.pop("client_id_issued_at")
    assert (len(client) < 120, client.startswith("open:"), issued > 1_700_000_000) == (True, True, True)
    assert answer == {
        "client_name": "Notebook",
        "redirect_uris": [ON_DEVICE],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "dpop_bound_access_tokens": False,
    }
    assert await clients.open_client(redirect_uris=[HERE], token_endpoint_auth_method=None, scope="mcp") == client
    assert not clients.services()
    tab = await clients.consents(client_id=client, redirect_uri=HERE)
    assert "Allow an unregistered app on this device to act on your behalf?" in tab.page.text
    code = left(await tab.send(answer="allow"), HERE)["code"]
    tokens = clients.kept((await clients.exchanged(code, client, HERE)).ok())
    assert claims_of(tokens["access_token"])["client_id"] == client
    refreshed = clients.kept((await clients.refresh(clients.client_of(client), tokens["refresh_token"])).ok())
    introspected = await clients.introspect(clients.desk, refreshed["access_token"])
    assert (introspected["active"], introspected["client_id"]) == (True, client)
    (service,) = clients.services()
    assert (service["name"], service["redirect_uris"], service["is_agent"]) == ("Notebook", ["http://127.0.0.1/callback"], True)
    assert (service["slug"].startswith("open-"), clients.people.rows("select from metadata_documents")) == (True, [])
    (entry,) = clients.audited("service.created")
    assert entry["actor_id"] == clients.ada.user
    assert (await clients.ask(REVOKE, {"token": refreshed["refresh_token"], "client_id": client})).status == 200
    assert await clients.introspect(clients.desk, refreshed["access_token"]) == GONE


async def test_a_program_without_a_name_keeps_its_id_at_another_port(clients: PublishingClients) -> None:
    """Otherwise each of its starts would be another application, with a consent and a place of its own."""
    first = (await clients.registers(client_name=None)).ok(201)
    assert first["client_name"] == "127.0.0.1"
    assert await clients.open_client(client_name=None, redirect_uris=[HERE]) == first["client_id"]


async def test_a_program_says_where_it_begins_a_sign_in(clients: PublishingClients) -> None:
    web = "https://notebook.example/callback"
    clients.let_registered_in(None, "notebook.example")
    said = {"redirect_uris": [web], "initiate_login_uri": "https://notebook.example/sign-in?from=postern"}
    bound = (await clients.registers(**said, dpop_bound_access_tokens=True)).ok(201)
    answer = (await clients.registers(**said)).ok(201)
    assert (answer["initiate_login_uri"], answer["dpop_bound_access_tokens"]) == (said["initiate_login_uri"], False)
    ids = {answer["client_id"], bound["client_id"], await clients.open_client(redirect_uris=[web])}
    assert len(ids) == 3
    await clients.code_of(client_id=answer["client_id"], back=web)
    (service,) = clients.services()
    assert (service["initiate_login_uri"], service["dpop_bound_access_tokens"]) == (said["initiate_login_uri"], False)
    described = await clients.postern.federation.open_registrations.read(bound["client_id"])
    assert (described.initiates_at, described.dpop_bound_access_tokens) == (said["initiate_login_uri"], True)


async def test_a_program_begins_a_sign_in_at_a_host_of_its_own_alone(clients: PublishingClients) -> None:
    """On the device it would have any port, and the page that shows the program names the hosts of its redirect URIs."""
    for uri in (
        "https://evil.example/sign-in",
        "https://notebook.example:8443/sign-in",
        "http://127.0.0.1/sign-in",
        "javascript:alert(1)",
        "https://notebook.example/?iss=https://evil.example",
        "",
    ):
        answer = await clients.registers(redirect_uris=["https://notebook.example/callback", ON_DEVICE], initiate_login_uri=uri)
        assert (answer.status, answer.json()["error"]) == (400, "invalid_client_metadata"), uri
        assert answer.json()["error_description"].startswith("initiate_login_uri: "), uri
    long = f"https://notebook.example/{'a' * 1000}"
    answer = await clients.registers(redirect_uris=["https://notebook.example/callback"], initiate_login_uri=long)
    assert (answer.status, "at most 1 KiB" in answer.json()["error_description"]) == (400, True)


async def test_the_metadata_name_the_endpoint(clients: PublishingClients) -> None:
    for path in ("openid-configuration", "oauth-authorization-server"):
        found = (await clients.client.get(f"/.well-known/{path}")).ok()
        assert found["registration_endpoint"] == f"{found['issuer']}/oauth/register"


async def test_a_page_of_any_origin_may_register(clients: PublishingClients) -> None:
    origin = [("origin", "http://localhost:6274"), ("access-control-request-method", "POST")]
    asked = await clients.client.request("OPTIONS", "/oauth/register", headers=origin)
    assert (asked.header("access-control-allow-origin"), asked.header("access-control-allow-credentials")) == ("*", None)


async def test_a_page_on_the_device_may_ask_for_tokens_without_credentials(clients: PublishingClients) -> None:
    """As the inspector of MCP does, whose page stands there."""
    for origin, allowed in (
        ("http://localhost:6274", "http://localhost:6274"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://localhost.evil.example", None),
        ("http://127.0.0.1@evil.example", None),
        ("https://localhost:6274", None),
        ("http://localhost:06274", None),
    ):
        answer = await clients.client.request("POST", "/auth/token", headers=[("origin", origin)])
        assert (answer.header("access-control-allow-origin"), answer.header("access-control-allow-credentials")) == (allowed, None)


async def test_all_copies_of_a_program_are_one_application(clients: PublishingClients) -> None:
    for person in (None, clients.resident(clients.acme, "owner")):
        client = await clients.open_client(redirect_uris=[HERE])
        await clients.code_of(client_id=client, back=HERE, person=person)
    assert len(clients.services()) == 1


async def test_the_person_sees_and_ends_it(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    code = await clients.code_of(client_id=client, back=HERE)
    tokens: dict[str, Any] = clients.kept((await clients.exchanged(code, client, HERE)).ok())
    tab = await clients.browser().tab().open("/ui/applications")
    assert "Self-registered app for" in tab.page.text
    clients.people.change("update all_services set deleted_at = now(), kept_client_id = null where service_type = 'metadata'")
    assert (await clients.refresh(clients.client_of(client), tokens["refresh_token"])).status == 400
    # The id still reads, so the program may ask again.
    await clients.consents(client_id=client, redirect_uri=HERE)


async def test_it_may_push_its_request(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    asked = dict(part.split("=", 1) for part in clients.asks(client_id=client, redirect_uri=HERE).partition("?")[2].split("&"))
    fields = {name: value.replace("+", " ") for name, value in asked.items()}
    fields |= {"client_id": client, "redirect_uri": HERE, "resource": ORDERS, "scope": "openid orders:read"}
    pushed = (await clients.ask("/oauth/par", fields)).ok(201)
    tab = clients.browser().tab()
    await tab.open(f"/oauth/authorize?client_id={client}&request_uri={pushed['request_uri']}")
    assert tab.place.startswith("/ui/consent")
    assert "code" in left(await tab.send(answer="allow"), HERE)


async def test_those_who_look_after_the_api_read_which_program_it_was(clients: PublishingClients) -> None:
    """Also of one whose id is as long as ids may be, and what they can do about it."""
    here = f"{HERE}/{'c' * 680}"
    client = await clients.open_client(redirect_uris=[here])
    owner = clients.resident(clients.acme, "owner")
    path = f"{await clients.only_api(owner)}/refusals"
    clients.people.change("update all_organizations set registered_clients = 'off'")
    assert (await clients.browser().request("GET", clients.asks(client_id=client, redirect_uri=here))).status == 400
    recorder = clients.postern.federation.refusal_recorder
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while not (listed := (await clients.request("GET", path, by=owner)).ok()["refusals"]):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert [(one["address"], one["reason"]) for one in listed] == [(client, "open_client_not_let_in")]
    assert "allow dynamic client registration" in listed[0]["advice"]

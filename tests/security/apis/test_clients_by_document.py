"""Attacks on clients by document. The faults of documents and rules are in `tests/http/federation/documents`; here are the table of who
comes with what, and the races of every end with two hundred requests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from core.domain.identifiers import ServiceId, UserId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import left
from tests.http.federation.documents.publishing import BACK, CLIENT, HOST, THEIRS, PublishingClients, publishing
from tests.http.federation.relying import oauth
from tests.http.federation.resources.asking import ORDERS
from tests.http.people import People
from tests.receiver import endlessly, trickling

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
_GONE: Final = {"active": False}


@pytest.fixture
async def clients(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    async with publishing(postern, people, log, tmp_path) as scene:
        scene.both_let_in()
        scene.publish()
        yield scene


_Try = Callable[[PublishingClients], Awaitable[Received]]


def _asks(*resources: str, **changed: str) -> _Try:
    return lambda clients: clients.browser().request("GET", clients.asks(*resources, **changed))


async def _code_elsewhere(clients: PublishingClients) -> Received:
    return await clients.exchanged(await clients.code_of(ORDERS), resource=THEIRS)


async def _code_of_another(clients: PublishingClients) -> Received:
    other = f"{CLIENT}/other"
    clients.publish(other)
    return await clients.exchanged(await clients.code_of(ORDERS), other)


async def _code_without_verifier(clients: PublishingClients) -> Received:
    fields = {"grant_type": "authorization_code", "code": await clients.code_of(), "redirect_uri": BACK, "client_id": CLIENT}
    return await clients.ask(fields=fields)


async def _code_with_a_secret(clients: PublishingClients) -> Received:
    return await clients.exchanged(await clients.code_of(), client_secret="cs_abcdef_guessed")


async def _refresh_wider(clients: PublishingClients) -> Received:
    tokens = await clients.has_tokens(ORDERS, scope="openid orders:read")
    return await clients.refresh(clients.client_of(), tokens["refresh_token"], scope="openid orders:read orders:write")


async def _token_of_ours(clients: PublishingClients) -> Received:
    return await clients.client.get("/api/user", token=(await clients.has_tokens())["access_token"])


async def _own_token(clients: PublishingClients) -> Received:
    return await clients.ask(fields={"grant_type": "client_credentials", "client_id": CLIENT, "resource": ORDERS})


async def _introspects(clients: PublishingClients) -> Received:
    return await clients.ask("/oauth/introspect", {"token": (await clients.has_tokens())["access_token"], "client_id": CLIENT})


async def _signs_as_registered(clients: PublishingClients) -> Received:
    """A registered application's secret with the address as its name."""
    return await clients.ask(fields={"grant_type": "refresh_token", "refresh_token": "A" * 43, "client_id": CLIENT, "client_secret": "x"})


async def _unregistered_address(clients: PublishingClients) -> Received:
    return await clients.browser().request("GET", clients.asks(redirect_uri="https://evil.example/"))


# The attack, and the answer. A page (400) sends nobody anywhere.
_TABLE: Final[dict[str, tuple[_Try, int, str]]] = {
    "an address on a host that only looks like one": (_asks(client_id=f"https://{HOST}.evil.example/oauth/client.json"), 400, ""),
    "an address with another case": (_asks(client_id=CLIENT.replace("app", "APP")), 400, ""),
    "an address with the default port": (_asks(client_id=CLIENT.replace(HOST, f"{HOST}:443")), 400, ""),
    "an address with dots": (_asks(client_id=CLIENT.replace("/oauth", "/oauth/x/..")), 400, ""),
    "an address with encoded dots": (_asks(client_id=CLIENT.replace("/oauth", "/oauth/%2e%2e/oauth")), 400, ""),
    "an address with a query that echoes": (_asks(client_id=f"{CLIENT}?echo=x"), 400, ""),
    "an address with the organization behind it": (_asks(client_id=f"{CLIENT}#x"), 400, ""),
    "an address without TLS": (_asks(client_id=CLIENT.replace("https", "http")), 400, ""),
    "no API": (_asks(""), 400, ""),
    "an API's look-alike": (_asks(f"{ORDERS}/"), 400, ""),
    "APIs of two organizations": (_asks(ORDERS, THEIRS), 400, ""),
    "an address that the document does not have": (_unregistered_address, 400, ""),
    "a code at another organization's API": (_code_elsewhere, 400, "invalid_target"),
    "a code of another client": (_code_of_another, 400, "invalid_grant"),
    "a code without its verifier": (_code_without_verifier, 400, "invalid_request"),
    "a code with a guessed secret": (_code_with_a_secret, 401, "invalid_client"),
    "a refresh that widens": (_refresh_wider, 400, "invalid_scope"),
    "its token at our API": (_token_of_ours, 401, ""),
    "a token without a person": (_own_token, 400, "unauthorized_client"),
    "a question about a token without a credential": (_introspects, 401, "invalid_client"),
    "a secret with the address as its name": (_signs_as_registered, 400, "invalid_grant"),
}


@pytest.mark.parametrize("attack", _TABLE)
async def test_attacks_are_refused(clients: PublishingClients, attack: str) -> None:
    tried, status, error = _TABLE[attack]
    answer = await tried(clients)
    assert answer.status == status, answer.body
    assert answer.header("location") is None
    if error:
        assert oauth(answer)[1] == error


_Act = Callable[[PublishingClients, UUID], Awaitable[Any]]


async def _take_back(clients: PublishingClients, service: UUID) -> None:
    user = UserId(clients.ada.user)
    await clients.postern.federation.consents.revoke(user, ServiceId(service), Actor(user))


async def _delete(clients: PublishingClients, _service: UUID) -> None:
    owner, (row,) = clients.resident(clients.acme, "owner"), clients.services(clients.acme)
    assert (await clients.request("DELETE", f"/api/organizations/acme/services/{row['slug']}", by=owner)).status in {200, 202, 204}


async def _turn_off(clients: PublishingClients, _service: UUID) -> None:
    owner = clients.resident(clients.acme, "owner")
    changed = await clients.request("PATCH", await clients.only_api(owner), {"metadata_clients": "off"}, by=owner)
    assert changed.status == 200


async def _suspend(clients: PublishingClients, _service: UUID) -> None:
    clients.people.change("update all_organizations set status = 'suspended' where id = %s", clients.acme.id)


async def _change_document(clients: PublishingClients, _service: UUID) -> None:
    clients.publish(redirect_uris=[BACK, "https://app.client.example/other"])
    clients.stale()
    assert (await clients.browser().request("GET", clients.asks())).status == 303


_ACTS: Final[dict[str, _Act]] = {
    "the person takes it back": _take_back,
    "the organization deletes it": _delete,
    "the API lets nobody in any more": _turn_off,
    "the organization is suspended": _suspend,
    "its document changes": _change_document,
}


@pytest.mark.parametrize("act", _ACTS)
async def test_two_hundred_refreshes_race_with_the_end(clients: PublishingClients, act: str) -> None:
    """Whoever is quicker: at the next look, each token of each of them is over."""
    await clients.has_tokens()
    (service,) = clients.services(clients.acme)
    refresh_tokens = _sessions(clients, service["id"])
    answers: list[Received] = []

    async def refresh(token: Token) -> None:
        answers.append(await clients.refresh(clients.client_of(), token.reveal()))

    half = RACERS // 2
    racers = [partial(refresh, token) for token in refresh_tokens]
    await all_at_once(*racers[:half], partial(_ACTS[act], clients, service["id"]), *racers[half:])
    assert len(answers) == RACERS
    won = [clients.kept(answer.json()) for answer in answers if answer.status == 200]
    clients.people.change("update all_organizations set status = 'active'")
    if act == "the organization is suspended":
        clients.people.change("update all_organizations set status = 'suspended' where id = %s", clients.acme.id)
    else:
        told = [await clients.introspect(clients.desk, tokens["access_token"]) for tokens in won]
        assert told == [_GONE] * len(won)
    again = [(await clients.refresh(clients.client_of(), tokens["refresh_token"])).status for tokens in won]
    assert [status for status in again if status == 200] == []
    late = [(await clients.refresh(clients.client_of(), token.reveal())).status for token in refresh_tokens[:10]]
    assert [status for status in late if status == 200] == []


async def test_one_code_races_with_a_changed_document(clients: PublishingClients) -> None:
    """A code is redeemed before the change is seen, or not at all; what was won is over at the next look."""
    code = await clients.code_of()
    (service,) = clients.services(clients.acme)
    answers: list[Received] = []

    async def redeem() -> None:
        answers.append(await clients.exchanged(code))

    await all_at_once(*[redeem] * 10, partial(_change_document, clients, service["id"]), *[redeem] * 10)
    for tokens in [clients.kept(answer.json()) for answer in answers if answer.status == 200]:
        assert await clients.introspect(clients.desk, tokens["access_token"]) == _GONE


async def test_hostile_documents_cost_others_nothing(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    """While twenty documents hang or never end at one organization's API, its known client and another organization's new one are let in,
    and nothing of them is kept.
    """
    await clients.code_of()
    monkeypatch.setattr("adapters.outbound.client_documents.PATIENCE", timedelta(seconds=1))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n"
    addresses = [f"https://host{number}.client.example/client/{number}" for number in range(20)]
    newcomer = "https://new.client.example/client.json"
    clients.publish(newcomer)
    clients.stale()
    for number, address in enumerate(addresses):
        clients.answers(trickling if number % 2 else endlessly(head, b" " * 65536), address)
    good: list[int] = []

    async def ask(address: str) -> None:
        assert (await clients.browser().request("GET", clients.asks(client_id=address))).status in {400, 503}

    async def enter(asked: str) -> None:
        good.append((await clients.browser().request("GET", asked)).status)

    known, new = clients.asks(), clients.asks(THEIRS, client_id=newcomer)
    await all_at_once(*[partial(ask, address) for address in addresses], partial(enter, known), partial(enter, new))
    assert good == [303, 303]
    assert {row["url"] for row in clients.people.rows("select url from metadata_documents")} == {CLIENT}
    assert len(clients.services()) == 1


def _sessions(clients: PublishingClients, service: UUID) -> list[Token]:
    """As many sessions of Ada's at the API, as the client gets them."""
    (api,) = clients.people.rows("select id from resource_servers where org_id = %s", clients.acme.id)
    (first,) = clients.people.rows("select * from sessions where service_id = %s", service)
    tokens = [clients.postern.foundation.secrets.token() for _ in range(RACERS)]
    clients.log.remember(*(token.reveal() for token in tokens))
    granted = Jsonb([{"resource_id": str(api["id"]), "identifier": ORDERS, "scopes": ["orders:read"]}])
    for token in tokens:
        session = clients.tenants.session(clients.ada, clients.shop.service).session
        clients.people.change(
            "update sessions set scopes = '{openid}', audiences = %s, service_id = %s where id = %s", granted, first["service_id"], session
        )
        clients.people.change("insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", token.digest(), session)
    return tokens


async def test_the_name_in_a_document_stands_on_no_page_before_the_consent(clients: PublishingClients) -> None:
    """A link leads to the organization's sign-in. There, nothing says yet that nobody has registered the application."""
    name = "Acme: your account is locked, call 555 0100"
    clients.publish(client_name=name)
    asked = clients.asks()

    async def stands_nowhere() -> None:
        for tabs, more in ((Tabs(clients.client), ""), (clients.browser(), "&prompt=select_account")):
            tab = await tabs.tab().open(f"{asked}{more}")
            assert not tab.place.startswith("/ui/consent"), tab.place
            assert name not in tab.page.text, tab.place

    await stands_nowhere()
    refused = await Tabs(clients.client).request("GET", f"{asked}&prompt=none&response_mode=form_post")
    assert (refused.status, name in refused.body.decode(), "login_required" in refused.body.decode()) == (200, False, True)
    consents = await clients.consents()
    assert HOST in consents.page.text
    assert name in consents.page.text
    denied = await consents.send(answer="deny")
    assert left(denied, BACK)["error"] == "access_denied"
    assert "Unregistered app" in denied.page.text
    assert name not in denied.page.text
    # With a place in the organization it is no other application.
    await clients.code_of()
    await stands_nowhere()
    clients.people.change("update all_services set sign_in_policy = 'assigned' where service_type = 'metadata'")
    turned_away = await clients.browser().tab().open(asked)
    assert "Unregistered app" in turned_away.page.text
    assert name not in turned_away.page.text

"""Clients that describe themselves in a document: authorization, code, tokens and refresh, on the organization's own service."""

import json
from typing import Any, Final

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from adapters.outbound import client_documents as published_keys
from core.domain.federation.oauth import client_documents
from core.domain.federation.oauth.client_documents import MOST_CLIENTS
from core.domain.identifiers import ServiceId, UserId
from core.domain.record.events import Actor
from ops.browser.page_reader import PageReader
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import left, told
from tests.http.federation.documents.publishing import BACK, CLIENT, HOST, INSIDE, THEIRS, PublishingClients
from tests.http.federation.relying import JWT_BEARER, REVOKE, VERIFIER, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.federation.test_published_keys import jwk, published
from tests.http.people import BASE_URL
from tests.patience import PATIENCE
from tests.receiver import Answer, answering, endlessly, trickling

JSON: Final = "content-type: application/json"
OLD, NEW = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
KEYS: Final = f"https://{HOST}/keys.json"
GONE: Final = {"active": False}


async def _page(clients: PublishingClients, *resources: str, **changed: Any) -> Received:
    return await clients.browser().request("GET", clients.asks(*resources, **changed))


async def _refused(clients: PublishingClients, words: str, *resources: str, **changed: Any) -> None:
    """A page says why, in these words, and nobody is sent anywhere."""
    answer = await _page(clients, *resources, **changed)
    assert (answer.status, answer.header("location")) == (400, None), answer.body
    assert words in PageReader(answer.body).text


async def test_a_client_that_nobody_has_registered_gets_tokens(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    tab = await clients.consents()
    for words in ("Notebook", f"is a document at {HOST}", "Orders", "See your orders", ORDERS):
        assert words in tab.page.text
    # Nobody has allowed it yet.
    assert (clients.nothing_is_kept(), clients.audited("service.created")) == (True, [])
    code = left(await tab.send(answer="allow"), BACK)["code"]
    clients.log.remember(code)
    tokens = clients.kept((await clients.exchanged(code)).ok())
    claims = claims_of(tokens["access_token"])
    assert (claims["client_id"], claims["aud"], claims["org_id"]) == (CLIENT, ORDERS, str(clients.acme.id))
    # It is an agent until an owner says otherwise.
    assert (claims["act"], "id_token" in tokens) == ({"sub": CLIENT}, False)
    refreshed = clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["client_id"] == CLIENT
    told_of = await clients.introspect(clients.desk, refreshed["access_token"])
    assert (told_of["active"], told_of["client_id"]) == (True, CLIENT)
    assert (await clients.userinfo(refreshed["access_token"])).status == 401
    (service,) = clients.services()
    assert (service["name"], service["redirect_uris"], service["service_type"]) == ("Notebook", [BACK], "metadata")
    assert len(clients.receiver.calls) == 1
    # The person is asked once.
    assert "code" in told(await _page(clients), BACK)
    assert (await clients.ask(REVOKE, {"token": refreshed["refresh_token"], "client_id": CLIENT})).status == 200
    assert await clients.introspect(clients.desk, refreshed["access_token"]) == GONE


async def test_both_documents_of_the_installation_say_so(clients: PublishingClients) -> None:
    for path in ("openid-configuration", "oauth-authorization-server"):
        assert (await clients.client.get(f"/.well-known/{path}")).ok()["client_id_metadata_document_supported"] is True


_RULES: Final = [
    (("off",), ("any",), False),
    (("any",), ("off",), False),
    (("named", HOST), ("any",), True),
    (("any",), ("named", HOST), True),
    (("named", HOST), ("named", HOST), True),
    (("named", "client.example"), ("any",), False),
    (("any",), ("named", f"{HOST}:8443"), False),
    (("named",), ("any",), False),
]


@pytest.mark.parametrize(("organization", "api", "enters"), _RULES)
async def test_organization_and_api_must_both_let_it_in(
    clients: PublishingClients, organization: tuple[str, ...], api: tuple[str, ...], enters: bool
) -> None:
    clients.api()
    clients.publish()
    for table, (how, *hosts) in (("all_organizations", organization), ("resource_servers", api)):
        clients.people.change(f"update {table} set metadata_clients = %s, metadata_hosts = %s", how, hosts)
    if enters:
        await clients.consents()
        return
    await _refused(clients, f"document of this application is at {HOST}. The API or its organization does not allow this host")
    assert (clients.nothing_is_kept(), clients.receiver.calls) == (True, [])


async def test_at_first_nobody_is_let_in(clients: PublishingClients) -> None:
    clients.api()
    clients.publish()
    await _refused(clients, "does not allow this host")
    # All applications of the organization are its own.
    clients.people.change("update resource_servers set admits = 'all'")
    clients.people.change("update all_organizations set metadata_clients = 'any'")
    await _refused(clients, "does not allow this host")


async def test_the_request_names_an_api(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.api(BILLS)
    clients.let_in()
    clients.api("http://localhost:3000/mcp", approved_at=None)
    clients.publish()
    await _refused(clients, "did not specify which API", "")
    await _refused(clients, "No API has the identifier", "https://api.acme.example/nothing")
    await _refused(clients, "No API has the identifier", ORDERS, "https://api.acme.example/nothing")
    await _refused(
        clients, "developer\N{RIGHT SINGLE QUOTATION MARK}s device. The application must be registered", "http://localhost:3000/mcp"
    )
    await _refused(clients, "several organizations", ORDERS, THEIRS)
    clients.people.change("update resource_servers set approved_at = null where identifier = %s", BILLS)
    await _refused(clients, "No API has the identifier", BILLS)
    clients.people.change("update all_organizations set status = 'suspended' where id = %s", clients.acme.id)
    await _refused(clients, "No API has the identifier", ORDERS)
    assert (clients.nothing_is_kept(), clients.receiver.calls) == (True, [])


@pytest.mark.parametrize(
    "address",
    [
        "https://app.client.example",
        "https://app.client.example/a?b=c",
        "https://app.client.example/a/../b",
        "https://app.client.example/a#b",
        "https://ada@app.client.example/a",
        "https://App.client.example/a",
        "https://app.client.example:443/a",
        "https://93.184.215.14/a",
        "https://[2606:2800:21f::1]/a",
        "https://localhost/a",
        "https://app/a",
        f"https://app.client.example/{'a' * 500}",
    ],
)
async def test_an_address_has_one_form(clients: PublishingClients, address: str) -> None:
    clients.both_let_in()
    await _refused(clients, "document is not valid. It must start with https://", client_id=address)
    assert (clients.nothing_is_kept(), clients.receiver.calls) == (True, [])


def _document(**members: Any) -> bytes:
    told_in = {"client_id": CLIENT, "client_name": "Notebook", "redirect_uris": [BACK], "token_endpoint_auth_method": "none", **members}
    return json.dumps({name: value for name, value in told_in.items() if value is not None}).encode()


_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n"
_BAD: Final[dict[str, tuple[Answer, str]]] = {
    "lies": (answering(200, _document(client_id=f"{CLIENT}/"), JSON), "does not match the URL of the document"),
    "names none": (answering(200, _document(client_id=None), JSON), "does not match the URL of the document"),
    "is a gigabyte": (endlessly(_HEAD, b" " * 65536), "larger than 5 KiB"),
    "is a byte too long": (answering(200, _document().ljust(5121), JSON), "larger than 5 KiB"),
    "hangs": (trickling, "could not be fetched"),
    "redirects": (answering(302, b"", "location: https://app.client.example/other"), "returned status 302"),
    "is missing": (answering(404), "returned status 404"),
    "is partial": (answering(206, _document(), JSON), "returned status 206"),
    "is a page": (answering(200, _document(), "content-type: text/html"), "not served as JSON"),
    "is a list": (answering(200, b"[]", JSON), "not served as JSON"),
    "is deep": (answering(200, b"[" * 5000, JSON), "not served as JSON"),
    "says it twice": (answering(200, _document()[:-1] + b',"client_id":"x"}', JSON), "not served as JSON"),
    "has markup": (answering(200, _document(client_name="<b>Bank</b>"), JSON), "contains markup, links or line breaks"),
    "has a link": (answering(200, _document(client_name="https://bank.example"), JSON), "contains markup, links or line breaks"),
    "has two lines": (answering(200, _document(client_name="Bank\nof Acme"), JSON), "contains markup, links or line breaks"),
    "turns around": (answering(200, _document(client_name="Bank\u202e"), JSON), "contains markup, links or line breaks"),
    "is half a letter": (answering(200, _document(client_name="Bank\ud800"), JSON), "contains markup, links or line breaks"),
    "is called nothing": (answering(200, _document(client_name=" "), JSON), "contains markup, links or line breaks"),
    "is called a number": (answering(200, _document(client_name=7), JSON), "contains markup, links or line breaks"),
    "has a long name": (answering(200, _document(client_name="a" * 101), JSON), "contains markup, links or line breaks"),
    "has no address": (answering(200, _document(redirect_uris=[]), JSON), "The redirect_uris in"),
    "has many addresses": (answering(200, _document(redirect_uris=[f"{BACK}/{n}" for n in range(21)]), JSON), "The redirect_uris in"),
    "sends elsewhere": (answering(200, _document(redirect_uris=["http://app.client.example/"]), JSON), "The redirect_uris in"),
    "runs scripts": (answering(200, _document(redirect_uris=["javascript:alert(1)"]), JSON), "The redirect_uris in"),
    "has a secret": (answering(200, _document(client_secret="s3cret"), JSON), "a client secret"),
    "has a method with a secret": (
        answering(200, _document(token_endpoint_auth_method="client_secret_basic"), JSON),
        "token_endpoint_auth_method",
    ),
    "has no keys": (answering(200, _document(token_endpoint_auth_method="private_key_jwt"), JSON), "public keys"),
    "has keys twice": (
        answering(200, _document(token_endpoint_auth_method="private_key_jwt", jwks={"keys": []}, jwks_uri=KEYS), JSON),
        "public keys",
    ),
    "has bad keys": (answering(200, _document(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [1]}), JSON), "public keys"),
    "has keys in the clear": (
        answering(200, _document(token_endpoint_auth_method="private_key_jwt", jwks_uri="http://app.client.example/k"), JSON),
        "public keys",
    ),
    "frames another host": (
        answering(200, _document(frontchannel_logout_uri="https://evil.example/bye"), JSON),
        "frontchannel_logout_uri is not allowed",
    ),
    "frames a script": (
        answering(200, _document(frontchannel_logout_uri="javascript:alert(1)"), JSON),
        "frontchannel_logout_uri is not allowed",
    ),
    "frames a number": (answering(200, _document(frontchannel_logout_uri=7), JSON), "frontchannel_logout_uri is not allowed"),
    **{
        what: (answering(200, _document(initiate_login_uri=uri), JSON), "initiate_login_uri is not allowed")
        for what, uri in {
            "begins at another host": "https://evil.example/sign-in",
            "begins at another port": "https://app.client.example:8443/sign-in",
            "begins with a script": "javascript:alert(1)",
            "begins with a number": 7,
            "begins nowhere": "",
            "begins with an issuer": "https://app.client.example/sign-in?iss=https://evil.example",
        }.items()
    },
    "begins in the clear": (
        answering(200, _document(redirect_uris=["http://localhost/"], initiate_login_uri="http://localhost/sign-in"), JSON),
        "initiate_login_uri is not allowed",
    ),
    "has keys nowhere": (
        answering(200, _document(token_endpoint_auth_method="private_key_jwt", jwks_uri="https://app.client.example:0/k"), JSON),
        "public keys",
    ),
}


@pytest.mark.parametrize("fault", _BAD)
async def test_a_document_that_is_refused_leaves_nothing(clients: PublishingClients, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, words = _BAD[fault]
    clients.both_let_in()
    clients.answers(answer)
    with monkeypatch.context() as patched:
        if fault == "hangs":
            patched.setattr("adapters.outbound.client_documents.PATIENCE", client_documents.PATIENCE / 4)
        await _refused(clients, words)
        await _refused(clients, words)
    assert clients.nothing_is_kept()
    # A failure is not remembered: the next request looks again.
    assert len(clients.receiver.calls) == 2
    clients.publish()
    await clients.consents()


async def test_an_address_that_points_inside_is_not_called(clients: PublishingClients) -> None:
    clients.both_let_in()
    await _refused(clients, "could not be fetched", client_id=f"https://{INSIDE}/client.json")
    await _refused(clients, "could not be fetched", client_id="https://nowhere.other.example/client.json")
    assert (clients.nothing_is_kept(), clients.receiver.calls) == (True, [])


@pytest.mark.parametrize(
    ("lines", "least", "most"),
    [
        ((), 299, 301),
        (("cache-control: max-age=3600",), 3590, 3601),
        (("cache-control: max-age=3600", "age: 600"), 2990, 3001),
        (("cache-control: public, s-maxage=7200, max-age=1",), 7190, 7201),
        (("cache-control: max-age=1",), 299, 301),
        (("cache-control: no-store, max-age=3600",), 299, 301),
        (("cache-control: max-age=99999999999999",), 86399, 86401),
        (("cache-control: max-age=never",), 299, 301),
        (("expires: Thu, 01 Jan 2099 00:00:00 GMT",), 86399, 86401),
        (("expires: 0",), 299, 301),
    ],
)
async def test_its_heads_say_how_long_it_counts(clients: PublishingClients, lines: tuple[str, ...], least: int, most: int) -> None:
    clients.both_let_in()
    clients.publish(CLIENT, *lines)
    await clients.consents()
    await clients.code_of()
    (row,) = clients.people.rows("select extract(epoch from fresh_until - fetched_at)::int as seconds from metadata_documents")
    assert least <= row["seconds"] <= most
    assert len(clients.receiver.calls) == 1
    clients.stale()
    await clients.code_of(prompt="consent")
    assert len(clients.receiver.calls) == 2


async def test_ten_a_minute_are_fetched_of_a_host(clients: PublishingClients) -> None:
    clients.both_let_in()
    for number in range(10):
        await _refused(clients, "returned status 404", client_id=f"{CLIENT}/{number}")
    clients.publish()
    await _refused(clients, "requested too often")
    assert len(clients.receiver.calls) == 10
    # Another host has a limit of its own.
    other = "https://other.client.example/client.json"
    clients.publish(other)
    await clients.consents(client_id=other)


async def test_made_up_addresses_keep_no_known_client_out(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    for number in range(9):
        await _refused(clients, "returned status 404", client_id=f"{CLIENT}/{number}")
    await _refused(clients, "requested too often", client_id=f"{CLIENT}/10")
    # It has ten of its own. Then what is known counts for a day more.
    clients.publish(client_name="Notes")
    for _ in range(12):
        _stale_for(clients, 23)
        await clients.consents(prompt="consent")
    assert len(clients.receiver.calls) == 20
    assert clients.services()[0]["name"] == "Notes"
    _stale_for(clients, 25)
    await _refused(clients, "requested too often")


def _stale_for(clients: PublishingClients, hours: int) -> None:
    clients.people.change("update metadata_documents set fresh_until = now() - make_interval(hours => %s)", hours)


async def test_made_up_addresses_keep_no_old_key(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(OLD, "old")]})
    refresh = await _signed_in(clients, ORDERS)
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(NEW, "new")]})
    for number in range(10):
        await _page(clients, client_id=f"{CLIENT}/{number}")
    _stale_for(clients, 72)
    assert oauth(await _signed(clients, OLD, "old", **refresh)) == (401, "invalid_client")
    await clients.consents()


async def _signed_in(clients: PublishingClients, api: str) -> dict[str, str]:
    """The fields of a refresh at the API, after the old key has signed for the tokens."""
    fields = {"grant_type": "authorization_code", "code": await clients.code_of(api), "redirect_uri": BACK, "code_verifier": VERIFIER}
    tokens = clients.kept((await _signed(clients, OLD, "old", **fields)).ok())
    return {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}


async def test_a_document_that_stays_away_counts_for_a_day(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    tokens = await clients.has_tokens()
    clients.answers(answering(503))
    _stale_for(clients, 23)
    tokens = clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())
    _stale_for(clients, 25)
    assert oauth(await clients.refresh(clients.client_of(), tokens["refresh_token"])) == (400, "unauthorized_client")
    # The refusal has used nothing up.
    clients.publish()
    clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())


async def test_where_a_client_begins_a_sign_in_follows_its_document(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish(initiate_login_uri="https://app.client.example/sign-in")
    await clients.has_tokens()
    assert [row["initiate_login_uri"] for row in clients.services()] == ["https://app.client.example/sign-in"]
    # What people have agreed to has changed, so they are asked anew.
    clients.publish()
    clients.stale()
    await clients.has_tokens()
    assert [row["initiate_login_uri"] for row in clients.services()] == [None]


async def test_what_one_organization_saw_counts_in_all(clients: PublishingClients) -> None:
    """Acme's people keep the installation's copy fresh, so globex never fetches the document."""
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(OLD, "old")]})
    refresh = await _signed_in(clients, THEIRS)
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(NEW, "new")]})
    clients.stale()
    await clients.consents(ORDERS)
    assert oauth(await _signed(clients, OLD, "old", **refresh)) == (401, "invalid_client")
    assert oauth(await _signed(clients, NEW, "new", **refresh)) == (400, "invalid_target")
    assert len(clients.receiver.calls) == 2


async def test_a_client_that_gets_keys_is_public_in_none(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    theirs = await clients.has_tokens(THEIRS)
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(NEW, "new")]})
    clients.stale()
    await clients.consents(ORDERS)
    assert oauth(await clients.refresh(clients.client_of(), theirs["refresh_token"])) == (401, "invalid_client")


async def _not_placed(clients: PublishingClients, words: str, address: str) -> None:
    """The person allows the client, and a page says why it gets no place."""
    tab = await clients.consents(client_id=address)
    after = await tab.send(answer="allow")
    assert (after.status, after.page.refresh) == (400, "")
    assert words in after.page.text


async def test_documents_without_a_client_are_not_kept(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.usecases.federation.consents.MOST_CLIENTS", 1)
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    other = "https://other.client.example/client.json"
    clients.publish(other)
    await _not_placed(clients, "unregistered applications", other)
    assert [row["url"] for row in clients.people.rows("select url from metadata_documents")] == [CLIENT]


async def test_two_hundred_first_requests_share_one_look(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    answers = await all_at_once(*[lambda: _page(clients)] * 200)
    assert {answer.status for answer in answers} == {303}
    assert len(clients.receiver.calls) == 1
    assert (clients.nothing_is_kept(), clients.audited("service.created")) == (True, [])


async def test_one_client_in_two_organizations_is_two(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    ours, theirs = await clients.has_tokens(ORDERS), await clients.has_tokens(THEIRS)
    assert {row["org_id"] for row in clients.services()} == {clients.acme.id, clients.globex.id}
    for tokens, tenant in ((ours, clients.acme), (theirs, clients.globex)):
        assert claims_of(tokens["access_token"])["org_id"] == str(tenant.id)
    # A token of one organization is nothing at the other's API, and the refresh stays where it is.
    assert oauth(await clients.refresh(clients.client_of(), ours["refresh_token"], resource=THEIRS)) == (400, "invalid_target")
    code = await clients.code_of(ORDERS, prompt="consent")
    assert oauth(await clients.exchanged(code, resource=THEIRS)) == (400, "invalid_target")
    assert claims_of(clients.kept((await clients.exchanged(code)).ok())["access_token"])["org_id"] == str(clients.acme.id)
    assert await clients.introspect(clients.desk, theirs["access_token"]) == GONE
    # The end in one organization is none in the other.
    clients.people.change(
        "update all_services set deleted_at = now(), kept_client_id = null where org_id = %s and service_type = 'metadata'", clients.acme.id
    )
    assert oauth(await clients.refresh(clients.client_of(), ours["refresh_token"])) == (400, "invalid_grant")
    clients.kept((await clients.refresh(clients.client_of(), theirs["refresh_token"])).ok())


async def test_another_clients_code_is_no_ones(clients: PublishingClients) -> None:
    other = "https://other.client.example/client.json"
    clients.both_let_in()
    clients.publish()
    clients.publish(other)
    tokens = await clients.has_tokens()
    code = await clients.code_of(prompt="consent")
    assert oauth(await clients.exchanged(code, other)) == (400, "invalid_grant")
    assert oauth(await clients.refresh(clients.client_of(other), tokens["refresh_token"])) == (400, "invalid_grant")
    assert oauth(await clients.redeem(clients.shop, code, redirect_uri=BACK)) == (400, "invalid_grant")
    assert (await clients.ask(REVOKE, {"token": tokens["access_token"], "client_id": other})).status in {200, 401}
    assert (await clients.introspect(clients.desk, tokens["access_token"]))["active"]


async def test_nobody_names_its_service_otherwise(clients: PublishingClients) -> None:
    """The service's own ids are no client ids: nobody comes past the document, the rules and the API."""
    clients.both_let_in()
    clients.publish()
    code = await clients.code_of()
    (service,) = clients.services()
    for name in (service["client_id"], service["id"], service["kept_client_id"], f"{CLIENT}#{clients.acme.id}", service["slug"]):
        answer = await clients.browser().request("GET", clients.asks(client_id=str(name)))
        assert (answer.status, answer.header("location")) == (400, None)
        assert (await clients.exchanged(code, str(name))).status in {400, 401}
    # Nor does a page of another way in lead to it.
    answer = await clients.client.get(f"/auth/codehost?org=acme&service={service['slug']}&redirect_uri={BACK}")
    assert answer.status in {400, 404}
    clients.kept((await clients.exchanged(code)).ok())


_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "an address more": {"redirect_uris": [BACK, "https://evil.client.example/"]},
    "a method": {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [jwk(OLD, "old")]}},
    "an address of keys": {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS},
}


@pytest.mark.parametrize("change", _CHANGES)
async def test_a_changed_document_is_asked_about_anew(clients: PublishingClients, change: str) -> None:
    clients.both_let_in()
    clients.publish()
    tokens = await clients.has_tokens()
    tab = await clients.consents(prompt="consent")
    code = await clients.code_of(prompt="consent")
    clients.publish(**_CHANGES[change])
    clients.stale()
    # Between the page and the answer: the page comes again, and no code leaves.
    again = await tab.send(answer="allow")
    assert again.place.startswith("/ui/consent")
    # Between the code and the tokens, and behind them.
    assert oauth(await clients.exchanged(code)) in {(400, "invalid_grant"), (401, "invalid_client")}
    assert oauth(await clients.refresh(clients.client_of(), tokens["refresh_token"])) in {(400, "invalid_target"), (401, "invalid_client")}
    assert await clients.introspect(clients.desk, tokens["access_token"]) == GONE
    # What the person sees now, they can allow.
    assert "code" in left(await again.send(answer="allow"), BACK)
    (entry,) = clients.audited("service.updated")
    assert entry["details"]["service_name"] == "Notebook"


async def test_an_address_that_is_taken_back_gets_no_code(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.has_tokens()
    tab = await clients.consents(prompt="consent")
    clients.publish(redirect_uris=["https://app.client.example/new"])
    clients.stale()
    after = await tab.send(answer="allow")
    assert (after.status, after.page.refresh) == (400, "")
    await _refused(clients, "not registered")


async def test_a_new_name_asks_nobody(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    tokens = await clients.has_tokens()
    clients.publish(client_name="Notes")
    clients.stale()
    assert "code" in told(await _page(clients), BACK)
    assert clients.services()[0]["name"] == "Notes"
    clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())


async def _signed(clients: PublishingClients, key: Any, kid: str, **fields: str) -> Received:
    assertion = clients.assertion(clients.client_of(), key=key, header={"kid": kid}, aud=BASE_URL)
    return await clients.ask(fields={"client_assertion": assertion, "client_assertion_type": JWT_BEARER, **fields})


async def test_a_client_with_keys_signs(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_keys, "_AT_MOST_EVERY", 0.0)
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks_uri=KEYS)
    clients.answers(published(jwk(OLD, "old")), KEYS)
    federation, source = clients.postern.federation, clients.postern.federation.client_documents.source
    outbound = source._outbound  # type: ignore[attr-defined]
    monkeypatch.setattr(federation.clients.key_sets, "_outbound", outbound)
    code = await clients.code_of()
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
    }
    assert oauth(await clients.exchanged(code)) == (401, "invalid_client")
    assert oauth(await _signed(clients, NEW, "old", **fields)) == (401, "invalid_client")
    tokens = clients.kept((await _signed(clients, OLD, "old", **fields)).ok())
    assert claims_of(tokens["access_token"])["client_id"] == CLIENT
    # Keys that rotate behind their address ask nobody.
    clients.answers(published(jwk(NEW, "new")), KEYS)
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    refreshed = clients.kept((await _signed(clients, NEW, "new", **refresh)).ok())
    assert "code" in told(await _page(clients), BACK)
    # It may ask about its own token, and give it back.
    shown = await _signed_to(clients, "/oauth/introspect", token=refreshed["access_token"])
    assert shown.ok()["client_id"] == CLIENT
    assert (await _signed_to(clients, "/oauth/introspect", token=refreshed["refresh_token"])).ok()["client_id"] == CLIENT
    assert (await _signed_to(clients, REVOKE, token=refreshed["refresh_token"])).status == 200
    assert await clients.introspect(clients.desk, refreshed["access_token"]) == GONE
    # Without a token, nobody knows which organization's client it is.
    assert oauth(await _signed(clients, NEW, "new", grant_type="client_credentials", resource=ORDERS)) == (400, "unauthorized_client")


async def _signed_to(clients: PublishingClients, path: str, key: Any = NEW, kid: str = "new", **fields: str) -> Received:
    assertion = clients.assertion(clients.client_of(), key=key, header={"kid": kid}, aud=BASE_URL)
    return await clients.ask(path, {"client_assertion": assertion, "client_assertion_type": JWT_BEARER, **fields})


async def test_a_key_that_is_taken_out_of_the_document_signs_no_more(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(OLD, "old")]})
    code = await clients.code_of()
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
    }
    tokens = clients.kept((await _signed(clients, OLD, "old", **fields)).ok())
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    clients.answers(answering(503))
    clients.stale()
    # While the document is away, what is known counts.
    refresh["refresh_token"] = clients.kept((await _signed(clients, OLD, "old", **refresh)).ok())["refresh_token"]
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(NEW, "new")]})
    assert oauth(await _signed(clients, OLD, "old", **refresh)) == (401, "invalid_client")
    # The new key signs, and the person is asked about it first.
    assert oauth(await _signed(clients, NEW, "new", **refresh)) == (400, "invalid_target")


async def test_pkce_is_a_must(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(OLD, "old")]})
    answer = await _page(clients, code_challenge="", code_challenge_method="")
    assert told(answer, BACK)["error"] == "invalid_request"


async def test_a_request_may_be_pushed(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    asked = {"client_id": CLIENT, "redirect_uri": BACK, "response_type": "code", "scope": "openid orders:read", "resource": ORDERS}
    asked |= {"code_challenge": "iMnq5o6zALKXGivsnlom_0F5_WYda32GHkxlV7mq7hQ", "code_challenge_method": "S256"}
    pushed = (await clients.ask("/oauth/par", asked)).json()
    tab = await clients.browser().tab().open(f"/oauth/authorize?client_id={CLIENT}&request_uri={pushed['request_uri']}")
    assert tab.place.startswith("/ui/consent")
    assert (clients.nothing_is_kept(), len(clients.receiver.calls)) == (True, 1)
    # It works for any number of visits, and for one code.
    other = await clients.browser().tab().open(f"/oauth/authorize?client_id={CLIENT}&request_uri={pushed['request_uri']}")
    assert other.place.startswith("/ui/consent")
    assert "code" in left(await tab.send(answer="allow"), BACK)
    (service,) = clients.services()
    assert service["name"] == "Notebook"
    again = await clients.browser().request("GET", f"/oauth/authorize?client_id={CLIENT}&request_uri={pushed['request_uri']}")
    assert again.status == 400
    late = await other.send(answer="allow")
    assert (late.status, late.page.refresh) == (400, "")
    assert "was already used" in late.page.text
    # Nobody else's request works for it.
    of_shop = await clients.browser().request("GET", f"/oauth/authorize?client_id={CLIENT}/other&request_uri={pushed['request_uri']}")
    assert of_shop.status == 400
    assert oauth(await clients.ask("/oauth/par", {**asked, "resource": ""})) == (400, "invalid_target")
    clients.people.change("update all_organizations set metadata_clients = 'off'")
    assert oauth(await clients.ask("/oauth/par", asked)) == (400, "unauthorized_client")


async def test_it_gets_tokens_for_people_alone(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.has_tokens()
    posted = {"client_id": CLIENT}
    assert oauth(await clients.ask(fields={**posted, "grant_type": "client_credentials"})) == (400, "unauthorized_client")
    assert oauth(await clients.ask(fields={**posted, "grant_type": "refresh_token"})) == (400, "invalid_request")
    assert oauth(await clients.ask("/auth/device/code", {**posted, "resource": ORDERS})) == (400, "unauthorized_client")
    assert oauth(await clients.refresh(clients.client_of(), "A" * 43)) == (400, "invalid_grant")


async def test_the_rules_count_at_each_look(clients: PublishingClients) -> None:
    for table in ("all_organizations", "resource_servers"):
        clients.both_let_in() if not clients.people.rows("select from resource_servers") else clients.let_in()
        clients.publish()
        tokens = await clients.has_tokens(prompt="consent")
        clients.people.change(f"update {table} set metadata_clients = 'named', metadata_hosts = '{{other.example}}'")
        assert await clients.introspect(clients.desk, tokens["access_token"]) == GONE
        assert oauth(await clients.refresh(clients.client_of(), tokens["refresh_token"])) == (400, "invalid_target")
        clients.let_in()
        clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())


def _unused(clients: PublishingClients) -> None:
    """Nobody has described the clients for two hours."""
    clients.people.change("update all_services set updated_at = now() - interval '2 hours' where service_type = 'metadata'")


async def test_unused_clients_give_way(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CLIENTS == 500
    monkeypatch.setattr("core.usecases.federation.consents.MOST_CLIENTS", 2)
    clients.both_let_in()
    addresses = [f"https://app{number}.client.example/client/{number}" for number in range(4)]
    for address in addresses:
        clients.publish(address, redirect_uris=[BACK])
    await clients.code_of(client_id=addresses[0])
    await clients.code_of(client_id=addresses[1])
    await _not_placed(clients, "unregistered applications", addresses[2])
    _unused(clients)
    # The person has taken one of them back, and its code is over.
    user, (_, second) = UserId(clients.ada.user), clients.services()
    await clients.postern.federation.consents.revoke(user, ServiceId(second["id"]), Actor(user))
    code = await clients.code_of(client_id=addresses[0], prompt="consent")
    await clients.code_of(client_id=addresses[2])
    assert [row["kept_client_id"].split("#")[0] for row in clients.services()] == [addresses[0], addresses[2]]
    clients.kept((await clients.exchanged(code, addresses[0])).ok())
    assert len(clients.audited("service.deleted")) == 1


@pytest.mark.parametrize("change", [{"sign_in_policy": "members"}, {"is_agent": False}, {"metadata": {"seen": True}}])
async def test_clients_that_an_owner_decided_about_stay(
    clients: PublishingClients, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.setattr("core.usecases.federation.consents.MOST_CLIENTS", 1)
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    (service,) = clients.services()
    user = UserId(clients.ada.user)
    await clients.postern.federation.consents.revoke(user, ServiceId(service["id"]), Actor(user))
    owner = clients.resident(clients.acme, "owner")
    assert (await clients.request("PATCH", f"/api/organizations/acme/services/{service['slug']}", change, by=owner)).status == 200
    _unused(clients)
    other = "https://other.client.example/client.json"
    clients.publish(other)
    await _not_placed(clients, "unregistered applications", other)
    assert [row["id"] for row in clients.services()] == [service["id"]]


async def test_those_who_look_after_the_api_read_why(clients: PublishingClients) -> None:
    clients.api()
    clients.publish()
    owner = clients.resident(clients.acme, "owner")
    path = f"{await clients.only_api(owner)}/refusals"
    await _refused(clients, "does not allow this host")
    clients.let_in()
    clients.publish(client_id=f"{CLIENT}/")
    await _refused(clients, "does not match the URL of the document")
    # It has no place before a person has allowed it.
    clients.publish()
    await _refused(clients, "not registered", redirect_uri="https://evil.example/")
    told(await _page(clients, code_challenge="short"), BACK)
    # What goes wrong later stands among the application's own refusals.
    await clients.code_of()
    await _refused(clients, "not registered", redirect_uri="https://evil.example/")
    told(await _page(clients, code_challenge="short"), BACK)
    (service,) = clients.services()
    code = await clients.code_of(prompt="consent")
    await clients.redeem(clients.client_of(), code, redirect_uri=BACK, code_verifier="a" * 43)
    of_service = f"/api/organizations/acme/services/{service['slug']}/refusals"
    recorder = clients.postern.federation.refusal_recorder
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while len(own := (await clients.request("GET", of_service, by=owner)).ok()["refusals"]) < 3:
                await trio.sleep(0.05)
            while len(listed := (await clients.request("GET", path, by=owner)).ok()["refusals"]) < 4:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    reasons = ["pkce_malformed", "redirect_unregistered", "document_lies", "document_not_let_in"]
    assert [(one["address"], one["reason"]) for one in listed] == [(CLIENT, reason) for reason in reasons]
    assert "SHA-256 hash of the verifier" in listed[0]["advice"]
    assert "https://evil.example/" in listed[1]["because"]
    assert "byte for byte" in listed[2]["because"]
    assert "allow it" in listed[3]["advice"]
    assert [one["reason"] for one in own] == ["verifier_differs", "pkce_malformed", "redirect_unregistered"]
    # Others see nothing of it.
    theirs = clients.resident(clients.globex, "owner")
    assert (await clients.request("GET", path.replace("acme", "globex"), by=theirs)).status == 404


async def test_keys_alone_say_that_it_signs(clients: PublishingClients) -> None:
    """RFC 7591 has a method with a secret where a client names none, and a document can have none."""
    clients.both_let_in()
    clients.publish(token_endpoint_auth_method=None, jwks={"keys": [jwk(OLD, "old")]})
    code = await clients.code_of()
    assert oauth(await clients.exchanged(code)) == (401, "invalid_client")
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "code_verifier": VERIFIER}
    tokens = clients.kept((await _signed(clients, OLD, "old", **fields)).ok())
    # Another application's token says nothing about this client's place.
    clients.publish(token_endpoint_auth_method=None)
    clients.stale()
    other = await clients.tokens(ORDERS)
    assert oauth(await _signed_to(clients, "/oauth/introspect", OLD, "old", token=other["access_token"])) == (401, "invalid_client")
    # The document has no keys any more, and what they signed for has ended.
    assert oauth(await clients.refresh(clients.client_of(), tokens["refresh_token"])) == (400, "invalid_grant")


_SHUTS_OUT: Final = {
    "the organization": "update all_organizations set metadata_clients = 'off'",
    "the API": "update resource_servers set metadata_clients = 'off'",
    "no API": "update resource_servers set approved_at = null",
    "the document": "update resource_consents set document_digest = '\\x01'",
}


@pytest.mark.parametrize("by", _SHUTS_OUT)
async def test_a_refresh_token_that_gives_nothing_is_told_as_inactive(clients: PublishingClients, by: str) -> None:
    clients.both_let_in()
    clients.publish()
    tokens = await clients.has_tokens()
    assert (await clients.introspect(clients.desk, tokens["refresh_token"]))["active"]
    clients.people.change(_SHUTS_OUT[by])
    assert await clients.introspect(clients.desk, tokens["refresh_token"]) == GONE
    assert oauth(await clients.refresh(clients.client_of(), tokens["refresh_token"])) == (400, "invalid_target")


async def test_a_refresh_token_is_active_while_one_api_is_open(clients: PublishingClients) -> None:
    clients.api()
    clients.api(BILLS)
    plain = await clients.signed_in(clients.shop)
    code = await clients.allowed(ORDERS, BILLS)
    both = clients.kept((await clients.redeem(clients.shop, code, resource=ORDERS)).ok())
    clients.people.change("update resource_servers set approved_at = null where identifier = %s", BILLS)
    assert (await clients.introspect(clients.desk, both["refresh_token"]))["active"]
    clients.people.change("update resource_servers set approved_at = null")
    assert await clients.introspect(clients.desk, both["refresh_token"]) == GONE
    # A session without APIs has none to lose.
    assert (await clients.introspect(clients.desk, plain["refresh_token"]))["active"]

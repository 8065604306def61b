"""Attacks by open registration: a client id that anybody can have made, and that must open nothing by itself."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from math import inf
from pathlib import Path
from time import process_time
from typing import Any, Final

import pytest

from adapters.postgres.federation import clients as registration_keys
from core.domain.federation.open_registrations import KEPT_FOR, REGISTRATIONS, OpenRegistration
from core.domain.record.events import SYSTEM
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.federation.arriving import left
from tests.http.federation.documents.publishing import CLIENT, ON_DEVICE, THEIRS, PublishingClients, publishing
from tests.http.federation.relying import JWT_BEARER
from tests.http.federation.resources.asking import ORDERS
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people

HERE: Final = "http://127.0.0.1:50123/callback"
WEB: Final = "https://vscode.dev/redirect"
# What one of them may cost the server, with decoding and answer.
_MOST_SECONDS: Final = 0.0005


@pytest.fixture
async def clients(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    async with publishing(postern, people, log, tmp_path) as scene:
        scene.both_let_in()
        scene.let_registered_in()
        scene.let_registered_in(scene.globex)
        yield scene


def _kept(clients: PublishingClients) -> dict[str, int]:
    """The rows of all tables but the counts of requests."""
    names = clients.people.rows("select relid::regclass::text as name from pg_stat_user_tables where relname <> 'rate_limit_buckets'")
    return {row["name"]: len(clients.people.rows(f"select from {row['name']}")) for row in names}


async def _is_turned_away(clients: PublishingClients, client: str, *resources: str, back: str = HERE) -> str:
    """The request ends at a page, and sends nobody anywhere."""
    answer = await Tabs(clients.client).request("GET", clients.asks(*resources, client_id=client, redirect_uri=back))
    assert (answer.status, answer.header("location")) == (400, None), (client, answer.status)
    return answer.body.decode()


async def _tokens(clients: PublishingClients, client: str, resource: str = ORDERS, back: str = HERE) -> dict[str, Any]:
    code = await clients.code_of(resource, client_id=client, back=back)
    return clients.kept((await clients.exchanged(code, client, back)).ok())


def _later(clients: PublishingClients, time: timedelta) -> None:
    clients.people.change("update server_secrets set created_at = created_at - %s where starts_with(purpose, 'open_registrations')", time)


def _signed(client: str) -> bytes:
    text = client.removeprefix("open:")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _client(signed: bytes) -> str:
    return "open:" + urlsafe_b64encode(signed).rstrip(b"=").decode()


def _forged(client: str) -> dict[str, str]:
    signed = _signed(client)
    mac, said = signed[:16], signed[16:]
    other = json.dumps(["Claude", ["https://evil.example/"]], separators=(",", ":")).encode()
    last = client[-1]
    twin = client[:-1] + chr(ord(last) + 1)
    assert _signed(twin) == signed or len(signed) % 3 == 0
    return {
        "no signature": _client(said),
        "another's words": _client(mac + other),
        "one letter altered": _client(mac + said.replace(b"Notebook", b"Notebooc")),
        "grown by an address": _client(mac + said[:-2] + b',"https://evil.example/"]]'),
        "grown by a space": _client(signed + b" "),
        "cut": _client(signed[:-1]),
        "the signature of nothing": _client(bytes(16)),
        "a signature of zeros": _client(bytes(16) + said),
        "another text of the same bytes": twin if len(signed) % 3 else client + "=",
        "padded": client + "=",
        "in the other alphabet": client.replace("_", "/").replace("-", "+") + "+",
        "with the organization behind it": f"{client}#0199d3a0-0000-7000-8000-000000000001",
        "with a space before it": f" {client}",
        "another prefix": client.replace("open:", "OPEN:"),
        "of two kibibytes": client + "A" * 2048,
        "empty": "open:",
    }


async def test_an_id_that_we_have_not_signed_opens_nothing(clients: PublishingClients) -> None:
    good = await clients.open_client(redirect_uris=[HERE])
    before = _kept(clients)
    for what, client in _forged(good).items():
        assert "Notebook" not in await _is_turned_away(clients, client), what
        pushed = await clients.ask("/oauth/par", {"client_id": client, "redirect_uri": HERE, "response_type": "code", "resource": ORDERS})
        assert pushed.status in {400, 401}, what
    assert _kept(clients) == before
    assert clients.receiver.calls == []
    await clients.consents(client_id=good, redirect_uri=HERE)


async def test_ten_thousand_registrations_of_nobody_leave_nothing(clients: PublishingClients) -> None:
    """A thousand of them by the endpoint, and the others by what it calls."""
    await clients.registers()
    before, made = _kept(clients), set()
    quickest = inf
    for hundred in range(0, 1_000, 100):
        started = process_time()
        for number in range(hundred, hundred + 100):
            made.add((await clients.registers(client_name=f"Notebook {number}")).ok(201)["client_id"])
        quickest = min(quickest, (process_time() - started) / 100)
    registrations = clients.postern.federation.open_registrations
    for number in range(1_000, 10_000):
        made.add((await registrations.register(OpenRegistration(name=f"Notebook {number}", redirect_uris=[HERE]))).client)
    assert (len(made), _kept(clients)) == (10_000, before)
    assert clients.receiver.calls == []
    # Test client and server together, on a machine that does other things as well.
    assert quickest < 2 * _MOST_SECONDS, quickest


async def test_one_address_registers_sixty_and_then_one_a_second(clients: PublishingClients) -> None:
    limited = unlimited(clients.postern, http.SETTINGS)
    body = {"redirect_uris": [ON_DEVICE]}
    statuses = [(await limited.post("/oauth/register", body)).status for _ in range(REGISTRATIONS.burst + 5)]
    assert statuses.count(201) in {REGISTRATIONS.burst, REGISTRATIONS.burst + 1}
    assert statuses[-1] == 429
    assert clients.people.rows("select from rate_limit_buckets") == []


async def test_a_key_reads_for_a_year_what_it_has_signed(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_keys, "_RENEW_AFTER", -1.0)
    registrations = clients.postern.federation.open_registrations
    first = await clients.open_client(redirect_uris=[HERE])
    assert await registrations.rotate(SYSTEM) is not None
    # The new key signs when all processes know it.
    assert await clients.open_client(redirect_uris=[HERE]) == first
    _later(clients, timedelta(minutes=2))
    second = await clients.open_client(redirect_uris=[HERE])
    assert second != first
    for client in (first, second):
        await clients.consents(client_id=client, redirect_uri=HERE)
    tokens = await _tokens(clients, first, ORDERS, HERE)
    _later(clients, KEPT_FOR)
    await _is_turned_away(clients, first)
    refused = await clients.refresh(clients.client_of(first), tokens["refresh_token"])
    assert (refused.status, refused.json()["error"]) in {(400, "unauthorized_client"), (400, "invalid_grant")}
    # The next rotation takes it away for good.
    await registrations.rotate(SYSTEM)
    assert len(await registrations.keys.find()) == 2
    events = clients.people.rows("select details from audit_log where action = 'platform.registration_keys.rotated'")
    assert len(events) == 2
    assert "secret" not in json.dumps([row["details"] for row in events])


@pytest.mark.parametrize(
    ("organization", "api"), [("off", "on"), ("on", "off"), ("off", "off")], ids=["the organization", "the API", "neither"]
)
async def test_both_must_have_said_yes(clients: PublishingClients, organization: str, api: str) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    clients.people.change("update all_organizations set registered_clients = %s, metadata_clients = 'any'", organization)
    clients.people.change("update resource_servers set registered_clients = %s, metadata_clients = 'any', admits = 'all'", api)
    assert "This client is not registered here. The API or its organization does not allow such clients" in await _is_turned_away(
        clients, client
    )
    assert not clients.services()


async def test_yes_to_documents_is_no_yes_to_them_and_the_other_way_round(clients: PublishingClients) -> None:
    clients.publish()
    clients.people.change("update all_organizations set metadata_clients = 'off'")
    clients.people.change("update resource_servers set metadata_clients = 'off'")
    assert "does not allow this host" in await _is_turned_away(clients, CLIENT, back="https://app.client.example/back")
    await clients.consents(client_id=await clients.open_client(redirect_uris=[HERE]), redirect_uri=HERE)


async def test_no_later_is_no_at_the_next_request(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    tokens = await _tokens(clients, client, ORDERS, HERE)
    code = await clients.code_of(ORDERS, client_id=client, back=HERE)
    clients.people.change("update all_organizations set registered_clients = 'off' where id = %s", clients.acme.id)
    assert (await clients.introspect(clients.desk, tokens["access_token"]))["active"] is False
    assert (await clients.refresh(clients.client_of(client), tokens["refresh_token"])).status == 400
    assert (await clients.exchanged(code, client, HERE)).status == 400
    await _is_turned_away(clients, client)


async def test_the_operator_who_turns_it_off_ends_it(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    tokens = await _tokens(clients, client, ORDERS, HERE)
    federation = clients.postern.federation
    closed = replace(federation.open_registrations, is_open=False)
    documents = replace(federation.client_documents, registrations=closed)
    asked = replace(federation.authorizations.asked, documents=documents)
    after = replace(
        clients.postern,
        federation=replace(
            federation,
            open_registrations=closed,
            client_documents=documents,
            authorizations=replace(federation.authorizations, documents=documents, asked=asked),
        ),
    )
    client_after = unlimited(after)
    refused = await client_after.post("/oauth/register", {"redirect_uris": [HERE]})
    assert (refused.status, "registration_endpoint" in (await client_after.get("/.well-known/openid-configuration")).ok()) == (404, False)
    assert (await Tabs(client_after).request("GET", clients.asks(client_id=client, redirect_uri=HERE))).status == 400
    fields = f"grant_type=refresh_token&refresh_token={tokens['refresh_token']}&client_id={client}".encode()
    form = [("content-type", "application/x-www-form-urlencoded")]
    refreshed = await client_after.request("POST", "/auth/token", body=fields, headers=form)
    assert (refreshed.status, refreshed.json()["error"]) == (400, "unauthorized_client")


async def test_a_program_that_calls_itself_claude_is_one_that_nobody_has_registered(clients: PublishingClients) -> None:
    client = await clients.open_client(client_name="Claude", redirect_uris=[HERE])
    page = (await clients.consents(client_id=client, redirect_uri=HERE)).page.text
    assert page.index("unregistered app on this device") < page.index("Claude")
    assert "Anyone can choose this name" in page
    clients.let_registered_in(None, "vscode.dev")
    client = await clients.open_client(client_name="Claude", redirect_uris=[WEB])
    page = (await clients.consents(client_id=client, redirect_uri=WEB)).page.text
    assert page.index("unregistered app") < page.index("Claude")
    assert "on this device" not in page


_NAMES: Final = [
    "<b>Claude</b>",
    "Claude https://evil.example",
    "[Claude](x)",
    "",
    " ",
    "C" * 101,
    "Cl\u0336" + "\u0336" * 20,
    "Cla\nude",
    "\u202eedualC",
    "a@b.example",
    "Claude (help@evil.example)",
    "a\uff20b.example",
    "\uff25vil.example",
    "\uff23laude",
    "\U0001d402laude",
    "\u24b8laude",
    "Claude \uff14",
    "Claude \ue000",
    "\uf8ff",
    "\U000f0000laude",
    "https:evil",
    "\u2044\u2044evil",
    "Claude https\uff1a\uff0f\uff0fevil",
    "\uff57\uff57\uff57.evil",
    "www\u3002evil",
]


async def test_a_name_is_one_line_of_text(clients: PublishingClients) -> None:
    for name in _NAMES:
        refused = await clients.registers(client_name=name)
        assert (refused.status, refused.json()["error"]) == (400, "invalid_client_metadata"), name
        assert "client_name" in refused.json()["error_description"]


async def test_ordinary_names_stay(clients: PublishingClients) -> None:
    ordinary = ["Node.js", "evil.example", "@acme/tool", 'O\'Reilly\u2019s "Tool"', "C++ & C# (A/B): 24/7", "App\u00b2\u2122 \u2116 5"]
    # Japanese with its own brackets, Thai with a vowel that is made of two, Arabic, and an emoji.
    ordinary += [
        "\u52a9\u624b\uff08\u793e\u5185\uff09\uff1aA",
        "\u0e17\u0e33\u0e44\u0e14\u0e49",
        "\u0645\u0633\u0627\u0639\u062f",
        "Notes \U0001f4d3",
    ]
    for name in ordinary:
        assert (await clients.registers(client_name=name)).ok(201)["client_name"] == name


_ADDRESSES: Final = [
    "com.example.app:/callback",
    "cursor://anysphere.cursor/callback",
    "javascript:alert(1)",
    "data:text/html,x",
    "http://evil.example/",
    "http://127.0.0.1.evil.example/",
    "http://localhost.evil.example/",
    "http://127.0.0.1@evil.example/",
    "http://127.0.0.1:80@evil.example/",
    "http://evil.example#@127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f.0.0.1/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://LOCALHOST/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:+80/",
    "http://127.0.0.1\\evil.example/",
    "HTTP://127.0.0.1/",
    "//127.0.0.1/",
    "https://localhost/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://VSCODE.dev/redirect",
    "https://vscode.dev:443/redirect",
    "https://vscode.dev./redirect",
    "https://vscode.dev@evil.example/",
    "https://evil.example\\@vscode.dev/",
    "https://*.vscode.dev/",
    "https://vscode.dev/a/../b",
    "https://vscode.dev/#fragment",
    "https://com/",
    "",
]


async def test_an_address_leads_to_the_device_or_to_a_host(clients: PublishingClients) -> None:
    for uri in _ADDRESSES:
        refused = await clients.registers(redirect_uris=[ON_DEVICE, uri])
        assert (refused.status, refused.json()["error"]) == (400, "invalid_redirect_uri"), (uri, refused.body)
        assert refused.json()["error_description"].startswith("redirect_uris[1]: ")


_NAMED: Final[list[tuple[list[str], list[str]]]] = [
    ([], ["vscode.dev"]),
    (["vscode.dev"], []),
    (["dev"], ["vscode.dev"]),
    (["vscode.dev:8443"], ["vscode.dev"]),
]


async def test_a_host_counts_where_both_have_named_it(clients: PublishingClients) -> None:
    """Also the one of several that the request does not use: the client may use it at the next."""
    client = await clients.open_client(redirect_uris=[HERE, WEB])
    for organization, api in _NAMED:
        for table, hosts in (("all_organizations", organization), ("resource_servers", api)):
            clients.people.change(f"update {table} set metadata_hosts = %s, metadata_clients = 'any'", hosts)
        for back in (HERE, WEB):
            assert "redirects to vscode.dev" in await _is_turned_away(clients, client, back=back)
    clients.let_registered_in(None, "vscode.dev")
    tokens = await _tokens(clients, client, ORDERS, WEB)
    clients.people.change("update resource_servers set metadata_hosts = '{}'")
    assert (await clients.introspect(clients.desk, tokens["access_token"]))["active"] is False


_ELSEWHERE: Final = (
    "http://127.0.0.1:1/other",
    "http://localhost:1/callback",
    "http://[::1]:1/callback",
    "https://127.0.0.1/callback",
    WEB,
)


async def test_an_answer_goes_where_the_id_says(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    for back in _ELSEWHERE:
        await _is_turned_away(clients, client, back=back)


async def test_the_bytes_of_an_id_are_no_client_of_another_kind(clients: PublishingClients) -> None:
    """It has no secret, no tokens of its own, no device code and no other organization."""
    client = await clients.open_client(redirect_uris=[HERE])
    tokens = await _tokens(clients, client, ORDERS, HERE)
    form: dict[str, dict[str, str]] = {
        "/auth/token": {"grant_type": "client_credentials", "resource": ORDERS},
        "/auth/device/code": {"scope": "openid"},
        "/oauth/introspect": {"token": tokens["access_token"]},
    }
    for path, fields in form.items():
        assert (await clients.ask(path, {**fields, "client_id": client})).status in {400, 401}, path
    secret = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": client}
    assert (await clients.ask(fields={**secret, "client_secret": "cs_abcdef_guessed"})).status == 401
    assertion = {"client_assertion": "x.y.z", "client_assertion_type": JWT_BEARER}
    assert (await clients.ask(fields={**secret, **assertion})).status == 401
    code = await clients.code_of(ORDERS, client_id=client, back=HERE)
    elsewhere = await clients.exchanged(code, client, HERE, resource=THEIRS)
    assert (elsewhere.status, elsewhere.json()["error"]) == (400, "invalid_target")
    code = await clients.code_of(ORDERS, client_id=client, back=HERE)
    other = await clients.open_client(client_name="Other", redirect_uris=[HERE])
    stolen = await clients.exchanged(code, other, HERE)
    assert (stolen.status, stolen.json()["error"]) == (400, "invalid_grant")


async def test_a_service_of_one_organization_is_none_of_another(clients: PublishingClients) -> None:
    client = await clients.open_client(redirect_uris=[HERE])
    ours = await _tokens(clients, client, ORDERS, HERE)
    clients.people.change("update all_organizations set registered_clients = 'off' where id = %s", clients.globex.id)
    await _is_turned_away(clients, client, THEIRS)
    assert [row["org_id"] for row in clients.services()] == [clients.acme.id]
    assert (await clients.introspect(clients.desk, ours["access_token"]))["active"] is True
    clients.people.change("update all_organizations set registered_clients = 'on' where id = %s", clients.globex.id)
    await _tokens(clients, client, THEIRS, HERE)
    assert len(clients.services()) == 2


_METADATA: Final[list[tuple[dict[str, Any], str]]] = [
    ({"token_endpoint_auth_method": "client_secret_post"}, "token_endpoint_auth_method"),
    ({"token_endpoint_auth_method": "client_secret_basic"}, "token_endpoint_auth_method"),
    ({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": []}}, "token_endpoint_auth_method"),
    ({"grant_types": ["client_credentials"]}, "grant_types"),
    ({"response_types": ["token"]}, "response_types"),
    ({"redirect_uris": None}, "redirect_uris"),
    ({"redirect_uris": [f"http://127.0.0.1/{number}" for number in range(30)]}, "redirect_uris: a list of 1 to 10"),
    ({"redirect_uris": [f"http://127.0.0.1/{'x' * 200}{number}" for number in range(10)]}, "at most 1 KiB"),
]


async def test_a_refused_registration_says_why(clients: PublishingClients) -> None:
    for members, words in _METADATA:
        refused = await clients.registers(**members)
        assert (refused.status, refused.json()["error"]) in {(400, "invalid_client_metadata"), (400, "invalid_redirect_uri")}, members
        assert words in refused.json()["error_description"]


async def test_the_page_of_consent_may_be_late(clients: PublishingClients) -> None:
    """The rules are read again when the person allows it, and nothing is made when they have changed."""
    client = await clients.open_client(redirect_uris=[HERE])
    tab = await clients.consents(client_id=client, redirect_uri=HERE)
    clients.people.change("update resource_servers set registered_clients = 'off'")
    await tab.send(answer="allow")
    assert "does not allow such clients" in tab.page.text
    assert not clients.services()
    clients.people.change("update resource_servers set registered_clients = 'on'")
    assert "code" in left(await (await clients.consents(client_id=client, redirect_uri=HERE)).send(answer="allow"), HERE)


async def test_a_name_of_its_own_choice_stands_on_no_page_before_the_consent(clients: PublishingClients) -> None:
    """A link leads to the organization's sign-in. There, nothing says yet that the name is the program's own."""
    name = "Acme: your account is locked, call 555 0100"
    client = await clients.open_client(client_name=name, redirect_uris=[HERE])
    asked = clients.asks(client_id=client, redirect_uri=HERE)

    async def stands_nowhere() -> None:
        for tabs, more in ((Tabs(clients.client), ""), (clients.browser(), "&prompt=select_account")):
            tab = await tabs.tab().open(f"{asked}{more}")
            assert not tab.place.startswith("/ui/consent"), tab.place
            assert name not in tab.page.text, tab.place

    await stands_nowhere()
    refused = await Tabs(clients.client).request("GET", f"{asked}&prompt=none&response_mode=form_post")
    assert (refused.status, name in refused.body.decode(), "login_required" in refused.body.decode()) == (200, False, True)
    denied = await (await clients.consents(client_id=client, redirect_uri=HERE)).send(answer="deny")
    assert left(denied, HERE)["error"] == "access_denied"
    assert ("Unregistered app" in denied.page.text, name in denied.page.text) == (True, False)
    # With a place in the organization it is no other program.
    await clients.code_of(client_id=client, back=HERE)
    await stands_nowhere()
    clients.people.change("update all_services set sign_in_policy = 'assigned' where service_type = 'metadata'")
    turned_away = await clients.browser().tab().open(asked)
    assert "Unregistered app" in turned_away.page.text
    assert name not in turned_away.page.text

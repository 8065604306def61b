"""Attacks on the way from a request of nobody to a client that an organization has: who fills places, who keeps others out, and what a
consent makes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from adapters.outbound.client_documents import FOR_KNOWN, MOST_OF_ONE, MOST_UNDER_WAY, SharedWork
from core.domain.errors import Overloaded
from core.domain.federation.oauth.consents import PLACES_OF_PERSON
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import left
from tests.http.federation.documents.publishing import BACK, CLIENT, HOST, JSON, THEIRS, PublishingClients, publishing
from tests.http.federation.relying import JWT_BEARER, VERIFIER, oauth
from tests.http.federation.resources.asking import ORDERS
from tests.http.federation.test_published_keys import jwk
from tests.http.people import BASE_URL, People
from tests.patience import PATIENCE
from tests.receiver import answering, trickling

database_url, postern, people = http.database_url, http.postern, http.people
OLD: Final = generate_private_key(SECP256R1())
CHALLENGE: Final = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.fixture
async def clients(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    async with publishing(postern, people, log, tmp_path) as scene:
        scene.both_let_in()
        scene.publish()
        yield scene


async def _told_of_services(clients: PublishingClients) -> None:
    """A webhook of acme's that hears of new services."""
    owner = clients.resident(clients.acme, "owner")
    hook = {"name": "CRM", "url": "https://crm.acme.example/", "events": ["service.created", "service.updated", "service.deleted"]}
    made = await clients.request("POST", "/api/organizations/acme/webhooks", hook, by=owner)
    clients.log.remember(made.ok(200)["secret"])


def _made(clients: PublishingClients) -> tuple[int, ...]:
    """Services, events, audit entries and deliveries."""
    counted = ("events where starts_with(name, 'service.')", "audit_log where starts_with(action, 'service.')", "webhook_deliveries")
    return (len(clients.services()), *(len(clients.people.rows(f"select from {one}")) for one in counted))


async def test_five_hundred_requests_of_nobody_make_nothing(clients: PublishingClients) -> None:
    """A hundred hosts with five documents each, at an API that lets all of them in. Half of them are pushed."""
    await _told_of_services(clients)
    addresses = [f"https://host{host}.client.example/client/{host}/{one}" for host in range(100) for one in range(5)]
    pushed: dict[str, str] = {"redirect_uri": BACK, "response_type": "code", "scope": "openid", "resource": ORDERS}
    pushed |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    statuses: list[int] = []

    async def come(addresses: list[str]) -> None:
        for place, address in enumerate(addresses):
            clients.publish(address, client_name=f"Your bank {place}")
            if place % 2:
                statuses.append((await clients.ask("/oauth/par", {**pushed, "client_id": address})).status)
            else:
                statuses.append((await Tabs(clients.client).request("GET", clients.asks(client_id=address))).status)

    await all_at_once(*[partial(come, addresses[start::4]) for start in range(4)])
    assert set(statuses) == {303, 201}
    assert _made(clients) == (0, 0, 0, 0)
    assert clients.people.rows("select from metadata_documents") == []
    # The next good client is let in.
    assert "code" in left(await (await clients.consents()).send(answer="allow"), BACK)
    assert _made(clients) == (1, 1, 1, 1)
    (entry,) = clients.audited("service.created")
    assert (entry["actor_id"], entry["details"]["service_type"]) == (clients.ada.user, "metadata")


async def test_a_hundred_silent_hosts_keep_no_known_client_out(clients: PublishingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.outbound.client_documents.PATIENCE", timedelta(seconds=3))
    ours, theirs = await clients.has_tokens(ORDERS), await clients.has_tokens(THEIRS)
    newcomer = "https://new.client.example/client.json"
    clients.publish(newcomer)
    silent = [f"https://host{number}.client.example/client/{number}" for number in range(100)]
    for address in silent:
        clients.answers(trickling, address)
    clients.stale()
    before = len(clients.receiver.calls)

    async def ask(address: str) -> None:
        assert (await clients.browser().request("GET", clients.asks(client_id=address))).status in {400, 503}

    async with trio.open_nursery() as nursery:
        for address in silent:
            nursery.start_soon(ask, address)
        with trio.fail_after(PATIENCE):
            while len(clients.receiver.calls) < before + MOST_OF_ONE:
                await trio.sleep(0.01)
        # Acme's places are taken, so its own client goes on with what is known lately.
        for tokens in (ours, theirs):
            clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())
        assert (await clients.browser().request("GET", clients.asks())).status == 303
        # Globex has places of its own, also for clients that it has never seen.
        assert (await clients.browser().request("GET", clients.asks(THEIRS, client_id=newcomer))).status == 303
        assert len(clients.receiver.calls) <= before + MOST_OF_ONE + 2
        nursery.cancel_scope.cancel()


async def test_the_places_are_shared_out() -> None:
    """No organization has more than eight, and newcomers of all organizations leave sixteen."""
    work, release = SharedWork(), trio.Event()
    begun: list[str] = []

    async def hang(key: str) -> None:
        begun.append(key)
        await release.wait()

    async def join(organization: str, key: str, *, known: bool = False) -> bool:
        try:
            await work.join(key, partial(hang, key), organization, is_known=known)
        except Overloaded:
            return False
        return True

    async with trio.open_nursery() as nursery:
        for organization in range(10):
            for number in range(MOST_OF_ONE + 1):
                nursery.start_soon(join, f"{organization}", f"{organization}/{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == MOST_UNDER_WAY - FOR_KNOWN
        # Whoever waits for work that is under way takes no place.
        nursery.start_soon(join, "0", begun[0])
        for number in range(FOR_KNOWN + 1):
            nursery.start_soon(partial(join, f"known {number}", f"known {number}", known=True))
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == MOST_UNDER_WAY
        assert await join("another", "another", known=True) is False
        release.set()
    # All places are free again.
    assert [await join("0", f"again {number}") for number in range(MOST_OF_ONE * 2)] == [True] * MOST_OF_ONE * 2


async def test_two_people_allow_the_same_new_client_at_once(clients: PublishingClients) -> None:
    for number in range(5):
        address = f"https://app{number}.client.example/client/{number}"
        clients.publish(address)
        pages = [await clients.consents(client_id=address, person=person) for person in (clients.ada, clients.people.add())]
        await all_at_once(*[partial(page.send, answer="allow") for page in pages])
        codes = [left(page, BACK)["code"] for page in pages]
        clients.log.remember(*codes)
        for code in codes:
            clients.kept((await clients.exchanged(code, address)).ok())
    assert _made(clients)[:3] == (5, 5, 5)
    assert len(clients.people.rows("select from consents")) == 10


async def test_a_page_that_is_sent_twice_at_once_makes_one_client(clients: PublishingClients) -> None:
    tab = await clients.consents()
    form = tab.page.forms[0]
    answers: list[Received] = []

    async def send() -> None:
        answers.append(await tab.tabs.request("POST", form.action, {**form.fields, "answer": "allow"}))

    await all_at_once(*[send] * 5)
    assert {answer.status for answer in answers} == {200}
    assert _made(clients)[:3] == (1, 1, 1)
    assert len(clients.people.rows("select from consents")) == 1


async def test_a_person_gives_twenty_new_clients_a_place_on_a_day(clients: PublishingClients) -> None:
    """In all organizations together. The next day, and other people, have twenty of their own."""
    most = PLACES_OF_PERSON.burst
    assert most == 20

    async def allow(number: int, **more: Any) -> Tab:
        address = f"https://app{number}.client.example/client/{number}"
        clients.publish(address)
        return await (await clients.consents((ORDERS, THEIRS)[number % 2], client_id=address, **more)).send(answer="allow")

    for number in range(most):
        assert "code" in left(await allow(number), BACK)
    after = await allow(most)
    assert (after.status, after.page.refresh) == (400, "")
    assert "20 new applications today" in after.page.text
    assert _made(clients)[:3] == (most, most, most)
    # What others have allowed is no new client.
    assert "code" in left(await allow(most, person=clients.people.add()), BACK)
    assert "code" in left(await allow(most), BACK)
    # A bucket is of one day.
    clients.people.change("update rate_limit_buckets set key = replace(key, to_char(now() at time zone 'utc', 'YYYY-MM-DD'), '2000-01-01')")
    assert "code" in left(await allow(most + 1), BACK)


async def _delete_organization(clients: PublishingClients) -> None:
    clients.people.change("update all_organizations set status = 'suspended' where id = %s", clients.acme.id)


async def _turn_off(clients: PublishingClients) -> None:
    clients.people.change("update resource_servers set metadata_clients = 'off' where org_id = %s", clients.acme.id)


async def _delete_api(clients: PublishingClients) -> None:
    owner = clients.resident(clients.acme, "owner")
    assert (await clients.request("DELETE", await clients.only_api(owner), by=owner)).status in {200, 202, 204}


_ENDS: Final[dict[str, Callable[[PublishingClients], Awaitable[None]]]] = {
    "the organization is suspended": _delete_organization,
    "the API lets nobody in any more": _turn_off,
    "the API is deleted": _delete_api,
}


@pytest.mark.parametrize("end", _ENDS)
async def test_a_first_consent_races_with_an_end(clients: PublishingClients, end: str) -> None:
    """Whoever is quicker: no token comes of it, and a client has its event or is not there."""
    pages = [await clients.consents(person=clients.people.add()) for _ in range(6)]
    acts = [partial(page.send, answer="allow") for page in pages]
    await all_at_once(*acts[:3], partial(_ENDS[end], clients), *acts[3:])
    services, audited = _made(clients)[::2]
    assert services == audited <= 1
    for page in pages:
        if page.page.refresh:
            code = left(page, BACK).get("code")
            if code is not None:
                clients.log.remember(code)
                assert (await clients.exchanged(code)).status in {400, 401, 403}
    # Afterwards nobody gets in at all.
    late = await clients.browser().request("GET", clients.asks())
    assert (late.status, late.header("location")) == (400, None)


async def test_a_client_that_is_deleted_while_people_allow_it_is_one_or_none(clients: PublishingClients) -> None:
    owner = clients.resident(clients.acme, "owner")
    await clients.code_of()
    (service,) = clients.services()
    pages = [await clients.consents(person=clients.people.add()) for _ in range(6)]

    async def delete() -> None:
        gone = await clients.request("DELETE", f"/api/organizations/acme/services/{service['slug']}", by=owner)
        assert gone.status in {200, 202, 204}

    acts = [partial(page.send, answer="allow") for page in pages]
    await all_at_once(*acts[:3], delete, *acts[3:])
    assert {page.status for page in pages} <= {200, 400, 404}
    living = clients.services()
    assert len(living) <= 1
    assert service["id"] not in {row["id"] for row in living}
    assert len(clients.audited("service.created")) == 1 + len(living)


async def test_a_consent_at_one_organization_is_none_at_another(clients: PublishingClients) -> None:
    """Ticks for another organization's API, and the page of one flow sent for another."""
    ours, theirs = (
        clients.people.rows("select id from resource_servers where org_id = %s", tenant.id)[0]["id"]
        for tenant in (clients.acme, clients.globex)
    )
    foreign = [f"{theirs} orders:read", f"{theirs} orders:write"]
    other = await clients.consents(THEIRS)
    # With these alone, the person has allowed nothing, and nothing is made.
    assert left(await (await clients.consents(ORDERS)).send(answer="allow", scopes=foreign), BACK)["error"] == "access_denied"
    assert clients.nothing_is_kept()
    tab = await (await clients.consents(ORDERS)).send(answer="allow", scopes=[f"{ours} orders:read", *foreign])
    assert "code" in left(tab, BACK)
    assert [row["org_id"] for row in clients.services()] == [clients.acme.id]
    consents = clients.people.rows("select resource_id, scopes from resource_consents")
    assert [(row["resource_id"], row["scopes"]) for row in consents] == [(ours, ["orders:read"])]
    # Another person's form, in this person's browser, names a flow that is none of theirs.
    stranger = clients.browser(clients.people.add())
    form = other.page.forms[0]
    answer = await stranger.request("POST", form.action, {**form.fields, "answer": "allow"})
    assert answer.status == 409
    assert len(clients.services()) == 1


@pytest.mark.parametrize("changed", [{"redirect_uris": [BACK, "https://app.client.example/b"]}, {"client_name": "Your bank"}])
async def test_what_changes_after_the_page_is_shown_anew(clients: PublishingClients, changed: dict[str, Any]) -> None:
    tab = await clients.consents()
    clients.publish(**changed)
    clients.forget()
    clients.people.change("update flows set request = jsonb_set(request, '{described,fresh_until}', '\"2020-01-01T00:00:00+00:00\"')")
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/consent")
    assert changed.get("client_name", "Notebook") in tab.page.text
    assert _made(clients)[:3] == (0, 0, 0)
    assert "code" in left(await tab.send(answer="allow"), BACK)
    assert clients.services()[0]["name"] == changed.get("client_name", "Notebook")


async def test_what_the_form_says_of_the_page_counts_for_nothing_else(clients: PublishingClients) -> None:
    tab = await clients.consents()
    await tab.send(answer="allow", name="Your bank")
    assert tab.place.startswith("/ui/consent")
    await tab.send(answer="allow", document="00" * 32)
    assert tab.place.startswith("/ui/consent")
    assert _made(clients)[:3] == (0, 0, 0)


async def _assertion(clients: PublishingClients, jti: str, **more: Any) -> dict[str, str]:
    signed = clients.assertion(clients.client_of(), key=OLD, header={"kid": "old"}, aud=BASE_URL, jti=jti, **more)
    return {"client_assertion": signed, "client_assertion_type": JWT_BEARER}


async def test_an_assertion_counts_once_in_all_organizations(clients: PublishingClients) -> None:
    clients.publish(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk(OLD, "old")]})
    refresh_tokens = []
    for place, api in enumerate((ORDERS, THEIRS)):
        fields = {"grant_type": "authorization_code", "redirect_uri": BACK, "code_verifier": VERIFIER, "code": await clients.code_of(api)}
        tokens = (await clients.ask(fields={**fields, **await _assertion(clients, f"first {place}")})).ok()
        refresh_tokens.append(clients.kept(tokens)["refresh_token"])
    captured = await _assertion(clients, "captured")
    ours, theirs = [{"grant_type": "refresh_token", "refresh_token": one, **captured} for one in refresh_tokens]
    clients.kept((await clients.ask(fields=ours)).ok())
    assert oauth(await clients.ask(fields=theirs)) == (401, "invalid_client")
    # It pushes nothing either, also where nobody has allowed the client.
    clients.people.change("delete from all_services where org_id = %s", clients.globex.id)
    asked = {"redirect_uri": BACK, "response_type": "code", "scope": "openid", "resource": THEIRS}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "client_id": CLIENT}
    assert oauth(await clients.ask("/oauth/par", {**asked, **captured})) == (401, "invalid_client")
    pushed = await _assertion(clients, "pushed")
    assert (await clients.ask("/oauth/par", {**asked, **pushed})).status == 201
    assert oauth(await clients.ask("/oauth/par", {**asked, **pushed})) == (401, "invalid_client")
    assert oauth(await clients.ask("/oauth/par", asked)) == (401, "invalid_client")
    forged = clients.assertion(clients.client_of(), key=generate_private_key(SECP256R1()), header={"kid": "old"}, aud=BASE_URL)
    answer = await clients.ask("/oauth/par", {**asked, "client_assertion": forged, "client_assertion_type": JWT_BEARER})
    assert oauth(answer) == (401, "invalid_client")
    assert len(clients.services()) == 1


_DOCUMENT: Final = f'{{"client_id":"{CLIENT}","client_name":"Notebook","redirect_uris":["{BACK}"],"token_endpoint_auth_method":"none"}}'


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7"])
async def test_a_document_is_in_utf_8(clients: PublishingClients, encoding: str) -> None:
    body = _DOCUMENT.replace("Notebook", "Notizbuch für alle").encode(encoding)
    clients.answers(answering(200, body, JSON))
    answer = await clients.browser().request("GET", clients.asks())
    if encoding == "utf-7":
        # Its bytes are ASCII, so everybody reads the same of them.
        assert answer.status == 303
        return
    assert (answer.status, b"not served as JSON" in answer.body) == (400, True)


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        ("Bank" + "\u0335" * 80, False),
        ("Bank" + "\u0335" * 9, False),
        ("Bank" + "\u0335\u200d" * 9, False),
        ("Tiếng Việt", True),
        ("ที่นี่", True),
        ("הַתָּו֙", True),
        ("བསྒྲུབས", True),
        ("हिन्दी", True),
        ("က္ကျြွှေါ်", True),
    ],
)
async def test_a_name_piles_no_marks_up(clients: PublishingClients, name: str, is_shown: bool) -> None:
    clients.publish(client_name=name)
    answer = await clients.browser().request("GET", clients.asks())
    assert answer.status == (303 if is_shown else 400)
    owner = clients.resident(clients.acme, "owner")
    for path in (await clients.only_api(owner), "/api/organizations/acme/services/shop", "/api/organizations/acme"):
        changed = await clients.request("PATCH", path, {"name": name}, by=owner)
        assert changed.status == (200 if is_shown else 400), (path, changed.body)


async def test_a_pushed_request_is_its_clients_and_good_for_one_code(clients: PublishingClients) -> None:
    asked = {"redirect_uri": BACK, "response_type": "code", "scope": "openid orders:read", "resource": ORDERS, "client_id": CLIENT}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    uri = (await clients.ask("/oauth/par", asked)).ok(201)["request_uri"]
    clients.log.remember(uri)
    other = f"https://{HOST}/other.json"
    clients.publish(other)
    named = f"/oauth/authorize?client_id={quote(CLIENT)}&request_uri={quote(uri)}"
    assert (await clients.browser().request("GET", named.replace(quote(CLIENT), quote(other)))).status == 400
    browser = clients.browser()
    tabs = [await browser.tab().open(named) for _ in range(10)]
    assert all(tab.place.startswith("/ui/consent") for tab in tabs)
    await all_at_once(*[partial(tab.send, answer="allow") for tab in tabs])
    assert sorted(tab.status for tab in tabs) == [200, *[400] * 9]
    assert _made(clients)[:3] == (1, 1, 1)
    assert len(clients.people.rows("select from authorization_codes")) == 1
    assert (await browser.request("GET", named)).status == 400
